"""The contract "doors" of import-linter: of a room others use what its `__init__` lists, and nothing else.

    DOOR = {
        "planner": "make_plan",
        "request": "Adjustment Imported PlanRequest",
    }

A room is a folder below nexusform, or below nexusform/domains; what lies in it may use all of it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "nexusform"
_BESIDE = f"{ROOT}.domains"

# By folder and module, the names that are used, each with a module that uses it.
Uses: TypeAlias = dict[str, dict[str, dict[str, str]]]
Doors: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]


class DoorsContract(Contract):
    """`most` is how many names a door has at most."""

    most = fields.IntegerField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - what is called
        """Reads the files themselves: a graph of imports knows modules, and doors are made of names."""
        problems = door_problems(Path.cwd(), int(self.most))  # type: ignore[call-overload]
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each problem."""
        for problem in check.metadata["problems"]:
            output.print_error(problem, bold=False)


def door_problems(root: Path, most: int) -> list[str]:
    """What is used and not listed, listed and not used, and the doors that are too large."""
    files = _modules(root)
    folders = {name for name, path in files.items() if path.name == "__init__.py"}
    trees = {name: ast.parse(path.read_text()) for name, path in files.items()}
    doors = {folder: _door(trees[folder]) for folder in sorted(folders)}
    uses = _uses(trees, folders)
    problems = list(_unlisted(uses, doors))
    problems += _unused(uses, doors)
    for folder, door in doors.items():
        count = sum(map(len, door.values()))
        if count > most:
            problems.append(f"The door of {folder} has {count} names, and may have {most}.")
    return problems


def _unlisted(uses: Uses, doors: Doors) -> Iterator[str]:
    for folder, modules in sorted(uses.items()):
        for module, names in sorted(modules.items()):
            for name in sorted(names.keys() - doors[folder].get(module, frozenset())):
                yield (
                    f'{names[name]} uses {folder}.{module}.{name}: add it to DOOR["{module}"] in '
                    f"{folder.replace('.', '/')}/__init__.py, or find it a place below both."
                )


def _unused(uses: Uses, doors: Doors) -> Iterator[str]:
    for folder, door in doors.items():
        for module, names in door.items():
            for name in sorted(names - uses.get(folder, {}).get(module, {}).keys()):
                yield f'Nobody outside uses {folder}.{module}.{name}: take it out of DOOR["{module}"].'


def _modules(root: Path) -> dict[str, Path]:
    """The files of the package by module name."""
    files: dict[str, Path] = {}
    for path in sorted((root / ROOT).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = path
    return files


def _room(module: str) -> str:
    """The room that a module lies in."""
    parts = module.split(".")
    return ".".join(parts[:3] if module.startswith(f"{_BESIDE}.") else parts[:2])


def _door(tree: ast.Module) -> Mapping[str, frozenset[str]]:
    """The names that an `__init__` lists, by module."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "DOOR":
            listed: dict[str, Any] = ast.literal_eval(statement.value)
            return {module: frozenset(names.split()) for module, names in listed.items()}
    return {}


def _uses(trees: Mapping[str, ast.Module], folders: set[str]) -> Uses:
    """What modules use of other rooms; of single files below nexusform everybody uses everything."""
    uses: Uses = defaultdict(lambda: defaultdict(dict))
    for user, tree in trees.items():
        for module, name in _imported(tree, trees.keys()):
            folder, _, own_name = module.rpartition(".")
            if module in folders:
                folder, own_name = module, "__init__"
            if folder != ROOT and _room(module) != _room(user):
                uses[folder][own_name].setdefault(name, user)
    return uses


def _imported(tree: ast.Module, modules: Any) -> Iterator[tuple[str, str]]:
    """Module and name of everything of the package that a module uses."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(ROOT):
            continue
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in modules:
                for name in _attributes(tree, alias.asname or alias.name):
                    yield whole, name
            else:
                yield str(node.module), alias.name


def _attributes(tree: ast.Module, name: str) -> set[str]:
    """What is taken of a module that was imported whole."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }
