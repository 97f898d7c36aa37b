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

    @property
    def pods(self) -> int:
        """How many pods there are, old and new."""
        return len(self.remaining) + self.standing + len(self.made)

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
    missing = max(0, workload.replicas - state.standing - len(state.made))
    ahead = [pod.number for pod in state.remaining][:missing]
    while ahead or state.remaining:
        came = _make_waiting(state, place) + _make_ahead(workload, state, ahead, place)
        went = _drop_spare(session, workload, state)
        if not came and not went:
            state.stuck = True
            return


def _make_waiting(state: Rollout, place: PlacePod) -> int:
    """Try the new pods that wait once more; how many run now."""
    waiting = state.waits()
    for number in waiting:
        state.made[number] = place(number)
    return sum(bool(state.made[number].node) for number in waiting)


def _make_ahead(workload: Workload, state: Rollout, ahead: list[int], place: PlacePod) -> int:
    """Make the next new pods, as many as may be too many at once; how many those are."""
    made = 0
    while ahead and state.pods < workload.replicas + workload.max_surge:
        number = ahead.pop(0)
        state.made[number] = place(number)
        made += 1
    return made


def _drop_spare(session: Session, workload: Workload, state: Rollout) -> int:
    """Take away old pods, as many as may be too few at once; how many those are."""
    running = state.pods - len(state.waits())
    spare = max(0, running - (workload.replicas - workload.max_unavailable))
    dropped = removal_order(workload.kind, state.remaining)[:spare]
    for pod in dropped:
        _drop(session, state, pod)
    return len(dropped)


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
