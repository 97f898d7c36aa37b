from __future__ import annotations

from threading import Barrier, BrokenBarrierError, Event, Lock, Semaphore
from time import sleep
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.applying.apply_recorder import (
    ApplyRecorder,
    build_opening_records,
    build_start_record,
)
from nexusform.applying.events import ExecutionOptions, StepOutcome
from nexusform.applying.executor import ApplyResult, execute_plan
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ProviderProblem,
    ResourceType,
    StepPending,
    StepProgress,
)
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.plans.plan import Action, Plan, StepKind
from nexusform.providers.simulated import make_provider
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, MapType
from nexusform.state.journal import parse_journal
from nexusform.state.objects import InstanceState, ObjectState, State
from tests.applying.plans import (
    JournalLines,
    RecordingListener,
    TickingClock,
    build_address,
    build_attributes,
    build_change,
    build_create_plan,
    build_step,
)
from tests.kill_points import scale_count
from tests.state.journal_replay import apply_journal_records


class FakeSiteProvider:
    """Provider with readable objects; names in `broken` fail."""

    name = "site"
    sends = True
    observes = True

    def __init__(self, journal: JournalLines, broken: frozenset[str] = frozenset()) -> None:
        self.journal = journal
        self.broken = broken
        self.order: list[str] = []
        self.lock = Lock()

    def create(self, request: ChangeRequest) -> ChangeResult:
        assert any(
            b'"intent"' in line and request.key.id.encode() in line for line in self.journal.written
        )
        with self.lock:
            self.order.append(request.address)
        if request.address.split(".")[1] in self.broken:
            raise ProviderProblem("out of stock")
        return ChangeResult(request.planned or {})

    def update(self, request: ChangeRequest) -> ChangeResult:
        return self.create(request)

    def delete(self, request: ChangeRequest) -> None:
        self.create(request)


def run_plan(
    plan: Plan,
    provider: Any = None,
    state: State | None = None,
    lines: JournalLines | None = None,
    types: dict[str, ResourceType] | None = None,
    **options: Any,
) -> tuple[ApplyResult, JournalLines, RecordingListener]:
    from contextlib import ExitStack

    state = state or State()
    lines = lines or JournalLines()
    notes = RecordingListener()
    recorder = ApplyRecorder(lines, state)  # type: ignore[arg-type]
    for record in (
        build_start_record(plan, state, "lineage-1"),
        *build_opening_records(plan, state),
    ):
        recorder.add_record(record)
    given_providers = {"simulated": provider or make_provider({}, ".", ExitStack())}
    applied = execute_plan(
        plan,
        recorder,
        given_providers,
        types or {},
        clock=TickingClock(),
        listener=notes,
        options=ExecutionOptions(**options),
    )
    return applied, lines, notes


def build_state(*names: str) -> State:
    return State(
        lineage="l",
        serial=3,
        instances={
            build_address(n): InstanceState(ObjectState(build_attributes(n), creation=i + 1))
            for i, n in enumerate(names)
        },
        last_creation=len(names),
    )


@st.composite
def generate_graphs(draw: st.DrawFn) -> tuple[dict[int, list[int]], frozenset[str]]:
    size = draw(st.integers(1, 24))
    waits = {
        n: sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else []
        for n in range(size)
    }
    broken = draw(st.sets(st.sampled_from([f"r{n}" for n in range(size)]), max_size=3))
    return waits, frozenset(broken)


@settings(max_examples=scale_count(240), deadline=None)
@given(generate_graphs(), st.integers(1, 6))
def test_order_is_kept_and_failures_skip_dependents_only(
    graph: tuple[dict[int, list[int]], frozenset[str]], parallelism: int
) -> None:
    waits, broken = graph
    lines = JournalLines()
    site = FakeSiteProvider(lines, broken)
    applied, _, notes = run_plan(
        build_create_plan(waits), site, lines=lines, parallelism=parallelism
    )

    doomed: set[int] = set()
    for number, waited in waits.items():
        if any(w in doomed or f"r{w}" in broken for w in waited):
            doomed.add(number)
    expected = {
        f"nexus_rack.r{n}": "skipped" if n in doomed else "failed" if f"r{n}" in broken else "done"
        for n in waits
    }
    assert notes.outcomes() == expected
    position = {name: i for i, name in enumerate(site.order)}
    for number, waited in waits.items():
        if number not in doomed:
            assert all(
                position[f"nexus_rack.r{w}"] < position[f"nexus_rack.r{number}"] for w in waited
            )
    assert sorted(a.name for a in applied.state.instances) == sorted(
        f"r{n}" for n in waits if expected[f"nexus_rack.r{n}"] == "done"
    )
    records, problems = parse_journal(lines.written)
    replayed, opened = apply_journal_records(State(), records)
    assert (replayed, opened, problems) == (applied.state, [], [])


def test_follower_starts_after_failed_or_skipped_step() -> None:
    plan = build_create_plan({0: [], 1: [0], 2: [], 3: []})
    follows = {2: (1,), 3: (2,)}
    plan = replace(
        plan, steps=tuple(replace(each, follows=follows.get(each.id, ())) for each in plan.steps)
    )
    lines = JournalLines()
    site = FakeSiteProvider(lines, frozenset({"r0"}))
    _, _, notes = run_plan(plan, site, lines=lines, parallelism=4)
    assert notes.outcomes() == {
        "nexus_rack.r0": "failed",
        "nexus_rack.r1": "skipped",
        "nexus_rack.r2": "done",
        "nexus_rack.r3": "done",
    }
    assert site.order == ["nexus_rack.r0", "nexus_rack.r2", "nexus_rack.r3"]


def test_apply_increments_serial_once_and_sets_lineage() -> None:
    applied, _, _ = run_plan(build_create_plan({0: [], 1: [0], 2: [1]}))
    assert (applied.state.serial, applied.state.lineage, applied.state.last_creation) == (
        1,
        "lineage-1",
        3,
    )
    assert (applied.added, applied.changed, applied.destroyed) == (3, 0, 0)


def test_fail_fast_starts_no_further_steps() -> None:
    lines = JournalLines()
    applied, _, notes = run_plan(
        build_create_plan({0: [], 1: [], 2: []}),
        FakeSiteProvider(lines, frozenset({"r0"})),
        lines=lines,
        parallelism=1,
        fail_fast=True,
    )
    assert notes.outcomes() == {
        "nexus_rack.r0": "failed",
        "nexus_rack.r1": "skipped",
        "nexus_rack.r2": "skipped",
    }
    assert not applied.is_complete


class SlowJournal(JournalLines):
    """Slow journal: at the end of a flush, every step submitted before it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.flushing = Event()
        self.ended = Semaphore(0)
        # steps submitted until the last flush.
        self.handed_out = 0
        # number of these steps waited for.
        self.waited_for = 0
        self.most_open = 0

    def append_all(self, records: Any) -> None:
        super().append_all(records)
        self.flushing.set()
        while self.waited_for < self.handed_out:
            assert self.ended.acquire(timeout=60)
            self.waited_for += 1
        # time for the thread of the last step; a late thread only lowers the number of
        # steps in progress.
        sleep(0.02)
        self.flushing.clear()
        self.handed_out = sum(b'"kind":"intent"' in line for line in self.written)
        outcomes = sum(b'"kind":"done"' in line for line in self.written)
        self.most_open = max(self.most_open, self.handed_out - outcomes)


class SlowEverySecondCreate(FakeSiteProvider):
    """Provider whose every second create ends only during a journal write, or as the last."""

    def __init__(self, journal: SlowJournal) -> None:
        super().__init__(journal)
        self.slow = journal

    def create(self, request: ChangeRequest) -> ChangeResult:
        answer = super().create(request)
        if len(self.order) % 2 == 0:
            self.slow.flushing.wait(timeout=1)
        self.slow.ended.release()
        return answer


def test_quick_steps_are_submitted_ahead_except_with_fail_fast() -> None:
    lines = SlowJournal()
    run_plan(
        build_create_plan({n: [] for n in range(40)}),
        SlowEverySecondCreate(lines),
        lines=lines,
        parallelism=2,
    )
    assert lines.most_open > 2
    lines = SlowJournal()
    run_plan(
        build_create_plan({n: [] for n in range(40)}),
        SlowEverySecondCreate(lines),
        lines=lines,
        parallelism=2,
        fail_fast=True,
    )
    assert lines.most_open == 2


class WaitingProvider(FakeSiteProvider):
    """Provider whose creates wait for a number of parallel creates, or for a moment."""

    def __init__(self, journal: JournalLines, together: int) -> None:
        super().__init__(journal)
        self.together = Barrier(together)
        self.alone = 0

    def create(self, request: ChangeRequest) -> ChangeResult:
        request.report_progress(StepProgress(is_waiting=True))
        try:
            self.together.wait(timeout=0.2 if self.together.parties > 20 else 30)
        except BrokenBarrierError:
            self.alone += 1
        return super().create(request)


def test_waiting_steps_release_their_worker() -> None:
    lines = JournalLines()
    site = WaitingProvider(lines, together=8)
    applied, _, _ = run_plan(
        build_create_plan({n: [] for n in range(8)}), site, lines=lines, parallelism=2
    )
    assert (applied.is_complete, site.alone) == (True, 0)


class StagedRunProvider(FakeSiteProvider):
    """Provider with a run (r0) that waits until its approval (r2) starts."""

    def __init__(self, journal: JournalLines, *, is_waiting: bool) -> None:
        super().__init__(journal)
        self.is_waiting = is_waiting
        self.is_approved = Event()
        self.was_approved = False

    def create(self, request: ChangeRequest) -> ChangeResult:
        if request.address.endswith(".r0"):
            request.report_progress(StepProgress(is_waiting=self.is_waiting))
            self.was_approved = self.is_approved.wait(timeout=5 if self.is_waiting else 0.5)
        if request.address.endswith(".r2"):
            self.is_approved.set()
        return super().create(request)


@pytest.mark.parametrize("is_waiting", [True, False])
def test_site_is_checked_while_steps_only_wait(is_waiting: bool) -> None:
    lines = JournalLines()
    site = StagedRunProvider(lines, is_waiting=is_waiting)
    checks: list[str] = []

    def check_site() -> str:
        checks.append("")
        return checks[-1]

    applied, _, _ = run_plan(
        build_create_plan({0: [], 1: [], 2: [1]}),
        site,
        lines=lines,
        check_site=check_site,
        maximum_wait=1.5,
    )
    assert applied.is_complete
    assert checks
    # A site that a step changes is not read.
    assert site.was_approved is is_waiting


def test_waiting_steps_keep_their_worker_without_parallelism() -> None:
    lines = JournalLines()
    site = WaitingProvider(lines, together=30)
    run_plan(build_create_plan({n: [] for n in range(3)}), site, lines=lines, parallelism=1)
    assert site.order == sorted(site.order)
    assert site.alone == 3


def test_stop_request_lets_running_steps_end() -> None:
    looks = iter([False, True, True, True])
    applied, _, notes = run_plan(
        build_create_plan({0: [], 1: [0]}), parallelism=1, should_stop=lambda: next(looks)
    )
    assert notes.outcomes() == {"nexus_rack.r0": "done", "nexus_rack.r1": "skipped"}
    assert applied.end_events[-1].error == "The apply was interrupted before it."
    assert len(applied.state.instances) == 1


def test_create_failed_after_object_creation_is_tainted() -> None:
    class FailingAfterCreate(FakeSiteProvider):
        def create(self, request: ChangeRequest) -> ChangeResult:  # noqa: ARG002 - the port's signature
            raise ProviderProblem(
                "no answer", object_exists=True, attributes={"id": "lab/r0", "size": 9}
            )

    applied, _, _ = run_plan(build_create_plan({0: []}), FailingAfterCreate(JournalLines()))
    made = applied.state.instances[build_address("r0")].current
    assert made is not None
    assert made.tainted
    assert made.attributes["size"] == 9
    assert applied.end_events[0].error == "no answer"


def test_objects_to_keep_are_recorded() -> None:
    plan = build_create_plan({0: []})
    kept = replace(plan, changes=(replace(plan.changes[0], skip_destroy=True),))
    made = run_plan(kept)[0].state.instances[build_address("r0")].current
    assert made is not None
    assert made.skip_destroy


def test_create_before_destroy_keeps_old_object_until_delete() -> None:
    state = build_state("r0")
    replaced = build_change("r0", Action.REPLACE_CREATE_FIRST, 2, 1)
    plan = Plan(
        changes=(replaced,),
        steps=(
            build_step(0, StepKind.CREATE, 0, replaced),
            build_step(1, StepKind.DELETE, 0, replaced, [0]),
        ),
    )
    applied, _, _ = run_plan(plan, state=state)
    assert applied.state.instances[build_address("r0")].deposed == {}
    assert (applied.added, applied.destroyed) == (1, 1)

    class FailingDelete(FakeSiteProvider):
        def delete(self, request: ChangeRequest) -> None:
            assert request.key.creation == 1
            raise ProviderProblem("in use")

    lines = JournalLines()
    applied, _, notes = run_plan(plan, FailingDelete(lines), state=state, lines=lines)
    left = applied.state.instances[build_address("r0")]
    assert left.current is not None
    assert left.current.creation == 2
    assert [old.creation for old in left.deposed.values()] == [1]
    (key,) = left.deposed
    assert len(key) == 8
    assert notes.told[-1][1].deposed == key

    removal = build_change("r0", Action.DELETE, 0, 1, deposed=key)
    plan = Plan(changes=(removal,), steps=(build_step(0, StepKind.DELETE, 0, removal),))
    applied, _, _ = run_plan(plan, state=applied.state)
    kept = applied.state.instances[build_address("r0")]
    assert kept.current is not None
    assert kept.deposed == {}


def test_replaced_object_is_removed_even_if_its_create_fails() -> None:
    replaced = build_change("r0", Action.REPLACE, 2, 1)
    plan = Plan(
        changes=(replaced,),
        steps=(
            build_step(0, StepKind.DELETE, 0, replaced),
            build_step(1, StepKind.CREATE, 0, replaced, [0]),
        ),
    )

    class FailingCreate(FakeSiteProvider):
        def create(self, request: ChangeRequest) -> ChangeResult:  # noqa: ARG002 - the port's signature
            raise ProviderProblem("no room")

        def delete(self, request: ChangeRequest) -> None:  # noqa: ARG002 - the port's signature
            return

    applied, _, _ = run_plan(plan, FailingCreate(JournalLines()), state=build_state("r0"))
    assert applied.state.instances == {}
    assert (applied.added, applied.destroyed) == (0, 1)


def test_release_is_recorded_but_not_counted() -> None:
    updated = build_change("r0", Action.UPDATE, 1, 1, dependencies=("nexus_site.s",))
    release = replace(
        build_step(0, StepKind.RELEASE, 0, updated), planned=build_attributes("r0", size=1)
    )
    plan = Plan(
        changes=(updated,), steps=(release, build_step(1, StepKind.UPDATE, 0, updated, [0]))
    )
    applied, _, _ = run_plan(plan, state=build_state("r0"))
    made = applied.state.instances[build_address("r0")].current
    assert made is not None
    assert (made.attributes["size"], made.dependencies, applied.changed) == (
        2,
        ("nexus_site.s",),
        1,
    )


def test_forget_calls_no_provider() -> None:
    forgotten = build_change("r0", Action.FORGET, 0, 1)
    plan = Plan(changes=(forgotten,), steps=(build_step(0, StepKind.FORGET, 0, forgotten),))
    applied, _, _ = run_plan(
        plan, FakeSiteProvider(JournalLines(), frozenset({"r0"})), state=build_state("r0", "r1")
    )
    assert list(applied.state.instances) == [build_address("r1")]
    assert applied.forgotten == 1


SCHEMA = BlockSchema(
    {
        "id": AttributeSchema(STRING, "Id.", computed=True),
        "name": AttributeSchema(STRING, "Name.", required=True),
        "size": AttributeSchema(NUMBER, "Size.", optional=True),
        "nodes": AttributeSchema(MapType(DYNAMIC), "Nodes.", computed=True, predicted=True),
    }
)
TYPES = {"nexus_rack": ResourceType("nexus_rack", 2, SCHEMA, lambda a: str(a["id"]))}


def build_answering_provider(answer: dict[str, Any]) -> Any:
    from contextlib import ExitStack

    block = {"address": "*", "operation": "create", "answer": answer, "times": 0}
    return make_provider({"fault": [block]}, ".", ExitStack())


def build_plan_with_nodes() -> Plan:
    plan = build_create_plan({0: [], 1: [0]})
    nodes = {
        "a-0": {"machine": "m1", "provenance": "predicted"},
        "a-1": {"machine": "m2", "provenance": "predicted"},
    }
    first = {**(plan.steps[0].planned or {}), "nodes": nodes}
    return replace(plan, steps=(replace(plan.steps[0], planned=first), plan.steps[1]))


def test_result_contradicting_configuration_is_saved_and_reported() -> None:
    applied, _, notes = run_plan(
        build_plan_with_nodes(), build_answering_provider({"size": 7}), types=TYPES
    )
    made = applied.state.instances[build_address("r0")].current
    assert made is not None
    assert made.attributes["size"] == 7
    assert not made.tainted
    assert "size was planned as 2, but the provider returned 7" in applied.end_events[0].error
    assert notes.outcomes() == {"nexus_rack.r0": "failed", "nexus_rack.r1": "skipped"}


def test_sensitive_values_are_hidden_in_errors() -> None:
    plan = build_plan_with_nodes()
    secret = replace(
        plan, changes=(replace(plan.changes[0], sensitive_after=(("size",),)), plan.changes[1])
    )
    applied, _, _ = run_plan(secret, build_answering_provider({"size": 7}), types=TYPES)
    expected = "size was planned as (sensitive value), but the provider returned (sensitive value)."
    assert expected in applied.end_events[0].error


def test_unexpected_exception_of_a_provider_fails_the_step() -> None:
    class BrokenProvider(FakeSiteProvider):
        def create(self, request: ChangeRequest) -> ChangeResult:
            raise KeyError(request.address)

    applied, _, notes = run_plan(
        build_create_plan({0: [], 1: [0], 2: []}), BrokenProvider(JournalLines())
    )
    assert set(notes.outcomes().values()) == {"failed", "skipped"}
    assert applied.state.instances == {}


def test_observed_prediction_is_recorded_and_counted() -> None:
    applied, _, _ = run_plan(
        build_plan_with_nodes(),
        build_answering_provider({'nodes["a-0"].machine': "m1", 'nodes["a-1"].machine': "m9"}),
        types=TYPES,
    )
    made = applied.state.instances[build_address("r0")].current
    assert made is not None
    assert made.attributes["nodes"] == {
        "a-0": {"machine": "m1", "provenance": "observed"},
        "a-1": {"machine": "m9", "provenance": "observed"},
    }
    assert applied.end_events[0].error == ""
    (miss,) = (m for m in applied.wrong_predictions if m.address == "nexus_rack.r0")
    assert (miss.predicted, miss.observed, applied.hits) == ("m2", "m9", 1)


def test_echoed_values_stay_predicted_and_are_not_counted() -> None:
    applied, _, _ = run_plan(build_plan_with_nodes(), types=TYPES)
    made = applied.state.instances[build_address("r0")].current
    assert made is not None
    assert made.attributes["nodes"]["a-0"]["provenance"] == "predicted"
    assert (applied.hits, applied.wrong_predictions) == (0, ())


def test_unwritable_journal_stops_before_next_step() -> None:
    class FullDisk(JournalLines):
        def append_all(self, records: Any) -> None:
            if self.flushes:
                raise BackendProblem("no space left")
            super().append_all(records)

    lines = FullDisk()
    site = FakeSiteProvider(lines)
    applied, _, _ = run_plan(build_create_plan({0: [], 1: [0]}), site, lines=lines)
    assert site.order == ["nexus_rack.r0"]
    assert applied.problem == "no space left"
    assert not applied.is_complete


def test_progress_of_long_steps_is_reported_every_ten_seconds() -> None:
    from threading import Event

    released = Event()

    class Slow(FakeSiteProvider):
        def create(self, request: ChangeRequest) -> ChangeResult:
            released.wait(5)
            return ChangeResult(request.planned or {})

    class Counting(RecordingListener):
        def report_progress(self, event: Any) -> None:
            super().report_progress(event)
            released.set()

    lines = JournalLines()
    recorder = ApplyRecorder(lines, State())  # type: ignore[arg-type]
    notes = Counting()
    execute_plan(
        build_create_plan({0: []}),
        recorder,
        {"simulated": Slow(lines)},
        {},
        clock=TickingClock(8),
        listener=notes,
    )
    assert notes.told[0][0] == "started"
    assert "progressed" in [what for what, _ in notes.told]


def test_missing_provider_fails_the_step() -> None:
    plan = build_create_plan({0: []})
    plan = replace(plan, changes=(replace(plan.changes[0], provider="simulated.other"),))
    applied, _, _ = run_plan(plan)
    assert 'There is no provider "simulated.other"' in applied.end_events[0].error


def test_step_without_provider_uses_default_provider() -> None:
    plan = build_create_plan({0: []})
    plan = replace(plan, changes=(replace(plan.changes[0], provider=""),))
    applied, _, _ = run_plan(plan)
    made = applied.state.instances[build_address("r0")].current
    assert made is not None
    assert made.provider == "simulated"


def test_provider_progress_is_journaled_before_step_continues() -> None:
    lines = JournalLines()
    seen: list[bool] = []

    class Slow(FakeSiteProvider):
        def create(self, request: ChangeRequest) -> ChangeResult:
            request.report_progress(StepProgress(operation="PUT /r0", message="on its way"))
            seen.append(any(b"PUT /r0" in line for line in self.journal.written))
            raise StepPending("It goes on over there.")

    plan = build_create_plan({0: []})
    applied, lines, notes = run_plan(plan, Slow(lines), lines=lines)
    assert seen == [True]
    assert [end.outcome for end in applied.end_events] == [StepOutcome.WAITING]
    assert "on its way" in [event.message for _, event in notes.told]
    records, _ = parse_journal(lines.written)
    _, opened = apply_journal_records(State(), records)
    assert [each.intent.key_id for each in opened] == ["lab/r0"]
