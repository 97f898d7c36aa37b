"""What became of what a plan claimed of its VMs: settled by what a provider saw, and noted with their site.

Only what was seen settles a claim: a VM that nobody looked at leaves it open, and so does a step that failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.events import Outcome, StepEvent
from nexusform.demands import PlacedVm
from nexusform.forecasts import COUNT_CLAIM, MACHINE_CLAIM, RACK_CLAIM, Claim, with_claims
from nexusform.placement_kinds.placement_kind import VM
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable, Plan, Step
from nexusform.ports import ResourceType
from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.journal import Done
from nexusform.state.objects import InstanceState, State
from nexusform.words import counted, form

_SITE: Final = "nexus_site"
_PLACES: Final = frozenset({PlacementAction.PLACE, PlacementAction.MOVE})


class _PoolId(NamedTuple):
    """A pool as plans name it."""

    site_id: str
    cluster: str
    pool: str


class _Landing(Struct, frozen=True):
    """A VM that the plan places: where and how surely, and where it was seen, None where it was not."""

    row: PlacementChange
    target: Placement
    shares: Certainty
    seen: Placement | None


def settled_claims(
    plan: Plan, done: Collection[str], state: State, types: Mapping[str, ResourceType]
) -> dict[str, list[Claim]]:
    """The claims that the objects at these addresses settle, by the id of their site."""
    standing: dict[Address, Mapping[tuple[str, int | str], PlacedVm]] = {}
    pools: dict[_PoolId, list[_Landing]] = {}
    for row in plan.placements:
        if row.kind != VM or row.action not in _PLACES or str(row.address) not in done:
            continue
        if row.certainty is None or not isinstance(row.target, Placement):
            continue
        if row.address not in standing:
            standing[row.address] = _standing(row.address, state, types)
        vm = standing[row.address].get((row.pool, row.number))
        seen = vm.placement if vm is not None and vm.provenance == "observed" else None
        pool = _PoolId(row.site_id, row.cluster, row.pool)
        pools.setdefault(pool, []).append(_Landing(row, row.target, row.certainty, seen))
    tables = {_PoolId(table.site_id, table.cluster, table.pool): table for table in plan.placement_tables}
    claims: dict[str, list[Claim]] = {}
    for pool, landings in pools.items():
        claims.setdefault(pool.site_id, []).extend(_claims_of(pool, landings, tables.get(pool)))
    return {site_id: of_site for site_id, of_site in claims.items() if of_site}


def addresses_done(ends: Iterable[StepEvent], plan: Plan, earlier: Iterable[Step] = ()) -> frozenset[str]:
    """The addresses all of whose steps were done, by this run or, where that could not say so, an earlier
    one.
    """
    outcomes = [(end.address, end.outcome is Outcome.DONE) for end in ends]
    done = {address for address, is_done in outcomes if is_done}
    done |= {str(plan.changes[step.change].address) for step in earlier}
    return frozenset(done - {address for address, is_done in outcomes if not is_done})


def _standing(
    address: Address, state: State, types: Mapping[str, ResourceType]
) -> dict[tuple[str, int | str], PlacedVm]:
    """The VMs of an object as state has them now."""
    instance, kind = state.instances.get(address), types.get(address.type)
    if instance is None or instance.current is None or kind is None or kind.vms is None:
        return {}
    return {(vm.pool, vm.number): vm for vm in kind.vms.standing(instance.current.attributes)}


def _claims_of(pool: _PoolId, landings: Sequence[_Landing], table: PlacementTable | None) -> Iterator[Claim]:
    """What is settled of a pool: each VM's rack and machine, and once all were seen, how many came to each
    rack.
    """
    seen = [(landing, landing.seen) for landing in landings if landing.seen is not None]
    yield from _claims_of_vms(seen, table)
    if len(seen) == len(landings):
        racks = Counter(place.rack for _, place in seen)
        yield from _claims_of_racks(pool, landings, racks, table)


def _claims_of_vms(
    seen: Sequence[tuple[_Landing, Placement]], table: PlacementTable | None
) -> Iterator[Claim]:
    """The claims on single VMs. Those of a pool are alike, so what stands on a machine counts for the one
    that was most sure to come there. What was drawn (cells that nobody told) was not told as certain.
    """
    racks = Counter(place.rack for _, place in seen)
    machines = Counter(place.machine for _, place in seen)
    for landing, place in sorted(seen, key=lambda one: (-one[0].shares.machine, -one[0].shares.rack)):
        shares, target = landing.shares, landing.target
        measured = shares.measured or (None, None, None)
        of_rack, of_machine, _ = (1 / max(number, 1) for number in shares.tied)
        is_sure = shares.machine >= 1 and table is not None and table.machines_certain > 0
        words = f"{landing.row.object} was sure to stand on {target.machine}, and stands on {place.machine}"
        in_rack, on_machine = _taken(racks, target.rack), _taken(machines, target.machine)
        yield Claim(RACK_CLAIM, shares.rack, of_rack, in_rack, measured[0])
        yield Claim(MACHINE_CLAIM, shares.machine, of_machine, on_machine, measured[1], is_sure, words)


def _taken(counts: Counter[str], name: str) -> bool:
    """Whether one of those that stand there is left to count for a claim; it is taken."""
    counts[name] -= 1
    return counts[name] >= 0


def _claims_of_racks(
    pool: _PoolId, landings: Sequence[_Landing], counts: Mapping[str, int], table: PlacementTable | None
) -> Iterator[Claim]:
    """For each rack of a pool, how many of its VMs come there."""
    foretold = Counter(landing.target.rack for landing in landings)
    shares_of = {landing.target.rack: landing.shares for landing in landings}
    for rack, number in foretold.items():
        shares, landed = shares_of[rack], counts.get(rack, 0)
        measured = shares.measured[2] if shares.measured else None
        is_sure = shares.rack_count >= 1 and table is not None and rack in table.counts_certain
        words = (
            f"{counted(number, 'new VM')} of {pool.cluster}/{pool.pool} {form(number, 'was', 'were')} sure "
            f"to stand on rack {rack}, and {landed} {form(landed, 'does', 'do')}"
        )
        chance = 1 / max(shares.tied[2], 1)
        yield Claim(COUNT_CLAIM, shares.rack_count, chance, landed == number, measured, is_sure, words)


def records_of_claims(claims: Mapping[str, Sequence[Claim]], state: State) -> Iterator[Done]:
    """What the journal takes for sites to remember what was settled; nothing else of them changes."""
    for address, instance in state.instances.items():
        current = instance.current
        if address.type != _SITE or current is None:
            continue
        of_site = claims.get(str(current.attributes.get("id")))
        if of_site:
            noted = replace(current, private=with_claims(current.private, of_site))
            yield Done(address, current.creation, InstanceState(noted, instance.deposed))
