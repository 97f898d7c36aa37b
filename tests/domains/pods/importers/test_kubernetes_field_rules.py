"""Tests of the API server's rules for fields of Kubernetes' kinds, and for combinations of fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from nexusform.documents.field_validation import FieldShape
from nexusform.documents.yaml_documents import Node, TextPosition
from nexusform.domains.pods.importers.kubernetes_cross_field_checks import CHECKS
from nexusform.domains.pods.importers.kubernetes_field_rules import FORMS, check_name, parse_field_rules
from nexusform.domains.pods.importers.kubernetes_schemas import _load_schemas, _SchemaValidator, list_schema_problems
from nexusform.domains.pods.importers.manifest_parser import parse_manifests

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
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": yaml.safe_load(POD.replace("RESTART", "Always"))}
WORKLOAD = {
    "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]},
    "template": TEMPLATE,
}
JOB = {"template": {"spec": yaml.safe_load(POD.replace("RESTART", "Never"))}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3}
PATHS = [{"pathType": "Prefix", "path": "/", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
SUBJECTS = [{"kind": "ServiceAccount", "name": "s", "namespace": "web"}]
# These objects are valid; every case changes a part of one of them.
RIGHT: dict[str, dict[str, Any]] = {
    "Deployment": {"apiVersion": "apps/v1", "spec": WORKLOAD},
    "ReplicaSet": {"apiVersion": "apps/v1", "spec": WORKLOAD},
    "DaemonSet": {"apiVersion": "apps/v1", "spec": WORKLOAD},
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "spec": {**WORKLOAD, "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": CLAIM}]},
    },
    "ReplicationController": {"apiVersion": "v1", "spec": {"template": TEMPLATE}},
    "Pod": {"apiVersion": "v1", "spec": TEMPLATE["spec"]},
    "Job": {"apiVersion": "batch/v1", "spec": JOB},
    "CronJob": {"apiVersion": "batch/v1", "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": JOB}}},
    "Service": {"apiVersion": "v1", "spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
    "ConfigMap": {"apiVersion": "v1", "data": {"a.txt": "b"}, "binaryData": {"c": "ZA=="}},
    "Secret": {"apiVersion": "v1", "type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}},
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
    "ClusterRoleBinding": {"apiVersion": "rbac.authorization.k8s.io/v1", "roleRef": ROLE, "subjects": SUBJECTS},
    "HorizontalPodAutoscaler": {"apiVersion": "autoscaling/v2", "spec": SCALED},
    "PodDisruptionBudget": {"apiVersion": "policy/v1", "spec": {"minAvailable": "50%"}},
    "Ingress": {"apiVersion": "networking.k8s.io/v1", "spec": {"rules": [{"http": {"paths": PATHS}}]}},
    "NetworkPolicy": {"apiVersion": "networking.k8s.io/v1", "spec": {"policyTypes": ["Ingress"]}},
}
REQUIRED = "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
TEMPLATES = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
POD_PATH = "spec.template.spec"


def list_errors(kind: str, body: dict[str, Any], **metadata: Any) -> list[str]:
    head = {"kind": kind, "metadata": {"name": "x", "namespace": "web", **metadata}}
    text = yaml.safe_dump({**head, **body}, sort_keys=False)
    reading = parse_manifests("x.yaml", text)
    assert not reading.findings, reading.findings
    problems = [each for manifest in reading.manifests for each in list_schema_problems(manifest)]
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
    (manifest,) = parse_manifests("x.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: x}}").manifests
    return _SchemaValidator(manifest)


def of_type(name: str, data: dict[str, Any]) -> list[str]:
    node = Node(data, TextPosition(1, 1))
    return [problem.detail for problem in build_reader()._check_fields(node, name, "it")]


MAY_BE_FILLED_IN = "An API server rejects it, unless a webhook of the hub sets it."
WRONG = {
    "label": "A_b", "subdomain": "-a", "key": "a/b/c", "port": "UPPER", "target": 70000, "share": "10 %",
    "amount": "-1", "cron": "daily", "datakey": "a b",
}  # fmt: skip


@pytest.mark.parametrize(("name", "field", "rule"), [pytest.param(*e, id=f"{e[0]}.{e[1]}") for e in list_entries()])
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
        ("cron", ["* * * * *", "@daily", "@every 1h", "*/5 1-3 * 1,2 MON"], ["* * * *", "@often", "TZ=UTC * * * * *"]),
        ("datakey", ["a.b-c_D", ".x"], ["", ".", "..", "a/b", "a" * 254]),
    ],
)
def test_value_formats(form: str, right: list[Any], wrong: list[Any]) -> None:
    assert [FORMS[form](value) for value in right] == [""] * len(right)
    assert all(FORMS[form](value) for value in wrong)


# --- several fields together -------------------------------------------------------------------

CASES: list[tuple[str, str, Any, str]] = [
    *((kind, "spec/selector/matchLabels/app", "api", "spec.selector does not match") for kind in TEMPLATES),
    *((kind, "spec/selector", {"matchLabels": {}}, "spec.selector is empty") for kind in TEMPLATES),
    *((kind, "spec/template/spec/restartPolicy", "Never", "here it must be Always.") for kind in TEMPLATES),
    ("ReplicationController", "spec/template/spec/restartPolicy", "OnFailure", "here it must be Always."),
    ("Deployment", "spec/template/spec/activeDeadlineSeconds", 5, "cannot be set here"),
    ("Deployment", "spec/minReadySeconds", 600, "spec.progressDeadlineSeconds must be more than minReadySeconds"),
    ("Job", "spec/template/spec/restartPolicy", None, f"{POD_PATH}.restartPolicy must be OnFailure or Never"),
    ("CronJob", "spec/jobTemplate/spec/template/spec/restartPolicy", "Always", "must be OnFailure or Never"),
    ("Pod", "spec/containers/0/volumeMounts/0/name", "dta", 'volumeMounts[0].name is "dta", and there is no'),
    ("Deployment", f"{POD_PATH.replace('.', '/')}/volumes", [], 'is "data", and there is no such volume.'),
    ("Pod", "spec/initContainers", [{"name": "web", "image": "w"}], 'is "web", the name of another container.'),
    ("Pod", "spec/dnsPolicy", "None", "spec.dnsConfig.nameservers must name a server"),
    ("Pod", "spec/nodeSelector", {"a b": "c"}, 'spec.nodeSelector: key "a b": name part must'),
    ("Pod", "spec/nodeSelector", {"a": "b c"}, 'spec.nodeSelector.a is "b c": a valid label must'),
    ("Pod", "spec/containers/0/livenessProbe/successThreshold", 2, "livenessProbe.successThreshold must be 1"),
    ("Pod", "spec/containers/0/env/1/value", "x", "env[1].valueFrom cannot be combined with a value."),
    ("Pod", "spec/containers/0/env/1/valueFrom", {}, "valueFrom must name one source of the value"),
    ("Pod", "spec/containers/0/readinessProbe", {"periodSeconds": 5}, "readinessProbe must have one of exec"),
    ("Pod", "spec/containers/0/readinessProbe/grpc", {"port": 1}, "not httpGet and grpc."),
    ("Pod", "spec/volumes/0/hostPath", {"path": "/"}, "can be of one kind only, not emptyDir and hostPath."),
    ("Pod", "spec/containers/0/resources/requests/cpu", "2", "requests.cpu is 2, more than the limit of 1."),
    ("Pod", "spec/tolerations/0", {"value": "x"}, "tolerations[0].operator must be Exists when there is no key."),
    ("Pod", "spec/tolerations/0/key", "", ""),
    ("Pod", "spec/tolerations/0/value", "x", "tolerations[0].value must be empty when operator is Exists."),
    ("Pod", "spec/tolerations/0/effect", "NoSchedule", "tolerationSeconds is for the effect NoExecute only."),
    (
        "Pod",
        f"{REQUIRED}/nodeSelectorTerms/0/matchExpressions/0/values",
        ["1", "2"],
        "values must have one value for Gt.",
    ),
    ("Deployment", "spec/selector/matchExpressions/0/values", ["x"], "values must be empty for Exists."),
    ("Deployment", "spec/selector/matchExpressions/0/operator", "In", "values must have a value for In."),
    ("NetworkPolicy", "spec/podSelector/matchLabels", {"a": "-"}, 'podSelector.matchLabels.a is "-": a valid'),
    ("Deployment", "spec/template/metadata/labels/x y", "z", 'spec.template.metadata.labels: key "x y":'),
    ("PersistentVolumeClaim", "spec/resources/requests", {"cpu": "1"}, "resources.requests.storage is missing."),
    ("PodDisruptionBudget", "spec/maxUnavailable", 1, "spec.maxUnavailable cannot be combined with minAvailable."),
]


@pytest.mark.parametrize(("kind", "path", "value", "says"), CASES)
def test_conflicting_fields_are_rejected(kind: str, path: str, value: Any, says: str) -> None:
    problems = list_errors(kind, change_object(kind, path, value))
    assert [says in problem for problem in problems] == ([True] if says else [])


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_rejects_an_object(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [(kind, change_object(kind, path, value)) for kind, path, value, _ in CASES]
    before = [list_errors(kind, body) for kind, body in bodies]
    monkeypatch.delitem(CHECKS, name)  # type: ignore[arg-type]
    assert [list_errors(kind, body) for kind, body in bodies] != before


def test_consequences_of_a_slip_are_not_reported() -> None:
    slip = change_object("Deployment", "spec/selector", {"matchLabel": {"app": "web"}})
    (problem,) = list_errors("Deployment", slip)
    assert 'Did you mean "matchLabels"?' in problem
    slip = change_object("Deployment", "spec/template/spec/containers/0/volumeMounts", [{"nam": "x", "mountPath": "/"}])
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
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], name="A_b")[0].startswith('metadata.name is "A_b": a lowercase')
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], namespace="a.b")[0].startswith('metadata.namespace is "a.b":')
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], labels={"a": "b c"})[0].startswith(
        'metadata.labels.a is "b c":'
    )
    assert list_errors("ConfigMap", RIGHT["ConfigMap"], annotations={"A.B/c": "d e"}) == []


def test_secret_values_are_not_shown() -> None:
    (problem,) = list_errors("Secret", change_object("Secret", "data/tls.key", 271828))
    assert "271828" not in problem
    assert "data.tls.key must be" in problem
