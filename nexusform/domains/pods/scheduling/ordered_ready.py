"""StatefulSets with podManagementPolicy OrderedReady: their pods are created one after the other. The
controller processes ordinals from the lowest. It creates the first missing pod and waits until it runs: later
pods are not created, surplus pods are not deleted, and none is replaced, not even a Pending one of a broken
template. Existing pods are kept meanwhile. Source: kubernetes
pkg/controller/statefulset/stateful_set_control.go, processReplica and processCondemned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, Workload
from nexusform.domains.pods.scheduling.scheduling_session import PodVerdict
from nexusform.domains.pods.scheduling.workload_progress import WorkloadProgress


def must_wait_to_scale_in(
    workload: Workload,
    pods: Sequence[ExistingPod],
    surplus_pods: Collection[ExistingPod],
    is_running: Callable[[ExistingPod], bool],
) -> bool:
    """Return whether a required pod of the set does not run, so that no surplus pod is deleted yet."""
    if not workload.is_ordered or not surplus_pods:
        return False
    running_numbers = {pod.number for pod in pods if pod not in surplus_pods and is_running(pod) and not pod.is_stuck}
    return len(running_numbers) < workload.replicas


def find_stuck_number(progress: WorkloadProgress) -> int | None:
    """Return the lowest ordinal of an ordered workload's unready pods; None if all are."""
    if not progress.workload.is_ordered:
        return None
    pods = (*progress.kept_pods, *progress.outdated_pods)
    return min((pod.number for pod in pods if pod.is_stuck), default=None)


def must_keep_former_template(workload: Workload, pod: ExistingPod) -> bool:
    """Return whether a Pending pod is kept with its former template."""
    return workload.is_ordered and pod.spec.template != workload.pod.template


def build_waiting_verdict(earlier_pod: str) -> PodVerdict:
    """Return the verdict on a pod that waits for an earlier one."""
    return PodVerdict("", is_certain=True, feasible_nodes=0, reason=f"waits for {earlier_pod} to run")


def drop_deferred_pods(progress: WorkloadProgress) -> None:
    """Drop the pods not created because an earlier one does not run; those with a node are removed."""
    if not progress.workload.is_ordered:
        return
    waiting_numbers = [number for number, outcome in progress.outcomes.items() if not outcome.node]
    stuck_number = find_stuck_number(progress)
    stuck_numbers = [stuck_number] if stuck_number is not None else []
    first = min([*waiting_numbers, *(pod.number for pod in progress.failed_pods), *stuck_numbers], default=None)
    if first is None:
        return
    deferred_pods = [
        pod
        for pod in progress.pods_to_place
        if pod.number > first and pod.number in waiting_numbers and not pod.was_pending
    ]
    for pod in deferred_pods:
        outcome = progress.outcomes.pop(pod.number)
        if pod.previous:
            spec = outcome.spec or progress.workload.pod
            removed_pod = ExistingPod(progress.workload.key, pod.number, pod.previous, spec)
            progress.removals.append((removed_pod, pod.trigger))
    progress.pods_to_place = [pod for pod in progress.pods_to_place if pod not in deferred_pods]
    if deferred_pods:
        progress.uncreated += len(deferred_pods)
        progress.rejection = progress.rejection or f"{progress.workload.format_pod_name(first)} must run first"
