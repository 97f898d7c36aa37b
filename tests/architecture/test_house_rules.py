"""Tests of code rules outside the scope of import-linter.

They cover builtins with I/O, sizes and names of modules.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path

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
# A file without such a text has no such call. Parsing takes much longer than this search.
_WORLDLY = re.compile("|".join(rf"\b{re.escape(name)}\(" for name in WORLDLY))


@cache
def _read_text(path: Path) -> str:
    return path.read_text()


@cache
def _list_worldly_calls(path: Path) -> tuple[tuple[str, int], ...]:
    """Return the calls of builtins with I/O in a file, as names and lines."""
    if not _WORLDLY.search(_read_text(path)):
        return ()
    calls = [node for node in ast.walk(ast.parse(_read_text(path))) if isinstance(node, ast.Call)]
    names = ((ast.unparse(call.func), call.lineno) for call in calls)
    return tuple((name, line) for name, line in names if name in WORLDLY)


def _list_imports(path: Path, package: str) -> list[tuple[str, str]]:
    """Return the modules of a package that a file imports from, and the names."""
    if package not in _read_text(path):
        return []
    nodes = ast.walk(ast.parse(_read_text(path)))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return [
        (node.module, alias.name)
        for node in imports
        if node.module and node.module.startswith(package)
        for alias in node.names
    ]


def test_only_io_layer_calls_io_builtins() -> None:
    inside = [path for path in FILES if not _is_in_io_layer(path)]
    assert [
        (_get_relative_name(path), *call) for path in inside for call in _list_worldly_calls(path)
    ] == []


def test_only_cli_prints() -> None:
    others = [path for path in FILES if _get_package(path) != "cli"]
    assert [
        (_get_relative_name(path), line)
        for path in others
        for name, line in _list_worldly_calls(path)
        if name == "print"
    ] == []


def test_modules_have_domain_names_and_docstrings() -> None:
    parts = {
        path: {part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts}
        for path in FILES
    }
    assert [_get_relative_name(path) for path in FILES if parts[path] & FORBIDDEN_NAMES] == []
    silent = [_get_relative_name(path) for path in FILES if not _read_text(path).startswith('"""')]
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
        for module, name in _list_imports(path, room)
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
        if re.search(r"\)[*+?]\+", _read_text(path))
        for each in re.findall(r"(\S*)\)[*+?]\+", _read_text(path))
    ]
    assert [each for each in endings if not each[1].endswith(("|(?!)", "|\\\\.", "|''"))] == []


IMPORTED = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)


def test_product_uses_requested_packages() -> None:
    imports = {name for path in FILES for name in re.findall(IMPORTED, _read_text(path))}
    assert {"hcl2", "click", "deepdiff", "networkx", "yaml"} - imports == set()
