from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

import pytest

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.fleet.scheduling.bindings import BindingState
from nexusform.domains.whatif.questions.fleet_edits import MemberEditKind, parse_member_edits
from nexusform.domains.whatif.questions.fleet_simulation import (
    FleetSimulation,
    PlacementOutcome,
    build_fleet_snapshot,
    simulate_member_edits,
)
from nexusform.domains.whatif.rendering.fleet_simulation_report import build_fleet_report
from nexusform.snapshots.snapshot import list_state_objects
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_node_count,
    build_pick_n,
    build_placement,
    get_bindings,
)
from tests.planning.harness import build_all_types, build_state_after, plan


def simulate_edits(state: State, **flags: str | Sequence[str]) -> FleetSimulation:
    texts = {
        verb: [value] if isinstance(value, str) else list(value)
        for verb in MemberEditKind
        if (value := flags.get(verb.value))
    }
    snapshot = build_fleet_snapshot(list_state_objects(state), build_all_types(), state.catalogue)
    return simulate_member_edits(snapshot, parse_member_edits(texts))


def list_errors(state: State, flags: Mapping[MemberEditKind, Sequence[str]]) -> list[str]:
    snapshot = build_fleet_snapshot(list_state_objects(state), build_all_types(), state.catalogue)
    with pytest.raises(DiagnosticsError) as rejection:
        simulate_member_edits(snapshot, parse_member_edits(flags))
    problems = rejection.value.diagnostics
    assert {problem.id for problem in problems} == {"invalid-simulation"}
    return [problem.detail for problem in problems]


def find_outcome(simulation: FleetSimulation, key: str = "p") -> PlacementOutcome:
    return next(each for each in simulation.placements if each.after.key == key)


FLEET = build_hub() + "".join(
    build_member(n, {"ring": n[-1]}, build_node_count(n[-1])) for n in ("c1", "c2", "c3", "c4")
)
TWO = build_placement(build_pick_n(2))


@pytest.fixture(scope="module")
def two_of_four() -> State:
    return build_state_after(plan(FLEET + TWO))


def test_placement_moves_if_member_leaves(two_of_four: State) -> None:
    simulation = simulate_edits(two_of_four, leave="c4")
    moved = find_outcome(simulation)
    assert (moved.before.clusters, moved.after.clusters) == (("c3", "c4"), ("c2", "c3"))
    assert {row.object: row.trigger for row in moved.rows if row.action != "keep"} == {
        "c4": "cluster_left",
        "c2": "cluster_left",
    }
    assert not simulation.has_findings


def test_placement_falls_short_if_too_many_members_leave(two_of_four: State) -> None:
    simulation = simulate_edits(two_of_four, leave=("c4", "c3", "c2"))
    assert find_outcome(simulation).after.clusters == ("c1",)
    assert find_outcome(simulation).has_findings
    assert simulation.has_findings


def test_change_without_moves_is_reported(two_of_four: State) -> None:
    simulation = simulate_edits(two_of_four, taint="c4:gone=soon:NoSchedule")
    kept = find_outcome(simulation)
    assert not kept.gained
    assert not kept.lost
    assert [(row.object, row.trigger) for row in kept.unchanged] == [("c4", "taint_added")]
    assert (kept.fresh.gained_clusters, kept.fresh.lost_clusters) == (("c2",), ("c4",))


@pytest.mark.parametrize(
    ("flags", "lost"),
    [
        ({"taint": "c4:gone"}, ("c4",)),
        ({"health": "c4:Unhealthy"}, ("c4",)),
        # Even before the change a fresh selection would differ, so this is not reported.
        ({"taint": "c1:gone"}, ()),
        ({"label": "c4:a=b"}, ()),
    ],
)
def test_exclusion_is_reported_even_if_fresh_selection_differs_anyway(
    flags: dict[str, str], lost: tuple[str, ...]
) -> None:
    by_ring = """
placement_type     = "PickN"
number_of_clusters = 1
affinity {
  cluster_affinity {
    preferred_during_scheduling_ignored_during_execution {
      weight = 100
      preference {
        label_selector { match_labels = { ring = "RING" } }
      }
    }
  }
}
"""
    first = build_state_after(plan(FLEET + build_placement(by_ring.replace("RING", "4"))))
    ring = FLEET.replace('"4"', '"9"').replace('"3"', '"4"')
    state = build_state_after(plan(ring + build_placement(by_ring.replace("RING", "4")), first))
    before = find_outcome(simulate_edits(state, join="c5"))
    assert before.after.clusters == ("c4",)
    kept = find_outcome(simulate_edits(state, **flags))
    assert kept.after.clusters == ("c4",)
    assert kept.fresh.lost_clusters == lost


def test_drain_evicts_cordons_and_names_kept_placements() -> None:
    fixed = 'placement_type = "PickFixed"\ncluster_names = ["c4"]'
    state = build_state_after(
        plan(FLEET + TWO + build_placement(fixed, name="fixed") + build_placement(name="all"))
    )
    simulation = simulate_edits(state, drain="c4")
    assert find_outcome(simulation).after.clusters == ("c2", "c3")
    assert find_outcome(simulation, "all").after.clusters == ("c1", "c2", "c3")
    assert simulation.remaining == (("fixed", "c4"),)
    assert simulation.has_findings
    assert "invalid-eviction" in {warning.id for warning in simulation.warnings}


def test_budget_may_reject_eviction() -> None:
    budget = 'resource "fleet_placement_disruption_budget" "p" {\n  max_unavailable = "0"\n}\n'
    state = build_state_after(plan(FLEET + TWO + budget))
    simulation = simulate_edits(state, drain="c4")
    assert simulation.remaining == (("p", "c4"),)
    assert [warning.id for warning in simulation.warnings] == ["eviction-not-executed"]


def test_members_join_as_new_copied_or_recovered() -> None:
    all_of_ring = """
      placement_type = "PickAll"
      affinity {
        cluster_affinity {
          required_during_scheduling_ignored_during_execution {
            cluster_selector_term {
              label_selector {
                match_labels = { ring = "4" }
              }
            }
          }
        }
      }
    """
    sick = build_member("c9", {"ring": "4"}, 'health = "NotJoined"')
    state = build_state_after(plan(FLEET + sick + build_placement(all_of_ring)))
    assert find_outcome(simulate_edits(state, join="c5")).gained == ()
    assert find_outcome(simulate_edits(state, join="c5", label="c5:ring=4")).gained == ("c5",)
    assert find_outcome(simulate_edits(state, join="c5=c4")).gained == ("c5",)
    assert find_outcome(simulate_edits(state, join="c9")).gained == ("c9",)
    assert find_outcome(simulate_edits(state, label=("c4:ring-", "c1:ring=4"))).gained == ("c1",)


def test_settings_of_members_are_set_and_removed() -> None:
    tainted = build_member("c1", {}, 'taint {\n key = "slow"\n value = "disk"\n}')
    state = build_state_after(
        plan(build_hub() + tainted + build_placement('placement_type = "PickAll"'))
    )
    assert find_outcome(simulate_edits(state, taint="c1:slow-")).gained == ("c1",)
    simulation = simulate_edits(
        state,
        taint="c1:other=x",
        health="c1:Unhealthy",
        property="c1:resources.kubernetes-fleet.io/available-cpu=3",
    )
    assert [edit.text for edit in simulation.edits] == [
        "c1: taint other=x",
        "c1: property resources.kubernetes-fleet.io/available-cpu=3",
        "c1 is Unhealthy",
    ]
    [member] = simulation.members
    assert member.after is not None
    assert {name: str(amount) for name, amount in member.after.available.items()} == {"cpu": "3"}


def test_member_joins_with_nodes_of_its_own() -> None:
    state = build_state_after(plan(build_members_with_nodes("a")))
    simulation = simulate_edits(state, join="b=a")
    [capacity] = [member for member in simulation.members if member.name == "b"]
    assert capacity.before is None
    assert capacity.after is not None
    assert capacity.is_derived
    assert capacity.after.available == capacity.after.allocatable


def test_external_placement_waits_for_its_staged_run() -> None:
    external = 'strategy {\n  type = "External"\n}'
    state = build_state_after(plan(FLEET + build_placement(build_pick_n(2), external)))
    simulation = simulate_edits(state, leave="c4")
    assert find_outcome(simulation).gained == ("c2",)
    (new,) = [row for row in find_outcome(simulation).rows if row.object == "c2"]
    assert getattr(new.target, "state", None) is BindingState.SCHEDULED
    drained = simulate_edits(state, drain="c4")
    assert drained.remaining == (("p", "c4"),)
    (warning,) = [each for each in drained.warnings if each.id == "eviction-not-executed"]
    assert "Eviction is blocked, placement has not propagated resources" in warning.detail


@pytest.mark.parametrize(
    ("flag", "text", "says"),
    [
        (MemberEditKind.LEAVE, "c44", 'There is no member "c44". Did you mean "c4"?'),
        (MemberEditKind.LABEL, "c4", "Write -label=MEMBER:KEY=VALUE"),
        (MemberEditKind.LABEL, "c4:no-", 'c4 has no label "no". It has: '),
        (MemberEditKind.TAINT, "c4:no-", 'c4 has no taint "no". It has no taint.'),
        (
            MemberEditKind.PROPERTY,
            "c4:resources.kubernetes-fleet.io/total-gpu-",
            'c4 has no property "resources.kubernetes-fleet.io/total-gpu"',
        ),
        (MemberEditKind.HEALTH, "c4", "-health=c4 is not a valid change."),
        (MemberEditKind.LABEL, "c4:a=b c", "c4: label a=b c"),
        (MemberEditKind.TAINT, "c4:k=v:NoExecute", "Write -taint=MEMBER:KEY[=VALUE][:NoSchedule]"),
        (MemberEditKind.TAINT, "c4::NoSchedule-", "-taint=c4::NoSchedule- is not a valid change."),
        (MemberEditKind.TAINT, "c4:k:NoExecute-", "-taint=c4:k:NoExecute- is not a valid change."),
        (MemberEditKind.LABEL, "c4:-", "-label=c4:- is not a valid change."),
        (MemberEditKind.HEALTH, "c4:Ill", "RecentlyUnhealthy"),
        (MemberEditKind.JOIN, "c4", "c4 already joins"),
        (MemberEditKind.JOIN, "c5=c44", 'There is no member or cluster "c44". Did you mean "c4"?'),
        (
            MemberEditKind.PROPERTY,
            "c4:resources.kubernetes-fleet.io/free-cpu=1",
            "total, allocatable or available",
        ),
        (
            MemberEditKind.PROPERTY,
            "c4:resources.kubernetes-fleet.io/total-cpu=1GB",
            "is not a valid quantity",
        ),
    ],
)
def test_errors_are_reported(
    two_of_four: State, flag: MemberEditKind, text: str, says: str
) -> None:
    (detail,) = list_errors(two_of_four, {flag: [text]})
    assert says in detail


def test_all_errors_are_reported_at_once(two_of_four: State) -> None:
    first, second = list_errors(
        two_of_four, {MemberEditKind.LEAVE: ["c44"], MemberEditKind.DRAIN: ["c33"]}
    )
    assert first.startswith('There is no member "c44".')
    assert second.startswith('There is no member "c33".')
    assert (
        len(
            list_errors(
                two_of_four, {MemberEditKind.LEAVE: ["c4:x"], MemberEditKind.HEALTH: ["c3"]}
            )
        )
        == 2
    )


@pytest.mark.parametrize(
    "flags",
    [
        {MemberEditKind.LEAVE: ["c4", "c4"]},
        {MemberEditKind.LEAVE: ["c4"], MemberEditKind.DRAIN: ["c4"]},
    ],
)
def test_further_edits_of_leaving_member_are_rejected(
    two_of_four: State, flags: Mapping[MemberEditKind, Sequence[str]]
) -> None:
    (detail,) = list_errors(two_of_four, flags)
    assert "c4 already leaves the fleet" in detail


def test_value_blocking_the_scheduler_is_a_finding() -> None:
    policy = """
affinity {
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
}
"""
    state = build_state_after(plan(FLEET + build_placement(policy)))
    simulation = simulate_edits(state, property="c4:kubernetes-fleet.io/node-count=many")
    assert simulation.has_findings
    stopped = find_outcome(simulation).abort
    assert stopped is not None
    assert stopped.cluster == "c4"
    assert find_outcome(simulation).fresh.lost_clusters == ()
    assert "the scheduler stops at c4 for p" in build_fleet_report(simulation, "state").verdict


# --- members with nodes ------------------------------------------------------------------------

NODES = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "all" {
  for_each           = { a = 1, b = 1, c = 4 }
  name               = each.key
  site_id            = nexus_site.s.id
  kubernetes_version = "v1.32.4"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np" {
    count       = each.value
    vm_sku_name = "NC_G6_28_v1"
  }
}
resource "fleet_hub_manifest" "web" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: web
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: web
    spec:
      replicas: 2
      selector:
        matchLabels: { app: web }
      template:
        metadata:
          labels: { app: web }
        spec:
          containers:
            - name: web
              image: web:1
              resources:
                requests: { cpu: "3", memory: 64Mi }
  EOT
}
"""
SORTED = build_pick_n(
    1,
    """
    affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 100
          preference {
            property_sorter {
              name       = "resources.kubernetes-fleet.io/available-cpu"
              sort_order = "Descending"
            }
          }
        }
      }
    }
    """,
)


def build_members_with_nodes(*names: str) -> str:
    members = [
        build_member(
            name, more=f'kubernetes_cluster_id = nexus_kubernetes_cluster.all["{name}"].id'
        )
        for name in names
    ]
    return NODES + "".join(members) + build_placement(SORTED) + build_placement(SORTED, name="q")


@pytest.fixture(scope="module")
def state_with_pods() -> State:
    return build_state_after(plan(build_members_with_nodes("a", "c")))


def test_pods_follow_and_missing_capacity_is_reported(state_with_pods: State) -> None:
    simulation = simulate_edits(state_with_pods, leave="c")
    follows = find_outcome(simulation)
    assert follows.gained == ("a",)
    went = [(row.pool, str(row.action)) for row in follows.pods]
    assert went.count(("c/web/Deployment/web", "remove")) == 2
    assert went.count(("a/web/Deployment/web", "place")) == 2
    assert len(follows.pending) == 1
    assert simulation.has_findings


def test_derived_property_cannot_be_removed(state_with_pods: State) -> None:
    (detail,) = list_errors(
        state_with_pods, {MemberEditKind.PROPERTY: ["c:kubernetes-fleet.io/node-count-"]}
    )
    assert "comes from the nodes of c" in detail


def test_capacity_equals_capacity_after_plan(state_with_pods: State) -> None:
    simulation = simulate_edits(state_with_pods, join="b=b")
    rooms = {room.name: room for room in simulation.members}
    assert rooms["b"].before is None
    assert rooms["b"].after is not None
    after = build_state_after(
        plan(build_members_with_nodes("a", "b", "c"), state_with_pods), state_with_pods
    )
    again = {room.name: room for room in simulate_edits(after, label="a:x=y").members}
    assert {name: room.after for name, room in rooms.items()} == {
        n: r.before for n, r in again.items()
    }


# --- comparison with plans ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_simulation_equals_plan_of_such_members(seed: int) -> None:
    """Placements, members and edits are random; a plan with the changed blocks is the reference."""
    draw = random.Random(seed)
    labels = {f"c{n}": {"zone": draw.choice("ab"), "ring": draw.choice("12")} for n in range(6)}
    counts = {name: draw.randint(1, 9) for name in labels}
    placements = "".join(_build_placement(draw, f"p{n}") for n in range(4))

    def build_fleet() -> str:
        return (
            build_hub()
            + "".join(build_member(n, labels[n], build_node_count(counts[n])) for n in labels)
            + placements
        )

    state = build_state_after(plan(build_fleet()))
    flags: dict[str, list[str]] = {verb.value: [] for verb in MemberEditKind}
    left, relabelled, resized = draw.sample(sorted(labels), 3)
    del labels[left]
    labels[relabelled] = {**labels[relabelled], "ring": "2"}
    counts[resized] = 20
    labels["c9"] = {"zone": "a"}
    counts["c9"] = 4
    flags["leave"] = [left]
    flags["label"] = [f"{relabelled}:ring=2", "c9:zone=a"]
    flags["property"] = [f"{resized}:kubernetes-fleet.io/node-count=20"]
    flags["property"].append("c9:kubernetes-fleet.io/node-count=4")
    flags["join"] = ["c9"]
    after = build_state_after(plan(build_fleet(), state), state)
    simulation = simulate_edits(state, **flags)
    for number in range(4):
        truth = get_bindings(after, f"fleet_cluster_resource_placement.p{number}")
        holds = sorted(name for name, binding in truth.items() if binding["state"] != "Unscheduled")
        assert list(find_outcome(simulation, f"p{number}").after.clusters) == holds, json.dumps(
            flags
        )


def _build_placement(draw: random.Random, name: str) -> str:
    required = f"""
      affinity {{
        cluster_affinity {{
          required_during_scheduling_ignored_during_execution {{
            cluster_selector_term {{
              label_selector {{
                match_labels = {{ ring = "{draw.choice("12")}" }}
              }}
            }}
          }}
        }}
      }}
    """
    spread = """
      topology_spread_constraint {
        topology_key = "zone"
      }
    """
    if draw.random() < 0.3:
        return build_placement(f'placement_type = "PickAll"\n{required}', name=name)
    more = draw.choice([required, spread, required + spread, ""])
    return build_placement(build_pick_n(draw.randint(1, 5), more), name=name)


def test_changes_without_the_edits_are_reported_as_such(two_of_four: State) -> None:
    gone = next(each for each in two_of_four.instances if each.name == "c4")
    simulation = simulate_edits(two_of_four.replace_instance(gone, None), label="c1:ring=9")
    assert [(row.object, row.action) for row in find_outcome(simulation).unrelated] == [
        ("c4", "remove"),
        ("c2", "place"),
    ]
    why = next(part for part in build_fleet_report(simulation, "").sections if part.title == "Why")
    assert why.lines[0].startswith("p removed from c4, with and without this change: ")


def test_member_without_figures_has_no_capacity_row(two_of_four: State) -> None:
    outlined = build_fleet_report(simulate_edits(two_of_four, leave="c4"), "")
    room = next(part for part in outlined.sections if part.title.startswith("Capacity"))
    assert room.table is not None
    assert [row.cells for row in room.table.rows] == [("c4", "gone", "gone")]
    assert "CPU and memory are unknown on c2." in room.lines


def test_verdict_uses_singular_and_plural(two_of_four: State) -> None:
    assert (
        build_fleet_report(simulate_edits(two_of_four, leave="c4"), "").verdict
        == "1 of 1 placement changes."
    )
    second = build_placement(build_pick_n(2)).replace('"p"', '"q"')
    both = build_state_after(plan(FLEET + TWO + second))
    assert (
        build_fleet_report(simulate_edits(both, leave="c4"), "").verdict
        == "2 of 2 placements change."
    )
