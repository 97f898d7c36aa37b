"""Tests of node re-creation, batch by batch.

The delete commands are printed, and the new nodes are awaited.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.domains.azure.providers.arm_changes import ArmTarget
from nexusform.domains.azure.providers.azure_requests import ArmClient, PollTiming
from nexusform.domains.azure.providers.node_recreation import (
    NodeRecreation,
    find_nodes_to_delete,
    plan_node_recreations,
    recreate_nodes,
)
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, StepPending, StepProgress

CLUSTER = ArmTarget("kubernetes_clusters", "rg", ("c",))
POOL_ID = "/x/agentPools/np1"


class Client:
    """A cluster with nodes deleted by an operator, one read after the printed commands."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.told: list[str] = []
        self.kubernetes_clusters = self

    def get(self, _group: str, _name: str, **_: Any) -> Any:
        self.names = [
            f"{name}-new" if f"delete node {name}\n" in "".join(self.told) else name
            for name in self.names
        ]
        return self

    def as_dict(self) -> dict[str, Any]:
        nodes = [
            {"name": n, "agentPoolId": POOL_ID, "bareMetalMachineId": "/m/m1"} for n in self.names
        ]
        return {"properties": {"nodes": nodes}}


def request(client: Client, *, stops: bool = False) -> ChangeRequest:
    def tell(news: StepProgress) -> None:
        client.told.append(news.message)

    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    return ChangeRequest(
        key, "a", {}, {}, report_progress=tell, has_operator=True, should_stop=lambda: stops
    )


def build_arm_client(client: Client) -> ArmClient:
    return ArmClient(client, "https://arm", "s", PollTiming(0.0))


def test_nodes_are_recreated_in_batches() -> None:
    client = Client(["a", "b", "other"])
    recreate_nodes(
        build_arm_client(client),
        CLUSTER,
        [NodeRecreation("np1", ("a", "b"), 1, 3)],
        request(client),
    )
    assert client.names == ["a-new", "b-new", "other"]
    assert [text.count(" delete node") for text in client.told] == [1, 1]
    assert all("Waiting for the deletion." in text for text in client.told)


@pytest.mark.parametrize(
    ("max_unavailable", "batch_size"), [(None, 1), ("0", 1), ("1", 1), ("2", 2), ("50%", 2)]
)
def test_nodes_are_recreated_as_many_at_a_time_as_may_be_unavailable(
    max_unavailable: str | None, batch_size: int
) -> None:
    """With 0, one at a time: Azure creates no surplus node for a deleted one."""
    names = ("vm-0", "vm-1", "vm-2")
    nodes = {f"np1-{name}": {"platform_name": name, "pool": "np1"} for name in names}
    settings = {"upgrade_settings": {"max_unavailable": max_unavailable}}
    final = {"kubernetes_cluster_id": "c", "agent_pool": {"np1": settings}, **settings}
    release = ChangeRequest(
        ObjectKey("nexus_kubernetes_cluster", "lab/c", 1),
        "a",
        {"nodes": nodes},
        {"nodes": {}},
        is_release=True,
        final_attributes={**final, "nodes": nodes},
    )
    (recreation,) = plan_node_recreations(release, ())
    assert recreation == NodeRecreation("np1", names, batch_size, 3)


def test_interrupt_ends_wait_and_keeps_step_pending() -> None:
    client = Client(["a", "other"])
    with pytest.raises(StepPending, match="apply -resume"):
        recreate_nodes(
            build_arm_client(client),
            CLUSTER,
            [NodeRecreation("np1", ("a",), 1, 2)],
            request(client, stops=True),
        )


@pytest.mark.parametrize("in_body", [None, ""])
def test_version_in_the_header_is_read_if_the_body_has_none(in_body: str | None) -> None:
    """Without a version, a change would overwrite those of others."""

    class VersionedClient(Client):
        def get(self, _group: str, _name: str, **options: Any) -> Any:
            options["raw_response_hook"](
                SimpleNamespace(http_response=SimpleNamespace(headers={"ETag": "v1"}))
            )
            return SimpleNamespace(as_dict=lambda: {"name": "c", "etag": in_body})

    assert build_arm_client(VersionedClient([])).get_body(CLUSTER) == {"name": "c", "etag": "v1"}


def test_node_without_an_observed_name_is_in_no_delete_command() -> None:
    """Two nodes that both have no platform name yet are not the same node."""
    observed = {
        f"np1-{number}": {"platform_name": name} for number, name in enumerate(["vm-0", None, None])
    }
    key = ObjectKey("nexus_kubernetes_cluster", "lab/c", 1)
    prior = {"nodes": observed}
    final = {"nodes": observed}
    release = ChangeRequest(key, "a", prior, {"nodes": {}}, is_release=True, final_attributes=final)
    assert find_nodes_to_delete(release, observed) == ["vm-0"]
