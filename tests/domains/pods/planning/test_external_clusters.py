"""Tests of clusters read from the state of other configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.configuration.loader import load_configuration
from nexusform.domains.pods.planning.cluster_observation import ExternalClusters
from nexusform.domains.pods.planning.external_clusters import _add_clusters_of_state
from tests.planning.harness import RACKS, build_all_types, build_state, cluster, pool

READER = 'data "nexusform_remote_state" "site" {\n  backend = "local"\n  config = {}\n}\n'


def _read_state(text: str) -> dict[str, Any]:
    """Return the values a data block reads from the state of a configuration."""
    instances = build_state(text).instances.items()
    resources = {
        str(address): dict(each.current.attributes) for address, each in instances if each.current
    }
    return {"resources": resources, "sku_catalogue": ""}


@pytest.fixture
def state_block(tmp_path: Path) -> ResourceBlock:
    (tmp_path / "main.nf.hcl").write_text(READER)
    schemas = build_all_types().schemas
    loaded, problems = load_configuration(
        str(tmp_path), cache_directory=None, managed=schemas["managed"], data=schemas["data"]
    )
    assert loaded is not None, problems
    (only,) = loaded.root.resources.values()
    return only


def test_identical_cluster_in_two_states_is_accepted(state_block: ResourceBlock) -> None:
    elsewhere = ExternalClusters()
    read = _read_state(RACKS + cluster("a", pools=pool("p", 2)))
    _add_clusters_of_state(elsewhere, state_block, read, build_all_types())
    _add_clusters_of_state(elsewhere, state_block, read, build_all_types())
    assert not elsewhere.diagnostics
    assert [one.rpartition("/")[2] for one in elsewhere.clusters] == ["a"]


def test_conflicting_cluster_in_two_states_is_rejected(state_block: ResourceBlock) -> None:
    elsewhere = ExternalClusters()
    for count in (2, 3):
        read = _read_state(RACKS + cluster("a", pools=pool("p", count)))
        _add_clusters_of_state(elsewhere, state_block, read, build_all_types())
    (problem,) = elsewhere.diagnostics
    assert problem.id == "conflicting-cluster-states"
