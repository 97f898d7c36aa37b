"""Cordon and uncordon requests for machines. Azure performs them if the provider block has `act_on_machines`;
otherwise an operator does. A machine is cordoned while its block has `cordoned` or `evacuate`, and uncordoned
only by the change that removes both, if nexusform cordoned it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.azure.providers.azure_requests import ArmChange, ArmOperation, ArmTarget
from nexusform.domains.azure.providers.azure_subscription import MACHINES, extract_resource_group
from nexusform.domains.azure.providers.machine_cordons import (
    MACHINE,
    CordonAction,
    CordonRequest,
    find_cordon_requests,
    find_machine_record,
)
from nexusform.interfaces.plugins import ChangeRequest, ChangeResult
from nexusform.resource_types.machine_facts import CORDONED_STATUS, UNCORDONED, CordonOwner
from nexusform.scheduling.site_inventory import OBSERVED_KEY

_STATUS: Final = "cordonStatus"


def build_cordon_change(request: CordonRequest, arm_id: str) -> ArmChange:
    """Build the request of an action. It does not stop workloads: nodes are drained in their clusters."""
    target = ArmTarget(MACHINES, extract_resource_group(arm_id), (request.name,))
    if request.action is CordonAction.UNCORDON:
        return ArmChange(ArmOperation.UNCORDON, target, expected={_STATUS: UNCORDONED})
    return ArmChange(ArmOperation.CORDON, target, {"evacuate": "False"}, {_STATUS: CORDONED_STATUS})


def build_cordon_result(request: ChangeRequest) -> ChangeResult:
    """Build the result of a cordon-only step: the planned object, with the new status."""
    planned = dict(request.planned or {})
    records = dict(request.private_note.get(OBSERVED_KEY) or {})
    for cordon_request in find_cordon_requests(request):
        before = find_machine_record(request, cordon_request.id)
        change = _predict_machine_facts_after_action(cordon_request.action, before)
        if request.key.type == MACHINE:
            planned |= {"cordon_status": change["cordon_status"]} if change else {}
            records |= change
        else:
            records[cordon_request.name] = {**before, **change}
    return ChangeResult(planned, note={OBSERVED_KEY: records})


def _predict_machine_facts_after_action(action: CordonAction, before: Mapping[str, Any]) -> dict[str, Any]:
    """Build the changed facts of a machine after an action. An earlier cordon keeps its owner."""
    if action is CordonAction.UNCORDON:
        return {"cordon_status": UNCORDONED, "cordoned_by": None}
    if action is CordonAction.KEEP:
        return {}
    was_cordoned = before.get("cordon_status") == CORDONED_STATUS
    owner = before.get("cordoned_by") if was_cordoned else None
    return {"cordon_status": CORDONED_STATUS, "cordoned_by": owner or CordonOwner.NEXUSFORM}


def is_cordon_only(request: ChangeRequest) -> bool:
    """Return True if a step changes only cordon and evacuation arguments."""
    prior, planned = request.prior, request.planned
    if prior is None or planned is None:
        return False
    return all(prior.get(name) == value for name, value in planned.items() if name not in _CORDON_ARGUMENTS)


_CORDON_ARGUMENTS: Final = frozenset({"cordoned", "cordon_status", "evacuate", "machine_override"})
