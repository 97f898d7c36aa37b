"""VMs re-created by a plan after a loss: old and new location, and VMs without capacity."""

from collections.abc import Sequence

from nexusform.placements.recreations import RecreatedPool, RecreatedVm
from nexusform.placements.vm_demands import MACHINE_LOST
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.verdicts.numa_samples import bound_missing_vms, count_missing_vms
from nexusform.scheduling.racks.uncertainty.splits import SplitChoice
from nexusform.scheduling.racks.vms import Interval


def list_recreated_pools(
    after: PlanResult, trigger: str = MACHINE_LOST
) -> tuple[RecreatedPool, ...]:
    """Return the pools with VMs that are re-created for a trigger, in order of the plan."""
    recreated_pools: list[RecreatedPool] = []
    for vm_object in after.objects.values():
        recreations = vm_object.request.actions.recreations
        failures = vm_object.placements.failures
        demand = vm_object.request.demand
        for pool in vm_object.pools:
            keys = [key for key in pool.keys if recreations.get(key) == trigger]
            if not keys:
                continue
            vms = [
                RecreatedVm(
                    vm_object.prior.existing[key],
                    None if key in failures else vm_object.get_placement(key),
                )
                for key in keys
            ]
            reasons = [failures[key].reason for key in keys if key in failures]
            recreated_pools.append(
                RecreatedPool(
                    cluster_id=demand.cluster_id,
                    cluster=demand.cluster,
                    pool=pool.pool,
                    sku=pool.sku.name,
                    vms=tuple(vms),
                    # The first one counts.
                    reason=reasons[0] if reasons else "",
                    address=str(vm_object.instance.address),
                )
            )
    return tuple(recreated_pools)


def count_missing_recreations(
    after: PlanResult, site_id: str, pools: Sequence[RecreatedPool], split_choice: SplitChoice
) -> list[int]:
    """Return the VMs without capacity per pool in a layout of VMs in unknown NUMA cells."""
    counts = count_missing_vms(after.sites[site_id], split_choice)
    return [counts[f"nks:{pool.cluster_id}", pool.pool] for pool in pools]


def has_capacity_in_layout(after: PlanResult, site_id: str, split_choice: SplitChoice) -> bool:
    """Return whether all VMs of a plan that fits also fit in a layout of unknown NUMA cells."""
    return not any(count_missing_vms(after.sites[site_id], split_choice).values())


def bound_missing_recreations(after: PlanResult, site_id: str) -> Interval | None:
    """Return exact bounds of the VMs without capacity over all layouts; None: they are unknown."""
    return bound_missing_vms(after.sites[site_id])
