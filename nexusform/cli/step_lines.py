"""What an apply tells people while it works: a line per step, what came of them, and of its predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from nexusform.applying.agreement import Miss
from nexusform.applying.events import StepEvent
from nexusform.cli.screen import Screen
from nexusform.plain_data import path_text
from nexusform.plans.plan import Mode
from nexusform.rendering.notation.colours import Painter, indented
from nexusform.rendering.text import progress_text
from nexusform.words import form

if TYPE_CHECKING:
    from nexusform.workflow.plan_files.apply import ApplyOutcome

_MOST_MISSES: Final = 20


class StepLines:
    """The lines of an apply; `line` prints one, beside a live bar where there is one."""

    def __init__(self, screen: Screen, paint: Painter, line: Callable[[str], None], *, concise: bool) -> None:
        self._screen = screen
        self._paint = paint
        self._line = line
        self._concise = concise

    def started(self, event: StepEvent) -> None:
        """As a line."""
        if not self._concise:
            self._line(progress_text.started_line(event, self._paint, self._screen.width))

    def progressed(self, event: StepEvent) -> None:
        """As a line."""
        if not self._concise:
            self._line(progress_text.progress_line(event, self._paint, self._screen.width))

    def ended(self, event: StepEvent) -> None:
        """As a line."""
        if not self._concise or event.error:
            self._line(progress_text.ended_line(event, self._paint, self._screen.width))

    def applied(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """The line that tools parse, and what goes with it; a table when something failed."""
        applied = outcome.applied
        if not applied.complete:
            table = progress_text.outcome_table(applied.ends, self._paint, self._screen.width)
            self._screen.out(f"\n{table}")
            return
        if not outcome.complete:
            return  # all was done and not all was saved: the errors say so
        if mode is Mode.DESTROY:
            line = progress_text.destroy_complete_line(applied.destroyed, self._paint)
        else:
            line = progress_text.apply_complete_line(
                applied.added,
                applied.changed,
                applied.destroyed,
                self._paint,
                imported=outcome.imported,
                forgotten=applied.forgotten,
            )
        self._screen.out(f"\n{line}")
        if not outcome.sends and outcome.provider_names:
            self._screen.say(progress_text.nothing_sent_line(outcome.provider_names[0]))
        self._predictions(outcome)

    def _predictions(self, outcome: ApplyOutcome) -> None:
        """How many predictions of the plan came true, and which did not."""
        misses, hits = outcome.applied.misses, outcome.applied.hits
        if not misses:
            if hits:
                self._screen.out(f"{hits:,} of {hits:,} predictions came true.")
            return
        word = form(len(misses), "prediction")
        came_true = f", {hits:,} came true" if hits else ""
        self._screen.out(f"{len(misses):,} {word} missed{came_true}:")
        for miss in misses[:_MOST_MISSES]:
            self._miss(miss)
        if len(misses) > _MOST_MISSES:
            self._screen.out(f"  ... and {len(misses) - _MOST_MISSES} more")
        for output in outcome.following:
            self._miss(output)

    def _miss(self, miss: Miss) -> None:
        self._screen.out("\n".join(indented(f"  {_miss_text(miss)}", 4, self._screen.width)))


def _miss_text(miss: Miss) -> str:
    if isinstance(miss.predicted, Mapping) and miss.observed is None:
        return f"{miss.address}: {path_text(miss.path)} was predicted, and is not there"
    return f"{miss.address}: {path_text(miss.path)} was predicted as {miss.predicted}, and is {miss.observed}"
