"""Tests of separation rules, checked against the actual placement of a hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.fleet_blocks import HEAD, build_app, build_preference
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front

SITE = """
resource "nexus_site" "{name}" {{}}
resource "nexus_rack" "{name}" {{
  name          = "{name}-r1"
  site_id       = nexus_site.{name}.id
  machine_count = 4
}}
resource "nexus_kubernetes_cluster" "{name}" {{
  site_id = nexus_site.{name}.id
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }}
  agent_pool "np" {{
    count       = 2
    vm_sku_name = "NC_G6_28_v1"
  }}
}}
resource "fleet_member_cluster" "{name}" {{
  provider              = fleet
  name                  = "{name}"
  kubernetes_cluster_id = nexus_kubernetes_cluster.{name}.id
  labels                = {{ of = "{of}" }}
}}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {name}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: c, image: "nginx:1"}}]}}
"""
PICK = 'placement_type     = "PickN"\nnumber_of_clusters = 1\n'
APPS = "".join(
    build_app(name, DEPLOYMENT.format(name=name), PICK + build_preference(10, "of", name))
    for name in ("shop", "bank")
)

RULE = """
resource "nexus_separation_rule" "apart" {
  scope = "site"
  group {
    workload_selector {
      match_labels = { app = "shop" }
    }
  }
  group {
    workload_selector {
      match_labels = { app = "bank" }
    }
  }
}
"""


@pytest.mark.slow
def test_broken_rule_sets_the_exit_code(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    sites = SITE.format(name="lon1", of="shop") + SITE.format(name="par1", of="bank")
    Path("main.nf.hcl").write_text(HEAD + sites + APPS + RULE)
    controller.picks |= {"shop": ["lon1"], "bank": ["par1"]}
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    code, said = run_command("reconcile", "-from=hub")
    assert code == 0, said
    assert "nexus_separation_rule.apart holds" in said
    controller.picks["shop"] = ["par1"]
    hub.act()
    code, said = run_command("reconcile", "-from=hub", "-format=json")
    assert code == 3, said
    document = json.loads(said)
    assert document["separation_rules"] == [
        {"address": "nexus_separation_rule.apart", "holds": False}
    ]
    # The placement is already known, but the rule is still broken.
    code, said = run_command("reconcile", "-from=hub")
    assert code == 3, said
    assert "1 separation rule is broken" in said
