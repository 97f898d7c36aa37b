"""What moves at the bottom of a terminal while a plan or an apply goes on; lines scroll above it."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Any, Self


class LiveBar:
    """Used as a context manager; only ever when stdout is a terminal."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("Applying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, transient=True)
        self._progress.start()
        self._task = self._progress.add_task("apply", total=self._steps)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def line(self, text: str) -> None:
        """Print a line above the bar."""
        from rich.text import Text

        self._progress.console.print(Text.from_ansi(text), soft_wrap=True)

    def advance(self) -> None:
        """One more step has ended."""
        self._progress.advance(self._task)


# A plan that is ready sooner is not worth a line.
QUIET_SECONDS = 1.0


class PlanningLine:
    """How many objects a long plan has come to, and for how long; gone when the plan is ready.

    Used as a context manager, only ever when stdout is a terminal. rich is loaded only when the plan
    takes longer than QUIET_SECONDS.
    """

    def __init__(self) -> None:
        self._planned = 0
        self._done = Event()
        self._thread = Thread(target=self._show, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def tick(self) -> None:
        """One more object is planned."""
        self._planned += 1

    def _show(self) -> None:
        if self._done.wait(QUIET_SECONDS):
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        counted = TextColumn("{task.completed:.0f} objects")
        with Progress(
            SpinnerColumn(), TextColumn("Planning"), counted, TimeElapsedColumn(), transient=True
        ) as progress:
            task = progress.add_task("plan", total=None)
            while not self._done.wait(0.2):
                progress.update(task, completed=self._planned)
