from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexusform.configuration.literal_edits import apply_literal_edits, build_literal_edit
from nexusform.configuration.loader import load_configuration
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import parse_address

TEXT = """
variable "n" { default = 3 }
resource "nexus_kubernetes_cluster" "a" {
  control_plane { count = 3 }
  agent_pool "ä" {
    count              = 4 # four
    vm_sku_name        = "NC_P22_112_v1"
    availability_zones = [
      "1",
      "2",
    ]
  }
  agent_pool "b" { count = var.n }
}
resource "nexus_rack" "r" {
  count         = 2
  machine_count = 4
}
module "one" { source = "./inner" }
module "two" { source = "./twice" }
module "three" { source = "./twice" }
module "four" { source = "./wrapper" }
module "five" { source = "./shared" }
"""
INNER = 'resource "nexus_rack" "r" {\n  status = "planned"\n}\n'


@pytest.fixture
def apply_edit(tmp_path: Path) -> Any:
    """Return a function for the lines changed by an edit, as (before, after).

    It returns None without an edit.
    """
    (tmp_path / "main.nf.hcl").write_text(TEXT)
    (tmp_path / "wrapper").mkdir()
    (tmp_path / "wrapper" / "main.nf.hcl").write_text('module "m" { source = "../shared" }\n')
    for name in ("inner", "twice", "shared"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.nf.hcl").write_text(INNER)
    schemas = build_registries().schemas
    configuration, _ = load_configuration(
        str(tmp_path), cache_directory=None, managed=schemas["managed"], data=schemas["data"]
    )
    assert configuration is not None

    def change_literal(address: str, path: tuple[str | int, ...], value: Any) -> list[str] | None:
        edit = build_literal_edit(configuration, parse_address(address), path, value)
        if edit is None:
            return None
        ((name, text),) = apply_literal_edits(configuration.files, [edit]).items()
        old = configuration.files[name].text.splitlines()
        return [line for line in text.splitlines() if line not in old]

    return change_literal


CLUSTER = "nexus_kubernetes_cluster.a"


@pytest.mark.parametrize(
    ("address", "path", "value", "lines"),
    [
        (CLUSTER, ("agent_pool", "ä", "count"), 20, ["    count              = 20 # four"]),
        (CLUSTER, ("control_plane", "count"), 5, ["  control_plane { count = 5 }"]),
        (
            CLUSTER,
            ("agent_pool", "ä", "availability_zones"),
            ["1", "${x}"],
            ['    availability_zones = ["1", "$${x}"]'],
        ),
        ("module.one.nexus_rack.r", ("status",), "active", ['  status = "active"']),
        # The value of a variable.
        (CLUSTER, ("agent_pool", "b", "count"), 5, None),
        # Not in the configuration.
        (CLUSTER, ("agent_pool", "b", "vm_sku_name"), "x", None),
        (CLUSTER, ("agent_pool", "c", "count"), 5, None),  # unknown pool
        # One of two instances.
        ("nexus_rack.r[0]", ("machine_count",), 5, None),
        # module.three uses the same text.
        ("module.two.nexus_rack.r", ("status",), "active", None),
        # module.four.module.m uses the same text.
        ("module.five.nexus_rack.r", ("status",), "active", None),
    ],
)
def test_only_a_single_literal_is_changed(
    apply_edit: Any, address: str, path: tuple[str, ...], value: Any, lines: list[str] | None
) -> None:
    assert apply_edit(address, path, value) == lines
