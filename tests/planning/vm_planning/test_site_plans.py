from __future__ import annotations

from nexusform.planning.vm_planning.site_plans import SiteObject, build_site_layout
from nexusform.resources.address import parse_address
from tests.planning.harness import build_all_types


def test_sites_are_read_from_managed_objects_of_known_types() -> None:
    site_of = {"id": "lab", "name": "lab"}
    things = [
        SiteObject(parse_address("data.nexus_site.looked_up"), {"id": "other", "name": "other"}, 1),
        SiteObject(parse_address("elsewhere_site.x"), site_of, 2),
        SiteObject(parse_address("nexus_site.lab"), site_of, 3),
    ]
    ground = build_site_layout(things, build_all_types())
    assert list(ground.sites) == ["lab"]
    assert [str(thing.address) for _, thing in ground.objects] == ["nexus_site.lab"]
    assert "NC_P46_224_v1" in ground.context.skus
