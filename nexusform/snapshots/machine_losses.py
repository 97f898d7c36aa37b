"""Loss of machines: what is down, what re-creates it, and what fits only after something else.

`plan -assume=lost:...`, `simulate failure` and the failures of many sites ask here.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.placements.recreations import RecreatedPool
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit, LostMachines, MachineOutage, VmReplacement
from nexusform.planning.hypothesis.recreations import (
    bound_missing_recreations,
    count_missing_recreations,
    list_recreated_pools,
)
from nexusform.planning.hypothesis.start_points import StartPoint, build_snapshot_request
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.planning.vm_planning.vm_object import HEAL
from nexusform.plans.machine_losses import MachineLoss
from nexusform.plans.numa_sampling import SampledShortage
from nexusform.plans.plan import HypotheticalPlan
from nexusform.plans.site_capacity.occupancy import PoolAvailability, VmOwnerKind
from nexusform.snapshots.availability import sample_capacity
from nexusform.snapshots.snapshot import (
    SiteSnapshot,
    build_snapshot,
    list_planned_objects,
    list_recorded_machines,
    list_refreshed_objects,
)

# Fixes of these kinds change an argument that re-creates the VMs of its pool.
_RECREATING_FIXES: Final = frozenset({"zones"})


def simulate_machine_loss(
    start: StartPoint,
    site: SiteSnapshot,
    machines: Collection[str],
    title: str = "",
    *,
    tries_fixes: bool = True,
) -> tuple[MachineLoss, PlanResult]:
    """Simulate the loss of machines of a site, and return it with its hypothetical plan.

    The platform re-creates the lost nodes of NKS clusters by the placement rule, then applies
    re-create the other VMs. Machines already down stay down. `title` is the name of the loss in
    risks. If nodes lack capacity, `tries_fixes` finds changes with which they fit. Raises
    DiagnosticsError if the objects cannot be planned, for example with an unknown SKU catalogue.
    """
    lost_machines = frozenset(machines)
    names = tuple(name for name in site.machines if name in lost_machines)
    lost = LostMachines(site.id, names)
    edits = (lost, MachineOutage(site.id, names, title))
    after = start.plan_site(site.id, edits)
    # Each pool with a lost VM, and its VMs still up.
    [outage] = after.plan.outages
    recreations = list_recreated_pools(after)
    if tries_fixes and any(pool.missing for pool in recreations):
        fixes = _list_fixes(start, edits, after)
        recreations = tuple(
            replace(pool, fixes=fixes) if pool.missing else pool for pool in recreations
        )
    loss = MachineLoss(
        site_id=site.id,
        machines=names,
        pools=outage.pools,
        recreations=recreations,
        replacements=_replace_other_vms(start, after, lost, outage.pools),
        unmanaged_vms=site.list_unmanaged_vms(lost_machines),
        samples=_sample_shortage(after, site.id, recreations),
        machines_down=tuple(
            name for name in site.machines if name in site.machines_down - lost_machines
        ),
    )
    return loss, after


def add_machine_losses(result: PlanResult, request: PlanRequest) -> PlanResult:
    """Return a hypothetical plan with the losses of machines that it assumes.

    They start from the objects as refreshed, before any change of the plan: the platform re-creates
    lost nodes without an apply.
    """
    plan = result.plan
    lost_by_site = {
        site.id: [name for name in site.machines if name in site.lost_machines]
        for site in result.sites.values()
        if site.lost_machines
    }
    if not lost_by_site or plan.errored or not isinstance(plan, HypotheticalPlan):
        return result
    state = request.state
    registries = request.registries
    objects = tuple(list_refreshed_objects(state, request.refreshed_objects).values())
    recorded_machines = list_recorded_machines(state, registries)
    snapshot = build_snapshot(objects, registries, state.catalogue, recorded_machines)
    start = StartPoint(
        build_snapshot_request(objects, registries, state, request.now, recorded_machines)
    )
    losses: list[MachineLoss] = []
    for site_id, machines in lost_by_site.items():
        site = snapshot.sites.get(site_id)
        # The plan itself creates the site, or the machines.
        existing = [name for name in machines if site is not None and name in site.machines]
        if site is not None and existing:
            loss, _ = simulate_machine_loss(start, site, existing)
            losses.append(loss)
    return replace(result, plan=replace(plan, losses=tuple(losses)))


def _list_fixes(start: StartPoint, edits: Sequence[Edit], after: PlanResult) -> tuple[str, ...]:
    """Return the tested changes with which every lost node fits."""
    texts: list[str] = []
    for fix in start.find_fixes(edits, after):
        text = str(fix["text"])
        if fix["kind"] in _RECREATING_FIXES:
            text = f"{text} An apply of this change re-creates all VMs of the pool."
        texts.append(text)
    return tuple(texts)


def _replace_other_vms(
    start: StartPoint, after: PlanResult, lost: LostMachines, pools: Iterable[PoolAvailability]
) -> tuple[RecreatedPool, ...]:
    """Return the lost VMs outside of NKS clusters, as an apply re-creates them.

    The platform has re-created the lost nodes before.
    """
    edits: list[Edit] = []
    for pool in pools:
        if pool.kind is VmOwnerKind.NKS:
            continue
        edits += [VmReplacement(f"{pool.address}:{vm.name}") for vm in pool.down_vms]
        # A state does not say whether the recorded machine of a plain VM is configured.
        if pool.kind is VmOwnerKind.VM:
            edits.append(ArgumentAdjustment(pool.address, ("machine",), None))
    if not edits:
        return ()
    objects = list_planned_objects(after.plan, start.request.state)
    result = start.replace_objects(objects).plan_site(lost.site_id, (lost, *edits))
    return list_recreated_pools(result, HEAL)


def _sample_shortage(
    after: PlanResult, site_id: str, recreations: Sequence[RecreatedPool]
) -> SampledShortage | None:
    """Count the lost VMs without capacity elsewhere, over samples of unknown NUMA cells.

    A sample is a possible layout. For a single pool, the bounds are exact. Return None if all cells
    are known, or no VM of an NKS cluster is lost.
    """
    site = after.sites[site_id]
    samples = sample_capacity(
        site.base,
        vms=sum(len(pool.vms) for pool in recreations),
        count_missing=lambda sample: count_missing_recreations(after, site_id, recreations, sample),
    )
    if samples is None:
        return None
    # VMs outside nexusform stay on the lost machines, which take no VM.
    unknown_machines = [
        machine
        for machine in site.base.list_machines_with_unknown_cells()
        if machine not in site.lost_machines
    ]
    if not unknown_machines:
        return None
    numa_sampling = replace(samples.numa_sampling, machines=len(unknown_machines))
    samples = replace(samples, numa_sampling=numa_sampling)
    # Several pools compete, so their bounds are only those of samples.
    if len(recreations) > 1:
        return samples
    bounds = bound_missing_recreations(after, site_id)
    if bounds is None:
        return samples
    return replace(samples, missing_count=bounds, pools=(bounds,), is_exact=True)
