"""Tests of objects of Kubernetes' own kinds against their schema.

The expected rejections are those of `kubectl apply`.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.field_validation import FieldShape
from nexusform.documents.yaml_documents import Node, TextPosition
from nexusform.domains.pods.importers.kubernetes_cross_field_checks import CHECKS
from nexusform.domains.pods.importers.kubernetes_schemas import (
    FORMS,
    _load_schemas,
    _SchemaValidator,
    check_name,
    list_schema_problems,
    parse_field_rules,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest, parse_manifests

EXAMPLES = Path(__file__).parents[4] / "examples"


def list_problems(text: str) -> list[Problem]:
    reading = parse_manifests("web.yaml", text)
    assert not reading.findings
    return [each for manifest in reading.manifests for each in list_schema_problems(manifest)]


def build_object(version: str, kind: str, **body: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "x", "namespace": "web"},
            **body,
        },
        sort_keys=False,
    )


def build_pod(**spec: Any) -> str:
    return build_object(
        "v1", "Pod", spec={"containers": [{"name": "web", "image": "web:1"}], **spec}
    )


def build_container(**of: Any) -> str:
    return build_pod(containers=[{"name": "web", "image": "web:1", **of}])


def build_deployment(**spec: Any) -> str:
    return build_workload("Deployment", **spec)


def build_workload(kind: str, **spec: Any) -> str:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return build_object("apps/v1", kind, spec={"selector": selector, "template": template, **spec})


def build_job(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "web", "image": "web:1"}]}
    return {"template": {"spec": pod}, **spec}


def test_misspelt_key_is_reported_with_line_and_suggestion() -> None:
    (problem,) = list_problems(build_deployment(replicsa=3))
    assert (
        problem.detail
        == 'Deployment web/x: unknown field "spec.replicsa". Did you mean "replicas"?'
    )
    assert problem.line == 18
    assert problem.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            build_deployment(template={"spec": {"containres": []}}),
            '"spec.template.spec.containres". Did you mean "con',
        ),
        (
            build_deployment(replicas="2"),
            "spec.replicas must be a whole number; write 2, without quotes.",
        ),
        (build_deployment(replicas="two"), 'spec.replicas must be a whole number, not "two".'),
        (build_deployment(replicas=True), "spec.replicas must be a whole number."),
        (
            build_deployment(paused="true"),
            "spec.paused must be true or false; write true, without quotes.",
        ),
        (build_deployment(strategy=[]), "spec.strategy must be a mapping."),
        (
            build_deployment(strategy={"rollingUpdate": {"maxSurge": []}}),
            "must be a whole number or a text",
        ),
        (build_pod(containers={"name": "web"}), "spec.containers must be a list."),
        (
            build_pod(nodeSelector={"ssd": True}),
            'spec.nodeSelector.ssd must be a text; write "true", with quotes.',
        ),
        (
            build_pod(hostNetwok=True),
            'unknown field "spec.hostNetwok". Did you mean "hostNetwork"?',
        ),
        (
            build_pod(
                containers=[{"name": "w", "image": "w", "env": [{"name": "P", "value": 8080}]}]
            ),
            'spec.containers[0].env[0].value must be a text; write "8080", with quotes.',
        ),
        (
            build_pod(
                containers=[{"name": "w", "image": "w", "resources": {"requests": {"cpu": "1GB"}}}]
            ),
            (
                'spec.containers[0].resources.requests.cpu is "1GB": it must be a quantity such '
                "as 500m or 2Gi."
            ),
        ),
        (
            build_object("v1", "ConfigMap", data={"a": 1}),
            'data.a must be a text; write "1", with quotes.',
        ),
        (
            build_object("v1", "ConfigMap", spec={}),
            'unknown field "spec". Known here: apiVersion, binaryData',
        ),
        (build_object("v1", "Service", spec={"ports": [{"prot": 80}]}), 'Did you mean "port"?'),
        (
            build_object(
                "batch/v1",
                "CronJob",
                spec={"schedul": "* * * * *", "jobTemplate": {"spec": build_job()}},
            ),
            'Did you mean "schedule"?',
        ),
        (build_workload("StatefulSet", servicName="x"), 'Did you mean "serviceName"?'),
        (build_workload("DaemonSet", updateStrateg={}), 'Did you mean "updateStrategy"?'),
        (
            build_object("batch/v1", "Job", spec=build_job(completion=3)),
            'Did you mean "completions"?',
        ),
        (
            build_object("networking.k8s.io/v1", "NetworkPolicy", spec={"ingres": []}),
            'Did you mean "ingress"?',
        ),
        (
            build_object("policy/v1", "PodDisruptionBudget", spec={"minAvailabl": 1}),
            'Did you mean "minAvailable"?',
        ),
    ],
)
def test_objects_rejected_by_kubectl_are_rejected(text: str, says: str) -> None:
    (problem,) = list_problems(text)
    assert says in problem.detail


@pytest.mark.parametrize(
    "text",
    [
        build_pod(
            priority=None,
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x"}}],
        ),
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
    text = build_object(
        "placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", data={"d.yaml": inner}
    )
    (problem,) = list_problems(text)
    assert problem.severity is Severity.WARNING
    assert 'unknown field "spec.replicsa"' in problem.detail


def test_examples_are_valid() -> None:
    for file in sorted(EXAMPLES.rglob("hub/*.yaml")):
        assert list_problems(file.read_text()) == [], file


@pytest.mark.of_domains("fleet")
def test_table_is_loaded_only_for_objects() -> None:
    code = (
        "import sys, nexusform.domains.fleet.types.fleet_hub_manifest; print('_fields' in "
        "str(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


POD = """
restartPolicy: RESTART
containers:
- name: web
  image: web:1
  ports:
  - {name: http, containerPort: 80}
  env:
  - {name: A, value: b}
  - {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}
  resources:
    requests: {cpu: 500m, memory: 1Gi}
    limits: {cpu: "1", memory: 1Gi}
  readinessProbe: {httpGet: {port: http}}
  livenessProbe: {tcpSocket: {port: 80}}
  volumeMounts:
  - {name: data, mountPath: /data}
volumes:
- {name: data, emptyDir: {}}
tolerations:
- {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3}
nodeSelector: {disk: ssd}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: cpus, operator: Gt, values: ["3"]}
"""
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": yaml.safe_load(POD.replace("RESTART", "Always")),
}
WORKLOAD = {
    "selector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "app", "operator": "Exists"}],
    },
    "template": TEMPLATE,
}
JOB = {"template": {"spec": yaml.safe_load(POD.replace("RESTART", "Never"))}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3}
PATHS = [
    {
        "pathType": "Prefix",
        "path": "/",
        "backend": {"service": {"name": "web", "port": {"number": 80}}},
    }
]
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
SUBJECTS = [{"kind": "ServiceAccount", "name": "s", "namespace": "web"}]
# These objects are valid; every case changes a part of one of them.
RIGHT: dict[str, dict[str, Any]] = {
    "Deployment": {"apiVersion": "apps/v1", "spec": WORKLOAD},
    "ReplicaSet": {"apiVersion": "apps/v1", "spec": WORKLOAD},
    "DaemonSet": {"apiVersion": "apps/v1", "spec": WORKLOAD},
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "spec": {
            **WORKLOAD,
            "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": CLAIM}],
        },
    },
    "ReplicationController": {"apiVersion": "v1", "spec": {"template": TEMPLATE}},
    "Pod": {"apiVersion": "v1", "spec": TEMPLATE["spec"]},
    "Job": {"apiVersion": "batch/v1", "spec": JOB},
    "CronJob": {
        "apiVersion": "batch/v1",
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": JOB}},
    },
    "Service": {"apiVersion": "v1", "spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
    "ConfigMap": {"apiVersion": "v1", "data": {"a.txt": "b"}, "binaryData": {"c": "ZA=="}},
    "Secret": {
        "apiVersion": "v1",
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "YQ==", "tls.key": "YQ=="},
    },
    "Namespace": {"apiVersion": "v1"},
    "PersistentVolumeClaim": {"apiVersion": "v1", "spec": CLAIM},
    "Role": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    },
    "ClusterRole": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    },
    "RoleBinding": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "roleRef": ROLE,
        "subjects": [{"kind": "ServiceAccount", "name": "s"}],
    },
    "ClusterRoleBinding": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "roleRef": ROLE,
        "subjects": SUBJECTS,
    },
    "HorizontalPodAutoscaler": {"apiVersion": "autoscaling/v2", "spec": SCALED},
    "PodDisruptionBudget": {"apiVersion": "policy/v1", "spec": {"minAvailable": "50%"}},
    "Ingress": {
        "apiVersion": "networking.k8s.io/v1",
        "spec": {"rules": [{"http": {"paths": PATHS}}]},
    },
    "NetworkPolicy": {"apiVersion": "networking.k8s.io/v1", "spec": {"policyTypes": ["Ingress"]}},
}
REQUIRED = "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
TEMPLATES = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
POD_PATH = "spec.template.spec"


def list_errors(kind: str, body: dict[str, Any], **metadata: Any) -> list[str]:
    return list_errors_of_manifests(read_manifests(kind, body, **metadata))


def read_manifests(kind: str, body: dict[str, Any], **metadata: Any) -> Sequence[Manifest]:
    head = {"kind": kind, "metadata": {"name": "x", "namespace": "web", **metadata}}
    text = yaml.safe_dump({**head, **body}, sort_keys=False)
    reading = parse_manifests("x.yaml", text)
    assert not reading.findings, reading.findings
    return reading.manifests


def list_errors_of_manifests(manifests: Iterable[Manifest]) -> list[str]:
    problems = [each for manifest in manifests for each in list_schema_problems(manifest)]
    return [each.detail.partition(": ")[2] for each in problems]


def change_object(kind: str, path: str, value: Any) -> dict[str, Any]:
    """Return a valid object with one part changed; the value None removes it."""
    body = copy.deepcopy(RIGHT[kind])
    *steps, last = (int(step) if step.isdecimal() else step for step in path.split("/"))
    part: Any = body
    for step in steps:
        part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return body


@pytest.mark.parametrize("kind", RIGHT)
def test_valid_objects_are_accepted(kind: str) -> None:
    assert list_errors(kind, RIGHT[kind]) == []


# --- the table ---------------------------------------------------------------------------------


def list_entries() -> Iterator[tuple[str, str, FieldShape]]:
    for name, rules in parse_field_rules().items():
        for field, rule in rules.items():
            yield name, field, rule


def build_reader() -> _SchemaValidator:
    (manifest,) = parse_manifests(
        "x.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: x}}"
    ).manifests
    return _SchemaValidator(manifest)


def of_type(name: str, data: dict[str, Any]) -> list[str]:
    node = Node(data, TextPosition(1, 1))
    return [problem.detail for problem in build_reader()._check_fields(node, name, "it")]


MAY_BE_FILLED_IN = "An API server rejects it, unless a webhook of the hub sets it."
WRONG = {
    "label": "A_b", "subdomain": "-a", "key": "a/b/c", "port": "UPPER",
    "target": 70000, "share": "10 %",
    "amount": "-1", "cron": "daily", "datakey": "a b",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "field", "rule"), [pytest.param(*e, id=f"{e[0]}.{e[1]}") for e in list_entries()]
)
def test_every_table_entry_rejects_a_value(name: str, field: str, rule: FieldShape) -> None:
    holds = _load_schemas().types[name][field]
    listed = holds.startswith("[")

    def list_rejections(value: Any) -> bool:
        data = [value] if listed else {"a": value} if holds.startswith("{") else value
        return any(f"it.{field}" in detail for detail in of_type(name, {field: data}))

    assert rule.is_required or rule.choices or rule.minimum is not None or rule.check_form
    if rule.is_required:
        assert f"Pod default/x: it.{field} is missing. {MAY_BE_FILLED_IN}" in of_type(name, {})
    if rule.choices:
        assert list_rejections("Nonsense")
        assert not any(list_rejections(choice) for choice in rule.choices)
    if rule.minimum is not None and rule.maximum is not None:
        assert list_rejections(rule.minimum - 1)
        assert list_rejections(rule.maximum + 1)
        assert not list_rejections(rule.minimum)
        assert not list_rejections(rule.maximum)
    if rule.check_form is not None:
        (form,) = (name for name, asks in FORMS.items() if asks is rule.check_form)
        assert list_rejections(WRONG[form])


def test_table_names_existing_fields() -> None:
    types = _load_schemas().types
    for name, field, rule in list_entries():
        assert field in types[name], (name, field)
        assert rule.check_form is None or rule.check_form in FORMS.values()
    assert "core_v1.Container" in types


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("port", ["http", "a-1", "8a"], ["", "80", "a--b", "-a", "a-", "A", "a" * 16]),
        ("target", [1, 65535, "http"], [0, 65536, "80"]),
        ("share", [0, "0%", "100%"], [-1, "5", "5 %", "%"]),
        ("amount", ["0", "500m", "1Gi", 2], ["-1", "-500m"]),
        (
            "cron",
            ["* * * * *", "@daily", "@every 1h", "*/5 1-3 * 1,2 MON"],
            ["* * * *", "@often", "TZ=UTC * * * * *"],
        ),
        ("datakey", ["a.b-c_D", ".x"], ["", ".", "..", "a/b", "a" * 254]),
    ],
)
def test_value_formats(form: str, right: list[Any], wrong: list[Any]) -> None:
    assert [FORMS[form](value) for value in right] == [""] * len(right)
    assert all(FORMS[form](value) for value in wrong)


# --- several fields together -------------------------------------------------------------------

CASES: list[tuple[str, str, Any, str]] = [
    *(
        (kind, "spec/selector/matchLabels/app", "api", "spec.selector does not match")
        for kind in TEMPLATES
    ),
    *((kind, "spec/selector", {"matchLabels": {}}, "spec.selector is empty") for kind in TEMPLATES),
    *(
        (kind, "spec/template/spec/restartPolicy", "Never", "here it must be Always.")
        for kind in TEMPLATES
    ),
    (
        "ReplicationController",
        "spec/template/spec/restartPolicy",
        "OnFailure",
        "here it must be Always.",
    ),
    ("Deployment", "spec/template/spec/activeDeadlineSeconds", 5, "cannot be set here"),
    (
        "Deployment",
        "spec/minReadySeconds",
        600,
        "spec.progressDeadlineSeconds must be more than minReadySeconds",
    ),
    (
        "Job",
        "spec/template/spec/restartPolicy",
        None,
        f"{POD_PATH}.restartPolicy must be OnFailure or Never",
    ),
    (
        "CronJob",
        "spec/jobTemplate/spec/template/spec/restartPolicy",
        "Always",
        "must be OnFailure or Never",
    ),
    (
        "Pod",
        "spec/containers/0/volumeMounts/0/name",
        "dta",
        'volumeMounts[0].name is "dta", and there is no',
    ),
    (
        "Deployment",
        f"{POD_PATH.replace('.', '/')}/volumes",
        [],
        'is "data", and there is no such volume.',
    ),
    (
        "Pod",
        "spec/initContainers",
        [{"name": "web", "image": "w"}],
        'is "web", the name of another container.',
    ),
    ("Pod", "spec/dnsPolicy", "None", "spec.dnsConfig.nameservers must name a server"),
    ("Pod", "spec/nodeSelector", {"a b": "c"}, 'spec.nodeSelector: key "a b": name part must'),
    ("Pod", "spec/nodeSelector", {"a": "b c"}, 'spec.nodeSelector.a is "b c": a valid label must'),
    (
        "Pod",
        "spec/containers/0/livenessProbe/successThreshold",
        2,
        "livenessProbe.successThreshold must be 1",
    ),
    (
        "Pod",
        "spec/containers/0/env/1/value",
        "x",
        "env[1].valueFrom cannot be combined with a value.",
    ),
    ("Pod", "spec/containers/0/env/1/valueFrom", {}, "valueFrom must name one source of the value"),
    (
        "Pod",
        "spec/containers/0/readinessProbe",
        {"periodSeconds": 5},
        "readinessProbe must have one of exec",
    ),
    ("Pod", "spec/containers/0/readinessProbe/grpc", {"port": 1}, "not httpGet and grpc."),
    (
        "Pod",
        "spec/volumes/0/hostPath",
        {"path": "/"},
        "can be of one kind only, not emptyDir and hostPath.",
    ),
    (
        "Pod",
        "spec/containers/0/resources/requests/cpu",
        "2",
        "requests.cpu is 2, more than the limit of 1.",
    ),
    (
        "Pod",
        "spec/tolerations/0",
        {"value": "x"},
        "tolerations[0].operator must be Exists when there is no key.",
    ),
    ("Pod", "spec/tolerations/0/key", "", ""),
    (
        "Pod",
        "spec/tolerations/0/value",
        "x",
        "tolerations[0].value must be empty when operator is Exists.",
    ),
    (
        "Pod",
        "spec/tolerations/0/effect",
        "NoSchedule",
        "tolerationSeconds is for the effect NoExecute only.",
    ),
    (
        "Pod",
        f"{REQUIRED}/nodeSelectorTerms/0/matchExpressions/0/values",
        ["1", "2"],
        "values must have one value for Gt.",
    ),
    (
        "Deployment",
        "spec/selector/matchExpressions/0/values",
        ["x"],
        "values must be empty for Exists.",
    ),
    (
        "Deployment",
        "spec/selector/matchExpressions/0/operator",
        "In",
        "values must have a value for In.",
    ),
    (
        "NetworkPolicy",
        "spec/podSelector/matchLabels",
        {"a": "-"},
        'podSelector.matchLabels.a is "-": a valid',
    ),
    (
        "Deployment",
        "spec/template/metadata/labels/x y",
        "z",
        'spec.template.metadata.labels: key "x y":',
    ),
    (
        "PersistentVolumeClaim",
        "spec/resources/requests",
        {"cpu": "1"},
        "resources.requests.storage is missing.",
    ),
    (
        "PodDisruptionBudget",
        "spec/maxUnavailable",
        1,
        "spec.maxUnavailable cannot be combined with minAvailable.",
    ),
    # An API server adds none; in a RoleBinding it may be absent.
    (
        "ClusterRoleBinding",
        "subjects",
        [{"kind": "ServiceAccount", "name": "s"}],
        "subjects[0].namespace must be set for a ServiceAccount.",
    ),
]


@pytest.mark.parametrize(("kind", "path", "value", "says"), CASES)
def test_conflicting_fields_are_rejected(kind: str, path: str, value: Any, says: str) -> None:
    problems = list_errors(kind, change_object(kind, path, value))
    assert [says in problem for problem in problems] == ([True] if says else [])


@cache
def read_cases() -> list[tuple[Sequence[Manifest], list[str]]]:
    """Return the manifests of each case, and their errors by all checks."""
    cases = [
        read_manifests(kind, change_object(kind, path, value)) for kind, path, value, _ in CASES
    ]
    return [(manifests, list_errors_of_manifests(manifests)) for manifests in cases]


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_rejects_an_object(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = read_cases()
    monkeypatch.delitem(CHECKS, name)  # type: ignore[arg-type]
    assert any(list_errors_of_manifests(manifests) != errors for manifests, errors in cases)


def test_consequences_of_a_slip_are_not_reported() -> None:
    slip = change_object("Deployment", "spec/selector", {"matchLabel": {"app": "web"}})
    (problem,) = list_errors("Deployment", slip)
    assert 'Did you mean "matchLabels"?' in problem
    slip = change_object(
        "Deployment",
        "spec/template/spec/containers/0/volumeMounts",
        [{"nam": "x", "mountPath": "/"}],
    )
    (problem,) = list_errors("Deployment", slip)
    assert 'Did you mean "name"?' in problem


def test_stateful_set_claims_are_volumes() -> None:
    mounts = [{"name": "disk", "mountPath": "/disk"}]
    body = change_object("StatefulSet", "spec/template/spec/containers/0/volumeMounts", mounts)
    assert list_errors("StatefulSet", body) == []


def test_missing_fields_are_reported_together() -> None:
    assert list_errors("Deployment", {"apiVersion": "apps/v1", "spec": {}}) == [
        f"spec.selector is missing. {MAY_BE_FILLED_IN}",
        f"spec.template is missing. {MAY_BE_FILLED_IN}",
    ]
    assert list_errors("Pod", {"apiVersion": "v1"}) == [f"spec is missing. {MAY_BE_FILLED_IN}"]
    assert list_errors("Pod", change_object("Pod", "spec/containers/0", {})) == [
        f"spec.containers[0].name is missing. {MAY_BE_FILLED_IN}",
        f"spec.containers[0].image is missing. {MAY_BE_FILLED_IN}",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "right"),
    [
        ("Deployment", "a.b-c", True),
        ("Deployment", "A", False),
        ("Namespace", "a.b", False),
        ("Namespace", "a-b", True),
        ("Service", "a.b", False),
        ("ClusterRole", "system:a.B", True),
        ("ClusterRole", "a/b", False),
        ("ClusterRole", "..", False),
        ("CronJob", "a" * 52, True),
        ("CronJob", "a" * 53, False),
        ("ConfigMap", "a" * 254, False),
    ],
)
def test_names(kind: str, name: str, right: bool) -> None:
    assert (check_name(kind, name) == "") is right


def test_object_names_and_labels() -> None:
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], name="A_b")[0].startswith(
        'metadata.name is "A_b": a lowercase'
    )
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], namespace="a.b")[0].startswith(
        'metadata.namespace is "a.b":'
    )
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], labels={"a": "b c"})[0].startswith(
        'metadata.labels.a is "b c":'
    )
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], annotations={"A.B/c": "d e"}) == []


def test_values_of_secret_data_are_not_shown() -> None:
    (problem,) = list_errors("Secret", change_object("Secret", "data/tls.key", 271828))
    assert "271828" not in problem
    assert "data.tls.key must be" in problem
