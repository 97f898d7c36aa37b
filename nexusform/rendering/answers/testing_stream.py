"""Results of test files as a stream of JSON events, in the form of other tools of this kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.answers.testing_text import Look, ShownFile, ShownRun, count, summary_line
from nexusform.rendering.json.json_stream import Event, diagnostic_event, event
from nexusform.source import SourceFile


def abstract_event(runs: Mapping[str, Sequence[str]], time: str) -> Event:
    """What will be run: the names of the runs by file."""
    number = sum(len(names) for names in runs.values())
    files = f"{len(runs)} {'file' if len(runs) == 1 else 'files'}"
    message = f"Found {files} and {number} run {'block' if number == 1 else 'blocks'}"
    return event("test_abstract", message, time, test_abstract={f: list(n) for f, n in runs.items()})


def file_events(file: ShownFile, time: str) -> Iterator[Event]:
    """A file and its runs, each with what it said."""
    shown = {"path": file.name, "status": file.status}
    message = f"{file.name}... {_word(file.status)}"
    yield event("test_file", message, time, test_file=shown, **{"@testfile": file.name})
    for run in file.runs:
        yield _run_event(file, run, time)
        yield from _told(run.diagnostics, file.sources, time, {"@testfile": file.name, "@testrun": run.name})
    yield from _told(file.diagnostics, file.sources, time, {"@testfile": file.name})


def _run_event(file: ShownFile, run: ShownRun, time: str) -> Event:
    shown: dict[str, object] = {"path": file.name, "run": run.name, "status": run.status}
    if run.seconds is not None:
        shown["elapsed"] = round(run.seconds * 1000)
    message = f'  "{run.name}"... {_word(run.status)}'
    more = {"@testfile": file.name, "@testrun": run.name}
    return event("test_run", message, time, test_run=shown, **more)


def _told(
    found: Iterable[Diagnostic], sources: Mapping[str, SourceFile], time: str, more: Mapping[str, str]
) -> Iterator[Event]:
    for diagnostic in found:
        yield diagnostic_event(diagnostic, sources, time) | dict(more)


def summary_event(files: Sequence[ShownFile], time: str) -> Event:
    """The counts of everything."""
    counts = count(files)
    status = "fail" if any(f.status in ("fail", "error") for f in files) else "pass"
    summary = {
        "status": status,
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errored": counts["error"],
        "skipped": counts["skip"],
    }
    return event("test_summary", summary_line(files, Look()), time, test_summary=summary)


def _word(status: str) -> str:
    return "fail" if status == "error" else status
