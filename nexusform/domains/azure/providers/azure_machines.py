"""What a plan asks of machines: which are cordoned before their VMs leave, and which take VMs again.

Azure is asked for it where the provider block says `act_on_machines`; elsewhere people do it. A machine is
cordoned as long as its block says `evacuate` or `cordon_status = "Cordoned"`; it is uncordoned only by the
change that takes both away, never by anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.azure.providers.azure_requests import ArmChange, Target, Verb
from nexusform.domains.azure.providers.azure_subscription import MACHINES, group_of
from nexusform.ports import ChangeRequest

MACHINE: Final = "nexus_bare_metal_machine"
RACK: Final = "nexus_rack"
CORDONED: Final = "Cordoned"
_UNCORDONED: Final = "Uncordoned"
_STATUS: Final = "cordonStatus"


class Wish(StrEnum):
    """What a plan asks for a machine."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    EMPTY = "empty"  # its VMs leave, and nothing says that it is cordoned


class Asked(Struct, frozen=True):
    """A wish for one machine (`id`: <site>/<rack>/<machine>)."""

    id: str
    wish: Wish

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.id.rpartition("/")[2]


def asked_of_machines(request: ChangeRequest) -> Iterator[Asked]:
    """What a planned step asks of machines that Azure does."""
    before, after = (_states(request.key.id, side or {}) for side in (request.prior, request.planned))
    for machine in dict.fromkeys([*before, *after]):
        was_cordoned, was_emptied = before.get(machine, (False, False))
        is_cordoned, is_emptied = after.get(machine, (False, False))
        if is_cordoned and not was_cordoned:
            yield Asked(machine, Wish.CORDON)
        elif is_emptied and not was_emptied and not is_cordoned:
            yield Asked(machine, Wish.EMPTY)
        elif not (is_cordoned or is_emptied) and (was_cordoned or was_emptied):
            yield Asked(machine, Wish.UNCORDON)


def _states(object_id: str, attributes: Mapping[str, Any]) -> dict[str, tuple[bool, bool]]:
    """Whether each machine of an object is to be cordoned, and emptied."""
    if "machine_override" in attributes:
        return {
            f"{object_id}/{name}": (block.get("cordoned") is True, block.get("evacuate") is True)
            for name, block in (attributes["machine_override"] or {}).items()
        }
    if "cordon_status" not in attributes:
        return {}
    return {object_id: (attributes["cordon_status"] == CORDONED, attributes.get("evacuate") is True)}


def cordon_change(asked: Asked, arm_id: str) -> ArmChange:
    """The request that fulfils a wish. Workloads of the machine are not stopped by it: nodes are drained in
    their clusters.
    """
    target = Target(MACHINES, group_of(arm_id), (asked.name,))
    if asked.wish is Wish.UNCORDON:
        return ArmChange(Verb.UNCORDON, target, shown={_STATUS: _UNCORDONED})
    return ArmChange(Verb.CORDON, target, {"evacuate": "False"}, {_STATUS: CORDONED})


def as_evacuated(seen: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """A machine as a site shows it: one that is evacuated is cordoned for that, which is no drift."""
    if known.get("evacuate") is True and seen.get("cordon_status") == CORDONED:
        return {**seen, "cordon_status": known.get("cordon_status")}
    return seen


def as_cordoned(planned: Mapping[str, Any]) -> Mapping[str, Any]:
    """A machine as a site is to show it once it is as planned."""
    return {**planned, "cordon_status": CORDONED} if planned.get("evacuate") is True else planned


def is_of_cordons_alone(request: ChangeRequest) -> bool:
    """Whether a step changes nothing but what is asked of machines here."""
    prior, planned = request.prior, request.planned
    if prior is None or planned is None:
        return False
    return all(prior.get(name) == value for name, value in planned.items() if name not in _ASKED)


_ASKED: Final = frozenset({"cordon_status", "evacuate", "machine_override"})
