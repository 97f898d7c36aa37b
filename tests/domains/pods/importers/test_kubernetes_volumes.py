"""Tests of volumes and pod placement, by kubernetes.io/docs/concepts/storage.

They cover volumes, classes and access modes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import ParsedWorkloads, collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.cluster_records import (
    Claim,
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    Volume,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodsPrediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.rules.volume_binding import find_rejection
from nexusform.domains.pods.scheduling.volume_binder import VolumeBinder
from nexusform.kubernetes.matching import NodeSelectorTerm, Requirement, build_label_selector
from tests.domains.pods.scheduling.outcomes import list_pending_pods

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NODES = tuple(
    Node(f"n{at}", {HOST: f"n{at}", ZONE: f"z{at}"}, cpu=4000, memory=8 << 30) for at in (1, 2, 3)
)
CONFLICT = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."
NONE_LEFT = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."


def build_object(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    namespace = {} if kind in ("PersistentVolume", "StorageClass") else {"namespace": "shop"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **namespace}, **more}


def build_deployment(replicas: int = 1, claim: str = "data") -> dict[str, Any]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "volumes": volumes},
    }
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return build_object("apps/v1", "Deployment", "web", spec=spec)


def build_claim(name: str = "data", mode: str = "ReadWriteOnce", **spec: Any) -> dict[str, Any]:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "5Gi"}}, **spec}
    return build_object("v1", "PersistentVolumeClaim", name, spec=spec)


def build_volume(name: str, node: str = "", size: str = "10Gi", **spec: Any) -> dict[str, Any]:
    on = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    near = {"nodeAffinity": {"required": {"nodeSelectorTerms": [on]}}} if node else {}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **near, **spec}
    return build_object("v1", "PersistentVolume", name, spec=spec)


def build_storage_class(name: str, provisioner: str = "disk.csi", **more: Any) -> dict[str, Any]:
    return build_object("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, **more)


def parse_workloads(*objects: dict[str, Any]) -> ParsedWorkloads:
    return collect_workloads(
        parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    )


def predict_places(*objects: dict[str, Any]) -> list[str]:
    outcomes = predict_objects(*objects).outcomes
    return [outcome.node or outcome.reason for outcome in outcomes]


def predict_objects(*objects: dict[str, Any], nodes: tuple[Node, ...] = NODES) -> PodsPrediction:
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    reading = collect_workloads(manifests)
    offer = collect_cluster_storage(manifests)
    assert reading.findings == ()
    cluster = Cluster("k", nodes, volumes=offer.volumes, claims=offer.claims)
    return predict(cluster, (), reading.workloads)


WAIT = {"volumeBindingMode": "WaitForFirstConsumer"}
LOCAL = build_storage_class("local", "kubernetes.io/no-provisioner", **WAIT)
IN_Z3 = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z3"]}]}]}


@pytest.mark.parametrize(
    ("objects", "place"),
    [
        # A claim bound to its volume, by a field of the claim or of the volume.
        ([build_claim(volumeName="pv"), build_volume("pv", "n2")], "n2"),
        ([build_claim(volumeName="pv"), build_volume("pv", "elsewhere")], CONFLICT),
        (
            [
                build_claim(),
                build_volume("pv", "n3", claimRef={"namespace": "shop", "name": "data"}),
            ],
            "n3",
        ),
        # Local volumes: a free one of sufficient size.
        (
            [
                build_claim(storageClassName="local"),
                LOCAL,
                build_volume("pv", "n2", storageClassName="local"),
            ],
            "n2",
        ),
        (
            [
                build_claim(storageClassName="local"),
                LOCAL,
                build_volume("small", "n1", "1Gi", storageClassName="local"),
                build_volume("pv", "n3", storageClassName="local"),
            ],
            "n3",
        ),
        ([build_claim(storageClassName="local"), LOCAL], NONE_LEFT),
        # Dynamically provisioned volumes: the nodes allowed by the class.
        (
            [build_claim(storageClassName="disk"), build_storage_class("disk", **WAIT, **IN_Z3)],
            "n3",
        ),
    ],
)
def test_pod_is_placed_at_its_actual_or_possible_volume(
    objects: list[dict[str, Any]], place: str
) -> None:
    assert predict_places(build_deployment(), *objects) == [place]


def test_volume_with_a_zone_is_reachable_from_that_zone() -> None:
    zonal = build_volume("pv")
    zonal["metadata"]["labels"] = {ZONE: "z2"}
    assert predict_places(build_deployment(), build_claim(volumeName="pv"), zonal) == ["n2"]


def test_stateful_set_uses_volumes_reserved_for_its_claims() -> None:
    stateful = {**build_deployment(2), "kind": "StatefulSet"}
    stateful["spec"]["template"]["spec"].pop("volumes")
    stateful["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": build_claim(storageClassName="local")["spec"]}
    ]
    waiting = [
        build_volume(
            f"pv{at}",
            "n2",
            storageClassName="local",
            claimRef={"namespace": "shop", "name": f"data-web-{at}"},
        )
        for at in (0, 1)
    ]
    assert predict_places(stateful, LOCAL, *waiting) == ["n2", "n2"]


def test_claim_for_one_pod_leaves_others_pending() -> None:
    wait = build_storage_class("disk", **WAIT)
    one = build_claim(mode="ReadWriteOncePod", storageClassName="disk")
    first, second = predict_places(build_deployment(2), one, wait)
    assert first in {node.name for node in NODES}
    assert "with ReadWriteOncePod access mode already in-use" in second
    assert all(
        place in {"n1", "n2", "n3"}
        for place in predict_places(build_deployment(2), build_claim(storageClassName="disk"), wait)
    )


@pytest.mark.parametrize(
    ("objects", "what"),
    [
        ([], 'names the claim "data", but no manifest defines it'),
        ([build_claim(volumeName="pv")], 'is bound to the volume "pv", but no manifest defines it'),
        (
            [build_claim(storageClassName="fast")],
            'of the StorageClass "fast", but no manifest defines it',
        ),
        ([build_claim()], "of the default StorageClass, but no manifest defines it"),
        (
            [build_claim(storageClassName="now"), build_storage_class("now")],
            "created before its pod is scheduled",
        ),
    ],
)
def test_unknown_volumes_are_reported(objects: list[dict[str, Any]], what: str) -> None:
    (finding,) = parse_workloads(build_deployment(), *objects).findings
    assert (finding.id, finding.severity.value) == ("unknown-volumes", "warning")
    assert what in finding.detail


def observe(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a claim as kubectl lists it before it is bound."""
    return {**manifest, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("claim", "what"),
    [
        (
            observe(build_claim(storageClassName="gone")),
            'of the StorageClass "gone", but no manifest defines it',
        ),
        (observe(build_claim()), "of the default StorageClass, but no manifest defines it"),
    ],
)
def test_claim_of_a_missing_class_leaves_its_pods_pending(claim: dict[str, Any], what: str) -> None:
    """Nothing provisions a volume without the class.

    The scheduler rejects an unbound claim that does not wait.
    """
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all([build_deployment(), claim])).manifests
    reading = collect_workloads(manifests, has_all_classes=True)
    (finding,) = reading.findings
    assert finding.detail.endswith("; its pods stay Pending.")
    assert what in finding.detail
    outcomes = predict(Cluster("k", NODES), (), reading.workloads).outcomes
    assert [outcome.reason for outcome in outcomes] == [UNBOUND]
    # Without a list of the classes, the class may exist.
    reading = collect_workloads(manifests)
    assert all(
        outcome.node for outcome in predict(Cluster("k", NODES), (), reading.workloads).outcomes
    )


def test_claim_of_a_missing_class_is_bound_to_a_free_volume_at_once() -> None:
    objects = [
        build_claim(storageClassName="gone"),
        build_volume("a", "n9", storageClassName="gone"),
    ]
    manifests = parse_manifests(
        "m.yaml", yaml.safe_dump_all([build_deployment(), *objects])
    ).manifests
    workloads = collect_workloads(manifests, has_all_classes=True).workloads
    volumes = collect_cluster_storage(manifests, has_all_classes=True).volumes
    (outcome,) = predict(Cluster("k", NODES, volumes=volumes), (), workloads).outcomes
    assert outcome.reason == CONFLICT


# --- selection of a volume for a claim ------------------------------------------------------------

UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
STATIC = {"storageClassName": ""}
OF_LOCAL = {"storageClassName": "local"}


def build_stateful_set(replicas: int, **spec: Any) -> dict[str, Any]:
    """Return a StatefulSet with a claim per pod."""
    made = {**build_deployment(replicas), "kind": "StatefulSet"}
    made["spec"]["template"]["spec"].pop("volumes")
    made["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": build_claim(**spec)["spec"]}
    ]
    return made


def set_labels(manifest: dict[str, Any], **labels: str) -> dict[str, Any]:
    manifest["metadata"]["labels"] = labels
    return manifest


@pytest.mark.parametrize(
    ("objects", "place"),
    [
        # Immediate binding takes the smallest fitting volume, regardless of the pod's other needs.
        (
            [build_claim(**STATIC), build_volume("big", "n2", "50Gi"), build_volume("small", "n1")],
            "n1",
        ),
        (
            [
                build_claim(**STATIC),
                build_volume("a", "elsewhere"),
                build_volume("b", "n1", "50Gi"),
            ],
            CONFLICT,
        ),
        # Volumes with the fewest access modes are taken first.
        (
            [
                build_claim(**STATIC),
                build_volume("a", "n1", accessModes=["ReadWriteOnce", "ReadWriteMany"]),
                build_volume("b", "n2", "50Gi"),
            ],
            "n2",
        ),
        ([build_claim(**STATIC), build_volume("a", "n1", accessModes=["ReadOnlyMany"])], UNBOUND),
        ([build_claim(**STATIC), build_volume("a", "n1", volumeMode="Block")], UNBOUND),
        (
            [
                build_claim(volumeMode="Block", **STATIC),
                build_volume("a", "n1", volumeMode="Block"),
            ],
            "n1",
        ),
        (
            [
                build_claim(selector={"matchLabels": {"tier": "fast"}}, **STATIC),
                build_volume("a", "n1"),
                set_labels(build_volume("b", "n3"), tier="fast"),
            ],
            "n3",
        ),
        # An unused claim still has its volume; a claim with a named volume leaves the others free.
        ([build_claim("aaa", **STATIC), build_claim(**STATIC), build_volume("a", "n1")], UNBOUND),
        (
            [
                build_claim("aaa", volumeName="a"),
                build_claim(**STATIC),
                build_volume("a", "n1"),
                build_volume("b", "n2"),
            ],
            "n2",
        ),
        # A volume reserved for a claim of this name is taken if it is large enough.
        (
            [
                build_claim(**STATIC),
                build_volume("a", "n1", "1Gi", claimRef={"namespace": "shop", "name": "other"}),
                build_volume("b", "n2"),
            ],
            "n2",
        ),
        # A class without an object
        (
            [
                build_claim(storageClassName="manual"),
                build_volume("a", "n2", storageClassName="manual"),
            ],
            "n2",
        ),
    ],
)
def test_claim_uses_the_volume_bound_by_kubernetes(
    objects: list[dict[str, Any]], place: str
) -> None:
    assert predict_places(build_deployment(), *objects) == [place]


def test_every_pod_of_a_set_uses_its_own_volume() -> None:
    volumes = [build_volume("a", "n1", **OF_LOCAL), build_volume("b", "n3", **OF_LOCAL)]
    first, second, third = predict_objects(
        build_stateful_set(3, **OF_LOCAL), LOCAL, *volumes
    ).outcomes
    assert {first.node, second.node} == {"n1", "n3"}
    assert third.reason == NONE_LEFT
    assert dict(first.volumes) == {"shop/data-web-0": "a" if first.node == "n1" else "b"}
    # The assignment of volumes is random, so neither the placed pods nor the pending
    # one are certain.
    assert not first.is_certain
    assert (
        predict_objects(build_stateful_set(1, **OF_LOCAL), LOCAL, volumes[0]).outcomes[0].is_certain
    )


def test_template_replaces_volume_of_its_name() -> None:
    made = build_stateful_set(1, **OF_LOCAL)
    named = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    made["spec"]["template"]["spec"]["volumes"] = [named]
    assert predict_places(made, LOCAL, build_volume("a", "n3", **OF_LOCAL)) == ["n3"]


def test_pod_may_name_the_claim_of_a_set() -> None:
    """It follows the pod of the set, or vice versa; a claim without a valid ordinal is unknown."""
    storage = LOCAL, *(build_volume(f"pv{at}", f"n{at}", storageClassName="local") for at in (2, 3))
    reader = build_deployment(claim="data-web-1")
    reader["metadata"]["name"] = "reader"
    prediction = predict_objects(*storage, build_stateful_set(2, **OF_LOCAL), reader)
    nodes = {outcome.name: outcome.node for outcome in prediction.outcomes}
    assert nodes["reader-0"] == nodes["web-1"] != nodes["web-0"]
    beyond = build_deployment(claim="data-web-2")
    (finding,) = parse_workloads(*storage, build_stateful_set(2, **OF_LOCAL), beyond).findings
    assert 'the claim "data-web-2", but no manifest defines it' in finding.detail


@pytest.mark.parametrize(
    ("disk", "shared"),
    [
        ({"iscsi": {"iqn": "q", "lun": 0, "targetPortal": "p"}}, False),
        ({"iscsi": {"iqn": "q", "lun": 0, "targetPortal": "p", "readOnly": True}}, True),
        ({"rbd": {"monitors": ["m1", "m2"], "image": "i"}}, False),
        ({"rbd": {"monitors": ["m1"], "image": "i", "readOnly": True}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, True),
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, False),
        ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, True),
    ],
)
def test_unclaimed_disk_is_used_once_per_node_unless_read_only(
    disk: dict[str, Any], shared: bool
) -> None:
    pods = build_deployment(4)
    pods["spec"]["template"]["spec"]["volumes"] = [{"name": "d", **disk}]
    prediction = predict_objects(pods)
    (reach,) = [forecast.placeable_range for forecast in prediction.forecasts.values()]
    pending = [outcome.reason for outcome in prediction.outcomes if outcome.is_pending]
    assert (reach.minimum, reach.maximum) == ((4, 4) if shared else (3, 3))
    reason = "0/3 nodes are available: 3 node(s) had no available disk."
    assert pending == ([] if shared else [reason])


def test_pods_with_a_shared_claim_follow_its_volume() -> None:
    volumes = [build_volume(f"pv{at}", f"n{at}", **OF_LOCAL) for at in (1, 2, 3)]
    assert (
        len(set(predict_places(build_deployment(3), build_claim(**OF_LOCAL), LOCAL, *volumes))) == 1
    )


def test_several_claims_of_a_pod_need_volumes_on_one_node() -> None:
    pod = build_deployment()
    pod["spec"]["template"]["spec"]["volumes"] += [
        {"name": "w", "persistentVolumeClaim": {"claimName": "more"}}
    ]
    claims = [build_claim(**OF_LOCAL), build_claim("more", **OF_LOCAL)]
    volumes = [
        build_volume(name, node, **OF_LOCAL)
        for name, node in (("a", "n1"), ("b", "n2"), ("c", "n2"))
    ]
    assert predict_places(pod, *claims, LOCAL, *volumes) == ["n2"]
    (outcome,) = predict_objects(pod, *claims, LOCAL, *volumes).outcomes
    assert sorted(outcome.volumes) == [("shop/data", "b"), ("shop/more", "c")]


def test_volume_is_provisioned_if_none_is_left() -> None:
    wait = build_storage_class("disk", **WAIT)
    volumes = [build_volume("a", "n1", storageClassName="disk")]
    outcomes = predict_objects(
        build_stateful_set(3, storageClassName="disk"), wait, *volumes
    ).outcomes
    assert all(outcome.node for outcome in outcomes)
    assert sum(len(outcome.volumes) for outcome in outcomes) <= 1


def test_provisioned_volume_is_not_mistaken_for_a_free_one() -> None:
    """A class provisions a volume if none is free; a volume listed later is still free."""
    wait = build_storage_class("disk", **WAIT)
    shared = [build_claim(storageClassName="disk"), wait]
    before = predict_objects(
        build_deployment(3), *shared, build_volume("late", "elsewhere", storageClassName="disk")
    ).list_existing_pods()
    assert len({pod.node for pod in before}) > 1
    objects = [
        build_deployment(3),
        *shared,
        build_volume("late", before[0].node, storageClassName="disk"),
    ]
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    workloads = collect_workloads(manifests).workloads
    offer = collect_cluster_storage(manifests)
    after = predict(Cluster("k", NODES, volumes=offer.volumes), before, workloads)
    assert [(pod.node, pod.volumes) for pod in after.list_existing_pods()] == [
        (pod.node, ()) for pod in before
    ]


def test_daemons_stay_with_the_pod_bound_to_the_volume() -> None:
    daemon = {**build_deployment(), "kind": "DaemonSet"}
    del daemon["spec"]["replicas"]
    objects = [
        daemon,
        build_claim(**OF_LOCAL),
        LOCAL,
        build_volume("a", "n1", **OF_LOCAL),
        build_volume("b", "n2", **OF_LOCAL),
    ]
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    (work,), offer = collect_workloads(manifests).workloads, collect_cluster_storage(manifests)
    # An earlier version placed one on each node, and recorded no volume.
    before = tuple(ExistingPod(work.key, at, f"n{at + 1}", work.pod) for at in range(2))
    after = predict(Cluster("k", NODES, volumes=offer.volumes), before, [work])
    kept = [(o.action, o.node) for o in after.outcomes if o.action == "keep"]
    assert kept == [("keep", "n1"), ("keep", "n2")]


def test_volume_keeps_its_pod_when_node_is_removed_and_returns() -> None:
    objects = [
        build_stateful_set(2, **OF_LOCAL),
        LOCAL,
        *(build_volume(f"v{at}", f"n{at}", **OF_LOCAL) for at in (1, 2, 3)),
    ]
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    workloads = collect_workloads(manifests).workloads
    offer = collect_cluster_storage(manifests)
    cluster = Cluster("k", NODES, volumes=offer.volumes)
    before = predict(cluster, (), workloads).list_existing_pods()
    lost = before[0].node
    smaller = replace(cluster, nodes=tuple(node for node in NODES if node.name != lost))
    meanwhile = predict(smaller, before, workloads)
    (waiting,) = list_pending_pods(meanwhile)
    assert (
        waiting.reason
        == "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
    )
    assert [
        (pod.node, pod.volumes)
        for pod in predict(cluster, meanwhile.list_existing_pods(), workloads).list_existing_pods()
    ] == [(pod.node, pod.volumes) for pod in before]
    # A state without recorded volumes implies them by its nodes.
    forgotten = [replace(pod, volumes=()) for pod in before]
    assert list_pending_pods(predict(smaller, forgotten, workloads))[0].reason == waiting.reason


def test_volumes_match_a_plain_search() -> None:
    """Compare random volumes and claims with a transcription of FindMatchingVolume.

    They are placed one by one.
    """
    for seed in range(60):
        draw = Random(seed)
        volumes = [
            Volume(
                f"v{at}",
                draw.randrange(1, 6),
                draw.choice("ab"),
                tuple(draw.sample(("RWO", "RWX"), draw.randrange(1, 3))),
                labels=(("t", draw.choice("xy")),),
                terms=draw.choice([None, *((_build_term(node.name),) for node in NODES)]),
            )
            for at in range(10)
        ]
        claims = VolumeBinder(Cluster("k", NODES, volumes=tuple(volumes)))
        taken: set[str] = set()
        for number in range(12):
            wanted = tuple(
                Claim(
                    f"c{part}-{{}}",
                    draw.randrange(1, 5),
                    draw.choice("ab"),
                    (draw.choice(("RWO", "RWX")),),
                    selector=draw.choice([None, build_label_selector({"t": "x"})]),
                    waits_for_pod=True,
                    provisioning_terms=draw.choice([(), (), (_build_term("n1"),)]),
                )
                for part in range(draw.randrange(1, 3))
            )
            spec = PodSpec(claims=wanted)
            open_nodes = {node.name: _find_volumes(node, wanted, volumes, taken) for node in NODES}
            needs = claims.compute_volume_needs(spec, number)
            feasible = [
                node.name
                for node in NODES
                if find_rejection(replace(spec, volumes=needs), node) is None
            ]
            assert feasible == [
                name for name, chosen in open_nodes.items() if chosen is not None
            ], seed
            if feasible:
                node = draw.choice(feasible)
                claims.bind_on_node(spec, number, node)
                chosen = open_nodes[node]
                assert chosen is not None
                taken |= set(chosen)
                assert {volume for _, volume in claims.list_bound_volumes(spec, number)} == set(
                    chosen
                )


def _build_term(node: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(HOST, "In", (node,)),))


def _find_volumes(
    node: Node, wanted: tuple[Claim, ...], volumes: list[Volume], taken: set[str]
) -> list[str] | None:
    """Return the volumes of a pod's claims on a node, or None.

    None if a claim finds none and none is provisioned.
    """
    chosen: list[str] = []
    for claim in sorted(wanted, key=lambda claim: claim.size):
        best: Volume | None = None
        for volume in volumes:
            here = volume.terms is None or volume.terms == (_build_term(node.name),)
            right = volume.storage_class == claim.storage_class and volume.size >= claim.size
            modes = all(mode in volume.modes for mode in claim.modes)
            selected = claim.selector is None or dict(volume.labels)["t"] == "x"
            free = volume.name not in taken and volume.name not in chosen
            if (
                here
                and right
                and modes
                and selected
                and free
                and (best is None or volume.size < best.size)
            ):
                best = volume
        if best is not None:
            chosen.append(best.name)
        elif not (claim.provisioning_terms and node.name == "n1"):
            return None
    return chosen
