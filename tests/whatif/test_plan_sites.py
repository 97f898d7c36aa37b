from __future__ import annotations

from collections import Counter

from nexusform.whatif.plan_sites import sites_after, sites_before
from tests.planning.harness import all_types, applied, plan
from tests.whatif.test_headroom import cluster, site

PLAIN = """
resource "nexus_bare_metal_machine" "m" {
  rack_id     = nexus_rack.r[0].id
  name        = "extra"
  slot        = 9
  machine_sku = "bom-1.7.3"
  occupied {
    name       = "legacy"
    cpu_cores  = 8
    memory_gib = 32
  }
}
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  name       = "jump"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 10
}
"""


def test_the_sites_are_those_that_planning_left() -> None:
    result = plan(site() + PLAIN + cluster("a", 3) + cluster("b", 2))
    rebuilt = sites_after(result.plan, all_types())["s"]
    left = result.sites["s"].scheduler
    assert Counter((vm.vm, vm.sku, vm.placement) for vm in rebuilt.site.scheduler.vms()) == Counter(
        (vm.vm, vm.sku, vm.placement) for vm in left.vms()
    )
    assert rebuilt.site.machines == result.sites["s"].machines
    assert [vm.name for vm in rebuilt.outsiders] == ["legacy"]
    assert {vm.name for vm in rebuilt.vms} >= {"jump", "a-control-plane-0", "b-np-1"}
    assert [(name, pool.pool) for name, pool in rebuilt.pools] == [
        ("a", "control-plane"),
        ("a", "np"),
        ("b", "control-plane"),
        ("b", "np"),
    ]
    assert sites_before(result.plan, all_types()) == {}


def test_before_is_what_stood() -> None:
    first = plan(site() + PLAIN + cluster("a", 3))
    second = plan(site() + PLAIN + cluster("a", 1) + cluster("b", 2), applied(first))
    before = sites_before(second.plan, all_types())["s"]
    after = sites_after(second.plan, all_types())["s"]
    assert {vm.name for vm in before.vms} - {vm.name for vm in after.vms} == {"a-np-1", "a-np-2"}
    assert {vm.name for vm in after.vms} - {vm.name for vm in before.vms} == {
        "b-control-plane-0",
        "b-np-0",
        "b-np-1",
    }


def test_pools_are_listed_by_number_whatever_the_order_of_names() -> None:
    result = plan(site(6) + cluster("a", 12))
    names = [vm.name for vm in sites_after(result.plan, all_types())["s"].vms]
    assert names == ["a-control-plane-0", *(f"a-np-{n}" for n in range(12))]
