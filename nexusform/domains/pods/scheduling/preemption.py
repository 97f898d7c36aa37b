"""Preemption: who is evicted so that a pod that no node takes gets one.

On every node where leaving pods may help, all pods of lower priority are taken away; if the pod fits then, as
many as possible come back, and the others are the node's victims. The node whose victims matter least wins.
PodDisruptionBudgets say how many of their pods may go.
Source: kubernetes pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption (1.30 on);
pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.board import Board
from nexusform.domains.pods.scheduling.run import Run
from nexusform.domains.pods.scheduling.workloads import Budget, PodSpec, StandingPod
from nexusform.kubernetes.matching import matches
from nexusform.kubernetes.quantity import amount_of
from nexusform.scheduling.decision import Refusal

# kube-scheduler stops searching once it has so many candidates, in hundredths of the nodes that may help.
_SHARE: Final = 10
_LEAST: Final = 100
# Added to each victim's priority before they are summed, so that more victims always weigh more.
_OFFSET: Final = 1 << 31

# The pods of one node, by what tells them apart.
Residents = Mapping[tuple[str, int, str], StandingPod]
# Which of several equal nodes kube-scheduler would draw.
Lot = Callable[[Sequence[int]], int]


class Eviction(Struct, frozen=True):
    """A pod that makes room for another one: `by` is its workload and number."""

    pod: StandingPod
    by: tuple[str, int]


class Preemption(Struct, frozen=True):
    """The node that a pod gets once its victims have left, the most important first.

    `certain`: no lot and no start time that nobody knows decided. `considered` are all nodes with victims.
    """

    node: int
    victims: tuple[StandingPod, ...]
    certain: bool
    considered: tuple[int, ...]


class Allowance(Struct, frozen=True):
    """A budget and how many of its pods it lets go now."""

    budget: Budget
    evictions: int


class _Candidate(Struct, frozen=True):
    # A node with the pods that would have to leave it; `violations` of them are under a budget that
    # lets none go. `by_chance`: of pods equally important some stay and some go.
    node: int
    victims: tuple[StandingPod, ...]
    violations: int
    by_chance: bool

    def rank(self) -> tuple[int, ...]:
        """The lowest wins."""
        highest = self.victims[0].spec.priority
        total = sum(pod.spec.priority + _OFFSET for pod in self.victims)
        started = min(pod.age for pod in self.victims if pod.spec.priority == highest)
        return (self.violations, highest, total, len(self.victims), -started)


def allowances(budgets: Sequence[Budget], expected: Sequence[int], board: Board) -> tuple[Allowance, ...]:
    """What budgets let go as the board stands; `expected` pods belong under each. One without any selector
    protects nobody from preemption.
    """
    allowed: list[Allowance] = []
    for budget, pods in zip(budgets, expected, strict=True):
        if not (budget.selector.match_labels or budget.selector.match_expressions):
            continue
        covered = board.selected(budget.selector, budget.namespace)
        healthy = sum(sum(group.nodes.values()) for group in covered if not group.spec.terminating)
        evictions = allowed_disruptions(budget, pods, healthy) - budget.withheld
        allowed.append(Allowance(budget, max(0, evictions)))
    return tuple(allowed)


def preempt(
    run: Run,
    refusals: Mapping[int, Refusal],
    residents: Sequence[Residents],
    allowed: Sequence[Allowance],
    lot: Lot,
) -> Preemption | None:
    """Which node a pod gets, and whose place it takes there; None where evicting helps nowhere.

    `refusals` says why each node that the pod might use refuses it. The board is as before afterwards.
    """
    promising = [node for node, refusal in refusals.items() if profile.may_be_cured(refusal)]
    enough = max(len(promising) * _SHARE // 100, _LEAST)
    trial = _Trial(run, residents, allowed)
    candidates: list[_Candidate] = []
    looked_at = 0
    for node in promising:
        if len(candidates) >= enough and any(not candidate.violations for candidate in candidates):
            break
        looked_at += 1
        candidate = trial.candidate(node)
        if candidate is not None:
            candidates.append(candidate)
    if not candidates:
        return None
    least = min(candidate.rank() for candidate in candidates)
    best = {candidate.node: candidate for candidate in candidates if candidate.rank() == least}
    all_seen = looked_at == len(promising)
    by_chance = len(best) > 1 or any(candidate.by_chance for candidate in candidates)
    node = lot(tuple(best))
    considered = tuple(candidate.node for candidate in candidates) if all_seen else tuple(promising)
    return Preemption(node, best[node].victims, all_seen and not by_chance, considered)


class _Trial:
    """Takes pods off a node and puts them back, to see whether another one fits meanwhile."""

    def __init__(self, run: Run, residents: Sequence[Residents], allowed: Sequence[Allowance]) -> None:
        self._run = run
        self._residents = residents
        self._allowed = allowed
        self._follows = run.counts.refuse

    def candidate(self, node: int) -> _Candidate | None:
        """The victims of a node, None where there are none or where they would not be enough."""
        priority = self._run.group.spec.priority
        residents = self._residents[node].values()
        lower = [pod for pod in residents if pod.spec.priority < priority and not pod.stays]
        if not lower:
            return None
        board = self._run.board
        version = board.version
        lower.sort(key=_importance)
        for pod in lower:
            self._shift(pod, node, -1)
        victims: list[StandingPod] = list(lower)
        violations = 0
        fits = self._run.refusal(node) is None
        if fits:
            violating, not_violating = self._by_budget(lower)
            victims = self._not_reprieved(violating, node)
            violations = len(victims)
            victims += self._not_reprieved(not_violating, node)
        for pod in victims:
            self._shift(pod, node, 1)
        board.version = version
        if not fits:
            return None
        victims.sort(key=_importance)
        return _Candidate(node, tuple(victims), violations, _by_chance(lower, victims))

    def _shift(self, pod: StandingPod, node: int, sign: int) -> None:
        """Put a pod back on its node (sign 1) or take it off (sign -1); counters of the run follow."""
        group = self._run.board.group(pod.spec)
        self._run.board.place(group, node, sign)
        if self._follows:
            self._run.counts.shift(group, node, sign)

    def _not_reprieved(self, pods: Sequence[StandingPod], node: int) -> list[StandingPod]:
        """Put pods back one by one, as long as the other one still fits; those for which it does not."""
        victims: list[StandingPod] = []
        for pod in pods:
            self._shift(pod, node, 1)
            if self._run.refusal(node) is not None:
                self._shift(pod, node, -1)
                victims.append(pod)
        return victims

    def _by_budget(self, pods: Sequence[StandingPod]) -> tuple[list[StandingPod], list[StandingPod]]:
        """Pods that a budget would not let go after those before them, and the others."""
        evictions_left = [allowance.evictions for allowance in self._allowed]
        violating: list[StandingPod] = []
        not_violating: list[StandingPod] = []
        for pod in pods:
            violated = False
            for at, allowance in enumerate(self._allowed):
                if holds(allowance.budget, pod):
                    evictions_left[at] -= 1
                    violated = violated or evictions_left[at] < 0
            (violating if violated else not_violating).append(pod)
        return violating, not_violating


def _importance(pod: StandingPod) -> tuple[int, int, str, int]:
    # Higher priority first, then who started earlier; of the rest nobody can tell.
    return (-pod.spec.priority, pod.age, pod.workload, pod.number)


def _by_chance(lower: Sequence[StandingPod], victims: Sequence[StandingPod]) -> bool:
    """Whether pods of several workloads or templates are equally important, and some go and some stay."""
    going = {id(pod) for pod in victims}
    fates: dict[tuple[int, int], set[bool]] = {}
    kinds: dict[tuple[int, int], set[tuple[str, str]]] = {}
    for pod in lower:
        key = (pod.spec.priority, pod.age)
        fates.setdefault(key, set()).add(id(pod) in going)
        kinds.setdefault(key, set()).add((pod.workload, pod.spec.template))
    return any(len(fates[key]) > 1 and len(kinds[key]) > 1 for key in fates)


def allowed_disruptions(budget: Budget, pods: int, healthy: int) -> int:
    """How many of the budget's pods may be evicted now; below 0 when it is broken already.

    Per cents of `pods`, the pods that there should be, are rounded up (as Kubernetes does).
    """
    if budget.min_available:
        return healthy - amount_of(budget.min_available, pods)
    return healthy - (pods - amount_of(budget.max_unavailable or "0", pods))


def covers(budget: Budget, pod: PodSpec) -> bool:
    """Whether a budget speaks of a pod."""
    return budget.namespace == pod.namespace and matches(budget.selector, dict(pod.labels))


def holds(budget: Budget, pod: StandingPod) -> bool:
    """Whether a budget has a say in whether a pod goes; it has not once it has let it go."""
    return budget.name not in pod.let_go and covers(budget, pod.spec)


def always_up(budgets: Iterable[Budget], standing: Sequence[StandingPod]) -> set[str]:
    """The workloads of which a budget of their own keeps a pod up while others are evicted."""
    kept: set[str] = set()
    for budget in budgets:
        covered = [pod for pod in standing if covers(budget, pod.spec)]
        workloads = {pod.workload for pod in covered}
        healthy = sum(bool(pod.node) for pod in covered)
        if len(workloads) == 1 and (allowed_now(budget, standing) or 0) < healthy:
            kept |= workloads
    return kept


def allowed_now(budget: Budget, standing: Iterable[StandingPod]) -> int | None:
    """How many of the pods that stand the budget lets go; None when it covers none of them."""
    covered = [pod for pod in standing if covers(budget, pod.spec)]
    if not covered:
        return None
    healthy = sum(bool(pod.node) for pod in covered)
    return allowed_disruptions(budget, len(covered), healthy) - budget.withheld
