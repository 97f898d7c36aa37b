"""Interrupts of a run: the first lets running steps end, the second ends the process at once.

Python runs signal handlers in the main thread, and a waiting main thread may run them only after
its wait. So a separate thread reads signals from the wakeup descriptor (see signal.set_wakeup_fd).
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType
from typing import Final

FIRST_INTERRUPT: Final = (
    "Interrupt received.\nWaiting for running steps; no further step starts. Interrupt again to "
    "exit at once."
)
SECOND_INTERRUPT: Final = (
    "Two interrupts received. Exiting at once. The next run checks the results of the running "
    "steps."
)
_SHOW_CURSOR: Final = "\x1b[?25h"


class Interrupts:
    """Counter of interrupts; the executor calls `is_stopping` before every step."""

    def __init__(self) -> None:
        self.count = 0

    def is_stopping(self) -> bool:
        """Return whether an interrupt was received."""
        return self.count > 0

    @contextmanager
    def end_question(self) -> Iterator[None]:
        """Let a signal end the question asked inside the block by a KeyboardInterrupt.

        No step runs then, so there is nothing to wait for.
        """
        numbers = [number for number in _list_signals() if signal.getsignal(number) is _do_nothing]
        old_wakeup = signal.set_wakeup_fd(-1)
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
        try:
            yield
        except KeyboardInterrupt:
            self.count += 1
            raise
        finally:
            for number in numbers:
                signal.signal(number, _do_nothing)
            signal.set_wakeup_fd(old_wakeup, warn_on_full_buffer=False)


def _list_signals() -> list[signal.Signals]:
    """List the signals that interrupt a run."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    # A closed terminal (SIGHUP) interrupts as well, unless nohup ignores it.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal: the thread that reads signals acts."""


@contextmanager
def handle_interrupts(notify: Callable[[str], None]) -> Iterator[Interrupts]:
    """Handle interrupts inside the block.

    After the first SIGINT or SIGTERM no further step starts, and the second one ends the process.
    `notify` is called with a message, in a thread of its own, because it may block.
    """
    interrupts = Interrupts()
    receiver, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    numbers = _list_signals()
    Thread(
        target=_watch_signals,
        args=(receiver, numbers, interrupts, notify),
        daemon=True,
        name="interrupts",
    ).start()
    handlers = {number: signal.signal(number, _do_nothing) for number in numbers}
    # A byte per signal, for the thread.
    old_wakeup = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    try:
        yield interrupts
    finally:
        signal.set_wakeup_fd(old_wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # This ends the thread.
        wakeup.close()


def _watch_signals(
    receiver: socket.socket,
    numbers: list[signal.Signals],
    interrupts: Interrupts,
    notify: Callable[[str], None],
) -> None:
    """Handle the signals from a socket, one byte each, until it is closed.

    Notify of the first signal, and exit at the second.
    """
    with receiver:
        while received := receiver.recv(64):
            for number in received:
                # Another signal handled by Python.
                if number not in numbers:
                    continue
                interrupts.count += 1
                if interrupts.count == 1:
                    Thread(
                        target=_notify_interrupt, args=(notify,), daemon=True, name="interrupted"
                    ).start()
                else:
                    _exit_immediately()


def _notify_interrupt(notify: Callable[[str], None]) -> None:
    # The output is closed.
    with suppress(OSError, ValueError):
        notify(FIRST_INTERRUPT)


def _exit_immediately() -> None:
    """Exit without cleanup.

    Nothing is lost: the start of every step is on disk, and the next run replaces the lock.
    """
    with suppress(OSError, ValueError):
        errors = sys.stderr.fileno()
        # Otherwise writing would block.
        if select.select([], [errors], [], 0)[1]:
            # On a terminal, a progress bar has hidden the cursor, and ends no line.
            start = f"{_SHOW_CURSOR}\n" if os.isatty(errors) else ""
            os.write(errors, f"{start}{SECOND_INTERRUPT}\n".encode())
    os._exit(1)
