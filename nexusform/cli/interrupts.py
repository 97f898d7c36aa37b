"""Ctrl-C: the first one lets running steps end, the second one ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

FIRST = (
    "Interrupt received.\nWaiting for the running steps to end; no further one is started. "
    "Interrupt again to exit at once."
)
SECOND = "Two interrupts received. Exiting at once; what the running steps did is looked up by the next run."


class Interrupts:
    """Counts interrupts; `stopping` is what the executor asks before every step."""

    def __init__(self) -> None:
        self.received = 0

    def stopping(self) -> bool:
        """Whether somebody asked to stop."""
        return self.received > 0


@contextmanager
def graceful_interrupts(tell: Callable[[str], None]) -> Iterator[Interrupts]:
    """Handle SIGINT and SIGTERM gracefully inside the block."""
    interrupts = Interrupts()

    def handle(_number: int, _frame: FrameType | None) -> None:
        interrupts.received += 1
        if interrupts.received == 1:
            tell(FIRST)
            return
        click.echo(SECOND, err=True)
        # Nothing is lost: every intent is on disk, and the next run takes over a dead holder's lock.
        os._exit(1)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
