"""Progress of the workloads of one prediction: kept, requested and uncreated pods."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count, islice
from sys import maxsize
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, Node, PodSpec, Workload
from nexusform.domains.pods.scheduling.pod_orders import sort_for_removal
from nexusform.domains.pods.scheduling.pod_outcomes import (
    PlaceablePodRange,
    PodOutcome,
    WorkloadForecast,
)
from nexusform.domains.pods.scheduling.resource_quotas import QuotaUsage

NONE_STUCK: Final = maxsize


class PodToPlace(Struct, frozen=True, order=True):
    """Pod to place: its number, its nodes, the trigger, and its history.

    The nodes are its only possible node (DaemonSets) and its previous node. The history is whether
    it was Pending and since when, and its preemptor.

    `former_spec` is the spec of a waiting pod that keeps a former template.
    """

    number: int
    required_node: str = ""
    previous: str = ""
    trigger: str = pod_outcomes.NEW
    was_pending: bool = False
    age: int = 0
    preempted_by: str = ""
    former_spec: PodSpec | None = None

    @property
    def is_new(self) -> bool:
        """Whether the pod did not exist before, not even without a node."""
        return not self.was_pending and not self.previous

    def get_spec(self, workload: Workload) -> PodSpec:
        """Return the spec of the pod.

        It is by its former template, else the current one of its workload.
        """
        return self.former_spec or workload.pod

    def build_pending_pod(self, workload: Workload) -> ExistingPod:
        """Return the pod of a workload without a node."""
        return ExistingPod(
            workload.key, self.number, node="", spec=self.get_spec(workload), age=self.age
        )


class WorkloadProgress(Struct):
    """Progress of one workload: kept pods, pods to place, decisions.

    `failed_pods` are permanently rejected by kubelet. `pending_outdated_pods` wait with their
    former template. `placed_outdated` are outdated pods that got a node before the rollout began
    (number, certainty, trigger). `surge_pods` are daemons waiting for capacity besides those they
    replace. `deferred_removals` are surplus pods of an ordered set, removed once all others run.
    `has_started` means that its placement has begun. `evicted_numbers` are placed pods evicted
    since. `permitted_nodes` are those of a DaemonSet.
    """

    workload: Workload
    had_pods: bool
    has_started: bool = False
    kept_pods: list[ExistingPod] = field(default_factory=list)
    outdated_pods: list[ExistingPod] = field(default_factory=list)
    surge_pods: list[ExistingPod] = field(default_factory=list)
    pending_outdated_pods: list[PodToPlace] = field(default_factory=list)
    placed_outdated: dict[int, tuple[bool, str]] = field(default_factory=dict)
    failed_pods: list[ExistingPod] = field(default_factory=list)
    deferred_removals: list[ExistingPod] = field(default_factory=list)
    pods_to_place: list[PodToPlace] = field(default_factory=list)
    removals: list[tuple[ExistingPod, str]] = field(default_factory=list)
    outcomes: dict[int, PodOutcome] = field(default_factory=dict)
    evicted_numbers: set[int] = field(default_factory=set)
    permitted_nodes: set[str] = field(default_factory=set)
    placeable_range: PlaceablePodRange = field(
        default_factory=lambda: PlaceablePodRange(0, 0, is_exact=True)
    )
    is_blocked: bool = False
    is_template_stuck: bool = False
    uncreated: int = 0
    deferred: int = 0
    rejection: str = ""

    @property
    def is_daemon(self) -> bool:
        """Whether each pod is bound to one node (DaemonSet)."""
        return self.workload.kind == "DaemonSet"

    @property
    def requested_pods(self) -> dict[int, PodToPlace]:
        """Pods to place by number."""
        return {pod.number: pod for pod in self.pods_to_place}

    def list_stuck_pods(self) -> list[ExistingPod]:
        """Return the kept pods of the current template that do not get ready.

        All, if its observed ones are stuck.
        """
        return self.kept_pods if self.is_template_stuck else select_stuck_pods(self.kept_pods)

    def record_removals(self, pods: Iterable[ExistingPod], trigger: str) -> None:
        """Record the removal of pods for one reason."""
        self.removals += [(pod, trigger) for pod in pods]

    def list_surplus_daemons(self, pods: Sequence[ExistingPod]) -> list[ExistingPod]:
        """Return the pods of a DaemonSet on nodes with an older one.

        With maxSurge, a node may have two.
        """
        if self.workload.allows_daemon_surge:
            return []
        oldest_pods: dict[str, ExistingPod] = {}
        # A lower age is an earlier start.
        for pod in sorted(pods, key=lambda pod: (pod.age, pod.number)):
            oldest_pods.setdefault(pod.node, pod)
        return [pod for pod in pods if pod.node and pod != oldest_pods[pod.node]]

    def list_placed_pods(self) -> list[ExistingPod]:
        """Return the pods placed by this prediction."""
        key = self.workload.key
        pod = self.workload.pod
        placed_outcomes = [outcome for outcome in self.outcomes.values() if outcome.node]
        return [
            ExistingPod(key, outcome.number, outcome.node, outcome.spec or pod)
            for outcome in placed_outcomes
        ]

    def get_recreated_spec(self, pod: ExistingPod) -> PodSpec:
        """Return the spec of the replacement of an evicted pod, as created by its controller."""
        former_spec = self.find_former_spec([pod, *self.outdated_pods], pod.number)
        if former_spec is not None:
            return former_spec
        # A Deployment's pod is created by its ReplicaSet, with the template of this set.
        keeps_template = self.workload.has_rolling_update or self.workload.is_current(pod.spec)
        return pod.spec if keeps_template else self.workload.pod

    def find_former_spec(self, pods: Iterable[ExistingPod], number: int) -> PodSpec | None:
        """Return the former template of a StatefulSet's pod to create below the partition.

        The existing `pods` and evicted ones use it. The result is None if the pod gets the current
        template, or no pod has a former one.

        Source: kubernetes pkg/controller/statefulset/stateful_set_utils.go
        (newVersionedStatefulSetPod).
        """
        if not self.workload.is_below_partition(number):
            return None
        evicted_pods = [pod.build_pending_pod(self.workload) for pod in self.pods_to_place]
        former_pods = [
            pod for pod in (*pods, *evicted_pods) if not self.workload.is_current(pod.spec)
        ]
        if not former_pods:
            return None
        # Its own pod, else the first one.
        pod = min(former_pods, key=lambda pod: (pod.number != number, pod.number))
        if pod.number == number:
            return pod.spec
        # The claim templates of a set never change, but each pod has its own volumes.
        current = self.workload.pod
        return replace(
            pod.spec,
            claims=current.claims,
            volumes=current.volumes,
            bound_claims=current.bound_claims,
        )

    @property
    def creation_trigger(self) -> str:
        """Trigger for newly created pods."""
        return pod_outcomes.SCALE_OUT if self.had_pods else pod_outcomes.NEW


def is_pending_outdated(workload: Workload, pod: ExistingPod) -> bool:
    """Return whether a pod is Pending in the ReplicaSet of a former template of its Deployment."""
    is_waiting = not (pod.node or pod.rejection)
    return is_waiting and workload.has_rolling_update and not workload.is_current(pod.spec)


def has_stuck_template(workload: Workload, pods: Iterable[ExistingPod]) -> bool:
    """Return whether pods of the current template exist on nodes, and all are stuck.

    Stuck pods are not ready and do not start.
    """
    # Pods predicted in this plan have no condition, and give no evidence.
    stuck_states = {
        pod.is_stuck for pod in workload.select_current_pods(pods) if pod.node and pod.is_observed
    }
    return stuck_states == {True}


def apply_deployment_pause(workload: Workload, pods: Sequence[ExistingPod]) -> Workload:
    """Return a paused Deployment as treated by its controller.

    It is scaled but not rolled out, and gets no pods if it has none.
    """
    if not pods:
        # No ReplicaSet exists, and none is created.
        return replace(workload, replicas=0)
    if workload.select_current_pods(pods):
        # The ReplicaSet of the current template exists, and is scaled.
        return workload
    # `age` increases with the time of start.
    newest_pod = max(pods, key=lambda pod: (pod.age, -pod.number))
    # Its ReplicaSet, the newest one, is scaled.
    return replace(workload, pod=newest_pod.spec)


def set_former_templates(progress: WorkloadProgress, pods: Sequence[ExistingPod]) -> None:
    """Give the former template to the requested pods of a StatefulSet below the partition.

    `pods` are its existing pods. A Pending pod exists already, so it keeps the template that
    was set before.
    """
    progress.pods_to_place = [
        pod
        if pod.was_pending
        else replace(pod, former_spec=progress.find_former_spec(pods, pod.number))
        for pod in progress.pods_to_place
    ]


def drop_rejected_pods(progress: WorkloadProgress, quota_usage: QuotaUsage) -> None:
    """Drop the first new pod rejected by a quota or on admission, and all new ones after it.

    Record the reason.
    """
    admitted_pods: list[PodToPlace] = []
    for pod in progress.pods_to_place:
        if pod.is_new:
            reason = progress.rejection or progress.workload.admission_error
            progress.rejection = reason or quota_usage.try_add(pod.get_spec(progress.workload))
            if progress.rejection:
                continue
        admitted_pods.append(pod)
    progress.uncreated = len(progress.pods_to_place) - len(admitted_pods)
    progress.pods_to_place = admitted_pods


def select_surplus_pods(
    workload: Workload,
    pods: Sequence[ExistingPod],
    is_running: Callable[[ExistingPod], bool],
    now: int,
) -> list[ExistingPod]:
    """Return the pods to remove by scaling.

    `now` is in seconds since 1970. A StatefulSet loses the pods outside its ordinals, another
    workload the first pods in its controller's order of removal.
    """
    if workload.kind == "StatefulSet":
        ordinals = range(workload.first_ordinal, workload.first_ordinal + workload.replicas)
        return [pod for pod in pods if pod.number not in ordinals]
    # Lost pods count as Pending: they are removed first.
    existing_pods = [pod if is_running(pod) else replace(pod, node="") for pod in pods]
    pending_outdated_numbers = {pod.number for pod in pods if is_pending_outdated(workload, pod)}
    numbers = set(
        list_numbers(_select_excess_pods(workload, existing_pods, pending_outdated_numbers, now))
    )
    # Not their copies without a node.
    return [pod for pod in pods if pod.number in numbers]


def _select_excess_pods(
    workload: Workload,
    pods: Sequence[ExistingPod],
    pending_outdated_numbers: Collection[int],
    now: int,
) -> list[ExistingPod]:
    """Return the pods in excess of three limits, applied one after the other.

    Above a limit, the first in Kubernetes' order of removal are chosen. `pending_outdated_numbers`
    are the numbers of Pending pods of former templates.
    """
    excess_pods: list[ExistingPod] = []
    nodes = [pod.node for pod in pods]
    # Scaling during a rollout gives the ReplicaSet of each template a target size.
    for pod_set, target_count in _compute_template_sizes(workload, pods):
        excess_pods += sort_for_removal(pod_set.pods, nodes, now)[
            : max(0, len(pod_set.pods) - target_count)
        ]
    remaining_pods = [pod for pod in pods if pod not in excess_pods]
    # The current template never has more pods than requested.
    current_pods = workload.select_current_pods(remaining_pods)
    excess_pods += sort_for_removal(current_pods, nodes, now)[
        : max(0, len(current_pods) - workload.replicas)
    ]
    remaining_pods = [pod for pod in remaining_pods if pod not in excess_pods]
    # The limit of all templates together is lower once no pod of a former template remains.
    while (
        excess := len(remaining_pods)
        - _compute_pod_limit(workload, remaining_pods, pending_outdated_numbers)
    ) > 0:
        next_removals = sort_for_removal(remaining_pods, nodes, now)[:excess]
        excess_pods += next_removals
        remaining_pods = [pod for pod in remaining_pods if pod not in next_removals]
    return excess_pods


def _compute_pod_limit(
    workload: Workload, pods: Iterable[ExistingPod], pending_outdated_numbers: Collection[int]
) -> int:
    """Return the maximum number of pods of a workload.

    It includes the surge during a rolling update: while some pod of a former template has a node,
    or waits for one (`pending_outdated_numbers`).
    """
    if not workload.has_rolling_update:
        return workload.replicas
    for pod in pods:
        has_or_awaits_node = pod.node or pod.number in pending_outdated_numbers
        if has_or_awaits_node and not workload.is_current(pod.spec):
            return workload.replicas + workload.max_surge
    return workload.replicas


def extract_scaled_outdated_pods(progress: WorkloadProgress) -> dict[int, PodSpec]:
    """Return the new pods of former templates of a Deployment scaled during a rollout.

    The result is their specs by number. The controller scales all ReplicaSets in proportion: with 6
    old and 2 current pods, most new pods get the old template. The returned pods are removed from
    `pods_to_place`, as these have the current template.
    """
    workload = progress.workload
    if not workload.has_rolling_update or not (
        progress.outdated_pods or progress.pending_outdated_pods
    ):
        # No ReplicaSet of a former template has pods.
        return {}
    new_pods = [pod for pod in progress.pods_to_place if pod.is_new]
    retried_pods = [pod for pod in progress.pods_to_place if not pod.is_new]
    # Retried pods have the current template: they are Pending, or re-created after the loss
    # of their node.
    current_pods = [pod.build_pending_pod(workload) for pod in retried_pods]
    has_pending_current_pod = any(pod.was_pending for pod in retried_pods)
    pending_former_pods = [
        pod.build_pending_pod(workload) for pod in progress.pending_outdated_pods
    ]
    former_pods = [*progress.outdated_pods, *pending_former_pods]
    # Without pods of the current template, all new pods have the former one, if there is only one.
    if (
        not (progress.kept_pods or has_pending_current_pod)
        and len({pod.spec.template for pod in former_pods}) == 1
    ):
        progress.pods_to_place = retried_pods
        return dict.fromkeys(list_numbers(new_pods), former_pods[0].spec)
    former_specs, current_growth = _compute_new_pods(
        workload, [*progress.kept_pods, *former_pods, *current_pods]
    )
    # Pods of the current template are added here only for a paused Deployment, as its
    # rollout creates none.
    current_growth = max(0, current_growth) if workload.is_paused else 0
    used_numbers = list_numbers([*progress.kept_pods, *former_pods, *progress.pods_to_place])
    former_count = len(former_specs)
    spare_numbers = find_unused_pod_numbers(
        used_numbers, workload.first_ordinal, former_count + current_growth
    )
    # In this order, pods get these numbers: those of former templates, the other new pods, and
    # further current ones.
    numbers = [*list_numbers(new_pods), *spare_numbers]
    current_new_pods = new_pods[former_count:]
    further_start = former_count + len(current_new_pods)
    further_count = max(0, current_growth - len(current_new_pods))
    further_numbers = numbers[further_start : further_start + further_count]
    further_pods = [
        PodToPlace(number, trigger=progress.creation_trigger) for number in further_numbers
    ]
    progress.pods_to_place = [*retried_pods, *current_new_pods, *further_pods]
    return dict(zip(numbers, former_specs, strict=False))


def build_forecast(progress: WorkloadProgress, nodes: Mapping[str, Node]) -> WorkloadForecast:
    """Return the final forecast of a workload, with the minimum and maximum of placeable pods.

    `nodes` is by name.
    """
    workload = progress.workload
    kept_pods = (*progress.kept_pods, *progress.outdated_pods, *progress.deferred_removals)
    node_names = [pod.node for pod in kept_pods] + [
        outcome.node for outcome in progress.outcomes.values()
    ]
    # One item per running pod.
    used_nodes = [nodes[name] for name in node_names if name]
    # A DaemonSet has one pod per permitted node.
    replicas = (
        len(progress.kept_pods) + len(progress.outcomes)
        if progress.is_daemon
        else workload.replicas
    )
    running_count = len(used_nodes)
    placeable_range = progress.placeable_range
    if not placeable_range.minimum <= running_count <= placeable_range.maximum:
        # The range was computed before later pods of other workloads took or freed capacity: it
        # must include the count.
        placeable_range = PlaceablePodRange(
            min(running_count, placeable_range.minimum),
            max(running_count, placeable_range.maximum),
            is_exact=False,
        )
    return WorkloadForecast(
        workload=workload,
        replicas=replicas,
        placeable_range=placeable_range,
        per_machine=pod_outcomes.count_occurrences(node.machine for node in used_nodes),
        per_rack=pod_outcomes.count_occurrences(node.rack for node in used_nodes),
        is_blocked=progress.is_blocked,
        uncreated=progress.uncreated,
        deferred=progress.deferred,
        rejection=progress.rejection,
    )


def list_numbers(pods: Iterable[ExistingPod | PodToPlace]) -> list[int]:
    """Return the numbers of pods in their order."""
    return [pod.number for pod in pods]


def select_stuck_pods(pods: Iterable[ExistingPod]) -> list[ExistingPod]:
    """Return the pods that are not ready and do not start."""
    return [pod for pod in pods if pod.is_stuck]


def find_unused_pod_numbers(
    used_numbers: Iterable[int], first: int, missing_count: int
) -> list[int]:
    """Return the lowest unused numbers from `first` on, as many as are missing."""
    used_set = set(used_numbers)
    return list(
        islice((number for number in count(first) if number not in used_set), missing_count)
    )


class _TemplatePods(Struct, frozen=True):
    """Pods of a Deployment created from one template."""

    pods: list[ExistingPod]
    is_current: bool


def _compute_template_sizes(
    workload: Workload, pods: Iterable[ExistingPod]
) -> list[tuple[_TemplatePods, int]]:
    """Return the pods of each ReplicaSet of a scaled Deployment.

    The target number is in proportion to these pods. The result is empty if nothing is scaled: the
    Deployment keeps its size, has all its pods, or has one ReplicaSet. Source: kubernetes
    pkg/controller/deployment, sync.go and util/deployment_util.go (GetReplicaSetProportion).
    """
    pods_by_template = group_by(pods, lambda pod: pod.spec.template)
    sets = [
        _TemplatePods(own_pods, workload.is_current(own_pods[0].spec))
        for own_pods in pods_by_template.values()
    ]
    previous_maximum = workload.previous_max_pods
    # No surge of an empty Deployment.
    maximum = workload.replicas + workload.max_surge if workload.replicas else 0
    # Number of pods to add; negative to remove.
    total_change = maximum - sum(map(len, pods_by_template.values()))
    is_scaled = previous_maximum > 0 and workload.has_rolling_update
    if not is_scaled or len(sets) < 2 or not total_change:
        return []
    # The largest set is first and gets the rounding remainder; of equal sets the newer grows,
    # the older shrinks.
    sign = 1 if total_change > 0 else -1
    sorted_sets = sorted(
        sets,
        key=lambda item: (
            -len(item.pods),
            -sign * item.is_current,
            -sign * max(pod.age for pod in item.pods),
        ),
    )
    assigned_change = 0
    target_counts: list[int] = []
    for pod_set in sorted_sets:
        # The change to the same share of the new maximum as of the previous one, rounded half up.
        own_count = len(pod_set.pods)
        proportional_count = (2 * (own_count * maximum) + previous_maximum) // (
            2 * previous_maximum
        )
        change = proportional_count - own_count
        remaining_change = total_change - assigned_change
        change = (
            min(change, remaining_change) if total_change > 0 else max(change, remaining_change)
        )
        assigned_change += change
        target_counts.append(own_count + change)
    # The remainder by rounding.
    target_counts[0] = max(0, target_counts[0] + total_change - assigned_change)
    return list(zip(sorted_sets, target_counts, strict=True))


def _compute_new_pods(workload: Workload, pods: Sequence[ExistingPod]) -> tuple[list[PodSpec], int]:
    """Return the pods added to the ReplicaSets of a Deployment scaled during a rollout.

    The two results are the specs of new pods of former templates, and the growth of the current
    ReplicaSet (negative: to remove).
    """
    former_specs: list[PodSpec] = []
    current_growth = 0
    for pod_set, target_count in _compute_template_sizes(workload, pods):
        growth = target_count - len(pod_set.pods)
        if pod_set.is_current:
            current_growth = growth
        else:
            # The spec is equal for all pods of the set.
            spec = pod_set.pods[0].spec
            # None if negative.
            former_specs += [spec] * growth
    return former_specs, current_growth


def find_stuck_number(progress: WorkloadProgress) -> int:
    """Return the lowest ordinal of the stuck pods of an ordered workload.

    Stuck pods are not ready and do not start. Return NONE_STUCK, above all ordinals,
    for other workloads and without a stuck pod. An ordered workload is a StatefulSet
    with podManagementPolicy OrderedReady.
    """
    if not progress.workload.is_ordered:
        return NONE_STUCK
    pods = (*progress.kept_pods, *progress.outdated_pods)
    return min(list_numbers(select_stuck_pods(pods)), default=NONE_STUCK)


def drop_deferred_pods(progress: WorkloadProgress) -> None:
    """Drop the pods that an ordered StatefulSet does not create yet.

    Their number and the reason are recorded. Its controller processes the pods from the lowest
    ordinal. It creates the first missing pod and waits until it runs. Meanwhile later pods are
    not created, surplus pods are not deleted, and existing pods are kept. No pod is replaced, not
    even a Pending one of a broken template. A dropped pod with a node before the plan is recorded
    as removed. Source: kubernetes pkg/controller/statefulset/stateful_set_control.go,
    processReplica and processCondemned.
    """
    if not progress.workload.is_ordered:
        return
    waiting_numbers = [number for number, outcome in progress.outcomes.items() if not outcome.node]
    # The controller waits for the lowest of the pods without a node, failed, or not ready.
    first_blocked = min(
        [*waiting_numbers, *list_numbers(progress.failed_pods), find_stuck_number(progress)]
    )
    requested_pods = progress.pods_to_place
    progress.pods_to_place = []
    for pod in requested_pods:
        if pod.was_pending or pod.number <= first_blocked or pod.number not in waiting_numbers:
            # It exists, is the first missing pod or before it, or has a node.
            progress.pods_to_place.append(pod)
            continue
        outcome = progress.outcomes.pop(pod.number)
        progress.deferred += 1
        # It loses its node now, and is created again later.
        if pod.previous:
            removed_pod = ExistingPod(progress.workload.key, pod.number, pod.previous, outcome.spec)
            progress.removals.append((removed_pod, pod.trigger))
    progress.uncreated += progress.deferred
    if progress.deferred and not progress.rejection:
        progress.rejection = f"{progress.workload.format_pod_name(first_blocked)} must run first"
