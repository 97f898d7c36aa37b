"""Tests of the order of VM requests if it decides the placement."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import NEW, CommandRunner, write_configuration

VM = NEW[NEW.index('resource "nexus_virtual_machine"') :]
VMS = "".join(VM.replace('"v"', f'"v{number}"') for number in range(4))
CLUSTER = """resource "nexus_kubernetes_cluster" "NAME" {
  provider           = azure
  site_id            = nexus_site.lab.id
  name               = "NAME"
  kubernetes_version = "v1.29"
  control_plane {
    count              = 1
    vm_sku_name        = "NC_P22_112_v1"
    availability_zones = ["ZONE"]
  }
  azure {
    resource_group = "tenants"
    body = {
      properties = { networkConfiguration = { cniNetworkId = "/n/cni", cloudServicesNetworkId = "/n/csn" } }
    }
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("parallelism", [1, 10])
def test_vms_are_requested_sequentially(
    parallelism: int, nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(VMS)
    server.site.faults.polls = 3
    assert nexusform("apply", "-auto-approve", f"-parallelism={parallelism}") == 0, nexusform.said
    assert nexusform.changes() == [("PUT", f"virtualMachines/v{number}") for number in range(4)]
    requests = [
        path
        for method, path, _ in server.site.asked
        if method == "PUT" or "operationStatuses" in path
    ]
    puts = [number for number, path in enumerate(requests) if "virtualMachines" in path]
    assert all(later - earlier > 1 for earlier, later in pairwise(puts)), "each ends first"


def test_independent_clusters_are_created_together(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of clusters in different zones are sent in parallel.

    They do not compete for machines.
    """
    write_configuration(
        "".join(CLUSTER.replace("NAME", f"d{zone}").replace("ZONE", zone) for zone in "12")
    )
    # The first request ends only after the second one arrived.
    server.site.faults.polls = 10**6

    def complete_both(_number: int, _after: bool) -> None:
        if len(server.site.operations) > 1 or server.requests > 2000:
            for operation in server.site.operations.values():
                operation.polls = min(operation.polls, 1)

    monkeypatch.setattr(server, "at_request", complete_both)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.requests < 2000


CLUSTER_WITH_POOL = NEW.partition('resource "nexus_virtual_machine"')[0]
UPGRADED = CLUSTER_WITH_POOL.replace('"v1.29"', '"v1.30"')
NO_SURGE = '  upgrade_settings {\n    max_surge = "0"\n    max_unavailable = "1"\n  }\n}\n'


@pytest.mark.parametrize(
    ("has_new_settings", "count", "expected"),
    [
        (True, 3, [("more", ["upgradeSettings"]), ("d", ["kubernetesVersion"])]),
        (False, 2, [("more", ["count"]), ("d", ["kubernetesVersion"])]),
        (True, 2, [("more", ["count", "upgradeSettings"]), ("d", ["kubernetesVersion"])]),
        (
            True,
            4,
            [("more", ["upgradeSettings"]), ("d", ["kubernetesVersion"]), ("more", ["count"])],
        ),
    ],
)
def test_separate_pool_is_ready_before_the_upgrade_of_its_cluster(
    has_new_settings: bool,
    count: int,
    expected: list[Any],
    nexusform: CommandRunner,
    server: ArmServer,
) -> None:
    """Azure runs the upgrade with the settings and the count that the pool has then."""
    before = "node_count            = 1"
    write_configuration(CLUSTER_WITH_POOL.replace(before, "node_count            = 3"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    sent_before = len(server.site.taken)
    text = UPGRADED.replace(before, f"node_count            = {count}")
    write_configuration(f"{text.rstrip()[:-1]}{NO_SURGE}" if has_new_settings else text)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    paths = [path for _, path in server.site.taken[sent_before:]]
    bodies = server.site.bodies[-len(paths) :]
    assert [
        (path.rsplit("/", 1)[1], sorted(body["properties"]))
        for path, body in zip(paths, bodies, strict=True)
    ] == expected
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (1, 3, ["kubernetesVersion", "controlPlaneNodeConfiguration"]),
        (3, 1, ["controlPlaneNodeConfiguration", "kubernetesVersion"]),
    ],
)
def test_upgrade_and_control_plane_count_are_sent_one_after_the_other(
    old: int, new: int, expected: list[str], nexusform: CommandRunner, server: ArmServer
) -> None:
    text = CLUSTER.replace("NAME", "d").replace('["ZONE"]', '["1", "2"]')
    write_configuration(text.replace("count              = 1", f"count              = {old}"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    changed = text.replace("count              = 1", f"count              = {new}")
    write_configuration(changed.replace('"v1.29"', '"v1.30"'))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert [list(body["properties"]) for body in server.site.bodies[-2:]] == [
        [name] for name in expected
    ]
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
