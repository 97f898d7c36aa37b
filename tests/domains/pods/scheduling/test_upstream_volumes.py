"""Cases of volumes that Kubernetes decides in its own tests, told in our words: pods, claims and volumes, and
where the pod can go.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}_test.go and
volumezone/volume_zone_test.go. Left out: capacities of CSI drivers and migration to them (no plan knows), the
score by capacity (off by default), and generic ephemeral claims that are another pod's.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.workloads import Cluster, Node
from tests.domains.pods.importers.test_kubernetes_volumes import HOST, build_object, build_storage_class

NO_MATCH = "node(s) didn't find available persistent volumes to bind"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
OTHER_ZONE = "node(s) had no available volume zone"
# One node; volumes of `there` are reached from it, those of `away` are not.
THERE, AWAY = "node1", "node2"

CLASSES = (
    build_storage_class("wait", "kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"),
    build_storage_class("now", "kubernetes.io/no-provisioner", volumeBindingMode="Immediate"),
    build_storage_class("made", "disk.csi", volumeBindingMode="WaitForFirstConsumer"),
    build_storage_class(
        "made-elsewhere",
        "disk.csi",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": HOST, "values": ["elsewhere"]}]}],
    ),
)


def claim(name: str, of: str = "wait", size: str = "1G", bound: str = "", **status: Any) -> dict[str, Any]:
    """A claim; `bound` is the volume that it has."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": of}
    spec["resources"] = {"requests": {"storage": size}}
    made = build_object("v1", "PersistentVolumeClaim", name, spec=spec, **status)
    if bound:
        spec["volumeName"] = bound
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        made.setdefault("status", {"phase": "Bound"})
    return made


def named(name: str, volume: str) -> dict[str, Any]:
    """A claim that asks for a volume, and does not have it."""
    asks = claim(name, status={"phase": "Pending"})
    asks["spec"]["volumeName"] = volume
    return asks


def selected(name: str, node: str) -> dict[str, Any]:
    """A claim for which a volume is being made, for a pod that has this node."""
    made = claim(name, "made")
    made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node}
    return made


def volume(name: str, on: str = THERE, size: str = "5G", of: str = "wait", **more: Any) -> dict[str, Any]:
    reached = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": of}
    if on:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [reached]}}
    made = build_object("v1", "PersistentVolume", name, spec={**spec, **more.pop("spec", {})})
    made["metadata"]["labels"] = more.pop("labels", {})
    return made


def verdict(claims: list[str], objects: list[dict[str, Any]], node: dict[str, str]) -> str:
    """Where a pod with these claims goes, else why it does not."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    pod = build_object("v1", "Pod", "pod", spec={"containers": [{"name": "c"}], "volumes": volumes})
    text = yaml.safe_dump_all([pod, *CLASSES, *objects], sort_keys=False)
    manifests = parse_manifests("m.yaml", text).manifests
    reading, offer = collect_workloads(manifests), collect_cluster_storage(manifests)
    here = Node(THERE, {HOST: THERE, **node}, cpu=4000, memory=8 << 30)
    cluster = Cluster("k", (here,), volumes=offer.volumes, claims=offer.claims, invalid_claims=offer.invalid_claims)
    (outcome,) = predict(cluster, (), reading.workloads).outcomes
    return outcome.node or outcome.reason.removeprefix("0/1 nodes are available: ").removesuffix(".")


LOST = {"status": {"phase": "Lost"}}
CASES: list[tuple[list[str], list[dict[str, Any]], str]] = [
    ([], [], THERE),
    (["a"], [claim("a", bound="v"), volume("v")], THERE),
    (["a"], [], 'persistentvolumeclaim "a" not found'),
    (["a", "b"], [claim("a", bound="v"), volume("v")], 'persistentvolumeclaim "b" not found'),
    (["a"], [claim("a", "now")], UNBOUND),
    (["a"], [claim("a")], f"1 {NO_MATCH}"),
    # The volume is gone: told by the plugin of zones, which looks before any node is looked at.
    (["a"], [claim("a", bound="v")], 'persistentvolume "v" not found'),
    (["a"], [claim("a", bound="v", **LOST)], 'persistentvolumeclaim "a" bound to non-existent persistentvolume "v"'),
    (["a"], [claim("a", bound="v"), volume("v", AWAY)], f"1 {ELSEWHERE}"),
    # Asked for and not there yet.
    (["a"], [named("a", "v"), volume("v", spec={"claimRef": {"namespace": "shop", "name": "b"}})], UNBOUND),
    (
        ["u", "a"],
        [
            claim("u"),
            named("a", "v"),
            volume("v", spec={"claimRef": {"namespace": "shop", "name": "b"}}),
            volume("w", size="10G"),
        ],
        UNBOUND,
    ),
    # The smallest that fits on the node.
    (["a"], [claim("a"), volume("x", AWAY, "1G"), volume("v"), volume("w", size="10G")], THERE),
    (["a"], [claim("a"), volume("x", AWAY, "1G")], f"1 {NO_MATCH}"),
    (["a", "b"], [claim("a"), claim("b", size="5G"), volume("v"), volume("w", size="10G")], THERE),
    (["b", "a"], [claim("a"), claim("b", size="5G"), volume("v", size="1G"), volume("w")], THERE),
    (["a", "b"], [claim("a"), claim("b", size="5G"), volume("v")], f"1 {NO_MATCH}"),
    (["a", "b"], [claim("a"), claim("b", bound="w"), volume("v"), volume("w", size="1G")], THERE),
    (["a", "b"], [claim("a"), claim("b", bound="w"), volume("x", AWAY, "1G"), volume("w", size="1G")], f"1 {NO_MATCH}"),
    (["a", "b"], [claim("a"), claim("b", bound="w"), volume("w", AWAY)], f"1 {NO_MATCH}, 1 {ELSEWHERE}"),
    # Classes that bind at once.
    (["a"], [claim("a", "now", bound="v"), volume("v", of="now")], THERE),
    (["a"], [claim("a", "now", bound="v"), volume("v", AWAY, of="now")], f"1 {ELSEWHERE}"),
    (["a", "b"], [claim("a", "now"), claim("b", bound="v"), volume("v", size="1G")], UNBOUND),
    (["a", "b"], [claim("a", "now"), claim("b")], UNBOUND),
    # Classes that make volumes.
    (["a"], [claim("a", "made")], THERE),
    (["a", "b"], [claim("a"), claim("b", "made"), volume("v")], THERE),
    (["a", "b"], [claim("a", bound="v"), claim("b", "made"), volume("v")], THERE),
    (["a", "b"], [claim("a", "now", bound="v"), claim("b", "made"), volume("v", of="now")], THERE),
    (["a"], [claim("a", "made-elsewhere")], f"1 {NO_MATCH}"),
    # One that is being made goes to the node that was chosen for it.
    (["a", "b"], [claim("a", bound="v"), selected("b", THERE), volume("v")], THERE),
    (["a", "b"], [claim("a", bound="v"), selected("b", AWAY), volume("v")], f"1 {NO_MATCH}"),
]


@pytest.mark.parametrize(("claims", "objects", "expected"), CASES)
def test_volume_binding(claims: list[str], objects: list[dict[str, Any]], expected: str) -> None:
    assert verdict(claims, objects, {}) == expected


GA, BETA = "topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/"


@pytest.mark.parametrize(
    ("of_volume", "of_node", "reached"),
    [
        # What is a zone, and what a region, matches by the new label and by the old one.
        ({f"{BETA}zone": "a"}, {}, True),
        ({f"{BETA}zone": "a"}, {f"{BETA}zone": "a", "uselessLabel": "none"}, True),
        ({f"{BETA}region": "w", "uselessLabel": "none"}, {f"{BETA}region": "w"}, True),
        ({f"{BETA}region": "w"}, {f"{BETA}region": "no"}, False),
        ({f"{BETA}zone": "a"}, {f"{BETA}zone": "no"}, False),
        ({f"{GA}zone": "a"}, {f"{GA}zone": "a"}, True),
        ({f"{GA}region": "w", "uselessLabel": "none"}, {f"{GA}region": "w"}, True),
        ({f"{GA}region": "w"}, {f"{GA}region": "no"}, False),
        ({f"{GA}zone": "a"}, {f"{GA}zone": "no"}, False),
        # A volume with both asks for both.
        ({f"{GA}zone": "a", f"{GA}region": "w"}, {f"{GA}zone": "a"}, False),
        # Labels of volumes are looked up on nodes as they are, then by the name that has replaced them.
        ({f"{GA}zone": "a"}, {f"{BETA}zone": "a"}, False),
        ({f"{BETA}zone": "a"}, {f"{GA}zone": "a"}, True),
        ({f"{BETA}zone": "a"}, {f"{GA}zone": "b"}, False),
        # Volumes of several zones.
        ({f"{BETA}zone": "c__a"}, {f"{BETA}zone": "a"}, True),
        ({f"{BETA}zone": "b"}, {f"{BETA}zone": "a"}, False),
        ({f"{GA}zone": "c__a"}, {f"{GA}zone": "a"}, True),
        ({f"{GA}zone": "c__a"}, {f"{GA}zone": "b"}, False),
    ],
)
def test_zones_of_volumes(of_volume: dict[str, str], of_node: dict[str, str], reached: bool) -> None:
    objects = [claim("a", bound="v"), volume("v", "", labels=of_volume)]
    assert verdict(["a"], objects, of_node) == (THERE if reached else f"1 {OTHER_ZONE}")


def test_a_claim_without_a_volume_has_no_zone() -> None:
    """A class that waits is passed over, one that does not leaves the pod Pending."""
    assert verdict(["a"], [claim("a", "made")], {f"{GA}zone": "a"}) == THERE
    assert verdict(["a"], [claim("a", "now")], {f"{GA}zone": "a"}) == UNBOUND
