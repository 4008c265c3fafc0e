"""What changes the credentials' tables."""
