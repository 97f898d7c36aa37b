from __future__ import annotations

from nexusform.address import parse_address
from nexusform.planning.room.ground import Thing, lay_ground
from nexusform.state.model import EMPTY
from nexusform.whatif.things import things_after, things_of_state
from tests.planning.harness import all_types, applied, plan
from tests.planning.room.test_room_left import cluster, site


def test_a_plan_s_things_are_those_of_the_state_that_it_leads_to() -> None:
    first = plan(site() + cluster("a", 3))
    state = applied(first)
    assert {t.address for t in things_after(first.plan, EMPTY)} == {t.address for t in things_of_state(state)}
    second = plan(site() + cluster("b", 2), state)
    left = {str(thing.address) for thing in things_after(second.plan, state)}
    assert "nexus_kubernetes_cluster.a" not in left
    assert "nexus_kubernetes_cluster.b" in left


def test_sites_come_from_managed_objects_of_known_types() -> None:
    site_of = {"id": "lab", "name": "lab"}
    things = [
        Thing(parse_address("data.nexus_site.looked_up"), {"id": "other", "name": "other"}, 1),
        Thing(parse_address("elsewhere_site.x"), site_of, 2),
        Thing(parse_address("nexus_site.lab"), site_of, 3),
    ]
    ground = lay_ground(things, all_types())
    assert list(ground.sites) == ["lab"]
    assert [str(thing.address) for _, thing in ground.things] == ["nexus_site.lab"]
    assert "NC_P46_224_v1" in ground.skus
