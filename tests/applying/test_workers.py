"""Calls at work, and calls that only wait for the other side and leave their place to others."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from nexusform.applying.provider_workers import CompletedCall, ProviderWorkerPool


def test_a_call_that_was_handed_out_earlier_takes_the_place_of_one_that_only_waits() -> None:
    second_is_done = Event()

    def call(task: str, tell: Callable[[str], None]) -> bool:
        if task == "second":
            second_is_done.set()
            return True
        tell("waits")  # for what the second brings about, which was handed out already
        return second_is_done.wait(120)

    workers: ProviderWorkerPool[str, bool, str] = ProviderWorkerPool(1, call, lambda news: news == "waits")
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
