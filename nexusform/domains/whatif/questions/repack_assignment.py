"""Assignment of re-created VMs to slots without crowding a rack with one pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nexusform.domains.whatif.questions.repack_context import MovableVm, RepackContext, RepackMachine
from nexusform.domains.whatif.questions.repack_program import LinearProgram, ProgramColumn, SolverLimits, run_solver

Slot = tuple[int, RepackMachine]
_OWN_MACHINE_COST: Final = 1.0
_CROWDING_COST: Final = 1_000.0
_UNASSIGNED_COST: Final = 100_000.0


def assign_machines(
    context: RepackContext, sources: Sequence[MovableVm], slots: Sequence[Slot], size_of: Sequence[int]
) -> tuple[dict[int, str], frozenset[int]]:
    """Assign a machine to every VM, by handle; return pools that crowd a rack in any case."""
    slot_counts = Counter((size, host.machine.name) for size, host in slots)
    hosts = {host.machine.name: host for _, host in slots}
    existing = Counter(context.existing)
    for source in sources:
        existing[source.pool, source.vm.placement.rack] -= 1
    program = LinearProgram()
    for source in sources:
        row = program.add_row(("vm", source.handle), 1.0, 1.0)
        program.add_column(_UNASSIGNED_COST, 1.0, [(row, 1.0)], None)
        for (size, name), count in slot_counts.items():
            host = hosts[name]
            if size != size_of[source.vm_class] or source.vm_class not in host.admitted:
                continue
            pool_rack = source.pool, host.machine.rack
            capacity = max(context.limits[source.pool], context.existing.get(pool_rack, 0)) - existing[pool_rack]
            entries = [
                (row, 1.0),
                (program.add_row(("slot", size, name), upper=float(count)), 1.0),
                (program.add_row(("rack", *pool_rack), upper=float(max(capacity, 0))), 1.0),
            ]
            cost = _OWN_MACHINE_COST if name == source.vm.placement.machine else 0.0
            program.add_column(cost, 1.0, entries, (source, name))
    for key, row in program.names.items():
        if isinstance(key, tuple) and key[0] == "rack":
            program.add_column(_CROWDING_COST, float(len(sources)), [(row, -1.0)], key[1])
    return _read_assignment(
        program.columns, run_solver(program.columns, program.lower, program.upper, SolverLimits()).values
    )


def _read_assignment(
    columns: Sequence[ProgramColumn], values: Sequence[int] | None
) -> tuple[dict[int, str], frozenset[int]]:
    """Read the assignment and the crowding pools from the solution."""
    targets: dict[int, str] = {}
    crowded: set[int] = set()
    for column, value in zip(columns, values or (), strict=False):
        if not value:
            continue
        match column.subject:
            case (MovableVm() as source, str() as name):
                targets[source.handle] = name
            case int() as pool:
                crowded.add(pool)
    return targets, frozenset(crowded)
