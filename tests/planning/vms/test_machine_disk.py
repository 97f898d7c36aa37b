"""Tests of the disk of machines: by default that of the catalogue."""

from __future__ import annotations

import pytest

from tests.planning.harness import (
    SITE,
    attributes,
    build_state_after,
    list_errors,
    plan,
    require_success,
)

MACHINE = """machine {
    numa_cells          = 2
    cpus_per_cell       = 48
    memory_gib_per_cell = 224
  }"""
RACK = f"""{SITE}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = 1
  {MACHINE}
}}
"""
BARE_METAL = f"""{SITE}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.s.id
  machine_count = 0
}}
resource "nexus_bare_metal_machine" "m" {{
  rack_id = nexus_rack.r.id
  slot    = 9
  {MACHINE}
}}
"""


def build_vm(name: str, disk_gib: int) -> str:
    return f"""
resource "nexus_virtual_machine" "{name}" {{
  site_id    = nexus_site.s.id
  cpu_cores  = 2
  memory_gib = 4
  disk_gib   = {disk_gib}
}}
"""


@pytest.mark.parametrize(
    ("site", "address"), [(RACK, "nexus_rack.r"), (BARE_METAL, "nexus_bare_metal_machine.m")]
)
def test_machine_without_disk_has_that_of_the_catalogue(site: str, address: str) -> None:
    result = require_success(plan(site + build_vm("a", 3000) + build_vm("b", 500)))
    machine = attributes(build_state_after(result), address)["machine"]
    assert machine["ephemeral_disk_gib"] == 3500


@pytest.mark.parametrize("site", [RACK, BARE_METAL])
def test_default_disk_limits_vms(site: str) -> None:
    [error] = list_errors(plan(site + build_vm("a", 3000) + build_vm("b", 501)))
    assert "501 GiB of disk" in error.detail
