"""Expressions of ARM templates."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.azure.importers.arm_expressions import Missing, evaluated


class Names:
    """A scope with two parameters and a variable."""

    def parameter(self, name: str) -> Any:
        return {"count": 3, "names": ["a", "b"]}.get(name, Missing(f"no {name}"))

    def variable(self, name: str) -> Any:
        return {"of": {"Size": 2}}.get(name, Missing(f"no {name}"))

    def copy_index(self, loop: str) -> Any:
        return Missing(f"no loop{loop}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("[[no expression]", "[no expression]"),
        ("[parameters('count')]", 3),
        ("[concat('it''s ', string(parameters('count')))]", "it's 3"),
        ("[format('{0}-{1:N0}{{}}', 'a', 2)]", "a-2{}"),
        ("[variables('of').size]", 2),
        ("[variables('of')['Size']]", 2),
        ("[parameters('names')[1]]", "b"),
        ("[if(greater(parameters('count'), 2), 'big', parameters('none'))]", "big"),
        ("[and(false(), parameters('none'))]", False),
        ("[union(createArray(1, 2), createArray(2, 3))]", [1, 2, 3]),
        ("[resourceId('A.B/cs/ps', 'c', 'p')]", "/subscriptions/-/resourceGroups/-/providers/A.B/cs/c/ps/p"),
        ("[json('{\"a\": 1}').a]", 1),
        ("[max(createArray(1, 4))]", 4),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert evaluated(text, Names()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[parameters('none')]", "no none"),
        ("[concat('a', parameters('none'))]", "no none"),
        ("[reference('x').id]", "reference() is known to Azure alone"),
        ("[add(1, 'a')]", "add() cannot be carried out with these arguments"),
        ("[concat('a']", "[concat('a'] cannot be read"),
        ("[variables('of').none]", 'there is no property "none"'),
        ("[copyIndex()]", "no loop"),
        (f"[{'not(' * 500}]", f"[{'not(' * 500}] cannot be read"),
    ],
)
def test_what_cannot_be_told_says_why(text: str, why: str) -> None:
    assert evaluated(text, Names()) == Missing(why)


def test_loops_of_properties() -> None:
    loop = {"name": "pools", "count": 2, "input": {"name": "[format('p{0}', copyIndex('pools', 1))]"}}
    assert evaluated({"copy": [loop], "a": 1}, Names()) == {"a": 1, "pools": [{"name": "p1"}, {"name": "p2"}]}
    assert isinstance(evaluated({"copy": [{**loop, "count": 10**9}]}, Names())["pools"], Missing)
