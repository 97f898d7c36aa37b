"""One file per rule; profile.py lists them in order."""

# Public names of the package, by module.
PUBLIC = {"hints": "FILTER describe_hint_requirement is_hint_violated", "zones": "FILTER"}
