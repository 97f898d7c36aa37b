"""Tests of `plan -check-with=kube-scheduler`: a running program repeats the decisions on pods."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling import assumptions, profile
from nexusform.domains.program_checks.workflow import loopback_programs, scheduler_check
from nexusform.domains.program_checks.workflow.kubernetes_objects import build_pod_manifest
from tests.conformance.score import read_cases, score_cases
from tests.domains.hub.api_programs import PROGRAMS, find_obstacle
from tests.domains.pods.importers.cluster_objects import build_pod, print_objects
from tests.domains.pods.planning import test_version_rules as version_rules
from tests.domains.pods.planning.test_cluster_observation import add_standard_objects, plan_observed
from tests.domains.pods.planning.test_dump_doubts import BIG, ONE
from tests.domains.pods.planning.test_pods import build_deployment
from tests.kill_points import long_case
from tests.nightly import pod_worlds, volume_worlds

pytestmark = pytest.mark.of_domains("program_checks", "fleet", "pods")
CONFIGURATION = """
resource "fleet_member_cluster" "m1" {
  resources {
    total = { cpu = "16" }
  }
}
data "kubernetes_nodes" "a" {
  files              = ["n.json"]
  cluster_id         = "m1"
  kubernetes_version = "VERSION"
}
resource "fleet_hub_manifest" "m" {
  cluster_id = "m1"
  yaml_body  = file("m.yaml")
}
"""
FINISHED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "setup", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Succeeded"},
}


class StubServer:
    """Part of an API server for tests: it waits for a condition without a limit."""

    def wait_for(self, _name: str, condition: Any, _seconds: float) -> Any:
        while not (result := condition()):
            pass
        return result


class DroppingServer(StubServer):
    """API server that creates each pod without its containers."""

    def __init__(self) -> None:
        self.pods: set[str] = set()

    def call(
        self, verb: str, path: str, body: dict[str, Any] | None = None, _patch: str = ""
    ) -> dict[str, Any]:
        path, _, _ = path.partition("?")
        body = body or {}
        if path.endswith("/pods"):
            self.pods.add(body["metadata"]["name"])
            return {**body, "spec": {**body["spec"], "containers": []}}
        if verb == "GET" and "/pods/" in path:
            message = f"1 Insufficient {scheduler_check._MARKER}"
            return {"status": {"conditions": [{"message": message}]}}
        if verb == "DELETE" and "/pods/" in path:
            self.pods.remove(path.rpartition("/")[2])
        return body


def test_pod_that_was_not_created_whole_is_deleted(tmp_path: Path) -> None:
    """It would take capacity from the pods after it."""
    server = DroppingServer()
    running = cast("loopback_programs.LoopbackPrograms", server)
    check = scheduler_check.KubeSchedulerCheck(running, "1.36.0", time.monotonic() + 60)
    for prediction in volume_worlds.plan_world(3000, "1.36.0", tmp_path):
        check.check_prediction(prediction)
    assert check.incomplete_pods
    assert not check.checked
    assert server.pods == set()


class LateServer(StubServer):
    """API server of a scheduler that reads the label of a node after some questions.

    It then chooses a node for each pod.
    """

    def __init__(self, questions: int) -> None:
        self.questions = questions
        self.pods: dict[str, dict[str, Any]] = {}

    def call(
        self, verb: str, path: str, body: dict[str, Any] | None = None, _patch: str = ""
    ) -> dict[str, Any]:
        path, _, _ = path.partition("?")
        if path.endswith("/pods"):
            assert body is not None
            self.pods[body["metadata"]["name"]] = body
        name = path.rpartition("/")[2]
        if verb == "GET" and name in self.pods:
            pod = self.pods[name]
            condition = {"type": "PodScheduled", "message": "0/2 nodes are available"}
            if "nodeSelector" in pod["spec"]:
                self.questions -= 1
                if self.questions < 0:
                    condition["message"] += f": 1 Insufficient {scheduler_check._MARKER}"
                return {**pod, "status": {"conditions": [condition]}}
            assert self.questions < 0, "a decision before the nodes were read"
            return {**pod, "spec": {**pod["spec"], "nodeName": "a-np-1"}}
        return body or {}


@pytest.mark.parametrize(("questions", "is_late"), [(3, False), (10**9, True)])
def test_decisions_wait_until_the_scheduler_has_read_the_nodes(
    questions: int, is_late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy host, the scheduler decided on nodes of an earlier cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scheduler_check, "_DECISION_SECONDS", 0.2)
    objects = add_standard_objects(*BIG)
    Path("n.json").write_bytes(print_objects(*objects, build_pod("setup", "", phase="Succeeded")))
    fleet = find_planned_fleet(plan_observed(ONE, *objects))
    assert fleet is not None
    server = LateServer(questions)
    running = cast("loopback_programs.LoopbackPrograms", server)
    check = scheduler_check.KubeSchedulerCheck(running, "1.36.0", time.monotonic() + 60)
    (prediction,) = fleet.pods.list_checkable_predictions()
    check.check_prediction(prediction)
    assert check.differences == []
    assert bool(check.checked) == (not is_late)
    reasons = {"kube-scheduler has not read the nodes of the cluster"} if is_late else set()
    assert set(check.incomplete_pods.values()) == reasons


@pytest.fixture
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a plan of random workloads on random nodes."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(3)
    nodes = [pod_worlds.build_node(draw, number, 3) for number in range(8)]
    info = {**pod_worlds.NODE_INFO, "kubeletVersion": f"v{find_minor_version()}.0"}
    for node in nodes:
        node["status"]["nodeInfo"] = info
    workloads = [pod_worlds._build_workload(draw, name) for name in "abcdefgh"]
    world = pod_worlds.World(nodes, [pod_worlds._build_pod(draw, "old", "n1")], workloads)
    classes = pod_worlds.build_priority_classes(pod_worlds._CLASSES)
    items = [*world.nodes, *world.pods, FINISHED, *classes]
    Path("n.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    Path("m.yaml").write_text("\n---\n".join(json.dumps(body) for body in world.workloads))
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("VERSION", find_minor_version()))
    return tmp_path


def find_minor_version() -> str:
    """Return the minor version of the kube-scheduler for tests, 1.34 without one."""
    program = PROGRAMS / "kube-scheduler"
    if not program.is_file():
        return "1.34"
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return ".".join(text.split()[-1].removeprefix("v").split(".")[:2])


def list_running_programs() -> str:
    words = ["pgrep", "-P", str(os.getpid()), "-f", "nexusform-check-"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
@long_case
@pytest.mark.skipif(
    bool(find_obstacle("etcd", "kube-apiserver", "kube-scheduler")),
    reason=find_obstacle("kube-scheduler"),
)
def test_plan_is_checked_by_running_scheduler(
    work_directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = f"-check-with=kube-scheduler={PROGRAMS}"
    assert run_command_line(["plan", flag, "-out=p", "-report=json:p.json"]) == 0
    check = json.loads(Path("p.json").read_text())["checks_by"][0]
    assert check["program"] == "kube-scheduler"
    assert check["checked"] == check["total"] > 5
    assert check["differences"] == []
    line = (
        f"Checked by:  kube-scheduler {check['version']}: {check['checked']} of {check['total']} "
        "pods"
    )
    assert line in capsys.readouterr().out
    assert list_running_programs() == ""
    # A checked plan is re-planned without the program.
    assert run_command_line(["apply", "p"]) == 0

    # A rule is broken.
    monkeypatch.setattr(profile, "USAGE_SCORES", profile.USAGE_SCORES[1:])
    assert run_command_line(["plan", "-state=other", flag, "-report=json:p.json"]) == 1
    document = json.loads(Path("p.json").read_text())
    difference = document["checks_by"][0]["differences"][0]
    assert difference.keys() == {"address", "object", "predicted", "actual"}
    assert difference["predicted"] != difference["actual"]
    assert f"{difference['object']} is predicted on" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )
    monkeypatch.undo()
    monkeypatch.chdir(work_directory)
    # The file repeats the check: the rule is restored.
    assert score_cases(read_cases(Path(".nexusform/checks"))).wrong == []
    assert list_running_programs() == ""


PROBLEMS = {
    "no directory": ({}, "cannot be started"),
    "no etcd": (
        {"kube-scheduler": "echo Kubernetes v1.34.4"},
        "etcd cannot be started: No such file",
    ),
    "etcd stops": (
        {
            "kube-scheduler": "echo Kubernetes v1.34.4",
            "etcd": "echo no disk; exit 1",
            "kube-apiserver": "sleep 60",
        },
        "kube-apiserver did not answer within 1 s",
    ),
    "the API server stops": (
        {
            "kube-scheduler": "echo Kubernetes v1.34.4",
            "etcd": "sleep 60",
            "kube-apiserver": "echo bad flag; exit 1",
        },
        "kube-apiserver stopped. Its last message: bad flag",
    ),
    "the certificate is half-written": (
        {
            "kube-scheduler": "echo Kubernetes v1.34.4",
            "etcd": "sleep 60",
            "kube-apiserver": "mkdir certs; echo -----BEGIN > certs/apiserver.crt; sleep 60",
        },
        "kube-apiserver did not answer within 1 s",
    ),
}


@pytest.mark.usefixtures("work_directory")
@pytest.mark.parametrize("case", PROBLEMS)
def test_broken_program_is_an_error(
    case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # certainty is of no interest here.
    monkeypatch.setattr(assumptions, "_MOST_SAMPLES", assumptions._FEWEST_SAMPLES)
    monkeypatch.setattr(loopback_programs.LoopbackPrograms.wait_for, "__defaults__", (1.0,))
    scripts, message = PROBLEMS[case]
    Path("programs").mkdir()
    for name, text in scripts.items():
        Path("programs", name).write_text(f"#!/bin/sh\n{text}\n")
        Path("programs", name).chmod(0o700)
    assert run_command_line(["plan", "-check-with=kube-scheduler=programs"]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "The plan was not checked by kube-scheduler." in said
    assert message in said
    assert list_running_programs() == ""


def write_plan(objects: list[dict[str, Any]], text: str) -> None:
    """Write the plan of one manifest on a cluster with these objects."""
    items = [*add_standard_objects(*objects), FINISHED]
    Path("n.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    Path("m.yaml").write_text(text)
    # The nodes have a version.
    configuration = CONFIGURATION.replace('  kubernetes_version = "VERSION"\n', "")
    Path("main.nf.hcl").write_text(configuration)


def build_pod_manifest_text(*claims: str, **container: Any) -> str:
    """Return a pod with these claims, and further fields of its container."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}}
    pod = {
        "containers": [{"name": "c", "image": "i:1", "resources": resources, **container}],
        "restartPolicy": "Never",
        "volumes": volumes,
    }
    metadata = {"name": "p0", "namespace": "default"}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})


def build_stateful_set_text() -> str:
    claim = version_rules.build_claim("x", "local", "8Gi")
    template = {"metadata": {"name": "data"}, "spec": claim["spec"]}
    return build_deployment("db", 2, cpu="1", kind="StatefulSet", volumeClaimTemplates=[template])


NEW_RULES: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    # Objects, manifest, and the entry of the profile without which the prediction is wrong.
    "local volumes": (
        [
            *version_rules.build_nodes("v1.37.2"),
            *(version_rules.LOCAL, *version_rules.LOCAL_VOLUMES),
            version_rules.build_claim("c", "local", "8Gi"),
        ],
        build_pod_manifest_text("c"),
        "NODE_SCORES volume_binding",
    ),
    "free storage": (
        [
            *version_rules.build_nodes("v1.37.2"),
            *(version_rules.NETWORK, version_rules.CHECKED),
            version_rules.build_claim("c", "net", "8Gi"),
            version_rules.build_capacity(version_rules.LARGE, "10Gi"),
            version_rules.build_capacity(version_rules.SMALL, "100Gi"),
        ],
        build_pod_manifest_text("c"),
        "NODE_SCORES volume_binding",
    ),
    "claims of a StatefulSet": (
        [
            *version_rules.build_nodes("v1.37.2"),
            *(version_rules.LOCAL, *version_rules.LOCAL_VOLUMES),
        ],
        build_stateful_set_text(),
        "NODE_SCORES volume_binding",
    ),
    "a driver that is not installed": (
        [
            *version_rules.build_nodes("v1.37.2"),
            *(version_rules.NETWORK, version_rules.REQUIRED, *version_rules.INSTALLATIONS),
            version_rules.build_claim("c", "net", "8Gi"),
        ],
        build_pod_manifest_text("c"),
        "NODE_FILTERS volume_limits",
    ),
    "features of nodes": (
        version_rules.build_nodes("v1.37.2", declaredFeatures=[version_rules.FEATURE]),
        build_pod_manifest_text(restartPolicy="Never", restartPolicyRules=[version_rules.RULE]),
        "NODE_FILTERS declared_features",
    ),
}
NEWEST = PROGRAMS / "1.37"


@pytest.mark.slow
@long_case
@pytest.mark.skipif(
    not (NEWEST / "kube-scheduler").is_file(),
    reason="NEXUSFORM_HUB_PROGRAMS has no 1.37 (build_hub.sh DIR/1.37 pods 1.37.2)",
)
@pytest.mark.parametrize("case", NEW_RULES)
def test_scheduler_gets_the_objects_of_the_dump(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its rule, the prediction is wrong and the check says so."""
    monkeypatch.chdir(tmp_path)
    objects, text, entry = NEW_RULES[case]
    write_plan(objects, text)
    words = ["plan", f"-check-with=kube-scheduler={NEWEST}", "-report=json:p.json"]
    assert run_command_line(words) == 0
    (check,) = json.loads(Path("p.json").read_text())["checks_by"]
    assert (check["checked"], check["differences"]) == (check["total"], [])

    table, name = entry.split()
    rest = tuple(rule for rule in getattr(profile, table) if rule.name != name)
    monkeypatch.setattr(profile, table, rest)
    assert run_command_line(words) == 1
    (check,) = json.loads(Path("p.json").read_text())["checks_by"]
    assert check["differences"][0]["actual"] == version_rules.SMALL


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("v1.36.3", 'kube-scheduler is 1.34.4, but the cluster "m1" runs 1.36. Use a'),
        ("", 'The Kubernetes version of the cluster "m1" is unknown. Set kubernetes_version'),
    ],
)
def test_program_of_another_version_is_an_error(
    version: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_plan(version_rules.build_nodes(version), build_pod_manifest_text())
    Path("programs").mkdir()
    program = Path("programs", "kube-scheduler")
    program.write_text("#!/bin/sh\necho Kubernetes v1.34.4\n")
    program.chmod(0o700)
    assert run_command_line(["plan", "-check-with=kube-scheduler=programs", "-out=p"]) == 1
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    # Nothing to apply.
    assert run_command_line(["apply", "p"]) == 1


@pytest.mark.usefixtures("work_directory")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-check-with=kube-scheduler=programs", "-confine"], "not allowed in a sandboxed run"),
        (["-check-with=kube-scheduler"], "is not valid. Use one of"),
        (["-check-with=scheduler=programs"], "is not valid. Use one of"),
    ],
)
def test_invalid_use_starts_no_program(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", *words]) == 1
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("seed", range(20))
def test_pod_for_program_has_the_predicted_spec(seed: int) -> None:
    for body in pod_worlds.build_world(seed).workloads:
        spec = read_spec(body)
        copy = read_spec(build_pod_manifest(spec, "copy"))
        # Both have the defaults of admission.
        assert set(copy.tolerations) >= set(spec.tolerations)
        for name in (
            "labels",
            "requests",
            "scored_requests",
            "node_selector",
            "node_terms",
            "images",
        ):
            assert getattr(copy, name) == getattr(spec, name), name
        for name in ("affinity", "anti_affinity", "preferred_anti_affinity", "host_ports"):
            assert getattr(copy, name) == getattr(spec, name), name
        # Only a DaemonSet counts the own node alone; the copy is a bare pod.
        assert copy.spread == tuple(replace(item, counts_own_node=False) for item in spec.spread)


def read_spec(body: dict[str, Any]) -> Any:
    return collect_workloads(parse_manifests("m.yaml", json.dumps(body)).manifests).workloads[0].pod
