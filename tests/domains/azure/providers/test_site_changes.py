"""Tests of wrong predictions: another rule of the scheduler, or a site changed since the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.resources.address import Address
from nexusform.state.objects import ObjectState
from nexusform.workflow.runs.site_changes import _describe_changes
from tests.domains.azure.providers.arm_server import (
    GROUP,
    LOCATION,
    NEXUS,
    PROVIDER,
    ArmServer,
    Site,
    build_machine_id,
)
from tests.domains.azure.providers.azure_sites import (
    PROVIDER_BLOCK,
    CommandRunner,
    write_configuration,
)

CLUSTER = """resource "nexus_kubernetes_cluster" "d" {
  provider           = azure
  site_id            = nexus_site.lab.id
  name               = "d"
  kubernetes_version = "v1.29"
  control_plane {
    count       = 1
    vm_sku_name = "NC_P10_56_v1"
  }
  agent_pool "np1" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
  azure {
    resource_group = "tenants"
    body = {
      properties = {
        networkConfiguration = { cniNetworkId = "/n/cni", cloudServicesNetworkId = "/n/csn" }
      }
    }
  }
}
"""
OTHER_RULE = "so the scheduler follows another rule than this plan assumes."
ALICE = {"lastModifiedBy": "alice@contoso.com", "lastModifiedAt": "2026-05-01T08:00:00Z"}


def cordon_machine(site: Site) -> None:
    machine = site.resources[build_machine_id("m4").lower()]
    machine["properties"]["cordonStatus"] = "Cordoned"


def create_vm(site: Site) -> None:
    vm = {
        "clusterId": NEXUS,
        "provisioningState": "Succeeded",
        "cpuCores": 8,
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 16,
        "storageProfile": {"osDisk": {"diskSizeGB": 64}},
        "bareMetalMachineId": build_machine_id("m4"),
    }
    vm_id = f"{GROUP}/{PROVIDER}/virtualMachines/guest"
    body = {"extendedLocation": LOCATION, "location": "eastus", "properties": vm}
    site.put(vm_id, {**body, "systemData": ALICE})


def scale_other_cluster(site: Site) -> None:
    path = f"{GROUP}/{PROVIDER}/kubernetesClusters/c"
    site.resources[f"{path}/agentPools/web".lower()]["properties"]["count"] = 3
    site.resources[path.lower()]["systemData"] = ALICE
    site.adjust_nodes(path)


def change_role(site: Site) -> None:
    machine = site.resources[build_machine_id("m4").lower()]
    machine["properties"]["machineRoles"] = ["platform.afo-nc.microsoft.com/control-plane=true"]


def begin_reimage(site: Site) -> None:
    machine = site.resources[build_machine_id("m4").lower()]
    run = {
        "actionType": "Microsoft.NetworkCloud/bareMetalMachines/reimage/action",
        "startTime": "2026-05-01T08:00:00Z",
        "status": "InProgress",
    }
    machine["properties"]["actionStates"] = [run]


CHANGES = {
    "role": (change_role, ("m4: roles control-plane",)),
    "reimage": (begin_reimage, ("m4: reimage since 2026-05-01T08:00:00Z",)),
    "cordon": (cordon_machine, ("m4: cordon_status Cordoned by other since",)),
    "vm": (create_vm, ("VM guest appeared on m4 (by alice@contoso.com at 2026-05-01T08:00:00Z)",)),
    "scaled": (
        scale_other_cluster,
        ("nexus_kubernetes_cluster.c: ", "(by alice@contoso.com at 2026-05-01T08:00:00Z)"),
    ),
}


def plan_cluster(nexusform: CommandRunner, server: ArmServer) -> None:
    """Plan a cluster that Azure will pack on one machine."""
    write_configuration(CLUSTER)
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    server.site.place = lambda _pool, _number: "m1"


def test_wrong_prediction_on_unchanged_site_is_another_rule(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    plan_cluster(nexusform, server)
    assert nexusform("apply", "p") == 0
    assert nexusform.alarmed, nexusform.said
    assert f"Nothing else changed on the site since the plan, {OTHER_RULE}" in nexusform.said


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_prediction_on_changed_site_names_the_change(
    name: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    plan_cluster(nexusform, server)
    change: Callable[[Site], None]
    change, sentences = CHANGES[name]
    change(server.site)
    assert nexusform("apply", "p") == 0
    assert nexusform.alarmed, nexusform.said
    warning = nexusform.said.partition("Wrong certain predictions")[2]
    assert "The site changed since the plan: " in warning, warning
    for sentence in sentences:
        assert sentence in warning, warning
    assert "another rule" not in warning


def test_wrong_prediction_on_unreadable_site_has_no_verdict(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_cluster(nexusform, server)

    def fail(*_: Any) -> None:
        raise ProviderProblem("Azure does not answer.")

    monkeypatch.setattr("nexusform.workflow.runs.site_changes.refresh_objects", fail)
    assert nexusform("apply", "p") == 0
    assert nexusform.alarmed, nexusform.said
    assert (
        "another rule than this plan assumes, or something else changed in between. The site "
        "cannot be read again: Azure does not answer. Check the site"
    ) in nexusform.said, nexusform.said


class SilentProvider:
    """Provider that knows no authors."""

    def describe_last_change(self, _type: str, _object_id: str) -> str:
        return ""


@pytest.mark.parametrize(
    ("sensitive_path", "visible_path"),
    [(("labels", "token"), "labels.token"), (("labels",), "labels"), ((), "it")],
)
@pytest.mark.parametrize("is_sensitive_before", [True, False])
def test_sensitive_value_of_a_changed_object_is_not_shown(
    sensitive_path: tuple[str, ...], visible_path: str, is_sensitive_before: bool
) -> None:
    address = Address((), "managed", "nexus_agent_pool", "p")
    sides = [
        ObjectState(
            {"id": "lab/c/p", "labels": {"token": token}},
            creation=1,
            sensitive=(sensitive_path,) if is_sensitive is is_sensitive_before else (),
        )
        for token, is_sensitive in (("s3cret", True), ("0ther-s3cret", False))
    ]
    provider: Any = SilentProvider()
    texts = list(_describe_changes(provider, address, *sides, own_ids=set()))
    assert texts == [f"nexus_agent_pool.p: {visible_path} has another value"]


def test_value_beside_a_sensitive_one_is_shown() -> None:
    address = Address((), "managed", "nexus_agent_pool", "p")
    sides = [
        ObjectState({"id": "p", "node_count": count}, creation=1, sensitive=(("labels",),))
        for count in (1, 2)
    ]
    provider: Any = SilentProvider()
    texts = list(_describe_changes(provider, address, *sides, own_ids=set()))
    assert texts == ["nexus_agent_pool.p: node_count changed from 1 to 2"]


@pytest.mark.parametrize("action", ["Cordon", "PowerOff"])
def test_machine_action_of_the_plan_is_no_change_of_others(
    action: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    provider = PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n")
    Path("main.nf.hcl").write_text(provider)
    write_configuration(
        CLUSTER
        + f"""resource "nexus_bare_metal_machine_action" "x" {{
  provider   = azure
  machine_id = "lab/r2/m6"
  action     = "{action}"
  depends_on = [nexus_kubernetes_cluster.d]
}}
"""
    )
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    server.site.place = lambda _pool, _number: "m1"
    assert nexusform("apply", "p") in (0, 2), nexusform.said
    assert any(path.casefold().endswith("m6/" + action.casefold()) for _, path in server.site.taken)
    assert nexusform.alarmed, nexusform.said
    assert "m6: " not in nexusform.said.partition("Wrong certain predictions")[2]
