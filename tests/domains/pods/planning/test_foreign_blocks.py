"""Tests of phase 5 blocks of another domain: fleet and pods ignore them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.types.fleet_member_cluster import FLEET_MEMBER_CLUSTER
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.resource_types.nexus_site import NEXUS_SITE
from tests.planning import harness

CONFIGURATION = """
resource "fleet_member_cluster" "m" {
  labels = { region = "west" }
}
resource "network_slice" "s" {
  name = "s"
}
"""


def test_fleet_phase_plans_only_fleet_types(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = replace(
        NEXUS_SITE, name="network_slice", phase=FLEET_MEMBER_CLUSTER.phase, add_to_inventory=None
    )
    known = harness.build_all_types()
    types = PluginRegistries({**known.resource_types, foreign.name: foreign}, known.data_sources)
    monkeypatch.setattr(harness, "build_all_types", lambda: types)
    planned = {str(change.address) for change in harness.plan(CONFIGURATION).plan.changes}
    # The other one is planned by its own domain.
    assert planned == {"fleet_member_cluster.m"}
