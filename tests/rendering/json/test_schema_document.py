from __future__ import annotations

import json

import pytest

from nexusform.cli.main import run_command_line
from nexusform.rendering.json.json_configuration import build_providers_schema
from nexusform.resource_types.registry import build_registries


def test_every_type_is_listed_with_its_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["providers", "schema", "-json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document == json.loads(json.dumps(build_providers_schema(build_registries())))
    schemas = document["provider_schemas"]["nexusform"]
    assert set(schemas["resource_schemas"]) == set(build_registries().resource_types)
    assert set(schemas["data_source_schemas"]) == set(build_registries().data_sources)
    rack = schemas["resource_schemas"]["nexus_rack"]["block"]
    assert rack["attributes"]["machine_count"] | {"description": ""} == {
        "type": "number",
        "description": "",
        "description_kind": "plain",
        "required": True,
    }
    assert rack["block_types"]["machine_override"]["nesting_mode"] == "map"
    assert run_command_line(["providers", "schema"]) == 1
