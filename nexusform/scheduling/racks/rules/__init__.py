"""One file per rule; profile.py says which and in what order."""
