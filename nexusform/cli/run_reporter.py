"""Reporters of a run: the common base, and the text reporter.

Others are in apply_progress.py and json_reporter.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from nexusform.cli.planning_flags import PlanDisplayFlags
from nexusform.cli.terminal_screen import PlanningProgressLine, Screen
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, select_errors
from nexusform.files.access_record import get_recorded_accesses
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.notation.colours import Painter, wrap_hanging
from nexusform.state.objects import OutputState

# A plan does not need it.
if TYPE_CHECKING:
    from nexusform.applying.events import StepEvent
    from nexusform.workflow.plan_files.plan_execution import ApplyOutcome

# Limit of lines for objects being read.
_MAX_READ_LINES: Final = 8


class RunReporter:
    """Output of plan, apply, destroy and refresh; also a listener to steps.

    Without an override nothing is shown.
    """

    # The screen of prompts; None: they are not possible.
    screen: Screen | None = None

    def report_diagnostics(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]
    ) -> None:
        """Report diagnostics."""

    def report_notice(self, text: str) -> None:
        """Report an incidental message: waiting for a lock, an interrupt."""

    def report_lock(self, text: str) -> None:
        """Report the acquired lock."""

    def report_read(self, address: str, object_id: str) -> None:
        """Report the reading of an object."""

    def report_plan(
        self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanDisplayOptions
    ) -> None:
        """Report the plan."""

    def report_plan_aside(
        self,
        plan: Plan,
        sources: Mapping[str, SourceFile],
        view: PlanDisplayOptions,  # noqa: ARG002 - for reporters with a file
    ) -> None:
        """Report the errors of a plan that -report=FORMAT:- prints, as the report may lack them."""
        if plan.is_rejected:
            self.report_diagnostics(plan.diagnostics, sources)

    def track_planning(self) -> AbstractContextManager[None]:
        """Return a context for the duration of planning."""
        return nullcontext()

    def report_planning(self, stage: str, done: int, total: int) -> None:
        """Report the progress of planning."""

    def track_apply(self, steps: int) -> AbstractContextManager[None]:  # noqa: ARG002 - for reporters with a bar
        """Return a context for the duration of an apply."""
        return nullcontext()

    def report_step_start(self, event: StepEvent) -> None:
        """Report the start of a step."""

    def report_step_progress(self, event: StepEvent) -> None:
        """Report the progress of a step, every ten seconds."""

    def report_step_end(self, event: StepEvent) -> None:
        """Report the end of a step."""

    def report_result(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """Report the result of an apply."""

    def report_outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """Report the root outputs."""


class PlanDisplayOptions(Struct, frozen=True):
    """Display options of a plan."""

    registries: PluginRegistries
    placement_flags: PlanDisplayFlags
    saved_path: str = ""
    next_step: bool = True
    take_ownership: bool = False


class TextReporter(RunReporter):
    """Reporter with text for users, in OpenTofu's words where tools parse them."""

    def __init__(self, screen: Screen, *, concise: bool = False) -> None:
        """Write to `screen`; `concise` leaves out the lines about objects read from providers."""
        self.screen: Screen = screen
        self._paint = Painter(screen.colour)
        self._is_concise = concise
        # Objects read since the last summary.
        self._read_count = 0
        # During planning only.
        self._planning: PlanningProgressLine | None = None

    def report_diagnostics(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]
    ) -> None:
        """Print boxes with source lines."""
        self._print_read_count()
        self.screen.print_diagnostics(diagnostics, sources)

    def report_notice(self, text: str) -> None:
        """Print a line."""
        self._print_line(wrap_hanging(text, self.screen.width))

    def report_read(self, address: str, object_id: str) -> None:
        """Print a line for one of the first objects read from a provider, and count all of them."""
        if self._is_concise:
            return
        self._read_count += 1
        if self._read_count <= _MAX_READ_LINES:
            from nexusform.rendering.text import progress_text

            line = progress_text.format_refresh_line(
                address, object_id, self._paint, self.screen.width
            )
            self.screen.print_text(line)

    def _print_read_count(self) -> None:
        """Print the number of objects read without a line of their own, before any other output."""
        if self._read_count > _MAX_READ_LINES:
            from nexusform.rendering.text import progress_text

            self.screen.print_text(
                progress_text.format_more_refreshes(self._read_count - _MAX_READ_LINES)
            )
        self._read_count = 0

    def report_plan(
        self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanDisplayOptions
    ) -> None:
        """Print the whole text of the plan.

        Errors go to stderr: in the middle of the text, after its first part. In a detailed or
        Terraform-compatible text all diagnostics follow at the end instead.
        """
        from nexusform.rendering.text.plan_text import (
            PlanTextOptions,
            render_around_errors,
            render_plan,
        )

        self._print_read_count()
        errors_follow = view.placement_flags.details or view.placement_flags.is_terraform_compatible
        options = PlanTextOptions(
            colour=self.screen.colour,
            width=self.screen.width,
            placements=view.placement_flags.detail,
            details=view.placement_flags.details,
            terraform=view.placement_flags.is_terraform_compatible,
            hints=not self.screen.is_automated,
            next_step=view.next_step,
            saved_path=view.saved_path,
            take_ownership=view.take_ownership,
            # The apply of a saved plan is sandboxed.
            addresses=tuple(sorted(get_recorded_accesses().addresses)) if view.saved_path else (),
            # Otherwise they are printed after the text.
            diagnostics=not (plan.is_rejected and errors_follow),
            # Errors are printed to stderr below.
            errors=False,
            registries=view.registries,
        )
        # The errors are in the middle of the text.
        if plan.is_rejected and not errors_follow:
            before, after = render_around_errors(plan, sources, options)
            self.screen.print_text(f"\n{before}\n")
            self.screen.print_diagnostics(select_errors(plan.diagnostics), sources)
            if after:
                self.screen.print_text(f"\n{after}")
            return
        self.screen.print_text(f"\n{render_plan(plan, sources, options)}", end="")
        # All diagnostics follow the text.
        if plan.is_rejected:
            is_terraform_order = view.placement_flags.is_terraform_compatible
            self.screen.print_diagnostics(plan.diagnostics, sources, errors_last=is_terraform_order)

    @contextmanager
    def track_planning(self) -> Iterator[None]:
        """Show a live count, if stdout is a terminal and planning takes long."""
        if not self.screen.is_live:
            yield
            return
        with PlanningProgressLine() as self._planning:
            yield
        self._planning = None

    def report_planning(self, stage: str, done: int, total: int) -> None:
        """Update the live count."""
        if self._planning is not None:
            self._planning.update_progress(stage, done, total)

    def report_outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """Print `name = value` lines."""
        if not outputs:
            return
        from nexusform.rendering.text.state_text import render_outputs

        self.screen.print_text(
            f"\n{self._paint('Outputs:', 'bold', 'green')}\n\n{render_outputs(outputs)}", end=""
        )

    def _print_line(self, text: str) -> None:
        self.screen.print_text(text)
