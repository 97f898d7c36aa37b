"""What state remembers of each VM's coming: the trigger, and the serial of the apply that placed it.

Kept in the object's private note as {"placed": [[serial, trigger, [names...]], ...]}, oldest first: one
entry for all VMs that came together, so that a large pool costs little more than its names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

PLACED = "placed"


def note_placed(
    prior: Mapping[str, Any] | None, came: Sequence[tuple[str, str]], present: Collection[str], serial: int
) -> dict[str, Any] | None:
    """The note after a plan: `came` are (name, trigger) of VMs that the plan places, `present` all
    that stand afterwards, `serial` the one that applying it will give. None when nothing is known.
    """
    known = set(present) - {name for name, _ in came}
    groups: list[list[Any]] = []
    for was, trigger, names in (prior or {}).get(PLACED, ()):
        left = [name for name in names if name in known]
        if left:
            groups.append([was, trigger, left])
    fresh: dict[str, list[str]] = {}
    for name, trigger in came:
        fresh.setdefault(trigger, []).append(name)
    groups += [[serial, trigger, names] for trigger, names in fresh.items()]
    rest = {key: value for key, value in (prior or {}).items() if key != PLACED}
    if groups:
        rest[PLACED] = groups
    return rest or None


def placed_by(private: Mapping[str, Any] | None, name: str) -> tuple[str, int] | None:
    """The trigger and serial under which a VM came to where it is; None when that is not known."""
    for serial, trigger, names in reversed((private or {}).get(PLACED, ())):
        if name in names:
            return str(trigger), int(serial)
    return None
