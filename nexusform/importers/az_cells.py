"""From "this VM stands on that machine's ARM id" to a placement, and what machines hold in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.importers.arm import id_key, name_of
from nexusform.importers.az_model import AzMachine, AzNode, AzPlacement, AzRack, AzShape, AzVirtualMachine
from nexusform.importers.az_workloads import ListedVm
from nexusform.scheduling.racks.vms import MachineSku
from nexusform.words import counted, first_of, form

WITHOUT_A_MACHINE: Final = "vms-without-a-machine"
_MOST_NAMED: Final = 5


def place(
    listed: Iterable[ListedVm],
    machines: Mapping[str, AzMachine],
    racks: Iterable[AzRack],
    machine_skus: Mapping[str, MachineSku],
    *,
    judges_machines: bool = True,
) -> list[AzNode | AzVirtualMachine]:
    """The VMs with their placements and the number of cells that they span, in order of name.

    `machines` by id key. A VM on a machine that the export does not list gets no placement; it is
    reported where the machines were read at all (`judges_machines`). VMs without a machine are counted.
    """
    zones = {rack.name: rack.availability_zone for rack in racks}
    loads: dict[str, AzShape] = {}
    homeless: list[ListedVm] = []
    placed: list[AzNode | AzVirtualMachine] = []
    largest = _largest(machines.values(), machine_skus)
    for one in sorted(listed, key=_order):
        machine = machines.get(id_key(one.machine_id)) if one.machine_id else None
        if machine is None:
            if not one.machine_id:
                homeless.append(one)
            elif judges_machines:
                _report_unknown_machine(one)
            placed.append(replace(one.vm, shape=_spanning(one.vm.shape, largest)))
            continue
        hardware = machine_skus.get(machine.machine_sku or "", machine.hardware)
        shape = _spanning(one.vm.shape, hardware)
        if hardware is not None:
            _add_load(loads, one, shape, machine.name, hardware)
        placement = AzPlacement(machine.name, machine.rack, zones.get(machine.rack))
        placed.append(replace(one.vm, shape=shape, placement=placement))
    _report_homeless(homeless)
    return placed


def _largest(machines: Iterable[AzMachine], machine_skus: Mapping[str, MachineSku]) -> MachineSku | None:
    """The hardware with the largest cells: what a VM without a machine fits, if anything."""
    known = (machine_skus.get(machine.machine_sku or "", machine.hardware) for machine in machines)
    sizes = [hardware for hardware in known if hardware is not None]
    return max(sizes, key=lambda one: (one.cpus_per_cell, one.memory_gib_per_cell), default=None)


def _order(one: ListedVm) -> tuple[str, str, str]:
    owner = one.vm.cluster if isinstance(one.vm, AzNode) else ""
    return (one.vm.name, owner, one.machine_id)


def _report_unknown_machine(one: ListedVm) -> None:
    one.item.report(
        "bareMetalMachineId",
        "unknown-machine",
        f'"{one.vm.name}" stands on the machine "{name_of(one.machine_id)}", which the list of machines '
        "does not have. Capture both lists again, at one time.",
        Severity.WARNING,
    )


def _report_homeless(vms: Sequence[ListedVm]) -> None:
    """Say once how many stand on no machine."""
    if not vms:
        return
    names = first_of([one.vm.name for one in vms], _MOST_NAMED)
    vms[0].item.report(
        "bareMetalMachineId",
        WITHOUT_A_MACHINE,
        f"{counted(len(vms), 'VM')} of the export {form(len(vms), 'is', 'are')} on no machine: {names}. The "
        "room that they take, or will take, is not counted.",
        Severity.WARNING,
    )


def _spanning(shape: AzShape, hardware: MachineSku | None) -> AzShape:
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


def _add_load(
    loads: dict[str, AzShape], one: ListedVm, shape: AzShape, name: str, hardware: MachineSku
) -> None:
    """Count the VM on its machine; say so once when that is more than the machine has."""
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


def _overfull(load: AzShape, hardware: MachineSku) -> bool:
    return (
        load.cpu_cores > hardware.cells * hardware.cpus_per_cell
        or load.memory_gib > hardware.cells * hardware.memory_gib_per_cell
        or load.disk_gib > hardware.disk_gib
    )
