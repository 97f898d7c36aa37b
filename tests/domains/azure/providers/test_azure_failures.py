"""Tests of failed changes with provider azure: a failed change stays pending until it succeeds."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.domains.azure.providers import azure_site
from nexusform.network.web_errors import find_free_port
from tests.domains.azure.providers.arm_server import ArmServer, Faults, build_machine_id
from tests.domains.azure.providers.azure_sites import (
    CLUSTER,
    NEW,
    SCALED,
    CommandRunner,
    write_configuration,
)

UPGRADED = 'resource "nexus_kubernetes_cluster" "c" {\n  kubernetes_version = "v1.30"\n}\n'


def count_patches(told: CommandRunner) -> int:
    return sum(method == "PATCH" for method, _ in told.changes())


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("configuration", [UPGRADED, SCALED], ids=["upgrade", "scale-out"])
def test_failed_change_is_pending_until_it_succeeds(
    configuration: str, rollback: bool, nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(configuration)
    server.site.faults = Faults(fails=1, rollback=rollback)
    assert nexusform("apply", "-auto-approve") == 1
    assert nexusform("plan", "-detailed-exitcode") == 2, nexusform.said
    assert (
        "(Failed): InsufficientResources: no machine has room. It is pending: apply sends it again"
        in nexusform.said
    )
    server.site.faults = Faults(fails=1, rollback=rollback)
    assert nexusform("apply", "-auto-approve") == 1
    assert "It failed the same way before: 2 times so far." in nexusform.said
    assert count_patches(nexusform) == 2  # once per apply
    server.site.faults = Faults()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert count_patches(nexusform) == 3
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_missing_nodes_are_an_error_and_pending(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure reports success, and two nodes of the count are missing."""
    monkeypatch.setattr(azure_site, "VISIBILITY_TIMEOUT", 0.02)
    write_configuration(SCALED)
    server.site.faults = Faults(short=2)
    assert nexusform("apply", "-auto-approve") == 1
    assert (
        "Azure shows 5 of 7 nodes of lab/c; missing: c-np1-2, c-np1-3 (Available)."
        in nexusform.said
    )
    assert nexusform("plan", "-detailed-exitcode") == 2
    assert "It is pending: apply sends it again" in nexusform.said
    assert nexusform("apply", "-auto-approve") == 1
    assert "It failed the same way before: 2 times so far." in nexusform.said
    server.site.faults = Faults()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == [("PATCH", "agentPools/np1")] * 3
    assert len(nexusform.nodes()) == 7
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


@pytest.mark.parametrize("listed", [True, False], ids=["no-nodes", "no-list"])
def test_cluster_created_without_nodes_is_pending(
    listed: bool, nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure reports the success of a creation, and shows no node, or no list of nodes."""
    monkeypatch.setattr(azure_site, "VISIBILITY_TIMEOUT", 0.02)
    write_configuration(NEW.partition('resource "nexus_agent_pool"')[0])
    server.site.faults = Faults(short=9)
    adjust_nodes = server.site.adjust_nodes

    def hide_nodes(cluster: str) -> None:
        adjust_nodes(cluster)
        if cluster.endswith("/d") and not listed and server.site.faults.short:
            del server.site.resources[cluster.lower()]["properties"]["nodes"]

    monkeypatch.setattr(server.site, "adjust_nodes", hide_nodes)
    for times in ("", " It failed the same way before: 2 times so far."):
        assert nexusform("apply", "-auto-approve") == 1, nexusform.said
        missing = "missing: d-control-plane-0, d-np1-0, d-np1-1 (Available)."
        assert f"Azure shows 0 of 3 nodes of lab/d; {missing}{times} " in nexusform.said, (
            nexusform.said
        )
        assert nexusform("plan", "-detailed-exitcode") == 2, nexusform.said
        assert "change-failed-before nexus_kubernetes_cluster.d" in nexusform.said
    server.site.faults = Faults()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert len(nexusform.nodes("d")) == 3
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_change_completed_by_another_client_is_not_pending(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(UPGRADED)
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1
    server.site.resources[CLUSTER]["properties"]["provisioningState"] = "Succeeded"
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert nexusform("apply", "-auto-approve") == 0
    assert count_patches(nexusform) == 1


def test_nothing_is_sent_during_another_operation(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(UPGRADED)
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1
    server.site.faults = Faults(conflicts=3)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert count_patches(nexusform) == 2
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_reverted_failed_change_sends_configured_value(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(UPGRADED)
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1
    write_configuration(UPGRADED.replace("v1.30", "v1.29"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.site.bodies[-1] == {"properties": {"kubernetesVersion": "v1.29"}}
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_secrets_of_failed_body_are_not_recorded(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    secret = 'variable "key" {\n  sensitive = true\n  default   = "s3cr3t"\n}\n'
    Path("key.nf.hcl").write_text(secret)
    configured = "administratorConfiguration = { sshPublicKeys = [{ keyData = var.key }] }"
    body = f"  azure {{\n    body = {{ properties = {{ {configured} }} }}\n  }}\n"
    write_configuration(f'resource "nexus_kubernetes_cluster" "c" {{\n{body}}}\n')
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    cluster = next(one for one in state["resources"] if one["type"] == "nexus_kubernetes_cluster")
    assert "s3cr3t" not in json.dumps(cluster)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    sent = [one["properties"]["administratorConfiguration"] for one in server.site.bodies]
    assert sent == [{"sshPublicKeys": [{"keyData": "s3cr3t"}]}] * 2


def test_vms_of_failed_creation_are_not_counted_as_existing(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(NEW)
    server.site.faults = Faults(fails=2)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 1
    assert nexusform("plan") == 0, nexusform.said
    assert "nexus_kubernetes_cluster.d 3 VMs to place (tainted)" in nexusform.said, nexusform.said
    # Azure has the VM v, but without a machine: it is placed and does not move.
    assert "Impact: no running workload affected" in nexusform.said, nexusform.said
    warning = "None is re-created automatically."
    assert "re-create" not in nexusform.said.replace(warning, "")
    assert "Placements: 5 to place, 0 to move, 0 to remove, 5 kept." in nexusform.said
    assert nexusform("plan", "-placements=all") == 0
    assert "+ v -> r2 / m5 (had no machine)" in nexusform.said, nexusform.said


@pytest.mark.parametrize(
    ("version", "code", "said"),
    [
        (
            "v1.28",
            1,
            "v1.29 -> v1.28 is a downgrade. A Kubernetes cluster cannot be downgraded. Keep v1.29.",
        ),
        ("v1.32", 1, "set v1.30.4-1 next. All hops: v1.29 -> v1.30.4-1 -> v1.31 -> v1.32."),
        (
            "v1.99",
            1,
            (
                "skips v1.30, v1.31, v1.32, v1.33 and 65 more. Upgrade one minor version at a "
                "time: set v1.30.4-1 next."
            ),
        ),
        ("v1.30.9", 1, "v1.29 -> 1.30.9: Azure offers v1.30.3-1, v1.30.4-1 for this cluster."),
        ("v1.30", 0, ""),
    ],
)
def test_unsupported_upgrade_is_reported_by_plan(
    version: str, code: int, said: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    offered = [{"version": one} for one in ("v1.30.3-1", "v1.30.4-1")]
    server.site.resources[CLUSTER]["properties"]["availableUpgrades"] = offered
    write_configuration(UPGRADED.replace("v1.30", version))
    assert nexusform("plan", "-details") == code, nexusform.said
    assert said in nexusform.said, nexusform.said
    assert ("No such upgrade" in nexusform.said or "no-such-upgrade" in nexusform.said) == bool(
        said
    )


def test_reconcile_reads_azure_directly(nexusform: CommandRunner, server: ArmServer) -> None:
    assert nexusform("reconcile", "-from=azure") == 0, nexusform.said
    name = f"/{nexusform.nodes()[0]['name']}"[1:]
    server.site.resources[CLUSTER]["properties"]["nodes"][0]["bareMetalMachineId"] = (
        build_machine_id("m6")
    )
    assert nexusform("reconcile", "-from=azure", "-replay") == 2, nexusform.said
    assert name in nexusform.said or "m6" in nexusform.said
    assert "expected for random machines with capacity: 59.4 %" in nexusform.said


def test_password_of_a_netrc_file_does_not_replace_the_token(
    nexusform: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine localhost login me password canary\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert nexusform("plan") == 0, nexusform.said


def test_silent_server_delays_plan_up_to_the_deadline_only(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Event()
    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    monkeypatch.setattr(server, "at_request", lambda _number, _after: over.wait(60) and None)
    try:
        assert nexusform("plan") == 1
    finally:
        over.set()
    assert "Azure cannot be read" in nexusform.said
    monkeypatch.setenv("NF_NET_DEADLINE", "soon")
    assert nexusform("plan") == 1
    assert 'NF_NET_DEADLINE="soon" must be a whole number of seconds' in nexusform.said


def test_failed_vm_without_machine_is_placed_and_does_not_move(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(NEW[NEW.index('resource "nexus_virtual_machine"') :])
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1
    assert nexusform("plan") == 0, nexusform.said
    assert "Placements: 1 to place, 0 to move, 0 to remove, 5 kept." in nexusform.said, (
        nexusform.said
    )
    assert "Impact: no running workload affected" in nexusform.said


def test_unreachable_azure_is_described(
    nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_AZURE_ENDPOINT", f"https://localhost:{find_free_port()}")
    assert nexusform("plan") == 1
    assert "Azure cannot be read: localhost: the connection was refused" in nexusform.said
    assert "HTTPSConnection" not in nexusform.said
