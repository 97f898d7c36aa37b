"""Tests of objects from Kubernetes YAML: their content, position and errors."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    build_changed_manifest,
    find_selection_exclusion,
    parse_manifests,
    unwrap_envelopes,
)

TWO = """\
# the shop
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: a}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 3
"""


def parse_single(text: str) -> Manifest:
    reading = parse_manifests("m.yaml", text)
    assert reading.findings == ()
    (manifest,) = reading.manifests
    return manifest


def test_documents_become_objects_in_order() -> None:
    reading = parse_manifests("m.yaml", TWO)
    first, second = reading.manifests
    assert (first.group, first.version, first.kind, first.namespace, first.name) == (
        "",
        "v1",
        "Namespace",
        "",
        "shop",
    )
    assert first.labels == {"team": "a"}
    assert (second.group, second.version, second.namespace) == ("apps", "v1", "shop")
    assert (first.line, second.line) == (2, 6)
    assert second.find_position("spec", "replicas").line == 12
    assert second.body["spec"] == {"replicas": 3}
    assert second.title == "Deployment shop/web"


@pytest.mark.parametrize(
    ("head", "namespace"),
    [
        ("apiVersion: v1\nkind: ConfigMap", "default"),
        ("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole", ""),
        ("apiVersion: networking.k8s.io/v1\nkind: Ingress", "default"),
        ("apiVersion: example.com/v1\nkind: Widget", ""),
    ],
)
def test_default_namespace(head: str, namespace: str) -> None:
    assert parse_single(f"{head}\nmetadata: {{name: x}}\n").namespace == namespace


def test_lists_are_flattened() -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n"
        "- apiVersion: v1\n  kind: ConfigMapList\n  items:\n"
        "  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"
    )
    reading = parse_manifests("m.yaml", text)
    assert [(m.name, m.line) for m in reading.manifests] == [("a", 4), ("b", 10)]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- 1\n", 1, "a manifest is a mapping"),
        ("just text\n", 1, "a manifest is a mapping"),
        ("kind: ConfigMap\nmetadata: {name: a}\n", 1, "this ConfigMap has no apiVersion (a text)"),
        ("apiVersion: v1\nmetadata: {name: a}\n", 1, "this document has no kind (a text)"),
        (
            "a: 1\n---\napiVersion: v1\nkind: Pod\n",
            1,
            "no apiVersion and no kind and no metadata.name",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n",
            1,
            "set metadata.name instead",
        ),
        (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a]\n",
            1,
            "kubectl kustomize DIRECTORY",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", 1, "no metadata.name (a text)"),
        ("apiVersion: v1\nkind: Pod\nmetadata: x\n", 3, "metadata is a mapping"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: 5}\n",
            3,
            "metadata.namespace is a text",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: [x]\n",
            5,
            "a mapping of texts",
        ),
        ("apiVersion: v1\nkind: Pod\n  metadata: {name: a}\n", 3, "mapping values are not allowed"),
    ],
)
def test_errors_have_a_line(text: str, line: int, said: str) -> None:
    finding = parse_manifests("m.yaml", text).findings[0]
    assert finding.line == line
    assert said in finding.detail
    assert finding.severity.value == "error"


def test_unquoted_label_is_rejected() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    updateDay: 1\n"
    (finding,) = parse_manifests("m.yaml", text).findings
    assert (finding.severity.value, finding.line) == ("error", 6)
    assert 'label "updateDay" is not a text; quote it' in finding.detail


def test_duplicate_key_is_rejected() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n"
    (finding,) = parse_manifests("m.yaml", text).findings
    assert (finding.severity.value, finding.line) == ("error", 5)


def test_valid_documents_are_kept_next_to_invalid_ones() -> None:
    reading = parse_manifests("m.yaml", TWO + "---\n- nonsense\n---\nkind: Pod\n")
    assert len(reading.manifests) == 2
    assert [f.line for f in reading.findings] == [14, 16]


# --- envelopes ------------------------------------------------------------------------------------

CONFIGMAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: envelope
  namespace: shop
  annotations: {kubernetes-fleet.io/envelope-configmap: "true"}
data:
  web.yaml: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: shop}
  quota.yaml: |
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q, namespace: shop}
"""
ENVELOPE = """\
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: e, namespace: shop}
data:
  web.yaml:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: shop}
"""


def test_configmap_envelope_is_kept_with_a_warning() -> None:
    for text in (CONFIGMAP, CONFIGMAP[: CONFIGMAP.index("\ndata:")] + "\ndata: {fielda: one}\n"):
        manifests = parse_manifests("m.yaml", text).manifests
        inner = unwrap_envelopes(manifests)
        assert inner.manifests == manifests
        (finding,) = inner.findings
        assert (finding.severity.value, finding.line) == ("warning", 1)
        assert "Write a ResourceEnvelope instead" in finding.detail


def test_envelope_object_is_unwrapped() -> None:
    inner = unwrap_envelopes(parse_manifests("m.yaml", ENVELOPE).manifests)
    assert [(m.title, m.line) for m in inner.manifests] == [("Deployment shop/web", 5)]
    assert inner.findings == ()


def test_ordinary_configmap_is_kept() -> None:
    text = CONFIGMAP.replace(
        '  annotations: {kubernetes-fleet.io/envelope-configmap: "true"}\n', ""
    )
    manifests = parse_manifests("m.yaml", text).manifests
    assert unwrap_envelopes(manifests).manifests == manifests


def test_changed_body_becomes_a_manifest_again() -> None:
    web = parse_manifests("m.yaml", TWO).manifests[1]
    changed = build_changed_manifest({**web.body, "spec": {"replicas": 9}}, web)
    assert changed is not None
    assert (changed.name, changed.line, changed.body["spec"]) == ("web", web.line, {"replicas": 9})
    assert build_changed_manifest({"kind": "Deployment"}, web) is None


# --- objects excluded from selection --------------------------------------------------------------


def build_manifest_object(
    kind: str, group: str = "", name: str = "x", namespace: str = "shop", **body: object
) -> Manifest:
    return Manifest(group, "v1", kind, namespace, name, {}, body, 1)


@pytest.mark.parametrize(
    "manifest",
    [
        build_manifest_object("ConfigMap", namespace="default"),
        build_manifest_object("ConfigMap", namespace="kube-system"),
        build_manifest_object("ConfigMap", namespace="fleet-member-a"),
        build_manifest_object("Namespace", name="kube-public", namespace=""),
        build_manifest_object("Namespace", name="default", namespace=""),
        build_manifest_object("Pod"),
        build_manifest_object("Node", namespace=""),
        build_manifest_object("Event"),
        build_manifest_object("Event", "events.k8s.io"),
        build_manifest_object("Lease", "coordination.k8s.io"),
        build_manifest_object("NodeMetrics", "metrics.k8s.io"),
        build_manifest_object(
            "ClusterResourcePlacement", "placement.kubernetes-fleet.io", namespace=""
        ),
        build_manifest_object("MemberCluster", "cluster.kubernetes-fleet.io", namespace=""),
        build_manifest_object("ServiceImport", "networking.fleet.azure.com"),
        build_manifest_object("TrafficManagerProfile", "networking.fleet.azure.com"),
        build_manifest_object("ServiceImport", "multicluster.x-k8s.io"),
        build_manifest_object("ConfigMap", name="kube-root-ca.crt"),
        build_manifest_object("ServiceAccount", name="default"),
        build_manifest_object("Secret", type="kubernetes.io/service-account-token"),
        replace(
            build_manifest_object("EndpointSlice", "discovery.k8s.io"),
            labels={"endpointslice.kubernetes.io/managed-by": "c"},
        ),
    ],
    ids=lambda manifest: manifest.title,
)
def test_excluded_objects_are_never_selected(manifest: Manifest) -> None:
    assert find_selection_exclusion(manifest)


@pytest.mark.parametrize(
    "manifest",
    [
        build_manifest_object("ConfigMap"),
        build_manifest_object("Namespace", name="shop", namespace=""),
        build_manifest_object("Deployment", "apps"),
        build_manifest_object("ServiceAccount", name="web"),
        build_manifest_object("Secret", type="Opaque"),
        build_manifest_object("Endpoints"),
        build_manifest_object("EndpointSlice", "discovery.k8s.io"),
        build_manifest_object("ResourceEnvelope", "placement.kubernetes-fleet.io"),
        build_manifest_object("Pod", "example.com"),
        build_manifest_object("ServiceExport", "networking.fleet.azure.com"),
        build_manifest_object("TestResource", "test.kubernetes-fleet.io"),
    ],
    ids=lambda manifest: manifest.title,
)
def test_other_objects_may_be_selected(manifest: Manifest) -> None:
    assert find_selection_exclusion(manifest) is None


def test_endpoints_of_a_service_are_excluded() -> None:
    assert find_selection_exclusion(build_manifest_object("Endpoints"), {("shop", "x")})
    assert find_selection_exclusion(build_manifest_object("Endpoints"), {("other", "x")}) is None


@pytest.mark.parametrize("part", [{"continue": "abc"}, {"remainingItemCount": 2}])
def test_first_page_of_a_list_is_an_error(part: dict[str, object]) -> None:
    body = {"kind": "NamespaceList", "apiVersion": "v1", "metadata": part, "items": []}
    (problem,) = parse_manifests("m.json", json.dumps(body)).findings
    assert (problem.id, problem.severity.value) == ("truncated-file", "error")
    assert problem.detail.startswith("this list is not complete: more objects remain.")
    body["metadata"] = {"continue": "", "resourceVersion": "7"}
    assert parse_manifests("m.json", json.dumps(body)).findings == ()
