"""Tests of edits that a hub does not notice: they start no rollout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.domains.fleet.cli.test_hub_content import Runner, run, write_files

__all__ = ["run"]

MEMBERS = """
resource "fleet_member_cluster" "a" { name = "a" }
resource "fleet_member_cluster" "b" { name = "b" }
"""
FIRST_SELECTOR = """
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
"""
SECOND_SELECTOR = """
  resource_selector {
    group   = "rbac.authorization.k8s.io"
    version = "v1"
    kind    = "ClusterRole"
    label_selector {
      match_labels = { team = "x", tier = "front" }
    }
  }
"""
POLICY = 'policy { placement_type = "PickAll" }\n'
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n"
ROLE = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader, labels: {team: x, tier: front}}
rules: []
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: web}
spec:
  replicas: 3
  selector: {matchLabels: {a: d}}
  template:
    metadata: {labels: {a: d}}
    spec: {containers: [{name: c, image: "i:1"}]}
"""
DEFAULTS = DEPLOYMENT.replace(
    "  replicas: 3\n",
    "  replicas: 3\n  revisionHistoryLimit: 10\n  progressDeadlineSeconds: 600\n"
    "  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}\n",
).replace("spec: {containers", "spec: {restartPolicy: Always, containers")
ANNOTATED = DEPLOYMENT.replace(
    "namespace: web}",
    'namespace: web, annotations: {deployment.kubernetes.io/revision: "3"}, '
    "creationTimestamp: null, resourceVersion: '7'}",
)


def write_fleet(*documents: str, selectors: str = FIRST_SELECTOR + SECOND_SELECTOR) -> None:
    body = "---\n".join(documents)
    write_files(
        {
            "main.nf.hcl": f"""{MEMBERS}
resource "fleet_cluster_resource_placement" "p" {{
{selectors}
{POLICY}
}}
resource "fleet_hub_manifest" "h" {{
  yaml_body = <<Y
{body}Y
}}
"""
        }
    )


def apply(run: Runner) -> None:
    code, printed = run("apply", "-auto-approve")
    assert code == 0, printed


@pytest.mark.parametrize(
    ("documents", "selectors"),
    [
        ((DEPLOYMENT, ROLE, NAMESPACE), FIRST_SELECTOR + SECOND_SELECTOR),
        ((NAMESPACE, DEPLOYMENT, ROLE), SECOND_SELECTOR + FIRST_SELECTOR),
        (
            (NAMESPACE, DEPLOYMENT, ROLE),
            FIRST_SELECTOR
            + SECOND_SELECTOR.replace('team = "x", tier = "front"', 'tier = "front", team = "x"'),
        ),
        ((NAMESPACE, DEFAULTS, ROLE), FIRST_SELECTOR + SECOND_SELECTOR),
        ((NAMESPACE, ANNOTATED, ROLE), FIRST_SELECTOR + SECOND_SELECTOR),
    ],
    ids=["documents", "selectors", "labels", "defaults", "annotations"],
)
def test_edit_that_a_hub_does_not_notice_starts_no_rollout(
    run: Runner, documents: tuple[str, ...], selectors: str
) -> None:
    write_fleet(NAMESPACE, DEPLOYMENT, ROLE)
    apply(run)
    write_fleet(*documents, selectors=selectors)
    code, printed = run("apply", "-auto-approve")
    assert code == 0, printed
    assert "to update" not in printed, printed
    assert "resources_changed" not in printed
    assert "No changes" in run("plan")[1]


def test_edit_of_the_content_starts_a_rollout(run: Runner) -> None:
    write_fleet(NAMESPACE, DEPLOYMENT, ROLE)
    apply(run)
    write_fleet(NAMESPACE, DEFAULTS.replace("i:1", "i:2"), ROLE)
    assert "2 to update" in run("plan")[1]


def test_hash_of_an_earlier_rule_in_state_starts_no_rollout(run: Runner) -> None:
    write_fleet(NAMESPACE, DEPLOYMENT, ROLE)
    apply(run)
    (state_file,) = Path().glob("**/*.nfstate")
    state = json.loads(state_file.read_text())
    replaced = []
    for instance in list_mappings(state):
        for snapshot in instance.get("snapshots") or ():
            snapshot["hash"] = "0" * 64
            replaced.append(snapshot)
    assert replaced
    state_file.write_text(json.dumps(state))
    assert "No changes" in run("plan")[1]


def list_mappings(value: object) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for item in value for found in list_mappings(item)]
    if not isinstance(value, dict):
        return []
    return [value, *(found for item in value.values() for found in list_mappings(item))]


def test_selected_resources_are_in_the_order_of_a_hub(run: Runner) -> None:
    write_fleet(DEPLOYMENT, ROLE, NAMESPACE, selectors=SECOND_SELECTOR + FIRST_SELECTOR)
    apply(run)
    document = json.loads(run("show", "-json")[1])
    (values,) = (
        resource["values"]
        for resource in document["values"]["root_module"]["resources"]
        if resource["type"] == "fleet_cluster_resource_placement"
    )
    kinds = [item["kind"] for item in values["selected_resources"]]
    assert kinds == ["Namespace", "ClusterRole", "Deployment"]
