"""What stands on the nodes of a cluster while pods are being placed: integer ids behind the frozen faces.

Pods of equal spec are one group, counted per node; groups are found by the labels that selectors ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from nexusform.domains.pods.scheduling.workloads import Cluster, Disk, HostPort, PodSpec, PodTerm
from nexusform.kubernetes.matching import IN, LabelSelector, matches

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class Usage:
    """What the pods of one node hold: CPU (milli), memory (bytes), the same as scores count it, the rest."""

    __slots__ = ("cpu", "disks", "memory", "others", "pods", "ports", "scored_cpu", "scored_memory")

    def __init__(self) -> None:
        self.cpu = 0
        self.memory = 0
        self.scored_cpu = 0
        self.scored_memory = 0
        self.pods = 0
        self.others: dict[str, int] = {}
        self.ports: list[HostPort] = []
        self.disks: list[Disk] = []

    def take(self, pod: PodSpec, sign: int) -> None:
        """Add a pod (sign 1) or take one away (sign -1)."""
        self.pods += sign
        self.cpu += sign * pod.requests.cpu
        self.memory += sign * pod.requests.memory
        self.scored_cpu += sign * pod.scored.cpu
        self.scored_memory += sign * pod.scored.memory
        for name, amount in pod.requests.others:
            self.others[name] = self.others.get(name, 0) + sign * amount
        for port in pod.host_ports:
            if sign > 0:
                self.ports.append(port)
            else:
                self.ports.remove(port)
        for disk in pod.disks:
            if sign > 0:
                self.disks.append(disk)
            else:
                self.disks.remove(disk)


class Topology:
    """A topology key over the nodes: the domain of each (-1 = the node lacks the key) and their names."""

    __slots__ = ("domain", "key", "values")

    def __init__(self, key: str, domain: list[int], values: list[str]) -> None:
        self.key = key
        self.domain = domain
        self.values = values


class Group:
    """Pods of one spec: how many on which node."""

    __slots__ = ("labels", "nodes", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.labels = dict(spec.labels)
        self.nodes: dict[int, int] = {}


class Board:
    """The nodes of a cluster and everything on them. `version` changes with every pod."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = cluster.nodes
        self.index = {node.name: at for at, node in enumerate(cluster.nodes)}
        self.usage = [Usage() for _ in cluster.nodes]
        self.version = 0
        self._claims: Counter[str] = Counter()
        self._namespaces = cluster.namespaces
        self._topologies: dict[str, Topology] = {}
        self._groups: dict[PodSpec, Group] = {}
        self._by_pair: dict[tuple[str, str], list[Group]] = {}
        # Groups whose terms look at other pods, by one label pair that such pods must have.
        self._terms_by_pair: dict[tuple[str, str], list[Group]] = {}
        self._terms_anywhere: list[Group] = []

    def group(self, spec: PodSpec) -> Group:
        """The pods of this spec: one object per spec, also before the first pod."""
        group = self._groups.get(spec)
        if group is None:
            group = self._groups[spec] = Group(spec)
            for pair in spec.labels:
                self._by_pair.setdefault(pair, []).append(group)
            self._index_terms(group)
        return group

    def _index_terms(self, group: Group) -> None:
        """Note by which labels of other pods the terms of a spec are looked up."""
        spec = group.spec
        terms = spec.anti_affinity + spec.affinity + spec.preferred_affinity + spec.preferred_anti_affinity
        pairs: set[tuple[str, str]] = set()
        for term in terms:
            if term.selector is None:
                continue
            label_pairs = asked_pairs(term.selector)
            if label_pairs is None:
                self._terms_anywhere.append(group)
                return
            pairs.update(label_pairs)
        for pair in sorted(pairs):
            self._terms_by_pair.setdefault(pair, []).append(group)

    def place(self, group: Group, node: int, sign: int = 1) -> None:
        """Put a pod of the group on a node, or (sign -1) take one away."""
        self.usage[node].take(group.spec, sign)
        for claim in group.spec.exclusive:
            self._claims[claim] += sign
        count = group.nodes.get(node, 0) + sign
        if count:
            group.nodes[node] = count
        else:
            del group.nodes[node]
        self.version += 1

    def claimed(self, spec: PodSpec) -> bool:
        """Whether some pod has a claim that this one would have to have alone."""
        return any(self._claims[claim] > 0 for claim in spec.exclusive)

    def topology(self, key: str) -> Topology:
        """The domains of a key; hostname's are what the label says, like every other key's."""
        topology = self._topologies.get(key)
        if topology is None:
            numbers: dict[str, int] = {}
            domain = []
            for node in self.nodes:
                value = node.labels.get(key)
                domain.append(-1 if value is None else numbers.setdefault(value, len(numbers)))
            topology = self._topologies[key] = Topology(key, domain, list(numbers))
        return topology

    def selected(self, selector: LabelSelector, namespace: str | None = None) -> list[Group]:
        """Groups with pods that a selector selects, of one namespace or of all."""
        return [
            group
            for group in self._candidates(selector)
            if group.nodes
            and (namespace is None or group.spec.namespace == namespace)
            and matches(selector, group.labels)
        ]

    def _candidates(self, selector: LabelSelector) -> Iterable[Group]:
        """The groups that a selector might select: by one of its label pairs, else all."""
        pairs = asked_pairs(selector)
        if pairs is None:
            return self._groups.values()
        # A pod has one value per key, so no group stands under two of the pairs.
        return chain.from_iterable(self._by_pair.get(pair, ()) for pair in pairs)

    def looking_at(self, group: Group) -> list[Group]:
        """Groups with pods whose terms may look at pods of this group (to be checked term by term)."""
        looking = {id(candidate): candidate for candidate in self._terms_anywhere}
        for pair in group.spec.labels:
            for candidate in self._terms_by_pair.get(pair, ()):
                looking[id(candidate)] = candidate
        return [candidate for candidate in looking.values() if candidate.nodes]

    def chosen(self, term: PodTerm) -> list[Group]:
        """Groups with pods that a term of somebody else selects."""
        if term.selector is None:
            return []
        return [g for g in self.selected(term.selector) if self._in_namespaces(term, g.spec.namespace)]

    def chooses(self, term: PodTerm, group: Group) -> bool:
        """Whether a term selects the pods of a group."""
        return (
            term.selector is not None
            and self._in_namespaces(term, group.spec.namespace)
            and matches(term.selector, group.labels)
        )

    def _in_namespaces(self, term: PodTerm, namespace: str) -> bool:
        """Whether a term speaks of pods of this namespace."""
        if namespace in term.namespaces:
            return True
        if term.namespace_selector is None:
            return False
        labels: Mapping[str, str] = {
            **self._namespaces.get(namespace, {}),
            _NAMESPACE_NAME: namespace,
        }
        return matches(term.namespace_selector, labels)


def asked_pairs(selector: LabelSelector) -> list[tuple[str, str]] | None:
    """Label pairs of which everything that the selector selects has exactly one; None when it asks none."""
    if selector.match_labels:
        return [selector.match_labels[0]]
    for requirement in selector.match_expressions:
        if requirement.operator == IN:
            return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None
