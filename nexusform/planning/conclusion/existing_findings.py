"""Separation of existing findings from those caused by the plan.

The same plan without changes has existing findings, too. They are marked last, after the plan
has its sites and capacity. Each kind of warning has one cause: its block changes, VMs or pods
are added, pods lose their nodes. Without it, the warning existed before. Kinds not in the table
count as caused by the plan, for example missing parts of an export: no state records those of
the previous export.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity
from nexusform.domain_table import collect_diagnostic_traits
from nexusform.json_data.plain_data import get_mapping
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import Change, PlacementAction, Plan
from nexusform.plans.site_capacity.occupancy import select_without_new_sharing
from nexusform.resources.address import Address


class _PlanActions(Struct, frozen=True):
    """Actions of a plan, as addresses of resources and of their blocks.

    A finding may be about either. Each set of resources has its own condition: changed, with
    changed texts (documents), with added pods, with newly waiting pods, or with any changed pod.
    `adds_vms` and `removes_vms` cover all sites. `clusters_with_added_vms` and
    `clusters_with_changed_vms` are pairs of site id and name. `clusters_of_pods` are the clusters
    with pods of a resource. `has_predecessor` means that an earlier apply wrote the state.
    """

    has_predecessor: bool
    changed_resources: AbstractSet[str]
    changed_documents: AbstractSet[str]
    resources_with_added_pods: AbstractSet[str]
    resources_with_waiting_pods: AbstractSet[str]
    resources_with_changed_pods: AbstractSet[str]
    adds_vms: bool
    removes_vms: bool
    clusters_with_added_vms: AbstractSet[tuple[str, str]]
    clusters_with_changed_vms: AbstractSet[tuple[str, str]]
    clusters_of_pods: Mapping[str, AbstractSet[tuple[str, str]]]

    def adds_nodes(self, address: str) -> bool:
        """Return whether a cluster with pods of a resource gets other nodes, any if unknown."""
        clusters = self.clusters_of_pods.get(address)
        if clusters is None:
            return self.adds_vms
        return not clusters.isdisjoint(self.clusters_with_added_vms)

    def changes_nodes(self, address: str) -> bool:
        """Return whether nodes of a cluster with pods of a resource change, any if unknown."""
        clusters = self.clusters_of_pods.get(address)
        if clusters is None:
            return self.adds_vms or self.removes_vms
        return not clusters.isdisjoint(self.clusters_with_changed_vms)


def mark_existing_findings(plan: Plan) -> Plan:
    """Return the plan with each finding marked as pre-existing if the plan did not cause it."""
    actions = _collect_plan_actions(plan)
    # Clusters (site id, name) with surge capacity before the plan, and none after it.
    new_shortages = {
        (row.site_id, cluster)
        for row in plan.site_records.capacity
        for cluster in row.new_no_surge_clusters
    }
    # Addresses of all objects with VMs.
    addresses: set[str] = set()
    addresses_with_new_shortage: set[str] = set()
    for site in plan.site_records.sites:
        for pool in site.pools:
            addresses.add(str(pool.address))
            if (site.id, pool.cluster) in new_shortages:
                addresses_with_new_shortage.add(str(pool.address))
    # By kind of finding: a finding at one of these addresses existed before.
    existing_addresses = {
        "no-surge-capacity": frozenset(addresses - addresses_with_new_shortage),
        "shared-machine": select_without_new_sharing(plan.site_records.sites),
    }
    diagnostics = list(plan.diagnostics)
    for index, diagnostic in enumerate(diagnostics):
        if _is_existing_finding(
            diagnostic, actions, existing_addresses.get(diagnostic.id, frozenset())
        ):
            diagnostics[index] = replace(diagnostic, is_preexisting=True)
    return replace(plan, diagnostics=tuple(diagnostics))


def _is_existing_finding(
    diagnostic: Diagnostic, actions: _PlanActions, existing_addresses: frozenset[str]
) -> bool:
    """Return whether a finding has its cause before this plan.

    `existing_addresses` had such a finding before it.
    """
    # An error always stops the plan.
    if diagnostic.severity is Severity.ERROR:
        return False
    if diagnostic.address in existing_addresses:
        return True
    cause = _CAUSE_OF.get(diagnostic.id)
    # Always new; before the first apply, all are.
    if cause is None or not actions.has_predecessor:
        return False
    is_caused_by = _CAUSES[cause]
    return not is_caused_by(actions, diagnostic.address)


_ADDING_EFFECTS: Final = (Effect.PLACED, Effect.MOVED, Effect.RECREATED)
_REMOVING_EFFECTS: Final = (Effect.MOVED, Effect.UNPLACED, Effect.REMOVED)


def _collect_plan_actions(plan: Plan) -> _PlanActions:
    """Collect the changes of a plan with an effect on findings.

    Resources are given by address (text).
    """
    rows = [
        (row, compute_effect(row), address)
        for row in plan.placements
        for address in _list_addresses(row.address)
    ]
    vm_effects: dict[Effect, set[tuple[str, str]]] = {}
    clusters_of_pods: dict[str, set[tuple[str, str]]] = {}
    for row, effect, address in rows:
        if row.kind == VM:
            vm_effects.setdefault(effect, set()).add((row.site_id, row.cluster))
        elif KINDS[row.kind].runs_on_vms:
            # The pool of a pod: `CLUSTER/WORKLOAD`.
            cluster = row.pool.partition("/")[0]
            clusters_of_pods.setdefault(address, set()).add((row.site_id, cluster))
    added_vms = set().union(*(vm_effects.get(effect, ()) for effect in _ADDING_EFFECTS))
    removed_vms = set().union(*(vm_effects.get(effect, ()) for effect in _REMOVING_EFFECTS))
    pods = [
        (row.action, effect, address)
        for row, effect, address in rows
        if KINDS[row.kind].runs_on_vms
    ]
    # They lose their node.
    waiting_pods = {address for _, effect, address in pods if effect is Effect.UNPLACED}
    waiting_pods |= {
        address
        for action, effect, address in pods
        # New pods without a node.
        if action is PlacementAction.PLACE and effect is Effect.WAITING
    }
    return _PlanActions(
        has_predecessor=plan.start.serial > 0,
        changed_resources={
            address
            for change in plan.reported_changes
            for address in _list_addresses(change.address)
        },
        changed_documents={
            address
            for change in plan.changes
            if _has_changed_text(change)
            for address in _list_addresses(change.address)
        },
        resources_with_added_pods={
            address for _, effect, address in pods if effect in _ADDING_EFFECTS
        },
        resources_with_waiting_pods=waiting_pods,
        resources_with_changed_pods={
            address for action, _, address in pods if action is not PlacementAction.KEEP
        },
        adds_vms=bool(added_vms),
        removes_vms=bool(removed_vms),
        clusters_with_added_vms=added_vms,
        clusters_with_changed_vms=added_vms | removed_vms,
        clusters_of_pods=clusters_of_pods,
    )


def _list_addresses(address: Address) -> tuple[str, ...]:
    """List the addresses of a resource: with and without its key, and that of its block.

    `module.m["x"].a.b[0]` gives itself, `module.m["x"].a.b` and `module.m.a.b`.
    """
    if address.key is None and not address.module:
        return (str(address),)
    return tuple({str(address), str(address.resource), str(address.config_address)})


def _has_changed_text(change: Change) -> bool:
    """Return whether the plan changes an argument with a document or several.

    Such an argument is a text, or a mapping such as `{"a.yaml": "text"}`.
    """
    before = get_mapping(change.before)
    after = get_mapping(change.after)
    return any(
        before.get(name) != value and _is_text_or_text_mapping(value)
        for name, value in after.items()
    )


def _is_text_or_text_mapping(value: Any) -> bool:
    """Return whether a value is a text or a mapping of texts."""
    if isinstance(value, dict):
        return bool(value) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str)


# Causes of domain warnings by name, and the check whether a plan has them at an address.
_CAUSES: Final[Mapping[str, Callable[[_PlanActions, str], bool]]] = {
    "block": lambda actions, address: address in actions.changed_resources,
    "document": lambda actions, address: address in actions.changed_documents,
    "waiting": lambda actions, address: address in actions.resources_with_waiting_pods,
    # Pods may newly share a host: a pod is added, or the machine of their node changes.
    "company": lambda actions, address: (
        actions.adds_nodes(address) or address in actions.resources_with_added_pods
    ),
    # The workload of a blocked rollout changed, or its nodes.
    "rollout": lambda actions, address: (
        actions.changes_nodes(address)
        or address in actions.resources_with_changed_pods
        or address in actions.changed_resources
    ),
    "machines": lambda actions, _address: actions.adds_vms or actions.removes_vms,
}
_CAUSE_OF: Final = {
    "even-control-plane": "block",
    "existing-rule-violation": "block",
    "no-joint-surge-capacity": "machines",
    **{kind: remark.cause for kind, remark in collect_diagnostic_traits().items() if remark.cause},
}
