"""Staged runs: what they keep from when they began, and what a failing cluster holds up."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.resources.address import parse_address
from tests.domains.fleet.planning.fleet_harness import bindings, moves, pick_n, placement
from tests.domains.fleet.planning.test_operations import EXTERNAL, FLEET, STAGES, colours, override, run
from tests.planning.harness import applied, good, is_empty, plan, state_of, warnings

APPROVED = run('state = "Run"\n  approvals = ["r-after-one"]')


def test_run_applies_overrides_of_its_start() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    state = state_of(text + override("red") + run())
    assert colours(state) == {"red"}
    result = good(plan(text + override("green") + run(), state))
    assert moves(result) == {}
    state = applied(result, state)
    state = applied(good(plan(text + override("green") + APPROVED, state)), state)
    assert colours(state) == {"red"}
    assert {b["state"] for b in bindings(state).values()} == {"Bound"}
    assert is_empty(plan(text + override("green") + APPROVED, state))
    other = run('state = "Run"\n  approvals = ["again-after-one"]').replace('"r"', '"again"')
    later = text + override("green") + APPROVED + other
    state = applied(good(plan(later, state)), state)
    assert colours(state) == {"green"}


def test_an_override_that_is_gone_or_new_changes_no_run_that_began() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    initialized = run('state = "Initialize"')
    state = state_of(text + override("red", "c3") + initialized)
    state = applied(good(plan(text + APPROVED, state)), state)
    assert colours(state) == {"red"}  # on c3; c4 has the snapshot as it is
    state = state_of(text + initialized)
    state = applied(good(plan(text + override("red") + APPROVED, state)), state)
    assert colours(state) == {"blue"}


def test_run_uses_strategy_of_its_start() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL)
    state = state_of(text + STAGES + run())
    swapped = STAGES.replace('ring = "4"', 'ring = "x"').replace('ring = "3"', 'ring = "4"')
    state = applied(good(plan(text + swapped.replace('"x"', '"3"') + APPROVED, state)), state)
    assert {b["state"] for b in bindings(state).values()} == {"Bound"}


def test_a_run_is_aborted_when_its_clusters_or_the_way_of_applying_changed() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    state = state_of(text + run())
    relabelled = text.replace('{"ring": "3"}', '{"ring": "4"}')
    assert relabelled != text
    (warning,) = [w for w in warnings(good(plan(relabelled + APPROVED, state))) if "run" in w.id]
    assert warning.id == "aborted-staged-run"
    assert "stage one have changed, new: c3, c4, existing: c4" in warning.detail
    applying = """strategy {
    type = "External"
    apply_strategy {
      type = "ReportDiff"
    }
  }"""
    diffing = FLEET + placement(pick_n(2), applying) + STAGES
    (warning,) = [w for w in warnings(good(plan(diffing + APPROVED, state))) if "run" in w.id]
    assert "The applyStrategy in the updateRun is outdated" in warning.detail


def test_run_of_older_version_continues() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    state = state_of(text + override("red") + run())
    address = parse_address("fleet_cluster_staged_update_run.r")
    instance = state.instances[address]
    assert instance.current is not None
    names = ("policy_snapshot", "cluster_count", "resource_snapshot")
    noted = {name: (instance.current.private or {})[name] for name in names}
    older = replace(instance, current=replace(instance.current, private=noted))
    state = state.replace_instance(address, older)
    assert is_empty(plan(text + override("red") + run(), state))
    state = applied(good(plan(text + override("green") + APPROVED, state)), state)
    assert colours(state) == {"green"}


def test_other_clusters_continue_after_a_failure() -> None:
    one_stage = """
resource "fleet_cluster_staged_update_strategy" "s" {
  stage {
    name            = "all"
    max_concurrency = "2"
    label_selector {}
  }
}
"""
    text = FLEET + placement("", EXTERNAL) + one_stage + override("x", "c1")
    result = good(plan(text.replace("/data/colour", "/data/missing") + run()))
    (rollout,) = result.plan.rollouts
    assert [(step.group, step.clusters, step.status) for step in rollout.steps] == [
        (1, ("c1", "c2"), "stuck"),
        (2, ("c3",), "planned"),
        (3, ("c4",), "planned"),
    ]
    assert {b["state"] for b in bindings(applied(result)).values()} == {"Bound"}
    (stuck,) = [w for w in warnings(result) if w.id == "stuck-staged-run"]
    assert "The run stops at c1" in stuck.detail


def test_a_changed_text_says_that_a_run_has_to_bring_it() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES + APPROVED
    state = state_of(text)
    for changed, what in (
        (text.replace("blue", "red"), "the selected resources"),
        (text + override("red"), "overrides"),
    ):
        result = good(plan(changed, state))
        assert moves(result) == {}
        rows = [row for row in result.plan.placements if row.kind == "binding"]
        why = f"{what} changed; kept: with External, only a staged run applies it"
        assert {(row.object, row.reason) for row in rows} == {("c3", why), ("c4", why)}
        (warning,) = warnings(result)
        assert warning.id == "changes-awaiting-staged-run"
        assert "Only a new staged run applies the change to c3 and c4" in warning.detail
        after = applied(result, state)
        assert is_empty(plan(changed, after))
        assert warnings(plan(changed, after)) == []
    other = run('state = "Run"\n  approvals = ["again-after-one"]').replace('"r"', '"again"')
    result = good(plan(text.replace("blue", "red") + other, state))
    assert warnings(result) == []
    assert {trigger for _, trigger in moves(result).values()} == {"staged_run"}


def test_unused_approval_is_reported() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    state = state_of(text)
    misspelt = run('state = "Run"\n  approvals = ["r-after-oen"]')
    found = warnings(good(plan(text + misspelt, state)))
    (warning,) = [each for each in found if each.id == "useless-approval-request"]
    assert 'never requests "r-after-oen". Did you mean "r-after-one"?' in warning.detail
    assert not [w for w in warnings(good(plan(text + APPROVED, state))) if "no-use" in w.id]


def test_skipped_stage_is_reported() -> None:
    nobody = STAGES.replace('ring = "4"', 'ring = "x"').replace('ring = "3"', 'ring = "x"')
    everybody = nobody.rstrip().removesuffix("}") + '  stage {\n    name = "rest"\n    label_selector {}\n  }\n}\n'
    text = FLEET + placement(pick_n(2), EXTERNAL)
    found = warnings(good(plan(text + everybody + run('state = "Run"'))))
    (warning,) = [each for each in found if each.id == "skipped-run-stage"]
    assert "one" in warning.detail
    found = warnings(good(plan(text + STAGES + APPROVED)))
    assert "skipped-run-stage" not in {each.id for each in found}


def named(name: str, more: str = "") -> str:
    """A run of this name that begins at once."""
    return run(f'state = "Run"\n  approvals = ["{name}-after-one"]\n  {more}').replace('"r"', f'"{name}"')


def test_a_run_of_an_old_snapshot_says_that_the_hub_may_have_it_no_more() -> None:
    limited = placement(pick_n(2), EXTERNAL + "\n  revision_history_limit = 2")
    text, runs = FLEET + limited + STAGES, named("r0")
    state = state_of(text + runs)
    for number, colour in enumerate(("green", "red", "white"), 1):
        now, runs = text.replace("colour: blue", f"colour: {colour}"), runs + named(f"r{number}")
        state = applied(good(plan(now + runs, state)), state)
    for index, is_told in ((2, True), (3, False)):
        asked = named("again", f"resource_snapshot_index = {index}")
        found = [warning.id for warning in warnings(plan(now + runs + asked, state))]
        assert ("old-snapshot-unavailable" in found) is is_told


def test_delete_only_run_is_reported() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    state = state_of(text + named("r"))
    nobody = text.replace(pick_n(2), pick_n(0))
    result = plan(nobody + named("r") + named("s"), state)
    (warning,) = [each for each in warnings(result) if each.id == "delete-only-staged-run"]
    assert "removes c3 and c4. The hub then reports Succeeded False" in warning.detail
    assert moves(result) == dict.fromkeys(("c3", "c4"), ("remove", "number_of_clusters_decreased"))


def test_a_run_is_stuck_where_applying_fails() -> None:
    text = FLEET + placement(pick_n(2), EXTERNAL) + STAGES
    failing = text.replace('"c4" {', '"c4" {\n  apply_fails = true', 1)
    result = plan(failing + named("r"), state_of(text))
    (warning,) = [each for each in warnings(result) if each.id == "stuck-staged-run"]
    assert "stops at c4: applying the resources fails" in warning.detail
    assert moves(result) == {"c4": ("update", "staged_run"), "c3": ("keep", "staged_run")}
    (timeline,) = result.plan.rollouts
    assert [(step.clusters, step.status) for step in timeline.steps if step.clusters] == [
        (("c4",), "stuck"),
        (("c3",), "later"),
    ]
