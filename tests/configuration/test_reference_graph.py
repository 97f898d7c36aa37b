from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.configuration.loader import load_configuration
from nexusform.configuration.reference_graph import build_dependencies

FILES = {
    "main.nf.hcl": """
variable "zones" {
  default = []
}

locals {
  count = length(var.zones)
}

provider "simulated" {
}

resource "nexus_site" "lab" {
  name = "lab"
}

resource "nexus_rack" "r" {
  count   = local.count
  site_id = nexus_site.lab.id
}

module "net" {
  source  = "./net"
  site    = nexus_site.lab.id
  count   = length(nexus_rack.r)
}

resource "nexus_rack" "after" {
  name       = module.net[0].ip
  depends_on = [module.net]
}

output "all" {
  value = module.net
}
""",
    "net/main.nf.hcl": """
variable "site" {
}

resource "nexus_rack" "inner" {
  name = var.site
}

output "ip" {
  value = nexus_rack.inner.id
}

output "other" {
  value = 1
}
""",
}


@pytest.fixture
def dependencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    configuration, problems = load_configuration(".", cache_directory=None)
    assert problems == []
    assert configuration is not None
    return {
        str(node): [str(n) for n in found]
        for node, found in build_dependencies(configuration).items()
    }


def test_direct_dependencies(dependencies: dict[str, list[str]]) -> None:
    assert dependencies["local.count"] == ["var.zones"]
    assert dependencies["nexus_site.lab"] == ["provider.simulated"]
    assert dependencies["nexus_rack.r"] == ["local.count", "nexus_site.lab", "provider.simulated"]


def test_module_passes_dependencies_in_and_out(dependencies: dict[str, list[str]]) -> None:
    assert dependencies["module.net"] == ["nexus_rack.r"]
    assert dependencies["module.net.var.site"] == ["nexus_site.lab", "module.net"]
    assert dependencies["module.net.nexus_rack.inner"] == [
        "module.net",
        "module.net.var.site",
        "provider.simulated",
    ]
    assert dependencies["output.all"] == [
        "module.net",
        "module.net.output.ip",
        "module.net.output.other",
    ]


def test_depends_on_module_waits_for_all_its_resources(dependencies: dict[str, list[str]]) -> None:
    assert dependencies["nexus_rack.after"] == [
        "module.net",
        "module.net.output.ip",
        "module.net.var.site",
        "module.net.output.other",
        "module.net.nexus_rack.inner",
        "provider.simulated",
    ]
