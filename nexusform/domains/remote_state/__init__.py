"""State that a team reaches: remote backends."""
