"""Follow a plan's steps in the order of their graph. Start reading at `execute`.

One thread, the caller's, decides everything: it hands steps that wait for nothing to the workers,
and takes their answers back. Before a step is handed out its intent is in the journal; the outcomes
that came in meanwhile are written in the same go, so that a busy run costs one flush per round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.applying.agreement import Miss
from nexusform.applying.events import Listener, Outcome, StepEvent
from nexusform.applying.outcomes import Whereabouts, after_answer, after_problem
from nexusform.applying.recorder import Recorder
from nexusform.applying.standing import (
    ProviderCall,
    RunTerms,
    call_for,
    carry_out,
    deposed_of,
    object_of,
    provider_of,
    with_current,
    without_deposed,
)
from nexusform.applying.workers import CallNews, EndedCall, Workers
from nexusform.forecasts import Claim
from nexusform.log import log
from nexusform.plans.plan import Plan, Step, StepKind
from nexusform.ports import (
    Clock,
    NotDoneYet,
    Provider,
    ProviderAnswer,
    ProviderProblem,
    ResourceType,
    StepNews,
    StepWaits,
)
from nexusform.state.journal import Done
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem

PROGRESS_SECONDS: Final = 10.0  # how often a step that takes long is told of
WIDEST: Final = 32  # times the parallelism: how many quick steps may be handed out ahead
MOST_RESTING: Final = 19  # times the parallelism: how many steps that only wait others do not wait for


class Options(Struct, frozen=True):
    """How to apply.

    `parallelism` steps at a time; `fail_fast`: the first failure stops the rest; `stopping` is
    asked before every step whether somebody wants to stop; `waits_for_people`: somebody watches who can do
    what a provider cannot.
    """

    parallelism: int = 10
    fail_fast: bool = False
    stopping: Callable[[], bool] = lambda: False
    waits_for_people: bool = False


class Applied(Struct, frozen=True):
    """What came of a plan.

    `ends` are the steps' ends in the plan's order; `added`, `changed`, `destroyed` and
    `forgotten` count the main steps that were done. `hits` and `misses` are predictions that a
    provider looked at, `claims` those of the plan's claims that one settled. `problem` tells that
    the journal could not be written any more, "" otherwise.
    """

    state: State
    ends: tuple[StepEvent, ...]
    added: int = 0
    changed: int = 0
    destroyed: int = 0
    forgotten: int = 0
    hits: int = 0
    misses: tuple[Miss, ...] = ()
    claims: tuple[Claim, ...] = ()
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether every step was done."""
        return not self.problem and all(end.outcome is Outcome.DONE for end in self.ends)


def execute(
    plan: Plan,
    recorder: Recorder,
    providers: Mapping[str, Provider],
    types: Mapping[str, ResourceType],
    *,
    clock: Clock,
    listener: Listener,
    options: Options | None = None,
) -> Applied:
    """Carry out a plan on the recorder's state, which has taken the opening records.

    `providers` are by the name that changes carry. A failed step skips what waits for it; the
    others go on. Returns when nothing more can run.
    """
    run = _Run(plan, recorder, providers, types, clock=clock, listener=listener, options=options or Options())
    return run.run()


class _Counts(Struct):
    added: int = 0
    changed: int = 0
    destroyed: int = 0
    forgotten: int = 0

    def count(self, step: Step) -> None:
        if not step.main:
            return
        if step.kind is StepKind.CREATE:
            self.added += 1
        elif step.kind is StepKind.DELETE:
            self.destroyed += 1
        elif step.kind is StepKind.FORGET:
            self.forgotten += 1
        else:
            self.changed += 1


class _Timing(Struct):
    started: float
    last_told: float


class _Graph(Struct):
    """What waits for what, and what waits for nothing any more (smallest id first)."""

    dependents: dict[int, list[int]] = field(default_factory=dict)
    open_waits: dict[int, int] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)

    @staticmethod
    def of(steps: Mapping[int, Step]) -> _Graph:
        graph = _Graph()
        for step in steps.values():
            waits = {w for w in step.waits_for if w in steps}
            graph.open_waits[step.id] = len(waits)
            for waited in waits:
                graph.dependents.setdefault(waited, []).append(step.id)
        graph.ready = [step for step, waits in graph.open_waits.items() if not waits]
        heapify(graph.ready)
        return graph

    def done(self, step: int) -> None:
        for dependent in self.dependents.get(step, ()):
            self.open_waits[dependent] -= 1
            if not self.open_waits[dependent]:
                heappush(self.ready, dependent)

    def below(self, step: int) -> list[int]:
        """Everything that waits for a step, directly or not, nearest first."""
        below: dict[int, None] = {}
        waiting = list(self.dependents.get(step, ()))
        while waiting:
            nearest = waiting.pop(0)
            if nearest not in below:
                below[nearest] = None
                waiting.extend(self.dependents.get(nearest, ()))
        return list(below)


def _rests(news: StepNews) -> bool:
    return news.rests


class _Run:
    """One execution; all its methods run in the caller's thread except `carry_out`."""

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        providers: Mapping[str, Provider],
        types: Mapping[str, ResourceType],
        *,
        clock: Clock,
        listener: Listener,
        options: Options,
    ) -> None:
        self._plan = plan
        self._steps = {step.id: step for step in plan.steps}
        self._providers = providers
        self._types = types
        self._recorder = recorder
        self._whereabouts = Whereabouts(recorder.state)
        self._clock = clock
        self._listener = listener
        self._options = options
        self._graph = _Graph.of(self._steps)
        self._depth = max(options.parallelism, 1)
        self._terms = RunTerms(options.waits_for_people, options.stopping)
        self._begun = recorder.begun()
        self._workers: Workers[ProviderCall, ProviderAnswer | None, StepNews] = Workers(
            max(options.parallelism, 1), carry_out, _rests
        )
        self._timings: dict[int, _Timing] = {}
        self._ends: dict[int, StepEvent] = {}
        self._untold: list[StepEvent] = []
        self._unheard: list[CallNews[ProviderCall, StepNews]] = []
        self._counts = _Counts()
        self._hits = 0
        self._misses: list[Miss] = []
        self._claims: list[Claim] = []
        self._failed = False
        self._interrupted = False
        self._problem = ""

    def run(self) -> Applied:
        """Hand out and take back until nothing is left that may run."""
        while True:
            calls = self._gather()
            if self._flush():
                self._adapt()
                self._tell()
                for call in calls:
                    self._start(call)
            if not self._workers.running:
                break
            for message in self._workers.collect(self._patience()):
                if isinstance(message, CallNews):
                    self._take_news(message)
                else:
                    self._take_back(message)
            self._tell_progress()
        self._workers.close()
        self._skip_the_rest()
        self._tell()
        return self._result()

    # --- handing out ---------------------------------------------------------------------------

    def _gather(self) -> list[ProviderCall]:
        """Note the intents of what may start now; steps that ask no provider end here, gates untold."""
        calls: list[ProviderCall] = []
        room = self._depth + self._resting() - self._workers.running
        while self._graph.ready and len(calls) < room and self._may_start():
            step = self._steps[heappop(self._graph.ready)]
            if step.kind is StepKind.GATE:
                self._graph.done(step.id)
                continue
            change = self._plan.changes[step.change]
            provider = self._providers.get(provider_of(change))
            if step.kind is StepKind.FORGET:
                self._forget(step)
            elif provider is None:
                self._end(step, Outcome.FAILED, f'There is no provider "{provider_of(change)}".')
            else:
                before = self._recorder.instance(change.address)
                call = call_for(step, change, provider, self._begun.get(step.id), self._terms, before)
                self._recorder.intend(call)
                calls.append(call)
        return calls

    def _adapt(self) -> None:
        """Hand out more at once while steps end faster than the journal is written.

        Each round costs one flush: when all running steps ended during it, the disk is what holds
        the apply up, and more steps to a flush are worth while. Never when steps are to go one
        by one, or when the first failure is to stop the rest.
        """
        least = max(self._options.parallelism, 1)
        if not self._may_widen() or not self._workers.running:
            return
        if self._workers.all_ended:
            self._depth = min(self._depth * 2, least * WIDEST)
        else:
            self._depth = max(self._depth // 2, least)

    def _may_widen(self) -> bool:
        return self._options.parallelism > 1 and not self._options.fail_fast

    def _resting(self) -> int:
        """How many steps leave their place to others, since they only wait."""
        if not self._may_widen():
            return 0
        return min(self._workers.resting, MOST_RESTING * self._options.parallelism)

    def _may_start(self) -> bool:
        self._interrupted = self._interrupted or self._options.stopping()
        return not (self._interrupted or self._problem or (self._failed and self._options.fail_fast))

    def _start(self, call: ProviderCall) -> None:
        now = self._now()
        self._timings[call.step.id] = _Timing(now, now)
        log("debug", "step started", step=call.step.id, kind=call.step.kind, address=call.change.address)
        self._listener.started(self._event(call.step))
        self._workers.submit(call)

    def _forget(self, step: Step) -> None:
        change = self._plan.changes[step.change]
        before = self._recorder.instance(change.address)
        left = without_deposed(before, change.deposed) if change.deposed else with_current(before, None)
        self._recorder.note(Done(change.address, object_of(step, change).creation, left, number=step.id))
        self._end(step, Outcome.DONE, "")

    # --- taking back ---------------------------------------------------------------------------

    def _take_news(self, call_news: CallNews[ProviderCall, StepNews]) -> None:
        """The provider goes on once its operation is in the journal."""
        self._unheard.append(call_news)
        if call_news.news.operation is not None:
            self._recorder.goes_on(call_news.task, call_news.news.operation)
        if call_news.news.words:
            event = replace(self._event(call_news.task.step), news=call_news.news.words)
            self._listener.progressed(event)

    def _take_back(self, finished: EndedCall[ProviderCall, ProviderAnswer | None]) -> None:
        call = finished.task
        if isinstance(finished.problem, StepWaits):
            # Its intent stays without an outcome: the next run looks it up, as after a crash.
            self._end(call.step, Outcome.WAITING, str(finished.problem))
            return
        schema = self._types[call.key.type].schema if call.key.type in self._types else None
        before = self._recorder.instance(call.change.address)
        if finished.problem is None:
            result = after_answer(call, finished.answer, schema, before)
            if result.misses:
                result = result.followed(self._whereabouts)
        else:
            result = after_problem(call, finished.problem, before)
        self._recorder.conclude(call, result.instance, result.error)
        self._hits += result.hits
        self._misses.extend(result.misses)
        self._claims.extend(result.claims)
        outcome = Outcome.FAILED if result.error else Outcome.DONE
        self._end(call.step, outcome, result.error, by_others=isinstance(finished.problem, NotDoneYet))

    def _end(self, step: Step, outcome: Outcome, error: str, *, by_others: bool = False) -> None:
        event = replace(self._event(step, outcome, error), by_others=by_others)
        log("debug", "step ended", step=step.id, address=event.address, outcome=outcome)
        self._ends[step.id] = event
        self._timings.pop(step.id, None)
        self._untold.append(event)
        if outcome is Outcome.DONE:
            self._counts.count(step)
            self._graph.done(step.id)
            return
        self._failed = self._failed or outcome is Outcome.FAILED
        word = "waits" if outcome is Outcome.WAITING else "failed"
        reason = f"{event.address} {word}, and this depends on it."
        for dependent in self._graph.below(step.id):
            self._skip(self._steps[dependent], reason)

    def _skip(self, step: Step, reason: str) -> None:
        if step.id not in self._ends and step.kind is not StepKind.GATE:
            event = self._event(step, Outcome.SKIPPED, reason)
            self._ends[step.id] = event
            self._untold.append(event)

    def _skip_the_rest(self) -> None:
        if self._interrupted:
            reason = "The apply was interrupted before it."
        elif self._problem:
            reason = "The journal could not be written any more."
        else:
            reason = "An earlier step failed, and -fail-fast was given."
        for step in self._plan.steps:
            self._skip(step, reason)

    # --- the journal, time and events ----------------------------------------------------------

    def _flush(self) -> bool:
        try:
            self._recorder.flush()
        except BackendProblem as problem:
            self._problem = str(problem)
        for call_news in self._unheard:
            call_news.heard.put(ProviderProblem(self._problem) if self._problem else None)
        self._unheard.clear()
        return not self._problem

    def _tell(self) -> None:
        """Tell of the steps that ended; called once their outcomes are durable."""
        for event in self._untold:
            self._listener.ended(event)
        self._untold.clear()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _patience(self) -> float:
        """Seconds until somebody must be told that a step goes on."""
        now = self._now()
        longest_silent = min((timing.last_told for timing in self._timings.values()), default=now)
        return max(longest_silent + self._silence() - now, 0.01)

    def _silence(self) -> float:
        """How long a step may be silent: the more go on at once, the longer, so that lines stay readable."""
        return PROGRESS_SECONDS * max(len(self._timings) / max(self._options.parallelism, 1), 1.0)

    def _tell_progress(self) -> None:
        now, silence = self._now(), self._silence()
        for step, timing in self._timings.items():
            if now - timing.last_told >= silence:
                timing.last_told = now
                self._listener.progressed(self._event(self._steps[step]))

    def _event(self, step: Step, outcome: Outcome | None = None, error: str = "") -> StepEvent:
        change = self._plan.changes[step.change]
        timing = self._timings.get(step.id)
        elapsed = max(self._now() - timing.started, 0.0) if timing else 0.0
        attributes = step.planned if step.planned is not None else step.prior
        object_id = str((attributes or {}).get("id", ""))
        deposed = deposed_of(step, change)
        return StepEvent(str(change.address), step.kind, object_id, elapsed, outcome, error, deposed)

    def _result(self) -> Applied:
        counts = self._counts
        return Applied(
            state=self._recorder.state(),
            ends=tuple(self._ends[s.id] for s in self._plan.steps if s.kind is not StepKind.GATE),
            added=counts.added,
            changed=counts.changed,
            destroyed=counts.destroyed,
            forgotten=counts.forgotten,
            hits=self._hits,
            misses=tuple(self._misses),
            claims=tuple(self._claims),
            problem=self._problem,
        )
