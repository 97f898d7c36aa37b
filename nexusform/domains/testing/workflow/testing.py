"""Run test files: every run block in turn, on states kept in memory, then everything destroyed again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.loader import automatic_files, load
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.domains.testing.configuration.testing_blocks import RunBlock, RunFile
from nexusform.domains.testing.workflow.testing_files import (
    DEFAULT_DIRECTORY,
    find_test_files,
    read_test_file,
)
from nexusform.domains.testing.workflow.testing_runs import Bench, RunFailed
from nexusform.plans.plan import Plan
from nexusform.ports import Clock
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state.objects import State
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.surroundings import SystemClock


class Status(StrEnum):
    """How a run or a file ended; the later ones are worse."""

    SKIP = "skip"
    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    ERROR = "error"


_RANK = tuple(Status)


class RunResult(Struct):
    """What came of one run block. `plan` is what was planned, `state` what an apply left."""

    name: str
    status: Status = Status.SKIP
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: float | None = None
    plan: Plan | None = None
    state: State | None = None


class FileResult(Struct):
    """What came of one test file; `diagnostics` are those of no run: reading it, and tearing down."""

    name: str
    runs: list[RunResult] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """The worst of its runs."""
        own = [Status.ERROR] if has_errors(self.diagnostics) else []
        return max([*own, *(run.status for run in self.runs)], key=_RANK.index, default=Status.PASS)


class TestOptions(Struct, frozen=True):
    """Which files: those of `files` (all when empty), beside the configuration and below `directory`."""

    __test__ = False  # not a case for test collectors

    files: tuple[str, ...] = ()
    directory: str = DEFAULT_DIRECTORY


class Tests(Struct):
    """The test files of a configuration, ready to be run; nothing when there are errors."""

    __test__ = False

    files: list[RunFile] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)
    configuration: Configuration | None = None


def find_tests(place: Place, options: TestOptions) -> Tests:
    """Read the configuration and its test files."""
    configuration, problems = load_configuration(place)
    tests = Tests(diagnostics=problems, configuration=configuration)
    if configuration is not None:
        tests.sources.update(configuration.files)
    paths = find_test_files(place, options.directory, options.files, tests.diagnostics)
    for path in paths:
        file, wrong = read_test_file(path, place, tests.sources)
        tests.diagnostics += wrong
        if file is not None:
            tests.files.append(file)
    return tests


class Watcher(Protocol):
    """Who is told how far tests are."""

    def file_begins(self, file: str) -> None:
        """The runs of a file begin."""

    def run_begins(self, file: str, run: str) -> None:
        """A run begins; one that is skipped never does."""

    def run_ends(self, file: FileResult, run: RunResult) -> None:
        """A run ended, or is skipped."""

    def file_tears_down(self, file: str) -> None:
        """What the runs of a file made is destroyed next."""

    def run_tears_down(self, file: str, run: str) -> None:
        """The state is destroyed that this run was the last to change."""


def run_tests(
    place: Place, tests: Tests, options: TestOptions, watcher: Watcher, clock: Clock | None = None
) -> Iterator[FileResult]:
    """Run the files one after the other, each result given as soon as it is there."""
    assert tests.configuration is not None
    for file in tests.files:
        yield _FileRunner(place, tests, options, file, clock or SystemClock()).run(watcher)


class _FileRunner:
    def __init__(self, place: Place, tests: Tests, options: TestOptions, file: RunFile, clock: Clock) -> None:
        assert tests.configuration is not None
        self._place = place
        self._file = file
        self._clock = clock
        self.result = FileResult(file.name, sources=dict(tests.sources))
        beside = str(Path(place.directory, options.directory))
        extra = [("var-file", path) for path in automatic_files(beside)]
        self._bench = Bench(
            place,
            file,
            tests.configuration,
            var_options=(*extra, *place.variables),
            sources=self.result.sources,
            clock=clock,
        )
        self._modules: dict[str, Configuration] = {"": tests.configuration}

    def run(self, watcher: Watcher) -> FileResult:
        """Run everything, then tear down."""
        name = self.result.name
        watcher.file_begins(name)
        broken = False
        for block in self._file.runs:
            result = RunResult(block.name)
            self.result.runs.append(result)
            if not broken:
                watcher.run_begins(name, block.name)
                self._one(block, result)
                broken = result.status is Status.ERROR
            watcher.run_ends(self.result, result)
        watcher.file_tears_down(name)
        self.result.diagnostics += self._bench.tear_down(lambda run: watcher.run_tears_down(name, run))
        return self.result

    def _one(self, block: RunBlock, result: RunResult) -> None:
        """Run one block and note what it came to."""
        started = self._clock.now()
        configuration = self._configuration(block, result.diagnostics)
        if configuration is None:
            result.status = Status.ERROR
        else:
            try:
                done = self._bench.run(block, configuration)
            except RunFailed as failed:
                result.diagnostics += failed.diagnostics
                result.plan = failed.plan
                result.status = Status.ERROR
            else:
                result.diagnostics += done.diagnostics
                result.plan, result.state = done.plan, done.state
                result.status = _verdict(done.diagnostics, asserted=done.failed)
        result.seconds = (self._clock.now() - started).total_seconds()

    def _configuration(self, block: RunBlock, problems: list[Diagnostic]) -> Configuration | None:
        """The configuration that the run is about: the tested one, or that of its module block."""
        known = self._modules.get(block.source)
        if known is not None:
            return known
        directory = os.path.normpath(Path(self._place.directory, block.source))
        types = registries()
        configuration, wrong = load(
            directory,
            cache_directory=None,
            managed=types.schemas["managed"],
            data=types.schemas["data"],
            confinement=self._place.confinement,
        )
        problems += wrong
        if configuration is None or has_errors(wrong):
            detail = f'The module in "{directory}" cannot be run.'
            problems.append(
                error("module-of-run-block-in-error", detail, block.source_span, block=block.header)
            )
            return None
        self.result.sources.update(configuration.files)
        self._modules[block.source] = configuration
        return configuration


def _verdict(diagnostics: Sequence[Diagnostic], *, asserted: bool) -> Status:
    if not has_errors(diagnostics):
        return Status.PASS
    return Status.FAIL if asserted else Status.ERROR
