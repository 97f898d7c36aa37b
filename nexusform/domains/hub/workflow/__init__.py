"""Import and reconciliation of a hub."""
