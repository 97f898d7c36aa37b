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


def _overall(files: Iterable[ShownFile]) -> str:
    """The worst that a file came to."""
    present = {file.status for file in files}
    return next((status for status in ("error", "fail") if status in present), "pass")


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

_PROGRESS = {"starting": "in progress", "teardown": "tearing down"}


def abstract_event(runs: Mapping[str, Sequence[str]], time: str) -> Event:
    """What will be run: the names of the runs by file."""
    number = sum(len(names) for names in runs.values())
    files = f"{len(runs):,} {form(len(runs), 'file')}"
    message = f"Found {files} and {number} run {form(number, 'block')}"
    by_file = {file: list(names) for file, names in runs.items()}
    return event("test_abstract", message, time, test_abstract=by_file)


def file_progress_event(file: str, progress: str, time: str) -> Event:
    """A file is `starting`, or at its `teardown`."""
    document = {"path": file, "progress": progress}
    message = f"{file}... {_PROGRESS[progress]}"
    return event("test_file", message, time, test_file=document, **{"@testfile": file})


def run_progress_event(file: str, run: str, progress: str, time: str) -> Event:
    """A run is `starting`, or at the `teardown` of what it was the last to change."""
    document = {"path": file, "run": run, "progress": progress, "elapsed": 0}
    message = f'  "{run}"... {_PROGRESS[progress]}'
    return event("test_run", message, time, test_run=document, **{"@testfile": file, "@testrun": run})


def run_events(file: str, run: ShownRun, sources: Mapping[str, SourceFile], time: str) -> Iterator[Event]:
    """How a run ended, and what it said."""
    of_run = {"@testfile": file, "@testrun": run.name}
    document: dict[str, object] = {
        "path": file,
        "run": run.name,
        "progress": "complete",
        "status": run.status,
    }
    if run.seconds is not None:
        document["elapsed"] = round(run.seconds * 1000)
    yield event("test_run", f'  "{run.name}"... {_WORDS[run.status][0]}', time, test_run=document, **of_run)
    for diagnostic in run.diagnostics:
        yield diagnostic_event(diagnostic, sources, time) | of_run


def file_events(file: ShownFile, time: str) -> Iterator[Event]:
    """How a file ended, and what it said beside its runs."""
    of_file = {"@testfile": file.name}
    document = {"path": file.name, "progress": "complete", "status": file.status}
    message = f"{file.name}... {_WORDS[file.status][0]}"
    yield event("test_file", message, time, test_file=document, **of_file)
    for diagnostic in file.diagnostics:
        yield diagnostic_event(diagnostic, file.sources, time) | of_file


def summary_event(files: Sequence[ShownFile], time: str) -> Event:
    """The counts of everything."""
    counts = _count_runs(files)
    summary = {
        "status": _overall(files),
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errored": counts["error"],
        "skipped": counts["skip"],
    }
    return event("test_summary", summary_line(files, PLAIN), time, test_summary=summary)
