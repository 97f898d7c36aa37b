"""How a run speaks to programs: a stream of JSON events, one object per line on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import nexusform
from nexusform.applying.events import Outcome, StepEvent
from nexusform.cli.voice import PlanView
from nexusform.diagnostics import Diagnostic, error
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.json import json_stream
from nexusform.rendering.notation.json_values import encoded
from nexusform.rendering.report.entries import plan_findings
from nexusform.source import SourceFile
from nexusform.state.objects import OutputState

if TYPE_CHECKING:  # a plan applies nothing
    from nexusform.workflow.plan_files.apply import ApplyOutcome


class JsonVoice:
    """One JSON object per line on stdout."""

    asks = False

    def __init__(self) -> None:
        self._write(json_stream.version_event(nexusform.__version__, _now()))

    def diagnostics(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> None:
        """An event each."""
        for diagnostic in diagnostics:
            self._write(json_stream.diagnostic_event(diagnostic, sources, _now()))

    def notice(self, text: str) -> None:
        """A log event."""
        self._write(json_stream.log_event(text, _now()))

    def locked(self, text: str) -> None:
        """A lock event."""
        self._write(json_stream.event("state_lock_acquire", text, _now()))

    def reading(self, address: str, object_id: str) -> None:
        """A refresh event."""
        from nexusform.address import parse_address

        self._write(json_stream.refresh_start_event(parse_address(address), object_id, _now()))

    def plan(self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanView) -> None:
        """Drift, planned changes and placements, summaries, then the plan's diagnostics."""
        if not plan.errored:
            for event in json_stream.plan_events(plan, _now(), view.shown.detail):
                self._write(event)
        for finding in plan_findings(plan):
            self._write(json_stream.finding_event(finding, sources, _now()))

    def planning(self) -> AbstractContextManager[None]:
        """Nothing of its own."""
        return nullcontext()

    def planned(self, stage: str, done: int, of: int) -> None:
        """Nothing of its own: changes are told when the plan is ready."""

    def applying(self, steps: int) -> AbstractContextManager[None]:  # noqa: ARG002 - one face
        """Nothing of its own: every step has its events."""
        return nullcontext()

    def started(self, event: StepEvent) -> None:
        """An apply_start event."""
        self._write(json_stream.apply_start_event(event, _now()))

    def progressed(self, event: StepEvent) -> None:
        """An apply_progress event."""
        self._write(json_stream.apply_progress_event(event, _now()))

    def ended(self, event: StepEvent) -> None:
        """An apply_complete or apply_errored event."""
        self._write(json_stream.apply_end_event(event, _now()))

    def applied(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """The summary; what failed as diagnostics instead."""
        applied = outcome.applied
        failed = [end for end in applied.ends if end.outcome is Outcome.FAILED]
        self.diagnostics([error("step-failed", end.error, address=end.address) for end in failed], {})
        if not applied.complete:
            return
        self._write(
            json_stream.apply_summary_event(
                applied.added,
                applied.changed,
                applied.destroyed,
                _now(),
                destroy=mode is Mode.DESTROY,
                imported=outcome.imported,
                forgotten=applied.forgotten,
            )
        )

    def outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """An outputs event."""
        self._write(json_stream.outputs_event(outputs, _now()))

    def _write(self, event: Mapping[str, Any]) -> None:
        sys.stdout.write(encoded(event).decode() + "\n")
        sys.stdout.flush()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
