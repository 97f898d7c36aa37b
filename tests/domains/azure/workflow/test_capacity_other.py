"""Tests of networks and storage of an export in plans and reports, on bodies of real servers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CASE = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "clusters-070"
MORE = os.environ.get("NEXUSFORM_AZURE_BODIES", "")


def read_bodies(path: Path) -> list[dict[str, Any]]:
    read: Any = json.loads(path.read_text())
    return read["value"] if isinstance(read, dict) else read


NETWORK: dict[str, Any] = {
    "cniNetworkId": "/subscriptions/0/providers/Microsoft.NetworkCloud/l3Networks/l3network-504",
    "podCidrs": ["10.244.0.0/16"],
}


def name_network(directory: Path) -> None:
    """Add the network of the nodes to clusters without one."""
    path = directory / "kubernetes_clusters.json"
    clusters = read_bodies(path)
    for cluster in clusters:
        (cluster.get("properties") or cluster).setdefault("networkConfiguration", NETWORK)
    path.write_text(json.dumps(clusters))


def add_networks(directory: Path, prefix: str) -> None:
    """Write lists of networks and storage for the site of the cluster.

    Its nodes are on the network.
    """
    cluster = read_bodies(directory / "kubernetes_clusters.json")[0]
    properties = cluster.get("properties") or cluster
    network_id = properties["networkConfiguration"]["cniNetworkId"]
    at = {"extendedLocation": cluster["extendedLocation"]}
    scope = network_id.rpartition("/l3Networks/")[0]
    network = {
        "id": network_id,
        "name": network_id.rpartition("/")[2],
        "properties": {"ipv4ConnectedPrefix": prefix},
    }
    appliance = {
        "id": f"{scope}/storageAppliances/sa",
        "name": "sa",
        "capacity": 100,
        "capacityUsed": 99,
    }
    volume = {"id": f"{scope}/volumes/v", "name": "v", "sizeMiB": 2048}
    for name, body in (
        ("l3_networks", network),
        ("storage_appliances", appliance),
        ("volumes", volume),
    ):
        (directory / f"{name}.json").write_text(json.dumps([{**at, **body}]))


def plan_site(
    capsys: pytest.CaptureFixture[str],
) -> tuple[str, dict[tuple[str, str], dict[str, Any]]]:
    """Return the text of a plan, and its `capacity_other` by kind and name."""
    assert run_command_line(["plan", "-report=json:plan.json"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    rows = json.loads(Path("plan.json").read_text()).get("capacity_other", [])
    return text, {(row["kind"], row["name"]): row for row in rows}


def list_exhaustion_warnings(plan: str) -> list[dict[str, Any]]:
    """Return the warnings of a plan about exhausted site resources."""
    diagnostics = json.loads(Path(plan).read_text())["diagnostics"]
    return [each for each in diagnostics if each["id"] == "exhausted-site-resources"]


@pytest.fixture(name="site")
def imported_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")
    name_network(tmp_path / "export")
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.mark.usefixtures("site")
def test_uncaptured_resources_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    _, rows = plan_site(capsys)
    assert rows["l3_network", "l3network-504"]["total"] is None
    assert not rows["storage_appliance", None]["captured"]
    assert run_command_line(["plan", "-report=markdown:plan.md"]) == 0
    assert (
        "| addresses left for nodes, at most | not captured | not captured |"
        in Path("plan.md").read_text()
    )
    capsys.readouterr()


def test_plan_reports_exhausted_resources(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """6 nodes are on a network of 6 addresses; one more node and an upgrade do not fit."""
    add_networks(site / "export", "10.0.0.0/29")
    _, rows = plan_site(capsys)
    row = rows["l3_network", "l3network-504"]
    assert (row["total"], row["used_before"], row["maximum_free_after"], row["surge"]) == (
        6,
        6,
        0,
        1,
    )
    assert row["lacks"]
    assert rows["storage_appliance", "sa"]["maximum_free_after"] == 1
    assert rows["volumes", "1 volume"]["used_after"] == 2
    assert [each["preexisting"] for each in list_exhaustion_warnings("plan.json")] == [True]
    configuration = site / "site.nf.hcl"
    configuration.write_text(
        configuration.read_text().replace("count       = 3", "count       = 5")
    )
    text, rows = plan_site(capsys)
    after = rows["l3_network", "l3network-504"]["used_after"]
    assert after > 6
    assert f"{after} needed, at most 6 exist" in text
    assert text.count("needed, at most 6 exist") == 1
    # The other bound is in the decision block: the export lacks VMs.
    assert text.count("at most") == text.count("Capacity: dev08-0a105e4eb74b at most") + 1 == 2
    [warning] = list_exhaustion_warnings("plan.json")
    assert warning["level"] == "warning"
    assert not warning.get("preexisting")
    assert warning["address"].startswith("nexus_site.")
    assert warning["range"]["filename"] == "site.nf.hcl"


@pytest.mark.of_domains("whatif")
def test_state_keeps_figures_for_simulations(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_networks(site / "export", "10.0.0.0/29")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    capsys.readouterr()
    assert run_command_line(["simulate", "capacity", "-report=json:room.json"]) == 0
    capsys.readouterr()
    assert run_command_line(["advise"]) == 2
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "prefix (the prefix of a network is fixed)" in said
    sections = json.loads(Path("room.json").read_text())["sections"]
    [other] = [section for section in sections if section["name"] == "other_resources"]
    resources = {row["resource"] for row in other["tables"][0]["rows"]}
    assert resources >= {"addresses for nodes", "blocks of pod addresses", "storage"}
    # With a later export without the list, the total is unknown.
    (site / "export" / "l3_networks.json").unlink()
    _, rows = plan_site(capsys)
    assert rows["l3_network", "l3network-504"]["total"] is None


# Counted by hand: nodes, blocks of 64 in the IPv4 podCidrs, addresses of load balancers; and a
# prefix with its hosts.
BY_HAND = {
    "001": (2, 1024, [256], "10.0.0.0/30", 2),
    "004": (2, 1024, [256], "10.0.0.0/29", 6),
    "007": (3, 1024, [], "10.0.0.0/28", 14),
    "010": (3, 1024, [256], "10.0.0.0/27", 30),
    "013": (4, 1024, [], "10.0.0.0/26", 62),
    "016": (5, 1024, [256], "10.0.0.0/25", 126),
    "019": (5, 1024, [128], "10.0.0.0/24", 254),
    "022": (5, 1024, [64], "10.0.0.0/29", 6),
    "049": (6, 1024, [], "10.0.0.0/29", 6),
    "061": (4, 1024, [32, 32, 32, 32], "10.0.0.0/29", 6),
    "070": (6, 1024, [], "10.0.0.0/28", 14),
    "073": (2, 1024, [32, 32, 32, 32], "10.0.0.0/30", 2),
}


@pytest.mark.skipif(not MORE, reason="NEXUSFORM_AZURE_BODIES names no bodies")
@pytest.mark.parametrize("name", BY_HAND)
def test_addresses_match_manual_counts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, blocks, balancers, prefix, hosts = BY_HAND[name]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(MORE) / "clusters" / name, "export")
    add_networks(tmp_path / "export", prefix)
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    capsys.readouterr()
    _, rows = plan_site(capsys)
    [network] = [row for row in rows.values() if row["kind"] == "l3_network"]
    assert (network["total"], network["used_after"], network["maximum_free_after"]) == (
        hosts,
        nodes,
        hosts - nodes,
    )
    [pods] = [row for row in rows.values() if row["kind"] == "pod_cidr"]
    assert (pods["total"], pods["maximum_free_after"]) == (blocks, blocks - nodes)
    assert [row["total"] for row in rows.values() if row["kind"] == "bgp_pool"] == balancers
