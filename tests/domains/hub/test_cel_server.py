"""CEL selectors of devices on a running API server: accepted or rejected as predicted."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("cel_expr_python")
from nexusform.domains.pods.scheduling.cel_device_selectors import find_selector_problem
from tests.domains.hub.api_programs import ApiPrograms

DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
LOOKUP = 'device.attributes["a.com"]'
RANDOM_SELECTORS = 150


class SelectorGenerator:
    """Random selectors of lookups, texts and names of lookups."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)

    def generate(self, depth: int) -> str:
        """Return a condition."""
        if depth <= 0:
            return self._draw.choice(("true", "1 > 0", 'device.driver == "x"'))
        left, right = (self._generate_text() for _ in range(2))
        first, second = (self.generate(depth - 1) for _ in range(2))
        return self._draw.choice(
            (
                f"{left}.contains({right})",
                f"{left}.startsWith({right})",
                f'{left}.matches("[a-z]+")',
                f"{left} == {right}",
                f"{left} < {right}",
                f"({first} && {second})",
                f"({first} || {second})",
                f"!({first})",
                f'{left} in ["a", "b"]',
                f"size({left}) > 1",
                f"({first} ? {left} : {right}).endsWith({left})",
                f"cel.bind(d{depth}, {LOOKUP}, {first} && d{depth}.s == {left})",
            )
        )

    def _generate_text(self) -> str:
        text = self._draw.choice(("device.driver", '"abc"', '"a.b.c"', f"{LOOKUP}.s"))
        return self._draw.choice((text, f"{text}.lowerAscii()", f"{text}.upperAscii()"))


# Their cost depends on the sizes of results, so no answer is certain here.
UNKNOWN = (
    "[1, 2].all(x, x > 0)",
    '["gpu", device.driver].join(".").contains("gpu")',
    '[device.driver, device.attributes["a.com"].s].exists(x, x == "a")',
    '"%s-%d".format([device.driver, 3]) == "x"',
    '(device.driver + "-x").contains("gpu")',
    'device.driver.replace("a", "b") == "x"',
)


def list_selectors() -> list[str]:
    """Return selectors around the limits of Kubernetes, then random ones."""
    generator = SelectorGenerator(37)
    half = "a" * 5000
    return [
        f'"{half}".matches("{half}")',
        f'"{half}".contains("{half}")',
        "1 + 1",
        "true" + " && true" * 1500,
        *UNKNOWN,
        *(generator.generate(1 + number % 4) for number in range(RANDOM_SELECTORS)),
    ]


def test_running_server_accepts_the_same_selectors(api_server: ApiPrograms) -> None:
    """A selector that is certain here is accepted there."""
    rejected = []
    accepted_count = 0
    for selector in list_selectors():
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "x"},
            "spec": {"selectors": [{"cel": {"expression": selector}}]},
        }
        if find_selector_problem(selector) is None:
            accepted_count += 1
            message = api_server.try_creation(DEVICE_CLASSES, body)
            if message:
                rejected.append((selector, message[-120:]))
    assert rejected == []
    assert accepted_count > RANDOM_SELECTORS


def test_selector_of_unknown_cost_is_uncertain() -> None:
    for selector in UNKNOWN:
        problem = find_selector_problem(selector)
        assert problem is not None
        assert not problem.is_invalid
        assert "whether Kubernetes accepts the cost of" in problem.text
