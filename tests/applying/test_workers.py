"""Tests of provider workers: a call in a wait releases its worker to other calls."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from nexusform.applying.provider_workers import CompletedCall, ProviderWorkerPool


def test_waiting_call_releases_worker_to_submitted_call() -> None:
    second_is_done = Event()

    def execute_task(task: str, tell: Callable[[str], None]) -> bool:
        if task == "second":
            second_is_done.set()
            return True
        # For the effect of the second task, submitted already.
        tell("waits")
        return second_is_done.wait(120)

    workers: ProviderWorkerPool[str, bool, str] = ProviderWorkerPool(
        1, execute_task, lambda news: news == "waits"
    )
    workers.submit("first")
    workers.submit("second")
    ended: dict[str, bool | None] = {}
    while workers.running_count:
        for each in workers.collect(120):
            if isinstance(each, CompletedCall):
                ended[each.task] = each.answer
            else:
                each.acknowledgement.put(None)
    workers.close()
    assert ended == {"first": True, "second": True}
