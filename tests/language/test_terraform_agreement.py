"""Tests of tables/agreed*.txt against `terraform console`, if it is installed."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.json_encoding import render_json
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.rendering.answers.console_text import render_type, render_value
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_tuple
from tests.language.function_families import list_function_families
from tests.programs import find_program

_TABLES = sorted((Path(__file__).parent / "tables").glob("agreed*.txt"))
_WRONG = "an error"


class _ConstantScope:
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        raise AssertionError(traversal)


def _list_expressions() -> list[str]:
    lines = [line for table in _TABLES for line in table.read_text(encoding="utf-8").split("\n")]
    found = [line.removeprefix("eval ") for line in lines if line.startswith("eval ")]
    # A call with an error cannot be evaluated together with others.
    return [e for e in found if "sensitive" not in e]


def _evaluate_with_nexusform(text: str) -> str:
    expression, _ = parse_expression(SourceFile("table", text))
    assert expression is not None
    value, problems = evaluate_expression(expression, _ConstantScope())
    return _WRONG if has_errors(problems) else render_json(value)


def _split_into_batches(expressions: list[str]) -> list[list[str]]:
    # The console accepts lines of at most 64 KiB.
    found: list[list[str]] = [[]]
    length = 0
    for each in expressions:
        length += len(each.encode()) + 40
        if length > 60_000:
            found.append([])
            length = len(each.encode())
        found[-1].append(each)
    return found


def _evaluate_with_terraform(expressions: list[str], directory: Path) -> list[str]:
    asked = ", ".join(f'try(jsonencode({e}), "{_WRONG}")' for e in expressions)
    answer = subprocess.run(
        ["terraform", "console", "-no-color"],
        input=f"base64encode(jsonencode([{asked}]))\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=directory,
        env={**os.environ, "TF_CLI_CONFIG_FILE": str(directory / "empty.tfrc")},
    )
    if not answer.stdout.startswith('"'):
        pytest.skip(f"terraform cannot answer: {(answer.stdout + answer.stderr)[:400]}")
    found = json.loads(base64.b64decode(json.loads(answer.stdout)))
    assert isinstance(found, list)
    return found


# --- values known early and changed later ---------------------------------------------------------


_PAGE = Path(__file__).parents[2] / "docs" / "language-differences.md"
_MORE_ROWS = Path(__file__).parent / "tables" / "early_values.md"


class _SingleValueScope(_ConstantScope):
    # A scope with the same value for every name.
    def __init__(self, value: Value) -> None:
        self.value = value

    def lookup(self, _traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return self.value, 0, []


def _read_rows() -> list[tuple[str, str, str, str]]:
    """Return the rows of both tables.

    A row is an expression, value and type with unknown x, then x, value and type.
    """
    lines = [line for file in (_PAGE, _MORE_ROWS) for line in file.read_text().splitlines()]
    rows = [line.strip("| ").split(" | ") for line in lines if " of type `" in line]
    return [(row[0].strip("`"), row[1], row[2].strip("`"), row[3]) for row in rows]


def _evaluate_expression(text: str, scope: _ConstantScope) -> Value:
    expression, _ = parse_expression(SourceFile("row", text))
    assert expression is not None
    value, problems = evaluate_expression(expression, scope)
    assert problems == []
    return value


def _normalize_white_space(text: str) -> str:
    return re.sub(r"(?<=[\[({]) | (?=[\])}])|,(?= ?[\])}])", "", " ".join(text.split()))


def _render_value_and_type(value: Value) -> str:
    return (
        f"`{_normalize_white_space(render_value(value))}` of type "
        f"`{_normalize_white_space(render_type(value.type))}`"
    )


@pytest.mark.parametrize("row", _read_rows(), ids=lambda row: str(row[0]))
def test_tables_list_early_values_and_their_changes(row: tuple[str, str, str, str]) -> None:
    text, early, known, late = row
    assert (
        _render_value_and_type(_evaluate_expression(text, _SingleValueScope(DYNAMIC_UNKNOWN)))
        == early
    )
    assert (
        _render_value_and_type(
            _evaluate_expression(
                text, _SingleValueScope(_evaluate_expression(known, _ConstantScope()))
            )
        )
        == late
    )


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
def test_terraform_changes_early_values_in_same_way(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrc").write_text("")
    (tmp_path / "main.tf").write_text('resource "terraform_data" "x" {\n  input = 1\n}\n')
    texts: list[str] = []
    values: list[Value] = []
    for text, _, known, _ in _read_rows():
        for x, scope in (
            ("terraform_data.x.output", _SingleValueScope(DYNAMIC_UNKNOWN)),
            (known, _SingleValueScope(_evaluate_expression(known, _ConstantScope()))),
        ):
            texts.append(re.sub(r"\bx\b", lambda _, x=x: x, text))
            values.append(_evaluate_expression(text, scope))
    whole = f"[{', '.join(texts)}]"
    ours = build_tuple(values)
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc")}
    answers = []
    for arguments, given in (("init", ""), ("console", whole), ("console", f"type({whole})")):
        done = subprocess.run(
            ["terraform", arguments, "-no-color"],
            input=f"{given}\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        answers.append(_normalize_white_space(done.stdout))
    assert answers[1:] == [
        _normalize_white_space(render_value(ours)),
        _normalize_white_space(render_type(ours.type)),
    ]


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
def test_terraform_console_has_same_results(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrc").write_text("")
    differing = []
    for batch in _split_into_batches(_list_expressions()):
        theirs = _evaluate_with_terraform(batch, tmp_path)
        both = zip(batch, map(_evaluate_with_nexusform, batch), theirs, strict=True)
        differing += [(text, mine, other) for text, mine, other in both if mine != other]
    assert differing == []
