"""Where something stands: what the record of a place has in common for every kind of thing that is placed."""

from __future__ import annotations

from msgspec import Struct


class Place(Struct, frozen=True):
    """Where one VM, or one thing of a domain's own kind, stands (placement_kinds.py lists the kinds)."""
