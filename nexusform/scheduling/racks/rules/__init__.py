"""One file per rule; profile.py says which and in what order."""

# What other rooms may use of this one.
DOOR = {
    "hints": "FILTER sentence violated",
}
