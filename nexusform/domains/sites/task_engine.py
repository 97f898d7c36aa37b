"""Interface of engines that run tasks of many sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus, SiteTaskKind, Task

OnResult: TypeAlias = Callable[[Task, SiteResult], None]


class TaskEngineError(Exception):
    """Unusable engine, or failed; the message is for the user. `running`: sites with a task in progress."""

    def __init__(self, message: str, running: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.running = frozenset(running)


class TaskEngine(Protocol):
    """Runner of tasks on workers. The crash of a worker affects no other task."""

    @property
    def parallelism(self) -> int:
        """Number of tasks running at a time."""
        ...

    def run_tasks_until_stopped(
        self,
        tasks: Sequence[Task],
        on_result: OnResult,
        *,
        max_running: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> list[Task]:
        """Run all tasks and report each result; return the tasks not started. Before each start,
        `max_running` gives the maximum of running tasks (0: none now), and `is_stopping` if no further task
        may start. A task with a crashed worker is retried on another one. Raises EngineError.
        """
        ...

    def close(self) -> None:
        """Release the workers."""
        ...


def build_lost_result(task: Task, reason: str) -> SiteResult:
    """Build the result of a task that no worker completed."""
    status = SiteStatus.REFUSED if task.kind in (SiteTaskKind.PLAN, SiteTaskKind.ASK) else SiteStatus.FAILED
    return SiteResult(task.site, status, reason)
