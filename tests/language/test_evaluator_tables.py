"""Every entry of tables/: an expression, what its names stand for, and what it must give."""

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
from nexusform.language.functions.registry import list_function_families
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

_TABLES = Path(__file__).parent / "tables"
_LET = re.compile(r"let (\w+)(?:: (.*?))? := (.*?)( sensitive)?\Z", re.DOTALL)
_GIVES = re.compile(r"gives (.*?) := (.*?)( sensitive)?\Z", re.DOTALL)


_FUNCTIONS: Functions = {f.name: f for _, family in list_function_families() for f in family}


class TableScope(Struct):
    """Names with values."""

    variables: Mapping[str, Value]
    functions: Functions = field(default_factory=lambda: _FUNCTIONS)

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        found = self.variables.get(traversal.root.name)
        if found is not None:
            return found, 0, []
        return DYNAMIC_UNKNOWN, len(traversal.steps), [build_error("invalid-reference", "", traversal.span)]


def _parsed(text: str, *, template: bool = False) -> tuple[Any, list[Diagnostic]]:
    if text.startswith('"') and (template or "\\n" in text):
        text = json.loads(text)
    return (parse_template if template else parse_expression)(SourceFile("table", text))


def _constant(text: str) -> Value:
    expression, problems = parse_expression(SourceFile("table", text))
    assert expression is not None, problems
    value, problems = evaluate_expression(expression, TableScope({}))
    assert not problems
    return value


def _type(text: str | None) -> Type:
    if text is None:
        return DYNAMIC
    # Tables name attributes in quotes, too, which types of configurations must not.
    names: dict[str, str] = {}

    def bare(match: re.Match[str]) -> str:
        return f"{names.setdefault(match[1], f'quoted{len(names)}')} ="

    expression, problems = parse_expression(SourceFile("table", _QUOTED_NAME.sub(bare, text)))
    assert expression is not None, problems
    found, problems = parse_type(expression)
    assert found is not None, problems
    return _renamed(found, {bare_name: quoted for quoted, bare_name in names.items()})


_QUOTED_NAME = re.compile(r'"([^"]*)"\s*=')


def _renamed(of: Type, names: Mapping[str, str]) -> Type:
    if isinstance(of, PrimitiveType):
        return of
    if isinstance(of, ObjectType):
        return ObjectType.create({names.get(n, n): _renamed(t, names) for n, t in of.attributes})
    if isinstance(of, TupleType):
        return TupleType(tuple(_renamed(t, names) for t in of.elements))
    return type(of)(_renamed(of.element, names))


def _nearly(value: Value) -> Any:
    # Plain data with fractions as the nearest float: some tables were written by others that way.
    def rounded(plain: Any) -> Any:
        if isinstance(plain, dict):
            return {name: rounded(part) for name, part in plain.items()}
        if isinstance(plain, list):
            return [rounded(part) for part in plain]
        return float(plain) if isinstance(plain, Fraction) else plain

    return rounded(convert_to_plain(remove_all_marks(value)[0])[0])


def _entries() -> Iterator[Any]:
    for path in sorted(_TABLES.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for number, block in enumerate(text.split("\n\n")):
            lines = [line for line in block.split("\n") if line and not line.startswith("#")]
            if lines:
                shown = next(line for line in lines if not line.startswith("let "))
                yield pytest.param(lines, id=f"{path.stem}-{number}: {shown[:60]}")


@pytest.mark.parametrize("lines", list(_entries()))
def test_an_entry_gives_what_the_table_says(lines: list[str]) -> None:
    variables: dict[str, Value] = {}
    for line in lines[:-2]:
        match = _LET.match(line)
        assert match is not None, line
        kind = _type(match[2])
        value = build_unknown(kind) if match[3] == "unknown" else convert_value(_constant(match[3]), kind)
        variables[match[1]] = value.add_marks(SENSITIVE) if match[4] else value
    mode, _, source = lines[-2].partition(" ")
    expression, problems = _parsed(source, template=mode == "template")
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
    kind = _type(match[1])
    assert result.type == kind
    assert bool(match[3]) == ("sensitive" in collect_marks(result))
    if match[2] == "unknown":
        assert result.raw is UNKNOWN
    else:
        assert _nearly(result) == _nearly(convert_value(_constant(match[2]), kind))
