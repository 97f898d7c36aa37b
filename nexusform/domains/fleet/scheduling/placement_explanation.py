"""Explanation of a placement: the verdict of every rule on every cluster.

The module has only data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from nexusform.diagnostics.phrases import format_list
from nexusform.domains.fleet.scheduling import scheduling_cycle
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    ChangeCause,
    CycleAbort,
    Member,
    PlacementRequest,
    PlacementType,
    Policy,
    PolicySnapshot,
    PreferredTerm,
    PropertyRequirement,
    build_outscored_decision,
    build_selected_decision,
    collect_clusters,
    collect_lasting_clusters,
    index_by_cluster,
)
from nexusform.domains.fleet.scheduling.member_list import (
    BindingMasks,
    BindingTable,
    MemberList,
    iterate_ascending,
)
from nexusform.domains.fleet.scheduling.profile import FILTERS
from nexusform.domains.fleet.scheduling.properties import (
    COMPARISONS,
    PropertyExtremes,
    find_property_extremes,
    read_property,
)
from nexusform.domains.fleet.scheduling.rules import cluster_affinity, topology_spread
from nexusform.domains.fleet.scheduling.scheduling_cycle import (
    ScoredMember,
    filter_members,
    rank_members,
)
from nexusform.kubernetes.matching import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    LabelSelector,
    Requirement,
    is_requirement_met,
)
from nexusform.kubernetes.quantity import Quantity, read_quantity
from nexusform.scheduling.placement_decision import Rejection
from nexusform.values.typed_value import format_number

_NANO = 10**9


class PreferredTermScore(Struct, frozen=True):
    """Points of a cluster from a preferred term.

    A property sorter also has its share of the weight (0..1).
    """

    weight: int
    points: int
    share: float | None = None
    property: str = ""
    value: str = ""

    def format_share(self) -> str:
        """Return the share with at most two decimals: "11.11 %"; "" without one."""
        return (
            "" if self.share is None else f"{self.share * 100:.2f}".rstrip("0").rstrip(".") + " %"
        )


class ScoreMargin(Struct, frozen=True):
    """Scores of a cluster minus those of the last picked one.

    The first nonzero part decides, else the larger name.
    """

    topology_spread: int
    affinity: int
    obsolete: int

    @property
    def deciding_part(self) -> str:
        """Name of the deciding part: the first nonzero one, or "name" if all are 0."""
        return next(
            (part for part in ("topology_spread", "affinity", "obsolete") if getattr(self, part)),
            "name",
        )


class ClusterExplanation(Struct, frozen=True):
    """Explanation of one cluster.

    `binding` is the current one; `is_bound` means that it existed before any pick. `rejections`
    follow the profile's order, and KubeFleet reports the first; for a bound cluster they would only
    prevent a new pick. `batch` (from 1) is the batch of its pick. Scores are the recorded ones if
    bound or picked, else those of the last batch; None without scores (PickAll, PickFixed, a
    violated hard spread constraint). `rank` counts from 1 among the eligible before the last batch,
    `margin` is relative to the last pick in it. `details` compare observed and requested values for
    the first rejection.
    """

    cluster: str
    binding: Binding | None
    is_picked: bool
    rejections: tuple[Rejection, ...] = ()
    reported_reason: str = ""
    affinity_score: int | None = None
    topology_spread_score: int | None = None
    preferences: tuple[PreferredTermScore, ...] = ()
    rank: int | None = None
    margin: ScoreMargin | None = None
    is_bound: bool = False
    batch: int | None = None
    details: tuple[str, ...] = ()


class PlacementExplanation(Struct, frozen=True):
    """Explanation of one placement over the whole fleet: members in name order, then unknown names.

    `number` is N (None: all eligible, or a list of names), `batches` are the picked clusters, best
    first; `abort` is the error.
    """

    policy: Policy
    snapshot: PolicySnapshot
    number: int | None
    clusters: tuple[ClusterExplanation, ...]
    batches: tuple[tuple[str, ...], ...] = ()
    abort: CycleAbort | None = None

    @property
    def last_pick(self) -> str | None:
        """Last picked cluster; None without picks."""
        return self.batches[-1][-1] if self.batches else None


class SchedulingDrift(Struct, frozen=True):
    """Differences between fresh scheduling and current bindings; information only."""

    gained_clusters: tuple[str, ...]
    lost_clusters: tuple[str, ...]


def compute_policy_drift(
    bindings: Iterable[Binding],
    member_list: MemberList,
    policy: Policy,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> SchedulingDrift:
    """Compare the current clusters with the picks of a fresh scheduling.

    Report no difference if an error stops it.
    """
    fresh_result = scheduling_cycle.run_scheduling_cycles(
        (), member_list, policy, snapshot, namespace
    )
    if fresh_result.abort is not None:
        return SchedulingDrift(gained_clusters=(), lost_clusters=())
    current_clusters = collect_lasting_clusters(bindings)
    fresh_clusters = collect_clusters(fresh_result.bindings)
    gained = fresh_clusters - current_clusters
    lost = current_clusters - fresh_clusters
    return SchedulingDrift(tuple(sorted(gained)), tuple(sorted(lost)))


def explain(
    prior_bindings: Iterable[Binding],
    member_list: MemberList,
    policy: Policy,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> PlacementExplanation:
    """Explain every cluster by a replay of the scheduling cycles from `prior_bindings`.

    Each picks a batch of clusters. An explanation has the cluster's pick in any cycle, and the
    verdict of each rule at the start of the last one.
    """
    request = PlacementRequest(policy, namespace)
    bindings = tuple(prior_bindings)
    if request.policy.placement_type is PlacementType.PICK_FIXED:
        return _explain_pick_fixed_placement(
            request, BindingTable(bindings, member_list, snapshot.index), snapshot
        )
    replay = _collect_pick_batches(request, bindings, member_list, snapshot)
    binding_table = BindingTable(replay.bindings_before_last_cycle, member_list, snapshot.index)
    filter_result = filter_members(request, member_list, binding_table.masks)
    if isinstance(filter_result, CycleAbort):
        return _explain_aborted_cycle(request, binding_table, snapshot, filter_result)
    if request.policy.placement_type is PlacementType.PICK_ALL:  # no scores
        rows = _explain_members(request, binding_table, ranks={}, replay=replay)
        return PlacementExplanation(
            request.policy, snapshot, number=None, clusters=rows, batches=replay.batches
        )
    ranking = rank_members(request, member_list, binding_table.masks, filter_result.eligible)
    if isinstance(ranking, CycleAbort):
        return _explain_aborted_cycle(request, binding_table, snapshot, ranking)
    ranked = list(ranking.iterate_best_first(filter_result.eligible))
    # Of the last cycle.
    last_picks = replay.batches[-1] if replay.has_final_picks else ()
    picked = [
        scored for scored in ranked if member_list.members[scored.position].name in last_picks
    ]
    # The worst of them.
    last_pick = picked[-1] if picked else None
    # (rank, margin to the last pick) by cluster.
    ranks: _RankTable = {}
    for rank, scored in enumerate(ranked, 1):
        margin = (
            _compute_margin(scored, last_pick, binding_table.masks)
            if last_pick is not None
            else None
        )
        ranks[member_list.members[scored.position].name] = (rank, margin)
    rows = _explain_members(request, binding_table, ranks, replay)
    return PlacementExplanation(
        request.policy, snapshot, snapshot.number_of_clusters, rows, replay.batches
    )


class _SchedulingReplay(Struct, frozen=True):
    """Replay of a chain of cycles.

    Bindings at the start, before the last cycle (which writes a status) and after it, and the
    clusters picked in each. `has_final_picks` means that the last cycle picked any cluster.
    """

    initial_bindings: tuple[Binding, ...]
    bindings_before_last_cycle: tuple[Binding, ...]
    final_bindings: dict[str, Binding]
    batches: tuple[tuple[str, ...], ...]
    has_final_picks: bool


def _collect_pick_batches(
    request: PlacementRequest,
    initial: tuple[Binding, ...],
    member_list: MemberList,
    snapshot: PolicySnapshot,
) -> _SchedulingReplay:
    """Run the cycles again, one by one, and collect the clusters picked by each."""
    bindings = initial
    batches = []
    arguments = (member_list, request.policy, snapshot, request.namespace)
    while True:
        cycle_result = scheduling_cycle.run_scheduling_cycles(bindings, *arguments, is_single=True)
        picks = tuple(
            change.cluster for change in cycle_result.changes if change.cause is ChangeCause.PICKED
        )
        if picks:
            batches.append(picks)
        # The last cycle.
        if not cycle_result.needs_requeue:
            return _SchedulingReplay(
                initial_bindings=initial,
                bindings_before_last_cycle=bindings,
                final_bindings=index_by_cluster(cycle_result.bindings),
                batches=tuple(batches),
                has_final_picks=bool(picks),
            )
        bindings = cycle_result.bindings


_RankTable = dict[str, tuple[int, ScoreMargin | None]]


def _compute_margin(
    scored: ScoredMember, last_picked: ScoredMember, binding_masks: BindingMasks
) -> ScoreMargin:
    """Return the lead of a cluster over the last pick."""
    # 1 for a binding of an earlier policy, else 0.
    obsolete = binding_masks.obsolete >> scored.position & 1
    obsolete_of_last = binding_masks.obsolete >> last_picked.position & 1
    return ScoreMargin(
        scored.topology_spread - last_picked.topology_spread,
        scored.affinity - last_picked.affinity,
        obsolete - obsolete_of_last,
    )


def _explain_members(
    request: PlacementRequest,
    binding_table: BindingTable,
    ranks: _RankTable,
    replay: _SchedulingReplay,
) -> tuple[ClusterExplanation, ...]:
    """Explain every member, in name order.

    Its rejections and scores at the start of the last cycle (`binding_table`), and its pick in the
    `replay`. `ranks` has (rank, margin) of eligible members by name; empty except for a PickN.
    """
    member_list = binding_table.member_list
    masks = binding_table.masks
    # (affinity, spread) by position; only a PickN has scores.
    scores: dict[int, tuple[int, int | None]] = {}
    preferred_terms: tuple[PreferredTerm, ...] = ()
    if request.policy.placement_type is PlacementType.PICK_N:
        scores = _compute_scores(request, member_list, masks)
        preferred_terms = request.policy.preferred_terms
    bound_mask_at_start = BindingTable(
        replay.initial_bindings, member_list, binding_table.policy_snapshot
    ).current
    # The number of the cycle (from 1) that picked a cluster, by cluster.
    batch_by_cluster = {
        name: number for number, picks in enumerate(replay.batches, 1) for name in picks
    }
    rows: list[ClusterExplanation] = []
    for position, member in enumerate(member_list.members):
        rejections = _list_rejections(request, binding_table, position)
        affinity, spread = scores.get(position, (None, None))
        rank, margin = ranks.get(member.name, (None, None))
        # None: not picked.
        batch = batch_by_cluster.get(member.name)
        # The bit of this member.
        is_bound = bool(bound_mask_at_start >> position & 1)
        binding = replay.final_bindings.get(member.name) if is_bound or batch else None
        # bound or picked: report the recorded scores.
        if binding is not None:
            affinity = binding.affinity_score
            spread = binding.topology_spread_score
        details: tuple[str, ...] = ()
        if rejections:
            details = describe_rejection(rejections[0].rule, request, member_list, masks, position)
        rows.append(
            ClusterExplanation(
                cluster=member.name,
                binding=binding_table.by_cluster.get(member.name),
                is_picked=batch is not None,
                rejections=rejections,
                reported_reason=_build_reported_reason(
                    member.name, binding, rejections, affinity, spread
                ),
                affinity_score=affinity,
                topology_spread_score=spread,
                preferences=tuple(
                    _compute_preference(term, member_list, position) for term in preferred_terms
                ),
                rank=rank,
                margin=margin,
                is_bound=is_bound,
                batch=batch,
                details=details,
            )
        )
    return tuple(rows)


def _list_rejections(
    request: PlacementRequest, binding_table: BindingTable, position: int
) -> tuple[Rejection, ...]:
    """Return the rejections of a member by the rules.

    Left out are those due to its own binding: it rejects a second one for the same placement, and
    the topology spread counts it already.
    """
    member_list = binding_table.member_list
    binding_masks = binding_table.masks
    is_bound = bool(binding_masks.current >> position & 1)
    ignored_rules = {"same_placement_affinity", "topology_spread" if is_bound else ""}
    rejections: list[Rejection] = []
    for rule in FILTERS:
        if rule.rule in ignored_rules:
            continue
        accepted = rule.module.find_eligible(request, member_list, binding_masks)
        # An abort is no rejection.
        if not isinstance(accepted, CycleAbort) and not accepted >> position & 1:
            reason = rule.module.explain_rejection(request, member_list, binding_masks, position)
            rejections.append(Rejection(member_list.members[position].name, rule.rule, reason))
    return tuple(rejections)


def _build_reported_reason(
    name: str,
    binding: Binding | None,
    rejections: tuple[Rejection, ...],
    affinity: int | None,
    spread: int | None,
) -> str:
    """Return KubeFleet's text about a cluster.

    The cluster is picked (`binding`), rejected, or has too low a score.
    """
    if binding is not None:
        return build_selected_decision(binding).reason
    if rejections:
        return f"ClusterUnschedulable, {rejections[0].reason}"
    # None without scores.
    return build_outscored_decision(name, affinity or 0, spread or 0).reason


def _compute_scores(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks
) -> dict[int, tuple[int, int | None]]:
    """Return (affinity score, spread score) by position.

    A violated hard constraint leaves no spread score: None.
    """
    affinities, _ = cluster_affinity.compute_scores(request, member_list)
    spreads: dict[int, int] = {}
    verdict = topology_spread.evaluate_constraints(request, member_list, binding_masks)
    for score, members in verdict.members_by_score.items():
        spreads.update(dict.fromkeys(iterate_ascending(members), score))
    return {
        position: (affinity, spreads.get(position)) for position, affinity in enumerate(affinities)
    }


def _compute_preference(
    term: PreferredTerm, member_list: MemberList, position: int
) -> PreferredTermScore:
    """Return the points of a member from one preferred term, with its sorting property.

    The property is there only if the term has one.
    """
    single_policy = Policy(preferred_terms=(term,))
    scores, _failing = cluster_affinity.compute_scores(PlacementRequest(single_policy), member_list)
    points = scores[position]
    sorter = term.preference.property_sorter
    members = member_list.select_by_labels(term.preference.label_selector)
    # No sorter; an error or no match.
    if sorter is None or isinstance(members, str) or not members >> position & 1:
        return PreferredTermScore(term.weight, points)
    value = read_property(member_list.members[position], sorter.name)
    extremes = find_property_extremes(member_list, sorter.name)
    if not isinstance(value, Quantity) or not isinstance(extremes, PropertyExtremes):
        # No value here, or an unreadable one.
        return PreferredTermScore(term.weight, points, property=sorter.name)
    share = cluster_affinity.interpolate_score(value, extremes, sorter.sort_order)
    # A text is an error.
    valid_share = share if isinstance(share, float | int) else None
    return PreferredTermScore(
        term.weight,
        points,
        share=valid_share,
        property=sorter.name,
        value=_format_property(sorter.name, value),
    )


def _explain_aborted_cycle(
    request: PlacementRequest,
    binding_table: BindingTable,
    snapshot: PolicySnapshot,
    abort: CycleAbort,
) -> PlacementExplanation:
    """Build the explanation of a cycle stopped by an error.

    It has the verdicts of the rules, without ranks and scores.
    """
    rows = tuple(
        ClusterExplanation(
            cluster=member.name,
            binding=binding_table.by_cluster.get(member.name),
            is_picked=False,
            rejections=_list_rejections(request, binding_table, position),
            reported_reason=abort.message if member.name == abort.cluster else "",
        )
        for position, member in enumerate(binding_table.member_list.members)
    )
    return PlacementExplanation(
        request.policy, snapshot, snapshot.number_of_clusters, rows, abort=abort
    )


def _explain_pick_fixed_placement(
    request: PlacementRequest, binding_table: BindingTable, snapshot: PolicySnapshot
) -> PlacementExplanation:
    """Explain a PickFixed placement.

    The scheduler's decision on each named cluster, and why others are not picked.
    """
    cycle_result = scheduling_cycle.run_scheduling_cycles(
        binding_table.by_cluster.values(),
        binding_table.member_list,
        request.policy,
        snapshot,
        is_single=True,
    )
    # No status without names.
    decisions_made = cycle_result.status.list_decisions() if cycle_result.status else ()
    decisions_by_cluster = {decision.cluster: decision for decision in decisions_made}
    positions = binding_table.member_list.positions
    unknown_names = sorted(set(request.policy.cluster_names) - positions.keys())
    bound = collect_lasting_clusters(binding_table.by_cluster.values())
    rows: list[ClusterExplanation] = []
    for name in (*sorted(positions), *unknown_names):
        decision = decisions_by_cluster.get(name)
        binding = binding_table.by_cluster.get(name)
        if decision is None:
            rejection = Rejection(name, "cluster_names", "the policy does not name this cluster")
            rows.append(ClusterExplanation(name, binding, is_picked=False, rejections=(rejection,)))
        elif decision.is_selected:
            # A bound cluster stays: it is not picked again.
            is_bound = name in bound
            reason = decision.reason
            row = ClusterExplanation(
                name, binding, is_picked=not is_bound, reported_reason=reason, is_bound=is_bound
            )
            rows.append(row)
        else:
            # The latter: not in the fleet.
            rule = "cluster_eligibility" if name in positions else "cluster_names"
            rejections = (Rejection(name, rule, decision.reason),)
            rows.append(
                ClusterExplanation(
                    name, binding, False, rejections, reported_reason=decision.reason
                )
            )
    return PlacementExplanation(
        request.policy, snapshot, len(request.policy.cluster_names), tuple(rows)
    )


_MAX_NAMES = 6
_SIGNS: Mapping[str, str] = {"Gt": ">", "Ge": ">=", "Lt": "<", "Le": "<=", "Eq": "=", "Ne": "!="}


def describe_rejection(
    rule: str,
    request: PlacementRequest,
    member_list: MemberList,
    binding_masks: BindingMasks,
    position: int,
) -> tuple[str, ...]:
    """Return details of a rule's rejection, one sentence each; none if its reason is complete."""
    describe_rule = _DESCRIBERS.get(rule)
    return (
        tuple(describe_rule(request, member_list, binding_masks, position))
        if describe_rule is not None
        else ()
    )


def _describe_term_mismatches(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks, position: int
) -> Iterator[str]:
    """Yield a text per required term with its mismatches.

    The member is rejected, so no term matches it.
    """
    terms = request.policy.required_terms or ()
    member = member_list.members[position]
    for number, term in enumerate(terms, 1):
        # The mismatches of a term: labels first, properties only if all labels match.
        mismatches = list(
            _find_label_mismatches(term.label_selector or LabelSelector(), member.labels)
        )
        if not mismatches:
            mismatches = list(_find_property_mismatches(term.property_selector or (), member))
        prefix = f"term {number}: " if len(terms) > 1 else ""
        yield f"{prefix}{'; '.join(mismatches)}"


def _find_label_mismatches(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each label value and expression of a selector not met by these labels."""
    for key, value in selector.match_labels:
        if labels.get(key) != value:
            yield _format_label_mismatch(key, labels.get(key), value)
    for requirement in selector.match_expressions:
        if not is_requirement_met(requirement, labels):
            yield _format_expression_mismatch(requirement, labels.get(requirement.key))


def _format_property(name: str, value: Quantity) -> str:
    """Return a property's value; a cost as a decimal, since Kubernetes writes 0.123 as 123m."""
    amount = Fraction(value.nano, _NANO)
    # A whole amount has the same text in both.
    if amount.denominator == 1 or not name.endswith("-cost"):
        return str(value)
    return format_number(amount)


def _format_label_mismatch(key: str, value: str | None, requested: str) -> str:
    observed = f"no label {key}" if value is None else f"label {key} is {value}"
    return f"{observed} (required: {requested})"


def _format_expression_mismatch(requirement: Requirement, value: str | None) -> str:
    """Return the text of a label with a failed expression."""
    key = requirement.key
    values = format_list(requirement.values, _MAX_NAMES)
    if requirement.operator == IN:
        return _format_label_mismatch(key, value, f"in {values}")
    if requirement.operator == EXISTS:
        return f"no label {key}"
    if requirement.operator == DOES_NOT_EXIST:
        return f"label {key} exists ({value})"
    return f"label {key} is {value} (required: not in {values})"  # NotIn


def _find_property_mismatches(
    requirements: Iterable[PropertyRequirement], member: Member
) -> Iterator[str]:
    """Yield a text for each property that is missing or fails its comparison.

    Requirements with a malformed quantity or operator, and unreadable values, have none: they stop
    the scheduler with a text of its own.
    """
    for requirement in requirements:
        name = requirement.name
        sign = _SIGNS.get(requirement.operator, requirement.operator)
        requested = f"{sign} {format_list(requirement.values, _MAX_NAMES)}"
        value = read_property(member, name)
        compare = COMPARISONS.get(requirement.operator)
        bound = read_quantity(requirement.values[0]) if len(requirement.values) == 1 else None
        if value is None:
            yield f"no property {name} (required: {requested})"
        if not isinstance(value, Quantity) or compare is None or bound is None:
            # Nothing to compare.
            continue
        if not compare(value.nano, bound.nano):
            yield f"{name} is {_format_property(name, value)} (required: {requested})"


def _describe_spread_rejection(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks, position: int
) -> Iterator[str]:
    """Yield the picks per domain for the first constraint rejecting the member, if any."""
    verdict = topology_spread.evaluate_constraints(request, member_list, binding_masks)
    for constraint, members in verdict.rejected_by_constraint:
        if members >> position & 1:
            # masks of members by domain.
            by_value = member_list.members_by_label.get(constraint.topology_key, {})
            own_value = member_list.members[position].labels.get(constraint.topology_key, "")
            # Its own domain first.
            values = sorted(by_value, key=lambda value: (value != own_value, value))
            counts = [
                f"{value}: {(by_value[value] & binding_masks.current).bit_count()}"
                for value in values
            ]
            yield f"picks by {constraint.topology_key}: {format_list(counts, _MAX_NAMES)}"
            return


_DESCRIBERS: Mapping[
    str, Callable[[PlacementRequest, MemberList, BindingMasks, int], Iterator[str]]
] = {"cluster_affinity": _describe_term_mismatches, "topology_spread": _describe_spread_rejection}
