"""Tests of staged update runs: clusters per stage, their order, and waits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, Member, PolicySnapshot
from nexusform.domains.fleet.scheduling.staged_update import (
    RunProblem,
    RunState,
    RunStepKind,
    Stage,
    StagedRunPlan,
    UpdateStageTask,
    check_run_state_transition,
    initialize_staged_run,
    list_run_steps,
    simulate_staged_run,
)
from nexusform.kubernetes.matching import LabelSelector, build_label_selector
from nexusform.kubernetes.quantity import IntegerOrPercent
from tests.domains.fleet.scheduling.samples import (
    BOUND,
    SCHEDULED,
    UNSCHEDULED,
    build_bound,
    fleet,
    member,
)

SNAPSHOT = PolicySnapshot(0, "", 4)
MEMBERS = [
    member("a", {"ring": "canary", "order": "2"}),
    member("b", {"ring": "prod", "order": "10"}),
    member("c", {"ring": "prod", "order": "9"}),
    member("d", {"ring": "prod", "order": "9"}),
]
HELD = [Binding(name, SCHEDULED, 0, 0, 0) for name in "abcd"]
CANARY = Stage(
    "canary",
    build_label_selector({"ring": "canary"}),
    after=(UpdateStageTask("TimedWait", 60.0), UpdateStageTask("Approval")),
)
PROD = Stage(
    "prod",
    build_label_selector({"ring": "prod"}),
    "order",
    IntegerOrPercent(50, is_percent=True),
    before=(UpdateStageTask("Approval"),),
)


def initialize_run(
    stages: list[Stage],
    held: list[Binding] = HELD,
    members: list[Member] = MEMBERS,
    number: int | None = 4,
) -> StagedRunPlan | RunProblem:
    return initialize_staged_run(held, SNAPSHOT, number, True, members, stages)


def initialize_valid_run(stages: list[Stage], held: list[Binding] = HELD) -> StagedRunPlan:
    made = initialize_run(stages, held)
    assert isinstance(made, StagedRunPlan), made
    return made


def test_clusters_per_stage_are_ordered() -> None:
    run = initialize_valid_run([CANARY, PROD])
    assert [(s.name, s.clusters, s.concurrency) for s in run.stages] == [
        ("canary", ("a",), 1),
        ("prod", ("c", "d", "b"), 1),
    ]


def test_concurrency_is_rounded_down_but_at_least_one() -> None:
    for amount, at_a_time in (
        (IntegerOrPercent(50, True), 2),
        (IntegerOrPercent(99, True), 3),
        (IntegerOrPercent(1, True), 1),
        (IntegerOrPercent(3), 3),
    ):
        run = initialize_valid_run([Stage("all", LabelSelector(), max_concurrency=amount)])
        assert run.stages[0].concurrency == at_a_time


def test_empty_selector_selects_all_and_none_selects_nothing() -> None:
    run = initialize_valid_run([Stage("none"), Stage("all", LabelSelector())])
    assert [s.clusters for s in run.stages] == [(), ("a", "b", "c", "d")]


@pytest.mark.parametrize(
    ("stages", "about"),
    [
        ([CANARY], "some clusters are not placed in any stage, total 3, showing up to 10: b, c, d"),
        ([CANARY, Stage("all", LabelSelector())], "cluster `a` appears in more than one stages"),
        ([Stage("all", LabelSelector(), "ring")], "the sorting label `ring:canary` on cluster `a`"),
        ([Stage("all", LabelSelector(), "absent")], "the sorting label `absent:` on cluster `a`"),
        ([Stage("all", build_label_selector({"a b": "c"}))], "the stage label selector is invalid"),
        (
            [Stage("none", after=(UpdateStageTask("TimedWait", 0.0),))],
            "task 0 of type TimedWait has wait duration <= 0",
        ),
    ],
)
def test_errors_of_stages(stages: list[Stage], about: str) -> None:
    problem = initialize_run(stages)
    assert isinstance(problem, RunProblem)
    assert about in problem.message


def test_long_numbers_sort_as_on_a_hub() -> None:
    orders = {"a": "9223372036854775807", "b": f"{'0' * 40}7", "c": "1000000000000000000", "d": "7"}
    members = [member(name, {"order": order}) for name, order in orders.items()]
    run = initialize_run([Stage("all", LabelSelector(), "order")], members=members)
    assert isinstance(run, StagedRunPlan)
    assert run.stages[0].clusters == ("b", "d", "c", "a")


@pytest.mark.parametrize(
    ("order", "error"),
    [
        ("9223372036854775808", "value out of range"),
        ("9" * 63, "value out of range"),
        ("1_0", "invalid syntax"),
        ("", "invalid syntax"),
    ],
)
def test_errors_of_sorting_labels_are_those_of_a_hub(order: str, error: str) -> None:
    members = [member("a", {"order": order}), *MEMBERS[1:]]
    problem = initialize_run([Stage("all", LabelSelector(), "order")], members=members)
    assert isinstance(problem, RunProblem)
    assert problem.message.endswith(
        f'on cluster `a` is not valid: strconv.Atoi: parsing "{order}": {error}'
    )


def test_only_ten_missing_clusters_are_named() -> None:
    names = [f"m{i:02d}" for i in range(12)]
    problem = initialize_run([], [Binding(name, SCHEDULED, 0) for name in names], fleet(*names), 12)
    assert isinstance(problem, RunProblem)
    assert problem.message.endswith("m08, m09")


def test_errors_of_the_placement() -> None:
    unfulfilled = initialize_staged_run(HELD, SNAPSHOT, 4, False, MEMBERS, [PROD])
    assert isinstance(unfulfilled, RunProblem)
    assert "not fully scheduled" in unfulfilled.message
    old = [replace(HELD[0], policy_snapshot=3), *HELD[1:]]
    behind = initialize_run([CANARY, PROD], old)
    assert isinstance(behind, RunProblem)
    few = initialize_run([CANARY, PROD], number=5)
    assert isinstance(few, RunProblem)
    assert "not equal to the observed cluster count 5" in few.message
    nobody = initialize_run([CANARY], [], number=0)
    assert isinstance(nobody, RunProblem)


def test_run_from_start_to_end() -> None:
    held = [*HELD, Binding("e", UNSCHEDULED, 0, previous_state=BOUND)]
    run = initialize_valid_run([CANARY, PROD], held)
    assert [(s.kind, s.stage, s.clusters or s.task) for s in list_run_steps(run, "r1")] == [
        (RunStepKind.UPDATE, "canary", ("a",)),
        (RunStepKind.WAIT, "canary", ""),
        (RunStepKind.APPROVAL, "canary", "r1-after-canary"),
        (RunStepKind.APPROVAL, "prod", "r1-before-prod"),
        (RunStepKind.UPDATE, "prod", ("c",)),
        (RunStepKind.UPDATE, "prod", ("d",)),
        (RunStepKind.UPDATE, "prod", ("b",)),
        (RunStepKind.DELETE, "kubernetes-fleet.io/deleteStage", ("e",)),
    ]
    outcome = simulate_staged_run(run, "r1", held, 7)
    assert (outcome.pending_approval, outcome.blocking_clusters) == ("", ())
    assert [(b.cluster, b.state, b.resource_snapshot) for b in outcome.bindings] == [
        (n, BOUND, 7) for n in "abcd"
    ]


def test_empty_stage_is_skipped_with_its_tasks() -> None:
    # KubeFleet pkg/controllers/updaterun/execution.go: "Skip the entire stage when there
    # are 0 clusters".
    tasks = (UpdateStageTask("Approval"), UpdateStageTask("TimedWait", 60))
    nobody = Stage("nobody", build_label_selector({"ring": "none"}), before=tasks[:1], after=tasks)
    run = initialize_valid_run([nobody, Stage("all", LabelSelector())])
    assert run.stages[0].clusters == ()
    assert {step.stage for step in list_run_steps(run, "r1")} == {"all"}
    assert not simulate_staged_run(run, "r1", HELD, 7, approved=frozenset()).pending_approval


def test_run_waits_for_its_approval() -> None:
    outcome = simulate_staged_run(
        initialize_valid_run([CANARY, PROD]), "r1", HELD, 7, approved=frozenset({"r1-after-canary"})
    )
    assert outcome.pending_approval == "r1-before-prod"
    assert [b.state for b in outcome.bindings] == [BOUND, SCHEDULED, SCHEDULED, SCHEDULED]


def test_failing_cluster_stops_the_run() -> None:
    outcome = simulate_staged_run(
        initialize_valid_run([CANARY, PROD]), "r1", HELD, 7, failing=frozenset("d")
    )
    assert outcome.blocking_clusters == ("d",)
    assert [b.cluster for b in outcome.bindings if b.state is BOUND] == ["a", "c", "d"]
    assert outcome.pending_approval or outcome.blocking_clusters


def test_failing_cluster_keeps_its_slot_and_others_continue() -> None:
    run = initialize_valid_run(
        [Stage("all", LabelSelector(), max_concurrency=IntegerOrPercent(2)), Stage("none")]
    )
    groups = {
        "": [("a", "b"), ("c", "d")],
        "a": [("a", "b"), ("c",), ("d",)],
        "ac": [("a", "b"), ("c",), ("d",)],
        "ab": [("a", "b"), ("c", "d")],
        "d": [("a", "b"), ("c", "d")],
    }
    for failing, expected in groups.items():
        steps = list_run_steps(run, "r1", frozenset(failing))
        assert [step.clusters for step in steps] == expected, failing
    bound_in = {
        failing: "".join(
            b.cluster
            for b in simulate_staged_run(run, "r1", HELD, 7, failing=frozenset(failing)).bindings
            if b.state is BOUND
        )
        for failing in groups
    }
    assert bound_in == {"": "abcd", "a": "abcd", "ac": "abc", "ab": "ab", "d": "abcd"}
    assert simulate_staged_run(run, "r1", HELD, 7, failing=frozenset("ac")).blocking_clusters == (
        "a",
        "c",
    )


def test_forbidden_transitions() -> None:
    allowed = {
        (a, b) for a in RunState for b in RunState if check_run_state_transition(a, b) is None
    }
    assert allowed == {(s, s) for s in RunState} | {
        (RunState.INITIALIZE, RunState.RUN),
        (RunState.RUN, RunState.STOP),
        (RunState.STOP, RunState.RUN),
    }


def test_bound_clusters_are_updated_too() -> None:
    outcome = simulate_staged_run(
        initialize_valid_run([CANARY, PROD], build_bound(*"abcd")), "r1", build_bound(*"abcd"), 3
    )
    assert {b.resource_snapshot for b in outcome.bindings} == {3}
