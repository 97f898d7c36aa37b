"""The import-linter contract "public_api": other packages use only the names listed in `__init__`.

    PUBLIC = {
        "planner": "make_plan",
        "request": "Adjustment Imported PlanRequest",
    }

A package is a folder below nexusform, or below nexusform/domains. Its own modules may use
all of it.
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

# names in use by folder and module, each with a module as an example
Uses: TypeAlias = dict[str, dict[str, dict[str, str]]]
PublicNames: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]


class PublicApiContract(Contract):
    """Limit the public names of a package to `maximum`."""

    maximum = fields.IntegerField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - what is called
        """Check the files, because the import graph holds modules and no names."""
        problems = find_api_problems(Path.cwd(), int(self.maximum))  # type: ignore[call-overload]
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each problem."""
        for problem in check.metadata["problems"]:
            output.print_error(problem, bold=False)


def find_api_problems(root: Path, maximum: int) -> list[str]:
    """Return names used but not listed, names listed but not used, and lists above the limit."""
    files = _find_modules(root)
    folders = {name for name, path in files.items() if path.name == "__init__.py"}
    trees = {name: ast.parse(path.read_text()) for name, path in files.items()}
    public_names = {folder: _read_public_names(trees[folder]) for folder in sorted(folders)}
    uses = _find_uses(trees, folders)
    problems = list(_find_unlisted_names(uses, public_names))
    problems += _find_unused_names(uses, public_names)
    for folder, listed in public_names.items():
        count = sum(map(len, listed.values()))
        if count > maximum:
            problems.append(
                f"The public API of {folder} has {count} names; at most {maximum} are allowed."
            )
    return problems


def _find_unlisted_names(uses: Uses, public_names: PublicNames) -> Iterator[str]:
    for folder, modules in sorted(uses.items()):
        for module, names in sorted(modules.items()):
            for name in sorted(names.keys() - public_names[folder].get(module, frozenset())):
                yield (
                    f'{names[name]} uses {folder}.{module}.{name}: add it to PUBLIC["{module}"] in '
                    f"{folder.replace('.', '/')}/__init__.py, or move it to a package below both."
                )


def _find_unused_names(uses: Uses, public_names: PublicNames) -> Iterator[str]:
    for folder, listed in public_names.items():
        for module, names in listed.items():
            for name in sorted(names - uses.get(folder, {}).get(module, {}).keys()):
                yield (
                    f"No other package uses {folder}.{module}.{name}: remove it from "
                    f'PUBLIC["{module}"].'
                )


def _find_modules(root: Path) -> dict[str, Path]:
    """Return the files of the package by module name."""
    files: dict[str, Path] = {}
    for path in sorted((root / ROOT).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = path
    return files


def _find_package(module: str) -> str:
    """Return the package of a module."""
    parts = module.split(".")
    return ".".join(parts[:3] if module.startswith(f"{_BESIDE}.") else parts[:2])


def _read_public_names(tree: ast.Module) -> Mapping[str, frozenset[str]]:
    """Return the names listed in an `__init__`, by module."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "PUBLIC":
            listed: dict[str, Any] = ast.literal_eval(statement.value)
            return {module: frozenset(names.split()) for module, names in listed.items()}
    return {}


def _find_uses(trees: Mapping[str, ast.Module], folders: set[str]) -> Uses:
    """Return the names used by modules of other packages.

    Single files below nexusform are public.
    """
    uses: Uses = defaultdict(lambda: defaultdict(dict))
    for user, tree in trees.items():
        for module, name in _iterate_imports(tree, trees.keys()):
            folder, _, own_name = module.rpartition(".")
            if module in folders:
                folder = module
                own_name = "__init__"
            if folder != ROOT and _find_package(module) != _find_package(user):
                uses[folder][own_name].setdefault(name, user)
    return uses


def _iterate_imports(tree: ast.Module, modules: Any) -> Iterator[tuple[str, str]]:
    """Yield module and name of each use of the package in a module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(ROOT):
            continue
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in modules:
                for name in _find_attributes(tree, alias.asname or alias.name):
                    yield whole, name
            else:
                yield str(node.module), alias.name


def _find_attributes(tree: ast.Module, name: str) -> set[str]:
    """Return the attributes used of a module imported as a whole."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }
