"""Reporter for programs: a stream of JSON events, one object per line on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import nexusform
from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.cli.run_reporter import PlanDisplayOptions, RunReporter
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.json import json_stream
from nexusform.rendering.notation.json_values import encode_value
from nexusform.rendering.report.finding_entries import collect_findings
from nexusform.state.objects import OutputState

# A plan does not need it.
if TYPE_CHECKING:
    from nexusform.workflow.plan_files.plan_execution import ApplyOutcome


class JsonReporter(RunReporter):
    """Reporter with one JSON object per line on stdout.

    Planning has no events.
    """

    def __init__(self) -> None:
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
        sys.stdout.write(encode_value(event).decode() + "\n")
        sys.stdout.flush()


def _get_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
