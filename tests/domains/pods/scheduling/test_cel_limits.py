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


EXPRESSIONS = {
    "doubled text": double_text(11),
    "more doubled text": double_text(13),
    "five loops": nest_loops(5),
    "seven loops": nest_loops(7),
    "replaced text": 'cel.bind(a, "' + "a" * 5000 + '", '
    'size(a.replace("a", a).replace("a", "' + "b" * 100 + '")) > 0)',
    "no truth": "1 + 1",
    "division by zero": "1 / 0 == 1",
    "index": "[1][5] == 1",
    "comparison of types": 'device.attributes["gpu.example.com"].cell > "a"',
    "expression": '"aaaa".matches("(")',
    "quantity": 'quantity("abc").isGreaterThan(quantity("1"))',
}
DEVICE = Device(name="d", attributes={"cell": ("int", 0)})


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_hostile_selector_is_an_error(name: str) -> None:
    expression = EXPRESSIONS[name]
    cpu_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_at = time.process_time()
    assert find_selector_problem(expression) == ""
    with pytest.raises(CelSelectorError, match="fails on a device:"):
        is_device_selected(expression, "gpu.example.com", DEVICE)
    # The child process is still there, or it was ended: only the latter counts.
    cpu_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert time.process_time() - started_at < 1
    assert cpu_after.ru_utime - cpu_before.ru_utime < 2
    # The next request has a new child process.
    assert is_device_selected("true", "gpu.example.com", DEVICE)


def test_long_selector_is_rejected() -> None:
    problem = find_selector_problem("true" + " && true" * 1500)
    assert problem == "it has 12,004 bytes, and Kubernetes allows 10,240"


def test_expression_beyond_its_limits_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expression = double_text(12)
    with pytest.raises(CelSelectorError, match=r"exceeds 0\.5 s of processor time or 96 MiB"):
        is_device_selected(expression, "a.example.com", DEVICE)
    # A hundred devices must not take a hundred times the limit.
    monkeypatch.setattr(cel_device_selectors, "_WORKER", None)
    with pytest.raises(CelSelectorError, match=r"exceeds 0\.5 s"):
        is_device_selected(expression, "b.example.com", DEVICE)


def test_many_selectors_do_not_use_up_the_memory_of_one() -> None:
    parts = [f'device.attributes["gpu.example.com"].cell != {part}' for part in range(100)]
    expressions = [" && ".join([*parts, str(number != 0).lower()]) for number in range(2)]
    problems = {
        find_selector_problem(expression.replace("cell", f"cell{number}"))
        for number in range(500)
        for expression in expressions
    }
    assert problems == {""}
