"""Tests of CSI drivers: limits of volumes per node, and free storage.

The storage is that for volumes to provision.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import (
    OF_A,
    add_standard_objects,
    plan_observed,
)
from tests.domains.pods.planning.test_dump_doubts import list_certainties, list_warning_ids
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.planning.harness import RACKS, require_success

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
DRIVER = "disk.example.com"
TOO_MANY = "node(s) exceed max volume count"
NO_STORAGE = "node(s) did not have enough free storage"
NODES = (build_node("a-np-0"), build_node("a-np-1", "4"))


def build_storage_object(kind: str, name: str, **more: Any) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "kube-system"},
        **more,
    }


def build_limit(name: str, count: int) -> Body:
    driver = {"name": DRIVER, "nodeID": name, "topologyKeys": None, "allocatable": {"count": count}}
    return build_storage_object("CSINode", name, spec={"drivers": [driver]})


CLASS = build_storage_object(
    "StorageClass", "disk", provisioner=DRIVER, volumeBindingMode="WaitForFirstConsumer"
)


def build_volume(name: str, claim: str) -> Body:
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": claim},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def build_claim(name: str, volume_name: str = "") -> Body:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": "5Gi"}},
        **({"volumeName": volume_name} if volume_name else {}),
    }
    metadata: Body = {"name": name, "namespace": "default"}
    if volume_name:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    phase = "Bound" if volume_name else "Pending"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def build_attachment(name: str, on: str) -> Body:
    spec = {"attacher": DRIVER, "nodeName": on, "source": {"persistentVolumeName": name}}
    return build_storage_object("VolumeAttachment", f"of-{name}", spec=spec)


def build_pod_volumes(name: str) -> list[Body]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


TEMPLATE = {"metadata": {"name": "data"}, "spec": build_claim("data")["spec"]}


def build_database(replicas: int) -> str:
    more = {"volumeClaimTemplates": [TEMPLATE], "podManagementPolicy": "Parallel"}
    return (
        RACKS
        + build_workers(2)
        + OF_A
        + build_manifest("m", build_deployment("db", replicas, kind="StatefulSet", **more))
    )


def list_places(result: PlanResult) -> dict[str, str]:
    rows = [row for row in result.plan.placements if row.kind == "pod"]
    return {
        row.object: row.target.node if row.target and row.target.node else row.reason
        for row in rows
    }


def test_node_takes_at_most_attachable_volumes_of_its_driver() -> None:
    result = require_success(
        plan_observed(
            build_database(3),
            *add_standard_objects(
                *NODES, CLASS, build_limit("a-np-0", 1), build_limit("a-np-1", 1)
            ),
        )
    )
    found = list_places(result)
    assert sorted(found.values())[1:] == ["a-np-0", "a-np-1"]
    (pending,) = set(found.values()) - {"a-np-0", "a-np-1"}
    assert f"2 {TOO_MANY}" in pending


def test_driver_without_a_limit_accepts_all() -> None:
    other = build_limit("a-np-0", 0)
    other["spec"]["drivers"][0]["name"] = "other.example.com"
    assert set(
        list_places(
            require_success(
                plan_observed(build_database(3), *add_standard_objects(*NODES, CLASS, other))
            )
        ).values()
    ) <= {"a-np-0", "a-np-1"}


@pytest.mark.parametrize("what", ["pod", "attachment", "both"])
def test_used_and_attached_volumes_count_once(what: str) -> None:
    """The node has one free slot: its limit is 2, with one volume in use."""
    there = build_pod("old", "a-np-0", volumes=build_pod_volumes("old"))
    objects = [build_volume("v", "old"), build_claim("old", "v")]
    objects += [there] if what != "attachment" else []
    objects += [build_attachment("v", "a-np-0")] if what != "pod" else []
    limits = (build_limit("a-np-0", 2), build_limit("a-np-1", 0))
    found = list_places(
        require_success(
            plan_observed(
                build_database(2), *add_standard_objects(*NODES, CLASS, *limits, *objects)
            )
        )
    )
    assert sorted(found.values())[1] == "a-np-0"
    assert f"2 {TOO_MANY}" in min(found.values())


def test_attachments_count_on_nodes_with_another_name() -> None:
    """Azure names a node differently from the plan; its provider id has the name of the VM."""
    nodes = (build_node("real", provider_id="x:///vm/a-np-0"), build_node("a-np-1"))
    attached = [build_volume("v", "old"), build_claim("old", "v"), build_attachment("v", "real")]
    limits = (build_limit("real", 2), build_limit("a-np-1", 0))
    found = list_places(
        require_success(
            plan_observed(
                build_database(2), *add_standard_objects(*nodes, CLASS, *limits, *attached)
            )
        )
    )
    assert sorted(found.values())[1] == "a-np-0"
    assert f"2 {TOO_MANY}" in min(found.values())


def test_claim_used_by_another_pod_on_the_node_is_attached() -> None:
    there = build_pod("old", "a-np-0", volumes=build_pod_volumes("shared"))
    body = json.loads(build_deployment("web", 1, cpu="1"))
    body["spec"]["template"]["spec"]["volumes"] = build_pod_volumes("shared")
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", json.dumps(body))
    objects = (
        there,
        build_volume("v", "shared"),
        build_claim("shared", "v"),
        build_limit("a-np-0", 1),
        build_limit("a-np-1", 0),
    )
    result = require_success(plan_observed(text, *add_standard_objects(*NODES, CLASS, *objects)))
    assert list_places(result) == {"web-0": "a-np-0"}
    assert list_certainties(result) == {"web-0": (True, None)}


DRIVER_OBJECT = build_storage_object("CSIDriver", DRIVER, spec={"storageCapacity": True})


def build_capacity(name: str, amount: str, **more: Any) -> Body:
    topology = {"matchLabels": {"kubernetes.io/hostname": name}}
    return build_storage_object(
        "CSIStorageCapacity",
        f"c-{name}",
        storageClassName="disk",
        nodeTopology=topology,
        capacity=amount,
        **more,
    )


def test_volume_is_provisioned_on_node_with_enough_storage() -> None:
    objects = (
        CLASS,
        DRIVER_OBJECT,
        build_capacity("a-np-0", "4Gi"),
        build_capacity("a-np-1", "6Gi"),
    )
    result = require_success(
        plan_observed(build_database(1), *add_standard_objects(*NODES, *objects))
    )
    assert list_places(result) == {"db-0": "a-np-1"}
    assert list_certainties(result) == {"db-0": (True, None)}


def test_no_node_has_enough_storage() -> None:
    small = (
        CLASS,
        DRIVER_OBJECT,
        build_capacity("a-np-0", "4Gi"),
        build_capacity("a-np-1", "9Gi", maximumVolumeSize="1Gi"),
    )
    (reason,) = list_places(
        require_success(plan_observed(build_database(1), *add_standard_objects(*NODES, *small)))
    ).values()
    assert f"2 {NO_STORAGE}" in reason


def test_storage_used_by_earlier_pod_is_unknown() -> None:
    objects = (
        CLASS,
        DRIVER_OBJECT,
        build_capacity("a-np-0", "4Gi"),
        build_capacity("a-np-1", "6Gi"),
    )
    result = require_success(
        plan_observed(build_database(2), *add_standard_objects(*NODES, *objects))
    )
    assert sum(certain for certain, _ in list_certainties(result).values()) <= 1


def test_drivers_with_storage_check_need_capacity_objects() -> None:
    result = require_success(
        plan_observed(build_database(1), *add_standard_objects(*NODES, CLASS, DRIVER_OBJECT))
    )
    assert "storage-not-listed" in list_warning_ids(result)
    assert not list_certainties(result)["db-0"][0]


def test_free_storage_of_other_drivers_is_not_checked() -> None:
    result = require_success(
        plan_observed(
            build_database(1), *add_standard_objects(*NODES, CLASS, build_capacity("a-np-0", "1Gi"))
        )
    )
    assert list_places(result)["db-0"] in ("a-np-0", "a-np-1")
