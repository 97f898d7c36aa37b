"""What is asked of whoever does the work of many sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from nexusform.domains.sites.types.work import Answer, Kind, Status, Task

Done: TypeAlias = Callable[[Task, Answer], None]


class EngineProblem(Exception):
    """An engine that cannot be used, or no longer; the message is for the user."""


class Engine(Protocol):
    """Does tasks on some worker each. What kills a worker harms no other task."""

    @property
    def workers(self) -> int:
        """How many tasks are done at a time."""
        ...

    def run(
        self, tasks: Sequence[Task], done: Done, *, at_once: Callable[[], int], stopping: Callable[[], bool]
    ) -> list[Task]:
        """Do all tasks, telling what came of each as it comes; those that were not begun.

        Before each is begun `at_once` says how many may be under way (0: none now), and `stopping` whether no
        further one is to be begun. A task whose worker is gone is done by another one. Raises EngineProblem.
        """
        ...

    def close(self) -> None:
        """Let go of the workers."""
        ...


def lost(task: Task, why: str) -> Answer:
    """The answer for a task that no worker came to the end of."""
    status = Status.REFUSED if task.kind in (Kind.PLAN, Kind.ASK) else Status.FAILED
    return Answer(task.site, status, why)
