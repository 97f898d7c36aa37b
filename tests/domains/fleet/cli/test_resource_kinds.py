"""Tests of kinds, versions and scopes of selectors and objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.fleet.cli.test_content_hash import list_mappings
from tests.domains.fleet.cli.test_hub_content import Runner, run, write_files

__all__ = ["run"]

MEMBERS = """
resource "fleet_member_cluster" "a" { name = "a" }
resource "fleet_hub_manifest" "h" { yaml_body = file("hub.yaml") }
resource "fleet_cluster_resource_placement" "p" { manifest = file("p.yaml") }
"""
HUB = """apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: []
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1alpha1
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
WIDGET = """---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: web}
"""
PLACEMENT = """apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: p}
spec:
  policy: {placementType: PickAll}
  resourceSelectors:
"""


def plan(run: Runner, *selectors: str, hub: str = HUB + WIDGET) -> tuple[int, str]:
    lines = "".join(f"  - {{{selector}}}\n" for selector in selectors)
    write_files({"main.nf.hcl": MEMBERS, "hub.yaml": hub, "p.yaml": PLACEMENT + lines})
    code, printed = run("plan")
    return code, " ".join(printed.replace("│", " ").split())


NAMESPACE = 'group: "", version: v1, kind: Namespace, name: web'
WITH_SELECTED = ", selectionScope: NamespaceWithResourceSelectors"


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (
            "group: rbac.authorization.k8s.io, version: v1beta1, kind: ClusterRole, name: reader",
            "v1beta1; write rbac.authorization.k8s.io/v1.",
        ),
        (
            "group: apiextensions.k8s.io, version: v1beta1, kind: CustomResourceDefinition",
            "CustomResourceDefinition is not served as apiextensions.k8s.io/v1beta1;",
        ),
        (
            'group: "", version: v1, kind: namespace, name: web',
            "The core API group has no kind namespace; write Namespace.",
        ),
        (
            "group: example.com, version: v1, kind: Widget, name: w",
            "Widget is not a cluster scoped resource",
        ),
        (
            "group: example.com, version: v1, kind: widget, name: w",
            "The API group example.com has no kind widget; write Widget.",
        ),
        (
            "group: apps, version: v1, kind: Deployment, name: d",
            "Deployment is not a cluster scoped resource",
        ),
    ],
)
def test_selector_of_a_kind_that_no_server_serves_is_an_error(
    run: Runner, selector: str, reason: str
) -> None:
    code, printed = plan(run, selector)
    assert code == 1
    assert reason in printed, printed


def test_version_that_a_definition_lacks_is_an_error(run: Runner) -> None:
    selectors = (
        NAMESPACE + WITH_SELECTED,
        "group: example.com, version: v1alpha1, kind: Widget, name: w",
    )
    code, printed = plan(run, *selectors)
    assert code == 1
    assert "Widget is not served as example.com/v1alpha1; write example.com/v1." in printed
    code, printed = plan(run, NAMESPACE, hub=HUB + WIDGET.replace("/v1", "/v1alpha1"))
    assert code == 1
    assert "Widget web/w: Widget is not served as example.com/v1alpha1" in printed


@pytest.mark.parametrize(
    ("api_version", "kind", "served"),
    [
        ("rbac.authorization.k8s.io/v1beta1", "ClusterRole", "rbac.authorization.k8s.io/v1."),
        ("policy/v1beta1", "PodDisruptionBudget", "policy/v1."),
        ("batch/v1beta1", "CronJob", "batch/v1."),
        ("networking.k8s.io/v1beta1", "Ingress", "networking.k8s.io/v1."),
        ("extensions/v1beta1", "Ingress", "networking.k8s.io/v1."),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v1 or autoscaling/v2."),
    ],
)
def test_object_in_an_old_version_is_an_error(
    run: Runner, api_version: str, kind: str, served: str
) -> None:
    old = f"---\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: old, namespace: web}}\n"
    code, printed = plan(run, NAMESPACE, hub=HUB + old)
    assert code == 1
    assert f"{kind} is not served as {api_version}; write {served}" in printed, printed


DEFINITION = """---
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: definitions}
spec:
  policy: {placementType: PickFixed, clusterNames: [a]}
  resourceSelectors:
  - {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition}
"""
SECOND = """
resource "fleet_member_cluster" "b" { name = "b" }
resource "fleet_cluster_resource_placement" "definitions" { manifest = file("d.yaml") }
"""


def test_cluster_without_the_definition_of_its_objects_is_a_warning(run: Runner) -> None:
    definition = DEFINITION.removeprefix("---\n")
    write_files({"second.nf.hcl": SECOND, "d.yaml": definition})
    code, printed = plan(run, NAMESPACE)
    assert code == 0, printed
    text = "no placement adds the CustomResourceDefinition of Widget (example.com) to b"
    assert f"missing-cluster-definition p: {text}" in printed, printed
    write_files({"d.yaml": definition.replace("[a]", "[a, b]")})
    assert "missing-cluster-definition" not in plan(run, NAMESPACE)[1]
    # Without the objects, the definition is not needed.
    write_files({"d.yaml": definition})
    assert "missing-cluster-definition" not in plan(run, NAMESPACE, hub=HUB)[1]


def test_served_kinds_are_accepted(run: Runner) -> None:
    code, printed = plan(
        run,
        NAMESPACE + WITH_SELECTED,
        "group: example.com, version: v1, kind: Widget, name: w",
        "group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: reader",
        "group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition",
        "group: admissionregistration.k8s.io, version: v1beta1, kind: ValidatingAdmissionPolicy",
        "group: storagemigration.k8s.io, version: v1beta1, kind: StorageVersionMigration",
        "group: resource.k8s.io, version: v1alpha3, kind: DeviceTaintRule",
    )
    assert code == 0, printed
    assert "unknown-resource-kind" not in printed
    assert "a -> Bound" in printed


def test_custom_resource_without_namespace_is_in_default(run: Runner) -> None:
    """Its definition is in another block."""
    widget = WIDGET.removeprefix("---\n").replace(", namespace: web", "")
    block = f'resource "fleet_hub_manifest" "w" {{\n  yaml_body = <<Y\n{widget}Y\n}}\n'
    write_files({"widget.nf.hcl": block})
    code, printed = plan(run, NAMESPACE, hub=HUB)
    assert code == 0, printed
    assert "1 object has no namespace: read as default; the placement selects web." in printed


ISSUERS = HUB.replace("scope: Namespaced", "scope: Cluster")


def test_cluster_scoped_custom_resource_has_no_namespace(run: Runner) -> None:
    """Its definition is in another block, and its block has a namespace."""
    widget = WIDGET.removeprefix("---\n").replace(", namespace: web", "")
    selectors = (NAMESPACE, "group: example.com, version: v1, kind: Widget, name: w")

    def write_block(line: str) -> None:
        text = f'resource "fleet_hub_manifest" "w" {{\n  {line}\n  yaml_body = <<Y\n{widget}Y\n}}\n'
        write_files({"widget.nf.hcl": text})

    write_block('namespace = "web"')
    code, printed = plan(run, *selectors, hub=ISSUERS)
    assert code == 0, printed
    assert run("apply", "-auto-approve")[0] == 0
    (state_file,) = Path().glob("**/*.nfstate")
    text = state_file.read_text()
    ((digest, body),) = [
        (digest, body)
        for item in list_mappings(json.loads(text))
        for digest, body in (item.get("bodies") or {}).items()
        if body["kind"] == "Widget"
    ]
    assert body["metadata"] == {"name": "w"}
    # Earlier versions recorded the namespace.
    earlier = json.loads(text.replace(digest, "0" * len(digest)))
    for item in list_mappings(earlier):
        for recorded in (item.get("bodies") or {}).values():
            if recorded["kind"] == "Widget":
                recorded["metadata"]["namespace"] = "web"
    state_file.write_text(json.dumps(earlier))
    assert "No changes" in run("plan")[1]
    # An edit of the namespace alone is none of the object.
    write_block("")
    assert "resources_changed" not in run("plan")[1]


@pytest.mark.parametrize("name", ["nope", "kube-system"])
def test_content_of_a_missing_namespace_schedules_nothing(run: Runner, name: str) -> None:
    code, printed = plan(
        run,
        NAMESPACE.replace("name: web", f"name: {name}") + WITH_SELECTED,
        "group: apps, version: v1, kind: Deployment, name: d",
    )
    assert code == 0, printed
    assert "invalid-resource-selectors" in printed
    assert "requires exactly one namespace, but no namespaces were" in printed
    assert "Bound" not in printed


def test_kind_that_nothing_defines_is_a_warning(run: Runner) -> None:
    code, printed = plan(run, NAMESPACE, "group: acme.io, version: v1, kind: Issuer, name: x")
    assert code == 0, printed
    assert "unknown-resource-kind" in printed


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_resource_placement_selects_in_a_reserved_namespace(run: Runner, namespace: str) -> None:
    """A running hub places them, and its Works carry the objects."""
    placement = f"""
resource "fleet_member_cluster" "a" {{ name = "a" }}
resource "fleet_resource_placement" "p" {{
  name      = "p"
  namespace = "{namespace}"
  resource_selector {{
    version = "v1"
    kind    = "ConfigMap"
  }}
  policy {{ placement_type = "PickAll" }}
}}
resource "fleet_hub_manifest" "h" {{
  yaml_body = <<Y
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {namespace}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: kube-root-ca.crt, namespace: {namespace}}}
Y
}}
"""
    write_files({"main.nf.hcl": placement})
    code, printed = run("apply", "-auto-approve")
    assert code == 0, printed
    assert "empty-resource-selection" not in printed
    shown = run("state", "show", "fleet_resource_placement.p")[1]
    assert '"settings"' in shown, shown
    assert "kube-root-ca.crt" not in shown


OWNED = """---
apiVersion: apps/v1
kind: KIND
metadata:
  name: owned
  namespace: web
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: u, controller: true}]
REST
"""
REPLICA_SET = """spec:
  replicas: 2
  selector: {matchLabels: {a: d}}
  template:
    metadata: {labels: {a: d}}
    spec: {containers: [{name: c, image: i}]}
"""


def test_objects_of_a_controller_are_not_selected(run: Runner) -> None:
    owned = OWNED.replace("KIND", "ReplicaSet").replace("REST\n", REPLICA_SET)
    revision = OWNED.replace("KIND", "ControllerRevision").replace("REST", "revision: 1")
    revision = revision.replace("name: owned", "name: revision")
    free = owned.replace("name: owned", "name: free")
    start = free.index("  ownerReferences")
    free = free[:start] + free[free.index("spec:", start) :]
    write_files(
        {
            "main.nf.hcl": MEMBERS,
            "hub.yaml": HUB + owned + revision + free,
            "p.yaml": f"{PLACEMENT}  - {{{NAMESPACE}}}\n",
        }
    )
    code, printed = run("apply", "-auto-approve")
    assert code == 0, printed
    shown = run("state", "show", "fleet_cluster_resource_placement.p")[1]
    assert '"free"' in shown, shown
    assert '"owned"' not in shown
    assert '"revision"' not in shown
