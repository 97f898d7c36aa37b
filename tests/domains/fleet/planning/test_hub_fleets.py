"""Compare random fleets with a running hub step by step: clusters, binding states and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.state.objects import EMPTY
from tests.domains.fleet.planning.fleet_harness import get_bindings
from tests.domains.fleet.planning.hub_dumps import needs_recordings, read_recording
from tests.planning.harness import build_state_after, plan, require_success

pytestmark = needs_recordings

HEALTH = {"healthy": "Healthy", "unhealthy": "Unhealthy"}
NAMESPACE = """
resource "fleet_hub_manifest" "ns" {
  yaml_body = "apiVersion: v1\\nkind: Namespace\\nmetadata:\\n  name: web"
}
"""


def taint(each: Mapping[str, str]) -> str:
    key = json.dumps(each["key"])
    value = json.dumps(each.get("value", ""))
    return f"  taint {{\n    key   = {key}\n    value = {value}\n  }}\n"


def member(each: Mapping[str, Any]) -> str:
    taints = "".join(map(taint, each.get("taints", ())))
    figures = "".join(
        f"    {name} = {json.dumps(each['resources'][name])}\n"
        for name in each.get("resources", {})
    )
    return f"""
resource "fleet_member_cluster" "{each["name"]}" {{
  labels     = {json.dumps(each.get("labels", {}))}
  health     = "{HEALTH[each["state"]]}"
  properties = {json.dumps(each.get("properties", {}))}
  resources {{
{figures}  }}
{taints}}}
"""


def placement(name: str, policy: Mapping[str, Any], strategy: str) -> str:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
    body = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [selector], "policy": policy, "strategy": {"type": strategy}},
    }
    text = json.dumps(json.dumps(body)).replace("${", "$${")
    return f'resource "fleet_cluster_resource_placement" "{name}" {{\n  manifest = {text}\n}}\n'


def configuration(step: Mapping[str, Any], strategy: str) -> str:
    placements = (
        placement(name, each["policy"], strategy) for name, each in step["placements"].items()
    )
    return NAMESPACE + "".join(map(member, step["clusters"])) + "".join(placements)


def is_soft(policy: Mapping[str, Any]) -> bool:
    """Return whether its spread scores after a change differ between runs on the hub itself."""
    constraints = policy.get("topologySpreadConstraints") or ()
    return any(each.get("whenUnsatisfiable") == "ScheduleAnyway" for each in constraints)


@pytest.mark.parametrize("number", range(24))
def test_fleet_matches_the_hub(number: int) -> None:
    fleet: Any = read_recording("fleets")
    state = EMPTY
    story = fleet[number]
    for at, step in enumerate(story["steps"]):
        state = build_state_after(
            require_success(plan(configuration(step, story["strategy"]), state)), state
        )
        for name, recorded_placement in step["placements"].items():
            held = get_bindings(state, f"fleet_cluster_resource_placement.{name}")
            soft = is_soft(recorded_placement["policy"])
            ours = {
                cluster: [
                    each["state"],
                    *(() if soft else (each["topology_spread_score"],)),
                    each["affinity_score"],
                ]
                for cluster, each in held.items()
            }
            theirs = {
                cluster: [each[0], *(() if soft else each[1:2]), each[2]]
                for cluster, each in recorded_placement["bindings"].items()
            }
            assert ours == theirs, (at, step["action"], name)
