"""Tests of the choice of long cases: a change reaches the tests that it can break."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import get_origin, get_type_hints

import pytest

from nexusform.domain_declaration import DomainDeclaration
from nexusform.domain_table import find_domains
from tests import programs
from tests.architecture.test_of_domains import BLOCK, WORDS
from tests.change_reach import (
    NAME_FORMS,
    ROOT,
    find_reach,
    is_reached,
    list_files,
    list_linted_paths,
    list_long_tests,
    list_program_variables,
    read_domain_names,
)

CRASHES = "tests/contracts/test_crashes.py"
AZURE_IMPORT = "tests/domains/azure/workflow/test_site_import.py"
AZURE_KILLS = "tests/domains/azure/providers/test_azure_kills.py"
HUB_CRASHES = "tests/domains/hub/test_fleet_crashes.py"
PACKAGES = "tests/docs/test_builds.py"
RECIPES = "tests/docs/test_recipes.py"
CONFORMANCE = "tests/conformance/test_recorded_decisions.py"
NOVA = "tests/domains/openstack/test_nova_decisions.py"
PULL_REQUESTS = "tests/docs/test_two_pull_requests.py"
PODS = "tests/domains/pods/scheduling/test_against_brute_force.py"
PAGE = "tests/rendering/page/test_page_in_browser.py"
GRAPH = "tests/workflow/plan_files/test_resource_graph.py"
HOSTS = "tests/domains/openstack/test_openstack_site.py"
HUB_RULES = "tests/domains/hub/test_hub_rules.py"
SIMULATIONS = "tests/domains/whatif/cli/test_simulate_placement.py"
# Fields of an entry whose names no configuration and no command line writes.
UNWRITTEN_FIELDS = {
    "removed_commands": "the table answers them, no code of the domain",
    "removed_flags": "the table answers them, no code of the domain",
    "placement_kinds": "of rows of a plan with its types",
    "placement_maps": "attributes of its types",
    "plan_sections": "of a plan with its types",
    "show_renderers": "its types",
    "server_readers": "its data sources",
    "diagnostic_traits": "of diagnostics about its types",
}
FLAGS = {
    "-format": ("exports",),
    "-for": ("export_scripts",),
    "-from": ("imports", "reconcilers"),
    "-check-with": ("checkers",),
}


@pytest.mark.parametrize(
    ("changed", "reached", "not_reached"),
    [
        ("nexusform/state/journal.py", {CRASHES, AZURE_KILLS, HUB_CRASHES}, {PODS}),
        ("nexusform/backends/local_lock.py", {CRASHES, AZURE_KILLS, HUB_CRASHES}, {PODS}),
        ("nexusform/network/__init__.py", {CRASHES, AZURE_KILLS, HUB_CRASHES}, set()),
        ("nexusform/domains/pods/scheduling/profile.py", {PODS, CRASHES}, {AZURE_KILLS}),
        ("nexusform/domains/remote_state/backends/s3.py", {CRASHES}, {PODS, AZURE_KILLS}),
        ("tests/domains/pods/scheduling/brute_force.py", {PODS}, {CRASHES, AZURE_KILLS}),
        ("docs/numa.md", set(), {PACKAGES, RECIPES, CRASHES, PODS, HUB_CRASHES}),
        ("docs/ci/gitlab.yml", {PACKAGES, RECIPES, PULL_REQUESTS}, {CRASHES, NOVA}),
        ("docs/fidelity.md", {CONFORMANCE}, {PACKAGES, RECIPES, CRASHES, PODS}),
        ("docs/README.md", {PACKAGES}, {RECIPES, CRASHES, PODS}),
        ("nexusform/domains/openstack/__init__.py", {NOVA, SIMULATIONS}, {PODS, AZURE_KILLS}),
        # A command, and a type in an example.
        ("nexusform/domains/azure/cli/reconcile.py", {AZURE_IMPORT, HUB_RULES}, {PODS}),
        ("nexusform/domains/whatif/cli/simulate.py", {SIMULATIONS, HOSTS}, {PODS, HUB_CRASHES}),
        ("pyproject.toml", {CRASHES, PODS, HUB_CRASHES, AZURE_KILLS}, set()),
        # A helper of the test reads the examples.
        ("examples/nexus-document/main.nf.hcl", {PAGE}, {CRASHES, AZURE_KILLS, GRAPH}),
        ("nexusform/rendering/page/assets/zoom.js", {PAGE}, {PODS}),
        ("nexusform/workflow/plan_files/resource_graph.py", {GRAPH}, {PODS}),
        ("nexusform/domains/azure/importers/az_records.py", {AZURE_IMPORT}, {PODS, HUB_CRASHES}),
        # A data file and a deleted module belong to their folders.
        ("nexusform/domains/pods/importers/assets/gone.txt", {PODS}, {AZURE_KILLS}),
    ],
)
def test_change_reaches_the_tests_that_it_can_break(
    changed: str, reached: set[str], not_reached: set[str]
) -> None:
    selected = {test for test in list_long_tests() if is_reached(test, [changed])}
    assert reached <= selected
    assert not_reached & selected == set()


def test_each_module_of_the_product_is_reached() -> None:
    reached = frozenset[str]().union(*map(find_reach, list_long_tests()))
    assert [file for file in sorted(list_files() - reached) if file.startswith("nexusform/")] == []


def test_modules_of_child_processes_are_reached() -> None:
    assert "tests/cli/killed_commands.py" in find_reach("tests/cli/test_resuming.py")


@pytest.mark.parametrize(
    ("tests", "variables"),
    [
        ((PACKAGES, PODS), []),
        ((PACKAGES, CRASHES), ["NEXUSFORM_AZURITE", "NEXUSFORM_PROGRAMS"]),
        ((NOVA, HUB_CRASHES), ["NEXUSFORM_HUB_PROGRAMS", "NEXUSFORM_NOVA"]),
        ((PAGE,), ["NEXUSFORM_AXE", "NEXUSFORM_PROGRAMS"]),
        ((GRAPH,), ["NEXUSFORM_PROGRAMS"]),
    ],
)
def test_only_programs_of_reached_tests_are_installed(
    tests: tuple[str, ...], variables: list[str]
) -> None:
    assert list_program_variables(tests) == variables


def test_no_program_is_found_without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "WITHOUT_PROGRAMS", False)
    assert programs.find_program("missing-program", "sh") is not None
    assert programs.find_program("missing-program") is None
    monkeypatch.setattr(programs, "WITHOUT_PROGRAMS", True)
    assert programs.find_program("sh") is None


@pytest.mark.parametrize("path", ["nexusform/cli/main.py", "pyproject.toml", ".ci/run"])
def test_linters_run_for_python_files_and_their_settings(path: str) -> None:
    assert list_linted_paths(["docs/numa.md", path]) == [path]


def test_linters_run_for_unknown_changes_and_not_for_documents() -> None:
    assert list_linted_paths(None) == ["."]
    assert list_linted_paths(["docs/numa.md", "examples/racks/main.nf.hcl"]) == []


@pytest.mark.parametrize("field", NAME_FORMS)
def test_names_read_from_the_table_are_those_of_its_entries(field: str) -> None:
    names: dict[str, set[str]] = {}
    for domain in find_domains().values():
        for name in getattr(domain, field):
            names.setdefault(name, set()).add(domain.name)
    assert read_domain_names()[field] == names


def test_names_of_each_field_are_read_or_written_nowhere() -> None:
    types = get_type_hints(DomainDeclaration)
    fields = {field for field, declared in types.items() if get_origin(declared) is Mapping}
    assert fields == {*NAME_FORMS, *UNWRITTEN_FIELDS}


@cache
def parse_file(file: Path, is_imported: bool) -> ast.Module:
    """Return the code of a test file; if others import it, without its tests."""
    tree = ast.parse(file.read_text())
    if is_imported:
        tree.body = [
            node
            for node in tree.body
            if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
        ]
    return tree


def list_texts(values: Iterable[ast.AST]) -> set[str]:
    """Return the texts among nodes of code."""
    return {
        node.value
        for node in values
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def list_arguments(tree: ast.Module) -> set[str]:
    """Return the texts that are arguments of a call, or elements of a list or tuple."""
    values: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            values += node.args
        elif isinstance(node, ast.List | ast.Tuple):
            values += node.elts
    return list_texts(values)


def list_data_texts(file: Path, tree: ast.Module) -> list[str]:
    """Return the texts of configurations and documents that a test file names.

    They are files or folders beside it, and examples.
    """
    names = list_texts(ast.walk(tree))
    code = ast.unparse(tree) if "examples" in names else ""
    examples = re.findall(r"'examples' / '([\w-]+)'", code)
    beside = [path for path in file.parent.iterdir() if path.name in names]
    folders = [*beside, *(ROOT / "examples" / name for name in examples)]
    paths = {path for folder in folders for path in (folder, *folder.rglob("*"))}
    endings = {".hcl", ".json", ".yaml", ".yml", ".txt"}
    return [path.read_text() for path in sorted(paths) if path.suffix in endings]


@cache
def find_uses(file: Path, is_imported: bool) -> frozenset[tuple[str, str]]:
    """Return the domains that a test file uses, each with the name by which it does."""
    tree = parse_file(file, is_imported)
    text = "\n".join([*list_texts(ast.walk(tree)), *list_data_texts(file, tree)])
    words = {*re.split(r"\W+", text)}
    used_blocks = {*BLOCK.findall(text)} & WORDS.keys()
    uses = {(WORDS[block], " ".join(block)) for block in used_blocks}
    arguments = list_arguments(tree)
    for domain in find_domains().values():
        names = {*domain.resource_types, *domain.data_sources} & words
        names |= domain.commands.keys() & arguments
        for flag, fields in FLAGS.items():
            values = {name for field in fields for name in getattr(domain, field)}
            names |= {f"{flag}={value}" for value in values} & arguments
        uses |= {(domain.name, name) for name in names}
    return frozenset(uses)


@cache
def list_direct_imports(file: Path) -> frozenset[Path]:
    """Return the test modules that a test file imports."""
    modules: set[Path] = set()
    for node in ast.walk(parse_file(file, is_imported=False)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            module = ROOT.joinpath(*str(node.module).split("."))
            modules.add(module.with_suffix(".py"))
            modules.update(module / f"{name.name}.py" for name in node.names)
    return frozenset(path for path in modules if path.is_file())


def list_shared_modules(test: Path) -> set[Path]:
    """Return the conftest.py files above a test, and all modules of tests that it imports."""
    conftests = {folder / "conftest.py" for folder in test.parents if folder != ROOT}
    modules = {path for path in conftests if path.is_file()}
    to_visit = [test, *modules]
    while to_visit:
        new_modules = list_direct_imports(to_visit.pop()) - modules
        modules |= new_modules
        to_visit += new_modules
    return modules - {test}


def test_every_test_reaches_the_domains_that_it_names() -> None:
    unreached: dict[str, set[tuple[str, str]]] = {}
    for test in list_long_tests():
        uses = {*find_uses(ROOT / test, is_imported=False)}
        for module in list_shared_modules(ROOT / test):
            uses |= find_uses(module, is_imported=True)
        reached = {file.split("/")[2] for file in find_reach(test) if "/domains/" in file}
        missing = {(domain, name) for domain, name in uses if domain not in reached}
        if missing:
            unreached[test] = missing
    assert unreached == {}
