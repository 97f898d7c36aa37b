"""The profile applied rule by rule to every machine: slow, and able to say why.

`explain` decides the same as the engine (a test holds them together), so what it says is what the
engine did.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.explanation import Explanation, Left, Ranked
from nexusform.scheduling.racks.faces import Host, KeyPart, RackUse
from nexusform.scheduling.racks.ledger import Ledger, Tally
from nexusform.scheduling.racks.model import Demand, Placement, RackSpread
from nexusform.scheduling.racks.rules import cells
from nexusform.scheduling.racks.rules.tie_break import digest
from nexusform.scheduling.racks.shortage import find_shortage

_EMPTY = Tally({}, {}, {})


def explain(ledger: Ledger, demand: Demand, spread: RackSpread, seed: int) -> Explanation:
    """Every step of one decision; changes nothing."""
    hosts = [host_of(ledger, demand, number) for number in range(len(ledger.site.machines))]
    left, filters, refusals = _filtered(demand, hosts)
    if not left:
        return Explanation(
            demand, seed, len(hosts), filters, (), (), (), refusals, None, find_shortage(ledger, demand)
        )
    racks = _ranked(
        [
            (name, tuple(key(demand, rack_of(ledger, demand, name)) for key in profile.RACK_KEYS[spread]))
            for name in dict.fromkeys(host.machine.rack for host in left)
        ],
        demand,
        seed,
    )
    machines = _ranked(
        [
            (host.machine.name, tuple(key(demand, host) for key in profile.MACHINE_KEYS))
            for host in left
            if host.machine.rack == racks[0].name
        ],
        demand,
        seed,
    )
    chosen = hosts[ledger.site.index[machines[0].name]]
    fitting = cells.fitting(demand, chosen)
    facts = chosen.machine
    taken = tuple(sorted(fitting[: demand.sku.numa_cells]))
    placement = Placement(facts.name, facts.rack, facts.availability_zone, taken)
    return Explanation(demand, seed, len(hosts), filters, racks, machines, fitting, refusals, placement)


def host_of(ledger: Ledger, demand: Demand, number: int) -> Host:
    """A machine as it stands for one demand."""
    room, owner, pool = ledger.site.rooms.room(ledger.rooms[number]), demand.vm.owner, demand.vm.pool
    return Host(
        machine=ledger.site.machines[number],
        free_cpus=tuple(max(figure, 0) for figure in room[2::2]),
        free_memory=tuple(max(figure, 0) for figure in room[3::2]),
        free_disk=max(room[1], 0),
        memory_used=ledger.memory[number],
        cluster_vms=ledger.clusters.get(owner, _EMPTY).machines.get(number, 0),
        pool_vms=ledger.pools.get((owner, pool), _EMPTY).machines.get(number, 0),
        houses_other_extra_large=ledger.houses_other_extra_large(number, owner),
    )


def rack_of(ledger: Ledger, demand: Demand, name: str) -> RackUse:
    """A rack as it stands for one demand."""
    number, owner, pool = ledger.site.rack_index[name], demand.vm.owner, demand.vm.pool
    return RackUse(
        name=name,
        vms=ledger.rack_vms[number],
        memory_used=ledger.rack_memory[number],
        cluster_vms=ledger.clusters.get(owner, _EMPTY).racks.get(number, 0),
        pool_vms=ledger.pools.get((owner, pool), _EMPTY).racks.get(number, 0),
    )


def _filtered(
    demand: Demand, hosts: Sequence[Host]
) -> tuple[list[Host], tuple[Left, ...], tuple[Refusal, ...]]:
    left, counts, refusals = list(hosts), [], []
    for rule, refuse in profile.FILTERS:
        passed = []
        for host in left:
            reason = refuse(demand, host)
            if reason is None:
                passed.append(host)
            else:
                refusals.append(Refusal(host.machine.name, rule, reason))
        left = passed
        counts.append(Left(rule, len(left)))
    others = [host for host in left if host.machine.name != demand.last_resort]
    if others and len(others) < len(left):
        reason = "its present machine is tried last"
        refusals.append(Refusal(demand.last_resort or "", "last_resort", reason))
        left = others
        counts.append(Left("last_resort", len(left)))
    return left, tuple(counts), tuple(refusals)


def _ranked(
    candidates: list[tuple[str, tuple[KeyPart, ...]]], demand: Demand, seed: int
) -> tuple[Ranked, ...]:
    """Best first; whoever ties with the best carries a digest."""

    def values(keys: tuple[KeyPart, ...]) -> tuple[int, ...]:
        return tuple(part.value for part in keys)

    order = sorted((values(keys), digest(seed, demand.vm, name), name, keys) for name, keys in candidates)
    tie = len(order) > 1 and order[0][0] == order[1][0]
    return tuple(
        Ranked(name, keys, digest=mark.hex() if tie and figures == order[0][0] else "")
        for figures, mark, name, keys in order
    )
