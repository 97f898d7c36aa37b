"""Greedy choice of VMs to re-create without the solver: cheapest cells first. Used if time runs out; it has
no proof.
"""

from __future__ import annotations

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_choice import RepackChoice
from nexusform.domains.whatif.questions.repack_context import MovableVm, RepackContext, RepackMachine, RepackRequest


class _Gain(Struct, frozen=True):
    """Additional VMs of the demand on a machine if these VMs leave it."""

    host: RepackMachine
    leaving: tuple[MovableVm, ...]
    gains: int


def choose_vms_greedily(context: RepackContext, request: RepackRequest) -> RepackChoice:
    """Choose the VMs to re-create, without target machines."""
    gains = [gain for host in context.hosts if host.admits_demand for gain in _compute_gains(context, request, host)]
    gains.sort(key=lambda gain: (len(gain.leaving) / gain.gains, gain.host.machine.slot))
    selected: dict[int, MovableVm] = {}
    demanded: set[str] = set()
    missing = request.want
    for gain in gains:
        if missing <= 0:
            break
        missing -= gain.gains
        demanded.add(gain.host.machine.name)
        selected |= {source.handle: source for source in gain.leaving}
    sources = tuple(source for _, source in sorted(selected.items()))
    return RepackChoice(sources, {}, frozenset(demanded), frozenset())


def _compute_gains(context: RepackContext, request: RepackRequest, host: RepackMachine) -> list[_Gain]:
    """List the gains of a machine: by cell, or of the whole machine for multi-cell VMs or unknown cells."""
    if host.has_unknown_cells or request.sku.numa_cells > 1:
        return _compute_machine_gain(context, request, host)
    gains = [_compute_cell_gain(context, request, host, cell) for cell in range(len(host.cells))]
    return [gain for gain in gains if gain is not None]


def _compute_machine_gain(context: RepackContext, request: RepackRequest, host: RepackMachine) -> list[_Gain]:
    """Compute the gain of a machine without its movable VMs; every remaining cell counts once."""
    if host.has_unknown_cells and not host.unknown_cell_vms:
        return []
    cells = list(host.cells)
    movable = {source.handle: source for source in host.unknown_cell_vms}
    for number, sources in enumerate(host.movable_vms_by_cell):
        for source in sources:
            cells[number] = cells[number].subtract(context.kinds[source.vm_class].sku, -1)
            movable[source.handle] = source
    gains = sum(cell.has_capacity(request.sku) for cell in cells) // request.sku.numa_cells
    return [_Gain(host, tuple(movable.values()), gains)] if gains else []


def _compute_cell_gain(context: RepackContext, request: RepackRequest, host: RepackMachine, cell: int) -> _Gain | None:
    """Compute the gain of a cell: remove the largest VMs until one VM of the demand fits."""
    free = host.cells[cell]
    leaving: list[MovableVm] = []
    narrow = [source for source in host.movable_vms_by_cell[cell] if context.kinds[source.vm_class].sku.numa_cells == 1]
    for source in sorted(narrow, key=lambda candidate: -context.kinds[candidate.vm_class].sku.memory_gib):
        if free.has_capacity(request.sku):
            break
        free = free.subtract(context.kinds[source.vm_class].sku, -1)
        leaving.append(source)
    return _Gain(host, tuple(leaving), 1) if free.has_capacity(request.sku) else None
