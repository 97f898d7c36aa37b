"""Calls in parallel that no interrupt or error waits for."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def call_in_parallel(
    function: Callable[[_Item], _Result], items: Iterable[_Item], limit: int
) -> list[_Result]:
    """Return the results of a function for all items, in their order, at most `limit` at a time.

    Raises the exception of the first item that has one, without waiting for calls in progress, as a
    ThreadPoolExecutor does also at the end of the program: a silent server would block both.
    """
    calls = [(Future[_Result](), item) for item in items]
    pending = deque(calls)

    def run_calls() -> None:
        while True:
            try:
                future, item = pending.popleft()
            except IndexError:
                return
            try:
                future.set_result(function(item))
            # Raised again in the thread of the caller.
            except BaseException as problem:  # noqa: BLE001
                # No other call begins. Those of earlier items are done or in progress.
                pending.clear()
                future.set_exception(problem)

    for _ in range(min(limit, len(calls))):
        Thread(target=run_calls, name="nexusform", daemon=True).start()
    try:
        return [future.result() for future, _ in calls]
    finally:
        # Nor after an interrupt.
        pending.clear()
