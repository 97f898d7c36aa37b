"""Where a machine is: an answer may move a VM to another machine and be silent about its rack and
availability zone, which are those of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nexusform.state.objects import State

_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"


class Whereabouts:
    """The machines of a state, looked through when they are first asked for, and again when a
    machine is not among them: its rack may have come since.
    """

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._places: dict[tuple[str, str], tuple[str, str]] | None = None

    def followed(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """An object's attributes with racks and zones as its machines say."""
        site = str(attributes.get("id")).partition("/")[0]
        changed: dict[str, Any] = self._place(site, attributes)
        for name, entries in attributes.items():
            if not isinstance(entries, dict):
                continue
            places = {key: self._place(site, entry) for key, entry in entries.items()}
            if any(places.values()):
                changed[name] = {
                    key: {**entry, **places[key]} if places[key] else entry for key, entry in entries.items()
                }
        return {**attributes, **changed} if changed else attributes

    def _place(self, site: str, entry: Any) -> dict[str, Any]:
        """What of a VM's rack and zone is to be otherwise; nothing of what is no VM."""
        if not isinstance(entry, Mapping) or "rack" not in entry or not entry.get("machine"):
            return {}
        place = self._of(site, str(entry["machine"]))
        if place is None or place == (entry["rack"], entry.get("availability_zone")):
            return {}
        return {"rack": place[0], "availability_zone": place[1]}

    def _of(self, site: str, machine: str) -> tuple[str, str] | None:
        if self._places is None or (site, machine) not in self._places:
            self._places = _places(self._state())
        return self._places.get((site, machine))


def _places(state: State) -> dict[tuple[str, str], tuple[str, str]]:
    """(site, machine) -> (rack, zone)."""
    racks: dict[str, tuple[str, str]] = {}
    places: dict[tuple[str, str], tuple[str, str]] = {}
    single: list[tuple[str, str]] = []
    for address, instance in state.instances.items():
        if instance.current is None or address.type not in {_RACK, _MACHINE}:
            continue
        attributes = instance.current.attributes
        if address.type == _MACHINE:
            single.append((str(attributes.get("rack_id")), str(attributes.get("name"))))
            continue
        rack_id = str(attributes.get("id"))
        racks[rack_id] = (str(attributes.get("name")), str(attributes.get("availability_zone")))
        for machine in attributes.get("machines") or ():
            places[rack_id.partition("/")[0], machine] = racks[rack_id]
    for rack_id, machine in single:
        if rack_id in racks:
            places[rack_id.partition("/")[0], machine] = racks[rack_id]
    return places
