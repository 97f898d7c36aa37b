"""Lifecycle actions of bare-metal machines, with the time limits of Azure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

MACHINE_ACTION_TYPE: Final = "nexus_bare_metal_machine_action"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
ACTION_PENDING: Final = "with a pending action"  # reason against new VMs


class ActionKind(Struct, frozen=True):
    """Kind of action. `minutes` is Azure's time limit. A disruptive action stops the VMs of its machine;
    they start again after it, unless it `leaves_off` the machine.
    """

    name: str
    minutes: int
    is_disruptive: bool = True
    leaves_off: bool = False


# Limits: Microsoft, "Manage the lifecycle of bare metal machines".
ACTION_KINDS: Final[Mapping[str, ActionKind]] = {
    kind.name: kind
    for kind in (
        ActionKind("Cordon", 10, is_disruptive=False),
        ActionKind("PowerOff", 40, leaves_off=True),
        ActionKind("Restart", 40),
        ActionKind("Reimage", 3 * 60),
        ActionKind("Replace", 4 * 60),
    )
}


def is_pending(attributes: Mapping[str, Any]) -> bool:
    """Return True until an action has succeeded: the state of its machine is unknown."""
    return bool(attributes.get("result") != SUCCEEDED)


def record_result(attributes: Mapping[str, Any], started: str, finished: str, result: str) -> dict[str, Any]:
    """Return the attributes of an action after its run. Times are RFC 3339."""
    return {**attributes, "started": started, "finished": finished, "result": result}
