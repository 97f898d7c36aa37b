"""Changes needed to place a VM on another machine."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct

from nexusform.scheduling.racks.rules import hints
from nexusform.scheduling.racks.vms import Demand, Machine, ScheduledVm, VmSku
from nexusform.snapshots.snapshot import SiteSnapshot, is_large_enough, supports_machine_hardware


class MachineObstacle(StrEnum):
    """Obstacle on a machine."""

    # The machine must take VMs again.
    OPEN = "open"
    # The SKU must list its hardware.
    HARDWARE = "hardware"
    # A smaller SKU: the VM would not fit on the empty machine.
    SIZE = "size"
    # VMs must be removed.
    LEAVE = "leave"
    # Its zone must be among availability_zones.
    ZONE = "zone"
    # A hard hint must be removed.
    HINT = "hint"
    # A rule about existing VMs must allow it.
    RULE = "rule"


class MachineAlternative(Struct, frozen=True):
    """One machine and all needed changes; none = the rule ranks it lower.

    `removed_vms` is the smallest set of VMs to remove; `unschedulable_reason` is the reason that
    the machine takes no VM, `rule` that of a rule about existing VMs, `hint` describes the first
    hard hint against it.
    """

    machine: str
    rack: str
    zone: str
    requirements: tuple[MachineObstacle, ...]
    removed_vms: tuple[str, ...] = ()
    unschedulable_reason: str = ""
    rule: str = ""
    hint: str = ""


def list_alternative_machines(
    site: SiteSnapshot, demand: Demand, excluded: str
) -> tuple[MachineAlternative, ...]:
    """Return the machines of a site with the current reasons against `demand`.

    They are in site order, without `excluded`.
    """
    names: dict[int, str] = {}  # by handle
    for pool in site.pools:
        names |= {handle: name for name, handle in pool.handles.items()}
    vms_by_machine: dict[str, list[ScheduledVm]] = {machine: [] for machine in site.machines}
    scheduler = site.scheduler.copy()
    for vm in site.scheduler.list_sampled_vms():
        # The VM itself leaves its machine.
        if vm.vm == demand.vm:
            scheduler.release(vm.handle)
        else:
            vms_by_machine[vm.placement.machine].append(vm)
    rejections = scheduler.find_rejections_by_vms(demand)
    return tuple(
        _build_alternative(
            machine, demand, vms_by_machine[machine.name], names, rejections.get(machine.name, "")
        )
        for machine in site.machines.values()
        if machine.name != excluded
    )


def _build_alternative(
    machine: Machine,
    demand: Demand,
    vms: Sequence[ScheduledVm],
    names: Mapping[int, str],
    rule: str,
) -> MachineAlternative:
    """Return the changes needed to place a VM on a machine.

    `vms` are the other VMs there, `names` the names of VMs by handle. `rule` describes the rule
    rejecting the machine because of existing VMs, "" if there is none.
    """
    sku = demand.sku
    zone = machine.availability_zone
    is_supported = supports_machine_hardware(sku, machine)
    is_size_sufficient = is_large_enough(machine, sku)
    # By name; VMs without a name by their cluster.
    removed_vms: tuple[str, ...] = ()
    if is_supported and is_size_sufficient:
        removed_vms = tuple(
            names.get(vm.handle, vm.vm.cluster) for vm in _select_removed_vms(machine, sku, vms)
        )
    # Requirement of the first hard hint against the machine.
    hint_text = ""
    for hint in demand.hints:
        if (
            hint.is_hard
            and not hint_text
            and hints.is_hint_violated(hint, machine.name, machine.rack)
        ):
            hint_text = hints.describe_hint_requirement(hint)
    # Each has the name of the remedy: OPEN applies to a machine closed to new VMs.
    obstacles = {
        MachineObstacle.OPEN: bool(machine.unschedulable_reason),
        MachineObstacle.HARDWARE: not is_supported,
        MachineObstacle.SIZE: is_supported and not is_size_sufficient,
        MachineObstacle.LEAVE: bool(removed_vms),
        MachineObstacle.ZONE: demand.zones is not None and zone not in demand.zones,
        MachineObstacle.HINT: bool(hint_text),
        MachineObstacle.RULE: bool(rule),
    }
    requirements = tuple(requirement for requirement, applies in obstacles.items() if applies)
    return MachineAlternative(
        machine=machine.name,
        rack=machine.rack,
        zone=zone,
        requirements=requirements,
        removed_vms=removed_vms,
        unschedulable_reason=machine.unschedulable_reason,
        rule=rule,
        hint=hint_text,
    )


def _select_removed_vms(
    machine: Machine, sku: VmSku, vms: Sequence[ScheduledVm]
) -> list[ScheduledVm]:
    """Return the VMs to remove for a VM of `sku`.

    They are those of the NUMA cells with the fewest removals, and more for disk.
    """
    # The VMs to remove from each cell, cells with the fewest first; for equal numbers those with
    # the least memory.
    by_cell = [_select_vms_from_cell(machine, sku, vms, cell) for cell in range(machine.cells)]
    by_cell.sort(key=lambda removals: (len(removals), sum(vm.sku.memory_gib for vm in removals)))
    cheapest_removals = chain.from_iterable(by_cell[: sku.numa_cells])
    # A VM may be in two cells.
    selected = {vm.handle: vm for vm in cheapest_removals}
    # If the disk is still short, remove the VMs with the largest disks, until it is sufficient.
    remaining = [vm for vm in vms if vm.handle not in selected]
    free_disk = machine.disk_gib - sum(vm.sku.disk_gib for vm in remaining)
    for vm in sorted(remaining, key=lambda vm: -vm.sku.disk_gib):
        if free_disk >= sku.disk_gib:
            break
        selected[vm.handle] = vm
        free_disk += vm.sku.disk_gib
    return list(selected.values())


def _select_vms_from_cell(
    machine: Machine, sku: VmSku, vms: Iterable[ScheduledVm], cell: int
) -> list[ScheduledVm]:
    """Return the VMs to remove from one cell for a VM of `sku`.

    The largest are removed first, and none without need.
    """
    in_cell = sorted(
        (vm for vm in vms if cell in vm.placement.cells),
        key=lambda vm: (-vm.sku.memory_in_cell, -vm.sku.cpus_in_cell, vm.handle),
    )
    # Left over in the cell with the new VM; negative if short.
    spare_vcpus = (
        machine.cpus_per_cell - sum(vm.sku.cpus_in_cell for vm in in_cell) - sku.cpus_in_cell
    )
    spare_memory = (
        machine.memory_gib_per_cell
        - sum(vm.sku.memory_in_cell for vm in in_cell)
        - sku.memory_in_cell
    )
    removals: list[ScheduledVm] = []
    for vm in in_cell:
        if spare_vcpus >= 0 and spare_memory >= 0:
            break
        removals.append(vm)
        spare_vcpus += vm.sku.cpus_in_cell
        spare_memory += vm.sku.memory_in_cell
    # A later removal may make an earlier one unnecessary.
    for vm in list(removals):
        if spare_vcpus >= vm.sku.cpus_in_cell and spare_memory >= vm.sku.memory_in_cell:
            removals.remove(vm)
            spare_vcpus -= vm.sku.cpus_in_cell
            spare_memory -= vm.sku.memory_in_cell
    return removals
