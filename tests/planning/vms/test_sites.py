from __future__ import annotations

from nexusform.address import parse_address
from nexusform.planning.vms.sites import Thing, lay_ground
from tests.planning.harness import all_types


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
