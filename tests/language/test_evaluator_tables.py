"""Tests of every entry of tables/.

An entry is an expression, the values of its names, and its expected result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.json_data.plain_data import convert_to_plain
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.function import Functions
from nexusform.language.parser import parse_expression, parse_template
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.language.type_conversion import convert_value
from nexusform.language.type_expressions import parse_type
from nexusform.schemas.value_types import DYNAMIC, ObjectType, PrimitiveType, TupleType, Type
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    SENSITIVE,
    UNKNOWN,
    Value,
    build_unknown,
    collect_marks,
    remove_all_marks,
)
from tests.language.function_families import list_function_families

_TABLES = Path(__file__).parent / "tables"
_LET = re.compile(r"let (\w+)(?:: (.*?))? := (.*?)( sensitive)?\Z", re.DOTALL)
_GIVES = re.compile(r"gives (.*?) := (.*?)( sensitive)?\Z", re.DOTALL)


_FUNCTIONS: Functions = {f.name: f for _, family in list_function_families() for f in family}


class TableScope(Struct):
    """Scope of names with values."""

    variables: Mapping[str, Value]
    functions: Functions = field(default_factory=lambda: _FUNCTIONS)

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        found = self.variables.get(traversal.root.name)
        if found is not None:
            return found, 0, []
        return (
            DYNAMIC_UNKNOWN,
            len(traversal.steps),
            [build_error("invalid-reference", "", traversal.span)],
        )


def _parse_entry(text: str, *, template: bool = False) -> tuple[Any, list[Diagnostic]]:
    if text.startswith('"') and (template or "\\n" in text):
        text = json.loads(text)
    return (parse_template if template else parse_expression)(SourceFile("table", text))


def _evaluate_constant(text: str) -> Value:
    expression, problems = parse_expression(SourceFile("table", text))
    assert expression is not None, problems
    value, problems = evaluate_expression(expression, TableScope({}))
    assert not problems
    return value


def _parse_type(text: str | None) -> Type:
    if text is None:
        return DYNAMIC
    # Tables may quote attribute names; types in configurations may not.
    names: dict[str, str] = {}

    def remove_quotes(match: re.Match[str]) -> str:
        return f"{names.setdefault(match[1], f'quoted{len(names)}')} ="

    expression, problems = parse_expression(
        SourceFile("table", _QUOTED_NAME.sub(remove_quotes, text))
    )
    assert expression is not None, problems
    found, problems = parse_type(expression)
    assert found is not None, problems
    return _rename_attributes(found, {bare_name: quoted for quoted, bare_name in names.items()})


_QUOTED_NAME = re.compile(r'"([^"]*)"\s*=')


def _rename_attributes(of: Type, names: Mapping[str, str]) -> Type:
    if isinstance(of, PrimitiveType):
        return of
    if isinstance(of, ObjectType):
        return ObjectType.create(
            {names.get(n, n): _rename_attributes(t, names) for n, t in of.attributes},
            [names.get(n, n) for n in of.optional],
        )
    if isinstance(of, TupleType):
        return TupleType(tuple(_rename_attributes(t, names) for t in of.elements))
    return type(of)(_rename_attributes(of.element, names))


def _round_fractions(value: Value) -> Any:
    # Plain data with fractions as the nearest float: tables of other projects use this form.
    def round_plain(plain: Any) -> Any:
        if isinstance(plain, dict):
            return {name: round_plain(part) for name, part in plain.items()}
        if isinstance(plain, list):
            return [round_plain(part) for part in plain]
        return float(plain) if isinstance(plain, Fraction) else plain

    return round_plain(convert_to_plain(remove_all_marks(value)[0])[0])


def _list_entries() -> Iterator[tuple[str, list[str]]]:
    """Yield each entry by its title: its table, position and expression."""
    for path in sorted(_TABLES.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for number, block in enumerate(text.split("\n\n")):
            lines = [line for line in block.split("\n") if line and not line.startswith("#")]
            if lines:
                shown = next(line for line in lines if not line.startswith("let "))
                yield f"{path.stem}-{number}: {shown[:60]}", lines


_ENTRIES = list(_list_entries())


# A test per entry would take longer than its evaluation.
@pytest.mark.parametrize(
    "first", range(0, len(_ENTRIES), 200), ids=lambda first: _ENTRIES[first][0]
)
def test_entries_have_their_expected_results(first: int) -> None:
    failures = []
    for title, lines in _ENTRIES[first : first + 200]:
        try:
            check_entry(lines)
        except AssertionError as error:
            failures.append(f"{title}: {error}")
    assert not failures, "\n".join(failures)


def check_entry(lines: list[str]) -> None:
    variables: dict[str, Value] = {}
    for line in lines[:-2]:
        match = _LET.match(line)
        assert match is not None, line
        kind = _parse_type(match[2])
        value = (
            build_unknown(kind)
            if match[3] == "unknown"
            else convert_value(_evaluate_constant(match[3]), kind)
        )
        variables[match[1]] = value.add_marks(SENSITIVE) if match[4] else value
    mode, _, source = lines[-2].partition(" ")
    expression, problems = _parse_entry(source, template=mode == "template")
    result = DYNAMIC_UNKNOWN
    if expression is not None:
        result, more = evaluate_expression(expression, TableScope(variables))
        problems = [*problems, *more]
    if lines[-1] == "error":
        assert has_errors(problems)
        return
    assert [p.summary + ": " + p.detail for p in problems] == []
    match = _GIVES.match(lines[-1])
    assert match is not None
    kind = _parse_type(match[1])
    assert result.type == kind
    assert bool(match[3]) == ("sensitive" in collect_marks(result))
    if match[2] == "unknown":
        assert result.raw is UNKNOWN
    else:
        assert _round_fractions(result) == _round_fractions(
            convert_value(_evaluate_constant(match[2]), kind)
        )
