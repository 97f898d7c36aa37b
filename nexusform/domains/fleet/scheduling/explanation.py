"""The answer to "why this cluster, and why not that one?": every rule's word on every cluster. Data only."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from nexusform.domains.fleet.scheduling import cycle, decisions
from nexusform.domains.fleet.scheduling.bindings import (
    Abort,
    Ask,
    Binding,
    BindingState,
    Cause,
    PlacementType,
    Policy,
    PolicySnapshot,
    PreferredTerm,
)
from nexusform.domains.fleet.scheduling.cycle import Scored, rank, screen
from nexusform.domains.fleet.scheduling.observed import observed
from nexusform.domains.fleet.scheduling.profile import FILTERS
from nexusform.domains.fleet.scheduling.properties import Extremes, extremes_of, property_of
from nexusform.domains.fleet.scheduling.roster import Holdings, Roster, Standing, ascending
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    same_placement_affinity,
    topology_spread,
)
from nexusform.kubernetes.quantity import Quantity
from nexusform.scheduling.decision import Refusal


class Preference(Struct, frozen=True):
    """What one preferred term gives a cluster: points, and where it sorts by a property the share of the
    weight (0..1) that they are rounded from.
    """

    weight: int
    points: int
    share: float | None = None
    property: str = ""
    value: str = ""

    def share_text(self) -> str:
        """The share with two decimals at most: "11.11 %"."""
        if self.share is None:
            return ""
        return f"{self.share * 100:.2f}".rstrip("0").rstrip(".") + " %"


class Margin(Struct, frozen=True):
    """A cluster's scores less those of the last one picked. The first part that is not 0 decides; when all
    are, the larger name does.
    """

    topology_spread: int
    affinity: int
    obsolete: int

    @property
    def decided_by(self) -> str:
        """The part that decides."""
        for part in ("topology_spread", "affinity", "obsolete"):
            if getattr(self, part):
                return part
        return "name"


class ClusterExplanation(Struct, frozen=True):
    """One cluster. `binding` is what the placement holds there; `held`: it held that before any pick.

    `refusals` follow the profile's order: the first is the one KubeFleet reports. For a cluster that is
    held they are what would keep it from being picked today; they move nothing. `batch` (from 1) is the one
    in which it is picked. Scores are the recorded ones where it is held or picked, else those of the last
    batch; None where none are given (PickAll, PickFixed, a violated hard spread constraint). `rank` counts
    from 1 among those that passed before the last batch, `margin` is over the last one picked in it.
    `observed` is what the first rule that refuses saw of it, beside what is asked.
    """

    cluster: str
    binding: Binding | None
    picked: bool
    refusals: tuple[Refusal, ...] = ()
    reported: str = ""
    affinity_score: int | None = None
    topology_spread_score: int | None = None
    preferences: tuple[Preference, ...] = ()
    rank: int | None = None
    margin: Margin | None = None
    held: bool = False
    batch: int | None = None
    observed: tuple[str, ...] = ()

    @property
    def first_refusal(self) -> Refusal | None:
        """The refusal that KubeFleet reports."""
        return self.refusals[0] if self.refusals else None


class PlacementExplanation(Struct, frozen=True):
    """One placement over the whole fleet, clusters in name order, then names that are not in it.

    `number` is N (None: all that pass, or those named), `batches` the clusters that are picked, batch by
    batch and best first; `abort` why the scheduler would stop.
    """

    policy: Policy
    snapshot: PolicySnapshot
    number: int | None
    clusters: tuple[ClusterExplanation, ...]
    batches: tuple[tuple[str, ...], ...] = ()
    abort: Abort | None = None

    @property
    def last_picked(self) -> str | None:
        """The last of the clusters that are picked."""
        return self.batches[-1][-1] if self.batches else None


class PolicyDrift(Struct, frozen=True):
    """What a fresh schedule would choose and what the present one holds: information, never an action."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]


def drift(
    held: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> PolicyDrift:
    """Compare the picks with those of a placement that is made anew today. One at which the scheduler stops
    picks nothing, and says nothing.
    """
    fresh = cycle.settle((), roster, policy, snapshot, namespace)
    if fresh.abort is not None:
        return PolicyDrift((), ())
    held_clusters = {b.cluster for b in held if b.state is not BindingState.UNSCHEDULED and not b.deleting}
    fresh_clusters = {b.cluster for b in fresh.bindings}
    gained, lost = fresh_clusters - held_clusters, held_clusters - fresh_clusters
    return PolicyDrift(tuple(sorted(gained)), tuple(sorted(lost)))


def eligible(roster: Roster, policy: Policy | None, namespace: str = "") -> frozenset[str]:
    """The members that no rule refuses a placement that holds nothing yet."""
    screening = screen(Ask(policy or Policy(), namespace), roster, Standing())
    if isinstance(screening, Abort):
        return frozenset()
    return frozenset(roster.members[position].name for position in ascending(screening.passing))


def explain(
    held: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> PlacementExplanation:
    """What the scheduler decides, given what the placement holds, and what every rule says of every cluster
    before its last batch.
    """
    ask = Ask(policy or Policy(), namespace)
    bindings = tuple(held)
    if ask.policy.placement_type is PlacementType.PICK_FIXED:
        return _of_named(ask, Holdings(bindings, roster, snapshot.index), snapshot)
    replay = _replay(ask, bindings, roster, snapshot)
    holdings = Holdings(replay.before, roster, snapshot.index)
    screening = screen(ask, roster, holdings.standing)
    if isinstance(screening, Abort):
        return _aborted(ask, holdings, snapshot, screening)
    if not _picks_n(ask):
        rows = _of_all(ask, holdings, {}, replay)
        return PlacementExplanation(ask.policy, snapshot, None, rows, replay.batches)
    ranking = rank(ask, roster, holdings.standing, screening.passing)
    if isinstance(ranking, Abort):
        return _aborted(ask, holdings, snapshot, ranking)
    ranked = list(ranking.best_first(screening.passing))
    places = _places(ranked, replay.batches[-1] if replay.ends_with_picks else (), roster, holdings.standing)
    rows = _of_all(ask, holdings, places, replay)
    return PlacementExplanation(ask.policy, snapshot, snapshot.number_of_clusters, rows, replay.batches)


class _Replay(Struct, frozen=True):
    # A chain of cycles: what was held at first, before the last cycle (the one that writes a status) and
    # after it, and the clusters picked in each. `ends_with_picks`: the last cycle picked any.
    first: tuple[Binding, ...]
    before: tuple[Binding, ...]
    after: dict[str, Binding]
    batches: tuple[tuple[str, ...], ...]
    ends_with_picks: bool

    def batch_of(self, cluster: str) -> int | None:
        """The number of the batch in which a cluster is picked."""
        return next((i for i, batch in enumerate(self.batches, 1) if cluster in batch), None)


def _replay(ask: Ask, held: tuple[Binding, ...], roster: Roster, snapshot: PolicySnapshot) -> _Replay:
    """The cycles again, for the clusters that each of them picks."""
    bindings, batches = held, []
    while True:
        cycle_result = cycle.schedule(bindings, roster, ask.policy, snapshot, ask.namespace)
        picks = tuple(change.cluster for change in cycle_result.changes if change.cause is Cause.PICKED)
        if picks:
            batches.append(picks)
        if not cycle_result.requeue:
            after = {binding.cluster: binding for binding in cycle_result.bindings}
            return _Replay(held, bindings, after, tuple(batches), bool(picks))
        bindings = cycle_result.bindings


def _name(roster: Roster, scored: Scored) -> str:
    """A scored member's name."""
    return roster.members[scored.position].name


_Places = dict[str, tuple[int, Margin | None]]


def _places(ranked: list[Scored], picks: tuple[str, ...], roster: Roster, standing: Standing) -> _Places:
    """Ranks from 1 and margins over the last pick, by cluster name, best first."""
    chosen = [scored for scored in ranked if _name(roster, scored) in picks]
    last_picked = chosen[-1] if chosen else None
    places: _Places = {}
    for number, scored in enumerate(ranked, 1):
        margin = None if last_picked is None else _margin(scored, last_picked, standing)
        places[_name(roster, scored)] = (number, margin)
    return places


def _margin(scored: Scored, last_picked: Scored, standing: Standing) -> Margin:
    """By how much a cluster is ahead of the one that was picked last."""
    obsolete = standing.obsolete >> scored.position & 1
    obsolete_of_last = standing.obsolete >> last_picked.position & 1
    return Margin(
        scored.topology_spread - last_picked.topology_spread,
        scored.affinity - last_picked.affinity,
        obsolete - obsolete_of_last,
    )


def _of_all(ask: Ask, holdings: Holdings, places: _Places, replay: _Replay) -> tuple[ClusterExplanation, ...]:
    """A row for every member."""
    roster, standing = holdings.roster, holdings.standing
    scores = _scores(ask, roster, standing) if _picks_n(ask) else {}
    at_first = Holdings(replay.first, roster, holdings.snapshot).current
    rows: list[ClusterExplanation] = []
    for position, member in enumerate(roster.members):
        refusals = _refusals(ask, holdings, position)
        affinity, spread = scores.get(position, (None, None))
        rank, margin = places.get(member.name, (None, None))
        batch = replay.batch_of(member.name)
        is_held = bool(at_first >> position & 1)
        binding = replay.after.get(member.name) if is_held or batch else None
        if binding is not None:
            affinity, spread = binding.affinity_score, binding.topology_spread_score
        rows.append(
            ClusterExplanation(
                cluster=member.name,
                binding=holdings.by_cluster.get(member.name),
                picked=batch is not None,
                refusals=refusals,
                reported=_reported(member.name, binding, refusals, affinity, spread),
                affinity_score=affinity,
                topology_spread_score=spread,
                preferences=_preferences(ask, roster, position),
                rank=rank,
                margin=margin,
                held=is_held,
                batch=batch,
                observed=_observed(ask, holdings, refusals, position),
            )
        )
    return tuple(rows)


def _picks_n(ask: Ask) -> bool:
    return ask.policy.placement_type is PlacementType.PICK_N


def _refusals(ask: Ask, holdings: Holdings, position: int) -> tuple[Refusal, ...]:
    """Every rule that refuses a member. That it is held already is no refusal, and its part in the spread
    says nothing about itself.
    """
    roster, standing = holdings.roster, holdings.standing
    is_held = bool(standing.current >> position & 1)
    silent = {same_placement_affinity.PLUGIN}
    if is_held:
        silent.add(topology_spread.PLUGIN)
    refusals: list[Refusal] = []
    for rule in FILTERS:
        if rule.plugin in silent:
            continue
        admitted = rule.admitted(ask, roster, standing)
        if not isinstance(admitted, Abort) and not admitted >> position & 1:
            reason = rule.reason(ask, roster, standing, position)
            refusals.append(Refusal(roster.members[position].name, rule.rule, reason))
    return tuple(refusals)


def _observed(ask: Ask, holdings: Holdings, refusals: tuple[Refusal, ...], position: int) -> tuple[str, ...]:
    """What the rule that KubeFleet reports saw of a member."""
    if not refusals:
        return ()
    return observed(refusals[0].rule, ask, holdings.roster, holdings.standing, position)


def _reported(
    name: str,
    binding: Binding | None,
    refusals: tuple[Refusal, ...],
    affinity: int | None,
    spread: int | None,
) -> str:
    """KubeFleet's sentence about a cluster; `binding` where it is held or picked."""
    if binding is not None:
        return decisions.selected(binding).reason
    if refusals:
        return decisions.filtered(name, refusals[0].reason).reason
    return decisions.not_picked(name, affinity or 0, spread or 0).reason


def _scores(ask: Ask, roster: Roster, standing: Standing) -> dict[int, tuple[int, int | None]]:
    """Affinity and topology spread scores by position; the latter None under a violated hard constraint."""
    affinities, _ = cluster_affinity.scores(ask, roster)
    spreads: dict[int, int] = {}
    for score, members in topology_spread.judge(ask, roster, standing).by_score.items():
        spreads.update(dict.fromkeys(ascending(members), score))
    return {position: (affinity, spreads.get(position)) for position, affinity in enumerate(affinities)}


def _preferences(ask: Ask, roster: Roster, position: int) -> tuple[Preference, ...]:
    """What each preferred term of a PickN gives a member."""
    if not _picks_n(ask):
        return ()
    return tuple(_preference(term, roster, position) for term in ask.policy.preferred)


def _preference(term: PreferredTerm, roster: Roster, position: int) -> Preference:
    """What one preferred term gives a member, and by which property."""
    alone = Policy(preferred=(term,))
    points = cluster_affinity.scores(Ask(alone), roster)[0][position]
    sorter = term.preference.property_sorter
    selected = roster.selected_by(term.preference.label_selector)
    if sorter is None or isinstance(selected, str) or not selected >> position & 1:
        return Preference(term.weight, points)
    value = property_of(roster.members[position], sorter.name)
    extremes = extremes_of(roster, sorter.name)
    if not isinstance(value, Quantity) or not isinstance(extremes, Extremes):
        return Preference(term.weight, points, None, sorter.name)
    share = cluster_affinity.interpolate(value, extremes, sorter.sort_order)
    shown = share if isinstance(share, float | int) else None
    return Preference(term.weight, points, shown, sorter.name, str(value))


def _aborted(ask: Ask, holdings: Holdings, snapshot: PolicySnapshot, abort: Abort) -> PlacementExplanation:
    """The explanation of a cycle that stopped: only the rules are asked."""
    rows = tuple(
        ClusterExplanation(
            cluster=member.name,
            binding=holdings.by_cluster.get(member.name),
            picked=False,
            refusals=_refusals(ask, holdings, position),
            reported=abort.message if member.name == abort.cluster else "",
        )
        for position, member in enumerate(holdings.roster.members)
    )
    return PlacementExplanation(ask.policy, snapshot, snapshot.number_of_clusters, rows, (), abort)


def _of_named(ask: Ask, holdings: Holdings, snapshot: PolicySnapshot) -> PlacementExplanation:
    """PickFixed: named, there and eligible, or not."""
    cycle_result = cycle.schedule(holdings.by_cluster.values(), holdings.roster, ask.policy, snapshot)
    decisions_made = cycle_result.status.decisions() if cycle_result.status else ()
    decided = {decision.cluster: decision for decision in decisions_made}
    members = sorted(holdings.roster.position)
    strangers = sorted(set(ask.policy.cluster_names) - holdings.roster.position.keys())
    held_before = {
        name
        for name, binding in holdings.by_cluster.items()
        if binding.state is not BindingState.UNSCHEDULED and not binding.deleting
    }
    rows: list[ClusterExplanation] = []
    for name in (*members, *strangers):
        decision = decided.get(name)
        binding = holdings.by_cluster.get(name)
        if decision is None:
            refusal = Refusal(name, "cluster_names", "the policy does not name this cluster")
            rows.append(ClusterExplanation(name, binding, picked=False, refusals=(refusal,)))
        elif decision.selected:
            is_held = name in held_before
            rows.append(
                ClusterExplanation(name, binding, picked=not is_held, reported=decision.reason, held=is_held)
            )
        else:
            rule = "cluster_eligibility" if name in holdings.roster.position else "cluster_names"
            refusals = (Refusal(name, rule, decision.reason),)
            rows.append(ClusterExplanation(name, binding, False, refusals, reported=decision.reason))
    return PlacementExplanation(ask.policy, snapshot, len(ask.policy.cluster_names), tuple(rows))
