"""A cluster that comes to stand on a single rack is told of."""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic
from tests.planning.harness import cluster, good, plan, pool, state_of, warnings

SITE = 'resource "nexus_site" "s" {}\n'
WEB = cluster("web", pools=pool("p", 4), count=3)


def rack(name: str, more: str = "") -> str:
    arguments = f'name = "{name}"\nsite_id = nexus_site.s.id\nmachine_count = 4'
    return f'resource "nexus_rack" "{name}" {{\n{arguments}\n{more}\n}}\n'


EVACUATED = "".join(f'machine_override "left-bm0{slot}" {{\n evacuate = true\n}}\n' for slot in range(1, 5))
ONE = SITE + rack("right")
TWO = ONE + rack("left")
THREE = TWO + rack("middle")


def told(before: str, after: str) -> list[Diagnostic]:
    result = good(plan(after, state_of(before)))
    return [each for each in warnings(result) if each.id == "cluster-on-one-rack"]


@pytest.mark.parametrize("racks", [ONE + rack("left", EVACUATED), ONE], ids=["evacuated", "taken away"])
def test_a_rack_that_is_emptied_leaves_a_cluster_on_the_other(racks: str) -> None:
    (warning,) = told(TWO + WEB, racks + WEB)
    assert warning.address == "nexus_kubernetes_cluster.web"
    assert "web runs on 2 racks, and this plan leaves all of its 7 VMs on right" in warning.detail
    assert not warning.is_preexisting


def test_one_that_keeps_two_racks_or_had_one_is_not() -> None:
    assert told(THREE + WEB, TWO + WEB) == []
    assert told(ONE + WEB, ONE + WEB.replace("count       = 4", "count       = 3")) == []


def test_nor_is_one_of_which_a_single_vm_is_left() -> None:
    lonely = cluster("web")
    assert told(TWO + WEB, TWO + lonely) == []
