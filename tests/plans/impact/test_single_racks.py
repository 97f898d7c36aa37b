"""Tests of rack redundancy: a plan that leaves all VMs of a cluster or pool on one rack."""

from __future__ import annotations

import pytest

from nexusform.placements.consequence_record import ALL_ON_ONE_RACK, Consequence
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.planning.conclusion.site_records import add_site_capacity
from tests.planning.harness import (
    build_all_types,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)

SITE = 'resource "nexus_site" "s" {}\n'
WEB = cluster("web", pools=pool("p", 4), count=3)


def build_rack(name: str, more: str = "") -> str:
    arguments = f'name = "{name}"\nsite_id = nexus_site.s.id\nmachine_count = 4'
    return f'resource "nexus_rack" "{name}" {{\n{arguments}\n{more}\n}}\n'


EVACUATED = "".join(
    f'machine_override "left-bm0{slot}" {{\n evacuate = true\n}}\n' for slot in range(1, 5)
)
ONE = SITE + build_rack("right")
TWO = ONE + build_rack("left")
THREE = TWO + build_rack("middle")


def list_single_racks(before: str, after: str) -> list[Consequence]:
    result = require_success(plan(after, build_state(before)))
    completed = add_site_capacity(result, build_all_types()).plan
    return [risk for risk in completed.impact.consequences if risk.risk == ALL_ON_ONE_RACK]


@pytest.mark.parametrize(
    "racks", [ONE + build_rack("left", EVACUATED), ONE], ids=["evacuated", "taken away"]
)
def test_emptied_rack_ends_the_redundancy_of_a_cluster(racks: str) -> None:
    (risk,) = list_single_racks(TWO + WEB, racks + WEB)
    assert risk.text == "web has all of its 7 VMs on right; losing that rack leaves none"
    assert risk.address == "nexus_kubernetes_cluster.web"
    assert risk.is_lasting


def test_pool_in_one_zone_ends_its_redundancy() -> None:
    pinned = WEB.replace("count       = 4", 'count       = 4\n    availability_zones = ["left"]')
    (risk,) = list_single_racks(THREE + WEB, THREE + pinned)
    assert risk.text == "web/p has all of its 4 VMs on left; losing that rack leaves none"
    assert risk.severity is ConsequenceSeverity.LASTING


def test_no_risk_for_two_remaining_racks_or_one_before() -> None:
    assert list_single_racks(THREE + WEB, TWO + WEB) == []
    smaller = WEB.replace("count       = 4", "count       = 3")
    assert list_single_racks(ONE + WEB, ONE + smaller) == []


def test_no_risk_for_a_single_remaining_vm_or_racks_that_azure_chooses() -> None:
    lonely = cluster("web")
    assert list_single_racks(TWO + WEB, TWO + lonely) == []
    smaller = WEB.replace("count       = 4", "count       = 2")
    assert list_single_racks(TWO + WEB, TWO + smaller) == []
