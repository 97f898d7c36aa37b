"""Tests of members from clusters of the configuration.

Figures from nodes, iterations, warnings and order.
"""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Mode, StepKind
from nexusform.rendering.report.content_losses import describe_departures
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_pick_n,
    build_placement,
    get_bindings,
    list_moves,
    list_picks,
)
from tests.planning.harness import (
    RACKS,
    agent_pool,
    attributes,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    pool,
    require_success,
)

NAME_OF_NODES = "kubernetes-fleet.io/node-count"


def build_joined_member(name: str, more: str = "") -> str:
    return f"""
resource "fleet_member_cluster" "{name}" {{
  kubernetes_cluster_id = nexus_kubernetes_cluster.{name}.id
  {more}
}}
"""


def build_requirement(name: str, operator: str, value: str) -> str:
    return f"""affinity {{
      cluster_affinity {{
        required_during_scheduling_ignored_during_execution {{
          cluster_selector_term {{
            property_selector {{
              match_expression {{
                name     = "{name}"
                operator = "{operator}"
                values   = ["{value}"]
              }}
            }}
          }}
        }}
      }}
    }}"""


def build_site(a: int = 1, b: int = 3, extra: str = "") -> str:
    return (
        RACKS
        + cluster("a", pools=pool("p", a, "NC_P10_56_v1"))
        + cluster("b", pools=pool("p", b, "NC_P10_56_v1"))
        + build_joined_member("a", extra)
        + build_joined_member("b")
        + build_hub()
    )


def read_private_data(state: Any, name: str) -> dict[str, Any]:
    current = state.instances[
        next(a for a in state.instances if str(a) == f"fleet_member_cluster.{name}")
    ].current
    assert current is not None
    assert current.private is not None
    return dict(current.private)


def test_figures_are_computed_from_nodes() -> None:
    text = build_site(2, extra='cost {\n per_cpu_core = "0.5"\n }') + agent_pool(
        "more", "nexus_kubernetes_cluster.a.id", 1, "NC_G2_8_v1"
    )
    figures = read_private_data(build_state(text + build_placement()), "a")
    assert figures["properties"] == {
        "kubernetes-fleet.io/node-count": "4",
        "kubernetes.azure.com/vm-sizes/NC_G2_8_v1/count": "1",
        "kubernetes.azure.com/vm-sizes/NC_G6_28_v1/count": "1",
        "kubernetes.azure.com/vm-sizes/NC_P10_56_v1/count": "2",
        "kubernetes.azure.com/per-cpu-core-cost": "0.5",
    }
    assert figures["resources"]["total"] == {"cpu": "28", "memory": "148Gi"}
    assert figures["resources"]["allocatable"] == {"cpu": "22", "memory": "148272Mi"}
    assert figures["resources"]["available"] == {"cpu": "22", "memory": "148272Mi"}


def test_azure_arguments_add_the_labels_of_azure() -> None:
    """Azure adds both labels to all members of a fleet."""
    text = (
        build_hub()
        + """
resource "fleet_member_cluster" "a" {
  location     = "westus"
  cluster_name = "aks-a"
}
resource "fleet_member_cluster" "b" {}
"""
    )
    for label, value in (("member-name", "a"), ("cluster-name", "aks-a")):
        policy = f"""
    placement_type = "PickAll"
    affinity {{
      cluster_affinity {{
        required_during_scheduling_ignored_during_execution {{
          cluster_selector_term {{
            label_selector {{
              match_labels = {{ "fleet.azure.com/{label}" = "{value}" }}
            }}
          }}
        }}
      }}
    }}
"""
        assert list_picks(build_state(text + build_placement(policy))) == ["a"]


def test_cluster_with_larger_pool_joins_pick_all() -> None:
    policy = build_requirement(NAME_OF_NODES, "Ge", "4")
    state = build_state(build_site() + build_placement(policy))
    assert list_picks(state) == ["b"]
    assert is_empty(plan(build_site() + build_placement(policy), state))
    result = require_success(plan(build_site(3) + build_placement(policy), state))
    assert list_moves(result) == {"a": ("place", "cluster_properties_changed")}
    after = build_state_after(result, state)
    assert is_empty(plan(build_site(3) + build_placement(policy), after))
    shrunk = require_success(plan(build_site(1) + build_placement(policy), after))
    assert list_moves(shrunk) == {"a": ("keep", "cluster_property_lost")}


def test_fulfilled_pick_n_ignores_figures() -> None:
    state = build_state(build_site() + build_placement(build_pick_n(1)))
    assert list_picks(state) == ["b"]
    result = require_success(plan(build_site(1, 4) + build_placement(build_pick_n(1)), state))
    # Nothing changes for it, so it is not observed; the row of kept bindings has the reason.
    assert list_moves(result) == {}
    row = next(r for r in result.plan.placements if r.kind == "binding")
    assert (row.object, str(row.action), row.trigger) == ("b", "keep", "")
    assert row.reason == "kept: a fulfilled PickN is not re-evaluated"


def test_members_sharing_machines_cause_a_warning() -> None:
    small = RACKS.replace("count         = 3", "count         = 1").replace(
        "machine_count = 4", "machine_count = 1"
    )
    text = build_site().replace(RACKS, small)
    found = [
        w
        for w in list_warnings(require_success(plan(text + build_placement())))
        if w.summary == "Placement members share machines"
    ]
    assert len(found) == 1
    assert "r0-bm01" in found[0].detail
    assert "a, b" in found[0].detail


def test_unknown_cluster_is_an_error() -> None:
    text = (
        build_site()
        + """
resource "fleet_member_cluster" "c" {
  kubernetes_cluster_id = "s/zzz"
}
"""
    )
    assert [e.summary for e in list_errors(plan(text))] == ["Unknown cluster"]


def test_members_and_objects_precede_placements_and_are_deleted_last() -> None:
    text = build_site() + build_placement()
    made = require_success(plan(text))
    state = build_state_after(made)
    assert _is_ordered(
        made, StepKind.CREATE, "fleet_member_cluster.a", "fleet_cluster_resource_placement.p"
    )
    assert _is_ordered(
        made, StepKind.CREATE, "fleet_hub_manifest.web", "fleet_cluster_resource_placement.p"
    )
    from nexusform.plans.plan import Mode

    gone = require_success(plan(text, state, mode=Mode.DESTROY))
    assert _is_ordered(
        gone, StepKind.DELETE, "fleet_cluster_resource_placement.p", "fleet_member_cluster.a"
    )
    assert _is_ordered(
        gone, StepKind.DELETE, "fleet_member_cluster.a", "nexus_kubernetes_cluster.a"
    )
    assert {r.trigger for r in gone.plan.placements if r.kind == "binding"} == {"placement_removed"}


def _is_ordered(result: Any, kind: StepKind, first: str, second: str) -> bool:
    """Return whether the second step waits for the first."""
    steps = {
        str(result.plan.changes[s.change].address): s for s in result.plan.steps if s.kind is kind
    }
    waits = [steps[second].id]
    seen = set()
    by_id = {s.id: s for s in result.plan.steps}
    while waits:
        step = waits.pop()
        if step not in seen:
            seen.add(step)
            waits += by_id[step].waits_for
    return steps[first].id in seen


def test_replaced_cluster_keeps_its_member() -> None:
    state = build_state(build_site() + build_placement())
    result = require_success(
        plan(build_site() + build_placement(), state, replaces=("nexus_kubernetes_cluster.a",))
    )
    assert list_moves(result) == {}
    assert sorted(get_bindings(build_state_after(result, state))) == ["a", "b"]
    assert attributes(state, "fleet_member_cluster.a")["id"] == "a"


WORK = """
resource "fleet_hub_manifest" "work" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: work
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: heavy
      namespace: work
    spec:
      replicas: 1
      selector:
        matchLabels: {app: heavy}
      template:
        metadata:
          labels: {app: heavy}
        spec:
          containers:
            - name: heavy
              image: registry.example.com/heavy:1.0
              resources:
                requests: {cpu: "3", memory: 1Gi}
  EOT
}
"""


def test_pods_of_one_placement_affect_others_in_next_iteration() -> None:
    busy = build_requirement("resources.kubernetes-fleet.io/available-cpu", "Le", "10")
    fixed = 'placement_type = "PickFixed"\ncluster_names = ["a"]'
    heavy = build_placement(fixed, name="heavy").replace('name    = "web"', 'name    = "work"')
    text = build_site(1, 3) + WORK + build_placement(busy) + heavy
    result = require_success(plan(text))
    joined = next(
        r for r in result.plan.placements if r.kind == "binding" and str(r.address).endswith(".p")
    )
    assert (joined.object, joined.trigger) == ("a", "cluster_properties_changed")
    state = build_state_after(result)
    assert read_private_data(state, "a")["resources"]["available"]["cpu"] == "9"
    assert is_empty(plan(text, state))
    pods = attributes(state, "fleet_cluster_resource_placement.heavy")["workloads"]["a"][
        "work/Deployment/heavy"
    ]
    assert [p["node"] for p in pods.values()] == ["a-p-0"]


def test_unfulfilled_pick_n_is_not_reported_as_fulfilled() -> None:
    taint = 'taint {\n  key = "k"\n  value = "v"\n  effect = "NoSchedule"\n}\n'
    text = build_site() + build_placement(build_pick_n(2))
    state = build_state(text)
    tainted = text.replace(
        'resource "fleet_member_cluster" "a" {\n',
        f'resource "fleet_member_cluster" "a" {{\n{taint}',
    )
    result = require_success(
        plan(tainted.replace("number_of_clusters = 2", "number_of_clusters = 3"), state)
    )
    said = [each.detail for each in list_warnings(result)] + [
        row.reason for row in result.plan.placements
    ]
    assert any("are not rescheduled" in each for each in said)
    assert not [each for each in said if "a fulfilled PickN" in each]


def test_sharing_of_machines_is_caused_only_by_nodes_of_picked_members() -> None:
    """Another cluster of the site has no part in it."""
    shared = "placement-members-share-machines"
    site = build_site(8, 8) + build_placement()
    state = build_state(site)
    other = cluster("other", pools=pool("p", 1, "NC_P10_56_v1"))
    (finding,) = [each for each in plan(site + other, state).diagnostics if each.id == shared]
    assert finding.is_preexisting
    larger = build_site(9, 9) + build_placement()
    (finding,) = [each for each in plan(larger, state).diagnostics if each.id == shared]
    assert not finding.is_preexisting
    policy = 'placement_type = "PickFixed"\ncluster_names = ["a"]'
    only_a = build_site(8, 8) + build_placement(policy)
    both = only_a.replace('["a"]', '["a", "b"]')
    (finding,) = [each for each in plan(both, build_state(only_a)).diagnostics if each.id == shared]
    assert not finding.is_preexisting


DEPLOYMENT = """
resource "fleet_hub_manifest" "web" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata: {name: web}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: d, namespace: web}
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
  EOT
}
"""


def test_removal_of_pods_on_an_unreachable_member_is_not_certain() -> None:
    site = RACKS + cluster("a", pools=pool("p", 2, "NC_P10_56_v1")) + DEPLOYMENT
    healthy = site + build_joined_member("a")
    state = build_state(healthy + build_placement())
    (row,) = [row for row in plan(healthy, state).plan.placements if row.kind == "pod"]
    assert (row.action, row.scores) == ("remove", {})
    sick = site + build_joined_member("a", 'health = "NoHeartbeat"')
    state = build_state(sick + build_placement(), state)
    (row,) = [row for row in plan(sick, state).plan.placements if row.kind == "pod"]
    assert (row.action, row.scores["certain"]) == ("remove", False)


def build_unreachable_member() -> tuple[str, State]:
    """Return a configuration with a placement, and the state after its member has failed."""
    site = RACKS + cluster("a", pools=pool("p", 2, "NC_P10_56_v1")) + DEPLOYMENT
    site += build_placement()
    sick = site + build_joined_member("a", 'health = "NoHeartbeat"')
    return site, build_state(sick, build_state(site + build_joined_member("a")))


def list_certainties(result: PlanResult) -> list[tuple[str, bool]]:
    """Return kind and certainty of each changed binding and pod."""
    return [
        (row.kind, row.scores.get("certain", True))
        for row in result.plan.placements
        if row.kind in ("binding", "pod") and row.action != "keep"
    ]


def test_destroy_of_pods_on_an_unreachable_member_is_not_certain() -> None:
    site, state = build_unreachable_member()
    target = "fleet_cluster_resource_placement.p"
    result = plan(site, state, mode=Mode.DESTROY, targets=(target,))
    assert list_certainties(result) == [("binding", False), ("pod", False)]
    # Nothing stays on a destroyed cluster.
    result = plan(site, state, mode=Mode.DESTROY)
    assert list_certainties(result) == [("binding", True), ("pod", True)]
    assert "rollout-to-unreachable-member" not in list_warning_ids(result)


LATE = """
resource "fleet_hub_manifest" "late" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata: {name: late}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: late, namespace: late}
    spec:
      nodeSelector: {kubernetes.io/hostname: a-p-0}
      containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
  EOT
}
"""
LEFT = "objects-left-on-cluster"


def find_late_pod(result: PlanResult) -> dict[str, Any]:
    (row,) = [row for row in require_success(result).plan.placements if row.object == "late"]
    return dict(row.scores)


@pytest.mark.parametrize("is_reachable", [True, False])
def test_objects_stay_on_a_member_that_leaves(is_reachable: bool) -> None:
    """The agent leaves them there, and no later pod on the cluster is certain."""
    site, state = build_unreachable_member()
    if is_reachable:
        state = build_state(site + build_joined_member("a"))
    result = plan(site, state)
    rows = {row.kind: row for row in result.plan.placements if row.kind in ("binding", "pod")}
    assert (rows["binding"].action, rows["binding"].trigger) == ("update", "cluster_left")
    assert (rows["pod"].action, rows["pod"].scores) == ("forget", {})
    assert describe_departures(result.plan) == []
    (warning,) = [item for item in list_warnings(result) if item.id == "member-leaves-objects"]
    assert warning.detail.startswith("The plan removes member a, but Fleet leaves the objects of p")
    left = build_state_after(result)
    assert is_empty(plan(site, left))
    later = plan(site + LATE, left)
    assert find_late_pod(later)["depends_on"] == "objects left on the cluster"
    assert LEFT in list_warning_ids(later)
    # The next apply keeps the record, and later pods that stay are certain.
    again = plan(site + LATE, build_state_after(later))
    assert is_empty(again)
    assert LEFT not in list_warning_ids(again)
    # A member that joins again deletes nothing of before.
    joined = build_state(site + build_joined_member("a"), left)
    assert find_late_pod(plan(site + build_joined_member("a") + LATE, joined))["certain"] is False


def test_pods_on_a_re_created_cluster_are_certain_again() -> None:
    site, _ = build_unreachable_member()
    state = build_state(site, build_state(site + build_joined_member("a")))
    cluster_a = "nexus_kubernetes_cluster.a"
    result = require_success(plan(site, state, replaces=(cluster_a,)))
    assert find_late_pod(plan(site + LATE, build_state_after(result)))["certain"] is True


def test_member_that_is_reachable_again_deletes_what_a_placement_left() -> None:
    site, state = build_unreachable_member()
    sick = site.replace(build_placement(), "") + build_joined_member("a", 'health = "NoHeartbeat"')
    left = build_state(sick, state)
    reachable = site.replace(build_placement(), "") + build_joined_member("a")
    assert find_late_pod(plan(reachable + LATE, left))["certain"] is True
    # Once it leaves the fleet, nothing deletes them.
    gone = site.replace(build_placement(), "")
    later = plan(gone + LATE, build_state(gone, left))
    assert find_late_pod(later)["depends_on"] == "objects left on the cluster"


def test_pods_beside_a_forgotten_manifest_are_not_certain() -> None:
    site = RACKS + cluster("a", pools=pool("p", 2, "NC_P10_56_v1"))
    other = LATE.replace("late", "early")
    forget = """
removed {
  from = fleet_hub_manifest.early
  lifecycle {
    destroy = false
  }
}
"""
    forgotten = build_state(site + forget, build_state(site + other))
    later = plan(site + LATE, forgotten)
    assert find_late_pod(later)["depends_on"] == "objects left on the cluster"


@pytest.mark.parametrize("mode", [Mode.NORMAL, Mode.DESTROY])
def test_targeted_removal_of_a_member_leaves_objects(mode: Mode) -> None:
    site, _ = build_unreachable_member()
    joined = site + build_joined_member("a")
    targets = ("fleet_member_cluster.a",)
    text = joined if mode is Mode.DESTROY else site
    result = require_success(plan(text, build_state(joined), mode=mode, targets=targets))
    later = plan(site + LATE, build_state_after(result))
    assert find_late_pod(later)["depends_on"] == "objects left on the cluster"


def test_placement_and_member_that_go_together_leave_pods_in_doubt() -> None:
    site, _ = build_unreachable_member()
    state = build_state(site + build_joined_member("a"))
    result = plan(site.replace(build_placement(), ""), state)
    assert list_certainties(result) == [("binding", True), ("pod", False)]
    later = plan(site.replace(build_placement(), "") + LATE, build_state_after(result))
    assert find_late_pod(later)["certain"] is False


@pytest.mark.parametrize("count", [1, 0])
def test_placement_that_count_removes_takes_its_pods_along(count: int) -> None:
    site, _ = build_unreachable_member()
    header = 'resource "fleet_cluster_resource_placement" "p" {'
    site += build_joined_member("a")
    state = build_state(site.replace(header, f'{header}\n  name = "p"\n  count = 1'))
    changed = site.replace(header, f'{header}\n  name = "p"\n  count = {count}')
    result = require_success(plan(changed, state))
    actions = [row.action for row in result.plan.placements if row.kind == "pod"]
    assert actions == (["keep"] if count else ["remove"])


def test_members_removed_from_state_keep_their_objects() -> None:
    site, _ = build_unreachable_member()
    state = build_state(site + build_joined_member("a"))
    forget = """
removed {
  from = fleet_member_cluster.a
  lifecycle {
    destroy = false
  }
}
"""
    result = plan(site + forget, state)
    assert describe_departures(result.plan) == []
    assert "member-leaves-objects" not in list_warning_ids(result)


def test_destroy_on_a_member_without_a_record_is_not_certain() -> None:
    """Members of a data block are not read for a destroy."""
    _, state = build_unreachable_member()
    del state.instances[parse_address("fleet_member_cluster.a")]
    result = plan("", state, mode=Mode.DESTROY)
    assert list_certainties(result) == [("binding", False), ("pod", False)]
    (row,) = [row for row in result.plan.placements if row.kind == "binding"]
    assert row.scores["depends_on"] == "members that were not read"


def build_pick_of_two(*names: str) -> str:
    members = "".join(f'resource "fleet_member_cluster" "{name}" {{}}\n' for name in names)
    return build_hub() + members + build_placement(build_pick_n(2))


@pytest.mark.parametrize("is_removed_by_hand", [True, False])
def test_member_that_only_the_state_lacks_may_keep_its_binding(is_removed_by_hand: bool) -> None:
    """A hub that still has the member replaces no binding, and deletes nothing."""
    state = build_state(build_pick_of_two("a", "b", "c"))
    text = build_pick_of_two("a", "b")
    if is_removed_by_hand:
        del state.instances[parse_address("fleet_member_cluster.c")]
    else:
        text += "removed {\n  from = fleet_member_cluster.c\n"
        text += "  lifecycle {\n    destroy = false\n  }\n}\n"
    result = require_success(plan(text, state))
    rows = {row.object: row for row in result.plan.placements}
    assert rows["a"].action == "place"
    assert rows["a"].scores["depends_on"] == "members that were not read"
    assert rows["c"].action == ("remove" if is_removed_by_hand else "forget")
    (rollout,) = result.plan.workloads.rollouts
    assert "delete" not in [step.kind for step in rollout.steps]


def test_replacement_of_a_destroyed_member_is_exact() -> None:
    state = build_state(build_pick_of_two("a", "b", "c"))
    result = require_success(plan(build_pick_of_two("a", "b"), state))
    assert all("depends_on" not in row.scores for row in result.plan.placements)


def list_warning_ids(result: PlanResult) -> set[str]:
    return {item.id for item in list_warnings(result)}
