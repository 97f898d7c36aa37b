"""Exports that leave out a part, or contradict themselves: what is said, and what plans make of it."""

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
    """The export of a real site with one cluster of five nodes."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and all text, in one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def imported(capsys: pytest.CaptureFixture[str]) -> str:
    code, out = told(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")
    assert code == 0, out
    return out


def cluster_body() -> Iterator[dict[str, Any]]:
    document = json.loads(CLUSTERS.read_text())
    yield document["value"][0]["properties"]
    CLUSTERS.write_text(json.dumps(document))


def with_nodes(nodes: object) -> None:
    for body in cluster_body():
        body.pop("nodes")
        if nodes != "missing":
            body["nodes"] = nodes


@pytest.mark.parametrize("nodes", ["missing", None])
def test_a_cluster_that_tells_no_nodes_keeps_those_of_the_state(
    nodes: object, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(capsys)
    before = STATE.read_bytes()
    with_nodes(nodes)
    warning = f"The nodes of 1 cluster were not captured ({CLUSTER}):"
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "5 kept" in out, warning in out) == (0, True, True, True)
    assert "0 to place, 0 to move, 0 to remove" in out
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, warning in out) == (2, True)
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, warning in out) == (2, True)
    assert "1 object not checked" in out
    assert STATE.read_bytes() == before


def test_an_import_says_that_nodes_were_not_captured(capsys: pytest.CaptureFixture[str]) -> None:
    with_nodes("missing")
    out = imported(capsys)
    assert f"The nodes of 1 cluster were not captured ({CLUSTER}): Their machines" in out
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True)
    shutil.copytree(CASE, "export", dirs_exist_ok=True)
    code, out = told(capsys, "plan")
    assert (code, "No changes." in out, "The nodes of" in out) == (0, True, False)


def test_an_empty_list_of_nodes_says_that_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    imported(capsys)
    with_nodes([])
    code, out = told(capsys, "plan")
    assert (code, "do not fit: 0 of" in out, "The nodes of" in out) == (1, True, False), out


def test_nodes_that_alone_tell_sizes_are_kept_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree("export")
    shutil.copytree(CASE.with_name("clusters-070"), "export")
    imported(capsys)
    with_nodes("missing")
    code, out = told(capsys, "plan", "-details")
    assert (code, "No changes." in out, "The nodes of 1 cluster were not" in out) == (0, True, True)
    assert "no complete list of Kubernetes clusters" not in out


def test_reconcile_reports_nodes_that_are_gone_though_new_ones_would_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    imported(capsys)
    with_nodes([])
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, "5 of 5 VMs are not where the state" in out, "do not fit" in out) == (2, True, False), out


def test_reconcile_judges_the_rules_on_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    imported(capsys)
    cluster = f"${{nexus_kubernetes_cluster.{CLUSTER}.id}}"
    Path("rules.nf.hcl").write_text(
        'resource "nexus_separation_rule" "apart" {\n  scope = "rack"\n  enforcement = "deny"\n'
        f'  group {{\n    pool_ids = ["{cluster}/agentpool1"]\n  }}\n'
        f'  group {{\n    pool_ids = ["{cluster}/agentpool2"]\n  }}\n}}\n'
    )
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, "1 separation rule does not hold" in out) == (3, True), out
    for body in cluster_body():
        body["nodes"] = [node for node in body["nodes"] if "agentpool2" not in str(node.get("agentPoolId"))]
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, "1 of 5 VMs is not where the state" in out, "not hold" in out) == (2, True, False), out


def test_a_reconcile_that_fails_leaves_the_state_alone(capsys: pytest.CaptureFixture[str]) -> None:
    imported(capsys)
    with_nodes([])
    before = STATE.read_bytes()
    Path("wrong.nf.hcl").write_text('resource "nexus_rack" "more" {\n  site_id = 1 / 0\n  name = "r9"\n}\n')
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, "Division by zero" in out, STATE.read_bytes() == before) == (1, True, True), out


def write_pools(*pools: str) -> None:
    """The file of the cluster's agent pools, with these pools of one node each."""
    for body in cluster_body():
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


@pytest.mark.parametrize(("listed", "lacking"), [((), "agent pools"), (("agentpool1",), "an agent pool")])
def test_nodes_of_pools_that_the_list_lacks_are_told(
    listed: tuple[str, ...], lacking: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pools("agentpool1", "agentpool2")
    imported(capsys)
    write_pools(*listed)
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, f"nodes are of {lacking} not in the captured list" in out) == (2, True), out
    assert f"{CLUSTER}/agentpool2): treated as not captured" in out
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out


@pytest.mark.parametrize("clusters", ["[]", '{"value": []}'])
def test_agent_pools_beside_an_empty_list_of_clusters(clusters: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_pools("agentpool1", "agentpool2")
    imported(capsys)
    before = STATE.read_bytes()
    CLUSTERS.write_text(clusters)
    warning = f"The agent pools of {CLUSTER} were captured, but not that cluster itself"
    code, out = told(capsys, "plan", "-detailed-exitcode", "-details")
    assert (code, "No changes." in out, "5 kept" in out, warning in out) == (0, True, True, True), out
    assert "1 Kubernetes cluster of site was not captured" in out.replace("dev07-306abd797e6b", "site"), out
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, warning in out, "1 object not checked" in out) == (2, True, True), out
    assert STATE.read_bytes() == before
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, out.count(warning), "The export has no list of Kubernetes" in out) == (2, 1, False)
    for file in Path("export").glob("agent_pools.*"):
        file.unlink()
    code, out = told(capsys, "plan")
    assert "has been deleted" in out


def test_a_node_that_stands_twice_holds_its_room_on_both_machines(capsys: pytest.CaptureFixture[str]) -> None:
    for body in cluster_body():
        worker = next(node for node in body["nodes"] if node["role"] == "Worker")
        other = next(node for node in body["nodes"] if node["role"] == "ControlPlane")
        assert other["bareMetalMachineId"] != worker["bareMetalMachineId"]
        other["name"] = worker["name"]
        body["nodes"].append(dict(worker))
    out = imported(capsys)
    assert out.count(f'a node "{worker["name"]}" of {CLUSTER} is listed twice') == 1
    assert "the capacity on 1 other machine counts as used" in out
    assert "4 VMs imported" in out
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, "Duplicate node" in out or "is listed twice" in out) == (2, True), out
    assert "4 VMs" in out, out
    code, out = told(capsys, "plan", "-detailed-exitcode")
    # Four stand; the control plane asks for three, and one of them Azure does not show.
    assert (code, "No changes." in out, "5 kept" in out) == (0, True, True), out
    rows = [
        row["name"]
        for resource in json.loads(STATE.read_text())["resources"]
        if resource["type"] == "nexus_bare_metal_machine"
        for row in resource["instances"][0]["attributes"]["occupied"]
    ]
    assert rows == [f"{worker['name']} (listed twice)"]


def test_a_node_that_stands_twice_on_one_machine_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    for body in cluster_body():
        worker = next(node for node in body["nodes"] if node["role"] == "Worker")
        body["nodes"] += [dict(worker), {**worker, "bareMetalMachineId": None}]
    out = imported(capsys)
    assert "is listed twice: it is read once." in out
    assert "5 VMs imported" in out


def pools_in_state() -> dict[str, Any]:
    resources = json.loads(STATE.read_text())["resources"]
    (cluster,) = [one for one in resources if one["type"] == "nexus_kubernetes_cluster"]
    return cluster["instances"][0]["attributes"]["agent_pool"]


def test_pools_that_only_nodes_tell_are_as_their_nodes_are(capsys: pytest.CaptureFixture[str]) -> None:
    for body in cluster_body():
        body["initialAgentPoolConfigurations"] = []
        for node in body["nodes"]:
            if "agentpool2" in str(node.get("agentPoolId")):
                node["labels"] = [
                    {"key": "kubernetes.azure.com/mode", "value": "system"},
                    {"key": "tier", "value": "gold"},
                ]
                node["taints"] = [{"key": "CriticalAddonsOnly", "value": "true:NoSchedule"}]
    out = imported(capsys)
    assert out.count("only nodes are known of 2 agent pools") == 1
    assert "(the label of its nodes), User for the others" in out
    pools = pools_in_state()
    assert {name: pool["mode"] for name, pool in pools.items()} == {"agentpool1": "User", "agentpool2": "System"}
    assert pools["agentpool2"]["labels"] == {"tier": "gold"}
    assert [taint["effect"] for taint in pools["agentpool2"]["taint"]] == ["NoSchedule"]
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out


def test_one_pool_that_only_nodes_tell_is_a_system_pool(capsys: pytest.CaptureFixture[str]) -> None:
    for body in cluster_body():
        body["initialAgentPoolConfigurations"] = []
    out = imported(capsys)
    assert "the mode as System for" in out
    assert "(a cluster has at least one), User for the others" in out
    assert {name: pool["mode"] for name, pool in pools_in_state().items()} == {
        "agentpool1": "System",
        "agentpool2": "User",
    }


def test_a_pool_that_the_list_lacks_is_as_its_cluster_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    write_pools("agentpool1")
    for body in cluster_body():
        for node in body["nodes"]:  # an id in other letters is the same id
            node["agentPoolId"] = node.get("agentPoolId") and node["agentPoolId"].upper()
    out = imported(capsys)
    assert "agentpool2): treated as not captured" in out
    assert {name: pool["mode"] for name, pool in pools_in_state().items()} == {
        "agentpool1": "System",
        "agentpool2": "System",
    }


MACHINES = Path("export/bare_metal_machines.json")


def test_a_page_of_machines_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(MACHINES.read_text())
    MACHINES.write_text(json.dumps({"value": document["value"][:1], "nextLink": "https://next"}))
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, "this is one page of several" in out, "Unknown machine" in out) == (1, True, False), out


def test_what_azure_answered_instead_of_racks_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = {"code": "AuthorizationFailed", "message": "The client has no authorization."}
    Path("export/racks.json").write_text(json.dumps({"error": refusal}))
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, out.count("Error:")) == (1, 1), out
    assert (
        "this is an Azure error, not a list of resources: AuthorizationFailed: The client has no authorization."
    ) in out


@pytest.mark.parametrize("lacking", [("rackSlot",), ("rackId", "rackSlot")])
def test_machines_that_are_cut_short_are_one_error(
    lacking: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(MACHINES.read_text())
    for machine in document["value"]:
        for name in lacking:
            del machine["properties"][name]
    MACHINES.write_text(json.dumps(document))
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, out.count("Error:")) == (1, 1), out
    assert f"machines has {' and '.join(lacking)}: the list contains only part of each machine" in out


def test_documents_of_a_hub_have_a_reader_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ("ClusterResourcePlacement", "MemberCluster")
    hub = "\n---\n".join(f"apiVersion: x/v1\nkind: {kind}\nmetadata:\n  name: a" for kind in kinds)
    Path("export/hub.yaml").write_text(hub)
    out = imported(capsys)
    assert "objects of Kubernetes (ClusterResourcePlacement, MemberCluster): not read, except Nodes" in out
    assert "`data fleet_hub_export`" in out


def test_two_machines_of_one_name_are_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(MACHINES.read_text())
    document["value"][1]["name"] = document["value"][0]["name"]
    MACHINES.write_text(json.dumps(document))
    code, out = told(capsys, "inventory", "check", "export")
    assert (code, "Duplicate machine" in out, "Unknown machine" in out) == (1, True, False), out


@pytest.mark.parametrize("name", ['a b "${x}', '"${x} "%{if}"', '\\"${x}\\', '$${"a"}"${', "a%%{", '"'])
def test_names_of_any_letters_are_written_so_that_they_read_back(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(CLUSTERS.read_text())
    document["value"][0]["name"] = name
    CLUSTERS.write_text(json.dumps(document))
    imported(capsys)
    resources = json.loads(STATE.read_text())["resources"]
    (cluster,) = [one for one in resources if one["type"] == "nexus_kubernetes_cluster"]
    assert cluster["instances"][0]["attributes"]["name"] == name
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out
