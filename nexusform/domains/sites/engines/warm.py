"""Warm worker processes of this machine: started once, each does many sites one after the other."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO, Final

from msgspec import Struct, field

from nexusform.domains.sites.engines.warm_worker import receive, send
from nexusform.domains.sites.ports import Done, EngineProblem, lost
from nexusform.domains.sites.types.work import Answer, Kind, Task, answer_of, encode

_MODULE: Final = "nexusform.domains.sites.engines.warm_worker"
_ATTEMPTS: Final = 3
_IDLE: Final = 0.2  # seconds between looks at whether more may be begun


class _Process(Struct):
    """One worker process and what it is doing."""

    process: subprocess.Popen[bytes]
    tasks: IO[bytes]
    answers: IO[bytes]
    task: Task | None = None


class _Work(Struct):
    """What one call of `run` has to do."""

    done: Done
    waiting: deque[Task]
    own: dict[int, deque[Task]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)


class WarmWorkers:
    """An engine of worker processes, as many as there are cores."""

    def __init__(self, count: int = 0) -> None:
        self._count = count or len(os.sched_getaffinity(0))
        self._processes: list[_Process] = []
        self._homes: dict[str, int] = {}  # site -> the worker that holds its lock

    @property
    def workers(self) -> int:
        """How many there are."""
        return self._count

    def run(
        self, tasks: Sequence[Task], done: Done, *, at_once: Callable[[], int], stopping: Callable[[], bool]
    ) -> list[Task]:
        """See Engine."""
        work = _Work(done, deque())
        for task in tasks:
            self._queue(task, work)
        while True:
            self._begin(work, at_once, stopping)
            busy = [number for number, each in enumerate(self._processes) if each.task is not None]
            left = bool(work.waiting) or any(work.own.values())
            if not busy and (not left or stopping()):
                return [*work.waiting, *(task for queue in work.own.values() for task in queue)]
            self._wait(busy, work)

    def close(self) -> None:
        """End the processes: each ends when nobody can ask it any more."""
        for each in self._processes:
            self._end(each)
        self._processes = []
        self._homes = {}

    # --- how -----------------------------------------------------------------------------------

    def _queue(self, task: Task, work: _Work) -> None:
        """To the worker that holds the site's lock, else to whoever is free."""
        home = self._homes.get(task.site) if task.kind in (Kind.APPLY, Kind.RELEASE) else None
        queue = work.waiting if home is None else work.own.setdefault(home, deque())
        queue.append(task)

    def _begin(self, work: _Work, at_once: Callable[[], int], stopping: Callable[[], bool]) -> None:
        """Hand out tasks to whoever is free, as far as that is allowed."""
        wanted = min(self._count, len(work.waiting))
        while len(self._processes) < max(wanted, min(1, len(work.waiting) + len(work.own))):
            self._processes.append(_started())
        for number, each in enumerate(self._processes):
            under_way = sum(other.task is not None for other in self._processes)
            if stopping() or under_way >= at_once():
                return
            queue = work.own.get(number) or work.waiting
            if each.task is None and queue:
                self._hand(number, queue.popleft(), work)

    def _hand(self, number: int, task: Task, work: _Work) -> None:
        """Give a task to a worker."""
        each = self._processes[number]
        each.task = task
        work.attempts[task.identity] = work.attempts.get(task.identity, 0) + 1
        try:
            send(each.tasks, encode(task))
        except OSError:
            self._lost(number, work)

    def _wait(self, busy: Sequence[int], work: _Work) -> None:
        """Take the answers that are there, or wait a moment for one."""
        with selectors.DefaultSelector() as selector:
            for number in busy:
                selector.register(self._processes[number].answers, selectors.EVENT_READ, number)
            ready = [key.data for key, _ in selector.select(_IDLE)]
        for number in ready:
            self._take(number, work)

    def _take(self, number: int, work: _Work) -> None:
        """Take the answer of a worker, or see that it is gone."""
        each = self._processes[number]
        message = receive(each.answers)
        if message is None or each.task is None:
            self._lost(number, work)
            return
        task, each.task = each.task, None
        answer = answer_of(message)
        self._note_home(task, answer, number)
        work.done(task, answer)

    def _note_home(self, task: Task, answer: Answer, number: int) -> None:
        if answer.held and task.kind is Kind.PREPARE:
            self._homes[task.site] = number
        else:
            self._homes.pop(task.site, None)

    def _lost(self, number: int, work: _Work) -> None:
        """A worker is gone: another takes its place, and its task once more; then the task has failed."""
        gone = self._processes[number]
        self._end(gone)
        self._processes[number] = _started()
        self._homes = {site: home for site, home in self._homes.items() if home != number}
        work.waiting.extend(work.own.pop(number, ()))  # what it held is held no more
        if gone.task is None:
            return
        if work.attempts[gone.task.identity] < _ATTEMPTS:
            work.waiting.append(gone.task)
            return
        work.done(gone.task, lost(gone.task, _how(gone.process)))

    def _end(self, each: _Process) -> None:
        for stream in (each.tasks, each.answers):
            try:
                stream.close()
            except OSError:
                continue  # its other end is gone
        each.process.wait()


def _started() -> _Process:
    """A new worker process. -P: what lies in the directory is not imported."""
    try:
        process = subprocess.Popen(  # noqa: S603 - this very Python and a module of ours
            [sys.executable, "-P", "-m", _MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as problem:
        raise EngineProblem(f"No worker process can be started: {problem.strerror}.") from None
    assert process.stdin is not None, "a pipe"
    assert process.stdout is not None, "a pipe"
    return _Process(process, process.stdin, process.stdout)


def _how(process: subprocess.Popen[bytes]) -> str:
    """How a process ended, in words."""
    code = process.returncode
    why = (
        f"was ended by {signal.Signals(-code).name}"
        if code is not None and code < 0
        else f"ended with {code}"
    )
    return f"The worker process that did this {why}, and so did those that tried again."
