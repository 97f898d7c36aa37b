"""CSI drivers: limits of attached volumes per node, and free storage for volumes to provision."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import node, pod
from tests.domains.pods.planning.test_cluster_observation import OF_A, seen, whole
from tests.domains.pods.planning.test_dump_doubts import certainties, ids
from tests.domains.pods.planning.test_pods import deployment, manifest, workers
from tests.planning.harness import RACKS, good

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
DRIVER = "disk.example.com"
TOO_MANY = "node(s) exceed max volume count"
NO_STORAGE = "node(s) did not have enough free storage"
NODES = (node("a-np-0"), node("a-np-1", "4"))


def storage(kind: str, name: str, **more: Any) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "kube-system"},
        **more,
    }


def limit(name: str, count: int) -> Body:
    driver = {"name": DRIVER, "nodeID": name, "topologyKeys": None, "allocatable": {"count": count}}
    return storage("CSINode", name, spec={"drivers": [driver]})


CLASS = storage("StorageClass", "disk", provisioner=DRIVER, volumeBindingMode="WaitForFirstConsumer")


def volume(name: str, claim: str) -> Body:
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": claim},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim(name: str, volume_name: str = "") -> Body:
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


def attachment(name: str, on: str) -> Body:
    spec = {"attacher": DRIVER, "nodeName": on, "source": {"persistentVolumeName": name}}
    return storage("VolumeAttachment", f"of-{name}", spec=spec)


def using(name: str) -> list[Body]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


TEMPLATE = {"metadata": {"name": "data"}, "spec": claim("data")["spec"]}


def database(replicas: int) -> str:
    more = {"volumeClaimTemplates": [TEMPLATE], "podManagementPolicy": "Parallel"}
    return RACKS + workers(2) + OF_A + manifest("m", deployment("db", replicas, kind="StatefulSet", **more))


def places(result: PlanResult) -> dict[str, str]:
    rows = [row for row in result.plan.placements if row.kind == "pod"]
    return {row.object: row.target.node if row.target and row.target.node else row.reason for row in rows}


def test_a_node_takes_no_more_volumes_than_its_driver_attaches() -> None:
    result = good(seen(database(3), *whole(*NODES, CLASS, limit("a-np-0", 1), limit("a-np-1", 1))))
    found = places(result)
    assert sorted(found.values())[1:] == ["a-np-0", "a-np-1"]
    (pending,) = set(found.values()) - {"a-np-0", "a-np-1"}
    assert f"2 {TOO_MANY}" in pending


def test_a_driver_without_a_limit_takes_all() -> None:
    other = limit("a-np-0", 0)
    other["spec"]["drivers"][0]["name"] = "other.example.com"
    assert set(places(good(seen(database(3), *whole(*NODES, CLASS, other)))).values()) <= {"a-np-0", "a-np-1"}


@pytest.mark.parametrize("what", ["pod", "attachment", "both"])
def test_volumes_of_pods_and_attached_ones_count_once(what: str) -> None:
    """The node has one free place by its limit of 2, with one volume in use."""
    there = pod("old", "a-np-0", volumes=using("old"))
    objects = [volume("v", "old"), claim("old", "v")]
    objects += [there] if what != "attachment" else []
    objects += [attachment("v", "a-np-0")] if what != "pod" else []
    limits = (limit("a-np-0", 2), limit("a-np-1", 0))
    found = places(good(seen(database(2), *whole(*NODES, CLASS, *limits, *objects))))
    assert sorted(found.values())[1] == "a-np-0"
    assert f"2 {TOO_MANY}" in min(found.values())


def test_a_claim_used_by_another_pod_of_the_node_is_attached_already() -> None:
    there = pod("old", "a-np-0", volumes=using("shared"))
    body = json.loads(deployment("web", 1, cpu="1"))
    body["spec"]["template"]["spec"]["volumes"] = using("shared")
    text = RACKS + workers(2) + OF_A + manifest("m", json.dumps(body))
    objects = (there, volume("v", "shared"), claim("shared", "v"), limit("a-np-0", 1), limit("a-np-1", 0))
    result = good(seen(text, *whole(*NODES, CLASS, *objects)))
    assert places(result) == {"web-0": "a-np-0"}
    assert certainties(result) == {"web-0": (True, None)}


DRIVER_OBJECT = storage("CSIDriver", DRIVER, spec={"storageCapacity": True})


def capacity(name: str, amount: str, **more: Any) -> Body:
    topology = {"matchLabels": {"kubernetes.io/hostname": name}}
    return storage(
        "CSIStorageCapacity", f"c-{name}", storageClassName="disk", nodeTopology=topology, capacity=amount, **more
    )


def test_a_volume_is_provisioned_where_enough_storage_is_free() -> None:
    objects = (CLASS, DRIVER_OBJECT, capacity("a-np-0", "4Gi"), capacity("a-np-1", "6Gi"))
    result = good(seen(database(1), *whole(*NODES, *objects)))
    assert places(result) == {"db-0": "a-np-1"}
    assert certainties(result) == {"db-0": (True, None)}


def test_no_node_has_enough_storage() -> None:
    small = (CLASS, DRIVER_OBJECT, capacity("a-np-0", "4Gi"), capacity("a-np-1", "9Gi", maximumVolumeSize="1Gi"))
    (reason,) = places(good(seen(database(1), *whole(*NODES, *small)))).values()
    assert f"2 {NO_STORAGE}" in reason


def test_storage_used_by_the_pod_before_is_unknown() -> None:
    objects = (CLASS, DRIVER_OBJECT, capacity("a-np-0", "4Gi"), capacity("a-np-1", "6Gi"))
    result = good(seen(database(2), *whole(*NODES, *objects)))
    assert sum(certain for certain, _ in certainties(result).values()) <= 1


def test_drivers_that_check_storage_need_its_objects() -> None:
    result = good(seen(database(1), *whole(*NODES, CLASS, DRIVER_OBJECT)))
    assert "storage-not-listed" in ids(result)
    assert not certainties(result)["db-0"][0]


def test_free_storage_of_other_drivers_is_not_checked() -> None:
    result = good(seen(database(1), *whole(*NODES, CLASS, capacity("a-np-0", "1Gi"))))
    assert places(result)["db-0"] in ("a-np-0", "a-np-1")
