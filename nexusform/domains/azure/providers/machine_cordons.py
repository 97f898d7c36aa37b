"""Cordons of machines requested by a plan."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

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
    # Its VMs move away; its block has `evacuate` without `cordoned`.
    EMPTY = "empty"
    # Another manager cordoned it.
    KEEP = "keep"


class CordonRequest(Struct, frozen=True):
    """Action for one machine (`id`: <site>/<rack>/<machine>)."""

    id: str
    action: CordonAction

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.id.rpartition("/")[2]


def find_cordon_requests(request: ChangeRequest) -> Iterator[CordonRequest]:
    """Yield a request for each machine with a changed cordon.

    The cordon in the planned arguments is then another than that in state. CORDON and EMPTY are for
    a new cordon or evacuation, UNCORDON for a return to service. KEEP replaces UNCORDON if another
    manager cordoned the machine. No other change needs a request.
    """
    states_before = _read_states(request.key.id, request.prior_attributes)
    states_after = _read_states(request.key.id, request.planned_attributes)
    for machine in dict.fromkeys([*states_before, *states_after]):
        # Default without arguments about it.
        before = states_before.get(machine, _IN_SERVICE)
        after = states_after.get(machine, _IN_SERVICE)
        if after.is_cordoned and not before.is_cordoned:
            yield CordonRequest(machine, CordonAction.CORDON)
        elif after == _EVACUATED and not before.is_evacuated:
            # The machine is evacuated without `cordoned`.
            yield CordonRequest(machine, CordonAction.EMPTY)
        elif after == _IN_SERVICE and before != _IN_SERVICE:
            # None: not recorded.
            owner = find_machine_record(request, machine).get("cordoned_by")
            is_own = owner in {None, CordonOwner.NEXUSFORM}
            yield CordonRequest(machine, CordonAction.UNCORDON if is_own else CordonAction.KEEP)


def find_machine_record(request: ChangeRequest, machine_id: str) -> Values:
    """Find the recorded observation of a machine of a step; {} if there is none."""
    records: Values = get_mapping(request.private_note, OBSERVED_KEY)
    # A rack has records by machine name.
    if request.key.type != MACHINE:
        records = get_mapping(records, machine_id.rpartition("/")[2])
    return records


class _RequestedState(NamedTuple):
    """State of a machine requested by its arguments."""

    is_cordoned: bool
    is_evacuated: bool


_IN_SERVICE: Final = _RequestedState(is_cordoned=False, is_evacuated=False)
_EVACUATED: Final = _RequestedState(is_cordoned=False, is_evacuated=True)


def _read_states(object_id: str, attributes: Values) -> dict[str, _RequestedState]:
    """Read the requested state of each machine of a rack or machine, by machine id.

    Return {} without attributes.
    """
    if "machine_override" in attributes:  # a rack
        blocks = get_mapping(attributes, "machine_override")
        return {f"{object_id}/{name}": _read_state(block) for name, block in blocks.items()}
    if "slot" in attributes:  # a machine
        return {object_id: _read_state(attributes)}
    # No attributes: the object is new or deleted.
    return {}


def _read_state(attributes: Values) -> _RequestedState:
    return _RequestedState(attributes.get("cordoned") is True, attributes.get("evacuate") is True)


def find_cordon_differences(request: ChangeRequest, statuses: Mapping[str, str]) -> list[str]:
    """Find the machines with another cordon than planned.

    `statuses` are cordon statuses by machine id.
    """
    expected_statuses = {CordonAction.CORDON: CORDONED_STATUS, CordonAction.UNCORDON: UNCORDONED}
    differences = []
    for cordon_request in find_cordon_requests(request):
        status = statuses.get(cordon_request.id)
        # Unlisted machines, and actions without a visible status, do not differ.
        if status is not None and status != expected_statuses.get(cordon_request.action, status):
            differences.append(f"cordon of {cordon_request.name}")
    return differences


def explain_unsupported_action(planned: Mapping[str, Any]) -> str:
    """Explain why an action is not run, and the alternatives."""
    action = str(planned.get("action"))
    verb = {"PowerOff": "power-off"}.get(action, action.lower())
    machine = str(planned.get("machine_id")).rpartition("/")[2]
    return (
        "This provider runs no machine actions. Set act_on_machines = true in the block of "
        f"provider azure, or remove this block and run: az networkcloud baremetalmachine {verb} "
        f"--name {machine} --resource-group GROUP"
    )
