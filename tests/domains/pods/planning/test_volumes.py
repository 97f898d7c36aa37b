"""Volumes in plans: what a claim takes is remembered, and binds its pod from then on."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.state.objects import State
from tests.domains.pods.planning.test_pods import HOSTNAME, deployment, manifest, pods, standing, workers
from tests.planning.harness import RACKS, build_state_after, is_empty, plan, require_success

CLASS = json.dumps(
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
)
TEMPLATE = {
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    },
}


def volume(name: str, node: str) -> str:
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    return json.dumps(body)


def stateful(replicas: int) -> str:
    more = {"volumeClaimTemplates": [TEMPLATE], "podManagementPolicy": "Parallel"}
    return deployment("db", replicas, kind="StatefulSet", **more)


def site(count: int, *volumes: str, replicas: int = 3) -> str:
    return RACKS + workers(count) + manifest("m", CLASS, *volumes, stateful(replicas))


CONFLICT = "2 node(s) didn't match PersistentVolume's node affinity"
VOLUMES = tuple(volume(f"v{at}", f"a-np-{at}") for at in range(3))


def places(state: State) -> dict[str, tuple[str | None, Any]]:
    return {name: (place["node"], place.get("volumes")) for name, place in standing(state).items()}


def without_volumes(state: State) -> State:
    """The state as an earlier version wrote it, which remembered no volumes."""
    (address,) = [each for each in state.instances if each.type == "fleet_hub_manifest"]
    held = state.instances[address]
    assert held.current is not None
    attributes = json.loads(json.dumps(held.current.attributes))
    for of_workload in attributes["workloads"].values():
        for place in of_workload.values():
            place.pop("volumes", None)
    current = replace(held.current, attributes=attributes)
    return replace(state, instances={**state.instances, address: replace(held, current=current)})


def reasons(result: PlanResult) -> set[str]:
    rows = [row for row in result.plan.placements if row.kind == "pod" and row.target is not None]
    return {row.reason for row in rows if row.action != "keep"}


def test_each_pod_has_the_volume_of_its_node_and_the_next_plan_is_empty() -> None:
    text = site(3, *VOLUMES[:2])
    state = build_state_after(require_success(plan(text)))
    where = places(state)
    waiting = [name for name, (node, _) in where.items() if node is None]
    assert len(waiting) == 1
    for name, (node, volumes) in where.items():
        assert volumes == ({f"default/data-{name}": f"v{node[-1]}"} if node else None)
    assert is_empty(require_success(plan(text, state)))
    # A volume more, and the pod that waits for one has it.
    after = require_success(plan(site(3, *VOLUMES), state))
    assert pods(after) == {waiting[0]: ("move", "new")}
    assert places(build_state_after(after))[waiting[0]] == ("a-np-2", {f"default/data-{waiting[0]}": "v2"})


def test_a_pod_waits_for_the_node_of_its_volume_though_others_are_free() -> None:
    text = site(3, *VOLUMES, replicas=2)
    state = build_state_after(require_success(plan(text)))
    fewer = require_success(plan(site(2, *VOLUMES, replicas=2), state))
    (lost,) = pods(fewer)
    assert pods(fewer)[lost] == ("move", "node_removed")
    assert [CONFLICT in reason for reason in reasons(fewer)] == [True]
    meanwhile = build_state_after(fewer)
    assert places(meanwhile)[lost][1] == {f"default/data-{lost}": "v2"}
    assert is_empty(require_success(plan(site(2, *VOLUMES, replicas=2), meanwhile)))
    back = build_state_after(require_success(plan(text, meanwhile)))
    assert places(back) == places(state)


def test_a_state_of_an_earlier_version_changes_nothing_and_says_by_its_nodes_who_has_what() -> None:
    text = site(3, *VOLUMES)
    state = without_volumes(build_state_after(require_success(plan(text))))
    assert is_empty(require_success(plan(text, state)))
    fewer = require_success(plan(site(2, *VOLUMES), state))
    assert [CONFLICT in reason for reason in reasons(fewer)] == [True]


def test_a_daemon_is_made_for_every_node_and_waits_where_its_volume_is_not() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared", "namespace": "default"},
        "spec": {**TEMPLATE["spec"], "volumeName": "v0"},
    }
    mount = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "shared"}}]}
    agent = deployment("agent", 0, kind="DaemonSet", spec=mount)
    text = RACKS + workers(3) + manifest("m", CLASS, VOLUMES[0], json.dumps(claim), agent)
    result = require_success(plan(text))
    assert [node for node, _ in places(build_state_after(result)).values()] == ["a-np-0", None, None]
    others = "3 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    one = "1 node(s) didn't match PersistentVolume's node affinity"
    assert reasons(result) == {"new", f"0/4 nodes are available: {one}, {others}."}
    assert is_empty(require_success(plan(text, build_state_after(result))))


def test_more_volumes_on_a_node_than_is_usual_are_told() -> None:
    def told(claims: int) -> set[str]:
        templates = [{"metadata": {"name": f"d{at}"}, "spec": {"storageClassName": "disks"}} for at in range(claims)]
        disks = CLASS.replace('"local"', '"disks"').replace("kubernetes.io/no-provisioner", "disk.csi.azure.com")
        database = deployment("db", 2, kind="StatefulSet", volumeClaimTemplates=templates)
        result = require_success(plan(RACKS + workers(1) + manifest("m", disks, database)))
        return {diagnostic.id for diagnostic in result.plan.diagnostics}

    assert "unknown-volume-limits" not in told(8)
    assert "unknown-volume-limits" in told(9), "18 claims of two pods on one node"
