"""Tests of objects of Kubernetes' own kinds against their schema, with the rejections of `kubectl apply`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.pods.importers.kubernetes_schemas import list_schema_problems
from nexusform.domains.pods.importers.manifest_parser import parse_manifests

EXAMPLES = Path(__file__).parents[4] / "examples"


def list_problems(text: str) -> list[Problem]:
    reading = parse_manifests("web.yaml", text)
    assert not reading.findings
    return [each for manifest in reading.manifests for each in list_schema_problems(manifest)]


def build_object(version: str, kind: str, **body: Any) -> str:
    return yaml.safe_dump(
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "web"}, **body}, sort_keys=False
    )


def build_pod(**spec: Any) -> str:
    return build_object("v1", "Pod", spec={"containers": [{"name": "web", "image": "web:1"}], **spec})


def build_container(**of: Any) -> str:
    return build_pod(containers=[{"name": "web", "image": "web:1", **of}])


def build_deployment(**spec: Any) -> str:
    return build_workload("Deployment", **spec)


def build_workload(kind: str, **spec: Any) -> str:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    selector = {"matchLabels": {"app": "web"}}
    return build_object("apps/v1", kind, spec={"selector": selector, "template": template, **spec})


def build_job(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "web", "image": "web:1"}]}
    return {"template": {"spec": pod}, **spec}


def test_misspelt_key_is_reported_with_line_and_suggestion() -> None:
    (problem,) = list_problems(build_deployment(replicsa=3))
    assert problem.detail == 'Deployment web/x: unknown field "spec.replicsa". Did you mean "replicas"?'
    assert problem.line == 18
    assert problem.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (build_deployment(template={"spec": {"containres": []}}), '"spec.template.spec.containres". Did you mean "con'),
        (build_deployment(replicas="2"), "spec.replicas must be a whole number; write 2, without quotes."),
        (build_deployment(replicas="two"), 'spec.replicas must be a whole number, not "two".'),
        (build_deployment(replicas=True), "spec.replicas must be a whole number."),
        (build_deployment(paused="true"), "spec.paused must be true or false; write true, without quotes."),
        (build_deployment(strategy=[]), "spec.strategy must be a mapping."),
        (build_deployment(strategy={"rollingUpdate": {"maxSurge": []}}), "must be a whole number or a text"),
        (build_pod(containers={"name": "web"}), "spec.containers must be a list."),
        (build_pod(nodeSelector={"ssd": True}), 'spec.nodeSelector.ssd must be a text; write "true", with quotes.'),
        (build_pod(hostNetwok=True), 'unknown field "spec.hostNetwok". Did you mean "hostNetwork"?'),
        (
            build_pod(containers=[{"name": "w", "image": "w", "env": [{"name": "P", "value": 8080}]}]),
            'spec.containers[0].env[0].value must be a text; write "8080", with quotes.',
        ),
        (
            build_pod(containers=[{"name": "w", "image": "w", "resources": {"requests": {"cpu": "1GB"}}}]),
            'spec.containers[0].resources.requests.cpu is "1GB": it must be a quantity such as 500m or 2Gi.',
        ),
        (build_object("v1", "ConfigMap", data={"a": 1}), 'data.a must be a text; write "1", with quotes.'),
        (build_object("v1", "ConfigMap", spec={}), 'unknown field "spec". Known here: apiVersion, binaryData'),
        (build_object("v1", "Service", spec={"ports": [{"prot": 80}]}), 'Did you mean "port"?'),
        (
            build_object("batch/v1", "CronJob", spec={"schedul": "* * * * *", "jobTemplate": {"spec": build_job()}}),
            'Did you mean "schedule"?',
        ),
        (build_workload("StatefulSet", servicName="x"), 'Did you mean "serviceName"?'),
        (build_workload("DaemonSet", updateStrateg={}), 'Did you mean "updateStrategy"?'),
        (build_object("batch/v1", "Job", spec=build_job(completion=3)), 'Did you mean "completions"?'),
        (build_object("networking.k8s.io/v1", "NetworkPolicy", spec={"ingres": []}), 'Did you mean "ingress"?'),
        (build_object("policy/v1", "PodDisruptionBudget", spec={"minAvailabl": 1}), 'Did you mean "minAvailable"?'),
    ],
)
def test_objects_rejected_by_kubectl_are_rejected(text: str, says: str) -> None:
    (problem,) = list_problems(text)
    assert says in problem.detail


@pytest.mark.parametrize(
    "text",
    [
        build_pod(priority=None, volumes=[{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x"}}]),
        build_container(resources={"requests": {"cpu": 2, "memory": "1Gi", "x.io/y": "1"}}),
        build_container(livenessProbe={"httpGet": {"port": "http", "path": "/"}}),
        build_object("v1", "Service", spec={"ports": [{"port": 80, "targetPort": "http"}]}),
        build_object("example.com/v1", "Widget", spec={"replicsa": 3}),
        build_object("extensions/v1beta1", "Deployment", spec={"replicsa": 3}),
        build_pod() + "status: {anything: [1]}",
        build_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"x-any": 1}),
    ],
)
def test_valid_and_unknown_objects_are_accepted(text: str) -> None:
    assert list_problems(text) == []


def test_secret_values_are_not_shown() -> None:
    (problem,) = list_problems(build_object("v1", "Secret", stringData={"pin": 472913}))
    assert problem.detail == "Secret web/x: stringData.pin must be a text."


def test_errors_in_an_envelope_are_warnings() -> None:
    inner = yaml.safe_load(build_deployment(replicsa=3))
    text = build_object("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", data={"d.yaml": inner})
    (problem,) = list_problems(text)
    assert problem.severity is Severity.WARNING
    assert 'unknown field "spec.replicsa"' in problem.detail


def test_examples_are_valid() -> None:
    for file in sorted(EXAMPLES.rglob("hub/*.yaml")):
        assert list_problems(file.read_text()) == [], file


@pytest.mark.of_domains("fleet")
def test_table_is_loaded_only_for_objects() -> None:
    code = "import sys, nexusform.domains.fleet.types.fleet_hub_manifest; print('_fields' in str(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
