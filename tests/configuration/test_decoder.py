"""Tests of configurations and their diagnostics: the directories in `cases/`.

`NEXUSFORM_WRITE_CASES=1` writes the expected texts again; review them like any other change.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexusform.configuration.body_preparation import build_prepared_resource
from nexusform.configuration.loader import load_configuration
from nexusform.configuration.reference_checks import (
    check_provider_names,
    check_references,
    list_modules,
)
from nexusform.diagnostics.diagnostic import Diagnostic
from tests.configuration.sample import DATA, MANAGED

CASES = Path(__file__).parent / "cases"


def format_diagnostic(problem: Diagnostic) -> str:
    place = f"{problem.subject.filename}:{problem.subject.start.line}" if problem.subject else "-"
    inside = f" [{problem.block}]" if problem.block else ""
    return f"{problem.severity} {place}: {problem.summary}{inside}\n  {problem.detail}\n"


def format_all_diagnostics() -> str:
    configuration, problems = load_configuration(
        ".", cache_directory=None, managed=MANAGED, data=DATA
    )
    if configuration is not None:
        problems += check_references(configuration, MANAGED, DATA)
        problems += check_provider_names(configuration, ["simulated"])
        for module in list_modules(configuration.root):
            for block in module.resources.values():
                known = MANAGED if block.mode == "managed" else DATA
                if block.type in known:
                    problems += build_prepared_resource(block, known[block.type])[1]
    return "".join(map(format_diagnostic, problems))


@pytest.mark.parametrize("case", sorted(p.name for p in CASES.iterdir()))
def test_all_errors_are_reported_at_their_lines(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES / case)
    expected = CASES / case / "expected.txt"
    said = format_all_diagnostics()
    if os.environ.get("NEXUSFORM_WRITE_CASES"):
        expected.write_text(said)
    assert said == expected.read_text()


def test_json_configuration_is_equal_to_native_syntax(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for case in ("clean", "clean-json"):
        monkeypatch.chdir(CASES / case)
        configuration, problems = load_configuration(
            ".", cache_directory=None, managed=MANAGED, data=DATA
        )
        assert problems == []
        assert configuration is not None
        found.append(configuration)
    native, json = found
    for name in ("variables", "locals", "outputs", "resources", "calls", "providers"):
        assert list(getattr(native.root, name)) == list(getattr(json.root, name)), name
    for kind in ("moved_blocks", "removed_blocks"):
        ends = [
            [(m.source, getattr(m, "target", None)) for m in getattr(c.root, kind)] for c in found
        ]
        assert ends[0] == ends[1]
    assert native.settings.ignored_rules.keys() == json.settings.ignored_rules.keys()
    assert native.settings.backend_type == json.settings.backend_type == "local"
    for key, block in native.root.resources.items():
        twin = json.root.resources[key]
        assert (block.address, block.provider) == (twin.address, twin.provider)
        assert block.lifecycle.ignore_changes == twin.lifecycle.ignore_changes
        assert block.lifecycle.prevent_destroy == twin.lifecycle.prevent_destroy
        assert [t.root.name for t in block.depends_on] == [t.root.name for t in twin.depends_on]
        assert (block.count is None, block.for_each is None) == (
            twin.count is None,
            twin.for_each is None,
        )
    for name, variable in native.root.variables.items():
        twin_variable = json.root.variables[name]
        assert (variable.type, variable.default) == (twin_variable.type, twin_variable.default)


def test_blocks_are_in_source_order_and_modules_at_their_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(CASES / "clean")
    configuration, _ = load_configuration(".", cache_directory=None)
    assert configuration is not None
    blocks = [b for m in list_modules(configuration.root) for b in m.resources.values()]
    ordered = [str(b.address) for b in sorted(blocks, key=lambda b: b.position)]
    assert ordered == [
        "data.nexus_inventory.site",
        "nexus_site.lab",
        "module.edge.nexus_rack.inner",
        "nexus_rack.r",
        "nexus_cluster.a",
    ]


def test_comments_before_a_block_list_ignored_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES / "clean")
    configuration, _ = load_configuration(".", cache_directory=None)
    assert configuration is not None
    rules = {b.name: b.ignored_rules for b in configuration.root.resources.values()}
    assert list(rules["r"].values()) == [{"big-rack", "zones-pinned"}]
    assert rules["lab"] == {}
