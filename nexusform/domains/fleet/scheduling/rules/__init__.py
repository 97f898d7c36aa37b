"""One file per rule; nexusform/domains/fleet/scheduling/profile.py defines their use and order."""
