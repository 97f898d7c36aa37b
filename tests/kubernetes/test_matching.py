"""Label selectors, taints and tolerations, and the names Kubernetes accepts."""

from __future__ import annotations

import pytest

from nexusform.kubernetes.matching import (
    LabelSelector,
    Requirement,
    Taint,
    Toleration,
    dns_label_problems,
    dns_subdomain_problems,
    holds,
    label_selector,
    label_value_problems,
    matches,
    qualified_name_problems,
    selector_problems,
    tolerates,
    untolerated,
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
def test_requirement(requirement: Requirement, expected: bool) -> None:
    assert holds(requirement, LABELS) is expected


def test_selector_is_a_conjunction_and_empty_selects_all() -> None:
    assert matches(LabelSelector(), {})
    assert matches(label_selector({"env": "prod"}, [Requirement("region", "Exists")]), LABELS)
    assert not matches(label_selector({"env": "prod", "region": "west"}), LABELS)
    assert not matches(label_selector({"env": "prod"}, [Requirement("region", "DoesNotExist")]), LABELS)


def test_equal_selectors_are_equal_however_written() -> None:
    assert label_selector({"a": "1", "b": "2"}) == label_selector({"b": "2", "a": "1"})


@pytest.mark.parametrize(
    ("selector", "about"),
    [
        (label_selector({"": "x"}), "non-empty"),
        (label_selector({"a b": "x"}), "alphanumeric"),
        (label_selector({"a": "no spaces"}), "valid label"),
        (label_selector({"a": "x" * 64}), "no more than 63"),
        (label_selector({}, [Requirement("a", "In")]), "can't be empty"),
        (label_selector({}, [Requirement("a", "Exists", ("x",))]), "must be empty"),
        (label_selector({}, [Requirement("a", "Gt", ("1",))]), "not a valid label selector operator"),
    ],
)
def test_selector_refused(selector: LabelSelector, about: str) -> None:
    assert any(about in problem for problem in selector_problems(selector))


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
def test_toleration(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, Taint("k", "v")) is expected


def test_the_first_untolerated_taint_is_named() -> None:
    taints = (Taint("a"), Taint("b"), Taint("c"))
    assert untolerated(taints, [Toleration("a", "Exists"), Toleration("c", "Exists")]) == Taint("b")
    assert untolerated(taints, [Toleration("", "Exists")]) is None


@pytest.mark.parametrize(
    "name", ["a", "A.b_c-d", "example.com/a", "kubernetes-fleet.io/node-count", "x" * 63]
)
def test_label_keys(name: str) -> None:
    assert not qualified_name_problems(name)


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "x" * 64, "/a", "a/", "A_b/c", "a/b/c", "é"])
def test_no_label_keys(name: str) -> None:
    assert qualified_name_problems(name)


def test_values_and_names() -> None:
    assert not label_value_problems("")
    assert label_value_problems("a/b")
    assert not dns_subdomain_problems("a-1.b")
    assert dns_subdomain_problems("A")
    assert dns_subdomain_problems("x" * 254)
    assert not dns_label_problems("kube-system")
    assert dns_label_problems("a.b")
