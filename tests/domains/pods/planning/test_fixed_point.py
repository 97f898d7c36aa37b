"""Tests of convergence: the plan after one plan is empty.

It handles rejected, pending and evicting pods.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from nexusform.state.objects import EMPTY
from tests.domains.pods.planning.test_pods import (
    HOSTNAME,
    MACHINE,
    build_deployment,
    build_manifest,
    build_workers,
    read_current_pods,
    read_pod_changes,
)
from tests.kill_points import select_cases
from tests.planning.harness import (
    RACKS,
    build_state_after,
    cluster,
    is_empty,
    plan,
    plan_without_certainty,
    pool,
    require_success,
)

ALIGNED = 'kubelet {\n topology_manager_policy = "single-numa-node"\n numa_nodes = 2\n}'
SITE = RACKS + cluster("a", pools=pool("np", 2, more=ALIGNED))
CLASSES = [
    json.dumps(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "polite" else "PreemptLowerPriority",
        }
    )
    for name, value in (("low", -10), ("polite", 500), ("gold", 1000))
]


def build_exclusive_workload(name: str, cpu: int, replicas: int = 1, **more: Any) -> str:
    """Return a workload with exclusive CPUs for each pod, all in one NUMA cell."""
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    image = more.pop("image", "i")
    containers = [
        {"name": "c", "image": image, "resources": {"requests": amounts, "limits": amounts}}
    ]
    return build_deployment(
        name, replicas, spec={"containers": containers, **more.pop("spec", {})}, **more
    )


def test_failed_pod_is_replaced_by_new_sample() -> None:
    """Of two equal workers the sampled one has a split cell.

    The other worker takes the pod.
    """
    for seed in range(4):
        small = build_exclusive_workload("small", 1, spec={"nodeName": f"a-np-{seed % 2}"})
        # Both workers have the same free capacity, but on one of them it is split
        # between two cells.
        other = build_exclusive_workload("other", 1, spec={"nodeName": f"a-np-{1 - seed % 2}"})
        text = SITE + build_manifest("m", small, other, build_exclusive_workload("big", 2, 2))
        state = build_state_after(require_success(plan_without_certainty(text)))
        places = read_current_pods(state)
        assert {places[f"big-{n}"]["node"] for n in (0, 1)} == {"a-np-0", "a-np-1"}
        assert is_empty(plan_without_certainty(text, state))


def test_failed_pod_without_feasible_node_is_pending_at_once() -> None:
    """No cell is large enough.

    Later pods then use the capacity seen by the scheduler.
    """
    text = (
        SITE
        + build_manifest("m", build_exclusive_workload("big", 4))
        + build_manifest("n", build_exclusive_workload("later", 1, 4))
    )
    text = text.replace('"n" {', '"n" {\n  depends_on = [fleet_hub_manifest.m]', 1)
    state = build_state_after(require_success(plan_without_certainty(text)))
    place = read_current_pods(state)["big-0"]
    assert place["node"] is None
    assert is_empty(plan_without_certainty(text, state))


def test_failed_bare_pod_stays_failed_and_deployment_pod_is_re_created() -> None:
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "labels": {"app": "bare"}},
        "spec": json.loads(build_exclusive_workload("x", 4))["spec"]["template"]["spec"],
    }
    both = build_manifest("m", json.dumps(bare), build_exclusive_workload("kept", 4))
    text = RACKS + build_workers(1, ALIGNED) + both
    state = build_state_after(require_success(plan(text)))
    assert {name: place["state"] for name, place in read_current_pods(state).items()} == {
        "bare": "Failed",
        "kept-0": "Failed",
    }
    # Without a topology manager kubelet would run both. Only the pod of the Deployment
    # is created again.
    free = RACKS + build_workers(1, "kubelet {\n}") + both
    result = require_success(plan(free, state))
    assert read_pod_changes(result) == {"kept-0": ("move", "new")}
    after = build_state_after(result, state)
    assert read_current_pods(after)["bare"]["state"] == "Failed"
    assert is_empty(plan(free, after))


def test_pod_rejected_by_kubelet_evicts_no_pods() -> None:
    quiet = build_exclusive_workload("quiet", 1, 2)
    base = RACKS + build_workers(1, ALIGNED) + build_manifest("m", *CLASSES, quiet)
    state = build_state_after(require_success(plan(base)))
    gold = build_exclusive_workload("gold", 4, spec={"priorityClassName": "gold"})
    text = base + build_manifest("n", gold)
    result = require_success(plan(text, state))
    assert read_pod_changes(result) == {"gold-0": ("place", "rejected")}
    assert is_empty(plan(text, build_state_after(result, state)))


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_pod_rejected_by_quota_is_created_after_scale_in(kind: str) -> None:
    """The plan handles the new pod before the pods to remove."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "2"}},
    }
    site = RACKS + build_workers(1) + build_manifest("q", json.dumps(quota))
    later = "depends_on = [fleet_hub_manifest.q]"
    state = build_state_after(
        require_success(plan(site + build_manifest("z", build_deployment("old", 2))))
    )
    shrunk = build_manifest("z", build_deployment("old", 1)).replace(
        '"z" {', f'"z" {{\n  {later.replace(".q", ".y")}', 1
    )
    added = build_manifest("y", build_deployment("new", 1, kind=kind)).replace(
        '"y" {', f'"y" {{\n  {later}', 1
    )
    result = require_success(plan(site + added + shrunk, state))
    assert read_pod_changes(result) == {"old-1": ("remove", "scale_in"), "new-0": ("place", "new")}
    assert is_empty(plan(site + added + shrunk, build_state_after(result)))


@pytest.mark.parametrize("seed", select_cases(range(24)))
def test_second_plan_is_empty_with_pending_failed_and_evicted_pods(seed: int) -> None:
    state = EMPTY
    for step in range(3):
        text = SITE + build_manifest("classes", *CLASSES) + build_manifests(seed, step)
        make_plan = plan if step == 0 else plan_without_certainty
        state = build_state_after(require_success(make_plan(text, state)), state)
        assert is_empty(make_plan(text, state)), (seed, step)


def build_manifests(seed: int, step: int) -> str:
    """Return three manifests, each planned after the previous one.

    Replicas, images and workloads change with every step.
    """
    chance = Random(10 * seed + step)
    blocks = []
    for name in "xyz":
        wanted = [
            build_workload(
                Random(f"{seed}{name}{at}"),
                f"{name}{at}",
                chance.randint(0, 3),
                chance.choice("ab"),
            )
            for at in range(chance.randint(1, 3))
        ]
        block = build_manifest(name, *wanted)
        if name != "x":
            before = chr(ord(name) - 1)
            block = block.replace(
                f'"{name}" {{', f'"{name}" {{\n  depends_on = [fleet_hub_manifest.{before}]'
            )
        blocks.append(block)
    return "".join(blocks)


def build_workload(chance: Random, name: str, replicas: int, image: str) -> str:
    kind = chance.choice(("Deployment", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"))
    spec: dict[str, Any] = {}
    if chance.randrange(2):
        spec["priorityClassName"] = chance.choice(("low", "polite", "gold"))
    if not chance.randrange(6):
        spec["nodeName"] = chance.choice(("a-np-0", "a-np-1"))
    if not chance.randrange(4):
        near = {"labelSelector": {"matchLabels": {"app": chance.choice(("x0", "y0", "z0"))}}}
        kinds = chance.choice(("podAffinity", "podAntiAffinity"))
        rule = [{**near, "topologyKey": chance.choice((HOSTNAME, MACHINE))}]
        spec["affinity"] = {kinds: {"requiredDuringSchedulingIgnoredDuringExecution": rule}}
    cpu = chance.randint(1, 3)
    if chance.randrange(3):
        return build_exclusive_workload(name, cpu, replicas, kind=kind, spec=spec, image=image)
    wants = chance.choice(("500m", "1500m"))
    return build_deployment(name, replicas, cpu=wants, kind=kind, spec=spec, image=image)
