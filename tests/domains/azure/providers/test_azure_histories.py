"""Histories in which Azure says no: each is told, what is not done is due, and nothing is sent twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import SCALED, Told, write

UPGRADE = 'resource "nexus_kubernetes_cluster" "c" {\n  kubernetes_version = "v1.30"\n}\n'
POOLS = """resource "nexus_kubernetes_cluster" "c" {
  agent_pool "np1" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
OTHER}
"""
POOL_GOES = POOLS.replace("OTHER", "")
POOL_COMES = POOLS.replace(
    "OTHER",
    '  agent_pool "web" {\n    count       = 2\n    vm_sku_name = "NC_P22_112_v1"\n  }\n'
    '  agent_pool "more" {\n    count       = 1\n    vm_sku_name = "NC_P22_112_v1"\n  }\n',
)
CHANGES = {"upgrade": UPGRADE, "scale-out": SCALED, "pool goes": POOL_GOES, "pool comes": POOL_COMES}
ENDS = {
    "failed": Faults(fails=1),
    "taken back": Faults(fails=1, rollback=True),
    "canceled": Faults(fails=1, outcome="Canceled"),
    "forgotten": Faults(fails=1, forgets=True, polls=2),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_history_in_which_azure_says_no(change: str, end: str, nexusform: Told, server: ArmServer) -> None:
    write(CHANGES[change])
    server.site.faults = replace(ENDS[end])
    assert nexusform("apply", "-auto-approve") == 1, nexusform.said
    assert "no machine has room" in nexusform.said, nexusform.said
    assert len(nexusform.changes()) == 1
    server.site.faults = Faults(conflicts=2, polls=2)
    assert nexusform("plan", "-detailed-exitcode") == 2, nexusform.said  # not forgotten
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert len(nexusform.changes()) == 2, nexusform.changes()
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    counts = {"upgrade": 5, "scale-out": 7, "pool goes": 3, "pool comes": 6}
    assert len(nexusform.nodes()) == counts[change]
