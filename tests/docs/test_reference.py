"""Tests of the documentation's facts.

They are reference pages, README commands, and examples named in the docs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from nexusform.advice.registry import RULE_IDS
from nexusform.cli.main import run_command_line
from tests.docs import reference_pages
from tests.docs.documented_domains import of_documented_domains

ROOT = Path(__file__).parents[2]


def _build_simulations_page() -> str:
    from tests.docs.simulation_page import build_simulations_page

    return build_simulations_page(reference_pages.HEAD)


def _list_page_builders() -> dict[str, Callable[[], str]]:
    return {
        "types.md": reference_pages.build_types_page,
        "commands.md": reference_pages.build_commands_page,
        "backends.md": reference_pages.build_backends_page,
        "providers.md": reference_pages.build_providers_page,
        "csv.md": reference_pages.build_csv_page,
        "triggers.md": reference_pages.build_triggers_page,
        "lint.md": reference_pages.build_lint_page,
        "skus.md": reference_pages.build_skus_page,
        "environment.md": reference_pages.build_environment_page,
        "simulations.md": _build_simulations_page,
    }


@cache
def _build_type_pages() -> dict[str, str]:
    pages: dict[str, str] = reference_pages.build_type_pages()
    return pages


@pytest.mark.parametrize("name", reference_pages.list_type_pages())
def test_every_type_has_a_current_page(name: str) -> None:
    path = ROOT / "docs" / "reference" / name
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(_build_type_pages()[name])
    assert path.read_text() == _build_type_pages()[name]


def test_missing_example_of_a_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "examples" / "every-type"
    monkeypatch.setattr(reference_pages, "EVERY_TYPE", directory)
    message = "nexus_site has no example. Write .* examples/every-type/nexus-site.nf.hcl"
    with pytest.raises(AssertionError, match=message):
        reference_pages.read_example("nexus_site")
    with pytest.raises(AssertionError, match=message):
        reference_pages.build_type_pages()


@of_documented_domains
def test_no_page_of_a_removed_type() -> None:
    directory = ROOT / "docs" / "reference"
    assert {f"types/{path.name}" for path in directory.glob("types/*")} == {
        *reference_pages.list_type_pages()
    }


@of_documented_domains
@pytest.mark.parametrize("name", list(_list_page_builders()))
def test_reference_page_is_current(name: str) -> None:
    page = _list_page_builders()[name]()
    path = ROOT / "docs" / "reference" / name
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        path.write_text(page)
    assert path.read_text() == page


def test_ci_runs_the_readme_test_command() -> None:
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text()


def _list_documents() -> list[Path]:
    return sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")]
    )


def test_link_targets_exist() -> None:
    missing = [
        f"{document.relative_to(ROOT)} links to {target}"
        for document in _list_documents()
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("rule_id", RULE_IDS)
def test_example_of_a_lint_rule_triggers_it(
    rule_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(reference_pages.build_lint_example(rule_id) + "\n")
    assert run_command_line(["fmt", "-check"]) == 0
    assert run_command_line(["plan", "-samples=0", "-report=json:plan.json"]) == 0
    document = json.loads((tmp_path / "plan.json").read_text())
    assert rule_id in {finding["id"] for finding in document["diagnostics"]}
    capfd.readouterr()


def test_every_environment_variable_is_documented() -> None:
    named = set()
    for path in (ROOT / "nexusform").rglob("*.py"):
        named |= set(re.findall(r'"(NF_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    told = {
        name.removesuffix("COMMAND").removesuffix("NAME") for name in reference_pages.ENVIRONMENT
    }
    assert named <= told | set(reference_pages.ENVIRONMENT)


def test_every_trigger_of_bindings_is_documented() -> None:
    page = reference_pages.build_triggers_page()
    assert [trigger for trigger in reference_pages.Trigger if f"`{trigger}`" not in page] == []


LONGEST_HELP = 60


def test_help_of_flags_and_commands_is_one_short_phrase() -> None:
    helps = {f"{path} {name}": text for path, name, text in reference_pages.list_help_texts()}
    assert len(helps) > 400
    assert {where: text for where, text in helps.items() if len(text) > LONGEST_HELP} == {}
