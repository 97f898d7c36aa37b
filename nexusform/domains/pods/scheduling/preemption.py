"""Preemption: selection of the pods to evict for a pod without a feasible node.

On every node where removals may help, all pods of lower priority are removed. If the pod fits
then, as many as possible are put back, and the others are the victims of the node. The node
with the least important victims is chosen. PodDisruptionBudgets limit the evictions. Source:
kubernetes pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption
(1.30 on); pkg/controller/disruption/disruption.go.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import (
    ExistingPod,
    PodDisruptionBudget,
    PodIdentity,
    PodSpec,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_spec_scheduler import PodSpecScheduler
from nexusform.domains.pods.scheduling.scheduler_cache import SchedulerCache
from nexusform.kubernetes.matching import is_selected
from nexusform.kubernetes.quantity import compute_amount_of_total
from nexusform.plans.maintenance import DrainObstacles
from nexusform.scheduling.placement_decision import Rejection

# The kube-scheduler stops searching at this number of candidates, in per cent of the promising
# nodes.
_CANDIDATE_PERCENT: Final = 10
_MINIMUM_CANDIDATES: Final = 100
# Added to each victim's priority before they are summed, so that more victims always weigh more.
_OFFSET: Final = 1 << 31
# Part of the key of a DaemonSet's pods.
_DAEMON_SET: Final = "/DaemonSet/"

# The pods of one node by identity.
NodePods = Mapping[PodIdentity, ExistingPod]
# Choice among several equal nodes.
TieBreak = Callable[[Sequence[int]], int]


class PreemptionVictim(Struct, frozen=True):
    """Pod evicted for `preemptor` (workload and number).

    `is_certain` means that no other pod may be evicted instead.
    """

    pod: ExistingPod
    preemptor: tuple[str, int]
    is_certain: bool = True


class PreemptionResult(Struct, frozen=True):
    """Node assigned to a pod after the eviction of its victims, the most important first.

    `is_certain` means that it was decided without a tie-break and without an unknown start time.
    `considered_nodes` are all possible winners.
    """

    node: int
    victims: tuple[ExistingPod, ...]
    is_certain: bool
    considered_nodes: tuple[int, ...]


class DisruptionAllowance(Struct, frozen=True):
    """Budget and the number of evictions it allows now."""

    budget: PodDisruptionBudget
    evictions: int


class _Candidate(Struct, frozen=True):
    # A node with its victims; `violations` of them are under a budget without allowed disruptions.
    # `is_arbitrary`: only some of several equally important pods are victims.
    node: int
    victims: tuple[ExistingPod, ...]
    violations: int
    is_arbitrary: bool

    def rank(self) -> tuple[int, ...]:
        """Return the sort key of the node; the node with the lowest key is chosen.

        The parts of the key are, in order: violated budgets, the highest priority of a victim, the
        sum of priorities, the number of victims, and late starts.
        """
        # They are sorted by importance.
        highest = self.victims[0].spec.priority
        # More victims always weigh more.
        total = sum(pod.spec.priority + _OFFSET for pod in self.victims)
        start_age = min(pod.age for pod in self.victims if pod.spec.priority == highest)
        # The latest start is best.
        return (self.violations, highest, total, len(self.victims), -start_age)


def compute_eviction_allowances(
    budgets: Sequence[PodDisruptionBudget], expected_pods: Sequence[int], cache: SchedulerCache
) -> tuple[DisruptionAllowance, ...]:
    """Return the evictions allowed by each budget with a selector.

    `expected_pods` is the number of pods by budget.
    """
    result: list[DisruptionAllowance] = []
    for budget, pods in zip(budgets, expected_pods, strict=True):
        if budget.selector.is_empty:
            # The preemption of kube-scheduler takes it as covering no pod.
            continue
        covered_groups = cache.select_groups_of_namespace(budget.selector, budget.namespace)
        healthy = sum(
            sum(group.nodes.values()) for group in covered_groups if not group.spec.is_terminating
        )
        evictions = compute_allowed_disruptions(budget, pods, healthy) - budget.withheld_disruptions
        result.append(DisruptionAllowance(budget, max(0, evictions)))
    return tuple(result)


def select_victims(
    scheduler: PodSpecScheduler,
    rejections: Mapping[int, Rejection],
    pods_by_node: Sequence[NodePods],
    allowances: Sequence[DisruptionAllowance],
    tie_break: TieBreak,
) -> PreemptionResult | None:
    """Return the node for a pod and its victims there; None if evictions help nowhere.

    `rejections` has the first reason against each node to consider (by index). As in
    kube-scheduler, the search stops at enough candidates. `tie_break` chooses among the candidates
    of the lowest rank.
    """
    # Evictions may help against missing CPU, but not against a missing label.
    promising_nodes = [
        node for node, rejection in rejections.items() if profile.can_preempt(rejection)
    ]
    candidate_limit = max(len(promising_nodes) * _CANDIDATE_PERCENT // 100, _MINIMUM_CANDIDATES)
    trial = _PreemptionTrial(scheduler, pods_by_node, allowances)
    candidates: list[_Candidate] = []
    is_exhaustive = True
    for node in promising_nodes:
        if len(candidates) >= candidate_limit and any(
            not candidate.violations for candidate in candidates
        ):
            # The kube-scheduler stops here: there are enough candidates, one without violated
            # budgets.
            is_exhaustive = False
            break
        candidate = trial.find_candidate(node)
        if candidate is not None:
            candidates.append(candidate)
    if not candidates:
        return None
    candidates_by_rank = group_by(candidates, _Candidate.rank)
    best_candidates = {
        candidate.node: candidate for candidate in candidates_by_rank[min(candidates_by_rank)]
    }
    node = tie_break(tuple(best_candidates))
    victims = best_candidates[node].victims
    # A search in another order could choose any promising node.
    if not is_exhaustive:
        return PreemptionResult(
            node, victims, is_certain=False, considered_nodes=tuple(promising_nodes)
        )
    # Chance decides between several best nodes, or between equally important pods of one node.
    is_arbitrary = len(best_candidates) > 1 or any(
        candidate.is_arbitrary for candidate in candidates
    )
    candidate_nodes = tuple([candidate.node for candidate in candidates])
    return PreemptionResult(
        node, victims, is_certain=not is_arbitrary, considered_nodes=candidate_nodes
    )


class _PreemptionTrial:
    """Trial removal of pods from a node to check whether another pod fits."""

    def __init__(
        self,
        scheduler: PodSpecScheduler,
        pods_by_node: Sequence[NodePods],
        allowances: Sequence[DisruptionAllowance],
    ) -> None:
        """Prepare trials for the next pod of `scheduler`.

        `allowances` are the evictions allowed by each budget.
        """
        self._scheduler = scheduler
        self._pods_by_node = pods_by_node
        self._allowances = allowances

    def find_candidate(self, node: int) -> _Candidate | None:
        """Return a node with the victims to remove for the pod; None if no eviction helps.

        All pods of lower priority are removed on trial. If the node is feasible then, as many as
        possible are put back.
        """
        priority = self._scheduler.group.spec.priority
        node_pods = self._pods_by_node[node].values()
        lower_priority_pods = [
            pod for pod in node_pods if pod.spec.priority < priority and not pod.is_protected
        ]
        if not lower_priority_pods:
            return None
        cache = self._scheduler.cache
        version = cache.version
        lower_priority_pods.sort(key=_rank_importance)
        for pod in lower_priority_pods:
            self._restore_or_remove_pod(pod, node, sign=-1)
        victims: list[ExistingPod] = list(lower_priority_pods)
        violations = 0
        is_feasible = self._scheduler.find_rejection(node) is None
        # As many as possible stay, first those that a budget protects.
        if is_feasible:
            violating_pods, other_pods = self._split_by_violation(lower_priority_pods)
            victims = self._select_victims(violating_pods, node)
            violations = len(victims)
            victims += self._select_victims(other_pods, node)
        for pod in victims:
            self._restore_or_remove_pod(pod, node, sign=1)
        # All pods are back, so results cached for this version stay valid.
        cache.version = version
        if not is_feasible:
            return None
        victims.sort(key=_rank_importance)
        return _Candidate(
            node,
            tuple(victims),
            violations,
            _is_victim_choice_arbitrary(lower_priority_pods, victims),
        )

    def _split_by_violation(
        self, pods: Iterable[ExistingPod]
    ) -> tuple[list[ExistingPod], list[ExistingPod]]:
        """Return the pods evicted beyond a budget, and the pods within budgets.

        Earlier pods are evicted first.
        """
        # By position of the budget.
        evictions: Counter[int] = Counter()
        violating_pods: list[ExistingPod] = []
        other_pods: list[ExistingPod] = []
        for pod in pods:
            positions = [
                at
                for at, allowance in enumerate(self._allowances)
                if has_budget(allowance.budget, pod)
            ]
            evictions.update(positions)
            is_violating = any(evictions[at] > self._allowances[at].evictions for at in positions)
            (violating_pods if is_violating else other_pods).append(pod)
        return violating_pods, other_pods

    def _restore_or_remove_pod(self, pod: ExistingPod, node: int, sign: int) -> None:
        """Put a pod back on its node (sign 1) or remove it (sign -1), and update the counters."""
        self._scheduler.move_pod(self._scheduler.cache.get_group(pod.spec), node, sign)

    def _select_victims(self, pods: Sequence[ExistingPod], node: int) -> list[ExistingPod]:
        """Put back each pod if the pod to place still fits on the node then, and return the others.

        The others are the victims.
        """
        victims: list[ExistingPod] = []
        for pod in pods:
            self._restore_or_remove_pod(pod, node, sign=1)
            if self._scheduler.find_rejection(node) is not None:
                self._restore_or_remove_pod(pod, node, sign=-1)
                victims.append(pod)
        return victims


def _rank_importance(pod: ExistingPod) -> tuple[int, int, str, int]:
    """Return the sort key of a pod: the higher priority first, then the earlier start.

    The rest of the key breaks ties.
    """
    return (-pod.spec.priority, pod.age, pod.workload, pod.number)


def _is_victim_choice_arbitrary(
    lower_priority_pods: Sequence[ExistingPod], victims: Sequence[ExistingPod]
) -> bool:
    """Return whether other victims were possible.

    They were if some pods stay that are equal in priority and age, but not in template.
    """
    rank_pod = attrgetter("spec.priority", "age")
    victims_by_rank = group_by(victims, rank_pod)
    pods_by_rank = group_by(lower_priority_pods, rank_pod)
    for rank, own_victims in victims_by_rank.items():
        templates = {(pod.workload, pod.spec.template) for pod in pods_by_rank[rank]}
        if len(templates) > 1 and len(own_victims) < len(pods_by_rank[rank]):
            return True
    return False


def compute_allowed_disruptions(budget: PodDisruptionBudget, pods: int, healthy: int) -> int:
    """Return how many pods of the budget may be evicted now; negative if it is violated already.

    Per cents of `pods`, the expected number of pods, are rounded up as in Kubernetes.
    """
    if budget.min_available:
        return healthy - compute_amount_of_total(budget.min_available, pods)
    return healthy - (pods - compute_amount_of_total(budget.max_unavailable, pods))


def is_pod_covered(budget: PodDisruptionBudget, pod: PodSpec) -> bool:
    """Return whether a budget covers a pod."""
    return budget.namespace == pod.namespace and is_selected(budget.selector, dict(pod.labels))


def select_covered_pods(
    budget: PodDisruptionBudget, pods: Iterable[ExistingPod]
) -> list[ExistingPod]:
    """Return the pods covered by a budget."""
    return [pod for pod in pods if is_pod_covered(budget, pod.spec)]


def has_budget(budget: PodDisruptionBudget, pod: ExistingPod) -> bool:
    """Return whether a budget covers a pod and has not been charged for its eviction yet."""
    return budget.name not in pod.charged_budgets and is_pod_covered(budget, pod.spec)


def count_expected_pods(
    budget: PodDisruptionBudget,
    workloads: Iterable[Workload],
    unmanaged_pods: Iterable[ExistingPod],
) -> int:
    """Count the pods expected by a budget.

    The replicas of its workloads (DaemonSets have none) and unmanaged pods.
    """
    expected_count = len(select_covered_pods(budget, unmanaged_pods))
    for workload in workloads:
        if workload.kind != "DaemonSet" and is_pod_covered(budget, workload.pod):
            expected_count += workload.replicas
    return expected_count


class EvictionLimits(Struct, frozen=True):
    """Effect of budgets on the evictions of a drain.

    `violations` are sentences about the violated budgets by `NAMESPACE/NAME`, `pods_at_once` is the
    number of pods evicted at once, `budgets` are those that limit an eviction.
    """

    violations: Mapping[str, str]
    pods_at_once: int
    budgets: tuple[PodDisruptionBudget, ...]


def compute_eviction_limits(
    budgets: Sequence[PodDisruptionBudget],
    existing_pods: Sequence[ExistingPod],
    drained_pods: Iterable[ExistingPod],
    pods_without_node: int = 0,
) -> EvictionLimits:
    """Return the effect of budgets on the eviction of some pods.

    A budget is violated if it allows no eviction, or fewer than `pods_without_node`, the evicted
    pods without another node. Other budgets only make later pods wait for ready replacements. A
    drain evicts no pods of DaemonSets: they stop with their node.
    """
    evicted_pods = [pod for pod in drained_pods if _DAEMON_SET not in pod.workload]
    violations: dict[str, str] = {}
    pods_at_once = len(evicted_pods)
    applied_budgets: list[PodDisruptionBudget] = []
    for budget, allowed in list_applied_budgets(budgets, evicted_pods, existing_pods):
        applied_budgets.append(budget)
        name = f"{budget.namespace}/{budget.name}"
        if allowed <= 0:
            violations[name] = (
                f"{_describe_budget(budget)} allows no disruption with the pods ready now"
            )
            if any(sum(has_budget(other, pod) for other in budgets) > 1 for pod in evicted_pods):
                violations[name] = "the eviction API rejects pods with several PodDisruptionBudgets"
        elif pods_without_node > allowed:
            violations[name] = (
                f"{_describe_budget(budget)} allows {allowed}, and {pods_without_node} pods get no "
                "other node"
            )
        elif all(has_budget(budget, pod) for pod in evicted_pods):
            # Else, the pods outside the budget do not wait.
            pods_at_once = min(pods_at_once, allowed)
    return EvictionLimits(violations, pods_at_once, tuple(applied_budgets))


def _describe_budget(budget: PodDisruptionBudget) -> str:
    """Return the limit of a budget: its maxUnavailable, or else its minAvailable."""
    if budget.max_unavailable:
        return f"maxUnavailable {budget.max_unavailable}"
    return f"minAvailable {budget.min_available}"


def find_drain_obstacles(
    budgets: Sequence[PodDisruptionBudget],
    existing_pods: Sequence[ExistingPod],
    nodes: Collection[str],
) -> DrainObstacles:
    """Return the obstacles for draining nodes.

    These are violated budgets, workloads with a single pod, and protected workloads. A
    workload is protected if a budget covers its pods alone, and does not allow to evict all
    running ones at once.
    """
    running_pods = [pod for pod in existing_pods if pod.node]
    drained_pods = [pod for pod in running_pods if pod.node in nodes]
    drained_workloads = {pod.workload for pod in drained_pods}
    running_counts = Counter(
        pod.workload for pod in running_pods if _DAEMON_SET not in pod.workload
    )
    single_replicas = [key for key in sorted(drained_workloads) if running_counts[key] == 1]
    limits = compute_eviction_limits(budgets, existing_pods, drained_pods)
    protected_workloads: set[str] = set()
    for budget in limits.budgets:
        workloads = {pod.workload for pod in select_covered_pods(budget, existing_pods)}
        if len(workloads) != 1:
            # A budget over several workloads may allow to evict one of them completely.
            continue
        running_count = len(select_covered_pods(budget, running_pods))
        # The amounts of this budget alone, also for a pod under several budgets.
        if count_allowed_disruptions(budget, existing_pods) < running_count:
            protected_workloads |= workloads & drained_workloads
    return DrainObstacles(
        tuple(limits.violations), tuple(single_replicas), tuple(sorted(protected_workloads))
    )


def count_allowed_disruptions(
    budget: PodDisruptionBudget, existing_pods: Iterable[ExistingPod]
) -> int:
    """Return how many existing pods the budget allows to evict."""
    covered_pods = select_covered_pods(budget, existing_pods)
    # With an observed status, `withheld_disruptions` accounts for unready pods.
    healthy = sum(
        bool(pod.node) and (budget.is_met is not None or pod.condition.is_ready)
        for pod in covered_pods
    )
    return (
        compute_allowed_disruptions(budget, len(covered_pods), healthy)
        - budget.withheld_disruptions
    )


def list_applied_budgets(
    budgets: Sequence[PodDisruptionBudget],
    pods: Iterable[ExistingPod],
    existing_pods: Sequence[ExistingPod],
) -> Iterator[tuple[PodDisruptionBudget, int]]:
    """Yield the budgets limiting the eviction of some of `pods`.

    Each has the number of evictions it allows now. `existing_pods` are all pods of the
    cluster. A pod under several budgets is never evicted: they allow 0. No budget limits an
    unready pod while enough others are ready, or if the budget has `evicts_unready`.
    Source: kubernetes pkg/registry/core/pod/storage/eviction.go.
    """
    # A budget does not limit pods that have not run yet.
    started_pods = [pod for pod in pods if pod.condition.phase != "Pending"]
    pods_by_budget: list[list[ExistingPod]] = []
    # Number of budgets of each pod.
    budget_counts: Counter[PodIdentity] = Counter()
    for budget in budgets:
        covered_pods = [pod for pod in started_pods if has_budget(budget, pod)]
        pods_by_budget.append(covered_pods)
        budget_counts.update(pod.identity for pod in covered_pods)
    for budget, covered_pods in zip(budgets, pods_by_budget, strict=True):
        if any(budget_counts[pod.identity] > 1 for pod in covered_pods):
            yield budget, 0
            continue
        allowed = count_allowed_disruptions(budget, existing_pods)
        # Enough pods are ready, as its controller reports.
        is_met = budget.is_met
        if is_met is None:
            # Not reported: computed from the pods.
            is_met = allowed >= 0
        limited_pods = covered_pods
        # Unready pods may be evicted without a limit.
        if is_met or budget.evicts_unready:
            limited_pods = [pod for pod in covered_pods if pod.condition.is_ready]
        if limited_pods:
            yield budget, allowed
