"""Rollout of a new pod template: order of scaling and replacement, and the pods waiting meanwhile. A
Deployment has one set of pods per template. Its controller first scales each set by its share. Then it
creates pods of the current template within max surge, and deletes pods of former templates that do not run,
oldest set first, within max unavailable: not all of them if the current pods do not run either. The remaining
ones wait with their template. Source: kubernetes pkg/controller/deployment/rolling.go, reconcileNewReplicaSet
and cleanupUnhealthyReplicas.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodSpec
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage
from nexusform.domains.pods.scheduling.rolling_replacement import RolloutState, replace_pods
from nexusform.domains.pods.scheduling.scheduling_session import PodVerdict, SchedulingSession
from nexusform.domains.pods.scheduling.workload_progress import (
    PodToPlace,
    WorkloadProgress,
    extract_scaled_outdated_pods,
    find_unused_pod_numbers,
)


class TemplateRollout:
    """Replacement of the pods of one workload in a cluster with others."""

    def __init__(self, session: SchedulingSession, quota_usage: QuotaUsage, progress: WorkloadProgress) -> None:
        self._session = session
        self._quota_usage = quota_usage
        self._progress = progress
        self._waiting_verdicts: dict[int, PodVerdict] = {}
        self._further_numbers: list[int] = []

    @property
    def is_needed(self) -> bool:
        """Whether pods of a former template have to be replaced."""
        return (
            bool(self._progress.outdated_pods or self._progress.pending_outdated_pods)
            and not self._progress.workload.is_paused
        )

    def start(self) -> None:
        """Scale the sets of former templates, delete pods that need not wait, and retry the others."""
        progress = self._progress
        counted_numbers = {pod.number for pod in (*progress.pods_to_place, *progress.pending_outdated_pods)}
        new_specs = extract_scaled_outdated_pods(progress)
        self._delete_unhealthy_former_pods(new_specs)
        for _ in counted_numbers.intersection(self._further_numbers):
            self._quota_usage.remove(progress.workload.pod)  # counted again once it is created
        pending_pods, progress.pending_outdated_pods = progress.pending_outdated_pods, []
        for number, spec in new_specs.items():
            if number in counted_numbers or not self._quota_usage.try_add(spec):
                pending_pods.append(PodToPlace(number, trigger=progress.creation_trigger, former_spec=spec))
        for pod in pending_pods:
            progress = self._progress
            spec = pod.former_spec or progress.workload.pod
            verdict = self._session.place_pod(spec, progress.workload.key, pod.number)
            if not verdict.node:
                progress.pending_outdated_pods.append(pod)
                self._waiting_verdicts[pod.number] = verdict
                continue
            age = self._session.age
            progress.outdated_pods.append(ExistingPod(progress.workload.key, pod.number, verdict.node, spec, age))
            progress.placed_outdated[pod.number] = (verdict.is_certain, pod.trigger)

    def _delete_unhealthy_former_pods(self, new_specs: dict[int, PodSpec]) -> None:
        """Delete non-running pods of former templates, oldest set first; `new_specs` were just created."""
        progress = self._progress
        # How many non-running pods of former templates, `new_count` new ones included, to delete.
        new_count = len(new_specs)
        workload = progress.workload
        if workload.is_paused:
            count = 0
        else:
            total = (
                len(progress.kept_pods)
                + len(progress.pods_to_place)
                + len(progress.outdated_pods)
                + len(progress.pending_outdated_pods)
                + new_count
            )
            count = max(0, total - (workload.replicas - workload.max_unavailable) - len(progress.pods_to_place))
        running_templates = {pod.spec.template for pod in progress.outdated_pods}
        old_numbers = [number for number, spec in new_specs.items() if spec.template in running_templates]
        new_numbers = [number for number in new_specs if number not in old_numbers]
        pending_pods = sorted(
            progress.pending_outdated_pods, key=lambda pod: (_get_template(pod) not in running_templates, pod.number)
        )
        removed_numbers = [*old_numbers, *(pod.number for pod in pending_pods), *new_numbers][:count]
        self._further_numbers = [number for number in removed_numbers if new_specs.pop(number, None) is not None]
        for pod in [pod for pod in progress.pending_outdated_pods if pod.number in removed_numbers]:
            progress.pending_outdated_pods.remove(pod)
            if len(progress.kept_pods) + len(progress.pods_to_place) < progress.workload.replicas:
                progress.pods_to_place.append(replace(pod, former_spec=None))
            else:
                progress.removals.append((self._build_pending_pod(pod), pod_outcomes.SCALE_IN))

    def _build_pending_pod(self, pod: PodToPlace) -> ExistingPod:
        workload = self._progress.workload
        return ExistingPod(workload.key, pod.number, "", pod.former_spec or workload.pod)

    def resume(self, verdicts: Mapping[int, PodVerdict]) -> dict[int, PodVerdict]:
        """Replace outdated pods step by step, and return the verdicts of all pods by their final numbers."""
        progress, workload = self._progress, self._progress.workload
        pending_pods = {pod.number: pod for pod in progress.pending_outdated_pods}
        state = RolloutState(
            list(progress.outdated_pods), dict(verdicts), len(progress.kept_pods), further_numbers=self._further_numbers
        )
        state.pending_specs = {pod.number: pod.former_spec or workload.pod for pod in progress.pending_outdated_pods}
        state.uncreated = progress.uncreated
        state.stuck_numbers = frozenset(pod.number for pod in progress.kept_pods if pod.is_stuck)
        state.is_template_stuck = progress.is_template_stuck
        old_nodes = {
            pod.number: pod.node for pod in progress.outdated_pods if pod.number not in progress.placed_outdated
        }
        replace_pods(self._session, workload, state, self._quota_usage)
        progress.outdated_pods, progress.is_blocked = state.remaining_pods, state.is_blocked
        progress.pending_outdated_pods = [
            pod for pod in progress.pending_outdated_pods if pod.number in state.pending_specs
        ]
        if state.uncreated:
            progress.uncreated, progress.rejection = state.uncreated, state.rejection or progress.rejection
        final_verdicts = self._assign_verdict_numbers(state, verdicts, old_nodes, pending_pods)
        removed_pods = [
            pod for pod in state.removed_pods if pod.number not in state.new_verdicts and pod.number in old_nodes
        ]
        removed_pods += [
            self._build_pending_pod(pod)
            for pod in pending_pods.values()
            if pod.was_pending and pod.number not in state.pending_specs and pod.number not in state.new_verdicts
        ]
        progress.removals += [(pod, pod_outcomes.TEMPLATE_CHANGED) for pod in removed_pods]
        return final_verdicts

    def _assign_verdict_numbers(
        self,
        state: RolloutState,
        verdicts: Mapping[int, PodVerdict],
        old_nodes: Mapping[int, str],
        pending_pods: Mapping[int, PodToPlace],
    ) -> dict[int, PodVerdict]:
        """Return the verdicts of new pods by number; coexisting old pods keep their numbers."""
        progress, first = self._progress, self._progress.workload.first_ordinal
        kept_numbers = {pod.number for pod in state.remaining_pods} | set(state.pending_specs)
        taken_numbers = kept_numbers | {pod.number for pod in progress.kept_pods} | set(state.new_verdicts)
        final_verdicts: dict[int, PodVerdict] = {}
        for number, verdict in state.new_verdicts.items():
            if number in verdicts:
                final_verdicts[number] = verdict
                continue
            trigger = (
                pod_outcomes.TEMPLATE_CHANGED
                if number in old_nodes or number in pending_pods
                else progress.creation_trigger
            )
            new_pod = PodToPlace(number, "", old_nodes.get(number, ""), trigger)
            if number in kept_numbers:
                new_pod = PodToPlace(find_unused_pod_numbers(taken_numbers, first, 1)[0], trigger=trigger)
                taken_numbers.add(new_pod.number)
            elif number in pending_pods:
                new_pod = replace(pending_pods[number], former_spec=None)
            final_verdicts[new_pod.number] = verdict
            progress.pods_to_place.append(new_pod)
        return final_verdicts

    def list_pending_verdicts(self) -> dict[int, PodVerdict]:
        """Return the verdicts of pods of former templates that keep waiting."""
        progress = self._progress
        progress.pods_to_place += progress.pending_outdated_pods
        return {pod.number: self._waiting_verdicts[pod.number] for pod in progress.pending_outdated_pods}


def _get_template(pod: PodToPlace) -> str:
    return pod.former_spec.template if pod.former_spec is not None else ""
