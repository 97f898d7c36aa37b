"""Tests of code rules outside the scope of import-linter.

Builtins with I/O, sizes and names of modules.
"""

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


def _get_relative_name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def _is_in_io_layer(path: Path) -> bool:
    name = _get_relative_name(path)
    if name == "configuration/loader.py":
        return True
    parts = name.removesuffix(".py").split("/")
    return parts[2] in find_domains()[parts[1]].io_layer if _is_in_domain(path) else parts[0] in RIM


def _is_in_domain(path: Path) -> bool:
    return (
        _get_relative_name(path).startswith("domains/") and _get_relative_name(path).count("/") > 1
    )


def _get_package(path: Path) -> str:
    """Return the package of a file, in the engine or in its domain: `rendering`."""
    return _get_relative_name(path).split("/")[2 if _is_in_domain(path) else 0]


WORLDLY = {
    "open",
    "print",
    "input",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
}


@cache
def _read_text(path: Path) -> str:
    return path.read_text()


class _SourceSummary(Struct, frozen=True):
    """Facts about a file for the rules; `calls` are names and lines."""

    calls: list[tuple[str, int]]
    imports: list[tuple[str, str]]
    docstring: str


@cache
def _read_source(path: Path) -> _SourceSummary:
    """Parse a file and walk it once for all rules; the syntax tree is not kept."""
    tree = ast.parse(_read_text(path))
    source = _SourceSummary([], [], ast.get_docstring(tree) or "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                source.calls.append((node.func.id, node.lineno))
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                source.calls.append((f"{node.func.value.id}.{node.func.attr}", node.lineno))
        elif isinstance(node, ast.ImportFrom):
            source.imports.extend((node.module or "", alias.name) for alias in node.names)
    return source


def test_only_io_layer_calls_io_builtins() -> None:
    inside = [path for path in FILES if not _is_in_io_layer(path)]
    assert [
        (_get_relative_name(path), *c)
        for path in inside
        for c in _read_source(path).calls
        if c[0] in WORLDLY
    ] == []


def test_only_cli_prints() -> None:
    others = [path for path in FILES if _get_package(path) != "cli"]
    assert [
        (_get_relative_name(path), line)
        for path in others
        for name, line in _read_source(path).calls
        if name == "print"
    ] == []


def test_modules_have_domain_names_and_docstrings() -> None:
    parts = {
        path: {part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts}
        for path in FILES
    }
    assert [_get_relative_name(path) for path in FILES if parts[path] & FORBIDDEN_NAMES] == []
    silent = [_get_relative_name(path) for path in FILES if not _read_source(path).docstring]
    assert silent == [], "every file says what it is"


def test_rendering_runs_no_what_if_questions() -> None:
    """Rendering uses records of what-if questions, and none of their functions.

    It only lays out answers.
    """
    room = "nexusform.domains.whatif.questions."
    asked = [
        (_get_relative_name(path), module, name)
        for path in FILES
        if _get_package(path) == "rendering"
        for module, name in _read_source(path).imports
        if module.startswith(room)
    ]
    assert [each for each in asked if isfunction(getattr(import_module(each[1]), each[2]))] == []


def test_possessive_groups_end_with_failing_alternative() -> None:
    """Before 3.11.5, Python continued after the text read by the last repetition of such a group.

    Debian 12 has 3.11.2.

    A failed escape fails at its start; anything longer ends with an alternative that fails at once,
    and so backtracks.
    """
    endings = [
        (_get_relative_name(path), each)
        for path in FILES
        for each in re.findall(r"(\S*)\)[*+?]\+", _read_text(path))
    ]
    assert [each for each in endings if not each[1].endswith(("|(?!)", "|\\\\.", "|''"))] == []


IMPORTED = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)


def test_product_uses_requested_packages() -> None:
    imports = {name for path in FILES for name in re.findall(IMPORTED, _read_text(path))}
    assert {"hcl2", "click", "deepdiff", "networkx", "yaml"} - imports == set()
