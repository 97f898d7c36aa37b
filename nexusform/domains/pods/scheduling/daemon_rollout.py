"""Replacement of a DaemonSet's pods after a template change, node by node by its update strategy. Without
maxSurge an old pod is deleted before its successor is created, and at most maxUnavailable nodes are without a
running pod. With maxSurge the successor is created first, and the old pod stays until it runs. Source:
kubernetes pkg/controller/daemon/update.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.domains.pods.scheduling import pod_outcomes, profile
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, Node, Strategy
from nexusform.domains.pods.scheduling.scheduling_session import PodVerdict, SchedulingSession
from nexusform.domains.pods.scheduling.workload_progress import PodToPlace, WorkloadProgress, find_unused_pod_numbers
from nexusform.kubernetes.quantity import compute_amount_of_total


class DaemonRollout:
    """Replacement of the pods of one DaemonSet. `verdicts` are those of pods missing before the rollout."""

    def __init__(
        self,
        session: SchedulingSession,
        progress: WorkloadProgress,
        nodes: Mapping[str, Node],
        verdicts: Mapping[int, PodVerdict],
    ) -> None:
        self._session = session
        self._progress = progress
        self._workload = progress.workload
        spec = progress.workload.pod
        self._permitted_nodes = {name for name, node in nodes.items() if profile.should_run_daemon(spec, node)}
        self._waiting_count = progress.uncreated + sum(not verdict.node for verdict in verdicts.values())
        self._waiting_count += sum(
            pod.is_stuck and pod.spec.template == self._workload.pod.template for pod in progress.kept_pods
        )
        self._verdicts: dict[int, PodVerdict] = {}

    def replace_pods(self) -> dict[int, PodVerdict]:
        """Return the verdicts of the successors by number, and record removals in the progress."""
        progress, workload = self._progress, self._workload
        outdated_pods = [pod for pod in progress.kept_pods if pod.spec.template != workload.pod.template]
        if workload.strategy is not Strategy.ON_DELETE:
            surge = compute_amount_of_total(workload.max_surge_text, len(self._permitted_nodes))
            if surge:
                self._replace_with_surge(outdated_pods, surge)
            else:
                maximum = max(1, compute_amount_of_total(workload.max_unavailable_text, len(self._permitted_nodes)))
                self._replace_in_place(outdated_pods, maximum)
        progress.removals += [(pod, pod_outcomes.SCALE_IN) for pod in progress.surge_pods]
        progress.surge_pods = []
        return self._verdicts

    def _replace_in_place(self, outdated_pods: list[ExistingPod], maximum: int) -> None:
        """Delete old pods first, until `maximum` nodes wait for their successors."""
        # Pods that are not ready are replaced first, and regardless of the maximum.
        for pod in sorted(outdated_pods, key=lambda pod: not pod.is_stuck):
            if self._waiting_count >= maximum and not pod.is_stuck:
                self._progress.is_blocked = True
                return
            self._remove_pod(pod)
            if pod.node not in self._permitted_nodes:
                self._progress.removals.append((pod, pod_outcomes.TEMPLATE_CHANGED))
            elif self._workload.admission_error:
                self._progress.removals.append((pod, pod_outcomes.TEMPLATE_CHANGED))
                self._count_uncreated_pod()
            else:
                self._place_on_node(PodToPlace(pod.number, pod.node, pod.node, pod_outcomes.TEMPLATE_CHANGED))

    def _count_uncreated_pod(self) -> None:
        self._waiting_count += 1
        self._progress.uncreated += 1
        self._progress.rejection = self._workload.admission_error

    def _replace_with_surge(self, outdated_pods: list[ExistingPod], maximum: int) -> None:
        """Create successors first, until `maximum` of them wait; delete old pods once theirs run."""
        updated_nodes = {pod.node for pod in self._progress.kept_pods if pod not in outdated_pods}
        for pod in outdated_pods:
            if pod.node in updated_nodes or pod.node not in self._permitted_nodes:
                self._remove_pod(pod)
                self._progress.removals.append((pod, pod_outcomes.TEMPLATE_CHANGED))
                continue
            if self._waiting_count >= maximum:
                self._progress.is_blocked = True
                return
            if self._workload.admission_error:
                self._count_uncreated_pod()
                continue
            verdict = self._session.place_daemon(self._workload.pod, self._workload.key, pod.number, pod.node)
            if verdict.node:
                self._remove_pod(pod)
                self._record_verdict(PodToPlace(pod.number, pod.node, pod.node, pod_outcomes.TEMPLATE_CHANGED), verdict)
            else:
                self._record_verdict(self._create_waiting_pod(pod), verdict)

    def _create_waiting_pod(self, pod: ExistingPod) -> PodToPlace:
        """Return the successor of a remaining pod, under a number of its own."""
        progress = self._progress
        if progress.surge_pods:
            waiting_pod = progress.surge_pods.pop(0)
            return PodToPlace(waiting_pod.number, pod.node, was_pending=True, age=waiting_pod.age)
        used_numbers = {pod_in_use.number for pod_in_use in progress.kept_pods} | {
            pod_in_use.number for pod_in_use in progress.pods_to_place
        }
        (number,) = find_unused_pod_numbers(used_numbers, 0, 1)
        return PodToPlace(number, pod.node, trigger=pod_outcomes.TEMPLATE_CHANGED)

    def _place_on_node(self, pod: PodToPlace) -> None:
        self._record_verdict(
            pod, self._session.place_daemon(self._workload.pod, self._workload.key, pod.number, pod.required_node)
        )

    def _record_verdict(self, pod: PodToPlace, verdict: PodVerdict) -> None:
        self._progress.pods_to_place.append(pod)
        self._verdicts[pod.number] = verdict
        self._waiting_count += not verdict.node

    def _remove_pod(self, pod: ExistingPod) -> None:
        self._progress.kept_pods.remove(pod)
        self._session.remove_pod(pod)
