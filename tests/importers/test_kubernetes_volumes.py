"""Where volumes let pods go, by kubernetes.io/docs/concepts/storage (volumes, classes, access modes)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nexusform.importers.kubernetes_manifests import read_manifests
from nexusform.importers.kubernetes_workloads import WorkloadReading, workloads_of
from nexusform.scheduling.pods.scheduler import predict
from nexusform.scheduling.pods.workloads import Cluster, Node

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODES = tuple(Node(f"n{at}", {HOST: f"n{at}", ZONE: f"z{at}"}, cpu=4000, memory=8 << 30) for at in (1, 2, 3))
CONFLICT = "0/3 nodes are available: 3 node(s) had volume node affinity conflict."
NONE_LEFT = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."


def thing(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    namespace = {} if kind in ("PersistentVolume", "StorageClass") else {"namespace": "shop"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **namespace}, **more}


def web(replicas: int = 1, claim: str = "data") -> dict[str, Any]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "volumes": volumes},
    }
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return thing("apps/v1", "Deployment", "web", spec=spec)


def claim(name: str = "data", mode: str = "ReadWriteOnce", **spec: Any) -> dict[str, Any]:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "5Gi"}}, **spec}
    return thing("v1", "PersistentVolumeClaim", name, spec=spec)


def volume(name: str, node: str = "", size: str = "10Gi", **spec: Any) -> dict[str, Any]:
    on = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    near = {"nodeAffinity": {"required": {"nodeSelectorTerms": [on]}}} if node else {}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **near, **spec}
    return thing("v1", "PersistentVolume", name, spec=spec)


def storage_class(name: str, provisioner: str = "disk.csi", **more: Any) -> dict[str, Any]:
    return thing("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, **more)


def read(*objects: dict[str, Any]) -> WorkloadReading:
    return workloads_of(read_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests)


def places(*objects: dict[str, Any]) -> list[str]:
    reading = read(*objects)
    assert reading.findings == ()
    outcomes = predict(Cluster("k", NODES), (), reading.workloads).outcomes
    return [outcome.node or outcome.reason for outcome in outcomes]


WAIT = {"volumeBindingMode": "WaitForFirstConsumer"}
LOCAL = storage_class("local", "kubernetes.io/no-provisioner", **WAIT)
IN_Z3 = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z3"]}]}]}


@pytest.mark.parametrize(
    ("objects", "place"),
    [
        # A claim that has its volume, by its own word or by the volume's.
        ([claim(volumeName="pv"), volume("pv", "n2")], "n2"),
        ([claim(volumeName="pv"), volume("pv", "elsewhere")], CONFLICT),
        ([claim(), volume("pv", "n3", claimRef={"namespace": "shop", "name": "data"})], "n3"),
        # Local volumes: one that is large enough and free.
        ([claim(storageClassName="local"), LOCAL, volume("pv", "n2", storageClassName="local")], "n2"),
        (
            [
                claim(storageClassName="local"),
                LOCAL,
                volume("small", "n1", "1Gi", storageClassName="local"),
                volume("pv", "n3", storageClassName="local"),
            ],
            "n3",
        ),
        ([claim(storageClassName="local"), LOCAL], NONE_LEFT),
        # Volumes that are made: where the class allows it.
        ([claim(storageClassName="disk"), storage_class("disk", **WAIT, **IN_Z3)], "n3"),
    ],
)
def test_a_pod_goes_where_its_volume_is_or_can_be(objects: list[dict[str, Any]], place: str) -> None:
    assert places(web(), *objects) == [place]


def test_a_volume_with_a_zone_is_reached_from_there() -> None:
    zonal = volume("pv")
    zonal["metadata"]["labels"] = {ZONE: "z2"}
    assert places(web(), claim(volumeName="pv"), zonal) == ["n2"]


def test_a_stateful_set_takes_the_volumes_that_wait_for_its_claims() -> None:
    stateful = {**web(2), "kind": "StatefulSet"}
    stateful["spec"]["template"]["spec"].pop("volumes")
    stateful["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": claim(storageClassName="local")["spec"]}
    ]
    waiting = [
        volume(
            f"pv{at}",
            "n2",
            storageClassName="local",
            claimRef={"namespace": "shop", "name": f"data-web-{at}"},
        )
        for at in (0, 1)
    ]
    assert places(stateful, LOCAL, *waiting) == ["n2", "n2"]


def test_a_claim_for_one_pod_leaves_the_others_pending() -> None:
    wait = storage_class("disk", **WAIT)
    one = claim(mode="ReadWriteOncePod", storageClassName="disk")
    first, second = places(web(2), one, wait)
    assert first in {node.name for node in NODES}
    assert "same name and ReadWriteOncePod access mode" in second
    assert all(place in {"n1", "n2", "n3"} for place in places(web(2), claim(storageClassName="disk"), wait))


@pytest.mark.parametrize(
    ("objects", "what"),
    [
        ([], 'names the claim "data", which no manifest here defines'),
        ([claim(volumeName="pv")], 'leads to the volume "pv", which no manifest here defines'),
        ([claim(storageClassName="fast")], 'of the StorageClass "fast", which no manifest here defines'),
        ([claim()], "of the default StorageClass, which no manifest here defines"),
        ([claim(storageClassName="now"), storage_class("now")], "is made before its pod is scheduled"),
    ],
)
def test_what_is_not_known_is_said(objects: list[dict[str, Any]], what: str) -> None:
    (finding,) = read(web(), *objects).findings
    assert (finding.id, finding.severity.value) == ("volumes-are-not-known", "warning")
    assert what in finding.detail
