"""The workloads of one prediction on their way: which pods stay, which are asked for, which are not made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import forecast
from nexusform.domains.pods.scheduling.forecast import PodOutcome, Reach, WorkloadForecast
from nexusform.domains.pods.scheduling.quotas import Ledger
from nexusform.domains.pods.scheduling.rollouts import removal_order
from nexusform.domains.pods.scheduling.scaling import growth_by_share, sets_of, surplus_by_share
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec, StandingPod, Strategy, Workload


class PodToPlace(Struct, frozen=True, order=True):
    """A pod to place: its number, the only node for it (DaemonSets), where it was, why; whether it was
    Pending and since when, and the pod that took its place. `made_from`: what one that waits was made from,
    where it stays of a former template.
    """

    number: int
    pin: str = ""
    previous: str = ""
    trigger: str = forecast.NEW
    waited: bool = False
    age: int = 0
    preempted_by: str = ""
    made_from: PodSpec | None = None

    @property
    def is_new(self) -> bool:
        """Whether it was not there before, not even without a node."""
        return not self.waited and not self.previous


class Work(Struct):
    """One workload on its way: pods that stay, pods to place, what was decided. `over` are those that kubelet
    has refused for good; `hung` wait with the former template that they were made from; `grown` are outdated
    ones that got a node before the rollout began (number, whether that is certain, why); `beside`
    are daemons that wait for room beside those they replace. `spared` are pods of an ordered set that is too
    large, which go once all others run. `begun`: its turn has come.
    """

    workload: Workload
    had_pods: bool
    begun: bool = False
    keeps: list[StandingPod] = field(default_factory=list)
    outdated: list[StandingPod] = field(default_factory=list)
    beside: list[StandingPod] = field(default_factory=list)
    hung: list[PodToPlace] = field(default_factory=list)
    grown: dict[int, tuple[bool, str]] = field(default_factory=dict)
    over: list[StandingPod] = field(default_factory=list)
    spared: list[StandingPod] = field(default_factory=list)
    to_place: list[PodToPlace] = field(default_factory=list)
    gone: list[tuple[StandingPod, str]] = field(default_factory=list)
    made: dict[int, PodOutcome] = field(default_factory=dict)
    reach: Reach = field(default_factory=lambda: Reach(0, 0, exact=True))
    stuck: bool = False
    not_made: int = 0
    refused: str = ""

    @property
    def is_daemon(self) -> bool:
        """Whether its pods are bound to a node each (a DaemonSet's)."""
        return self.workload.kind == "DaemonSet"

    @property
    def growth(self) -> str:
        """Why a pod is made that was not there."""
        return forecast.SCALE_OUT if self.had_pods else forecast.NEW


def hangs(workload: Workload, pod: StandingPod) -> bool:
    """Whether a pod that no node took is of a set that its Deployment made before today's template."""
    rolls = workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING
    former = pod.spec.template != workload.pod.template
    return rolls and former and not (pod.node or pod.refused)


def as_paused(workload: Workload, pods: Sequence[StandingPod]) -> Workload:
    """A paused Deployment as its controller looks at it: it has no pods before it is let go, and then as
    many as are asked for, of the template that they have.
    """
    if not pods:
        return replace(workload, replicas=0)
    if any(pod.spec.template == workload.pod.template for pod in pods):
        return workload
    newest = max(pods, key=lambda pod: (pod.age, -pod.number))
    return replace(workload, pod=newest.spec)


def admit_new(work: Work, ledger: Ledger) -> None:
    """Leave out new pods once a quota refuses one."""
    admitted: list[PodToPlace] = []
    for pod in work.to_place:
        if pod.is_new and not work.refused:
            work.refused = work.workload.forbidden or ledger.admit(work.workload.pod)
        if not pod.is_new or not work.refused:
            admitted.append(pod)
    work.not_made = len(work.to_place) - len(admitted)
    work.to_place = admitted


def surplus_pods(
    workload: Workload, pods: Sequence[StandingPod], stands: Callable[[StandingPod], bool]
) -> list[StandingPod]:
    """The pods that a workload has too many, a StatefulSet by their ordinals."""
    if workload.kind == "StatefulSet":
        end = workload.first + workload.replicas
        return [pod for pod in pods if not workload.first <= pod.number < end]
    # Lost pods count as Pending ones: they go first.
    present = [pod if stands(pod) else replace(pod, node="") for pod in pods]
    hung = {pod.number for pod in pods if hangs(workload, pod)}
    numbers = {pod.number for pod in _beyond(workload, present, hung)}
    return [pod for pod in pods if pod.number in numbers]


def _beyond(workload: Workload, pods: Sequence[StandingPod], hung: Collection[int]) -> list[StandingPod]:
    """The pods beyond what a workload may have. It may have fewer once no outdated pod is left among them, of
    which those that are `hung` (numbers) have no node.
    """
    going: list[StandingPod] = []
    for template, count in surplus_by_share(workload, pods).items():
        of_template = [pod for pod in pods if pod.spec.template == template]
        going += removal_order(workload.kind, of_template)[: max(0, count)]
    staying = [pod for pod in pods if pod not in going]
    # However many of former templates there are, today's has no more than are asked for.
    current = [pod for pod in staying if pod.spec.template == workload.pod.template]
    too_many = max(0, len(current) - workload.replicas)
    going += removal_order(workload.kind, current)[:too_many]
    staying = [pod for pod in staying if pod not in going]
    while (count := len(staying) - _allowed(workload, staying, hung)) > 0:
        first_to_go = removal_order(workload.kind, staying)[:count]
        going += first_to_go
        staying = [pod for pod in staying if pod not in first_to_go]
    return going


def _allowed(workload: Workload, pods: Iterable[StandingPod], hung: Collection[int]) -> int:
    """How many pods a workload may have: during a rolling update some more."""
    if workload.kind != "Deployment" or workload.strategy is not Strategy.ROLLING:
        return workload.replicas
    outdated = (pod for pod in pods if pod.spec.template != workload.pod.template)
    rolling = any(pod.node or pod.number in hung for pod in outdated)
    surge = workload.max_surge if rolling else 0
    return workload.replicas + surge


def grown_first(work: Work) -> dict[int, PodSpec]:
    """The pods of former templates that a scaled Deployment gets before its rollout goes on: their numbers,
    which are taken out of what is asked for, and what each is made from.
    """
    workload = work.workload
    rolls = workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING
    if not rolls or not (work.outdated or work.hung):
        return {}
    coming = [pod for pod in work.to_place if pod.is_new]
    others = [pod for pod in work.to_place if not pod.is_new]
    # Those that lost their node are among them: they come again as pods of today's template.
    again = [StandingPod(workload.key, pod.number, "", workload.pod, pod.age) for pod in others]
    has_waited = any(pod.waited for pod in others)
    hung = [
        StandingPod(workload.key, pod.number, "", pod.made_from or workload.pod, pod.age) for pod in work.hung
    ]
    former = [*work.outdated, *hung]
    if not (work.keeps or has_waited) and len(sets_of(workload, former)) == 1:
        work.to_place = others
        return dict.fromkeys([pod.number for pod in coming], former[0].spec)
    specs, own = growth_by_share(workload, [*work.keeps, *former, *again])
    taken = [pod.number for pod in (*work.keeps, *former)]
    taken += [pod.number for pod in work.to_place]
    # A paused one makes no further pods of its own but these; otherwise the rollout goes on.
    own = own if workload.paused else 0
    spare = free_numbers(taken, workload.first, len(specs) + own)
    numbers = [*(pod.number for pod in coming), *spare][: len(specs)]
    work.to_place = [*others, *coming[len(specs) :]]
    missing = max(0, own - len(coming[len(specs) :]))
    further = [number for number in spare if number not in numbers][:missing]
    work.to_place += [PodToPlace(number, trigger=work.growth) for number in further]
    return dict(zip(numbers, specs, strict=True))


def forecast_of(work: Work, nodes: Mapping[str, Node]) -> WorkloadForecast:
    """How a workload stands in the end, and how many of its pods might run."""
    workload = work.workload
    names = [pod.node for pod in (*work.keeps, *work.outdated, *work.spared)]
    names += [outcome.node for outcome in work.made.values() if outcome.node]
    on = [nodes[name] for name in names]
    replicas = len(work.keeps) + len(work.made) if work.is_daemon else workload.replicas
    running = len(names)
    reach = work.reach
    if running < reach.least or running > reach.most:
        # Pods of other workloads that came later changed what was possible.
        reach = Reach(min(running, reach.least), max(running, reach.most), exact=False)
    return WorkloadForecast(
        workload=workload,
        replicas=replicas,
        reach=reach,
        per_machine=forecast.tally(node.machine for node in on),
        per_rack=forecast.tally(node.rack for node in on),
        stuck=work.stuck,
        not_made=work.not_made,
        refused=work.refused,
    )


def queue_order(workloads: Iterable[Workload]) -> list[Workload]:
    """DaemonSets first, then by priority, highest first; else as given (creation, then document order)."""
    return sorted(workloads, key=lambda w: (w.kind != "DaemonSet", -w.pod.priority))


def free_numbers(taken: Iterable[int], first: int, count: int) -> list[int]:
    """The lowest `count` numbers from `first` on that nobody has."""
    used = set(taken)
    free: list[int] = []
    number = first
    while len(free) < count:
        if number not in used:
            free.append(number)
        number += 1
    return free
