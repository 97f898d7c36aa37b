"""What a workload does to its pods when its template changes (`Rollout`), and who goes when it shrinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct, field

from nexusform.scheduling.pods.session import Session, Verdict
from nexusform.scheduling.pods.workloads import StandingPod, Strategy, Workload

PlacePod = Callable[[int], Verdict]


class Rollout(Struct):
    """How far a replacement got: old pods that remain, old ones that went, new ones by number.

    `made` begins with the new pods that were just decided; `standing` counts those that stood before.
    `stuck`: it waits for a pod that cannot be placed.
    """

    remaining: list[StandingPod]
    made: dict[int, Verdict]
    standing: int = 0
    gone: list[StandingPod] = field(default_factory=list)
    stuck: bool = False

    def lose(self, victims: Collection[StandingPod]) -> None:
        """Old pods that were evicted are gone as if they had been replaced."""
        lost = [pod for pod in self.remaining if pod in victims] if victims else []
        self.remaining = [pod for pod in self.remaining if pod not in lost]
        self.gone += lost

    def waits(self) -> list[int]:
        """Numbers of new pods that no node takes."""
        return [number for number, verdict in self.made.items() if not verdict.node]


def replace_pods(session: Session, workload: Workload, state: Rollout) -> None:
    """Replace pods of an older template by new ones of the same numbers, as the kind does it."""

    def place(number: int) -> Verdict:
        verdict = session.place(workload.pod, workload.key, number)
        state.lose(verdict.victims)
        return verdict

    if workload.kind == "ReplicaSet" or workload.strategy is Strategy.ON_DELETE:
        return
    if workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING:
        _surging(session, workload, state, place)
    elif workload.kind == "StatefulSet":
        _one_by_one(session, workload, state, place)
    else:
        _all_at_once(session, state, place)


def _all_at_once(session: Session, state: Rollout, place: PlacePod) -> None:
    numbers = [pod.number for pod in state.remaining]
    for pod in list(state.remaining):
        _drop(session, state, pod)
    for number in numbers:
        state.made[number] = place(number)


def _one_by_one(session: Session, workload: Workload, state: Rollout, place: PlacePod) -> None:
    """Highest ordinal first; the next one waits until the new pod runs."""
    for pod in sorted(state.remaining, key=lambda pod: -pod.number):
        if pod.number < workload.partition:
            return
        if state.waits():
            state.stuck = True
            return
        _drop(session, state, pod)
        state.made[pod.number] = place(pod.number)
    state.stuck = bool(state.waits())


def _surging(session: Session, workload: Workload, state: Rollout, place: PlacePod) -> None:
    """Deployment: at most `max_surge` pods too many, at most `max_unavailable` too few."""
    replicas = workload.replicas
    missing = max(0, replicas - state.standing - len(state.made))
    ahead = [pod.number for pod in state.remaining][:missing]
    while ahead or state.remaining:
        moved = False
        for number in state.waits():
            state.made[number] = place(number)
            moved = moved or bool(state.made[number].node)
        while (
            ahead and len(state.remaining) + state.standing + len(state.made) < replicas + workload.max_surge
        ):
            number = ahead.pop(0)
            state.made[number] = place(number)
            moved = True
        running = state.standing + len(state.made) - len(state.waits())
        spare = len(state.remaining) + running - (replicas - workload.max_unavailable)
        for pod in removal_order(workload.kind, state.remaining)[: max(0, spare)]:
            _drop(session, state, pod)
            moved = True
        if not moved:
            state.stuck = True
            return


def removal_order(kind: str, pods: Sequence[StandingPod]) -> list[StandingPod]:
    """Who goes first when a workload shrinks.

    A StatefulSet loses its highest ordinals. A ReplicaSet loses Pending pods, then those on nodes with
    most of its pods (as they stand before anything goes), then the newest.
    """
    if kind == "StatefulSet":
        return sorted(pods, key=lambda pod: -pod.number)
    company = Counter(pod.node for pod in pods if pod.node)
    return sorted(pods, key=lambda pod: (bool(pod.node), -company[pod.node], -pod.age, -pod.number))


def _drop(session: Session, state: Rollout, pod: StandingPod) -> None:
    session.remove(pod)
    state.remaining.remove(pod)
    state.gone.append(pod)
