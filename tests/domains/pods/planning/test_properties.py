"""Property tests of pods over several random plans: invariants of each plan."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from nexusform.state.objects import EMPTY, State
from tests.domains.pods.planning.test_pods import (
    HOSTNAME,
    MACHINE,
    ZONE,
    build_deployment,
    build_manifest,
)
from tests.kill_points import scale_count
from tests.planning.harness import (
    RACKS,
    attributes,
    build_state_after,
    cluster,
    is_empty,
    plan,
    plan_without_certainty,
    pool,
    require_success,
)

FEWER_EXAMPLES = settings(
    max_examples=scale_count(64), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class WorkloadSpec(Struct, frozen=True):
    """A workload: its replicas, its anti-affinity key ("" = none), the CPU of a pod, its image."""

    replicas: int
    apart: str
    cpu: str
    image: str


class Scenario(Struct, frozen=True):
    workers: int
    workloads: tuple[WorkloadSpec, ...]


WANTED = st.builds(
    WorkloadSpec,
    st.integers(0, 5),
    st.sampled_from(["", HOSTNAME, MACHINE, ZONE]),
    st.sampled_from(["100m", "1", "2500m"]),
    st.sampled_from(["a:1", "a:2"]),
)
SITUATION = st.builds(
    Scenario, st.integers(1, 5), st.lists(WANTED, min_size=1, max_size=3).map(tuple)
)


def render_scenario(situation: Scenario) -> str:
    objects = [
        build_deployment(f"w{i}", w.replicas, apart=w.apart, cpu=w.cpu, image=w.image)
        for i, w in enumerate(situation.workloads)
    ]
    return RACKS + cluster("a", pools=pool("np", situation.workers)) + build_manifest("m", *objects)


def read_pods_by_workload(state: State) -> dict[str, dict[str, str | None]]:
    """Return workload -> pod -> node."""
    found = attributes(state, "fleet_hub_manifest.m")["workloads"]
    return {
        key.rpartition("/")[2]: {p: v["node"] for p, v in pods.items()}
        for key, pods in found.items()
    }


def check_placement(state: State, situation: Scenario) -> None:
    nodes = attributes(state, "nexus_kubernetes_cluster.a")["nodes"]
    cpu: Counter[str] = Counter()
    places = read_pods_by_workload(state)
    domain = {
        HOSTNAME: lambda n: n,
        MACHINE: lambda n: nodes[n]["machine"],
        ZONE: lambda n: nodes[n]["rack"],
    }
    for index, wanted in enumerate(situation.workloads):
        here = [node for node in places.get(f"w{index}", {}).values() if node]
        assert all(nodes[node]["role"] == "Worker" for node in here)
        if wanted.apart:
            taken = Counter(domain[wanted.apart](node) for node in here)
            assert max(taken.values(), default=0) <= 1, (wanted, taken)
        millis = {"100m": 100, "1": 1000, "2500m": 2500}[wanted.cpu]
        for node in here:
            cpu[node] += millis
    # NC_G6_28_v1 has six vCPUs, two of them reserved.
    assert max(cpu.values(), default=0) <= 4000


@FEWER_EXAMPLES
@given(SITUATION)
def test_required_rules_and_capacity_hold_and_second_plan_is_empty(situation: Scenario) -> None:
    text = render_scenario(situation)
    state = build_state_after(require_success(plan(text)))
    check_placement(state, situation)
    for index, wanted in enumerate(situation.workloads):
        assert len(read_pods_by_workload(state).get(f"w{index}", {})) == wanted.replicas
    assert is_empty(plan(text, state))


@FEWER_EXAMPLES
@given(SITUATION, st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_replica_changes_move_no_pod(situation: Scenario, counts: list[int]) -> None:
    before = build_state_after(require_success(plan_without_certainty(render_scenario(situation))))
    changed = Scenario(
        situation.workers,
        tuple(
            WorkloadSpec(count, w.apart, w.cpu, w.image)
            for w, count in zip(situation.workloads, counts, strict=False)
        ),
    )
    result = require_success(plan_without_certainty(render_scenario(changed), before))
    after = build_state_after(result, before)
    check_placement(after, changed)
    then = read_pods_by_workload(before)
    now = read_pods_by_workload(after)
    for name, pods in now.items():
        for pod, node in then.get(name, {}).items():
            # Only Pending pods may get a node; all others keep theirs.
            assert pod not in pods or pods[pod] == node or node is None
    assert {
        r.trigger for r in result.plan.placements if r.kind == "pod" and r.action != "keep"
    } <= {"new", "scale_out", "scale_in", ""}
    assert is_empty(plan_without_certainty(render_scenario(changed), after))


@FEWER_EXAMPLES
@given(SITUATION, st.integers(1, 5))
def test_removed_workers_lose_only_their_own_pods(situation: Scenario, workers: int) -> None:
    before = build_state_after(
        require_success(plan_without_certainty(render_scenario(situation), EMPTY))
    )
    changed = Scenario(workers, situation.workloads)
    after = build_state_after(
        require_success(plan_without_certainty(render_scenario(changed), before)), before
    )
    check_placement(after, changed)
    left = set(attributes(after, "nexus_kubernetes_cluster.a")["nodes"])
    then = read_pods_by_workload(before)
    now = read_pods_by_workload(after)
    for name, pods in then.items():
        for pod, node in pods.items():
            if node in left:
                assert now[name][pod] == node
    assert is_empty(plan_without_certainty(render_scenario(changed), after))
