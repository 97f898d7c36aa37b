"""`nexusform test`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import click
from msgspec import Struct

import nexusform
from nexusform.cli.arguments import group, switch, text, texts
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, variable_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.domains.testing.rendering import testing_results
from nexusform.domains.testing.rendering.testing_results import ShownFile, ShownRun
from nexusform.domains.testing.workflow.testing import (
    FileResult,
    RunResult,
    TestOptions,
    find_tests,
    run_tests,
)
from nexusform.domains.testing.workflow.testing_files import DEFAULT_DIRECTORY
from nexusform.rendering.json.json_stream import Event, diagnostic_event, version_event
from nexusform.rendering.notation.colours import Painter
from nexusform.source import SourceFile
from nexusform.workflow.opening.surroundings import SystemClock, write_output


class TestArguments(Struct, frozen=True, kw_only=True):
    """What `test` takes."""

    filter: tuple[str, ...] = texts("Run only this test file", metavar="FILE")
    test_directory: str = text("Find test files in DIR too", metavar="DIR", default=DEFAULT_DIRECTORY)
    verbose: bool = switch("Show the plan or the state of every run")
    as_json: bool = switch("Print a stream of JSON events", flag="json")
    junit_xml: str = text("Write the results as JUnit XML", metavar="FILE")
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("test", TestArguments)
def test(arguments: TestArguments) -> int:
    """Run the tests in *.nftest.hcl files, here and in tests/.

    States are kept in memory. Resources of the runs are destroyed after each file. Exit code 0, or
    1 if a run fails.
    """
    place = place_of(variables=arguments.variables)
    options = TestOptions(arguments.filter, arguments.test_directory)
    tests = find_tests(place, options)
    screen = arguments.view.screen()
    voice: _Voice = _JsonVoice() if arguments.as_json else _TextVoice(screen)
    voice.diagnostics(tests.diagnostics, tests.sources)
    if tests.configuration is None or has_errors(tests.diagnostics):
        return 1
    voice.begins({file.name: [run.name for run in file.runs] for file in tests.files})
    files: list[ShownFile] = []
    for result in run_tests(place, tests, options, voice):
        file = _shown(result, screen, verbose=arguments.verbose)
        files.append(file)
        voice.file(file)
    voice.ends(files)
    problems = _write_junit(arguments.junit_xml, files)
    voice.diagnostics(problems, {})
    return 1 if problems or any(file.status in ("fail", "error") for file in files) else 0


def _shown(result: FileResult, screen: Screen, *, verbose: bool) -> ShownFile:
    runs = []
    for run in result.runs:
        details = _details(run, result.sources, screen) if verbose else ""
        runs.append(_shown_run(run, details))
    return ShownFile(
        name=result.name,
        status=result.status.value,
        runs=runs,
        diagnostics=tuple(result.diagnostics),
        sources=result.sources,
    )


def _shown_run(run: RunResult, details: str = "") -> ShownRun:
    return ShownRun(
        name=run.name,
        status=run.status.value,
        diagnostics=tuple(run.diagnostics),
        seconds=run.seconds,
        details=details,
    )


def _details(run: RunResult, sources: Mapping[str, SourceFile], screen: Screen) -> str:
    """The state that an apply run left, or the plan of a plan run."""
    from nexusform.rendering.text.short_plan import PlanTextOptions
    from nexusform.rendering.text.state_text import render_state
    from nexusform.rendering.text.terminal import render_plan
    from nexusform.resource_types.registry import registries

    if run.state is not None:
        return render_state(run.state, registries(), colour=screen.colour)
    if run.plan is None:
        return ""
    options = PlanTextOptions(
        colour=screen.colour,
        width=screen.width,
        details=True,
        hints=False,
        diagnostics=False,
        registries=registries(),
    )
    return render_plan(run.plan, sources, options)


def _write_junit(path: str, files: Iterable[ShownFile]) -> list[Diagnostic]:
    if not path:
        return []
    try:
        write_output(path, testing_results.render_test_junit(files).encode())
    except OSError as problem:
        detail = f'"{path}" cannot be written: {problem.strerror}.'
        return [error("the-junit-report-cannot-be-written", detail)]
    return []


# --- two voices --------------------------------------------------------------------------------


class _TextVoice:
    """Lines for people, file by file: what is told of runs under way is passed over."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._paint = Painter(screen.colour)

    def diagnostics(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> None:
        """In their boxes."""
        self._screen.diagnostics(diagnostics, sources)

    def begins(self, runs: Mapping[str, Iterable[str]]) -> None:
        """Nothing is said before the first result."""

    def file_begins(self, file: str) -> None:
        """Nothing."""

    def run_begins(self, file: str, run: str) -> None:
        """Nothing."""

    def run_ends(self, file: FileResult, run: RunResult) -> None:
        """Nothing."""

    def file_tears_down(self, file: str) -> None:
        """Nothing."""

    def run_tears_down(self, file: str, run: str) -> None:
        """Nothing."""

    def file(self, file: ShownFile) -> None:
        """A file, its runs, and what they said."""
        self._screen.out(testing_results.file_line(file, self._paint))
        for run in file.runs:
            self._screen.out(testing_results.run_line(run, self._paint))
            if run.details:
                self._screen.out(f"\n{run.details}")
            self._screen.diagnostics(run.diagnostics, file.sources)
        self._screen.diagnostics(file.diagnostics, file.sources)

    def ends(self, files: Iterable[ShownFile]) -> None:
        """The counts."""
        sys.stderr.flush()
        self._screen.out(f"\n{testing_results.summary_line(list(files), self._paint)}")


class _JsonVoice:
    """One JSON object per line."""

    def __init__(self) -> None:
        self._write(version_event(nexusform.__version__, _now()))

    def diagnostics(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> None:
        """An event each."""
        for diagnostic in diagnostics:
            self._write(diagnostic_event(diagnostic, sources, _now()))

    def begins(self, runs: Mapping[str, Iterable[str]]) -> None:
        """What will be run."""
        self._write(testing_results.abstract_event({f: list(names) for f, names in runs.items()}, _now()))

    def file_begins(self, file: str) -> None:
        """Its runs begin."""
        self._write(testing_results.file_progress_event(file, "starting", _now()))

    def run_begins(self, file: str, run: str) -> None:
        """A run begins."""
        self._write(testing_results.run_progress_event(file, run, "starting", _now()))

    def run_ends(self, file: FileResult, run: RunResult) -> None:
        """A run and what it said."""
        for event in testing_results.run_events(file.name, _shown_run(run), file.sources, _now()):
            self._write(event)

    def file_tears_down(self, file: str) -> None:
        """What the runs made is destroyed."""
        self._write(testing_results.file_progress_event(file, "teardown", _now()))

    def run_tears_down(self, file: str, run: str) -> None:
        """The state that this run changed last is destroyed."""
        self._write(testing_results.run_progress_event(file, run, "teardown", _now()))

    def file(self, file: ShownFile) -> None:
        """A file is done."""
        for event in testing_results.file_events(file, _now()):
            self._write(event)

    def ends(self, files: Iterable[ShownFile]) -> None:
        """The counts."""
        self._write(testing_results.summary_event(list(files), _now()))

    def _write(self, event: Event) -> None:
        from nexusform.rendering.notation.json_values import encoded

        click.echo(encoded(event).decode())
        sys.stdout.flush()


_Voice = _TextVoice | _JsonVoice


def _now() -> str:
    return SystemClock().now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
