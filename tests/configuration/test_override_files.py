from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.configuration.body_preparation import build_prepared_resource
from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.loader import load_configuration
from nexusform.schemas.value_types import NUMBER
from tests.configuration.sample import CLUSTER, DATA, MANAGED, RACK, Scope

CASE = Path(__file__).parent / "cases" / "overrides"


@pytest.fixture
def configuration(monkeypatch: pytest.MonkeyPatch) -> Configuration:
    monkeypatch.chdir(CASE)
    found, problems = load_configuration(".", cache_directory=None, managed=MANAGED, data=DATA)
    assert problems == []
    assert found is not None
    return found


def read_attributes(configuration: Configuration, kind: str, name: str) -> dict[str, Any]:
    block = configuration.root.resources["managed", kind, name]
    prepared, problems = build_prepared_resource(
        block, {"nexus_cluster": CLUSTER, "nexus_rack": RACK}[kind]
    )
    assert problems == []
    return prepared.evaluate(Scope())[0]


def test_override_replaces_arguments_and_all_blocks_of_a_type(configuration: Configuration) -> None:
    found = read_attributes(configuration, "nexus_cluster", "c")
    assert found["name"] == "overridden"
    assert found["agent_pool_order"] == ["np9"]
    assert found["control_plane"] == {"count": 1}


def test_lifecycle_is_merged_by_argument(configuration: Configuration) -> None:
    lifecycle = configuration.root.resources["managed", "nexus_cluster", "c"].lifecycle
    assert (lifecycle.prevent_destroy, lifecycle.create_before_destroy) == (False, True)


def test_json_overrides_native_syntax(configuration: Configuration) -> None:
    found = read_attributes(configuration, "nexus_rack", "r")
    assert (found["site_id"], found["name"]) == ("s", "from json")
    assert found["machine_override"] == {"m": {"cordoned": True}}


def test_overridden_variables_and_locals(configuration: Configuration) -> None:
    root = configuration.root
    assert root.variables["v"].default is not None
    assert root.variables["v"].default.raw == 2
    assert getattr(root.locals["a"].expression, "value", None) == 10
    assert list(root.locals) == ["a", "b"]


def test_positions_are_those_of_the_original_files(configuration: Configuration) -> None:
    assert [b.position[0][0] for b in configuration.root.resources.values()] == ["main.nf.hcl"] * 2


def test_json_overrides_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a type replace generated ones, and the other way round; quoted types stay types."""
    monkeypatch.chdir(tmp_path)
    original = {
        "name": "c",
        "control_plane": {"count": 3},
        "dynamic": {"agent_pool": {"for_each": [1], "labels": ["np1"], "content": {"count": 1}}},
        "lifecycle": {"prevent_destroy": True},
    }
    changes = {
        "agent_pool": {"np9": {"count": 1}},
        "dynamic": {"control_plane": {"for_each": [1], "content": {"count": 1}}},
        "lifecycle": {"create_before_destroy": True},
    }
    for name, resource, variable in (
        ("main", original, {"type": "string", "default": "a"}),
        ("override", changes, {"type": "number", "default": 1}),
    ):
        document = {"resource": {"nexus_cluster": {"c": resource}}, "variable": {"v": variable}}
        Path(f"{name}.nf.json").write_text(json.dumps(document), encoding="utf-8")
    found, problems = load_configuration(".", cache_directory=None, managed=MANAGED, data=DATA)
    assert problems == []
    assert found.root.variables["v"].type == NUMBER
    attributes = read_attributes(found, "nexus_cluster", "c")
    assert (attributes["agent_pool_order"], attributes["control_plane"]) == (["np9"], {"count": 1})
    lifecycle = found.root.resources["managed", "nexus_cluster", "c"].lifecycle
    assert (lifecycle.prevent_destroy, lifecycle.create_before_destroy) == (True, True)
