"""Tests of other site capacity (addresses, storage).

Demand is counted, and unknown capacity is never reported as sufficient.
"""

from __future__ import annotations

from nexusform.placements.vm_demands import ClaimDemand
from nexusform.plans.site_capacity.site_resource_capacity import (
    ApplianceUsage,
    ClusterNetworks,
    ClusterNodeCounts,
    NetworkAddresses,
    SiteResourceCapacity,
    SiteResourceKind,
    SiteResources,
    build_site_resources_note,
    compute_site_resource_capacity,
    find_configured_node_network,
    find_scarcest_resource,
    format_shortage,
    format_spare_resources,
    read_recorded_site_resources,
)

SUPPLIES = SiteResources(
    networks=(
        NetworkAddresses("net-a", 30, 2),
        NetworkAddresses("net-b", 254, 0),
        NetworkAddresses("six", None, 0),
    ),
    storage=(ApplianceUsage("sa1", 5000, 1200), ApplianceUsage("sa2", None, None)),
    volumes=(3, 3073),
    clusters=(
        ClusterNetworks("a", "net-a", 1024, (("pool1", 32),), 9),
        ClusterNetworks("gone", "net-a", 256, (), 4),
    ),
)


def compute_rows(
    supplies: SiteResources = SUPPLIES,
    before: ClusterNodeCounts | None = None,
    after: ClusterNodeCounts | None = None,
) -> dict[tuple[SiteResourceKind, str], SiteResourceCapacity]:
    before = before or ClusterNodeCounts({"a": 9}, {"a": 2})
    found = compute_site_resource_capacity("s", "s", supplies, before, after or before)
    return {(row.kind, row.name): row for row in found}


def test_nodes_vms_and_unmanaged_clusters_use_addresses() -> None:
    """9 own nodes, 4 of an unmanaged cluster, and 2 VMs."""
    row = compute_rows()[SiteResourceKind.NODE_ADDRESSES, "net-a"]
    assert (row.total, row.used, row.free, row.surge, row.is_insufficient) == (30, 15, 15, 2, False)


def test_plan_needs_addresses_and_an_upgrade_needs_more() -> None:
    after = ClusterNodeCounts({"a": 23, "new": 1}, {"a": 2, "new": 1}, {"new": "net-a"})
    row = compute_rows(after=after)[SiteResourceKind.NODE_ADDRESSES, "net-a"]
    assert (row.free_before, row.free, row.surge) == (15, 0, 2)
    assert row.is_insufficient
    assert format_shortage(row) == (
        "addresses for nodes of net-a: at most 0 of 30 free, but an upgrade needs 2"
    )
    assert format_spare_resources(row, row.free) == "0 of 30 (net-a, an upgrade needs 2)"


def test_demand_above_the_total_is_reported() -> None:
    row = compute_rows(after=ClusterNodeCounts({"a": 25}, {"a": 1}))[
        SiteResourceKind.NODE_ADDRESSES, "net-a"
    ]
    assert row.free == -1
    assert format_shortage(row) == "addresses for nodes of net-a: 31 needed, at most 30 exist"


def test_deleted_cluster_releases_its_addresses() -> None:
    row = compute_rows(after=ClusterNodeCounts())[SiteResourceKind.NODE_ADDRESSES, "net-a"]
    assert (row.used_before, row.used) == (15, 6)


def test_every_node_uses_a_block_of_pod_addresses() -> None:
    found = compute_rows()
    assert (
        found[SiteResourceKind.POD_BLOCKS, "a"].total,
        found[SiteResourceKind.POD_BLOCKS, "a"].free,
    ) == (16, 7)
    assert found[SiteResourceKind.POD_BLOCKS, "gone"].free == 0


def test_storage_is_counted_as_far_as_reported() -> None:
    found = compute_rows()
    assert found[SiteResourceKind.STORAGE, "sa1"].free == 3800
    assert found[SiteResourceKind.STORAGE, "sa2"].free is None
    promised = found[SiteResourceKind.VOLUMES, "3 volumes"]
    # 3,073 MiB are rounded up to GiB. The size of one appliance is not reported.
    assert (promised.used, promised.total, promised.free) == (4, None, None)


def test_used_load_balancer_addresses_are_unknown() -> None:
    row = compute_rows()[SiteResourceKind.BALANCER_ADDRESSES, "a/pool1"]
    assert (row.total, row.used, row.free, row.is_insufficient) == (32, None, None, False)


def test_uncaptured_capacity_is_never_sufficient() -> None:
    found = compute_rows(SiteResources(clusters=(ClusterNetworks("a", "net-a", None, (), 9),)))
    assert {row.free for row in found.values()} == {None}
    assert not any(row.is_insufficient for row in found.values())
    for kind in (
        SiteResourceKind.NODE_ADDRESSES,
        SiteResourceKind.POD_BLOCKS,
        SiteResourceKind.STORAGE,
    ):
        first = find_scarcest_resource(found.values(), kind)
        assert first is not None
        assert format_spare_resources(first, first.free) == "not captured"


def test_one_unknown_network_makes_node_addresses_unknown() -> None:
    after = ClusterNodeCounts({"a": 9, "b": 3}, {"a": 1, "b": 1})
    first = find_scarcest_resource(
        compute_rows(after=after).values(), SiteResourceKind.NODE_ADDRESSES
    )
    assert first is not None
    assert (first.name, first.free) == ("of b", None)


def test_insufficient_network_precedes_an_unknown_one() -> None:
    after = ClusterNodeCounts({"a": 25, "b": 3}, {"a": 1, "b": 1})
    first = find_scarcest_resource(
        compute_rows(after=after).values(), SiteResourceKind.NODE_ADDRESSES
    )
    assert first is not None
    assert first.name == "net-a"


def test_recorded_supplies_round_trip() -> None:
    assert read_recorded_site_resources(build_site_resources_note(SUPPLIES)) == SUPPLIES
    assert read_recorded_site_resources(None) is None


def test_network_of_new_cluster_is_read_from_its_azure_block() -> None:
    body = {"properties": {"networkConfiguration": {"cniNetworkId": "/x/l3Networks/net-a/"}}}
    assert find_configured_node_network({"azure": {"body": body}}) == "net-a"
    assert find_configured_node_network({"azure": {"body": "?"}}) == ""
    assert find_configured_node_network({}) == ""


GIB = 1024**3
SMALL = SiteResources(
    storage=(ApplianceUsage("sa1", 100, 10), ApplianceUsage("sa2", 50, 0)),
    volumes=(2, 40 * 1024),
    volume_sizes=((10 * 1024, 1), (30 * 1024, 1)),
)


def compute_claims(**by_cluster: ClaimDemand):  # noqa: ANN201
    nodes = ClusterNodeCounts(dict.fromkeys((*by_cluster, "quiet"), 1), claims=by_cluster)
    [row] = [
        row
        for (kind, _), row in compute_rows(SMALL, nodes).items()
        if kind is SiteResourceKind.CLAIMS
    ]
    return row


def test_clusters_claim_storage_of_the_same_appliances() -> None:
    """Certain claims of two clusters without volumes are added to the volumes."""
    row = compute_claims(a=ClaimDemand(70 * GIB, 70 * GIB), b=ClaimDemand(25 * GIB, 25 * GIB))
    assert (row.name, row.total, row.used, row.free) == ("a, b; not of quiet", 150, 135, 15)
    row = compute_claims(a=ClaimDemand(70 * GIB, 70 * GIB), b=ClaimDemand(45 * GIB, 45 * GIB))
    assert row.is_insufficient
    assert format_shortage(row) == (
        "storage for claims of pods of a, b; not of quiet: 155 GiB needed, at most 150 exist"
    )
    assert format_spare_resources(row, row.free) == "-5 of 150 (a, b; not of quiet)"


def test_claims_may_use_large_enough_volumes() -> None:
    """Of claims of 30, 20 and 9 GiB at most two use the volumes of 30 and 10."""
    sizes = (9 * GIB, 30 * GIB, 20 * GIB)
    assert compute_claims(a=ClaimDemand(sum(sizes), unverified_sizes=sizes)).used == 40 + 20
    assert compute_claims(a=ClaimDemand(9 * GIB, unverified_sizes=(9 * GIB,))).used == 40


def test_claims_are_unknown_without_a_cluster_with_known_pods() -> None:
    row = compute_claims()
    assert (row.name, row.total, row.used, row.is_insufficient) == ("", 150, None, False)
    assert format_spare_resources(row, row.free) == "not captured"


def test_volume_sizes_are_recorded_only_if_present() -> None:
    assert "volume_sizes" not in build_site_resources_note(SUPPLIES)["supplies"]
    assert read_recorded_site_resources(build_site_resources_note(SMALL)) == SMALL
