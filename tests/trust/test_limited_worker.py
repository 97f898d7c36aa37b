"""Tests of the limits of a child process with a foreign engine."""

from __future__ import annotations

import sys

import pytest

from nexusform.files.limited_worker import LimitedWorker, WorkerFailure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


def start_engine() -> LimitedWorker:
    return LimitedWorker("tests.trust.keeping_engine", cpu_seconds=5, memory_mib=64, seconds=20)


def test_kept_memory_of_a_request_leaves_the_limit_of_the_next() -> None:
    engine = start_engine()
    # The third one would exceed a limit of the process.
    assert [engine.send_request(30) for _ in range(4)] == [1, 2, 3, 4]


def test_request_beyond_the_limit_ends_the_process_and_the_next_gets_a_new_one() -> None:
    engine = start_engine()
    assert engine.send_request(1) == 1
    with pytest.raises(WorkerFailure, match=r"5 s of processor time or 64 MiB of memory"):
        engine.send_request(100)
    assert engine.send_request(1) == 1
