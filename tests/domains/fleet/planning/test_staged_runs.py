"""Tests of staged runs: the data kept from their start, and the effect of a failing cluster."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.plans.impact.decision_figures import build_decision
from nexusform.resources.address import parse_address
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_pick_n,
    build_placement,
    get_bindings,
    list_moves,
)
from tests.domains.fleet.planning.test_operations import (
    EXTERNAL,
    FLEET,
    STAGES,
    P,
    build_eviction,
    build_override,
    build_run,
    list_colours,
)
from tests.planning.harness import (
    attributes,
    build_state,
    build_state_after,
    is_empty,
    list_warnings,
    plan,
    require_success,
)

ONE_STAGE = """
resource "fleet_cluster_staged_update_strategy" "s" {
  stage {
    name            = "all"
    max_concurrency = "2"
    label_selector {}
  }
}
"""
APPROVED = build_run('state = "Run"\n  approvals = ["r-after-one"]')


def test_run_applies_overrides_of_its_start() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_override("red") + build_run())
    assert list_colours(state) == {"red"}
    result = require_success(plan(text + build_override("green") + build_run(), state))
    # It waits for an approval.
    assert list_moves(result) == {"c3": ("keep", "staged_run")}
    state = build_state_after(result, state)
    state = build_state_after(
        require_success(plan(text + build_override("green") + APPROVED, state)), state
    )
    assert list_colours(state) == {"red"}
    assert {b["state"] for b in get_bindings(state).values()} == {"Bound"}
    assert is_empty(plan(text + build_override("green") + APPROVED, state))
    other = build_run('state = "Run"\n  approvals = ["again-after-one"]').replace('"r"', '"again"')
    later = text + build_override("green") + APPROVED + other
    state = build_state_after(require_success(plan(later, state)), state)
    assert list_colours(state) == {"green"}


def test_ended_run_does_not_run_again() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + APPROVED)
    state = build_state_after(require_success(plan(text + APPROVED, state)), state)
    # No stage has the new cluster, which would block a run in progress.
    larger = text.replace(build_pick_n(2), build_pick_n(3))
    changed = larger + APPROVED.replace('["r-after-one"]', '["r-after-one", "r-after-two"]')
    result = require_success(plan(changed, state))
    assert list_warnings(result) == []


def test_run_that_failed_to_initialize_never_begins() -> None:
    """PickN of more clusters than there are; a later number that fits changes nothing."""
    members = "".join(build_member(name) for name in ("m1", "m2"))
    start = build_hub() + members + ONE_STAGE

    def build_text(number: int, state: str) -> str:
        placement = build_placement(build_pick_n(number), EXTERNAL)
        return start + placement + build_run(f'state = "{state}"')

    result = require_success(plan(build_text(3, "Initialize")))
    assert "Blocked staged run" in [item.summary for item in list_warnings(result)]
    state = build_state_after(result)
    result = require_success(plan(build_text(2, "Run"), state))
    (warning,) = (item for item in list_warnings(result) if item.id == "failed-staged-run")
    assert "not fully scheduled yet" in warning.detail
    bindings = get_bindings(build_state_after(result, state))
    assert {binding["state"] for binding in bindings.values()} == {"Scheduled"}


def test_run_ignores_overrides_added_or_removed_after_start() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    initialized = build_run('state = "Initialize"')
    state = build_state(text + build_override("red", "c3") + initialized)
    state = build_state_after(require_success(plan(text + APPROVED, state)), state)
    # On c3; c4 has the unmodified snapshot.
    assert list_colours(state) == {"red"}
    state = build_state(text + initialized)
    state = build_state_after(
        require_success(plan(text + build_override("red") + APPROVED, state)), state
    )
    assert list_colours(state) == {"blue"}


def test_run_uses_strategy_of_its_start() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL)
    state = build_state(text + STAGES + build_run())
    swapped = STAGES.replace('ring = "4"', 'ring = "x"').replace('ring = "3"', 'ring = "4"')
    state = build_state_after(
        require_success(plan(text + swapped.replace('"x"', '"3"') + APPROVED, state)), state
    )
    assert {b["state"] for b in get_bindings(state).values()} == {"Bound"}


def test_run_is_aborted_after_change_of_clusters_or_apply_strategy() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_run())
    relabelled = text.replace('{"ring": "3"}', '{"ring": "4"}')
    assert relabelled != text
    (warning,) = [
        w
        for w in list_warnings(require_success(plan(relabelled + APPROVED, state)))
        if "run" in w.id
    ]
    assert warning.id == "aborted-staged-run"
    assert "stage one have changed, new: c3, c4, existing: c4" in warning.detail
    applying = """strategy {
    type = "External"
    apply_strategy {
      type = "ReportDiff"
    }
  }"""
    diffing = FLEET + build_placement(build_pick_n(2), applying) + STAGES
    (warning,) = [
        w for w in list_warnings(require_success(plan(diffing + APPROVED, state))) if "run" in w.id
    ]
    assert "The applyStrategy in the updateRun is outdated" in warning.detail


def test_run_of_older_version_continues() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_override("red") + build_run())
    address = parse_address("fleet_cluster_staged_update_run.r")
    instance = state.instances[address]
    assert instance.current is not None
    names = ("policy_snapshot", "cluster_count", "resource_snapshot")
    noted = {name: (instance.current.private or {})[name] for name in names}
    older = replace(instance, current=replace(instance.current, private=noted))
    state = state.replace_instance(address, older)
    assert is_empty(plan(text + build_override("red") + build_run(), state))
    state = build_state_after(
        require_success(plan(text + build_override("green") + APPROVED, state)), state
    )
    assert list_colours(state) == {"green"}


def test_other_clusters_continue_after_a_failure() -> None:
    text = FLEET + build_placement("", EXTERNAL) + ONE_STAGE + build_override("x", "c1")
    result = require_success(plan(text.replace("/data/colour", "/data/missing") + build_run()))
    (rollout,) = result.plan.workloads.rollouts
    assert [(step.group, step.clusters, step.status) for step in rollout.steps] == [
        (1, ("c1", "c2"), "stuck"),
        (2, ("c3",), "planned"),
        (3, ("c4",), "planned"),
    ]
    assert {b["state"] for b in get_bindings(build_state_after(result)).values()} == {"Bound"}
    (stuck,) = [w for w in list_warnings(result) if w.id == "stuck-staged-run"]
    assert "The run stops at c1" in stuck.detail


def test_changed_text_requires_a_new_run() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES + APPROVED
    state = build_state(text)
    for changed, what in (
        (text.replace("blue", "red"), "the selected resources"),
        (text + build_override("red"), "overrides"),
    ):
        result = require_success(plan(changed, state))
        assert list_moves(result) == {}
        rows = [row for row in result.plan.placements if row.kind == "binding"]
        why = f"{what} changed; kept: with External, only a staged run applies it"
        assert {(row.object, row.reason) for row in rows} == {("c3", why), ("c4", why)}
        (warning,) = list_warnings(result)
        assert warning.id == "changes-awaiting-staged-run"
        assert "Only a new staged run applies the change to c3 and c4" in warning.detail
        after = build_state_after(result, state)
        assert is_empty(plan(changed, after))
        assert list_warnings(plan(changed, after)) == []
    other = build_run('state = "Run"\n  approvals = ["again-after-one"]').replace('"r"', '"again"')
    result = require_success(plan(text.replace("blue", "red") + other, state))
    (warning,) = list_warnings(result)
    assert warning.id == "run-with-previous-content"
    assert {trigger for _, trigger in list_moves(result).values()} == {"staged_run"}


def test_unused_approval_is_reported() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text)
    misspelt = build_run('state = "Run"\n  approvals = ["r-after-oen"]')
    found = list_warnings(require_success(plan(text + misspelt, state)))
    (warning,) = [each for each in found if each.id == "useless-approval-request"]
    assert 'never requests "r-after-oen". Did you mean "r-after-one"?' in warning.detail
    assert not [
        w for w in list_warnings(require_success(plan(text + APPROVED, state))) if "no-use" in w.id
    ]


def test_skipped_stage_is_reported() -> None:
    nobody = STAGES.replace('ring = "4"', 'ring = "x"').replace('ring = "3"', 'ring = "x"')
    everybody = (
        nobody.rstrip().removesuffix("}")
        + '  stage {\n    name = "rest"\n    label_selector {}\n  }\n}\n'
    )
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL)
    found = list_warnings(require_success(plan(text + everybody + build_run('state = "Run"'))))
    (warning,) = [each for each in found if each.id == "skipped-run-stage"]
    assert "one" in warning.detail
    found = list_warnings(require_success(plan(text + STAGES + APPROVED)))
    assert "skipped-run-stage" not in {each.id for each in found}


def build_named_run(name: str, more: str = "") -> str:
    """Return a run of this name with an immediate start."""
    return build_run(f'state = "Run"\n  approvals = ["{name}-after-one"]\n  {more}').replace(
        '"r"', f'"{name}"'
    )


def test_run_warns_about_possibly_pruned_snapshot() -> None:
    limited = build_placement(build_pick_n(2), EXTERNAL + "\n  revision_history_limit = 2")
    text = FLEET + limited + STAGES
    runs = build_named_run("r0")
    state = build_state(text + runs)
    for number, colour in enumerate(("green", "red", "white"), 1):
        now = text.replace("colour: blue", f"colour: {colour}")
        runs = runs + build_named_run(f"r{number}")
        state = build_state_after(require_success(plan(now + runs, state)), state)
    for index, is_told in ((2, True), (3, False)):
        asked = build_named_run("again", f"resource_snapshot_index = {index}")
        found = [warning.id for warning in list_warnings(plan(now + runs + asked, state))]
        assert ("old-snapshot-unavailable" in found) is is_told


def test_delete_only_run_is_reported() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text + build_named_run("r"))
    nobody = text.replace(build_pick_n(2), build_pick_n(0))
    result = plan(nobody + build_named_run("r") + build_named_run("s"), state)
    (warning,) = [each for each in list_warnings(result) if each.id == "delete-only-staged-run"]
    assert "removes c3 and c4. The hub then reports Succeeded False" in warning.detail
    assert list_moves(result) == dict.fromkeys(
        ("c3", "c4"), ("remove", "number_of_clusters_decreased")
    )


def test_run_is_stuck_at_failing_apply() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    failing = text.replace('"c4" {', '"c4" {\n  apply_fails = true', 1)
    result = plan(failing + build_named_run("r"), build_state(text))
    (warning,) = [each for each in list_warnings(result) if each.id == "stuck-staged-run"]
    assert "stops at c4: applying the resources fails" in warning.detail
    assert list_moves(result) == {"c4": ("update", "staged_run"), "c3": ("keep", "staged_run")}
    (timeline,) = result.plan.workloads.rollouts
    assert [(step.clusters, step.status) for step in timeline.steps if step.clusters] == [
        (("c4",), "stuck"),
        (("c3",), "later"),
    ]


def test_run_waits_for_unreachable_member() -> None:
    text = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES
    state = build_state(text)
    c4 = build_member("c4", {"ring": "4"})
    assert c4 in text
    unreachable = build_member("c4", {"ring": "4"}, 'health = "NoHeartbeat"')
    result = require_success(plan(text.replace(c4, unreachable) + APPROVED, state))
    (warning,) = [each for each in list_warnings(result) if each.id == "stuck-staged-run"]
    assert warning.detail.startswith("The run stops at c4: cluster is not connected to the fleet")
    stale = build_state_after(result, state)
    assert get_bindings(stale)["c3"]["state"] == "Scheduled"
    recovered = build_state_after(require_success(plan(text + APPROVED, stale)), stale)
    assert {binding["state"] for binding in get_bindings(recovered).values()} == {"Bound"}


def test_eviction_with_new_decisions_renews_status() -> None:
    """A hub updates the status of a placement if its scheduler reports other decisions.

    The cycle of an eviction reports all members, also those that joined since the last one.
    """
    fleet = FLEET + build_placement(build_pick_n(2), EXTERNAL) + STAGES + APPROVED
    joined = build_member("b0")
    for steps in (
        # A fulfilled PickN does not schedule when a member joins.
        [fleet, fleet + joined, fleet + joined + build_eviction("c4")],
        [fleet, fleet + joined + build_eviction("c4")],
    ):
        state = build_state(steps[0])
        for text in steps[1:]:
            state = build_state_after(require_success(plan(text, state)), state)
        assert get_bindings(state)["c4"]["state"] == "Scheduled"
        statuses = {
            status["cluster_name"]: [(c["type"], c["status"]) for c in status["conditions"]]
            for status in attributes(state, P)["placement_statuses"]
        }
        assert statuses["c4"] == [("Scheduled", "True"), ("RolloutStarted", "Unknown")]
        assert statuses["c3"][-1] == ("Available", "True")
        last = attributes(state, P)["conditions"][-1]
        assert last["reason"] == "RolloutControlledByExternalController"


def test_eviction_with_joined_cluster_lists_it() -> None:
    fleet = FLEET + build_placement("", EXTERNAL) + ONE_STAGE + build_run()
    state = build_state(fleet)
    text = fleet + build_member("c5") + build_eviction("c4")
    state = build_state_after(require_success(plan(text, state)), state)
    names = [status["cluster_name"] for status in attributes(state, P)["placement_statuses"]]
    assert sorted(names) == ["c1", "c2", "c3", "c4", "c5"]


def test_eviction_with_another_score_renews_status() -> None:
    """The new binding has another affinity score, so the scheduler's decision differs."""
    preferred = """
    affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 20
          preference {
            label_selector {
              match_labels = { env = "prod" }
            }
          }
        }
      }
    }
    """
    placement = build_placement(build_pick_n(1, preferred), EXTERNAL) + ONE_STAGE + build_run()
    state = build_state(build_hub() + build_member("a", {"env": "prod"}) + placement)
    eviction = build_eviction("a")
    text = build_hub() + build_member("a", {"env": "canary"}) + placement + eviction
    state = build_state_after(require_success(plan(text, state)), state)
    (status,) = attributes(state, P)["placement_statuses"]
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("Scheduled", "True"),
        ("RolloutStarted", "Unknown"),
    ]


def list_uncertain_rows(result: Any) -> dict[str, str]:
    """Return the other possible snapshots by cluster."""
    marker = "; uncertain: resource snapshot "
    return {
        row.object: row.reason.partition(marker)[2]
        for row in result.plan.placements
        if marker in row.reason
    }


def test_run_with_new_content_is_uncertain_about_its_snapshot() -> None:
    """Hub objects do not show whether a hub collects changes: then the first run has old content.

    Seen on a running hub: 40 s after a change the old content, 4 s after that run the old, 33 s
    after it the new content.
    """
    text = FLEET + build_placement("", EXTERNAL) + ONE_STAGE
    first = require_success(plan(text + build_named_run("r")))
    # Nothing else can be distributed.
    assert list_uncertain_rows(first) == {}
    assert build_decision(first.plan).confidence.uncertain_rollouts == ()
    state = build_state_after(first)
    changed = text.replace("blue", "red") + build_named_run("r")
    result = require_success(plan(changed + build_named_run("again"), state))
    both = dict.fromkeys(("c1", "c2", "c3", "c4"), "1 or 0")
    assert list_uncertain_rows(result) == both
    assert [rollout.previous_snapshot for rollout in result.plan.workloads.rollouts] == [0]
    assert build_decision(result.plan).confidence.uncertain_rollouts == ("staged run again",)
    (warning,) = [w for w in list_warnings(result) if w.id == "run-with-previous-content"]
    assert "wait 30 seconds and start another run" in warning.detail
    assert 'resource_snapshot_index = "1" is certain' in warning.detail
    # A second run of the same plan may start within these seconds.
    twice = changed + build_named_run("again") + build_named_run("further")
    result = require_success(plan(twice, state))
    assert list_uncertain_rows(result) == both
    assert [rollout.previous_snapshot for rollout in result.plan.workloads.rollouts] == [0, 0]
    # A snapshot that exists is certain.
    named = build_named_run("named", 'resource_snapshot_index = "0"')
    result = require_success(plan(changed + named, state))
    assert list_uncertain_rows(result) == {}
    assert "run-with-previous-content" not in {w.id for w in list_warnings(result)}
    # One that this plan may add is not.
    named = build_named_run("named", 'resource_snapshot_index = "1"')
    result = require_success(plan(changed + build_named_run("again") + named, state))
    details = [w.detail for w in list_warnings(result) if w.id == "run-with-previous-content"]
    assert "the hub rejects the run if resource snapshot 1 of p does not exist" in details[1]
    assert "Apply the earlier run first" in details[1]


@pytest.mark.parametrize(
    ("name", "strategy", "obstacle"),
    [
        ("other", EXTERNAL, "other: no such placement."),
        ("p", "", "p: its strategy is not External."),
    ],
)
def test_run_without_effect_says_why(name: str, strategy: str, obstacle: str) -> None:
    text = FLEET + build_placement(build_pick_n(2), strategy) + STAGES
    run = build_run().replace('"p"', f'"{name}"')
    (warning,) = [each for each in list_warnings(plan(text + run)) if each.id == "empty-staged-run"]
    assert obstacle in warning.detail
