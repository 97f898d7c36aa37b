"""What import-linter cannot see: builtins that touch the world, sizes of rooms, names of rooms."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path

from msgspec import Struct

from nexusform.domain_table import find_domains

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
    return parts[2] in find_domains()[parts[1]].io_layer if _in_domain(path) else parts[0] in RIM


def _in_domain(path: Path) -> bool:
    return _name(path).startswith("domains/") and _name(path).count("/") > 1


def _room(path: Path) -> str:
    """The room of a file, in the engine or in its domain: `rendering`."""
    return _name(path).split("/")[2 if _in_domain(path) else 0]


WORLDLY = {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


@cache
def _text(path: Path) -> str:
    return path.read_text()


class _Source(Struct, frozen=True):
    """What the rules ask of a file. `calls`: names and lines; `functions`: names and lengths."""

    calls: list[tuple[str, int]]
    functions: list[tuple[str, int]]
    imports: list[tuple[str, str]]
    docstring: str


@cache
def _source(path: Path) -> _Source:
    """Each file is parsed and walked once for all rules; its syntax tree is not kept."""
    tree = ast.parse(_text(path))
    source = _Source([], [], [], ast.get_docstring(tree) or "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                source.calls.append((node.func.id, node.lineno))
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                source.calls.append((f"{node.func.value.id}.{node.func.attr}", node.lineno))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            source.functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
        elif isinstance(node, ast.ImportFrom):
            source.imports.extend((node.module or "", alias.name) for alias in node.names)
    return source


def test_only_the_rim_touches_the_world() -> None:
    inside = [path for path in FILES if not _in_rim(path)]
    assert [(_name(path), *c) for path in inside for c in _source(path).calls if c[0] in WORLDLY] == []


def test_only_the_command_line_prints() -> None:
    others = [path for path in FILES if _room(path) != "cli"]
    assert [(_name(path), line) for path in others for name, line in _source(path).calls if name == "print"] == []


def test_rooms_are_small() -> None:
    assert [_name(path) for path in FILES if _text(path).count("\n") > MOST_LINES] == []
    functions = [(_name(path), *each) for path in FILES for each in _source(path).functions]
    assert [each for each in functions if each[2] > MOST_FUNCTION_LINES] == []


def test_rooms_bear_names_of_the_domain() -> None:
    parts = {path: {part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts} for path in FILES}
    assert [_name(path) for path in FILES if parts[path] & FORBIDDEN_NAMES] == []
    silent = [_name(path) for path in FILES if not _source(path).docstring]
    assert silent == [], "every file says what it is"


def test_rendering_asks_no_what_if_question() -> None:
    """It lays out answers: of what-ifs it knows their records, and none of their functions."""
    room = "nexusform.domains.whatif.questions."
    asked = [
        (_name(path), module, name)
        for path in FILES
        if _room(path) == "rendering"
        for module, name in _source(path).imports
        if module.startswith(room)
    ]
    assert [each for each in asked if isfunction(getattr(import_module(each[1]), each[2]))] == []


def test_no_possessive_group_fails_halfway() -> None:
    """Before 3.11.5 (Debian 12 has 3.11.2) Python went on behind what such a group's last round had read.

    An escape fails where it began; anything longer ends with an alternative that fails at once, and so goes
    back.
    """
    endings = [(_name(path), each) for path in FILES for each in re.findall(r"(\S*)\)[*+?]\+", _text(path))]
    assert [each for each in endings if not each[1].endswith(("|(?!)", "|\\\\.", "|''"))] == []
