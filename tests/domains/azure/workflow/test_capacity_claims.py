"""Tests of PersistentVolumeClaims on a site's storage appliance.

They go from manifests to plans and simulations.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.azure.workflow.test_capacity_other import (
    CASE,
    add_networks,
    list_exhaustion_warnings,
    name_network,
    plan_site,
    read_bodies,
)

pytestmark = pytest.mark.of_domains("fleet")
MANIFEST = """
variable "replicas" { default = 3 }
variable "size" { default = "60Gi" }
variable "class" { default = "storageClassName: nexus-volume" }

resource "fleet_hub_manifest" "db" {
  cluster_id = nexus_kubernetes_cluster.ssh-test-3d38.id
  yaml_body  = templatefile("db.yaml", { replicas = var.replicas, size = var.size, class = var.class })
}
"""  # noqa: E501
STATEFUL_SET = """
apiVersion: v1
kind: Namespace
metadata: {name: core}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: core}
spec:
  replicas: ${replicas}
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db:1, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      ${class}
      resources: {requests: {storage: ${size}}}
"""


@pytest.fixture(name="site")
def site_with_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """Return a site with an appliance of 500 GiB and one volume of 200."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")
    name_network(tmp_path / "export")
    add_networks(tmp_path / "export", "10.0.0.0/24")
    change("storage_appliances", capacity=500)
    change("volumes", sizeMiB=200 * 1024)
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    Path("pods.nf.hcl").write_text(MANIFEST)
    Path("db.yaml").write_text(STATEFUL_SET)
    capsys.readouterr()
    return tmp_path


def change(name: str, **values: Any) -> None:
    path = Path("export", f"{name}.json")
    path.write_text(json.dumps([{**read_bodies(path)[0], **values}]))


def plan_claims(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """Return the row of claims in a plan."""
    assert run_command_line(["plan", "-report=json:plan.json", *options]) == 0
    capsys.readouterr()
    rows = json.loads(Path("plan.json").read_text())["capacity_other"]
    [row] = [each for each in rows if each["kind"] == "claims"]
    return row


def get_usage(row: dict[str, Any]) -> tuple[int | None, int | None]:
    return row["used_before"], row["used_after"]


@pytest.mark.usefixtures("site")
def test_planned_claims_are_added_to_volumes(capsys: pytest.CaptureFixture[str]) -> None:
    row = plan_claims(capsys)
    assert (row["name"], row["total"], row["unit"], row["lacks"]) == (
        "ssh-test-3d38",
        500,
        "GiB",
        False,
    )
    assert get_usage(row) == (200, 200 + 3 * 60)
    assert not list_exhaustion_warnings("plan.json")
    row = plan_claims(capsys, "-var=replicas=6")
    assert (get_usage(row), row["lacks"]) == ((200, 560), True)
    [warning] = list_exhaustion_warnings("plan.json")
    assert (
        "storage for claims of pods of ssh-test-3d38: 560 GiB needed, at most 500 exist"
        in (warning["detail"])
    )
    assert not warning.get("preexisting")
    assert run_command_line(["plan", "-report=markdown:plan.md", "-var=replicas=6"]) == 0
    capsys.readouterr()
    assert "| GiB left for claims of pods, at most | 300 of 500 (ssh-test-3d38) | **-60 of 500" in (
        Path("plan.md").read_text()
    )


@pytest.mark.usefixtures("site")
def test_claims_of_other_classes_use_no_appliance_capacity(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get_usage(plan_claims(capsys, "-var=class=storageClassName: nexus-shared")) == (200, 200)
    assert get_usage(plan_claims(capsys, '-var=class=storageClassName: ""')) == (200, 200)
    # Without a class, the default class applies.
    assert get_usage(plan_claims(capsys, "-var=class=volumeMode: Filesystem")) == (200, 380)


@pytest.mark.usefixtures("site")
def test_claim_without_size_has_unknown_usage(capsys: pytest.CaptureFixture[str]) -> None:
    Path("db.yaml").write_text(STATEFUL_SET.replace("requests: {storage: ${size}}", "limits: {}"))
    row = plan_claims(capsys)
    assert get_usage(row) == (200, None)
    assert row["maximum_free_after"] is None
    assert row["name"] == "ssh-test-3d38; core/data-db-0 has no size"
    assert run_command_line(["plan", "-report=markdown:plan.md"]) == 0
    capsys.readouterr()
    assert "| not captured |" in next(
        line for line in Path("plan.md").read_text().splitlines() if "claims of pods" in line
    )


@pytest.mark.of_domains("whatif")
def test_scale_out_after_apply(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At most one of three claims of 60 GiB can have the volume of 200.

    No other volume was captured.
    """
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert get_usage(plan_claims(capsys)) == (320, 320)
    assert get_usage(plan_claims(capsys, "-var=replicas=5")) == (320, 440)
    # Claims remain after their pods, and a template does not change existing claims.
    assert get_usage(plan_claims(capsys, "-var=replicas=1")) == (320, 320)
    assert get_usage(plan_claims(capsys, "-var=size=90Gi")) == (320, 320)
    assert get_usage(plan_claims(capsys, "-var=size=90Gi", "-var=replicas=4")) == (320, 410)
    # A later export lists the volumes of the claims.
    volume = read_bodies(site / "export" / "volumes.json")[0]
    more = [
        {**volume, "id": f"{volume['id']}{at}", "name": f"v{at}", "sizeMiB": 61440}
        for at in range(3)
    ]
    (site / "export" / "volumes.json").write_text(json.dumps([volume, *more]))
    assert get_usage(plan_claims(capsys, "-var=replicas=5")) == (380, 500)
    assert run_command_line(["apply", "-auto-approve", "-var=replicas=5"]) == 0
    capsys.readouterr()
    assert run_command_line(["simulate", "capacity", "-report=json:room.json"]) == 0
    sections = json.loads(Path("room.json").read_text())["sections"]
    [other] = [section for section in sections if section["name"] == "other_resources"]
    left = {row["resource"]: row["left"] for row in other["tables"][0]["rows"]}
    assert left["storage for claims of pods"] == "60 of 500 GiB"


@pytest.mark.usefixtures("site")
def test_claims_are_removed_with_their_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["apply", "-auto-approve"]) == 0
    Path("pods.nf.hcl").unlink()
    capsys.readouterr()
    before, after = get_usage(plan_claims(capsys))
    assert (before, after) == (320, 20)


@pytest.mark.usefixtures("site")
def test_claims_outside_the_target_remain(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert get_usage(plan_claims(capsys, "-target=nexus_site.dev08-0a105e4eb74b")) == (320, 320)


def test_uncaptured_volumes_leave_usage_unknown(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "export" / "volumes.json").unlink()
    assert get_usage(plan_claims(capsys)) == (None, None)
    # The claims alone exceed the total, so existing volumes do not matter.
    row = plan_claims(capsys, "-var=replicas=9")
    assert (get_usage(row), row["lacks"]) == ((None, 540), True)
    (site / "pods.nf.hcl").unlink()
    row = plan_claims(capsys)
    assert (row["name"], row["captured"], get_usage(row)) == (None, False, (None, None))
    _, rows = plan_site(capsys)
    assert rows["claims", None]["maximum_free_after"] is None
