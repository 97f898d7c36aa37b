"""Results of test files as people and as CI systems read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.notation.colours import Painter
from nexusform.rendering.pull_request.junit import Case, junit_document
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.source import SourceFile

_WORDS = {
    "pass": ("pass", "green"),
    "fail": ("fail", "red"),
    "error": ("fail", "red"),
    "skip": ("skip", "grey"),
}


class ShownRun(Struct, frozen=True):
    """One run: its name, status (pass, fail, error, skip), how long it took, and what it said."""

    name: str
    status: str
    diagnostics: Sequence[Diagnostic] = ()
    seconds: float | None = None
    details: str = ""


class ShownFile(Struct, frozen=True):
    """One file with its runs; `diagnostics` are those of no run."""

    name: str
    status: str
    runs: Sequence[ShownRun]
    diagnostics: Sequence[Diagnostic] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


class Look(Struct, frozen=True):
    """How text looks: in colour, and how wide."""

    colour: bool = False
    width: int = 80


def file_line(file: ShownFile, look: Look) -> str:
    """`tests/a.nftest.hcl... pass`."""
    return f"{file.name}... {_status(file.status, look)}"


def run_line(run: ShownRun, look: Look) -> str:
    """`  run "first"... pass`."""
    return f'  run "{run.name}"... {_status(run.status, look)}'


def _status(status: str, look: Look) -> str:
    word, colour = _WORDS[status]
    return Painter(look.colour)(word, colour)


def summary_line(files: Iterable[ShownFile], look: Look) -> str:
    """The last line: `Success! 2 passed, 0 failed.`."""
    listed = list(files)
    counts = count(listed)
    skipped = f", {counts['skip']} skipped." if counts["skip"] else "."
    ran = sum(counts[status] for status in ("pass", "fail", "error"))
    broken = any(file.status in ("fail", "error") for file in listed)
    if not ran and not broken:
        return f"Executed 0 tests{skipped}"
    word = ("Failure!", "red") if broken else ("Success!", "green")
    failed = counts["fail"] + counts["error"]
    return f"{Painter(look.colour)(*word)} {counts['pass']} passed, {failed} failed{skipped}"


def count(files: Iterable[ShownFile]) -> Counter[str]:
    """How many runs ended how."""
    return Counter(run.status for file in files for run in file.runs)


# --- JUnit -------------------------------------------------------------------------------------

_OUTCOMES = {
    "pass": ("", ""),
    "fail": ("failure", "Test run failed"),
    "error": ("error", "Encountered an error"),
    "skip": ("skipped", "Skipped after an error in an earlier run"),
}


def render_test_junit(files: Iterable[ShownFile]) -> str:
    """The XML document: a suite per file, a case per run."""
    return junit_document([(file.name, _cases(file)) for file in files])


def _cases(file: ShownFile) -> list[Case]:
    cases = [_case(file, run) for run in file.runs]
    if file.diagnostics and file.status == "error":
        told = render_diagnostics(file.diagnostics, file.sources)
        cases.append(Case(file.name, "teardown", "error", "Encountered an error", told))
    return cases


def _case(file: ShownFile, run: ShownRun) -> Case:
    outcome, message = _OUTCOMES[run.status]
    told = render_diagnostics(run.diagnostics, file.sources) if outcome else ""
    return Case(file.name, run.name, outcome, message, told, run.seconds)
