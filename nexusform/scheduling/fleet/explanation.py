"""The answer to "why this cluster, and why not that one?": every rule's word on every cluster. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.fleet import cycle, decisions
from nexusform.scheduling.fleet.holdings import Holdings
from nexusform.scheduling.fleet.model import (
    Abort,
    Ask,
    Binding,
    BindingState,
    PlacementType,
    Policy,
    PolicySnapshot,
    PreferredTerm,
)
from nexusform.scheduling.fleet.profile import FILTERS
from nexusform.scheduling.fleet.properties import Extremes, extremes_of, property_of
from nexusform.scheduling.fleet.ranking import Scored, rank
from nexusform.scheduling.fleet.roster import Roster, Standing
from nexusform.scheduling.fleet.rules import cluster_affinity, same_placement_affinity, topology_spread
from nexusform.scheduling.fleet.screening import Screening, screen
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
    picks_n = ask.policy.placement_type is PlacementType.PICK_N
    ranking = rank(ask, roster, standing, screening.passing) if picks_n else None
    if isinstance(ranking, Abort):
        return _aborted(ask, holdings, snapshot, ranking)
    number = snapshot.number_of_clusters if picks_n else None
    if ranking is None:
        return Explanation(ask.policy, snapshot, None, _of_all(ask, holdings, screening, {}, frozenset()))
    ranked = list(ranking.best_first(screening.passing))
    names = _next_picks(ask, holdings, snapshot, ranked)
    rows = _of_all(ask, holdings, screening, _ranked(ranked, names, roster, standing), names)
    last = next(
        (roster.members[s.position].name for s in reversed(ranked) if _name(roster, s) in names), None
    )
    return Explanation(ask.policy, snapshot, number, rows, last)


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


def _ranked(ranked: list[Scored], picks: frozenset[str], roster: Roster, standing: Standing) -> _Places:
    chosen = [scored for scored in ranked if _name(roster, scored) in picks]
    last = chosen[-1] if chosen else None
    places: _Places = {}
    for number, scored in enumerate(ranked, 1):
        margin = None
        if last is not None:
            margin = Margin(
                scored.topology_spread - last.topology_spread,
                scored.affinity - last.affinity,
                (standing.obsolete >> scored.position & 1) - (standing.obsolete >> last.position & 1),
            )
        places[_name(roster, scored)] = (number, margin)
    return places


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
        rows.append(
            ClusterExplanation(
                member.name,
                holdings.by_cluster.get(member.name),
                member.name in picks or (passes and not _picks_n(ask)),
                refusals,
                _reported(
                    holdings, position, refusals, affinity, spread, picked=passes and member.name in picks
                ),
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
    refusals: list[Refusal] = []
    for rule in FILTERS:
        if rule.plugin == same_placement_affinity.PLUGIN or (held and rule.plugin == topology_spread.PLUGIN):
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
    by_score = topology_spread.judge(ask, roster, standing).by_score
    return {
        position: (affinity, next((s for s, members in by_score.items() if members >> position & 1), None))
        for position, affinity in enumerate(affinities)
    }


def _preferences(ask: Ask, roster: Roster, position: int) -> tuple[Preference, ...]:
    return (
        tuple(_preference(term, roster, position) for term in ask.policy.preferred) if _picks_n(ask) else ()
    )


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
    said = {d.cluster: d for d in result.status.decisions()} if result.status else {}
    names = sorted({*holdings.roster.position, *ask.policy.cluster_names})
    rows: list[ClusterExplanation] = []
    for name in sorted(names, key=lambda n: (n not in holdings.roster.position, n)):
        decision = said.get(name)
        binding = holdings.by_cluster.get(name)
        refusals: tuple[Refusal, ...] = ()
        if decision is None:
            reason = "the policy does not name this cluster"
            refusals = (Refusal(name, "cluster_names", reason),)
        elif not decision.selected:
            rule = "cluster_eligibility" if name in holdings.roster.position else "cluster_names"
            refusals = (Refusal(name, rule, decision.reason),)
        picked = decision is not None and decision.selected
        rows.append(ClusterExplanation(name, binding, picked, refusals, decision.reason if decision else ""))
    return Explanation(ask.policy, snapshot, len(ask.policy.cluster_names), tuple(rows))
