"""Rollouts of Deployments, DaemonSets and ordered StatefulSets: order of scaling and replacement, and the pods waiting
meanwhile. A Deployment has one set of pods per template. Its controller first scales each set by its share. Then it
creates pods of the current template within max surge, and deletes pods of former templates that do not run,
oldest set first, within max unavailable: not all of them if the current pods do not run either. The remaining
ones wait with their template. Source: kubernetes pkg/controller/deployment/rolling.go, reconcileNewReplicaSet
and cleanupUnhealthyReplicas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import pod_outcomes, profile
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, Node, PodSpec, Strategy, Workload
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage
from nexusform.domains.pods.scheduling.rolling_replacement import RolloutState, replace_pods
from nexusform.domains.pods.scheduling.scheduling_session import PodVerdict, SchedulingSession
from nexusform.domains.pods.scheduling.workload_progress import (
    PodToPlace,
    WorkloadProgress,
    extract_scaled_outdated_pods,
    find_unused_pod_numbers,
)
from nexusform.kubernetes.quantity import compute_amount_of_total


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
        workload = progress.workload
        count = 0
        if not workload.is_paused:
            total = len(progress.kept_pods) + len(progress.outdated_pods) + len(progress.pending_outdated_pods)
            count = max(0, total + len(new_specs) - (workload.replicas - workload.max_unavailable))
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


class DaemonRollout:
    """Replacement of the pods of one DaemonSet, node by node by its update strategy. Without maxSurge an old pod is
    deleted before its successor is created, and at most maxUnavailable nodes are without a running pod. With maxSurge
    the successor is created first, and the old pod stays until it runs. `verdicts` are those of pods missing before
    the rollout. Source: kubernetes pkg/controller/daemon/update.go.
    """

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
            if pod.node in self._permitted_nodes and not self._workload.admission_error:
                new_pod = PodToPlace(pod.number, pod.node, pod.node, pod_outcomes.TEMPLATE_CHANGED)
                verdict = self._session.place_daemon(self._workload.pod, self._workload.key, pod.number, pod.node)
                self._record_verdict(new_pod, verdict)
                continue
            self._progress.removals.append((pod, pod_outcomes.TEMPLATE_CHANGED))
            if pod.node in self._permitted_nodes:
                self._count_uncreated_pod()

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
        used_numbers = {kept.number for kept in progress.kept_pods} | {new.number for new in progress.pods_to_place}
        (number,) = find_unused_pod_numbers(used_numbers, 0, 1)
        return PodToPlace(number, pod.node, trigger=pod_outcomes.TEMPLATE_CHANGED)

    def _record_verdict(self, pod: PodToPlace, verdict: PodVerdict) -> None:
        self._progress.pods_to_place.append(pod)
        self._verdicts[pod.number] = verdict
        self._waiting_count += not verdict.node

    def _remove_pod(self, pod: ExistingPod) -> None:
        self._progress.kept_pods.remove(pod)
        self._session.remove_pod(pod)


# StatefulSets with podManagementPolicy OrderedReady. The controller processes ordinals from the lowest. It creates the
# first missing pod and waits until it runs: later pods are not created, surplus pods are not deleted, and none is
# replaced, not even a Pending one of a broken template. Existing pods are kept meanwhile. Source: kubernetes
# pkg/controller/statefulset/stateful_set_control.go, processReplica and processCondemned.


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
