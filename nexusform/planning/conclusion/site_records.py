"""Site records of a plan, filled last: VM locations, spare capacity and shortages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning, has_errors
from nexusform.diagnostics.phrases import format_list, group_by
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries, ResourceType
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.placements.consequence_record import RACK_RISKS, Consequence, ConsequenceCause
from nexusform.placements.vm_demands import (
    ClaimDemand,
    PlacedVm,
    compute_number_sort_key,
    index_pools,
)
from nexusform.planning.conclusion.plan_result import (
    PlanResult,
    SiteWithVms,
    VmOnSite,
    has_existing_objects,
    index_site_resources,
    iterate_observed_sites,
)
from nexusform.planning.conclusion.spare_capacity import compute_headroom
from nexusform.planning.verdicts.placement_fit import DOES_NOT_FIT
from nexusform.planning.vm_planning import site_plans
from nexusform.planning.vm_planning.vm_object import LOST_VMS_KEY, VmObject
from nexusform.plans.maintenance import PlannedMachineAction
from nexusform.plans.plan import Action, PlacementAction, Plan
from nexusform.plans.site_capacity.occupancy import (
    PoolVms,
    SiteMachine,
    SiteRack,
    SiteSkuCapacity,
    SiteVms,
)
from nexusform.plans.site_capacity.site_resource_capacity import (
    ClusterNodeCounts,
    SiteResourceCapacity,
    SiteResourceKind,
    compute_site_resource_capacity,
    count_nodes,
    find_configured_node_network,
    format_shortage,
)
from nexusform.resources.address import Address
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE, SUCCEEDED, merge_facts_after
from nexusform.scheduling.racks.vms import VmSku
from nexusform.scheduling.site_inventory import OBSERVED_KEY

P = TypeVar("P", bound=Plan)
# Names of clusters in one finding.
_MAX_NAMES: Final = 4


def add_site_capacity(result: PlanResult, registries: PluginRegistries) -> PlanResult:
    """Return the result with sites, spare capacity and their findings added to its plan.

    Pre-existing findings are marked. A plan with errors gets no capacity, and only the current VMs.
    If only placement failed, it also has the VMs it could place.
    """
    result, before, after = _add_sites(_add_site_problems(result, registries), registries)
    plan = result.plan
    capacity: tuple[SiteSkuCapacity, ...] = ()
    other_capacity: tuple[SiteResourceCapacity, ...] = ()
    if not plan.errored:
        capacity = compute_headroom(before, after, plan.impact.machine_actions)
        if any(row.chosen_by for row in plan.placements):
            from nexusform.planning.conclusion.scale_in_capacity import widen_capacity

            capacity = widen_capacity(capacity, after, result.objects.values())
        if any(site.changes_capacity for site in plan.observed.listed):
            from nexusform.planning.conclusion.listed_sites import add_listed_capacity

            listed_before, listed_after = (
                build_occupied_sites(
                    plan,
                    result.objects,
                    registries,
                    side,
                    result.prior_notes if side is BeforeOrAfter.BEFORE else {},
                    _list_lost_machines(result) if side is BeforeOrAfter.AFTER else (),
                    recorded_machines=_list_configured_machines(before),
                    as_listed=True,
                )
                for side in BeforeOrAfter
            )
            listed_capacity = compute_headroom(
                listed_before, listed_before if after is before else listed_after
            )
            plan, capacity = add_listed_capacity(plan, capacity, listed_capacity)
        other_capacity = _collect_site_resource_capacity(result, before, after)
    plan = replace(
        plan,
        site_records=replace(plan.site_records, capacity=capacity, other_capacity=other_capacity),
    )
    plan = add_consequences(plan, registries)
    if plan.observed.drift:
        from nexusform.plans.impact.outside_changes import find_outside_changes

        outside_changes = find_outside_changes(plan, registries.resource_types)
        plan = replace(plan, impact=replace(plan.impact, outside_changes=outside_changes))
    if plan.diagnostics:
        from nexusform.planning.conclusion.existing_findings import mark_existing_findings

        plan = mark_existing_findings(plan)
    # Shortages come last, because check_shortages marks pre-existing ones itself.
    risks = list_risk_diagnostics(plan, everything=False)
    diagnostics = (*plan.diagnostics, *check_shortages(plan), *risks)
    plan = replace(plan, diagnostics=diagnostics)
    return replace(result, plan=plan)


_Occupied: TypeAlias = Mapping[str, SiteWithVms]


def add_sites(result: PlanResult, registries: PluginRegistries) -> PlanResult:
    """Return the result with the VMs of its sites before and after the plan."""
    return _add_sites(result, registries)[0]


def _add_sites(
    result: PlanResult, registries: PluginRegistries
) -> tuple[PlanResult, _Occupied, _Occupied]:
    """Return the result with its sites in the plan, and the sites before and after it, by id."""
    plan = result.plan
    before = result.occupied_before
    if before is None:
        before = build_occupied_sites(
            plan, result.objects, registries, BeforeOrAfter.BEFORE, result.prior_notes
        )
    after = before
    lost_machines = _list_lost_machines(result)
    is_changed = any(change.action is not Action.NO_OP for change in plan.changes)
    if (is_changed or lost_machines) and _is_placement_known(plan):
        after = build_occupied_sites(
            plan,
            result.objects,
            registries,
            BeforeOrAfter.AFTER,
            lost_machines=lost_machines,
            recorded_machines=_list_configured_machines(before),
        )
    order_in_plan = {change.address: position for position, change in enumerate(plan.changes)}
    site_ids = sorted({*before, *after})
    sites = tuple(
        _build_site(before.get(site_id), after.get(site_id), order_in_plan) for site_id in site_ids
    )
    lost_vm_rows = chain.from_iterable(
        problem.extra.get(LOST_VMS_KEY, ()) for problem in plan.diagnostics
    )
    # (site id, machine, name).
    lost_vms = set(map(tuple, lost_vm_rows))
    if lost_vms:
        sites = tuple(_mark_lost_vms(site, lost_vms) for site in sites)
    result = replace(
        result,
        plan=replace(plan, site_records=replace(plan.site_records, sites=sites)),
        occupied_before=before,
    )
    return result, before, after


def _list_lost_machines(result: PlanResult) -> list[tuple[str, str]]:
    """Return the lost machines of a hypothetical plan: site id and name."""
    return [(site.id, machine) for site in result.sites.values() for machine in site.lost_machines]


def _list_configured_machines(sites: Mapping[str, SiteWithVms]) -> frozenset[tuple[str, str]]:
    """Return the site id and name of each configured machine."""
    return frozenset(
        (site_id, name)
        for site_id, occupied in sites.items()
        for name in occupied.site.configured_machines
    )


def add_consequences(plan: P, registries: PluginRegistries) -> P:
    """Return a plan with its consequences; one without changes needs no module for them."""
    has_effects = any(change.action is not Action.NO_OP for change in plan.changes) or any(
        row.action is not PlacementAction.KEEP for row in plan.placements
    )
    if (
        not has_effects
        and not any(site.pools for site in plan.site_records.sites)
        and not plan.outages
    ):
        return plan
    from nexusform.plans.impact.risk_assessment import compute_consequences

    return replace(
        plan,
        impact=replace(
            plan.impact, consequences=compute_consequences(plan, registries.resource_types)
        ),
    )


def list_risk_diagnostics(plan: Plan, *, everything: bool) -> Iterator[Diagnostic]:
    """Yield a warning for each risk that the state had before the plan, and advice about sites.

    With `everything`, also for VMs that the plan places on too few racks: the decision names them.
    """
    unavoidable_risks: dict[bool, list[Consequence]] = {}
    for risk in plan.impact.consequences:
        is_preexisting = risk.since is ConsequenceCause.STATE
        if not risk.is_avoidable:
            unavoidable_risks.setdefault(is_preexisting, []).append(risk)
        elif is_preexisting or (everything and risk.risk in RACK_RISKS):
            remedy = f"e-place a node on another rack: -replace={risk.address}:NODE."
            yield build_warning(
                risk.risk,
                f"{risk.text}. {'R' if is_preexisting else 'After the apply, r'}{remedy}",
                address=risk.address,
                brief=risk.text,
                is_preexisting=is_preexisting,
            )
    for is_preexisting, risks in unavoidable_risks.items():
        names = format_list([risk.subject for risk in risks], _MAX_NAMES)
        texts = format_list([risk.text for risk in risks], _MAX_NAMES)
        yield build_warning(
            risks[0].risk,
            f"{texts}. No placement on the racks of the site avoids it. Add a rack.",
            address=risks[0].address if len(risks) == 1 else "",
            brief=f"losing one rack breaks etcd quorum of {names}",
            is_preexisting=is_preexisting,
        )


def _mark_lost_vms(site: SiteVms, lost_vms: AbstractSet[tuple[str, ...]]) -> SiteVms:
    """Return a site with the VMs of `lost_vms` (site id, machine, name) marked."""
    vms = [
        replace(vm, is_lost=(site.id, vm.placement.machine, vm.name) in lost_vms)
        for vm in site.unmanaged_vms
    ]
    return replace(site, unmanaged_vms=tuple(vms))


def _add_site_problems(result: PlanResult, registries: PluginRegistries) -> PlanResult:
    """Add the problems of Kubernetes versions to the plan.

    The kinds of data missing to check versions and networks are added, too.
    """
    plan = result.plan
    if not has_existing_objects(plan.changes):
        # Nothing to check: no existing object, and no site read by a provider.
        return result
    from nexusform.planning.conclusion import cluster_findings

    version_problems = cluster_findings.check_version_changes(result, registries)
    problems = tuple(version_problems)
    return replace(
        result,
        plan=replace(
            plan,
            diagnostics=(*plan.diagnostics, *problems),
            errored=plan.errored or has_errors(problems),
            observed=replace(
                plan.observed, missing_data=tuple(cluster_findings.list_missing_data(result))
            ),
        ),
    )


def _is_placement_known(plan: Plan) -> bool:
    """Return whether the VMs after the plan are known.

    Its errors, if any, reject only their placement.
    """
    if not plan.errors:
        return True
    from nexusform.planning.verdicts.separation_rules import SEPARATION_VIOLATED

    return all(problem.id in (DOES_NOT_FIT, SEPARATION_VIOLATED) for problem in plan.errors)


def _collect_site_resource_capacity(
    result: PlanResult, before: Mapping[str, SiteWithVms], after: Mapping[str, SiteWithVms]
) -> tuple[SiteResourceCapacity, ...]:
    """Return the capacity of networks, storage and so on of the sites, ordered by id.

    A provider has read these sites.
    """
    observed_sites = index_site_resources(result.plan.changes)
    if not observed_sites:
        return ()
    # Claims of volumes, by cluster.
    claims_before: dict[str, ClaimDemand] = {}
    claims_after: dict[str, ClaimDemand] = {}
    for contribution in result.contributions:
        for cluster, (demand_before, demand_after) in contribution.collect_claims().items():
            claims_before[cluster] = demand_before
            claims_after[cluster] = demand_after
    network_by_cluster: dict[str, str] = {}
    for change in result.plan.changes:
        network = find_configured_node_network(get_mapping(change.after))
        if network:
            network_by_cluster[get_text(change.after, "name")] = network
    rows: list[SiteResourceCapacity] = []
    for site, site_resources in sorted(observed_sites.items()):
        # A site missing before or after the plan has no nodes.
        nodes_before = nodes_after = ClusterNodeCounts()
        if site in before:
            nodes_before = count_nodes(before[site].pools, network_by_cluster, claims_before)
        if site in after:
            nodes_after = count_nodes(after[site].pools, network_by_cluster, claims_after)
        # The id of a site is its name, too.
        rows += compute_site_resource_capacity(
            site, site, site_resources, nodes_before, nodes_after
        )
    return tuple(rows)


class BeforeOrAfter(Enum):
    """Side of a plan: before or after it."""

    BEFORE = "before"
    AFTER = "after"


def build_occupied_sites(
    plan: Plan,
    objects: Mapping[Address, VmObject],
    registries: PluginRegistries,
    side: BeforeOrAfter,
    prior_notes: Mapping[Address, Mapping[str, Any]] = MappingProxyType({}),
    lost_machines: Collection[tuple[str, str]] = (),
    *,
    recorded_machines: frozenset[tuple[str, str]] | None = None,
    as_listed: bool = False,
) -> dict[str, SiteWithVms]:
    """Return the sites with their VMs before or after a plan, by id.

    `objects` are the planned objects with VMs. `prior_notes` are the private notes before the plan
    if they differ from those after it. `lost_machines` (site id, name) have no capacity.
    `recorded_machines` are those before the plan (site id, name; None: all of this side). With
    `as_listed` the sites have the machines that their platform lists.
    """
    present = list(_list_objects_on_side(plan, registries, side, prior_notes))
    if side is BeforeOrAfter.AFTER and plan.impact.machine_actions:
        present = list(_record_machine_actions(present, plan.impact.machine_actions, registries))
    layout = site_plans.build_site_layout(
        present,
        registries,
        plan.start.catalogue,
        lost_machines,
        recorded_machines,
        as_listed=as_listed,
    )
    sites = {site_id: SiteWithVms(site) for site_id, site in layout.sites.items()}
    for resource_type, site_object in layout.objects:
        vm_object = objects.get(site_object.address)
        # An invalid instance may lack the arguments that determine its VMs.
        is_invalid = (
            side is BeforeOrAfter.AFTER and vm_object is not None and vm_object.instance.is_invalid
        )
        if resource_type.vms is None or is_invalid:
            continue
        is_forgotten = False
        vms: Sequence[PlacedVm] = ()
        if vm_object is not None:
            # Forgotten VMs keep running after the plan, unmanaged.
            is_forgotten = side is BeforeOrAfter.AFTER and bool(vm_object.request.actions.forgets)
            has_prior_vms = side is BeforeOrAfter.BEFORE or is_forgotten
            vms = (
                tuple(vm_object.prior.existing.values()) if has_prior_vms else vm_object.list_vms()
            )
        _place_vms(resource_type, site_object, vms, layout, sites, is_managed=not is_forgotten)
    # An unmanaged VM with the name or id of an existing managed VM is the same VM, so it is
    # not placed again.
    managed = set(
        chain.from_iterable(vm_object.existing_identities for vm_object in objects.values())
    )
    for occupied in sites.values():
        occupied.unmanaged_vms = site_plans.place_unmanaged_vms(occupied.site, managed)
    return sites


def _list_objects_on_side(
    plan: Plan,
    registries: PluginRegistries,
    side: BeforeOrAfter,
    prior_notes: Mapping[Address, Mapping[str, Any]],
) -> Iterator[site_plans.SiteObject]:
    """Yield the objects that exist before or after a plan, with their attributes at that time.

    The VMs of a forgotten object keep running, so it exists after the plan, too, with its
    attributes from before.
    """
    for change in plan.changes:
        # It is left over from a replacement, and has no VMs.
        if change.deposed:
            continue
        is_kept = (
            change.action is Action.FORGET
            and registries.resource_types[change.address.type].vms is not None
        )
        attributes = change.before if side is BeforeOrAfter.BEFORE or is_kept else change.after
        if attributes is not None:
            note = prior_notes.get(change.address, change.private)
            yield site_plans.SiteObject(change.address, attributes, change.creation, note)


def _record_machine_actions(
    objects: Sequence[site_plans.SiteObject],
    actions: Iterable[PlannedMachineAction],
    registries: PluginRegistries,
) -> Iterator[site_plans.SiteObject]:
    """Yield the objects as they are after the machine actions of a plan have succeeded.

    A machine of its own block has its facts, else its rack has them. The argument power_state of a
    machine is in its attributes.
    """
    # By id of the machine, in the order of the windows.
    by_machine = group_by(
        (action for action in actions if action.address.type == MACHINE_ACTION_TYPE),
        lambda action: f"{action.site_id}/{action.rack}/{action.machine}",
    )
    run_addresses = {action.address for group in by_machine.values() for action in group}
    kinds = {item.address: registries.get_kind(item.address.type) for item in objects}
    own_ids = {
        item.attributes.get("id") for item in objects if kinds[item.address] is PlanningKind.MACHINE
    }
    by_rack = group_by(
        (
            action
            for machine_id, group in by_machine.items()
            if machine_id not in own_ids
            for action in group
        ),
        lambda action: f"{action.site_id}/{action.rack}",
    )
    for item in objects:
        object_id = str(item.attributes.get("id"))
        if item.address in run_addresses:
            yield replace(item, attributes={**item.attributes, "result": SUCCEEDED})
        elif kinds[item.address] is PlanningKind.MACHINE:
            yield _record_facts(item, by_machine.get(object_id, ()), is_machine=True)
        elif kinds[item.address] is PlanningKind.RACK:
            yield _record_facts(item, by_rack.get(object_id, ()), is_machine=False)
        else:
            yield item


def _record_facts(
    item: site_plans.SiteObject, actions: Iterable[PlannedMachineAction], *, is_machine: bool
) -> site_plans.SiteObject:
    """Return a machine or rack with the facts after actions in its private note."""
    facts = get_mapping(item.note, OBSERVED_KEY)
    for action in actions:
        machine = item.attributes if is_machine else action.machine
        facts = merge_facts_after(action.action, facts, machine, time="")
    return replace(item, note={**(item.note or {}), OBSERVED_KEY: facts}) if facts else item


def _place_vms(
    resource_type: ResourceType,
    site_object: site_plans.SiteObject,
    vms: Sequence[PlacedVm],
    layout: site_plans.SiteLayout,
    sites: Mapping[str, SiteWithVms],
    *,
    is_managed: bool,
) -> None:
    """Place the VMs of one object on their machines of a site.

    Its pools count for the site only if `is_managed`.
    """
    assert resource_type.vms is not None
    demand, _ = resource_type.vms.build_demand(
        site_object.attributes, layout.context, site_object.address
    )
    # Another finding reports it.
    if demand is None or demand.site_id not in sites:
        return
    occupied = sites[demand.site_id]
    pools = index_pools(demand.pools)
    if is_managed:
        # Pools of NKS clusters.
        occupied.pools += [(demand, pool) for pool in demand.pools if pool.count_path]
    position_of = {name: position for position, name in enumerate(pools)}
    # In the order of pools; VMs of pools missing in the demand last.
    ordered_vms = sorted(
        vms,
        key=lambda vm: (position_of.get(vm.pool, len(pools)), compute_number_sort_key(vm.number)),
    )
    skus = layout.context.get_skus(demand.site_id)
    for vm in ordered_vms:
        pool = pools.get(vm.pool)
        sku = site_plans.find_sku(vm, pool, skus)
        name = site_plans.build_vm_name(demand, pool, vm.pool, vm.number)
        result = occupied.site.place_existing_vm(name, sku, vm.placement)
        # Its machine is missing.
        if result is None:
            continue
        _, placement = result
        placed_vm = vm if placement == vm.placement else replace(vm, placement=placement)
        occupied.vms.append(VmOnSite(site_object.address, demand.cluster, sku, placed_vm))


def _group_vms_by_pool(vms: Iterable[VmOnSite]) -> dict[tuple[Address, str, VmSku], list[VmOnSite]]:
    return group_by(vms, lambda item: (item.address, item.vm.pool, item.sku))


def _build_site(
    before: SiteWithVms | None, after: SiteWithVms | None, order_in_plan: Mapping[Address, int]
) -> SiteVms:
    """Build a site with its racks, machines and VMs before and after the plan.

    At least one side is not None.
    """
    # A removed site as it was before.
    present = after or before
    assert present is not None
    # The side without the site, if there is one.
    absent = SiteWithVms(replace(present.site, racks=(), machines={}))
    before = before or absent
    after = after or absent
    unmanaged_vms = {
        (vm.placement.machine, vm.name): vm for vm in (*before.unmanaged_vms, *after.unmanaged_vms)
    }
    pools_before = _group_vms_by_pool(before.vms)
    pools_after = _group_vms_by_pool(after.vms)
    pool_keys = dict.fromkeys((*pools_after, *pools_before))
    pools = tuple(
        _build_pool_before_and_after(pools_before.get(key, []), pools_after.get(key, []))
        for key in sorted(pool_keys, key=lambda pool_key: order_in_plan[pool_key[0]])
    )
    # A rack or machine before and after the plan is described as after it.
    racks = {rack.name: rack for rack in (*before.site.racks, *after.site.racks)}
    machines_before = before.site.machines
    machines_after = after.site.machines
    machines = {**machines_before, **machines_after}.items()
    return SiteVms(
        id=present.site.id,
        name=present.site.name,
        racks=tuple(
            SiteRack(rack.name, rack.availability_zone, rack.is_planned) for rack in racks.values()
        ),
        machines=tuple(
            SiteMachine(
                item,
                name in machines_before,
                name in machines_after,
                was_down=name in machines_before and machines_before[name].is_down,
            )
            for name, item in machines
        ),
        pools=pools,
        unmanaged_vms=tuple(unmanaged_vms.values()),
    )


def _build_pool_before_and_after(before: Sequence[VmOnSite], after: Sequence[VmOnSite]) -> PoolVms:
    """Sort the VMs of one pool before and after the plan into unchanged, removed and added ones.

    A VM with the same name on another machine is both removed and added. One of the two sequences
    may be empty.
    """
    # Any VM: all have the same object, cluster, pool and SKU.
    first = (after or before)[0]
    vms_before = {placed_vm.vm.name: placed_vm.vm for placed_vm in before}
    vms_after = {placed_vm.vm.name: placed_vm.vm for placed_vm in after}
    return PoolVms(
        address=first.address,
        cluster=first.cluster,
        pool=first.vm.pool,
        sku=first.sku,
        unchanged=tuple(vm for name, vm in vms_after.items() if vms_before.get(name) == vm),
        removed=tuple(vm for name, vm in vms_before.items() if vms_after.get(name) != vm),
        added=tuple(vm for name, vm in vms_after.items() if vms_before.get(name) != vm),
    )


_RESOURCE_SHORTAGE: Final = "exhausted-site-resources"

_REMEDIES: Final[Mapping[SiteResourceKind, str]] = {
    SiteResourceKind.NODE_ADDRESSES: (
        "lower the count or the max_surge of a pool, or create the cluster on an L3 network with a "
        "larger prefix (the prefix of a network is fixed)"
    ),
    SiteResourceKind.POD_BLOCKS: (
        "lower the count or the max_surge of a pool, or re-create the cluster with more "
        "podCidrs (they are fixed)"
    ),
    SiteResourceKind.BALANCER_ADDRESSES: "add addresses to the cluster's pool",
    SiteResourceKind.STORAGE: "delete unused volumes (an existing site gets no second appliance)",
    SiteResourceKind.VOLUMES: (
        "delete unused volumes: more is promised than exists, and late writes will fail"
    ),
    SiteResourceKind.CLAIMS: (
        "request less in the claims, run fewer replicas of workloads with a volume each, or delete "
        "unused volumes: requests exceed the capacity"
    ),
}


def check_shortages(plan: Plan) -> Iterator[Diagnostic]:
    """Yield a warning per shortage of a site resource.

    The warning is marked as pre-existing if the plan changes nothing of it.
    """
    sites = {change.id: change for change, _ in iterate_observed_sites(plan.changes)}
    volume_sizes = {
        row.site: row.used
        for row in plan.site_records.other_capacity
        if row.kind is SiteResourceKind.VOLUMES
    }
    for row in plan.site_records.other_capacity:
        if not row.is_insufficient:
            continue
        if row.kind is SiteResourceKind.CLAIMS and row.used == volume_sizes.get(row.site):
            # The claims need no more than existing volumes, already reported by a row of their own.
            continue
        shortage = format_shortage(row)
        detail = (
            f"On {row.site}, {shortage}. Neither Azure nor a plan rejects this: nodes or volumes "
            f"fail to start. Suggested fixes: {_REMEDIES[row.kind]}."
        )
        # An upgrade needs surge VMs.
        was_insufficient = row.free_before is not None and row.free_before < row.surge
        warning = build_warning(
            _RESOURCE_SHORTAGE,
            detail,
            brief=f"{row.site}: {shortage}",
            # The plan changes nothing.
            is_preexisting=was_insufficient and row.used == row.used_before,
        )
        site = sites[row.site]
        yield replace(warning, subject=site.source, address=str(site.address), block=site.block)
