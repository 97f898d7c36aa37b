"""Execution of a plan's steps in the order of their graph.

Start reading at `execute_plan`. One thread, the caller's, makes all decisions: it passes ready
steps to the workers and receives their answers. The intent of a step is in the journal before it is
passed on. The same flush writes earlier outcomes, so a busy run needs one per iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.applying.answer_comparison import WrongPrediction
from nexusform.applying.apply_recorder import ApplyRecorder
from nexusform.applying.events import (
    DEFAULT_OPTIONS,
    ExecutionOptions,
    StepEvent,
    StepListener,
    StepOutcome,
)
from nexusform.applying.provider_calls import (
    ProviderCall,
    build_call,
    build_object_key,
    build_request,
    call_provider,
    get_deposed_key,
    get_provider_name,
    merge_note,
    remove_object,
    replace_current_object,
)
from nexusform.applying.provider_workers import (
    CompletedCall,
    ProviderCallProgress,
    ProviderWorkerPool,
)
from nexusform.applying.step_results import (
    MachineLocations,
    build_answer_result,
    build_failure_result,
)
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import (
    ChangeResult,
    Clock,
    ManualStepPending,
    PreconditionProvider,
    Provider,
    ProviderProblem,
    ResourceType,
    StepPending,
    StepProgress,
)
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.prediction_scores import VerifiedPrediction
from nexusform.plans.plan import Plan, Step, StepKind
from nexusform.resources.address import Address
from nexusform.scheduling.machine_actions import (
    ACTION_KINDS,
    MACHINE_ACTION_TYPE,
    merge_facts_after,
)
from nexusform.scheduling.site_inventory import OBSERVED_KEY
from nexusform.state.journal import InstanceOutcome
from nexusform.state.objects import ObjectState, State

# Interval of progress events of a long step.
PROGRESS_SECONDS: Final = 10.0
# Times the parallelism: maximum of quick steps passed on in advance.
MAXIMUM_WIDTH: Final = 32
# Times the parallelism: maximum of idle steps that do not occupy a slot.
MAXIMUM_IDLE: Final = 19


class ApplyResult(Struct, frozen=True):
    """Result of applying a plan.

    `end_events` are the ends of the steps in the plan's order; `added`, `changed`, `destroyed` and
    `forgotten` count the main steps done. `hits` and `wrong_predictions` are predictions observed
    by a provider, `ties` those with another tied machine as result, `predictions` those of the plan
    that were verified. `problem` is the reason if the journal could not be written any more,
    `rejection` the one of `check_site` to start no further step; "" otherwise.
    """

    state: State
    end_events: tuple[StepEvent, ...]
    added: int = 0
    changed: int = 0
    destroyed: int = 0
    forgotten: int = 0
    hits: int = 0
    wrong_predictions: tuple[WrongPrediction, ...] = ()
    ties: tuple[WrongPrediction, ...] = ()
    predictions: tuple[VerifiedPrediction, ...] = ()
    problem: str = ""
    rejection: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every step was done."""
        return not self.problem and all(
            event.outcome is StepOutcome.DONE for event in self.end_events
        )


def execute_plan(
    plan: Plan,
    recorder: ApplyRecorder,
    providers: Mapping[str, Provider],
    types: Mapping[str, ResourceType],
    *,
    clock: Clock,
    listener: StepListener,
    options: ExecutionOptions = DEFAULT_OPTIONS,
) -> ApplyResult:
    """Execute the steps of a plan until none can run any more.

    The recorder has the state, and the records of changes without a step, such as moves.
    `providers` are by name. A failed step skips its dependents; the others continue. Raises
    TypeError for a hypothetical plan.
    """
    plan.reject_assumptions()
    run = _PlanExecution(
        plan, recorder, providers, types, clock=clock, listener=listener, options=options
    )
    return run.run()


class _StepTiming(Struct):
    start_time: float
    last_report: float


class _StepGraph(Struct):
    """Waits between steps.

    Followers wait for the end of a step, dependents for its success. `open_waits` counts the waits
    of a step, `ready` is a heap of the steps without any: smallest id first.
    """

    dependents: dict[int, list[int]] = field(default_factory=dict)
    followers: dict[int, list[int]] = field(default_factory=dict)
    open_waits: dict[int, int] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)

    @staticmethod
    def build_graph(steps: Mapping[int, Step]) -> _StepGraph:
        """Build the graph of `steps` (by id).

        Waits for other steps, done by an earlier run, are dropped.
        """
        graph = _StepGraph()
        for step in steps.values():
            # Steps that must succeed first.
            awaited_steps = steps.keys() & step.waits_for
            # To end first, with any result.
            previous_steps = steps.keys() & step.follows
            graph.open_waits[step.id] = len(awaited_steps) + len(previous_steps)
            for awaited in awaited_steps:
                graph.dependents.setdefault(awaited, []).append(step.id)
            for previous in previous_steps:
                graph.followers.setdefault(previous, []).append(step.id)
        graph.ready = [step for step, waits in graph.open_waits.items() if not waits]
        heapify(graph.ready)
        return graph

    def complete_step(self, step: int) -> None:
        """Release the dependents: they waited for the success of this step."""
        self._complete_dependency_of_steps(self.dependents.get(step, ()))

    def release_followers(self, step: int) -> None:
        """Release the followers: they waited for the end of this step, with any result."""
        self._complete_dependency_of_steps(self.followers.pop(step, ()))

    def _complete_dependency_of_steps(self, steps: Iterable[int]) -> None:
        """Reduce the number of waits of these steps by one.

        Steps without a further wait are ready.
        """
        for step in steps:
            self.open_waits[step] -= 1
            if not self.open_waits[step]:
                heappush(self.ready, step)

    def list_dependents(self, step: int) -> list[int]:
        """Return all direct and indirect dependents of a step, nearest first (breadth first)."""
        dependents: dict[int, None] = {}
        pending = list(self.dependents.get(step, ()))
        while pending:
            nearest = pending.pop(0)
            if nearest not in dependents:
                dependents[nearest] = None
                pending.extend(self.dependents.get(nearest, ()))
        return list(dependents)


class _PlanExecution:
    """One execution; all its methods run in the caller's thread except `call_provider`."""

    def __init__(
        self,
        plan: Plan,
        recorder: ApplyRecorder,
        providers: Mapping[str, Provider],
        types: Mapping[str, ResourceType],
        *,
        clock: Clock,
        listener: StepListener,
        options: ExecutionOptions,
    ) -> None:
        """Index the steps by id, and list the operations started by an earlier run.

        No step is started yet.
        """
        self._plan = plan
        self._steps = {step.id: step for step in plan.steps}
        self._providers = providers
        self._types = types
        self._recorder = recorder
        self._locations = MachineLocations(recorder.get_state)
        self._clock = clock
        self._listener = listener
        self._options = options
        self._graph = _StepGraph.build_graph(self._steps)
        # Running steps allowed now, adjusted to the speed of the journal.
        self._depth = max(options.parallelism, 1)
        # More steps than the parallelism may run, unless they run one by one or a failure
        # stops the rest.
        self._allows_extra_steps = options.parallelism > 1 and not options.fail_fast
        # Started by an earlier run, by step id.
        self._operations = recorder.list_operations()
        self._workers: ProviderWorkerPool[ProviderCall, ChangeResult | None, StepProgress] = (
            ProviderWorkerPool(
                max(options.parallelism, 1), call_provider, is_idle=lambda news: news.is_waiting
            )
        )
        # Times of running steps, by id.
        self._timings: dict[int, _StepTiming] = {}
        # Ends of steps, by step id.
        self._end_events: dict[int, StepEvent] = {}
        # End events, reported once the journal is on disk.
        self._unreported: list[StepEvent] = []
        # Their providers wait until the progress is on disk.
        self._unacknowledged: list[ProviderCallProgress[ProviderCall, StepProgress]] = []
        # Numbers of the main steps that are done.
        self._counts: Counter[StepKind] = Counter()
        self._hits = 0  # correct predictions
        self._wrong_predictions: list[WrongPrediction] = []
        self._predictions: list[VerifiedPrediction] = []
        self._has_failed = False
        self._is_interrupted = False
        # Problem of writing the journal.
        self._problem = ""
        # Rejection by `check_site`.
        self._rejection = ""
        self._last_start = self._read_current_time()
        # With progress that could not be recorded.
        self._unrecorded_steps: set[int] = set()
        # A provider refused a step before the first write.
        self._is_refused = False

    def run(self) -> ApplyResult:
        """Start steps and process results until no step can run.

        Calls start only if their intents are on disk.
        """
        self._check_preconditions()
        while True:
            calls = self._collect_startable_calls()
            # Nothing may start without a written journal.
            if self._flush_journal():
                self._adjust_queue_depth()
                self._report_ended_steps()
                for call in calls:
                    self._start_call(call)
            if not self._workers.running_count:
                break
            current_time = self._read_current_time()
            earliest_report = min(
                (timing.last_report for timing in self._timings.values()), default=current_time
            )
            # Time until the next report.
            timeout = max(earliest_report + self._compute_report_interval() - current_time, 0.01)
            for message in self._workers.collect(timeout):
                if isinstance(message, ProviderCallProgress):
                    self._handle_provider_call_progress(message)
                else:
                    self._process_completed_call(message)
            self._report_running_steps()
        self._workers.close()
        self._skip_remaining_steps()
        self._report_ended_steps()
        added = self._counts[StepKind.CREATE]
        destroyed = self._counts[StepKind.DELETE]
        forgotten = self._counts[StepKind.FORGET]
        return ApplyResult(
            state=self._recorder.get_state(),
            end_events=tuple(
                self._end_events[step.id]
                for step in self._plan.steps
                if step.kind is not StepKind.GATE
            ),
            added=added,
            changed=self._counts.total() - added - destroyed - forgotten,
            destroyed=destroyed,
            forgotten=forgotten,
            hits=self._hits,
            wrong_predictions=tuple(self._wrong_predictions),
            predictions=tuple(self._predictions),
            problem=self._problem,
            rejection=self._rejection,
        )

    def _check_preconditions(self) -> None:
        """Let the providers check all steps that no earlier run began.

        If one is refused, no step starts: what comes before it would be written in vain.
        """
        calls_by_provider: dict[str, list[ProviderCall]] = {}
        for step in self._plan.steps:
            change = self._plan.changes[step.change] if step.kind is not StepKind.GATE else None
            provider = self._providers.get(get_provider_name(change)) if change else None
            is_sent = step.kind is not StepKind.FORGET and step.id not in self._operations
            if change and is_sent and isinstance(provider, PreconditionProvider):
                before = self._recorder.get_instance(change.address)
                call = build_call(step, change, provider, None, self._options, before)
                calls_by_provider.setdefault(get_provider_name(change), []).append(call)
        for name, calls in calls_by_provider.items():
            provider = self._providers[name]
            assert isinstance(provider, PreconditionProvider), "selected above"
            try:
                problems = provider.check_preconditions([build_request(call) for call in calls])
            except ProviderProblem as problem:
                # The first step meets it again, and waits for its system as a step does.
                log_event("debug", "preconditions not checked", provider=name, why=str(problem))
                continue
            for index, refusal in problems:
                if calls[index].step.id not in self._end_events:
                    self._record_end(calls[index].step, StepOutcome.FAILED, refusal.detail)
                    self._is_refused = True

    def _report_running_steps(self) -> None:
        """Report each running step without a report during the last interval."""
        current_time = self._read_current_time()
        interval = self._compute_report_interval()
        for step, timing in self._timings.items():
            if current_time - timing.last_report >= interval:
                timing.last_report = current_time
                self._listener.report_step_progress(self._build_step_event(self._steps[step]))

    def _collect_startable_calls(self) -> list[ProviderCall]:
        """Return the calls to start, after recording each as an intent.

        Steps without a call end here: gates (for the order of other steps only), forgets (removals
        from state), and steps without a provider.
        """
        calls: list[ProviderCall] = []
        # Calls only waiting for the platform: up to a limit they occupy no slot.
        idle_count = 0
        if self._allows_extra_steps:
            idle_count = min(self._workers.idle_count, MAXIMUM_IDLE * self._options.parallelism)
        free_slots = self._depth + idle_count - self._workers.running_count
        while self._graph.ready and len(calls) < free_slots and self._may_start_step():
            step = self._steps[heappop(self._graph.ready)]
            # All steps it represents are done.
            if step.kind is StepKind.GATE:
                self._graph.complete_step(step.id)
                continue
            change = self._plan.changes[step.change]
            provider = self._providers.get(get_provider_name(change))
            if step.kind is StepKind.FORGET:
                self._remove_from_state(step)
            elif provider is None:
                self._record_end(
                    step, StepOutcome.FAILED, f'There is no provider "{get_provider_name(change)}".'
                )
            else:
                before = self._recorder.get_instance(change.address)
                call = build_call(
                    step, change, provider, self._operations.get(step.id), self._options, before
                )
                self._recorder.record_intent(call)
                calls.append(call)
        return calls

    def _adjust_queue_depth(self) -> None:
        """Start more steps at once while steps end faster than the journal is written.

        Each iteration needs one flush: if all running steps ended during it, the disk is the
        bottleneck, and more steps per flush are faster. This never happens with a parallelism of 1
        or with fail_fast.
        """
        minimum = max(self._options.parallelism, 1)
        if not self._allows_extra_steps or not self._workers.running_count:
            return
        # Every call ended during the flush.
        if self._workers.has_only_ended:
            self._depth = min(self._depth * 2, minimum * MAXIMUM_WIDTH)
        else:
            self._depth = max(self._depth // 2, minimum)

    def _may_start_step(self) -> bool:
        """Return whether another step may start.

        No step starts after an interruption (remembered here) or a failed write of the journal.
        With -fail-fast, none starts after a failed step.
        """
        if not self._is_interrupted:
            self._is_interrupted = self._options.should_stop()
        must_stop = self._has_failed and self._options.fail_fast
        if (
            self._is_refused
            or self._is_interrupted
            or self._problem
            or self._rejection
            or must_stop
        ):
            return False
        return self._check_site_after_wait()

    def _check_site_after_wait(self) -> bool:
        """Return whether a step may start, after a check of the site if none started for long."""
        check_site = self._options.check_site
        current_time = self._read_current_time()
        if check_site is None or current_time - self._last_start <= self._options.maximum_wait:
            return True
        # A site is read only while no step changes it. A step that only waits, such as a staged
        # run, possibly waits for the approval by a step that may start.
        if self._workers.running_count > self._workers.idle_count:
            return False
        self._rejection = check_site()
        self._last_start = self._read_current_time()
        return not self._rejection

    def _start_call(self, call: ProviderCall) -> None:
        """Pass a call to the workers; its intent is in the journal already."""
        start_time = self._read_current_time()
        self._last_start = start_time
        self._timings[call.step.id] = _StepTiming(start_time, last_report=start_time)
        log_event(
            "debug",
            "step started",
            step=call.step.id,
            kind=call.step.kind,
            address=call.change.address,
        )
        self._listener.report_step_start(self._build_step_event(call.step))
        self._workers.submit(call)

    def _remove_from_state(self, step: Step) -> None:
        """Record the end of a `forget` step.

        The object leaves the state, and no provider is called. The journal closes a step by address
        and creation number, which distinguishes the objects of one address.
        """
        change = self._plan.changes[step.change]
        before = self._recorder.get_instance(change.address)
        remaining = remove_object(before, change.deposed)
        creation = build_object_key(step, change).creation
        self._recorder.add_record(
            InstanceOutcome(change.address, creation, remaining, number=step.id)
        )
        self._record_end(step, StepOutcome.DONE, error="")

    def _handle_provider_call_progress(
        self, progress: ProviderCallProgress[ProviderCall, StepProgress]
    ) -> None:
        """Record and report the progress of a call.

        Its provider waits for the next flush of the journal.
        """
        self._unacknowledged.append(progress)
        if progress.news.operation is not None:
            self._recorder.record_operation(progress.task, progress.news.operation)
        if progress.news.message:
            event = replace(
                self._build_step_event(progress.task.step), message=progress.news.message
            )
            self._listener.report_step_progress(event)

    def _process_completed_call(
        self, completed_call: CompletedCall[ProviderCall, ChangeResult | None]
    ) -> None:
        """Record the outcome of an ended call and the end of its step.

        An unfinished call gets no outcome.
        """
        call = completed_call.task
        problem = completed_call.problem
        is_pending = isinstance(problem, StepPending)
        if problem is not None and (
            is_pending or problem.is_partial or call.step.id in self._unrecorded_steps
        ):
            # It may be done in part. Without a recorded outcome, the next run resumes the step or
            # reads its objects.
            self._record_end(
                call.step, StepOutcome.WAITING if is_pending else StepOutcome.FAILED, str(problem)
            )
            return
        schema = self._types[call.key.type].schema if call.key.type in self._types else None
        before = self._recorder.get_instance(call.change.address)
        if problem is None:
            result = build_answer_result(call, completed_call.answer, schema, before)
            # VMs may run in other racks than planned.
            if result.wrong_predictions:
                result = result.update_locations(self._locations)
        else:
            result = build_failure_result(call, problem, before)
        if not result.error:
            machine_outcome = build_machine_outcome(
                call, completed_call.answer, self._recorder.get_state()
            )
            if machine_outcome is not None:
                self._recorder.add_record(machine_outcome)
        self._recorder.record_outcome(call, result.instance, result.error)
        self._hits += result.hits
        self._wrong_predictions.extend(result.wrong_predictions)
        self._predictions.extend(result.predictions)
        outcome = StepOutcome.FAILED if result.error else StepOutcome.DONE
        # A person must do it on the site.
        is_delegated = isinstance(problem, ManualStepPending)
        self._record_end(
            call.step,
            StepOutcome.WAITING if is_delegated else outcome,
            result.error,
            completed_call.answer,
            is_delegated=is_delegated,
        )

    def _record_end(
        self,
        step: Step,
        outcome: StepOutcome,
        error: str,
        answer: ChangeResult | None = None,
        *,
        is_delegated: bool = False,
    ) -> None:
        """Record the end of a step, reported after the next flush.

        Unless it is done, its dependents are skipped.
        """
        event = replace(self._build_step_event(step, outcome, error), is_delegated=is_delegated)
        if answer is not None:
            event = replace(event, message=answer.remark, not_verified=answer.not_verified)
        log_event("debug", "step ended", step=step.id, address=event.address, outcome=outcome)
        self._end_events[step.id] = event
        self._timings.pop(step.id, None)
        self._unreported.append(event)
        if outcome is StepOutcome.DONE:
            # It belongs to the update after it.
            if step.kind is not StepKind.RELEASE:
                self._counts[step.kind] += 1
            # Its dependents waited for its success.
            self._graph.complete_step(step.id)
            # These waited only for its end.
            self._graph.release_followers(step.id)
            return
        self._has_failed = self._has_failed or outcome is StepOutcome.FAILED
        verb = "waits" if outcome is StepOutcome.WAITING else "failed"
        reason = f"{event.address} {verb}, and this depends on it."
        for dependent in self._graph.list_dependents(step.id):
            self._skip_step(self._steps[dependent], reason)
            self._graph.release_followers(dependent)
        self._graph.release_followers(step.id)

    def _skip_step(self, step: Step, reason: str) -> None:
        """Record a step as skipped, unless it ended already; gates have no events."""
        if step.id not in self._end_events and step.kind is not StepKind.GATE:
            event = self._build_step_event(step, StepOutcome.SKIPPED, reason)
            self._end_events[step.id] = event
            self._unreported.append(event)

    def _skip_remaining_steps(self) -> None:
        """Skip the steps without an end, if any, all for the same reason."""
        if self._is_interrupted:
            reason = "The apply was interrupted before it."
        elif self._problem:
            reason = "The journal can no longer be written."
        elif self._is_refused:
            reason = "Another step was refused before the first write."
        elif self._rejection:
            reason = "The site changed during the apply."
        else:
            reason = "An earlier step failed, and -fail-fast was given."
        for step in self._plan.steps:
            self._skip_step(step, reason)

    def _flush_journal(self) -> bool:
        """Write the journal.

        Return False after a failed write (now or before). Providers waiting for a record of their
        progress continue after the write, or get its problem.
        """
        try:
            self._recorder.flush()
        except BackendProblem as problem:
            self._problem = str(problem)
        answer = ProviderProblem(self._problem) if self._problem else None
        for progress in self._unacknowledged:
            if answer:
                self._unrecorded_steps.add(progress.task.step.id)
            progress.acknowledgement.put(answer)
        self._unacknowledged.clear()
        return not self._problem

    def _report_ended_steps(self) -> None:
        """Report the ended steps, once their outcomes are durable."""
        for event in self._unreported:
            self._listener.report_step_end(event)
        self._unreported.clear()

    def _read_current_time(self) -> float:
        return self._clock.read_time().timestamp()

    def _compute_report_interval(self) -> float:
        """Return the seconds between two progress reports of a running step.

        Idle steps and quick steps started in advance may exceed the parallelism. Each step then
        reports less often.
        """
        running_steps = len(self._timings)
        return PROGRESS_SECONDS * max(running_steps / max(self._options.parallelism, 1), 1.0)

    def _build_step_event(
        self, step: Step, outcome: StepOutcome | None = None, error: str = ""
    ) -> StepEvent:
        """Build the event of a step at this moment; without an outcome it is running."""
        change = self._plan.changes[step.change]
        timing = self._timings.get(step.id)
        elapsed = max(self._read_current_time() - timing.start_time, 0.0) if timing else 0.0
        object_id = str(step.attributes.get("id", ""))
        deposed = get_deposed_key(step, change)
        return StepEvent(
            str(change.address), step.kind, object_id, elapsed, outcome, error, deposed
        )


_RACK: Final = "nexus_rack"
_MACHINE: Final = "nexus_bare_metal_machine"


def build_machine_outcome(
    call: ProviderCall, answer: ChangeResult | None, state: State
) -> InstanceOutcome | None:
    """Return the change of a machine's recorded facts by a machine action, as an outcome.

    It is an outcome of the machine's resource, or else of its rack. Return None for other steps,
    and if neither is in the state. Also return None for a disruptive action at a real site, where
    the facts are read.
    """
    if call.key.type != MACHINE_ACTION_TYPE or answer is None:
        return None
    action = str(answer.attributes.get("action"))
    finish_time = str(answer.attributes.get("finished"))
    # A real site.
    if call.provider.sends_changes and ACTION_KINDS[action].is_disruptive:
        return None
    machine_id = str(answer.attributes.get("machine_id"))
    rack_id, _, machine_name = machine_id.rpartition("/")
    resource = _find_object(state, _MACHINE, machine_id) or _find_object(state, _RACK, rack_id)
    if resource is None:
        return None
    address, current = resource
    machine = current.attributes if address.type == _MACHINE else machine_name
    recorded = get_mapping(current.private, OBSERVED_KEY)
    facts = merge_facts_after(action, recorded, machine, finish_time)
    instance = replace_current_object(
        state.instances[address], merge_note(current, {OBSERVED_KEY: facts})
    )
    return InstanceOutcome(address, current.creation, instance)


def _find_object(
    state: State, type_name: str, object_id: str
) -> tuple[Address, ObjectState] | None:
    """Return the current object with an id, and its address."""
    for address, current in state.list_current_objects():
        if address.type == type_name and current.attributes.get("id") == object_id:
            return address, current
    return None
