"""What draining nodes meets: budgets that allow no eviction, and workloads of one pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from nexusform.domains.pods.scheduling.preemption import allowed_now, always_up, covers
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
        if any(covers(budget, pod.spec) for pod in drained)
    ]
    strict = [budget for budget, evictions in allowed if evictions is not None and evictions <= 0]
    running = Counter(pod.workload for pod in standing if pod.node)
    gone = {pod.workload for pod in drained}
    single = [workload for workload, count in sorted(running.items()) if count == 1 and workload in gone]
    moved = tuple(workload for workload in single if "/DaemonSet/" not in workload)
    kept_up = tuple(sorted(always_up((budget for budget, _ in allowed), standing) & gone))
    return Disruptions(tuple(f"{budget.namespace}/{budget.name}" for budget in strict), moved, kept_up)
