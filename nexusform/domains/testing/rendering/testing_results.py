"""Results of test files as people, CI systems (JUnit) and programs (JSON events) read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.json.json_stream import Event, diagnostic_event, event
from nexusform.rendering.notation.colours import PLAIN, Painter
from nexusform.rendering.pull_request.junit import Case, junit_document
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.source import SourceFile
from nexusform.words import form

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


def file_line(file: ShownFile, paint: Painter) -> str:
    """`tests/a.nftest.hcl... pass`."""
    return f"{file.name}... {_status(file.status, paint)}"


def run_line(run: ShownRun, paint: Painter) -> str:
    """`  run "first"... pass`."""
    return f'  run "{run.name}"... {_status(run.status, paint)}'


def _status(status: str, paint: Painter) -> str:
    word, colour = _WORDS[status]
    return paint(word, colour)


def summary_line(files: Sequence[ShownFile], paint: Painter) -> str:
    """The last line: `Success! 2 passed, 0 failed.`."""
    counts = _count_runs(files)
    skipped = f", {counts['skip']} skipped." if counts["skip"] else "."
    failed = counts["fail"] + counts["error"]
    broken = _is_broken(files)
    if not counts["pass"] and not failed and not broken:
        return f"Executed 0 tests{skipped}"
    word = ("Failure!", "red") if broken else ("Success!", "green")
    return f"{paint(*word)} {counts['pass']} passed, {failed} failed{skipped}"


def _is_broken(files: Iterable[ShownFile]) -> bool:
    return any(file.status in ("fail", "error") for file in files)


def _count_runs(files: Iterable[ShownFile]) -> Counter[str]:
    """How many runs ended how."""
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(run.status for run in file.runs)
    return counts


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
        boxes = render_diagnostics(file.diagnostics, file.sources)
        cases.append(Case(file.name, "teardown", "error", "Encountered an error", boxes))
    return cases


def _case(file: ShownFile, run: ShownRun) -> Case:
    outcome, message = _OUTCOMES[run.status]
    boxes = render_diagnostics(run.diagnostics, file.sources) if outcome else ""
    return Case(file.name, run.name, outcome, message, boxes, run.seconds)


# --- JSON events -------------------------------------------------------------------------------


def abstract_event(runs: Mapping[str, Sequence[str]], time: str) -> Event:
    """What will be run: the names of the runs by file."""
    number = sum(len(names) for names in runs.values())
    files = f"{len(runs)} {form(len(runs), 'file')}"
    message = f"Found {files} and {number} run {form(number, 'block')}"
    by_file = {file: list(names) for file, names in runs.items()}
    return event("test_abstract", message, time, test_abstract=by_file)


def file_events(file: ShownFile, time: str) -> Iterator[Event]:
    """A file and its runs, each with what it said."""
    of_file = {"@testfile": file.name}
    document = {"path": file.name, "status": file.status}
    message = f"{file.name}... {_WORDS[file.status][0]}"
    yield event("test_file", message, time, test_file=document, **of_file)
    for run in file.runs:
        of_run = {"@testfile": file.name, "@testrun": run.name}
        yield _run_event(file, run, time) | of_run
        for diagnostic in run.diagnostics:
            yield diagnostic_event(diagnostic, file.sources, time) | of_run
    for diagnostic in file.diagnostics:
        yield diagnostic_event(diagnostic, file.sources, time) | of_file


def _run_event(file: ShownFile, run: ShownRun, time: str) -> Event:
    document: dict[str, object] = {"path": file.name, "run": run.name, "status": run.status}
    if run.seconds is not None:
        document["elapsed"] = round(run.seconds * 1000)
    return event("test_run", f'  "{run.name}"... {_WORDS[run.status][0]}', time, test_run=document)


def summary_event(files: Sequence[ShownFile], time: str) -> Event:
    """The counts of everything."""
    counts = _count_runs(files)
    summary = {
        "status": "fail" if _is_broken(files) else "pass",
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errored": counts["error"],
        "skipped": counts["skip"],
    }
    return event("test_summary", summary_line(files, PLAIN), time, test_summary=summary)
