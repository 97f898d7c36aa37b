"""Threads for provider calls; decisions stay with the executor."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Generic, TypeVar

from msgspec import Struct

from nexusform.interfaces.plugins import ProviderProblem

Task = TypeVar("Task")
Answer = TypeVar("Answer")
News = TypeVar("News")


class CompletedCall(Struct, Generic[Task, Answer], frozen=True):
    """Completed call: with an answer, or with the provider's problem."""

    task: Task
    answer: Answer | None
    problem: ProviderProblem | None


class ProviderCallProgress(Struct, Generic[Task, News], frozen=True):
    """Progress of a running call, which waits for the acknowledgement."""

    task: Task
    news: News
    acknowledgement: SimpleQueue[ProviderProblem | None]


class ProviderWorkerPool(Generic[Task, Answer, News]):
    """Pool of at most `count` active calls, others wait in line; threads start on demand.

    A call with `is_idle` news frees its slot for others. `call` runs a task, and reports news by
    its second argument, which returns after the acknowledgement (or raises the reason to stop). The
    threads are daemons: a run that must stop at once does not wait for a hanging provider.
    """

    def __init__(
        self,
        count: int,
        call: Callable[[Task, Callable[[News], None]], Answer],
        is_idle: Callable[[News], bool] = lambda _news: False,
    ) -> None:
        """Create a pool for `count` active calls.

        `is_idle` returns whether a call only waits after this news.
        """
        self._count = count
        self._call = call
        self._is_idle = is_idle
        # One per active call.
        self._slots = Semaphore(count)
        # Calls only waiting, without a slot.
        self._idle_count = 0
        self._inbox: SimpleQueue[Task | None] = SimpleQueue()
        self._outbox: SimpleQueue[
            CompletedCall[Task, Answer] | ProviderCallProgress[Task, News]
        ] = SimpleQueue()
        self._threads: list[Thread] = []
        # Calls submitted and not collected.
        self._running_count = 0
        # Those of them with an answer in the outbox.
        self._ended_count = 0
        self._count_lock = Lock()

    @property
    def running_count(self) -> int:
        """Number of calls submitted and not collected."""
        return self._running_count

    @property
    def idle_count(self) -> int:
        """Number of idle calls."""
        return self._idle_count

    @property
    def has_only_ended(self) -> bool:
        """Whether every submitted call has ended and can be collected."""
        return self._ended_count == self._running_count

    def submit(self, task: Task) -> None:
        """Submit one call."""
        self._running_count += 1
        self._start_needed_worker_threads()
        self._inbox.put(task)

    def collect(
        self, seconds: float
    ) -> list[CompletedCall[Task, Answer] | ProviderCallProgress[Task, News]]:
        """Wait at most `seconds` for calls to end or report; return everything received, in order.

        After the first message, only those already in the outbox are added, without waiting.
        """
        collected: list[CompletedCall[Task, Answer] | ProviderCallProgress[Task, News]] = []
        try:
            collected.append(self._outbox.get(timeout=seconds))
            while True:
                collected.append(self._outbox.get_nowait())
        except Empty:
            # Everything was received.
            ended_count = sum(isinstance(item, CompletedCall) for item in collected)
            self._running_count -= ended_count
            # Worker threads add to it when a call ends.
            with self._count_lock:
                # Those collected now.
                self._ended_count -= ended_count
            return collected

    def close(self) -> None:
        """Stop the idle threads."""
        for _ in self._threads:
            # Ends one thread.
            self._inbox.put(None)

    def _run_tasks_until_stopped(self) -> None:
        """Run tasks in a thread of the pool, one by one; None in the inbox ends it."""
        while (task := self._inbox.get()) is not None:
            self._slots.acquire()
            completed_call = self._run_call(task)
            with self._count_lock:
                self._ended_count += 1
            self._outbox.put(completed_call)

    def _run_call(self, task: Task) -> CompletedCall[Task, Answer]:
        """Run a call in the current thread.

        Return its answer, or the problem raised by the provider. Other exceptions of the
        provider become a problem, too. The call frees its slot once it is idle (only waits),
        else at its end.
        """
        # Idle: the slot is free for another call.
        is_resting = False

        def report(news: News) -> None:
            nonlocal is_resting
            # It only waits from now on.
            if self._is_idle(news) and not is_resting:
                is_resting = True
                self._change_idle_worker_count(1)
                self._slots.release()
            acknowledgement: SimpleQueue[ProviderProblem | None] = SimpleQueue()
            self._outbox.put(ProviderCallProgress(task, news, acknowledgement))
            # The queue answers once the journal has it.
            problem = acknowledgement.get()
            # The progress could not be recorded.
            if problem is not None:
                raise problem

        try:
            return CompletedCall(task, self._call(task, report), problem=None)
        except ProviderProblem as problem:
            return CompletedCall(task, answer=None, problem=problem)
        except Exception as bug:  # noqa: BLE001
            # A provider's bug fails its step, not the whole apply.
            text = f"The provider stopped with an error of its own: {type(bug).__name__}: {bug}"
            return CompletedCall(task, answer=None, problem=ProviderProblem(text))
        finally:
            if is_resting:
                self._change_idle_worker_count(-1)
            else:
                self._slots.release()

    # By 1 or -1; an idle call only waits.
    def _change_idle_worker_count(self, change: int) -> None:
        with self._count_lock:
            self._idle_count += change
        if change > 0:
            # For a call submitted before this one became idle.
            self._start_needed_worker_threads()

    def _start_needed_worker_threads(self) -> None:
        """Start the threads needed for waiting calls.

        One per running call, and at most one for each slot and each idle call. An idle call keeps
        its thread, but gives its slot to another call.
        """
        with self._count_lock:
            while len(self._threads) < min(self._running_count, self._count + self._idle_count):
                thread = Thread(
                    target=self._run_tasks_until_stopped,
                    daemon=True,
                    name=f"step-{len(self._threads)}",
                )
                thread.start()
                self._threads.append(thread)
