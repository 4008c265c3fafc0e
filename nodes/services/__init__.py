"""What changes the fleet's tables: registration, heartbeat, leases, and the counter that tells of it."""
