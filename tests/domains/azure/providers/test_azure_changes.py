"""The changes of resources in Azure that a step on a cluster takes, and their order."""

from __future__ import annotations

from nexusform.domains.azure.providers.azure_changes import SiteContext, build_changes
from nexusform.domains.azure.providers.azure_requests import Verb
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey

AROUND = SiteContext("lab-rg", {"location": "eastus"}, str)
PLANE = {"count": 1, "vm_sku_name": "NC_G6_28_v1"}


def _cluster(*pools: str) -> dict[str, object]:
    pool = {"count": 1, "vm_sku_name": "NC_P10_56_v1"}
    return {
        "name": "c",
        "control_plane": PLANE,
        "agent_pool": dict.fromkeys(pools, pool),
        "agent_pool_order": list(pools),
    }


def test_pools_go_in_the_order_of_their_blocks() -> None:
    """A resumed step goes on at the change that it came to: in another order it would pass some over."""
    pools = ("zebra", "ant", "mole", "bee", "yak", "cat", "owl")
    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    request = ChangeRequest(key, "nexus_kubernetes_cluster.c", _cluster(*pools, "last"), _cluster("last"))
    changes = build_changes(request, AROUND)
    assert [(change.verb, change.target.names[1]) for change in changes] == [(Verb.DELETE, name) for name in pools]
