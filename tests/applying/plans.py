"""Small plans, backends and listeners for tests of the apply package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nexusform.applying.events import StepEvent, StepListener
from nexusform.plans.plan import Action, Change, Plan, PlanStart, Step, StepKind
from nexusform.resources.address import Address


def build_address(name: str, kind: str = "nexus_rack") -> Address:
    return Address((), "managed", kind, name)


def build_attributes(name: str, **more: Any) -> dict[str, Any]:
    return {"id": f"lab/{name}", "name": name, **more}


def build_change(name: str, action: Action, creation: int, prior: int = 0, **more: Any) -> Change:
    before = None if action is Action.CREATE else build_attributes(name)
    after = None if action in (Action.DELETE, Action.FORGET) else build_attributes(name, size=2)
    given = {"before": before, "after": after, "provider": "simulated", **more}
    return Change(
        address=build_address(name), action=action, creation=creation, prior_creation=prior, **given
    )


def build_step(
    number: int, kind: StepKind, of: int, change: Change, waits_for: Sequence[int] = ()
) -> Step:
    prior = None if kind is StepKind.CREATE else change.before
    planned = None if kind in (StepKind.DELETE, StepKind.FORGET) else change.after
    return Step(number, kind, of, tuple(waits_for), prior, planned)


def build_create_plan(waits: Mapping[int, Sequence[int]]) -> Plan:
    """Return a plan with one create step per number and its dependencies."""
    changes = tuple(build_change(f"r{n}", Action.CREATE, n + 1) for n in waits)
    steps = tuple(
        build_step(n, StepKind.CREATE, i, changes[i], waits[n]) for i, n in enumerate(waits)
    )
    return Plan(changes=changes, steps=steps, start=PlanStart(nexusform_version="0.1.0"))


class JournalLines:
    """State backend as used by the executor; `written` are the lines of the journal."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.flushes = 0

    def append_all(self, records: Sequence[bytes]) -> None:
        self.flushes += 1
        self.written.extend(records)

    def append(self, record: bytes) -> None:
        self.append_all([record])


class RecordingListener(StepListener):
    """Listener for events of an apply; it keeps all of them."""

    def __init__(self) -> None:
        self.told: list[tuple[str, StepEvent]] = []

    def report_step_start(self, event: StepEvent) -> None:
        self.told.append(("started", event))

    def report_step_progress(self, event: StepEvent) -> None:
        self.told.append(("progressed", event))

    def report_step_end(self, event: StepEvent) -> None:
        self.told.append(("ended", event))

    def outcomes(self) -> dict[str, str]:
        return {e.address: str(e.outcome) for what, e in self.told if what == "ended"}


class TickingClock:
    """Clock advancing by one second at each reading."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = seconds

    def read_time(self) -> datetime:
        self.at += timedelta(seconds=self.seconds)
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
