"""Text reporter of an apply: also a line per step, the results, and wrong predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nexusform.applying.answer_comparison import WrongPrediction
from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.cli.run_reporter import TextReporter
from nexusform.cli.terminal_screen import ApplyProgressBar, Screen
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.json_data.plain_data import format_path
from nexusform.plans.plan import Mode
from nexusform.rendering.notation.colours import wrap_line
from nexusform.rendering.text import progress_text

if TYPE_CHECKING:
    from nexusform.workflow.plan_files.plan_execution import ApplyOutcome

_MAX_MISSES: Final = 20


class ApplyReporter(TextReporter):
    """Reporter of an apply.

    Its lines are printed above a live bar, if stdout is a terminal.
    """

    def __init__(self, screen: Screen, *, concise: bool) -> None:
        super().__init__(screen, concise=concise)
        self._bar: ApplyProgressBar | None = None

    @contextmanager
    def track_apply(self, steps: int) -> Iterator[None]:
        """Show a live bar, if stdout is a terminal."""
        if not self.screen.is_live or not steps:
            yield
            return
        with ApplyProgressBar(steps) as self._bar:
            yield
        self._bar = None

    def report_step_start(self, event: StepEvent) -> None:
        """Print the start of a step."""
        if not self._is_concise:
            self._print_line(progress_text.format_start_line(event, self._paint, self.screen.width))

    def report_step_progress(self, event: StepEvent) -> None:
        """Print the progress of a step."""
        if not self._is_concise:
            self._print_line(
                progress_text.format_progress_line(event, self._paint, self.screen.width)
            )

    def report_step_end(self, event: StepEvent) -> None:
        """Print the end of a step."""
        if not self._is_concise or event.error:
            self._print_line(progress_text.format_end_line(event, self._paint, self.screen.width))
        # The bar ends where the work ended: a failed or waiting step remains.
        if self._bar is not None and event.outcome is StepOutcome.DONE:
            self._bar.increment()

    def report_result(self, outcome: ApplyOutcome, mode: Mode) -> None:
        """Print `Apply complete! ...`, parsed by tools, and the checked predictions.

        With steps left, print a table.
        """
        applied = outcome.applied
        # A step failed, waits or was not started.
        if not applied.is_complete:
            table = progress_text.render_step_outcomes(
                applied.end_events, self._paint, self.screen.width
            )
            self.screen.print_text(f"\n{table}")
            return
        if not outcome.is_complete:
            # All steps are done; the error, such as an unsaved state, is reported as a diagnostic.
            return
        if mode is Mode.DESTROY:
            line = progress_text.format_destroy_complete(
                applied.destroyed, self._paint, forgotten=applied.forgotten
            )
        else:
            line = progress_text.format_apply_complete(
                applied.added,
                applied.changed,
                applied.destroyed,
                self._paint,
                imported=outcome.imported,
                forgotten=applied.forgotten,
            )
        self.screen.print_text(f"\n{line}")
        # Such as the simulated provider.
        if not outcome.sends and outcome.provider_names:
            self.screen.print_wrapped(progress_text.format_nothing_sent(outcome.provider_names[0]))
        self._print_predictions(applied.wrong_predictions, applied.ties, applied.hits)
        for output in outcome.wrong_outputs:
            self._print_wrong_prediction(output)

    def _print_predictions(
        self, wrong: Sequence[WrongPrediction], ties: Sequence[WrongPrediction], hits: int
    ) -> None:
        """Print the wrong predictions, then VMs on an equally good machine.

        The first title counts the correct ones.
        """
        hit_note = f", {hits:,} correct" if hits else ""
        if wrong:
            noun = select_word_form(len(wrong), "prediction")
            self._print_wrong_predictions(f"{len(wrong):,} {noun} wrong{hit_note}:", wrong)
            hit_note = ""
        if ties:
            count = format_count(len(ties), "VM")
            verb = select_word_form(len(ties), "runs", "run")
            self._print_wrong_predictions(
                f"{count} {verb} on another machine allowed by the rule{hit_note}:", ties
            )
        elif hits and not wrong:
            self.screen.print_text(f"{hits:,} of {hits:,} predictions correct.")

    def _print_wrong_predictions(
        self, title: str, wrong_predictions: Sequence[WrongPrediction]
    ) -> None:
        """Print the title and the first predictions, then the number of the rest."""
        self.screen.print_text(title)
        for prediction in wrong_predictions[:_MAX_MISSES]:
            self._print_wrong_prediction(prediction)
        if len(wrong_predictions) > _MAX_MISSES:
            self.screen.print_text(f"  ... and {len(wrong_predictions) - _MAX_MISSES} more")

    def _print_line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.print_line(text)
        else:
            super()._print_line(text)

    def _print_wrong_prediction(self, prediction: WrongPrediction) -> None:
        """Print the address of an object with the text of the prediction.

        A prediction without a text is printed as its path and both values.
        """
        path = format_path(prediction.path)
        if prediction.text:
            detail = prediction.text
        elif isinstance(prediction.predicted, Mapping) and prediction.observed is None:
            # Such as a missing VM.
            detail = f"{path} was predicted but does not exist"
        else:
            detail = f"{path} predicted {prediction.predicted}, observed {prediction.observed}"
        # Later lines are indented by 4.
        lines = wrap_line(f"  {prediction.address}: {detail}", 4, self.screen.width)
        self.screen.print_text("\n".join(lines))
