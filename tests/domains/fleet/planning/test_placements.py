"""Tests of placements through plan, apply and a second plan.

Bindings are added, removed and unchanged.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_node_count,
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
    list_warnings,
    plan,
    require_success,
)

P = "fleet_cluster_resource_placement.p"


def build_fleet(*names: str, more: str = "") -> str:
    return build_hub() + "".join(build_member(n, {"region": n[0]}, more) for n in names)


def test_pick_all_selects_every_member() -> None:
    result = require_success(plan(build_fleet("a1", "a2", "b1") + build_placement()))
    assert list_moves(result) == dict.fromkeys(("a1", "a2", "b1"), ("place", "placement_created"))
    state = build_state_after(result)
    assert {c: b["state"] for c, b in get_bindings(state).items()} == dict.fromkeys(
        ("a1", "a2", "b1"), "Bound"
    )
    selected = attributes(state, P)["selected_resources"]
    assert [(s["kind"], s["name"]) for s in selected] == [
        ("Namespace", "web"),
        ("ConfigMap", "settings"),
    ]
    assert attributes(state, P)["conditions"][0]["reason"] == "SchedulingPolicyFulfilled"
    assert is_empty(plan(build_fleet("a1", "a2", "b1") + build_placement(), state))


def test_pick_n_selects_largest_names_and_scale_out_adds_only() -> None:
    members = build_fleet(*(f"c{i}" for i in range(1, 8)))
    state = build_state(members + build_placement(build_pick_n(3)))
    assert list_picks(state) == ["c5", "c6", "c7"]
    before = get_bindings(state)
    result = require_success(plan(members + build_placement(build_pick_n(5)), state))
    assert list_moves(result) == dict.fromkeys(
        ("c3", "c4"), ("place", "number_of_clusters_increased")
    )
    after = build_state_after(result, state)
    assert {n: get_bindings(after)[n] for n in before} == before
    down = require_success(plan(members + build_placement(build_pick_n(2)), after))
    gone = dict.fromkeys(("c3", "c4", "c5"), ("remove", "number_of_clusters_decreased"))
    assert list_moves(down) == gone


def test_new_member_joins_pick_all_but_not_fulfilled_pick_n() -> None:
    both = build_placement() + build_placement(build_pick_n(1), name="n")
    state = build_state(build_fleet("a", "b") + both)
    result = require_success(plan(build_fleet("a", "b", "z") + both, state))
    rows = [r for r in result.plan.placements if r.kind == "binding" and r.action != "keep"]
    assert [(str(r.address), r.object, r.trigger) for r in rows] == [(P, "z", "cluster_joined")]


def test_new_member_completes_unfulfilled_pick_n() -> None:
    text = build_fleet("a") + build_placement(build_pick_n(2))
    result = require_success(plan(text))
    assert [w.summary for w in list_warnings(result)] == ["Unfulfilled placement"]
    state = build_state_after(result)
    assert attributes(state, P)["conditions"][0]["status"] == "False"
    assert list_moves(
        require_success(plan(build_fleet("a", "z") + build_placement(build_pick_n(2)), state))
    ) == {"z": ("place", "cluster_joined")}


def test_leaving_member_moves_only_its_bindings() -> None:
    state = build_state(build_fleet("a", "b", "c", "d") + build_placement(build_pick_n(2)))
    assert list_picks(state) == ["c", "d"]
    result = require_success(
        plan(build_fleet("a", "b", "c") + build_placement(build_pick_n(2)), state)
    )
    assert list_moves(result) == {"d": ("remove", "cluster_left"), "b": ("place", "cluster_left")}


@pytest.mark.parametrize(
    ("more", "trigger"),
    [
        ('taint {\n key = "x"\n }', "taint_added"),
        ('health = "Unhealthy"', "cluster_became_ineligible"),
    ],
)
def test_changed_picked_member_moves_nothing(more: str, trigger: str) -> None:
    state = build_state(build_fleet("a", "b") + build_placement(build_pick_n(1)))
    text = (
        build_hub()
        + build_member("a", {"region": "a"})
        + build_member("b", {"region": "b"}, more)
        + build_placement(build_pick_n(1))
    )
    result = require_success(plan(text, state))
    assert list_moves(result) == {"b": ("keep", trigger)}
    assert "kept: a fulfilled PickN is not re-evaluated" in list_binding_changes(result)["b"].reason
    assert list_actions(result) == {"fleet_member_cluster.b": "update"}
    assert is_empty(plan(text, build_state_after(result, state)))


def test_resource_only_change_updates_without_rescheduling() -> None:
    text = build_fleet("a", "b", "c") + build_placement(build_pick_n(2))
    state = build_state(text)
    result = require_success(plan(text.replace("blue", "red"), state))
    assert list_moves(result) == dict.fromkeys(("b", "c"), ("update", "resources_changed"))
    assert list_binding_changes(result)["b"].reason.endswith("wave 1")
    assert list_binding_changes(result)["b"].group == 1
    after = build_state_after(result, state)
    assert {b["resource_snapshot"] for b in get_bindings(after).values()} == {1}
    assert {b["policy_snapshot"] for b in get_bindings(after).values()} == {0}


def test_unmatched_labels_move_nothing_until_policy_change() -> None:
    east = """affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            label_selector {
              match_labels = { region = "east" }
            }
          }
        }
      }
    }"""
    state = build_state(
        build_hub()
        + build_member("a", {"region": "east"})
        + build_member("b", {"region": "east"})
        + build_placement(east)
    )
    moved = (
        build_hub() + build_member("a", {"region": "east"}) + build_member("b", {"region": "west"})
    )
    result = require_success(plan(moved + build_placement(east), state))
    assert list_moves(result) == {"b": ("keep", "labels_no_longer_match")}
    state = build_state_after(result, state)
    tolerating = east + '\ntoleration {\n operator = "Exists"\n}'
    result = require_success(plan(moved + build_placement(tolerating), state))
    assert list_moves(result) == {
        "b": ("remove", "policy_changed"),
        "a": ("keep", "policy_changed"),
    }


def test_immutable_field_errors_suggest_replacement() -> None:
    text = build_fleet("a", "b")
    state = build_state(text + build_placement(build_pick_n(1)))
    result = plan(text + build_placement(), state)
    assert {e.summary for e in list_errors(result)} == {"Change not allowed"}
    assert all(f"-replace='{P}'" in e.detail for e in list_errors(result))
    replaced = require_success(plan(text + build_placement(), state, replaces=(P,)))
    assert list_actions(replaced)[P] == "delete-create"


def test_internal_comparison_data_never_causes_a_plan() -> None:
    text = build_fleet("a") + build_placement()
    state = build_state(text)

    instance = state.instances[next(a for a in state.instances if a.type == "fleet_member_cluster")]
    assert instance.current is not None
    assert instance.current.private
    bare = replace(instance.current, private=None)
    address = next(a for a in state.instances if a.type == "fleet_member_cluster")
    assert is_empty(plan(text, state.replace_instance(address, replace(instance, current=bare))))


def test_property_sorter_orders_clusters() -> None:
    sorter = """affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 20
          preference {
            property_sorter {
              name       = "kubernetes-fleet.io/node-count"
              sort_order = "Descending"
            }
          }
        }
      }
    }"""
    text = (
        build_hub()
        + build_member("a", more=build_node_count(9))
        + build_member("b", more=build_node_count(5))
        + build_member("c", more=build_node_count(1))
    )
    state = build_state(text + build_placement(build_pick_n(2, sorter)))
    assert {c: b["affinity_score"] for c, b in get_bindings(state).items()} == {"a": 20, "b": 10}


def test_untargeted_placement_sees_change_in_next_plan() -> None:
    small = build_fleet("a") + build_placement()
    large = build_fleet("a", "z") + build_placement()
    state = build_state(small)
    targeted = require_success(plan(large, state, targets=("fleet_member_cluster.z",)))
    assert list_moves(targeted) == {}
    after = build_state_after(targeted, state)
    assert list_moves(require_success(plan(large, after))) == {"z": ("place", "cluster_joined")}
    state = build_state_after(plan(large, after), after)
    leaving = require_success(plan(small, state, targets=("fleet_member_cluster.z",)))
    gone = build_state_after(leaving, state)
    # The placement was not targeted.
    if "z" in list_picks(gone):
        assert list_moves(require_success(plan(small, gone))) == {"z": ("remove", "cluster_left")}


def test_fresh_schedule_difference_is_informational() -> None:
    text = build_fleet("a", "b") + build_placement(build_pick_n(1))
    state = build_state(text)
    wider = build_fleet("a", "b", "z") + build_placement(build_pick_n(1))
    result = require_success(plan(wider, state))
    assert list_moves(result) == {}
    told = [w for w in list_warnings(result) if w.summary == "Schedule drift"]
    assert len(told) == 1
    assert "would pick z and drop b" in told[0].detail
    assert not told[0].is_preexisting
    # Another change of a member leaves the difference as it was.
    fleet = build_member("a", {"tier": "x"}) + build_fleet("b", "z")
    labelled = fleet + build_placement(build_pick_n(1))
    after = build_state_after(result, state)
    (kept,) = (w for w in list_warnings(plan(labelled, after)) if w.summary == "Schedule drift")
    assert kept.is_preexisting
    assert list_warnings(plan(wider, build_state_after(result, state))) == []


def test_externally_removed_binding_is_recreated() -> None:
    text = build_fleet("a", "b", "c") + build_placement(build_pick_n(2))
    state = build_state(text)
    address = next(a for a in state.instances if str(a) == P)
    current = state.instances[address].current
    assert current is not None
    held = {n: b for n, b in current.attributes["bindings"].items() if n != "b"}
    found = replace(current, attributes={**current.attributes, "bindings": held})
    result = require_success(plan(text, state, refreshed_objects={address: found}))
    assert list_moves(result) == {"b": ("place", "binding_deleted")}


def test_pick_all_kept_despite_labels_is_not_called_pick_n() -> None:
    policy = """
    placement_type = "PickAll"
    affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            label_selector {
              match_labels = { env = "prod" }
            }
          }
        }
      }
    }
"""
    text = build_hub() + build_placement(policy) + build_member("b", {"env": "prod"})
    state = build_state(text + build_member("a", {"env": "prod"}))
    result = require_success(plan(text + build_member("a", {"env": "test"}), state))
    row = list_binding_changes(result)["a"]
    assert (str(row.action), row.trigger) == ("keep", "labels_no_longer_match")
    assert "PickAll" in row.reason
    assert not any("PickN" in warning.detail for warning in list_warnings(result))


def test_progress_names_the_current_placement() -> None:
    told: list[tuple[int, int]] = []

    def record_progress(stage: str, done: int, of: int) -> None:
        if stage == "placements":
            told.append((done, of))

    three = "".join(build_placement(name=name) for name in "pqr")
    require_success(plan(build_fleet("a1", "a2") + three, progress=record_progress))
    assert told[:3] == [(1, 3), (2, 3), (3, 3)]
    assert set(told) == {(1, 3), (2, 3), (3, 3)}
