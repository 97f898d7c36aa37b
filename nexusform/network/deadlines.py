"""Time limits of operations on servers, independent of the server.

An operation runs in a thread of its own until it is done. Its caller waits until then, until its
time is up, or until the lease of the run is lost: a silent or slow server cannot block a command
longer. An abandoned operation continues in its thread as far as its client allows, without retries
(`is_caller_waiting`). A thread without an operation takes the next one.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from math import inf
from queue import SimpleQueue
from typing import Final, TypeVar

from nexusform.documents.scalars import parse_integer
from nexusform.interfaces.state_storage import BackendProblem

VARIABLE: Final = "NF_NET_DEADLINE"
# Of one operation including retries, plus a second per MiB.
SECONDS: Final = 180
# Seconds without a byte until one request counts as failed.
SILENCE: Final = 60.0
# Seconds for a server that was silent for its whole time before.
_REPEAT_SECONDS: Final = 15.0
# Seconds between checks of the lease.
_CHECK_INTERVAL: Final = 0.5
_MIB: Final = 1 << 20
_Result = TypeVar("_Result")


class OperationAbandoned(BackendProblem):
    """Operation without an end in time, or with a lost lease."""


def read_deadline() -> float:
    """Return the time limit of an operation in seconds: NF_NET_DEADLINE, else 180.

    Raises BackendProblem.
    """
    # At most a day.
    return float(read_seconds(VARIABLE, SECONDS, 1, 86_400))


def read_seconds(variable: str, default: int, minimum: int, maximum: int) -> int:
    """Return the seconds in an environment variable, else the default.

    Raises BackendProblem.
    """
    text = os.environ.get(variable, "")
    seconds = parse_integer(text or default)
    if seconds is None or not minimum <= seconds <= maximum:
        raise BackendProblem(
            f'{variable}="{text}" must be a whole number of seconds from {minimum} to {maximum}.'
        )
    return seconds


def compute_silence_limit() -> float:
    """Return the seconds one request may take without receiving a byte."""
    return min(SILENCE, read_deadline())


class _Operation:
    """One operation: its end time, and whether a caller still waits for it."""

    __slots__ = ("ends_at", "is_caller_waiting", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends_at = time.monotonic() + seconds
        self.is_caller_waiting = True

    def extend(self, size: int) -> None:
        """Extend the time limit for a number of bytes: a second for each MiB."""
        self.seconds += size / _MIB
        self.ends_at += size / _MIB


_current: ContextVar[_Operation | None] = ContextVar("operation", default=None)


def extend_deadline(size: int) -> None:
    """Extend the time limit of this thread's operation for a number of bytes.

    Without an operation it does nothing.
    """
    operation = _current.get()
    if operation is not None:
        operation.extend(size)


def is_caller_waiting() -> bool:
    """Return whether a caller still waits for this thread's operation.

    An abandoned one is not retried.
    """
    operation = _current.get()
    # None: the thread of the caller itself.
    return operation is None or operation.is_caller_waiting


_shared_end: ContextVar[float] = ContextVar("shared_end", default=inf)
# Seconds for the last try of a request: it gets an answer of a server that is back.
_LAST_TRY_SECONDS: Final = 5.0


@contextmanager
def share_deadline() -> Iterator[None]:
    """Limit the operations of this thread within a block together, such as tries of a request.

    The last one that starts in time may take some seconds more.
    """
    ends_at = time.monotonic() + read_deadline()
    token = _shared_end.set(min(ends_at, _shared_end.get()))
    try:
        yield
    finally:
        _shared_end.reset(token)


@contextmanager
def pause_deadline() -> Iterator[None]:
    """Exclude the duration of a block from the time of this thread's operation."""
    operation = _current.get()
    # There is no limit to pause.
    if operation is None:
        yield
        return
    start_time = time.monotonic()
    ends_at = operation.ends_at
    operation.ends_at = inf
    try:
        yield
    finally:
        operation.ends_at = ends_at + time.monotonic() - start_time


class _OperationThread:
    """Thread that runs one operation at a time; it does not keep a program from its end."""

    def __init__(self) -> None:
        self._operations: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._run_operations, name="nexusform", daemon=True).start()

    def start(self, operation: Callable[[], None]) -> None:
        """Start an operation without context variables, as in a new thread."""
        self._operations.put(lambda: Context().run(operation))

    def _run_operations(self) -> None:
        while True:
            self._operations.get()()
            _idle_threads.append(self)


_idle_threads: deque[_OperationThread] = deque()
# A child process has none of the threads of its parent.
os.register_at_fork(after_in_child=_idle_threads.clear)


def _start_in_thread(operation: Callable[[], None]) -> None:
    """Run an operation that raises nothing in an idle thread, else in a new one."""
    try:
        thread = _idle_threads.pop()
    except IndexError:
        thread = _OperationThread()
    thread.start(operation)


class DeadlineRunner:
    """Time limit of operations on one server.

    `check_lease` raises BackendProblem if the lock of the run is lost.
    """

    def __init__(
        self, get_name: Callable[[], str], check_lease: Callable[[], None] = lambda: None
    ) -> None:
        self._get_name = get_name
        self._check_lease = check_lease
        self._has_been_silent = False

    def run(self, description: str, work: Callable[[], _Result], size: int = 0) -> _Result:
        """Run an operation in a thread of its own; return its result or raise its exception.

        Raises OperationAbandoned after the limit or a lost lock. `description` is a phrase like
        "read the state". `size` in bytes extends the limit.
        """
        seconds = read_deadline()
        # For the whole limit of an earlier operation: this one gets less time.
        if self._has_been_silent:
            seconds = min(seconds, _REPEAT_SECONDS)
        remaining = _shared_end.get() - time.monotonic()
        seconds = min(seconds, max(remaining, _LAST_TRY_SECONDS))
        operation = _Operation(seconds)
        operation.extend(size)
        results: list[_Result] = []
        failures: list[BaseException] = []
        finished = threading.Event()

        def run_operation() -> None:
            _current.set(operation)
            try:
                results.append(work())
            except BaseException as failure:  # noqa: BLE001 - raised again in the waiting thread
                failures.append(failure)
            finally:
                finished.set()

        _start_in_thread(run_operation)
        try:
            while not finished.wait(
                min(_CHECK_INTERVAL, max(operation.ends_at - time.monotonic(), 0.0))
            ):
                if time.monotonic() >= operation.ends_at:
                    self._has_been_silent = True
                    raise OperationAbandoned(
                        f"Cannot {description} at {self._get_name()}: no result within "
                        f"{operation.seconds:.0f} s. Check the server, or set {VARIABLE}=SECONDS "
                        "to wait longer."
                    )
                try:
                    self._check_lease()
                except BackendProblem as problem:
                    raise OperationAbandoned(
                        f"Cannot {description} at {self._get_name()}: {problem}"
                    ) from None
        finally:
            operation.is_caller_waiting = False
        if failures:
            raise failures[0]
        return results[0]
