"""Tests of the threads in which operations on servers run."""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar

import pytest

from nexusform.network.deadlines import DeadlineRunner, OperationAbandoned

LABEL: ContextVar[str] = ContextVar("label", default="")


def test_operations_after_one_another_share_a_thread() -> None:
    runner = DeadlineRunner(lambda: "server")
    threads = {runner.run("ask", threading.current_thread) for _ in range(50)}
    assert threading.current_thread() not in threads
    # One may start while the thread of the one before has not ended it.
    assert len(threads) < 10


def test_abandoned_operation_keeps_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    runner = DeadlineRunner(lambda: "server")
    over = threading.Event()
    try:
        with pytest.raises(OperationAbandoned, match="no result within 1 s"):
            runner.run("ask", lambda: over.wait(60))
        assert runner.run("ask", lambda: "answer") == "answer"
    finally:
        over.set()


def test_operation_leaves_no_value_to_the_next_one() -> None:
    runner = DeadlineRunner(lambda: "server")

    def exchange_label() -> str:
        label = LABEL.get()
        LABEL.set("of an earlier operation")
        return label

    assert [runner.run("ask", exchange_label) for _ in range(3)] == ["", "", ""]


def test_child_process_starts_its_own_threads() -> None:
    runner = DeadlineRunner(lambda: "server")
    assert runner.run("ask", lambda: "answer") == "answer"
    child = os.fork()
    if not child:
        os._exit(0 if runner.run("ask", lambda: "answer") == "answer" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
