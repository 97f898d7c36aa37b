"""Tests of rules that a version of Kubernetes adds: scores by storage, drivers, node features.

Without the rule, each pod would run on the larger node a-np-0.
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
from tests.domains.pods.planning.test_csi_limits import build_storage_object, list_places
from tests.domains.pods.planning.test_dump_doubts import list_certainties, list_warning_ids
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.planning.harness import RACKS, list_errors, require_success

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
LARGE, SMALL = "a-np-0", "a-np-1"
CONTROL_PLANE = "a-control-plane-0"
CPUS = {LARGE: "8", SMALL: "4"}
DRIVER = "net.example.com"


def build_nodes(version: str, **more: Body) -> list[Body]:
    """Return both nodes with kubelets of a version, and a control plane without pods.

    `more` is added to the status of SMALL.
    """
    nodes = []
    for name, cpu in (*CPUS.items(), (CONTROL_PLANE, "0")):
        node = build_node(name, cpu)
        if name == CONTROL_PLANE:
            node["spec"]["taints"] = [{"key": "control", "effect": "NoSchedule"}]
        info = {"kubeletVersion": version} if version else {}
        images = [{"names": ["zz:1"], "sizeBytes": 1000}]
        node["status"] |= {"nodeInfo": info, "images": images} | (more if name == SMALL else {})
        nodes.append(node)
    return nodes


def build_class(name: str, provisioner: str) -> Body:
    return build_storage_object(
        "StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer"
    )


LOCAL = build_class("local", "kubernetes.io/no-provisioner")
NETWORK = build_class("net", DRIVER)
CHECKED = build_storage_object("CSIDriver", DRIVER, spec={"storageCapacity": True})
REQUIRED = build_storage_object(
    "CSIDriver", DRIVER, spec={"attachRequired": False, "preventPodSchedulingIfMissing": True}
)


def build_volume(name: str, node: str, size: str, of_class: str = "local", **more: Any) -> Body:
    term = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    }
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        **more.pop("spec", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"phase": "Available"},
        **more,
    }


def build_claim(name: str, of_class: str, size: str, **more: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of_class,
            "resources": {"requests": {"storage": size}},
            **more,
        },
        "status": {"phase": "Pending"},
    }


def build_capacity(node: str, amount: str, of_class: str = "net", **more: Any) -> Body:
    topology = {"matchLabels": {"kubernetes.io/hostname": node}}
    return build_storage_object(
        "CSIStorageCapacity",
        more.pop("name", f"{of_class}-{node}"),
        storageClassName=of_class,
        nodeTopology=topology,
        capacity=amount,
        **more,
    )


def build_installation(node: str, *drivers: str) -> Body:
    items = [{"name": name, "nodeID": node, "topologyKeys": None} for name in drivers]
    return build_storage_object("CSINode", node, spec={"drivers": items})


def build_text(workload: str) -> str:
    return RACKS + build_workers(2) + OF_A + build_manifest("m", workload)


def build_pod_text(*claims: str, **more: Any) -> str:
    """Return a configuration of one pod with these claims and fields."""
    pod = build_pod("p0", "", **more)
    pod["spec"].pop("nodeName")
    pod["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims
    ]
    pod["spec"]["containers"][0]["image"] = "web"
    del pod["status"]
    return build_text(json.dumps(pod))


def plan_pod(text: str, *objects: Body) -> PlanResult:
    return require_success(plan_observed(text, *add_standard_objects(*objects)))


LOCAL_VOLUMES = (build_volume("l0", LARGE, "10Gi"), build_volume("l1", SMALL, "100Gi"))


@pytest.mark.parametrize(
    ("version", "node"), [("v1.37.2", SMALL), ("v1.36.3", LARGE), ("v1.34.4", LARGE)]
)
def test_larger_local_volume_counts_from_1_37_on(version: str, node: str) -> None:
    objects = (*build_nodes(version), LOCAL, *LOCAL_VOLUMES, build_claim("c", "local", "8Gi"))
    result = plan_pod(build_pod_text("c"), *objects)
    assert list_places(result) == {"p0": node}
    assert list_certainties(result) == {"p0": (True, None)}


def test_unknown_version_leaves_pod_with_scored_volumes_uncertain() -> None:
    objects = (*build_nodes(""), LOCAL, *LOCAL_VOLUMES, build_claim("c", "local", "8Gi"))
    certainties = list_certainties(plan_pod(build_pod_text("c"), *objects))
    assert certainties == {"p0": (False, "the Kubernetes version")}


def test_version_newer_than_the_table_is_uncertain() -> None:
    certainties = list_certainties(plan_pod(build_pod_text(), *build_nodes("v1.38.0")))
    assert certainties == {"p0": (False, "the Kubernetes version")}


def test_free_storage_of_a_class_counts() -> None:
    objects = (
        *build_nodes("v1.37.0"),
        *(NETWORK, CHECKED, build_claim("c", "net", "8Gi")),
        *(build_capacity(LARGE, "10Gi"), build_capacity(SMALL, "100Gi")),
    )
    result = plan_pod(build_pod_text("c"), *objects)
    assert list_places(result) == {"p0": SMALL}
    assert list_certainties(result) == {"p0": (True, None)}


def test_storage_of_all_claims_of_a_class_counts_against_one_capacity() -> None:
    """Two claims leave 20 % of the small node, though one claim alone would leave 60 %."""
    objects = (
        *build_nodes("v1.37.0"),
        *(NETWORK, CHECKED, build_claim("c", "net", "40Gi"), build_claim("d", "net", "40Gi")),
        *(build_capacity(LARGE, "150Gi"), build_capacity(SMALL, "100Gi")),
    )
    assert list_places(plan_pod(build_pod_text("c", "d"), *objects)) == {"p0": LARGE}


def test_classes_of_one_pod_count_equally() -> None:
    """SMALL has 99 % of one class left, and 0 % of the other; LARGE 90 % of both."""
    other = build_class("other", DRIVER)
    objects = (
        *build_nodes("v1.37.0"),
        *(
            NETWORK,
            other,
            CHECKED,
            build_claim("c", "net", "1Gi"),
            build_claim("d", "other", "1Gi"),
        ),
        *(build_capacity(LARGE, "10Gi"), build_capacity(LARGE, "10Gi", "other")),
        *(build_capacity(SMALL, "100Gi"), build_capacity(SMALL, "1Gi", "other")),
    )
    assert list_places(plan_pod(build_pod_text("c", "d"), *objects)) == {"p0": LARGE}


def test_volumes_to_provision_do_not_count_beside_free_volumes() -> None:
    """The free volume of SMALL is full, so its large free storage does not help."""
    objects = (
        *build_nodes("v1.37.0"),
        *(LOCAL, NETWORK, CHECKED),
        *(build_volume("l0", LARGE, "9Gi"), build_volume("l1", SMALL, "8Gi")),
        *(build_claim("c", "local", "8Gi"), build_claim("d", "net", "1Gi")),
        *(build_capacity(LARGE, "2Gi"), build_capacity(SMALL, "1000Gi")),
    )
    assert list_places(plan_pod(build_pod_text("c", "d"), *objects)) == {"p0": LARGE}


def test_claims_of_a_stateful_set_are_scored_pod_by_pod() -> None:
    """The first pod takes the larger volume of SMALL; it is gone for the second one."""
    template = {"metadata": {"name": "data"}, "spec": build_claim("x", "local", "8Gi")["spec"]}
    text = build_text(
        build_deployment("db", 2, cpu="1", kind="StatefulSet", volumeClaimTemplates=[template])
    )
    objects = (*build_nodes("v1.37.0"), LOCAL, *LOCAL_VOLUMES)
    result = plan_pod(text, *objects)
    assert list_places(result) == {"db-0": SMALL, "db-1": LARGE}
    assert list_certainties(result) == {"db-0": (True, None), "db-1": (True, None)}


@pytest.mark.parametrize("amounts", [("10Gi", "100Gi"), ("100Gi", "10Gi")])
def test_several_capacities_of_a_node_are_read_in_any_order(amounts: tuple[str, str]) -> None:
    objects = (
        *build_nodes("v1.37.0"),
        *(NETWORK, CHECKED, build_claim("c", "net", "8Gi"), build_capacity(LARGE, "20Gi")),
        *[build_capacity(SMALL, amount, name=f"c-{amount.lower()}") for amount in amounts],
    )
    certainties = list_certainties(plan_pod(build_pod_text("c"), *objects))
    assert certainties == {"p0": (False, "storage of nodes")}


def test_capacity_without_a_total_is_uncertain() -> None:
    objects = (
        *build_nodes("v1.37.0"),
        *(NETWORK, CHECKED, build_claim("c", "net", "8Gi"), build_capacity(LARGE, "20Gi")),
        build_capacity(SMALL, "20Gi", maximumVolumeSize="20Gi"),
    )
    del objects[-1]["capacity"]
    certainties = list_certainties(plan_pod(build_pod_text("c"), *objects))
    assert certainties == {"p0": (False, "storage of nodes")}


@pytest.mark.parametrize("status", [{"phase": "Failed"}, {"phase": "Released"}])
def test_volume_that_is_not_available_is_not_bound(status: Body) -> None:
    broken = build_volume("l1", SMALL, "100Gi", status=status)
    objects = (LOCAL, LOCAL_VOLUMES[0], broken, build_claim("c", "local", "8Gi"))
    assert list_places(plan_pod(build_pod_text("c"), *build_nodes("v1.37.0"), *objects)) == {
        "p0": LARGE
    }


def test_volume_of_another_attributes_class_is_not_bound() -> None:
    gold = build_volume("l1", SMALL, "100Gi", spec={"volumeAttributesClassName": "gold"})
    objects = (*build_nodes("v1.37.0"), LOCAL, LOCAL_VOLUMES[0], gold)
    claims = (
        build_claim("c", "local", "8Gi"),
        build_claim("d", "local", "8Gi", volumeAttributesClassName="gold"),
    )
    assert list_places(plan_pod(build_pod_text("c"), *objects, *claims)) == {"p0": LARGE}
    assert list_places(plan_pod(build_pod_text("d"), *objects, *claims)) == {"p0": SMALL}


INSTALLATIONS = (build_installation(LARGE), build_installation(SMALL, DRIVER))


@pytest.mark.parametrize(("version", "node"), [("v1.37.2", SMALL), ("v1.36.3", LARGE)])
def test_driver_must_be_installed_from_1_37_on(version: str, node: str) -> None:
    objects = (NETWORK, REQUIRED, *INSTALLATIONS, build_claim("c", "net", "8Gi"))
    result = plan_pod(build_pod_text("c"), *build_nodes(version), *objects)
    assert list_places(result) == {"p0": node}
    assert list_certainties(result) == {"p0": (True, None)}


def test_pod_is_pending_without_its_driver() -> None:
    objects = (NETWORK, REQUIRED, build_installation(LARGE), build_claim("c", "net", "8Gi"))
    result = plan_pod(build_pod_text("c"), *build_nodes("v1.37.2"), *objects)
    (reason,) = list_places(result).values()
    assert f"{DRIVER} CSI driver is not installed on the node" in reason


def test_driver_of_a_bound_volume_must_be_installed() -> None:
    source = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
    reference = {"claimRef": {"namespace": "default", "name": "c"}}
    volume = build_volume("v", "", "10Gi", "net", spec=source | reference)
    for field in ("local", "nodeAffinity"):
        del volume["spec"][field]
    claim = build_claim("c", "net", "8Gi", volumeName="v")
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    objects = (NETWORK, REQUIRED, *INSTALLATIONS, volume, claim)
    assert list_places(plan_pod(build_pod_text("c"), *build_nodes("v1.37.2"), *objects)) == {
        "p0": SMALL
    }


def test_driver_that_prevents_nothing_need_not_be_installed() -> None:
    driver = build_storage_object("CSIDriver", DRIVER, spec={"attachRequired": False})
    objects = (NETWORK, driver, *INSTALLATIONS, build_claim("c", "net", "8Gi"))
    assert list_places(plan_pod(build_pod_text("c"), *build_nodes("v1.37.2"), *objects)) == {
        "p0": LARGE
    }


FEATURE = "RestartAllContainersOnContainerExits"
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


def build_restarting_text() -> str:
    container = {
        "name": "c",
        "image": "web",
        "resources": {"requests": {"cpu": "1"}},
        "restartPolicy": "Never",
        "restartPolicyRules": [RULE],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p0"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return build_text(json.dumps(pod))


@pytest.mark.parametrize("version", ["v1.36.0", "v1.37.2"])
def test_pod_needs_node_that_declares_its_features(version: str) -> None:
    result = plan_pod(build_restarting_text(), *build_nodes(version, declaredFeatures=[FEATURE]))
    assert list_places(result) == {"p0": SMALL}
    assert list_certainties(result) == {"p0": (True, None)}


def test_no_node_declares_the_feature() -> None:
    result = plan_pod(build_restarting_text(), *build_nodes("v1.37.2", declaredFeatures=["Other"]))
    (reason,) = list_places(result).values()
    assert "2 node(s) didn't match Pod's required features" in reason


def test_features_of_nodes_without_a_kubelet_are_unknown() -> None:
    large, *_ = build_nodes("v1.37.2")
    certainties = list_certainties(plan_pod(build_restarting_text(), large))
    assert certainties == {"p0": (False, "features of nodes")}


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC"])
def test_own_users_in_a_namespace_of_the_host_are_rejected(field: str) -> None:
    text = build_pod_text(hostUsers=False, **{field: True})
    result = plan_observed(text, *add_standard_objects(*build_nodes("v1.37.2")))
    details = " ".join(item.detail for item in list_errors(result))
    assert f"{field} is true; it is forbidden with hostUsers: false." in details


def test_complete_files_leave_no_warning() -> None:
    objects = (NETWORK, REQUIRED, *INSTALLATIONS, build_claim("c", "net", "8Gi"))
    assert not list_warning_ids(plan_pod(build_pod_text("c"), *build_nodes("v1.37.2"), *objects))
