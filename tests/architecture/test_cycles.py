"""Test of import cycles: no two modules import each other, late imports included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

PACKAGE = Path(__file__).parents[2] / "nexusform"


def _get_module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


STATEMENT = re.compile(r"^ *(from [\w.]+ import (?:\([^)]*\)|[^(\n]+)|import [\w.]+)", re.MULTILINE)
MODULES = {_get_module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _iterate_imported_modules(path: Path) -> Iterator[str]:
    statements = "\n".join(STATEMENT.findall(path.read_text(encoding="utf-8")))
    # parsing the whole file takes a hundred times as long.
    for node in ast.parse(statements).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (each if each in MODULES else node.module for each in submodules)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_modules_import_each_other() -> None:
    graph = nx.DiGraph()
    for name, path in MODULES.items():
        graph.add_edges_from(
            (name, imported) for imported in _iterate_imported_modules(path) if imported in MODULES
        )
    cycles = [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert cycles == []
