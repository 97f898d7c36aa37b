"""Pods on the nodes of a cluster during a prediction, with integer node ids.

Pods of equal spec form one group, counted per node. Groups are indexed by the label pairs
used in selectors.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    HostPort,
    InlineVolume,
    PodSpec,
    PodTerm,
)
from nexusform.kubernetes.matching import IN, LabelSelector, is_selected

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class NodeUsage:
    """Resources used by the pods of one node: CPU (milli), memory (bytes), scored ones, others."""

    __slots__ = (
        "cpu",
        "disks",
        "memory",
        "other_resources",
        "pods",
        "ports",
        "scored_cpu",
        "scored_memory",
    )

    def __init__(self) -> None:
        """Start with an empty node: no pod, resource, port or disk in use."""
        self.cpu = 0  # thousandths
        self.memory = 0  # bytes
        # With default amounts for pods without requests, as in scores.
        self.scored_cpu = 0
        self.scored_memory = 0
        self.pods = 0
        self.other_resources: dict[str, int] = {}
        self.ports: list[HostPort] = []
        self.disks: list[InlineVolume] = []

    def add(self, pod: PodSpec, sign: int) -> None:
        """Add a pod (sign 1) or remove one (sign -1)."""
        self.pods += sign
        self.cpu += sign * pod.requests.cpu
        self.memory += sign * pod.requests.memory
        self.scored_cpu += sign * pod.scored_requests.cpu
        self.scored_memory += sign * pod.scored_requests.memory
        for name, amount in pod.requests.other_resources:
            self.other_resources[name] = self.other_resources.get(name, 0) + sign * amount
        change: Callable[[list[Any], Any], None] = list.append if sign > 0 else list.remove
        for port in pod.host_ports:
            change(self.ports, port)
        for disk in pod.disks:
            change(self.disks, disk)


class TopologyDomains:
    """Topology key over the nodes.

    It has the domain of each node (-1 = key missing) and the number of domains.
    """

    __slots__ = ("domain_by_node", "node_domains", "size")

    def __init__(self, domain_by_node: list[int], size: int) -> None:
        # -1 without the topology key.
        self.domain_by_node = domain_by_node
        # Number of domains.
        self.size = size
        # Each node with the key as a domain of its own.
        self.node_domains = [
            -1 if domain < 0 else node for node, domain in enumerate(domain_by_node)
        ]


class PodSpecGroup:
    """Pods of one spec, counted per node."""

    __slots__ = ("labels", "nodes", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.labels = dict(spec.labels)
        # Number of pods by node.
        self.nodes: dict[int, int] = {}


class SchedulerCache:
    """Nodes of a cluster and the pods on them.

    `version` changes with every pod added or removed.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Index the nodes of a cluster, without any pods yet."""
        self.nodes = cluster.nodes
        self.index = {node.name: at for at, node in enumerate(cluster.nodes)}
        self.usage = [NodeUsage() for _ in cluster.nodes]
        # Nodes of one number have equal sizes, and equal usage apart from other resources,
        # ports and disks.
        self.usage_numbers = [0] * len(cluster.nodes)
        self._numbers_by_usage: dict[tuple[int, ...], int] = {}
        for node in range(len(cluster.nodes)):
            self._update_usage_number(node)
        # The version changes with every placed or removed pod.
        self.version = 0
        # Number of pods by exclusive claim.
        self._claim_uses: Counter[str] = Counter()
        self._namespaces = cluster.namespaces
        self._topologies: dict[str, TopologyDomains] = {}
        # Nodes (whether each counts) and domains counted by a spread constraint, by the facts
        # deciding about them.
        self.eligible_nodes: dict[object, tuple[list[bool], frozenset[int]]] = {}
        # Pods of one spec.
        self._groups: dict[PodSpec, PodSpecGroup] = {}
        # By each label of the pods.
        self._groups_by_pair: dict[tuple[str, str], list[PodSpecGroup]] = {}
        # Groups with affinity or anti-affinity terms, by a label pair required by a term.
        self._term_groups_by_pair: dict[tuple[str, str], list[PodSpecGroup]] = {}
        # With a term without a required label pair.
        self._unindexed_term_groups: list[PodSpecGroup] = []

    def get_group(self, spec: PodSpec) -> PodSpecGroup:
        """Return the pod group of this spec, creating it if needed."""
        group = self._groups.get(spec)
        if group is None:
            group = self._groups[spec] = PodSpecGroup(spec)
            for pair in spec.labels:
                self._groups_by_pair.setdefault(pair, []).append(group)
            self._index_affinity_terms(group)
        return group

    def _index_affinity_terms(self, group: PodSpecGroup) -> None:
        """Index a group by the label pairs of its terms, or for all pods.

        The pairs are those required by its terms. The group is for all pods if a
        term requires none.
        """
        pairs: set[tuple[str, str]] = set()
        for term in group.spec.affinity_terms:
            label_pairs = list_alternative_labels(term.selector)
            # No label pair is required.
            if label_pairs is None:
                self._unindexed_term_groups.append(group)
                return
            pairs.update(label_pairs)
        for pair in sorted(pairs):
            self._term_groups_by_pair.setdefault(pair, []).append(group)

    def place(self, group: PodSpecGroup, node: int, sign: int = 1) -> None:
        """Add a pod of the group to a node, or remove one (sign -1)."""
        self.usage[node].add(group.spec, sign)
        self._update_usage_number(node)
        for claim in group.spec.exclusive_claims:
            self._claim_uses[claim] += sign
        count = group.nodes.get(node, 0) + sign
        if count:
            group.nodes[node] = count
        else:
            del group.nodes[node]
        self.version += 1

    def _update_usage_number(self, node: int) -> None:
        """Give a node the number of its size and usage, a new one at their first appearance."""
        record = self.nodes[node]
        usage = self.usage[node]
        amounts = (usage.pods, usage.cpu, usage.memory, usage.scored_cpu, usage.scored_memory)
        numbers = self._numbers_by_usage
        key = (record.cpu, record.memory, record.pods, *amounts)
        self.usage_numbers[node] = numbers.setdefault(key, len(numbers))

    def list_groups(self) -> Iterable[PodSpecGroup]:
        """Return all groups of pods."""
        return self._groups.values()

    def has_claim_conflict(self, spec: PodSpec) -> bool:
        """Return whether a pod uses a claim required exclusively by this spec."""
        return any(self._claim_uses[claim] > 0 for claim in spec.exclusive_claims)

    def get_topology(self, key: str) -> TopologyDomains:
        """Return the domains of a topology key: the values of this label, numbered.

        -1 for a node without the label.
        """
        topology = self._topologies.get(key)
        if topology is None:
            # Domains by value; a node without the label has none.
            numbers: dict[str | None, int] = {None: -1}
            domain_by_node = [
                numbers.setdefault(node.labels.get(key), len(numbers) - 1) for node in self.nodes
            ]
            topology = self._topologies[key] = TopologyDomains(domain_by_node, len(numbers) - 1)
        return topology

    def select_groups(self, selector: LabelSelector | None) -> list[PodSpecGroup]:
        """Return the groups with pods selected by a selector, in any namespace."""
        candidates = self._list_candidates(selector)
        return [
            group for group in candidates if group.nodes and is_selected(selector, group.labels)
        ]

    def select_groups_of_namespace(
        self, selector: LabelSelector | None, namespace: str
    ) -> list[PodSpecGroup]:
        """Return the groups of a namespace with pods selected by a selector."""
        return [
            group for group in self.select_groups(selector) if group.spec.namespace == namespace
        ]

    def _list_candidates(self, selector: LabelSelector | None) -> Iterable[PodSpecGroup]:
        """Return the groups a selector could select.

        They are found by one of its label pairs, else all groups are returned.
        """
        pairs = list_alternative_labels(selector)
        if pairs is None:
            return self._groups.values()
        # A pod has one value per key, so no group is indexed under two of the pairs.
        return chain.from_iterable(self._groups_by_pair.get(pair, ()) for pair in pairs)

    def find_term_groups(self, group: PodSpecGroup) -> list[PodSpecGroup]:
        """Return the groups with terms that may select pods of this group.

        Callers check each term.
        """
        indexed_groups = (self._term_groups_by_pair.get(pair, ()) for pair in group.spec.labels)
        # Each group once.
        candidates = dict.fromkeys(chain(self._unindexed_term_groups, *indexed_groups))
        # Groups with pods on nodes.
        return [candidate for candidate in candidates if candidate.nodes]

    def select_term_groups(self, term: PodTerm) -> list[PodSpecGroup]:
        """Return the groups with pods selected by a pod affinity term."""
        groups = self.select_groups(term.selector)
        return [
            group for group in groups if self._is_namespace_selected(term, group.spec.namespace)
        ]

    def is_selected(self, term: PodTerm, group: PodSpecGroup) -> bool:
        """Return whether a term selects the pods of a group."""
        return self._is_namespace_selected(term, group.spec.namespace) and is_selected(
            term.selector, group.labels
        )

    def _is_namespace_selected(self, term: PodTerm, namespace: str) -> bool:
        """Return whether a term is about pods of a namespace, by its name or by its labels."""
        return namespace in term.namespaces or is_selected(
            term.namespace_selector,
            {**self._namespaces.get(namespace, {}), _NAMESPACE_NAME: namespace},
        )


def list_alternative_labels(selector: LabelSelector | None) -> list[tuple[str, str]] | None:
    """Return label pairs, exactly one of them on each selected object.

    The result is None if the selector requires no value.
    """
    if selector is None:
        # It selects nothing.
        return []
    if selector.match_labels:
        # Each selected object has all of them: one is sufficient.
        return [selector.match_labels[0]]
    for requirement in selector.match_expressions:
        if requirement.operator == IN:
            return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None
