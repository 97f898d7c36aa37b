"""The scheduling cycle: what a placement holds, the fleet and the policy -> what it holds next.

`schedule` is one cycle; `settle` is the chain of cycles that the controller runs until it is done. In a
cycle, `screen` runs the filters one after the other and `rank` the scores: topology spread, then affinity,
then an obsolete binding, then the LARGER name; the parts are compared one after the other, never added.
Source: KubeFleet pkg/scheduler/framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, takewhile

from msgspec import Struct

from nexusform.domains.fleet.scheduling import decisions, profile
from nexusform.domains.fleet.scheduling.bindings import (
    Abort,
    Ask,
    Binding,
    BindingAction,
    BindingChange,
    Cause,
    Decision,
    PlacementType,
    Policy,
    PolicySnapshot,
)
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.profile import Filter
from nexusform.domains.fleet.scheduling.roster import Holdings, Mask, Roster, Standing, ascending, descending
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    same_placement_affinity,
    topology_spread,
)


class Scored(Struct, frozen=True):
    """A member's position in the roster and its two recorded scores."""

    position: int
    affinity: int
    topology_spread: int


class Ranking(Struct, frozen=True):
    """Members by topology spread score and by affinity score, each from high to low."""

    spreads: tuple[tuple[int, Mask], ...]
    affinities: tuple[tuple[int, Mask], ...]
    standing: Standing

    def best_first(self, candidates: Mask) -> Iterator[Scored]:
        """Candidates in the order in which they are picked."""
        for spread, having_spread in self.spreads:
            not_yielded = having_spread & candidates
            for affinity, having_affinity in self.affinities:
                if not not_yielded:
                    break
                tied = not_yielded & having_affinity
                not_yielded &= ~tied
                for equal_members in same_placement_affinity.preferred(tied, self.standing):
                    for position in descending(equal_members):
                        yield Scored(position, affinity, spread)


def rank(ask: Ask, roster: Roster, standing: Standing, candidates: Mask) -> Ranking | Abort:
    """Score the candidates of a PickN policy."""
    abort = cluster_affinity.prepare(ask, roster)
    if abort is not None:
        return abort
    affinities, failing = roster.remember(
        ("affinities", ask.policy.preferred), lambda: _by_affinity(ask, roster)
    )
    for position in ascending(failing & candidates):
        name = roster.members[position].name
        message = cluster_affinity.scores(ask, roster)[1][position]
        return Abort(name, f"failed to calculate score for cluster {name}: {message}")
    return Ranking(_by_spread(ask, roster, standing), affinities, standing)


def _by_affinity(ask: Ask, roster: Roster) -> tuple[tuple[tuple[int, Mask], ...], Mask]:
    """Members by affinity score, from high to low, and those whose score cannot be worked out."""
    scores, failing = cluster_affinity.scores(ask, roster)
    members_by_score: dict[int, Mask] = {}
    for position, score in enumerate(scores):
        members_by_score[score] = members_by_score.get(score, 0) | 1 << position
    return tuple(sorted(members_by_score.items(), reverse=True)), sum(1 << position for position in failing)


def _by_spread(ask: Ask, roster: Roster, standing: Standing) -> tuple[tuple[int, Mask], ...]:
    """Members by topology spread score, from high to low."""
    if not ask.policy.spread:
        return ((0, roster.everyone),)
    return tuple(sorted(topology_spread.judge(ask, roster, standing).by_score.items(), reverse=True))


class Screening(Struct, frozen=True):
    """The members that pass, and by rule those that it was the first to refuse.

    A member that the placement already holds is neither, when nothing before that rule refuses it.
    """

    passing: Mask
    refused: tuple[tuple[Filter, Mask], ...]

    @property
    def filtered(self) -> Mask:
        """The members that KubeFleet calls filtered out."""
        return sum(members for rule, members in self.refused if rule.plugin != same_placement_affinity.PLUGIN)

    def first_refusal(self, position: int) -> Filter | None:
        """The rule that refused a member first."""
        return next((rule for rule, members in self.refused if members >> position & 1), None)


def screen(ask: Ask, roster: Roster, standing: Standing) -> Screening | Abort:
    """Run every filter. What the rules that look at members alone say is worked out once per question."""
    steady = tuple(takewhile(lambda rule: rule.steady, profile.FILTERS))
    moving = profile.FILTERS[len(steady) :]
    start = roster.remember(
        ("screened", ask), lambda: _filtered(steady, Screening(roster.everyone, ()), ask, roster, Standing())
    )
    return start if isinstance(start, Abort) else _filtered(moving, start, ask, roster, standing)


def _filtered(
    rules: tuple[Filter, ...], start: Screening, ask: Ask, roster: Roster, standing: Standing
) -> Screening | Abort:
    """Who passes these filters as well, and which filter refused whom."""
    passing, refused = start.passing, list(start.refused)
    for rule in rules:
        admitted = rule.admitted(ask, roster, standing)
        if isinstance(admitted, Abort):
            return admitted
        refused_here = passing & ~admitted
        if refused_here:
            refused.append((rule, refused_here))
            passing &= admitted
    return Screening(passing, tuple(refused))


class CycleResult(Struct, frozen=True):
    """What one cycle, or a chain of them, left behind.

    `bindings` in name order. `status` None: none was written (another cycle follows at once, the cycle
    stopped, or a PickFixed names nobody). `abort` says which value stopped it; bindings on clusters that
    left are marked all the same. `requeue`: another cycle follows at once. `cycles` counts them.
    """

    bindings: tuple[Binding, ...]
    changes: tuple[BindingChange, ...]
    status: SchedulingStatus | None
    requeue: bool = False
    abort: Abort | None = None
    cycles: int = 1


class _Outcome(Struct, frozen=True):
    """How a cycle ended."""

    status: SchedulingStatus | None = None
    requeue: bool = False
    abort: Abort | None = None


def schedule(
    prior: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> CycleResult:
    """Run one scheduling cycle for a placement; `namespace` is set for a namespaced one."""
    return _run(prior, roster, policy, snapshot, namespace, once=True)


def settle(
    prior: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> CycleResult:
    """Run cycles until none asks for another; `changes` are those of all of them, in order."""
    return _run(prior, roster, policy, snapshot, namespace, once=False)


def _run(
    prior: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str,
    *,
    once: bool,
) -> CycleResult:
    """Cycles until one asks for no other, or one only."""
    ask = Ask(policy or Policy(), namespace)
    holdings = Holdings(prior, roster, snapshot.index)
    step = _STEPS[ask.policy.placement_type]
    cycles = 1
    outcome = step(ask, holdings, snapshot)
    while outcome.requeue and not once:
        outcome = step(ask, holdings, snapshot)
        cycles += 1
    return CycleResult(
        holdings.bindings(), tuple(holdings.changes), outcome.status, outcome.requeue, outcome.abort, cycles
    )


def _pick_all(ask: Ask, holdings: Holdings, _snapshot: PolicySnapshot) -> _Outcome:
    """Pick every cluster that passes, in name order; what is found is what was needed."""
    screening = screen(ask, holdings.roster, holdings.standing)
    if isinstance(screening, Abort):
        return _Outcome(abort=screening)
    held = _listed(holdings, holdings.scheduled, holdings.bound)
    picks = [Scored(position, 0, 0) for position in ascending(screening.passing)]
    chosen = _hold(holdings, picks, screening.passing)
    if isinstance(chosen, Abort):
        return _Outcome(abort=chosen)
    selected = (*chosen, *held)
    refused = _refused(screening, ask, holdings)
    return _Outcome(
        SchedulingStatus(
            decisions.scheduled_condition(len(selected), True),
            selected,
            decisions.unselected(selected, (), refused),
        )
    )


def _pick_fixed(ask: Ask, holdings: Holdings, _snapshot: PolicySnapshot) -> _Outcome:
    """Bind the clusters named, whatever their labels and taints, if they are there and eligible."""
    names = tuple(dict.fromkeys(ask.policy.cluster_names))
    if not names:
        return _Outcome()
    roster = holdings.roster
    valid: list[int] = []
    invalid: list[Decision] = []
    missing: list[Decision] = []
    for name in names:
        position = roster.position.get(name)
        why = None if position is None else cluster_eligibility.ineligible(roster.members[position])
        if position is None:
            missing.append(decisions.not_found(name))
        elif why is not None:
            invalid.append(decisions.not_eligible(name, why))
        else:
            valid.append(position)
    targets = sum(1 << position for position in valid)
    new = [Scored(position, 0, 0) for position in valid if not holdings.current >> position & 1]
    stopped = _hold(holdings, new, targets, scored=False)
    if isinstance(stopped, Abort):
        return _Outcome(abort=stopped)
    condition = decisions.scheduled_condition(len(valid), not invalid and not missing)
    return _Outcome(SchedulingStatus(condition, tuple(holdings.at(p) for p in valid), (*invalid, *missing)))


def _pick_n(ask: Ask, holdings: Holdings, snapshot: PolicySnapshot) -> _Outcome:
    """Bring the number of clusters to N: fewer, the same, or the best of those that pass."""
    number = _number_of_clusters(ask, holdings, snapshot)
    present = holdings.current.bit_count()
    if number < present or (number == present and holdings.obsolete):
        return _downscale(holdings, number, present - number)
    if number == present:
        selected = _listed(holdings, holdings.bound, holdings.scheduled)
        return _Outcome(_status(number, selected, ()))
    return _upscale(ask, holdings, number, number - present)


def _number_of_clusters(ask: Ask, holdings: Holdings, snapshot: PolicySnapshot) -> int:
    """N of a PickN; without one, all that are eligible or held."""
    if snapshot.number_of_clusters is not None:
        return snapshot.number_of_clusters
    eligible = cluster_eligibility.admitted(ask, holdings.roster, holdings.standing)
    return (eligible | holdings.current).bit_count()


def _downscale(holdings: Holdings, number: int, surplus: int) -> _Outcome:
    """Drop obsolete bindings, then the surplus: scheduled before bound, low recorded scores first."""
    for position in ascending(holdings.obsolete):
        holdings.release(position, Cause.POLICY)
    scheduled = _listed(holdings, holdings.scheduled)
    bound = _listed(holdings, holdings.bound)
    leaving: tuple[Binding, ...] = ()
    # A group of which only a part leaves is told in the order in which it is given up.
    if 0 < surplus < len(scheduled):
        ranked = _worst_first(scheduled)
        leaving, scheduled = ranked[:surplus], ranked[surplus:]
    elif surplus == len(scheduled):
        leaving, scheduled = scheduled, ()
    elif surplus:
        ranked = _worst_first(bound)
        of_bound = surplus - len(scheduled)
        leaving, scheduled, bound = (*scheduled, *ranked[:of_bound]), (), ranked[of_bound:]
    for binding in leaving:
        holdings.release(holdings.roster.position[binding.cluster], Cause.DOWNSCALE)
    return _Outcome(_status(number, (*scheduled, *bound), ()))


def _worst_first(bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
    """The bindings in the order in which they are given up: recorded scores (none before any), then names."""

    def key(binding: Binding) -> tuple[bool, int, int, str]:
        affinity, spread = binding.affinity_score, binding.topology_spread_score
        if affinity is None or spread is None:
            return (False, 0, 0, binding.cluster)
        return (True, spread, affinity, binding.cluster)

    return tuple(sorted(bindings, key=key))


def _upscale(ask: Ask, holdings: Holdings, number: int, missing: int) -> _Outcome:
    """Pick one batch: a single cluster where picks are to be spread, else all that are missing."""
    limit = min(1, missing) if ask.policy.spread else missing
    screening = screen(ask, holdings.roster, holdings.standing)
    if isinstance(screening, Abort):
        return _Outcome(abort=screening)
    ranking = rank(ask, holdings.roster, holdings.standing, screening.passing)
    if isinstance(ranking, Abort):
        return _Outcome(abort=ranking)
    held = (holdings.scheduled, holdings.bound)
    picks = list(islice(ranking.best_first(screening.passing), limit))
    picked = sum(1 << scored.position for scored in picks)
    refused = list(islice(_refused(screening, ask, holdings), decisions.MOST_UNSELECTED))
    chosen = _hold(holdings, picks, picked)
    if isinstance(chosen, Abort):
        return _Outcome(abort=chosen)
    if missing > limit and len(chosen) == limit:
        return _Outcome(requeue=True)
    selected = (*chosen, *_listed(holdings, *held))
    outscored = _outscored(ranking, screening.passing & ~picked, holdings.roster)
    return _Outcome(_status(number, selected, decisions.unselected(selected, outscored, refused)))


def _status(number: int, selected: tuple[Binding, ...], unselected: tuple[Decision, ...]) -> SchedulingStatus:
    """The status of a PickN, whose clusters are to be `number`."""
    condition = decisions.scheduled_condition(len(selected), len(selected) >= number)
    return SchedulingStatus(condition, selected, unselected)


def _hold(
    holdings: Holdings, picks: list[Scored], targets: Mask, *, scored: bool = True
) -> tuple[Binding, ...] | Abort:
    """Bind the picks and let go of obsolete bindings elsewhere.

    Returns their bindings, new ones first. A binding that cannot be recovered stops the cycle before
    anything changes.
    """
    for pick in picks:
        if holdings.missing_previous_state(pick.position):
            name = holdings.roster.members[pick.position].name
            return Abort(name, f"failed to find the previous state of an unscheduled binding on {name}")
    created: list[Binding] = []
    patched: dict[BindingAction, list[Binding]] = {BindingAction.REPOINTED: [], BindingAction.RECOVERED: []}
    for pick in picks:
        change = holdings.hold(
            pick.position, pick.affinity if scored else None, pick.topology_spread if scored else None
        )
        patched.get(change, created).append(holdings.at(pick.position))
    for position in ascending(holdings.obsolete & ~targets):
        holdings.release(position, Cause.POLICY)
    repeated = chain.from_iterable(sorted(group, key=lambda b: b.cluster) for group in patched.values())
    return (*created, *repeated)


def _listed(holdings: Holdings, *groups: Mask) -> tuple[Binding, ...]:
    """The bindings of the groups, one group after the other."""
    positions = chain.from_iterable(ascending(group) for group in groups)
    return tuple(map(holdings.at, positions))


def _outscored(ranking: Ranking, candidates: Mask, roster: Roster) -> Iterable[Decision]:
    """The decisions on members that passed and were not picked, best first."""
    for scored in ranking.best_first(candidates):
        name = roster.members[scored.position].name
        yield decisions.not_picked(name, scored.affinity, scored.topology_spread)


def _refused(screening: Screening, ask: Ask, holdings: Holdings) -> Iterable[Decision]:
    """The decisions on members that a rule refused, each with the reason of the first such rule."""
    roster, standing = holdings.roster, holdings.standing
    for position in ascending(screening.filtered):
        rule = screening.first_refusal(position)
        if rule is not None:
            reason = rule.reason(ask, roster, standing, position)
            yield decisions.filtered(roster.members[position].name, reason)


_STEPS: dict[PlacementType, Callable[[Ask, Holdings, PolicySnapshot], _Outcome]] = {
    PlacementType.PICK_ALL: _pick_all,
    PlacementType.PICK_FIXED: _pick_fixed,
    PlacementType.PICK_N: _pick_n,
}
