"""One file per rule; nexusform/domains/fleet/scheduling/profile.py says which apply, and in which order."""
