"""What the executor tells while it works. Listeners return nothing, so they cannot steer."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from nexusform.plans.plan import StepKind


class Outcome(StrEnum):
    """How a step ended."""

    DONE = "done"
    FAILED = "failed"
    WAITING = "waiting"  # it has begun, and goes on with the next run
    SKIPPED = "skipped"


class StepEvent(Struct, frozen=True):
    """A step started, goes on, or ended (`outcome` set). `elapsed` in seconds; `error` the
    message of a failure, or why it was skipped. `news` is what the provider told of it, "" when it only goes
    on. `by_others`: it failed because somebody else is to do it.
    """

    address: str
    kind: StepKind
    id: str
    elapsed: float = 0.0
    outcome: Outcome | None = None
    error: str = ""
    deposed: str = ""
    news: str = ""
    by_others: bool = False


class Listener(Protocol):
    """Told about every step, from one thread at a time."""

    def started(self, event: StepEvent) -> None:
        """A step begins."""
        ...

    def progressed(self, event: StepEvent) -> None:
        """Ten more seconds have passed, or its provider told something (`news`)."""
        ...

    def ended(self, event: StepEvent) -> None:
        """A step ended."""
        ...
