"""Interrupts of a run: the first lets the running steps end, the second ends the process at once.

Python runs the handler of a signal in the main thread, and one that waits without having been woken (a signal
may arrive just before it begins to wait, or be delivered to another thread) runs it only when its wait is
over. So signals are heeded by a thread that reads them from the wakeup descriptor (see signal.set_wakeup_fd),
whatever the main thread does.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Final

FIRST_INTERRUPT: Final = (
    "Interrupt received.\nWaiting for the running steps to end; no further one is started. "
    "Interrupt again to exit at once."
)
SECOND_INTERRUPT: Final = (
    "Two interrupts received. Exiting at once; what the running steps did is looked up by the next run."
)


class Interrupts:
    """Counts interrupts; `stopping` is what the executor asks before every step."""

    def __init__(self) -> None:
        self.received = 0

    def stopping(self) -> bool:
        """Whether somebody asked to stop."""
        return self.received > 0


@contextmanager
def graceful_interrupts(tell: Callable[[str], None]) -> Iterator[Interrupts]:
    """Let the first SIGINT or SIGTERM inside the block end the running steps, the second the process.

    `tell` is called by a thread of its own, for it may have to wait for whoever reads.
    """
    interrupts = Interrupts()
    heard, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    numbers = _stopping_signals()
    Thread(target=_heed, args=(heard, numbers, interrupts, tell), daemon=True, name="interrupts").start()
    handlers = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
    woken_before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    try:
        yield interrupts
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        wakeup.close()  # which ends the thread


def _stopping_signals() -> list[signal.Signals]:
    """What ends an apply. A terminal that goes away counts, unless nohup made us ignore it."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


def _heed(
    heard: socket.socket, numbers: list[signal.Signals], interrupts: Interrupts, tell: Callable[[str], None]
) -> None:
    """Take in signals, a byte each, until the block is left."""
    with heard:
        while arrived := heard.recv(64):
            for number in arrived:
                if number not in numbers:
                    continue
                interrupts.received += 1
                if interrupts.received == 1:
                    Thread(target=_told, args=(tell,), daemon=True, name="interrupted").start()
                else:
                    _exit_at_once()


def _told(tell: Callable[[str], None]) -> None:
    with suppress(OSError, ValueError):  # nobody reads any more
        tell(FIRST_INTERRUPT)


def _exit_at_once() -> None:
    """Nothing is lost: every intent is on disk, and the next run takes over a dead holder's lock."""
    with suppress(OSError, ValueError):
        errors = sys.stderr.fileno()
        if select.select([], [errors], [], 0)[1]:  # else somebody does not read, and writing would wait
            os.write(errors, f"{SECOND_INTERRUPT}\n".encode())
    os._exit(1)
