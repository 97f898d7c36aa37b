"""Questions: what would happen if."""
