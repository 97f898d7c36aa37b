"""Where volumes let pods go, by kubernetes.io/docs/concepts/storage (volumes, classes, access modes)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import ParsedWorkloads, collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.pod_outcomes import Prediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.rules.volume_binding import reject
from nexusform.domains.pods.scheduling.volume_binder import VolumeBinder
from nexusform.domains.pods.scheduling.workloads import Claim, Cluster, ExistingPod, Node, PodSpec, Volume
from nexusform.kubernetes.matching import NodeSelectorTerm, Requirement, build_label_selector
from tests.domains.pods.scheduling.outcomes import pending

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODES = tuple(Node(f"n{at}", {HOST: f"n{at}", ZONE: f"z{at}"}, cpu=4000, memory=8 << 30) for at in (1, 2, 3))
CONFLICT = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."
NONE_LEFT = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."


def thing(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    namespace = {} if kind in ("PersistentVolume", "StorageClass") else {"namespace": "shop"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **namespace}, **more}


def web(replicas: int = 1, claim: str = "data") -> dict[str, Any]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}], "volumes": volumes}}
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


def read(*objects: dict[str, Any]) -> ParsedWorkloads:
    return collect_workloads(parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests)


def places(*objects: dict[str, Any]) -> list[str]:
    outcomes = foretold(*objects).outcomes
    return [outcome.node or outcome.reason for outcome in outcomes]


def foretold(*objects: dict[str, Any], nodes: tuple[Node, ...] = NODES) -> Prediction:
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    reading, offer = collect_workloads(manifests), collect_cluster_storage(manifests)
    assert reading.findings == ()
    cluster = Cluster("k", nodes, volumes=offer.volumes, claims=offer.claims)
    return predict(cluster, (), reading.workloads)


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
        volume(f"pv{at}", "n2", storageClassName="local", claimRef={"namespace": "shop", "name": f"data-web-{at}"})
        for at in (0, 1)
    ]
    assert places(stateful, LOCAL, *waiting) == ["n2", "n2"]


def test_a_claim_for_one_pod_leaves_the_others_pending() -> None:
    wait = storage_class("disk", **WAIT)
    one = claim(mode="ReadWriteOncePod", storageClassName="disk")
    first, second = places(web(2), one, wait)
    assert first in {node.name for node in NODES}
    assert "with ReadWriteOncePod access mode already in-use" in second
    assert all(place in {"n1", "n2", "n3"} for place in places(web(2), claim(storageClassName="disk"), wait))


@pytest.mark.parametrize(
    ("objects", "what"),
    [
        ([], 'names the claim "data", but no manifest defines it'),
        ([claim(volumeName="pv")], 'is bound to the volume "pv", but no manifest defines it'),
        ([claim(storageClassName="fast")], 'of the StorageClass "fast", but no manifest defines it'),
        ([claim()], "of the default StorageClass, but no manifest defines it"),
        ([claim(storageClassName="now"), storage_class("now")], "created before its pod is scheduled"),
    ],
)
def test_what_is_not_known_is_said(objects: list[dict[str, Any]], what: str) -> None:
    (finding,) = read(web(), *objects).findings
    assert (finding.id, finding.severity.value) == ("unknown-volumes", "warning")
    assert what in finding.detail


# --- which volume a claim takes -------------------------------------------------------------------------

UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
STATIC = {"storageClassName": ""}
OF_LOCAL = {"storageClassName": "local"}


def stateful(replicas: int, **spec: Any) -> dict[str, Any]:
    """A StatefulSet with a claim per pod."""
    made = {**web(replicas), "kind": "StatefulSet"}
    made["spec"]["template"]["spec"].pop("volumes")
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim(**spec)["spec"]}]
    return made


def labelled(manifest: dict[str, Any], **labels: str) -> dict[str, Any]:
    manifest["metadata"]["labels"] = labels
    return manifest


@pytest.mark.parametrize(
    ("objects", "place"),
    [
        # At once: the smallest that fits, whatever else the pod could use.
        ([claim(**STATIC), volume("big", "n2", "50Gi"), volume("small", "n1")], "n1"),
        ([claim(**STATIC), volume("a", "elsewhere"), volume("b", "n1", "50Gi")], CONFLICT),
        # Of all volumes first those of the fewest access modes.
        (
            [
                claim(**STATIC),
                volume("a", "n1", accessModes=["ReadWriteOnce", "ReadWriteMany"]),
                volume("b", "n2", "50Gi"),
            ],
            "n2",
        ),
        ([claim(**STATIC), volume("a", "n1", accessModes=["ReadOnlyMany"])], UNBOUND),
        ([claim(**STATIC), volume("a", "n1", volumeMode="Block")], UNBOUND),
        ([claim(volumeMode="Block", **STATIC), volume("a", "n1", volumeMode="Block")], "n1"),
        (
            [
                claim(selector={"matchLabels": {"tier": "fast"}}, **STATIC),
                volume("a", "n1"),
                labelled(volume("b", "n3"), tier="fast"),
            ],
            "n3",
        ),
        # A claim that nobody uses has its volume all the same; one that names a volume leaves the others.
        ([claim("aaa", **STATIC), claim(**STATIC), volume("a", "n1")], UNBOUND),
        ([claim("aaa", volumeName="a"), claim(**STATIC), volume("a", "n1"), volume("b", "n2")], "n2"),
        # What waits for a claim of this name is taken if it is large enough.
        (
            [
                claim(**STATIC),
                volume("a", "n1", "1Gi", claimRef={"namespace": "shop", "name": "other"}),
                volume("b", "n2"),
            ],
            "n2",
        ),
        # A class that is only a name.
        ([claim(storageClassName="manual"), volume("a", "n2", storageClassName="manual")], "n2"),
    ],
)
def test_a_claim_takes_the_volume_that_kubernetes_binds(objects: list[dict[str, Any]], place: str) -> None:
    assert places(web(), *objects) == [place]


def test_every_pod_of_a_set_takes_a_volume_of_its_own() -> None:
    volumes = [volume("a", "n1", **OF_LOCAL), volume("b", "n3", **OF_LOCAL)]
    first, second, third = foretold(stateful(3, **OF_LOCAL), LOCAL, *volumes).outcomes
    assert {first.node, second.node} == {"n1", "n3"}
    assert third.reason == NONE_LEFT
    assert dict(first.volumes) == {"shop/data-web-0": "a" if first.node == "n1" else "b"}
    # Which of them gets which is drawn; that one is left over is not said to be certain, either.
    assert not first.is_certain
    assert foretold(stateful(1, **OF_LOCAL), LOCAL, volumes[0]).outcomes[0].is_certain


def test_a_template_stands_in_for_a_volume_of_its_name() -> None:
    made = stateful(1, **OF_LOCAL)
    named = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    made["spec"]["template"]["spec"]["volumes"] = [named]
    assert places(made, LOCAL, volume("a", "n3", **OF_LOCAL)) == ["n3"]


def test_a_pod_may_name_the_claim_of_a_set() -> None:
    """It follows the pod of the set, or the other way round; a claim of no ordinal is not known."""
    storage = LOCAL, *(volume(f"pv{at}", f"n{at}", storageClassName="local") for at in (2, 3))
    reader = web(claim="data-web-1")
    reader["metadata"]["name"] = "reader"
    prediction = foretold(*storage, stateful(2, **OF_LOCAL), reader)
    nodes = {outcome.name: outcome.node for outcome in prediction.outcomes}
    assert nodes["reader-0"] == nodes["web-1"] != nodes["web-0"]
    beyond = web(claim="data-web-2")
    (finding,) = read(*storage, stateful(2, **OF_LOCAL), beyond).findings
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
def test_a_disk_without_a_claim_is_on_a_node_once_unless_it_is_only_read(disk: dict[str, Any], shared: bool) -> None:
    pods = web(4)
    pods["spec"]["template"]["spec"]["volumes"] = [{"name": "d", **disk}]
    prediction = foretold(pods)
    (reach,) = [forecast.placeable_range for forecast in prediction.forecasts.values()]
    pending = [outcome.reason for outcome in prediction.outcomes if outcome.is_pending]
    assert (reach.minimum, reach.maximum) == ((4, 4) if shared else (3, 3))
    reason = "0/3 nodes are available: 3 node(s) had no available disk."
    assert pending == ([] if shared else [reason])


def test_pods_that_share_a_claim_follow_its_volume() -> None:
    volumes = [volume(f"pv{at}", f"n{at}", **OF_LOCAL) for at in (1, 2, 3)]
    assert len(set(places(web(3), claim(**OF_LOCAL), LOCAL, *volumes))) == 1


def test_several_claims_of_a_pod_need_as_many_volumes_on_one_node() -> None:
    pod = web()
    pod["spec"]["template"]["spec"]["volumes"] += [{"name": "w", "persistentVolumeClaim": {"claimName": "more"}}]
    claims = [claim(**OF_LOCAL), claim("more", **OF_LOCAL)]
    volumes = [volume(name, node, **OF_LOCAL) for name, node in (("a", "n1"), ("b", "n2"), ("c", "n2"))]
    assert places(pod, *claims, LOCAL, *volumes) == ["n2"]
    (outcome,) = foretold(pod, *claims, LOCAL, *volumes).outcomes
    assert sorted(outcome.volumes) == [("shop/data", "b"), ("shop/more", "c")]


def test_where_no_volume_is_left_one_is_made() -> None:
    wait = storage_class("disk", **WAIT)
    volumes = [volume("a", "n1", storageClassName="disk")]
    outcomes = foretold(stateful(3, storageClassName="disk"), wait, *volumes).outcomes
    assert all(outcome.node for outcome in outcomes)
    assert sum(len(outcome.volumes) for outcome in outcomes) <= 1


def test_what_was_made_for_a_claim_is_not_taken_for_a_volume_that_is_free() -> None:
    """A class makes a volume where none was free; later there is one, which is still for anybody."""
    wait = storage_class("disk", **WAIT)
    shared = [claim(storageClassName="disk"), wait]
    before = foretold(web(3), *shared, volume("late", "elsewhere", storageClassName="disk")).list_existing_pods()
    assert len({pod.node for pod in before}) > 1
    objects = [web(3), *shared, volume("late", before[0].node, storageClassName="disk")]
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    workloads, offer = collect_workloads(manifests).workloads, collect_cluster_storage(manifests)
    after = predict(Cluster("k", NODES, volumes=offer.volumes), before, workloads)
    assert [(pod.node, pod.volumes) for pod in after.list_existing_pods()] == [(pod.node, ()) for pod in before]


def test_daemons_stay_beside_the_one_that_has_the_volume() -> None:
    daemon = {**web(), "kind": "DaemonSet"}
    del daemon["spec"]["replicas"]
    objects = [daemon, claim(**OF_LOCAL), LOCAL, volume("a", "n1", **OF_LOCAL), volume("b", "n2", **OF_LOCAL)]
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    (work,), offer = collect_workloads(manifests).workloads, collect_cluster_storage(manifests)
    # An earlier version put one on each, and remembered no volume.
    before = tuple(ExistingPod(work.key, at, f"n{at + 1}", work.pod) for at in range(2))
    after = predict(Cluster("k", NODES, volumes=offer.volumes), before, [work])
    kept = [(o.action, o.node) for o in after.outcomes if o.action == "keep"]
    assert kept == [("keep", "n1"), ("keep", "n2")]


def test_a_volume_keeps_its_pod_when_the_node_goes_and_comes() -> None:
    objects = [stateful(2, **OF_LOCAL), LOCAL, *(volume(f"v{at}", f"n{at}", **OF_LOCAL) for at in (1, 2, 3))]
    manifests = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    workloads, offer = collect_workloads(manifests).workloads, collect_cluster_storage(manifests)
    cluster = Cluster("k", NODES, volumes=offer.volumes)
    before = predict(cluster, (), workloads).list_existing_pods()
    lost = before[0].node
    smaller = replace(cluster, nodes=tuple(node for node in NODES if node.name != lost))
    meanwhile = predict(smaller, before, workloads)
    (waiting,) = pending(meanwhile)
    assert waiting.reason == "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
    assert [
        (pod.node, pod.volumes)
        for pod in predict(cluster, meanwhile.list_existing_pods(), workloads).list_existing_pods()
    ] == [(pod.node, pod.volumes) for pod in before]
    # A state that remembers no volumes says it by its nodes.
    forgotten = [replace(pod, volumes=()) for pod in before]
    assert pending(predict(smaller, forgotten, workloads))[0].reason == waiting.reason


def test_volumes_are_those_of_a_plain_search() -> None:
    """Random volumes and claims, placed one by one, against FindMatchingVolume written down as it stands."""
    for seed in range(60):
        draw = Random(seed)
        volumes = [
            Volume(
                f"v{at}",
                draw.randrange(1, 6),
                draw.choice("ab"),
                tuple(draw.sample(("RWO", "RWX"), draw.randrange(1, 3))),
                labels=(("t", draw.choice("xy")),),
                terms=draw.choice([None, *((_on(node.name),) for node in NODES)]),
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
                    provisioning_terms=draw.choice([(), (), (_on("n1"),)]),
                )
                for part in range(draw.randrange(1, 3))
            )
            spec = PodSpec(claims=wanted)
            open_nodes = {node.name: _found(node, wanted, volumes, taken) for node in NODES}
            needs = claims.compute_volume_needs(spec, number)
            feasible = [node.name for node in NODES if reject(replace(spec, volumes=needs), node) is None]
            assert feasible == [name for name, chosen in open_nodes.items() if chosen is not None], seed
            if feasible:
                node = draw.choice(feasible)
                claims.bind_on_node(spec, number, node)
                chosen = open_nodes[node]
                assert chosen is not None
                taken |= set(chosen)
                assert {volume for _, volume in claims.list_bound_volumes(spec, number)} == set(chosen)


def _on(node: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(HOST, "In", (node,)),))


def _found(node: Node, wanted: tuple[Claim, ...], volumes: list[Volume], taken: set[str]) -> list[str] | None:
    """The volumes of a pod's claims on a node, None where one finds none and none is made."""
    chosen: list[str] = []
    for claim in sorted(wanted, key=lambda claim: claim.size):
        best: Volume | None = None
        for volume in volumes:
            here = volume.terms is None or volume.terms == (_on(node.name),)
            right = volume.storage_class == claim.storage_class and volume.size >= claim.size
            modes = all(mode in volume.modes for mode in claim.modes)
            selected = claim.selector is None or dict(volume.labels)["t"] == "x"
            free = volume.name not in taken and volume.name not in chosen
            if here and right and modes and selected and free and (best is None or volume.size < best.size):
                best = volume
        if best is not None:
            chosen.append(best.name)
        elif not (claim.provisioning_terms and node.name == "n1"):
            return None
    return chosen
