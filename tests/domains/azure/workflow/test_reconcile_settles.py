"""Tests of `reconcile`: it verifies open predictions on a platform.

Platforms have the placement rule, a packing one, or a random one. A broken certain prediction
is an alarm.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.azure.captured_site import write_site_export

STATE = Path("state/nexusform.nfstate")
RACKS = "".join(
    f'resource "nexus_rack" "r{n}" {{\n  site_id       = nexus_site.s.id\n  machine_count = 4\n}}\n'
    for n in range(1, 5)
)
SITE = f'resource "nexus_site" "s" {{\n  scheduler {{\n    tie_break_seed = 8\n  }}\n}}\n{RACKS}'
CLUSTER = """resource "nexus_kubernetes_cluster" "cN" {
  site_id            = nexus_site.s.id
  kubernetes_version = "v1.31"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np" {
    count       = 4
    vm_sku_name = "NC_P4_28_v1"
    mode        = "System"
  }
}
"""


class Operator:
    """Plan and apply without observation, and export the result of the platform later."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.said = ""
        Path("site.nf.hcl").write_text(SITE)

    def __call__(self, *words: str) -> int:
        code = run_command_line(list(words))
        captured = self.capsys.readouterr()
        self.said = " ".join((captured.out + captured.err).replace("│", " ").split())
        return code

    def make(self, number: int) -> None:
        Path(f"c{number}.nf.hcl").write_text(CLUSTER.replace("cN", f"c{number}"))
        assert self("apply", "-auto-approve") == 0, self.said

    def state(self) -> Any:
        return json.loads(STATE.read_text())

    def export(self, platform: str) -> None:
        """Write the output of `az` after the platform has created the VMs of all clusters.

        It creates them in its own way.
        """
        write_site_export(self.state(), Path("export"))
        path = Path("export/kubernetes_clusters.json")
        clusters = json.loads(path.read_text())
        machines = sorted(json.loads(Path("export/bare_metal_machines.json").read_text()), key=_id)
        random = Random(3)
        nodes = [node for cluster in clusters for node in cluster["nodes"]]
        for number, node in enumerate(nodes):
            if platform == "packs":
                node["bareMetalMachineId"] = _id(machines[number // 6])
            elif platform == "draws":
                node["bareMetalMachineId"] = _id(random.choice(machines))
        path.write_text(json.dumps(clusters))

    def private(self, kind: str) -> list[Any]:
        return [
            instance.get("private") or {}
            for one in self.state()["resources"]
            if one["type"] == kind
            for instance in one["instances"]
        ]

    def record(self) -> dict[str, dict[str, list[float]]]:
        (private,) = self.private("nexus_site")
        return dict(private.get("forecasts", {}))


def _id(body: Any) -> str:
    return str(body["id"])


@pytest.fixture
def operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Operator:
    monkeypatch.chdir(tmp_path)
    return Operator(capsys)


@pytest.mark.parametrize(("platform", "code"), [("follows", 0), ("packs", 2), ("draws", 2)])
def test_reconcile_verifies_open_predictions(platform: str, code: int, operator: Operator) -> None:
    operator.make(0)
    assert operator.record() == {}
    assert "open_claims" in operator.private("nexus_kubernetes_cluster")[0]
    operator.export(platform)
    assert operator("reconcile", "-from=export") == code, operator.said
    assert "15 predictions of applied plans verified now" in operator.said, operator.said
    held, broken = operator.record()["rack_count"]["100"][:2]
    assert held + broken == 4
    assert (held == 4) == (platform == "follows")
    assert ("Wrong certain predictions" in operator.said) == (platform != "follows")
    assert "open_claims" not in operator.private("nexus_kubernetes_cluster")[0]
    assert len(json.dumps(operator.private("nexus_site"))) <= 4096
    # Predictions are verified once, and no change is planned for it.
    before = STATE.read_bytes()
    assert operator("reconcile", "-from=export", "-format=json") == 0
    assert STATE.read_bytes() == before
    assert operator("plan", "-detailed-exitcode") == 0, operator.said


def test_verified_predictions_lower_the_shares(operator: Operator) -> None:
    for number in range(6):
        operator.make(number)
    operator.export("packs")
    assert operator("reconcile", "-from=export") == 2
    assert operator.record()["rack_count"]["100"][:2] == [1, 24]
    Path("next.nf.hcl").write_text(CLUSTER.replace("cN", "next"))
    assert operator("plan", "-out=next.nfplan", "-report=markdown:comment.md") == 0
    comment = Path("comment.md").read_text()
    assert (
        "12 of 90 verified predictions correct, 2 of 27 certain ones; 53 uncertain ones fell "
        "the other way; Brier score"
    ) in comment
    assert "shares are lowered to the measured accuracy" in operator.said, operator.said


def test_uncaptured_predictions_stay_open(operator: Operator) -> None:
    operator.make(0)
    operator.export("follows")
    Path("export/kubernetes_clusters.json").unlink()
    operator("reconcile", "-from=export")
    assert operator.record() == {}
    assert "open_claims" in operator.private("nexus_kubernetes_cluster")[0]


def test_invalid_record_is_no_prediction(operator: Operator) -> None:
    operator.make(0)
    operator.export("follows")
    document = operator.state()
    for one in document["resources"]:
        for instance in one["instances"]:
            if "open_claims" in (instance.get("private") or {}):
                instance["private"]["open_claims"] = {"np": "[[1,2]]", "more": 3}
    STATE.write_text(json.dumps(document))
    assert operator("reconcile", "-from=export") == 0, operator.said
    assert operator.record() == {}


def test_changes_by_others_are_verified_once_they_exist(operator: Operator) -> None:
    """The provider sends no requests.

    The plan is applied, another user scales the pool, and `reconcile` verifies it.
    """
    operator.make(0)
    operator.export("follows")
    for name in ("site.nf.hcl", "c0.nf.hcl"):
        Path(name).unlink()
    STATE.unlink()
    assert operator("import", "-from=export", "-generate-config-out=all.nf.hcl") == 0, operator.said
    text = Path("all.nf.hcl").read_text()
    Path("all.nf.hcl").write_text(re.sub(r"count( +)= 4", r"count\1= 6", text))
    assert operator("apply", "-auto-approve") == 0
    assert "is not changed yet" in operator.said, operator.said
    assert "open_claims" in operator.private("nexus_kubernetes_cluster")[0]
    path = Path("export/kubernetes_clusters.json")
    clusters = json.loads(path.read_text())
    (cluster,) = clusters
    like = next(node for node in cluster["nodes"] if "-np-" in node["name"])
    cluster["nodes"] += [{**like, "name": f"c0-np-zz{number}"} for number in range(2)]
    path.write_text(json.dumps(clusters))
    pool = {
        "id": like["agentPoolId"],
        "name": "np",
        "count": 6,
        "mode": "System",
        "vmSkuName": "NC_P4_28_v1",
    }
    Path("export/agent_pools.c0.json").write_text(json.dumps([pool]))
    operator("reconcile", "-from=export")
    assert "6 predictions of applied plans verified now" in operator.said, operator.said
    assert set(operator.record()) >= {"rack", "machine", "rack_count", "tied_machines"}
    assert "open_claims" not in operator.private("nexus_kubernetes_cluster")[0]
