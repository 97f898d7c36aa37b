"""Threads that call providers, and nothing else: decisions stay with the executor."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Generic, TypeVar

from msgspec import Struct

from nexusform.ports import ProviderProblem

Task = TypeVar("Task")
Answer = TypeVar("Answer")
News = TypeVar("News")


class EndedCall(Struct, Generic[Task, Answer], frozen=True):
    """A call that ended: with an answer, or with the problem that the provider raised."""

    task: Task
    answer: Answer | None
    problem: ProviderProblem | None


class CallNews(Struct, Generic[Task, News], frozen=True):
    """What is told of a call that goes on; whoever takes it says so to `heard`, for the call waits for it."""

    task: Task
    news: News
    heard: SimpleQueue[ProviderProblem | None]


class Workers(Generic[Task, Answer, News]):
    """At most `count` calls at work at once, others wait in line; threads start as they are needed. A call
    that tells news of which `rests` says so only waits from then on, and others may be at work meanwhile.

    `call` does a task, and tells news of it by its second argument, which returns once they were heard (or
    raises what stands against going on). The threads are daemons: a run that must stop at once does not wait
    for a provider that hangs.
    """

    def __init__(
        self,
        count: int,
        call: Callable[[Task, Callable[[News], None]], Answer],
        rests: Callable[[News], bool] = lambda _news: False,
    ) -> None:
        self._count = count
        self._call = call
        self._rests = rests
        self._at_work = Semaphore(count)
        self._resting = 0
        self._inbox: SimpleQueue[Task | None] = SimpleQueue()
        self._outbox: SimpleQueue[EndedCall[Task, Answer] | CallNews[Task, News]] = SimpleQueue()
        self._threads: list[Thread] = []
        self._running = 0
        self._ended = 0  # of those running
        self._counting = Lock()

    @property
    def running(self) -> int:
        """How many calls were handed out and not collected."""
        return self._running

    @property
    def resting(self) -> int:
        """How many calls only wait."""
        return self._resting

    @property
    def all_ended(self) -> bool:
        """Whether every call that was handed out has ended and only waits to be collected."""
        return self._ended == self._running

    def submit(self, task: Task) -> None:
        """Hand out one call."""
        self._running += 1
        self._grow()
        self._inbox.put(task)

    def collect(self, seconds: float) -> list[EndedCall[Task, Answer] | CallNews[Task, News]]:
        """Wait for at least one call to end or to tell something, at most `seconds`; all that came meanwhile,
        in order.
        """
        collected: list[EndedCall[Task, Answer] | CallNews[Task, News]] = []
        try:
            collected.append(self._outbox.get(timeout=seconds))
            while True:
                collected.append(self._outbox.get_nowait())
        except Empty:
            ended = sum(isinstance(each, EndedCall) for each in collected)
            self._running -= ended
            with self._counting:
                self._ended -= ended
            return collected

    def close(self) -> None:
        """Let the idle threads go."""
        for _ in self._threads:
            self._inbox.put(None)

    def _work(self) -> None:
        while (task := self._inbox.get()) is not None:
            self._at_work.acquire()
            ended = self._attempt(task)
            with self._counting:
                self._ended += 1
            self._outbox.put(ended)

    def _attempt(self, task: Task) -> EndedCall[Task, Answer]:
        is_resting = False

        def tell(news: News) -> None:
            nonlocal is_resting
            if self._rests(news) and not is_resting:
                is_resting = True
                self._count_resting(1)
                self._at_work.release()
            heard: SimpleQueue[ProviderProblem | None] = SimpleQueue()
            self._outbox.put(CallNews(task, news, heard))
            problem = heard.get()
            if problem is not None:
                raise problem

        try:
            return EndedCall(task, self._call(task, tell), None)
        except ProviderProblem as problem:
            return EndedCall(task, None, problem)
        except Exception as bug:  # noqa: BLE001 - a provider's bug fails its step, not the whole apply
            words = f"The provider stopped with an error of its own: {type(bug).__name__}: {bug}"
            return EndedCall(task, None, ProviderProblem(words))
        finally:
            if is_resting:
                self._count_resting(-1)
            else:
                self._at_work.release()

    def _count_resting(self, change: int) -> None:
        with self._counting:
            self._resting += change
        if change > 0:
            self._grow()  # for a call that was handed out before this one began to rest

    def _grow(self) -> None:
        """Start the threads that the calls in line may have."""
        with self._counting:
            while len(self._threads) < min(self._running, self._count + self._resting):
                thread = Thread(target=self._work, daemon=True, name=f"step-{len(self._threads)}")
                thread.start()
                self._threads.append(thread)
