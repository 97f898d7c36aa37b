"""Tests of docs/ci/policy/checkov.

The policies accept and reject plans as documented, in checkov itself.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import commands
from tests.kill_points import long_case
from tests.rendering.real_plans import SMALL, nexusform, plan_directory, plan_repair

POLICY = Path(__file__).parents[2] / "docs" / "ci" / "policy" / "checkov"
CHECKOV = shutil.which(os.environ.get("NEXUSFORM_CHECKOV", "checkov"))
MISSING = (
    "checkov is not installed (pip install checkov into an environment of its own, "
    "NEXUSFORM_CHECKOV=...)"
)
RULE = """
resource "nexus_separation_rule" "web" {
  scope       = "machine"
  enforcement = "warn"

  group {
    pool_ids = ["s/web/workers"]
  }

  group {
    pool_ids = ["s/web/control-plane"]
  }
}
"""


@pytest.fixture(scope="module")
def checkov_failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """Return the failures by plan: "CHECK ADDRESS" with its details.

    One run of checkov, including its own checks.
    """
    where = tmp_path_factory.mktemp("checkov")
    _save_plan(where, "repaired", plan_repair(where).file)
    site = where / "site"
    site.mkdir()
    main = site / "main.nf.hcl"
    text = SMALL.replace("MORE", "").replace("WORKERS", "4")
    main.write_text(text)
    nexusform(site, "apply", "-auto-approve", "-samples=0")
    main.write_text(
        text.replace("count       = 4", 'availability_zones = ["r1"]\n    count = 4') + RULE
    )
    _save_plan(where, "pinned", plan_directory(site).file)
    main.write_text('resource "nexus_site" "s" {}\n')
    _save_plan(where, "destroyed", plan_directory(site).file)
    assert CHECKOV is not None
    words = [CHECKOV, "--framework", "terraform_plan", "--external-checks-dir", str(POLICY)]
    words += ["--skip-download", "-o", "json", "-f", *[f"{name}.json" for name in _PLANS]]
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["resource_count"] > 10
    failures: dict[str, dict[str, list[str]]] = {name: {} for name in _PLANS}
    for row in report["results"]["failed_checks"]:
        plan = Path(row["file_path"]).stem
        failures[plan][f"{row['check_id']} {row['resource']}"] = row["details"]
    return failures


_PLANS = ("repaired", "pinned", "destroyed")


def _save_plan(where: Path, name: str, plan: Path) -> None:
    words = [*commands.nexusform(), "show", "-json", str(plan)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (where / f"{name}.json").write_text(done.stdout)


@pytest.mark.skipif(CHECKOV is None, reason=MISSING)
@long_case
def test_repairs_pass(checkov_failures: dict[str, dict[str, list[str]]]) -> None:
    assert checkov_failures["repaired"] == {}


@pytest.mark.skipif(CHECKOV is None, reason=MISSING)
def test_other_moves_single_racks_and_lax_rules_fail(
    checkov_failures: dict[str, dict[str, list[str]]],
) -> None:
    pinned = checkov_failures["pinned"]
    web = "nexus_kubernetes_cluster.web"
    assert set(pinned) == {
        f"CKV_NEXUSFORM_1 {web}",
        f"CKV_NEXUSFORM_2 {web}",
        # Advice about pinned zones is no failure.
        "CKV_NEXUSFORM_4 nexus_separation_rule.web",
        "CKV2_NEXUSFORM_2 nexus_separation_rule.web",
    }
    moves = pinned[f"CKV_NEXUSFORM_1 {web}"]
    assert len(moves) == 4
    assert all(
        move.startswith("web-workers-") and move.endswith("(zones_changed)") for move in moves
    )
    assert pinned[f"CKV_NEXUSFORM_2 {web}"] == ["all VMs of workers are on r1"]
    assert pinned["CKV_NEXUSFORM_4 nexus_separation_rule.web"][0].startswith(
        "Separation rule does not"
    )


@pytest.mark.skipif(CHECKOV is None, reason=MISSING)
def test_destroyed_cluster_fails_at_its_site(
    checkov_failures: dict[str, dict[str, list[str]]],
) -> None:
    assert checkov_failures["destroyed"]["CKV_NEXUSFORM_3 nexus_site.s"] == [
        "nexus_kubernetes_cluster.web is destroyed"
    ]
