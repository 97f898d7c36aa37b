"""A choice of VMs to re-create without the solver: the cells that cost fewest, one after the other. Nothing
proves it; it is what can be said when time is over.
"""

from __future__ import annotations

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_ground import Host, RepackGround, RepackRequest, Source
from nexusform.domains.whatif.questions.repack_moves import Intention


class _Room(Struct, frozen=True):
    """What a machine gains for the demand when these VMs leave it."""

    host: Host
    leaving: tuple[Source, ...]
    gains: int


def choose_by_cost(ground: RepackGround, request: RepackRequest) -> Intention:
    """The VMs to re-create, and no places: the rule finds these."""
    rooms = [room for host in ground.hosts if host.demanded for room in _rooms(ground, request, host)]
    rooms.sort(key=lambda room: (len(room.leaving) / room.gains, room.host.machine.slot))
    chosen: dict[int, Source] = {}
    demanded: set[str] = set()
    missing = request.want
    for room in rooms:
        if missing <= 0:
            break
        missing -= room.gains
        demanded.add(room.host.machine.name)
        chosen |= {source.handle: source for source in room.leaving}
    sources = tuple(source for _, source in sorted(chosen.items()))
    return Intention(sources, {}, frozenset(demanded), frozenset())


def _rooms(ground: RepackGround, request: RepackRequest, host: Host) -> list[_Room]:
    """Its rooms: cell by cell, or the whole machine where VMs take several cells or theirs are not known."""
    if host.unknown or request.sku.numa_cells > 1:
        return _whole(ground, request, host)
    rooms = [_cell(ground, request, host, cell) for cell in range(len(host.cells))]
    return [room for room in rooms if room is not None]


def _whole(ground: RepackGround, request: RepackRequest, host: Host) -> list[_Room]:
    """The machine without anybody who may go. Of what is left every cell counts once."""
    if host.unknown and not host.loose:
        return []
    cells = list(host.cells)
    everybody = {source.handle: source for source in host.loose}
    for number, sources in enumerate(host.sources):
        for source in sources:
            cells[number] = cells[number].without(ground.kinds[source.kind].sku, -1)
            everybody[source.handle] = source
    gains = sum(cell.takes(request.sku) for cell in cells) // request.sku.numa_cells
    return [_Room(host, tuple(everybody.values()), gains)] if gains else []


def _cell(ground: RepackGround, request: RepackRequest, host: Host, cell: int) -> _Room | None:
    """As many of its VMs as one VM of the demand needs, the largest first."""
    free = host.cells[cell]
    leaving: list[Source] = []
    narrow = [source for source in host.sources[cell] if ground.kinds[source.kind].sku.numa_cells == 1]
    for source in sorted(narrow, key=lambda one: -ground.kinds[one.kind].sku.memory_gib):
        if free.takes(request.sku):
            break
        free = free.without(ground.kinds[source.kind].sku, -1)
        leaving.append(source)
    return _Room(host, tuple(leaving), 1) if free.takes(request.sku) else None
