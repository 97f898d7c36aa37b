"""Where a plan must do as a hub does although one would expect otherwise."""

from __future__ import annotations

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
from tests.planning.harness import applied, attributes, good, is_empty, plan, state_of, warnings

P = "fleet_cluster_resource_placement.p"
LEAVING = 'health = "Leaving"'


def fixed(*names: str) -> str:
    listed = ", ".join(f'"{n}"' for n in names)
    return f'placement_type = "PickFixed"\ncluster_names = [{listed}]'


def fleet(**more: str) -> str:
    return hub() + "".join(member(n, more=m) for n, m in sorted(more.items()))


def test_a_leaving_member_keeps_its_binding_until_something_else_runs_a_cycle() -> None:
    before = fleet(a="", b="", c="") + placement(pick_n(2))
    state = state_of(before)
    assert picks(state) == ["b", "c"]
    leaving = fleet(a="", b="", c=LEAVING) + placement(pick_n(2))
    result = good(plan(leaving, state))
    assert moves(result) == {"c": ("keep", "cluster_became_ineligible")}
    state = applied(result, state)
    edited = good(plan(leaving.replace("blue", "red"), state))
    assert moves(edited) == {
        "c": ("remove", "cluster_left"),
        "a": ("place", "cluster_left"),
        "b": ("update", "resources_changed"),
    }


def test_pick_fixed_keeps_an_unhealthy_cluster_and_reports_what_is_missing() -> None:
    text = fleet(a="", b="") + placement(fixed("a", "b", "z"))
    result = good(plan(text))
    assert moves(result) == dict.fromkeys(("a", "b"), ("place", "placement_created"))
    assert 'Specified cluster "z" is not found' in warnings(result)[0].detail
    state = applied(result)
    sick = fleet(a='health = "Unhealthy"', b="") + placement(fixed("a", "b", "z"))
    result = good(plan(sick, state))
    assert moves(result) == {"a": ("keep", "cluster_became_ineligible")}
    state = applied(result, state)
    joined = fleet(a='health = "Unhealthy"', b="", z="") + placement(fixed("a", "b", "z"))
    assert moves(good(plan(joined, state))) == {"z": ("place", "cluster_joined")}


def test_no_cluster_is_enough_for_pick_all_and_for_zero() -> None:
    empty = hub() + placement()
    state = state_of(empty)
    assert attributes(state, P)["conditions"][0]["status"] == "True"
    state = state_of(fleet(a="") + placement(pick_n(0)))
    assert attributes(state, P)["conditions"][0]["status"] == "True"
    assert bindings(state) == {}


def test_adding_a_toleration_is_a_policy_change_and_the_number_is_not() -> None:
    text = fleet(a="", b="") + placement(pick_n(1))
    state = state_of(text)
    assert attributes(state, P)["policy_snapshot"]["index"] == 0
    more = fleet(a="", b="") + placement(pick_n(2))
    state = state_of(more, state)
    assert attributes(state, P)["policy_snapshot"] == {
        "index": 0,
        "hash": attributes(state, P)["policy_snapshot"]["hash"],
        "number_of_clusters": 2,
    }
    tolerating = fleet(a="", b="") + placement(pick_n(2, 'toleration {\noperator = "Exists"\n}'))
    result = good(plan(tolerating, state))
    assert moves(result) == dict.fromkeys(("a", "b"), ("keep", "policy_changed"))
    assert attributes(applied(result, state), P)["policy_snapshot"]["index"] == 1


def test_a_better_score_moves_a_placement_only_with_its_policy() -> None:
    sorter = """affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 10
          preference {
            property_sorter {
              name       = "kubernetes-fleet.io/node-count"
              sort_order = "ORDER"
            }
          }
        }
      }
    }"""
    members = fleet(a=nodes(9), b=nodes(1))
    state = state_of(members + placement(pick_n(1, sorter.replace("ORDER", "Descending"))))
    assert picks(state) == ["a"]
    swapped = fleet(a=nodes(1), b=nodes(9))
    same = good(plan(swapped + placement(pick_n(1, sorter.replace("ORDER", "Descending"))), state))
    assert {action for action, _ in moves(same).values()} <= {"keep"}
    other = good(plan(members + placement(pick_n(1, sorter.replace("ORDER", "Ascending"))), state))
    assert moves(other) == {"a": ("remove", "policy_changed"), "b": ("place", "policy_changed")}
    assert "affinity score: 10" in binding_rows(other)["b"].reason


def test_invalid_property_stops_the_scheduler_and_keeps_bindings() -> None:
    required = """affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            property_selector {
              match_expression {
                name     = "kubernetes-fleet.io/node-count"
                operator = "Ge"
                values   = ["1"]
              }
            }
          }
        }
      }
    }"""
    state = state_of(fleet(a=nodes(3)) + placement(required))
    broken = fleet(a=nodes(3), b=nodes("lots")) + placement(required)
    result = good(plan(broken, state))
    assert moves(result) == {}
    assert [w.summary for w in warnings(result)] == ["Scheduling stopped"]
    assert "cluster b" in warnings(result)[0].detail
    assert is_empty(plan(broken, applied(result, state)))


def test_spread_is_over_all_clusters_of_the_fleet() -> None:
    spread = 'topology_spread_constraint {\nmax_skew = 1\ntopology_key = "region"\n}'
    members = hub() + "".join(
        member(n, {"region": r}) for n, r in (("a", "east"), ("b", "east"), ("c", "east"), ("w", "west"))
    )
    result = good(plan(members + placement(pick_n(4, spread))))
    assert sorted(moves(result)) == ["b", "c", "w"]
    assert 'violated doNotSchedule topology spread constraint "region" (max skew 1)' in warnings(result)[0].detail


def test_rejected_clusters_are_listed_on_request() -> None:
    text = fleet(a="", b='taint {\nkey = "k"\n}') + placement()
    result = good(plan(text, includes_rejections=True))
    row = binding_rows(result)["a"]
    assert [(r.candidate, r.rule) for r in row.rejections] == [("b", "taint_toleration")]


def test_a_fleet_without_members_says_so_instead_of_counting_clusters() -> None:
    result = good(plan(hub() + placement(pick_n(2))))
    (told,) = [each for each in result.diagnostics if each.id in ("no-member-cluster", "unfulfilled-placement")]
    assert told.id == "no-member-cluster"
    assert told.detail.startswith("No fleet_member_cluster is declared, so p is placed on no cluster.")
    with_one = good(plan(hub() + member("a") + placement(pick_n(2))))
    assert "no-member-cluster" not in {each.id for each in with_one.diagnostics}
