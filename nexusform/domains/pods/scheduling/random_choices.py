"""Random choices of a prediction, and repetitions of one prediction with other choices.

A prediction is random only in the answers to the questions of `RandomChoices`. So two
repetitions from the same facts about the cluster, in which each question gets the same answer,
have the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from hashlib import blake2b
from typing import Any, Generic, TypeAlias, TypeVar
from zlib import crc32

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import DEFAULT_SEED, PodKey, Workload
from nexusform.domains.pods.scheduling.pod_orders import QUEUE_ORDER, ArrivalOrder


class RandomFacts(Struct, frozen=True):
    """What answers the questions of one repetition.

    `seed` decides ties and the ages of new pods, `arrival` the order of new pods. By
    `timing`, removed pods free their capacity at once (0), later (1), or as in the sample of
    this number (from 2).
    """

    seed: int = DEFAULT_SEED
    arrival: ArrivalOrder = QUEUE_ORDER
    timing: int = 0


_Answer = TypeVar("_Answer", bound=Hashable)
_Value = TypeVar("_Value")
# It depends on the facts and on immutable arguments alone.
_Question: TypeAlias = Callable[[RandomFacts], Hashable]


class RandomChoices:
    """Answers to the questions of one prediction."""

    def __init__(self, facts: RandomFacts = RandomFacts()) -> None:  # noqa: B008 - immutable
        """Answer all questions by the same facts."""
        self._facts = facts

    def ask(self, question: Callable[[RandomFacts], _Answer]) -> _Answer:
        """Return the answer to a question."""
        return question(self._facts)


class _RecordedChoices(RandomChoices):
    """Answers with their questions in `path`, which takes memory for each pod."""

    def __init__(self, facts: RandomFacts) -> None:
        super().__init__(facts)
        self.path: list[tuple[_Question, Hashable]] = []

    def ask(self, question: Callable[[RandomFacts], _Answer]) -> _Answer:
        answer = super().ask(question)
        self.path.append((question, answer))
        return answer


class _Result(Struct):
    """End of a sequence of answers."""

    value: Any


class _AskedQuestion(Struct):
    """Question in the tree of repetitions, and what follows each of its answers so far."""

    question: _Question
    followers: dict[Hashable, _AskedQuestion | _Result]


class RepeatedPrediction(Generic[_Value]):
    """Repetitions of one prediction: computed once for each sequence of answers.

    The questions form a tree, because the next question follows from the answers before it.
    """

    def __init__(self, predict: Callable[[RandomChoices], _Value]) -> None:
        """Start without a result; `predict` asks its choices for all that is random."""
        self._predict = predict
        # What follows the start (None): the first question, or the only result.
        self._start: dict[Hashable, _AskedQuestion | _Result] = {}

    def repeat(self, facts: RandomFacts) -> _Value:
        """Return the result of a repetition."""
        follower = self._start.get(None)
        while isinstance(follower, _AskedQuestion):
            follower = follower.followers.get(follower.question(facts))
        if follower is None:
            choices = _RecordedChoices(facts)
            follower = _Result(self._predict(choices))
            self._add(choices.path, follower)
        value: _Value = follower.value
        return value

    def _add(self, path: Iterable[tuple[_Question, Hashable]], result: _Result) -> None:
        """Add a result below its questions and their answers."""
        followers = self._start
        answer: Hashable = None
        for question, next_answer in path:
            asked = followers.setdefault(answer, _AskedQuestion(question, {}))
            assert isinstance(asked, _AskedQuestion)  # a result ends its sequence of answers
            followers, answer = asked.followers, next_answer
        followers[answer] = result


# Questions. Their arguments are immutable; the last one is the facts of the repetition.


def follows_queue(facts: RandomFacts) -> bool:
    """Return whether pods arrive workload by workload in the order of the queue."""
    return facts.arrival == QUEUE_ORDER


def select_next_workload(counts: tuple[tuple[str, int], ...], facts: RandomFacts) -> str:
    """Return the workload of the next pod; `counts` are of arrived pods, -1 before the start."""
    return facts.arrival.select_next_workload(dict(counts))


def order_pods(
    workload: Workload, numbers: tuple[int, ...], facts: RandomFacts
) -> tuple[tuple[int, int], ...]:
    """Return the number and the position of each pod of a workload in the order of arrival."""
    return tuple(facts.arrival.compute_positions(workload, numbers).items())


def has_fast_replacements(facts: RandomFacts) -> bool:
    """Return whether evicted pods are replaced before the next pod arrives."""
    return facts.arrival.has_fast_replacements


def has_slow_victims(facts: RandomFacts) -> bool:
    """Return whether evicted pods hold their capacity until all other pods have arrived."""
    return facts.arrival.has_slow_victims


def draw_extra_age(pod: PodKey, facts: RandomFacts) -> int:
    """Return the random part of the age of a new pod: kubelets start pods in any order."""
    if follows_queue(facts):
        return 0
    workload, number = pod
    return blake2b(f"{facts.seed}|{workload}|{number}".encode(), digest_size=1).digest()[0]


def terminates_slowly(pod: PodKey, facts: RandomFacts) -> bool:
    """Return whether a removed pod still holds its capacity.

    By `timing`, none do (0, and odd numbers from 3), all (1), or a random half (even
    numbers from 2).
    """
    if facts.timing <= 1 or facts.timing % 2:
        return facts.timing == 1
    workload, number = pod
    text = f"{facts.timing}|{workload}|{number}"
    return bool(blake2b(text.encode(), digest_size=1).digest()[0] & 1)


def replaces_one_pod(workload: str, removed: int, created: int, facts: RandomFacts) -> bool:
    """Return whether the next round of a rollout replaces one pod only.

    It does in half of the rounds of a timing sample.
    """
    text = f"{facts.timing}|{workload}|{removed}|{created}"
    return facts.timing > 1 and bool(crc32(text.encode()) % 2)


def select_by_digest(prefix: str, names: tuple[bytes, ...], facts: RandomFacts) -> int:
    """Return the index of the name with the lowest digest of `seed|prefix|name`."""
    copy = blake2b(f"{facts.seed}|{prefix}|".encode(), digest_size=8).copy
    digests = []
    for name in names:
        candidate = copy()
        candidate.update(name)
        digests.append(candidate.digest())
    return digests.index(min(digests))


def shuffle_slices(node: str, names: tuple[str, ...], facts: RandomFacts) -> tuple[str, ...]:
    """Return the names of the device slices of a node in the order of their search."""

    def draw_rank(name: str) -> bytes:
        return blake2b(f"{facts.seed}|{node}|{name}".encode(), digest_size=8).digest()

    return tuple(sorted(names, key=draw_rank))
