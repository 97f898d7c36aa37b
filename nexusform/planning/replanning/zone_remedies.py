"""Remedies for a violated separation rule.

The fewest separate zones for each group, tested as a whole plan.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import accumulate, chain, islice, product
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import compute_natural_sort_key, enclose, format_first_items
from nexusform.placements.vm_demands import index_pools
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.planning.replanning.remedies import (
    Remedy,
    RemedyPricing,
    build_remedy_document,
    format_numbered_remedies,
    sort_by_price,
)
from nexusform.planning.replanning.trials import plan_trial
from nexusform.planning.verdicts.separation_rules import (
    SEPARATION_VIOLATED,
    GroupMember,
    UnsatisfiedRule,
)
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.plans.plan import Plan
from nexusform.resources.address import Address

# Each trial is a whole plan.
MAXIMUM_TRIALS: Final = 40
_MAXIMUM_POOLS: Final = 4

ZoneTrial = Callable[[Sequence[ArgumentAdjustment]], PlanResult | None]
Zones = tuple[str, ...]


class _ZoneGroup(Struct, frozen=True):
    # A group of the rule on its site: its required zones (pinned pools, immovable VMs), its
    # optional zones in order of preference, its minimum number of zones, and the pools to change.
    # With `is_rewritten` the pools may get zones that are not configured now.
    names: tuple[str, ...]
    required_zones: Zones
    optional_zones: Zones
    minimum_count: int
    members: tuple[GroupMember, ...]
    is_rewritten: bool = False


def add_zone_remedies(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result with working zone sets appended to each rejection by a rule.

    These sets satisfy the rule.
    """
    deny_rules = [rule for rule in result.open_rules if rule.verdict.enforcement == "deny"]
    if not deny_rules or any(
        diagnostic.id != SEPARATION_VIOLATED for diagnostic in result.plan.errors
    ):
        # Nothing is rejected by a rule, or another error would reject every trial, too.
        return result
    violated_addresses = frozenset(str(rule.instance.address) for rule in deny_rules)
    plan = result.plan
    pricing = RemedyPricing(request, result)
    for rule in deny_rules:
        # Existing violations of other rules do not count against a remedy for this one.
        other_rules = violated_addresses - {str(rule.instance.address)}
        trial = partial(_plan_trial, request, make_plan, other_rules)
        remedies = sort_by_price(map(pricing.add_price, _find_remedies(rule, result, trial)))
        plan = _add_remedies_to_rule_diagnostic(plan, rule, remedies)
    return replace(result, plan=plan)


def _plan_trial(
    request: PlanRequest,
    make_plan: Callable[[PlanRequest], PlanResult],
    other_rules: AbstractSet[str],
    adjustments: Sequence[ArgumentAdjustment],
) -> PlanResult | None:
    """Plan again with adjustments.

    Return None if it has errors, except violations of `other_rules`.
    """
    is_successful = partial(_is_trial_without_other_errors, other_rules=other_rules)
    outcome = plan_trial(request, make_plan, adjustments, is_successful)
    return outcome if is_successful(outcome) else None


def _is_trial_without_other_errors(outcome: PlanResult, other_rules: AbstractSet[str]) -> bool:
    """Return whether a trial has no errors except the rules at these other addresses."""
    for error in outcome.plan.errors:
        if error.id != SEPARATION_VIOLATED or error.address not in other_rules:
            return False
    return True


def _add_remedies_to_rule_diagnostic(
    plan: Plan, rule: UnsatisfiedRule, remedies: Sequence[Remedy]
) -> Plan:
    """Add the successful remedies, or the reason for none, to the diagnostic of the rule."""
    if remedies:
        advice = format_numbered_remedies("Zones that satisfy it (tested):", remedies)
    elif rule.verdict.scope == "site":
        advice = "Zones cannot separate groups on one site. Move one of the groups to another site."
    else:
        advice = "No zones were found that satisfy it and fit everything."
    data = [build_remedy_document(remedy) for remedy in remedies]
    address = str(rule.instance.address)
    diagnostics = list(plan.diagnostics)
    for index, diagnostic in enumerate(diagnostics):
        if diagnostic.id == SEPARATION_VIOLATED and diagnostic.address == address:
            detail = f"{diagnostic.detail}\n\n{advice}\nNo changes were made."
            extra = {**diagnostic.extra, "fit": {"suggested_fixes": data}}
            diagnostics[index] = replace(diagnostic, detail=detail, extra=extra)
    return replace(plan, diagnostics=tuple(diagnostics))


def _find_remedies(rule: UnsatisfiedRule, result: PlanResult, trial: ZoneTrial) -> Iterator[Remedy]:
    """Yield up to two remedies for zones.

    They are the zones in state, if this plan changes them, and the first successful zone sets.
    Zone sets are tried without moves of existing VMs, then with moves, then also for groups
    unchanged by this plan.
    """
    yield from _try_prior_zones(rule, result, trial)
    sites = {member.site_id for member in chain.from_iterable(rule.groups)}
    if rule.verdict.scope == "site" or len(sites) != 1 or _has_shared_pool(rule):
        # Zones divide one site, and every pool has one set of them.
        return
    site = result.sites[sites.pop()]
    tested_zones: set[tuple[Zones, ...]] = set()
    for zone_groups in _iterate_zone_groups(rule, result, site):
        for zones in islice(_iterate_zone_sets(zone_groups), MAXIMUM_TRIALS):
            # With fewer changes to the groups.
            if zones in tested_zones:
                continue
            tested_zones.add(zones)
            adjustments = _build_adjustments(zone_groups, zones)
            outcome = trial(adjustments)
            if outcome is not None:
                yield _build_zone_remedy(zone_groups, zones, outcome, adjustments)
                return


def _build_zone_remedy(
    zone_groups: Sequence[_ZoneGroup],
    zones: Sequence[Zones],
    outcome: PlanResult,
    adjustments: Sequence[ArgumentAdjustment],
) -> Remedy:
    """Build the remedy of a successful choice of zones.

    One set for each group, as text and as data.
    """
    texts = []
    groups = []
    for zone_group, selected_zones in zip(zone_groups, zones, strict=True):
        texts.append(f"{', '.join(zone_group.names)} in {_format_zones(selected_zones)}")
        pools = {f"{member.vm[0]}:{member.pool.pool}" for member in zone_group.members}
        groups.append(
            {
                "clusters": list(zone_group.names),
                "availability_zones": list(selected_zones),
                "pools": sorted(pools),
            }
        )
    text = f"{'; '.join(texts)}.{_format_open_rules(outcome.plan)}"
    return Remedy("zones", text, outcome, {"groups": groups}, tuple(adjustments))


def _iterate_zone_groups(
    rule: UnsatisfiedRule, result: PlanResult, site: SitePlan
) -> Iterator[list[_ZoneGroup]]:
    """Yield ways to change the groups of a separation rule, the smallest change first.

    First only new VMs move, then existing ones, too. Last, groups unchanged by this plan may also
    get zones that are not configured for them. The last way needs a plan that changes the zones of
    some groups, but not of all.
    """
    yield [_build_zone_group(group, site, may_move=False) for group in rule.groups]
    yield [_build_zone_group(group, site, may_move=True) for group in rule.groups]
    # Whether a pool of the group is new, or changes its zones.
    changed_groups: list[bool] = []
    for group in rule.groups:
        zones_per_member = [
            (_get_prior_zones(member, result), member.pool.configured_zones) for member in group
        ]
        changed_groups.append(
            any(before != tuple(sorted(after)) for before, after in zones_per_member)
        )
    if any(changed_groups) and not all(changed_groups):
        yield [
            _build_zone_group(group, site, may_move=True, is_rewritten=not is_changed)
            for group, is_changed in zip(rule.groups, changed_groups, strict=True)
        ]


def _get_prior_zones(member: GroupMember, result: PlanResult) -> Zones | None:
    """Return the zones of a member's pool in state; () for all.

    Return None for a new pool.
    """
    # By the address in the key of the VM.
    vm_object = result.objects[member.vm[0]]
    pool = index_pools(vm_object.prior_pools).get(member.pool.pool)
    return None if pool is None else tuple(sorted(pool.configured_zones))


def _try_prior_zones(
    rule: UnsatisfiedRule, result: PlanResult, trial: ZoneTrial
) -> Iterator[Remedy]:
    """Try the zones in state for the pools with changed zones.

    Yield a remedy if the rule then holds.
    """
    # By address and pool name.
    adjustments: dict[tuple[Address, str], ArgumentAdjustment] = {}
    # Names of pools; the dict is an ordered set.
    pools_by_zones: dict[Zones, dict[str, None]] = {}
    for member in chain.from_iterable(rule.groups):
        before = _get_prior_zones(member, result)
        if before is None or before == tuple(sorted(member.pool.configured_zones)):
            # New or unchanged.
            continue
        # Plain VMs and VNFs have no zones to change.
        if not member.pool.count_path:
            continue
        path = (*member.pool.path, "availability_zones")
        address, _ = member.vm
        adjustments[address, member.pool.pool] = ArgumentAdjustment(
            address, path, list(before) or None
        )  # None: all
        pools_by_zones.setdefault(before, {})[f"{_get_cluster_name(member)}/{member.pool.pool}"] = (
            None
        )
    outcome = trial(tuple(adjustments.values())) if adjustments else None
    # Nothing to try, or it is rejected.
    if outcome is None:
        return
    clauses = []
    data = []
    for zones, pools in pools_by_zones.items():
        zone_text = _format_zones(zones) if zones else "all zones"
        clauses.append(f"{format_first_items(list(pools), _MAXIMUM_POOLS)} in {zone_text}")
        data.append({"pools": list(pools), "availability_zones": list(zones)})
    text = f"{'; '.join(clauses)}, unchanged.{_format_open_rules(outcome.plan)}"
    yield Remedy("zones", text, outcome, {"as_before": data}, tuple(adjustments.values()))


def _has_shared_pool(rule: UnsatisfiedRule) -> bool:
    """Return whether two groups have members in one pool, so zones cannot separate them.

    The members are VMs, or pods on them.
    """
    # Address of the object and name of the pool.
    pools_so_far: set[tuple[str, str]] = set()
    for group in rule.groups:
        pools = {(str(member.vm[0]), member.pool.pool) for member in group}
        if pools & pools_so_far:
            return True
        pools_so_far |= pools
    return False


def _build_zone_group(
    group: Sequence[GroupMember], site: SitePlan, *, may_move: bool, is_rewritten: bool = False
) -> _ZoneGroup:
    """Build a group of a rule.

    With `may_move`, existing VMs may move, too. With `is_rewritten`, pools may leave their
    configured zones. Members without a choice of zones require their own. The minimum number of
    zones follows from the CPUs and the memory of all machines, even of occupied ones.
    """
    site_zones = site.list_zones()
    changed_members: list[GroupMember] = []
    required_zones: set[str] = set()
    existing_per_zone: Counter[str] = Counter()
    for member in group:
        # This plan does not place such a member.
        is_existing = member.rank < 0
        # True adds 1.
        existing_per_zone[member.placement.availability_zone] += is_existing
        # The pools of clusters have a count and zones; plain VMs and VNFs have neither.
        is_fixed = not member.pool.count_path or (is_existing and not may_move)
        if is_fixed:
            required_zones.add(member.placement.availability_zone)
        else:
            changed_members.append(member)
            # The pool keeps its configured zones.
            if not is_rewritten:
                required_zones |= member.pool.configured_zones
    # Zones with existing members are preferred, so that fewer of them move.
    optional_zones = [zone for zone in site_zones if zone not in required_zones]
    # Equal counts stay in the order of the site.
    optional_zones.sort(key=lambda zone: -existing_per_zone[zone])
    names = dict.fromkeys(map(_get_cluster_name, group))  # each once
    ordered_required = [zone for zone in site_zones if zone in required_zones]
    skus = [member.pool.sku for member in group]
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for machine in site.machines.values():
        cpus[machine.availability_zone] += machine.cells * machine.cpus_per_cell
        memory[machine.availability_zone] += machine.cells * machine.memory_mib_per_cell
    zones_for_cpus = _count_covering_zones(sum(sku.host_vcpus for sku in skus), cpus)
    zones_for_memory = _count_covering_zones(sum(sku.memory_mib for sku in skus), memory)
    return _ZoneGroup(
        names=tuple(names),
        required_zones=tuple(ordered_required),
        optional_zones=tuple(optional_zones),
        minimum_count=max(1, zones_for_cpus, zones_for_memory),
        members=tuple(changed_members),
        is_rewritten=is_rewritten,
    )


def _get_cluster_name(member: GroupMember) -> str:
    """Return the name of a member's cluster: the last part of its id."""
    return member.cluster.rpartition(":")[2].rpartition("/")[2]


def _count_covering_zones(need: int, amounts: Mapping[str, int]) -> int:
    """Return the number of zones to cover the need, taking the largest first.

    Return the number of all zones if they are too small.
    """
    # Of no zone, the largest one, the two largest.
    totals = [0, *accumulate(sorted(amounts.values(), reverse=True))]
    return min(bisect_left(totals, need), len(amounts))


def _iterate_zone_sets(zone_groups: Sequence[_ZoneGroup]) -> Iterator[tuple[Zones, ...]]:
    """Yield ways to give each group its own zones, fewest zones in total first.

    Each way has one set of zones per group, and no zone is in two sets: for two groups
    (("1",), ("2", "3")).
    """
    required_zones = list(
        chain.from_iterable(zone_group.required_zones for zone_group in zone_groups)
    )
    if len(set(required_zones)) != len(required_zones):
        # Two groups require the same zone.
        return
    zone_count = len(
        set(chain(required_zones, *(zone_group.optional_zones for zone_group in zone_groups)))
    )
    minimum_sizes = [
        max(len(zone_group.required_zones), zone_group.minimum_count) for zone_group in zone_groups
    ]
    size_ranges = [range(minimum, zone_count + 1) for minimum in minimum_sizes]
    for sizes in sorted(product(*size_ranges), key=lambda sizes: (sum(sizes), sizes)):
        if sum(sizes) > zone_count:
            # Disjoint sets need as many zones, and all later ones need more.
            return
        zones = _assign_zones(zone_groups, sizes, set(required_zones))
        if zones is not None:
            yield zones


def _assign_zones(
    zone_groups: Sequence[_ZoneGroup], sizes: Sequence[int], required_zones: set[str]
) -> tuple[Zones, ...] | None:
    """Return disjoint zone sets of these `sizes`, one per group.

    A set has the required zones of the group, then its preferred optional ones. Return None if too
    few zones are left.
    """
    assigned_zones = set(required_zones)
    assigned = []
    for zone_group, size in zip(zone_groups, sizes, strict=True):
        missing_count = size - len(zone_group.required_zones)
        new_zones = [zone for zone in zone_group.optional_zones if zone not in assigned_zones][
            :missing_count
        ]
        if len(new_zones) < missing_count:
            return None
        assigned_zones |= set(new_zones)
        assigned.append((*zone_group.required_zones, *new_zones))
    return tuple(assigned)


def _build_adjustments(
    zone_groups: Sequence[_ZoneGroup], zones: Sequence[Zones]
) -> list[ArgumentAdjustment]:
    """Set each pool to the zones of its group.

    Unless the group `is_rewritten`, keep only zones the pool allows now.
    """
    # By address and pool name.
    adjustments: dict[tuple[str, str], ArgumentAdjustment] = {}
    for zone_group, selected_zones in zip(zone_groups, zones, strict=True):
        for member in zone_group.members:
            address, _ = member.vm
            allowed = set(selected_zones)
            if member.pool.zones and not zone_group.is_rewritten:
                allowed &= member.pool.zones
            path = (*member.pool.path, "availability_zones")
            adjustments[str(address), member.pool.pool] = ArgumentAdjustment(
                address, path, sorted(allowed)
            )
    return list(adjustments.values())


def _format_zones(zones: Sequence[str]) -> str:
    """Format a list of zones as HCL."""
    quoted = ", ".join(f'"{zone}"' for zone in sorted(zones, key=compute_natural_sort_key))
    return f"[{quoted}]"


def _format_open_rules(plan: Plan) -> str:
    """Return a sentence on the `deny` rules that a remedy leaves violated; "" for none."""
    open_rules = [
        str(rule.address)
        for rule in plan.verdicts.separation_verdicts
        if rule.enforcement == "deny" and rule.violations
    ]
    return enclose(" ", ", ".join(open_rules), " would still be violated.")
