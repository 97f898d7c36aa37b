"""Tests of the choice of long cases: a change reaches the tests that it can break."""

from __future__ import annotations

import pytest

from tests import programs
from tests.change_reach import (
    find_reach,
    is_reached,
    list_linted_paths,
    list_long_tests,
    list_program_variables,
)

CRASHES = "tests/contracts/test_crashes.py"
AZURE_IMPORT = "tests/domains/azure/workflow/test_site_import.py"
AZURE_KILLS = "tests/domains/azure/providers/test_azure_kills.py"
HUB_CRASHES = "tests/domains/hub/test_fleet_crashes.py"
PACKAGES = "tests/docs/test_builds.py"
RECIPES = "tests/docs/test_recipes.py"
CONFORMANCE = "tests/domains/conformance/test_conformance.py"
NOVA = "tests/domains/openstack/test_nova_decisions.py"
PULL_REQUESTS = "tests/docs/test_two_pull_requests.py"
PODS = "tests/domains/pods/scheduling/test_against_brute_force.py"
PAGE = "tests/rendering/page/test_page_in_browser.py"
GRAPH = "tests/workflow/plan_files/test_resource_graph.py"


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
        ("nexusform/domains/openstack/__init__.py", {NOVA}, {PODS, AZURE_KILLS}),
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
