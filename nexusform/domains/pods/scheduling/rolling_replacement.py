"""Replacement of a workload's pods after a template change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    DEFAULT_SEED,
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
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage
from nexusform.domains.pods.scheduling.scheduling_session import PodVerdict, SchedulingSession
from nexusform.kubernetes.matching import LabelSelector

# Label with the template hash of a Deployment's pods, and a value of no template.
TEMPLATE_KEY: Final = "pod-template-hash"
_OTHER_HASH: Final = "another"


class RolloutState(Struct):
    """Progress of a replacement: old pods that remain, removed old pods, new pods by number. `new_verdicts`
    begins with the new pods just decided; `existing_count` counts earlier ones. `is_blocked`: it waits for an
    unschedulable pod, or for `uncreated` ones with this `rejection`. `further_numbers`: new pods without a
    predecessor. `pending_specs` are old pods without a feasible node, by number. `stuck_numbers`: existing pods
    of the current template, not ready. `is_template_stuck`: none of that template is ready.
    """

    remaining_pods: list[ExistingPod]
    new_verdicts: dict[int, PodVerdict]
    existing_count: int = 0
    removed_pods: list[ExistingPod] = field(default_factory=list)
    is_blocked: bool = False
    uncreated: int = 0
    rejection: str = ""
    further_numbers: list[int] = field(default_factory=list)
    pending_specs: dict[int, PodSpec] = field(default_factory=dict)
    stuck_numbers: frozenset[int] = frozenset()
    is_template_stuck: bool = False

    @property
    def unavailable_count(self) -> int:
        """Number of unavailable pods of the current template."""
        waiting_count = len(self.new_verdicts) if self.is_template_stuck else len(self.list_unscheduled())
        return waiting_count + len(self.stuck_numbers)

    @property
    def pod_count(self) -> int:
        """Number of pods, old and new."""
        return len(self.remaining_pods) + len(self.pending_specs) + self.existing_count + len(self.new_verdicts)

    def list_unscheduled(self) -> list[int]:
        """Return the numbers of new pods without a feasible node."""
        return [number for number, verdict in self.new_verdicts.items() if not verdict.node]


def replace_pods(session: SchedulingSession, workload: Workload, state: RolloutState, quota_usage: QuotaUsage) -> None:
    """Replace pods of an older template under the same numbers, by the rules of their kind."""
    if workload.kind == "ReplicaSet" or workload.strategy is Strategy.ON_DELETE:
        return
    replacement = _PodReplacement(session, workload, state, quota_usage)
    if workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING:
        replacement.replace_with_surge()
    elif workload.kind == "StatefulSet":
        replacement.replace_in_order()
    else:
        replacement.recreate()


class _PodReplacement(Struct, frozen=True):
    """Replacement of the pods of one workload in a cluster with others."""

    session: SchedulingSession
    workload: Workload
    state: RolloutState
    quota_usage: QuotaUsage

    def recreate(self) -> None:
        """Delete every old pod before the first new one is created."""
        state = self.state
        numbers = [pod.number for pod in state.remaining_pods]
        for pod in list(state.remaining_pods):
            self._remove_pod(pod)
        state.uncreated = sum([not self._create_pod(number) for number in numbers])

    def replace_in_order(self) -> None:
        """Replace the highest ordinal first; the next one waits until the new pod runs. An ordered set also
        waits for each unready pod.
        """
        state = self.state
        if self.workload.is_ordered and (state.stuck_numbers or any(pod.is_stuck for pod in state.remaining_pods)):
            state.is_blocked = True
            return
        for pod in sorted(state.remaining_pods, key=lambda pod: -pod.number):
            if pod.number < self.workload.partition:
                return
            is_waiting = any(number > pod.number for number in state.stuck_numbers)
            is_waiting = is_waiting or (state.is_template_stuck and bool(state.new_verdicts or state.existing_count))
            if state.list_unscheduled() or state.uncreated or is_waiting:
                state.is_blocked = True
                return
            self._remove_pod(pod)
            state.uncreated = int(not self._create_pod(pod.number))
        state.is_blocked = bool(state.list_unscheduled() or state.uncreated)

    def replace_with_surge(self) -> None:
        """Replace a Deployment's pods within `max_surge` and `max_unavailable`."""
        state = self.state
        missing_count = max(0, self.workload.replicas - state.existing_count - len(state.new_verdicts))
        old_numbers = [*state.pending_specs, *(pod.number for pod in state.remaining_pods)]
        next_numbers = [*old_numbers, *state.further_numbers][:missing_count]
        while next_numbers or state.remaining_pods or state.pending_specs:
            waiting_numbers = state.list_unscheduled()
            for number in waiting_numbers:
                self._place_pod(number)
            added = sum(bool(state.new_verdicts[number].node) for number in waiting_numbers)
            # Create the next new pods within max surge and quotas.
            maximum = self.workload.replicas + self.workload.max_surge
            state.uncreated = 0
            while next_numbers and state.pod_count < maximum:
                if not self._create_pod(next_numbers[0]):
                    state.uncreated = min(len(next_numbers), maximum - state.pod_count)
                    break
                next_numbers.pop(0)
                added += 1
            # Delete old pods without readiness within max unavailable.
            stuck_pods = [pod for pod in state.remaining_pods if pod.is_stuck]
            removed_pods = sort_for_removal(self.workload.kind, stuck_pods)[: self._count_removable_pods()]
            for pod in removed_pods:
                self._remove_pod(pod)
            removed = len(removed_pods) + self._remove_surplus() + self._remove_unschedulable_pods()
            if not added and not removed:
                state.is_blocked = True
                return

    def _count_removable_pods(self) -> int:
        """Return how many pods, ready or not, may be deleted within max unavailable."""
        workload, state = self.workload, self.state
        minimum = workload.replicas - workload.max_unavailable
        return max(0, state.pod_count - minimum - state.unavailable_count)

    def _remove_surplus(self) -> int:
        """Delete old pods within max unavailable, and return their number."""
        workload, state = self.workload, self.state
        ready_pods = [pod for pod in state.remaining_pods if not pod.is_stuck]
        unready_count = len(state.remaining_pods) - len(ready_pods)
        available_count = state.pod_count - state.unavailable_count - unready_count - len(state.pending_specs)
        removable_count = max(0, available_count - (workload.replicas - workload.max_unavailable))
        now = self.session.cluster.observation_time
        removed_pods = sort_for_removal(workload.kind, ready_pods, now=now)[:removable_count]
        for pod in removed_pods:
            self._remove_pod(pod)
        return len(removed_pods)

    def _remove_unschedulable_pods(self) -> int:
        """Delete unschedulable pods within max unavailable, and return their number."""
        state = self.state
        removed_numbers = list(state.pending_specs)[: self._count_removable_pods()]
        for number in removed_numbers:
            self.quota_usage.remove(state.pending_specs.pop(number))
        return len(removed_numbers)

    def _create_pod(self, number: int) -> bool:
        """Create a new pod and place it; return False if it is rejected."""
        rejection = self.workload.admission_error or self.quota_usage.try_add(self.workload.pod)
        if rejection:
            self.state.rejection = rejection
            return False
        self._place_pod(number)
        return True

    def _place_pod(self, number: int) -> None:
        """Place a new pod, and remove old ones evicted for it."""
        verdict = self.session.place_pod(self.workload.pod, self.workload.key, number)
        state = self.state
        for pod in [pod for pod in state.remaining_pods if pod in verdict.victims]:
            state.remaining_pods.remove(pod)
            state.removed_pods.append(pod)
            self.quota_usage.remove(pod.spec)
        state.new_verdicts[number] = verdict

    def _remove_pod(self, pod: ExistingPod) -> None:
        is_gradual = self.workload.kind == "Deployment" and self.workload.strategy is Strategy.ROLLING
        self.session.remove_pod(pod, may_linger=is_gradual)
        self.quota_usage.remove(pod.spec)
        self.state.remaining_pods.remove(pod)
        self.state.removed_pods.append(pod)


class SurgeCapacityCheck:
    """Check for surge capacity: whether pods of a changed template would fit besides all existing pods."""

    def __init__(self, cluster: Cluster, existing_pods: Sequence[ExistingPod]) -> None:
        self._cluster = cluster
        self._existing_pods = existing_pods
        # Created on demand: most are never needed.
        self._session: SchedulingSession | None = None
        self._quota_usage = QuotaUsage(cluster.quotas)

    def find_obstacle(self, workload: Workload) -> str:
        """Return why a pod of another template does not fit as well, "" if it does or may."""
        if self._session is None:
            self._session = SchedulingSession(self._cluster, self._existing_pods, DEFAULT_SEED)
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
        return self._session.find_obstacle(next_spec, workload.first_ordinal + workload.replicas)


_Rule = TypeVar("_Rule", PodTerm, SpreadConstraint)


def _replace_rule_hashes(rules: Sequence[_Rule]) -> tuple[_Rule, ...]:
    changed_rules = []
    for rule in rules:
        selector = rule.selector
        if selector is not None:
            expressions = tuple(
                replace(requirement, values=(_OTHER_HASH,)) if requirement.key == TEMPLATE_KEY else requirement
                for requirement in selector.match_expressions
            )
            selector = LabelSelector(_replace_template_hash(selector.match_labels), expressions)
        changed_rules.append(replace(rule, selector=selector))
    return tuple(changed_rules)


def _replace_template_hash(labels: Pairs) -> Pairs:
    return tuple((key, _OTHER_HASH if key == TEMPLATE_KEY else value) for key, value in labels)
