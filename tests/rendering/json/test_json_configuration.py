from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.configuration.loader import load_configuration
from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.parser import parse_expression
from nexusform.rendering.json.json_configuration import (
    build_configuration_document,
    build_expression_document,
)

ROOT = """
variable "zones" {
  default     = ["1"]
  description = "where"
}

variable "password" {
  default   = "hunter2"
  sensitive = true
}

provider "simulated" {
}

resource "nexus_kubernetes_cluster" "d" {
  count      = length(var.zones)
  depends_on = [module.edge]
  name       = "cluster-d"
  site_id    = module.edge.site.id

  control_plane {
    count       = 3
    vm_sku_name = "NC_G24_112_v1"
  }

  agent_pool "pool1" {
    count              = 24
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = var.zones

    taint {
      key = "a"
    }

    taint {
      key = "b"
    }
  }
}

module "edge" {
  source = "./edge"
  zones  = var.zones
}

output "id" {
  value       = nexus_kubernetes_cluster.d[0].id
  description = "the id"
}
"""

EDGE = """
variable "zones" {
}

output "site" {
  value = { id = "lab" }
}
"""


@pytest.fixture
def document(tmp_path: Path, plans: SimpleNamespace) -> Any:
    (tmp_path / "main.nf.hcl").write_text(ROOT)
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge" / "main.nf.hcl").write_text(EDGE)
    configuration, problems = load_configuration(str(tmp_path), cache_directory=None)
    assert problems == []
    assert configuration is not None
    return json.loads(json.dumps(build_configuration_document(configuration, plans.registries)))


def test_resources_are_listed(document: Any) -> None:
    assert document["root_module"]["resources"] == [
        {
            "address": "nexus_kubernetes_cluster.d",
            "mode": "managed",
            "type": "nexus_kubernetes_cluster",
            "name": "d",
            "provider_config_key": "simulated",
            "expressions": {
                "name": {"constant_value": "cluster-d"},
                "site_id": {
                    "references": ["module.edge.site.id", "module.edge.site", "module.edge"]
                },
                "control_plane": {
                    "count": {"constant_value": 3},
                    "vm_sku_name": {"constant_value": "NC_G24_112_v1"},
                },
                "agent_pool": {
                    "pool1": {
                        "count": {"constant_value": 24},
                        "vm_sku_name": {"constant_value": "NC_P46_224_v1"},
                        "availability_zones": {"references": ["var.zones"]},
                        "taint": [
                            {"key": {"constant_value": "a"}},
                            {"key": {"constant_value": "b"}},
                        ],
                    }
                },
            },
            "schema_version": 0,
            "count_expression": {"references": ["var.zones"]},
            "depends_on": ["module.edge"],
        }
    ]


def test_modules_variables_outputs_and_providers_are_listed(document: Any) -> None:
    root = document["root_module"]
    assert document["provider_config"] == {
        "simulated": {"name": "simulated", "full_name": "nexusform.dev/builtin/simulated"}
    }
    assert root["variables"] == {
        "password": {"default": "(sensitive value)", "sensitive": True},
        "zones": {"default": ["1"], "description": "where"},
    }
    call = root["module_calls"]["edge"]
    assert call["source"] == "./edge"
    assert call["expressions"] == {"zones": {"references": ["var.zones"]}}
    assert call["module"]["outputs"]["site"] == {"expression": {"constant_value": {"id": "lab"}}}
    assert root["outputs"]["id"]["expression"] == {
        "references": [
            "nexus_kubernetes_cluster.d[0].id",
            "nexus_kubernetes_cluster.d[0]",
            "nexus_kubernetes_cluster.d",
        ]
    }


PROVIDERS_OF_ROOT = """
provider "azure_export" {
  alias     = "west"
  directory = "west"
}

module "middle" {
  source = "./middle"
}
"""
PROVIDERS_OF_MIDDLE = """
resource "nexus_site" "s" {
  name = "s"
}

resource "nexus_site" "t" {
  name     = "t"
  provider = azure_export.west
}

module "inner" {
  source = "./inner"
}
"""
PROVIDERS_OF_INNER = """
provider "simulated" {
  reality = "reality.json"
}

resource "nexus_site" "s" {
  name = "s"
}
"""


@pytest.mark.of_domains("azure")
def test_all_providers_of_resources_are_listed(tmp_path: Path, plans: SimpleNamespace) -> None:
    (tmp_path / "middle" / "inner").mkdir(parents=True)
    (tmp_path / "main.nf.hcl").write_text(PROVIDERS_OF_ROOT)
    (tmp_path / "middle" / "main.nf.hcl").write_text(PROVIDERS_OF_MIDDLE)
    (tmp_path / "middle" / "inner" / "main.nf.hcl").write_text(PROVIDERS_OF_INNER)
    configuration, _ = load_configuration(str(tmp_path), cache_directory=None)
    assert configuration is not None
    document = build_configuration_document(configuration, plans.registries)
    simulated = {"name": "simulated", "full_name": "nexusform.dev/builtin/simulated"}
    assert document["provider_config"] == {
        "azure_export.west": {
            "name": "azure_export",
            "full_name": "nexusform.dev/builtin/azure_export",
            "alias": "west",
            "expressions": {"directory": {"constant_value": "west"}},
        },
        "module.middle:simulated": {**simulated, "module_address": "module.middle"},
        "module.middle.module.inner:simulated": {
            **simulated,
            "module_address": "module.middle.module.inner",
            "expressions": {"reality": {"constant_value": "reality.json"}},
        },
    }
    middle = document["root_module"]["module_calls"]["middle"]["module"]
    keys = [each["provider_config_key"] for each in middle["resources"]]
    assert keys == ["module.middle:simulated", "azure_export.west"]
    inner = middle["module_calls"]["inner"]["module"]
    assert inner["resources"][0]["provider_config_key"] == "module.middle.module.inner:simulated"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, -2]", {"constant_value": [1, -2]}),
        ('data.x.y["k"].z', {"references": ['data.x.y["k"].z', 'data.x.y["k"]', "data.x.y"]}),
        ("[for v in var.a : v.b]", {"references": ["var.a"]}),
        ("each.key", {"references": ["each.key"]}),
        ("timestamp()", {}),
    ],
)
def test_expressions_are_listed(text: str, expected: dict[str, Any]) -> None:
    expression, problems = parse_expression(SourceFile("t", text))
    assert not problems
    assert expression is not None
    assert build_expression_document(expression) == expected
