"""tables/agreed*.txt against `terraform console`, where it is installed."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.json_encoding import render_json
from nexusform.language.functions.registry import list_function_families
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.rendering.answers.console_text import render_type, render_value
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_tuple

_TABLES = sorted((Path(__file__).parent / "tables").glob("agreed*.txt"))
_WRONG = "an error"


class _Constants:
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        raise AssertionError(traversal)


def _expressions() -> list[str]:
    lines = [line for table in _TABLES for line in table.read_text(encoding="utf-8").split("\n")]
    found = [line.removeprefix("eval ") for line in lines if line.startswith("eval ")]
    # A whole call that is an error cannot be asked about together with others.
    return [e for e in found if "sensitive" not in e]


def _ours(text: str) -> str:
    expression, _ = parse_expression(SourceFile("table", text))
    assert expression is not None
    value, problems = evaluate_expression(expression, _Constants())
    return _WRONG if has_errors(problems) else render_json(value)


def _batches(expressions: list[str]) -> list[list[str]]:
    # The console takes lines of at most 64 KiB.
    found: list[list[str]] = [[]]
    length = 0
    for each in expressions:
        length += len(each.encode()) + 40
        if length > 60_000:
            found.append([])
            length = len(each.encode())
        found[-1].append(each)
    return found


def _theirs(expressions: list[str], directory: Path) -> list[str]:
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


# --- what is known early and changes -------------------------------------------------------------


_PAGE = Path(__file__).parents[2] / "docs" / "language-differences.md"


class _One(_Constants):
    # A scope in which every name has one value.
    def __init__(self, value: Value) -> None:
        self.value = value

    def lookup(self, _traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return self.value, 0, []


def _listed() -> list[tuple[str, str, str, str]]:
    """The rows of the page: expression, value and type while x is unknown, x, value and type then."""
    rows = [line.strip("| ").split(" | ") for line in _PAGE.read_text().splitlines() if " of type `" in line]
    return [(row[0].strip("`"), row[1], row[2].strip("`"), row[3]) for row in rows]


def _value_of(text: str, scope: _Constants) -> Value:
    expression, _ = parse_expression(SourceFile("row", text))
    assert expression is not None
    value, problems = evaluate_expression(expression, scope)
    assert problems == []
    return value


def _tidy(text: str) -> str:
    return re.sub(r"(?<=[\[({]) | (?=[\])}])|,(?= ?[\])}])", "", " ".join(text.split()))


def _said(value: Value) -> str:
    return f"`{_tidy(render_value(value))}` of type `{_tidy(render_type(value.type))}`"


@pytest.mark.parametrize("row", _listed(), ids=lambda row: str(row[0]))
def test_the_page_says_what_is_known_early_and_changes(row: tuple[str, str, str, str]) -> None:
    text, early, known, late = row
    assert _said(_value_of(text, _One(DYNAMIC_UNKNOWN))) == early
    assert _said(_value_of(text, _One(_value_of(known, _Constants())))) == late


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_terraform_changes_its_mind_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrc").write_text("")
    (tmp_path / "main.tf").write_text('resource "terraform_data" "x" {\n  input = 1\n}\n')
    texts: list[str] = []
    values: list[Value] = []
    for text, _, known, _ in _listed():
        for x, scope in (
            ("terraform_data.x.output", _One(DYNAMIC_UNKNOWN)),
            (known, _One(_value_of(known, _Constants()))),
        ):
            texts.append(re.sub(r"\bx\b", lambda _, x=x: x, text))
            values.append(_value_of(text, scope))
    whole, ours = f"[{', '.join(texts)}]", build_tuple(values)
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
        answers.append(_tidy(done.stdout))
    assert answers[1:] == [_tidy(render_value(ours)), _tidy(render_type(ours.type))]


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_terraform_console_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrc").write_text("")
    differing = []
    for batch in _batches(_expressions()):
        theirs = _theirs(batch, tmp_path)
        both = zip(batch, map(_ours, batch), theirs, strict=True)
        differing += [(text, mine, other) for text, mine, other in both if mine != other]
    assert differing == []
