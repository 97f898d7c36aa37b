"""Tests of `predict` for new objects that Azure rejects."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.azure.importers.az_changes import CLUSTERS, POOLS, VMS, AzAction, ToolChange
from nexusform.domains.azure.importers.creation_rules import check_created_objects


def list_details(kind: str, name: str = "core-a", **more: Any) -> list[str]:
    """Return the details of the findings about one change."""
    action = more.pop("action", AzAction.CREATE)
    change = ToolChange(kind, (name,), action, "azapi_resource.x", "plan.json", **more)
    return [problem.detail for problem in check_created_objects([change])]


def build_pools(**more: Any) -> dict[str, Any]:
    pool = {"name": "system", "mode": "System", "vmSkuName": "NC_P22_112_v1", **more}
    return {"initialAgentPoolConfigurations": [pool]}


def test_good_objects_have_no_finding() -> None:
    assert list_details(CLUSTERS, body=build_pools()) == []
    assert list_details(POOLS, "a_pool-1") == []
    assert list_details(VMS, "v" * 64) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [(CLUSTERS, "a"), (CLUSTERS, "core-"), (CLUSTERS, "c" * 31), (POOLS, "p.1"), (VMS, "v" * 65)],
)
def test_names_outside_of_the_pattern(kind: str, name: str) -> None:
    [detail] = list_details(kind, name)
    assert name in detail
    assert "must have 2 to" in detail
    # An existing object has a name that Azure accepted.
    assert list_details(kind, name, action=AzAction.UPDATE) == []


def test_names_of_initial_pools_are_checked() -> None:
    [detail] = list_details(CLUSTERS, body=build_pools(name="pool.1"))
    assert '"pool.1"' in detail


def test_cluster_without_system_pool() -> None:
    [detail] = list_details(CLUSTERS, body=build_pools(mode="User"))
    assert "none of its pools has mode System" in detail
    unknown = {("initialAgentPoolConfigurations", 0, "mode"): "known after apply"}
    assert list_details(CLUSTERS, body=build_pools(mode=None), unknown=unknown) == []


@pytest.mark.parametrize(("count", "size", "is_rejected"), [(112, "1G", False), (113, "1G", True)])
def test_hugepages_within_the_memory_of_a_node(count: int, size: str, is_rejected: bool) -> None:
    options = {"hugepagesCount": count, "hugepagesSize": size}
    details = list_details(CLUSTERS, body=build_pools(agentOptions=options))
    assert bool(details) == is_rejected
    assert all("113 hugepages of 1G are 113 GiB" in detail for detail in details)
