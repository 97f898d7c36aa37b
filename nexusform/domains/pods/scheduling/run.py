"""One spec's pods, placed one after the other: nodes that no rule can tell apart are looked at once.

Nodes fall into one bucket when every rule that reads domains must say the same of them: their points for
taints and node affinity are equal, and for each topology key that counts they lie in the same domain (keys
with few domains) or in domains with equal counts (keys with many). In a bucket, nodes stand by what
the rules of usage give them. A pod that is placed moves only the nodes whose counts it changed.
What the nodes alone say to a pod is remembered (`Statics`): pods of many workloads ask the same of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.board import Board, Group, Usage
from nexusform.domains.pods.scheduling.counts import Counts, SpreadTally
from nexusform.domains.pods.scheduling.versions import Version, read_by
from nexusform.domains.pods.scheduling.workloads import HOSTNAME, Node, PodSpec, VolumeNeed
from nexusform.scheduling.decision import Refusal

# A key with at most so many domains is told apart by domain, one with more by its counts.
_FEW_DOMAINS: Final = 24

# A component of a bucket's name: points, a domain's number, or a domain's counts.
Trait = int | tuple[int, ...]


class Choice(Struct, frozen=True):
    """The best nodes of a pod (ids, all with the highest total), how many were feasible, and by how many
    points the best lead the next one (None where there is no other, and where it does not matter).
    """

    tied: tuple[int, ...]
    feasible: int
    lead: int | None = None


class _Bucket:
    __slots__ = ("by_score", "size")

    def __init__(self) -> None:
        self.by_score: dict[int, set[int]] = {}
        self.size = 0

    @classmethod
    def of_one(cls, node: int) -> _Bucket:
        """A bucket of its own for a node, whatever its usage gives it."""
        bucket = cls()
        bucket.put(node, 0)
        return bucket

    def put(self, node: int, score: int) -> None:
        self.by_score.setdefault(score, set()).add(node)
        self.size += 1

    def drop(self, node: int, score: int) -> None:
        level = self.by_score[score]
        level.discard(node)
        if not level:
            del self.by_score[score]
        self.size -= 1

    def any_node(self) -> int:
        return next(iter(next(iter(self.by_score.values()))))

    def nodes(self) -> Iterator[int]:
        for level in self.by_score.values():
            yield from level


class _Axis:
    """A topology key as buckets see it."""

    __slots__ = ("counts", "domain", "few", "members")

    def __init__(self, domain: list[int], size: int) -> None:
        self.domain = domain
        self.few = size <= _FEW_DOMAINS
        self.counts: list[list[int]] = []
        self.members: dict[int, list[int]] = {}

    def trait(self, node: int) -> Trait:
        domain = self.domain[node]
        if self.few or domain < 0:
            return domain
        return tuple([count[domain] for count in self.counts])


class Run:
    """Where the next pod of a spec can go, as the board stands; `needs` are what its own claims ask.
    `promised` are pods (by node) that have no node yet, and for which room is kept.
    """

    def __init__(
        self,
        board: Board,
        group: Group,
        statics: Statics,
        needs: tuple[VolumeNeed, ...] = (),
        promised: Mapping[int, Sequence[Group]] | None = None,
    ) -> None:
        self.board = board
        self._promised = promised or {}
        self.needs = needs
        spec = group.spec
        # What the filters of nodes read: pods of one group, with claims of their own.
        self._own = replace(spec, volumes=(*spec.volumes, *needs)) if needs else spec
        self._statics = statics
        self.facts = statics.of(self._own)
        self.group = group
        # How the scheduler reads the pod while it comes; what stands of it counts as it is written.
        self._comer = read_by(spec, statics.version)
        self.counts = Counts(board, group, self._comer)
        # Whether another node may be better by images of which nobody tells.
        self.images_matter = statics.images_unknown and bool(spec.images)
        self.version = board.version
        self._buckets: dict[tuple[Trait, ...], _Bucket] | None = None
        self._axes: list[_Axis] = []
        self._moving: list[_Axis] = []
        self._shape = statics.shape
        self._scores: dict[object, int] = {}
        self._name: dict[int, tuple[Trait, ...]] = {}
        self._score: dict[int, int] = {}

    # --- one node -----------------------------------------------------------------------------

    def refusal(self, node: int) -> Refusal | None:
        """The first reason why a node is refused, in kube-scheduler's order; None when it is feasible."""
        return next(self.refusals(node), None)

    def refusals(self, node: int) -> Iterator[Refusal]:
        """Every reason why a node is refused; only what the pod itself lacks, where it lacks anything. Where
        room is promised to others, they count as there; without them the node has to do as well.
        """
        promised = self._promised.get(node)
        if promised:
            refusals = self._refusals_beside(promised, node)
            if refusals:
                return iter(refusals)
        return self._refusals(node)

    def _refusals_beside(self, promised: Sequence[Group], node: int) -> list[Refusal]:
        version = self.board.version
        for group in promised:
            self._shift(group, node, 1)
        refusals = list(self._refusals(node))
        for group in promised:
            self._shift(group, node, -1)
        self.board.version = version
        return refusals

    def _shift(self, group: Group, node: int, sign: int) -> None:
        self.board.place(group, node, sign)
        if self.counts.refuse:
            self.counts.shift(group, node, sign)

    def _refusals(self, node: int) -> Iterator[Refusal]:
        name = self.board.nodes[node].name
        for pod_filter in profile.POD_FILTERS:
            reason = pod_filter.refuse(self._own)
            if reason:
                yield Refusal(name, pod_filter.name, reason)
                return
        for rule, refuse in self._filters:
            reason = refuse(node)
            if reason:
                yield Refusal(name, rule, reason)

    @cached_property
    def _filters(self) -> list[tuple[str, Callable[[int], str | None]]]:
        """Every filter by its name, as a question about a node, in kube-scheduler's order."""
        own, spec, counts, board = self._own, self.group.spec, self.counts, self.board
        filters: dict[str, Callable[[int], str | None]] = {}
        for each in profile.NODE_FILTERS:
            filters[each.name] = partial(_of_node, each.refuse, own, board)
        for rule, of_usage in profile.USAGE_FILTERS:
            filters[rule] = partial(_of_usage, of_usage, spec, board)
        for rule, of_domain in profile.DOMAIN_FILTERS:
            filters[rule] = partial(of_domain, counts)
        return [(rule, filters[rule]) for rule in profile.ORDER if rule in filters]

    # --- all nodes ----------------------------------------------------------------------------

    def choose(self) -> Choice | None:
        """The best nodes for the next pod; None when no node is feasible."""
        self._built()
        barred = [node for node in self._promised if node in self._score and self.refusal(node) is not None]
        scores = [(node, self._leave(node)) for node in barred]
        choice = self._choice()
        for node, score in scores:
            self._enter(node, score)
        return choice

    def _choice(self) -> Choice | None:
        """The best of the nodes that are in buckets."""
        buckets = self._built()
        rules, counts = profile.DOMAIN_FILTERS, self.counts
        open_buckets: list[tuple[_Bucket, int]] = []
        for bucket in buckets.values():
            node = bucket.any_node()
            if not any(refuse(counts, node) for _, refuse in rules):
                open_buckets.append((bucket, node))
        if not open_buckets:
            return None
        totals = self._totals([node for _, node in open_buckets], self._sizes(open_buckets))
        best, levels = -1, []
        for (bucket, _), total in zip(open_buckets, totals, strict=True):
            top = max(bucket.by_score)
            if total + top > best:
                best, levels = total + top, [bucket.by_score[top]]
            elif total + top == best:
                levels.append(bucket.by_score[top])
        tied = tuple([node for level in levels for node in level])
        feasible = sum(bucket.size for bucket, _ in open_buckets)
        lead = None
        if self.images_matter and len(tied) == 1:
            lead = _lead(best, zip(open_buckets, totals, strict=True))
        return Choice(tied, feasible, lead)

    def scored(self) -> dict[int, dict[str, int]]:
        """Each feasible node's points per rule, weighted as they are summed."""
        feasible = [node for node in range(len(self.board.nodes)) if self.refusal(node) is None]
        if not feasible:
            return {}
        singles = [(_Bucket.of_one(node), node) for node in feasible]
        columns = self._weighted_points(feasible, self._sizes(singles))
        points = {}
        for at, node in enumerate(feasible):
            points[node] = self._usage_points(node)
            points[node].update({rule: column[at] for rule, column in columns.items()})
        return points

    def _usage_points(self, node: int) -> dict[str, int]:
        """Weighted points by rule for the usage of a node."""
        spec, node_record, usage = self._comer, self.board.nodes[node], self.board.usage[node]
        return {
            rule: weight * score(spec, node_record, usage) for rule, weight, score in profile.USAGE_SCORES
        }

    def add(self, node: int) -> None:
        """Put a pod of this spec on a node."""
        self.board.place(self.group, node)
        self.counts.add(node)
        self.version = self.board.version
        if self._buckets is None:
            return
        for axis in self._moving:
            domain = axis.domain[node]
            for member in axis.members.get(domain, ()):
                self._move(member)
        self._rescore(node)

    def buckets(self) -> Iterator[Iterator[int]]:
        """The nodes that permit the pod and have room for it, those together that no rule tells apart."""
        return (bucket.nodes() for bucket in self._built().values())

    # --- buckets ------------------------------------------------------------------------------

    def _built(self) -> dict[tuple[Trait, ...], _Bucket]:
        """The buckets of feasible nodes, made when they are first asked for."""
        if self._buckets is None:
            self._buckets = {}
            self._make_axes()
            for node in self.facts.points:
                self._name[node] = self._trait(node)
                self._enter(node, self._usage_score(node))
        return self._buckets

    def _make_axes(self) -> None:
        """One axis per topology that counters go by, with the nodes of each domain where counts move them."""
        by_domain: dict[int, _Axis] = {}
        for tally in self.counts.tallies():
            axis = by_domain.get(id(tally.domain))
            if axis is None:
                axis = by_domain[id(tally.domain)] = _Axis(tally.domain, len(tally.count))
            axis.counts.append(tally.count)
        self._axes = list(by_domain.values())
        moving = {id(tally.domain) for tally in self.counts.moving()}
        self._moving = [axis for axis in self._axes if not axis.few and id(axis.domain) in moving]
        for axis in self._moving:
            for node in self.facts.points:
                axis.members.setdefault(axis.domain[node], []).append(node)
            axis.members.pop(-1, None)

    def _trait(self, node: int) -> tuple[Trait, ...]:
        """The name of the bucket that a node belongs to."""
        return (*self.facts.points[node], *[axis.trait(node) for axis in self._axes])

    def _bucket(self, node: int) -> _Bucket:
        """The bucket that a node belongs to, made when it is the first one there."""
        assert self._buckets is not None
        name = self._name[node]
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket()
        return bucket

    def _enter(self, node: int, score: int) -> None:
        """Put a node into its bucket, unless usage refuses it (score -1)."""
        if score >= 0:
            self._score[node] = score
            self._bucket(node).put(node, score)

    def _leave(self, node: int) -> int:
        """Take a node out of its bucket; its score, or -1 when usage refuses it."""
        score = self._score.pop(node, -1)
        if score >= 0:
            bucket = self._bucket(node)
            bucket.drop(node, score)
            if not bucket.size and self._buckets is not None:
                del self._buckets[self._name[node]]
        return score

    def _move(self, node: int) -> None:
        """Put a node into another bucket once counts of its domains have changed."""
        score = self._leave(node)
        self._name[node] = self._trait(node)
        self._enter(node, score)

    def _rescore(self, node: int) -> None:
        """Rank a node anew within its bucket once its usage has changed."""
        if node in self.facts.points:
            self._leave(node)
            self._enter(node, self._usage_score(node))

    def _usage_score(self, node: int) -> int:
        """What the usage of the node gives it, -1 when it is refused."""
        spec, node_record, usage = self._comer, self.board.nodes[node], self.board.usage[node]
        if spec.host_ports or spec.disks or spec.requests.others:
            return _usage_score(spec, node_record, usage)
        key = (self._shape[node], usage.pods, usage.cpu, usage.memory, usage.scored_cpu, usage.scored_memory)
        score = self._scores.get(key)
        if score is None:
            score = self._scores[key] = _usage_score(spec, node_record, usage)
        return score

    # --- points -------------------------------------------------------------------------------

    def _sizes(self, open_buckets: list[tuple[_Bucket, int]]) -> list[int]:
        """Per soft spread constraint, in how many domains the feasible nodes lie."""
        counts = self.counts
        if not counts.soft:
            return []
        counted = [(bucket, node) for bucket, node in open_buckets if counts.soft_counts(node)]
        return [_domains_of(tally, counted) for tally in counts.soft]

    def _weighted_points(self, nodes: list[int], sizes: list[int]) -> dict[str, list[int]]:
        """Weighted points of some nodes by rule; every node of the list is feasible."""
        counts, points = self.counts, self.facts.points
        columns: dict[str, list[int]] = {}
        for at, node_score in enumerate(self._statics.scores):
            raws = [points[node][at] for node in nodes]
            columns[node_score.name] = _weighted(node_score.weight, node_score.scale(raws))
        for domain_score in profile.DOMAIN_SCORES:
            if domain_score.bears(counts):
                figures = [domain_score.raw(counts, node, sizes) for node in nodes]
                columns[domain_score.name] = _weighted(domain_score.weight, domain_score.scale(figures))
        return columns

    def _totals(self, nodes: list[int], sizes: list[int]) -> list[int]:
        """Weighted points of some nodes, over all rules but those of usage."""
        return [sum(column) for column in zip(*self._weighted_points(nodes, sizes).values(), strict=True)]


def _lead(best: int, buckets: Iterable[tuple[tuple[_Bucket, int], int]]) -> int | None:
    """By how much the best total leads the next lower one; None where there is none."""
    following = -1
    for (bucket, _), total in buckets:
        for score in bucket.by_score:
            if following < total + score < best:
                following = total + score
    return None if following < 0 else best - following


def _of_node(
    refuse: Callable[[PodSpec, Node], str | None], spec: PodSpec, board: Board, node: int
) -> str | None:
    return refuse(spec, board.nodes[node])


def _of_usage(refuse: profile.UsageFilter, spec: PodSpec, board: Board, node: int) -> str | None:
    return refuse(spec, board.nodes[node], board.usage[node])


def _domains_of(tally: SpreadTally, counted: list[tuple[_Bucket, int]]) -> int:
    """In how many domains of a constraint the nodes of these buckets lie."""
    if tally.constraint.topology_key == HOSTNAME:
        return sum(bucket.size for bucket, _ in counted)
    if len(tally.count) <= _FEW_DOMAINS:
        # Such a key tells buckets apart: one node speaks for all of its bucket.
        return len({tally.domain[node] for _, node in counted})
    nodes = chain.from_iterable(bucket.nodes() for bucket, _ in counted)
    return len({tally.domain[node] for node in nodes})


def _weighted(weight: int, scores: list[int]) -> list[int]:
    return [weight * score for score in scores]


def _usage_score(spec: PodSpec, node: Node, usage: Usage) -> int:
    if any(refuse(spec, node, usage) for _, refuse in profile.USAGE_FILTERS):
        return -1
    return sum(weight * score(spec, node, usage) for _, weight, score in profile.USAGE_SCORES)


class NodeFacts(Struct, frozen=True):
    """The nodes (by index) that would take a pod whatever stands on them, and their points.

    `points`: what the scores of nodes alone give, before they are scaled. `mask`: the same nodes as bits.
    """

    points: dict[int, tuple[int, ...]]
    mask: int


class Statics:
    """Facts about the nodes of a cluster per question that pods ask."""

    def __init__(self, nodes: tuple[Node, ...], version: Version = ()) -> None:
        self._nodes = nodes
        self.version = version
        # Whether some node does not tell which images it has.
        self.images_unknown = any(node.images is None for node in nodes)
        self._facts: dict[object, NodeFacts] = {}
        # Nodes of one shape and equal usage are told apart by nothing that scores read.
        shapes: dict[object, int] = {}
        self.shape = [shapes.setdefault((n.cpu, n.memory, n.pods), len(shapes)) for n in nodes]
        # The scores of nodes alone that bear on some node here.
        self.scores = tuple(rule for rule in profile.NODE_SCORES if any(map(rule.bears, nodes)))

    def of(self, spec: PodSpec) -> NodeFacts:
        """The facts for a spec."""
        for_filters = [rule.reads(spec) for rule in profile.NODE_FILTERS]
        for_scores = [rule.reads(spec) for rule in self.scores]
        lacks = any(rule.refuse(spec) for rule in profile.POD_FILTERS)
        question = (lacks, *for_filters, *for_scores)
        facts = self._facts.get(question)
        if facts is None:
            points: dict[int, tuple[int, ...]] = {}
            for at, node in enumerate(() if lacks else self._nodes):
                if not any(rule.refuse(spec, node) for rule in profile.NODE_FILTERS):
                    points[at] = tuple([rule.raw(spec, node) for rule in self.scores])
            facts = self._facts[question] = NodeFacts(points, sum(1 << at for at in points))
        return facts
