"""Tests that the errors named in docstrings exist."""

from __future__ import annotations

import ast
import builtins
import http.client
import re
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
_RAISES = re.compile(r"\bRaises? (?:an? |the )?((?:[A-Z]\w+(?:, | or | and )?)+)")


def test_errors_named_in_docstrings_exist() -> None:
    known = {*vars(builtins), *vars(click), *vars(http.client)}
    named: list[tuple[str, str]] = []
    for path in sorted((ROOT / "nexusform").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        known.update(re.findall(r"^ *class (\w+)", source, re.MULTILINE))
        if not re.search(r"\bRaises?\b", source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                known.update(alias.asname or alias.name for alias in node.names)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = " ".join((ast.get_docstring(node) or "").split())
                errors = [
                    error
                    for raised in _RAISES.findall(text)
                    for error in re.findall(r"[A-Z]\w+", raised)
                ]
                named += [(f"{path.relative_to(ROOT)}: {node.name}", error) for error in errors]
    assert [f"{place} names {error}" for place, error in named if error not in known] == []
