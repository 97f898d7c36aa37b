"""Tests of the live bar of an apply: it ends where the work ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.cli import apply_progress
from nexusform.cli.apply_progress import ApplyReporter
from nexusform.cli.terminal_screen import Screen
from nexusform.plans.plan import StepKind


class CountingBar:
    """Bar that counts its steps."""

    done = 0

    def increment(self) -> None:
        self.done += 1

    def print_line(self, text: str) -> None:
        """Print nothing."""


@pytest.mark.parametrize("outcome", StepOutcome)
def test_only_completed_steps_fill_the_bar(
    monkeypatch: pytest.MonkeyPatch, outcome: StepOutcome
) -> None:
    bar = CountingBar()

    @contextmanager
    def open_bar(_steps: int) -> Iterator[CountingBar]:
        yield bar

    monkeypatch.setattr(apply_progress, "ApplyProgressBar", open_bar)
    monkeypatch.setattr(Screen, "is_live", True)
    reporter = ApplyReporter(Screen(), concise=False)
    with reporter.track_apply(1):
        reporter.report_step_end(StepEvent("nexus_site.s", StepKind.CREATE, "s", outcome=outcome))
    assert bar.done == (outcome is StepOutcome.DONE)
