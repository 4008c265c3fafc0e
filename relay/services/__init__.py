"""What changes the relay's tables: services and routes, and the record of refused callers."""
