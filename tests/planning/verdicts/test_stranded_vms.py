"""Tests of rack concentration: a plan warns about a cluster on a single rack.

All VMs of the cluster are on it.
"""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic
from tests.planning.harness import build_state, cluster, list_warnings, plan, pool, require_success

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


def list_rack_warnings(before: str, after: str) -> list[Diagnostic]:
    result = require_success(plan(after, build_state(before)))
    return [each for each in list_warnings(result) if each.id == "cluster-on-one-rack"]


@pytest.mark.parametrize(
    "racks", [ONE + build_rack("left", EVACUATED), ONE], ids=["evacuated", "taken away"]
)
def test_emptied_rack_gives_a_warning(racks: str) -> None:
    (warning,) = list_rack_warnings(TWO + WEB, racks + WEB)
    assert warning.address == "nexus_kubernetes_cluster.web"
    assert "web runs on 2 racks, and this plan leaves all of its 7 VMs on right" in warning.detail
    assert not warning.is_preexisting


def test_no_warning_for_two_remaining_racks_or_one_before() -> None:
    assert list_rack_warnings(THREE + WEB, TWO + WEB) == []
    assert (
        list_rack_warnings(ONE + WEB, ONE + WEB.replace("count       = 4", "count       = 3")) == []
    )


def test_no_warning_for_a_single_remaining_vm() -> None:
    lonely = cluster("web")
    assert list_rack_warnings(TWO + WEB, TWO + lonely) == []
