"""Tests of label selectors, taints and tolerations, and of valid Kubernetes names."""

from __future__ import annotations

import pytest

from nexusform.kubernetes.matching import (
    LabelSelector,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
    is_matching_toleration,
    is_requirement_met,
    is_selected,
    select_untolerated_taint,
    validate_dns_label,
    validate_dns_subdomain,
    validate_label_value,
    validate_qualified_name,
    validate_selector,
)

LABELS = {"region": "east", "env": "prod", "rank": "7"}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("region", "In", ("east", "west")), True),
        (Requirement("region", "In", ("west",)), False),
        (Requirement("zone", "In", ("a",)), False),
        (Requirement("region", "NotIn", ("west",)), True),
        (Requirement("region", "NotIn", ("east",)), False),
        (Requirement("zone", "NotIn", ("a",)), True),
        (Requirement("env", "Exists"), True),
        (Requirement("zone", "Exists"), False),
        (Requirement("env", "DoesNotExist"), False),
        (Requirement("zone", "DoesNotExist"), True),
        (Requirement("rank", "Gt", ("6",)), True),
        (Requirement("rank", "Gt", ("7",)), False),
        (Requirement("rank", "Lt", ("8",)), True),
        (Requirement("region", "Gt", ("1",)), False),
        (Requirement("zone", "Lt", ("1",)), False),
    ],
)
def test_requirement_matches_labels(requirement: Requirement, expected: bool) -> None:
    assert is_requirement_met(requirement, LABELS) is expected


def test_selector_is_a_conjunction_and_empty_selects_all() -> None:
    assert is_selected(LabelSelector(), {})
    assert is_selected(
        build_label_selector({"env": "prod"}, [Requirement("region", "Exists")]), LABELS
    )
    assert not is_selected(build_label_selector({"env": "prod", "region": "west"}), LABELS)
    assert not is_selected(
        build_label_selector({"env": "prod"}, [Requirement("region", "DoesNotExist")]), LABELS
    )


def test_equal_selectors_compare_equal_in_any_notation() -> None:
    assert build_label_selector({"a": "1", "b": "2"}) == build_label_selector({"b": "2", "a": "1"})


@pytest.mark.parametrize(
    ("selector", "about"),
    [
        (build_label_selector({"": "x"}), "non-empty"),
        (build_label_selector({"a b": "x"}), "alphanumeric"),
        (build_label_selector({"a": "no spaces"}), "valid label"),
        (build_label_selector({"a": "x" * 64}), "no more than 63"),
        (build_label_selector({}, [Requirement("a", "In")]), "can't be empty"),
        (build_label_selector({}, [Requirement("a", "Exists", ("x",))]), "must be empty"),
        (
            build_label_selector({}, [Requirement("a", "Gt", ("1",))]),
            "not a valid label selector operator",
        ),
    ],
)
def test_invalid_selector_is_rejected(selector: LabelSelector, about: str) -> None:
    assert any(about in problem for problem in validate_selector(selector))


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("k", "Equal", "v", "NoExecute"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("k", "Unknown", "v"), False),
    ],
)
def test_toleration_matches_taint(toleration: Toleration, expected: bool) -> None:
    assert is_matching_toleration(toleration, Taint("k", "v")) is expected


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("Gt", "950", True),
        ("Gt", "990", False),
        ("Lt", "1000", True),
        ("Lt", "990", False),
        ("Gt", "many", False),
    ],
)
def test_toleration_compares_numbers(operator: str, value: str, expected: bool) -> None:
    toleration = Toleration("sla", operator, value)
    assert is_matching_toleration(toleration, Taint("sla", "990")) is expected
    assert not is_matching_toleration(toleration, Taint("sla", "high"))


def test_first_untolerated_taint_is_named() -> None:
    taints = (Taint("a"), Taint("b"), Taint("c"))
    assert select_untolerated_taint(
        taints, [Toleration("a", "Exists"), Toleration("c", "Exists")]
    ) == Taint("b")
    assert select_untolerated_taint(taints, [Toleration("", "Exists")]) is None


@pytest.mark.parametrize(
    "name", ["a", "A.b_c-d", "example.com/a", "kubernetes-fleet.io/node-count", "x" * 63]
)
def test_valid_label_keys(name: str) -> None:
    assert not validate_qualified_name(name)


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a b", "x" * 64, "/a", "a/", "A_b/c", "a/b/c", "é"]
)
def test_invalid_label_keys(name: str) -> None:
    assert validate_qualified_name(name)


def test_label_values_and_dns_names() -> None:
    assert not validate_label_value("")
    assert validate_label_value("a/b")
    assert not validate_dns_subdomain("a-1.b")
    assert validate_dns_subdomain("A")
    assert validate_dns_subdomain("x" * 254)
    assert not validate_dns_label("kube-system")
    assert validate_dns_label("a.b")
