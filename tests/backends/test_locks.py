import threading

import pytest

from nexusform.backends import locks as lock_text
from nexusform.backends.locks import LeaseLost, LockLease
from nexusform.interfaces.state_storage import BackendProblem


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 100.0
        monkeypatch.setattr(lock_text, "read_monotonic_clock", lambda: self.time)


def test_a_claim_holds_until_shortly_before_it_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    claim = LockLease(30, lambda: None)
    claim.begin(sent_at=100.0)
    clock.time = 128.5
    claim.check_valid()
    clock.time = 129.5
    with pytest.raises(BackendProblem, match="could not be renewed for 30 s"):
        claim.check_valid()
    claim.stop()


def test_a_claim_counts_from_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    claim = LockLease(30, lambda: None)
    claim.begin(sent_at=60.0)  # the answer came 40 s later
    with pytest.raises(BackendProblem):
        claim.check_valid()
    claim.stop()


def test_a_renewal_prolongs_the_claim() -> None:
    renewed = threading.Event()
    claim = LockLease(0.3, renewed.set)
    claim.begin(sent_at=lock_text.read_monotonic_clock())
    assert renewed.wait(10)
    claim.stop()


def test_a_claim_that_somebody_else_has_is_lost_at_once() -> None:
    refused = threading.Event()

    def renew() -> None:
        refused.set()
        raise LeaseLost("another run has it")

    claim = LockLease(0.3, renew)
    claim.begin(sent_at=lock_text.read_monotonic_clock() + 1000)
    assert refused.wait(10)
    claim.stop()  # waits for the thread
    with pytest.raises(BackendProblem, match="another run has it"):
        claim.check_valid()


def test_a_disturbance_is_tried_again_before_the_claim_runs_out() -> None:
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


@pytest.mark.parametrize("text", ["0", "14", "61", "soon", "-1", "15.5"])
def test_a_claim_of_another_length_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NF_LEASE_SECONDS", text)
    with pytest.raises(BackendProblem, match="from 15 to 60"):
        lock_text.read_lease_seconds()
