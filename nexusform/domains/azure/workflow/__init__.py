"""Wiring of azure."""

# What other rooms may use of this one.
DOOR = {
    "adopting": "import_site",
    "reconcile": "replay_alone",
}
