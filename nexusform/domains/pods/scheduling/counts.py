"""Pods per topology domain as one pod's rules count them, kept up while more pods of its spec follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.board import Board, Group
from nexusform.domains.pods.scheduling.rules import node_affinity
from nexusform.domains.pods.scheduling.workloads import (
    HOSTNAME,
    ZONE,
    Node,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from nexusform.kubernetes.matching import NO_SCHEDULE, LabelSelector, matches, untolerated

# What required affinity of standing pods towards a new one is worth in points.
HARD_AFFINITY_WEIGHT: Final = 1
_DEFAULT_SKEWS: Final = ((HOSTNAME, 3), (ZONE, 5))


class Tally:
    """One counter per domain of a key. `domain` says which one a node is in (-1 = none)."""

    __slots__ = ("count", "domain", "key")

    def __init__(self, key: str, domain: list[int], size: int) -> None:
        self.key = key
        self.domain = domain
        self.count = [0] * size

    def add(self, node: int, amount: int) -> bool:
        """Count on a node's domain; False when it has none."""
        domain = self.domain[node]
        if domain < 0:
            return False
        self.count[domain] += amount
        return True


class SpreadTally(Tally):
    """Pods that one spread constraint counts. `matches_itself` is 1 when it counts the new pod too.

    `eligible`: the nodes whose pods and whose domains count; `present`: these domains.
    """

    __slots__ = ("_least", "_levels", "constraint", "eligible", "matches_itself", "present")

    def __init__(
        self,
        constraint: SpreadConstraint,
        domain: list[int],
        size: int,
        eligible: list[bool],
        matches_itself: int,
    ) -> None:
        super().__init__(constraint.topology_key, domain, size)
        self.constraint = constraint
        self.eligible = eligible
        self.matches_itself = matches_itself
        self.present = {at for at, counted in zip(domain, eligible, strict=True) if counted and at >= 0}
        self._levels: dict[int, int] = {}
        self._least = 0

    @property
    def grows(self) -> bool:
        """Whether new pods are counted: a selector that selects everything counts nobody."""
        return not _empty(self.constraint.selector)

    def selects(self, group: Group) -> bool:
        """Whether it counts the pods of a group (of its own namespace)."""
        selector = self.constraint.selector
        return selector is not None and self.grows and matches(selector, group.labels)

    def settle(self) -> None:
        """Remember how many domains have how many pods, once all standing ones are counted."""
        for domain in self.present:
            level = self.count[domain]
            self._levels[level] = self._levels.get(level, 0) + 1
        self._least = min(self._levels, default=0)

    def least(self) -> int:
        """Pods in the emptiest domain; 0 while fewer domains exist than minDomains wants."""
        return self._least if len(self.present) >= self.constraint.min_domains else 0

    def add_one(self, node: int, sign: int = 1) -> None:
        """Count one more pod (sign 1), or one less (sign -1), that the constraint selects."""
        domain = self.domain[node]
        if domain < 0 or not self.eligible[node]:
            return
        level = self.count[domain]
        self.count[domain] = level + sign
        levels = self._levels
        levels[level] -= 1
        levels[level + sign] = levels.get(level + sign, 0) + 1
        self._least = min(self._least, level + sign)
        while not levels.get(self._least):
            self._least += 1


class Counts:
    """All counters of one pod spec over a board. `comer` is the spec as the scheduler reads it of a pod that
    comes, where that differs from what stands of it.
    """

    def __init__(self, board: Board, group: Group, comer: PodSpec | None = None) -> None:
        self.board = board
        self.group = group
        self.comer = spec = group.spec if comer is None else comer
        # What one more pod of the spec adds to which counter.
        self._own: list[tuple[Tally, int]] = []
        self.affinity = [self._tally(term) for term in spec.affinity]
        # Pods that all terms of required affinity choose, counted once for each term.
        self._company = 0
        self.matches_itself = bool(spec.affinity) and all(board.chooses(t, group) for t in spec.affinity)
        self.anti_affinity = [self._counted(term) for term in spec.anti_affinity]
        self.existing: list[Tally] = []  # pods that stand and keep this one away
        self.preferred: list[Tally] = []  # points of wishes, of this pod and of those that stand
        self._count_affinity()
        self._count_terms()
        self._all_soft_keys = bool(spec.spread)
        self.hard = self._spread([c for c in spec.spread if c.hard])
        self.soft = self._spread(_soft(spec))
        # A selector that selects everything counts nobody, but the new pod itself.
        self._spreads = [t for t in (*self.hard, *self.soft) if not _empty(t.constraint.selector)]

    @property
    def has_company(self) -> bool:
        """Whether some pod, in a domain of some term, is what all terms of required affinity ask for."""
        return self._company > 0

    def _tally(self, term: PodTerm) -> Tally:
        """A counter over the domains of a term, still at 0."""
        topology = self.board.topology(term.topology_key)
        return Tally(term.topology_key, topology.domain, len(topology.values))

    def _counted(self, term: PodTerm) -> Tally:
        """A counter of the pods that a term chooses, kept up with further pods of the spec."""
        tally = self._tally(term)
        for group in self.board.chosen(term):
            _pour(group, tally, 1)
        if self.board.chooses(term, self.group):
            self._own.append((tally, 1))
        return tally

    def _count_affinity(self) -> None:
        """Count the pods that all required affinity terms together choose."""
        terms = self.comer.affinity
        if not terms:
            return
        for group in self.board.chosen(terms[0]):
            if all(self.board.chooses(term, group) for term in terms[1:]):
                for tally in self.affinity:
                    self._company += _pour(group, tally, 1)
        if self.matches_itself:
            self._own += [(tally, 1) for tally in self.affinity]

    def _count_terms(self) -> None:
        """Terms that look both ways: what stands towards the new pod, and the new pod towards what stands."""
        board, group, spec = self.board, self.group, self.comer
        existing: dict[str, Tally] = {}
        points: dict[str, Tally] = {}
        for standing in board.looking_at(group):
            for term in self._about_us(standing.spec.anti_affinity):
                _pour(standing, self._keyed(existing, term), 1)
            for term in self._about_us(_pulling(standing.spec)):
                _pour(standing, self._keyed(points, term), term.weight)
        wishes = _wishes(spec)
        for term in wishes:
            tally = self._keyed(points, term)
            for standing in board.chosen(term):
                _pour(standing, tally, term.weight)
        # The pods that follow have the same terms: what they say of each other.
        against = self._about_us(group.spec.anti_affinity)
        towards = self._about_us((*wishes, *_pulling(group.spec)))
        self._own += [(self._keyed(existing, term), 1) for term in against]
        self._own += [(self._keyed(points, term), term.weight) for term in towards]
        self.existing = list(existing.values())
        self.preferred = list(points.values())

    def _about_us(self, terms: Iterable[PodTerm]) -> list[PodTerm]:
        """Those of some terms that choose pods of this spec."""
        return [term for term in terms if self.board.chooses(term, self.group)]

    def _keyed(self, tallies: dict[str, Tally], term: PodTerm) -> Tally:
        """The counter of a term's key, made when it is first asked for."""
        tally = tallies.get(term.topology_key)
        if tally is None:
            tally = tallies[term.topology_key] = self._tally(term)
        return tally

    def _spread(self, constraints: Sequence[SpreadConstraint]) -> list[SpreadTally]:
        """A counter for each of the constraints."""
        if not constraints:
            return []
        topologies = [self.board.topology(constraint.topology_key) for constraint in constraints]
        spec, nodes = self.group.spec, self.board.nodes
        everywhere = [True] * len(nodes)
        domains = [topology.domain for topology in topologies]
        with_all_keys = [min(of_node) >= 0 for of_node in zip(*domains, strict=True)]
        tallies = []
        for constraint, topology in zip(constraints, topologies, strict=True):
            needs_all_keys = constraint.hard or self._all_soft_keys
            candidates = with_all_keys if needs_all_keys else everywhere
            eligible = [
                candidate and _included(constraint, spec, node)
                for candidate, node in zip(candidates, nodes, strict=True)
            ]
            matches_itself = constraint.selector is not None and matches(
                constraint.selector, self.group.labels
            )
            tally = self._spread_tally(
                constraint, topology.domain, len(topology.values), eligible, int(matches_itself)
            )
            tallies.append(tally)
        return tallies

    def _spread_tally(
        self,
        constraint: SpreadConstraint,
        domain: list[int],
        size: int,
        eligible: list[bool],
        matches_itself: int,
    ) -> SpreadTally:
        """The counter of one constraint, with the pods that stand counted in."""
        if not constraint.hard and constraint.topology_key == HOSTNAME:
            # Points over hostname count the pods of the node itself, whatever its label says.
            domain = [-1 if d < 0 else node for node, d in enumerate(domain)]
            size, eligible = len(domain), [True] * len(domain)
        tally = SpreadTally(constraint, domain, size, eligible, matches_itself)
        selector = constraint.selector
        if selector is not None and not _empty(selector):
            for group in self.board.selected(selector, self.group.spec.namespace):
                if group.spec.terminating:
                    continue
                for node, pods in group.nodes.items():
                    if eligible[node]:
                        tally.add(node, pods)
        tally.settle()
        return tally

    def soft_counts(self, node: int) -> bool:
        """Whether the node gets points for spreading: with constraints of its own, it needs all keys."""
        return not self._all_soft_keys or all(tally.domain[node] >= 0 for tally in self.soft)

    def add(self, node: int) -> None:
        """One more pod of this spec stands on a node."""
        for tally, amount in self._own:
            tally.add(node, amount)
        if self.matches_itself:
            self._company += sum(tally.domain[node] >= 0 for tally in self.affinity)
        for spread in self._spreads:
            if spread.matches_itself:
                spread.add_one(node)

    @property
    def refuse(self) -> bool:
        """Whether what stands can be a reason to refuse a node, beside its own usage."""
        spec = self.group.spec
        return bool(self.affinity or self.anti_affinity or self.existing or self.hard or spec.exclusive)

    def shift(self, other: Group, node: int, sign: int) -> None:
        """A pod of any group comes to a node (sign 1) or leaves it (sign -1): what filters read follows."""
        board, spec = self.board, other.spec
        if self.affinity and all(board.chooses(term, other) for term in self.comer.affinity):
            for tally in self.affinity:
                self._company += sign * tally.add(node, sign)
        for term, tally in zip(self.comer.anti_affinity, self.anti_affinity, strict=True):
            if board.chooses(term, other):
                tally.add(node, sign)
        for term in self._about_us(spec.anti_affinity):
            for tally in self.existing:
                if tally.key == term.topology_key:
                    tally.add(node, sign)
        for spread in self.hard:
            if not spec.terminating and spec.namespace == self.group.spec.namespace and spread.selects(other):
                spread.add_one(node, sign)

    def tallies(self) -> list[Tally]:
        """Every counter that a rule reads."""
        return [*self.affinity, *self.anti_affinity, *self.existing, *self.preferred, *self.hard, *self.soft]

    def moving(self) -> list[Tally]:
        """The counters that change when a pod of this spec is added."""
        return [tally for tally, _ in self._own] + [t for t in self._spreads if t.matches_itself]


def _included(constraint: SpreadConstraint, spec: PodSpec, node: Node) -> bool:
    """Whether a node counts for a constraint, by its policies about node affinity and taints."""
    if constraint.honor_affinity and not node_affinity.required(spec, node):
        return False
    if constraint.honor_taints:
        hard = (taint for taint in node.taints if taint.effect in (NO_SCHEDULE, "NoExecute"))
        return untolerated(hard, spec.tolerations) is None
    return True


def _soft(spec: PodSpec) -> list[SpreadConstraint]:
    """The constraints that give points: its own ones, else the defaults of a cluster."""
    if spec.spread:
        return [c for c in spec.spread if not c.hard]
    if spec.default_spread is None or _empty(spec.default_spread):
        return []
    return [SpreadConstraint(key, skew, False, spec.default_spread) for key, skew in _DEFAULT_SKEWS]


def _empty(selector: LabelSelector | None) -> bool:
    """Whether a selector (not None) asks for nothing, so that it selects everything."""
    return selector is not None and not selector.match_labels and not selector.match_expressions


def _wishes(spec: PodSpec) -> tuple[PodTerm, ...]:
    """Preferred terms, those of anti-affinity with weights below 0."""
    against = (replace(term, weight=-term.weight) for term in spec.preferred_anti_affinity)
    return (*spec.preferred_affinity, *against)


def _pulling(spec: PodSpec) -> tuple[PodTerm, ...]:
    """What pods of a spec that stand are worth to a new pod which their terms select."""
    required = (replace(term, weight=HARD_AFFINITY_WEIGHT) for term in spec.affinity)
    return (*required, *_wishes(spec))


def _pour(group: Group, tally: Tally, amount: int) -> int:
    """Count the pods of a group, each as `amount`; how many of them a domain has."""
    counted = 0
    for node, pods in group.nodes.items():
        counted += pods * tally.add(node, pods * amount)
    return counted
