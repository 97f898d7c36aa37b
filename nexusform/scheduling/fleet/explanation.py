"""The answer to "why this cluster, and why not that one?": every rule's word on every cluster. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.fleet import cycle, decisions
from nexusform.scheduling.fleet.bindings import (
    Abort,
    Ask,
    Binding,
    BindingState,
    PlacementType,
    Policy,
    PolicySnapshot,
    PreferredTerm,
)
from nexusform.scheduling.fleet.cycle import Scored, Screening, rank, screen
from nexusform.scheduling.fleet.profile import FILTERS
from nexusform.scheduling.fleet.properties import Extremes, extremes_of, property_of
from nexusform.scheduling.fleet.roster import Holdings, Roster, Standing, ascending
from nexusform.scheduling.fleet.rules import cluster_affinity, same_placement_affinity, topology_spread
from nexusform.scheduling.quantity import Quantity


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
    """One cluster. `binding` is what the placement holds there; `picked`: it would get a binding now.

    `refusals` follow the profile's order: the first is the one KubeFleet reports. For a cluster that is
    held they are what would keep it from being picked today; they move nothing. Scores are None where
    none are given (PickAll, PickFixed, a violated hard spread constraint). `rank` counts from 1 among those
    that passed.
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

    @property
    def first_refusal(self) -> Refusal | None:
        """The refusal that KubeFleet reports."""
        return self.refusals[0] if self.refusals else None


class Explanation(Struct, frozen=True):
    """One placement over the whole fleet, clusters in name order, then names that are not in it.

    `number` is N (None: all that pass, or those named), `last_picked` the last of the clusters that would
    be picked now; `abort` why the scheduler would stop.
    """

    policy: Policy
    snapshot: PolicySnapshot
    number: int | None
    clusters: tuple[ClusterExplanation, ...]
    last_picked: str | None = None
    abort: Abort | None = None


class Drift(Struct, frozen=True):
    """What a fresh schedule would choose and what the present one holds: information, never an action."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]


def drift(
    held: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> Drift:
    """Compare the picks with those of a placement that is made anew today."""
    fresh = cycle.settle((), roster, policy, snapshot, namespace)
    now = {b.cluster for b in held if b.state is not BindingState.UNSCHEDULED and not b.deleting}
    then = {b.cluster for b in fresh.bindings}
    return Drift(tuple(sorted(then - now)), tuple(sorted(now - then)))


def explain(
    held: Iterable[Binding],
    roster: Roster,
    policy: Policy | None,
    snapshot: PolicySnapshot,
    namespace: str = "",
) -> Explanation:
    """What every rule says of every cluster, given what the placement holds."""
    ask = Ask(policy or Policy(), namespace)
    holdings = Holdings(held, roster, snapshot.index)
    if ask.policy.placement_type is PlacementType.PICK_FIXED:
        return _of_named(ask, holdings, snapshot)
    standing = holdings.standing
    screening = screen(ask, roster, standing)
    if isinstance(screening, Abort):
        return _aborted(ask, holdings, snapshot, screening)
    if not _picks_n(ask):
        rows = _of_all(ask, holdings, screening, {}, frozenset())
        return Explanation(ask.policy, snapshot, None, rows)
    ranking = rank(ask, roster, standing, screening.passing)
    if isinstance(ranking, Abort):
        return _aborted(ask, holdings, snapshot, ranking)
    ranked = list(ranking.best_first(screening.passing))
    picks = _next_picks(ask, holdings, snapshot, ranked)
    places = _places(ranked, picks, roster, standing)
    rows = _of_all(ask, holdings, screening, places, picks)
    picked = [name for name in places if name in picks]
    last = picked[-1] if picked else None
    return Explanation(ask.policy, snapshot, snapshot.number_of_clusters, rows, last)


def _name(roster: Roster, scored: Scored) -> str:
    return roster.members[scored.position].name


def _next_picks(
    ask: Ask, holdings: Holdings, snapshot: PolicySnapshot, ranked: list[Scored]
) -> frozenset[str]:
    """The clusters of the next batch: where picks are spread, later batches are scored anew."""
    number = snapshot.number_of_clusters
    missing = len(ranked) if number is None else max(0, number - holdings.current.bit_count())
    batch = min(1, missing) if ask.policy.spread else missing
    return frozenset(_name(holdings.roster, scored) for scored in islice(ranked, batch))


_Places = dict[str, tuple[int, Margin | None]]


def _places(ranked: list[Scored], picks: frozenset[str], roster: Roster, standing: Standing) -> _Places:
    """Ranks from 1 and margins over the last pick, by cluster name, best first."""
    chosen = [scored for scored in ranked if _name(roster, scored) in picks]
    last = chosen[-1] if chosen else None
    places: _Places = {}
    for number, scored in enumerate(ranked, 1):
        margin = None if last is None else _margin(scored, last, standing)
        places[_name(roster, scored)] = (number, margin)
    return places


def _margin(scored: Scored, last: Scored, standing: Standing) -> Margin:
    obsolete = standing.obsolete >> scored.position & 1
    obsolete_of_last = standing.obsolete >> last.position & 1
    return Margin(
        scored.topology_spread - last.topology_spread,
        scored.affinity - last.affinity,
        obsolete - obsolete_of_last,
    )


def _of_all(
    ask: Ask, holdings: Holdings, screening: Screening, places: _Places, picks: frozenset[str]
) -> tuple[ClusterExplanation, ...]:
    roster, standing = holdings.roster, holdings.standing
    scores = _scores(ask, roster, standing) if places or _picks_n(ask) else {}
    rows: list[ClusterExplanation] = []
    for position, member in enumerate(roster.members):
        refusals = _refusals(ask, holdings, position)
        affinity, spread = scores.get(position, (None, None))
        number, margin = places.get(member.name, (None, None))
        passes = bool(screening.passing >> position & 1)
        is_pick = member.name in picks
        reported = _reported(holdings, position, refusals, affinity, spread, picked=passes and is_pick)
        rows.append(
            ClusterExplanation(
                member.name,
                holdings.by_cluster.get(member.name),
                is_pick or (passes and not _picks_n(ask)),
                refusals,
                reported,
                affinity,
                spread,
                _preferences(ask, roster, position),
                number,
                margin,
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
    held = bool(standing.current >> position & 1)
    silent = {same_placement_affinity.PLUGIN}
    if held:
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


def _reported(
    holdings: Holdings,
    position: int,
    refusals: tuple[Refusal, ...],
    affinity: int | None,
    spread: int | None,
    *,
    picked: bool,
) -> str:
    """KubeFleet's sentence about the cluster."""
    name = holdings.roster.members[position].name
    if holdings.current >> position & 1:
        return decisions.selected(holdings.at(position)).reason
    if refusals:
        return decisions.filtered(name, refusals[0].reason).reason
    if affinity is None or spread is None or picked:
        binding = Binding(name, BindingState.SCHEDULED, holdings.snapshot, affinity or 0, spread or 0)
        return decisions.selected(binding).reason
    return decisions.not_picked(name, affinity, spread).reason


def _scores(ask: Ask, roster: Roster, standing: Standing) -> dict[int, tuple[int, int | None]]:
    affinities, _ = cluster_affinity.scores(ask, roster)
    spreads: dict[int, int] = {}
    for score, members in topology_spread.judge(ask, roster, standing).by_score.items():
        spreads.update(dict.fromkeys(ascending(members), score))
    return {position: (affinity, spreads.get(position)) for position, affinity in enumerate(affinities)}


def _preferences(ask: Ask, roster: Roster, position: int) -> tuple[Preference, ...]:
    if not _picks_n(ask):
        return ()
    return tuple(_preference(term, roster, position) for term in ask.policy.preferred)


def _preference(term: PreferredTerm, roster: Roster, position: int) -> Preference:
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


def _aborted(ask: Ask, holdings: Holdings, snapshot: PolicySnapshot, abort: Abort) -> Explanation:
    rows = tuple(
        ClusterExplanation(
            member.name,
            holdings.by_cluster.get(member.name),
            False,
            _refusals(ask, holdings, position),
            abort.message if member.name == abort.cluster else "",
        )
        for position, member in enumerate(holdings.roster.members)
    )
    return Explanation(ask.policy, snapshot, snapshot.number_of_clusters, rows, None, abort)


def _of_named(ask: Ask, holdings: Holdings, snapshot: PolicySnapshot) -> Explanation:
    """PickFixed: named, there and eligible, or not."""
    result = cycle.schedule(holdings.by_cluster.values(), holdings.roster, ask.policy, snapshot)
    decided = {decision.cluster: decision for decision in result.status.decisions()} if result.status else {}
    members = sorted(holdings.roster.position)
    strangers = sorted(set(ask.policy.cluster_names) - holdings.roster.position.keys())
    rows: list[ClusterExplanation] = []
    for name in (*members, *strangers):
        decision = decided.get(name)
        binding = holdings.by_cluster.get(name)
        if decision is None:
            refusal = Refusal(name, "cluster_names", "the policy does not name this cluster")
            rows.append(ClusterExplanation(name, binding, False, (refusal,), ""))
        elif decision.selected:
            rows.append(ClusterExplanation(name, binding, True, (), decision.reason))
        else:
            rule = "cluster_eligibility" if name in holdings.roster.position else "cluster_names"
            refusal = Refusal(name, rule, decision.reason)
            rows.append(ClusterExplanation(name, binding, False, (refusal,), decision.reason))
    return Explanation(ask.policy, snapshot, len(ask.policy.cluster_names), tuple(rows))
