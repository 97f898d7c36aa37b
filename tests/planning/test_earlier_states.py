"""States of earlier versions: a newer nexusform plans nothing for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.planning.fleet_phases import fleet_of
from nexusform.domains.fleet.rendering.pod_outline import pod_outline
from nexusform.domains.fleet.workflow.reasons import pod_reasons
from nexusform.plans.saved.comparison import parts_made_otherwise
from nexusform.plans.saved.plan_file import read, write
from nexusform.state.codec import decode
from nexusform.state.objects import State
from tests.domains.pods.planning.test_pods import deployment, manifest
from tests.planning.harness import (
    applied,
    at,
    attributes,
    good,
    is_empty,
    plan,
    state_of,
    warnings,
)

EARLIER = Path(__file__).parent / "earlier"
# Made before quotas, autoscalers, gates and ReplicationControllers were read, before pods were evicted, and
# before each claim took a volume of its own.
# The pods that run by today's rules; two of `claims` share a volume, and stay where they are.
FORETOLD = {"admission": "old-0", "placement": "old-1", "evictions": "gold-0", "claims": "db-1"}
CLUSTER = "nexus_kubernetes_cluster.a"
ALLOCATABLE = {"cpu": "20", "memory": "140Gi"}


def configuration(**more: str) -> str:
    text = (EARLIER / "main.nf.hcl").read_text()
    for block, arguments in more.items():
        text = text.replace(f'" "{block}" {{\n', f'" "{block}" {{\n{arguments}\n', 1)
    return text


def stored(name: str = "nodes") -> State:
    state, problems = decode((EARLIER / f"{name}.nfstate").read_bytes(), f"{name}.nfstate")
    assert state is not None, problems
    return state


def capacity(state: State) -> dict[str, Any]:
    found = attributes(state, CLUSTER)["capacity"]
    assert isinstance(found, dict)
    return found


@pytest.mark.of_domains("vnf")
def test_a_state_made_before_nodes_had_reserves_plans_nothing() -> None:
    result = good(plan(configuration(), stored()))
    assert is_empty(result)
    assert all(str(output.action) == "no-op" for output in result.plan.outputs)


@pytest.mark.of_domains("vnf")
def test_it_keeps_its_nodes_when_the_cluster_changes_for_another_reason() -> None:
    larger = configuration().replace("count       = 2\n    vm", "count       = 3\n    vm")
    state = state_of(larger, stored())
    assert attributes(state, CLUSTER)["node_rules"] is None
    assert capacity(state)["allocatable"] == {"cpu": "28", "memory": "196Gi"}


@pytest.mark.of_domains("vnf")
def test_a_kubelet_block_brings_the_nodes_of_today() -> None:
    assert capacity(stored())["allocatable"] == ALLOCATABLE
    state = state_of(configuration(a="kubelet {}"), stored())
    assert attributes(state, CLUSTER)["node_rules"] == "2026-11"
    assert capacity(state)["allocatable"] == {"cpu": "20", "memory": "140436Mi"}
    assert capacity(state)["total"] == {"cpu": "26", "memory": "140Gi"}
    pods = attributes(state, "fleet_hub_manifest.pods")["workloads"]
    assert len(pods["default/DaemonSet/agent"]) == 2


# --- pods --------------------------------------------------------------------------------------


def written(name: str) -> str:
    return (EARLIER / f"{name}.nf.hcl").read_text()


def nodes_of_pods(state: State) -> dict[tuple[str, str], str | None]:
    """(object, pod) -> node."""
    nodes: dict[tuple[str, str], str | None] = {}
    for address, instance in state.instances.items():
        assert instance.current is not None
        workloads = instance.current.attributes.get("workloads") or {}
        if address.type == "fleet_cluster_resource_placement":
            workloads = workloads["a"]
        for key, pods in workloads.items():
            nodes |= {(f"{address} {key}", pod): place["node"] for pod, place in pods.items()}
    return nodes


@pytest.mark.parametrize("name", FORETOLD)
def test_what_earlier_rules_foretold_stays_until_something_else_is_asked(name: str) -> None:
    result = good(plan(written(name), stored(name)))
    assert is_empty(result)
    # What a plan shows of pods agrees with state, those that wait with their reasons.
    rows = {row.object for row in result.plan.placements if row.kind == "pod"}
    assert rows == {pod for _, pod in nodes_of_pods(stored(name))}


@pytest.mark.parametrize("name", FORETOLD)
def test_the_next_change_on_the_cluster_brings_the_rules_of_today(name: str) -> None:
    text = written(name) + manifest("more", deployment("more", 1, cpu="100m"))
    result = good(plan(text, stored(name)))
    after = applied(result, stored(name))
    moved = {row.trigger for row in result.plan.placements if row.kind == "pod" and row.action == "move"}
    assert moved <= {"preempted", "new"}  # what waited gets a node
    assert is_empty(plan(text, after))
    running = {pod for (_, pod), node in nodes_of_pods(after).items() if node is not None}
    assert FORETOLD[name] in running


def test_a_pod_that_waits_in_an_earlier_state_is_told_of_as_it_was() -> None:
    details = [each.detail for each in warnings(plan(written("claims"), stored("claims")))]
    (detail,) = [each for each in details if "Pending" in each]
    assert "1 of 3 pods (db-2) would stay Pending: 0/3 nodes are available: 1 Insufficient cpu" in detail


def test_other_nodes_are_another_question() -> None:
    """Preemption was not known then; a node more is, and what waits is looked at by today's rules."""
    text = written("evictions").replace("count       = 2", "count       = 3")
    result = good(plan(text, stored("evictions")))
    waiting = [pod for pod, node in nodes_of_pods(stored("evictions")).items() if node is None]
    placed = {row.object for row in result.plan.placements if row.kind == "pod" and row.action == "move"}
    assert placed >= {pod for _, pod in waiting if pod.startswith("gold")}
    assert is_empty(plan(text, applied(result, stored("evictions"))))


def test_the_same_edition_looks_again_at_what_waits() -> None:
    """A plan that was carried out in part: what is left to do is not taken for an answer."""
    state = applied(good(plan(written("evictions"))))
    before = stored("evictions").instances
    address = at("fleet_hub_manifest.gold")
    half = replace(state, instances={**state.instances, address: before[address]})
    result = good(plan(written("evictions"), half))
    assert not is_empty(result)
    assert is_empty(plan(written("evictions"), applied(result, half)))


@pytest.mark.parametrize("name", FORETOLD)
def test_a_saved_plan_over_an_earlier_state_means_what_it_shows(name: str) -> None:
    """Arguments that came since are missing in state, and left out in the plan."""
    text = written(name) + 'resource "nexus_site" "other" {}\n'
    result = good(plan(text, stored(name)))
    saved, _ = read(write(result.plan, {}))
    assert saved is not None
    assert parts_made_otherwise(saved.plan, good(plan(text, stored(name))).plan) == []


def test_an_explanation_says_who_foretold_it() -> None:
    result = good(plan(written("evictions"), stored("evictions")))
    fleet = fleet_of(result)
    assert fleet is not None
    (reason,) = pod_reasons(fleet.pods, ["fleet_hub_manifest.gold"], "gold-0")
    assert reason.recorded
    assert reason.today
    assert "An earlier nexusform foretold it" in " ".join(pod_outline(reason).facts)
