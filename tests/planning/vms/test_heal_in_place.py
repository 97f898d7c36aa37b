from __future__ import annotations

from nexusform.plans.plan import Action, StepKind
from tests.planning.harness import build_state, plan

ONE_MACHINE = """
resource "nexus_site" "s" {
}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 1
}
resource "nexus_kubernetes_cluster" "k" {
  site_id = nexus_site.s.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""


def test_vm_healed_in_place_is_re_created() -> None:
    standing = build_state({"main.nf.hcl": ONE_MACHINE})
    healed = plan(
        {"main.nf.hcl": ONE_MACHINE},
        standing,
        replaces=("nexus_kubernetes_cluster.k:k-control-plane-0",),
    ).plan
    assert [c.address.name for c in healed.changes if c.action is Action.UPDATE] == ["k"]
    assert [step.kind for step in healed.steps] == [StepKind.RELEASE, StepKind.UPDATE]
    assert healed.has_changes
