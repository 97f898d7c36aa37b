"""A bar that moves at the bottom of a terminal while an apply goes on; lines scroll above it."""

from __future__ import annotations

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
