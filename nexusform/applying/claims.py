"""What became of what a plan claimed of its VMs: settled by what a provider saw, and noted with their site.

Only what was seen settles a claim: a step that failed settles nothing. What nobody looked at stays open with
its object (`open_claims` in its private note), until an apply or `reconcile` sees all VMs of that pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.events import Outcome, StepEvent
from nexusform.applying.open_claims import Landing, OpenClaims, open_claims, with_open_claims
from nexusform.demands import OBSERVED, PlacedVm
from nexusform.forecasts import COUNT_CLAIM, MACHINE_CLAIM, RACK_CLAIM, Claim, with_claims
from nexusform.placement_kinds.kinds import VM
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable, Plan, Step
from nexusform.ports import ResourceType
from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.journal import Done
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.words import counted, form

_SITE: Final = "nexus_site"
_PLACES: Final = frozenset({PlacementAction.PLACE, PlacementAction.MOVE})


class _PoolId(NamedTuple):
    """A pool as plans name it."""

    site_id: str
    cluster: str
    pool: str


class Settlement(Struct, frozen=True):
    """What became of claims: those that are settled, by the id of their site, and what stays open of objects
    whose open claims changed, by address.
    """

    claims: Mapping[str, Sequence[Claim]]
    still_open: Mapping[Address, OpenClaims]


def settle_claims(
    plan: Plan, done: Collection[str], state: State, types: Mapping[str, ResourceType]
) -> Settlement:
    """What objects at these addresses settle of the plan's claims, and what was seen since of older ones."""
    landings = _landings(plan, done)
    claims: dict[str, list[Claim]] = {}
    still_open: dict[Address, OpenClaims] = {}
    for address, instance in state.instances.items():
        if instance.current is None or str(address) not in done:
            continue
        before = open_claims(instance.current.private)
        fresh = landings.get(address, {})
        if not before and not fresh:
            continue
        standing = vms_of(instance.current, types.get(address.type))
        opened = {**_without(before, fresh), **fresh}
        owner_id = str(instance.current.attributes.get("id"))
        settled, left = settle_open(opened, standing, owner_id)
        claims.setdefault(owner_id.partition("/")[0], []).extend(settled)
        if left != before:
            still_open[address] = left
    return Settlement({site_id: of_site for site_id, of_site in claims.items() if of_site}, still_open)


def settle_open(
    opened: OpenClaims, standing: Mapping[tuple[str, int | str], PlacedVm], owner_id: str
) -> tuple[list[Claim], OpenClaims]:
    """The claims on an object that what stands settles, and those that stay open: of pools of which nothing
    was seen.
    """
    claims: list[Claim] = []
    left: dict[str, tuple[Landing, ...]] = {}
    for pool, landings in opened.items():
        looked = [_seen(landing, standing.get((pool, landing.number))) for landing in landings]
        if any(landing.seen is not None for landing in looked):
            claims.extend(_claims_of(_title(owner_id, pool), looked))
        else:
            left[pool] = landings
    return claims, left


def _title(owner_id: str, pool: str) -> str:
    """A pool for people: of the cluster that it is of."""
    name = owner_id.partition("/")[2]
    return f"{name}/{pool}" if name.count("/") == 0 else name


def _seen(landing: Landing, vm: PlacedVm | None) -> Landing:
    """A landing with the place where the VM was seen."""
    is_seen = vm is not None and vm.provenance == OBSERVED
    if vm is None or not is_seen:
        return landing
    return replace(landing, seen=vm.placement, object=landing.object or vm.name)


def _without(opened: OpenClaims, fresh: OpenClaims) -> dict[str, tuple[Landing, ...]]:
    """Open claims without those on pools of which a plan claims anew."""
    return {pool: landings for pool, landings in opened.items() if pool not in fresh}


def _landings(plan: Plan, done: Collection[str]) -> dict[Address, dict[str, tuple[Landing, ...]]]:
    """What the plan claims of the VMs at these addresses, by pool."""
    tables = {_PoolId(table.site_id, table.cluster, table.pool): table for table in plan.placement_tables}
    found: dict[Address, dict[str, tuple[Landing, ...]]] = {}
    for row in plan.placements:
        if row.kind != VM or row.action not in _PLACES or str(row.address) not in done:
            continue
        if row.certainty is None or not isinstance(row.target, Placement):
            continue
        table = tables.get(_PoolId(row.site_id, row.cluster, row.pool))
        of_object = found.setdefault(row.address, {})
        of_object[row.pool] = (*of_object.get(row.pool, ()), _landing(row, row.target, row.certainty, table))
    return found


def _landing(
    row: PlacementChange, target: Placement, shares: Certainty, table: PlacementTable | None
) -> Landing:
    return Landing(
        row.number,
        target.rack,
        target.machine,
        shares,
        table is not None and table.machines_certain > 0,
        table is not None and target.rack in table.counts_certain,
        row.object,
    )


def addresses_left_to_others(ends: Iterable[StepEvent]) -> frozenset[str]:
    """The addresses of which somebody else does what was planned: nobody has seen it yet."""
    return frozenset(end.address for end in ends if end.by_others)


def addresses_done(ends: Iterable[StepEvent], plan: Plan, earlier: Iterable[Step] = ()) -> frozenset[str]:
    """The addresses all of whose steps were done, by this run or, where that could not say so, an earlier
    one.
    """
    outcomes = [(end.address, end.outcome is Outcome.DONE) for end in ends]
    done = {address for address, is_done in outcomes if is_done}
    done |= {str(plan.changes[step.change].address) for step in earlier}
    return frozenset(done - {address for address, is_done in outcomes if not is_done})


def vms_of(current: ObjectState, kind: ResourceType | None) -> Mapping[tuple[str, int | str], PlacedVm]:
    """The VMs of an object as they are known."""
    if kind is None or kind.vms is None:
        return {}
    return {(vm.pool, vm.number): vm for vm in kind.vms.standing(current.attributes)}


def _claims_of(pool: str, landings: Sequence[Landing]) -> Iterator[Claim]:
    """What is settled of a pool: each VM's rack and machine, and once all were seen, how many came to each
    rack.
    """
    seen = [(landing, landing.seen) for landing in landings if landing.seen is not None]
    yield from _claims_of_vms(seen)
    if len(seen) == len(landings):
        yield from _claims_of_racks(pool, landings, Counter(place.rack for _, place in seen))


def _claims_of_vms(seen: Sequence[tuple[Landing, Placement]]) -> Iterator[Claim]:
    """The claims on single VMs. Those of a pool are alike, so what stands on a machine counts for the one
    that was most sure to come there. What was drawn (cells that nobody told) was not told as certain.
    """
    racks = Counter(place.rack for _, place in seen)
    machines = Counter(place.machine for _, place in seen)
    for landing, place in sorted(seen, key=lambda one: (-one[0].shares.machine, -one[0].shares.rack)):
        shares = landing.shares
        measured = shares.measured or (None, None, None)
        of_rack, of_machine, _ = (1 / max(number, 1) for number in shares.tied)
        is_sure = shares.machine >= 1 and landing.machine_is_told
        words = f"{landing.object} was sure to stand on {landing.machine}, and stands on {place.machine}"
        in_rack, on_machine = _taken(racks, landing.rack), _taken(machines, landing.machine)
        yield Claim(RACK_CLAIM, shares.rack, of_rack, in_rack, measured[0])
        yield Claim(MACHINE_CLAIM, shares.machine, of_machine, on_machine, measured[1], is_sure, words)


def _taken(counts: Counter[str], name: str) -> bool:
    """Whether one of those that stand there is left to count for a claim; it is taken."""
    counts[name] -= 1
    return counts[name] >= 0


def _claims_of_racks(pool: str, landings: Sequence[Landing], counts: Mapping[str, int]) -> Iterator[Claim]:
    """For each rack of a pool, how many of its VMs come there."""
    foretold = Counter(landing.rack for landing in landings)
    last_on = {landing.rack: landing for landing in landings}
    for rack, number in foretold.items():
        landing, landed = last_on[rack], counts.get(rack, 0)
        shares = landing.shares
        measured = shares.measured[2] if shares.measured else None
        is_sure = shares.rack_count >= 1 and landing.count_is_told
        words = (
            f"{counted(number, 'new VM')} of {pool} {form(number, 'was', 'were')} sure "
            f"to stand on rack {rack}, and {landed} {form(landed, 'does', 'do')}"
        )
        chance = 1 / max(shares.tied[2], 1)
        yield Claim(COUNT_CLAIM, shares.rack_count, chance, landed == number, measured, is_sure, words)


def records_of_claims(settlement: Settlement, state: State) -> Iterator[Done]:
    """What the journal takes for sites to remember what was settled, and objects what is not; nothing else of
    them changes.
    """
    for address, instance in state.instances.items():
        current = instance.current
        if current is None:
            continue
        private = current.private
        if address in settlement.still_open:
            private = with_open_claims(private, settlement.still_open[address])
        of_site = settlement.claims.get(str(current.attributes.get("id"))) if address.type == _SITE else None
        if of_site:
            private = with_claims(private, of_site)
        if private is not current.private:
            noted = replace(current, private=private)
            yield Done(address, current.creation, InstanceState(noted, instance.deposed))
