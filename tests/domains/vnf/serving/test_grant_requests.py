"""Grant requests of VNFs with placement constraints, from saved plans."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.serving.grant_requests import build_grant_requests
from nexusform.plans.saved.plan_file import read_plan_file

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.mark.of_domains("fleet")
def test_vnf_placement_constraints_become_grant_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(
        EXAMPLES / "hardware-aware",
        tmp_path / "h",
        ignore=shutil.ignore_patterns("state", ".nexusform"),
    )

    def read_grant_request(*more: str) -> Mapping[str, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir("h")
            assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", *more]) == 0
        saved, _ = read_plan_file(Path("h", "p.nfplan").read_bytes())
        assert saved is not None
        return build_grant_requests(saved.plan)["tacker_vnf.a"]

    def build_constraint(first: str) -> dict[str, Any]:
        resources = [(first, "vnf-a-workerNode-0"), ("GRANT", "vnf-a-workerNode-1")]
        return {
            "affinityOrAntiAffinity": "ANTI_AFFINITY",
            "scope": "NFVI_NODE",
            "resource": [{"idType": of, "resourceId": name} for of, name in resources],
            "fallbackBestEffort": False,
        }

    new = read_grant_request()
    assert new["operation"] == "INSTANTIATE"
    assert [one["vduId"] for one in new["addResources"]] == [
        "masterNode",
        "workerNode",
        "workerNode",
    ]
    assert new["placementConstraints"] == [build_constraint("GRANT")]
    assert new["_links"]["vnfLcmOpOcc"]["href"].endswith(new["vnfLcmOpOccId"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("h")
        assert run_command_line(["apply", "-auto-approve"]) == 0
    healed = read_grant_request("-replace=tacker_vnf.a:vnf-a-workerNode-1")
    assert healed["operation"] == "HEAL"
    assert [one["id"] for one in healed["addResources"]] == ["vnf-a-workerNode-1"]
    assert [one["resource"]["resourceId"] for one in healed["removeResources"]] == [
        "vnf-a-workerNode-1"
    ]
    # Tacker sends none with a heal request.
    assert healed["placementConstraints"] == []
    gone = read_grant_request("-destroy")
    assert (gone["operation"], len(gone["removeResources"])) == ("TERMINATE", 3)
    assert gone["placementConstraints"] == []
