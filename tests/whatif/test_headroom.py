from __future__ import annotations

from nexusform.state.model import EMPTY
from nexusform.whatif.headroom import headroom
from tests.planning.harness import all_types, applied, plan

SITE = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = MACHINES
}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "NAME" {
  site_id = nexus_site.s.id
  name    = "NAME"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "np" {
    count       = COUNT
    vm_sku_name = "NC_P46_224_v1"
    upgrade_settings {
      max_surge = "SURGE"
    }
  }
}
"""


def site(machines: int = 2) -> str:
    return SITE.replace("MACHINES", str(machines))


def cluster(name: str, count: int, surge: str = "1") -> str:
    return CLUSTER.replace("NAME", name).replace("COUNT", str(count)).replace("SURGE", surge)


def test_free_cells_and_a_rack_lost() -> None:
    # Six machines of two cells: one cell is broken by the control plane, three are taken.
    result = plan(site() + cluster("a", 3))
    (found,) = headroom(result.plan, all_types())
    assert (found.site_id, found.site, found.sku, found.cells) == ("s", "s", "NC_P46_224_v1", 1)
    assert found.before is None
    assert found.after is not None
    assert found.after.free == 12 - 1 - 3
    # Every rack holds a worker; the control plane stands on one of them, so the others have 3 free.
    assert found.after.rack_lost == 8 - 3
    assert (found.after.no_surge, found.after.clusters) == ((), 1)


def test_before_and_after() -> None:
    first = plan(site() + cluster("a", 3))
    second = plan(site() + cluster("a", 3) + cluster("b", 4), applied(first))
    (found,) = headroom(second.plan, all_types())
    assert found.before is not None
    assert found.after is not None
    assert (found.before.free, found.before.clusters) == (8, 1)
    # b takes four cells; its control plane shares none of them, or the one that a's broke.
    assert found.after.free in (3, 4)
    assert found.after.clusters == 2


def test_figures_agree_with_placing_that_many_and_one_more() -> None:
    text = site() + cluster("a", 3)
    stands = applied(plan(text))
    (found,) = headroom(plan(text, stands).plan, all_types())
    assert found.after is not None
    grown = plan(site() + cluster("a", 3 + found.after.free), stands)
    assert not grown.plan.errored
    assert plan(site() + cluster("a", 4 + found.after.free), stands).plan.errored


def test_clusters_without_room_for_their_surge_are_named() -> None:
    result = plan(site() + cluster("a", 4, "50%") + cluster("b", 5, "1"))
    (found,) = headroom(result.plan, all_types())
    assert found.after is not None
    assert found.after.free == 1
    assert found.after.no_surge == ("a",)


def test_what_is_gone_and_what_is_in_error_has_no_room() -> None:
    first = plan(site() + cluster("a", 3))
    gone = plan("", applied(first))
    (found,) = headroom(gone.plan, all_types())
    assert found.before is not None
    assert found.after is None
    errored = plan(site() + cluster("a", 99))
    assert errored.plan.errored
    assert headroom(errored.plan, all_types()) == ()
    assert headroom(plan(site(), EMPTY).plan, all_types()) == ()
