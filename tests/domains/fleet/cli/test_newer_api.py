"""Tests of newer kinds and versions in a dump, and of properties that a member loses."""

from __future__ import annotations

import json

from tests.domains.fleet.cli.test_hub_content import Runner, run, write_files

__all__ = ["run"]

GROUP = "placement.kubernetes-fleet.io"
DUMP = """
data "fleet_hub_export" "hub" { files = ["hub.json"] }
resource "fleet_placement_disruption_budget" "all" {
  for_each = data.fleet_hub_export.hub.placement_disruption_budgets
  manifest = each.value
}
"""
PLACEMENT = """
resource "fleet_hub_manifest" "h" {
  yaml_body = "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"
}
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 1
    affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            property_selector {
              match_expression {
                name     = "example.com/gpus"
                operator = "Ge"
                values   = ["1"]
              }
            }
          }
        }
        preferred_during_scheduling_ignored_during_execution {
          weight = 10
          preference {
            property_sorter {
              name       = "kubernetes.azure.com/per-cpu-core-cost"
              sort_order = "Ascending"
            }
          }
        }
      }
    }
  }
}
"""
MEMBERS = """
resource "fleet_member_cluster" "a" {
  name       = "a"
  properties = { "example.com/gpus" = "2" }
  cost {
    per_cpu_core = 0.123
  }
}
resource "fleet_member_cluster" "b" {
  name       = "b"
  properties = { "example.com/gpus" = "0" }
  cost {
    per_cpu_core = 0.2
  }
}
"""


def test_unknown_fleet_objects_of_a_dump_are_one_warning(run: Runner) -> None:
    items = [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterResourcePlacementDisruptionBudget",
            "metadata": {"name": "p"},
            "spec": {"minAvailable": 1},
        },
        {"apiVersion": f"{GROUP}/v1", "kind": "PlacementPolicy", "metadata": {"name": "x"}},
        {
            "apiVersion": "kubefleet.dev/v1alpha1",
            "kind": "ClusterRequest",
            "metadata": {"name": "y"},
        },
        {
            "apiVersion": f"{GROUP}/v7",
            "kind": "ClusterResourcePlacement",
            "metadata": {"name": "z"},
            "spec": {"somethingNew": True},
        },
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    write_files({"main.nf.hcl": DUMP, "hub.json": text})
    code, printed = run("plan", "-details")
    assert code == 0, printed
    joined = " ".join(printed.replace("│", " ").split())
    assert printed.count("Unread fleet objects") == 1, printed
    assert "3 fleet objects of kinds or versions unknown to nexusform" in joined
    assert 'fleet_placement_disruption_budget.all["p"]' in printed


def test_lost_property_has_its_own_trigger(run: Runner) -> None:
    write_files({"main.nf.hcl": MEMBERS + PLACEMENT})
    assert run("apply", "-auto-approve")[0] == 0
    write_files({"main.nf.hcl": MEMBERS.replace('"2"', '"0"') + PLACEMENT})
    code, printed = run("plan", "-details")
    assert code == 0, printed
    assert "cluster_property_lost" in printed, printed
    assert "labels_no_longer_match" not in printed


def test_costs_are_decimals(run: Runner) -> None:
    write_files({"main.nf.hcl": MEMBERS + PLACEMENT})
    assert run("apply", "-auto-approve")[0] == 0
    printed = " ".join(run("explain", "fleet_cluster_resource_placement.p", "a")[1].split())
    assert "per-cpu-core-cost is 0.123," in printed, printed
