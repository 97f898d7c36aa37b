"""Ways out of a separation rule that does not hold: zones of their own for each group, the fewest that
do. Each is tried as a whole plan before it is offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.plan import PlacementAction, Plan
from nexusform.planning.request import Adjustment, PlanRequest
from nexusform.planning.verdicts.separation import BROKEN, Member, OpenRule
from nexusform.planning.vms.sites import SitePlan
from nexusform.scheduling.racks.model import VmSku

# Each trial is a whole plan.
MOST_TRIALS: Final = 40
# Resource types whose pools have availability_zones.
_ZONED: Final = ("nexus_kubernetes_cluster", "nexus_agent_pool")

Trial = Callable[[Sequence[Adjustment]], PlanResult | None]
Zones = tuple[str, ...]


class _Side(Struct, frozen=True):
    # A group of the rule on its site: zones it must have (pinned pools, VMs that cannot be moved), those
    # it may take in order of preference, how many it needs at least, and the pools to change.
    names: tuple[str, ...]
    fixed: Zones
    free: Zones
    least: int
    members: tuple[Member, ...]


def with_zone_sets(
    request: PlanRequest, result: PlanResult, plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """The result, each refusal by a rule followed by the zone sets that would satisfy it."""
    denied = [f for f in result.separations if f.verdict.enforcement == "deny"]
    others = [d for d in result.plan.diagnostics if d.severity is Severity.ERROR and d.id != BROKEN]
    if others or not denied:
        return result
    quiet = replace(request, ways_out=False, lint=False, want_rejected=False, explain=())

    broken = {str(f.instance.address) for f in denied}

    def trial_of(rule: OpenRule) -> Trial:
        # What other rules are in error for already is no reason against a way out for this one.
        allowed = broken - {str(rule.instance.address)}

        def tried(adjustments: Sequence[Adjustment]) -> PlanResult | None:
            # Most trials fail for want of room; tie-breaks are repeated for those that do not.
            trial = replace(quiet, adjustments=tuple(adjustments))
            outcome = plan(replace(trial, tie_breaks=0))
            if request.tie_breaks != 0 and _satisfies(outcome, allowed):
                outcome = plan(trial)
            return outcome if _satisfies(outcome, allowed) else None

        return tried

    made = result.plan
    for rule in denied:
        made = _told(made, rule, list(_ways(rule, result, trial_of(rule))))
    return replace(result, plan=made)


def _satisfies(outcome: PlanResult, allowed: AbstractSet[str]) -> bool:
    """Whether nothing is in error but rules at the `allowed` addresses."""
    wrong = [d for d in outcome.plan.diagnostics if d.severity is Severity.ERROR]
    return all(d.id == BROKEN and d.address in allowed for d in wrong)


def _told(plan: Plan, rule: OpenRule, ways: Sequence[tuple[str, dict[str, Any]]]) -> Plan:
    if ways:
        lines = [f" {number}. {text}" for number, (text, _) in enumerate(ways, 1)]
        advice = "\n".join(["The smallest zone sets that satisfy it, tried just now:", *lines])
    elif rule.verdict.scope == "site":
        advice = "Zones cannot part what shares a site: give one of the groups another site."
    else:
        advice = "No zone sets were found that satisfy it and have room for everything."
    data = [{"kind": "zones", "text": text, **change} for text, change in ways]
    address = str(rule.instance.address)
    found = [
        replace(
            d,
            detail=f"{d.detail}\n\n{advice}\nNothing was changed.",
            extra={**d.extra, "fit": {"ways_out": data}},
        )
        if d.id == BROKEN and d.address == address
        else d
        for d in plan.diagnostics
    ]
    return replace(plan, diagnostics=tuple(found))


def _ways(rule: OpenRule, result: PlanResult, tried: Trial) -> Iterator[tuple[str, dict[str, Any]]]:
    """First without moving what stands, then, only if that fails, with every pool changed."""
    sites = {m.site_id for group in rule.groups for m in group}
    if rule.verdict.scope == "site" or len(sites) != 1 or _mixed(rule):
        return
    site = result.sites[sites.pop()]
    seen: set[tuple[Zones, ...]] = set()
    for moving in (False, True):
        sides = [_side(group, site, moving=moving) for group in rule.groups]
        for trial, zones in enumerate(_choices(sides)):
            if trial >= MOST_TRIALS:
                break
            if zones in seen:
                continue
            seen.add(zones)
            outcome = tried(_adjustments(sides, zones))
            if outcome is not None:
                yield _way(sides, zones, outcome.plan)
                return


def _mixed(rule: OpenRule) -> bool:
    """Whether two groups have members in one pool (pods on its nodes): zones cannot part these."""
    owner: dict[tuple[str, str], int] = {}
    return any(
        owner.setdefault((str(member.vm[0]), member.pool.pool), index) != index
        for index, group in enumerate(rule.groups)
        for member in group
    )


# --- what each group may take ------------------------------------------------------------------


def _side(group: Sequence[Member], site: SitePlan, *, moving: bool) -> _Side:
    order = list(site.zones())
    names = tuple(dict.fromkeys(_name(m) for m in group))
    kept = [m for m in group if not _changeable(m) or (m.rank < 0 and not moving)]
    pinned = {zone for m in group if m not in kept for zone in m.pool.zones or ()}
    fixed = {m.place.availability_zone for m in kept} | pinned
    usual = Counter(m.place.availability_zone for m in group if m.rank < 0)
    free = sorted((z for z in order if z not in fixed), key=lambda z: (-usual[z], order.index(z)))
    return _Side(
        names,
        tuple(z for z in order if z in fixed),
        tuple(free),
        _least([m.pool.sku for m in group], site),
        tuple(m for m in group if m not in kept),
    )


def _name(member: Member) -> str:
    return member.cluster.rpartition(":")[2].rpartition("/")[2]


def _changeable(member: Member) -> bool:
    return member.vm[0].type in _ZONED


def _least(skus: Sequence[VmSku], site: SitePlan) -> int:
    """A bound from below: how many of the largest zones hold so many vCPUs and so much memory."""
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for machine in site.machines.values():
        cpus[machine.availability_zone] += machine.cells * machine.cpus_per_cell
        memory[machine.availability_zone] += machine.cells * machine.memory_gib_per_cell
    needs = [(sum(s.host_vcpus for s in skus), cpus), (sum(s.memory_gib for s in skus), memory)]
    return max(1, *(_covering(need, offered) for need, offered in needs))


def _covering(need: int, offered: Mapping[str, int]) -> int:
    count = 0
    for amount in sorted(offered.values(), reverse=True):
        if need <= 0:
            break
        need -= amount
        count += 1
    return count


def _choices(sides: Sequence[_Side]) -> Iterator[tuple[Zones, ...]]:
    """Disjoint zone sets, one per group, fewest zones in total first."""
    fixed = [zone for side in sides for zone in side.fixed]
    if len(set(fixed)) != len(fixed):
        return
    total = len({*fixed, *(zone for side in sides for zone in side.free)})
    ranges = [range(max(len(side.fixed), side.least), total + 1) for side in sides]
    sizes = [size for size in product(*ranges) if sum(size) <= total]
    for size in sorted(sizes, key=lambda s: (sum(s), s)):
        zones = _deal(sides, size, set(fixed))
        if zones is not None:
            yield zones


def _deal(sides: Sequence[_Side], sizes: Sequence[int], taken: set[str]) -> tuple[Zones, ...] | None:
    """So many zones for each group in turn, its preferred ones first; None when they run out."""
    used = set(taken)
    found = []
    for side, size in zip(sides, sizes, strict=True):
        wanted = size - len(side.fixed)
        fresh = [zone for zone in side.free if zone not in used][:wanted]
        if len(fresh) < wanted:
            return None
        used |= set(fresh)
        found.append((*side.fixed, *fresh))
    return tuple(found)


# --- trying and telling ------------------------------------------------------------------------


def _adjustments(sides: Sequence[_Side], zones: Sequence[Zones]) -> list[Adjustment]:
    found: dict[tuple[str, str], Adjustment] = {}
    for side, chosen in zip(sides, zones, strict=True):
        for member in side.members:
            address = member.vm[0]
            allowed = [z for z in chosen if not member.pool.zones or z in member.pool.zones]
            path = (*member.pool.path, "availability_zones")
            found[str(address), member.pool.pool] = Adjustment(address, path, sorted(allowed))
    return list(found.values())


def _way(sides: Sequence[_Side], zones: Sequence[Zones], plan: Plan) -> tuple[str, dict[str, Any]]:
    parts, data = [], []
    for side, chosen in zip(sides, zones, strict=True):
        listed = ", ".join(f'"{zone}"' for zone in chosen)
        parts.append(f"{', '.join(side.names)} in [{listed}]")
        data.append(
            {
                "clusters": list(side.names),
                "availability_zones": list(chosen),
                "pools": sorted({f"{m.vm[0]}:{m.pool.pool}" for m in side.members}),
            }
        )
    triggers = ("zones_changed", "cluster_replaced")
    moved = sum(1 for p in plan.placements if p.trigger in triggers and p.action is PlacementAction.MOVE)
    cost = f" {moved} VMs that stand are re-placed by it." if moved else ""
    left = [str(v.address) for v in plan.separation_rules if v.enforcement == "deny" and v.holds != "always"]
    cost += f" {', '.join(left)} still would not hold." if left else ""
    return f"{'; '.join(parts)}.{cost}", {"groups": data, "replaced_vms": moved}
