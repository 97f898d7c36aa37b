"""Brute-force rules of kube-scheduler, pod by pod and node by node.

They work without any bookkeeping. Existing pods are (spec, node name) pairs. The only product code
used is the model and `matches`, `holds` and `tolerates`, tested separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec, SpreadConstraint
from nexusform.kubernetes.matching import (
    Taint,
    build_label_selector,
    is_matching_toleration,
    is_requirement_met,
    is_selected,
)

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Cluster:
    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Iterable[tuple[PodSpec, str]],
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.nodes = {n.name: n for n in nodes}
        self.pods = list(pods)
        self.namespaces = namespaces or {}

    # --- terms --------------------------------------------------------------------------------

    def is_selected_by_term(self, term: Any, pod: PodSpec) -> bool:
        if term.selector is None:
            return False
        in_namespace = pod.namespace in term.namespaces
        if not in_namespace and term.namespace_selector is not None:
            labels = dict(self.namespaces.get(pod.namespace, {}))
            labels["kubernetes.io/metadata.name"] = pod.namespace
            in_namespace = is_selected(term.namespace_selector, labels)
        return in_namespace and is_selected(term.selector, dict(pod.labels))

    def is_same_domain(self, key: str, one: Node, other: Node) -> bool:
        a = one.labels.get(key)
        b = other.labels.get(key)
        return a is not None and a == b

    # --- filters ------------------------------------------------------------------------------

    def reasons(self, pod: PodSpec, node: Node) -> list[str]:
        return [reason for reason in self._yield_reasons(pod, node) if reason]

    def _yield_reasons(self, pod: PodSpec, node: Node) -> Iterator[str | None]:
        if pod.node_terms and not any(self.may_match(term, node) for term in pod.node_terms):
            yield "node(s) didn't satisfy plugin(s) [NodeAffinity]"
        yield self.cordoned(pod, node)
        if pod.node_name and pod.node_name != node.name:
            yield "node(s) didn't match the requested node name"
        yield self.tainted(pod, node)
        left_out = pod.node_terms and not any(self.may_match(term, node) for term in pod.node_terms)
        if not left_out and not self.matches_node(pod, node):
            yield "node(s) didn't match Pod's node affinity/selector"
        yield self.ports(pod, node)
        yield self.resources(pod, node)
        yield self.disks(pod, node)
        yield self.spread(pod, node)
        yield self.check_inter_pod_rules(pod, node)

    def cordoned(self, pod: PodSpec, node: Node) -> str | None:
        cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
        if node.unschedulable and not any(
            is_matching_toleration(t, cordon) for t in pod.tolerations
        ):
            return "node(s) were unschedulable"
        return None

    def tainted(self, pod: PodSpec, node: Node) -> str | None:
        for taint in node.taints:
            if taint.effect != "PreferNoSchedule" and not any(
                is_matching_toleration(t, taint) for t in pod.tolerations
            ):
                return "node(s) had untolerated taint(s)"
        return None

    def matches_node(self, pod: PodSpec, node: Node) -> bool:
        if any(node.labels.get(k) != v for k, v in pod.node_selector):
            return False
        if pod.node_terms is None:
            return True
        return any(self.node_term(term, node) for term in pod.node_terms)

    def may_match(self, term: Any, node: Node) -> bool:
        return not any(
            field.operator == "In" and node.name not in field.values for field in term.fields
        )

    def node_term(self, term: Any, node: Node) -> bool:
        answers = [is_requirement_met(r, node.labels) for r in term.labels]
        answers += [is_requirement_met(r, {"metadata.name": node.name}) for r in term.fields]
        return bool(answers) and all(answers)

    def on(self, node: Node) -> list[PodSpec]:
        return [spec for spec, name in self.pods if name == node.name]

    def ports(self, pod: PodSpec, node: Node) -> str | None:
        for theirs in self.on(node):
            for a in pod.host_ports:
                for b in theirs.host_ports:
                    same = (a.port, a.protocol) == (b.port, b.protocol)
                    if same and (a.address == b.address or "0.0.0.0" in (a.address, b.address)):
                        return "node(s) didn't have free ports for the requested pod ports"
        return None

    def resources(self, pod: PodSpec, node: Node) -> str:
        theirs = self.on(node)
        short = []
        if len(theirs) + 1 > node.pods:
            short.append("Too many pods")
        for name, asked, used, offered in (
            ("cpu", pod.requests.cpu, sum(p.requests.cpu for p in theirs), node.cpu),
            ("memory", pod.requests.memory, sum(p.requests.memory for p in theirs), node.memory),
        ):
            if asked > 0 and asked > offered - used:
                short.append(f"Insufficient {name}")
        for name, asked in pod.requests.other_resources:
            used = sum(dict(p.requests.other_resources).get(name, 0) for p in theirs)
            if asked > node.other_resources.get(name, 0) - used:
                short.append(f"Insufficient {name}")
        return ", ".join(short)

    def disks(self, pod: PodSpec, node: Node) -> str | None:
        theirs = [disk for other in self.on(node) for disk in other.disks]
        for a in pod.disks:
            if any(a.name == b.name and not (a.is_read_only and b.is_read_only) for b in theirs):
                return "node(s) had no available disk"
        return None

    def included(self, constraint: SpreadConstraint, pod: PodSpec, node: Node) -> bool:
        if constraint.honor_affinity and not self.matches_node(pod, node):
            return False
        return not (constraint.honor_taints and self.tainted(pod, node))

    def counted(self, constraint: SpreadConstraint, pod: PodSpec, node: Node) -> int:
        selector = constraint.selector
        if selector is None or (not selector.match_labels and not selector.match_expressions):
            return 0
        return sum(
            p.namespace == pod.namespace and is_selected(selector, dict(p.labels))
            for p in self.on(node)
        )

    def spread(self, pod: PodSpec, node: Node) -> str | None:
        hard = [c for c in pod.spread if c.is_hard]
        for constraint in hard:
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return (
                    "node(s) didn't match pod topology spread constraints (missing required label)"
                )
            domains = {}
            for other in self.nodes.values():
                if all(c.topology_key in other.labels for c in hard) and self.included(
                    constraint, pod, other
                ):
                    at = other.labels[constraint.topology_key]
                    domains[at] = domains.get(at, 0) + self.counted(constraint, pod, other)
            least = (
                min(domains.values(), default=0) if len(domains) >= constraint.min_domains else 0
            )
            selector = constraint.selector
            itself = int(selector is not None and is_selected(selector, dict(pod.labels)))
            if domains.get(value, 0) + itself - least > constraint.max_skew:
                return "node(s) didn't match pod topology spread constraints"
        return None

    def check_inter_pod_rules(self, pod: PodSpec, node: Node) -> str | None:
        if pod.affinity and not self.affinity(pod, node):
            return "node(s) didn't match pod affinity rules"
        for theirs, name in self.pods:
            for term in pod.anti_affinity:
                if self.is_selected_by_term(term, theirs) and self.is_same_domain(
                    term.topology_key, node, self.nodes[name]
                ):
                    return "node(s) didn't match pod anti-affinity rules"
        for theirs, name in self.pods:
            for term in theirs.anti_affinity:
                if self.is_selected_by_term(term, pod) and self.is_same_domain(
                    term.topology_key, node, self.nodes[name]
                ):
                    return "node(s) didn't satisfy existing pods anti-affinity rules"
        return None

    def affinity(self, pod: PodSpec, node: Node) -> bool:
        if any(term.topology_key not in node.labels for term in pod.affinity):
            return False
        company = [
            self.nodes[name]
            for p, name in self.pods
            if all(self.is_selected_by_term(term, p) for term in pod.affinity)
        ]
        known = [n for n in company if any(term.topology_key in n.labels for term in pod.affinity)]
        if not known:
            return all(self.is_selected_by_term(term, pod) for term in pod.affinity)
        return all(
            any(self.is_same_domain(term.topology_key, node, n) for n in known)
            for term in pod.affinity
        )

    # --- scores -------------------------------------------------------------------------------

    def totals(self, pod: PodSpec) -> dict[str, int]:
        feasible = [node for node in self.nodes.values() if not self.reasons(pod, node)]
        if not feasible:
            return {}
        taints = self.hundred([self.count_soft_taints(pod, n) for n in feasible])
        affinity = self.hundred(
            [sum(w for w, t in pod.preferred_nodes if self.node_term(t, n)) for n in feasible]
        )
        spread = self.compute_spread_scores(pod, feasible)
        pods = self.compute_inter_pod_scores(pod, feasible)
        return {
            node.name: 3 * (100 - taints[at])
            + 2 * affinity[at]
            + 2 * spread[at]
            + 2 * pods[at]
            + self.least_allocated(pod, node)
            + self.score_balance(pod, node)
            for at, node in enumerate(feasible)
        }

    def hundred(self, raws: list[int]) -> list[int]:
        top = max(raws)
        return [raw * 100 // top if top else 0 for raw in raws]

    def count_soft_taints(self, pod: PodSpec, node: Node) -> int:
        count = 0
        for taint in node.taints:
            if taint.effect == "PreferNoSchedule":
                count += not any(is_matching_toleration(t, taint) for t in pod.tolerations)
        return count

    def least_allocated(self, pod: PodSpec, node: Node) -> int:
        cpu = sum(p.scored_requests.cpu for p in [*self.on(node), pod])
        memory = sum(p.scored_requests.memory for p in [*self.on(node), pod])
        parts = []
        for used, offered in ((cpu, node.cpu), (memory, node.memory)):
            if offered:
                parts.append(0 if used > offered else (offered - used) * 100 // offered)
        return sum(parts) // len(parts) if parts else 0

    def score_balance(self, pod: PodSpec, node: Node) -> int:
        if pod.requests.cpu == 0 and pod.requests.memory == 0:
            return 0
        if not (node.cpu and node.memory):
            return 100
        cpu = sum(p.requests.cpu for p in [*self.on(node), pod]) / node.cpu
        memory = sum(p.requests.memory for p in [*self.on(node), pod]) / node.memory
        return int((1 - abs((min(1, cpu) - min(1, memory)) / 2)) * 100)

    def compute_spread_scores(self, pod: PodSpec, feasible: list[Node]) -> list[int]:
        own = bool(pod.spread)
        soft = [c for c in pod.spread if not c.is_hard]
        everything = pod.default_spread is not None and pod.default_spread == build_label_selector(
            {}
        )
        if not own and pod.default_spread is not None and not everything:
            soft = [
                SpreadConstraint(key, skew, False, pod.default_spread)
                for key, skew in ((HOST, 3), (ZONE, 5))
            ]
        if not soft:
            return [0] * len(feasible)

        def has_all_keys(node: Node) -> bool:
            return not own or all(c.topology_key in node.labels for c in soft)

        raws = []
        for node in feasible:
            if not has_all_keys(node):
                raws.append(None)
                continue
            total = 0.0
            for c in soft:
                value = node.labels.get(c.topology_key)
                if value is None:
                    continue
                scored = [n for n in feasible if has_all_keys(n)]
                if c.topology_key == HOST:
                    count = self.counted(c, pod, node)
                    size = len(scored)
                else:
                    size = len({n.labels.get(c.topology_key) for n in scored})
                    count = sum(
                        self.counted(c, pod, n)
                        for n in self.nodes.values()
                        if n.labels.get(c.topology_key) == value
                        and has_all_keys(n)
                        and self.included(c, pod, n)
                    )
                total += count * math.log(size + 2) + (c.max_skew - 1)
            raws.append(int(total + 0.5))
        scored = [r for r in raws if r is not None]
        if not scored:
            return [0] * len(feasible)
        low = min(scored)
        high = max(scored)
        return [
            0 if r is None else (100 if high == 0 else 100 * (high + low - r) // high) for r in raws
        ]

    def compute_inter_pod_scores(self, pod: PodSpec, feasible: list[Node]) -> list[int]:
        raws = []
        for node in feasible:
            total = 0
            for theirs, name in self.pods:
                there = self.nodes[name]
                pairs = [(t, t.weight, theirs) for t in pod.preferred_affinity]
                pairs += [(t, -t.weight, theirs) for t in pod.preferred_anti_affinity]
                pairs += [(t, 1, pod) for t in theirs.affinity]
                pairs += [(t, t.weight, pod) for t in theirs.preferred_affinity]
                pairs += [(t, -t.weight, pod) for t in theirs.preferred_anti_affinity]
                for term, weight, whom in pairs:
                    if self.is_selected_by_term(term, whom) and self.is_same_domain(
                        term.topology_key, node, there
                    ):
                        total += weight
            raws.append(total)
        low = min(raws)
        high = max(raws)
        return [int(100 * ((raw - low) / (high - low))) if high > low else 0 for raw in raws]


# --- preemption -----------------------------------------------------------------------------------

HOPELESS = (
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "node(s) were unschedulable",
    "node(s) didn't match the requested node name",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't match pod affinity rules",
)
# An evictable pod: its name, its spec, its node, its start time.
Tenant = tuple[str, PodSpec, str, int]
# A disruption budget: its namespace, its selector, its allowed evictions.
Guard = tuple[str, Any, int]


def find_victims(
    nodes: Iterable[Node], tenants: list[Tenant], pod: PodSpec, node: Node, guards: list[Guard]
) -> tuple[list[Tenant], int] | None:
    """Return the pods kube-scheduler would evict on a node and the number of budget violations.

    The result is None if there are no victims.
    """

    def fits(present: list[Tenant]) -> bool:
        return not Cluster(nodes, [(spec, name) for _, spec, name, _ in present]).reasons(pod, node)

    first = Cluster(nodes, [(spec, name) for _, spec, name, _ in tenants]).reasons(pod, node)[0]
    if first in HOPELESS or "untolerated taint(s)" in first:
        return None
    weaker = [t for t in tenants if t[2] == node.name and t[1].priority < pod.priority]
    present = [t for t in tenants if t not in weaker]
    if not weaker or not fits(present):
        return None
    weaker.sort(key=lambda t: (-t[1].priority, t[3]))
    spent: dict[int, int] = {}
    protected = []
    free = []
    for tenant in weaker:
        breaks = False
        for at, (namespace, selector, allowed) in enumerate(guards):
            empty = not selector.match_labels and not selector.match_expressions
            labels = dict(tenant[1].labels)
            if (
                not empty
                and labels
                and namespace == tenant[1].namespace
                and is_selected(selector, labels)
            ):
                spent[at] = spent.get(at, 0) + 1
                breaks = breaks or spent[at] > allowed
        (protected if breaks else free).append(tenant)
    victims = []
    violations = 0
    for tenant in protected + free:
        if fits([*present, tenant]):
            present.append(tenant)
        else:
            victims.append(tenant)
            violations += tenant in protected
    return sorted(victims, key=lambda t: (-t[1].priority, t[3])), violations


def find_best_evictions(
    nodes: Iterable[Node], tenants: list[Tenant], pod: PodSpec, guards: list[Guard]
) -> dict[str, set[str]]:
    """Return node -> names of the victims, for every node kube-scheduler may pick."""
    nodes = list(nodes)
    left = {}
    for node in nodes:
        answer = find_victims(nodes, tenants, pod, node, guards)
        if answer is not None:
            left[node.name] = answer

    def compute_highest_priority(victims: list[Tenant]) -> int:
        return max(t[1].priority for t in victims)

    def compute_latest_start(victims: list[Tenant]) -> int:
        return min(t[3] for t in victims if t[1].priority == compute_highest_priority(victims))

    for figure in (
        lambda answer: answer[1],
        lambda answer: compute_highest_priority(answer[0]),
        lambda answer: sum(t[1].priority + 2**31 for t in answer[0]),
        lambda answer: len(answer[0]),
        lambda answer: -compute_latest_start(answer[0]),
    ):
        least = min((figure(answer) for answer in left.values()), default=0)
        left = {name: answer for name, answer in left.items() if figure(answer) == least}
    return {name: {t[0] for t in victims} for name, (victims, _) in left.items()}
