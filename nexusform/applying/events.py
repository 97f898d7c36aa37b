"""Options and events of the executor.

Listeners return nothing, so they cannot influence it.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field

from nexusform.plans.plan import StepKind
from nexusform.resources.graph import DEFAULT_PARALLELISM


class ExecutionOptions(Struct, frozen=True):
    """Options of an apply.

    `parallelism` steps run at a time; with `fail_fast`, the first failure stops the remaining
    steps; `should_stop` is called before every step; `waits_for_user` means that a user is present
    for actions that a provider cannot do. `write_only` are write-only arguments by address.
    `lineage` is that of the state. `start_values` are those of the plan by address, in the
    providers' own formats. `check_site` reads the site and returns why no further step may start
    ("" if one may). It is called while no step runs, or all only wait, if none started for
    `maximum_wait` seconds. If it is None, it is never called.
    """

    parallelism: int = DEFAULT_PARALLELISM
    fail_fast: bool = False
    should_stop: Callable[[], bool] = lambda: False
    waits_for_user: bool = False
    write_only: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lineage: str = ""
    start_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    check_site: Callable[[], str] | None = None
    maximum_wait: float = 600.0


DEFAULT_OPTIONS: Final = ExecutionOptions()


class StepOutcome(StrEnum):
    """Outcome of a step."""

    DONE = "done"
    FAILED = "failed"
    # Started, continues with the next run.
    WAITING = "waiting"
    SKIPPED = "skipped"


class StepEvent(Struct, frozen=True):
    """Start, progress or end (`outcome` set) of a step.

    `elapsed` is in seconds; `error` is the message of a failure, or the reason of skipping.
    `message` is the provider's progress message or remark, "" for none. `is_delegated` means that
    it waits because a person must do it on the site. `not_verified` describes unread results.
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
        """Report a step as still running, every ten seconds, or a message of its provider."""

    def report_step_end(self, event: StepEvent) -> None:
        """Report the end of a step."""
