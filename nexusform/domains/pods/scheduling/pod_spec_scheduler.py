"""Node selection for pods of one spec; nodes indistinguishable to all rules are evaluated once.

Nodes share a bucket if every rule about domains gives the same result: equal points for taints and
node affinity, and per topology key the same domain (keys with few domains) or domains with equal
counts (keys with many). Within a bucket, nodes are sorted by their usage scores. Each placed pod
moves only the nodes with changed counts. Results that depend on the nodes alone are cached
(`FeasibleNodesCache`), since many workloads need the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import HOSTNAME, Node, PodSpec, VolumeNeed
from nexusform.domains.pods.scheduling.feature_gates import Version
from nexusform.domains.pods.scheduling.scheduler_cache import PodSpecGroup, SchedulerCache
from nexusform.domains.pods.scheduling.scheduler_versions import apply_version_differences
from nexusform.domains.pods.scheduling.topology_counts import (
    DomainCounter,
    SpreadCounter,
    TopologyCounts,
)
from nexusform.scheduling.placement_decision import Rejection

# Keys with at most this many domains are distinguished by domain, others by their counts.
_FEW_DOMAINS: Final = 24

# A component of a bucket's key: points, a domain number, or the counts of a domain.
Trait = int | tuple[int, ...]


class BestNodes(Struct, frozen=True):
    """Best nodes for a pod, the number of feasible nodes, and the lead over the next total.

    The nodes are ids, all with the highest total. The lead is None without a next node, or where it
    is not needed.
    """

    tied_nodes: tuple[int, ...]
    feasible_nodes: int
    lead: int | None = None


class _NodeBucket:
    """Nodes with equal results for all rules about domains, by usage score."""

    __slots__ = ("nodes_by_score", "size")

    def __init__(self) -> None:
        # By usage score.
        self.nodes_by_score: dict[int, set[int]] = {}
        # Number of nodes.
        self.size = 0

    def put_all(self, nodes: list[int], score: int) -> None:
        """Put nodes with one usage score into the bucket."""
        self.nodes_by_score.setdefault(score, set()).update(nodes)
        self.size += len(nodes)

    def drop(self, node: int, score: int) -> None:
        """Remove a node from the bucket, and from its usage score."""
        level = self.nodes_by_score[score]
        level.discard(node)
        if not level:
            del self.nodes_by_score[score]
        self.size -= 1

    def list_nodes(self) -> Iterator[int]:
        """Yield the nodes in the bucket (indices in the cluster)."""
        return chain.from_iterable(self.nodes_by_score.values())


class _TopologyAxis:
    """Topology key as used for buckets.

    Nodes of one bucket have the same trait for each key: their domain, or with many domains only
    the numbers of pods in their domain.
    """

    __slots__ = ("counts", "domain_by_node", "has_few_domains", "members")

    def __init__(self, counters: Sequence[DomainCounter]) -> None:
        """Build the axis of the topology key counted by these counters."""
        # Counters of one topology key share it.
        self.domain_by_node = counters[0].domain_by_node
        self.has_few_domains = counters[0].size <= _FEW_DOMAINS
        self.counts = [counter.counts for counter in counters]  # by domain
        # Nodes by domain.
        self.members: dict[int, list[int]] = {}

    def get_trait(self, node: int) -> Trait:
        """Return a node's domain, or with many domains the counts of pods in its domain.

        -1 without the key.
        """
        domain = self.domain_by_node[node]
        if self.has_few_domains or domain < 0:
            return domain
        return tuple([count[domain] for count in self.counts])

    def list_traits(self) -> Sequence[Trait]:
        """Return for every node its domain, or with many domains the counts of pods in it.

        -1 without the key.
        """
        if self.has_few_domains:
            return self.domain_by_node
        # The last item is the trait of nodes without a domain (-1).
        by_domain: list[Trait] = [*zip(*self.counts, strict=True), -1]
        return [by_domain[domain] for domain in self.domain_by_node]


class PodSpecScheduler:
    """Node selection for the next pod of a spec; `volume_needs` are those of its own claims.

    `nominated_groups` are pods (by node) without a node yet for which capacity is reserved.
    """

    def __init__(
        self,
        cache: SchedulerCache,
        group: PodSpecGroup,
        facts_cache: FeasibleNodesCache,
        volume_needs: tuple[VolumeNeed, ...] = (),
        nominated_groups: Mapping[int, Sequence[PodSpecGroup]] = MappingProxyType({}),
    ) -> None:
        """Prepare the choice of nodes.

        `facts_cache` has the feasible nodes of each spec, shared by all schedulers.
        """
        self.cache = cache
        self._nominated_groups = nominated_groups
        self.volume_needs = volume_needs
        # It says whether the need of its claims may change before the decision.
        self.is_storage_uncertain = False
        # The assumption behind the devices of nodes, "" if certain.
        self.device_doubt = ""
        self.group = group
        # Spec of the new pod as read by this scheduler version; existing pods count as configured.
        spec = self._incoming_spec = apply_version_differences(group.spec, facts_cache.version)
        # Node filters read volumes from the spec, so those of the pod's own claims are added.
        self._filter_spec = (
            replace(spec, volumes=(*spec.volumes, *volume_needs)) if volume_needs else spec
        )
        self._facts_cache = facts_cache
        self.facts = facts_cache.get_feasible_nodes(self._filter_spec)
        self.counts = TopologyCounts(cache, group, self._incoming_spec)
        # Unknown images may favour a node.
        self.images_matter = facts_cache.images_unknown and bool(spec.images)
        self.version = cache.version
        # Whether nodes of one usage number have equal usage scores: ports, disks and other
        # resources have no number.
        incoming_spec = self._incoming_spec
        special_needs = (
            incoming_spec.host_ports,
            incoming_spec.disks,
            incoming_spec.requests.other_resources,
        )
        self._has_plain_usage = not any(special_needs)
        # They are created on demand.
        self._has_buckets = False
        # Nodes alike for the pod, by their traits.
        self._buckets: defaultdict[tuple[Trait, ...], _NodeBucket] = defaultdict(_NodeBucket)
        # One per topology key in rules of the pod.
        self._axes: list[_TopologyAxis] = []
        # Those with traits changed by each placed pod.
        self._changing_axes: list[_TopologyAxis] = []
        # Usage score by usage number.
        self._score_cache: dict[int, int] = {}
        self._bucket_keys: dict[int, tuple[Trait, ...]] = {}  # by node
        # Usage score of each node in a bucket.
        self._node_scores: dict[int, int] = {}

    @property
    def has_unregistered_node(self) -> bool:
        """Whether a feasible node has no kubelet yet: its features and drivers are unknown."""
        return any(self.cache.nodes[node].declared_features is None for node in self.facts.points)

    @property
    def has_relative_scores(self) -> bool:
        """Whether a rule scores the feasible nodes differently, relative to each other."""
        columns = zip(*self.facts.points.values(), strict=True)
        return any(
            rule.normalize is not list and len(set(column)) > 1
            for rule, column in zip(self.facts.rules, columns, strict=True)
        )

    def is_current(self, group: PodSpecGroup, volume_needs: tuple[VolumeNeed, ...]) -> bool:
        """Return whether this scheduler is for a pod of this group and needs.

        It is not if a pod has moved since.
        """
        return (group, volume_needs, self.cache.version) == (
            self.group,
            self.volume_needs,
            self.version,
        )

    def find_rejection(self, node: int) -> Rejection | None:
        """Return the first rejection of a node; None if it is feasible.

        The order is that of kube-scheduler.
        """
        return next(self.list_rejections(node), None)

    def collect_rejections(self) -> dict[int, Rejection]:
        """Return the first rejection of each infeasible node."""
        rejections: dict[int, Rejection] = {}
        for node in range(len(self.cache.nodes)):
            rejection = self.find_rejection(node)
            if rejection is not None:
                rejections[node] = rejection
        return rejections

    def list_rejections(self, node: int) -> Iterator[Rejection]:
        """Yield the rejections of a node with its nominated pods added.

        If there are none, yield those without these pods: kube-scheduler requires a node to be
        feasible in both cases.
        """
        nominated_groups = self._nominated_groups.get(node)
        if nominated_groups:
            version = self.cache.version
            for group in nominated_groups:
                self.move_pod(group, node, sign=1)
            rejections = list(self._list_node_rejections(node))
            for group in nominated_groups:
                self.move_pod(group, node, sign=-1)
            # All pods are as before.
            self.cache.version = version
            if rejections:
                return iter(rejections)
        return self._list_node_rejections(node)

    def move_pod(self, group: PodSpecGroup, node: int, sign: int) -> None:
        """Put a pod of any group on a node or remove it for a trial.

        `sign` is 1 or -1. The counters are updated.
        """
        self.cache.place(group, node, sign)
        if self.counts.can_reject:
            self.counts.update_counts(group, node, sign)

    def _list_node_rejections(self, node: int) -> Iterator[Rejection]:
        """Yield the rejections of a node in the order of the filters.

        Only the first one if it is about the pod.
        """
        name = self.cache.nodes[node].name
        for pod_filter in profile.POD_FILTERS:
            reason = pod_filter.find_rejection(self._filter_spec)
            if reason:
                yield Rejection(name, pod_filter.name, reason)
                return
        for rule, find_rejection in self._filters:
            reason = find_rejection(node)
            if reason:
                yield Rejection(name, rule, reason)

    @cached_property
    def _filters(self) -> list[tuple[str, Callable[[int], str | None]]]:
        """All filters by name as functions of a node, in kube-scheduler's order."""
        filter_spec = self._filter_spec
        spec = self.group.spec
        counts = self.counts
        cache = self.cache
        filters: dict[str, Callable[[int], str | None]] = {}
        for node_filter in profile.NODE_FILTERS:
            filters[node_filter.name] = partial(
                _run_node_filter, node_filter.find_rejection, filter_spec, cache
            )
        for rule, usage_filter in profile.USAGE_FILTERS:
            filters[rule] = partial(_run_usage_filter, usage_filter, spec, cache)
        for rule, domain_filter in profile.DOMAIN_FILTERS:
            filters[rule] = partial(domain_filter, counts)
        return [(rule, filters[rule]) for rule in profile.ORDER if rule in filters]

    def choose_nodes(self) -> BestNodes | None:
        """Return the best nodes for the next pod; None if no node is feasible."""
        # The first call creates them.
        self._get_domain_buckets()
        # Buckets ignore pods with a nominated (reserved) node. Nodes rejected because of them are
        # removed for now.
        rejected_nodes = [
            node for node in self._nominated_groups if self.find_rejection(node) is not None
        ]
        removed_nodes = [(node, self._remove_node(node)) for node in rejected_nodes]
        choice = self._choose_best_bucket_nodes()
        for node, score in removed_nodes:
            self._insert_node(node, score)
        return choice

    def _choose_best_bucket_nodes(self) -> BestNodes | None:
        """Return the nodes with the highest total score; None if none is feasible.

        Nodes are in buckets. Rules about domains reject or score all nodes of a bucket alike,
        so one node represents its bucket. The total of a node is its usage score and the points
        of its bucket.
        """
        buckets = self._get_domain_buckets()
        rules = profile.DOMAIN_FILTERS
        counts = self.counts
        feasible_buckets: list[tuple[_NodeBucket, int]] = []
        for bucket in buckets.values():
            # Any of them.
            node = next(bucket.list_nodes())
            if not any(find_rejection(counts, node) for _, find_rejection in rules):
                feasible_buckets.append((bucket, node))
        if not feasible_buckets:
            return None
        nodes = [node for _, node in feasible_buckets]
        domain_counts = self._count_domains(feasible_buckets)
        # The points of each bucket by all rules, apart from the usage scores of its nodes.
        scores_by_rule = self._compute_rule_scores(nodes, domain_counts)
        points = [sum(scores) for scores in zip(*scores_by_rule.values(), strict=True)]
        scored_buckets = [
            (bucket, total) for (bucket, _), total in zip(feasible_buckets, points, strict=True)
        ]
        # The nodes of highest usage score in each bucket.
        top_nodes_by_total: dict[int, list[set[int]]] = {}
        for bucket, bucket_points in scored_buckets:
            top_score = max(bucket.nodes_by_score)
            top_nodes_by_total.setdefault(bucket_points + top_score, []).append(
                bucket.nodes_by_score[top_score]
            )
        best_total = max(top_nodes_by_total)
        tied_nodes = tuple(chain.from_iterable(top_nodes_by_total[best_total]))
        feasible_count = sum(bucket.size for bucket, _ in feasible_buckets)
        # Points ahead of the next total, used if points for unknown images may change the choice.
        lead = None
        if self.images_matter and len(tied_nodes) == 1:
            lead = _compute_score_lead(best_total, scored_buckets)
        return BestNodes(tied_nodes, feasible_count, lead)

    def score_nodes(self) -> dict[int, dict[str, int]]:
        """Return the weighted points of each feasible node, by node and rule; empty without one."""
        feasible_nodes = [
            node for node in range(len(self.cache.nodes)) if self.find_rejection(node) is None
        ]
        if not feasible_nodes:
            return {}
        # The rules below score buckets of nodes. Here each node has a bucket of its own, with
        # any usage score.
        single_buckets = [(_NodeBucket(), node) for node in feasible_nodes]
        for bucket, node in single_buckets:
            bucket.put_all([node], score=0)
        # By rule: the points of all feasible nodes, in their order.
        columns = self._compute_rule_scores(feasible_nodes, self._count_domains(single_buckets))
        points = {}
        for position, node in enumerate(feasible_nodes):
            spec = self._incoming_spec
            record = self.cache.nodes[node]
            usage = self.cache.usage[node]
            usage_points = {
                rule: weight * rate(spec, record, usage)
                for rule, weight, rate in profile.USAGE_SCORES
            }
            points[node] = usage_points | {
                rule: column[position] for rule, column in columns.items()
            }
        return points

    def add_pod(self, node: int) -> None:
        """Add a pod of this spec to a node."""
        self.cache.place(self.group, node)
        self.counts.add(node)
        # The buckets below include the pod.
        self.version = self.cache.version
        if not self._has_buckets:
            # Buckets created later include the pod.
            return
        # The pod changes the counts of its domains. Nodes there change the bucket if its key
        # has these counts.
        for changing_axis in self._changing_axes:
            domain = changing_axis.domain_by_node[node]
            for member in changing_axis.members.get(domain, ()):
                score = self._remove_node(member)
                traits = [axis.get_trait(member) for axis in self._axes]
                self._bucket_keys[member] = (*self.facts.points[member], *traits)
                self._insert_node(member, score)
        # Else it is infeasible for later pods of the spec, and in no bucket.
        if node in self.facts.points:
            self._remove_node(node)
            self._insert_node(node, self._compute_usage_score(node))

    def list_buckets(self) -> Iterator[Iterator[int]]:
        """Yield the feasible nodes with capacity, in groups.

        All rules see the nodes of a group alike, apart from their usage.
        """
        return map(_NodeBucket.list_nodes, self._get_domain_buckets().values())

    def _get_domain_buckets(self) -> dict[tuple[Trait, ...], _NodeBucket]:
        """Return the buckets by key, without nodes rejected by their usage.

        The first call creates them. The nodes of a bucket have equal points of all rules about
        nodes, and equal domains (or counts of domains).
        """
        if not self._has_buckets:
            self._has_buckets = True
            self._create_topology_axes()
            self._bucket_keys = self._compute_bucket_keys()
            # Nodes with one usage number have equal usage scores; with special requests each has a
            # number of its own.
            usage_numbers = (
                self.cache.usage_numbers if self._has_plain_usage else range(len(self.cache.nodes))
            )
            # By bucket key and usage number.
            alike_nodes: dict[tuple[tuple[Trait, ...], int], list[int]] = {}
            for node, key in self._bucket_keys.items():
                alike_nodes.setdefault((key, usage_numbers[node]), []).append(node)
            for nodes in alike_nodes.values():
                # The score is equal for all of these nodes.
                score = self._compute_usage_score(nodes[0])
                # Else the usage of the nodes rejects the pod.
                if score >= 0:
                    self._buckets[self._bucket_keys[nodes[0]]].put_all(nodes, score)
                    self._node_scores.update(dict.fromkeys(nodes, score))
        return self._buckets

    def _compute_bucket_keys(self) -> dict[int, tuple[Trait, ...]]:
        """Return the bucket key of each feasible node.

        Points by rule, then its domain or counts by topology key.
        """
        points = self.facts.points
        # No rule counts pods by topology key.
        if not self._axes:
            return dict(points)
        traits = list(zip(*map(_TopologyAxis.list_traits, self._axes), strict=True))
        return {node: own_points + traits[node] for node, own_points in points.items()}

    def _create_topology_axes(self) -> None:
        """Create an axis per topology key in rules of the pod.

        If it has many domains, buckets are made by the counts of pods in domains. Then nodes change
        their bucket with these counts, so the nodes of each domain are kept.
        """
        # Counters of one key share the list `domain_by_node`.
        counters_by_topology = group_by(
            self.counts.list_counters(), lambda counter: id(counter.domain_by_node)
        )
        self._axes = list(map(_TopologyAxis, counters_by_topology.values()))
        changing_ids = {
            id(counter.domain_by_node) for counter in self.counts.list_counters_changed_by_pod()
        }
        large_axes = [axis for axis in self._axes if not axis.has_few_domains]
        self._changing_axes = [
            axis for axis in large_axes if id(axis.domain_by_node) in changing_ids
        ]
        for axis in self._changing_axes:
            axis.members = self.facts.list_members(axis.domain_by_node)

    def _insert_node(self, node: int, score: int) -> None:
        """Put a node into its bucket, unless its usage rejects it (score -1)."""
        if score >= 0:
            self._node_scores[node] = score
            self._buckets[self._bucket_keys[node]].put_all([node], score)

    def _remove_node(self, node: int) -> int:
        """Remove a node from its bucket and return its score, -1 if its usage rejects it."""
        score = self._node_scores.pop(node, -1)
        if score >= 0:
            bucket = self._buckets[self._bucket_keys[node]]
            bucket.drop(node, score)
            if not bucket.size:
                del self._buckets[self._bucket_keys[node]]
        return score

    def _compute_usage_score(self, node: int) -> int:
        """Return the usage score of the node with the pod, -1 if its usage rejects the pod.

        Nodes of equal size and usage have one usage number, so their score is computed once.
        This does not hold for specs with host ports, disks or other resources
        (`_has_plain_usage` is false).
        """
        spec = self._incoming_spec
        node_record = self.cache.nodes[node]
        usage = self.cache.usage[node]
        usage_number = self.cache.usage_numbers[node]
        # The score is equal for equal usage.
        score = self._score_cache.get(usage_number) if self._has_plain_usage else None
        if score is None:
            if any(
                find_rejection(spec, node_record, usage)
                for _, find_rejection in profile.USAGE_FILTERS
            ):
                score = -1
            else:
                score = sum(
                    weight * rate(spec, node_record, usage)
                    for _, weight, rate in profile.USAGE_SCORES
                )
            self._score_cache[usage_number] = score
        return score

    def _count_domains(self, open_buckets: list[tuple[_NodeBucket, int]]) -> list[int]:
        """Count, per soft spread constraint, the domains with nodes of these buckets.

        A bucket is given with one of its nodes.
        """
        # Nodes without points for spreading do not count.
        scored_buckets = [
            (bucket, node) for bucket, node in open_buckets if self.counts.has_spread_score(node)
        ]
        return [
            _count_bucket_domains(counter, scored_buckets) for counter in self.counts.soft_spread
        ]

    def _compute_rule_scores(self, nodes: list[int], sizes: list[int]) -> dict[str, list[int]]:
        """Return by rule the weighted points of each node, in the order of `nodes`.

        Each rule normalizes its raw scores over all nodes before they are weighted. `sizes` has the
        number of domains per soft spread constraint.
        """
        counts = self.counts
        points = self.facts.points
        columns: dict[str, list[int]] = {}
        for position, node_score in enumerate(self.facts.rules):
            scores = [points[node][position] for node in nodes]
            columns[node_score.name] = [
                node_score.weight * score for score in node_score.normalize(scores)
            ]
        for domain_score in profile.DOMAIN_SCORES:
            if domain_score.is_applicable(counts):
                # None: without a score.
                raws = [domain_score.score(counts, node, sizes) for node in nodes]
                columns[domain_score.name] = [
                    domain_score.weight * score for score in domain_score.normalize(raws)
                ]
        return columns


def _compute_score_lead(
    best_total: int, scored_buckets: Iterable[tuple[_NodeBucket, int]]
) -> int | None:
    """Return the lead of the best total over the next lower one; None if there is none."""
    # Below every total.
    next_total = -1
    # The points of its nodes without their usage scores.
    for bucket, points in scored_buckets:
        for score in bucket.nodes_by_score:
            if next_total < points + score < best_total:
                next_total = points + score
    return None if next_total < 0 else best_total - next_total


def _run_node_filter(
    find_rejection: Callable[[PodSpec, Node], str | None],
    spec: PodSpec,
    cache: SchedulerCache,
    node: int,
) -> str | None:
    return find_rejection(spec, cache.nodes[node])


def _run_usage_filter(
    find_rejection: profile.UsageFilter, spec: PodSpec, cache: SchedulerCache, node: int
) -> str | None:
    return find_rejection(spec, cache.nodes[node], cache.usage[node])


def _count_bucket_domains(
    counter: SpreadCounter, scored_buckets: list[tuple[_NodeBucket, int]]
) -> int:
    """Return the number of domains of a constraint with nodes of `scored_buckets`.

    Each item is a bucket and one of its nodes. A bucket has nodes alike for all
    rules about domains.
    """
    # Each node is a domain of its own.
    if counter.constraint.topology_key == HOSTNAME:
        return sum(bucket.size for bucket, _ in scored_buckets)
    if counter.size <= _FEW_DOMAINS:
        # Such a key distinguishes buckets, so one node represents its bucket.
        return len({counter.domain_by_node[node] for _, node in scored_buckets})
    nodes = chain.from_iterable(bucket.list_nodes() for bucket, _ in scored_buckets)
    return len({counter.domain_by_node[node] for node in nodes})


class FeasibleNodes(Struct, frozen=True):
    """Nodes (by index) feasible for a pod regardless of other pods, and their points.

    `points` are scores of the nodes alone before normalization, in the order of `rules`. `mask` has
    the same nodes as bits. `members` are results of `list_members`.
    """

    points: dict[int, tuple[int, ...]]
    mask: int
    rules: tuple[profile.NodeScoreRule, ...] = ()
    members: dict[int, dict[int, list[int]]] = {}

    def list_members(self, domain_by_node: list[int]) -> dict[int, list[int]]:
        """Return the feasible nodes of each domain of a topology; the result is cached."""
        key = id(domain_by_node)
        if key not in self.members:
            self.members[key] = group_by(self.points, lambda node: domain_by_node[node])
            # Nodes without the topology key.
            self.members[key].pop(-1, None)
        return self.members[key]


class FeasibleNodesCache:
    """Cached facts about the nodes of a cluster per combination of pod requirements."""

    def __init__(self, nodes: tuple[Node, ...], version: Version = ()) -> None:
        """Select the scores applicable to some node.

        `version` is the Kubernetes version, () if unknown.
        """
        self._nodes = nodes
        self.version = version
        # Those of some node.
        self.images_unknown = any(node.images is None for node in nodes)
        self._facts: dict[object, FeasibleNodes] = {}
        # Node scores applicable to some node of the cluster.
        self.scores = tuple(
            rule for rule in profile.NODE_SCORES if any(map(rule.is_applicable, nodes))
        )

    def get_feasible_nodes(self, spec: PodSpec) -> FeasibleNodes:
        """Return the nodes feasible for a spec with their points by each score rule.

        Other pods do not count. A spec rejected by a pod filter has no feasible node. Specs with
        equal inputs of all rules share one result.
        """
        filter_keys = [rule.cache_key(spec) for rule in profile.NODE_FILTERS]
        rules = tuple(rule for rule in self.scores if rule.is_used(spec))
        score_keys = [rule.cache_key(spec) for rule in rules]
        is_rejected = any(rule.find_rejection(spec) for rule in profile.POD_FILTERS)
        key = (is_rejected, *filter_keys, *score_keys)
        facts = self._facts.get(key)
        if facts is None:
            # By node: the points of each rule.
            points: dict[int, tuple[int, ...]] = {}
            # No node is checked for a rejected pod.
            nodes = () if is_rejected else self._nodes
            for node_index, node in enumerate(nodes):
                if not any(rule.find_rejection(spec, node) for rule in profile.NODE_FILTERS):
                    points[node_index] = tuple([rule.score(spec, node) for rule in rules])
            # The bits of the feasible nodes are set.
            mask = sum(1 << node_index for node_index in points)
            facts = self._facts[key] = FeasibleNodes(points, mask, rules)
        return facts
