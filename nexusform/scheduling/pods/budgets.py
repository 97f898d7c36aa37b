"""PodDisruptionBudgets: how many of their pods may go.

Source: kubernetes pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from nexusform.scheduling.matching import matches
from nexusform.scheduling.pods.workloads import Budget, PodSpec, StandingPod


def allowed_disruptions(budget: Budget, pods: int, healthy: int) -> int:
    """How many of the budget's pods may be evicted now; below 0 when it is broken already.

    Per cents of `pods`, the pods that there should be, are rounded up (as Kubernetes does).
    """
    if budget.min_available:
        return healthy - _amount(budget.min_available, pods)
    return healthy - (pods - _amount(budget.max_unavailable or "0", pods))


def _amount(text: str, pods: int) -> int:
    number = text.removesuffix("%")
    if not number.isdecimal():
        return 0
    return -(-int(number) * pods // 100) if text.endswith("%") else int(number)


def covers(budget: Budget, pod: PodSpec) -> bool:
    """Whether a budget speaks of a pod."""
    return budget.namespace == pod.namespace and matches(budget.selector, dict(pod.labels))


def allowed_now(budget: Budget, standing: Iterable[StandingPod]) -> int | None:
    """How many of the pods that stand the budget lets go; None when it covers none of them."""
    covered = [pod for pod in standing if covers(budget, pod.spec)]
    if not covered:
        return None
    healthy = sum(bool(pod.node) for pod in covered)
    return allowed_disruptions(budget, len(covered), healthy)
