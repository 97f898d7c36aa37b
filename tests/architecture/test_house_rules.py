"""What import-linter cannot see: builtins that touch the world, sizes of rooms, names of rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import pytest

from nexusform.domain_table import domains

PACKAGE = Path(__file__).parents[2] / "nexusform"
FILES = sorted(PACKAGE.rglob("*.py"))
RIM = ("providers", "backends", "workflow", "cli")
FORBIDDEN_NAMES = {"core", "common", "base", "helpers", "utils", "util", "misc"}
MOST_LINES = 600
MOST_FUNCTION_LINES = 60


def _name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def _in_rim(path: Path) -> bool:
    name = _name(path)
    if name == "configuration/loader.py":
        return True
    parts = name.removesuffix(".py").split("/")
    return parts[2] in domains()[parts[1]].rim if _in_domain(path) else parts[0] in RIM


def _in_domain(path: Path) -> bool:
    return _name(path).startswith("domains/") and _name(path).count("/") > 1


def _room(path: Path) -> str:
    """The room of a file, in the engine or in its domain: `rendering`."""
    return _name(path).split("/")[2 if _in_domain(path) else 0]


def _calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id, node.lineno
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                yield f"{node.func.value.id}.{node.func.attr}", node.lineno


WORLDLY = {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_only_the_rim_touches_the_world(path: Path) -> None:
    found = [] if _in_rim(path) else [c for c in _calls(ast.parse(path.read_text())) if c[0] in WORLDLY]
    assert not found


@pytest.mark.parametrize("path", [f for f in FILES if _room(f) != "cli"], ids=_name)
def test_only_the_command_line_prints(path: Path) -> None:
    assert "print" not in {name for name, _ in _calls(ast.parse(path.read_text()))}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_rooms_are_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= MOST_FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_rooms_bear_names_of_the_domain(path: Path) -> None:
    parts = {part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts}
    assert not parts & FORBIDDEN_NAMES
    assert ast.get_docstring(ast.parse(path.read_text())), "every file says what it is"


def _names_from(room: str, path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"nexusform.{room}."):
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", [f for f in FILES if _room(f) == "rendering"], ids=_name)
def test_rendering_asks_no_what_if_question(path: Path) -> None:
    """It lays out answers: of what-ifs it knows their records, and none of their functions."""
    for module, name in _names_from("domains.whatif.questions", path):
        assert not isfunction(getattr(import_module(module), name)), f"{module}.{name} computes"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_possessive_group_fails_halfway(path: Path) -> None:
    """Before 3.11.5 (Debian 12 has 3.11.2) Python went on behind what such a group's last round had read.

    An escape fails where it began; anything longer ends with an alternative that fails at once, and so goes
    back.
    """
    endings = re.findall(r"(\S*)\)[*+?]\+", path.read_text())
    assert [each for each in endings if not each.endswith(("|(?!)", "|\\\\.", "|''"))] == []
