"""Tests of the command `simulate repack`: its output, and the result of its steps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

pytest.importorskip("highspy")
from tests.domains.whatif.repack_answers import read_repack_answer

MAIN = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  for_each      = toset(["r1", "r2"])
  site_id       = nexus_site.lab.id
  name          = each.key
  machine_count = 3

  dynamic "machine_override" {
    for_each = [for name in var.cordoned : name if startswith(name, "${each.key}-")]
    labels   = [machine_override.value]
    content {
      cordoned = true
    }
  }
}

variable "cordoned" {
  type    = list(string)
  default = []
}

resource "nexus_kubernetes_cluster" "a" {
  site_id            = nexus_site.lab.id
  name               = "a"
  kubernetes_version = "1.29.4"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "p" {
    count       = 6
    vm_sku_name = "NC_P22_112_v1"
  }
  agent_pool "q" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
BROWNFIELD = Path(__file__).parents[4] / "examples" / "brownfield"
OVERRIDE = re.compile(r'# +machine_override "([^"]+)" ')
ASK = ["simulate", "repack", "-sku=NC_P46_224_v1"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "main.nf.hcl").write_text(MAIN)
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    return tmp_path


def run_repack(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run_command_line([*ASK, *more, "-format=json"])
    return code, read_repack_answer(json.loads(capsys.readouterr().out))


def read_machines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert run_command_line(["show", "-json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]["root_module"]["resources"]
    [cluster] = [one["values"] for one in values if one["type"] == "nexus_kubernetes_cluster"]
    return {name: node["machine"] for name, node in cluster["nodes"].items()}


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(("sku", "want"), [("NC_P46_224_v1", 6), ("NC_E94_448_v1", 2)])
def test_applied_steps_free_the_predicted_capacity(
    capsys: pytest.CaptureFixture[str], sku: str, want: int
) -> None:
    before = read_machines(capsys)
    code, repack = run_repack(capsys, f"-sku={sku}", f"-want={want}")
    assert (code, repack["status"], repack["re_creations"]) == (0, "optimal", repack["at_least"])
    for window in range(1, repack["windows"] + 1):
        steps = [step for step in repack["steps"] if step["window"] == window]
        overrides = map(OVERRIDE.match, repack["commands"][window - 1])
        cordoned = json.dumps([override[1] for override in overrides if override])
        flags = [f"-replace={step['resource']}:{step['vm']}" for step in steps]
        assert (
            run_command_line(["apply", "-auto-approve", f"-var=cordoned={cordoned}", *flags]) == 0
        )
        now = read_machines(capsys)
        assert {step["vm"]: now[step["vm"]] for step in steps} == {
            step["vm"]: step["to"] for step in steps
        }
    assert run_command_line(["apply", "-auto-approve"]) == 0
    after = read_machines(capsys)
    moved = {step["vm"] for step in repack["steps"]}
    assert {name for name in before if before[name] != after[name]} == moved
    code, repack = run_repack(capsys, f"-sku={sku}", f"-want={want}")
    assert (code, repack["status"], repack["fit_now"]) == (0, "nothing_to_do", want)


@pytest.mark.usefixtures("lab")
def test_unsatisfiable_demand_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, repack = run_repack(capsys, "-want=7")
    assert (code, repack["status"], repack["finding"]) == (2, "impossible", True)
    assert (repack["re_creations"], repack["at_most"], repack["fit_now"]) == (None, 6, 5)
    code, repack = run_repack(capsys, "-want=6", "-moves=1")
    assert (code, repack["at_least"]) == (2, 2)
    assert repack["blocking"]["without -moves"] == 2


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "-sku=SKU"),
        (("-sku=NC_P47",), 'There is no VM SKU "NC_P47"'),
        (("-sku=NC_P46_224_v1", "-zones=9"), 'There is no availability zone "9"'),
        (("-sku=NC_P46_224_v1", "-site=x"), 'There is no site "x"'),
        (("-sku=NC_P46_224_v1", "-not=nexus_kubernetes_cluster.b"), "nexus_kubernetes_cluster.a"),
        (("-sku=NC_P46_224_v1", "-want=0"), "0"),
    ],
)
def test_errors_are_named(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], said: str
) -> None:
    capsys.readouterr()
    assert run_command_line(["simulate", "repack", *flags]) == 1
    captured = capsys.readouterr()
    assert said in " ".join((captured.out + captured.err).replace("│", " ").split())


PODS = """
resource "fleet_hub_manifest" "pods" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: NAME, namespace: default}
    spec:
      replicas: REPLICAS
      selector: {matchLabels: {app: NAME}}
      template:
        metadata: {labels: {app: NAME}}
        spec:
          containers:
          - name: c
            image: c
            resources:
              requests: {cpu: "2", memory: 2Gi, RESOURCE}
              limits: {RESOURCE}
    EOT
}
"""
ASKED = {"hugepages": "hugepages-1Gi: 12Gi", "devices": "intel.com/sriov: 3"}


def write_pods(lab: Path, resource: str, replicas: int) -> None:
    """Write one pool with capacity for one such pod per node."""
    pods = (
        PODS.replace("NAME", "upf").replace("REPLICAS", str(replicas)).replace("RESOURCE", resource)
    )
    kubelet = (
        'kubelet {\n extended_resources = { "hugepages-1Gi" = "16Gi", "intel.com/sriov" = 4 }\n }\n'
    )
    main = MAIN.replace(
        'vm_sku_name = "NC_P22_112_v1"\n', f'vm_sku_name = "NC_P22_112_v1"\n{kubelet}'
    )
    (lab / "main.nf.hcl").write_text(main + pods)
    assert run_command_line(["apply", "-auto-approve"]) == 0


STAYING = [f"-not=nexus_kubernetes_cluster.a:a-control-plane-{number}" for number in range(3)]


@pytest.mark.parametrize("constraint", ASKED)
def test_pods_without_hugepages_or_devices_elsewhere_block_their_node(
    lab: Path, capsys: pytest.CaptureFixture[str], constraint: str
) -> None:
    asked = ["-sku=NC_E94_448_v1", "-want=1", *STAYING]
    write_pods(lab, ASKED[constraint], 10)
    code, repack = run_repack(capsys, *asked)
    assert (code, repack["status"]) == (2, "impossible")
    [fewest] = [count for text, count in repack["blocking"].items() if constraint in text]
    assert fewest == 2
    # With one more node than pods, the pods move one at a time to the free node.
    write_pods(lab, ASKED[constraint], 9)
    code, repack = run_repack(capsys, *asked)
    assert (code, repack["re_creations"], repack["windows"]) == (0, 2, 2)
    assert any(f"{len(repack['pods'])} pods restart" in fact for fact in repack["facts"])
    for window in (1, 2):
        [gone] = [step["vm"] for step in repack["steps"] if step["window"] == window]
        followed = [pod for pod in repack["pods"] if pod["window"] == window]
        assert all(
            pod["leaves"] == gone and pod["meanwhile_on"] not in ("none: waits", gone)
            for pod in followed
        )
        # A node of several equal ones has a remark.
        assert all(pod["then_on"] == pod["meanwhile_on"].split()[0] for pod in followed)


def test_separation_rules_hold_for_re_created_nodes(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two workloads on two nodes: a rule keeps these nodes off one machine."""
    selectors = [
        f'group {{\n workload_selector {{\n match_labels = {{ app = "{app}" }}\n }}\n }}'
        for app in ("upf", "web")
    ]
    rule = (
        'resource "nexus_separation_rule" "x" {\n scope = "machine"\n'
        + "\n".join(selectors)
        + "\n}\n"
    )
    both = [
        PODS.replace("NAME", name)
        .replace("REPLICAS", "1")
        .replace('"pods"', f'"{name}"')
        .replace("EOT", eot)
        for name, eot in (("upf", "EOT"), ("web", "EOT"))
    ]
    pods = (
        "".join(both)
        .replace("RESOURCE", 'cpu: "2"')
        .replace('requests: {cpu: "2", memory: 2Gi, cpu: "2"}', 'requests: {cpu: "2"}')
    )
    (lab / "main.nf.hcl").write_text(MAIN + pods + rule)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    code, repack = run_repack(capsys, "-want=6")
    assert (code, repack["status"]) == (0, "optimal")
    places_now = read_machines(capsys)
    places_then = places_now | {step["vm"]: step["to"] for step in repack["steps"]}
    state = json.loads((lab / "state" / "nexusform.nfstate").read_text())
    nodes = {}
    for resource in state["resources"]:
        for instance in resource["instances"]:
            for key, workload in (instance["attributes"].get("workloads") or {}).items():
                for pod in workload.values() if isinstance(workload, dict) else ():
                    if isinstance(pod, dict) and pod.get("node"):
                        nodes[key] = pod["node"]
    for pod in repack["pods"]:
        nodes[pod["workload"]] = pod["then_on"]
    upf, web = (next(node for key, node in nodes.items() if name in key) for name in ("upf", "web"))
    assert places_then[upf] != places_then[web]


def test_every_format_is_written(lab: Path) -> None:
    reports = [f"-report={kind}:answer.{kind}" for kind in ("markdown", "html", "json", "text")]
    assert run_command_line([*ASK, "-want=6", *reports]) == 0
    # The choice among equal optima depends on the version of the solver.
    answer = read_repack_answer(json.loads((lab / "answer.json").read_text()))
    recreated = [step["vm"] for step in answer["steps"]]
    text = (lab / "answer.text").read_text()
    assert len(recreated) == 2
    assert all(f"-replace=nexus_kubernetes_cluster.a:{name}" in text for name in recreated)
    assert "| VM | from | to | hits | pods | resource |" in (lab / "answer.markdown").read_text()
    assert "Window 1 of 1: 2 VMs re-created" in (lab / "answer.html").read_text()


def test_solver_output_is_suppressed(lab: Path) -> None:
    """HiGHS 1.16 writes a banner to the standard output of its process."""
    command = [sys.executable, "-m", "nexusform", *ASK, "-want=6", "-format=json"]
    done = subprocess.run(command, cwd=lab, capture_output=True, text=True, check=True)
    assert read_repack_answer(json.loads(done.stdout))["re_creations"] == 2


@pytest.mark.of_domains("azure")
def test_site_with_unknown_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The brownfield example: machines are emptied completely, and cordoned by az."""
    shutil.copytree(BROWNFIELD / "export", tmp_path / "export")
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    code, repack = run_repack(capsys, "-want=2")
    assert (code, repack["status"], repack["re_creations"]) == (0, "optimal", repack["at_least"])
    assert any("With known cells" in fact for fact in repack["facts"])
    assert all(step["hits"] == step["samples"] == 100 for step in repack["steps"])
    emptied = {step["from"] for step in repack["steps"]}
    names = {step["vm"] for step in repack["steps"]}
    state = json.loads((tmp_path / "state" / "nexusform.nfstate").read_text())
    nodes = [
        (name, node["machine"])
        for resource in state["resources"]
        for instance in resource["instances"]
        for name, node in (instance["attributes"].get("nodes") or {}).items()
    ]
    assert {name for name, machine in nodes if machine in emptied} <= names
    first = repack["commands"][0]
    assert any(
        line.startswith("az networkcloud baremetalmachine cordon --name par1") for line in first
    )
    applied = next(at for at, line in enumerate(first) if line.startswith("nexusform apply"))
    ended = next(at for at, line in enumerate(first) if "baremetalmachine uncordon" in line)
    by_hand = " ".join(first[applied:ended])
    assert "azure_export sends nothing" in by_hand
    assert "kubectl --context=" in by_hand
    assert "delete node" in by_hand
    going = [step["vm"] for step in repack["steps"] if step["window"] == 1]
    platform = {
        name: node["platform_name"]
        for resource in state["resources"]
        for instance in resource["instances"]
        for name, node in (instance["attributes"].get("nodes") or {}).items()
    }
    assert all(platform[name] in by_hand for name in going if name in platform)
