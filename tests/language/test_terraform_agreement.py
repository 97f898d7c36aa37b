"""tables/agreed*.txt against `terraform console`, where it is installed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nexusform.diagnostics import Diagnostic, has_errors
from nexusform.language.evaluator import evaluate
from nexusform.language.functions.json_text import json_text
from nexusform.language.functions.registry import described_families
from nexusform.language.parser import parse_expression
from nexusform.language.syntax import Traversal
from nexusform.source import SourceFile
from nexusform.values import Value

_TABLES = sorted((Path(__file__).parent / "tables").glob("agreed*.txt"))
_WRONG = "an error"


class _Constants:
    functions = {f.name: f for _, family in described_families() for f in family}  # noqa: RUF012 - never changed

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
    value, problems = evaluate(expression, _Constants())
    return _WRONG if has_errors(problems) else json_text(value)


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


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_terraform_console_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrc").write_text("")
    differing = []
    for batch in _batches(_expressions()):
        theirs = _theirs(batch, tmp_path)
        both = zip(batch, map(_ours, batch), theirs, strict=True)
        differing += [(text, mine, other) for text, mine, other in both if mine != other]
    assert differing == []
