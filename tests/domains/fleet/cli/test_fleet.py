"""Tests of fleet placements from a user's view: files, commands, and the resulting state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

Told = tuple[int, str, str]

FLEET = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "a" {
  site_id            = nexus_site.s.id
  kubernetes_version = "v1.32.4"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np" {
    count       = 2
    vm_sku_name = "NC_G6_28_v1"
  }
}
resource "fleet_member_cluster" "a" {
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
  labels                = { env = "canary" }
}
"""
HUB = """
variable "replicas" {
  default = 3
}
resource "fleet_hub_manifest" "web" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: web
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: web
    spec:
      replicas: ${var.replicas}
      selector:
        matchLabels: { app: web }
      template:
        metadata:
          labels: { app: web }
        spec:
          containers:
            - name: web
              image: web:1
              resources:
                requests: { cpu: 100m, memory: 64Mi }
  EOT
}
"""
EXTERNAL = """
resource "fleet_cluster_resource_placement" "web" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type = "PickAll"
  }
  strategy {
    type = "External"
  }
}
resource "fleet_cluster_staged_update_strategy" "all" {
  stage {
    name = "all"
    label_selector {}
  }
}
"""
WEB = "fleet_cluster_resource_placement.web"


def build_staged_run(name: str, index: str = "") -> str:
    snapshot = f'resource_snapshot_index      = "{index}"' if index else ""
    return f"""
resource "fleet_cluster_staged_update_run" "{name}" {{
  placement_name               = "web"
  staged_rollout_strategy_name = "all"
  state                        = "Run"
  {snapshot}
}}
"""


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    """Return a function that writes a configuration and runs a command on it.

    The function returns exit code, stdout and stderr.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    def call(configuration: str, *arguments: str) -> Told:
        (tmp_path / "main.nf.hcl").write_text(configuration)
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def apply_completely(nf: Callable[..., Told], configuration: str, *more: str) -> str:
    """Apply, and check that the next plan is empty; return the output."""
    code, out, err = nf(configuration, "apply", "-auto-approve", *more)
    assert code == 0, out + err
    again, left, err = nf(configuration, "plan", "-detailed-exitcode", *more)
    assert again == 0, left + err
    return out + err


def read_placement(address: str = WEB) -> dict[str, Any]:
    """Return the placement in the state."""
    document = json.loads(Path("state/nexusform.nfstate").read_text())
    kind, name = address.split(".")
    for resource in document["resources"]:
        if (resource["type"], resource["name"]) == (kind, name):
            instance: dict[str, Any] = resource["instances"][0]
            return instance
    raise AssertionError(address)


def count_pods() -> int:
    """Return the number of pods on the member."""
    workloads = read_placement()["attributes"]["workloads"].get("a", {})
    return sum(len(each) for each in workloads.values())


def list_snapshots() -> list[int]:
    """Return the indexes of the resource snapshots available to a run."""
    return [each["index"] for each in read_placement().get("private", {}).get("snapshots", ())]


def test_run_applies_only_its_snapshot(nf: Callable[..., Told]) -> None:
    text = FLEET + HUB + EXTERNAL
    five = ("-var", "replicas=5")
    apply_completely(nf, text)
    assert (list_snapshots(), count_pods()) == ([], 0)

    text += build_staged_run("r1")
    apply_completely(nf, text)
    assert (list_snapshots(), count_pods()) == ([0], 3)

    apply_completely(nf, text, *five)
    assert (list_snapshots(), count_pods()) == ([0], 3)

    told = apply_completely(nf, text + build_staged_run("early", "1"), *five)
    assert "no resourceSnapshots with index `1` found for placement `web`" in " ".join(told.split())
    assert (list_snapshots(), count_pods()) == ([0], 3)

    text += build_staged_run("r2")
    apply_completely(nf, text, *five)
    assert (list_snapshots(), count_pods()) == ([0, 1], 5)

    apply_completely(nf, text + build_staged_run("r3", "0"), *five)
    assert (list_snapshots(), count_pods()) == ([0, 1], 3)
    assert read_placement()["attributes"]["bindings"]["a"]["resource_snapshot"] == 0


ENVELOPE = """
resource "fleet_hub_manifest" "web" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: web
    ---
    apiVersion: placement.kubernetes-fleet.io/v1beta1
    kind: ResourceEnvelope
    metadata:
      name: envelope
      namespace: web
    data:
      "web.yaml":
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: web
          namespace: web
        spec:
          replicas: 1
          selector:
            matchLabels: { app: web }
          template:
            metadata:
              labels: { app: web }
            spec:
              containers:
                - name: web
                  image: web:1
  EOT
}
resource "fleet_cluster_resource_placement" "web" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
}
"""
CANARY = """
resource "fleet_resource_override" "canary" {
  manifest = <<-EOT
    apiVersion: placement.kubernetes-fleet.io/v1beta1
    kind: ResourceOverride
    metadata:
      name: canary
      namespace: web
    spec:
      placement:
        name: web
      resourceSelectors:
        - group: apps
          kind: Deployment
          version: v1
          name: web
      policy:
        overrideRules:
          - clusterSelector:
              clusterSelectorTerms:
                - labelSelector:
                    matchLabels:
                      env: canary
            jsonPatchOverrides:
              - op: replace
                path: /spec/replicas
                value: 3
  EOT
}
"""


def test_override_changes_object_in_envelope(nf: Callable[..., Told]) -> None:
    apply_completely(nf, FLEET + ENVELOPE)
    assert count_pods() == 1
    told = apply_completely(nf, FLEET + ENVELOPE + CANARY)
    assert count_pods() == 3
    overridden = next(
        c for c in read_placement()["attributes"]["conditions"] if c["type"].endswith("Overridden")
    )
    assert (overridden["status"], overridden["reason"]) == ("True", "OverriddenSucceeded")
    assert "overrides_changed" in told
    explained = nf(FLEET + ENVELOPE + CANARY, "explain", WEB, "a")[1]
    assert "-  replicas: 1" in explained
    assert "+  replicas: 3" in explained


def test_explain_names_failing_override(nf: Callable[..., Told]) -> None:
    failing = FLEET + ENVELOPE + CANARY.replace("/spec/replicas", "/spec/nothing/there")
    apply_completely(nf, failing)
    assert count_pods() == 0
    explained = " ".join(nf(failing, "explain", WEB, "a")[1].split())
    assert (
        'ResourceOverrideSnapshot "canary-0" failed to apply on Deployment "web" in namespace "web"'
        in explained
    )
    document = json.loads(nf(failing, "explain", "-format=json", WEB, "a")[1])
    assert "canary" in json.dumps(document)
    for words in ((WEB,), ("fleet_member_cluster.a",)):
        assert 'ResourceOverrideSnapshot "canary-0" failed' in " ".join(
            nf(failing, "explain", *words)[1].split()
        )
    document = json.loads(nf(failing, "explain", "-format=json", WEB)[1])
    failures = [section for section in document["sections"] if section["name"] == "failures"]
    assert [section["title"] for section in failures] == ["Overrides fail on a"]


def test_explain_names_the_action_of_the_plan_and_later_the_origin_in_state(
    nf: Callable[..., Told],
) -> None:
    explained = nf(FLEET + ENVELOPE, "explain", WEB, "a")[1]
    assert "In this plan a is placed (placement_created): the placement is new" in explained
    apply_completely(nf, FLEET + ENVELOPE)
    explained = nf(FLEET + ENVELOPE, "explain", WEB, "a")[1]
    assert "a is bound since state serial 1 (placement_created)." in explained


def test_explain_of_member_lists_every_placement(nf: Callable[..., Told]) -> None:
    apply_completely(nf, FLEET + ENVELOPE)
    explained = nf(FLEET + ENVELOPE, "explain", "fleet_member_cluster.a")[1]
    assert explained.startswith(f"{WEB} a\nbound to a\n")
    assert "No rule rejects it." in explained
    code, _, told = nf(FLEET, "explain", "fleet_member_cluster.a")
    assert code == 1
    assert "No placement selects a: the configuration has none." in " ".join(told.split())


def test_explain_of_manifest_names_the_placements_that_select_its_objects(
    nf: Callable[..., Told],
) -> None:
    code, _, told = nf(FLEET + ENVELOPE, "explain", "fleet_hub_manifest.web", "web-0")
    assert code == 1
    assert "placements select its objects" in " ".join(told.split())
    assert f"    nexusform explain {WEB}\n" in told
    role = 'group   = "rbac.authorization.k8s.io"\n    kind    = "ClusterRole"'
    apart = (FLEET + ENVELOPE).replace('kind    = "Namespace"', role)
    assert WEB not in nf(apart, "explain", "fleet_hub_manifest.web")[2]


def test_unexplained_address_is_reported(
    nf: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_completely(nf, FLEET + ENVELOPE)
    monkeypatch.setattr("nexusform.workflow.object_explanation._EXPLAINERS", {})
    code, _, told = nf(FLEET + ENVELOPE, "explain", WEB, "a")
    assert code == 1
    said = " ".join(told.replace("│", " ").split())
    assert "have no scheduling rules to explain" in said
    assert "has placements at" not in said


def test_show_prints_manifest_as_written(nf: Callable[..., Told]) -> None:
    manifest = """
resource "fleet_cluster_resource_placement" "web" {
  manifest = <<-EOT
    apiVersion: placement.kubernetes-fleet.io/v1beta1
    kind: ClusterResourcePlacement
    metadata:
      name: web
    spec:
      resourceSelectors:
        - group: ""
          kind: Namespace
          name: web
          version: v1
          selectionScope: NamespaceOnly
      strategy:
        type: RollingUpdate
        applyStrategy:
          whenToTakeOver: Never
  EOT
}
"""
    apply_completely(nf, FLEET + HUB + manifest)
    shown = nf(FLEET + HUB + manifest, "show", WEB)[1]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "API Version: placement.kubernetes-fleet.io/v1beta1" in lines
    assert "Selection Scope: NamespaceOnly" in lines
    assert "When To Take Over: Never" in lines
    assert "When To Apply: Always" in lines


def test_staged_run_is_shown_as_timeline(nf: Callable[..., Told]) -> None:
    waiting = EXTERNAL.replace(
        "    label_selector {}\n",
        '    label_selector {}\n    before_stage_task {\n      type = "Approval"\n    }\n',
    )
    text = FLEET + HUB + waiting
    apply_completely(nf, text)
    reports = ("-report=json:p.json", "-report=markdown:p.md", "-report=html:p.html")
    code, out, err = nf(text + build_staged_run("r1"), "plan", *reports)
    assert code == 0, err
    assert "  start  all           waits for approval r1-before-all\n" in out
    assert "  start  all, group 1  update a (later)\n" in out
    assert "| start | all | waits for approval r1-before-all |" in Path("p.md").read_text()
    assert "waits for approval r1-before-all" in Path("p.html").read_text()
    document = json.loads(Path("p.json").read_text())
    (row,) = [each for each in document["placement_changes"] if each["kind"] == "binding"]
    assert (row["action"], row["trigger"]) == ("keep", "staged_run")
    assert (row["stage"], row["group"], row["waits_for"]) == ("all", 1, "r1-before-all")
    (rollout,) = document["rollouts"]
    assert [step["status"] for step in rollout["steps"]] == ["waiting", "later"]
    details = nf(text + build_staged_run("r1"), "plan", "-details")[1]
    assert "waits for approval r1-before-all" in details
