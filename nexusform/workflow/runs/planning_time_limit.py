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

_REPEAT_SECONDS: Final = 0.25  # seconds until the exception is raised again, if other code caught it
_MAX_WAITS: Final = 8  # number of waits for code of nexusform, because exceptions in finalisers are lost


@contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    """Raise DiagnosticsError in the block after the seconds: by a signal in the main thread, else by another thread."""
    failure = DiagnosticsError(
        build_error(
            "time-budget",
            f"Planning exceeded the limit of a sandboxed run: {format_count(seconds, 'second')}. To allow "
            f"more, raise the limit: -limit=seconds=N or {VARIABLE_PREFIX}SECONDS=N.",
        )
    )
    is_main_thread = threading.current_thread() is threading.main_thread()
    has_signal = is_main_thread and hasattr(signal, "setitimer")
    with _limit_by_signal(seconds, failure) if has_signal else _limit_by_thread(seconds, failure):
        yield


@contextmanager
def _limit_by_signal(seconds: int, failure: DiagnosticsError) -> Iterator[None]:
    """Raise the failure in the main thread by a timer signal, after the seconds and repeatedly until the block ends."""
    remaining_waits, has_ended = _MAX_WAITS, False

    def handle_signal(_number: int, frame: FrameType | None) -> None:
        nonlocal remaining_waits
        if has_ended:
            return
        if remaining_waits and not _is_own_code(frame):
            remaining_waits -= 1
            return  # perhaps a finaliser runs, and would swallow the exception: try again later
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
    """Raise the failure in the planning thread, after the time limit and repeatedly until the block ends. A watching
    thread raises it. Python delivers such an exception later, perhaps only after the block: then it is replaced by a
    placeholder, and that one is suppressed.
    """
    planning_thread = threading.get_ident()
    has_ended = was_raised = False
    end_event = threading.Event()
    raise_lock = threading.Lock()

    class TimeLimitExceeded(DiagnosticsError):
        """Exception without arguments, as required for raising in another thread."""

        def __init__(self) -> None:
            super().__init__(*failure.diagnostics)

    def watch_time() -> None:
        """Raise the exception after the limit, and again while the block still runs."""
        nonlocal was_raised
        wait, remaining_waits = float(seconds), _MAX_WAITS
        while not end_event.wait(wait):
            wait = _REPEAT_SECONDS
            if remaining_waits and not _is_own_code(sys._current_frames().get(planning_thread)):  # noqa: SLF001 - there is no other
                remaining_waits -= 1
                continue  # perhaps a finaliser runs, and would swallow the exception: try again later
            with raise_lock:
                if has_ended:
                    return
                was_raised = True
                _raise_in_thread(planning_thread, TimeLimitExceeded)

    threading.Thread(target=watch_time, daemon=True, name="nexusform: time budget").start()
    try:
        yield
    finally:
        # The event is set last: an exception inside set() could leave its lock held, and the next call would hang.
        while not has_ended:
            with suppress(TimeLimitExceeded):  # the block ended in time, just before its exception
                has_ended = True
        with suppress(TimeLimitExceeded), raise_lock:
            if was_raised:
                with suppress(_PlaceholderError):  # it replaces a TimeLimitExceeded still pending after the block
                    _raise_in_thread(planning_thread, _PlaceholderError)
                    while True:
                        pass  # until it is raised
        end_event.set()


class _PlaceholderError(BaseException):
    """Exception that replaces a pending one."""


def _raise_in_thread(thread: int, kind: type[BaseException]) -> None:
    """Raise an exception in a thread at its next step; it replaces a pending one."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _is_own_code(frame: FrameType | None) -> bool:
    """Return whether the frame is code of nexusform, and not of a library or finaliser; False without a frame."""
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("nexusform.")
