"""What is written down is true: reference pages, README commands, examples named in the docs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _pages() -> dict[str, Callable[[], str]]:
    spec = spec_from_file_location("reference_pages", Path(__file__).with_name("reference_pages.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        "types.md": module.types_page,
        "commands.md": module.commands_page,
        "backends.md": module.backends_page,
        "providers.md": module.providers_page,
    }


@pytest.mark.parametrize("name", ["types.md", "commands.md", "backends.md", "providers.md"])
def test_reference_page_is_what_the_product_says(name: str) -> None:
    page = _pages()[name]()
    path = ROOT / "docs" / "reference" / name
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        path.write_text(page)
    assert path.read_text() == page


def test_ci_runs_the_readme_test_command() -> None:
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text()


def _documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")])


@pytest.mark.parametrize("document", _documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
