"""One file per rule; profile.py lists them in order."""

# Public names of the package, by module.
PUBLIC = {"hints": "FILTER describe_hint is_violated", "zones": "FILTER"}
