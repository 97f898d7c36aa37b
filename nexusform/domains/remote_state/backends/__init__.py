"""State backends of remote state."""
