"""What fleet objects use without referring to it: members that hold a placement, objects that it selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from nexusform.address import Address
from nexusform.planning.plan import Change

_PLACEMENTS: Final = ("fleet_cluster_resource_placement", "fleet_resource_placement")
_MEMBER: Final = "fleet_member_cluster"
_MANIFEST: Final = "fleet_hub_manifest"
_ACTING: Final[Mapping[str, str]] = {
    "fleet_cluster_staged_update_run": "fleet_cluster_staged_update_strategy",
}
Object = tuple[str, str, str, str]


class FleetUses:
    """The members, hub objects and placements of a plan by what names them, before and after it."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._known: dict[bool, dict[tuple[str, str], Address]] = {False: {}, True: {}}
        self._objects: dict[bool, dict[Object, Address]] = {False: {}, True: {}}
        for change in changes:
            if change.deposed or not change.address.type.startswith("fleet_"):
                continue
            for after, values in ((False, change.before), (True, change.after)):
                if values is not None:
                    self._learn(change.address, values, after=after)

    def _learn(self, address: Address, values: Mapping[str, Any], *, after: bool) -> None:
        if isinstance(values.get("name"), str):
            self._known[after][address.type, values["name"]] = address
        if address.type == _MANIFEST:
            for found in _objects(values.get("objects")):
                self._objects[after].setdefault(found, address)

    def of(self, change: Change, *, after: bool) -> list[Address]:
        """What the object of a change uses before or after the plan, each once."""
        values = change.after if after else change.before
        if values is None or not change.address.type.startswith("fleet_"):
            return []
        return [*dict.fromkeys(self._used(change.address.type, values, after=after))]

    def _used(self, kind: str, values: Mapping[str, Any], *, after: bool) -> Iterator[Address]:
        known = self._known[after]
        if kind in _PLACEMENTS:
            held = values.get("bindings")
            for cluster in held if isinstance(held, dict) else ():
                if (_MEMBER, cluster) in known:
                    yield known[_MEMBER, cluster]
            for found in _objects(values.get("selected_resources")):
                if found in self._objects[after]:
                    yield self._objects[after][found]
        strategy = _ACTING.get(kind)
        name = values.get("staged_rollout_strategy_name")
        if strategy is not None and isinstance(name, str) and (strategy, name) in known:
            yield known[strategy, name]


def _objects(values: Any) -> Iterator[Object]:
    for found in values if isinstance(values, list) else ():
        if isinstance(found, dict):
            yield tuple(str(found.get(k) or "") for k in ("group", "kind", "namespace", "name"))  # type: ignore[misc]
