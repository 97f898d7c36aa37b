"""Prediction of pod placement: entry point of this package.

`predict` takes a cluster, its existing pods and the workloads to run, and returns the outcome of
each pod. Existing pods are kept (their rules are ignored during execution), surplus pods are
removed, pods of lost nodes are re-created, and missing pods are placed in queue order.
Unschedulable pods may evict others of lower priority, to be placed again after them, or are retried
after the others as long as that helps.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling import pod_outcomes, profile, workload_progress
from nexusform.domains.pods.scheduling.cluster_records import (
    DEFAULT_SEED,
    Cluster,
    ExistingPod,
    PodKey,
    PodSpec,
    PodState,
    Workload,
    format_pod_name,
    is_recreated,
)
from nexusform.domains.pods.scheduling.pod_orders import QUEUE_ORDER, ArrivalOrder
from nexusform.domains.pods.scheduling.pod_outcomes import (
    PlaceablePodRange,
    PodOutcome,
    PodsPrediction,
)
from nexusform.domains.pods.scheduling.preemption import PreemptionVictim, count_expected_pods
from nexusform.domains.pods.scheduling.random_choices import (
    RandomChoices,
    RandomFacts,
    follows_queue,
    has_fast_replacements,
    order_pods,
    select_next_workload,
)
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.scheduling_session import (
    Observer,
    PodVerdict,
    SchedulingSession,
)
from nexusform.domains.pods.scheduling.template_rollout import DaemonRollout, TemplateRollout
from nexusform.domains.pods.scheduling.workload_progress import PodToPlace, WorkloadProgress


def predict(
    cluster: Cluster,
    existing_pods: Sequence[ExistingPod],
    workloads: Sequence[Workload],
    *,
    seed: int = DEFAULT_SEED,
    lost_pods: Collection[PodKey] = (),
    removed_workloads: Collection[str] = (),
    arrival: ArrivalOrder = QUEUE_ORDER,
    timing: int = 0,
) -> PodsPrediction:
    """Return the outcome of every pod of `workloads` (in order of creation, then of the document).

    `existing_pods` are all pods of the cluster. Pods of other workloads are kept, unless
    `removed_workloads` has the key of the workload. `lost_pods` (workload key, number) and pods on
    removed nodes are placed again. `arrival` is the order of new pods, by default workload by
    workload. By `timing`, removed pods free their capacity at once (0), later (1), or as in the
    sample of this number (from 2): rollouts take steps of random size, and with even numbers some
    pods free it later.
    """
    choices = RandomChoices(RandomFacts(seed, arrival, timing))
    return PodPredictor(
        cluster, existing_pods, workloads, choices, lost_pods, removed_workloads
    ).run()


# Kinds without evictions: daemons belong to their controller, the others terminate anyway.
_UNEVICTABLE_KINDS: Final = ("DaemonSet", "Terminating")
# Limit for pods evicted again on each node they move to.
_MOST_EVICTIONS: Final = 10


class PodPredictor:
    """State of one prediction.

    `observer` is called for every pod just before its decision. `run` sorts the pods of each
    workload, drops uncreated pods, places workload by workload in queue order, and retries waiting
    pods. Existing pods belong to the workloads to run or are unmanaged: these use capacity and
    change only on eviction. `progress_by_key` has the progress of each workload,
    `displaced_workloads` that of evicted others.
    """

    def __init__(
        self,
        cluster: Cluster,
        existing_pods: Sequence[ExistingPod],
        workloads: Sequence[Workload],
        choices: RandomChoices,
        lost_pods: Collection[PodKey],
        removed_workloads: Collection[str],
        observer: Observer | None = None,
    ) -> None:
        """Sort the existing pods by their workload.

        To predict, removed by the plan, or unmanaged (all others).
        """
        self.nodes = cluster.node_by_name
        # They have lost their nodes, so they are placed again.
        self.lost_pods = frozenset(lost_pods)
        # DaemonSets first, then by priority, highest first. Workloads of equal rank
        # keep their order.
        self.workload_queue = sorted(
            workloads, key=lambda item: (item.kind != "DaemonSet", -item.pod.priority)
        )
        self.creation_order = {workload.key: at for at, workload in enumerate(workloads)}

        managed_pods: list[ExistingPod] = []
        # Of workloads outside this prediction: they stay.
        unmanaged_pods: list[ExistingPod] = []
        self.removed_pods: list[ExistingPod] = []
        for pod in existing_pods:
            if pod.workload in self.creation_order:
                managed_pods.append(pod)
            elif pod.workload in removed_workloads:
                self.removed_pods.append(pod)
            else:
                unmanaged_pods.append(pod)
        self.unmanaged_pods = tuple(unmanaged_pods)
        self.pods_by_workload = group_by(managed_pods, lambda pod: pod.workload)

        remaining_pods = (*unmanaged_pods, *managed_pods)
        running_pods = [pod for pod in remaining_pods if self._is_running(pod)]
        unplaced_pods = [pod for pod in remaining_pods if not self._is_running(pod)]
        expected_counts = [
            count_expected_pods(budget, workloads, unmanaged_pods) for budget in cluster.budgets
        ]
        self.session = SchedulingSession(
            cluster, running_pods, choices, observer, expected_counts, unplaced_pods
        )
        specs = (*(pod.spec for pod in existing_pods), *(item.pod for item in workloads))
        self.session.has_priorities = len({spec.priority for spec in specs}) > 1
        self._choices = choices
        self.quota_usage = QuotaUsage(cluster.quotas)
        self.progress_by_key: dict[str, WorkloadProgress] = {}
        # Unmanaged workloads with evicted pods, which their controllers re-create.
        self.displaced_workloads: dict[str, WorkloadProgress] = {}
        # Evicted unmanaged pods.
        self.displaced_pods: set[PodKey] = set()
        # Of evicted pods, since the last retry.
        self._has_replacements = False

    @cached_property
    def _follows_queue(self) -> bool:
        return self._choices.ask(follows_queue)

    def _is_running(self, pod: ExistingPod) -> bool:
        """Return whether a pod keeps its node: neither lost nor evicted at once by a taint."""
        return not self._find_node_loss_trigger(pod)

    def _find_node_loss_trigger(self, pod: ExistingPod) -> str:
        """Return why a pod leaves its node at once.

        NODE_REMOVED or NO_EXECUTE (evicted by a taint); "" if it stays.
        """
        if pod.node not in self.nodes or pod.key in self.lost_pods:
            return pod_outcomes.NODE_REMOVED
        is_evicted = self._compute_remaining_seconds(pod) == 0  # None: never
        return pod_outcomes.NO_EXECUTE if is_evicted else ""

    def _compute_remaining_seconds(self, pod: ExistingPod) -> int | None:
        """Return the seconds until a NoExecute taint of its node evicts a pod.

        The result is 0 for at once, None for never.
        """
        node = self.nodes[pod.node]
        _, kind, _ = pod.workload.split("/", 2)  # NAMESPACE/KIND/NAME
        if not node.taints or pod.is_protected or kind in _UNEVICTABLE_KINDS:
            return None
        return taints.compute_toleration_seconds(pod.spec, node)

    def run(self) -> PodsPrediction:
        """Return the prediction for all workloads."""
        progress_list = list(map(self._prepare_workload, self.workload_queue))
        self.progress_by_key = {progress.workload.key: progress for progress in progress_list}
        self._drop_pods_over_quota(progress_list)
        for pod in self.unmanaged_pods:
            # Else it runs, or its node is unknown.
            if pod.node in self.nodes and not self._is_running(pod):
                self._evict_unmanaged(pod, self._find_node_loss_trigger(pod))
        self._place_workloads(progress_list)
        # Slow victims terminate after the arrival of all pods.
        self.session.remove_victims()
        self._recreate_evicted()
        self._retry_waiting_pods(progress_list)
        self._evict_pods_after_toleration(progress_list)
        for progress in progress_list:
            workload_progress.drop_deferred_pods(progress)
            # An ordered StatefulSet removes its surplus pods once all others have a node.
            if all(outcome.node for outcome in progress.outcomes.values()):
                self._remove_deferred_pods(progress)

        removed_outcomes = [
            pod_outcomes.build_removal(pod, pod_outcomes.WORKLOAD_REMOVED)
            for pod in self.removed_pods
        ]
        forecasts = {
            progress.workload.key: workload_progress.build_forecast(progress, self.nodes)
            for progress in progress_list
        }
        displaced_outcomes = self._collect_outcomes(self.displaced_workloads.values())
        kept_pods = [pod for pod in self.unmanaged_pods if pod.key not in self.displaced_pods]
        outcomes = (*self._collect_outcomes(progress_list), *removed_outcomes)
        return PodsPrediction(outcomes, forecasts, tuple(kept_pods), tuple(displaced_outcomes))

    def _collect_outcomes(self, progress_list: Iterable[WorkloadProgress]) -> list[PodOutcome]:
        """Return the outcomes of the pods workload by workload, each sorted by number.

        All removed pods follow.
        """
        outcomes: list[PodOutcome] = []
        removed_outcomes: list[PodOutcome] = []
        for progress in progress_list:
            pods = [
                *progress.kept_pods,
                *progress.outdated_pods,
                *progress.failed_pods,
                *progress.deferred_removals,
            ]
            kept_outcomes = [self._build_kept_outcome(progress, pod) for pod in pods]
            outcomes += sorted(
                [*kept_outcomes, *progress.outcomes.values()], key=lambda outcome: outcome.number
            )
            removed_outcomes += [
                pod_outcomes.build_removal(pod, trigger) for pod, trigger in progress.removals
            ]
        return outcomes + removed_outcomes

    def _build_kept_outcome(self, progress: WorkloadProgress, pod: ExistingPod) -> PodOutcome:
        """Return the outcome of a kept pod.

        KEEP, or PLACE for a pod of a former template placed in this prediction.
        """
        key = progress.workload.key
        outcome = PodOutcome(
            workload=key,
            number=pod.number,
            name=pod.name,
            action=pod_outcomes.KEEP,
            node=pod.node,
            spec=pod.spec,
            previous=pod.node,
            reason=pod.rejection,
            age=pod.age,
            unscheduled_state=PodState.FAILED if pod.rejection else PodState.PENDING,
            volumes=self.session.volume_binder.list_bound_volumes(pod.spec, pod.number),
            condition=pod.condition,
            devices=self.session.claimed_devices.list_claims_of_pod(
                key, pod.number, pod.spec.template
            ),
        )
        if pod.number not in progress.placed_outdated or progress.workload.is_current(pod.spec):
            return outcome
        # Those of its placement.
        is_certain, trigger = progress.placed_outdated[pod.number]
        return replace(
            outcome, action=pod_outcomes.PLACE, previous="", trigger=trigger, is_certain=is_certain
        )

    def _prepare_workload(self, workload: Workload) -> WorkloadProgress:
        """Return the progress of a workload at its start.

        Its existing pods by their state, and the pods to place. Surplus pods are removed. Other
        running pods are kept (current template) or outdated (a former one).
        """
        pods = sorted(self.pods_by_workload.get(workload.key, ()), key=lambda pod: pod.number)
        if workload.is_paused:
            workload = workload_progress.apply_deployment_pause(workload, pods)
        progress = WorkloadProgress(workload, had_pods=bool(pods))
        if progress.is_daemon:
            self._prepare_daemons(progress, pods)
            return progress
        # No pod of the current template gets ready, so a rollout waits after the first new ones.
        progress.is_template_stuck = workload.is_stuck or workload_progress.has_stuck_template(
            workload, pods
        )
        pods = self._remove_surplus(progress, pods)
        for pod in pods:
            is_current = workload.is_current(pod.spec)
            if self._is_running(pod):
                (progress.kept_pods if is_current else progress.outdated_pods).append(pod)
            elif pod.rejection and is_current:
                # Failed for good, and never placed again.
                progress.failed_pods.append(pod)
            elif pod.node:
                # The pod is lost with its node, or a taint evicts it.
                trigger = self._find_node_loss_trigger(pod)
                progress.pods_to_place.append(
                    PodToPlace(pod.number, previous=pod.node, trigger=trigger)
                )
            else:
                # Pending, or a former template's pod rejected by kubelet: placed again with one
                # of two templates.
                pod_with_current_template = PodToPlace(pod.number, was_pending=True, age=pod.age)
                pod_with_own_template = replace(pod_with_current_template, former_spec=pod.spec)
                # The rollout of its Deployment decides on it.
                if workload_progress.is_pending_outdated(workload, pod):
                    progress.pending_outdated_pods.append(pod_with_own_template)
                elif not is_current and (
                    workload.is_ordered or workload.is_below_partition(pod.number)
                ):
                    # An OrderedReady StatefulSet replaces no pod before it runs, a partition
                    # none below it.
                    progress.pods_to_place.append(pod_with_own_template)
                else:
                    progress.pods_to_place.append(pod_with_current_template)
        missing_count = max(0, workload.replicas - len(pods))
        used_numbers = workload_progress.list_numbers(pods)
        numbers = workload_progress.find_unused_pod_numbers(
            used_numbers, workload.first_ordinal, missing_count
        )
        progress.pods_to_place += [
            PodToPlace(number, trigger=progress.creation_trigger) for number in numbers
        ]
        workload_progress.set_former_templates(progress, pods)
        return progress

    def _remove_surplus(
        self, progress: WorkloadProgress, pods: list[ExistingPod]
    ) -> list[ExistingPod]:
        """Remove the surplus pods of a workload, and return the others.

        An ordered StatefulSet removes running surplus pods only after all others are ready. Until
        then, they are `deferred_removals`.
        """
        now = self.session.cluster.observation_time
        surplus = workload_progress.select_surplus_pods(
            progress.workload, pods, self._is_running, now
        )
        running_surplus = [pod for pod in surplus if self._is_running(pod)]
        remaining_pods = [pod for pod in pods if pod not in surplus]
        ready_count = sum(self._is_running(pod) and not pod.is_stuck for pod in remaining_pods)
        has_unready_pods = ready_count < progress.workload.replicas
        if progress.workload.is_ordered and has_unready_pods:
            progress.deferred_removals = running_surplus
            # The others have no node.
            surplus = [pod for pod in surplus if pod not in running_surplus]
        else:
            for pod in running_surplus:
                # It may hold its capacity until it has terminated.
                self.session.remove_pod(pod, may_linger=True)
        progress.record_removals(surplus, pod_outcomes.SCALE_IN)
        return remaining_pods

    def _prepare_daemons(self, progress: WorkloadProgress, pods: list[ExistingPod]) -> None:
        """Plan one pod of a DaemonSet per permitted node.

        Record kept, removed and surge pods, and the pods to place. A node without a running pod
        gets one of the Pending pods, or a new one if none is left. Further Pending pods are surge
        pods: a rollout with maxSurge has created them next to the old pods of their nodes.
        """
        spec = progress.workload.pod
        surplus = progress.list_surplus_daemons(pods)
        waiting_pods = [pod for pod in pods if not pod.node]
        progress.permitted_nodes = {
            name for name, node in self.nodes.items() if profile.should_run_daemon(spec, node)
        }
        for pod in pods:
            if not self._is_running(pod):
                # The pod is lost with its node.
                if pod.node:
                    progress.removals.append((pod, pod_outcomes.NODE_REMOVED))
            elif pod not in surplus and profile.should_keep_daemon(spec, self.nodes[pod.node]):
                progress.kept_pods.append(pod)
            else:
                # A second pod of its node, or the node is not permitted any more.
                self.session.remove_pod(pod)
                progress.removals.append((pod, pod_outcomes.SCALE_IN))
        unserved_nodes = sorted(
            progress.permitted_nodes.difference(pod.node for pod in progress.kept_pods)
        )
        for pod, node in zip(waiting_pods, unserved_nodes, strict=False):
            progress.pods_to_place.append(
                PodToPlace(pod.number, node, was_pending=True, age=pod.age)
            )
        # Surge pods are those beyond the nodes without a pod.
        progress.surge_pods = waiting_pods[len(unserved_nodes) :]
        # Without a running or waiting pod.
        empty_nodes = unserved_nodes[len(waiting_pods) :]
        numbers = workload_progress.find_unused_pod_numbers(
            workload_progress.list_numbers(pods), 0, len(empty_nodes)
        )
        progress.pods_to_place += [
            PodToPlace(number, node, trigger=progress.creation_trigger)
            for number, node in zip(numbers, empty_nodes, strict=True)
        ]

    def _drop_pods_over_quota(self, progress_list: list[WorkloadProgress]) -> None:
        """Drop new pods rejected by quotas or admission.

        Existing pods count first, new ones in order of creation.
        """
        quota_usage = self.quota_usage
        for pod in self.unmanaged_pods:
            quota_usage.add(pod.spec)
        for progress in progress_list:
            for pod in (*progress.kept_pods, *progress.outdated_pods):
                quota_usage.add(pod.spec)
            for pod_to_place in (*progress.pods_to_place, *progress.pending_outdated_pods):
                if not pod_to_place.is_new:
                    quota_usage.add(pod_to_place.get_spec(progress.workload))
        for progress in sorted(
            progress_list, key=lambda progress: self.creation_order[progress.workload.key]
        ):
            workload_progress.drop_rejected_pods(progress, quota_usage)

    def _place_workloads(self, progress_list: Sequence[WorkloadProgress]) -> None:
        """Place the pods of all workloads one by one: workload by workload, or as they arrive.

        `_place_workload` is a generator: each step places one pod, so the pods of several
        workloads can alternate.
        """
        steps = {
            progress.workload.key: self._place_workload(progress) for progress in progress_list
        }
        if self._follows_queue:
            for workload_steps in steps.values():
                # Each step places a pod.
                for _ in workload_steps:
                    pass
            return
        # -1: not started.
        arrived_counts = dict.fromkeys(steps, -1)
        while steps:
            counts = tuple(arrived_counts.items())
            key = self._choices.ask(partial(select_next_workload, counts))
            arrived_counts[key] += 1
            # All pods of the workload have arrived.
            if next(steps[key], None) is None:
                del steps[key], arrived_counts[key]
            # Pods evicted for the one just placed.
            self._recreate_evicted()
            if self._has_replacements and self._choices.ask(has_fast_replacements):
                self._retry_waiting_pods(progress_list)

    def _place_workload(self, progress: WorkloadProgress) -> Iterator[str]:
        """Place the requested pods of a workload, then replace pods of former templates.

        Yield the workload's key before each pod: the caller may place pods of other
        workloads in between.
        """
        workload = progress.workload
        progress.has_started = True
        progress.pods_to_place.sort()
        # Before the placement uses capacity.
        progress.placeable_range = self._compute_running_range(progress)
        rollout = TemplateRollout(self.session, self.quota_usage, progress)
        # May add pods of former templates to those to place.
        rollout.start()
        # By pod number.
        verdicts = yield from self._place_pods(progress)
        # Pods evicted for those just placed.
        self._recreate_evicted()
        # An ordered StatefulSet removes its surplus pods once all others have a node.
        if all(verdict.node for verdict in verdicts.values()):
            self._remove_deferred_pods(progress)
        if progress.is_daemon:
            verdicts |= DaemonRollout(self.session, progress, verdicts).replace_pods()
            self._recreate_evicted()
        elif rollout.is_needed:
            # This replaces the outdated pods; numbers of pods may change.
            verdicts = rollout.resume(verdicts)
            self._recreate_evicted()
        # Pods of former templates without a node.
        verdicts |= rollout.request_pending_pods()
        requested_pods = progress.requested_pods  # by number
        for number, verdict in verdicts.items():
            # An evicted pod already has a later outcome.
            if number not in progress.evicted_numbers:
                progress.outcomes[number] = self._build_outcome(
                    workload, verdict, requested_pods[number]
                )
        # No node is left for further pods.
        if progress.is_daemon:
            placed_outcomes = [outcome for outcome in progress.outcomes.values() if outcome.node]
            running = len(progress.kept_pods) + len(placed_outcomes)
            progress.placeable_range = PlaceablePodRange(running, running, is_exact=True)

    def _compute_running_range(self, progress: WorkloadProgress) -> PlaceablePodRange:
        """Return how many pods can run, before placement.

        Of daemons and gated pods, only the kept ones count.
        """
        spec = progress.workload.pod
        kept_count = len(progress.kept_pods) + len(progress.outdated_pods)
        if not progress.pods_to_place or progress.is_daemon or spec.gates:
            return PlaceablePodRange(kept_count, kept_count, is_exact=True)
        scheduler = self.session.get_scheduler(spec)
        further_range = pod_outcomes.compute_placeable_range(scheduler, len(progress.pods_to_place))
        # The number of pods with a volume depends on the order of placement.
        minimum = 0 if spec.has_own_claims else further_range.minimum
        is_exact = further_range.is_exact and minimum == further_range.minimum
        return PlaceablePodRange(
            kept_count + minimum, kept_count + further_range.maximum, is_exact=is_exact
        )

    def _remove_deferred_pods(self, progress: WorkloadProgress) -> None:
        """Remove the surplus pods of an ordered workload.

        The caller found a node for all others.
        """
        if workload_progress.find_stuck_number(progress) < workload_progress.NONE_STUCK:
            # A pod with a node is not ready.
            return
        for pod in progress.deferred_removals:
            self.session.remove_pod(pod)
        progress.record_removals(progress.deferred_removals, pod_outcomes.SCALE_IN)
        progress.deferred_removals = []

    def _place_pods(
        self, progress: WorkloadProgress
    ) -> Generator[str, None, dict[int, PodVerdict]]:
        """Place the requested pods of a workload, and return the verdicts by number.

        The pods are placed by number or arrival. Yield the workload key before each pod, so that
        the caller may place pods of other workloads in between. An ordered workload creates no pod
        after one without a node, or after a stuck one (not starting).
        """
        workload = progress.workload
        # All later pods of an ordered workload wait for the pod with this number.
        blocking_number = workload_progress.find_stuck_number(progress)
        verdicts: dict[int, PodVerdict] = {}
        numbers = tuple(workload_progress.list_numbers(progress.pods_to_place))
        positions = dict(self._choices.ask(partial(order_pods, workload, numbers)))
        for pod in sorted(progress.pods_to_place, key=lambda pod: positions[pod.number]):
            yield workload.key
            # A Pending pod exists already, so it is retried.
            if pod.number > blocking_number and not pod.was_pending:
                earlier_name = workload.format_pod_name(blocking_number)
                reason = f"waits for {earlier_name} to run"
                verdict = PodVerdict(node="", is_certain=True, feasible_nodes=0, reason=reason)
            else:
                verdict = self._place_pod(progress, pod)
            verdicts[pod.number] = verdict
            # Another workload may evict the pod before the last one of this arrives.
            if not self._follows_queue:
                progress.outcomes[pod.number] = self._build_outcome(workload, verdict, pod)
            if workload.is_ordered and not verdict.node:
                blocking_number = min(blocking_number, pod.number)
        return verdicts

    def _place_pod(self, progress: WorkloadProgress, pod: PodToPlace) -> PodVerdict:
        """Place a pod, with its former template if it has one, and return the verdict.

        An ordered StatefulSet updates a Pending pod of a former template once it runs, unless the
        partition keeps this template. So if such a pod gets a node, it is removed and placed again
        with the current template.
        """
        workload = progress.workload
        if pod.required_node:
            return self.session.place_daemon(
                workload.pod, workload.key, pod.number, pod.required_node
            )
        if pod.former_spec is None:
            return self.session.place_pod(workload.pod, workload.key, pod.number)
        verdict = self.session.place_pod(pod.former_spec, workload.key, pod.number)
        # Without a node it stays Pending. With one, the rollout of a Deployment or the partition
        # decides on it.
        if not verdict.node or not workload.is_ordered or workload.is_below_partition(pod.number):
            # The rollout waits for it.
            progress.is_blocked |= not verdict.node
            return verdict
        age = self.session.age
        self.session.remove_pod(
            ExistingPod(workload.key, pod.number, verdict.node, pod.former_spec, age)
        )
        progress.pods_to_place[progress.pods_to_place.index(pod)] = replace(pod, former_spec=None)
        return self.session.place_pod(workload.pod, workload.key, pod.number)

    def _recreate_evicted(self) -> None:
        """Take the evictions of the session, and request the pods that controllers re-create."""
        evictions = self.session.evictions
        self.session.evictions = []
        self._has_replacements |= bool(evictions)
        for eviction in evictions:
            progress = self.progress_by_key.get(eviction.pod.workload)
            if progress is not None:
                self._record_eviction(progress, eviction)
            else:
                self._evict_unmanaged(
                    eviction.pod, pod_outcomes.PREEMPTED, format_pod_name(*eviction.preemptor)
                )

    def _record_eviction(self, progress: WorkloadProgress, eviction: PreemptionVictim) -> None:
        """Record the eviction of a pod of a workload in this prediction, and request it again."""
        pod = eviction.pod
        preemptor = format_pod_name(*eviction.preemptor)
        outcome = progress.outcomes.get(pod.number)
        # This prediction placed it, and places it again.
        if outcome is not None and outcome.node == pod.node:
            progress.evicted_numbers.add(pod.number)
            progress.outcomes[pod.number] = replace(
                outcome,
                node="",
                feasible_nodes=0,
                victims=(),
                is_certain=outcome.is_certain and eviction.is_certain,
                reason=f"{pod_outcomes.EVICTED} by {preemptor}.",
            )
            return
        for pods in (progress.kept_pods, progress.outdated_pods):
            # Else a rollout has replaced it.
            if pod in pods:
                pods.remove(pod)
                self._request_pod_again(progress, pod, pod_outcomes.PREEMPTED, preemptor)

    def _evict_unmanaged(self, pod: ExistingPod, trigger: str, preemptor: str = "") -> None:
        """Record the eviction of an unmanaged pod (`preemptor` is "" if its node is the cause).

        The pod is requested again.
        """
        namespace, kind, name = pod.workload.split("/", 2)
        workload = Workload(kind, namespace, name, replicas=0, pod=pod.spec)
        new_progress = WorkloadProgress(workload, had_pods=True, has_started=True)
        progress = self.displaced_workloads.setdefault(pod.workload, new_progress)
        outcome = progress.outcomes.get(pod.number)
        # Its replacement is evicted in turn.
        if outcome is not None and outcome.node == pod.node:
            progress.outcomes[pod.number] = replace(outcome, node="", feasible_nodes=0, victims=())
            return
        self.displaced_pods.add(pod.key)
        if is_recreated(pod.workload):
            self._request_pod_again(progress, pod, trigger, preemptor)
        else:
            progress.removals.append((pod, trigger))

    def _request_pod_again(
        self, progress: WorkloadProgress, victim: ExistingPod, trigger: str, preemptor: str
    ) -> None:
        """Request a pod again after its eviction; it is Pending until it is placed."""
        new_pod = PodToPlace(
            victim.number,
            required_node=victim.node if progress.is_daemon else "",
            previous=victim.node,
            trigger=trigger,
            preempted_by=preemptor,
            former_spec=progress.find_former_spec([victim, *progress.outdated_pods], victim.number),
        )
        progress.pods_to_place.append(new_pod)
        # Else `_place_workload` decides it with the other pods.
        if progress.has_started:
            pending_verdict = PodVerdict(node="", is_certain=True, feasible_nodes=0)
            progress.outcomes[victim.number] = self._build_outcome(
                progress.workload, pending_verdict, new_pod
            )

    def _evict_pods_after_toleration(self, progress_list: list[WorkloadProgress]) -> None:
        """Evict pods after tolerationSeconds and retry waiting pods, until no pod moves.

        A pod is evicted if another node is better.
        """
        if not any(taints.select_taints(node, taints.NO_EXECUTE) for node in self.nodes.values()):
            # No toleration expires.
            return
        for _ in range(_MOST_EVICTIONS):
            moves = [
                self._evict_expired_pods(progress)
                for progress in progress_list
                if not progress.is_daemon
            ]
            moves += map(self._evict_expired_unmanaged, self.unmanaged_pods)
            if not any(moves):
                return
            self._retry_waiting_pods(progress_list)

    def _evict_expired_pods(self, progress: WorkloadProgress) -> bool:
        """Evict the pods of a workload after their tolerationSeconds.

        Return whether any changes its node or spec.
        """
        workload = progress.workload
        pod_by_number = progress.requested_pods
        placed_pods = progress.list_placed_pods()
        has_moved = False
        for pod in (*progress.kept_pods, *progress.outdated_pods, *placed_pods):
            # Its replacement may have another template.
            spec = progress.get_recreated_spec(pod)
            verdict = self._reschedule_after_toleration(pod, spec)
            if verdict is None:
                continue  # it stays
            has_moved = True
            if pod in placed_pods:
                new_pod = pod_by_number[pod.number]
            else:
                # An existing pod.
                own_list = (
                    progress.kept_pods if pod in progress.kept_pods else progress.outdated_pods
                )
                own_list.remove(pod)
                former_spec = None if workload.is_current(spec) else spec
                trigger = pod_outcomes.NO_EXECUTE
                new_pod = PodToPlace(
                    pod.number, previous=pod.node, trigger=trigger, former_spec=former_spec
                )
                progress.pods_to_place.append(new_pod)
            progress.outcomes[pod.number] = self._build_outcome(workload, verdict, new_pod)
        return has_moved

    def _evict_expired_unmanaged(self, pod: ExistingPod) -> bool:
        """Evict an unmanaged pod after its tolerationSeconds; return whether it leaves its node."""
        if pod.node not in self.nodes or pod.key in self.displaced_pods:
            # Its node is unknown, or it was evicted already.
            return False
        verdict = self._reschedule_after_toleration(pod, pod.spec)
        if verdict is None:
            return False  # it stays
        self._evict_unmanaged(pod, pod_outcomes.NO_EXECUTE)
        # The eviction added it if it was missing.
        progress = self.displaced_workloads[pod.workload]
        if is_recreated(pod.workload):
            # The eviction requested it, and the verdict placed it before.
            new_pod = progress.pods_to_place[-1]
            progress.outcomes[pod.number] = self._build_outcome(progress.workload, verdict, new_pod)
        else:
            # The verdict is undone: nothing creates the pod again.
            self.session.remove_pod(replace(pod, node=verdict.node))
        return True

    def _reschedule_after_toleration(self, pod: ExistingPod, spec: PodSpec) -> PodVerdict | None:
        """Place a pod again after its tolerationSeconds.

        None without such a time, or if it keeps node and spec.
        """
        # The pod is already evicted (0), or never (None).
        if not self._compute_remaining_seconds(pod):
            return None
        self.session.remove_pod(pod)
        verdict = self.session.place_pod(spec, pod.workload, pod.number)
        return None if (verdict.node, spec) == (pod.node, pod.spec) else verdict

    def _build_outcome(
        self, workload: Workload, verdict: PodVerdict, pod: PodToPlace
    ) -> PodOutcome:
        """Return the outcome of a pod.

        KEEP for one still Pending, MOVE from a previous node, else PLACE.
        """
        spec = pod.get_spec(workload)
        action = pod_outcomes.MOVE if pod.previous else pod_outcomes.PLACE
        trigger = pod.trigger
        if pod.was_pending and not verdict.node:
            action = pod_outcomes.KEEP
            trigger = ""
        return PodOutcome(
            workload=workload.key,
            number=pod.number,
            name=workload.format_pod_name(pod.number),
            action=action,
            node=verdict.node,
            spec=spec,
            previous=pod.previous,
            trigger=trigger,
            is_certain=verdict.is_certain,
            feasible_nodes=verdict.feasible_nodes,
            reason=verdict.reason,
            rejections=verdict.rejections,
            age=pod.age,
            unscheduled_state=verdict.unscheduled_state,
            victims=verdict.victims,
            doubt=verdict.doubt,
            preempted_by=pod.preempted_by,
            volumes=self.session.volume_binder.list_bound_volumes(workload.pod, pod.number),
            devices=self.session.claimed_devices.list_claims_of_pod(
                workload.key, pod.number, spec.template
            ),
        )

    def _retry_waiting_pods(self, progress_list: Sequence[WorkloadProgress]) -> None:
        """Retry waiting pods until none gets a node.

        Later pods may satisfy the affinity of an earlier one, or may have been evicted. Failed pods
        re-created by a controller are retried, too.
        """
        has_changed = True
        while has_changed:
            # Replacements until now are retried below.
            has_changed = self._has_replacements = False
            # Failed pods may fit into NUMA cells assigned in another order.
            if any(
                outcome.is_failed
                for progress in progress_list
                for outcome in progress.outcomes.values()
            ):
                self.session.assign_numa_cells()
            for progress in (*progress_list, *self.displaced_workloads.values()):
                has_changed |= self._retry_workload(progress)
                self._recreate_evicted()

    def _retry_workload(self, progress: WorkloadProgress) -> bool:
        """Retry waiting and failed pods of a workload, and return whether one got a node."""
        workload = progress.workload
        has_changed = False
        # All later pods of an ordered workload wait for the pod with this number.
        blocking_number = workload_progress.find_stuck_number(progress)
        pod_by_number = progress.requested_pods
        for number in sorted(
            outcome.number for outcome in progress.outcomes.values() if outcome.can_retry
        ):
            if number > blocking_number and not pod_by_number[number].was_pending:
                # Not Pending before: it is created only after the earlier pod runs.
                continue
            verdict = self._place_pod(progress, pod_by_number[number])
            has_changed |= bool(verdict.node)
            if workload.is_ordered and not verdict.node:
                blocking_number = min(blocking_number, number)
            progress.outcomes[number] = self._build_outcome(
                workload, verdict, pod_by_number[number]
            )
        return has_changed
