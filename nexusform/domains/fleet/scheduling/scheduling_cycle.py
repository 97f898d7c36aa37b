"""Scheduling cycle: bindings, members and policy -> next bindings.

Filters run in order. Scores are compared in turn, never added: topology spread, affinity, an
obsolete binding, the LARGER name. Source: KubeFleet pkg/scheduler/framework.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile

from msgspec import Struct

from nexusform.domains.fleet.scheduling import profile
from nexusform.domains.fleet.scheduling.bindings import (
    MAX_UNSELECTED,
    Binding,
    BindingAction,
    BindingChange,
    ChangeCause,
    CycleAbort,
    Decision,
    PlacementRequest,
    PlacementType,
    Policy,
    PolicySnapshot,
    SchedulingStatus,
    build_outscored_decision,
    build_scheduled_condition,
    list_unselected_clusters,
)
from nexusform.domains.fleet.scheduling.member_list import (
    BindingMasks,
    BindingTable,
    Mask,
    MemberList,
    build_mask,
    iterate_ascending,
    iterate_descending,
)
from nexusform.domains.fleet.scheduling.profile import SchedulerFilter
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    topology_spread,
)


class ScoredMember(Struct, frozen=True):
    """Position of a member in the member list, and its two scores."""

    position: int
    affinity: int
    topology_spread: int


class MemberRanking(Struct, frozen=True):
    """Members by topology spread score and by affinity score, each in descending order."""

    members_by_spread: tuple[tuple[int, Mask], ...]
    members_by_affinity: tuple[tuple[int, Mask], ...]
    binding_masks: BindingMasks

    def iterate_best_first(self, candidates: Mask) -> Iterator[ScoredMember]:
        """Yield candidates in picking order.

        They are ordered by spread score, affinity score, an obsolete binding, and larger name. The
        candidates, like all sets of members, are a bit mask.
        """
        # bound under an earlier policy.
        obsolete = self.binding_masks.obsolete
        for spread, spread_members in self.members_by_spread:
            remaining = spread_members & candidates
            for affinity, affinity_members in self.members_by_affinity:
                if not remaining:
                    break
                # In both scores.
                equal = remaining & affinity_members
                remaining &= ~equal
                for equal_members in (equal & obsolete, equal & ~obsolete):
                    for position in iterate_descending(equal_members):
                        yield ScoredMember(position, affinity, spread)


def rank_members(
    request: PlacementRequest,
    member_list: MemberList,
    binding_masks: BindingMasks,
    candidates: Mask,
) -> MemberRanking | CycleAbort:
    """Score the candidates of a PickN policy; an unreadable property stops the cycle."""
    abort = cluster_affinity.check_property_sorters(request, member_list)
    if abort is not None:
        return abort
    affinities, failing = member_list.get_cached(
        ("affinities", request.policy.preferred_terms),
        lambda: _group_by_affinity(request, member_list),
    )
    # masks of members: the first failing candidate stops the cycle.
    if failing & candidates:
        position = next(iterate_ascending(failing & candidates))
        name = member_list.members[position].name
        _, messages = cluster_affinity.compute_scores(request, member_list)
        return CycleAbort(
            name, f"failed to calculate score for cluster {name}: {messages[position]}"
        )
    return MemberRanking(
        _group_by_spread(request, member_list, binding_masks), affinities, binding_masks
    )


def _group_by_affinity(
    request: PlacementRequest, member_list: MemberList
) -> tuple[tuple[tuple[int, Mask], ...], Mask]:
    """Return pairs, highest first, and the mask of members without a score.

    A pair is an affinity score and the mask of its members.
    """
    scores, failing = cluster_affinity.compute_scores(request, member_list)
    members_by_score: dict[int, Mask] = {}
    for position, score in enumerate(scores):
        members_by_score[score] = members_by_score.get(score, 0) | 1 << position
    return tuple(sorted(members_by_score.items(), reverse=True)), build_mask(failing)


def _group_by_spread(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks
) -> tuple[tuple[int, Mask], ...]:
    """Return pairs (topology spread score, mask of members), the highest score first."""
    if not request.policy.spread_constraints:
        return ((0, member_list.all_members),)
    verdict = topology_spread.evaluate_constraints(request, member_list, binding_masks)
    return tuple(sorted(verdict.members_by_score.items(), reverse=True))


class FilterResult(Struct, frozen=True):
    """Eligible members, and those first rejected by each rule.

    Bound ones are in neither if no earlier rule rejects.
    """

    eligible: Mask
    rejected_by_rule: tuple[tuple[SchedulerFilter, Mask], ...]


def filter_members(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks
) -> FilterResult | CycleAbort:
    """Return the members accepted by all filters, or the error of one.

    The results of static filters (about members) are cached.
    """
    static_rules = tuple(takewhile(lambda rule: rule.is_static, profile.FILTERS))
    dynamic_rules = profile.FILTERS[len(static_rules) :]
    everyone = FilterResult(member_list.all_members, rejected_by_rule=())
    start = member_list.get_cached(
        ("screened", request),
        lambda: _apply_filters(static_rules, everyone, request, member_list, BindingMasks()),
    )
    if isinstance(start, CycleAbort):
        return start
    return _apply_filters(dynamic_rules, start, request, member_list, binding_masks)


def _apply_filters(
    rules: tuple[SchedulerFilter, ...],
    start: FilterResult,
    request: PlacementRequest,
    member_list: MemberList,
    binding_masks: BindingMasks,
) -> FilterResult | CycleAbort:
    """Return the result extended by these filters, or the first abort.

    The abort is that of the first filter unable to decide.
    """
    eligible = start.eligible
    rejected_by_rule = list(start.rejected_by_rule)
    for rule in rules:
        accepted = rule.module.find_eligible(request, member_list, binding_masks)
        if isinstance(accepted, CycleAbort):
            return accepted
        newly_rejected = eligible & ~accepted
        if newly_rejected:
            rejected_by_rule.append((rule, newly_rejected))
            eligible &= accepted
    return FilterResult(eligible, tuple(rejected_by_rule))


class CycleResult(Struct, frozen=True):
    """Result of one cycle or a chain of cycles.

    `bindings` are in name order. `status` is None if none was written (another cycle follows, the
    cycle stopped, or a PickFixed has no names). `abort` is the error; bindings on departed
    clusters are marked anyway. `needs_requeue` means that another cycle follows immediately.
    `cycles` is their number.
    """

    bindings: tuple[Binding, ...]
    changes: tuple[BindingChange, ...]
    status: SchedulingStatus | None
    needs_requeue: bool = False
    abort: CycleAbort | None = None
    cycles: int = 1


class _CycleOutcome(Struct, frozen=True):
    """Outcome of one cycle."""

    status: SchedulingStatus | None = None
    needs_requeue: bool = False
    abort: CycleAbort | None = None


def run_scheduling_cycles(
    prior: Iterable[Binding],
    member_list: MemberList,
    policy: Policy,
    snapshot: PolicySnapshot,
    namespace: str = "",
    *,
    is_single: bool = False,
) -> CycleResult:
    """Run scheduling cycles of a placement until none requests another, or a single one.

    `changes` of the result are those of all cycles, in order. `namespace` is "" for
    a cluster-scoped placement.
    """
    request = PlacementRequest(policy, namespace)
    binding_table = BindingTable(prior, member_list, snapshot.index)
    # runs one cycle and changes the table.
    step = _PICKERS[request.policy.placement_type]
    cycles = 1
    outcome = step(request, binding_table, snapshot)
    while outcome.needs_requeue and not is_single:
        outcome = step(request, binding_table, snapshot)
        cycles += 1
    return CycleResult(
        bindings=binding_table.list_bindings(),
        changes=tuple(binding_table.changes),
        status=outcome.status,
        needs_requeue=outcome.needs_requeue,
        abort=outcome.abort,
        cycles=cycles,
    )


def _pick_all(
    request: PlacementRequest, binding_table: BindingTable, _snapshot: PolicySnapshot
) -> _CycleOutcome:
    """Pick every eligible cluster, in name order; the number found is the number needed."""
    filter_result = filter_members(request, binding_table.member_list, binding_table.masks)
    if isinstance(filter_result, CycleAbort):
        return _CycleOutcome(abort=filter_result)
    existing = _list_bindings(binding_table, binding_table.scheduled, binding_table.bound)
    picks = [
        ScoredMember(position, 0, 0) for position in iterate_ascending(filter_result.eligible)
    ]  # without scores
    picked = _bind_picked_clusters(binding_table, picks, filter_result.eligible)
    if isinstance(picked, CycleAbort):
        return _CycleOutcome(abort=picked)
    selected = (*picked, *existing)
    rejected = _build_rejections(filter_result, request, binding_table)
    unselected = list_unselected_clusters(selected, (), rejected)
    return _CycleOutcome(_build_status(len(selected), selected, unselected))


def _pick_fixed(
    request: PlacementRequest, binding_table: BindingTable, _snapshot: PolicySnapshot
) -> _CycleOutcome:
    """Bind the named clusters if they exist and are eligible, regardless of labels and taints.

    Release the bindings of other clusters.
    """
    names = tuple(dict.fromkeys(request.policy.cluster_names))
    if not names:
        # A hub writes no status.
        return _CycleOutcome()
    member_list = binding_table.member_list
    valid_positions: list[int] = []
    ineligible: list[Decision] = []
    missing: list[Decision] = []
    for name in names:
        position = member_list.positions.get(name)
        if position is None:
            missing.append(
                Decision(name, is_selected=False, reason=f'Specified cluster "{name}" is not found')
            )
            continue
        reason = cluster_eligibility.explain_ineligibility(member_list.members[position])
        if reason:
            text = f'Cluster "{name}" is not eligible for resource placement yet: {reason}'
            ineligible.append(Decision(name, is_selected=False, reason=text))
        else:
            valid_positions.append(position)
    # One bit per position, 1 if bound.
    bound_mask = binding_table.current
    picks = [
        ScoredMember(position, 0, 0)
        for position in valid_positions
        if not (bound_mask >> position) & 1
    ]
    result = _bind_picked_clusters(
        binding_table, picks, targets=build_mask(valid_positions), has_scores=False
    )
    if isinstance(result, CycleAbort):
        return _CycleOutcome(abort=result)
    selected = tuple(map(binding_table.get_binding, valid_positions))
    return _CycleOutcome(_build_status(len(names), selected, (*ineligible, *missing)))


def _pick_n(
    request: PlacementRequest, binding_table: BindingTable, snapshot: PolicySnapshot
) -> _CycleOutcome:
    """Adjust the number of clusters to N: downscale, keep, or pick the best eligible ones.

    Without a number in the snapshot, N is the count of eligible clusters and current bindings.
    """
    if snapshot.number_of_clusters is not None:
        number = snapshot.number_of_clusters
    else:
        eligible = cluster_eligibility.find_eligible(
            request, binding_table.member_list, binding_table.masks
        )
        # masks with a bit for each member.
        number = (eligible | binding_table.current).bit_count()
    # Under the present policy.
    current_count = binding_table.current.bit_count()
    if number > current_count:
        return _pick_missing_clusters(request, binding_table, number, number - current_count)
    if number < current_count or binding_table.obsolete:
        selected = _release_surplus(binding_table, current_count - number)
    else:
        # Nothing to do.
        selected = _list_bindings(binding_table, binding_table.bound, binding_table.scheduled)
    return _CycleOutcome(_build_status(number, selected, unselected=()))


def _release_surplus(binding_table: BindingTable, surplus: int) -> tuple[Binding, ...]:
    """Release obsolete bindings (of earlier policies), then as many others as the surplus.

    Scheduled bindings leave before bound ones, and in each group low scores first. Return the
    remaining bindings, scheduled first. A partly released group stays in release order, as reported
    by a hub.
    """
    for position in iterate_ascending(binding_table.obsolete):
        binding_table.release_member(position, ChangeCause.POLICY)
    scheduled = _list_bindings(binding_table, binding_table.scheduled)
    bound = _list_bindings(binding_table, binding_table.bound)
    leaving: tuple[Binding, ...] = ()
    if 0 < surplus < len(scheduled):
        ranked = _sort_bindings_worst_first(scheduled)
        leaving = ranked[:surplus]
        scheduled = ranked[surplus:]
    elif surplus == len(scheduled):
        leaving = scheduled
        scheduled = ()
    elif surplus:
        # All scheduled ones, and some bound ones.
        ranked = _sort_bindings_worst_first(bound)
        bound_count = surplus - len(scheduled)
        leaving = (*scheduled, *ranked[:bound_count])
        scheduled = ()
        bound = ranked[bound_count:]
    for binding in leaving:
        binding_table.release_member(
            binding_table.member_list.positions[binding.cluster], ChangeCause.DOWNSCALE
        )
    return (*scheduled, *bound)


def _sort_bindings_worst_first(bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
    """Return the bindings in release order: by scores (none first), then names."""

    def build_key(binding: Binding) -> tuple[bool, int, int, str]:
        affinity = binding.affinity_score
        spread = binding.topology_spread_score
        if affinity is None or spread is None:
            # Before all with scores.
            return (False, 0, 0, binding.cluster)
        return (True, spread, affinity, binding.cluster)

    return tuple(sorted(bindings, key=build_key))


def _pick_missing_clusters(
    request: PlacementRequest, binding_table: BindingTable, number: int, missing_count: int
) -> _CycleOutcome:
    """Pick one batch of clusters.

    With spread constraints it is a single cluster, since each pick changes the scores of the next
    one. Otherwise the batch has all missing clusters.
    """
    limit = 1 if request.policy.spread_constraints else missing_count
    filter_result = filter_members(request, binding_table.member_list, binding_table.masks)
    if isinstance(filter_result, CycleAbort):
        return _CycleOutcome(abort=filter_result)
    ranking = rank_members(
        request, binding_table.member_list, binding_table.masks, filter_result.eligible
    )
    if isinstance(ranking, CycleAbort):
        return _CycleOutcome(abort=ranking)
    # masks before the picks are added below.
    kept_groups = (binding_table.scheduled, binding_table.bound)
    picks = list(islice(ranking.iterate_best_first(filter_result.eligible), limit))
    picked_members = build_mask(scored.position for scored in picks)
    # Evaluated before the picks change the masks.
    rejected = list(
        islice(_build_rejections(filter_result, request, binding_table), MAX_UNSELECTED)
    )
    picked_bindings = _bind_picked_clusters(binding_table, picks, picked_members)
    if isinstance(picked_bindings, CycleAbort):
        return _CycleOutcome(abort=picked_bindings)
    # A full batch: the next cycle picks the next one.
    if missing_count > limit and len(picked_bindings) == limit:
        # Only the last cycle writes a status.
        return _CycleOutcome(needs_requeue=True)
    selected = (*picked_bindings, *_list_bindings(binding_table, *kept_groups))
    # The eligible members that were not picked, best first.
    members = binding_table.member_list.members
    outscored = (
        build_outscored_decision(
            members[scored.position].name, scored.affinity, scored.topology_spread
        )
        for scored in ranking.iterate_best_first(filter_result.eligible & ~picked_members)
    )
    unselected = list_unselected_clusters(selected, outscored, rejected)
    return _CycleOutcome(_build_status(number, selected, unselected))


def _build_status(
    number: int, selected: tuple[Binding, ...], unselected: tuple[Decision, ...]
) -> SchedulingStatus:
    """Build the status of a placement; `number` is the requested number of clusters."""
    condition = build_scheduled_condition(len(selected), len(selected) >= number)
    return SchedulingStatus(condition, selected, unselected)


def _bind_picked_clusters(
    binding_table: BindingTable,
    picks: list[ScoredMember],
    targets: Mask,
    *,
    has_scores: bool = True,
) -> tuple[Binding, ...] | CycleAbort:
    """Bind the picks, and release obsolete bindings of members outside `targets`.

    Obsolete bindings belong to an earlier policy. Return the bindings of the picks: created,
    repointed to the new policy, or recovered from a removal. An unrecoverable binding stops the
    cycle before any change.
    """
    for pick in picks:
        if binding_table.is_unrecoverable(pick.position):
            name = binding_table.member_list.members[pick.position].name
            return CycleAbort(
                name, f"failed to find the previous state of an unscheduled binding on {name}"
            )
    created: list[Binding] = []
    updated: dict[BindingAction, list[Binding]] = {
        BindingAction.REPOINTED: [],
        BindingAction.RECOVERED: [],
    }
    for pick in picks:
        scores = (pick.affinity, pick.topology_spread) if has_scores else (None, None)
        action = binding_table.bind_member(pick.position, *scores)
        # CREATED is not in `updated`.
        updated.get(action, created).append(binding_table.get_binding(pick.position))
    for position in iterate_ascending(binding_table.obsolete & ~targets):
        binding_table.release_member(position, ChangeCause.POLICY)
    repointed, recovered = (
        sorted(group, key=lambda binding: binding.cluster) for group in updated.values()
    )
    return (*created, *repointed, *recovered)


def _list_bindings(binding_table: BindingTable, *groups: Mask) -> tuple[Binding, ...]:
    """Return the bindings of the members in these bit masks, mask by mask."""
    return tuple(
        binding_table.get_binding(position)
        for mask in groups
        for position in iterate_ascending(mask)
    )


def _build_rejections(
    filter_result: FilterResult, request: PlacementRequest, binding_table: BindingTable
) -> Iterable[Decision]:
    """Yield the decisions on members that KubeFleet reports as filtered out.

    Each has the first rule's reason. Sets of members are bit masks: bit 2 is the member at position
    2. Members bound already are not reported.
    """
    member_list = binding_table.member_list
    binding_masks = binding_table.masks
    # A member is in the mask of the first rule that rejects it only, so the sum is the union.
    reported = [
        row for row in filter_result.rejected_by_rule if row[0].rule != "same_placement_affinity"
    ]
    for position in iterate_ascending(sum(members for _rule, members in reported)):
        rule = next(rule for rule, members in reported if members >> position & 1)
        reason = rule.module.explain_rejection(request, member_list, binding_masks, position)
        name = member_list.members[position].name
        yield Decision(name, is_selected=False, reason=f"ClusterUnschedulable, {reason}")


_PICKERS: dict[
    PlacementType, Callable[[PlacementRequest, BindingTable, PolicySnapshot], _CycleOutcome]
] = {
    PlacementType.PICK_ALL: _pick_all,
    PlacementType.PICK_FIXED: _pick_fixed,
    PlacementType.PICK_N: _pick_n,
}
