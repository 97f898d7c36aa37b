"""Objects of Kubernetes' own kinds beside their schema, as `kubectl apply` refuses them."""

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


def found(text: str) -> list[Problem]:
    reading = parse_manifests("web.yaml", text)
    assert not reading.findings
    return [each for manifest in reading.manifests for each in list_schema_problems(manifest)]


def object_of(version: str, kind: str, **body: Any) -> str:
    return yaml.safe_dump(
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "web"}, **body}, sort_keys=False
    )


def pod(**spec: Any) -> str:
    return object_of("v1", "Pod", spec={"containers": [{"name": "web", "image": "web:1"}], **spec})


def container(**of: Any) -> str:
    return pod(containers=[{"name": "web", "image": "web:1", **of}])


def deployment(**spec: Any) -> str:
    return workload("Deployment", **spec)


def workload(kind: str, **spec: Any) -> str:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    selector = {"matchLabels": {"app": "web"}}
    return object_of("apps/v1", kind, spec={"selector": selector, "template": template, **spec})


def job(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "web", "image": "web:1"}]}
    return {"template": {"spec": pod}, **spec}


def test_a_misspelt_key_is_told_with_its_line_and_the_right_one() -> None:
    (problem,) = found(deployment(replicsa=3))
    assert problem.detail == 'Deployment web/x: unknown field "spec.replicsa". Did you mean "replicas"?'
    assert problem.line == 18
    assert problem.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (deployment(template={"spec": {"containres": []}}), '"spec.template.spec.containres". Did you mean "con'),
        (deployment(replicas="2"), "spec.replicas must be a whole number; write 2, without quotes."),
        (deployment(replicas="two"), 'spec.replicas must be a whole number, not "two".'),
        (deployment(replicas=True), "spec.replicas must be a whole number."),
        (deployment(paused="true"), "spec.paused must be true or false; write true, without quotes."),
        (deployment(strategy=[]), "spec.strategy must be a mapping."),
        (deployment(strategy={"rollingUpdate": {"maxSurge": []}}), "must be a whole number or a text"),
        (pod(containers={"name": "web"}), "spec.containers must be a list."),
        (pod(nodeSelector={"ssd": True}), 'spec.nodeSelector.ssd must be a text; write "true", with quotes.'),
        (pod(hostNetwok=True), 'unknown field "spec.hostNetwok". Did you mean "hostNetwork"?'),
        (
            pod(containers=[{"name": "w", "image": "w", "env": [{"name": "P", "value": 8080}]}]),
            'spec.containers[0].env[0].value must be a text; write "8080", with quotes.',
        ),
        (
            pod(containers=[{"name": "w", "image": "w", "resources": {"requests": {"cpu": "1GB"}}}]),
            'spec.containers[0].resources.requests.cpu is "1GB": it must be a quantity such as 500m or 2Gi.',
        ),
        (object_of("v1", "ConfigMap", data={"a": 1}), 'data.a must be a text; write "1", with quotes.'),
        (object_of("v1", "ConfigMap", spec={}), 'unknown field "spec". Known here: apiVersion, binaryData'),
        (object_of("v1", "Service", spec={"ports": [{"prot": 80}]}), 'Did you mean "port"?'),
        (
            object_of("batch/v1", "CronJob", spec={"schedul": "* * * * *", "jobTemplate": {"spec": job()}}),
            'Did you mean "schedule"?',
        ),
        (workload("StatefulSet", servicName="x"), 'Did you mean "serviceName"?'),
        (workload("DaemonSet", updateStrateg={}), 'Did you mean "updateStrategy"?'),
        (object_of("batch/v1", "Job", spec=job(completion=3)), 'Did you mean "completions"?'),
        (object_of("networking.k8s.io/v1", "NetworkPolicy", spec={"ingres": []}), 'Did you mean "ingress"?'),
        (object_of("policy/v1", "PodDisruptionBudget", spec={"minAvailabl": 1}), 'Did you mean "minAvailable"?'),
    ],
)
def test_what_kubectl_refuses_is_refused(text: str, says: str) -> None:
    (problem,) = found(text)
    assert says in problem.detail


@pytest.mark.parametrize(
    "text",
    [
        pod(priority=None, volumes=[{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x"}}]),
        container(resources={"requests": {"cpu": 2, "memory": "1Gi", "x.io/y": "1"}}),
        container(livenessProbe={"httpGet": {"port": "http", "path": "/"}}),
        object_of("v1", "Service", spec={"ports": [{"port": 80, "targetPort": "http"}]}),
        object_of("example.com/v1", "Widget", spec={"replicsa": 3}),
        object_of("extensions/v1beta1", "Deployment", spec={"replicsa": 3}),
        pod() + "status: {anything: [1]}",
        object_of("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"x-any": 1}),
    ],
)
def test_what_is_right_or_nobody_knows_is_let_pass(text: str) -> None:
    assert found(text) == []


def test_what_a_secret_holds_is_not_shown() -> None:
    (problem,) = found(object_of("v1", "Secret", stringData={"pin": 472913}))
    assert problem.detail == "Secret web/x: stringData.pin must be a text."


def test_objects_in_an_envelope_are_told_as_a_warning() -> None:
    inner = yaml.safe_load(deployment(replicsa=3))
    text = object_of("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", data={"d.yaml": inner})
    (problem,) = found(text)
    assert problem.severity is Severity.WARNING
    assert 'unknown field "spec.replicsa"' in problem.detail


def test_the_examples_are_right() -> None:
    for file in sorted(EXAMPLES.rglob("hub/*.yaml")):
        assert found(file.read_text()) == [], file


@pytest.mark.of_domains("fleet")
def test_the_table_is_read_only_where_there_are_objects() -> None:
    code = "import sys, nexusform.domains.fleet.types.fleet_hub_manifest; print('_fields' in str(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
