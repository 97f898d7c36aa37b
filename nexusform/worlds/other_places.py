"""What would have to change for a VM to stand on another machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from nexusform.scheduling.racks.rules import hints
from nexusform.scheduling.racks.vms import Demand, Machine, StandingVm, VmSku
from nexusform.worlds.world_view import SiteView, holds_when_empty, lists_hardware


class Need(StrEnum):
    """What stands in the way on a machine."""

    OPEN = "open"  # the machine must take VMs again
    HARDWARE = "hardware"  # the SKU must list its hardware
    SIZE = "size"  # a smaller SKU: it would not fit when empty
    LEAVE = "leave"  # VMs must leave
    ZONE = "zone"  # its zone must be among availability_zones
    HINT = "hint"  # a hard hint must go
    RULE = "rule"  # a rule about the VMs that stand must allow it


class Way(Struct, frozen=True):
    """One machine and everything that would have to change there; nothing = the rule ranks it lower.

    `leaving` are the fewest VMs that would have to leave; `refusal` says why the machine takes none,
    `rule` why a rule about the VMs that stand refuses it, `hint` what the first hard hint against it asks.
    """

    machine: str
    rack: str
    zone: str
    needs: tuple[Need, ...]
    leaving: tuple[str, ...] = ()
    refusal: str = ""
    rule: str = ""
    hint: str = ""


def find_ways(site: SiteView, demand: Demand, besides: str) -> tuple[Way, ...]:
    """Every machine of the site but `besides`, in site order, as things stand there now."""
    names = _names(site)
    standing: dict[str, list[StandingVm]] = {machine: [] for machine in site.machines}
    without = site.scheduler.copy()
    for vm in site.scheduler.drawn_vms():
        if vm.vm == demand.vm:
            without.release(vm.handle)
        else:
            standing[vm.placement.machine].append(vm)
    refused = without.refused_for_vms(demand)
    return tuple(
        _way(machine, demand, standing[machine.name], names, refused.get(machine.name, ""))
        for machine in site.machines.values()
        if machine.name != besides
    )


def _names(site: SiteView) -> dict[int, str]:
    """The names of the managed VMs by the scheduler's handles."""
    names: dict[int, str] = {}
    for pool in site.pools:
        names |= {handle: name for name, handle in pool.handles.items()}
    return names


def _way(
    machine: Machine, demand: Demand, standing: Sequence[StandingVm], names: Mapping[int, str], rule: str
) -> Way:
    """What would have to change for the VM to stand on this machine."""
    sku, zone = demand.sku, machine.availability_zone
    listed, large_enough = lists_hardware(sku, machine), holds_when_empty(machine, sku)
    leaving: tuple[str, ...] = ()
    if listed and large_enough:
        leaving = tuple(names.get(vm.handle, vm.vm.cluster) for vm in _leaving(machine, sku, standing))
    hint = _hint_against(machine, demand)
    in_the_way = {
        Need.OPEN: bool(machine.refusal),
        Need.HARDWARE: not listed,
        Need.SIZE: listed and not large_enough,
        Need.LEAVE: bool(leaving),
        Need.ZONE: demand.zones is not None and zone not in demand.zones,
        Need.HINT: bool(hint),
        Need.RULE: bool(rule),
    }
    needs = tuple(need for need, applies in in_the_way.items() if applies)
    return Way(
        machine=machine.name,
        rack=machine.rack,
        zone=zone,
        needs=needs,
        leaving=leaving,
        refusal=machine.refusal,
        rule=rule,
        hint=hint,
    )


def _hint_against(machine: Machine, demand: Demand) -> str:
    """What the first hard hint that forbids the machine asks; "" where none does."""
    hard = [hint for hint in demand.hints if hint.hard]
    against = (hint for hint in hard if hints.violated(hint, machine.name, machine.rack))
    return next((hints.sentence(hint) for hint in against), "")


def _leaving(machine: Machine, sku: VmSku, standing: Sequence[StandingVm]) -> list[StandingVm]:
    """The VMs to go: of the cells that need the fewest to leave, then for disk, if it is short."""
    by_cell = [_of_cell(machine, sku, standing, cell) for cell in range(machine.cells)]
    by_cell.sort(key=lambda going: (len(going), sum(vm.sku.memory_gib for vm in going)))
    chosen: dict[int, StandingVm] = {}
    for going in by_cell[: sku.numa_cells]:
        chosen |= {vm.handle: vm for vm in going}
    staying = [vm for vm in standing if vm.handle not in chosen]
    free_disk = machine.disk_gib - sum(vm.sku.disk_gib for vm in staying)
    for vm in sorted(staying, key=lambda vm: -vm.sku.disk_gib):
        if free_disk >= sku.disk_gib:
            break
        chosen[vm.handle] = vm
        free_disk += vm.sku.disk_gib
    return list(chosen.values())


def _of_cell(machine: Machine, sku: VmSku, standing: Iterable[StandingVm], cell: int) -> list[StandingVm]:
    """The VMs to go from one cell: the largest first, and none that need not."""
    in_cell = sorted(
        (vm for vm in standing if cell in vm.placement.cells),
        key=lambda vm: (-vm.sku.memory_in_cell, -vm.sku.cpus_in_cell, vm.handle),
    )
    vcpus = machine.cpus_per_cell - sum(vm.sku.cpus_in_cell for vm in in_cell) - sku.cpus_in_cell
    memory = machine.memory_gib_per_cell - sum(vm.sku.memory_in_cell for vm in in_cell) - sku.memory_in_cell
    going: list[StandingVm] = []
    for vm in in_cell:
        if vcpus >= 0 and memory >= 0:
            break
        going.append(vm)
        vcpus += vm.sku.cpus_in_cell
        memory += vm.sku.memory_in_cell
    for vm in list(going):
        if vcpus >= vm.sku.cpus_in_cell and memory >= vm.sku.memory_in_cell:
            going.remove(vm)
            vcpus -= vm.sku.cpus_in_cell
            memory -= vm.sku.memory_in_cell
    return going
