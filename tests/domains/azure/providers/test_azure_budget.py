"""Tests of the request rate limit of a subscription, shared by all processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.domains.azure.providers.azure_rate_limit import (
    BUDGET_VARIABLE,
    RequestRateLimit,
    build_rate_limit_policies,
    read_environment_rate_limit,
)
from nexusform.interfaces.plugins import ProviderProblem


def build_rate_limits(
    directory: Path, count: int
) -> tuple[list[RequestRateLimit], list[float], Callable[[], float]]:
    """Return a number of rate limits as separate processes.

    With them are the times of their requests, and their common clock.
    """
    time = [1000.0]
    sent: list[float] = []

    def now() -> float:
        return time[0]

    def sleep(seconds: float) -> None:
        sent.append(time[0] + seconds)

    return [RequestRateLimit(60, str(directory), now, sleep) for _ in range(count)], sent, now


def test_requests_of_all_processes_are_spread_evenly(tmp_path: Path) -> None:
    processes, sent, _ = build_rate_limits(tmp_path, 3)
    for _ in range(2):
        for process in processes:
            process.wait_for_slot("6f0c-1A")
    assert sent == [1001.0, 1002.0, 1003.0, 1004.0, 1005.0]
    processes[0].wait_for_slot("another")
    assert len(sent) == 5


def test_invalid_file_delays_no_requests_for_long(tmp_path: Path) -> None:
    processes, sent, now = build_rate_limits(tmp_path, 1)
    (tmp_path / "s.next").write_text("9999999999.0")
    processes[0].wait_for_slot("s")
    assert sent == [now() + 60]
    (tmp_path / "t.next").write_text("tomorrow")
    processes[0].wait_for_slot("t")
    assert len(sent) == 1


def test_rate_limit_is_read_from_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(BUDGET_VARIABLE, raising=False)
    assert build_rate_limit_policies("s") == []
    monkeypatch.setenv(BUDGET_VARIABLE, f"6000:{tmp_path}")
    pytest.importorskip("azure.core")
    (policy,) = build_rate_limit_policies("s")
    policy.on_request(None)
    assert (tmp_path / "s.next").exists()
    for wrong in ("many", "0:/tmp", "5"):
        monkeypatch.setenv(BUDGET_VARIABLE, wrong)
        with pytest.raises(ProviderProblem, match="N:DIRECTORY"):
            read_environment_rate_limit()
