"""Tests of random fleets with repeated edits.

Stable bindings do not move, and a plan after apply is empty.

NF_TEST_FLEETS sets the number of fleets.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.planning.placement_iterations import PlacementIterations
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_pick_n,
    build_placement,
    get_bindings,
    list_moves,
)
from tests.domains.fleet.workload_texts import build_deployment
from tests.kill_points import scale_count
from tests.planning.harness import build_state, build_state_after, is_empty, plan, require_success

FLEETS = int(os.environ.get("NF_TEST_FLEETS") or scale_count(100))
SLOW = settings(
    max_examples=FLEETS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
NAMES = tuple(f"c{n}" for n in range(1, 8))
REGIONS = ("east", "west", "north", "")


class Cluster(Struct, frozen=True):
    region: str = "east"
    nodes: int = 3
    taint: str = ""
    health: str = "Healthy"

    def text(self, name: str) -> str:
        labels = {"region": self.region} if self.region else {}
        lines = [
            f'properties = {{ "kubernetes-fleet.io/node-count" = "{self.nodes}" }}',
            f'health = "{self.health}"',
        ]
        if self.taint:
            lines.append(f'taint {{\n    key = "{self.taint}"\n  }}')
        return build_member(name, labels, "\n  ".join(lines))


class Policy(Struct, frozen=True):
    number: int | None = 2  # None: PickAll
    region: str = ""
    sorter: str = ""
    spread: bool = False
    tolerates: bool = False

    def text(self) -> str:
        parts = []
        terms = []
        if self.region:
            terms.append(
                "required_during_scheduling_ignored_during_execution {\ncluster_selector_term {\n"
                f'label_selector {{\nmatch_labels = {{ region = "{self.region}" }}\n}}\n}}\n}}'
            )
        if self.sorter and self.number is not None:
            terms.append(
                "preferred_during_scheduling_ignored_during_execution {\nweight = 50\npreference "
                "{\n"
                'property_sorter {\nname = "kubernetes-fleet.io/node-count"\n'
                f'sort_order = "{self.sorter}"\n}}\n}}\n}}'
            )
        if terms:
            parts.append("affinity {\ncluster_affinity {\n" + "\n".join(terms) + "\n}\n}")
        if self.spread and self.number is not None:
            parts.append('topology_spread_constraint {\ntopology_key = "region"\n}')
        if self.tolerates:
            parts.append('toleration {\noperator = "Exists"\n}')
        more = "\n".join(parts)
        return (
            build_pick_n(self.number, more)
            if self.number is not None
            else 'placement_type = "PickAll"\n' + more
        )


class Fleet(Struct, frozen=True):
    clusters: dict[str, Cluster] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    colour: str = "blue"

    def text(self) -> str:
        members = "".join(cluster.text(name) for name, cluster in sorted(self.clusters.items()))
        return build_hub(self.colour) + members + build_placement(self.policy.text())


clusters = st.builds(
    Cluster,
    st.sampled_from(REGIONS),
    st.integers(1, 9),
    st.sampled_from(("", "", "", "k")),
    st.sampled_from(("Healthy", "Healthy", "Healthy", "Unhealthy", "RecentlyUnhealthy")),
)
policies = st.builds(
    Policy,
    st.sampled_from((0, 1, 2, 3, 5, None)),
    st.sampled_from(("", "", "east")),
    st.sampled_from(("", "Ascending", "Descending")),
    st.booleans(),
    st.booleans(),
)
fleets = st.builds(Fleet, st.dictionaries(st.sampled_from(NAMES), clusters, min_size=1), policies)


@SLOW
@given(fleets)
def test_second_plan_is_empty(fleet: Fleet) -> None:
    state = build_state(fleet.text())
    assert is_empty(plan(fleet.text(), state))


@SLOW
@given(fleets, st.integers(1, 4))
def test_scale_out_keeps_current_bindings(fleet: Fleet, more: int) -> None:
    fleet = replace(fleet, policy=replace(fleet.policy, number=fleet.policy.number or 1))
    state = build_state(fleet.text())
    before = get_bindings(state)
    wider = replace(fleet, policy=replace(fleet.policy, number=(fleet.policy.number or 0) + more))
    result = require_success(plan(wider.text(), state))
    assert {row.action for row in result.plan.placements} <= {"place", "keep"}
    after = get_bindings(build_state_after(result, state))
    assert {name: after[name] for name in before} == before


@SLOW
@given(fleets)
def test_new_resources_never_reschedule(fleet: Fleet) -> None:
    state = build_state(fleet.text())
    result = require_success(plan(replace(fleet, colour="red").text(), state))
    assert set(list_moves(result).values()) <= {("update", "resources_changed")}
    after = build_state_after(result, state)
    assert sorted(get_bindings(after)) == sorted(get_bindings(state))
    assert is_empty(plan(replace(fleet, colour="red").text(), after))


@SLOW
@given(fleets, st.dictionaries(st.sampled_from(NAMES), clusters))
def test_fulfilled_pick_n_ignores_member_changes(fleet: Fleet, changes: dict[str, Cluster]) -> None:
    number = fleet.policy.number or 1
    fleet = replace(fleet, policy=replace(fleet.policy, number=number))
    state = build_state(fleet.text())
    if len(get_bindings(state)) < number:
        return
    changed = replace(fleet, clusters=fleet.clusters | changes)
    result = require_success(plan(changed.text(), state))
    assert {action for action, _ in list_moves(result).values()} <= {"keep"}
    after = build_state_after(result, state)
    assert get_bindings(after) == get_bindings(state)
    assert is_empty(plan(changed.text(), after))


@SLOW
@given(fleets, st.data())
def test_leaving_member_moves_only_its_bindings(fleet: Fleet, data: st.DataObject) -> None:
    state = build_state(fleet.text())
    held = get_bindings(state)
    name = data.draw(st.sampled_from(sorted(fleet.clusters)))
    left = replace(fleet, clusters={n: c for n, c in fleet.clusters.items() if n != name})
    result = require_success(plan(left.text(), state))
    found = list_moves(result)
    assert {n for n, (action, _) in found.items() if action == "remove"} <= {name}
    assert (name in found) == (name in held)
    after = build_state_after(result, state)
    others = {n: b for n, b in held.items() if n != name}
    assert {n: get_bindings(after)[n] for n in others} == others
    assert is_empty(plan(left.text(), after))


def test_defaults_of_a_workload_are_computed_once() -> None:
    namespace, deployment = parse_manifests("web.yaml", build_deployment("web", 2, 1)).manifests
    iterations = PlacementIterations(MemberList(()))
    with_defaults = iterations.add_workload_defaults(deployment)
    assert with_defaults.body["spec"]["progressDeadlineSeconds"] == 600
    assert "progressDeadlineSeconds" not in deployment.body["spec"]
    assert iterations.add_workload_defaults(deployment) is with_defaults
    assert iterations.add_workload_defaults(namespace) is namespace
