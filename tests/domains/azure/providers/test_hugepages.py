"""Tests of hugepages of agent pools with provider azure.

Azure sets them only when it creates a pool.
"""

from __future__ import annotations

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import ArmServer
from tests.domains.azure.providers.azure_sites import NEW, CommandRunner, write_configuration

ONE_SIZE = "Azure takes hugepages of one size in whole pages: hugepages-1Gi or hugepages-2Mi."


def write_pages(amounts: str, sku: str = "NC_P22_112_v1", labels: str = "") -> None:
    pool = f"""
  agent_pool "np2" {{
    count       = 2
    vm_sku_name = "{sku}"
    {f"labels = {labels}" if labels else ""}
    kubelet {{
      extended_resources = {{ {amounts} }}
    }}
    upgrade_settings {{
      max_unavailable = "100%"
    }}
  }}
  azure {{"""
    write_configuration(NEW.replace("\n  azure {", pool, 1))


@pytest.mark.parametrize(
    "amounts",
    [
        '"hugepages-1Gi" = "8Gi", "hugepages-2Mi" = "64Mi"',
        '"hugepages-1Gi" = "8704Mi"',
        '"hugepages-64Ki" = "64Mi"',
    ],
)
def test_hugepages_that_azure_cannot_create_are_rejected(
    amounts: str, nexusform: CommandRunner
) -> None:
    write_pages(amounts)
    assert nexusform("plan") == 1
    assert ONE_SIZE in nexusform.said


def test_hugepages_of_a_cluster_are_declared_per_pool(nexusform: CommandRunner) -> None:
    kubelet = 'kubelet {\n    extended_resources = { "hugepages-1Gi" = "8Gi" }\n  }\n  azure {'
    write_configuration(NEW.replace("azure {", kubelet, 1))
    assert nexusform("plan") == 1
    assert "Declare them in the kubelet block of each agent_pool." in nexusform.said


@pytest.mark.parametrize("amounts", ['"hugepages-1Gi" = "16Gi"', '"hugepages-2Mi" = "8Gi"', ""])
def test_hugepages_of_a_pool_cannot_change(amounts: str, nexusform: CommandRunner) -> None:
    write_pages('"hugepages-1Gi" = "8Gi"')
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    write_pages(amounts)
    assert nexusform("plan") == 1
    assert "Azure cannot change the hugepages of the pool np2 after its creation." in nexusform.said


@pytest.mark.parametrize(
    "amounts", ['"hugepages-1Gi" = "8192Mi"', '"hugepages-1Gi" = ["4Gi", "4Gi"]']
)
def test_equal_hugepages_are_sent_once(
    amounts: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    write_pages(amounts)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    sent = len(server.site.bodies)
    write_pages('"hugepages-1Gi" = "8Gi"')
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert len(server.site.bodies) == sent


@pytest.mark.parametrize("change", ["NC_P10_56_v1", "labels"])
def test_recreated_pool_gets_other_hugepages(
    change: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    labels = '{ a = "b" }' if change == "labels" else ""
    write_pages('"hugepages-1Gi" = "8Gi"', labels=labels)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    write_pages(
        '"hugepages-1Gi" = "16Gi"', sku="NC_P22_112_v1" if labels else change
    )  # without labels
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.site.bodies[-1]["properties"]["agentOptions"] == {
        "hugepagesCount": 16,
        "hugepagesSize": "1G",
    }
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
