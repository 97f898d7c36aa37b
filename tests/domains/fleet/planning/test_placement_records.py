"""What clusters really have: snapshots with their objects, pruned ones, stalled rollouts, older states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import STAGES, bindings, hub, member, pick_n, placement
from tests.domains.pods.planning.test_placement_pods import CLUSTERS, MEMBERS, web
from tests.domains.pods.planning.test_placement_pods import hub as objects
from tests.planning.harness import RACKS, applied, attributes, good, is_empty, plan, state_of, warnings

P = "fleet_cluster_resource_placement.p"
FLEET = "".join(member(n, {"ring": n[-1]}) for n in ("c3", "c4"))
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


def run(name: str, more: str = "") -> str:
    return f"""
resource "fleet_cluster_staged_update_run" "{name}" {{
  placement_name               = "p"
  staged_rollout_strategy_name = "s"
  state                        = "Run"
  {more}
}}
"""


def note(state: State) -> Mapping[str, Any]:
    current = state.instances[parse_address(P)].current
    assert current is not None
    assert current.private is not None
    return current.private


def colours(state: State) -> dict[str, str]:
    """What the ConfigMap says on each cluster that has it."""
    noted = note(state)
    by_index = {each["index"]: each["objects"] for each in noted["snapshots"]}
    found = {}
    for cluster, binding in bindings(state).items():
        own = noted["content"].get(cluster)
        digests = own["objects"] if own else by_index.get(binding["resource_snapshot"], ())
        bodies = [noted["bodies"][digest] for digest in digests]
        for body in bodies:
            if body["kind"] == "ConfigMap":
                found[cluster] = body["data"]["colour"]
    return found


def pods(state: State) -> dict[str, int]:
    workloads = attributes(state, P)["workloads"]
    return {member: sum(map(len, placed.values())) for member, placed in workloads.items()}


def as_an_older_version_wrote_it(state: State) -> State:
    """State as it was before snapshots had content: the latest hash, and what overrides made, hashed."""
    address = parse_address(P)
    instance = state.instances[address]
    assert instance.current is not None
    noted = dict(instance.current.private or {})
    latest = noted.pop("snapshots")[-1]
    content = noted.pop("content")
    noted.pop("bodies")
    noted["resources"] = {"index": latest["index"], "hash": latest["hash"]}
    noted["overrides"] = {c: content[c]["overrides"] if c in content else "" for c in bindings(state)}
    current = replace(instance.current, private=noted)
    return state.replace_instance(address, replace(instance, current=current))


def test_pruned_content_stays_and_no_run_can_use_it() -> None:
    placed = placement(pick_n(2), EXTERNAL) + STAGES
    whole = run("r0", 'approvals = ["r0-after-one"]')
    state = state_of(FLEET + hub("blue") + placed + whole)
    assert colours(state) == {"c3": "blue", "c4": "blue"}
    text = placed + whole
    for number, colour in enumerate(("red", "green"), 1):
        text += run(f"r{number}")
        state = applied(good(plan(FLEET + hub(colour) + text, state)), state)
    # Room for a third was made before it was taken: the first is gone, though c3 has it.
    assert [each["index"] for each in note(state)["snapshots"]] == [1, 2]
    assert colours(state) == {"c3": "blue", "c4": "green"}
    assert {c: b["resource_snapshot"] for c, b in bindings(state).items()} == {"c3": 0, "c4": 2}
    assert is_empty(plan(FLEET + hub("green") + text, state))
    named = text + run("back", 'resource_snapshot_index = "0"')
    result = good(plan(FLEET + hub("green") + named, state))
    (warning,) = warnings(result)
    assert "no resourceSnapshots with index `0` found for placement `p`. Existing snapshots: 1, 2." in warning.detail


def test_the_text_that_came_back_is_the_latest_snapshot() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    approved = 'approvals = ["r-after-one"]'
    state = state_of(text + hub("blue") + run("r", approved))
    again = run("again", 'approvals = ["again-after-one"]')
    state = applied(good(plan(text + hub("blue") + run("r", approved) + again, state)), state)
    assert [each["index"] for each in note(state)["snapshots"]] == [0]


def test_a_run_that_waits_keeps_to_the_snapshot_that_it_took() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    state = state_of(text + hub("blue") + run("r"))
    state = applied(good(plan(text + hub("red") + run("r"), state)), state)
    approved = text + hub("red") + run("r", 'approvals = ["r-after-one"]')
    state = applied(good(plan(approved, state)), state)
    assert colours(state) == {"c3": "blue", "c4": "blue"}


def test_a_rollout_that_stalls_leaves_the_old_pods() -> None:
    text = RACKS + CLUSTERS + MEMBERS
    state = state_of(text + objects(web(1)) + placement())
    assert pods(state) == {"a": 1, "b": 1}
    stalled = text + objects(web(3, cpu="100m")) + placement("", STALLING)
    state = applied(good(plan(stalled, state)), state)
    assert pods(state) == {"a": 1, "b": 1}
    assert is_empty(plan(stalled, state))
    moving = text + objects(web(3, cpu="100m")) + placement()
    assert pods(applied(good(plan(moving, state)), state)) == {"a": 3, "b": 3}


def test_an_older_state_plans_to_nothing() -> None:
    text = RACKS + CLUSTERS + MEMBERS + objects(web(1)) + placement() + OVERRIDE
    state = state_of(text)
    assert pods(state) == {"a": 2, "b": 2}
    older = as_an_older_version_wrote_it(state)
    assert is_empty(plan(text, older))
    fewer = good(plan(text.replace('value = "2"', 'value = "1"'), older))
    assert {row.trigger for row in fewer.plan.placements if row.kind == "pod"} == {"", "scale_in"}


def test_older_state_has_resources_of_external_placement() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES + run("r", 'approvals = ["r-after-one"]')
    older = as_an_older_version_wrote_it(state_of(text + hub("blue")))
    assert is_empty(plan(text + hub("blue"), older))
    state = applied(good(plan(text + hub("red"), older)), older)
    assert colours(state) == {"c3": "blue", "c4": "blue"}
    assert [each["index"] for each in note(state)["snapshots"]] == [0]


def test_what_an_override_cannot_change_stays_as_it_was() -> None:
    text = RACKS + CLUSTERS + MEMBERS
    state = state_of(text + objects(web(1)) + placement())
    failing = text + objects(web(1)) + placement() + OVERRIDE.replace("/spec/replicas", "/spec/missing")
    result = good(plan(failing, state))
    assert "Override failure" in [w.summary for w in warnings(result)]
    state = applied(result, state)
    assert pods(state) == {"a": 1, "b": 1}
    assert is_empty(plan(failing, state))
    assert pods(state_of(failing)) == {}
