"""Time limit of planning, against endless untrusted configuration."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from nexusform.configuration.declarations.limits import VARIABLE_PREFIX
from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error
from nexusform.diagnostics.phrases import format_count

# Seconds until the exception is raised again, if other code caught it.
_REPEAT_SECONDS: Final = 0.25
# Number of waits for code of nexusform, because exceptions in finalisers are lost.
_MAX_WAITS: Final = 8


@contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    """Raise DiagnosticsError in the block after the seconds.

    A signal ends it in the main thread, else another thread does.
    """
    failure = DiagnosticsError(
        build_error(
            "time-budget",
            f"Planning exceeded the limit of a sandboxed run: {format_count(seconds, 'second')}. "
            f"To allow more, raise the limit: -limit=seconds=N or {VARIABLE_PREFIX}SECONDS=N.",
        )
    )
    is_main_thread = threading.current_thread() is threading.main_thread()
    has_signal = is_main_thread and hasattr(signal, "setitimer")
    with _limit_by_signal(seconds, failure) if has_signal else _limit_by_thread(seconds, failure):
        yield


@contextmanager
def _limit_by_signal(seconds: int, failure: DiagnosticsError) -> Iterator[None]:
    """Raise the failure in the main thread after the seconds, and repeatedly.

    A timer signal raises it, until the block ends.
    """
    remaining_waits = _MAX_WAITS
    has_ended = False

    def handle_signal(_number: int, frame: FrameType | None) -> None:
        nonlocal remaining_waits
        if has_ended:
            return
        if remaining_waits and not _is_own_code(frame):
            remaining_waits -= 1
            # A finaliser may run, and would swallow the exception: the next attempt is later.
            return
        raise failure

    old_handler = signal.signal(signal.SIGALRM, handle_signal)
    signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)
    try:
        yield
    finally:
        has_ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)


@contextmanager
def _limit_by_thread(seconds: int, failure: DiagnosticsError) -> Iterator[None]:
    """Raise the failure in this thread after the time limit, and repeatedly.

    Until the block ends.
    """

    class TimeLimitExceeded(DiagnosticsError):
        """Exception without arguments, as required for raising in another thread."""

        def __init__(self) -> None:
            super().__init__(*failure.diagnostics)

    watch = _PlanningWatch(threading.get_ident(), TimeLimitExceeded)
    threading.Thread(
        target=watch.run, args=(seconds,), daemon=True, name="nexusform: time budget"
    ).start()
    try:
        yield
    finally:
        watch.stop()


class _PlanningWatch:
    """Watch of the planning thread by another thread, which runs `run`.

    The planning thread calls `stop`. Python raises an exception of another thread late: at the next
    step of the thread, perhaps only after its planning.
    """

    def __init__(self, planning_thread: int, exception: type[Exception]) -> None:
        self._planning_thread = planning_thread
        self._exception = exception
        self._has_ended = self._was_raised = False
        self._end_event = threading.Event()
        self._raise_lock = threading.Lock()

    def run(self, seconds: float) -> None:
        """Raise the exception in the planning thread after the seconds.

        It is raised again while planning still runs.
        """
        wait = seconds
        remaining_delays = _MAX_WAITS
        while not self._end_event.wait(wait):
            wait = _REPEAT_SECONDS
            frame = sys._current_frames().get(self._planning_thread)  # noqa: SLF001 - there is no other
            if remaining_delays and not _is_own_code(frame):
                remaining_delays -= 1
                # A finaliser may run, and would swallow the exception: the next attempt is later.
                continue
            with self._raise_lock:
                if self._has_ended:
                    return
                self._was_raised = True
                _raise_in_thread(self._planning_thread, self._exception)

    def stop(self) -> None:
        """Stop the watch.

        The exception may arrive late, at any line of this function, and is suppressed here.
        """
        # The loop repeats if the exception arrives before the assignment.
        while not self._has_ended:
            with suppress(self._exception):
                self._has_ended = True
        with suppress(self._exception), self._raise_lock:
            # But perhaps not delivered yet: replace it by a placeholder, and wait for that.
            if self._was_raised:
                with suppress(_PlaceholderError):
                    _raise_in_thread(self._planning_thread, _PlaceholderError)
                    # Until the placeholder arrives.
                    while True:
                        pass
        # Last: an exception inside of set() could leave its lock held, and the next
        # call would hang.
        self._end_event.set()


class _PlaceholderError(BaseException):
    """Exception that replaces a pending one."""


def _raise_in_thread(thread: int, kind: type[BaseException]) -> None:
    """Raise an exception in a thread at its next step; it replaces a pending one."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _is_own_code(frame: FrameType | None) -> bool:
    """Return whether the frame is code of nexusform, and not of a library or finaliser.

    Without a frame, return False.
    """
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("nexusform.")
