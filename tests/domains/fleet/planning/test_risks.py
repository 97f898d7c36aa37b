"""Tests of plan warnings about the risks of a placement change."""

from __future__ import annotations

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.planning.harness import build_state, plan

CONFIGURATION = """
resource "fleet_member_cluster" "m" {
  for_each = toset(["paris", "rome"])
  name     = each.key
  location = "west"
}
resource "fleet_hub_manifest" "shop" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata: {name: shop}
    ---
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: db, namespace: shop}
    spec:
      serviceName: db
      selector: {matchLabels: {app: db}}
      template:
        metadata: {labels: {app: db}}
        spec: {containers: [{name: db, image: db}]}
      volumeClaimTemplates:
        - metadata: {name: data}
          spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  EOT
}
resource "fleet_cluster_resource_placement" "shop" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "shop"
  }
  policy {
    placement_type = "PickFixed"
    cluster_names  = ["paris"]
  }
}
"""
IDS = ("brief-unavailability", "volumes-left-behind", "spread-over-one-value")


def list_risks(result: PlanResult) -> dict[str, str]:
    return {one.id: one.detail for one in result.plan.diagnostics if one.id in IDS}


def test_placement_change_leaves_volumes_behind() -> None:
    moved = CONFIGURATION.replace('["paris"]\n  }', '["rome"]\n  }')
    assert moved != CONFIGURATION
    said = list_risks(plan(moved, build_state(CONFIGURATION)))
    assert (
        "moves from paris to rome. The volumes of StatefulSet shop/db"
        in said["volumes-left-behind"]
    )


def test_only_added_or_removed_clusters_leave_no_volumes() -> None:
    both = CONFIGURATION.replace('["paris"]\n  }', '["paris", "rome"]\n  }')
    assert both != CONFIGURATION
    for before, after in ((both, CONFIGURATION), (CONFIGURATION, both)):
        assert "volumes-left-behind" not in list_risks(plan(after, build_state(before)))


def test_kept_placement_has_no_risk() -> None:
    assert list_risks(plan(CONFIGURATION, build_state(CONFIGURATION))) == {}
    assert list_risks(plan(CONFIGURATION)) == {}


@pytest.mark.parametrize("unavailable", ["0", "1"])
def test_last_copy_is_removed_before_new_one_is_ready(unavailable: str) -> None:
    rolling = f"""
  strategy {{
    rolling_update {{
      max_unavailable = "{unavailable}"
      max_surge       = "1"
    }}
  }}
}}
"""
    start = CONFIGURATION.rstrip().removesuffix("}") + rolling
    moved = start.replace('["paris"]\n  }', '["rome"]\n  }')
    said = list_risks(plan(moved, build_state(start)))
    assert ("brief-unavailability" in said) == (unavailable == "1")


def test_spread_over_single_location_is_reported() -> None:
    policy = 'placement_type = "PickFixed"\n    cluster_names  = ["paris"]'
    spread = """placement_type     = "PickN"
    number_of_clusters = 2
    topology_spread_constraint {
      topology_key = "fleet.azure.com/location"
    }"""
    text = CONFIGURATION.replace(policy, spread)
    assert "all 2 members are in west" in list_risks(plan(text))["spread-over-one-value"]
    apart = text.replace('location = "west"', "location = each.key")
    assert list_risks(plan(apart)) == {}
