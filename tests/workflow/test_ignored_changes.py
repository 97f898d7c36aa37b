"""Tests of `ignore_changes`: named paths are kept, and invalid paths are errors with a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("fleet")
PLACEMENT = """\
resource "fleet_cluster_resource_placement" "web" {{
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = 1
  }}
  lifecycle {{
    ignore_changes = [{}]
  }}
}}
"""
CLUSTER = """\
resource "nexus_kubernetes_cluster" "web" {{
  site_id = "s"
  lifecycle {{
    ignore_changes = [{}]
  }}
}}
"""
HEEDED = {
    PLACEMENT: (
        "policy",
        "policy.number_of_clusters",
        'policy["number_of_clusters"]',
        "policy.toleration[0].key",
        "resource_selector[1].label_selector.match_labels.app",
        "resource_selector",
    ),
    CLUSTER: ('agent_pool["np1"].count', "agent_pool.np1.labels.tier", "control_plane.count"),
}
REFUSED = (
    (PLACEMENT, "policy[0].number_of_clusters", "write policy.number_of_clusters"),
    (PLACEMENT, "policy[0]", "write policy"),
    (PLACEMENT, "policy.toleration.key", "write policy.toleration[0].key"),
    (PLACEMENT, "resource_selector.name", "write resource_selector[0].name"),
    (PLACEMENT, "policy.numberOfClusters", 'Did you mean "number_of_clusters"'),
    (PLACEMENT, "resource_selector[0].nmae", 'Did you mean "name"'),
    (PLACEMENT, "polcy.number_of_clusters", 'Did you mean "policy"'),
    (PLACEMENT, "policy.number_of_clusters.x", "policy.number_of_clusters has no parts"),
    (PLACEMENT, "policy.affinity[0].cluster_affinity", "write policy.affinity.cluster_affinity"),
    (CLUSTER, "agent_pool[0].count", "selected by label"),
    (CLUSTER, 'agent_pool["np1"].cuont', 'Did you mean "count"'),
    (CLUSTER, 'agent_pool["np1"].labels[0]', 'write agent_pool.np1.labels["0"]'),
    (CLUSTER, "control_plane[0].count", "write control_plane.count"),
)


Validated = Callable[..., str]


@pytest.fixture
def validate_ignored_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Validated:
    def run_validate(block: str, *paths: str) -> str:
        monkeypatch.chdir(tmp_path)
        Path("main.nf.hcl").write_text(block.format(", ".join(paths)))
        run_command_line(["validate"])
        return " ".join(capsys.readouterr().err.replace("│", "").split())

    return run_validate


@pytest.mark.parametrize("block", HEEDED)
def test_possible_path_is_accepted(validate_ignored_paths: Validated, block: str) -> None:
    assert "Unsupported attribute" not in validate_ignored_paths(block, *HEEDED[block])


@pytest.mark.parametrize(("block", "path", "words"), REFUSED)
def test_impossible_path_is_rejected_with_the_correct_one(
    validate_ignored_paths: Validated, block: str, path: str, words: str
) -> None:
    said = validate_ignored_paths(block, path)
    assert "Unsupported attribute on main.nf.hcl line" in said
    assert words in said


def test_all_invalid_paths_are_reported(validate_ignored_paths: Validated) -> None:
    refused = [path for block, path, _ in REFUSED if block == PLACEMENT]
    assert validate_ignored_paths(PLACEMENT, *refused).count("Unsupported attribute") == len(
        refused
    )
