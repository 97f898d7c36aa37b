"""What a workload does to its pods when its template changes (`Rollout`), and who goes when it shrinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.quotas import Ledger
from nexusform.domains.pods.scheduling.session import Session, Verdict
from nexusform.domains.pods.scheduling.workloads import (
    DEFAULT_SEED,
    Cluster,
    Pairs,
    PodSpec,
    PodTerm,
    SpreadConstraint,
    StandingPod,
    Strategy,
    Workload,
)
from nexusform.kubernetes.matching import LabelSelector

# The label that tells pods of a Deployment's templates apart, and what no template has there.
TEMPLATE_KEY: Final = "pod-template-hash"
_ANOTHER: Final = "another"


class Rollout(Struct):
    """How far a replacement got: old pods that remain, old ones that went, new ones by number.

    `made` begins with the new pods that were just decided; `standing` counts those that stood before.
    `stuck`: it waits for a pod that cannot be placed, or for `unmade` ones that are `refused`. `further`:
    numbers of new ones that replace nobody. `hung` are old ones that no node takes, by number.
    """

    remaining: list[StandingPod]
    made: dict[int, Verdict]
    standing: int = 0
    gone: list[StandingPod] = field(default_factory=list)
    stuck: bool = False
    unmade: int = 0
    refused: str = ""
    further: list[int] = field(default_factory=list)
    hung: dict[int, PodSpec] = field(default_factory=dict)

    def lose(self, victims: Collection[StandingPod]) -> list[StandingPod]:
        """Old pods that were evicted are gone as if they had been replaced; which ones these are."""
        lost = [pod for pod in self.remaining if pod in victims] if victims else []
        self.remaining = [pod for pod in self.remaining if pod not in lost]
        self.gone += lost
        return lost

    @property
    def pods(self) -> int:
        """How many pods there are, old and new."""
        return len(self.remaining) + len(self.hung) + self.standing + len(self.made)

    def waits(self) -> list[int]:
        """Numbers of new pods that no node takes."""
        return [number for number, verdict in self.made.items() if not verdict.node]


def replace_pods(session: Session, workload: Workload, state: Rollout, ledger: Ledger) -> None:
    """Replace pods of an older template by new ones of the same numbers, as the kind does it."""
    if workload.kind == "ReplicaSet" or workload.strategy is Strategy.ON_DELETE:
        return
    replacement = _Replacement(session, workload, state, ledger)
    if workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING:
        replacement.surging()
    elif workload.kind == "StatefulSet":
        replacement.one_by_one()
    else:
        replacement.all_at_once()


class _Replacement(Struct, frozen=True):
    """One workload that replaces its pods, among the others on its cluster."""

    session: Session
    workload: Workload
    state: Rollout
    ledger: Ledger

    def all_at_once(self) -> None:
        """Every pod goes before the first new one comes."""
        state = self.state
        numbers = [pod.number for pod in state.remaining]
        for pod in list(state.remaining):
            self._drop(pod)
        state.unmade = sum([not self._make(number) for number in numbers])

    def one_by_one(self) -> None:
        """Highest ordinal first; the next one waits until the new pod runs."""
        state = self.state
        for pod in sorted(state.remaining, key=lambda pod: -pod.number):
            if pod.number < self.workload.partition:
                return
            if state.waits() or state.unmade:
                state.stuck = True
                return
            self._drop(pod)
            state.unmade = int(not self._make(pod.number))
        state.stuck = bool(state.waits() or state.unmade)

    def surging(self) -> None:
        """Deployment: at most `max_surge` pods too many, at most `max_unavailable` too few."""
        state = self.state
        missing = max(0, self.workload.replicas - state.standing - len(state.made))
        ahead = [*state.hung, *(pod.number for pod in state.remaining), *state.further][:missing]
        while ahead or state.remaining or state.hung:
            came = self._place_waiting() + self._make_ahead(ahead)
            went = self._drop_spare() + self._clean_up()
            if not came and not went:
                state.stuck = True
                return

    def _place_waiting(self) -> int:
        """Try the new pods that wait once more; how many run now."""
        waiting = self.state.waits()
        for number in waiting:
            self._place(number)
        return sum(bool(self.state.made[number].node) for number in waiting)

    def _make_ahead(self, ahead: list[int]) -> int:
        """Make the next new pods, as many as may be too many at once and are admitted; how many those are."""
        state, most = self.state, self.workload.replicas + self.workload.max_surge
        count = 0
        state.unmade = 0
        while ahead and state.pods < most:
            if not self._make(ahead[0]):
                state.unmade = min(len(ahead), most - state.pods)
                break
            ahead.pop(0)
            count += 1
        return count

    def _drop_spare(self) -> int:
        """Take away old pods, as many as may be too few at once; how many those are."""
        workload, state = self.workload, self.state
        running = state.pods - len(state.waits()) - len(state.hung)
        spare = max(0, running - (workload.replicas - workload.max_unavailable))
        dropped = removal_order(workload.kind, state.remaining)[:spare]
        for pod in dropped:
            self._drop(pod)
        return len(dropped)

    def _clean_up(self) -> int:
        """Take away old pods that no node takes, as many as may be too few beside the new ones that wait; how
        many those are.
        """
        workload, state = self.workload, self.state
        least = workload.replicas - workload.max_unavailable
        spare = max(0, state.pods - least - len(state.waits()))
        going = list(state.hung)[:spare]
        for number in going:
            self.ledger.release(state.hung.pop(number))
        return len(going)

    def _make(self, number: int) -> bool:
        """Whether a new pod is made; it gets a node if there is one."""
        refused = self.workload.forbidden or self.ledger.admit(self.workload.pod)
        if refused:
            self.state.refused = refused
            return False
        self._place(number)
        return True

    def _place(self, number: int) -> None:
        """Place a new pod; old ones that are evicted for it are gone."""
        verdict = self.session.place(self.workload.pod, self.workload.key, number)
        for pod in self.state.lose(verdict.victims):
            self.ledger.release(pod.spec)
        self.state.made[number] = verdict

    def _drop(self, pod: StandingPod) -> None:
        """Take an old pod away."""
        self.session.remove(pod)
        self.ledger.release(pod.spec)
        self.state.remaining.remove(pod)
        self.state.gone.append(pod)


class NextRollout:
    """Whether new pods would find room beside all that stands, were some template to change."""

    def __init__(self, cluster: Cluster, standing: Sequence[StandingPod]) -> None:
        self._cluster = cluster
        self._standing = standing
        # Most are never asked for.
        self._session: Session | None = None
        self._ledger = Ledger(cluster.quotas)

    def hindrance(self, workload: Workload) -> str:
        """Why a workload gets no pod of another template beside those it has, "" when it does or may."""
        if self._session is None:
            self._session = Session(self._cluster, self._standing, DEFAULT_SEED)
            for pod in self._standing:
                self._ledger.book(pod.spec)
        refused = self._ledger.refusal(workload.pod)
        if refused:
            return refused
        return self._session.hindrance(_next_template(workload.pod), workload.first + workload.replicas)


def _next_template(spec: PodSpec) -> PodSpec:
    """A pod of another template that asks for the same: filters read another hash of it."""
    return replace(
        spec,
        template=_ANOTHER,
        labels=_of_another(spec.labels),
        affinity=_beside_another(spec.affinity),
        anti_affinity=_beside_another(spec.anti_affinity),
        spread=_beside_another(spec.spread),
    )


_Rule = TypeVar("_Rule", PodTerm, SpreadConstraint)


def _beside_another(rules: Sequence[_Rule]) -> tuple[_Rule, ...]:
    """Terms or constraints as another template has them."""
    return tuple(replace(rule, selector=_with_another(rule.selector)) for rule in rules)


def _with_another(selector: LabelSelector | None) -> LabelSelector | None:
    """A selector as it reads when a template asks for its own hash: for that of another template."""
    if selector is None:
        return None
    expressions = tuple(
        replace(requirement, values=(_ANOTHER,)) if requirement.key == TEMPLATE_KEY else requirement
        for requirement in selector.match_expressions
    )
    return LabelSelector(_of_another(selector.match_labels), expressions)


def _of_another(labels: Pairs) -> Pairs:
    """Labels with the template hash of another template."""
    return tuple((key, _ANOTHER if key == TEMPLATE_KEY else value) for key, value in labels)


def removal_order(kind: str, pods: Sequence[StandingPod]) -> list[StandingPod]:
    """Who goes first when a workload shrinks.

    A StatefulSet loses its highest ordinals. A ReplicaSet loses Pending pods, then those on nodes with
    most of its pods (as they stand before anything goes), then the newest.
    """
    if kind == "StatefulSet":
        return sorted(pods, key=lambda pod: -pod.number)
    company = Counter(pod.node for pod in pods if pod.node)
    return sorted(pods, key=lambda pod: (bool(pod.node), -company[pod.node], -pod.age, -pod.number))
