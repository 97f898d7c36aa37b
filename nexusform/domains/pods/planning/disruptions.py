"""What draining nodes meets: budgets that allow no eviction, and workloads of one pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.planning.observed import ObservedCluster
from nexusform.domains.pods.scheduling.preemption import (
    allowed_disruptions,
    allowed_now,
    always_up,
    covers,
    holds,
)
from nexusform.domains.pods.scheduling.workloads import Budget, StandingPod
from nexusform.plans.plan import Disruptions


def disruptions_of(
    budgets: Iterable[Budget], standing: Sequence[StandingPod], nodes: Collection[str]
) -> Disruptions:
    """What draining these nodes of a cluster meets, on which these pods stand."""
    drained = [pod for pod in standing if pod.node in nodes]
    allowed = [
        (budget, allowed_now(budget, standing))
        for budget in budgets
        if any(holds(budget, pod) for pod in drained)
    ]
    strict = [budget for budget, evictions in allowed if evictions is not None and evictions <= 0]
    running = Counter(pod.workload for pod in standing if pod.node)
    gone = {pod.workload for pod in drained}
    single = [workload for workload, count in sorted(running.items()) if count == 1 and workload in gone]
    moved = tuple(workload for workload in single if "/DaemonSet/" not in workload)
    kept_up = tuple(sorted(always_up((budget for budget, _ in allowed), standing) & gone))
    return Disruptions(tuple(f"{budget.namespace}/{budget.name}" for budget in strict), moved, kept_up)


def as_stated(budgets: Sequence[Budget], observed: ObservedCluster | None) -> tuple[Budget, ...]:
    """Budgets with what their controller says of them, where kubectl has shown it: some of their pods may
    not be ready, or belong to a scale that nobody here knows.
    """
    if observed is None:
        return tuple(budgets)
    statuses = {(each.namespace, each.name): each.body for each in observed.objects if _is_budget(each)}
    standing = (*observed.standing, *observed.own)
    return tuple(
        _as_stated(budget, statuses.get((budget.namespace, budget.name), {}), standing) for budget in budgets
    )


def _is_budget(manifest: Manifest) -> bool:
    return (manifest.group, manifest.kind) == ("policy", "PodDisruptionBudget")


def _as_stated(budget: Budget, seen: Mapping[str, Any], standing: Sequence[StandingPod]) -> Budget:
    """One budget as it was `seen`; what a plan changes of it is its own."""
    status, spec = seen.get("status", {}), seen.get("spec", {})
    amounts = [str(spec.get(name, "")) for name in ("minAvailable", "maxUnavailable")]
    stated = status.get("disruptionsAllowed")
    if not isinstance(stated, int) or amounts != [budget.min_available, budget.max_unavailable]:
        return budget
    healthy = sum(covers(budget, pod.spec) and not pod.spec.terminating for pod in standing)
    expected = status.get("expectedPods")
    pods = expected if isinstance(expected, int) else healthy
    return replace(budget, withheld=max(0, allowed_disruptions(budget, pods, healthy)) - stated)
