"""Plans and state as text in a terminal."""
