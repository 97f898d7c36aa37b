"""Tests of operations on placements.

Evictions and budgets, overrides, staged runs, strategies, deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from nexusform.domains.fleet.planning import step_order
from nexusform.plans.plan import Mode, PlacementAction
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    STAGES,
    build_hub,
    build_member,
    build_pick_n,
    build_placement,
    get_bindings,
    list_binding_changes,
    list_moves,
    list_picks,
)
from tests.planning.harness import (
    attributes,
    build_state,
    build_state_after,
    is_empty,
    list_actions,
    list_errors,
    list_rows,
    list_warnings,
    plan,
    require_success,
)

P = "fleet_cluster_resource_placement.p"
FLEET = build_hub() + "".join(build_member(n, {"ring": n[-1]}) for n in ("c1", "c2", "c3", "c4"))


def build_eviction(cluster: str, name: str = "e") -> str:
    return f"""
resource "fleet_placement_eviction" "{name}" {{
  placement_name = "p"
  cluster_name   = "{cluster}"
}}
"""


def build_budget(text: str) -> str:
    return f"""
resource "fleet_placement_disruption_budget" "p" {{
  {text}
}}
"""


def build_override(value: str, cluster: str = "", placed: str = "p") -> str:
    selector = (
        f"""cluster_selector_term {{
          label_selector {{
            match_labels = {{ "kubernetes-fleet.io/member-name" = "{cluster}" }}
          }}
        }}"""
        if cluster
        else ""
    )
    return f"""
resource "fleet_resource_override" "o" {{
  namespace = "web"
  placement {{
    name = "{placed}"
  }}
  resource_selector {{
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }}
  policy {{
    override_rule {{
      cluster_selector {{
        {selector}
      }}
      json_patch_override {{
        op    = "replace"
        path  = "/data/colour"
        value = "{value}"
      }}
    }}
  }}
}}
"""


def list_colours(state: State, address: str = P) -> set[str]:
    """Return the colours in the ConfigMap on all clusters with it."""
    current = state.instances[parse_address(address)].current
    assert current is not None
    assert current.private is not None
    noted = current.private
    lists = [each["objects"] for each in noted["content"].values()] or [
        noted["snapshots"][-1]["objects"]
    ]
    bodies = [noted["bodies"][digest] for digests in lists for digest in digests]
    return {body["data"]["colour"] for body in bodies if body["kind"] == "ConfigMap"}


EXTERNAL = """strategy {
    type = "External"
  }"""


def build_run(more: str = 'state = "Run"') -> str:
    return f"""
resource "fleet_cluster_staged_update_run" "r" {{
  placement_name               = "p"
  staged_rollout_strategy_name = "s"
  {more}
}}
"""


def test_evicted_cluster_may_be_picked_again() -> None:
    text = FLEET + build_placement(build_pick_n(2))
    state = build_state(text)
    result = require_success(plan(text + build_eviction("c4"), state))
    found = [(str(r.action), r.trigger) for r in result.plan.placements if r.object == "c4"]
    assert found == [("remove", "evicted"), ("place", "evicted")]
    after = build_state_after(result, state)
    assert attributes(after, P)["evictions"] == [
        {
            "name": "e",
            "cluster_name": "c4",
            "valid": True,
            "executed": True,
            "reason": "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified",
        }
    ]
    assert is_empty(plan(text + build_eviction("c4"), after))
    removed = require_success(plan(text, after))
    assert list_actions(removed) == {"fleet_placement_eviction.e": "delete"}
    assert list_moves(removed) == {}


def test_evicted_cluster_gets_the_earlier_content_first() -> None:
    """The eviction comes before the new content, whose rollout is blocked."""
    slow = 'strategy {\n rolling_update {\n max_unavailable = "0"\n max_surge = "1"\n }\n }'
    text = FLEET + build_placement(build_pick_n(2), slow)
    state = build_state(text)
    changed = text.replace("blue", "red") + build_eviction("c4")
    result = require_success(plan(changed, state))
    after = build_state_after(result, state)
    assert {name: b["resource_snapshot"] for name, b in get_bindings(after).items()} == {
        "c3": 0,
        "c4": 0,
    }
    assert is_empty(plan(changed, after))


def test_budget_blocks_an_eviction() -> None:
    text = FLEET + build_placement(build_pick_n(2)) + build_budget("min_available = 2")
    state = build_state(text)
    result = require_success(plan(text + build_eviction("c4"), state))
    assert list_moves(result) == {}
    assert [w.summary for w in list_warnings(result)] == ["Eviction not executed"]
    assert attributes(build_state_after(result, state), P)["evictions"][0]["executed"] is False


def test_cluster_with_failed_resources_is_not_available_to_a_budget() -> None:
    failing = FLEET.replace('"c3" {', '"c3" {\n  apply_fails = true', 1)
    text = failing + build_placement(build_pick_n(3)) + build_budget("min_available = 2")
    state = build_state(text)
    result = require_success(plan(text + build_eviction("c4"), state))
    assert attributes(build_state_after(result, state), P)["evictions"][0]["executed"] is False
    # Without the failure three clusters are available, so one may leave.
    healthy = text.replace("\n  apply_fails = true", "")
    state = build_state(healthy)
    result = require_success(plan(healthy + build_eviction("c4"), state))
    assert attributes(build_state_after(result, state), P)["evictions"][0]["executed"] is True


def test_budget_of_pick_all_must_be_a_whole_number() -> None:
    found = list_errors(plan(FLEET + build_placement() + build_budget('min_available = "50%"')))
    assert [e.summary for e in found] == ["Invalid disruption budget"]


def test_empty_budget_of_pick_all_is_a_warning() -> None:
    result = require_success(plan(FLEET + build_placement() + build_budget("")))
    assert [
        (warning.id, warning.detail.count("blocks every")) for warning in list_warnings(result)
    ] == [("fully-blocking-budget", 1)]


def test_override_is_rolled_out_to_its_clusters_only() -> None:
    text = FLEET + build_placement(build_pick_n(2))
    state = build_state(text)
    result = require_success(plan(text + build_override("red", "c3"), state))
    assert list_moves(result) == {"c3": ("update", "overrides_changed")}
    after = build_state_after(result, state)
    assert is_empty(plan(text + build_override("red", "c3"), after))
    again = require_success(plan(text + build_override('${upper("green")}', "c3"), after))
    assert list_moves(again) == {"c3": ("update", "overrides_changed")}
    assert list_moves(require_success(plan(text, after))) == {"c3": ("update", "overrides_changed")}


def test_failed_override_is_reported() -> None:
    text = (
        FLEET
        + build_placement(build_pick_n(1))
        + build_override("x").replace("/data/colour", "/data/missing")
    )
    result = require_success(plan(text))
    assert [w.summary for w in list_warnings(result)] == ["Override failure"]
    conditions = attributes(build_state_after(result), P)["conditions"]
    assert (conditions[-1]["reason"], conditions[-1]["status"]) == ("OverriddenFailed", "False")


def test_failing_override_is_named_by_its_snapshot() -> None:
    text = FLEET + build_placement(build_pick_n(1))
    broken = build_override("x").replace("/data/colour", "/data/missing")
    first = build_state_after(require_success(plan(text + broken)))
    assert 'ResourceOverrideSnapshot "o-0" failed to apply on' in list_override_failures(first)
    other = broken.replace("/data/missing", "/data/absent")
    second = build_state_after(require_success(plan(text + other, first)), first)
    assert 'ResourceOverrideSnapshot "o-1" failed to apply on' in list_override_failures(second)
    assert is_empty(plan(text + other, second))
    without = build_state_after(require_success(plan(text, second)), second)
    anew = build_state_after(require_success(plan(text + other, without)), without)
    assert 'ResourceOverrideSnapshot "o-0" failed to apply on' in list_override_failures(anew)


def list_override_failures(state: State) -> str:
    """Return the override failure messages of the clusters' statuses."""
    statuses = attributes(state, P)["placement_statuses"]
    conditions = [each for status in statuses for each in status["conditions"]]
    return " ".join(each["message"] for each in conditions if each["reason"] == "OverriddenFailed")


def test_new_member_labels_change_overrides_at_next_rollout() -> None:
    by_ring = build_override("red", "3").replace('"kubernetes-fleet.io/member-name"', "ring")
    text = FLEET + build_placement(build_pick_n(4)) + by_ring
    state = build_state(text)
    assert "red" in list_colours(state)
    relabelled = text.replace(build_member("c3", {"ring": "3"}), build_member("c3", {"ring": "9"}))
    result = require_success(plan(relabelled, state))
    assert list_moves(result) == {}
    assert "override-effective-next-change" in [each.id for each in list_warnings(result)]
    after = build_state_after(result, state)
    assert list_colours(after) == list_colours(state)
    last = require_success(plan(relabelled.replace("colour: blue", "colour: green"), after))
    assert list_colours(build_state_after(last, after)) == {"green"}


def test_rollout_marks_cluster_with_failing_override() -> None:
    strategy = 'strategy {\n rolling_update {\n max_unavailable = "1"\n max_surge = "0"\n }\n }'
    text = FLEET + build_placement(build_pick_n(3), strategy)
    state = build_state(text)
    broken = build_override("x", "c4").replace("/data/colour", "/data/missing")
    result = require_success(plan(text.replace("colour: blue", "colour: red") + broken, state))
    steps = [
        (step.clusters, step.status)
        for rollout in result.plan.workloads.rollouts
        for step in rollout.steps
    ]
    assert (("c4",), "stuck") in steps, steps
    assert all("c4" not in clusters for clusters, status in steps if status != "stuck")


def build_cluster_override(name: str) -> str:
    return f"""
resource "fleet_cluster_resource_override" "{name}" {{
  cluster_resource_selector {{
    group   = "rbac.authorization.k8s.io"
    version = "v1"
    kind    = "ClusterRole"
    name    = "reader"
  }}
  policy {{
    override_rule {{
      cluster_selector {{}}
      override_type = "Delete"
    }}
  }}
}}
"""


def test_object_is_selected_by_one_override_of_a_kind() -> None:
    found = list_errors(plan(build_cluster_override("a") + build_cluster_override("b")))
    assert [e.address for e in found] == ["fleet_cluster_resource_override.b"]
    assert (
        "the resource has been selected by both b and a, which is not supported" in found[0].detail
    )
    twice = FLEET + build_placement(build_pick_n(1)) + build_override("red")
    other = build_override("blue").replace('"o"', '"p"')
    assert [e.address for e in list_errors(plan(twice + other))] == ["fleet_resource_override.p"]
    assert list_errors(plan(twice + other.replace('namespace = "web"', 'namespace = "db"'))) == []
    # The existing override keeps it, regardless of its name.
    state = build_state(build_cluster_override("z"))
    found = list_errors(plan(build_cluster_override("z") + build_cluster_override("a"), state))
    assert [e.address for e in found] == ["fleet_cluster_resource_override.a"]


def test_hub_accepts_at_most_a_hundred_overrides() -> None:
    many = """
resource "fleet_cluster_resource_override" "many" {
  count = 101
  name  = "o${count.index}"
  cluster_resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "n${count.index}"
  }
  policy {
    override_rule {
      cluster_selector {}
      override_type = "Delete"
    }
  }
}
"""
    found = list_errors(plan(many))
    assert [e.address for e in found] == ["fleet_cluster_resource_override.many[100]"]
    assert "at most 100 cluster resources can be created" in found[0].detail
    inside = 'count = 101\n  namespace = "web"'
    namespaced = many.replace("cluster_resource_", "resource_").replace("count = 101", inside)
    assert [e.address for e in list_errors(plan(namespaced))] == [
        "fleet_resource_override.many[100]"
    ]


def test_namespace_override_precedes_object_override() -> None:
    of_namespace = """
resource "fleet_cluster_resource_override" "z" {
  cluster_resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "add"
        path  = "/data"
        value = jsonencode({ colour = "from the namespace" })
      }
    }
  }
}
"""
    text = FLEET + build_placement(build_pick_n(1)) + of_namespace
    both = text + build_override("from the object")
    assert list_warnings(plan(both)) == []
    assert list_colours(build_state(both)) == {"from the object"}
    assert list_colours(build_state(text)) == {"from the namespace"}
    namespaced = """
resource "fleet_resource_placement" "p" {
  namespace = "web"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
}
"""
    scoped = build_override("from the object").replace(
        'name = "p"\n', 'name = "p"\n    scope = "Namespaced"\n'
    )
    for chosen, colour in (
        (of_namespace, "from the namespace"),
        (scoped, "from the object"),
        (build_override("for the other placement"), "blue"),
    ):
        state = build_state(FLEET + namespaced + chosen)
        assert list_colours(state, "fleet_resource_placement.p") == {colour}


def test_external_placements_wait_for_a_staged_run() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text)
    assert {b["state"] for b in get_bindings(state).values()} == {"Scheduled"}
    assert is_empty(plan(text, state))
    result = require_success(plan(text + build_run(), state))
    assert list_moves(result) == {"c4": ("update", "staged_run"), "c3": ("keep", "staged_run")}
    row = list_binding_changes(result)["c3"]
    assert (row.stage, row.group, row.waits_for) == ("two", 1, "r-after-one")
    assert [w.summary for w in list_warnings(result)] == ["Staged run awaiting approval"]
    state = build_state_after(result, state)
    assert {c: b["state"] for c, b in get_bindings(state).items()} == {
        "c3": "Scheduled",
        "c4": "Bound",
    }
    unchanged = plan(text + build_run(), state)
    assert is_empty(unchanged)
    assert [(w.id, w.is_preexisting) for w in list_warnings(unchanged)] == [
        ("staged-run-awaiting-approval", False)
    ]
    approved = build_run('state = "Run"\n  approvals = ["r-after-one"]')
    result = require_success(plan(text + approved, state))
    assert list_moves(result) == {"c3": ("update", "staged_run")}
    state = build_state_after(result, state)
    assert {b["state"] for b in get_bindings(state).values()} == {"Bound"}
    conditions = [(c["type"], c["status"]) for c in attributes(state, P)["conditions"]]
    assert conditions[-1] == ("ClusterResourcePlacementAvailable", "True")
    assert is_empty(plan(text + approved, state))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("blue", "red"),
        # The snapshot stays the same, but the hub notices the write.
        (
            "      name: settings\n",
            "      name: settings\n      annotations: {deployment.kubernetes.io/revision: '2'}\n",
        ),
    ],
)
def test_status_of_evicted_cluster_is_kept_until_next_cycle(before: str, after: str) -> None:
    """Observed on a running hub, nine times.

    Under External, a cluster picked again gets no new status.
    """
    text = FLEET + build_placement(build_pick_n(1), EXTERNAL) + STAGES + build_run()
    state = build_state(text)
    said = attributes(state, P)["placement_statuses"], attributes(state, P)["conditions"]
    assert said[0][0]["conditions"][-1]["type"] == "Available"
    text += build_eviction("c4")
    state = build_state_after(require_success(plan(text, state)), state)
    assert get_bindings(state)["c4"]["state"] == "Scheduled"
    assert (attributes(state, P)["placement_statuses"], attributes(state, P)["conditions"]) == said
    assert is_empty(plan(text, state))
    assert before in text
    text = text.replace(before, after, 1)
    state = build_state_after(require_success(plan(text, state)), state)
    (cluster,) = attributes(state, P)["placement_statuses"]
    assert [(c["type"], c["status"]) for c in cluster["conditions"]] == [
        ("Scheduled", "True"),
        ("RolloutStarted", "Unknown"),
    ]
    conditions = attributes(state, P)["conditions"]
    assert conditions[-1]["reason"] == "RolloutControlledByExternalController"


def test_eviction_after_a_deleting_run_updates_the_status() -> None:
    """Seen on a running hub: a deleted binding starts a cycle, and a full PickN rejects none in it.

    So the cycle after the eviction reports other decisions.
    """
    stage = (
        'resource "fleet_cluster_staged_update_strategy" "s" {\n'
        '  stage {\n    name = "all"\n    label_selector {}\n  }\n}\n'
    )
    run = build_run('state = "Run"')
    spread = """topology_spread_constraint {
      topology_key       = "ring"
      when_unsatisfiable = "ScheduleAnyway"
    }"""
    text = FLEET + build_placement(build_pick_n(3, spread), EXTERNAL) + stage
    state = build_state(text + run)
    assert len(get_bindings(state)) == 3
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + stage
    text += run + run.replace('"r"', '"second"')
    state = build_state_after(require_success(plan(text, state)), state)
    assert {b["state"] for b in get_bindings(state).values()} == {"Bound"}
    assert len(get_bindings(state)) == 2
    evicted = max(get_bindings(state))
    state = build_state_after(require_success(plan(text + build_eviction(evicted), state)), state)
    statuses = {s["cluster_name"]: s for s in attributes(state, P)["placement_statuses"]}
    assert [(c["type"], c["status"]) for c in statuses[evicted]["conditions"]] == [
        ("Scheduled", "True"),
        ("RolloutStarted", "Unknown"),
    ]


def test_staged_rollout_is_a_timeline() -> None:
    stages = """
resource "fleet_cluster_staged_update_strategy" "s" {
  stage {
    name = "one"
    label_selector {
      match_labels = { ring = "1" }
    }
    after_stage_task {
      type      = "TimedWait"
      wait_time = "90m"
    }
    after_stage_task {
      type = "Approval"
    }
  }
  stage {
    name = "nobody"
    label_selector {
      match_labels = { ring = "none" }
    }
    before_stage_task {
      type = "Approval"
    }
  }
  stage {
    name              = "rest"
    sorting_label_key = "order"
    max_concurrency   = "70%"
    label_selector {
      match_expression {
        key      = "ring"
        operator = "NotIn"
        values   = ["1"]
      }
    }
  }
}
"""
    members = "".join(
        build_member(f"c{i}", {"ring": str(i), "order": str(9 - i)}) for i in range(1, 5)
    )
    text = build_hub() + members + build_placement("", EXTERNAL) + stages
    (rollout,) = require_success(plan(text + build_run())).plan.workloads.rollouts
    assert (str(rollout.address), rollout.cause, rollout.resource_snapshot) == (
        P,
        "staged run r",
        0,
    )
    assert [
        (s.kind, s.stage, s.group, s.clusters, s.start_seconds, s.status) for s in rollout.steps
    ] == [
        ("update", "one", 1, ("c1",), 0, "planned"),
        ("wait", "one", 0, (), 0, "planned"),
        ("approval", "one", 0, (), 0, "waiting"),
        ("update", "rest", 1, ("c4", "c3"), 5400, "later"),
        ("update", "rest", 2, ("c2",), 5400, "later"),
    ]
    assert rollout.steps[3].waits_for == "1h30m, r-after-one"
    state = build_state_after(require_success(plan(text + build_run())))
    granted = build_run('state = "Run"\n  approvals = ["r-after-one"]')
    (rollout,) = require_success(plan(text + granted, state)).plan.workloads.rollouts
    assert [step.status for step in rollout.steps] == ["done", *["planned"] * 4]


def test_several_waves_are_a_timeline() -> None:
    text = FLEET + build_placement()
    state = build_state(text)
    assert require_success(plan(text)).plan.workloads.rollouts == ()
    (rollout,) = require_success(plan(text.replace("blue", "red"), state)).plan.workloads.rollouts
    assert [(step.group, step.clusters) for step in rollout.steps] == [
        (1, ("c1",)),
        (2, ("c2",)),
        (3, ("c3",)),
        (4, ("c4",)),
    ]


def test_run_is_stuck_at_failing_override() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES + build_override("x", "c4")
    failing = text.replace("/data/colour", "/data/missing")
    result = require_success(
        plan(failing + build_run('state = "Run"\n  approvals = ["r-after-one"]'))
    )
    assert "Stuck staged run" in [w.summary for w in list_warnings(result)]
    assert [step.status for step in result.plan.workloads.rollouts[0].steps] == [
        "stuck",
        "later",
        "later",
    ]
    states = {c: b["state"] for c, b in get_bindings(build_state_after(result)).items()}
    assert states == {"c3": "Scheduled", "c4": "Bound"}


def test_run_takes_latest_or_named_snapshot() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_run())
    assert get_bindings(state)["c4"]["resource_snapshot"] == 0
    unknown = 'state = "Run"\n  resource_snapshot_index = "5"'
    result = require_success(plan(text + build_run(unknown)))
    assert [w.summary for w in list_warnings(result)] == ["Blocked staged run"]
    assert (
        "no resourceSnapshots with index `5` found for placement `p`"
        in list_warnings(result)[0].detail
    )
    assert {b["resource_snapshot"] for b in get_bindings(build_state_after(result)).values()} == {
        None
    }


def test_run_is_aborted_after_policy_change() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_run())
    fewer = FLEET + build_placement(build_pick_n(1), EXTERNAL) + STAGES
    aborted = require_success(plan(fewer + build_run(), state))
    assert [w.summary for w in list_warnings(aborted)] == ["Aborted staged run"]
    state = build_state_after(aborted, state)
    before = get_bindings(state)
    result = require_success(
        plan(fewer + build_run('state = "Run"\n  approvals = ["r-after-one"]'), state)
    )
    assert [w.summary for w in list_warnings(result)] == ["Failed staged run"]
    assert list_moves(result) == {}
    assert get_bindings(build_state_after(result, state)) == before
    other = build_run('state = "Run"\n  approvals = ["again-after-one"]').replace('"r"', '"again"')
    assert [
        (c, row[0]) for c, row in list_moves(require_success(plan(fewer + other, state))).items()
    ] == [("c3", "remove")]


def test_external_strategy_cannot_be_reverted() -> None:
    state = build_state(FLEET + build_placement(build_pick_n(2), EXTERNAL))
    found = list_errors(plan(FLEET + build_placement(build_pick_n(2)), state))
    assert [e.summary for e in found] == ["Change not allowed"]


def test_blocked_rollout_keeps_old_bindings() -> None:
    slow = """strategy {
    rolling_update {
      max_unavailable = "0"
      max_surge       = "0"
    }
  }"""
    text = FLEET + build_placement(build_pick_n(2))
    state = build_state(text)
    slowed = FLEET.replace("blue", "red") + build_placement(build_pick_n(2), slow)
    result = require_success(plan(slowed, state))
    assert "Incomplete rollout" in [w.summary for w in list_warnings(result)]
    state = build_state_after(result, state)
    assert {b["resource_snapshot"] for b in get_bindings(state).values()} == {0}
    assert is_empty(plan(slowed, state))


def test_strategy_change_moves_no_binding() -> None:
    state = build_state(FLEET + build_placement(build_pick_n(2)))
    faster = 'strategy {\n rolling_update {\n max_surge = "50%"\n }\n }'
    result = require_success(plan(FLEET + build_placement(build_pick_n(2), faster), state))
    assert list_moves(result) == {}
    assert list_actions(result) == {P: "update"}


def test_apply_strategy_change_updates_all_clusters_at_once() -> None:
    state = build_state(FLEET + build_placement())
    careful = 'strategy {\n apply_strategy {\n when_to_apply = "IfNotDrifted"\n }\n }'
    result = require_success(plan(FLEET + build_placement("", careful), state))
    assert list_moves(result) == dict.fromkeys(
        ("c1", "c2", "c3", "c4"), ("update", "strategy_changed")
    )
    assert is_empty(plan(FLEET + build_placement("", careful), build_state_after(result, state)))
    external = (
        'strategy {\n type = "External"\n apply_strategy {\n when_to_apply = "IfNotDrifted"\n }\n }'
    )
    state = build_state(FLEET + build_placement("", EXTERNAL))
    assert list_moves(require_success(plan(FLEET + build_placement("", external), state))) == {}


def test_statuses_keep_their_order() -> None:
    def list_status_order(state: State) -> list[str]:
        return [each["cluster_name"] for each in attributes(state, P)["placement_statuses"]]

    state = build_state(FLEET + build_placement(build_pick_n(2)))
    assert list_status_order(state) == ["c4", "c3"]
    state = build_state_after(
        require_success(
            plan(FLEET.replace("blue", "red") + build_placement(build_pick_n(2)), state)
        ),
        state,
    )
    assert list_status_order(state) == ["c4", "c3"]
    state = build_state_after(
        require_success(
            plan(FLEET.replace("blue", "red") + build_placement(build_pick_n(4)), state)
        ),
        state,
    )
    assert list_status_order(state) == ["c4", "c3", "c2", "c1"]


def test_removing_and_replacing_a_placement() -> None:
    text = FLEET + build_placement(build_pick_n(1))
    state = build_state(text)
    assert list_moves(require_success(plan(FLEET, state))) == {
        "c4": ("remove", "placement_removed")
    }
    replaced = require_success(plan(text, state, replaces=(P,)))
    found = [(str(r.action), r.trigger) for r in replaced.plan.placements]
    assert found == [("remove", "placement_removed"), ("place", "placement_created")]


def test_namespaced_placement_selects_in_its_namespace() -> None:
    text = (
        FLEET
        + """
resource "fleet_resource_placement" "n" {
  namespace = "web"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
}
"""
    )
    state = build_state(text)
    found = attributes(state, "fleet_resource_placement.n")
    assert found["id"] == "web/n"
    assert [s["name"] for s in found["selected_resources"]] == ["settings"]
    assert found["conditions"][0]["type"] == "ResourcePlacementScheduled"
    assert sorted(found["bindings"]) == ["c1", "c2", "c3", "c4"]


def test_placement_cannot_depend_on_decision_of_another() -> None:
    text = (
        FLEET
        + build_placement(build_pick_n(1))
        + """
resource "fleet_cluster_resource_placement" "q" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "q"
  }
  policy {
    placement_type = "PickFixed"
    cluster_names  = keys(fleet_cluster_resource_placement.p.bindings)
  }
}
"""
    )
    found = list_errors(plan(text))
    assert [e.summary for e in found] == ["Placement dependency cycle"]
    assert "fleet_cluster_resource_placement.p" in found[0].detail
    assert "fleet_cluster_resource_placement.q" in found[0].detail


def test_binding_rows_are_mixed_with_other_rows() -> None:
    assert set(list_rows(plan(FLEET + build_placement()))) == {"c1", "c2", "c3", "c4"}
    assert list_picks(build_state(FLEET + build_placement())) == ["c1", "c2", "c3", "c4"]


def test_ineffective_delete_strategy_is_reported_on_removal() -> None:
    abandon = """strategy {
    delete_strategy {
      propagation_policy = "Abandon"
    }
  }"""
    text = FLEET + build_placement(build_pick_n(2), abandon)
    state = build_state(text)
    assert list_warnings(plan(text, state)) == []
    for result in (
        plan(FLEET, state),
        plan(text, state, mode=Mode.DESTROY),
        plan(text, state, replaces=(P,)),
    ):
        assert [w.id for w in list_warnings(result)] == ["ineffective-delete-strategy"]
        # A hub that supports it keeps the objects, so no removed binding is certain.
        doubt = {"certain": False, "depends_on": "the finding ineffective-delete-strategy"}
        removed = [row for row in result.plan.placements if row.action is PlacementAction.REMOVE]
        assert removed
        assert all({**row.scores, **doubt} == row.scores for row in removed)
    forgotten = f"{FLEET}removed {{\n  from = {P}\n  lifecycle {{\n    destroy = false\n  }}\n}}\n"
    assert "ineffective-delete-strategy" not in [
        w.id for w in list_warnings(plan(forgotten, state))
    ]
    assert list_warnings(plan(FLEET, build_state(FLEET + build_placement(build_pick_n(2))))) == []


def test_new_placements_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # positions found by each search for awaited steps.
    searches: list[list[int]] = []
    find = step_order._find_awaited_steps

    def find_and_count(*arguments: Any) -> Iterable[int]:
        searches.append(list(find(*arguments)))
        return searches[-1]

    monkeypatch.setattr(step_order, "_find_awaited_steps", find_and_count)
    placements = "".join(build_placement(name=f"p{number}") for number in range(30))
    require_success(plan(FLEET + placements))
    assert len(searches) == 30
    assert not any(searches)
