"""How a run speaks: what every voice can say, and the voice for people; json_voice.py is the other one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from nexusform.cli.planning_flags import PlacementFlags
from nexusform.cli.screen import LiveBar, PlanningLine, Screen
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.plans.plan import Mode, Plan
from nexusform.ports import Registries
from nexusform.rendering.notation.colours import Painter, hang
from nexusform.source import SourceFile
from nexusform.state.objects import OutputState

if TYPE_CHECKING:  # a plan applies nothing
    from nexusform.applying.events import StepEvent
    from nexusform.cli.step_lines import StepLines
    from nexusform.workflow.plan_files.apply import ApplyOutcome

_MOST_READ: Final = 8  # objects that are read whose lines are printed


class Voice(Protocol):
    """What plan, apply and destroy tell while they work; it is a step listener too."""

    asks: bool  # whether questions can be asked at all

    def diagnostics(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> None:
        """Tell problems."""
        ...

    def notice(self, text: str) -> None:
        """Tell something in passing: waiting for a lock, an interrupt."""
        ...

    def locked(self, text: str) -> None:
        """Tell that the lock was taken."""
        ...

    def reading(self, address: str, object_id: str) -> None:
        """Tell that an object is being read."""
        ...

    def plan(self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanView) -> None:
        """Tell the plan."""
        ...

    def planning(self) -> AbstractContextManager[None]:
        """Tell that a plan is being made inside the block."""
        ...

    def planned(self, stage: str, done: int, of: int) -> None:
        """Planning came so far."""
        ...

    def applying(self, steps: int) -> AbstractContextManager[None]:
        """Tell that an apply of so many steps goes on inside the block."""
        ...

    def started(self, event: StepEvent) -> None:
        """A step begins."""
        ...

    def progressed(self, event: StepEvent) -> None:
        """Ten more seconds have passed."""
        ...

    def ended(self, event: StepEvent) -> None:
        """A step ended."""
        ...

    def applied(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """Tell what came of an apply."""
        ...

    def outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """Tell the root outputs."""
        ...


class PlanView(Struct, frozen=True):
    """How a plan is to be shown."""

    registries: Registries
    shown: PlacementFlags
    saved_to: str = ""
    next_step: bool = True
    take_ownership: bool = False


class TextVoice:
    """Text for people, in OpenTofu's words where tools look for them."""

    asks = True

    def __init__(self, screen: Screen, *, concise: bool = False) -> None:
        self.screen = screen
        self._paint = Painter(screen.colour)
        self._concise = concise
        self._read = 0
        self._bar: LiveBar | None = None
        self._planning: PlanningLine | None = None

    def diagnostics(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> None:
        """In boxes with the source lines."""
        self._tell_how_many_were_read()
        self.screen.diagnostics(diagnostics, sources)

    def notice(self, text: str) -> None:
        """As a line."""
        self._line(hang(text, self.screen.width))

    def locked(self, text: str) -> None:
        """Taking a free lock is nothing that people want to read of."""

    def reading(self, address: str, object_id: str) -> None:
        """As a line, of many the first ones."""
        if self._concise:
            return
        self._read += 1
        if self._read <= _MOST_READ:
            from nexusform.rendering.text import progress_text

            line = progress_text.refreshing_line(address, object_id, self._paint, self.screen.width)
            self.screen.out(line)

    def _tell_how_many_were_read(self) -> None:
        if self._read > _MOST_READ:
            from nexusform.rendering.text import progress_text

            self.screen.out(progress_text.more_refreshed_line(self._read - _MOST_READ))
        self._read = 0

    def plan(self, plan: Plan, sources: Mapping[str, SourceFile], view: PlanView) -> None:
        """The whole text of the plan; its errors go to stderr, where boxes have their place in the text."""
        from nexusform.rendering.text.short_plan import PlanTextOptions, short_halves
        from nexusform.rendering.text.terminal import render_plan

        self._tell_how_many_were_read()
        details = view.shown.details or view.shown.terraform
        options = PlanTextOptions(
            colour=self.screen.colour,
            width=self.screen.width,
            placements=view.shown.detail,
            details=view.shown.details,
            terraform=view.shown.terraform,
            hints=not self.screen.in_automation,
            next_step=view.next_step,
            saved_to=view.saved_to,
            take_ownership=view.take_ownership,
            diagnostics=not (plan.denied and details),
            errors=False,
            registries=view.registries,
        )
        if not plan.denied:
            self.screen.out(f"\n{render_plan(plan, sources, options)}", end="")
        elif details:
            self.screen.out(f"\n{render_plan(plan, sources, options)}", end="")
            self.screen.diagnostics(plan.diagnostics, sources, errors_last=view.shown.terraform)
        else:
            before, after = short_halves(plan, options)
            self.screen.out(f"\n{before}\n")
            errors = [each for each in plan.diagnostics if each.severity is Severity.ERROR]
            self.screen.diagnostics(errors, sources)
            if after:
                self.screen.out(f"\n{after}")

    @contextmanager
    def planning(self) -> Iterator[None]:
        """A live count below the lines, when stdout is a terminal and the plan takes long."""
        if not self.screen.live:
            yield
            return
        with PlanningLine() as self._planning:
            yield
        self._planning = None

    def planned(self, stage: str, done: int, of: int) -> None:
        """Show it."""
        if self._planning is not None:
            self._planning.came(stage, done, of)

    @contextmanager
    def applying(self, steps: int) -> Iterator[None]:
        """A live bar below the lines, when stdout is a terminal."""
        if not self.screen.live or not steps:
            yield
            return
        with LiveBar(steps) as self._bar:
            yield
        self._bar = None

    def started(self, event: StepEvent) -> None:
        """As a line."""
        self._of_steps.started(event)

    def progressed(self, event: StepEvent) -> None:
        """As a line."""
        self._of_steps.progressed(event)

    def ended(self, event: StepEvent) -> None:
        """As a line."""
        self._of_steps.ended(event)
        if self._bar is not None:
            self._bar.advance()

    def applied(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """The line that tools parse, and what goes with it; a table when something failed."""
        self._of_steps.applied(outcome, mode)

    @cached_property
    def _of_steps(self) -> StepLines:
        from nexusform.cli.step_lines import StepLines

        return StepLines(self.screen, self._paint, self._line, concise=self._concise)

    def outputs(self, outputs: Mapping[str, OutputState]) -> None:
        """As `name = value`."""
        if not outputs:
            return
        from nexusform.rendering.text.state_text import render_outputs

        self.screen.out(f"\n{self._paint('Outputs:', 'bold', 'green')}\n\n{render_outputs(outputs)}", end="")

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.line(text)
        else:
            self.screen.out(text)
