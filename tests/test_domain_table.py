"""Tests of domain_table.py: its domains and dependencies agree with other sources.

They are import-linter and the source tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nexusform.domain_declaration import PACKAGE
from nexusform.domain_table import _ALL, find_domains
from nexusform.interfaces.plugins import ResourceType
from nexusform.planning.conclusion.existing_findings import _CAUSES
from nexusform.plans.impact import guard_rails
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.providers.registry import PROVIDERS
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES

ROOT = Path(__file__).parents[1]
DOMAINS = ROOT / "nexusform" / "domains"
# Fields of an entry with texts of another form.
_OTHER_FIELDS = {"name", "description", "dependencies", "io_layer", "resource_types"} | {
    "data_sources",
    "removed_commands",
    "removed_flags",
    "placement_maps",
    "diagnostic_traits",
}
# A module and an object of it; of "nexusform:ignore", a comment of configurations, nothing.
TARGET = re.compile(r"""["'](?:nexusform|\{\w+\})(?:\.\w+)*\.\w+:\w+["']""")
IMPORTED = re.compile(rf"^ *from {re.escape(PACKAGE)}\.(\w+)", re.MULTILINE)


def _list_imported_domains(name: str) -> Iterator[str]:
    """Yield the other domains imported by the files of a domain."""
    for path in (DOMAINS / name).rglob("*.py"):
        yield from (there for there in IMPORTED.findall(path.read_text()) if there != name)


def test_every_folder_is_an_entry() -> None:
    folders = {path.name for path in DOMAINS.iterdir() if (path / "__init__.py").exists()}
    assert folders <= {domain.name for domain in _ALL}
    assert set(find_domains()) <= folders


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


def _list_targets(name: str) -> Iterator[str]:
    """Yield the `module:NAME` of all fields of an entry."""
    domain = find_domains()[name]
    for field in set(domain.__struct_fields__) - _OTHER_FIELDS:
        value = getattr(domain, field)
        if isinstance(value, Mapping):
            yield from (getattr(target, "target", target) for target in value.values())
        elif value:
            yield value


@pytest.mark.parametrize("name", find_domains())
def test_targets_of_an_entry_exist(name: str) -> None:
    for target in _list_targets(name):
        assert find_domains()[name].load_object(target) is not None


def test_only_the_table_has_targets() -> None:
    """Elsewhere a function imports the object: mypy and a search find its name."""
    found = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in sorted((ROOT / "nexusform").rglob("*.py"))
        if path.name != "domain_table.py"
        for target in TARGET.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("table", [RESOURCE_TYPES, DATA_SOURCES], ids=["resources", "data"])
def test_types_have_the_name_of_their_entry(table: Mapping[str, ResourceType]) -> None:
    assert [table[name].name for name in table] == list(table)


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
