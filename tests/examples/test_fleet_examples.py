"""The fleet examples, run as their READMEs say."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import commands

pytestmark = pytest.mark.of_domains("fleet")
EXAMPLES = Path(__file__).parents[2] / "examples"
NO_CHANGES = "No changes. Your infrastructure matches the configuration."


@pytest.fixture
def here(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    target = tmp_path / "example"
    ignored = shutil.ignore_patterns("state", ".nexusform")
    shutil.copytree(EXAMPLES / request.param, target, ignore=ignored)
    return target


def nexusform(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*commands.nexusform(), *words], cwd=where, capture_output=True, text=True, check=False
    )


def done(where: Path, *words: str) -> str:
    found = nexusform(where, *words)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def outputs(where: Path) -> dict[str, Any]:
    return {k: v["value"] for k, v in json.loads(done(where, "output", "-json")).items()}


@pytest.mark.parametrize("here", ["end-to-end"], indirect=True)
def test_a_larger_pool_is_seen_by_a_placement(here: Path) -> None:
    done(here, "apply", "-auto-approve")
    assert outputs(here)["clusters_of_web"] == ["east", "west"]
    assert NO_CHANGES in done(here, "plan")
    larger = ("-var", "workers_of_south=4")
    plan = done(here, "plan", "-no-color", *larger)
    assert "cluster_properties_changed" in plan
    assert "placement-members-share-machines" in plan
    assert "Placement members share machines" in done(here, "plan", "-no-color", "-details", *larger)
    done(here, "apply", "-auto-approve", *larger)
    assert outputs(here)["clusters_of_web"] == ["east", "south", "west"]
    assert NO_CHANGES in done(here, "plan", *larger)
    explained = done(here, "explain", *larger, "fleet_cluster_resource_placement.web", "south")
    assert "is bound since state serial 2 (cluster_properties_changed)" in " ".join(explained.split())
    smaller = done(here, "plan", "-no-color")
    assert "labels_no_longer_match" in smaller
    assert "Fleet bindings: 0 to place, 0 to move, 0 to remove, 4 kept." in smaller


@pytest.mark.parametrize("here", ["end-to-end"], indirect=True)
def test_destroying_takes_placements_before_members_and_members_before_clusters(here: Path) -> None:
    done(here, "apply", "-auto-approve")
    text = done(here, "destroy", "-auto-approve")

    def ended(start: str) -> int:
        return max(
            text.find(line) for line in text.splitlines() if line.startswith(start) and "complete" in line
        )

    assert ended("fleet_cluster_resource_placement.web") < ended("fleet_member_cluster.edge")
    assert ended("fleet_member_cluster.edge") < ended("nexus_kubernetes_cluster.edge")


@pytest.mark.parametrize("here", ["fleet"], indirect=True)
def test_the_fleet_of_the_documents(here: Path) -> None:
    done(here, "apply", "-auto-approve")
    assert outputs(here) == {
        "document": ["bravelion", "cluster2", "cluster3"],
        "scores": {
            "most_cpu": {"bravelion": 100, "cluster3": 78},
            "cheapest": {"cluster1": 67, "cluster3": 78, "jumpingcat": 100},
        },
    }
    assert NO_CHANGES in done(here, "plan")
    shown = done(here, "show", "-status-version=2023", "fleet_cluster_resource_placement.document")
    message = "found all the clusters needed as specified by the scheduling policy"
    assert message in " ".join(shown.split())
    explained = done(here, "explain", "fleet_cluster_resource_placement.cheapest", "jumpingcat")
    assert "+  colour: jumpingcat" in explained
    scores = done(here, "explain", "fleet_cluster_resource_placement.cheapest")
    assert "88.89 % of the weight" in " ".join(scores.split())


@pytest.mark.parametrize("here", ["fleet"], indirect=True)
def test_edits_of_the_fleet(here: Path) -> None:
    done(here, "apply", "-auto-approve")
    another = ("-var", "document=pick-n-spread", "-replace=fleet_cluster_resource_placement.document")
    assert "6 to place" in done(here, "plan", "-no-color", *another)
    hub = here / "hub" / "namespaces.yaml"
    hub.write_text(hub.read_text("utf-8").replace("blue", "red"), "utf-8")
    ranking = here / "ranking.nf.hcl"
    ranking.write_text(
        ranking.read_text("utf-8").replace("number_of_clusters = 2", "number_of_clusters = 3"), "utf-8"
    )
    plan = done(here, "plan", "-no-color")
    assert "+ cluster2" in plan
    assert "number_of_clusters_increased" in plan
    assert "resources_changed" in plan
    assert "Placements: 1 to place, 0 to move, 0 to remove, " in plan


@pytest.mark.parametrize("here", ["three-sites"], indirect=True)
def test_a_fleet_reads_the_states_of_its_sites(here: Path) -> None:
    missing = nexusform(here / "fleet", "plan", "-no-color")
    assert missing.returncode == 1
    assert "There is no state at ../sites/dublin/state/nexusform.nfstate" in missing.stderr
    for site in ("london", "paris", "dublin"):
        done(here / "sites" / site, "apply", "-auto-approve")
    done(here / "fleet", "apply", "-auto-approve")
    assert outputs(here / "fleet") == {
        "clusters_of_web": ["london", "paris"],
        "nodes": {"dublin": 4, "london": 6, "paris": 5},
    }
    assert NO_CHANGES in done(here / "fleet", "plan")
    done(here / "sites" / "dublin", "apply", "-auto-approve", "-var", "workers=4")
    plan = done(here / "fleet", "plan", "-no-color")
    assert "cluster_properties_changed" in plan
    assert "dublin/web/Deployment/shop" in plan
