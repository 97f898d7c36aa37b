"""Tests of tenants with placements in a namespace created and placed by others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front

_TENANT = """
provider "fleet" {}
data "fleet_hub" "hub" {}
resource "fleet_hub_manifest" "app" {
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: app, namespace: team}
    data: {a: "1"}
  Y
}
resource "fleet_resource_placement" "app" {
  provider  = fleet
  namespace = "team"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "app"
  }
  policy {
    placement_type = "PickFixed"
    cluster_names  = ["lon1"]
  }
}
"""


@pytest.mark.our_hub_alone
def test_namespace_of_others_is_not_missing(hub: Front, run_command: CommandRunner) -> None:
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, "kubectl")
    names = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
    }
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "team"}
    Path("main.nf.hcl").write_text(_TENANT)
    said = run_command("plan")[1]
    assert "missing-hub-namespace" not in said, said
    assert "The namespace team is missing on lon1" in said, said
    spec = {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}
    hub.put({**names, "metadata": {"name": "team"}, "spec": spec}, "kubectl")
    hub.act()
    said = run_command("plan")[1]
    assert "missing-" not in said, said
