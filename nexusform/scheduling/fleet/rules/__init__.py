"""One file per rule; nexusform/scheduling/fleet/profile.py says which apply, and in which order."""
