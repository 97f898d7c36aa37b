"""Placements through plan, apply and plan again: who comes, who goes, and who is left alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.domains.fleet.planning.fleet_harness import (
    binding_rows,
    bindings,
    hub,
    member,
    moves,
    nodes,
    pick_n,
    picks,
    placement,
)
from tests.planning.harness import actions, applied, attributes, errors, good, is_empty, plan, state_of, warnings

P = "fleet_cluster_resource_placement.p"


def fleet(*names: str, more: str = "") -> str:
    return hub() + "".join(member(n, {"region": n[0]}, more) for n in names)


def test_pick_all_takes_every_member() -> None:
    result = good(plan(fleet("a1", "a2", "b1") + placement()))
    assert moves(result) == dict.fromkeys(("a1", "a2", "b1"), ("place", "placement_created"))
    state = applied(result)
    assert {c: b["state"] for c, b in bindings(state).items()} == dict.fromkeys(("a1", "a2", "b1"), "Bound")
    selected = attributes(state, P)["selected_resources"]
    assert [(s["kind"], s["name"]) for s in selected] == [("Namespace", "web"), ("ConfigMap", "settings")]
    assert attributes(state, P)["conditions"][0]["reason"] == "SchedulingPolicyFulfilled"
    assert is_empty(plan(fleet("a1", "a2", "b1") + placement(), state))


def test_pick_n_takes_the_largest_names_and_scale_out_touches_only_new_clusters() -> None:
    members = fleet(*(f"c{i}" for i in range(1, 8)))
    state = state_of(members + placement(pick_n(3)))
    assert picks(state) == ["c5", "c6", "c7"]
    before = bindings(state)
    result = good(plan(members + placement(pick_n(5)), state))
    assert moves(result) == dict.fromkeys(("c3", "c4"), ("place", "number_of_clusters_increased"))
    after = applied(result, state)
    assert {n: bindings(after)[n] for n in before} == before
    down = good(plan(members + placement(pick_n(2)), after))
    gone = dict.fromkeys(("c3", "c4", "c5"), ("remove", "number_of_clusters_decreased"))
    assert moves(down) == gone


def test_a_member_that_joins_is_picked_by_pick_all_and_not_by_a_fulfilled_pick_n() -> None:
    both = placement() + placement(pick_n(1), name="n")
    state = state_of(fleet("a", "b") + both)
    result = good(plan(fleet("a", "b", "z") + both, state))
    rows = [r for r in result.plan.placements if r.kind == "binding" and r.action != "keep"]
    assert [(str(r.address), r.object, r.trigger) for r in rows] == [(P, "z", "cluster_joined")]


def test_an_unfulfilled_pick_n_is_completed_when_a_member_joins() -> None:
    text = fleet("a") + placement(pick_n(2))
    result = good(plan(text))
    assert [w.summary for w in warnings(result)] == ["Unfulfilled placement"]
    state = applied(result)
    assert attributes(state, P)["conditions"][0]["status"] == "False"
    assert moves(good(plan(fleet("a", "z") + placement(pick_n(2)), state))) == {"z": ("place", "cluster_joined")}


def test_a_member_that_leaves_moves_only_its_own() -> None:
    state = state_of(fleet("a", "b", "c", "d") + placement(pick_n(2)))
    assert picks(state) == ["c", "d"]
    result = good(plan(fleet("a", "b", "c") + placement(pick_n(2)), state))
    assert moves(result) == {"d": ("remove", "cluster_left"), "b": ("place", "cluster_left")}


@pytest.mark.parametrize(
    ("more", "trigger"),
    [('taint {\n key = "x"\n }', "taint_added"), ('health = "Unhealthy"', "cluster_became_ineligible")],
)
def test_what_happens_to_a_picked_member_moves_nothing(more: str, trigger: str) -> None:
    state = state_of(fleet("a", "b") + placement(pick_n(1)))
    text = hub() + member("a", {"region": "a"}) + member("b", {"region": "b"}, more) + placement(pick_n(1))
    result = good(plan(text, state))
    assert moves(result) == {"b": ("keep", trigger)}
    assert "kept: a fulfilled PickN is not re-evaluated" in binding_rows(result)["b"].reason
    assert actions(result) == {"fleet_member_cluster.b": "update"}
    assert is_empty(plan(text, applied(result, state)))


def test_a_resource_only_change_updates_and_never_reschedules() -> None:
    text = fleet("a", "b", "c") + placement(pick_n(2))
    state = state_of(text)
    result = good(plan(text.replace("blue", "red"), state))
    assert moves(result) == dict.fromkeys(("b", "c"), ("update", "resources_changed"))
    assert binding_rows(result)["b"].reason.endswith("wave 1")
    assert binding_rows(result)["b"].group == 1
    after = applied(result, state)
    assert {b["resource_snapshot"] for b in bindings(after).values()} == {1}
    assert {b["policy_snapshot"] for b in bindings(after).values()} == {0}


def test_labels_that_no_longer_match_move_nothing_until_the_policy_changes() -> None:
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
    state = state_of(hub() + member("a", {"region": "east"}) + member("b", {"region": "east"}) + placement(east))
    moved = hub() + member("a", {"region": "east"}) + member("b", {"region": "west"})
    result = good(plan(moved + placement(east), state))
    assert moves(result) == {"b": ("keep", "labels_no_longer_match")}
    state = applied(result, state)
    tolerating = east + '\ntoleration {\n operator = "Exists"\n}'
    result = good(plan(moved + placement(tolerating), state))
    assert moves(result) == {"b": ("remove", "policy_changed"), "a": ("keep", "policy_changed")}


def test_immutables_are_errors_that_name_the_way_out() -> None:
    text = fleet("a", "b")
    state = state_of(text + placement(pick_n(1)))
    result = plan(text + placement(), state)
    assert {e.summary for e in errors(result)} == {"Change not allowed"}
    assert all(f"-replace='{P}'" in e.detail for e in errors(result))
    replaced = good(plan(text + placement(), state, replaces=(P,)))
    assert actions(replaced)[P] == "delete-create"


def test_what_members_are_compared_with_never_makes_a_plan() -> None:
    text = fleet("a") + placement()
    state = state_of(text)

    instance = state.instances[next(a for a in state.instances if a.type == "fleet_member_cluster")]
    assert instance.current is not None
    assert instance.current.private
    bare = replace(instance.current, private=None)
    address = next(a for a in state.instances if a.type == "fleet_member_cluster")
    assert is_empty(plan(text, state.replace_instance(address, replace(instance, current=bare))))


def test_properties_sort() -> None:
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
    text = hub() + member("a", more=nodes(9)) + member("b", more=nodes(5)) + member("c", more=nodes(1))
    state = state_of(text + placement(pick_n(2, sorter)))
    assert {c: b["affinity_score"] for c, b in bindings(state).items()} == {"a": 20, "b": 10}


def test_a_placement_left_out_of_a_plan_sees_the_change_in_the_next() -> None:
    small, large = fleet("a") + placement(), fleet("a", "z") + placement()
    state = state_of(small)
    targeted = good(plan(large, state, targets=("fleet_member_cluster.z",)))
    assert moves(targeted) == {}
    after = applied(targeted, state)
    assert moves(good(plan(large, after))) == {"z": ("place", "cluster_joined")}
    state = applied(plan(large, after), after)
    leaving = good(plan(small, state, targets=("fleet_member_cluster.z",)))
    gone = applied(leaving, state)
    if "z" in picks(gone):  # the placement was left out
        assert moves(good(plan(small, gone))) == {"z": ("remove", "cluster_left")}


def test_what_a_fresh_schedule_would_choose_is_information() -> None:
    text = fleet("a", "b") + placement(pick_n(1))
    state = state_of(text)
    wider = fleet("a", "b", "z") + placement(pick_n(1))
    result = good(plan(wider, state))
    assert moves(result) == {}
    told = [w for w in warnings(result) if w.summary == "Schedule drift"]
    assert len(told) == 1
    assert "would pick z and drop b" in told[0].detail
    assert warnings(plan(wider, applied(result, state))) == []


def test_a_binding_that_was_removed_outside_is_made_again() -> None:
    text = fleet("a", "b", "c") + placement(pick_n(2))
    state = state_of(text)
    address = next(a for a in state.instances if str(a) == P)
    current = state.instances[address].current
    assert current is not None
    held = {n: b for n, b in current.attributes["bindings"].items() if n != "b"}
    found = replace(current, attributes={**current.attributes, "bindings": held})
    result = good(plan(text, state, refreshed_objects={address: found}))
    assert moves(result) == {"b": ("place", "evicted")}


def test_a_pick_all_that_is_kept_for_its_labels_is_not_called_a_pick_n() -> None:
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
    text = hub() + placement(policy) + member("b", {"env": "prod"})
    state = state_of(text + member("a", {"env": "prod"}))
    result = good(plan(text + member("a", {"env": "test"}), state))
    row = binding_rows(result)["a"]
    assert (str(row.action), row.trigger) == ("keep", "labels_no_longer_match")
    assert "PickAll" in row.reason
    assert not any("PickN" in warning.detail for warning in warnings(result))


def test_progress_names_the_current_placement() -> None:
    told: list[tuple[int, int]] = []

    def progress(stage: str, done: int, of: int) -> None:
        if stage == "placements":
            told.append((done, of))

    three = "".join(placement(name=name) for name in "pqr")
    good(plan(fleet("a1", "a2") + three, progress=progress))
    assert told[:3] == [(1, 3), (2, 3), (3, 3)]
    assert set(told) == {(1, 3), (2, 3), (3, 3)}
