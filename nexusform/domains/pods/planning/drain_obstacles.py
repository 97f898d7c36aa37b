"""Obstacles of node drains: budgets without allowed disruptions, and workloads with a single pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.domains.pods.planning.cluster_observation import ObservedCluster
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodDisruptionBudget
from nexusform.domains.pods.scheduling.preemption import (
    compute_allowed_disruptions,
    find_protected_workloads,
    is_pod_covered,
    list_applied_budgets,
)
from nexusform.plans.maintenance import DrainObstacles


def find_drain_obstacles(
    budgets: Sequence[PodDisruptionBudget], existing_pods: Sequence[ExistingPod], nodes: Collection[str]
) -> DrainObstacles:
    """Return the obstacles for draining nodes: exhausted budgets, and single-pod workloads."""
    drained_pods = [pod for pod in existing_pods if pod.node in nodes]
    applied_budgets = list(list_applied_budgets(budgets, drained_pods, existing_pods))
    blocking_budgets = [budget for budget, evictions in applied_budgets if evictions <= 0]
    running_counts = Counter(pod.workload for pod in existing_pods if pod.node)
    drained_workloads = {pod.workload for pod in drained_pods}
    single_workloads = [
        workload for workload, count in sorted(running_counts.items()) if count == 1 and workload in drained_workloads
    ]
    single_replicas = tuple(workload for workload in single_workloads if "/DaemonSet/" not in workload)
    protected_workloads = tuple(
        sorted(find_protected_workloads((budget for budget, _ in applied_budgets), existing_pods) & drained_workloads)
    )
    return DrainObstacles(
        tuple(f"{budget.namespace}/{budget.name}" for budget in blocking_budgets), single_replicas, protected_workloads
    )


def apply_observed_budget_status(
    budgets: Sequence[PodDisruptionBudget], observed_cluster: ObservedCluster | None
) -> tuple[PodDisruptionBudget, ...]:
    """Return budgets with the status observed by kubectl: it knows readiness and scale."""
    if observed_cluster is None:
        return tuple(budgets)
    statuses = {
        (manifest.namespace, manifest.name): manifest.body
        for manifest in observed_cluster.objects
        if (manifest.group, manifest.kind) == ("policy", "PodDisruptionBudget")
    }
    existing_pods = (*observed_cluster.existing_pods, *observed_cluster.replaced_pods)
    return tuple(
        _apply_budget_status(budget, statuses.get((budget.namespace, budget.name), {}), existing_pods)
        for budget in budgets
    )


def _apply_budget_status(
    budget: PodDisruptionBudget, observed_body: Mapping[str, Any], existing_pods: Sequence[ExistingPod]
) -> PodDisruptionBudget:
    """Return one budget with its observed status, unless the plan changes its amounts."""
    status, spec = observed_body.get("status", {}), observed_body.get("spec", {})
    amounts = [str(spec.get(name, "")) for name in ("minAvailable", "maxUnavailable")]
    allowed_count = status.get("disruptionsAllowed")
    if not isinstance(allowed_count, int) or amounts != [budget.min_available, budget.max_unavailable]:
        return budget
    healthy_count = sum(is_pod_covered(budget, pod.spec) and not pod.spec.is_terminating for pod in existing_pods)
    expected_count = status.get("expectedPods")
    pods = expected_count if isinstance(expected_count, int) else healthy_count
    amounts_of_pods = [status.get(name) for name in ("currentHealthy", "desiredHealthy")]
    current, desired = [amount if isinstance(amount, int) else 0 for amount in amounts_of_pods]
    return replace(
        budget,
        withheld_disruptions=max(0, compute_allowed_disruptions(budget, pods, healthy_count)) - allowed_count,
        is_met=current >= desired > 0,
    )
