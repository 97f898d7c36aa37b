"""Tests of slow answers: of lists, and of operations longer than the site may stay unread."""

from __future__ import annotations

from threading import Barrier
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.workflow.plan_files import plan_execution
from tests.domains.azure.providers import arm_server
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import (
    CLUSTER_ID,
    NEW,
    CommandRunner,
    write_configuration,
)

POOL = f"{CLUSTER_ID}/agentPools/np1"


@pytest.mark.parametrize("parallelism", ["1", "10"])
def test_change_of_others_during_a_slow_operation_stops_no_step_that_leaves_it(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch, parallelism: str
) -> None:
    """A new plan would remove the node of another person; the steps of this plan do not."""
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
    assert nexusform("apply", f"-parallelism={parallelism}", "p") == 0, nexusform.said
    assert len(nexusform.changes()) == 3


def test_unbroken_guard_rail_lets_slow_operations_continue(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.site.faults = Faults(polls=5)
    write_configuration(NEW)
    assert nexusform("plan", "-fail-on=removed:0", "-out=p") == 0, nexusform.said
    monkeypatch.setattr(plan_execution, "MAXIMUM_WAIT_SECONDS", -1.0)
    assert nexusform("apply", "p") in (0, 2), nexusform.said
    assert len(nexusform.changes()) == 3


def test_lists_of_a_slow_azure_are_read_at_the_same_time_after_one_sign_in(
    nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = arm_server._Handler.serve
    # The first page of each of two lists is answered only when both were requested.
    first_pages = ["racks", "bareMetalMachines"]
    both = Barrier(2, timeout=60)
    events: list[tuple[str, str]] = []

    def serve_slowly(handler: Any) -> None:
        kind = handler.path.partition("?")[0].rpartition("/")[2]
        events.append(("request", kind))
        if kind in first_pages:
            first_pages.remove(kind)
            both.wait()
        serve(handler)
        events.append(("answer", kind))

    monkeypatch.setattr(arm_server._Handler, "serve", serve_slowly)
    assert nexusform("plan") == 0, nexusform.said
    assert events[:2] == [("request", "clusters"), ("answer", "clusters")]
    assert not both.broken
