"""expect_failures of a run block: which failed conditions were meant to fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity, error
from nexusform.language.syntax import Traversal, TraverseAttribute
from nexusform.planning.instances.conditions import PROBLEMS

_FAILURES = frozenset(PROBLEMS.values())
_KEY = re.compile(r'\["(?:[^"\\]|\\.)*"\]|\[\d+\]')


def without_expected(
    expected: Sequence[Traversal], found: Iterable[Diagnostic], header: str
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The problems that were not meant to be, and one for everything that failed to fail.

    A failed check block that was not expected is an error here.
    """
    wanted = {_text(traversal): traversal for traversal in expected}
    met: set[str] = set()
    remaining: list[Diagnostic] = []
    for problem in found:
        names = _names(problem) & set(wanted)
        if names:
            met |= names
        elif problem.id == PROBLEMS["check"]:
            remaining.append(replace(problem, severity=Severity.ERROR))
        else:
            remaining.append(problem)
    return remaining, [_missing(name, t, header) for name, t in wanted.items() if name not in met]


def _names(problem: Diagnostic) -> set[str]:
    """How a failed condition may be named: its address with and without instance keys."""
    if problem.id not in _FAILURES or not problem.address:
        return set()
    return {problem.address, _KEY.sub("", problem.address)}


def _text(traversal: Traversal) -> str:
    parts = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            parts.append(f".{step.name}")
        else:
            parts.append(f'["{step.key}"]' if isinstance(step.key, str) else f"[{step.key}]")
    return "".join(parts)


def _missing(name: str, traversal: Traversal, header: str) -> Diagnostic:
    detail = f"The checkable object, {name}, was expected to report an error but did not."
    return error("missing-expected-failure", detail, traversal.span, block=header)
