"""Upstream test cases of volumes, in short forms.

A case has pods, claims, volumes, and the feasible nodes of the pod.

Source: kubernetes v1.34.4,
pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}_test.go and
volumezone/volume_zone_test.go. Left out: capacities of CSI drivers and migration to them (unknown
to plans), the score by capacity (off by default), and generic ephemeral claims of another pod.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.cluster_records import Cluster, Node
from nexusform.domains.pods.scheduling.pod_prediction import predict
from tests.domains.pods.importers.test_kubernetes_volumes import (
    HOST,
    build_object,
    build_storage_class,
)

NO_MATCH = "node(s) didn't find available persistent volumes to bind"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
OTHER_ZONE = "node(s) had no available volume zone"
# One node; it has access to volumes on `there` but not to those on `away`.
THERE = "node1"
AWAY = "node2"

CLASSES = (
    build_storage_class(
        "wait", "kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    ),
    build_storage_class("now", "kubernetes.io/no-provisioner", volumeBindingMode="Immediate"),
    build_storage_class("made", "disk.csi", volumeBindingMode="WaitForFirstConsumer"),
    build_storage_class(
        "made-elsewhere",
        "disk.csi",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": HOST, "values": ["elsewhere"]}]}],
    ),
)


def build_claim(
    name: str, of: str = "wait", size: str = "1G", bound: str = "", **status: Any
) -> dict[str, Any]:
    """Return a claim; `bound` is the name of its volume."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": of}
    spec["resources"] = {"requests": {"storage": size}}
    made = build_object("v1", "PersistentVolumeClaim", name, spec=spec, **status)
    if bound:
        spec["volumeName"] = bound
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        made.setdefault("status", {"phase": "Bound"})
    return made


def build_unbound_claim(name: str, volume: str) -> dict[str, Any]:
    """Return a pending claim for a named volume."""
    asks = build_claim(name, status={"phase": "Pending"})
    asks["spec"]["volumeName"] = volume
    return asks


def build_provisioning_claim(name: str, node: str) -> dict[str, Any]:
    """Return a claim with provisioning in progress, for a pod with this selected node."""
    made = build_claim(name, "made")
    made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node}
    return made


def build_volume(
    name: str, on: str = THERE, size: str = "5G", of: str = "wait", **more: Any
) -> dict[str, Any]:
    reached = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": of}
    if on:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [reached]}}
    made = build_object("v1", "PersistentVolume", name, spec={**spec, **more.pop("spec", {})})
    made["metadata"]["labels"] = more.pop("labels", {})
    return made


def predict_verdict(claims: list[str], objects: list[dict[str, Any]], node: dict[str, str]) -> str:
    """Return the node of a pod with these claims, or the reason of its rejection."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    pod = build_object("v1", "Pod", "pod", spec={"containers": [{"name": "c"}], "volumes": volumes})
    text = yaml.safe_dump_all([pod, *CLASSES, *objects], sort_keys=False)
    manifests = parse_manifests("m.yaml", text).manifests
    reading = collect_workloads(manifests)
    offer = collect_cluster_storage(manifests)
    here = Node(THERE, {HOST: THERE, **node}, cpu=4000, memory=8 << 30)
    cluster = Cluster(
        "k",
        (here,),
        volumes=offer.volumes,
        claims=offer.claims,
        invalid_claims=offer.invalid_claims,
    )
    (outcome,) = predict(cluster, (), reading.workloads).outcomes
    return outcome.node or outcome.reason.removeprefix("0/1 nodes are available: ").removesuffix(
        "."
    )


LOST = {"status": {"phase": "Lost"}}
CASES: list[tuple[list[str], list[dict[str, Any]], str]] = [
    ([], [], THERE),
    (["a"], [build_claim("a", bound="v"), build_volume("v")], THERE),
    (["a"], [], 'persistentvolumeclaim "a" not found'),
    (
        ["a", "b"],
        [build_claim("a", bound="v"), build_volume("v")],
        'persistentvolumeclaim "b" not found',
    ),
    (["a"], [build_claim("a", "now")], UNBOUND),
    (["a"], [build_claim("a")], f"1 {NO_MATCH}"),
    # The volume is missing: reported by the zone plugin in PreFilter, before any node is checked.
    (["a"], [build_claim("a", bound="v")], 'persistentvolume "v" not found'),
    (
        ["a"],
        [build_claim("a", bound="v", **LOST)],
        'persistentvolumeclaim "a" bound to non-existent persistentvolume "v"',
    ),
    (["a"], [build_claim("a", bound="v"), build_volume("v", AWAY)], f"1 {ELSEWHERE}"),
    # Requested but not created yet.
    (
        ["a"],
        [
            build_unbound_claim("a", "v"),
            build_volume("v", spec={"claimRef": {"namespace": "shop", "name": "b"}}),
        ],
        UNBOUND,
    ),
    (
        ["u", "a"],
        [
            build_claim("u"),
            build_unbound_claim("a", "v"),
            build_volume("v", spec={"claimRef": {"namespace": "shop", "name": "b"}}),
            build_volume("w", size="10G"),
        ],
        UNBOUND,
    ),
    # The smallest volume with sufficient capacity on the node.
    (
        ["a"],
        [
            build_claim("a"),
            build_volume("x", AWAY, "1G"),
            build_volume("v"),
            build_volume("w", size="10G"),
        ],
        THERE,
    ),
    (["a"], [build_claim("a"), build_volume("x", AWAY, "1G")], f"1 {NO_MATCH}"),
    (
        ["a", "b"],
        [
            build_claim("a"),
            build_claim("b", size="5G"),
            build_volume("v"),
            build_volume("w", size="10G"),
        ],
        THERE,
    ),
    (
        ["b", "a"],
        [
            build_claim("a"),
            build_claim("b", size="5G"),
            build_volume("v", size="1G"),
            build_volume("w"),
        ],
        THERE,
    ),
    (
        ["a", "b"],
        [build_claim("a"), build_claim("b", size="5G"), build_volume("v")],
        f"1 {NO_MATCH}",
    ),
    (
        ["a", "b"],
        [
            build_claim("a"),
            build_claim("b", bound="w"),
            build_volume("v"),
            build_volume("w", size="1G"),
        ],
        THERE,
    ),
    (
        ["a", "b"],
        [
            build_claim("a"),
            build_claim("b", bound="w"),
            build_volume("x", AWAY, "1G"),
            build_volume("w", size="1G"),
        ],
        f"1 {NO_MATCH}",
    ),
    (
        ["a", "b"],
        [build_claim("a"), build_claim("b", bound="w"), build_volume("w", AWAY)],
        f"1 {NO_MATCH}, 1 {ELSEWHERE}",
    ),
    # Classes with immediate binding.
    (["a"], [build_claim("a", "now", bound="v"), build_volume("v", of="now")], THERE),
    (
        ["a"],
        [build_claim("a", "now", bound="v"), build_volume("v", AWAY, of="now")],
        f"1 {ELSEWHERE}",
    ),
    (
        ["a", "b"],
        [build_claim("a", "now"), build_claim("b", bound="v"), build_volume("v", size="1G")],
        UNBOUND,
    ),
    (["a", "b"], [build_claim("a", "now"), build_claim("b")], UNBOUND),
    # Classes with dynamic provisioning.
    (["a"], [build_claim("a", "made")], THERE),
    (["a", "b"], [build_claim("a"), build_claim("b", "made"), build_volume("v")], THERE),
    (["a", "b"], [build_claim("a", bound="v"), build_claim("b", "made"), build_volume("v")], THERE),
    (
        ["a", "b"],
        [build_claim("a", "now", bound="v"), build_claim("b", "made"), build_volume("v", of="now")],
        THERE,
    ),
    (["a"], [build_claim("a", "made-elsewhere")], f"1 {NO_MATCH}"),
    # Provisioning in progress binds the pod to the selected node.
    (
        ["a", "b"],
        [build_claim("a", bound="v"), build_provisioning_claim("b", THERE), build_volume("v")],
        THERE,
    ),
    (
        ["a", "b"],
        [build_claim("a", bound="v"), build_provisioning_claim("b", AWAY), build_volume("v")],
        f"1 {NO_MATCH}",
    ),
]


@pytest.mark.parametrize(("claims", "objects", "expected"), CASES)
def test_volume_binding(claims: list[str], objects: list[dict[str, Any]], expected: str) -> None:
    assert predict_verdict(claims, objects, {}) == expected


GA = "topology.kubernetes.io/"
BETA = "failure-domain.beta.kubernetes.io/"


@pytest.mark.parametrize(
    ("of_volume", "of_node", "reached"),
    [
        # Zones and regions match by the new label and by the old one.
        ({f"{BETA}zone": "a"}, {}, True),
        ({f"{BETA}zone": "a"}, {f"{BETA}zone": "a", "uselessLabel": "none"}, True),
        ({f"{BETA}region": "w", "uselessLabel": "none"}, {f"{BETA}region": "w"}, True),
        ({f"{BETA}region": "w"}, {f"{BETA}region": "no"}, False),
        ({f"{BETA}zone": "a"}, {f"{BETA}zone": "no"}, False),
        ({f"{GA}zone": "a"}, {f"{GA}zone": "a"}, True),
        ({f"{GA}region": "w", "uselessLabel": "none"}, {f"{GA}region": "w"}, True),
        ({f"{GA}region": "w"}, {f"{GA}region": "no"}, False),
        ({f"{GA}zone": "a"}, {f"{GA}zone": "no"}, False),
        # A volume with both labels requires both.
        ({f"{GA}zone": "a", f"{GA}region": "w"}, {f"{GA}zone": "a"}, False),
        # Labels of volumes are looked up on nodes first as they are, then by their successor.
        ({f"{GA}zone": "a"}, {f"{BETA}zone": "a"}, False),
        ({f"{BETA}zone": "a"}, {f"{GA}zone": "a"}, True),
        ({f"{BETA}zone": "a"}, {f"{GA}zone": "b"}, False),
        # Volumes in several zones.
        ({f"{BETA}zone": "c__a"}, {f"{BETA}zone": "a"}, True),
        ({f"{BETA}zone": "b"}, {f"{BETA}zone": "a"}, False),
        ({f"{GA}zone": "c__a"}, {f"{GA}zone": "a"}, True),
        ({f"{GA}zone": "c__a"}, {f"{GA}zone": "b"}, False),
    ],
)
def test_zones_of_volumes(
    of_volume: dict[str, str], of_node: dict[str, str], reached: bool
) -> None:
    objects = [build_claim("a", bound="v"), build_volume("v", "", labels=of_volume)]
    assert predict_verdict(["a"], objects, of_node) == (THERE if reached else f"1 {OTHER_ZONE}")


def test_claim_without_volume_has_no_zone() -> None:
    """A class with WaitForFirstConsumer is skipped; an immediate class leaves the pod Pending."""
    assert predict_verdict(["a"], [build_claim("a", "made")], {f"{GA}zone": "a"}) == THERE
    assert predict_verdict(["a"], [build_claim("a", "now")], {f"{GA}zone": "a"}) == UNBOUND
