"""What other states say of clusters that are not planned here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.configuration.loader import load_configuration
from nexusform.domains.pods.planning.cluster_observation import ExternalClusters
from nexusform.domains.pods.planning.external_clusters import _add_clusters_of_state
from tests.planning.harness import RACKS, all_types, build_state, cluster, pool

READER = 'data "nexusform_remote_state" "site" {\n  backend = "local"\n  config = {}\n}\n'


def _read(text: str) -> dict[str, Any]:
    """What a data block reads of the state of a configuration."""
    instances = build_state(text).instances.items()
    resources = {str(address): dict(each.current.attributes) for address, each in instances if each.current}
    return {"resources": resources, "sku_catalogue": ""}


@pytest.fixture
def block(tmp_path: Path) -> ResourceBlock:
    (tmp_path / "main.nf.hcl").write_text(READER)
    schemas = all_types().schemas
    loaded, problems = load_configuration(
        str(tmp_path), cache_directory=None, managed=schemas["managed"], data=schemas["data"]
    )
    assert loaded is not None, problems
    (only,) = loaded.root.resources.values()
    return only


def test_a_cluster_may_stand_in_two_states_that_say_the_same_of_it(block: ResourceBlock) -> None:
    elsewhere, read = ExternalClusters(), _read(RACKS + cluster("a", pools=pool("p", 2)))
    _add_clusters_of_state(elsewhere, block, read, all_types())
    _add_clusters_of_state(elsewhere, block, read, all_types())
    assert not elsewhere.diagnostics
    assert [one.rpartition("/")[2] for one in elsewhere.clusters] == ["a"]


def test_two_states_that_differ_of_a_cluster_are_refused(block: ResourceBlock) -> None:
    elsewhere = ExternalClusters()
    for count in (2, 3):
        read = _read(RACKS + cluster("a", pools=pool("p", count)))
        _add_clusters_of_state(elsewhere, block, read, all_types())
    (problem,) = elsewhere.diagnostics
    assert problem.id == "conflicting-cluster-states"
