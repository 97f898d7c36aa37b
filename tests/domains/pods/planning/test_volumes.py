"""Tests of volumes in plans: the volume of a claim is recorded and binds its pod from then on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.state.objects import State
from tests.domains.pods.planning.test_pods import (
    HOSTNAME,
    build_deployment,
    build_manifest,
    build_workers,
    read_current_pods,
    read_pod_changes,
)
from tests.planning.harness import (
    RACKS,
    build_state_after,
    is_empty,
    plan_without_certainty,
    require_success,
)

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


def build_volume(name: str, node: str) -> str:
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }
    return json.dumps(body)


def build_stateful_set(replicas: int) -> str:
    more = {"volumeClaimTemplates": [TEMPLATE], "podManagementPolicy": "Parallel"}
    return build_deployment("db", replicas, kind="StatefulSet", **more)


def build_site(count: int, *volumes: str, replicas: int = 3) -> str:
    return (
        RACKS
        + build_workers(count)
        + build_manifest("m", CLASS, *volumes, build_stateful_set(replicas))
    )


CONFLICT = "2 node(s) didn't match PersistentVolume's node affinity"
VOLUMES = tuple(build_volume(f"v{at}", f"a-np-{at}") for at in range(3))


def read_pod_places(state: State) -> dict[str, tuple[str | None, Any]]:
    return {
        name: (place["node"], place.get("volumes"))
        for name, place in read_current_pods(state).items()
    }


def remove_recorded_volumes(state: State) -> State:
    """Return the state as written by an earlier version without recorded volumes."""
    (address,) = [each for each in state.instances if each.type == "fleet_hub_manifest"]
    held = state.instances[address]
    assert held.current is not None
    attributes = json.loads(json.dumps(held.current.attributes))
    for of_workload in attributes["workloads"].values():
        for place in of_workload.values():
            place.pop("volumes", None)
    current = replace(held.current, attributes=attributes)
    return replace(state, instances={**state.instances, address: replace(held, current=current)})


def list_reasons(result: PlanResult) -> set[str]:
    rows = [row for row in result.plan.placements if row.kind == "pod" and row.target is not None]
    return {row.reason for row in rows if row.action != "keep"}


def test_each_pod_gets_volume_of_its_node_and_next_plan_is_empty() -> None:
    text = build_site(3, *VOLUMES[:2])
    state = build_state_after(require_success(plan_without_certainty(text)))
    where = read_pod_places(state)
    waiting = [name for name, (node, _) in where.items() if node is None]
    assert len(waiting) == 1
    for name, (node, volumes) in where.items():
        assert volumes == ({f"default/data-{name}": f"v{node[-1]}"} if node else None)
    assert is_empty(require_success(plan_without_certainty(text, state)))
    # With one more volume the pending pod gets it.
    after = require_success(plan_without_certainty(build_site(3, *VOLUMES), state))
    assert read_pod_changes(after) == {waiting[0]: ("move", "new")}
    assert read_pod_places(build_state_after(after))[waiting[0]] == (
        "a-np-2",
        {f"default/data-{waiting[0]}": "v2"},
    )


def test_pod_waits_for_node_of_its_volume_despite_free_nodes() -> None:
    text = build_site(3, *VOLUMES, replicas=2)
    state = build_state_after(require_success(plan_without_certainty(text)))
    fewer = require_success(plan_without_certainty(build_site(2, *VOLUMES, replicas=2), state))
    (lost,) = read_pod_changes(fewer)
    assert read_pod_changes(fewer)[lost] == ("move", "node_removed")
    assert [CONFLICT in reason for reason in list_reasons(fewer)] == [True]
    meanwhile = build_state_after(fewer)
    assert read_pod_places(meanwhile)[lost][1] == {f"default/data-{lost}": "v2"}
    assert is_empty(
        require_success(plan_without_certainty(build_site(2, *VOLUMES, replicas=2), meanwhile))
    )
    back = build_state_after(require_success(plan_without_certainty(text, meanwhile)))
    assert read_pod_places(back) == read_pod_places(state)


def test_state_of_earlier_version_is_unchanged_and_volumes_are_inferred() -> None:
    text = build_site(3, *VOLUMES)
    state = remove_recorded_volumes(
        build_state_after(require_success(plan_without_certainty(text)))
    )
    assert is_empty(require_success(plan_without_certainty(text, state)))
    fewer = require_success(plan_without_certainty(build_site(2, *VOLUMES), state))
    assert [CONFLICT in reason for reason in list_reasons(fewer)] == [True]


def test_daemon_pod_is_pending_on_nodes_without_its_volume() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared", "namespace": "default"},
        "spec": {**TEMPLATE["spec"], "volumeName": "v0"},
    }
    mount = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "shared"}}]}
    agent = build_deployment("agent", 0, kind="DaemonSet", spec=mount)
    text = (
        RACKS + build_workers(3) + build_manifest("m", CLASS, VOLUMES[0], json.dumps(claim), agent)
    )
    result = require_success(plan_without_certainty(text))
    assert [node for node, _ in read_pod_places(build_state_after(result)).values()] == [
        "a-np-0",
        None,
        None,
    ]
    others = "3 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    one = "1 node(s) didn't match PersistentVolume's node affinity"
    assert list_reasons(result) == {"new", f"0/4 nodes are available: {one}, {others}."}
    assert is_empty(require_success(plan_without_certainty(text, build_state_after(result))))


def test_unusual_number_of_volumes_on_node_is_reported() -> None:
    def list_diagnostic_ids(claims: int) -> set[str]:
        templates = [
            {"metadata": {"name": f"d{at}"}, "spec": {"storageClassName": "disks"}}
            for at in range(claims)
        ]
        disks = CLASS.replace('"local"', '"disks"').replace(
            "kubernetes.io/no-provisioner", "disk.csi.azure.com"
        )
        database = build_deployment("db", 2, kind="StatefulSet", volumeClaimTemplates=templates)
        result = require_success(
            plan_without_certainty(RACKS + build_workers(1) + build_manifest("m", disks, database))
        )
        return {diagnostic.id for diagnostic in result.plan.diagnostics}

    assert "unknown-volume-limits" not in list_diagnostic_ids(8)
    assert "unknown-volume-limits" in list_diagnostic_ids(9), "18 claims of two pods on one node"


@pytest.mark.parametrize(
    ("replicas", "modes", "volume", "is_attached", "is_reported"),
    [
        (2, ["ReadWriteOnce"], None, True, True),
        (1, ["ReadWriteOnce"], None, True, False),
        (2, ["ReadWriteMany"], None, True, False),
        (2, ["ReadWriteOnce", "ReadOnlyMany"], None, True, False),
        (
            2,
            ["ReadWriteOnce"],
            {"csi": {"driver": "disk.csi.azure.com", "volumeHandle": "v"}},
            True,
            True,
        ),
        (
            2,
            ["ReadWriteOnce"],
            {"csi": {"driver": "disk.csi.azure.com", "volumeHandle": "v"}},
            False,
            False,
        ),
        (2, ["ReadWriteOnce"], None, False, False),
        (2, ["ReadWriteOnce"], {"nfs": {"server": "s", "path": "/"}}, True, False),
        # The claim names a volume missing in the manifests.
        (2, ["ReadWriteOnce"], {}, True, False),
    ],
)
def test_read_write_once_volume_on_two_nodes_is_reported(
    replicas: int,
    modes: list[str],
    volume: dict[str, Any] | None,
    is_attached: bool,
    is_reported: bool,
) -> None:
    """Example: kube-scheduler runs both replicas, and the second one waits for its volume."""
    spec = {
        "accessModes": modes,
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "disks",
    }
    objects = [
        CLASS.replace('"local"', '"disks"').replace(
            "kubernetes.io/no-provisioner", "disk.csi.azure.com"
        )
    ]
    if volume is not None:
        spec["volumeName"] = "v"
        body = {
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "storageClassName": "disks",
            **volume,
        }
        if volume:
            objects.append(
                json.dumps(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolume",
                        "metadata": {"name": "v"},
                        "spec": body,
                    }
                )
            )
    driver = {"metadata": {"name": "disk.csi.azure.com"}, "spec": {"attachRequired": is_attached}}
    objects.append(json.dumps({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", **driver}))
    metadata = {"name": "shared", "namespace": "default"}
    objects.append(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": spec,
            }
        )
    )
    mount = {
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "shared"}}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    }
    objects.append(build_deployment("web", replicas, spec=mount))
    result = require_success(
        plan_without_certainty(RACKS + build_workers(2) + build_manifest("m", *objects))
    )
    details = [
        item.detail for item in result.plan.diagnostics if item.id == "volume-on-several-nodes"
    ]
    expected = "pods on 2 nodes (a-np-0, a-np-1) mount the ReadWriteOnce claim default/shared"
    assert [expected in detail for detail in details] == [True] * is_reported
    # kube-scheduler does not check it, so kubelet decides whether the pods start.
    certain = {row.scores["certain"] for row in result.plan.placements if row.kind == "pod"}
    assert not is_reported or certain == {False}
