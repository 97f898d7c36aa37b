"""Execution of test files.

Every run block runs in order, on states in memory, followed by the teardown.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.loader import list_automatic_variable_files
from nexusform.configuration.remote_modules.module_sources import hide_server_parameters
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.domains.testing.configuration.test_file_blocks import RunBlock, TestFile
from nexusform.domains.testing.workflow.run_modules import load_run_module
from nexusform.domains.testing.workflow.test_files import (
    DEFAULT_DIRECTORY,
    find_test_files,
    read_test_file,
)
from nexusform.domains.testing.workflow.test_runs import RunBlockError, RunBlockExecutor
from nexusform.interfaces.plugins import Clock
from nexusform.plans.plan import Plan
from nexusform.state.objects import State
from nexusform.workflow.opening.command_context import (
    CommandContext,
    create_locked_packages,
    load_project_configuration,
)
from nexusform.workflow.opening.system_io import SystemClock
from nexusform.workflow.plan_files.plan_execution import PlanApplyOptions


class TestStatus(StrEnum):
    """Status of a run or a file, from best to worst."""

    SKIP = "skip"
    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    ERROR = "error"


_RANK = tuple(TestStatus)


class RunResult(Struct):
    """Result of one run block.

    `plan` is its plan, `state` the state after an apply.
    """

    name: str
    status: TestStatus = TestStatus.SKIP
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: float | None = None
    plan: Plan | None = None
    state: State | None = None


class FileResult(Struct):
    """Result of one test file; `diagnostics` are those outside of runs: of parsing and teardown."""

    name: str
    runs: list[RunResult] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)

    @property
    def status(self) -> TestStatus:
        """Worst status of its runs.

        It is ERROR if the file itself has errors, and PASS without runs.
        """
        file_statuses = [TestStatus.ERROR] if has_errors(self.diagnostics) else []
        return max(
            [*file_statuses, *(run.status for run in self.runs)],
            key=_RANK.index,
            default=TestStatus.PASS,
        )


class TestOptions(Struct, frozen=True):
    """Options of a test run.

    `files` are the test files to run, all if empty, here and in `directory`. At most `parallelism`
    steps of an apply run at a time.
    """

    # Not a case for test collectors.
    __test__ = False

    files: tuple[str, ...] = ()
    directory: str = DEFAULT_DIRECTORY
    parallelism: int = 10


class Tests(Struct):
    """Test files of a configuration; empty if there are errors."""

    __test__ = False

    configuration: Configuration
    files: list[TestFile] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)


def find_tests(context: CommandContext, options: TestOptions) -> Tests:
    """Load the configuration and its test files.

    Problems are among the diagnostics of the result.
    """
    configuration, problems = load_project_configuration(context)
    tests = Tests(configuration, diagnostics=problems, sources=dict(configuration.files))
    paths = find_test_files(context, options.directory, options.files, tests.diagnostics)
    if paths:
        # Runs may test modules of other directories only.
        tests.diagnostics = [
            problem
            for problem in tests.diagnostics
            if problem.id != "no-configuration-files" or problem.subject is not None
        ]
    for path in paths:
        file, new_problems = read_test_file(path, context, tests.sources)
        tests.diagnostics += new_problems
        if file is not None:
            tests.files.append(file)
    return tests


class ProgressListener:
    """Listener for the progress of tests; it does nothing by default."""

    def report_file_start(self, file: str) -> None:
        """Report the start of a file."""

    def report_run_start(self, file: str, run: str) -> None:
        """Report the start of a run; skipped runs have none."""

    def report_run_end(self, file: FileResult, run: RunResult) -> None:
        """Report the end of a run, or a skipped run."""

    def report_file_teardown(self, file: str) -> None:
        """Report the start of a file's teardown."""

    def report_run_teardown(self, file: str, run: str) -> None:
        """Report the teardown of the state last changed by this run."""


def run_tests(
    context: CommandContext, tests: Tests, options: TestOptions, listener: ProgressListener
) -> Iterator[FileResult]:
    """Run the files in order, and yield each result when it is complete."""
    for file in tests.files:
        yield _TestFileRunner(context, tests, options, file, SystemClock()).run(listener)


class _TestFileRunner:
    def __init__(
        self,
        context: CommandContext,
        tests: Tests,
        options: TestOptions,
        file: TestFile,
        clock: Clock,
    ) -> None:
        """Prepare the result of the file, its variables, and the executor of its runs."""
        self._context = context
        self._file = file
        self._clock = clock
        self.result = FileResult(file.name, sources=dict(tests.sources))
        test_directory = str(Path(context.directory, options.directory))
        file_options = [
            ("var-file", path) for path in list_automatic_variable_files(test_directory)
        ]
        self._executor = RunBlockExecutor(
            context,
            file,
            tests.configuration,
            var_options=(*file_options, *context.variables),
            sources=self.result.sources,
            clock=clock,
            apply_options=PlanApplyOptions(parallelism=options.parallelism),
        )
        # Loaded modules by source and version.
        self._modules: dict[tuple[str, str], Configuration] = {("", ""): tests.configuration}
        self._packages = create_locked_packages(context)

    def run(self, listener: ProgressListener) -> FileResult:
        """Run all blocks (skip those after an error), then destroy their resources."""
        name = self.result.name
        listener.report_file_start(name)
        has_error = False
        for block in self._file.runs:
            result = RunResult(block.name)
            self.result.runs.append(result)
            if not has_error:
                listener.report_run_start(name, block.name)
                self._run_block(block, result)
                # A failed assertion skips no run.
                has_error = result.status is TestStatus.ERROR
            listener.report_run_end(self.result, result)
        listener.report_file_teardown(name)
        self.result.diagnostics += self._executor.destroy_resources(
            lambda run: listener.report_run_teardown(name, run)
        )
        return self.result

    def _run_block(self, block: RunBlock, result: RunResult) -> None:
        """Run one block and record its result."""
        start_time = self._clock.read_time()
        try:
            configuration = self._load_configuration(block, result.diagnostics)
            outcome = self._executor.run(block, configuration)
        except RunBlockError as failed:
            result.diagnostics += failed.diagnostics
            result.plan = failed.plan
            result.status = TestStatus.ERROR
        else:
            result.diagnostics += outcome.diagnostics
            result.plan = outcome.plan
            result.state = outcome.state
            result.status = TestStatus.FAIL if outcome.has_failed else TestStatus.PASS
        result.seconds = (self._clock.read_time() - start_time).total_seconds()

    def _load_configuration(self, block: RunBlock, problems: list[Diagnostic]) -> Configuration:
        """Return the configuration of the run's module (source "": the tested one).

        Raises RunBlockError.
        """
        # "", or a module of an earlier run.
        key = (block.source, block.version)
        if key in self._modules:
            return self._modules[key]
        configuration, new_problems = load_run_module(
            self._context, self._file, block, self._packages
        )
        problems += new_problems
        if has_errors(new_problems):
            # Files count without a directory, too.
            self.result.sources.update(configuration.files)
            detail = f'The module "{hide_server_parameters(block.source)}" cannot be run.'
            raise RunBlockError(
                [
                    build_error(
                        "run-block-module-error", detail, block.source_span, block=block.header
                    )
                ]
            )
        self.result.sources.update(configuration.files)
        self._modules[key] = configuration
        return configuration
