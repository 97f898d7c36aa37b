"""Pods that kubelet refuses, that wait, that evict others: one plan settles them, the next is empty."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from nexusform.state.objects import EMPTY
from tests.domains.pods.planning.test_pods import HOSTNAME, MACHINE, deployment, manifest, pods, standing, workers
from tests.kill_points import select_cases
from tests.planning.harness import RACKS, build_state_after, cluster, is_empty, plan, pool, require_success

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


def exclusive(name: str, cpu: int, replicas: int = 1, **more: Any) -> str:
    """A workload whose pods have whole CPUs of their own, in one NUMA cell each."""
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    image = more.pop("image", "i")
    containers = [{"name": "c", "image": image, "resources": {"requests": amounts, "limits": amounts}}]
    return deployment(name, replicas, spec={"containers": containers, **more.pop("spec", {})}, **more)


def test_in_place_of_a_failed_pod_another_is_made_for_which_lots_are_drawn_again() -> None:
    """Two equal workers: on the one that was drawn a cell is broken, the other one takes the pod."""
    for seed in range(4):
        small = exclusive("small", 1, spec={"nodeName": f"a-np-{seed % 2}"})
        # Both workers hold as much, but on one of them it lies in both cells.
        other = exclusive("other", 1, spec={"nodeName": f"a-np-{1 - seed % 2}"})
        text = SITE + manifest("m", small, other, exclusive("big", 2, 2))
        state = build_state_after(require_success(plan(text)))
        places = standing(state)
        assert {places[f"big-{n}"]["node"] for n in (0, 1)} == {"a-np-0", "a-np-1"}
        assert is_empty(plan(text, state))


def test_a_failed_pod_that_others_leave_no_node_is_pending_at_once() -> None:
    """No cell is large enough, until what comes after it fills the room that the scheduler sees."""
    text = SITE + manifest("m", exclusive("big", 4)) + manifest("n", exclusive("later", 1, 4))
    text = text.replace('"n" {', '"n" {\n  depends_on = [fleet_hub_manifest.m]', 1)
    state = build_state_after(require_success(plan(text)))
    place = standing(state)["big-0"]
    assert place["node"] is None
    assert is_empty(plan(text, state))


def test_a_bare_pod_that_failed_stays_so_and_the_pod_of_a_deployment_comes_back() -> None:
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "labels": {"app": "bare"}},
        "spec": json.loads(exclusive("x", 4))["spec"]["template"]["spec"],
    }
    both = manifest("m", json.dumps(bare), exclusive("kept", 4))
    text = RACKS + workers(1, ALIGNED) + both
    state = build_state_after(require_success(plan(text)))
    assert {name: place["state"] for name, place in standing(state).items()} == {"bare": "Failed", "kept-0": "Failed"}
    # Without a topology manager kubelet would run both: one of them is made again, the other is not.
    free = RACKS + workers(1, "kubelet {\n}") + both
    result = require_success(plan(free, state))
    assert pods(result) == {"kept-0": ("move", "new")}
    after = build_state_after(result, state)
    assert standing(after)["bare"]["state"] == "Failed"
    assert is_empty(plan(free, after))


def test_nobody_is_evicted_for_a_pod_that_kubelet_would_refuse() -> None:
    quiet = exclusive("quiet", 1, 2)
    base = RACKS + workers(1, ALIGNED) + manifest("m", *CLASSES, quiet)
    state = build_state_after(require_success(plan(base)))
    gold = exclusive("gold", 4, spec={"priorityClassName": "gold"})
    text = base + manifest("n", gold)
    result = require_success(plan(text, state))
    assert pods(result) == {"gold-0": ("place", "rejected")}
    assert is_empty(plan(text, build_state_after(result, state)))


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_what_no_quota_admits_is_made_once_other_pods_have_gone(kind: str) -> None:
    """The new pod is looked at before the plan comes to those that leave."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "2"}},
    }
    site = RACKS + workers(1) + manifest("q", json.dumps(quota))
    later = "depends_on = [fleet_hub_manifest.q]"
    state = build_state_after(require_success(plan(site + manifest("z", deployment("old", 2)))))
    shrunk = manifest("z", deployment("old", 1)).replace('"z" {', f'"z" {{\n  {later.replace(".q", ".y")}', 1)
    added = manifest("y", deployment("new", 1, kind=kind)).replace('"y" {', f'"y" {{\n  {later}', 1)
    result = require_success(plan(site + added + shrunk, state))
    assert pods(result) == {"old-1": ("remove", "scale_in"), "new-0": ("place", "new")}
    assert is_empty(plan(site + added + shrunk, build_state_after(result)))


@pytest.mark.parametrize("seed", select_cases(range(25)))
def test_a_second_plan_is_empty_whatever_waits_fails_or_is_evicted(seed: int) -> None:
    state = EMPTY
    for step in range(3):
        text = SITE + manifest("classes", *CLASSES) + manifests(seed, step)
        state = build_state_after(require_success(plan(text, state)), state)
        assert is_empty(plan(text, state)), (seed, step)


def manifests(seed: int, step: int) -> str:
    """Three objects, each planned after the one before it. With every step other replicas, images and
    workloads are asked for.
    """
    chance = Random(10 * seed + step)
    blocks = []
    for name in "xyz":
        wanted = [
            workload(Random(f"{seed}{name}{at}"), f"{name}{at}", chance.randint(0, 3), chance.choice("ab"))
            for at in range(chance.randint(1, 3))
        ]
        block = manifest(name, *wanted)
        if name != "x":
            before = chr(ord(name) - 1)
            block = block.replace(f'"{name}" {{', f'"{name}" {{\n  depends_on = [fleet_hub_manifest.{before}]')
        blocks.append(block)
    return "".join(blocks)


def workload(chance: Random, name: str, replicas: int, image: str) -> str:
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
        return exclusive(name, cpu, replicas, kind=kind, spec=spec, image=image)
    wants = chance.choice(("500m", "1500m"))
    return deployment(name, replicas, cpu=wants, kind=kind, spec=spec, image=image)
