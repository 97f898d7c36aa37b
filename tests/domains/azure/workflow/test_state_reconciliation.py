"""Tests of the document's site in the format of Azure: import, replay, and moved nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.azure.captured_site import write_site_export

STATE = Path(__file__).parents[4] / "state" / "nexus-document.nfstate"


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the site of the Nexus document after cluster E, exported with random node names."""
    monkeypatch.chdir(tmp_path)
    write_site_export(json.loads(STATE.read_text()), Path("export"))


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line(arguments)
    return code, capsys.readouterr().out


def test_replay_of_an_export_needs_no_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay", "-format=json")
    assert code == 0
    alone = json.loads(out)
    score = alone["replays"][0]
    assert score["hits"] == score["verified"] > 100
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay")
    assert "no configuration here, so nothing was compared with a state" in " ".join(out.split())
    assert "Every VM" not in out
    # Nothing is written, and nothing else is answered.
    assert [path.name for path in Path().iterdir()] == ["export"]
    assert run_command(capsys, "reconcile", "-from=export")[0] == 1
    Path("site.nf.hcl").write_text("broken")
    assert run_command(capsys, "reconcile", "-from=export", "-replay")[0] == 1
    Path("site.nf.hcl").unlink()
    # With the imported site, the score is the same.
    assert run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay", "-format=json")
    assert json.loads(out)["replays"] == alone["replays"]


def test_document_site_is_explained_and_moved_nodes_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert code == 0
    assert "No changes." in out
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay", "-format=json")
    assert code == 0
    by_spread = {one["rack_spread"]: one for one in json.loads(out)["replays"]}
    score = by_spread["pool"]
    assert score["unverified"] == {}
    assert score["hits"] == score["verified"] > 100
    assert 0 < score["certain_hits"] <= score["hits"]
    assert 0 < score["hits_by_chance"] < score["hits"] * 0.7
    assert by_spread["cluster"]["hits"] < by_spread["cluster"]["verified"]
    text = Path("site.nf.hcl").read_text()
    fewer = re.sub(
        r"(count += )(\d\d)", lambda count: f"{count[1]}{int(count[2]) - 1}", text, count=1
    )
    Path("site.nf.hcl").write_text(fewer)
    code, out = run_command(capsys, "plan", "-samples=0")
    assert code == 0
    accuracy = (
        f"{score['hits']:,} of {score['verified']:,} verified VMs (100.0 %) run where predicted"
    )
    assert accuracy in " ".join(out.split())
    assert "Confidence: Azure chooses which 1 VM it removes (" in " ".join(out.split())
    assert run_command(capsys, "plan", "-samples=0", "-out=p")[0] == 0
    (accuracy_row,) = json.loads(run_command(capsys, "show", "-json", "p")[1])["prediction_scores"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", accuracy_row["date"])
    Path("site.nf.hcl").write_text(text)
    vms = Path("export/virtual_machines.json")
    vms.unlink()
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, "the site was not read completely" in out) == (2, True)
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay", "-format=json")
    assert code == 2
    score = json.loads(out)["replays"][0]
    assert score["verified"] == 0
    assert "the site was captured incompletely" in next(iter(score["unverified"]))
    vms.write_text("[]")
    moved = move_share_of_nodes(share=0.05)
    code, out = run_command(capsys, "reconcile", "-from=export", "-format=json")
    assert code == 2
    misses = {
        m["vm"].partition("[")[2][:-1]
        for c in json.loads(out)["clusters"]
        for m in c["wrong_predictions"]
    }
    assert misses == moved


def test_replay_with_wrong_or_no_predictions_is_a_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vms = Path("export/virtual_machines.json")
    vms.unlink()
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay")
    assert (code, "nothing could be checked" in out) == (2, True)
    vms.write_text("[]")
    move_share_of_nodes(share=0.05)
    assert run_command(capsys, "reconcile", "-from=export", "-replay")[0] == 2


def test_replay_scores_the_configured_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    text = Path("site.nf.hcl").read_text()
    site = 'resource "nexus_site" "lab" {'
    assert site in text
    # It does not explain the site; the default does.
    scheduler = '\n  scheduler {\n    rack_spread = "cluster"\n  }'
    Path("site.nf.hcl").write_text(text.replace(site, site + scheduler))
    assert run_command(capsys, "apply", "-auto-approve")[0] == 0
    assert run_command(capsys, "reconcile", "-from=export", "-replay")[0] == 2
    assert run_command(capsys, "reconcile", "-from=export")[0] == 0


def test_missing_cluster_and_nodes_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    path = Path("export/kubernetes_clusters.json")
    missing, reduced, *others = sorted(
        json.loads(path.read_text()), key=lambda cluster: str(cluster["name"])
    )
    missing_node = reduced["nodes"].pop()
    path.write_text(json.dumps([reduced, *others]))
    for pools in Path("export").glob(f"agent_pools.{missing['name']}.json"):
        pools.unlink()
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay", "-format=json")
    assert code == 2
    document = json.loads(out)
    assert [address.rpartition(".")[2] for address in document["absent"]] == [missing["name"]]
    rows = {row["id"].rpartition("/")[2]: row for row in document["clusters"]}
    assert (
        len(rows[missing["name"]]["wrong_predictions"])
        == rows[missing["name"]]["vms"]
        == len(missing["nodes"])
    )
    [miss] = rows[reduced["name"]]["wrong_predictions"]
    assert missing_node["name"] in miss["vm"] or miss["cause"] == "it is no longer listed"
    assert {row["cause"] for row in rows[missing["name"]]["wrong_predictions"]} == {
        "it is no longer listed"
    }
    assert any(
        "no longer exist" in reason or "deleted" in reason
        for reason in document["replays"][0]["unverified"]
    )


def test_no_vm_is_verified_after_a_cluster_of_unknown_age_was_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    path = Path("export/kubernetes_clusters.json")
    deleted, *others = sorted(
        json.loads(path.read_text()), key=lambda cluster: str(cluster["name"])
    )
    path.write_text(json.dumps(others))
    for pools in Path("export").glob(f"agent_pools.{deleted['name']}.json"):
        pools.unlink()
    code, out = run_command(capsys, "reconcile", "-from=export", "-replay", "-format=json")
    assert code == 2
    replay = json.loads(out)["replays"][0]
    count = sum(len(cluster["nodes"]) for cluster in others)
    assert replay["verified"] == 0
    assert {
        reason: vms for reason, vms in replay["unverified"].items() if "deleted" in reason
    }.popitem()[1] == count


def move_share_of_nodes(share: float) -> set[str]:
    """Move this share of the nodes to other machines; return their names."""
    random = Random(11)
    path = Path("export/kubernetes_clusters.json")
    clusters = json.loads(path.read_text())
    machines = sorted(
        {node["bareMetalMachineId"] for cluster in clusters for node in cluster["nodes"]}
    )
    nodes = [node for cluster in clusters for node in cluster["nodes"]]
    moved = random.sample(nodes, round(len(nodes) * share))
    for node in moved:
        node["bareMetalMachineId"] = random.choice(
            [m for m in machines if m != node["bareMetalMachineId"]]
        )
    path.write_text(json.dumps(clusters))
    return {node["name"] for node in moved}
