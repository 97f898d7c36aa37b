"""Tests of incomplete or contradictory exports: the warnings, and the plans made from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CASE = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "clusters-055"
CLUSTERS = Path("export/kubernetes_clusters.json")
STATE = Path("state/nexusform.nfstate")
CLUSTER = "res-test-dpdk-naks-ea1ed"


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the export of a real site with one cluster of five nodes."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and all output on one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def import_site(capsys: pytest.CaptureFixture[str]) -> str:
    code, out = run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")
    assert code == 0, out
    return out


def edit_clusters() -> Iterator[dict[str, Any]]:
    document = json.loads(CLUSTERS.read_text())
    yield document["value"][0]["properties"]
    CLUSTERS.write_text(json.dumps(document))


def set_nodes(nodes: object) -> None:
    for body in edit_clusters():
        body.pop("nodes")
        if nodes != "missing":
            body["nodes"] = nodes


@pytest.mark.parametrize("nodes", ["missing", None])
def test_cluster_without_listed_nodes_keeps_nodes_of_state(
    nodes: object, capsys: pytest.CaptureFixture[str]
) -> None:
    import_site(capsys)
    before = STATE.read_bytes()
    set_nodes(nodes)
    warning = f"The nodes of 1 cluster were not captured ({CLUSTER}):"
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "5 kept" in out, warning in out) == (0, True, True, True)
    assert "0 to place, 0 to move, 0 to remove" in out
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, warning in out) == (2, True)
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, warning in out) == (2, True)
    assert "1 object not checked" in out
    assert STATE.read_bytes() == before


def test_import_reports_uncaptured_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    set_nodes("missing")
    out = import_site(capsys)
    assert f"The nodes of 1 cluster were not captured ({CLUSTER}): Their machines" in out
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True)
    shutil.copytree(CASE, "export", dirs_exist_ok=True)
    code, out = run_command(capsys, "plan")
    assert (code, "No changes." in out, "The nodes of" in out) == (0, True, False)


def test_empty_node_list_means_no_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    set_nodes([])
    code, out = run_command(capsys, "plan")
    assert (code, "do not fit: 0 of" in out, "The nodes of" in out) == (1, True, False), out


def test_sizes_known_only_from_nodes_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree("export")
    shutil.copytree(CASE.with_name("clusters-070"), "export")
    import_site(capsys)
    set_nodes("missing")
    code, out = run_command(capsys, "plan", "-details")
    assert (code, "No changes." in out, "The nodes of 1 cluster were not" in out) == (0, True, True)
    assert "no complete list of Kubernetes clusters" not in out


def test_reconcile_reports_missing_nodes_without_capacity_for_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import_site(capsys)
    set_nodes([])
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, "5 of 5 VMs are not where the state" in out, "do not fit" in out) == (
        2,
        True,
        False,
    ), out


def test_reconcile_checks_rules_on_remaining_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    cluster = f"${{nexus_kubernetes_cluster.{CLUSTER}.id}}"
    Path("rules.nf.hcl").write_text(
        'resource "nexus_separation_rule" "apart" {\n  scope = "rack"\n  enforcement = "deny"\n'
        f'  group {{\n    pool_ids = ["{cluster}/agentpool1"]\n  }}\n'
        f'  group {{\n    pool_ids = ["{cluster}/agentpool2"]\n  }}\n}}\n'
    )
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, "1 separation rule does not hold" in out) == (3, True), out
    for body in edit_clusters():
        body["nodes"] = [
            node for node in body["nodes"] if "agentpool2" not in str(node.get("agentPoolId"))
        ]
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, "1 of 5 VMs is not where the state" in out, "not hold" in out) == (
        2,
        True,
        False,
    ), out


def test_failed_reconcile_does_not_change_state(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    set_nodes([])
    before = STATE.read_bytes()
    Path("wrong.nf.hcl").write_text(
        'resource "nexus_rack" "more" {\n  site_id = 1 / 0\n  name = "r9"\n}\n'
    )
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, "Division by zero" in out, STATE.read_bytes() == before) == (1, True, True), out


def write_pools(*pools: str) -> None:
    """Write the file of the cluster's agent pools, with these pools of one node each."""
    for body in edit_clusters():
        of = {node.get("agentPoolId") or "" for node in body["nodes"]}
        sku = next(node["vmSkuName"] for node in body["nodes"] if node["role"] == "Worker")
    bodies = [
        {
            "id": pool_id,
            "name": pool_id.rpartition("/")[2],
            "properties": {
                "count": 1,
                "vmSkuName": sku,
                "mode": "System",
                "availabilityZones": ["1"],
                "labels": [{"key": "tier", "value": "gold"}],
            },
        }
        for pool_id in sorted(of)
        if pool_id.rpartition("/")[2] in pools
    ]
    Path(f"export/agent_pools.{CLUSTER}.json").write_text(json.dumps(bodies))


@pytest.mark.parametrize(
    ("listed", "lacking"), [((), "agent pools"), (("agentpool1",), "an agent pool")]
)
def test_nodes_of_unlisted_pools_are_reported(
    listed: tuple[str, ...], lacking: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pools("agentpool1", "agentpool2")
    import_site(capsys)
    write_pools(*listed)
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, f"nodes are of {lacking} not in the captured list" in out) == (2, True), out
    assert f"{CLUSTER}/agentpool2): treated as not captured" in out
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out


@pytest.mark.parametrize("clusters", ["[]", '{"value": []}'])
def test_agent_pools_with_an_empty_list_of_clusters(
    clusters: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pools("agentpool1", "agentpool2")
    import_site(capsys)
    before = STATE.read_bytes()
    CLUSTERS.write_text(clusters)
    warning = f"The agent pools of {CLUSTER} were captured, but not that cluster itself"
    code, out = run_command(capsys, "plan", "-detailed-exitcode", "-details")
    assert (code, "No changes." in out, "5 kept" in out, warning in out) == (0, True, True, True), (
        out
    )
    assert "1 Kubernetes cluster of site was not captured" in out.replace(
        "dev07-306abd797e6b", "site"
    ), out
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, warning in out, "1 object not checked" in out) == (2, True, True), out
    assert STATE.read_bytes() == before
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, out.count(warning), "The export has no list of Kubernetes" in out) == (
        2,
        1,
        False,
    )
    for file in Path("export").glob("agent_pools.*"):
        file.unlink()
    code, out = run_command(capsys, "plan")
    assert "has been deleted" in out


def test_duplicate_node_takes_capacity_on_both_machines(capsys: pytest.CaptureFixture[str]) -> None:
    for body in edit_clusters():
        worker = next(node for node in body["nodes"] if node["role"] == "Worker")
        other = next(node for node in body["nodes"] if node["role"] == "ControlPlane")
        assert other["bareMetalMachineId"] != worker["bareMetalMachineId"]
        other["name"] = worker["name"]
        body["nodes"].append(dict(worker))
    out = import_site(capsys)
    assert out.count(f'a node "{worker["name"]}" of {CLUSTER} is listed twice') == 1
    assert "the capacity on 1 other machine counts as used" in out
    assert "4 VMs imported" in out
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, "Duplicate node" in out or "is listed twice" in out) == (2, True), out
    assert "4 VMs" in out, out
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    # Four nodes exist; the control plane requests three, and Azure does not list one of them.
    assert (code, "No changes." in out, "5 kept" in out) == (0, True, True), out
    rows = [
        row["name"]
        for resource in json.loads(STATE.read_text())["resources"]
        if resource["type"] == "nexus_bare_metal_machine"
        for row in resource["instances"][0]["attributes"]["occupied"]
    ]
    assert rows == [f"{worker['name']} (listed twice)"]


def test_duplicate_node_on_one_machine_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    for body in edit_clusters():
        worker = next(node for node in body["nodes"] if node["role"] == "Worker")
        body["nodes"] += [dict(worker), {**worker, "bareMetalMachineId": None}]
    out = import_site(capsys)
    assert "is listed twice: it is read once." in out
    assert "5 VMs imported" in out


def read_pools_in_state() -> dict[str, Any]:
    resources = json.loads(STATE.read_text())["resources"]
    (cluster,) = [one for one in resources if one["type"] == "nexus_kubernetes_cluster"]
    return cluster["instances"][0]["attributes"]["agent_pool"]


def test_unlisted_pools_take_values_of_their_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    for body in edit_clusters():
        body["initialAgentPoolConfigurations"] = []
        for node in body["nodes"]:
            if "agentpool2" in str(node.get("agentPoolId")):
                node["labels"] = [
                    {"key": "kubernetes.azure.com/mode", "value": "system"},
                    {"key": "tier", "value": "gold"},
                ]
                node["taints"] = [{"key": "CriticalAddonsOnly", "value": "true:NoSchedule"}]
    out = import_site(capsys)
    assert out.count("only nodes are known of 2 agent pools") == 1
    assert "(the label of its nodes), User for the others" in out
    pools = read_pools_in_state()
    assert {name: pool["mode"] for name, pool in pools.items()} == {
        "agentpool1": "User",
        "agentpool2": "System",
    }
    assert pools["agentpool2"]["labels"] == {"tier": "gold"}
    assert [taint["effect"] for taint in pools["agentpool2"]["taint"]] == ["NoSchedule"]
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out


def test_single_unlisted_pool_is_a_system_pool(capsys: pytest.CaptureFixture[str]) -> None:
    for body in edit_clusters():
        body["initialAgentPoolConfigurations"] = []
    out = import_site(capsys)
    assert "the mode as System for" in out
    assert "(a cluster has at least one), User for the others" in out
    assert {name: pool["mode"] for name, pool in read_pools_in_state().items()} == {
        "agentpool1": "System",
        "agentpool2": "User",
    }


def test_unlisted_pool_takes_values_of_cluster_creation(capsys: pytest.CaptureFixture[str]) -> None:
    write_pools("agentpool1")
    for body in edit_clusters():
        # Ids are case-insensitive.
        for node in body["nodes"]:
            node["agentPoolId"] = node.get("agentPoolId") and node["agentPoolId"].upper()
    out = import_site(capsys)
    assert "agentpool2): treated as not captured" in out
    assert {name: pool["mode"] for name, pool in read_pools_in_state().items()} == {
        "agentpool1": "System",
        "agentpool2": "System",
    }


MACHINES = Path("export/bare_metal_machines.json")


def test_single_page_of_machines_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(MACHINES.read_text())
    MACHINES.write_text(json.dumps({"value": document["value"][:1], "nextLink": "https://next"}))
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, "this is one page of several" in out, "Unknown machine" in out) == (
        1,
        True,
        False,
    ), out


def test_azure_error_in_place_of_racks_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = {"code": "AuthorizationFailed", "message": "The client has no authorization."}
    Path("export/racks.json").write_text(json.dumps({"error": refusal}))
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, out.count("Error:")) == (1, 1), out
    assert (
        "this is an Azure error, not a list of resources: AuthorizationFailed: The client has no "
        "authorization."
    ) in out


@pytest.mark.parametrize("lacking", [("rackSlot",), ("rackId", "rackSlot")])
def test_truncated_machines_are_one_error(
    lacking: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(MACHINES.read_text())
    for machine in document["value"]:
        for name in lacking:
            del machine["properties"][name]
    MACHINES.write_text(json.dumps(document))
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, out.count("Error:")) == (1, 1), out
    assert (
        f"machines has {' and '.join(lacking)}: the list contains only part of each machine" in out
    )


def test_hub_documents_are_not_read_from_an_export(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ("ClusterResourcePlacement", "MemberCluster")
    hub = "\n---\n".join(f"apiVersion: x/v1\nkind: {kind}\nmetadata:\n  name: a" for kind in kinds)
    Path("export/hub.yaml").write_text(hub)
    out = import_site(capsys)
    assert (
        "objects of Kubernetes (ClusterResourcePlacement, MemberCluster): not read, except Nodes"
        in out
    )
    assert "`data fleet_hub_export`" in out


def test_duplicate_machine_name_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(MACHINES.read_text())
    document["value"][1]["name"] = document["value"][0]["name"]
    MACHINES.write_text(json.dumps(document))
    code, out = run_command(capsys, "inventory", "check", "export")
    assert (code, "Duplicate machine" in out, "Unknown machine" in out) == (1, True, False), out


@pytest.mark.parametrize(
    "name", ['a b "${x}', '"${x} "%{if}"', '\\"${x}\\', '$${"a"}"${', "a%%{", '"']
)
def test_names_with_special_characters_round_trip(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(CLUSTERS.read_text())
    document["value"][0]["name"] = name
    CLUSTERS.write_text(json.dumps(document))
    import_site(capsys)
    resources = json.loads(STATE.read_text())["resources"]
    (cluster,) = [one for one in resources if one["type"] == "nexus_kubernetes_cluster"]
    assert cluster["instances"][0]["attributes"]["name"] == name
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out
