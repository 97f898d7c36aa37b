"""CEL selectors of devices on a running API server: accepted or rejected as predicted."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("cel_expr_python")
from nexusform.domains.pods.scheduling.cel_device_selectors import find_selector_problem
from tests.domains.hub.api_programs import ApiPrograms

DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
TEXTS = ("device.driver", '"abc"', '"a.b.c"', "string(1)", 'device.attributes["a.com"].s')
RANDOM_SELECTORS = 150


class SelectorGenerator:
    """Random selectors of texts, lists and loops."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._names = 0

    def generate(self, depth: int, texts: tuple[str, ...] = TEXTS) -> str:
        """Return a condition; `texts` are the operands of its parts."""
        if depth <= 0:
            return self._draw.choice(("true", "1 > 0", 'device.driver == "x"'))
        left, right = (self._generate_text(depth - 1, texts) for _ in range(2))
        first, second = (self.generate(depth - 1, texts) for _ in range(2))
        values = self._generate_list(depth - 1, texts)
        loop = self._draw.choice(("all", "exists", "exists_one"))
        name = self._name_variable()
        body = self.generate(depth - 1, (*texts, name))
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
                f"{left} in {values}",
                f"size({left}) > 1",
                f"size({values}) > 1",
                f"{values}.{loop}({name}, {body})",
                f'device.attributes["a.com"].{loop}({name}, {body})',
            )
        )

    def _name_variable(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _generate_text(self, depth: int, texts: tuple[str, ...]) -> str:
        if depth <= 0:
            return self._draw.choice(texts)
        first, second, third = (self._generate_text(depth - 1, texts) for _ in range(3))
        name = self._name_variable()
        bound = self._generate_text(depth - 1, (*texts, name))
        return self._draw.choice(
            (
                f"({first} + {second})",
                f"{first}.lowerAscii()",
                f"{first}.trim().substring(1)",
                f"{first}.replace({second}, {third})",
                f"({self.generate(depth - 1, texts)} ? {first} : {second})",
                f"cel.bind({name}, {first}, {bound})",
                f"{self._generate_list(depth - 1, texts)}.join({first})",
            )
        )

    def _generate_list(self, depth: int, texts: tuple[str, ...]) -> str:
        if depth <= 0:
            return self._draw.choice(('["a"]', '["b", "c"]', 'device.driver.split(".")'))
        first, second = (self._generate_list(depth - 1, texts) for _ in range(2))
        name = self._name_variable()
        texts = (*texts, name)
        return self._draw.choice(
            (
                f"[{self._generate_text(depth - 1, texts[:-1])}]",
                f"({first} + {second})",
                f"{first}.map({name}, {self._generate_text(depth - 1, texts)})",
                f"{first}.filter({name}, {self.generate(depth - 1, texts)})",
            )
        )


def list_selectors() -> list[str]:
    """Return selectors around the limits of Kubernetes, then random ones."""
    generator = SelectorGenerator(37)
    loops = []
    for size in (5, 10, 15, 20, 22, 25, 30):
        for depth in (2, 3, 4):
            loop = "x0 + 1 > 0"
            for level in range(depth):
                loop = f"{list(range(size))}.all(x{level}, {loop})"
            loops.append(loop)
    return [
        *loops,
        '["gpu", device.driver].join(".").contains("gpu")',
        '["a"].join(device.driver).size() > 0',
        '[device.driver, device.attributes["a.com"].s].exists(x, x == "a")',
        '"%s-%d".format([device.driver, 3]) == "x"',
        'device.driver.reverse() == "x"',
        "1 + 1",
        "true" + " && true" * 1500,
        *(generator.generate(1 + number % 4) for number in range(RANDOM_SELECTORS)),
    ]


def test_running_server_accepts_the_same_selectors(api_server: ApiPrograms) -> None:
    """A selector that is certain here is accepted there, and one too costly here is so there."""
    differences = []
    accepted_count = costly_count = 0
    for selector in list_selectors():
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "x"},
            "spec": {"selectors": [{"cel": {"expression": selector}}]},
        }
        message = api_server.try_creation(DEVICE_CLASSES, body)
        problem = find_selector_problem(selector)
        is_costly = problem is not None and "estimated cost" in problem.text
        accepted_count += not message and problem is None
        costly_count += is_costly
        if (problem is None and message) or (is_costly and "cost limit" not in message):
            differences.append((selector, message[-120:], problem))
    assert differences == []
    assert accepted_count > 60
    assert costly_count > 20
