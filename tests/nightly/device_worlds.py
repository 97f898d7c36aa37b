"""Random clusters with devices (DRA), to find wrong certain predictions.

They run against kube-scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from tests.nightly.live_cluster import Body, LiveCluster
from tests.nightly.pod_worlds import NODE_INFO, Result, World, build_node, compare_plan, run_world

DRIVERS = ("gpu.example.com", "nic.example.com")
_VERSION = "resource.k8s.io/v1"
_SELECTORS = (
    'device.attributes["gpu.example.com"].model == "a100"',
    'device.attributes["gpu.example.com"].model.startsWith("h")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].index > 0',
    'cel.bind(dra, device.attributes["gpu.example.com"], dra.model == "a100" || dra.index == 1)',
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.1.0"))',
)


def build_world(seed: int, *, has_gates: bool) -> World:
    """Return a random world with slices, classes and claims.

    With `has_gates`, devices also have taints and counters.
    """
    draw = random.Random(seed)
    nodes = [build_node(draw, number, 2) for number in range(draw.randint(2, 4))]
    slices = [
        item
        for node in nodes
        for item in _build_slices(draw, node["metadata"]["name"], has_gates=has_gates)
    ]
    if draw.random() < 0.2:
        slices += _build_network_slices(draw)
    objects = [*_build_classes(), *slices]
    workloads: list[Body] = []
    for name in "abcd"[: draw.randint(1, 4)]:
        claims, workload = _build_workload(draw, name, has_gates=has_gates)
        objects += claims
        workloads.append(workload)
    # Pods with their own devices, started first.
    templates, old = _build_workload(draw, "old", has_gates=has_gates)
    return World(nodes, [], workloads, [*objects, *templates], [old] if draw.random() < 0.6 else [])


def _build_classes() -> list[Body]:
    classes = [
        _build_class(driver.partition(".")[0], f'device.driver == "{driver}"') for driver in DRIVERS
    ]
    return [*classes, _build_class("any", "")]


def _build_class(name: str, expression: str) -> Body:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return _build_object("DeviceClass", name, {"selectors": selectors} if selectors else {})


def _build_object(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _build_slices(draw: random.Random, node: str, *, has_gates: bool) -> Iterator[Body]:
    for driver in DRIVERS:
        if draw.random() < 0.15:
            continue
        short = driver.partition(".")[0]
        parts = 2 if draw.random() < 0.1 else 1
        for part in range(parts):
            devices = [
                _build_device(draw, f"{short}-{part}-{index}", index, has_gates=has_gates)
                for index in range(draw.randint(1, 4))
            ]
            pool = {"name": node, "generation": 1, "resourceSliceCount": parts}
            spec: Body = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
            yield _build_object("ResourceSlice", f"{node}-{short}-{part}", spec)
    if has_gates and draw.random() < 0.5:
        yield from _build_partitions(node)


def _build_partitions(node: str) -> Iterator[Body]:
    """Yield a pool of partitions with 4 units of shared memory."""
    pool = {"name": f"{node}-parts", "generation": 1, "resourceSliceCount": 2}
    base = {"driver": "gpu.example.com", "nodeName": node, "pool": pool}
    counters = [{"name": "card", "counters": {"memory": {"value": "4"}}}]
    yield _build_object("ResourceSlice", f"{node}-counters", {**base, "sharedCounters": counters})
    devices = [
        {
            "name": f"part-{index}",
            "attributes": {
                "model": {"string": "mig"},
                "index": {"int": index},
                "driverVersion": {"version": "1.0.0"},
            },
            "capacity": {"memory": {"value": "10Gi"}},
            "consumesCounters": [
                {"counterSet": "card", "counters": {"memory": {"value": str(amount)}}}
            ],
        }
        for index, amount in enumerate((4, 2, 2, 1))
    ]
    yield _build_object("ResourceSlice", f"{node}-parts", {**base, "devices": devices})


def _build_network_slices(draw: random.Random) -> list[Body]:
    devices = [_build_device(draw, f"net-{index}", index, has_gates=False) for index in range(2)]
    pool = {"name": "network", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "nic.example.com", "allNodes": True, "pool": pool, "devices": devices}
    return [_build_object("ResourceSlice", "network", spec)]


def _build_device(draw: random.Random, name: str, index: int, *, has_gates: bool) -> Body:
    device: Body = {
        "name": name,
        "attributes": {
            "model": {"string": draw.choice(("a100", "a100", "h100"))},
            "index": {"int": index},
            "numa.example.com/cell": {"int": draw.randint(0, 1)},
            "driverVersion": {"version": draw.choice(("1.0.0", "1.2.3"))},
        },
        "capacity": {"memory": {"value": draw.choice(("16Gi", "40Gi", "80Gi"))}},
    }
    if has_gates and draw.random() < 0.2:
        device["taints"] = [{"key": "health.example.com/bad", "value": "x", "effect": "NoSchedule"}]
    return device


def _build_request(draw: random.Random, name: str, *, has_gates: bool) -> Body:
    if draw.random() < 0.25:
        alternatives = [
            {"name": f"r{rank}", **_build_selection(draw, has_all=False, has_gates=has_gates)}
            for rank in range(2)
        ]
        return {"name": name, "firstAvailable": alternatives}
    selection = _build_selection(draw, has_all=draw.random() < 0.15, has_gates=has_gates)
    if draw.random() < 0.08:
        selection["adminAccess"] = True
    return {"name": name, "exactly": selection}


def _build_selection(draw: random.Random, *, has_all: bool, has_gates: bool) -> Body:
    class_name = draw.choice(("gpu", "gpu", "nic", "any"))
    selection: Body = {"deviceClassName": class_name}
    if class_name == "gpu" and draw.random() < 0.4:
        selection["selectors"] = [{"cel": {"expression": draw.choice(_SELECTORS)}}]
    if has_all:
        selection["allocationMode"] = "All"
    elif draw.random() < 0.3:
        selection["count"] = 2
    if has_gates and draw.random() < 0.3:
        selection["tolerations"] = [{"operator": "Exists"}]
    return selection


def _build_workload(draw: random.Random, name: str, *, has_gates: bool) -> tuple[list[Body], Body]:
    """Return the claims of a workload, and the workload.

    Some workloads have no claims.
    """
    requests = {"cpu": f"{draw.choice((100, 500, 1000))}m", "memory": "64Mi"}
    resources: Body = {"requests": requests}
    spec: Body = {"containers": [{"name": "c", "image": "img:1", "resources": resources}]}
    objects: list[Body] = []
    kind = draw.random()
    if kind < 0.85:
        devices: Body = {
            "requests": [
                _build_request(draw, f"q{index}", has_gates=has_gates)
                for index in range(draw.choice((1, 1, 2)))
            ]
        }
        if draw.random() < 0.2:
            devices["constraints"] = [{"matchAttribute": "numa.example.com/cell"}]
        if kind < 0.7:
            objects.append(
                _build_object(
                    "ResourceClaimTemplate", name, {"spec": {"devices": devices}}, "default"
                )
            )
            reference = {"name": "d", "resourceClaimTemplateName": name}
        else:
            objects.append(_build_object("ResourceClaim", name, {"devices": devices}, "default"))
            reference = {"name": "d", "resourceClaimName": name}
        spec["resourceClaims"] = [reference]
        resources["claims"] = [{"name": "d"}]
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "replicas": draw.randint(1, 3),
        "selector": {"matchLabels": labels},
        "template": template,
    }
    metadata = {"name": name, "namespace": "default", "labels": labels}
    workload = draw.choice(("Deployment", "Deployment", "StatefulSet", "DaemonSet"))
    if workload == "StatefulSet":
        body |= {
            "serviceName": name,
            "podManagementPolicy": draw.choice(("OrderedReady", "Parallel")),
        }
    if workload == "DaemonSet":
        del body["replicas"]
    return objects, {"apiVersion": "apps/v1", "kind": workload, "metadata": metadata, "spec": body}


def run_worlds(
    cluster: LiveCluster, seeds: Iterator[int], version: str = "1.34.4", repetitions: int = 3
) -> Iterator[tuple[int, Result]]:
    """Yield the comparison of each world, on nodes with kubelets of a version."""
    cluster.label_namespace("resource.kubernetes.io/admin-access", "true")
    for seed in seeds:
        world = build_world(seed, has_gates=not version.startswith(("1.34", "1.35")))
        for node in world.nodes:
            node["status"]["nodeInfo"] = {**NODE_INFO, "kubeletVersion": f"v{version}"}
        results: list[tuple[list[Body], dict[str, Any]]] = [
            run_world(cluster, world) for _ in range(repetitions)
        ]
        before = results[0][0]
        # The earlier pods sample their devices in each run; only equal starts can be compared.
        runs = [
            nodes for start, nodes in results if describe_start(start) == describe_start(before)
        ]
        yield seed, compare_plan(before, world.workloads, runs)


def describe_start(objects: Iterable[Body]) -> list[str]:
    """Return the nodes of the pods and the devices of the claims among these objects."""
    nodes = [str(body["spec"].get("nodeName")) for body in objects if body["kind"] == "Pod"]
    allocations = [
        body.get("status", {}).get("allocation")
        for body in objects
        if body["kind"] == "ResourceClaim"
    ]
    return sorted([*nodes, *map(str, allocations)])
