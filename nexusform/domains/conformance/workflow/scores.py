"""Score of the answers, by system and version."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from multiprocessing import Pool
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Final

from msgspec import Struct, field

from nexusform.domains.conformance.workflow.case_answers import Answer, UnansweredCaseError
from nexusform.domains.conformance.workflow.case_files import LocatedConformanceCase

_CASES_OF_ONE_PROCESS: Final = 500  # more start other processes
_CHUNK: Final = 50  # cases sent to a process at once


class WrongCaseAnswer(Struct, frozen=True):
    """Wrong answer, or the reason for no answer."""

    place: str
    system: str
    version: str
    predicted: Any
    actual: dict[str, Any]
    reason: str = ""


class SystemVersionScore(Struct):
    """Decisions of one version of a system, the number predicted right, and of those without an answer."""

    decisions: int = 0
    right: int = 0
    errors: int = 0

    @property
    def wrong(self) -> int:
        """Number of wrong answers."""
        return self.decisions - self.right - self.errors


class ConformanceScore(Struct):
    """Scores by system and version, and all wrong answers."""

    systems: dict[tuple[str, str], SystemVersionScore] = field(default_factory=dict)
    wrong: list[WrongCaseAnswer] = field(default_factory=list)


def score_conformance_cases(cases: Iterable[LocatedConformanceCase], answer: Answer) -> ConformanceScore:
    """Compare the answers to all cases with the decisions. Many cases are answered on all processors."""
    score = ConformanceScore()
    remaining = iter(cases)
    for item in islice(remaining, _CASES_OF_ONE_PROCESS):
        _count_case_result(score, item, *_predict_case_answer(answer, item))
    following = next(remaining, None)
    if following is None:
        return score
    with Pool(initializer=signal, initargs=(SIGINT, SIG_IGN)) as pool:
        waiting: deque[LocatedConformanceCase] = deque()

        def list_waiting() -> Iterator[LocatedConformanceCase]:
            for item in chain([following], remaining):
                waiting.append(item)
                yield item

        for predicted, reason in pool.imap(partial(_predict_case_answer, answer), list_waiting(), _CHUNK):
            _count_case_result(score, waiting.popleft(), predicted, reason)
    return score


def _predict_case_answer(answer: Answer, item: LocatedConformanceCase) -> tuple[Any, str]:
    """Return the answer to a case, or the reason for no answer."""
    try:
        return answer(item.case), ""
    except UnansweredCaseError as problem:
        return None, str(problem)


def _count_case_result(score: ConformanceScore, item: LocatedConformanceCase, predicted: Any, reason: str) -> None:
    case = item.case
    system = score.systems.setdefault((case.system, case.version), SystemVersionScore())
    system.decisions += 1
    system.errors += bool(reason)
    if not reason and case.is_right(predicted):
        system.right += 1
    else:
        score.wrong.append(WrongCaseAnswer(item.place, case.system, case.version, predicted, case.decision, reason))
