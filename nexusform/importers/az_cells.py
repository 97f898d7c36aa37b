"""From "this VM stands on that machine" to a placement with NUMA cells.

Azure does not report cells. They are inferred by step 5 of the placement rule (the fitting cells
with the least free memory, then the lowest index), in order of name; every cell that comes out of
here is an inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.importers.arm import id_key, name_of
from nexusform.importers.az_model import (
    AzMachine,
    AzNode,
    AzPlacement,
    AzRack,
    AzShape,
    AzVirtualMachine,
)
from nexusform.importers.az_workloads import ListedVm
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Machine, MachineSku, Placement, VmName, VmSku


def place(
    listed: Iterable[ListedVm],
    machines: Mapping[str, AzMachine],
    racks: Mapping[str, AzRack],
    machine_skus: Mapping[str, MachineSku],
) -> list[AzNode | AzVirtualMachine]:
    """The VMs with their placements and their number of cells, in order of name.

    `machines` by id key, `racks` by id key. A VM on a machine that the export does not list is
    reported and gets no placement.
    """
    zones = {rack.name: rack.availability_zone for rack in racks.values()}
    scheduler = RackScheduler(_scheduler_machines(machines.values(), zones, machine_skus))
    known = {machine.name: machine for machine in scheduler.machines}
    loads: dict[str, AzShape] = {}
    placed: list[AzNode | AzVirtualMachine] = []
    for number, one in enumerate(sorted(listed, key=_order)):
        machine = _machine_of(one, machines)
        if machine is None:
            placed.append(one.vm)
            continue
        hardware = known.get(machine.name)
        shape = _spanning(one.vm.shape, hardware)
        cells: tuple[int, ...] = ()
        if hardware is not None:
            sku = VmSku(
                f"{shape}", shape.cpu_cores, 0, shape.memory_gib, shape.disk_gib, max(shape.numa_cells, 1)
            )
            cells = scheduler.infer_cells(sku, machine.name)
            place_there = Placement(machine.name, machine.rack, hardware.availability_zone, cells)
            scheduler.occupy(VmName("inventory", "inventory", "inventory", number), sku, place_there)
            _add_load(loads, one, shape, hardware)
        placement = AzPlacement(machine.name, machine.rack, zones.get(machine.rack), cells)
        placed.append(replace(one.vm, shape=shape, placement=placement))
    return placed


def _order(one: ListedVm) -> tuple[str, str, str]:
    owner = one.vm.cluster if isinstance(one.vm, AzNode) else ""
    return (one.vm.name, owner, one.machine_id)


def _scheduler_machines(
    machines: Iterable[AzMachine], zones: Mapping[str, str | None], machine_skus: Mapping[str, MachineSku]
) -> list[Machine]:
    machines_of_racks = []
    for machine in sorted(machines, key=lambda m: m.name):
        sku = machine_skus.get(machine.machine_sku or "")
        if sku is not None:
            machines_of_racks.append(
                Machine(
                    machine.name,
                    machine.rack,
                    zones.get(machine.rack) or machine.rack,
                    machine.slot,
                    None,
                    sku.cells,
                    sku.cpus_per_cell,
                    sku.memory_gib_per_cell,
                    sku.disk_gib,
                )
            )
    return machines_of_racks


def _machine_of(one: ListedVm, machines: Mapping[str, AzMachine]) -> AzMachine | None:
    if not one.machine_id:
        return None
    machine = machines.get(id_key(one.machine_id))
    if machine is None:
        one.item.report(
            "bareMetalMachineId",
            "unknown-machine",
            f'"{one.vm.name}" stands on the machine "{name_of(one.machine_id)}", which the list of machines '
            "does not have. Capture both lists again, at one time.",
            Severity.WARNING,
        )
    return machine


def _spanning(shape: AzShape, hardware: Machine | None) -> AzShape:
    """The shape with as many cells as it needs at least: a VM larger than one cell spans several."""
    if hardware is None:
        return shape
    cells = max(shape.numa_cells, 1)
    while cells < hardware.cells and (
        -(-shape.cpu_cores // cells) > hardware.cpus_per_cell
        or -(-shape.memory_gib // cells) > hardware.memory_gib_per_cell
    ):
        cells += 1
    return replace(shape, numa_cells=min(cells, hardware.cells))


def _add_load(loads: dict[str, AzShape], one: ListedVm, shape: AzShape, hardware: Machine) -> None:
    """Count the VM on its machine; say so once when that is more than the machine has."""
    name = hardware.name
    before = loads.get(name, AzShape(0, 0, 0, 0))
    after = AzShape(
        before.cpu_cores + shape.cpu_cores,
        before.memory_gib + shape.memory_gib,
        before.disk_gib + shape.disk_gib,
        0,
    )
    loads[name] = after
    if _overfull(after, hardware) and not _overfull(before, hardware):
        one.item.report(
            "name",
            "machine-more-than-full",
            f'the VMs on the machine "{name}" add up to {after.cpu_cores} vCPUs, {after.memory_gib} GiB of '
            f"memory and {after.disk_gib} GiB of disk, more than its hardware ({hardware.cells} x "
            f"{hardware.cpus_per_cell} vCPUs, {hardware.cells} x {hardware.memory_gib_per_cell} GiB, "
            f"{hardware.disk_gib} GiB). It counts as full. Check machine_sku_by_id.",
            Severity.WARNING,
        )


def _overfull(load: AzShape, hardware: Machine) -> bool:
    return (
        load.cpu_cores > hardware.cells * hardware.cpus_per_cell
        or load.memory_gib > hardware.cells * hardware.memory_gib_per_cell
        or load.disk_gib > hardware.disk_gib
    )
