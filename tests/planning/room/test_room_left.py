from __future__ import annotations

from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.occupancy import SiteRoom
from nexusform.planning.room.room_left import with_room
from nexusform.state.model import EMPTY
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


def rooms(result: PlanResult) -> tuple[SiteRoom, ...]:
    return with_room(result, all_types()).plan.room


def test_free_cells_and_a_rack_lost() -> None:
    # Six machines of two cells: one cell is broken by the control plane, three are taken.
    result = plan(site() + cluster("a", 3))
    workers, masters = rooms(result)
    assert (workers.site_id, workers.site, workers.sku, workers.cells) == ("s", "s", "NC_P46_224_v1", 1)
    assert workers.before is None
    assert workers.after is not None
    assert workers.after.free == 12 - 1 - 3
    # Every rack holds a worker; the control plane stands on one of them, so the others have 3 free.
    assert workers.after.rack_lost == 8 - 3
    assert (workers.after.no_surge, workers.after.clusters) == ((), ("a",))
    # The largest SKU comes first; four of the small one fit into a whole cell, three beside a control plane.
    assert masters.sku == "NC_G12_56_v1"
    assert masters.after is not None
    assert masters.after.free == 4 * 8 + 3


def test_before_and_after() -> None:
    first = plan(site() + cluster("a", 3))
    second = plan(site() + cluster("a", 3) + cluster("b", 4), applied(first))
    workers = rooms(second)[0]
    assert workers.before is not None
    assert workers.after is not None
    assert (workers.before.free, workers.before.clusters) == (8, ("a",))
    # b takes four cells; its control plane shares none of them, or the one that a's broke.
    assert workers.after.free in (3, 4)
    assert workers.after.clusters == ("a", "b")


def test_figures_agree_with_placing_that_many_and_one_more() -> None:
    text = site() + cluster("a", 3)
    stands = applied(plan(text))
    room = rooms(plan(text, stands))[0].after
    assert room is not None
    grown = plan(site() + cluster("a", 3 + room.free), stands)
    assert not grown.plan.errored
    assert plan(site() + cluster("a", 4 + room.free), stands).plan.errored


def test_clusters_without_room_for_their_surge_are_named() -> None:
    result = plan(site() + cluster("a", 4, "50%") + cluster("b", 5, "1"))
    room = rooms(result)[0].after
    assert room is not None
    assert room.free == 1
    assert room.no_surge == ("a",)


def test_what_is_gone_and_what_is_in_error_has_no_room() -> None:
    first = plan(site() + cluster("a", 3))
    gone = plan("", applied(first))
    workers = rooms(gone)[0]
    assert workers.before is not None
    assert workers.after is None
    errored = plan(site() + cluster("a", 99))
    assert errored.plan.errored
    assert rooms(errored) == ()
    assert rooms(plan(site(), EMPTY)) == ()
