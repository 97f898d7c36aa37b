"""Tests of validation: rejections, and warnings.

Some rejections are immediate, others compare with the previous object.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    Policy,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    check_disruption_budget,
    check_member,
    check_name,
    check_policy,
    check_policy_change,
    check_rolling_update,
    check_strategy_change,
    check_taints,
    check_update_stages,
    parse_resource_usage,
)
from nexusform.domains.fleet.scheduling.staged_update import Stage, UpdateStageTask
from nexusform.kubernetes.matching import Requirement, Taint, Toleration, build_label_selector
from nexusform.kubernetes.quantity import IntegerOrPercent, parse_duration
from tests.domains.fleet.scheduling.samples import (
    ALL,
    FIXED,
    NODES,
    N,
    build_labels_term,
    build_pick_n,
    build_property_term,
    build_sorter,
    member,
)

RESOURCE = "resources.kubernetes-fleet.io/"


def join_findings(findings: list[Problem]) -> str:
    return "\n".join(f"{'.'.join(map(str, f.path))}: {f.detail}" for f in findings)


GOOD = [
    Policy(ALL),
    Policy(ALL, required_terms=()),
    Policy(
        ALL,
        required_terms=(build_labels_term(region="east"),),
        tolerations=(Toleration("k", "Equal", "v"),),
    ),
    Policy(FIXED, cluster_names=("a", "b")),
    build_pick_n(0),
    build_pick_n(
        3,
        required_terms=(
            build_property_term(NODES, "Ge", "5"),
            build_property_term(f"{RESOURCE}available-cpu", "Lt", "1k"),
        ),
        preferred_terms=(
            build_sorter("kubernetes.azure.com/vm-sizes/Standard_D4s_v5/count", "Ascending", -100),
        ),
        spread_constraints=(
            TopologySpreadConstraint("region", 2),
            TopologySpreadConstraint("day", 1, "ScheduleAnyway"),
        ),
        tolerations=(Toleration("", "Exists"), Toleration("k", "Exists", "", "NoSchedule")),
    ),
]


@pytest.mark.parametrize("policy", GOOD)
def test_valid_policies(policy: Policy) -> None:
    assert check_policy(policy) == []


TERM = build_labels_term(a="b")
BAD = [
    (Policy(FIXED, cluster_names=("a", "a")), "cluster_names.1: cluster names must be unique"),
    (
        Policy(FIXED, cluster_names=("A",)),
        "cluster_names.0: PickFixed cluster name A is not a valid member name",
    ),
    (Policy(FIXED, cluster_names=("a" * 64,)), "cannot have length exceeding 63"),
    (Policy(FIXED, 1, ("a",)), "number_of_clusters: number of clusters must be nil"),
    (Policy(FIXED, None, ("a",), required_terms=(TERM,)), "affinity: affinity must be nil"),
    (
        Policy(FIXED, None, ("a",), spread_constraints=(TopologySpreadConstraint("a"),)),
        "topology spread constraints needs to be empty",
    ),
    (
        Policy(FIXED, None, ("a",), tolerations=(Toleration("a", "Exists"),)),
        "tolerations needs to be empty",
    ),
    (Policy(ALL, cluster_names=("a",)), "cluster_names: cluster names needs to be empty"),
    (Policy(ALL, 3), "number of clusters must be nil"),
    (
        Policy(ALL, spread_constraints=(TopologySpreadConstraint("a"),)),
        "topology spread constraints needs to be empty",
    ),
    (
        Policy(ALL, preferred_terms=(PreferredTerm(1, TERM),)),
        "PreferredDuringSchedulingIgnoredDuringExecution will be",
    ),
    (build_pick_n(-1), "number of clusters cannot be -1"),
    (Policy(N, 1, ("a",)), "cluster names needs to be empty"),
    (
        build_pick_n(1, spread_constraints=(TopologySpreadConstraint("a", 0),)),
        "topology_spread_constraint.0.max_skew",
    ),
    (
        build_pick_n(1, spread_constraints=(TopologySpreadConstraint("a", 1, "Never"),)),
        "unknown unsatisfiable type Never",
    ),
    (
        build_pick_n(1, preferred_terms=(PreferredTerm(101, TERM),)),
        "weight must be from -100 to 100",
    ),
    (
        build_pick_n(1, preferred_terms=(PreferredTerm(1, build_property_term(NODES, "Ge", "1")),)),
        "preference.property_selector: PropertySelector is not allowed",
    ),
    (
        build_pick_n(
            1,
            required_terms=(
                ClusterSelectorTerm(property_sorter=PropertySorter(NODES, "Ascending")),
            ),
        ),
        "cluster_selector_term.0.property_sorter: PropertySorter is not allowed",
    ),
    (
        build_pick_n(1, preferred_terms=(build_sorter(NODES, "Upwards"),)),
        "invalid property sort order Upwards",
    ),
    (build_pick_n(1, required_terms=(TERM,) * 11), "at most 10 cluster selector terms"),
    (
        build_pick_n(
            1,
            required_terms=(
                ClusterSelectorTerm(build_label_selector({}, [Requirement("a", "In")])),
            ),
        ),
        "cluster_selector_term.0.label_selector: values",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term(NODES, "Is", "1"),)),
        "match_expression.0.operator: unsupported operator Is",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term(NODES, "Ge", "5 Gi"),)),
        'value "5 Gi" is not a valid resource.Quantity',
    ),
    (
        build_pick_n(
            1,
            required_terms=(
                ClusterSelectorTerm(
                    property_selector=(PropertyRequirement(NODES, "Ge", ("1", "2")),)
                ),
            ),
        ),
        "operator Ge requires exactly one value, got 2",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term("a b", "Ge", "1"),)),
        "property name a b is not valid",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term("-/b", "Ge", "1"),)),
        "first segment - is neither",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term("a/-", "Ge", "1"),)),
        "property name segment - is not valid",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term(f"{RESOURCE}cpu", "Ge", "1"),)),
        "invalid resource property name",
    ),
    (
        build_pick_n(1, required_terms=(build_property_term(f"{RESOURCE}spare-cpu", "Ge", "1"),)),
        "[allocatable available total]",
    ),
    (
        build_pick_n(1, tolerations=(Toleration("k", "Exists", "v"),)),
        "toleration.0.value: toleration value needs to be empty",
    ),
    (
        build_pick_n(1, tolerations=(Toleration("", "Equal", "v"),)),
        "toleration.0.key: toleration key cannot be empty",
    ),
    (
        build_pick_n(1, tolerations=(Toleration("a b", "Exists"),)),
        "toleration.0.key: invalid toleration key",
    ),
    (
        build_pick_n(1, tolerations=(Toleration("k", "Equal", "a b"),)),
        "toleration.0.value: invalid toleration value",
    ),
    (build_pick_n(1, tolerations=(Toleration("k", "Is"),)), "unsupported toleration operator Is"),
    (
        build_pick_n(1, tolerations=(Toleration("k", "Exists", "", "NoExecute"),)),
        "only NoSchedule exists",
    ),
    (
        build_pick_n(1, tolerations=(Toleration("k", "Exists"),) * 2),
        "toleration.1: toleration already exists",
    ),
    (
        build_pick_n(1, tolerations=tuple(Toleration(f"k{i}", "Exists") for i in range(101))),
        "at most 100 tolerations",
    ),
]


@pytest.mark.parametrize(("policy", "about"), BAD)
def test_rejected_policies(policy: Policy, about: str) -> None:
    findings = check_policy(policy)
    assert about in join_findings(findings)
    assert any(problem.severity is Severity.ERROR for problem in findings)


def build_expressions(*pairs: tuple[str, str]) -> Policy:
    requirements = tuple(
        PropertyRequirement(NODES, operator, (value,)) for operator, value in pairs
    )
    return build_pick_n(1, required_terms=(ClusterSelectorTerm(property_selector=requirements),))


@pytest.mark.parametrize(
    ("pairs", "about"),
    [
        ((("Eq", "1"), ("Eq", "2")), "conflicting Eq values 1 and 2"),
        ((("Eq", "1"), ("Ne", "1000m")), "conflicting Eq and Ne on same value 1"),
        ((("Gt", "5"), ("Lt", "5")), "lower bound (5) and upper bound (5) exclude all values"),
        ((("Gt", "5"), ("Le", "5")), "exclude all values"),
        ((("Ge", "5"), ("Lt", "5")), "exclude all values"),
        ((("Ge", "6"), ("Le", "5")), "exclude all values"),
        ((("Ge", "1"), ("Gt", "5"), ("Ge", "5"), ("Le", "5")), "exclude all values"),
        ((("Eq", "5"), ("Gt", "5")), "eq value 5 violates lower bound 5"),
        ((("Eq", "5"), ("Lt", "5")), "eq value 5 violates upper bound 5"),
        ((("Eq", "9"), ("Le", "5")), "eq value 9 violates upper bound 5"),
    ],
)
def test_contradictions(pairs: tuple[tuple[str, str], ...], about: str) -> None:
    assert f"inconsistent requirements on property {NODES}: " in join_findings(
        check_policy(build_expressions(*pairs))
    )
    assert about in join_findings(check_policy(build_expressions(*pairs)))


@pytest.mark.parametrize(
    "pairs",
    [
        (("Ge", "5"), ("Le", "5")),
        (("Eq", "5"), ("Eq", "5000m")),
        (("Eq", "5"), ("Ge", "5"), ("Ne", "6")),
        (("Gt", "1"), ("Lt", "2")),
        (("Ne", "1"), ("Ne", "1")),
    ],
)
def test_no_contradictions(pairs: tuple[tuple[str, str], ...]) -> None:
    assert check_policy(build_expressions(*pairs)) == []


def test_different_terms_do_not_contradict_each_other() -> None:
    assert (
        check_policy(
            build_pick_n(
                1,
                required_terms=(
                    build_property_term(NODES, "Gt", "5"),
                    build_property_term(NODES, "Lt", "5"),
                ),
            )
        )
        == []
    )


@pytest.mark.parametrize(
    "policy",
    [
        Policy(FIXED),
        build_pick_n(
            1,
            required_terms=(build_property_term(f"{RESOURCE}total-ephemeral-storage", "Ge", "1"),),
        ),
        build_pick_n(1, required_terms=(build_property_term("k8s.io/k8s-version", "Ge", "1"),)),
    ],
)
def test_different_hub_behaviour_is_a_warning(policy: Policy) -> None:
    assert [problem.severity for problem in check_policy(policy)] == [Severity.WARNING]


BEFORE = build_pick_n(3, tolerations=(Toleration("k", "Exists"),))


@pytest.mark.parametrize(
    ("before", "after", "about"),
    [
        (None, None, ""),
        (None, Policy(ALL), ""),
        (None, build_pick_n(1), "placement type is immutable"),
        (Policy(ALL), None, "policy cannot be removed once set"),
        (BEFORE, None, "policy cannot be removed once set"),
        (BEFORE, replace(BEFORE, number_of_clusters=9), ""),
        (BEFORE, replace(BEFORE, tolerations=(Toleration("l", "Exists"), *BEFORE.tolerations)), ""),
        (BEFORE, replace(BEFORE, tolerations=()), "only additions to tolerations are allowed"),
        (BEFORE, replace(BEFORE, tolerations=(Toleration("k", "Equal", "v"),)), "only additions"),
        (BEFORE, Policy(ALL, tolerations=BEFORE.tolerations), "placement type is immutable"),
    ],
)
def test_policy_changes(before: Policy | None, after: Policy | None, about: str) -> None:
    problems = join_findings(check_policy_change(before, after))
    assert (about in problems) if about else not problems


def test_external_strategy_is_immutable() -> None:
    assert check_strategy_change("RollingUpdate", "External") == []
    assert check_strategy_change("External", "External") == []
    assert len(check_strategy_change("External", "RollingUpdate")) == 1


def test_names_taints_and_members() -> None:
    assert check_name("web") == []
    assert check_name("Web")
    assert "exceeding 63" in join_findings(check_name("a" * 64))
    assert check_member(member("a", {"fleet.azure.com/location": "westus"}, taints=["k"])) == []
    assert "labels.a b" in join_findings(check_member(member("a", {"a b": "c"})))
    assert "labels.a" in join_findings(check_member(member("a", {"a": "b c"})))
    problems = join_findings(
        check_taints(
            (Taint("a b"), Taint("k", "v w"), Taint("k", "", "NoExecute"), Taint("k"), Taint("k"))
        )
    )
    for about in (
        "taint.0.key",
        "taint.1.value",
        "taint.2.effect",
        "taint.4: taint already exists",
    ):
        assert about in problems


def test_rolling_updates() -> None:
    quarter = IntegerOrPercent(25, is_percent=True)
    assert check_rolling_update(quarter, quarter, 60) == []
    assert "max_surge" in join_findings(check_rolling_update(quarter, IntegerOrPercent(-1), 60))
    assert "unavailable_period_seconds" in join_findings(check_rolling_update(quarter, quarter, -1))
    assert "External" in join_findings(check_rolling_update(quarter, quarter, 60, is_external=True))
    stuck = check_rolling_update(IntegerOrPercent(0), IntegerOrPercent(0), 60)
    assert [problem.severity for problem in stuck] == [Severity.WARNING]


def test_budgets() -> None:
    one = IntegerOrPercent(1)
    assert check_disruption_budget(PlacementDisruptionBudget(max_unavailable=one), N) == []
    assert check_disruption_budget(PlacementDisruptionBudget(min_available=one), ALL) == []
    (empty,) = check_disruption_budget(PlacementDisruptionBudget(), N)
    assert (empty.id, empty.severity) == ("fully-blocking-budget", Severity.WARNING)
    assert "cannot both be set" in join_findings(
        check_disruption_budget(PlacementDisruptionBudget(one, one), None)
    )
    assert "max unavailable 1" in join_findings(
        check_disruption_budget(PlacementDisruptionBudget(one), ALL)
    )
    assert "as a percentage 5%" in join_findings(
        check_disruption_budget(PlacementDisruptionBudget(None, IntegerOrPercent(5, True)), ALL)
    )


@pytest.mark.parametrize(
    ("stage", "about"),
    [
        (Stage("Prod"), "stage.0.name"),
        (Stage(""), "stage.0.name"),
        (Stage("a", max_concurrency=IntegerOrPercent(0)), "stage.0.max_concurrency"),
        (Stage("a", max_concurrency=IntegerOrPercent(101, True)), "stage.0.max_concurrency"),
        (Stage("a", build_label_selector({"x y": "z"})), "stage.0.label_selector"),
        (
            Stage("a", before=(UpdateStageTask("TimedWait", 1.0),)),
            "stage.0.before_stage_task.0.type",
        ),
        (
            Stage("a", before=(UpdateStageTask("Approval"),) * 2),
            "stage.0.before_stage_task: at most 1",
        ),
        (
            Stage("a", after=(UpdateStageTask("Approval"),) * 2),
            "cannot be more than one task of type Approval",
        ),
        (Stage("a", after=(UpdateStageTask("Approval", 1.0),)), "waitTime is not allowed"),
        (Stage("a", after=(UpdateStageTask("TimedWait"),)), "waitTime is required"),
        (Stage("a", after=(UpdateStageTask("TimedWait", -1.0),)), "non-negative"),
    ],
)
def test_stages(stage: Stage, about: str) -> None:
    assert about in join_findings(check_update_stages([stage]))


def test_update_strategies() -> None:
    good = Stage(
        "canary",
        build_label_selector(),
        "order",
        IntegerOrPercent(50, True),
        (UpdateStageTask("Approval"),),
        (UpdateStageTask("TimedWait", 9.0),),
    )
    assert check_update_stages([good, Stage("prod")]) == []
    assert "duplicate stage name 'a'" in join_findings(
        check_update_stages([Stage("a"), Stage("a")])
    )
    assert "at most 31 stages" in join_findings(
        check_update_stages([Stage(f"s{i}") for i in range(32)])
    )


def test_resource_usage_is_parsed_with_its_errors() -> None:
    usage, findings = parse_resource_usage(
        {"cpu": "8", "memory": "32 Gi"}, {"cpu": "7500m"}, {"cpu": "x"}
    )
    assert {name: str(amount) for name, amount in usage.total.items()} == {"cpu": "8"}
    assert str(usage.allocatable["cpu"]) == "7500m"
    assert [f.path for f in findings] == [("total", "memory"), ("available", "cpu")]


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400.0), ("90s", 90.0), ("0.5m", 30.0), ("0s", 0.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1d", "-1s", "1 h", "h"])
def test_invalid_durations(text: str) -> None:
    assert isinstance(parse_duration(text), str)
