"""Limits of CEL selectors: each hostile expression is an error in little time and memory."""

from __future__ import annotations

import resource
import time

import pytest

from nexusform.domains.pods.scheduling import cel_device_selectors
from nexusform.domains.pods.scheduling.cel_device_selectors import (
    CelSelectorError,
    find_selector_problem,
    is_device_selected,
)
from nexusform.domains.pods.scheduling.cluster_records import Device

pytest.importorskip("cel_expr_python")


def double_text(depth: int) -> str:
    """Return an expression whose text has 10 * 5**depth characters."""
    expression = f"size(a{depth}) > 0"
    for level in range(depth, 0, -1):
        parts = "+".join([f"a{level - 1}"] * 5)
        expression = f"cel.bind(a{level}, {parts}, {expression})"
    return f'cel.bind(a0, "xxxxxxxxxx", {expression})'


def nest_loops(depth: int) -> str:
    """Return an expression of nested loops over 20 elements."""
    expression = "true"
    for level in range(depth):
        expression = f"{list(range(20))}.all(x{level}, {expression})"
    return expression


UNKNOWN_COSTS = {
    "doubled text": double_text(9),
    "more doubled text": double_text(13),
    "one loop": nest_loops(1),
    "seven loops": nest_loops(7),
    "replaced text": 'device.driver.replace("gpu", "cpu").contains("cpu")',
    "loop over attributes": 'device.attributes["a.com"].all(a, a != "x")',
    "joined texts": '["gpu", device.driver].join(".").contains("gpu")',
    "split text": 'size(device.driver.split(".")) > 1',
    "substring": 'device.driver.substring(1) == "x"',
    "sum": "9223372036854775807 + 1 == 0",
    "list of several types": 'device.driver in ["a", 1]',
    "raw text": 'device.driver == r"x"',
    "comment": 'true // "\n && [1].all(x, true) // "',
}
INVALID_EXPRESSIONS = {
    "no truth": "1 + 1",
    "division by zero": "1 / 0 == 1",
    "regular expression": '"aaaa".matches("(")',
    "quantity": 'quantity("abc").isGreaterThan(quantity("1"))',
    "version": 'semver("x").isGreaterThan(semver("1.0.0"))',
    "join": '["a"].join(1) == ""',
    "Unicode": r'"\uD800" == "x"',
    "length": "true" + " && true" * 3000,
}
VALID_EXPRESSIONS = {
    "device.attributes['gpu.example.com'].cell == 0 && device.driver == 'gpu.example.com'",
    'cel.bind(d, device.attributes["gpu.example.com"], d.cell in [0, 1])',
    '(device.driver == "x" ? "long" : "short").contains("or")',
    'device.driver.lowerAscii().contains("gpu")',
    'device.driver in ["a", "gpu.example.com"]',
}
DEVICE = Device(name="d", attributes={"cell": ("int", 0)})


@pytest.mark.parametrize("name", UNKNOWN_COSTS | INVALID_EXPRESSIONS)
def test_hostile_selector_takes_little_time_and_memory(name: str) -> None:
    cpu_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_at = time.process_time()
    problem = find_selector_problem((UNKNOWN_COSTS | INVALID_EXPRESSIONS)[name])
    assert problem is not None
    assert problem.is_invalid == (name in INVALID_EXPRESSIONS), problem
    # The child process is still there, or it was ended: only the latter counts.
    cpu_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert time.process_time() - started_at < 1
    assert cpu_after.ru_utime - cpu_before.ru_utime < 2
    # The next request has a new child process.
    assert is_device_selected("true", "gpu.example.com", DEVICE)


@pytest.mark.parametrize("expression", sorted(VALID_EXPRESSIONS))
def test_usual_selector_is_within_the_cost_limit(expression: str) -> None:
    assert find_selector_problem(expression) is None
    assert is_device_selected(expression, "gpu.example.com", DEVICE)


def test_function_that_only_kubernetes_has_is_not_an_error() -> None:
    for expression in (
        'ip("10.0.0.1").isUnspecified()',
        'semver("v1", true).major() == 1',
        '"%s".format([device]) == ""',
    ):
        problem = find_selector_problem(expression)
        assert problem is not None
        assert not problem.is_invalid, problem


def test_selector_that_fails_on_a_device_is_reported_for_its_pods() -> None:
    expression = 'device.attributes["gpu.example.com"].cell > "a"'
    assert find_selector_problem(expression) is None
    with pytest.raises(CelSelectorError, match="fails on a device:"):
        is_device_selected(expression, "gpu.example.com", DEVICE)


def test_long_selector_is_rejected() -> None:
    problem = find_selector_problem("true" + " && true" * 1500)
    assert problem is not None
    assert problem.text == "it has 12,004 bytes, and Kubernetes allows 10,240"


def test_expression_beyond_its_limits_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expression = double_text(12)
    with pytest.raises(CelSelectorError, match=r"exceeds 0\.5 s of processor time or 96 MiB"):
        is_device_selected(expression, "a.example.com", DEVICE)
    # A hundred devices must not take a hundred times the limit.
    monkeypatch.setattr(cel_device_selectors, "_WORKER", None)
    with pytest.raises(CelSelectorError, match=r"exceeds 0\.5 s"):
        is_device_selected(expression, "b.example.com", DEVICE)
