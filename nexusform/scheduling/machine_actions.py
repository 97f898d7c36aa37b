"""Lifecycle actions of bare-metal machines, with the time limits of Azure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

MACHINE_ACTION_TYPE: Final = "nexus_bare_metal_machine_action"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
CORDON: Final = "Cordon"
POWER_OFF: Final = "PowerOff"
# Key of the observed facts for a cordon by an action.
CORDONED_BY_ACTION: Final = "cordoned_by_action"
# Reason against new VMs.
ACTION_PENDING: Final = "with a pending action"


class MachineActionKind(Struct, frozen=True):
    """Kind of action.

    `minutes` is Azure's time limit. A disruptive action stops the VMs of its machine; they start
    again after it, unless it `leaves_off` the machine.
    """

    name: str
    minutes: int
    is_disruptive: bool = True
    leaves_off: bool = False


# Limits: Microsoft, "Manage the lifecycle of bare metal machines".
ACTION_KINDS: Final[Mapping[str, MachineActionKind]] = {
    kind.name: kind
    for kind in (
        MachineActionKind(CORDON, 10, is_disruptive=False),
        MachineActionKind(POWER_OFF, 40, leaves_off=True),
        MachineActionKind("Restart", 40),
        MachineActionKind("Reimage", 3 * 60),
        MachineActionKind("Replace", 4 * 60),
    )
}


def compute_facts_after(action: str, before: Mapping[str, Any], time: str) -> dict[str, Any]:
    """Return the observed facts of a machine after a successful action.

    `time` is that of the action ("": not known yet), and `before` has the facts before it.

    A machine is on, ready and provisioned after all actions but Cordon and PowerOff; a cordon and
    its owner stay.
    """
    facts = {name: before.get(name) or value for name, value in _IN_SERVICE.items()}
    owner = before.get("cordoned_by")
    is_by_action = before.get(CORDONED_BY_ACTION)
    if action == CORDON:
        facts["cordon_status"] = "Cordoned"
        # An earlier cordon keeps its owner.
        if owner is None:
            owner = "nexusform"
            is_by_action = True
    elif ACTION_KINDS[action].leaves_off:
        facts |= {"power_state": "Off", "ready_state": "False"}
    else:
        facts = {**_IN_SERVICE, "cordon_status": facts["cordon_status"]}
    # When it went out of service.
    since = (time or None) if facts != _IN_SERVICE else None
    after = {**facts, "message": None, "since": since, "cordoned_by": owner}
    if is_by_action:
        after[CORDONED_BY_ACTION] = True
    return after


def merge_facts_after(
    action: str, recorded: Mapping[str, Any], machine: Mapping[str, Any] | str, time: str
) -> dict[str, Any]:
    """Return the recorded facts of a machine, or of its rack, after a successful action.

    `machine` has the arguments of a machine with a resource of its own. Otherwise it is the name of
    the machine in its rack, which records the facts of its machines by name.
    """
    if isinstance(machine, str):
        facts = compute_facts_after(action, recorded.get(machine) or {}, time)
        return {**recorded, machine: facts}
    return compute_facts_after(action, {**machine, **recorded}, time)


_IN_SERVICE: Final[Mapping[str, str]] = {
    "power_state": "On",
    "ready_state": "True",
    "detailed_status": "Provisioned",
    "cordon_status": "Uncordoned",
}


def record_result(
    attributes: Mapping[str, Any], started: str, finished: str, result: str
) -> dict[str, Any]:
    """Return the attributes of an action after its run.

    Times are RFC 3339.
    """
    return {**attributes, "started": started, "finished": finished, "result": result}
