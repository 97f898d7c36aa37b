"""Worker processes of this machine, started once for many sites."""

import os
import selectors
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import IO, Final

from msgspec import Struct, field

from nexusform.domains.sites.engines import local_worker
from nexusform.domains.sites.engines.local_worker import receive_message, send_message
from nexusform.domains.sites.types.site_tasks import (
    OnResult,
    SiteTaskKind,
    Task,
    TaskEngineError,
    build_lost_result,
    decode_task_result,
    encode_task_message,
)

_ATTEMPTS: Final = 3


class WorkerProcess(Struct):
    """Worker process and its current task.

    `lifeline` is a pipe that the process ends with, None for one that finishes its task first.
    """

    process: subprocess.Popen[bytes]
    tasks: IO[bytes]
    results: IO[bytes]
    lifeline: IO[bytes] | None = None
    task: Task | None = None

    def close(self) -> None:
        """Close the pipes, and wait for the end of the process."""
        for stream in (self.tasks, self.results):
            # The other end is closed.
            with suppress(OSError):
                stream.close()
        self.process.wait()
        if self.lifeline is not None:
            self.lifeline.close()


class _Batch(Struct):
    """Tasks of one call of `run_tasks_until_stopped`."""

    on_result: OnResult
    pending: deque[Task]
    assigned: dict[int, deque[Task]] = field(default_factory=dict)
    attempts: Counter[tuple[str, int]] = field(default_factory=Counter)


class LocalTaskEngine:
    """Engine of worker processes, one per core by default."""

    def __init__(self, count: int = 0) -> None:
        # By default one per usable CPU.
        self._count = count or len(os.sched_getaffinity(0))
        self._processes: list[WorkerProcess] = []
        # By site: the index in _processes of the worker with its lock.
        self._homes: dict[str, int] = {}

    @property
    def parallelism(self) -> int:
        """Number of worker processes."""
        return self._count

    def run_tasks_until_stopped(
        self,
        tasks: Sequence[Task],
        on_result: OnResult,
        *,
        max_running: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> list[Task]:
        """Run up to `max_running()` tasks at once until `is_stopping()`.

        Return the tasks not started.
        """
        batch = _Batch(on_result, deque())
        for task in tasks:
            # A task of a locked site runs on the worker (by number) with its lock, any other one
            # (None) on any worker.
            home = (
                self._homes.get(task.site)
                if task.kind in (SiteTaskKind.APPLY, SiteTaskKind.RELEASE)
                else None
            )
            queue = batch.pending if home is None else batch.assigned.setdefault(home, deque())
            queue.append(task)
        while True:
            self._start_tasks(batch, max_running, is_stopping)
            busy = [
                (number, worker.task)
                for number, worker in enumerate(self._processes)
                if worker.task is not None
            ]
            has_pending = bool(batch.pending) or any(batch.assigned.values())
            if not busy and (not has_pending or is_stopping()):
                return [*batch.pending, *chain.from_iterable(batch.assigned.values())]
            # The selector receives the available results, or waits a moment for one.
            with selectors.DefaultSelector() as selector:
                for number, task in busy:
                    selector.register(
                        self._processes[number].results, selectors.EVENT_READ, (number, task)
                    )
                ready = [key.data for key, _ in selector.select(0.2)]
            for number, task in ready:
                self._receive_result(number, task, batch)

    def close(self) -> None:
        """Close the processes; each ends at the end of its input."""
        for worker in self._processes:
            worker.close()
        self._processes = []
        self._homes = {}

    def _start_tasks(
        self, batch: _Batch, max_running: Callable[[], int], is_stopping: Callable[[], bool]
    ) -> None:
        """Start tasks on idle workers until `max_running` tasks run or the run is stopping.

        A worker takes the tasks assigned to it first, then any other. Workers are started as long
        as tasks need them.
        """
        # Assigned tasks have their worker.
        while len(self._processes) < min(self._count, len(batch.pending)):
            self._processes.append(start_process())
        for number, worker in enumerate(self._processes):
            running_count = sum(
                running_worker.task is not None for running_worker in self._processes
            )
            if is_stopping() or running_count >= max_running():
                return
            queue = batch.assigned.get(number) or batch.pending
            if worker.task is None and queue:
                task = worker.task = queue.popleft()
                batch.attempts[task.identity] += 1
                try:
                    send_message(worker.tasks, encode_task_message(task))
                except OSError:
                    # It has crashed.
                    self._replace_worker(number, task, batch)

    def _receive_result(self, number: int, task: Task, batch: _Batch) -> None:
        """Receive the result of a worker's task, or replace a crashed worker."""
        worker = self._processes[number]
        message = receive_message(worker.results)
        if message is None:
            self._replace_worker(number, task, batch)
            return
        worker.task = None
        result = decode_task_result(message)
        if result.is_locked and task.kind is SiteTaskKind.PREPARE:
            # The worker with the lock.
            self._homes[task.site] = number
        else:
            # No worker has its lock.
            self._homes.pop(task.site, None)
        batch.on_result(task, result)

    def _replace_worker(self, number: int, task: Task, batch: _Batch) -> None:
        """Replace a crashed worker and retry its task on any worker.

        After the last attempt the failure is reported.
        """
        crashed = self._processes[number]
        crashed.close()
        self._processes[number] = start_process()
        self._homes = {site: home for site, home in self._homes.items() if home != number}
        # The locks they need ended with the worker.
        batch.pending.extend(batch.assigned.pop(number, ()))
        if batch.attempts[task.identity] < _ATTEMPTS:
            batch.pending.append(task)
            return
        code = crashed.process.returncode
        exit_text = (
            f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        )
        reason = f"The worker process of this site {exit_text} (also after retries)."
        batch.on_result(task, build_lost_result(task, reason))


def start_process(*, ends_with_parent: bool = False) -> WorkerProcess:
    """Start a worker process, without modules of the current directory (-P).

    If this process dies, the worker finishes its task, or ends at once with `ends_with_parent`.
    Raises TaskEngineError.
    """
    words = [sys.executable, "-P", "-m", local_worker.__name__]
    inherited: tuple[int, ...] = ()
    lifeline = None
    if ends_with_parent:
        read_end, write_end = os.pipe()
        inherited = (read_end,)
        lifeline = os.fdopen(write_end, "wb")
        words += [local_worker.LIFELINE, str(read_end)]
    try:
        process = subprocess.Popen(  # noqa: S603 - this very Python and a module of ours
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=inherited
        )
    except OSError as problem:
        raise TaskEngineError(f"No worker process can be started: {problem.strerror}.") from None
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    assert process.stdin is not None, "a pipe"
    assert process.stdout is not None, "a pipe"
    return WorkerProcess(process, process.stdin, process.stdout, lifeline)
