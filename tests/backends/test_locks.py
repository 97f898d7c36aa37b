import threading

import pytest

from nexusform.backends import locks as lock_text
from nexusform.backends.locks import LeaseLost, LockLease
from nexusform.interfaces.state_storage import BackendProblem


class FakeClock:
    """Clock set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 100.0
        monkeypatch.setattr(lock_text, "read_monotonic_clock", lambda: self.time)


def test_lease_is_valid_until_shortly_before_its_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    claim = LockLease(30, lambda: None)
    claim.begin(sent_at=100.0)
    clock.time = 128.5
    claim.check_valid()
    clock.time = 129.5
    with pytest.raises(BackendProblem, match="could not be renewed for 30 s"):
        claim.check_valid()
    claim.stop()


def test_lease_starts_at_time_of_request(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeClock(monkeypatch)
    claim = LockLease(30, lambda: None)
    # The response arrived 40 s later.
    claim.begin(sent_at=60.0)
    with pytest.raises(BackendProblem):
        claim.check_valid()
    claim.stop()


def test_renewal_extends_the_lease() -> None:
    renewed = threading.Event()
    claim = LockLease(0.3, renewed.set)
    claim.begin(sent_at=lock_text.read_monotonic_clock())
    assert renewed.wait(10)
    claim.stop()


def test_lease_taken_by_another_run_is_lost_at_once() -> None:
    refused = threading.Event()

    def renew() -> None:
        refused.set()
        raise LeaseLost("another run has it")

    claim = LockLease(0.3, renew)
    claim.begin(sent_at=lock_text.read_monotonic_clock() + 1000)
    assert refused.wait(10)
    # waits for the thread.
    claim.stop()
    with pytest.raises(BackendProblem, match="another run has it"):
        claim.check_valid()


def test_renewal_is_retried_before_lease_expires() -> None:
    tries = []
    renewed = threading.Event()

    def renew() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("the network is gone")
        renewed.set()

    claim = LockLease(0.3, renew)
    claim.begin(sent_at=lock_text.read_monotonic_clock())
    assert renewed.wait(10)
    claim.stop()


@pytest.mark.parametrize("text", ["0", "14", "61", "soon", "-1", "15.5", "²", "9" * 5000])
def test_lease_duration_out_of_range_is_rejected(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("NF_LEASE_SECONDS", text)
    with pytest.raises(BackendProblem, match="from 15 to 60"):
        lock_text.read_lease_seconds()
