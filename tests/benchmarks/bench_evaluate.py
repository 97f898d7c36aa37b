"""Benchmark of the evaluation of one expression: `python tests/benchmarks/bench_evaluate.py`."""

from __future__ import annotations

import timeit

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.json_data.plain_data import convert_to_plain, convert_to_value
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType, ObjectType
from nexusform.values.typed_value import Value, build_number, build_object, build_string
from tests.language.function_families import list_function_families

EXPRESSIONS = (
    "12",
    "var.name",
    '"cluster-${count.index}"',
    "count.index + 1",
    "var.site.racks[0].name",
    'format("%03d", count.index)',
    'count.index % 2 == 0 ? "even" : "odd"',
    "{ name = var.name, zones = [1, 2, count.index] }",
    "[for i in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : i]",
    'cidrhost("10.0.0.0/8", count.index)',
)
ROUNDS = 20_000


class Scope:
    """Scope with `count` and `var`."""

    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def __init__(self) -> None:
        site = convert_to_value({"racks": [{"name": "r1"}]}, DYNAMIC)
        self.values = {
            "count": build_object({"index": build_number(7)}),
            "var": build_object({"name": build_string("web"), "site": site}),
        }

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return self.values[traversal.root.name], 0, []


def _measure_microseconds(work: object) -> float:
    return timeit.timeit(work, number=ROUNDS) / ROUNDS * 1e6  # type: ignore[arg-type]


def main() -> None:
    """Print a table of microseconds."""
    names = Scope()
    for text in EXPRESSIONS:
        expression, problems = parse_expression(SourceFile("bench", text))
        assert expression is not None, problems
        microseconds = _measure_microseconds(lambda e=expression: evaluate_expression(e, names))
        print(f"{microseconds:8.2f} us  {text}")
    kind = ObjectType.create(
        {"name": STRING, "count": NUMBER, "labels": MapType(STRING), "zones": ListType(STRING)}
    )
    plain = {"name": "a", "count": 3, "labels": {"k": "v"}, "zones": ["1", "2"]}
    value = convert_to_value(plain, kind)
    print(
        f"{_measure_microseconds(lambda: convert_to_value(plain, kind)):8.2f} us  from_plain "
        "of a pool"
    )
    print(f"{_measure_microseconds(lambda: convert_to_plain(value)):8.2f} us  to_plain of a pool")


if __name__ == "__main__":
    main()
