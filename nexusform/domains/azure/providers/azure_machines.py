"""Cordon and uncordon requests of a plan for machines. Azure performs them if the provider block has
`act_on_machines`; otherwise an operator does. A machine is cordoned while its block has `evacuate` or
`cordon_status = "Cordoned"`, and uncordoned only by the change that removes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.azure.providers.azure_requests import ArmChange, Target, Verb
from nexusform.domains.azure.providers.azure_subscription import MACHINES, extract_group
from nexusform.interfaces.plugins import ChangeRequest

MACHINE: Final = "nexus_bare_metal_machine"
RACK: Final = "nexus_rack"
CORDONED: Final = "Cordoned"
_UNCORDONED: Final = "Uncordoned"
_STATUS: Final = "cordonStatus"


class CordonAction(StrEnum):
    """Action requested by a plan for a machine."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    EMPTY = "empty"  # its VMs move away and it is not cordoned


class CordonRequest(Struct, frozen=True):
    """Action for one machine (`id`: <site>/<rack>/<machine>)."""

    id: str
    action: CordonAction

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.id.rpartition("/")[2]


def find_cordon_requests(request: ChangeRequest) -> Iterator[CordonRequest]:
    """Find the cordon requests of a planned step."""
    before, after = (_read_states(request.key.id, side or {}) for side in (request.prior, request.planned))
    for machine in dict.fromkeys([*before, *after]):
        was_cordoned, was_evacuated = before.get(machine, (False, False))
        is_cordoned, is_evacuated = after.get(machine, (False, False))
        if is_cordoned and not was_cordoned:
            yield CordonRequest(machine, CordonAction.CORDON)
        elif is_evacuated and not was_evacuated and not is_cordoned:
            yield CordonRequest(machine, CordonAction.EMPTY)
        elif not (is_cordoned or is_evacuated) and (was_cordoned or was_evacuated):
            yield CordonRequest(machine, CordonAction.UNCORDON)


def _read_states(object_id: str, attributes: Mapping[str, Any]) -> dict[str, tuple[bool, bool]]:
    """Read for each machine of an object if it is cordoned and if it is evacuated."""
    if "machine_override" in attributes:
        return {
            f"{object_id}/{name}": (block.get("cordoned") is True, block.get("evacuate") is True)
            for name, block in (attributes["machine_override"] or {}).items()
        }
    if "cordon_status" not in attributes:
        return {}
    return {object_id: (attributes["cordon_status"] == CORDONED, attributes.get("evacuate") is True)}


def build_cordon_change(request: CordonRequest, arm_id: str) -> ArmChange:
    """Build the request of an action. It does not stop workloads: nodes are drained in their clusters."""
    target = Target(MACHINES, extract_group(arm_id), (request.name,))
    if request.action is CordonAction.UNCORDON:
        return ArmChange(Verb.UNCORDON, target, expected={_STATUS: _UNCORDONED})
    return ArmChange(Verb.CORDON, target, {"evacuate": "False"}, {_STATUS: CORDONED})


def ignore_evacuation_cordon(observed: Mapping[str, Any], recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a machine's observed attributes without the cordon caused by its evacuation, so that it is not
    reported as drift.
    """
    if recorded.get("evacuate") is True and observed.get("cordon_status") == CORDONED:
        return {**observed, "cordon_status": recorded.get("cordon_status")}
    return observed


def expect_evacuation_cordon(planned: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the planned attributes with the cordon implied by an evacuation."""
    return {**planned, "cordon_status": CORDONED} if planned.get("evacuate") is True else planned


def is_cordon_only(request: ChangeRequest) -> bool:
    """Return True if a step changes only cordon and evacuation arguments."""
    prior, planned = request.prior, request.planned
    if prior is None or planned is None:
        return False
    return all(prior.get(name) == value for name, value in planned.items() if name not in _CORDON_ARGUMENTS)


_CORDON_ARGUMENTS: Final = frozenset({"cordon_status", "evacuate", "machine_override"})
