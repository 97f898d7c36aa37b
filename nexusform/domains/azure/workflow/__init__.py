"""Wiring of azure."""

# What other rooms may use of this one.
DOOR = {
    "reconcile": "replay_alone",
}
