"""Small fleets and policies for scheduling tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    ClusterSelectorTerm,
    Health,
    Member,
    PlacementType,
    Policy,
    PolicySnapshot,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    ResourceUsage,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.scheduling_cycle import CycleResult, run_scheduling_cycles
from nexusform.kubernetes.matching import Taint, build_label_selector
from nexusform.kubernetes.quantity import Quantity, parse_quantity

NODES = "kubernetes-fleet.io/node-count"
CPU = "resources.kubernetes-fleet.io/available-cpu"
COST = "kubernetes.azure.com/per-cpu-core-cost"
ALL = PlacementType.PICK_ALL
FIXED = PlacementType.PICK_FIXED
N = PlacementType.PICK_N
SCHEDULED = BindingState.SCHEDULED
BOUND = BindingState.BOUND
UNSCHEDULED = BindingState.UNSCHEDULED


def quantity(text: str) -> Quantity:
    parsed = parse_quantity(text)
    assert isinstance(parsed, Quantity)
    return parsed


def member(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    nodes: str | None = None,
    cost: str | None = None,
    cpu: str | None = None,
    taints: Iterable[str] = (),
    health: Health = Health.HEALTHY,
    namespaces: Iterable[str] | None = None,
) -> Member:
    properties = {key: value for key, value in ((NODES, nodes), (COST, cost)) if value is not None}
    usage = ResourceUsage(available={"cpu": quantity(cpu)}) if cpu else ResourceUsage()
    known = None if namespaces is None else frozenset(namespaces)
    return Member(name, labels or {}, tuple(map(Taint, taints)), properties, usage, health, known)


def fleet(*names: str) -> list[Member]:
    return [member(name) for name in names]


def build_labels_term(**labels: str) -> ClusterSelectorTerm:
    return ClusterSelectorTerm(build_label_selector(labels))


def build_property_term(name: str, operator: str, value: str) -> ClusterSelectorTerm:
    return ClusterSelectorTerm(property_selector=(PropertyRequirement(name, operator, (value,)),))


def build_sorter(name: str, order: str, weight: int = 100) -> PreferredTerm:
    return PreferredTerm(weight, ClusterSelectorTerm(property_sorter=PropertySorter(name, order)))


def build_pick_n(number: int, **rest: object) -> Policy:
    return Policy(N, number, **rest)  # type: ignore[arg-type]


def build_snapshot(policy: Policy, index: int = 0) -> PolicySnapshot:
    return PolicySnapshot(index, "", policy.number_of_clusters)


def schedule(
    members: Iterable[Member],
    policy: Policy,
    prior: Iterable[Binding] = (),
    index: int = 0,
    namespace: str = "",
) -> CycleResult:
    return run_scheduling_cycles(
        prior, MemberList(members), policy, build_snapshot(policy, index), namespace
    )


def list_held_clusters(result: CycleResult) -> list[str]:
    return [b.cluster for b in result.bindings if b.state is not UNSCHEDULED]


def build_bound(
    *names: str, index: int = 0, affinity: int | None = 0, spread: int | None = 0
) -> list[Binding]:
    return [Binding(name, BOUND, index, affinity, spread, resource_snapshot=0) for name in names]


def get_reasons(result: CycleResult) -> dict[str, str]:
    assert result.status is not None
    return {d.cluster: d.reason for d in result.status.list_decisions()}


def get_scores(result: CycleResult) -> dict[str, int | None]:
    assert result.status is not None
    return {d.cluster: d.affinity_score for d in result.status.list_decisions()}
