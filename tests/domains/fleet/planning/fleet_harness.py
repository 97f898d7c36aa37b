"""Test helpers for small fleets: members, placements, and the effects of a plan on bindings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import PlacementChange
from nexusform.state.objects import State
from tests.planning.harness import attributes

NAMESPACE = """
resource "fleet_hub_manifest" "web" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: web
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
      namespace: web
    data:
      colour: COLOUR
  EOT
}
"""
# Two stages by the ring of members; the first ends with an approval.
STAGES = """
resource "fleet_cluster_staged_update_strategy" "s" {
  stage {
    name = "one"
    label_selector {
      match_labels = { ring = "4" }
    }
    after_stage_task {
      type = "Approval"
    }
  }
  stage {
    name = "two"
    label_selector {
      match_labels = { ring = "3" }
    }
  }
}
"""


def build_member(name: str, labels: Mapping[str, str] | None = None, more: str = "") -> str:
    return f"""
resource "fleet_member_cluster" "{name}" {{
  labels = {json.dumps(dict(labels or {}))}
  {more}
}}
"""


def build_node_count(count: int | str) -> str:
    return f'properties = {{ "kubernetes-fleet.io/node-count" = "{count}" }}'


def build_placement(policy: str = "", more: str = "", name: str = "p") -> str:
    return f"""
resource "fleet_cluster_resource_placement" "{name}" {{
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  {chr(10).join(("policy {", policy, "}")) if policy else ""}
  {more}
}}
"""


def build_pick_n(number: int | None, more: str = "") -> str:
    count = "" if number is None else f"number_of_clusters = {number}"
    return f"""
    placement_type = "PickN"
    {count}
    {more}
"""


def build_manifest_placement(text: str, name: str = "p", *, lenient: bool = False) -> str:
    leniently = "\n  lenient = true" if lenient else ""
    return f"""
resource "fleet_cluster_resource_placement" "{name}" {{
  manifest = {json.dumps(text)}{leniently}
}}
"""


def build_hub(colour: str = "blue") -> str:
    return NAMESPACE.replace("COLOUR", colour)


def get_bindings(
    state: State, address: str = "fleet_cluster_resource_placement.p"
) -> dict[str, Any]:
    found: dict[str, Any] = attributes(state, address)["bindings"]
    return found


def list_picks(state: State, address: str = "fleet_cluster_resource_placement.p") -> list[str]:
    return sorted(get_bindings(state, address))


def list_binding_changes(result: PlanResult) -> dict[str, PlacementChange]:
    """Return the binding changes of a plan by cluster, without unremarkable ones."""
    return {
        r.object: r
        for r in result.plan.placements
        if r.kind == "binding" and (r.action != "keep" or r.trigger)
    }


def list_moves(result: PlanResult) -> dict[str, tuple[str, str]]:
    """Return (action, trigger) by cluster."""
    return {
        name: (str(row.action), row.trigger) for name, row in list_binding_changes(result).items()
    }
