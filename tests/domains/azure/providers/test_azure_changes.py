"""Tests of the changes of Azure resources for a step on a cluster, and their order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.domains.azure.importers.azure_request_bodies import has_requested_values
from nexusform.domains.azure.providers.arm_changes import ArmChange, ArmOperation
from nexusform.domains.azure.providers.azure_changes import (
    PATCH_PROPERTIES,
    SiteContext,
    build_azure_changes,
)
from nexusform.domains.azure.providers.azure_site import AzureSiteProvider
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, ProviderProblem

AROUND = SiteContext("lab-rg", {"location": "eastus"}, str)
PLANE = {"count": 1, "vm_sku_name": "NC_G6_28_v1"}


def _build_cluster(*pools: str) -> dict[str, object]:
    pool = {"count": 1, "vm_sku_name": "NC_P10_56_v1"}
    return {
        "name": "c",
        "control_plane": PLANE,
        "agent_pool": dict.fromkeys(pools, pool),
        "agent_pool_order": list(pools),
    }


def test_pools_are_changed_in_the_order_of_their_blocks() -> None:
    """A resumed step continues with the interrupted change.

    Another order would skip some changes.
    """
    pools = ("zebra", "ant", "mole", "bee", "yak", "cat", "owl")
    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    request = ChangeRequest(
        key, "nexus_kubernetes_cluster.c", _build_cluster(*pools, "last"), _build_cluster("last")
    )
    changes = build_azure_changes(request, AROUND)
    assert [(change.verb, change.target.names[1]) for change in changes] == [
        (ArmOperation.DELETE, name) for name in pools
    ]


def build_body_changes(before: dict[str, Any], after: dict[str, Any]) -> list[ArmChange]:
    prior, planned = ({**_build_cluster("a"), "azure": {"body": body}} for body in (before, after))
    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    return build_azure_changes(
        ChangeRequest(key, "nexus_kubernetes_cluster.c", prior, planned), AROUND
    )


NETWORK = {
    "properties": {"networkConfiguration": {"cniNetworkId": "/n/a", "podCidrs": ["10.0.0.0/16"]}}
}


def test_members_missing_in_patch_are_errors_with_names() -> None:
    after = {
        "location": "westus",
        "properties": {
            "networkConfiguration": {"cniNetworkId": "/n/b", "podCidrs": ["10.1.0.0/16"]}
        },
    }
    with pytest.raises(ProviderProblem) as problem:
        build_body_changes({"location": "eastus", **NETWORK}, after)
    for name in (
        "location",
        "properties.networkConfiguration.cniNetworkId",
        "properties.networkConfiguration.podCidrs",
    ):
        assert name in str(problem.value)


def test_patch_has_the_members_of_the_sdk() -> None:
    models = pytest.importorskip("azure.mgmt.networkcloud.models")
    for kind, model in (
        ("kubernetes_clusters", models.KubernetesClusterPatchProperties),
        ("agent_pools", models.AgentPoolPatchProperties),
        ("virtual_machines", models.VirtualMachinePatchProperties),
    ):
        assert {
            field._rest_name for field in model()._attr_to_rest_field.values()
        } == PATCH_PROPERTIES[kind]


def test_tags_and_administrators_are_sent() -> None:
    administrators = {"administratorConfiguration": {"sshPublicKeys": [{"keyData": "k"}]}}
    after = {"tags": {"a": "b"}, "properties": {**NETWORK["properties"], **administrators}}
    [change] = build_body_changes(NETWORK, after)
    assert change.verb is ArmOperation.UPDATE
    assert change.body == {"tags": {"a": "b"}, "properties": administrators}


def test_body_added_to_imported_cluster_is_not_sent() -> None:
    assert build_body_changes({}, NETWORK) == []


def test_separate_pool_is_updated_in_place() -> None:
    prior = {
        "kubernetes_cluster_id": "lab/c",
        "name": "p",
        "node_count": 4,
        "vm_sku_name": "NC_P10_56_v1",
    }
    key = ObjectKey("nexus_agent_pool", "lab/c/p", 1)
    request = ChangeRequest(key, "nexus_agent_pool.p", prior, {**prior, "node_count": 2})
    [change] = build_azure_changes(request, AROUND)
    assert (change.verb, change.target.names) == (ArmOperation.UPDATE, ("c", "p"))
    assert change.body == {"properties": {"count": 2}}
    assert change.reduction == {"count": 2}


@pytest.mark.parametrize(
    ("observed", "requested", "is_equal"),
    [
        (None, "", True),
        ({}, None, True),
        ("", 0, False),
        ("a", None, False),
        (["a", "b"], ["b", "a"], True),
    ],
)
def test_absent_and_empty_values_are_equal(observed: Any, requested: Any, is_equal: bool) -> None:
    assert has_requested_values(observed, requested) is is_equal


@pytest.mark.parametrize(
    ("observed", "requested", "default", "group"),
    [
        ("rg", "RG", "other", "rg"),
        ("rg", "", "other", "rg"),
        ("", "mine", "other", "mine"),
        ("", "", "other", "other"),
        ("rg", "mine", "", "is in resource group rg, but its azure block sets mine"),
        ("", "", "", "has no resource group"),
    ],
)
def test_resource_group_of_an_object_never_changes(
    observed: str, requested: str, default: str, group: str
) -> None:
    provider = AzureSiteProvider.__new__(AzureSiteProvider)
    index = SimpleNamespace(
        managed={("nexus_kubernetes_cluster", "lab/c"): f"/resourceGroups/{observed}/c"}
    )
    attributes = {**_build_cluster(), "azure": {"resource_group": requested}}
    request = ChangeRequest(
        ObjectKey("nexus_kubernetes_cluster", "lab/c", 1),
        "nexus_kubernetes_cluster.c",
        {},
        attributes,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AzureSiteProvider, "_load_index", lambda _: index)
        provider._created_groups = {}
        provider._subscription = SimpleNamespace(default_group=default)  # type: ignore[assignment]
        if " " not in group:
            assert provider._find_resource_group(request) == group
            return
        with pytest.raises(ProviderProblem, match=group):
            provider._find_resource_group(request)


def _build_upgrade(
    pool: dict[str, Any], control_plane: dict[str, Any] | None = None, **other_fields: Any
) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and properties of each update of a step that upgrades a cluster."""
    before = {"count": 3, "vm_sku_name": "NC_P10_56_v1", **SURGE}
    prior = {**_build_cluster("a"), "kubernetes_version": "v1.29", "agent_pool": {"a": before}}
    prior["control_plane"] = {**PLANE, "count": 3}
    planned = {**prior, "kubernetes_version": "v1.30", "agent_pool": {"a": {**before, **pool}}}
    planned["control_plane"] = {**PLANE, "count": 3, **(control_plane or {})}
    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    request = ChangeRequest(
        key, "nexus_kubernetes_cluster.c", prior, planned, unfinished_change=other_fields or None
    )
    changes = build_azure_changes(request, AROUND)
    assert {change.verb for change in changes} == {ArmOperation.UPDATE}
    return [
        (change.target.names[-1], dict(change.body["properties"]))
        for change in changes
        if change.body
    ]


SURGE = {"upgrade_settings": {"max_surge": "1", "max_unavailable": "0"}}
NO_SURGE = {"upgrade_settings": {"max_surge": "0", "max_unavailable": "1"}}
VERSION = ("c", {"kubernetesVersion": "v1.30"})


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (NO_SURGE, [("a", ["upgradeSettings"]), VERSION]),
        ({"count": 2}, [("a", ["count"]), VERSION]),
        ({"count": 2, **NO_SURGE}, [("a", ["count", "upgradeSettings"]), VERSION]),
        ({"count": 4}, [VERSION, ("a", ["count"])]),
        ({"count": 4, **NO_SURGE}, [("a", ["upgradeSettings"]), VERSION, ("a", ["count"])]),
    ],
)
def test_upgrade_follows_new_settings_and_lower_counts(
    pool: dict[str, Any], expected: list[Any]
) -> None:
    """Azure runs an upgrade with the settings and counts that it has then."""
    names = [
        (name, sorted(properties)) if name == "a" else (name, properties)
        for name, properties in _build_upgrade(pool)
    ]
    assert names == expected


def test_repeated_change_keeps_the_order_of_an_upgrade() -> None:
    """A change of a pool failed before; the step sends it again, each property once."""
    pool_id = "/x/kubernetesClusters/c/agentPools/a"
    parts = ["count", "upgradeSettings"]
    settings, version, count = _build_upgrade({"count": 4, **NO_SURGE}, id=pool_id, parts=parts)
    assert (settings[0], list(settings[1])) == ("a", ["upgradeSettings"])
    assert version == VERSION
    assert count == ("a", {"count": 4})
    settings, version = _build_upgrade({}, id=pool_id, parts=["upgradeSettings"])
    assert (settings[0], list(settings[1])) == ("a", ["upgradeSettings"])
    assert version == VERSION


def _build_plane_count(count: int) -> tuple[str, dict[str, Any]]:
    return "c", {"controlPlaneNodeConfiguration": {"count": count}}


def test_upgrade_and_control_plane_count_are_two_requests() -> None:
    """The control plane follows the order of pools: lower counts, upgrade, higher counts."""
    assert _build_upgrade({}, {"count": 5}) == [VERSION, _build_plane_count(5)]
    assert _build_upgrade({}, {"count": 1}) == [_build_plane_count(1), VERSION]
    assert _build_upgrade({"count": 4}, {"count": 5}) == [
        VERSION,
        _build_plane_count(5),
        ("a", {"count": 4}),
    ]


def test_failed_control_plane_count_is_no_part_of_an_upgrade() -> None:
    cluster_id = "/x/kubernetesClusters/c"
    plane = "controlPlaneNodeConfiguration"
    changes = _build_upgrade({}, id=cluster_id, parts=[plane])
    assert changes == [VERSION, _build_plane_count(3)]


def test_azure_block_of_the_control_plane_is_sent_with_the_upgrade() -> None:
    """The count has a request of its own; no member of the block is lost."""
    plane = "controlPlaneNodeConfiguration"
    prior, planned = (
        {
            **_build_cluster("a"),
            "kubernetes_version": version,
            "control_plane": {**PLANE, "count": count},
            "azure": {
                "body": {
                    "properties": {plane: {"administratorConfiguration": {"adminUsername": name}}}
                }
            },
        }
        for version, count, name in (("v1.29", 1, "old"), ("v1.30", 3, "new"))
    )
    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    request = ChangeRequest(key, "nexus_kubernetes_cluster.c", prior, planned)
    upgrade, count = build_azure_changes(request, AROUND)
    assert upgrade.body == {
        "properties": {
            "kubernetesVersion": "v1.30",
            plane: {"administratorConfiguration": {"adminUsername": "new"}},
        }
    }
    assert count.body == {"properties": {plane: {"count": 3}}}
