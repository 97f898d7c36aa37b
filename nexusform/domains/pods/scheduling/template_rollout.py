"""Rollouts of Deployments, DaemonSets and ordered StatefulSets.

Order of scaling and replacement, and the pods waiting meanwhile. A Deployment has one set of pods
per template. Its controller first scales each set by its share. Then it creates pods of the current
template within max surge, and deletes pods of former templates that do not run, oldest set first,
within max unavailable: not all of them if the current pods do not run either. The remaining ones
wait with their template. Source: kubernetes pkg/controller/deployment/rolling.go,
reconcileNewReplicaSet and cleanupUnhealthyReplicas.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Pairs,
    PodSpec,
    PodTerm,
    SpreadConstraint,
    Strategy,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_orders import sort_for_removal
from nexusform.domains.pods.scheduling.random_choices import replaces_one_pod
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage
from nexusform.domains.pods.scheduling.scheduler_versions import UNAVAILABLE_CHANGE
from nexusform.domains.pods.scheduling.scheduling_session import PodVerdict, SchedulingSession
from nexusform.domains.pods.scheduling.workload_progress import (
    PodToPlace,
    WorkloadProgress,
    extract_scaled_outdated_pods,
    find_unused_pod_numbers,
    list_numbers,
    select_stuck_pods,
)
from nexusform.kubernetes.matching import LabelSelector
from nexusform.kubernetes.quantity import compute_amount_of_total

# Label with the template hash of a Deployment's pods, and a value of no template.
TEMPLATE_KEY: Final = "pod-template-hash"
_OTHER_HASH: Final = "another"


class RolloutState(Struct):
    """Progress of a replacement: old pods that remain, removed old pods, new pods by number.

    `new_verdicts` begins with the new pods just decided; `kept_nodes` are the nodes of earlier
    ones. `is_blocked` means that it waits for an unschedulable pod, or for `uncreated` ones with
    this `rejection`. `spare_numbers` are free numbers for new pods without a predecessor.
    `former_specs` are specs of new pods with a former template, by number. `pending_specs` are old
    pods without a feasible node, by number. `stuck_numbers` are existing pods of the current
    template that are not ready. `is_template_stuck` means that none of that template is ready.
    """

    remaining_pods: list[ExistingPod]
    new_verdicts: dict[int, PodVerdict]
    kept_nodes: tuple[str, ...] = ()
    former_specs: dict[int, PodSpec] = field(default_factory=dict)
    removed_pods: list[ExistingPod] = field(default_factory=list)
    is_blocked: bool = False
    uncreated: int = 0
    rejection: str = ""
    spare_numbers: list[int] = field(default_factory=list)
    pending_specs: dict[int, PodSpec] = field(default_factory=dict)
    stuck_numbers: frozenset[int] = frozenset()
    is_template_stuck: bool = False

    @property
    def unavailable_count(self) -> int:
        """Number of unavailable pods of the current template.

        All new ones if the template never gets ready.
        """
        unavailable_new_pods = (
            self.new_verdicts if self.is_template_stuck else self.list_unscheduled()
        )
        return len(unavailable_new_pods) + len(self.stuck_numbers)

    @property
    def pod_count(self) -> int:
        """Number of pods of the workload, old and new, including those without a feasible node."""
        old_pods = len(self.remaining_pods) + len(self.pending_specs)
        # New pods were created earlier, and are decided now.
        new_pods = len(self.kept_nodes) + len(self.new_verdicts)
        return old_pods + new_pods

    def list_nodes(self) -> list[str]:
        """Return the node of each pod of the workload, old and new."""
        new_nodes = [verdict.node for verdict in self.new_verdicts.values()]
        return [*(pod.node for pod in self.remaining_pods), *self.kept_nodes, *new_nodes]

    def list_unscheduled(self) -> list[int]:
        """Return the numbers of new pods without a feasible node."""
        return [number for number, verdict in self.new_verdicts.items() if not verdict.node]


def replace_pods(
    session: SchedulingSession, workload: Workload, state: RolloutState, quota_usage: QuotaUsage
) -> None:
    """Replace pods of an older template under the same numbers, by the rules of their kind.

    `state` is updated.
    """
    if workload.kind == "ReplicaSet" or workload.strategy is Strategy.ON_DELETE:
        # Neither replaces existing pods.
        return
    replacement = _PodReplacement(session, workload, state, quota_usage)
    if workload.has_rolling_update:
        replacement.replace_with_surge()
    elif workload.kind == "StatefulSet":
        replacement.replace_in_order()
    else:
        # A Deployment with the strategy Recreate.
        replacement.recreate_all_pods()


class _PodReplacement(Struct, frozen=True):
    """Replacement of the pods of one workload in a cluster with others."""

    session: SchedulingSession
    workload: Workload
    state: RolloutState
    quota_usage: QuotaUsage

    def recreate_all_pods(self) -> None:
        """Delete every old pod before the first new one is created."""
        numbers = list_numbers(self.state.remaining_pods)
        for pod in list(self.state.remaining_pods):
            self._remove_pod(pod)
        creations = [self._create_pod(number) for number in numbers]
        # A quota or the admission rejects these.
        self.state.uncreated = creations.count(False)

    def replace_in_order(self) -> None:
        """Replace the pods of a StatefulSet, highest ordinal first.

        Each waits until the new pod before it is ready. With OrderedReady, it also waits until all
        existing pods are ready. The rollout ends at the partition, or with `is_blocked` at the
        first pod that must wait.
        """
        state = self.state
        batch_size = 1
        state.is_blocked = (
            self.workload.is_ordered and self._count_unready_pods(state.remaining_pods) > 0
        )
        # Kubernetes replaces up to maxUnavailable pods at once.
        if self.session.cluster.limits_unavailable_pods:
            # In later versions only new pods count.
            counts_old_pods = self.session.cluster.version < UNAVAILABLE_CHANGE
            unready_count = self._count_unready_pods(
                state.remaining_pods if counts_old_pods else ()
            )
            batch_size = max(1, self.workload.max_unavailable) - unready_count
        if state.is_blocked or batch_size <= 0:
            state.is_blocked = True
            return
        highest_stuck_number = max(state.stuck_numbers, default=-1)
        old_pods = sorted(state.remaining_pods, key=lambda pod: -pod.number)
        for start, pod in enumerate(old_pods):
            if self.workload.is_below_partition(pod.number):
                # Pods below the partition keep the old template.
                return
            if pod not in state.remaining_pods:
                # The pod was replaced with an earlier one, or evicted for a new pod and created
                # again.
                continue
            has_new_pods = bool(state.kept_nodes or state.new_verdicts)
            # No pod of the new template gets ready.
            waits_for_template = state.is_template_stuck and has_new_pods
            state.is_blocked = (
                waits_for_template
                or highest_stuck_number > pod.number
                or self._is_new_pod_missing()
            )
            if state.is_blocked:
                return
            batch = [
                other
                for other in old_pods[start : start + batch_size]
                if other in state.remaining_pods
            ]
            self._replace_pods(
                [other for other in batch if not self.workload.is_below_partition(other.number)]
            )
        state.is_blocked = self._is_new_pod_missing()

    def _count_unready_pods(self, old_pods: Sequence[ExistingPod]) -> int:
        """Count the unready pods: those of the current template, and some of `old_pods`."""
        return len(self.state.stuck_numbers) + len(select_stuck_pods(old_pods))

    def _replace_pods(self, pods: Sequence[ExistingPod]) -> None:
        """Delete pods of a StatefulSet, then create new ones, lowest ordinal first.

        Then those evicted for them.
        """
        state = self.state
        # Of the next pod to create again in `removed_pods`.
        position = len(state.removed_pods)
        for pod in reversed(pods):
            # This adds the pod to `removed_pods`.
            self._remove_pod(pod)
        state.uncreated = 0
        # A new pod may evict others, which are then added to `removed_pods`.
        while position < len(state.removed_pods):
            former_pod = state.removed_pods[position]
            if self.workload.is_below_partition(former_pod.number):
                state.former_specs[former_pod.number] = former_pod.spec
            is_created = self._create_pod(former_pod.number)
            # A quota or the admission rejects these.
            state.uncreated += not is_created
            position += 1

    def _is_new_pod_missing(self) -> bool:
        """Return whether a new pod has no node, or a quota or admission rejects it."""
        return bool(self.state.list_unscheduled() or self.state.uncreated)

    def replace_with_surge(self) -> None:
        """Replace a Deployment's pods within `max_surge` and `max_unavailable`.

        Rounds follow until all are replaced. A round first creates new pods, then deletes old ones.
        If a round changes nothing, the rollout is blocked.
        """
        state = self.state
        missing_count = max(
            0, self.workload.replicas - len(state.kept_nodes) - len(state.new_verdicts)
        )
        old_numbers = [*state.pending_specs, *list_numbers(state.remaining_pods)]
        # The new pods not yet created get the numbers of the old ones they replace,
        # then spare ones.
        next_numbers = [*old_numbers, *state.spare_numbers][:missing_count]
        while next_numbers or state.remaining_pods or state.pending_specs:
            # Limit of changes of this round.
            most_changes = self._choose_step_size()
            added_count = 0
            # These are tried again, as old pods were deleted.
            for number in state.list_unscheduled():
                if added_count < most_changes:
                    self._place_pod(number)
                    added_count += bool(state.new_verdicts[number].node)
            # Create the next new pods within max surge and quotas.
            maximum = self.workload.replicas + self.workload.max_surge
            state.uncreated = 0
            while next_numbers and state.pod_count < maximum and added_count < most_changes:
                # A quota or the admission rejects it, as all others now.
                if not self._create_pod(next_numbers[0]):
                    state.uncreated = min(len(next_numbers), maximum - state.pod_count)
                    break
                next_numbers.pop(0)
                added_count += 1
            # Delete old pods without readiness within max unavailable.
            stuck_pods = select_stuck_pods(state.remaining_pods)
            removed_count = self._remove_first_pods(stuck_pods, self._count_removable_pods())
            removed_count += self._remove_ready_old_pods(most_changes)
            # Delete unschedulable pods within max unavailable.
            for number in list(state.pending_specs)[: self._count_removable_pods()]:
                self.quota_usage.remove(state.pending_specs.pop(number))
                removed_count += 1
            # But some pods are not yet replaced.
            if not added_count and not removed_count:
                state.is_blocked = True
                return

    def _count_removable_pods(self) -> int:
        """Return how many unready old pods may be deleted.

        The others must suffice once all of them are ready.
        """
        workload = self.workload
        state = self.state
        minimum = workload.replicas - workload.max_unavailable
        return max(0, state.pod_count - minimum - state.unavailable_count)

    def _choose_step_size(self) -> int:
        """Return how many pods a round may place and delete.

        It is all of them, or one in half of the rounds of a timing sample.
        """
        state = self.state
        question = partial(
            replaces_one_pod, self.workload.key, len(state.removed_pods), len(state.new_verdicts)
        )
        return 1 if self.session.choices.ask(question) else sys.maxsize

    def _remove_ready_old_pods(self, most_changes: int) -> int:
        """Delete at most `most_changes` ready old pods, and return their number.

        Max unavailable is the other limit.
        """
        workload = self.workload
        state = self.state
        ready_pods = [pod for pod in state.remaining_pods if not pod.is_stuck]
        unready_count = len(state.remaining_pods) - len(ready_pods)
        available_count = (
            state.pod_count - state.unavailable_count - unready_count - len(state.pending_specs)
        )
        removable_count = max(0, available_count - (workload.replicas - workload.max_unavailable))
        return self._remove_first_pods(ready_pods, min(removable_count, most_changes))

    def _remove_first_pods(self, pods: Sequence[ExistingPod], maximum: int) -> int:
        """Delete the first of these old pods, at most `maximum`, and return their number.

        The first ones are those in the order of removal.
        """
        now = self.session.cluster.observation_time
        removed_pods = sort_for_removal(pods, self.state.list_nodes(), now)[:maximum]
        for pod in removed_pods:
            self._remove_pod(pod)
        return len(removed_pods)

    def _create_pod(self, number: int) -> bool:
        """Create a new pod and place it.

        Return False, and record the reason, if a quota or admission rejects it.
        """
        spec = self.state.former_specs.get(number, self.workload.pod)
        rejection = self.workload.admission_error or self.quota_usage.try_add(spec)
        if rejection:
            self.state.rejection = rejection
            return False
        self._place_pod(number)
        return True

    def _place_pod(self, number: int) -> None:
        """Place a new pod, and remove old ones evicted for it."""
        state = self.state
        spec = state.former_specs.get(number, self.workload.pod)
        verdict = self.session.place_pod(spec, self.workload.key, number)
        for pod in list(state.remaining_pods):
            if pod not in verdict.victims:
                continue
            state.remaining_pods.remove(pod)
            state.removed_pods.append(pod)
            self.quota_usage.remove(pod.spec)
        state.new_verdicts[number] = verdict

    def _remove_pod(self, pod: ExistingPod) -> None:
        """Delete an old pod.

        In a rolling update it may hold its capacity until it has terminated.
        """
        self.session.remove_pod(pod, may_linger=self.workload.has_rolling_update)
        self.quota_usage.remove(pod.spec)
        self.state.remaining_pods.remove(pod)
        self.state.removed_pods.append(pod)


class SurgeCapacityCheck:
    """Check for surge capacity: whether pods of a changed template would fit.

    All existing pods stay.
    """

    def __init__(self, cluster: Cluster, existing_pods: Sequence[ExistingPod]) -> None:
        self._cluster = cluster
        self._existing_pods = existing_pods
        # The session is created on demand: most are never needed.
        self._session: SchedulingSession | None = None
        self._quota_usage = QuotaUsage(cluster.quotas)

    def find_obstacle(self, workload: Workload) -> str:
        """Return why one more pod of another template does not fit next to all existing pods.

        The result is "" if it may fit.
        """
        if self._session is None:
            self._session = SchedulingSession(self._cluster, self._existing_pods)
            for pod in self._existing_pods:
                self._quota_usage.add(pod.spec)
        rejection = self._quota_usage.find_rejection(workload.pod)
        if rejection:
            return rejection
        # A pod spec of another template with the same requests; filters read another hash.
        spec = workload.pod
        next_spec = replace(
            spec,
            template=_OTHER_HASH,
            labels=_replace_template_hash(spec.labels),
            affinity=_replace_rule_hashes(spec.affinity),
            anti_affinity=_replace_rule_hashes(spec.anti_affinity),
            spread=_replace_rule_hashes(spec.spread),
        )
        # A free one.
        return self._session.find_obstacle(
            next_spec, number=workload.first_ordinal + workload.replicas
        )


_Rule = TypeVar("_Rule", PodTerm, SpreadConstraint)


def _replace_rule_hashes(rules: Sequence[_Rule]) -> tuple[_Rule, ...]:
    """Return the rules of a pod of another template: their selectors have another hash."""
    changed_rules = []
    for rule in rules:
        selector = rule.selector
        # None selects nothing.
        if selector is not None:
            expressions = tuple(
                replace(requirement, values=(_OTHER_HASH,))
                if requirement.key == TEMPLATE_KEY
                else requirement
                for requirement in selector.match_expressions
            )
            selector = LabelSelector(_replace_template_hash(selector.match_labels), expressions)
        changed_rules.append(replace(rule, selector=selector))
    return tuple(changed_rules)


def _replace_template_hash(labels: Pairs) -> Pairs:
    return tuple((key, _OTHER_HASH if key == TEMPLATE_KEY else value) for key, value in labels)


class TemplateRollout:
    """Replacement of the pods of one workload in a cluster with others."""

    def __init__(
        self, session: SchedulingSession, quota_usage: QuotaUsage, progress: WorkloadProgress
    ) -> None:
        """Start without verdicts.

        `progress` contains the current and outdated pods of the workload.
        """
        self._session = session
        self._quota_usage = quota_usage
        self._progress = progress
        # On pending pods of former templates, by number.
        self._waiting_verdicts: dict[int, PodVerdict] = {}
        # Scaling may create a pod of a former template and the rollout delete it at once: its
        # number is free again.
        self._spare_numbers: list[int] = []

    @property
    def is_needed(self) -> bool:
        """Whether pods of a former template have to be replaced."""
        has_former_pods = bool(self._progress.outdated_pods or self._progress.pending_outdated_pods)
        return has_former_pods and not self._progress.workload.is_paused

    def start(self) -> None:
        """Begin the rollout, before the pods of the current template are placed.

        Scale the ReplicaSets of former templates, and delete their non-running pods within max
        unavailable. Then try to place their Pending pods.
        """
        progress = self._progress
        # Quotas count all pods to place already.
        counted_numbers = set(
            list_numbers([*progress.pods_to_place, *progress.pending_outdated_pods])
        )
        # Specs of former templates, by number.
        new_specs = extract_scaled_outdated_pods(progress)
        self._delete_unhealthy_former_pods(new_specs)
        # New pods deleted at once do not count. Their numbers are spare: a pod created with
        # one counts then.
        for _ in counted_numbers.intersection(self._spare_numbers):
            self._quota_usage.remove(progress.workload.pod)
        pending_pods = progress.pending_outdated_pods
        progress.pending_outdated_pods = []
        for number, spec in new_specs.items():
            # It counts already, or no quota rejects it.
            if number in counted_numbers or not self._quota_usage.try_add(spec):
                pending_pods.append(
                    PodToPlace(number, trigger=progress.creation_trigger, former_spec=spec)
                )
        for pod in pending_pods:
            spec = pod.get_spec(progress.workload)
            verdict = self._session.place_pod(spec, progress.workload.key, pod.number)
            if not verdict.node:
                progress.pending_outdated_pods.append(pod)
                self._waiting_verdicts[pod.number] = verdict
                continue
            age = self._session.age
            progress.outdated_pods.append(
                ExistingPod(progress.workload.key, pod.number, verdict.node, spec, age)
            )
            progress.placed_outdated[pod.number] = (verdict.is_certain, pod.trigger)

    def _delete_unhealthy_former_pods(self, new_specs: dict[int, PodSpec]) -> None:
        """Delete non-running pods of former templates within max unavailable.

        The oldest ReplicaSet is first. These pods are Pending, or were just created by scaling
        (`new_specs`, by number). Deleted pods are removed from `new_specs`.
        """
        progress = self._progress
        workload = progress.workload
        # A paused Deployment deletes none.
        deletable_count = 0
        # Else it may delete all pods beyond the minimum of available ones.
        if not workload.is_paused:
            # Available pods of the current template.
            available = len(progress.kept_pods) - len(progress.list_stuck_pods())
            total = available + len(progress.outdated_pods) + len(progress.pending_outdated_pods)
            deletable_count = max(
                0, total + len(new_specs) - (workload.replicas - workload.max_unavailable)
            )
        # The ages of ReplicaSets are unknown: those with running pods count as older
        # than those without.
        running_templates = {pod.spec.template for pod in progress.outdated_pods}
        older_numbers = [
            number for number, spec in new_specs.items() if spec.template in running_templates
        ]
        newer_numbers = [number for number in new_specs if number not in older_numbers]
        pending_pods = sorted(
            progress.pending_outdated_pods,
            key=lambda pod: (pod.get_spec(workload).template not in running_templates, pod.number),
        )
        removed_numbers = [*older_numbers, *list_numbers(pending_pods), *newer_numbers][
            :deletable_count
        ]
        # Numbers of deleted new pods.
        self._spare_numbers = []
        for number in removed_numbers:
            if new_specs.pop(number, None) is not None:
                self._spare_numbers.append(number)
        for pod in list(progress.pending_outdated_pods):
            if pod.number not in removed_numbers:
                continue
            progress.pending_outdated_pods.remove(pod)
            if len(progress.kept_pods) + len(progress.pods_to_place) < workload.replicas:
                # One of the current template replaces it.
                progress.pods_to_place.append(replace(pod, former_spec=None))
            else:
                # One too many.
                progress.removals.append((pod.build_pending_pod(workload), pod_outcomes.SCALE_IN))

    def resume(self, verdicts: Mapping[int, PodVerdict]) -> dict[int, PodVerdict]:
        """Replace outdated pods step by step, and return the verdicts of all pods.

        The verdicts are by final number. `verdicts` are those of the pods placed before the
        replacement. The progress of the workload is updated.
        """
        progress = self._progress
        workload = self._progress.workload
        pending_pods = {pod.number: pod for pod in progress.pending_outdated_pods}
        state = RolloutState(
            remaining_pods=list(progress.outdated_pods),
            new_verdicts=dict(verdicts),
            kept_nodes=tuple(pod.node for pod in progress.kept_pods),
            uncreated=progress.uncreated,
            spare_numbers=self._spare_numbers,
            pending_specs={number: pod.get_spec(workload) for number, pod in pending_pods.items()},
            stuck_numbers=frozenset(list_numbers(progress.list_stuck_pods())),
            is_template_stuck=progress.is_template_stuck,
        )
        # Nodes before the plan by number. Pods placed in this prediction had none.
        old_nodes = {pod.number: pod.node for pod in progress.outdated_pods}
        for number in progress.placed_outdated:
            old_nodes.pop(number, None)
        replace_pods(self._session, workload, state, self._quota_usage)
        progress.outdated_pods = state.remaining_pods
        progress.is_blocked = state.is_blocked
        progress.pending_outdated_pods = [
            pod for pod in pending_pods.values() if pod.number in state.pending_specs
        ]
        if state.uncreated:
            progress.uncreated = state.uncreated
            progress.rejection = state.rejection or progress.rejection
        final_verdicts = self._assign_verdict_numbers(state, verdicts, old_nodes, pending_pods)
        # If no new pod has the number of a deleted old pod, the plan shows its removal.
        removed_numbers = old_nodes.keys() - state.new_verdicts.keys()
        removed_pods = [pod for pod in state.removed_pods if pod.number in removed_numbers]
        removed_pending_numbers = (
            pending_pods.keys() - state.pending_specs.keys() - state.new_verdicts.keys()
        )
        removed_pods += [
            pod.build_pending_pod(workload)
            for pod in pending_pods.values()
            if pod.was_pending and pod.number in removed_pending_numbers
        ]
        progress.record_removals(removed_pods, pod_outcomes.TEMPLATE_CHANGED)
        return final_verdicts

    def _assign_verdict_numbers(
        self,
        state: RolloutState,
        verdicts: Mapping[int, PodVerdict],
        old_nodes: Mapping[int, str],
        pending_pods: Mapping[int, PodToPlace],
    ) -> dict[int, PodVerdict]:
        """Return all verdicts of new pods by final number.

        The pods created by the rollout are added to `pods_to_place`. A new pod gets another
        number if the old pod with its number remains. All mappings are by number: `verdicts` on
        the pods placed before the rollout, `old_nodes` of old pods before it, and `pending_pods`,
        old ones without one.
        """
        progress = self._progress
        first_number = self._progress.workload.first_ordinal
        kept_numbers = {*list_numbers(state.remaining_pods), *state.pending_specs}
        taken_numbers = {*kept_numbers, *list_numbers(progress.kept_pods), *state.new_verdicts}
        replaced_numbers = old_nodes.keys() | pending_pods.keys()
        final_verdicts: dict[int, PodVerdict] = {}
        for number, verdict in state.new_verdicts.items():
            # The pod was placed before the rollout.
            if number in verdicts:
                final_verdicts[number] = verdict
                continue
            trigger = (
                pod_outcomes.TEMPLATE_CHANGED
                if number in replaced_numbers
                else progress.creation_trigger
            )
            former_spec = state.former_specs.get(number)
            # The pod was evicted for another pod of the set, and created again.
            if former_spec is not None:
                trigger = pod_outcomes.PREEMPTED
            new_pod = PodToPlace(
                number, previous=old_nodes.get(number, ""), trigger=trigger, former_spec=former_spec
            )
            # Its old pod remains.
            if number in kept_numbers:
                new_pod = PodToPlace(
                    find_unused_pod_numbers(taken_numbers, first_number, 1)[0], trigger=trigger
                )
                taken_numbers.add(new_pod.number)
            elif number in pending_pods:
                # Now of the current template.
                new_pod = replace(pending_pods[number], former_spec=None)
            final_verdicts[new_pod.number] = verdict
            progress.pods_to_place.append(new_pod)
        return final_verdicts

    def request_pending_pods(self) -> dict[int, PodVerdict]:
        """Request the pods of former templates still without a node.

        Their verdicts are returned by number.
        """
        progress = self._progress
        progress.pods_to_place += progress.pending_outdated_pods
        return {
            pod.number: self._waiting_verdicts[pod.number] for pod in progress.pending_outdated_pods
        }


class DaemonRollout:
    """Replacement of the pods of one DaemonSet, node by node by its update strategy.

    Without maxSurge an old pod is deleted before its successor is created, and at most
    maxUnavailable nodes are without a running pod. With maxSurge the successor is created first,
    and the old pod stays until it runs. `verdicts` are those of pods missing before the rollout.
    Source: kubernetes pkg/controller/daemon/update.go.
    """

    def __init__(
        self,
        session: SchedulingSession,
        progress: WorkloadProgress,
        verdicts: Mapping[int, PodVerdict],
    ) -> None:
        """Prepare the rollout of a DaemonSet after its requested pods got `verdicts`, by number."""
        self._session = session
        self._progress = progress
        self._workload = progress.workload
        self._permitted_nodes = progress.permitted_nodes
        # Pods of the current template not running: uncreated, without a node, or stuck.
        self._waiting_count = progress.uncreated + sum(
            not verdict.node for verdict in verdicts.values()
        )
        self._waiting_count += len(
            select_stuck_pods(progress.workload.select_current_pods(progress.kept_pods))
        )
        # On the new pods of the rollout, by number.
        self._verdicts: dict[int, PodVerdict] = {}

    def replace_pods(self) -> dict[int, PodVerdict]:
        """Replace pods by the update strategy.

        Return the verdicts of the new pods by number, and record removals.
        """
        progress = self._progress
        workload = self._workload
        outdated_pods = [pod for pod in progress.kept_pods if not workload.is_current(pod.spec)]
        if workload.strategy is not Strategy.ON_DELETE:
            surge = compute_amount_of_total(workload.max_surge_text, len(self._permitted_nodes))
            if surge:
                self._replace_with_surge(outdated_pods, surge)
            else:
                maximum = max(
                    1,
                    compute_amount_of_total(
                        workload.max_unavailable_text, len(self._permitted_nodes)
                    ),
                )
                self._replace_in_place(outdated_pods, maximum)
        # Pending pods of a surge no longer required.
        progress.record_removals(progress.surge_pods, pod_outcomes.SCALE_IN)
        progress.surge_pods = []
        return self._verdicts

    def _replace_in_place(self, outdated_pods: list[ExistingPod], maximum: int) -> None:
        """Delete old pods before their successors are created.

        Block the rollout once `maximum` nodes wait for one.
        """
        # Pods that are not ready are replaced first, and regardless of the maximum: their nodes
        # are unavailable anyway.
        for pod in sorted(outdated_pods, key=lambda pod: not pod.is_stuck):
            if self._waiting_count >= maximum and not pod.is_stuck:
                self._progress.is_blocked = True
                return
            self._remove_pod(pod)
            # It has no successor.
            if pod.node not in self._permitted_nodes:
                self._progress.record_removals([pod], pod_outcomes.TEMPLATE_CHANGED)
            elif self._workload.admission_error:
                self._progress.record_removals([pod], pod_outcomes.TEMPLATE_CHANGED)
                self._record_uncreated_pod()
            else:
                new_pod = PodToPlace(
                    pod.number, pod.node, previous=pod.node, trigger=pod_outcomes.TEMPLATE_CHANGED
                )
                verdict = self._session.place_daemon(
                    self._workload.pod, self._workload.key, pod.number, pod.node
                )
                self._record_verdict(new_pod, verdict)

    def _record_uncreated_pod(self) -> None:
        """Count a pod rejected on admission as waiting and uncreated, with the reason."""
        self._waiting_count += 1
        self._progress.uncreated += 1
        self._progress.rejection = self._workload.admission_error

    def _replace_with_surge(self, outdated_pods: list[ExistingPod], maximum: int) -> None:
        """Create successors while fewer than `maximum` (maxSurge) wait.

        Delete each old pod once its successor runs.
        """
        # With a new pod.
        updated_nodes = {pod.node for pod in self._progress.kept_pods if pod not in outdated_pods}
        for pod in outdated_pods:
            # No successor is needed.
            if pod.node in updated_nodes or pod.node not in self._permitted_nodes:
                self._remove_pod(pod)
                self._progress.removals.append((pod, pod_outcomes.TEMPLATE_CHANGED))
                continue
            if self._waiting_count >= maximum:
                self._progress.is_blocked = True
                return
            # The old pod stays without a successor.
            if self._workload.admission_error:
                self._record_uncreated_pod()
                continue
            verdict = self._session.place_daemon(
                self._workload.pod, self._workload.key, pod.number, pod.node
            )
            if verdict.node:
                # The successor has a higher priority and has evicted it.
                if pod in verdict.victims:
                    self._progress.kept_pods.remove(pod)
                else:
                    self._remove_pod(pod)
                new_pod = PodToPlace(
                    pod.number, pod.node, previous=pod.node, trigger=pod_outcomes.TEMPLATE_CHANGED
                )
                self._record_verdict(new_pod, verdict)
            else:
                self._record_verdict(self._create_waiting_pod(pod), verdict)

    def _create_waiting_pod(self, pod: ExistingPod) -> PodToPlace:
        """Return the Pending successor of a remaining pod.

        This is a pod already waiting, else a new one with a free number.
        """
        progress = self._progress
        if progress.surge_pods:
            waiting_pod = progress.surge_pods.pop(0)
            return PodToPlace(waiting_pod.number, pod.node, was_pending=True, age=waiting_pod.age)
        used_numbers = list_numbers([*progress.kept_pods, *progress.pods_to_place])
        (number,) = find_unused_pod_numbers(used_numbers, first=0, missing_count=1)
        return PodToPlace(number, pod.node, trigger=pod_outcomes.TEMPLATE_CHANGED)

    def _record_verdict(self, pod: PodToPlace, verdict: PodVerdict) -> None:
        """Record a new pod with the verdict on it.

        A pod without a node counts as waiting.
        """
        self._progress.pods_to_place.append(pod)
        self._verdicts[pod.number] = verdict
        self._waiting_count += not verdict.node

    def _remove_pod(self, pod: ExistingPod) -> None:
        self._progress.kept_pods.remove(pod)
        self._session.remove_pod(pod)
