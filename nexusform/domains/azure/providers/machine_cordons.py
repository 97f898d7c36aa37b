"""Cordons of machines requested by a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.interfaces.plugins import ChangeRequest
from nexusform.json_data.plain_data import get_mapping
from nexusform.resource_types.machine_facts import CORDONED_STATUS, UNCORDONED, CordonOwner
from nexusform.scheduling.site_inventory import OBSERVED_KEY

MACHINE: Final = "nexus_bare_metal_machine"
RACK: Final = "nexus_rack"
Values: TypeAlias = Mapping[str, Any]


class CordonAction(StrEnum):
    """Action requested by a plan for a machine."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    EMPTY = "empty"  # its VMs move away and it is not cordoned
    KEEP = "keep"  # another manager cordoned it


class CordonRequest(Struct, frozen=True):
    """Action for one machine (`id`: <site>/<rack>/<machine>)."""

    id: str
    action: CordonAction

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.id.rpartition("/")[2]


def find_cordon_requests(request: ChangeRequest) -> Iterator[CordonRequest]:
    """Find the cordon requests of a planned step. Only cordons of nexusform are ended."""
    before, after = (_read_states(request.key.id, side or {}) for side in (request.prior, request.planned))
    for machine in dict.fromkeys([*before, *after]):
        was_cordoned, was_evacuated = before.get(machine, (False, False))
        is_cordoned, is_evacuated = after.get(machine, (False, False))
        if is_cordoned and not was_cordoned:
            yield CordonRequest(machine, CordonAction.CORDON)
        elif is_evacuated and not was_evacuated and not is_cordoned:
            yield CordonRequest(machine, CordonAction.EMPTY)
        elif not (is_cordoned or is_evacuated) and (was_cordoned or was_evacuated):
            is_own = find_machine_record(request, machine).get("cordoned_by") in {None, CordonOwner.NEXUSFORM}
            yield CordonRequest(machine, CordonAction.UNCORDON if is_own else CordonAction.KEEP)


def find_machine_record(request: ChangeRequest, machine_id: str) -> Values:
    """Find the recorded observation of a machine of a step; {} if there is none."""
    records = get_mapping(request.private_note, OBSERVED_KEY)
    record: Values = records if request.key.type == MACHINE else get_mapping(records, machine_id.rpartition("/")[2])
    return record


def _read_states(object_id: str, attributes: Values) -> dict[str, tuple[bool, bool]]:
    """Read for each machine of an object if it is cordoned and if it is evacuated."""
    if "machine_override" in attributes:
        return {
            f"{object_id}/{name}": (block.get("cordoned") is True, block.get("evacuate") is True)
            for name, block in (attributes["machine_override"] or {}).items()
        }
    if "slot" not in attributes:
        return {}
    return {object_id: (attributes.get("cordoned") is True, attributes.get("evacuate") is True)}


def find_cordon_differences(request: ChangeRequest, statuses: Mapping[str, str]) -> list[str]:
    """Find the machines with another cordon than planned; `statuses` are cordon statuses by machine id."""
    expected = {CordonAction.CORDON: CORDONED_STATUS, CordonAction.UNCORDON: UNCORDONED}
    return [
        f"cordon of {cordon_request.name}"
        for cordon_request in find_cordon_requests(request)
        if cordon_request.action in expected
        and statuses.get(cordon_request.id, expected[cordon_request.action]) != expected[cordon_request.action]
    ]
