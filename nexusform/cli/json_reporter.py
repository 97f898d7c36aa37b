"""Reporters for programs: a stream of JSON events, one object per line, on stdout or in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import nexusform
from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.cli.run_reporter import PlanDisplayOptions, RunReporter, TextReporter
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error
from nexusform.files.regular_files import write_all_bytes
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.json import json_stream
from nexusform.rendering.notation.json_values import encode_value
from nexusform.rendering.report.finding_entries import collect_findings
from nexusform.state.objects import OutputState

# A plan does not need it.
if TYPE_CHECKING:
    from nexusform.workflow.plan_files.plan_execution import ApplyOutcome


class JsonReporter(RunReporter):
    """Reporter with one JSON object per line, by default on stdout.

    Planning has no events.
    """

    def __init__(self, write_line: Callable[[str], None] | None = None) -> None:
        self._write_line = write_line or _write_line_to_stdout
        self._write_event(json_stream.create_version_event(nexusform.__version__, _get_timestamp()))

    def report_diagnostics(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]
    ) -> None:
        """Write an event per diagnostic."""
        for diagnostic in diagnostics:
            self._write_event(
                json_stream.create_diagnostic_event(diagnostic, sources, _get_timestamp())
            )

    def report_notice(self, text: str) -> None:
        """Write a log event."""
        self._write_event(json_stream.create_log_event(text, _get_timestamp()))

    def report_lock(self, text: str) -> None:
        """Write a lock event."""
        self._write_event(json_stream.create_event("state_lock_acquire", text, _get_timestamp()))

    def report_read(self, address: str, object_id: str) -> None:
        """Write a refresh event."""
        from nexusform.resources.address import parse_address

        self._write_event(
            json_stream.create_refresh_start_event(
                parse_address(address), object_id, _get_timestamp()
            )
        )

    def report_plan(
        self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanDisplayOptions
    ) -> None:
        """Write drift, planned changes, placements, summaries and diagnostics.

        For a failed plan, only diagnostics are written.
        """
        if plan.assumptions:
            self._write_event(json_stream.create_hypothesis_event(plan, _get_timestamp()))
        if not plan.errored:
            for event in json_stream.create_plan_events(
                plan, _get_timestamp(), view.placement_flags.detail
            ):
                self._write_event(event)
        for finding in collect_findings(plan):
            self._write_event(json_stream.create_finding_event(finding, sources, _get_timestamp()))

    def report_step_start(self, event: StepEvent) -> None:
        """Write an apply_start event."""
        self._write_event(json_stream.create_apply_start_event(event, _get_timestamp()))

    def report_step_progress(self, event: StepEvent) -> None:
        """Write an apply_progress event."""
        self._write_event(json_stream.create_apply_progress_event(event, _get_timestamp()))

    def report_step_end(self, event: StepEvent) -> None:
        """Write an apply_complete or apply_errored event."""
        self._write_event(json_stream.create_apply_end_event(event, _get_timestamp()))

    def report_result(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """Write failures as diagnostics, and the summary if every step was done and saved."""
        applied = outcome.applied
        failures = [end for end in applied.end_events if end.outcome is StepOutcome.FAILED]
        self.report_diagnostics(
            [build_error("step-failed", end.error, address=end.address) for end in failures], {}
        )
        if not outcome.is_complete:
            return
        self._write_event(
            json_stream.create_apply_summary_event(
                applied.added,
                applied.changed,
                applied.destroyed,
                _get_timestamp(),
                destroy=mode is Mode.DESTROY,
                imported=outcome.imported,
                forgotten=applied.forgotten,
            )
        )

    def report_outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """Write an outputs event."""
        self._write_event(json_stream.create_outputs_event(outputs, _get_timestamp()))

    def _write_event(self, event: Mapping[str, Any]) -> None:
        self._write_line(encode_value(event).decode() + "\n")


def _write_line_to_stdout(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


class EventFileReporter(RunReporter):
    """Reporter with text for users, and with events for programs in a file or pipe.

    An event that cannot be written ends the events with a notice; the run goes on.
    """

    def __init__(self, text: TextReporter, path: str, descriptor: int) -> None:
        """Write the first event to the open file at the path.

        Raises OSError.
        """
        self._text = text
        self._path = path
        # None: they ended.
        self._events: JsonReporter | None = JsonReporter(
            lambda line: write_all_bytes(descriptor, line.encode())
        )
        self.screen = text.screen

    def report_diagnostics(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]
    ) -> None:
        """Print boxes, and write an event per diagnostic."""
        self._forward("report_diagnostics", list(diagnostics), sources)

    def report_notice(self, text: str) -> None:
        """Print a line, and write an event."""
        self._forward("report_notice", text)

    def report_lock(self, text: str) -> None:
        """Write an event; the text has no line."""
        self._forward("report_lock", text)

    def report_read(self, address: str, object_id: str) -> None:
        """Print a line, and write an event."""
        self._forward("report_read", address, object_id)

    def report_plan(
        self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanDisplayOptions
    ) -> None:
        """Print the plan, and write its events."""
        self._forward("report_plan", plan, sources, view)

    def report_plan_aside(
        self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanDisplayOptions
    ) -> None:
        """Print the errors of the plan, and write its events."""
        self._text.report_plan_aside(plan, sources, view)
        self._write_events("report_plan", plan, sources, view)

    def track_planning(self) -> AbstractContextManager[None]:
        """Show the live count of the text."""
        return self._text.track_planning()

    def report_planning(self, stage: str, done: int, total: int) -> None:
        """Update the live count of the text."""
        self._text.report_planning(stage, done, total)

    def track_apply(self, steps: int) -> AbstractContextManager[None]:
        """Show the live bar of the text."""
        return self._text.track_apply(steps)

    def report_step_start(self, event: StepEvent) -> None:
        """Print a line, and write an event."""
        self._forward("report_step_start", event)

    def report_step_progress(self, event: StepEvent) -> None:
        """Print a line, and write an event."""
        self._forward("report_step_progress", event)

    def report_step_end(self, event: StepEvent) -> None:
        """Print a line, and write an event."""
        self._forward("report_step_end", event)

    def report_result(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """Print the result, and write its events."""
        self._forward("report_result", outcome, mode)

    def report_outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """Print the outputs, and write an event."""
        self._forward("report_outputs", outputs)

    def _forward(self, method: str, *arguments: Any) -> None:
        """Call a method of both reporters; events first, so a closed stdout loses none."""
        self._write_events(method, *arguments)
        getattr(self._text, method)(*arguments)

    def _write_events(self, method: str, *arguments: Any) -> None:
        """Call a method of the reporter of events, unless they ended."""
        if self._events is None:
            return
        try:
            getattr(self._events, method)(*arguments)
        except OSError as problem:
            self._events = None
            self._text.report_notice(
                f'-json-into: "{self._path}" cannot be written: {problem.strerror}. Its events end '
                "here."
            )


def _get_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
