"""Kubernetes YAML to objects: what they are, where they stand, what is wrong with them."""

from __future__ import annotations

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


def only(text: str) -> Manifest:
    reading = parse_manifests("m.yaml", text)
    assert reading.findings == ()
    (manifest,) = reading.manifests
    return manifest


def test_documents_become_objects_in_order() -> None:
    reading = parse_manifests("m.yaml", TWO)
    first, second = reading.manifests
    assert (first.group, first.version, first.kind, first.namespace, first.name) == ("", "v1", "Namespace", "", "shop")
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
def test_the_namespace_when_none_is_written(head: str, namespace: str) -> None:
    assert only(f"{head}\nmetadata: {{name: x}}\n").namespace == namespace


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
        ("a: 1\n---\napiVersion: v1\nkind: Pod\n", 1, "no apiVersion and no kind and no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n", 1, "set metadata.name instead"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", 1, "no metadata.name (a text)"),
        ("apiVersion: v1\nkind: Pod\nmetadata: x\n", 3, "metadata is a mapping"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: 5}\n", 3, "metadata.namespace is a text"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: [x]\n", 5, "a mapping of texts"),
        ("apiVersion: v1\nkind: Pod\n  metadata: {name: a}\n", 3, "mapping values are not allowed"),
    ],
)
def test_what_is_wrong_has_a_line(text: str, line: int, said: str) -> None:
    finding = parse_manifests("m.yaml", text).findings[0]
    assert finding.line == line
    assert said in finding.detail
    assert finding.severity.value == "error"


def test_an_unquoted_label_is_refused() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    updateDay: 1\n"
    (finding,) = parse_manifests("m.yaml", text).findings
    assert (finding.severity.value, finding.line) == ("error", 6)
    assert 'label "updateDay" is not a text; quote it' in finding.detail


def test_a_key_that_stands_twice_is_refused() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n"
    (finding,) = parse_manifests("m.yaml", text).findings
    assert (finding.severity.value, finding.line) == ("error", 5)


def test_good_documents_survive_bad_neighbours() -> None:
    reading = parse_manifests("m.yaml", TWO + "---\n- nonsense\n---\nkind: Pod\n")
    assert len(reading.manifests) == 2
    assert [f.line for f in reading.findings] == [14, 16]


# --- envelopes ------------------------------------------------------------------------------------------

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


def test_a_configmap_envelope_is_unwrapped_with_a_warning() -> None:
    reading = parse_manifests("m.yaml", CONFIGMAP)
    assert [m.kind for m in reading.manifests] == ["ConfigMap"]
    inner = unwrap_envelopes(reading.manifests)
    assert [m.title for m in inner.manifests] == ["Deployment shop/web", "ResourceQuota shop/q"]
    (finding,) = inner.findings
    assert (finding.severity.value, finding.line) == ("warning", 1)
    assert "write a ResourceEnvelope instead" in finding.detail


def test_an_envelope_object_is_unwrapped() -> None:
    inner = unwrap_envelopes(parse_manifests("m.yaml", ENVELOPE).manifests)
    assert [(m.title, m.line) for m in inner.manifests] == [("Deployment shop/web", 5)]
    assert inner.findings == ()


def test_an_ordinary_configmap_stays() -> None:
    text = CONFIGMAP.replace('  annotations: {kubernetes-fleet.io/envelope-configmap: "true"}\n', "")
    manifests = parse_manifests("m.yaml", text).manifests
    assert unwrap_envelopes(manifests).manifests == manifests


def test_a_changed_body_becomes_a_manifest_again() -> None:
    web = parse_manifests("m.yaml", TWO).manifests[1]
    changed = build_changed_manifest({**web.body, "spec": {"replicas": 9}}, web)
    assert changed is not None
    assert (changed.name, changed.line, changed.body["spec"]) == ("web", web.line, {"replicas": 9})
    assert build_changed_manifest({"kind": "Deployment"}, web) is None


# --- what no placement selects ----------------------------------------------------------------------------


def thing(kind: str, group: str = "", name: str = "x", namespace: str = "shop", **body: object) -> Manifest:
    return Manifest(group, "v1", kind, namespace, name, {}, body, 1)


@pytest.mark.parametrize(
    "manifest",
    [
        thing("ConfigMap", namespace="default"),
        thing("ConfigMap", namespace="kube-system"),
        thing("ConfigMap", namespace="fleet-member-a"),
        thing("Namespace", name="kube-public", namespace=""),
        thing("Namespace", name="default", namespace=""),
        thing("Pod"),
        thing("Node", namespace=""),
        thing("Event"),
        thing("Event", "events.k8s.io"),
        thing("Lease", "coordination.k8s.io"),
        thing("NodeMetrics", "metrics.k8s.io"),
        thing("ClusterResourcePlacement", "placement.kubernetes-fleet.io", namespace=""),
        thing("MemberCluster", "cluster.kubernetes-fleet.io", namespace=""),
        thing("ServiceImport", "networking.fleet.azure.com"),
        thing("TrafficManagerProfile", "networking.fleet.azure.com"),
        thing("ServiceImport", "multicluster.x-k8s.io"),
        thing("ConfigMap", name="kube-root-ca.crt"),
        thing("ServiceAccount", name="default"),
        thing("Secret", type="kubernetes.io/service-account-token"),
        replace(thing("EndpointSlice", "discovery.k8s.io"), labels={"endpointslice.kubernetes.io/managed-by": "c"}),
    ],
    ids=lambda manifest: manifest.title,
)
def test_never_selected(manifest: Manifest) -> None:
    assert find_selection_exclusion(manifest)


@pytest.mark.parametrize(
    "manifest",
    [
        thing("ConfigMap"),
        thing("Namespace", name="shop", namespace=""),
        thing("Deployment", "apps"),
        thing("ServiceAccount", name="web"),
        thing("Secret", type="Opaque"),
        thing("Endpoints"),
        thing("EndpointSlice", "discovery.k8s.io"),
        thing("ResourceEnvelope", "placement.kubernetes-fleet.io"),
        thing("Pod", "example.com"),
        thing("ServiceExport", "networking.fleet.azure.com"),
        thing("TestResource", "test.kubernetes-fleet.io"),
    ],
    ids=lambda manifest: manifest.title,
)
def test_may_be_selected(manifest: Manifest) -> None:
    assert find_selection_exclusion(manifest) is None


def test_endpoints_of_a_service_are_its_own() -> None:
    assert find_selection_exclusion(thing("Endpoints"), {("shop", "x")})
    assert find_selection_exclusion(thing("Endpoints"), {("other", "x")}) is None
