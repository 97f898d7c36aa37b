"""Blocks and modules that are repeated by where VMs of others land wait for pass two."""

from __future__ import annotations

from tests.planning.harness import RACKS, actions, cluster, good, is_empty, plan, state_of

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


def test_a_module_is_called_once_for_each_node_that_was_placed() -> None:
    files = {"main.nf.hcl": RACKS + cluster("a") + CALL, "m/main.nf.hcl": MODULE}
    result = good(plan(files))
    assert "module.m[0].nexus_virtual_machine.v" in actions(result)
    assert is_empty(plan(files, state_of(files)))
