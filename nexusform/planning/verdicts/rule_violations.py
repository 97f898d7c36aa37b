"""Violations of placement rules by existing VMs.

They are warnings: a rule moves no existing VM.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_first_items
from nexusform.placements.vm_demands import PlacedVm, index_pools
from nexusform.planning.vm_planning.site_plans import build_demand
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.rule import CapacityFilter, MachineFilter

VIOLATES_RULE: Final = "existing-rule-violation"
_MAXIMUM_NAMED: Final = 5


def check_existing_vms(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """Yield warnings about unchanged VMs that the placement rule would reject.

    There is one per pool and reason for machines rejected by a filter, and one per hard affinity
    group with VMs at several locations.
    """
    # Copies by site id, to release one VM at a time.
    schedulers: dict[str, RackScheduler] = {}
    for vm_object in objects:
        for (pool, reason), violating_vms in _find_violating_vms(vm_object, schedulers).items():
            locations = [
                f"{vm.name} on {vm.placement.machine} ({vm.placement.rack})" for vm in violating_vms
            ]
            options = [f"-replace='{vm_object.instance.address}:{vm.name}'" for vm in violating_vms]
            yield _build_warning(
                vm_object,
                f"{pool} in {vm_object.instance.address}: {reason}. Violated by "
                f"{format_first_items(locations, _MAXIMUM_NAMED)}. Rules do not move existing "
                "VMs. To re-place: "
                f"{format_first_items(options, _MAXIMUM_NAMED, ' ')}.",
            )
        yield from _check_affinity_groups(vm_object)


def _find_violating_vms(
    vm_object: VmObject, schedulers: dict[str, RackScheduler]
) -> dict[tuple[str, str], list[PlacedVm]]:
    """Return the unchanged VMs on a machine rejected by a filter, by pool and reason.

    A VM is released in a copy of the scheduler of its site. The filters decide about its
    own machine as for a new VM, and then the VM is added again. `schedulers` keeps the
    copies by site id.
    """
    violations: dict[tuple[str, str], list[PlacedVm]] = {}
    demand = vm_object.request.demand
    pools = index_pools(vm_object.pools)
    for key in vm_object.request.actions.unchanged:
        pool_name, _ = key
        # Its machine or pool is missing.
        if key not in vm_object.placements.reservations or pool_name not in pools:
            continue
        # The handle of its capacity at the scheduler.
        site, handle = vm_object.placements.reservations[key]
        if site.id not in schedulers:
            schedulers[site.id] = site.scheduler.copy()
        scheduler = schedulers[site.id]
        vm = vm_object.placements.vms[key]
        pool = pools[pool_name]
        # Those with a located target.
        hints = tuple(hint for hint in pool.hints if hint.racks)
        constraints = replace(pool.constraints, hints=hints)
        vm_demand = build_demand(demand, replace(pool, constraints=constraints), vm.number)
        # Its own capacity and location must not count.
        scheduler.release(handle)
        for rule, reason in scheduler.list_rejections(vm.placement.machine, vm_demand):
            # An existing VM has its capacity, and its machine need not accept new VMs: only
            # other filters count.
            if not isinstance(rule, (MachineFilter, CapacityFilter)):
                violations.setdefault((pool.pool, reason), []).append(vm)
        scheduler.add_existing(vm_demand.vm, vm_demand.sku, vm.placement)
    return violations


def _check_affinity_groups(vm_object: VmObject) -> Iterator[Diagnostic]:
    """Yield warnings for hard affinity groups with VMs at several locations."""
    for group in vm_object.placement_groups:
        # Only hard affinity needs one location.
        if not group.is_affinity or not group.is_hard:
            continue
        placements = [
            vm.placement for vm in vm_object.placements.vms.values() if vm.pool in group.pools
        ]
        locations = set(map(group.get_location, placements))
        if len(locations) > 1:
            # The prefix is for rejections of a single VM.
            name = group.name.removeprefix("the other VMs of ")
            location_text = format_first_items(sorted(locations), _MAXIMUM_NAMED)
            yield _build_warning(
                vm_object,
                f"{name} keeps its VMs on one {group.scope}, but they run on {location_text}. "
                "Rules do not move existing VMs; re-place some with -replace.",
            )


def _build_warning(vm_object: VmObject, detail: str) -> Diagnostic:
    return vm_object.instance.build_diagnostic(Problem((), VIOLATES_RULE, detail, Severity.WARNING))
