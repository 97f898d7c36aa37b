"""Tests of the fleet examples, run as in their READMEs."""

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
def example_directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    target = tmp_path / "example"
    ignored = shutil.ignore_patterns("state", ".nexusform")
    shutil.copytree(EXAMPLES / request.param, target, ignore=ignored)
    return target


def run_nexusform(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*commands.nexusform(), *words], cwd=where, capture_output=True, text=True, check=False
    )


def run_successfully(where: Path, *words: str) -> str:
    found = run_nexusform(where, *words)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def read_outputs(where: Path) -> dict[str, Any]:
    return {
        k: v["value"] for k, v in json.loads(run_successfully(where, "output", "-json")).items()
    }


@pytest.mark.parametrize("example_directory", ["end-to-end"], indirect=True)
def test_placement_sees_larger_pool(example_directory: Path) -> None:
    run_successfully(example_directory, "apply", "-auto-approve")
    assert read_outputs(example_directory)["clusters_of_web"] == ["east", "west"]
    assert NO_CHANGES in run_successfully(example_directory, "plan")
    larger = ("-var", "workers_of_south=4")
    plan = run_successfully(example_directory, "plan", "-no-color", *larger)
    assert "cluster_properties_changed" in plan
    assert "placement-members-share-machines" in plan
    assert ("Placement members share machines") in run_successfully(
        example_directory, "plan", "-no-color", "-details", *larger
    )
    run_successfully(example_directory, "apply", "-auto-approve", *larger)
    assert read_outputs(example_directory)["clusters_of_web"] == ["east", "south", "west"]
    assert NO_CHANGES in run_successfully(example_directory, "plan", *larger)
    explained = run_successfully(
        example_directory, "explain", *larger, "fleet_cluster_resource_placement.web", "south"
    )
    assert ("is bound since state serial 2 (cluster_properties_changed)") in " ".join(
        explained.split()
    )
    smaller = run_successfully(example_directory, "plan", "-no-color")
    assert "cluster_property_lost" in smaller
    assert "Fleet bindings: 0 to place, 0 to move, 0 to remove, 4 kept." in smaller


@pytest.mark.parametrize("example_directory", ["end-to-end"], indirect=True)
def test_destroy_order_is_placements_then_members_then_clusters(example_directory: Path) -> None:
    run_successfully(example_directory, "apply", "-auto-approve")
    text = run_successfully(example_directory, "destroy", "-auto-approve")

    def find_last_completion(start: str) -> int:
        return max(
            text.find(line)
            for line in text.splitlines()
            if line.startswith(start) and "complete" in line
        )

    assert find_last_completion("fleet_cluster_resource_placement.web") < find_last_completion(
        "fleet_member_cluster.edge"
    )
    assert find_last_completion("fleet_member_cluster.edge") < find_last_completion(
        "nexus_kubernetes_cluster.edge"
    )


@pytest.mark.parametrize("example_directory", ["fleet"], indirect=True)
def test_fleet_of_the_documents(example_directory: Path) -> None:
    run_successfully(example_directory, "apply", "-auto-approve")
    assert read_outputs(example_directory) == {
        "document": ["bravelion", "cluster2", "cluster3"],
        "scores": {
            "most_cpu": {"bravelion": 100, "cluster3": 78},
            "cheapest": {"cluster1": 67, "cluster3": 78, "jumpingcat": 100},
        },
    }
    assert NO_CHANGES in run_successfully(example_directory, "plan")
    shown = run_successfully(
        example_directory,
        "show",
        "-status-version=2023",
        "fleet_cluster_resource_placement.document",
    )
    message = "found all the clusters needed as specified by the scheduling policy"
    assert message in " ".join(shown.split())
    explained = run_successfully(
        example_directory, "explain", "fleet_cluster_resource_placement.cheapest", "jumpingcat"
    )
    assert "+  colour: jumpingcat" in explained
    scores = run_successfully(
        example_directory, "explain", "fleet_cluster_resource_placement.cheapest"
    )
    assert "88.89 % of the weight" in " ".join(scores.split())


@pytest.mark.parametrize("example_directory", ["fleet"], indirect=True)
def test_edits_of_fleet(example_directory: Path) -> None:
    run_successfully(example_directory, "apply", "-auto-approve")
    another = (
        "-var",
        "document=pick-n-spread",
        "-replace=fleet_cluster_resource_placement.document",
    )
    assert "6 to place" in run_successfully(example_directory, "plan", "-no-color", *another)
    hub = example_directory / "hub" / "namespaces.yaml"
    hub.write_text(hub.read_text("utf-8").replace("blue", "red"), "utf-8")
    ranking = example_directory / "ranking.nf.hcl"
    ranking.write_text(
        ranking.read_text("utf-8").replace(("number_of_clusters = 2"), ("number_of_clusters = 3")),
        "utf-8",
    )
    plan = run_successfully(example_directory, "plan", "-no-color")
    assert "+ cluster2" in plan
    assert "number_of_clusters_increased" in plan
    assert "resources_changed" in plan
    assert "Placements: 1 to place, 0 to move, 0 to remove, " in plan


@pytest.mark.parametrize("example_directory", ["three-sites"], indirect=True)
def test_fleet_reads_states_of_its_sites(example_directory: Path) -> None:
    missing = run_nexusform(example_directory / "fleet", "plan", "-no-color")
    assert missing.returncode == 1
    assert "There is no state at ../sites/dublin/state/nexusform.nfstate" in missing.stderr
    for site in ("london", "paris", "dublin"):
        run_successfully(example_directory / "sites" / site, "apply", "-auto-approve")
    run_successfully(example_directory / "fleet", "apply", "-auto-approve")
    assert read_outputs(example_directory / "fleet") == {
        "clusters_of_web": ["london", "paris"],
        "nodes": {"dublin": 4, "london": 6, "paris": 5},
    }
    assert NO_CHANGES in run_successfully(example_directory / "fleet", "plan")
    run_successfully(
        example_directory / "sites" / "dublin", "apply", "-auto-approve", "-var", "workers=4"
    )
    plan = run_successfully(example_directory / "fleet", "plan", "-no-color")
    assert "cluster_properties_changed" in plan
    assert "dublin/web/Deployment/shop" in plan
