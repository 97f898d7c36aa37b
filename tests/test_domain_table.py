"""Tests of domain_table.py: its domains and dependencies agree with other sources.

They are import-linter and the source tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexusform.domain_table import PACKAGE, find_domains
from nexusform.planning.conclusion.existing_findings import _CAUSES
from nexusform.plans.impact import guard_rails
from nexusform.providers.registry import PROVIDERS, ProviderDefinition
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES

ROOT = Path(__file__).parents[1]
DOMAINS = ROOT / "nexusform" / "domains"
IMPORTED = re.compile(rf"^ *from {re.escape(PACKAGE)}\.(\w+)", re.MULTILINE)


def _list_imported_domains(name: str) -> Iterator[str]:
    """Yield the other domains imported by the files of a domain."""
    for path in (DOMAINS / name).rglob("*.py"):
        yield from (there for there in IMPORTED.findall(path.read_text()) if there != name)


def test_every_folder_is_an_entry() -> None:
    folders = {path.name for path in DOMAINS.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(find_domains())


@pytest.mark.parametrize("name", find_domains())
def test_domain_imports_exactly_its_dependencies(name: str) -> None:
    assert set(_list_imported_domains(name)) == set(find_domains()[name].dependencies)


@pytest.mark.parametrize("name", find_domains())
def test_names_in_an_entry_exist(name: str) -> None:
    domain = find_domains()[name]
    for room in domain.io_layer:
        assert (DOMAINS / name / room).is_dir() or (DOMAINS / name / f"{room}.py").is_file(), room
    for type_name in (*domain.resource_types, *domain.data_sources):
        table = RESOURCE_TYPES if type_name in domain.resource_types else DATA_SOURCES
        assert table[type_name].name == type_name
    for provider in domain.providers:
        assert isinstance(PROVIDERS[provider], ProviderDefinition)


@pytest.mark.parametrize("name", find_domains())
def test_diagnostic_traits_of_an_entry_are_its_own(name: str) -> None:
    texts = "\n".join(path.read_text() for path in (DOMAINS / name).rglob("*.py"))
    ids = {constant: value for constant, value in vars(guard_rails).items() if constant in texts}
    for kind, remark in find_domains()[name].diagnostic_traits.items():
        assert f'"{kind}"' in texts or kind in ids.values(), f"{name} tells no {kind}"
        assert remark.level in ("advice", "note", "warning")
        assert remark.cause in ("", *_CAUSES), (
            f"no cause {remark.cause}: they are in existing_findings.py"
        )
