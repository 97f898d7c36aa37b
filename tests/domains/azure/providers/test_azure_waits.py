"""Tests of an apply whose operations in Azure take longer than the site may stay unread."""

from __future__ import annotations

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.workflow.plan_files import plan_execution
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import (
    CLUSTER_ID,
    NEW,
    CommandRunner,
    write_configuration,
)

POOL = f"{CLUSTER_ID}/agentPools/np1"


@pytest.mark.parametrize("parallelism", ["1", "10"])
def test_guard_rail_broken_during_a_slow_operation_stops_the_next_step(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch, parallelism: str
) -> None:
    """The site is read once the operation ends: while Azure works, it is neither old nor new."""
    site = server.site
    site.faults = Faults(polls=5)
    write_configuration(NEW)
    assert nexusform("plan", "-fail-on=removed:0", "-out=p") == 0, nexusform.said
    # Each step is slow.
    monkeypatch.setattr(plan_execution, "MAXIMUM_WAIT_SECONDS", -1.0)

    def scale_once(_path: str) -> None:
        site.before_change = lambda _path: None
        site.resources[POOL.lower()]["properties"]["count"] += 1
        site.adjust_nodes(CLUSTER_ID)

    site.before_change = scale_once
    assert nexusform("apply", f"-parallelism={parallelism}", "p") == 1, nexusform.said
    assert "1 VM is removed; -fail-on=removed:0 allows at most 0." in nexusform.said
    assert len(nexusform.changes()) == 1


def test_unbroken_guard_rail_lets_slow_operations_continue(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.site.faults = Faults(polls=5)
    write_configuration(NEW)
    assert nexusform("plan", "-fail-on=removed:0", "-out=p") == 0, nexusform.said
    monkeypatch.setattr(plan_execution, "MAXIMUM_WAIT_SECONDS", -1.0)
    assert nexusform("apply", "p") in (0, 2), nexusform.said
    assert len(nexusform.changes()) == 3
