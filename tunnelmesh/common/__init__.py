"""What every app shares and that depends on none of them: errors, ids, clock, secrets, logging."""
