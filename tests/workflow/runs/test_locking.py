from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nexusform.backends.memory import MemoryBackend
from nexusform.workflow.runs.state_locking import LockOptions, acquire_lock, build_lock_info


class WaitingClock:
    """A clock advanced only by sleeping; the lock is released after `until` seconds."""

    def __init__(self, backend: MemoryBackend, until: float) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.backend = backend
        self.until = self.at + timedelta(seconds=until)
        self.sleeps: list[float] = []

    def read_time(self) -> datetime:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.at += timedelta(seconds=seconds)
        holder = self.backend.read_lock()
        if holder is not None and self.at >= self.until:
            self.backend.unlock(holder.id)


def build_locked_backend(until: float) -> tuple[MemoryBackend, WaitingClock]:
    backend = MemoryBackend()
    clock = WaitingClock(backend, until)
    backend.lock(build_lock_info("OperationTypeApply", backend, clock, {}))
    return backend, clock


def test_lock_is_retried_with_growing_pauses_and_one_message() -> None:
    backend, clock = build_locked_backend(until=5)
    told: list[str] = []
    lock, problems = acquire_lock(
        backend, "plan", LockOptions(timeout=60), clock=clock, environment={}, on_wait=told.append
    )
    assert lock is not None
    assert problems == []
    assert clock.sleeps == sorted(clock.sleeps)
    assert len(told) == 1
    assert told[0].startswith("Acquiring state lock. This may take a few moments...")
    assert "OperationTypeApply" in told[0]
    assert lock.release() == []
    assert backend.read_lock() is None


def test_short_wait_prints_no_message() -> None:
    backend, clock = build_locked_backend(until=0.2)
    told: list[str] = []
    lock, _ = acquire_lock(
        backend, "plan", LockOptions(timeout=9), clock=clock, environment={}, on_wait=told.append
    )
    assert lock is not None
    assert told == []


def test_lock_timeout_names_the_holder() -> None:
    backend, clock = build_locked_backend(until=1000)
    lock, problems = acquire_lock(
        backend, "plan", LockOptions(timeout=3), clock=clock, environment={}, on_wait=lambda _: None
    )
    holder = backend.read_lock()
    assert lock is None
    assert holder is not None
    assert sum(clock.sleeps) >= 3
    for part in (
        holder.id,
        holder.who,
        "OperationTypeApply",
        f"nexusform force-unlock {holder.id}",
    ):
        assert part in problems[0].detail


def test_disabled_locking_takes_no_lock() -> None:
    backend, clock = build_locked_backend(until=1000)
    for locking, ids in (
        (LockOptions(enabled=False), ["unlocked-state"]),
        (LockOptions(enabled=False, is_exclusive=True), []),
    ):
        lock, problems = acquire_lock(
            backend, "plan", locking, clock=clock, environment={}, on_wait=lambda _: None
        )
        assert lock is None
        assert [problem.id for problem in problems] == ids


def test_lock_info_links_the_ci_job() -> None:
    backend, clock = build_locked_backend(until=0)
    github = {"GITHUB_RUN_ID": "7", "GITHUB_REPOSITORY": "o/r"}
    assert (
        build_lock_info("x", backend, clock, github).link == "https://github.com/o/r/actions/runs/7"
    )
    assert (
        build_lock_info("x", backend, clock, {"CI_JOB_URL": "https://ci/1"}).link == "https://ci/1"
    )
    assert build_lock_info("x", backend, clock, {}).link == ""


def test_lock_broken_during_a_run_is_reported() -> None:
    backend = MemoryBackend()
    clock = WaitingClock(backend, 0)
    lock, _ = acquire_lock(
        backend, "plan", LockOptions(), clock=clock, environment={}, on_wait=lambda _: None
    )
    assert lock is not None
    backend.force_unlock(lock.id)
    assert "State unlock error" in lock.release()[0].summary
