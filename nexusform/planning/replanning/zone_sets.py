"""Ways out of a separation rule that does not hold: zones of their own for each group, the fewest that
do. Each is tried as a whole plan before it is offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice, product
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Severity
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.replanning.drawn_ways import drawn_note
from nexusform.planning.replanning.remedies import WayOut, moved_vms, way_document
from nexusform.planning.request import Adjustment, PlanRequest
from nexusform.planning.verdicts.separation import BROKEN, GroupMember, OpenRule
from nexusform.planning.vms.sites import SitePlan
from nexusform.plans.plan import Plan
from nexusform.scheduling.racks.vms import MIB_PER_GIB, VmSku
from nexusform.words import counted, first_of, form, natural

# Each trial is a whole plan.
MOST_TRIALS: Final = 40
_MOST_POOLS: Final = 4

Trial = Callable[[Sequence[Adjustment]], PlanResult | None]
Zones = tuple[str, ...]


class _Side(Struct, frozen=True):
    # A group of the rule on its site: zones it must have (pinned pools, VMs that cannot be moved), those
    # it may take in order of preference, how many it needs at least, and the pools to change, which are
    # `rewritten` where they may get zones that they do not name now.
    names: tuple[str, ...]
    fixed: Zones
    free: Zones
    least: int
    members: tuple[GroupMember, ...]
    rewritten: bool = False


def with_zone_sets(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """The result, each refusal by a rule followed by the zone sets that would satisfy it."""
    denied = [rule for rule in result.separations if rule.verdict.enforcement == "deny"]
    errors = [diagnostic for diagnostic in result.plan.diagnostics if diagnostic.severity is Severity.ERROR]
    if not denied or any(diagnostic.id != BROKEN for diagnostic in errors):
        return result
    broken = frozenset(str(rule.instance.address) for rule in denied)
    plan = result.plan
    for rule in denied:
        # What other rules are in error for already is no reason against a way out for this one.
        other_rules = broken - {str(rule.instance.address)}
        ways = list(_ways(rule, result, _trial(request, make_plan, other_rules)))
        plan = _with_advice(plan, rule, ways)
    return replace(result, plan=plan)


def _trial(
    request: PlanRequest, make_plan: Callable[[PlanRequest], PlanResult], other_rules: AbstractSet[str]
) -> Trial:
    """Makes the plan once more with adjustments; None where the rule or anything but the `other_rules` is in
    error then.
    """
    quiet = replace(request, ways_out=False, lint=False, want_rejected=False, explain=())

    def trial(adjustments: Sequence[Adjustment]) -> PlanResult | None:
        # Most trials fail for want of room; tie-breaks are repeated for those that do not.
        adjusted = replace(quiet, adjustments=tuple(adjustments))
        outcome = make_plan(replace(adjusted, tie_breaks=0))
        if request.tie_breaks != 0 and _satisfies(outcome, other_rules):
            outcome = make_plan(adjusted)
        return outcome if _satisfies(outcome, other_rules) else None

    return trial


def _satisfies(outcome: PlanResult, other_rules: AbstractSet[str]) -> bool:
    """Whether nothing is in error in a trial but the rules at these other addresses."""
    errors = [diagnostic for diagnostic in outcome.plan.diagnostics if diagnostic.severity is Severity.ERROR]
    return all(diagnostic.id == BROKEN and diagnostic.address in other_rules for diagnostic in errors)


def _with_advice(plan: Plan, rule: OpenRule, ways: Sequence[WayOut]) -> Plan:
    """The plan with the ways out that worked, or why there is none, in the diagnostic of the rule."""
    if ways:
        lines = [f" {number}. {way.text}" for number, way in enumerate(ways, 1)]
        advice = "\n".join(["Zones that satisfy it, tried just now:", *lines])
    elif rule.verdict.scope == "site":
        advice = "Zones cannot part what shares a site: give one of the groups another site."
    else:
        advice = "No zone sets were found that satisfy it and have room for everything."
    data = [way_document(way) for way in ways]
    address = str(rule.instance.address)
    diagnostics = list(plan.diagnostics)
    for index, diagnostic in enumerate(diagnostics):
        if diagnostic.id == BROKEN and diagnostic.address == address:
            detail = f"{diagnostic.detail}\n\n{advice}\nNothing was changed."
            extra = {**diagnostic.extra, "fit": {"ways_out": data}}
            diagnostics[index] = replace(diagnostic, detail=detail, extra=extra)
    return replace(plan, diagnostics=tuple(diagnostics))


def _ways(rule: OpenRule, result: PlanResult, trial: Trial) -> Iterator[WayOut]:
    """The zones as they were, where this plan changes them and that works; and the first zone sets that do:
    without moving what stands, then, only if none does, with every pool changed, then with other zones for
    the groups that this plan leaves as they are.
    """
    yield from _as_before(rule, result, trial)
    sites = {member.site_id for member in chain.from_iterable(rule.groups)}
    if rule.verdict.scope == "site" or len(sites) != 1 or _mixed(rule):
        return
    site = result.sites[sites.pop()]
    tried: set[tuple[Zones, ...]] = set()
    for sides in _readings(rule, result, site):
        for zones in islice(_choices(sides), MOST_TRIALS):
            if zones in tried:
                continue
            tried.add(zones)
            adjustments = _adjustments(sides, zones)
            outcome = trial(adjustments)
            if outcome is not None:
                text, change = _way(sides, zones, outcome.plan)
                yield WayOut("zones", text + drawn_note(outcome), change, tuple(adjustments))
                return


def _readings(rule: OpenRule, result: PlanResult, site: SitePlan) -> Iterator[list[_Side]]:
    """What may be changed, the least first."""
    for moving in (False, True):
        yield [_side(group, site, moving=moving) for group in rule.groups]
    edited = [any(_is_edited(member, result) for member in group) for group in rule.groups]
    if any(edited) and not all(edited):
        yield [
            _side(group, site, moving=True, rewritten=not its_edited)
            for group, its_edited in zip(rule.groups, edited, strict=True)
        ]


def _zones_before(member: GroupMember, result: PlanResult) -> Zones | None:
    """The zones that a member's pool has in state; () for all. None where the pool is new."""
    vms = result.objects[member.vm[0]]
    pool = next((pool for pool in vms.prior_pools if pool.pool == member.pool.pool), None)
    return None if pool is None else tuple(sorted(pool.zones or ()))


def _is_edited(member: GroupMember, result: PlanResult) -> bool:
    return _zones_before(member, result) != tuple(sorted(member.pool.zones or ()))


def _as_before(rule: OpenRule, result: PlanResult, trial: Trial) -> Iterator[WayOut]:
    """The pools whose zones this plan changes keep those that they have."""
    adjustments: dict[tuple[Address, str], Adjustment] = {}
    names: dict[Zones, dict[str, None]] = {}
    for member in chain.from_iterable(rule.groups):
        before = _zones_before(member, result)
        if before is None or not _changeable(member) or not _is_edited(member, result):
            continue
        path = (*member.pool.path, "availability_zones")
        address = member.vm[0]
        adjustments[address, member.pool.pool] = Adjustment(address, path, list(before) or None)
        names.setdefault(before, {})[f"{_name(member)}/{member.pool.pool}"] = None
    outcome = trial(tuple(adjustments.values())) if adjustments else None
    if outcome is None:
        return
    parts = [
        f"{first_of(list(pools), _MOST_POOLS)} in {_listed(zones) if zones else 'all zones'}"
        for zones, pools in names.items()
    ]
    moved = moved_vms(outcome.plan, "zones_changed", "cluster_replaced")
    text = f"{'; '.join(parts)}, as now.{_cost(moved, outcome.plan)}{drawn_note(outcome)}"
    data = [{"pools": list(pools), "availability_zones": list(zones)} for zones, pools in names.items()]
    yield WayOut("zones", text, {"as_before": data, "replaced_vms": moved}, tuple(adjustments.values()))


def _mixed(rule: OpenRule) -> bool:
    """Whether two groups have members in one pool (pods on its nodes): zones cannot part these."""
    pools_so_far: set[tuple[str, str]] = set()  # address and pool
    for group in rule.groups:
        pools = {(str(member.vm[0]), member.pool.pool) for member in group}
        if pools & pools_so_far:
            return True
        pools_so_far |= pools
    return False


# --- what each group may take ------------------------------------------------------------------


def _side(group: Sequence[GroupMember], site: SitePlan, *, moving: bool, rewritten: bool = False) -> _Side:
    """A group of a rule with the zones that it keeps, those that are free to it, and how many it needs."""
    order = site.zones()
    changed: list[GroupMember] = []
    fixed: set[str] = set()
    for member in group:
        if _stays(member, moving=moving):
            fixed.add(member.place.availability_zone)
        else:
            changed.append(member)
            fixed |= frozenset() if rewritten else member.pool.zones or frozenset()
    # Zones in which members stand already come first: fewer of them move then.
    standing_in = Counter(member.place.availability_zone for member in group if member.rank < 0)
    free = [zone for zone in order if zone not in fixed]
    free.sort(key=lambda zone: -standing_in[zone])
    names = dict.fromkeys(_name(member) for member in group)
    fixed_in_order = [zone for zone in order if zone in fixed]
    least_zones = _least([member.pool.sku for member in group], site)
    return _Side(tuple(names), tuple(fixed_in_order), tuple(free), least_zones, tuple(changed), rewritten)


def _stays(member: GroupMember, *, moving: bool) -> bool:
    """Whether a member keeps its zone: its argument cannot be changed, or it stands and none is to move."""
    stands = member.rank < 0
    return not _changeable(member) or (stands and not moving)


def _name(member: GroupMember) -> str:
    """What people call the cluster of a member: the last part of its id."""
    return member.cluster.rpartition(":")[2].rpartition("/")[2]


def _changeable(member: GroupMember) -> bool:
    # Zones are written where a number of VMs is: for the pools of clusters.
    return bool(member.pool.count_path)


def _least(skus: Sequence[VmSku], site: SitePlan) -> int:
    """A bound from below: how many of the largest zones hold so many vCPUs and so much memory."""
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for machine in site.machines.values():
        cpus[machine.availability_zone] += machine.cells * machine.cpus_per_cell
        memory[machine.availability_zone] += machine.cells * machine.memory_gib_per_cell * MIB_PER_GIB
    needs = [(sum(sku.host_vcpus for sku in skus), cpus), (sum(sku.memory_mib for sku in skus), memory)]
    return max(1, *(_covering(need, offered) for need, offered in needs))


def _covering(need: int, offered: Mapping[str, int]) -> int:
    """How many zones, the largest first, offer as much as is needed."""
    count = 0
    for amount in sorted(offered.values(), reverse=True):
        if need <= 0:
            break
        need -= amount
        count += 1
    return count


def _choices(sides: Sequence[_Side]) -> Iterator[tuple[Zones, ...]]:
    """Disjoint zone sets, one per group, fewest zones in total first."""
    fixed = list(chain.from_iterable(side.fixed for side in sides))
    if len(set(fixed)) != len(fixed):
        return
    total = len(set(chain(fixed, *(side.free for side in sides))))
    ranges = [range(max(len(side.fixed), side.least), total + 1) for side in sides]
    for sizes in sorted(product(*ranges), key=lambda sizes: (sum(sizes), sizes)):
        if sum(sizes) > total:
            return
        zones = _deal(sides, sizes, set(fixed))
        if zones is not None:
            yield zones


def _deal(sides: Sequence[_Side], sizes: Sequence[int], fixed: set[str]) -> tuple[Zones, ...] | None:
    """So many zones for each group in turn, its preferred ones first; None when they run out. `fixed` are
    the zones that some group must have.
    """
    used = set(fixed)
    dealt = []
    for side, size in zip(sides, sizes, strict=True):
        missing = size - len(side.fixed)
        fresh = [zone for zone in side.free if zone not in used][:missing]
        if len(fresh) < missing:
            return None
        used |= set(fresh)
        dealt.append((*side.fixed, *fresh))
    return tuple(dealt)


# --- trying and telling ------------------------------------------------------------------------


def _adjustments(sides: Sequence[_Side], zones: Sequence[Zones]) -> list[Adjustment]:
    """The zones that each pool would have, within those that it allows."""
    adjustments: dict[tuple[str, str], Adjustment] = {}
    for side, chosen in zip(sides, zones, strict=True):
        for member in side.members:
            address = member.vm[0]
            named = None if side.rewritten else member.pool.zones
            allowed = [zone for zone in chosen if not named or zone in named]
            path = (*member.pool.path, "availability_zones")
            adjustments[str(address), member.pool.pool] = Adjustment(address, path, sorted(allowed))
    return list(adjustments.values())


def _way(sides: Sequence[_Side], zones: Sequence[Zones], plan: Plan) -> tuple[str, dict[str, Any]]:
    """What a choice of zones means, in words and as data."""
    texts, groups = [], []
    for side, chosen in zip(sides, zones, strict=True):
        texts.append(f"{', '.join(side.names)} in {_listed(chosen)}")
        groups.append(
            {
                "clusters": list(side.names),
                "availability_zones": list(chosen),
                "pools": sorted({f"{member.vm[0]}:{member.pool.pool}" for member in side.members}),
            }
        )
    moved = moved_vms(plan, "zones_changed", "cluster_replaced")
    return f"{'; '.join(texts)}.{_cost(moved, plan)}", {"groups": groups, "replaced_vms": moved}


def _listed(zones: Sequence[str]) -> str:
    quoted = ", ".join(f'"{zone}"' for zone in sorted(zones, key=natural))
    return f"[{quoted}]"


def _cost(moved: int, plan: Plan) -> str:
    """How many VMs a way out re-places, and which rules it leaves open."""
    cost = (
        f" {counted(moved, 'VM')} that {form(moved, 'stands is', 'stand are')} re-placed by it."
        if moved
        else ""
    )
    denying = [rule for rule in plan.separation_rules if rule.enforcement == "deny"]
    open_rules = [str(rule.address) for rule in denying if rule.holds != "always"]
    return cost + (f" {', '.join(open_rules)} still would not hold." if open_rules else "")
