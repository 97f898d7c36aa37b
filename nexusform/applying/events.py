"""Events of the executor. Listeners return nothing, so they cannot influence it."""

from enum import StrEnum

from msgspec import Struct

from nexusform.plans.plan import StepKind


class StepOutcome(StrEnum):
    """Outcome of a step."""

    DONE = "done"
    FAILED = "failed"
    WAITING = "waiting"  # started, continues with the next run
    SKIPPED = "skipped"


class StepEvent(Struct, frozen=True):
    """Start, progress or end (`outcome` set) of a step. `elapsed` in seconds; `error` is the message of a
    failure, or the reason of skipping. `message` is the provider's progress message or remark, "" for none.
    `is_delegated`: it waits because a person must do it on the site. `not_verified` describes unread results.
    """

    address: str
    kind: StepKind
    id: str
    elapsed: float = 0.0
    outcome: StepOutcome | None = None
    error: str = ""
    deposed: str = ""
    message: str = ""
    is_delegated: bool = False
    not_verified: str = ""


class StepListener:
    """Listener to all steps, called from one thread at a time; it ignores them by default."""

    def report_step_start(self, event: StepEvent) -> None:
        """Report the start of a step."""

    def report_step_progress(self, event: StepEvent) -> None:
        """Report ten more seconds of a step, or a message of its provider."""

    def report_step_end(self, event: StepEvent) -> None:
        """Report the end of a step."""
