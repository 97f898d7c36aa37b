"""Test results as text, JUnit XML and JSON events."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.diagnostics.phrases import select_word_form
from nexusform.rendering.json.json_stream import Event, create_diagnostic_event, create_event
from nexusform.rendering.notation.colours import PLAIN, Painter
from nexusform.rendering.pull_request.junit import JunitCase, render_suites
from nexusform.rendering.text.diagnostic_text import render_diagnostics

_STATUS_TEXTS = {
    "pass": ("pass", "green"),
    "fail": ("fail", "red"),
    "error": ("fail", "red"),
    "skip": ("skip", "grey"),
}
_PROGRESS = {"starting": "in progress", "teardown": "tearing down"}


class RunBlockReport(Struct, frozen=True):
    """Run: its name, status (pass, fail, error, skip), duration, and diagnostics."""

    name: str
    status: str
    diagnostics: Sequence[Diagnostic] = ()
    seconds: float | None = None
    details: str = ""


class FileReport(Struct, frozen=True):
    """File with its runs; `diagnostics` are those outside of runs."""

    name: str
    status: str
    runs: Sequence[RunBlockReport]
    diagnostics: Sequence[Diagnostic] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def render_status_line(subject: str, status: str, paint: Painter) -> str:
    """Render the status of a file or run.

    An example is `tests/a.nftest.hcl... pass`, with the status in its colour.
    """
    word, colour = _STATUS_TEXTS[status]
    return f"{subject}... {paint(word, colour)}"


def render_summary_line(files: Sequence[FileReport], paint: Painter) -> str:
    """Render the last line: `Success! 2 passed, 0 failed.`."""
    counts = _count_runs(files)
    skipped_text = f", {counts['skip']} skipped." if counts["skip"] else "."
    failed_count = counts["fail"] + counts["error"]
    # A file may fail without a failed run.
    has_failures = any(file.status in ("fail", "error") for file in files)
    if not counts["pass"] and not has_failures:
        return f"Executed 0 tests{skipped_text}"
    verdict = ("Failure!", "red") if has_failures else ("Success!", "green")
    return f"{paint(*verdict)} {counts['pass']} passed, {failed_count} failed{skipped_text}"


def _count_runs(files: Iterable[FileReport]) -> Counter[str]:
    """Count the runs by status."""
    return Counter(run.status for file in files for run in file.runs)


_OUTCOMES = {
    "pass": ("", ""),
    "fail": ("failure", "Test run failed"),
    "error": ("error", "Encountered an error"),
    "skip": ("skipped", "Skipped after an error in an earlier run"),
}


def render_test_junit(files: Iterable[FileReport]) -> str:
    """Render the XML document with a suite per file.

    A suite has a case for each run and one for a failed teardown.
    """
    suites = []
    for file in files:
        cases = []
        for run in file.runs:
            outcome, message = _OUTCOMES[run.status]
            # "": it passed.
            case_boxes = render_diagnostics(run.diagnostics, file.sources) if outcome else ""
            cases.append(JunitCase(file.name, run.name, outcome, message, case_boxes, run.seconds))
        if file.diagnostics and file.status == "error":
            boxes = render_diagnostics(file.diagnostics, file.sources)
            cases.append(JunitCase(file.name, "teardown", "error", "Encountered an error", boxes))
        suites.append((file.name, cases))
    return render_suites(suites)


def build_abstract_event(runs: Mapping[str, Sequence[str]], time: str) -> Event:
    """Return the event with the names of the runs by file."""
    number = sum(map(len, runs.values()))
    files = f"{len(runs):,} {select_word_form(len(runs), 'file')}"
    message = f"Found {files} and {number} run {select_word_form(number, 'block')}"
    return create_event("test_abstract", message, time, test_abstract=dict(runs))


def build_file_progress_event(file: str, progress: str, time: str) -> Event:
    """Return the progress event of a file: `starting` or `teardown`."""
    document = {"path": file, "progress": progress}
    message = f"{file}... {_PROGRESS[progress]}"
    return create_event("test_file", message, time, test_file=document, **{"@testfile": file})


def build_run_progress_event(file: str, run: str, progress: str, time: str) -> Event:
    """Return the progress event of a run.

    It is `starting`, or `teardown` of the state it changed last.
    """
    document = {"path": file, "run": run, "progress": progress, "elapsed": 0}
    message = f'  "{run}"... {_PROGRESS[progress]}'
    return create_event(
        "test_run", message, time, test_run=document, **{"@testfile": file, "@testrun": run}
    )


def list_run_events(
    file: str, run: RunBlockReport, sources: Mapping[str, SourceFile], time: str
) -> Iterator[Event]:
    """Yield the result of a run and its diagnostics."""
    labels = {"@testfile": file, "@testrun": run.name}
    document: dict[str, object] = {
        "path": file,
        "run": run.name,
        "progress": "complete",
        "status": run.status,
    }
    if run.seconds is not None:
        document["elapsed"] = round(run.seconds * 1000)  # milliseconds
    message = f'  "{run.name}"... {_STATUS_TEXTS[run.status][0]}'  # (word, colour)
    yield create_event("test_run", message, time, test_run=document, **labels)
    for diagnostic in run.diagnostics:
        yield create_diagnostic_event(diagnostic, sources, time) | labels


def list_file_events(file: FileReport, time: str) -> Iterator[Event]:
    """Yield the result of a file and its diagnostics outside of runs."""
    labels = {"@testfile": file.name}
    document = {"path": file.name, "progress": "complete", "status": file.status}
    message = f"{file.name}... {_STATUS_TEXTS[file.status][0]}"  # (word, colour)
    yield create_event("test_file", message, time, test_file=document, **labels)
    for diagnostic in file.diagnostics:
        yield create_diagnostic_event(diagnostic, file.sources, time) | labels


def build_summary_event(files: Sequence[FileReport], time: str) -> Event:
    """Return the event with all counts."""
    counts = _count_runs(files)
    statuses = {file.status for file in files}
    overall_status = next((status for status in ("error", "fail") if status in statuses), "pass")
    summary = {
        "status": overall_status,
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errored": counts["error"],
        "skipped": counts["skip"],
    }
    return create_event(
        "test_summary", render_summary_line(files, PLAIN), time, test_summary=summary
    )
