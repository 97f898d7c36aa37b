"""StatefulSets that make their pods one after the other (podManagementPolicy OrderedReady).

Their controller looks at the ordinals from the lowest on. It makes the first pod that is missing, and goes
no further before that runs: later ones are not made, none too many is taken away, and none is replaced, not
even a Pending one of a template that is wrong. Pods that are there meanwhile stay.
Source: kubernetes pkg/controller/statefulset/stateful_set_control.go, processReplica and processCondemned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from nexusform.domains.pods.scheduling.session import Verdict
from nexusform.domains.pods.scheduling.work import Work
from nexusform.domains.pods.scheduling.workloads import StandingPod, Workload


def waits_to_shrink(
    workload: Workload,
    pods: Sequence[StandingPod],
    surplus: Collection[StandingPod],
    stands: Callable[[StandingPod], bool],
) -> bool:
    """Whether some pod that the set is to have does not run, so that none goes yet."""
    if not workload.ordered or not surplus:
        return False
    running = {pod.number for pod in pods if pod not in surplus and stands(pod)}
    return len(running) < workload.replicas


def keeps_template(workload: Workload, pod: StandingPod) -> bool:
    """Whether a Pending pod stays of the former template that it has."""
    return workload.ordered and pod.spec.template != workload.pod.template


def waiting_for(earlier: str) -> Verdict:
    """What becomes of a pod whose turn has not come."""
    return Verdict("", certain=True, feasible=0, reason=f"waits until {earlier} runs")


def hold_back(work: Work) -> None:
    """Take out the pods that are not made, as an earlier one does not run in the end. Those that had a node
    are gone.
    """
    if not work.workload.ordered:
        return
    waiting = [number for number, outcome in work.made.items() if not outcome.node]
    first = min([*waiting, *(pod.number for pod in work.over)], default=None)
    if first is None:
        return
    held = [pod for pod in work.to_place if pod.number > first and pod.number in waiting and not pod.waited]
    for pod in held:
        outcome = work.made.pop(pod.number)
        if pod.previous:
            spec = outcome.spec or work.workload.pod
            gone = StandingPod(work.workload.key, pod.number, pod.previous, spec)
            work.gone.append((gone, pod.trigger))
    work.to_place = [pod for pod in work.to_place if pod not in held]
    if held:
        work.not_made += len(held)
        work.refused = work.refused or f"{work.workload.pod_name(first)} has to run before they are"
