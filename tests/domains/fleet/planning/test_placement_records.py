"""Tests of recorded cluster content.

They cover snapshots with their objects, pruned snapshots, blocked rollouts, and imports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.planning import placement_records
from nexusform.domains.pods.importers import manifest_parser
from nexusform.plans.plan import Action
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    STAGES,
    build_hub,
    build_member,
    build_pick_n,
    build_placement,
    get_bindings,
)
from tests.domains.pods.planning.test_placement_pods import CLUSTERS, MEMBERS, build_web_deployment
from tests.domains.pods.planning.test_placement_pods import build_hub_manifest as objects
from tests.planning.harness import (
    RACKS,
    attributes,
    build_state,
    build_state_after,
    is_empty,
    list_warnings,
    plan,
    require_success,
)

P = "fleet_cluster_resource_placement.p"
FLEET = "".join(build_member(n, {"ring": n[-1]}) for n in ("c3", "c4"))
EXTERNAL = """strategy {
    type = "External"
  }
  revision_history_limit = 2"""
STALLING = """strategy {
    rolling_update {
      max_unavailable = "0"
      max_surge       = "0"
    }
  }"""
OVERRIDE = """
resource "fleet_resource_override" "o" {
  namespace = "web"
  placement { name = "p" }
  resource_selector {
    group   = "apps"
    version = "v1"
    kind    = "Deployment"
    name    = "web"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "replace"
        path  = "/spec/replicas"
        value = "2"
      }
    }
  }
}
"""


def build_run(name: str, more: str = "") -> str:
    return f"""
resource "fleet_cluster_staged_update_run" "{name}" {{
  placement_name               = "p"
  staged_rollout_strategy_name = "s"
  state                        = "Run"
  {more}
}}
"""


def read_private_data(state: State) -> Mapping[str, Any]:
    current = state.instances[parse_address(P)].current
    assert current is not None
    assert current.private is not None
    return current.private


def list_colours(state: State) -> dict[str, str]:
    """Return the colour in the ConfigMap by cluster."""
    noted = read_private_data(state)
    by_index = {each["index"]: each["objects"] for each in noted["snapshots"]}
    found = {}
    for cluster, binding in get_bindings(state).items():
        own = noted["content"].get(cluster)
        digests = own["objects"] if own else by_index.get(binding["resource_snapshot"], ())
        bodies = [noted["bodies"][digest] for digest in digests]
        for body in bodies:
            if body["kind"] == "ConfigMap":
                found[cluster] = body["data"]["colour"]
    return found


def count_pods(state: State) -> dict[str, int]:
    workloads = attributes(state, P)["workloads"]
    return {member: sum(map(len, placed.values())) for member, placed in workloads.items()}


def forget_resources(state: State) -> State:
    """Return the state without the resources of the placement, as after an import."""
    address = parse_address(P)
    instance = state.instances[address]
    assert instance.current is not None
    noted = dict(instance.current.private or {})
    for name in ("snapshots", "content", "bodies"):
        noted.pop(name)
    return state.replace_instance(
        address, replace(instance, current=replace(instance.current, private=noted))
    )


def test_pruned_content_is_kept_but_unavailable_to_runs() -> None:
    placed = build_placement(build_pick_n(2), EXTERNAL) + STAGES
    whole = build_run("r0", 'approvals = ["r0-after-one"]')
    state = build_state(FLEET + build_hub("blue") + placed + whole)
    assert list_colours(state) == {"c3": "blue", "c4": "blue"}
    text = placed + whole
    for number, colour in enumerate(("red", "green"), 1):
        text += build_run(f"r{number}")
        state = build_state_after(
            require_success(plan(FLEET + build_hub(colour) + text, state)), state
        )
    # A slot for a third snapshot is freed before its creation: the first is pruned, though
    # c3 has it.
    assert [each["index"] for each in read_private_data(state)["snapshots"]] == [1, 2]
    assert list_colours(state) == {"c3": "blue", "c4": "green"}
    assert {c: b["resource_snapshot"] for c, b in get_bindings(state).items()} == {"c3": 0, "c4": 2}
    assert is_empty(plan(FLEET + build_hub("green") + text, state))
    named = text + build_run("back", 'resource_snapshot_index = "0"')
    result = require_success(plan(FLEET + build_hub("green") + named, state))
    *waiting, warning = list_warnings(result)
    assert {w.id for w in waiting} == {"staged-run-awaiting-approval"}
    assert (
        "no resourceSnapshots with index `0` found for placement `p`. Existing snapshots: 1, 2."
        in warning.detail
    )


def test_restored_text_is_the_latest_snapshot() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    approved = 'approvals = ["r-after-one"]'
    state = build_state(text + build_hub("blue") + build_run("r", approved))
    again = build_run("again", 'approvals = ["again-after-one"]')
    state = build_state_after(
        require_success(plan(text + build_hub("blue") + build_run("r", approved) + again, state)),
        state,
    )
    assert [each["index"] for each in read_private_data(state)["snapshots"]] == [0]


def test_waiting_run_keeps_its_snapshot() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_hub("blue") + build_run("r"))
    state = build_state_after(
        require_success(plan(text + build_hub("red") + build_run("r"), state)), state
    )
    approved = text + build_hub("red") + build_run("r", 'approvals = ["r-after-one"]')
    state = build_state_after(require_success(plan(approved, state)), state)
    assert list_colours(state) == {"c3": "blue", "c4": "blue"}


def test_blocked_rollout_keeps_old_pods() -> None:
    text = RACKS + CLUSTERS + MEMBERS
    state = build_state(text + objects(build_web_deployment(1)) + build_placement())
    assert count_pods(state) == {"a": 1, "b": 1}
    stalled = text + objects(build_web_deployment(3, cpu="100m")) + build_placement("", STALLING)
    state = build_state_after(require_success(plan(stalled, state)), state)
    assert count_pods(state) == {"a": 1, "b": 1}
    assert is_empty(plan(stalled, state))
    moving = text + objects(build_web_deployment(3, cpu="100m")) + build_placement()
    assert count_pods(build_state_after(require_success(plan(moving, state)), state)) == {
        "a": 3,
        "b": 3,
    }


def test_resources_missing_in_state_count_as_applied() -> None:
    text = (
        RACKS + CLUSTERS + MEMBERS + objects(build_web_deployment(1)) + build_placement() + OVERRIDE
    )
    state = build_state(text)
    assert count_pods(state) == {"a": 2, "b": 2}
    imported = forget_resources(state)
    assert is_empty(plan(text, imported))
    fewer = require_success(plan(text.replace('value = "2"', 'value = "1"'), imported))
    assert {row.trigger for row in fewer.plan.placements if row.kind == "pod"} == {"", "scale_in"}


def test_failed_override_keeps_old_content() -> None:
    text = RACKS + CLUSTERS + MEMBERS
    state = build_state(text + objects(build_web_deployment(1)) + build_placement())
    failing = (
        text
        + objects(build_web_deployment(1))
        + build_placement()
        + OVERRIDE.replace("/spec/replicas", "/spec/missing")
    )
    result = require_success(plan(failing, state))
    assert "Override failure" in [w.summary for w in list_warnings(result)]
    state = build_state_after(result, state)
    assert count_pods(state) == {"a": 1, "b": 1}
    assert is_empty(plan(failing, state))
    assert count_pods(build_state(failing)) == {}


def build_owned_objects() -> tuple[str, str]:
    """Return a ReplicaSet and a ControllerRevision with an owner, as in a dump of a cluster."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "z", "uid": "u"}
    metadata = {"namespace": "web", "ownerReferences": [{**owner, "controller": True}]}
    replica_set = json.loads(build_web_deployment(2))
    replica_set |= {"kind": "ReplicaSet", "metadata": {**metadata, "name": "z-1"}}
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {**metadata, "name": "z-2"},
        "revision": 1,
    }
    return json.dumps(replica_set), json.dumps(revision)


def test_objects_of_owners_in_an_earlier_state_start_no_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = RACKS + CLUSTERS + MEMBERS
    hub = objects(build_web_deployment(), *build_owned_objects())
    text = members + hub + build_placement()
    # Earlier versions selected and recorded these objects.
    with monkeypatch.context() as earlier:
        for module in (manifest_parser, placement_records):
            earlier.setattr(module, "is_created_by_owner", lambda _manifest: False)
        state = build_state(text)
    kinds = {body["kind"] for body in read_private_data(state)["bodies"].values()}
    assert {"ReplicaSet", "ControllerRevision"} <= kinds
    result = require_success(plan(text, state))
    assert {str(row.action) for row in result.plan.placements} == {"keep"}
    # Only the availability in its status is another one.
    (change,) = (item for item in result.plan.changes if item.action is not Action.NO_OP)
    assert change.before is not None
    assert change.after is not None
    names = {name for name, value in change.before.items() if change.after[name] != value}
    assert names == {"placement_statuses"}
    state_after = build_state_after(result, state)
    bodies = read_private_data(state_after)["bodies"].values()
    assert [body["kind"] for body in bodies if "ownerReferences" in body["metadata"]] == []
    assert is_empty(plan(text, state_after))
    # An edit of another object changes that object alone.
    edited = objects(build_web_deployment(image="web:2"), *build_owned_objects())
    result = require_success(plan(members + edited + build_placement(), state))
    moved = {row.pool for row in result.plan.placements if row.action != "keep" and row.pool}
    assert moved == {"a/web/Deployment/web", "b/web/Deployment/web"}
