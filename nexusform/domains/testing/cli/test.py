"""Command `nexusform test`."""

import sys
from collections.abc import Iterable, Mapping, Sequence

import click
from msgspec import Struct

import nexusform
from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_output_path_flag,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context, declare_variable_flags
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.domains.testing.rendering import test_results
from nexusform.domains.testing.rendering.test_results import FileReport, RunBlockReport
from nexusform.domains.testing.workflow.test_execution import (
    FileResult,
    ProgressListener,
    RunResult,
    TestOptions,
    find_tests,
    run_tests,
)
from nexusform.domains.testing.workflow.test_files import DEFAULT_DIRECTORY
from nexusform.files.external_files import ArgumentFile
from nexusform.rendering.json.json_stream import (
    Event,
    create_diagnostic_event,
    create_version_event,
)
from nexusform.rendering.notation.colours import Painter
from nexusform.workflow.opening.system_io import SystemClock, write_output


class TestArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `test`."""

    filter: tuple[str, ...] = declare_repeatable_text(
        "Run only this test file", metavar="FILE", file=ArgumentFile("tests")
    )
    test_directory: str = declare_text_flag(
        "Find test files in DIR, not tests",
        metavar="DIR",
        default=DEFAULT_DIRECTORY,
        file=ArgumentFile("tests"),
    )
    parallelism: int = declare_number("Limit the number of concurrent steps", default=10, minimum=1)
    # Run blocks are executed one after another, also those with `parallel = true`.
    run_parallelism: int | None = declare_number(
        "Accepted for compatibility, ignored", default=None
    )
    verbose: bool = declare_switch_flag("Show the plan or the state of every run")
    as_json: bool = declare_switch_flag("Print a stream of JSON events", flag="json")
    junit_xml: str = declare_output_path_flag("Write the results as JUnit XML")
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("test", TestArguments)
def test(arguments: TestArguments) -> int:
    """Run the tests in *.nftest.hcl files, here and in tests/.

    States are kept in memory. Resources of the runs are destroyed after each file. Exit code 0, or
    1 if a run fails.
    """
    context = create_context(variables=arguments.variables)
    options = TestOptions(arguments.filter, arguments.test_directory, arguments.parallelism)
    tests = find_tests(context, options)
    screen = arguments.view.create_screen()
    reporter: _Reporter = _JsonReporter() if arguments.as_json else _TextReporter(screen)
    reporter.report_diagnostics(tests.diagnostics, tests.sources)
    if has_errors(tests.diagnostics):
        return 1
    reporter.report_runs_to_execute(
        {file.name: [run.name for run in file.runs] for file in tests.files}
    )
    files: list[FileReport] = []
    for result in run_tests(context, tests, options, reporter):
        runs = []
        for run in result.runs:
            details = _render_run_details(run, result.sources, screen) if arguments.verbose else ""
            runs.append(_build_run_report(run, details))
        file_report = FileReport(
            name=result.name,
            status=result.status.value,
            runs=runs,
            diagnostics=tuple(result.diagnostics),
            sources=result.sources,
        )
        files.append(file_report)
        reporter.report_file(file_report)
    reporter.report_summary(files)
    junit_problems = _write_junit(arguments.junit_xml, files)
    reporter.report_diagnostics(junit_problems, {})
    return (
        1
        if junit_problems or any(file_report.status in ("fail", "error") for file_report in files)
        else 0
    )


def _build_run_report(run: RunResult, details: str = "") -> RunBlockReport:
    return RunBlockReport(
        name=run.name,
        status=run.status.value,
        diagnostics=tuple(run.diagnostics),
        seconds=run.seconds,
        details=details,
    )


def _render_run_details(run: RunResult, sources: Mapping[str, SourceFile], screen: Screen) -> str:
    """Render the state after a run, or its plan if it was not applied; "" without both."""
    from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
    from nexusform.rendering.text.state_text import render_state
    from nexusform.resource_types.registry import build_registries

    if run.state is not None:
        return render_state(run.state, build_registries(), colour=screen.colour)
    if run.plan is None:
        return ""
    options = PlanTextOptions(
        colour=screen.colour,
        width=screen.width,
        details=True,
        hints=False,
        diagnostics=False,
        registries=build_registries(),
    )
    return render_plan(run.plan, sources, options)


def _write_junit(path: str, files: Iterable[FileReport]) -> list[Diagnostic]:
    """Write the JUnit report, if it has a path; return the problem of an unwritable file."""
    if not path:
        return []
    try:
        write_output(path, test_results.render_test_junit(files).encode())
    except OSError as problem:
        detail = f'"{path}" cannot be written: {problem.strerror}.'
        return [build_error("unwritable-junit-report", detail)]
    return []


class _TextReporter(ProgressListener):
    """Text output, file by file; progress events are ignored."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._paint = Painter(screen.colour)

    def report_diagnostics(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]
    ) -> None:
        """Print the diagnostics in boxes."""
        self._screen.print_diagnostics(diagnostics, sources)

    def report_runs_to_execute(self, runs: Mapping[str, Sequence[str]]) -> None:
        """Print nothing before the first result."""

    def report_file(self, file: FileReport) -> None:
        """Print a file with its runs and diagnostics."""
        self._screen.print_text(
            test_results.render_status_line(file.name, file.status, self._paint)
        )
        for run in file.runs:
            subject = f'  run "{run.name}"'
            self._screen.print_text(
                test_results.render_status_line(subject, run.status, self._paint)
            )
            if run.details:
                self._screen.print_text(f"\n{run.details}")
            self._screen.print_diagnostics(run.diagnostics, file.sources)
        self._screen.print_diagnostics(file.diagnostics, file.sources)

    def report_summary(self, files: Iterable[FileReport]) -> None:
        """Print the counts."""
        sys.stderr.flush()
        self._screen.print_text(f"\n{test_results.render_summary_line(list(files), self._paint)}")


class _JsonReporter(ProgressListener):
    """One JSON object per line."""

    def __init__(self) -> None:
        self._write(create_version_event(nexusform.__version__, _format_now()))

    def report_diagnostics(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]
    ) -> None:
        """Write one event per diagnostic."""
        for diagnostic in diagnostics:
            self._write(create_diagnostic_event(diagnostic, sources, _format_now()))

    def report_runs_to_execute(self, runs: Mapping[str, Sequence[str]]) -> None:
        """Write the files and runs to execute."""
        self._write(test_results.build_abstract_event(runs, _format_now()))

    def report_file_start(self, file: str) -> None:
        """Write the start of a file."""
        self._write(test_results.build_file_progress_event(file, "starting", _format_now()))

    def report_run_start(self, file: str, run: str) -> None:
        """Write the start of a run."""
        self._write(test_results.build_run_progress_event(file, run, "starting", _format_now()))

    def report_run_end(self, file: FileResult, run: RunResult) -> None:
        """Write the result of a run and its diagnostics."""
        for event in test_results.list_run_events(
            file.name, _build_run_report(run), file.sources, _format_now()
        ):
            self._write(event)

    def report_file_teardown(self, file: str) -> None:
        """Write the start of a file's teardown."""
        self._write(test_results.build_file_progress_event(file, "teardown", _format_now()))

    def report_run_teardown(self, file: str, run: str) -> None:
        """Write the teardown of the state last changed by this run."""
        self._write(test_results.build_run_progress_event(file, run, "teardown", _format_now()))

    def report_file(self, file: FileReport) -> None:
        """Write the result of a file."""
        for event in test_results.list_file_events(file, _format_now()):
            self._write(event)

    def report_summary(self, files: Iterable[FileReport]) -> None:
        """Write the counts."""
        self._write(test_results.build_summary_event(list(files), _format_now()))

    def _write(self, event: Event) -> None:
        from nexusform.rendering.notation.json_values import encode_value

        click.echo(encode_value(event).decode())
        sys.stdout.flush()


_Reporter = _TextReporter | _JsonReporter


def _format_now() -> str:
    return SystemClock().read_time().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
