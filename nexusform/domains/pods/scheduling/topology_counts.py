"""Pods per topology domain, counted by the rules of one spec, updated with each pod."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, product
from typing import Final, TypeGuard

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    HOSTNAME,
    ZONE,
    Node,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from nexusform.domains.pods.scheduling.rules import node_affinity, taints
from nexusform.domains.pods.scheduling.scheduler_cache import PodSpecGroup, SchedulerCache
from nexusform.kubernetes.matching import LabelSelector, is_selected

# Points for required affinity of existing pods towards a new one.
HARD_AFFINITY_WEIGHT: Final = 1
_DEFAULT_SKEWS: Final = ((HOSTNAME, 3), (ZONE, 5))


class DomainCounter:
    """Pod counter per domain of a topology key.

    `domain_by_node` has the domain of each node (-1 = none). The last item of `counts` (-1) is for
    nodes without a domain, and always 0.
    """

    __slots__ = ("counts", "domain_by_node", "key", "size")

    def __init__(self, key: str, domain_by_node: list[int], size: int) -> None:
        """Start without pods in the `size` domains of a topology key."""
        self.key = key
        self.domain_by_node = domain_by_node
        # The last item is for nodes without a domain (-1).
        self.counts = [0] * (size + 1)
        self.size = size

    def add(self, node: int, amount: int) -> bool:
        """Add an amount to the domain of a node; return False if it has none."""
        domain = self.domain_by_node[node]
        if domain < 0:
            return False
        self.counts[domain] += amount
        return True


class SpreadCounter(DomainCounter):
    """Pods counted by one spread constraint.

    `matches_itself` is 1 if the constraint counts the new pod too. `eligible_nodes` are nodes with
    pods and domains that count, `eligible_domains` their domains.
    """

    __slots__ = (
        *("_levels", "_minimum", "constraint", "counts_itself", "counts_new_pods"),
        *("eligible_domains", "eligible_nodes", "matches_itself"),
    )

    def __init__(
        self,
        constraint: SpreadConstraint,
        domain_by_node: list[int],
        size: int,
        eligible_nodes: list[bool],
        eligible_domains: frozenset[int],
        matches_itself: int,
    ) -> None:
        """Start without pods in the `size` domains.

        `matches_itself` is 1 if the constraint selects the new pod.
        """
        super().__init__(constraint.topology_key, domain_by_node, size)
        self.constraint = constraint
        self.eligible_nodes = eligible_nodes
        self.matches_itself = matches_itself
        # The kube-scheduler counts no pods for an empty selector.
        self.counts_new_pods = _is_selective(constraint.selector)
        # Each further pod of the spec is counted.
        self.counts_itself = self.counts_new_pods and matches_itself > 0
        self.eligible_domains = eligible_domains
        # Number of domains by their number of pods.
        self._levels: dict[int, int] = {}
        # Number of pods in the emptiest domain.
        self._minimum = 0

    def index_domains_by_count(self) -> None:
        """Count the eligible domains by their number of pods.

        All existing pods must be counted before.
        """
        self._levels = Counter(self.counts[domain] for domain in self.eligible_domains)
        self._minimum = min(self._levels, default=0)

    def get_minimum_pod_count(self, domain: int) -> int:
        """Return the pod count of the emptiest domain, for a pod in `domain`.

        It is 0 with fewer domains than minDomains.
        """
        # A DaemonSet's pod has one possible node, so its domain is the only one.
        if self.constraint.counts_own_node:
            return self.counts[domain] if self.constraint.min_domains <= 1 else 0
        return self._minimum if len(self.eligible_domains) >= self.constraint.min_domains else 0

    def add_pod(self, node: int, sign: int = 1) -> None:
        """Add one selected pod (sign 1) or remove one (sign -1), and update the minimum count."""
        domain = self.domain_by_node[node]
        if domain < 0 or not self.eligible_nodes[node]:
            # Pods there do not count.
            return
        level = self.counts[domain]
        self.counts[domain] = level + sign
        # Number of domains by their number of pods.
        levels = self._levels
        levels[level] -= 1
        levels[level + sign] = levels.get(level + sign, 0) + 1
        self._minimum = min(self._minimum, level + sign)
        # No domain has the minimum any more if this one was the last: the next level with
        # a domain follows.
        while not levels.get(self._minimum):
            self._minimum += 1


class TopologyCounts:
    """All counters of one pod spec over the scheduler cache.

    `incoming_spec` is the spec of a new pod as read by the scheduler; it may differ from that
    of existing pods.
    """

    def __init__(self, cache: SchedulerCache, group: PodSpecGroup, incoming_spec: PodSpec) -> None:
        """Count the existing pods for each rule about domains.

        The rules are affinity, anti-affinity and spreading. `group` has the spec of the pod to
        place as configured. `incoming_spec` is this spec as read by the version of the scheduler.
        """
        self.cache = cache
        self.group = group
        self.incoming_spec = spec = incoming_spec
        # Amount added to each counter by one more pod of the spec.
        self._own_increments: list[tuple[DomainCounter, int]] = []
        # Pods selected by all terms.
        self.affinity = list(map(self._create_counter, spec.affinity))
        # Number of the pods counted in `affinity`: each once per term, if its node has a
        # domain for it.
        self.affinity_matches = 0
        self.matches_itself = bool(spec.affinity) and self._is_selected_by_affinity(group)
        # A counter for each term.
        self.anti_affinity = list(map(self._count_selected_pods, spec.anti_affinity))
        # Of existing pods, against this one.
        self.existing_anti_affinity: list[DomainCounter] = []
        # Points for preferences of this pod and of existing ones.
        self.preferred_affinity: list[DomainCounter] = []
        if spec.affinity:
            # The pods of a group have one spec: all of them match the terms, or none does.
            candidates = cache.select_term_groups(spec.affinity[0])
            matching_groups = [
                candidate for candidate in candidates if self._is_selected_by_affinity(candidate)
            ]
            for matching_group, counter in product(matching_groups, self.affinity):
                self.affinity_matches += _count_group(matching_group, counter, amount=1)
        if self.matches_itself:
            self._own_increments += [(counter, 1) for counter in self.affinity]
        self._count_affinity_terms()
        # Nodes without a key of a soft constraint do not count, unless the constraints
        # are Kubernetes' defaults.
        self._all_soft_keys = bool(spec.spread)
        self.hard_spread = self._create_spread_counters(
            [item for item in spec.spread if item.is_hard]
        )
        self.soft_spread = self._create_spread_counters(_list_scoring_constraints(spec))
        counters = (*self.hard_spread, *self.soft_spread)
        self._growing_spread = [counter for counter in counters if counter.counts_itself]
        # Whether existing pods can make a node infeasible, apart from its usage: by a term, a
        # constraint or a claim.
        required_terms = (self.affinity, self.anti_affinity, self.existing_anti_affinity)
        self.can_reject = any((*required_terms, self.hard_spread, group.spec.exclusive_claims))

    def _is_selected_by_affinity(self, group: PodSpecGroup) -> bool:
        """Return whether all terms of required affinity select the pods of a group.

        This also holds without any term.
        """
        return all(self.cache.is_selected(term, group) for term in self.incoming_spec.affinity)

    def _create_counter(self, term: PodTerm) -> DomainCounter:
        topology = self.cache.get_topology(term.topology_key)
        return DomainCounter(term.topology_key, topology.domain_by_node, topology.size)

    def _count_selected_pods(self, term: PodTerm) -> DomainCounter:
        """Return a counter of the pods selected by a term; it also counts the pods placed later."""
        counter = self._create_counter(term)
        for group in self.cache.select_term_groups(term):
            _count_group(group, counter, amount=1)
        if self.cache.is_selected(term, self.group):
            self._own_increments.append((counter, 1))
        return counter

    def _count_affinity_terms(self) -> None:
        """Count affinity terms by domain: of existing pods about the new one, and of the new one.

        Required anti-affinity of existing pods counts pods. Preferences count points: the weight of
        the term for each pod. Both become counters with one per topology key.
        """
        cache = self.cache
        group = self.group
        spec = self.incoming_spec
        # Required anti-affinity, by topology key.
        repulsion_by_key: dict[str, DomainCounter] = {}
        # Preferences, by topology key.
        points_by_key: dict[str, DomainCounter] = {}
        for existing_group in cache.find_term_groups(group):
            for term in self._select_own_terms(existing_group.spec.anti_affinity):
                _count_group(existing_group, self._get_counter(repulsion_by_key, term), amount=1)
            for term in self._select_own_terms(_list_scored_terms(existing_group.spec)):
                _count_group(existing_group, self._get_counter(points_by_key, term), term.weight)
        preferred_terms = _list_preferred_terms(spec)
        for term in preferred_terms:
            counter = self._get_counter(points_by_key, term)
            for existing_group in cache.select_term_groups(term):
                _count_group(existing_group, counter, term.weight)
        # Further pods of the spec have the same terms about each other.
        repelling_terms = self._select_own_terms(group.spec.anti_affinity)
        scored_terms = self._select_own_terms((*preferred_terms, *_list_scored_terms(group.spec)))
        self._own_increments += [
            (self._get_counter(repulsion_by_key, term), 1) for term in repelling_terms
        ]
        self._own_increments += [
            (self._get_counter(points_by_key, term), term.weight) for term in scored_terms
        ]
        self.existing_anti_affinity = list(repulsion_by_key.values())
        self.preferred_affinity = list(points_by_key.values())

    def _select_own_terms(self, terms: Iterable[PodTerm]) -> list[PodTerm]:
        """Return the terms that select the pod to place."""
        return [term for term in terms if self.cache.is_selected(term, self.group)]

    def _get_counter(self, counters: dict[str, DomainCounter], term: PodTerm) -> DomainCounter:
        """Return the counter for the topology key of a term, created on first use."""
        counter = counters.get(term.topology_key)
        if counter is None:
            counter = counters[term.topology_key] = self._create_counter(term)
        return counter

    def _create_spread_counters(
        self, constraints: Sequence[SpreadConstraint]
    ) -> list[SpreadCounter]:
        """Return a counter per constraint.

        Nodes need the keys of all of them, but none for default constraints.
        """
        keys = (
            tuple([constraint.topology_key for constraint in constraints])
            if self._all_soft_keys
            else ()
        )
        return [self._create_spread_counter(constraint, keys) for constraint in constraints]

    def _create_spread_counter(
        self, constraint: SpreadConstraint, required_keys: tuple[str, ...]
    ) -> SpreadCounter:
        """Return the counter of a constraint, with the existing pods that it selects.

        They are on nodes with all required keys.
        """
        topology = self.cache.get_topology(constraint.topology_key)
        domain_by_node = topology.domain_by_node
        domain_count = topology.size
        eligible_nodes, eligible_domains = self._find_eligible_nodes(constraint, required_keys)
        if _is_counted_per_node(constraint):
            # Each node with the label is a domain of its own, even if several have one value.
            domain_by_node = topology.node_domains
            domain_count = len(topology.node_domains)
        selector = constraint.selector
        matches_itself = int(is_selected(selector, self.group.labels))
        counter = SpreadCounter(
            constraint,
            domain_by_node,
            domain_count,
            eligible_nodes,
            eligible_domains,
            matches_itself,
        )
        # A selector of all pods or of none counts no existing pod either.
        if counter.counts_new_pods:
            for group in self.cache.select_groups_of_namespace(selector, self.group.spec.namespace):
                if group.spec.is_terminating:
                    # The spread ignores them.
                    continue
                for node, pods in group.nodes.items():
                    if eligible_nodes[node]:
                        counter.add(node, pods)
        counter.index_domains_by_count()
        return counter

    def _find_eligible_nodes(
        self, constraint: SpreadConstraint, required_keys: tuple[str, ...]
    ) -> tuple[list[bool], frozenset[int]]:
        """Return whether each node counts for a constraint, and the domains of the counted nodes.

        Both are by index. The result is cached: equal constraints of pods with equal node selection
        and tolerations share it.
        """
        spec = self.group.spec
        cache = self.cache
        # Then every node counts, as a domain of its own.
        is_per_node = _is_counted_per_node(constraint)
        affinity = (spec.node_selector, spec.node_terms) if constraint.honor_affinity else None
        tolerations = spec.tolerations if constraint.honor_taints else None
        # All facts read here.
        key = (constraint.topology_key, required_keys, is_per_node, affinity, tolerations)
        result = cache.eligible_nodes.get(key)
        if result is None:
            topology = cache.get_topology(constraint.topology_key)
            domain_by_node = topology.node_domains if is_per_node else topology.domain_by_node
            eligible_nodes = [
                is_per_node or _is_node_eligible(constraint, spec, node, required_keys)
                for node in cache.nodes
            ]
            domains = set(compress(domain_by_node, eligible_nodes))
            # -1: no domain.
            result = cache.eligible_nodes[key] = (eligible_nodes, frozenset(domains - {-1}))
        return result

    def has_spread_score(self, node: int) -> bool:
        """Return whether a node gets spreading points.

        It needs all keys of the pod's own soft constraints, if any.
        """
        return not self._all_soft_keys or all(
            counter.domain_by_node[node] >= 0 for counter in self.soft_spread
        )

    def add(self, node: int) -> None:
        """Count one more pod of this spec on a node."""
        # Counts of affinity terms selecting the pod.
        for counter, amount in self._own_increments:
            counter.add(node, amount)
        if self.matches_itself:
            # Once per term, if the node has a domain for it (below 0: none).
            self.affinity_matches += sum(
                counter.domain_by_node[node] >= 0 for counter in self.affinity
            )
        # Constraints counting pods of this spec.
        for spread in self._growing_spread:
            spread.add_pod(node)

    def update_counts(self, other: PodSpecGroup, node: int, sign: int) -> None:
        """Count a pod of `other` added to a node or removed, by hard rules only.

        `sign` is 1 or -1. The counters are about the pod to place (`incoming_spec`). Those of
        scores (preferences, soft spreading) stay unchanged.
        """
        cache = self.cache
        spec = other.spec
        # `other` counts only if all terms select it.
        if self._is_selected_by_affinity(other):
            for counter in self.affinity:
                self.affinity_matches += sign * counter.add(node, sign)
        for term, counter in zip(self.incoming_spec.anti_affinity, self.anti_affinity, strict=True):
            if cache.is_selected(term, other):
                counter.add(node, sign)
        # The terms of the other pod against the pod to place, by topology key.
        term_counts = Counter(
            term.topology_key for term in self._select_own_terms(spec.anti_affinity)
        )
        for counter in self.existing_anti_affinity:
            counter.add(node, sign * term_counts[counter.key])
        if spec.is_terminating or spec.namespace != self.group.spec.namespace:
            # The spread counts only pods of its own namespace that do not terminate.
            return
        for spread in self.hard_spread:
            if spread.counts_new_pods and is_selected(spread.constraint.selector, other.labels):
                spread.add_pod(node, sign)

    def list_counters(self) -> list[DomainCounter]:
        """Return every counter read by a rule."""
        return [
            *self.affinity,
            *self.anti_affinity,
            *self.existing_anti_affinity,
            *self.preferred_affinity,
            *self.hard_spread,
            *self.soft_spread,
        ]

    def list_counters_changed_by_pod(self) -> list[DomainCounter]:
        """Return the counters changed by a further pod of this spec."""
        own_counters = [counter for counter, _ in self._own_increments]
        return own_counters + self._growing_spread


def _is_counted_per_node(constraint: SpreadConstraint) -> bool:
    """Return whether a constraint counts each node alone.

    It does for points over the host name, and for daemons.
    """
    return constraint.counts_own_node or (
        not constraint.is_hard and constraint.topology_key == HOSTNAME
    )


def _is_node_eligible(
    constraint: SpreadConstraint, spec: PodSpec, node: Node, keys: tuple[str, ...]
) -> bool:
    """Return whether a node with all these keys counts for a constraint.

    Its policies for affinity and taints decide.
    """
    if not node.labels.keys() >= set(keys):
        return False
    if constraint.honor_affinity and not node_affinity.is_node_affinity_satisfied(spec, node):
        return False  # nodeAffinityPolicy: Honor
    return not constraint.honor_taints or taints.find_untolerated_taint(spec, node) is None


def _is_selective(selector: LabelSelector | None) -> TypeGuard[LabelSelector]:
    """Return whether a selector selects some pods.

    None selects nothing, one without requirements everything.
    """
    return selector is not None and not selector.is_empty


def _list_scoring_constraints(spec: PodSpec) -> list[SpreadConstraint]:
    """Return the soft spread constraints of a pod.

    A pod without any constraint has the defaults of Kubernetes.
    """
    if spec.spread:
        return [constraint for constraint in spec.spread if not constraint.is_hard]
    selector = spec.default_spread
    if not _is_selective(selector):
        return []
    return [
        SpreadConstraint(key, skew, is_hard=False, selector=selector)
        for key, skew in _DEFAULT_SKEWS
    ]


def _list_preferred_terms(spec: PodSpec) -> tuple[PodTerm, ...]:
    """Return the preferred terms; those of anti-affinity have negative weights."""
    repelling_terms = (replace(term, weight=-term.weight) for term in spec.preferred_anti_affinity)
    return (*spec.preferred_affinity, *repelling_terms)


def _list_scored_terms(spec: PodSpec) -> tuple[PodTerm, ...]:
    """Return the terms of existing pods that add points for a new pod, with weights."""
    required_terms = (replace(term, weight=HARD_AFFINITY_WEIGHT) for term in spec.affinity)
    return (*required_terms, *_list_preferred_terms(spec))


def _count_group(group: PodSpecGroup, counter: DomainCounter, amount: int) -> int:
    """Add `amount` to the counter for each pod of a group.

    The result is the number of pods on nodes with a domain.
    """
    pod_count = 0
    for node, pods in group.nodes.items():
        if counter.add(node, pods * amount):
            pod_count += pods
    return pod_count
