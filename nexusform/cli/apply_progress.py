"""Text output of an apply: a line per step, the results, and wrong predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nexusform.applying.answer_comparison import WrongPrediction
from nexusform.applying.events import StepEvent
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.json_data.plain_data import format_path
from nexusform.plans.plan import Mode
from nexusform.rendering.notation.colours import Painter, wrap_line
from nexusform.rendering.text import progress_text

if TYPE_CHECKING:
    from nexusform.workflow.plan_files.plan_execution import ApplyOutcome

_MAX_MISSES: Final = 20


class ApplyProgress:
    """The lines of an apply; `print_line` prints one, above a live bar if there is one."""

    def __init__(self, screen: Screen, paint: Painter, print_line: Callable[[str], None], *, concise: bool) -> None:
        self._screen = screen
        self._paint = paint
        self._print_line = print_line
        self._is_concise = concise

    def report_step_start(self, event: StepEvent) -> None:
        """Print the start of a step."""
        if not self._is_concise:
            self._print_line(progress_text.format_start_line(event, self._paint, self._screen.width))

    def report_step_progress(self, event: StepEvent) -> None:
        """Print the progress of a step."""
        if not self._is_concise:
            self._print_line(progress_text.format_progress_line(event, self._paint, self._screen.width))

    def report_step_end(self, event: StepEvent) -> None:
        """Print the end of a step."""
        if not self._is_concise or event.error:
            self._print_line(progress_text.format_end_line(event, self._paint, self._screen.width))

    def print_result(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """Print `Apply complete! ...`, parsed by tools, and the checked predictions; with steps left, a table."""
        applied = outcome.applied
        if not applied.is_complete:  # a step failed, waits or was not started
            table = progress_text.render_step_outcomes(applied.end_events, self._paint, self._screen.width)
            self._screen.print_text(f"\n{table}")
            return
        if not outcome.is_complete:
            return  # all steps are done; the error, such as an unsaved state, is reported as a diagnostic
        if mode is Mode.DESTROY:
            line = progress_text.format_destroy_complete(applied.destroyed, self._paint)
        else:
            line = progress_text.format_apply_complete(
                applied.added,
                applied.changed,
                applied.destroyed,
                self._paint,
                imported=outcome.imported,
                forgotten=applied.forgotten,
            )
        self._screen.print_text(f"\n{line}")
        if not outcome.sends and outcome.provider_names:  # such as the simulated provider
            self._screen.print_wrapped(progress_text.format_nothing_sent(outcome.provider_names[0]))
        self._print_predictions(applied.wrong_predictions, applied.ties, applied.hits)
        for output in outcome.wrong_outputs:
            self._print_wrong_prediction(output)

    def _print_predictions(self, misses: Sequence[WrongPrediction], ties: Sequence[WrongPrediction], hits: int) -> None:
        """Print the wrong predictions, then those of VMs on an equally good machine (`ties`). The first title counts
        the correct ones.
        """
        hit_note = f", {hits:,} correct" if hits else ""
        if misses:
            noun = select_word_form(len(misses), "prediction")
            self._print_wrong_predictions(f"{len(misses):,} {noun} wrong{hit_note}:", misses)
            hit_note = ""
        if ties:
            count = format_count(len(ties), "VM")
            verb = select_word_form(len(ties), "runs", "run")
            self._print_wrong_predictions(f"{count} {verb} on another machine allowed by the rule{hit_note}:", ties)
        elif hits and not misses:
            self._screen.print_text(f"{hits:,} of {hits:,} predictions correct.")

    def _print_wrong_predictions(self, title: str, misses: Sequence[WrongPrediction]) -> None:
        self._screen.print_text(title)
        for miss in misses[:_MAX_MISSES]:
            self._print_wrong_prediction(miss)
        if len(misses) > _MAX_MISSES:
            self._screen.print_text(f"  ... and {len(misses) - _MAX_MISSES} more")

    def _print_wrong_prediction(self, miss: WrongPrediction) -> None:
        self._screen.print_text("\n".join(wrap_line(f"  {_format_wrong_prediction(miss)}", 4, self._screen.width)))


def _format_wrong_prediction(miss: WrongPrediction) -> str:
    """Format the address of an object with the text of the prediction, or else with the path and both values."""
    if miss.text:
        return f"{miss.address}: {miss.text}"
    if isinstance(miss.predicted, Mapping) and miss.observed is None:  # such as a missing VM
        return f"{miss.address}: {format_path(miss.path)} was predicted but does not exist"
    return f"{miss.address}: {format_path(miss.path)} predicted {miss.predicted}, observed {miss.observed}"
