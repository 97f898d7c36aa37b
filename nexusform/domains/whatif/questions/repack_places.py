"""A place for every VM that is re-created: rooms are given out so that no rack gets too many of a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nexusform.domains.whatif.questions.repack_ground import Host, RepackGround, Source
from nexusform.domains.whatif.questions.repack_program import Column, Limits, Program, solve

Slot = tuple[int, Host]
_OWN_MACHINE: Final = 1.0
_CROWDED: Final = 1_000.0
_NOWHERE: Final = 100_000.0


def assign(
    ground: RepackGround, sources: Sequence[Source], slots: Sequence[Slot], size_of: Sequence[int]
) -> tuple[dict[int, str], frozenset[int]]:
    """The machine of every VM, by handle, and the pools of which a rack gets too many whatever is done."""
    rooms = Counter((size, host.machine.name) for size, host in slots)
    hosts = {host.machine.name: host for _, host in slots}
    standing = Counter(ground.standing)
    for source in sources:
        standing[source.pool, source.vm.placement.rack] -= 1
    program = Program()
    for source in sources:
        row = program.row(("vm", source.handle), 1.0, 1.0)
        program.column(_NOWHERE, 1.0, [(row, 1.0)], None)
        for (size, name), count in rooms.items():
            host = hosts[name]
            if size != size_of[source.kind] or source.kind not in host.admits:
                continue
            at = source.pool, host.machine.rack
            room = max(ground.limits[source.pool], ground.standing.get(at, 0)) - standing[at]
            entries = [
                (row, 1.0),
                (program.row(("slot", size, name), upper=float(count)), 1.0),
                (program.row(("rack", *at), upper=float(max(room, 0))), 1.0),
            ]
            cost = _OWN_MACHINE if name == source.vm.placement.machine else 0.0
            program.column(cost, 1.0, entries, (source, name))
    for key, row in program.names.items():
        if isinstance(key, tuple) and key[0] == "rack":
            program.column(_CROWDED, float(len(sources)), [(row, -1.0)], key[1])
    return _read(program.columns, solve(program.columns, program.lower, program.upper, Limits()).values)


def _read(columns: Sequence[Column], values: Sequence[int] | None) -> tuple[dict[int, str], frozenset[int]]:
    """The places, and the pools for which a rack had to take more."""
    targets: dict[int, str] = {}
    crowded: set[int] = set()
    for column, value in zip(columns, values or (), strict=False):
        if not value:
            continue
        match column.about:
            case (Source() as source, str() as name):
                targets[source.handle] = name
            case int() as pool:
                crowded.add(pool)
    return targets, frozenset(crowded)
