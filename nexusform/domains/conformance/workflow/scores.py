"""Score of the answers, by system and version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from nexusform.domains.conformance.workflow.answers import Answer, NoAnswer
from nexusform.domains.conformance.workflow.case_files import LocatedCase


class WrongAnswer(Struct, frozen=True):
    """Wrong answer, or the reason for no answer."""

    place: str
    system: str
    version: str
    predicted: Any
    actual: dict[str, Any]
    reason: str = ""


class SystemScore(Struct):
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

    systems: dict[tuple[str, str], SystemScore] = field(default_factory=dict)
    wrong: list[WrongAnswer] = field(default_factory=list)


def score_cases(cases: Iterable[LocatedCase], answer: Answer) -> ConformanceScore:
    """Compare the answers to all cases with the decisions."""
    score = ConformanceScore()
    for item in cases:
        case = item.case
        predicted, reason = None, ""
        try:
            predicted = answer(case)
        except NoAnswer as problem:
            reason = str(problem)
        system = score.systems.setdefault((case.system, case.version), SystemScore())
        system.decisions += 1
        system.errors += bool(reason)
        if not reason and case.is_right(predicted):
            system.right += 1
        else:
            score.wrong.append(WrongAnswer(item.place, case.system, case.version, predicted, case.decision, reason))
    return score
