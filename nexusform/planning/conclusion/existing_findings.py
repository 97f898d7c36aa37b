"""Separation of existing findings from those caused by the plan. The same plan without changes has existing findings,
too. They are marked last, after the plan has its sites and capacity. Each kind of warning has one cause: its block
changes, VMs or pods are added, pods lose their nodes. Without it, the warning existed before. Kinds not in the table
count as caused by the plan, for example missing parts of an export: no state records those of the previous export.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity
from nexusform.domain_table import collect_diagnostic_traits
from nexusform.placement_kinds.placement_kind import KINDS, VM
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import Action, Change, PlacementAction, Plan
from nexusform.plans.site_capacity.occupancy import select_without_new_sharing


class _PlanActions(Struct, frozen=True):
    """Actions of a plan by resource address: changed resources, those with added bindings or pods, with newly
    waiting pods, and with any changed pod. `adds_vms` and `removes_vms` cover all sites.
    """

    has_predecessor: bool
    changed_resources: AbstractSet[str]
    changed_documents: AbstractSet[str]
    resources_with_bindings: AbstractSet[str]
    resources_with_added_pods: AbstractSet[str]
    resources_with_waiting_pods: AbstractSet[str]
    resources_with_changed_pods: AbstractSet[str]
    adds_vms: bool
    removes_vms: bool


def mark_existing_findings(plan: Plan) -> Plan:
    """Return the plan with its existing findings marked."""
    actions = _collect_plan_actions(plan)
    # The resources with clusters without surge capacity both before and after the plan.
    new_shortages: set[tuple[str, str]] = set()
    for row in plan.capacity:
        clusters_before = row.before.no_surge_clusters if row.before is not None else ()
        clusters_after = row.after.no_surge_clusters if row.after is not None else ()
        new_shortages |= {(row.site_id, cluster) for cluster in clusters_after if cluster not in clusters_before}
    addresses: set[str] = set()
    caused_by_plan: set[str] = set()
    for site in plan.sites:
        addresses |= {str(pool.address) for pool in site.pools}
        caused_by_plan |= {str(pool.address) for pool in site.pools if (site.id, pool.cluster) in new_shortages}
    existing_addresses = {
        "no-surge-capacity": frozenset(addresses - caused_by_plan),
        "shared-machine": select_without_new_sharing(plan.sites),
    }
    diagnostics = [
        replace(diagnostic, is_preexisting=True)
        if _is_existing_finding(diagnostic, actions, existing_addresses.get(diagnostic.id, frozenset()))
        else diagnostic
        for diagnostic in plan.diagnostics
    ]
    return replace(plan, diagnostics=tuple(diagnostics))


def _is_existing_finding(diagnostic: Diagnostic, actions: _PlanActions, existing_addresses: frozenset[str]) -> bool:
    """Return whether a finding existed before; `existing_addresses` had a finding of this kind before."""
    if diagnostic.severity is Severity.ERROR:
        return False
    if diagnostic.address in existing_addresses:
        return True
    cause = _CAUSE_OF.get(diagnostic.id, "")
    return actions.has_predecessor and bool(cause) and not _CAUSES[cause](actions, diagnostic.address)


_ADDING_EFFECTS: Final = (Effect.PLACED, Effect.MOVED, Effect.RECREATED)
_REMOVING_EFFECTS: Final = (Effect.MOVED, Effect.UNPLACED, Effect.REMOVED)


def _collect_plan_actions(plan: Plan) -> _PlanActions:
    effects = [(row, compute_effect(row)) for row in plan.placements]
    bindings = [(row, effect) for row, effect in effects if KINDS[row.kind].by_resource]
    pods_of_plan = [(row, effect) for row, effect in effects if KINDS[row.kind].runs_on_vms]
    # Pods that lost their node, or are added without one; pods that keep waiting are excluded.
    newly_waiting_pods = [
        row
        for row, effect in pods_of_plan
        if effect is Effect.UNPLACED or (effect is Effect.WAITING and row.action is PlacementAction.PLACE)
    ]
    changed_pods = [row for row, _ in pods_of_plan if row.action is not PlacementAction.KEEP]
    vm_effects = {effect for row, effect in effects if row.kind == VM}
    # The resources changed or imported by the plan.
    changed_resources = frozenset(
        str(change.address)
        for change in plan.changes
        if change.action is not Action.NO_OP or change.importing or change.previous_address
    )
    return _PlanActions(
        has_predecessor=plan.serial > 0,
        changed_resources=changed_resources,
        changed_documents=frozenset(str(change.address) for change in plan.changes if _has_changed_text(change)),
        resources_with_bindings={str(row.address) for row, effect in bindings if effect in _ADDING_EFFECTS},
        resources_with_added_pods={str(row.address) for row, effect in pods_of_plan if effect in _ADDING_EFFECTS},
        resources_with_waiting_pods={str(row.address) for row in newly_waiting_pods},
        resources_with_changed_pods={str(row.address) for row in changed_pods},
        adds_vms=not vm_effects.isdisjoint(_ADDING_EFFECTS),
        removes_vms=not vm_effects.isdisjoint(_REMOVING_EFFECTS),
    )


def _has_changed_text(change: Change) -> bool:
    """Return whether a text of a resource differs: documents are texts, or several by name."""
    before, after = change.before or {}, change.after or {}
    return any(before.get(name) != value and _is_text_or_text_mapping(value) for name, value in after.items())


def _is_text_or_text_mapping(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str)


# Causes of domain warnings by name, and the check whether a plan has them at an address.
_CAUSES: Final[Mapping[str, Callable[[_PlanActions, str], bool]]] = {
    "block": lambda actions, address: address in actions.changed_resources,
    "document": lambda actions, address: address in actions.changed_documents,
    "waiting": lambda actions, address: address in actions.resources_with_waiting_pods,
    # Pods may newly share a host: a pod is added, or the machine of their node changes.
    "company": lambda actions, address: actions.adds_vms or address in actions.resources_with_added_pods,
    # The workload of a blocked rollout changed, or its nodes.
    "rollout": lambda actions, address: (
        actions.adds_vms
        or actions.removes_vms
        or address in actions.resources_with_changed_pods
        or address in actions.changed_resources
    ),
    # Clusters may newly share a machine: VMs are added, or a cluster is selected.
    "members": lambda actions, address: actions.adds_vms or address in actions.resources_with_bindings,
}
_CAUSE_OF: Final = {
    "even-control-plane": "block",
    **{kind: remark.cause for kind, remark in collect_diagnostic_traits().items() if remark.cause},
}
