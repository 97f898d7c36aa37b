"""Tests of hub content as people publish it: namespaces, kinds, and content that is removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

Runner = Callable[..., tuple[int, str]]

MEMBERS = """
resource "fleet_member_cluster" "a" { name = "a" }
resource "fleet_member_cluster" "b" { name = "b" }
"""
NAMESPACE = """
resource "fleet_hub_manifest" "namespace" {
  yaml_body = "{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}"
}
"""
PLACEMENT = """
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "argocd"
  }
  policy { placement_type = "PickAll" }
}
"""
CHART = """apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: []
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: main}
---
apiVersion: argoproj.io/v1alpha1
kind: ClusterThing
metadata: {name: one}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: server}
"""
DEFINITION = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterthings.argoproj.io}
spec:
  group: argoproj.io
  scope: Cluster
  names: {plural: clusterthings, singular: clusterthing, kind: ClusterThing}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Runner:
    """Run a command in an empty directory; the result is the exit code and all output."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str]:
        code = run_command_line([*arguments, "-no-color"])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run_command


def write_files(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def build_manifest_block(text: str, namespace: str = "") -> str:
    """Return a hub manifest with this YAML text."""
    argument = f'namespace = "{namespace}"' if namespace else ""
    return f'resource "fleet_hub_manifest" "h" {{\n{argument}\nyaml_body = <<Y\n{text}Y\n}}\n'


def read_selected_objects(run: Runner) -> list[str]:
    """Return the objects selected by the placement in state: `kind namespace/name`."""
    document = json.loads(run("show", "-json")[1])
    (values,) = (
        resource["values"]
        for resource in document["values"]["root_module"]["resources"]
        if resource["type"] == "fleet_cluster_resource_placement"
    )
    selected: list[dict[str, Any]] = values["selected_resources"]
    return sorted(f"{item['kind']} {item['namespace']}/{item['name']}" for item in selected)


def write_chart(namespace: str = "") -> None:
    """Write a chart in two files, read by the data source with or without a namespace."""
    argument = f'namespace = "{namespace}"' if namespace else ""
    data = f"""
data "kubernetes_manifests" "chart" {{
  directory = "chart"
  {argument}
}}
resource "fleet_hub_manifest" "chart" {{
  for_each  = data.kubernetes_manifests.chart.hub_objects
  yaml_body = each.value
}}
"""
    write_files(
        {
            "main.nf.hcl": MEMBERS + NAMESPACE + PLACEMENT + data,
            "chart/objects.yaml": CHART,
            "chart/zz.yaml": DEFINITION,
        }
    )


def test_objects_without_namespace_are_one_warning_with_their_count(run: Runner) -> None:
    write_chart()
    code, printed = run("plan")
    assert code == 0
    assert printed.count("object-without-namespace") == 1, printed
    joined = " ".join(printed.split())
    # Nothing defines AppProject; ClusterThing is defined as cluster-scoped.
    assert (
        "3 objects have no namespace: 2 read as default, 1 as cluster-scoped (no definition of "
        'AppProject); the placement selects argocd. Set namespace = "argocd".'
    ) in joined


def test_unnamed_objects_of_kinds_that_nothing_defines_are_counted(run: Runner) -> None:
    project = CHART.split("---\n")[2]
    write_files({"main.nf.hcl": MEMBERS + NAMESPACE + PLACEMENT + build_manifest_block(project)})
    joined = " ".join(run("plan")[1].split())
    assert (
        "1 object has no namespace: read as cluster-scoped (no definition of AppProject)"
    ) in joined
    # A placement that selects it as it is misses nothing.
    placement = (
        PLACEMENT.replace('"v1"', '"v1alpha1"\n group = "argoproj.io"')
        .replace('"Namespace"', '"AppProject"')
        .replace('"argocd"', '"main"')
    )
    write_files({"main.nf.hcl": MEMBERS + placement + build_manifest_block(project)})
    assert "object-without-namespace" not in run("plan")[1]


def test_namespace_of_a_chart_reaches_its_namespaced_objects(run: Runner) -> None:
    write_chart("argocd")
    code, printed = run("apply", "-auto-approve")
    assert (code, "object-without-namespace" in printed) == (0, False), printed
    # The definition in another file says that ClusterThing is cluster-scoped.
    assert read_selected_objects(run) == [
        "AppProject argocd/main",
        "ConfigMap argocd/settings",
        "Namespace /argocd",
        "ServiceAccount argocd/server",
    ]
    assert 'h["ClusterRole argocd' not in printed
    assert "No changes" in run("plan")[1]


def test_namespace_of_a_manifest_is_that_of_its_objects(run: Runner) -> None:
    block = build_manifest_block(CHART, "argocd")
    write_files({"main.nf.hcl": MEMBERS + NAMESPACE + PLACEMENT + block})
    code, printed = run("plan", "-out=p.nfplan")
    assert (code, "object-without-namespace" in printed) == (0, False), printed
    code, printed = run("export", "-format=manifests", "p.nfplan")
    assert code == 0, printed
    assert "namespace: argocd" in printed
    assert run("apply", "-auto-approve", "p.nfplan")[0] == 0
    assert "ConfigMap argocd/settings" in read_selected_objects(run)


@pytest.mark.parametrize("reader", ["resource", "data"])
def test_object_of_another_namespace_is_an_error(run: Runner, reader: str) -> None:
    text = CHART.replace("{name: settings}", "{name: settings, namespace: other}")
    if reader == "resource":
        block = build_manifest_block(text, "argocd")
        write_files({"main.nf.hcl": block})
    else:
        write_chart("argocd")
        write_files({"chart/objects.yaml": text})
    code, printed = run("plan")
    joined = " ".join(printed.replace("│", " ").split())
    assert code == 1
    assert (
        'ConfigMap other/settings: metadata.namespace is "other", but namespace = "argocd" is set.'
        in joined
    ), printed


def test_placement_of_default_needs_no_namespace(run: Runner) -> None:
    placement = PLACEMENT.replace('kind    = "Namespace"', 'kind    = "ClusterRole"').replace(
        'version = "v1"', 'group   = "rbac.authorization.k8s.io"\n    version = "v1"'
    )
    role = CHART.split("---\n")[1]
    block = build_manifest_block(role)
    write_files({"main.nf.hcl": MEMBERS + placement + block})
    code, printed = run("plan")
    assert (code, "object-without-namespace" in printed) == (0, False), printed
