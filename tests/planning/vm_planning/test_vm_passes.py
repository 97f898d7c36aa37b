"""Tests of planning passes: some blocks and modules wait for pass two.

They are repeated by placements of other VMs.
"""

from __future__ import annotations

from tests.planning.harness import (
    RACKS,
    build_state,
    cluster,
    is_empty,
    list_actions,
    plan,
    require_success,
)

MODULE = """
variable "site" {}
resource "nexus_virtual_machine" "v" {
  name       = "x"
  site_id    = var.site
  cpu_cores  = 4
  memory_gib = 8
  disk_gib   = 9
}
"""
CALL = """
module "m" {
  source = "./m"
  count  = length([for node in values(nexus_kubernetes_cluster.a.nodes) : node.machine])
  site   = nexus_site.s.id
}
"""


def test_module_is_called_once_for_each_placed_node() -> None:
    files = {"main.nf.hcl": RACKS + cluster("a") + CALL, "m/main.nf.hcl": MODULE}
    result = require_success(plan(files))
    assert "module.m[0].nexus_virtual_machine.v" in list_actions(result)
    assert is_empty(plan(files, build_state(files)))
