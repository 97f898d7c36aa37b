"""Objects that pods need on their cluster: there, not there, or not read.

Each case is one cluster of two nodes with every kind listed, and one placement of a Deployment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.kubernetes.dump_script import CLUSTER_KINDS, build_dump_script
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from nexusform.plans.plan import Feasibility
from tests.domains.pods.importers.cluster_objects import (
    build_namespace,
    build_node,
    build_pod,
    print_objects,
)
from tests.planning.harness import plan, require_success

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
WEB = "web"
CONFIGURATION = """
resource "fleet_member_cluster" "k0" {
  name = "k0"
}
data "kubernetes_nodes" "k0" {
  files      = ["k0.json"]
  cluster_id = "k0"
}
resource "fleet_hub_manifest" "h" {
  yaml_body = <<-EOT
TEXT
EOT
}
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""
RUNS = ("runs", "", [], "")
MAY_COME = "is not on the cluster; another object may provide it"


def build_object(kind: str, name: str, version: str = "v1", **more: Any) -> Body:
    metadata = {"name": name, "namespace": WEB, **more.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def build_web_namespace(**labels: str) -> Body:
    return build_namespace(WEB, labels)


def build_deployment(
    *, container: Body | None = None, annotations: Body | None = None, **spec: Any
) -> Body:
    resources = {"requests": {"cpu": "15"}}
    item = {"name": "c", "image": "i", "resources": resources, **(container or {})}
    template = {
        "metadata": {"labels": {"app": "a"}, "annotations": annotations or {}},
        "spec": {"containers": [item], **spec},
    }
    selector = {"matchLabels": {"app": "a"}}
    content = {"replicas": 1, "selector": selector, "template": template}
    return build_object("Deployment", "a", "apps/v1", spec=content)


def list_basic_objects() -> list[Body]:
    """Return the objects that every cluster has."""
    system = build_pod("proxy", "n0", "0")
    system["metadata"]["namespace"] = "kube-system"
    names = ("kube-system", "default")
    return [
        *map(build_namespace, names),
        build_object("PriorityClass", "system-node-critical", "scheduling.k8s.io/v1", value=1),
        system,
    ]


def plan_placement(
    deployment: Body,
    *planned: Body,
    cluster: tuple[Body, ...] = (),
    unread: tuple[str, ...] = (),
    namespace: Body | None = None,
    more: str = "",
    cluster_wide: Iterable[Body] | None = None,
) -> PlanResult:
    """Plan the placement on a cluster with these objects; kinds in `unread` were not listed.

    The configuration has `more` blocks. `cluster_wide` are the objects of the whole cluster that
    were listed besides nodes, by default those of every cluster.
    """
    objects = [
        build_node("n0", "1"),
        build_node("n1", "16"),
        *(list_basic_objects() if cluster_wide is None else cluster_wide),
        *cluster,
    ]
    reading = parse_kubectl_files([("k0.json", print_objects(*objects))])
    reading.unread_kinds = list(unread)
    bodies = [namespace or build_web_namespace(), *planned, deployment]
    text = "\n---\n".join(map(json.dumps, bodies))
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    configuration = CONFIGURATION.replace("TEXT", text) + more
    return require_success(plan(configuration, data_overrides=(values,)))


def get_feasibility(result: PlanResult) -> Feasibility:
    (row,) = result.plan.workloads.feasibility
    return row


def assess(*args: Any, **kwargs: Any) -> tuple[str, str, list[str], str]:
    """Return the result, its reason, the missing objects and the plugin of a plan.

    A pod is certain only if it runs.
    """
    result = plan_placement(*args, **kwargs)
    row = get_feasibility(result)
    pods = [item for item in result.plan.placements if item.kind == "pod"]
    certain_pods = [item for item in pods if item.scores.get("certain")]
    assert bool(certain_pods) == (row.result == "runs")
    # A quota counts the pods that were read.
    assert row.is_certain == (row.result == "runs" or row.by in ("ResourceQuota", "LimitRanger"))
    missing = [
        "/".join(filter(None, (item.kind, item.namespace, item.name, item.key)))
        for item in row.missing
    ]
    return str(row.result), row.reason, missing, row.by


def wait_for(*titles: str) -> tuple[str, list[str]]:
    return "waits", list(titles)


def test_pod_without_names_runs() -> None:
    assert assess(build_deployment()) == RUNS
    # Kinds that no pod names do not matter.
    unread = ("Secret", "ConfigMap", "ServiceAccount", "CustomResourceDefinition")
    assert assess(build_deployment(), unread=unread) == RUNS


ENVIRONMENT = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}, "name": "A"}
CONFIG = {"valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}, "name": "A"}


def build_volume(source: str, **reference: Any) -> Body:
    return {"volumes": [{"name": "v", source: reference}]}


def build_projected(source: str, **reference: Any) -> Body:
    return build_volume("projected", sources=[{source: reference}])


CASES: tuple[tuple[str, Body, str, str], ...] = (
    ("service-account", {"serviceAccountName": "s"}, "ServiceAccount", ""),
    ("env-from-secret", {"container": {"envFrom": [{"secretRef": {"name": "s"}}]}}, "Secret", ""),
    (
        "env-from-config-map",
        {"container": {"envFrom": [{"configMapRef": {"name": "s"}}]}},
        "ConfigMap",
        "",
    ),
    ("env-secret-key", {"container": {"env": [ENVIRONMENT]}}, "Secret", "k"),
    ("env-config-map-key", {"container": {"env": [CONFIG]}}, "ConfigMap", "k"),
    ("volume-secret", build_volume("secret", secretName="s"), "Secret", ""),
    ("volume-config-map", build_volume("configMap", name="s"), "ConfigMap", ""),
    (
        "volume-config-map-key",
        build_volume("configMap", name="s", items=[{"key": "k", "path": "p"}]),
        "ConfigMap",
        "k",
    ),
    ("projected-secret", build_projected("secret", name="s"), "Secret", ""),
    (
        "projected-config-map-key",
        build_projected("configMap", name="s", items=[{"key": "k", "path": "p"}]),
        "ConfigMap",
        "k",
    ),
    (
        "init-container",
        {
            "initContainers": [
                {"name": "i", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}
            ]
        },
        "Secret",
        "",
    ),
    (
        "csi-secret",
        build_volume("csi", driver="d.example.com", nodePublishSecretRef={"name": "s"}),
        "Secret",
        "",
    ),
)


@pytest.mark.parametrize(
    ("spec", "kind", "key"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_named_object_has_three_answers(spec: Body, kind: str, key: str) -> None:
    deployment = build_deployment(**spec)
    title = "/".join(filter(None, (kind, WEB, "s", key)))
    result, _, missing, _ = assess(deployment)
    assert (result, missing) == wait_for(title)
    data = {} if kind == "ServiceAccount" else {"data": {"k": "dg=="}}
    # The cluster has it, the placement adds it, or the list was not read.
    there = build_object(kind, "s", **data)
    assert assess(deployment, cluster=(there,)) == RUNS
    assert assess(deployment, there) == RUNS
    result, reason, _, _ = assess(deployment, unread=(kind,))
    assert result == "unknown"
    assert reason.endswith("was not read")
    # An object of another namespace is another one.
    elsewhere = {**there, "metadata": {"name": "s", "namespace": "default"}}
    assert assess(deployment, cluster=(elsewhere,))[0] == "waits"
    if key:
        assert assess(deployment, cluster=(build_object(kind, "s", data={"x": ""}),))[2] == [title]


@pytest.mark.parametrize(
    "spec",
    [
        {"container": {"envFrom": [{"secretRef": {"name": "s", "optional": True}}]}},
        {
            "container": {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "configMapKeyRef": {"name": "s", "key": "k", "optional": True}
                        },
                    }
                ]
            }
        },
        build_volume("secret", secretName="s", optional=True),
        build_projected("configMap", name="s", optional=True),
        build_volume("configMap", name="kube-root-ca.crt"),
        {"serviceAccountName": "default"},
        {"priorityClassName": "system-node-critical"},
    ],
)
def test_optional_and_built_in_objects_are_no_obstacle(spec: Body) -> None:
    assert assess(build_deployment(**spec)) == RUNS
    assert (
        assess(build_deployment(**spec), unread=("Secret", "ConfigMap", "ServiceAccount")) == RUNS
    )


def test_missing_image_secret_may_prevent_a_pull() -> None:
    deployment = build_deployment(imagePullSecrets=[{"name": "s"}])
    result, reason, missing, _ = assess(deployment)
    assert (result, missing) == ("unknown", ["Secret/web/s"])
    assert reason == "Secret web/s is missing, so images may not be pulled"
    assert assess(deployment, build_object("Secret", "s")) == RUNS


@pytest.mark.parametrize("name", ["default", "puller"])
def test_image_secret_of_the_service_account_counts(name: str) -> None:
    """Admission copies it into pods that have no image secrets of their own."""
    account = build_object("ServiceAccount", name, imagePullSecrets=[{"name": "s"}])
    named = {} if name == "default" else {"serviceAccountName": name}
    result, reason, missing, _ = assess(build_deployment(**named), cluster=(account,))
    assert (result, missing) == ("unknown", ["Secret/web/s"])
    assert reason == "Secret web/s is missing, so images may not be pulled"
    assert assess(build_deployment(**named), build_object("Secret", "s"), account) == RUNS
    own = build_deployment(**named, imagePullSecrets=[{"name": "o"}])
    assert assess(own, build_object("Secret", "o"), cluster=(account,)) == RUNS


def test_classes_and_claims_are_named() -> None:
    runtime = build_deployment(runtimeClassName="kata")
    assert assess(runtime)[::2] == ("waits", ["RuntimeClass/kata"])
    there = build_object("RuntimeClass", "kata", "node.k8s.io/v1", handler="kata")
    assert assess(runtime, cluster=(there,)) == RUNS
    assert assess(runtime, unread=("RuntimeClass",))[0] == "unknown"
    assert assess(build_deployment(priorityClassName="hi"))[::2] == ("waits", ["PriorityClass/hi"])
    claim = build_volume("persistentVolumeClaim", claimName="data")
    assert assess(build_deployment(**claim))[::2] == ("waits", ["PersistentVolumeClaim/web/data"])
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "resources": resources}
    body = build_object("PersistentVolumeClaim", "data", spec=spec)
    assert assess(build_deployment(**claim), body)[2] == ["StorageClass/ssd"]


def test_network_is_needed() -> None:
    annotations = {"k8s.v1.cni.cncf.io/networks": "n6"}
    deployment = build_deployment(annotations=annotations)
    network = "NetworkAttachmentDefinition"
    assert assess(deployment)[::2] == ("waits", [f"{network}/web/n6"])
    there = build_object(network, "n6", "k8s.cni.cncf.io/v1")
    assert assess(deployment, cluster=(there,)) == RUNS
    assert assess(deployment, unread=(network,))[0] == "unknown"


@pytest.mark.parametrize("is_planned", [False, True])
def test_controller_creates_the_claim_of_a_data_volume(is_planned: bool) -> None:
    deployment = build_deployment(**build_volume("persistentVolumeClaim", claimName="disk"))
    definition = build_definition("cdi.kubevirt.io", "DataVolume")
    data_volume = build_object("DataVolume", "disk", "cdi.kubevirt.io/v1beta1")
    resources = {"requests": {"storage": "1Gi"}}
    claim_spec = {"volumeName": "v", "accessModes": ["ReadWriteOnce"], "resources": resources}
    claim = build_object("PersistentVolumeClaim", "disk", spec=claim_spec)
    title = "PersistentVolumeClaim web/disk"

    def decide(body: Body, *more: Body, **options: Any) -> tuple[str, str]:
        planned, cluster = ((body,), more) if is_planned else ((), (body, *more))
        answer = assess(deployment, *planned, cluster=(definition, *cluster), **options)
        return answer[:2]

    assert decide(data_volume) == ("unknown", f"{title} {MAY_COME}")
    assert decide(data_volume, unread=("PersistentVolumeClaim",))[1] == f"{title} was not read"
    assert decide(build_object("ConfigMap", "x"), unread=("DataVolume",)) == (
        "unknown",
        f"{title} {MAY_COME}",
    )
    elsewhere = {**data_volume, "metadata": {"name": "disk", "namespace": "default"}}
    assert assess(deployment, cluster=(definition, elsewhere))[0] == "waits"
    volume = build_object(
        "PersistentVolume",
        "v",
        spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    )
    cluster = (definition, data_volume, claim, volume)
    assert assess(deployment, cluster=cluster)[1] != f"{title} {MAY_COME}"


@pytest.mark.parametrize("kind", ["SriovNetwork", "SriovIBNetwork", "OVSNetwork"])
def test_operator_creates_the_network_of_a_sriov_network(kind: str) -> None:
    annotations = {"k8s.v1.cni.cncf.io/networks": "n6"}
    deployment = build_deployment(annotations=annotations)
    definition = build_definition("sriovnetwork.openshift.io", kind)
    spec = {"networkNamespace": WEB, "resourceName": "fast"}
    network = build_object(kind, "n6", "sriovnetwork.openshift.io/v1", spec=spec)
    network["metadata"]["namespace"] = "sriov"
    title = "NetworkAttachmentDefinition web/n6"
    expected = ("unknown", f"{title} {MAY_COME}")
    assert assess(deployment, cluster=(definition, network))[:2] == expected
    assert assess(deployment, cluster=(definition,), unread=(kind,))[:2] == expected
    assert assess(deployment, cluster=(definition,))[0] == "waits"
    own = {**network, "spec": {}, "metadata": {"name": "n6", "namespace": "sriov"}}
    assert assess(deployment, cluster=(definition, own))[0] == "waits"
    there = build_object("NetworkAttachmentDefinition", "n6", "k8s.cni.cncf.io/v1")
    assert assess(deployment, cluster=(definition, network, there)) == RUNS


def test_custom_resource_needs_its_definition() -> None:
    issuer = build_object("Issuer", "i", "cert-manager.io/v1", spec={})
    name = "CustomResourceDefinition/issuers.cert-manager.io"
    assert get_feasibility(plan_placement(build_deployment(), issuer)).result == "waits"
    names = {"kind": "Issuer", "plural": "issuers"}
    spec = {"group": "cert-manager.io", "names": names, "scope": "Namespaced"}
    definition = build_object(
        "CustomResourceDefinition", "issuers.cert-manager.io", "apiextensions.k8s.io/v1", spec=spec
    )
    row = get_feasibility(plan_placement(build_deployment(), issuer))
    assert [f"{item.kind}/{item.name}" for item in row.missing] == [name]
    row = get_feasibility(plan_placement(build_deployment(), issuer, cluster=(definition,)))
    assert row.result == "runs"


def test_custom_resource_may_create_the_secret_it_names() -> None:
    definition = build_object(
        "CustomResourceDefinition",
        "certificates.cert-manager.io",
        "apiextensions.k8s.io/v1",
        spec={"group": "cert-manager.io", "names": {"kind": "Certificate"}},
    )
    certificate = build_object("Certificate", "c", "cert-manager.io/v1", spec={"secretName": "s"})
    deployment = build_deployment(**build_volume("secret", secretName="s"))
    result = assess(deployment, certificate, cluster=(definition,))
    assert result[:2] == ("unknown", f"Secret web/s {MAY_COME}")
    unread = assess(deployment, certificate, cluster=(definition,), unread=("Secret",))
    assert unread[:2] == ("unknown", "Secret web/s was not read")


@pytest.mark.parametrize("has_namespaces", [False, True])
def test_dump_of_one_namespace_knows_its_own_objects_alone(has_namespaces: bool) -> None:
    """The files of `kubectl get -n web`; lists of the whole cluster, or nodes alone."""
    pod = build_pod("old", "n1", "0")
    pod["metadata"]["namespace"] = WEB
    own = (pod, *(build_object(kind, "s") for kind in ("ConfigMap", "ServiceAccount")))
    basic = list_basic_objects()[:-1] if has_namespaces else ()
    claim = build_volume("persistentVolumeClaim", claimName="data")
    cases: tuple[tuple[Body, str], ...] = (
        ({}, ""),
        ({"container": {"envFrom": [{"configMapRef": {"name": "s"}}]}}, ""),
        ({"serviceAccountName": "s"}, ""),
        ({"serviceAccountName": "t"}, "ServiceAccount web/t was not read"),
        (build_volume("secret", secretName="s"), "Secret web/s was not read"),
        (claim, "PersistentVolumeClaim web/data was not read"),
        ({"annotations": {"k8s.v1.cni.cncf.io/networks": "n6"}}, _UNREAD_NETWORK),
    )
    for spec, reason in cases:
        result = plan_placement(build_deployment(**spec), cluster=own, cluster_wide=basic)
        row = get_feasibility(result)
        assert (row.result, row.missing) == ("unknown", ()), spec
        assert reason in row.reason
        pods = [item for item in result.plan.placements if item.kind == "pod"]
        assert not any(item.scores.get("certain") for item in pods)
        (warning,) = [item for item in result.plan.diagnostics if item.id == "pods-not-listed"]
        assert "pods of the namespace web alone" in warning.detail


_UNREAD_NETWORK = "NetworkAttachmentDefinition web/n6 was not read"


def build_definition(group: str, kind: str, version: str = "apiextensions.k8s.io/v1") -> Body:
    spec = {"group": group, "names": {"kind": kind}}
    return build_object("CustomResourceDefinition", f"{kind}.{group}", version, spec=spec)


def test_definition_of_an_earlier_script_counts() -> None:
    """The script wrote CustomResourceDefinitions as objects of v1."""
    issuer = build_object("Issuer", "i", "cert-manager.io/v1", spec={})
    definition = build_definition("cert-manager.io", "Issuer", "v1")
    assert assess(build_deployment(), issuer, cluster=(definition,)) == RUNS
    script = build_dump_script("d", CLUSTER_KINDS.values())
    assert script.count('{ "apiVersion":{{printf "%q" .apiVersion}},"kind"') == 2


@pytest.mark.parametrize(
    ("group", "kind", "name", "secret", "result"),
    [
        ("external-secrets.io", "ExternalSecret", "s", "s", "unknown"),
        ("postgresql.cnpg.io", "Cluster", "pg", "pg-app", "unknown"),
        ("example.com", "Thing", "s", "t", "waits"),
        # A monitor creates no Secret.
        ("monitoring.coreos.com", "ServiceMonitor", "s", "s", "waits"),
    ],
)
def test_custom_resource_may_create_a_secret_of_its_name(
    group: str, kind: str, name: str, secret: str, result: str
) -> None:
    resource = build_object(kind, name, f"{group}/v1", spec={})
    deployment = build_deployment(**build_volume("secret", secretName=secret))
    definition = build_definition(group, kind)
    assert assess(deployment, resource, cluster=(definition,))[0] == result


def build_job(kind: str, **container: Any) -> Body:
    item = {"name": "c", "image": "i", **container}
    template = {"template": {"spec": {"restartPolicy": "Never", "containers": [item]}}}
    if kind == "Job":
        return build_object(kind, "j", "batch/v1", spec=template)
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": template}}
    return build_object(kind, "j", "batch/v1", spec=spec)


@pytest.mark.parametrize(
    "creator",
    [
        build_job("CronJob", args=["--secret-name=s-ca"]),
        build_job("Job", command=["sh", "-c", "kubectl create secret generic s-ca --from-file=a"]),
        build_job("Job", env=[{"name": "SECRET", "value": "s-ca"}]),
    ],
)
def test_container_may_create_the_secret_it_names(creator: Body) -> None:
    for name, result in (("s-ca", "unknown"), ("s-cb", "waits")):
        deployment = build_deployment(**build_volume("secret", secretName=name))
        assert get_feasibility(plan_placement(deployment, creator)).result == result


def test_deployment_may_create_the_secret_of_its_environment() -> None:
    """The controller of MetalLB creates the Secret that its speakers mount."""
    controller = build_deployment(
        container={"env": [{"name": "ML", "value": "memberlist"}], "resources": {}}
    )
    controller["metadata"]["name"] = "controller"
    deployment = build_deployment(**build_volume("secret", secretName="memberlist"))
    row = get_feasibility(plan_placement(deployment, controller))
    assert (row.result, row.reason) == ("unknown", f"Secret web/memberlist {MAY_COME}")


@pytest.mark.parametrize(
    ("version", "kind"),
    [("projectcalico.org/v3", "NetworkPolicy"), ("route.openshift.io/v1", "Route")],
)
def test_aggregated_kinds_have_no_definition(version: str, kind: str) -> None:
    resource = build_object(kind, "r", version, spec={})
    row = get_feasibility(plan_placement(build_deployment(), resource))
    assert row.result == "unknown"
    assert row.reason.endswith(MAY_COME)


@pytest.mark.parametrize(
    ("level", "container", "result"),
    [
        ("baseline", {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}, "rejected"),
        ("restricted", {"securityContext": {"privileged": True}}, "rejected"),
        ("restricted", {}, "rejected"),
        ("baseline", {}, "runs"),
        ("privileged", {"securityContext": {"privileged": True}}, "runs"),
    ],
)
def test_pod_security_level_of_the_namespace(level: str, container: Body, result: str) -> None:
    namespace = build_web_namespace(**{"pod-security.kubernetes.io/enforce": level})
    answer = assess(build_deployment(container=container), namespace=namespace)
    assert (answer[0], answer[3]) == (result, "PodSecurity" if result == "rejected" else "")


def test_label_that_others_set_on_the_cluster_counts() -> None:
    observed = build_web_namespace(**{"pod-security.kubernetes.io/enforce": "baseline"})
    deployment = build_deployment(hostNetwork=True)
    assert assess(deployment, cluster=(observed,))[0] == "rejected"
    own = build_web_namespace(**{"pod-security.kubernetes.io/enforce": "privileged"})
    assert assess(deployment, cluster=(observed,), namespace=own) == RUNS


def test_quota_and_limits_reject_by_name() -> None:
    quota = build_object("ResourceQuota", "q", spec={"hard": {"requests.cpu": "1"}})
    result, reason, _, plugin = assess(build_deployment(), quota)
    assert (result, plugin) == ("rejected", "ResourceQuota")
    assert reason.startswith("exceeded quota: q")
    limits = [{"type": "Pod", "max": {"cpu": "1"}}]
    limit_range = build_object("LimitRange", "l", spec={"limits": limits})
    result, reason, _, plugin = assess(build_deployment(), limit_range)
    assert (result, plugin) == ("rejected", "LimitRanger")


def test_warning_names_the_missing_secret() -> None:
    deployment = build_deployment(container={"envFrom": [{"secretRef": {"name": "s"}}]})
    warnings = plan_placement(deployment).plan.diagnostics
    (text,) = [item.detail for item in warnings if item.id == "objects-not-on-cluster"]
    assert "Deployment web/a: Secret web/s is not on the cluster" in text


def test_values_of_secrets_are_not_kept() -> None:
    body = build_object(
        "Secret", "s", data={"password": "aHVudGVyMg=="}, stringData={"x": "hunter"}
    )
    text = parse_kubectl_files([("k0.json", print_objects(build_node("n0"), body))]).encode()
    assert "password" in text
    assert "aHVudGVyMg" not in text
    assert "hunter" not in text


def test_files_of_earlier_versions_list_no_absent_object() -> None:
    text = parse_kubectl_files([("k0.json", print_objects(build_node("n0")))]).encode()
    data = json.loads(text)
    assert set(data.pop("listed")) == set(CLUSTER_KINDS)
    from nexusform.domains.pods.importers.kubectl_snapshot import parse_snapshot

    assert parse_snapshot(json.dumps(data)).listed_kinds == frozenset()


READ_OBJECTS: tuple[Body, ...] = (
    build_object(
        "ResourceQuota",
        "q",
        spec={"hard": {"requests.cpu": "20"}},
        status={"used": {"requests.cpu": "0"}},
    ),
    build_object("LimitRange", "l", spec={"limits": [{"type": "Container", "min": {"cpu": "1"}}]}),
    build_object("PriorityClass", "hi", "scheduling.k8s.io/v1", value=5),
    build_object("RuntimeClass", "kata", "node.k8s.io/v1", handler="kata"),
    build_object("Service", "a", spec={"selector": {"app": "a"}}),
    build_object("ConfigMap", "c", data={"k": "v"}),
    build_object("ServiceAccount", "s"),
    build_object("NetworkAttachmentDefinition", "n", "k8s.cni.cncf.io/v1"),
    build_object("StorageClass", "ssd", "storage.k8s.io/v1", provisioner="d.example.com"),
    build_object(
        "PodDisruptionBudget",
        "b",
        "policy/v1",
        spec={"minAvailable": 0, "selector": {"matchLabels": {"app": "a"}}},
    ),
    build_object(
        "HorizontalPodAutoscaler",
        "h",
        "autoscaling/v2",
        spec={
            "minReplicas": 1,
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
        },
    ),
)


@pytest.mark.parametrize("body", READ_OBJECTS, ids=[body["kind"] for body in READ_OBJECTS])
def test_object_that_is_applied_and_listed_counts_once(body: Body) -> None:
    annotations = {"k8s.v1.cni.cncf.io/networks": "n"}
    references = {
        "PriorityClass": {"priorityClassName": "hi"},
        "RuntimeClass": {"runtimeClassName": "kata"},
        "ServiceAccount": {"serviceAccountName": "s"},
        "ConfigMap": build_volume("configMap", name="c"),
        "NetworkAttachmentDefinition": {"annotations": annotations},
    }
    deployment = build_deployment(**references.get(body["kind"], {}))
    names = {"kind": "NetworkAttachmentDefinition"}
    definition = build_object(
        "CustomResourceDefinition",
        "networks",
        "apiextensions.k8s.io/v1",
        spec={"group": "k8s.cni.cncf.io", "names": names},
    )
    # A placement of a Namespace selects no cluster-scoped object, so the cluster has these.
    is_cluster_scoped = body["kind"] in ("PriorityClass", "RuntimeClass", "StorageClass")
    observed = (definition, body) if is_cluster_scoped else (definition,)
    once = plan_placement(deployment, body, cluster=observed)
    twice = plan_placement(deployment, body, cluster=(definition, body))
    for result in (once, twice):
        assert get_feasibility(result).result == "runs"
    assert twice.plan.placements == once.plan.placements
    assert twice.plan.workloads.feasibility == once.plan.workloads.feasibility
    ids = [[item.id for item in result.plan.diagnostics] for result in (once, twice)]
    assert ids[0] == ids[1]


DEFINITION_PLACEMENT = """
resource "fleet_member_cluster" "k1" {
  name = "k1"
}
resource "fleet_cluster_resource_placement" "d" {
  resource_selector {
    group   = "apiextensions.k8s.io"
    version = "v1"
    kind    = "CustomResourceDefinition"
    name    = "issuers.cert-manager.io"
  }
  policy {
    placement_type = "PickFixed"
    cluster_names  = ["k1"]
  }
}
"""


def test_definition_in_a_dump_is_not_missing() -> None:
    names = {"kind": "Issuer", "plural": "issuers"}
    versions = [{"name": "v1", "served": True, "storage": True}]
    spec = {"group": "cert-manager.io", "names": names, "scope": "Namespaced", "versions": versions}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "issuers.cert-manager.io"},
        "spec": spec,
    }
    issuer = build_object("Issuer", "i", "cert-manager.io/v1", spec={})
    for cluster, count in (((), 1), ((definition,), 0)):
        result = plan_placement(
            build_deployment(), issuer, definition, cluster=cluster, more=DEFINITION_PLACEMENT
        )
        ids = [item.id for item in result.plan.diagnostics]
        assert ids.count("missing-cluster-definition") == count
