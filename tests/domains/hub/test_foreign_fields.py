"""Tests of foreign fields in managed objects: they are reported and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nexusform.domains.hub.providers.field_ownership import describe_foreign_fields
from nexusform.domains.hub.providers.hub_bodies import HubObject
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front, get_api_version, get_collection_path
from tests.domains.hub.test_fleet_provider import write_configuration

THEIRS = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


def apply_as(hub: Front, manager: str, spec: dict[str, Any], *, force: bool = False) -> None:
    """Apply a part of the placement web as another manager."""
    kind = "ClusterResourcePlacement"
    body = {
        "apiVersion": get_api_version(kind),
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": spec,
    }
    query = {"fieldManager": manager, "#type": "apply", **({"force": "true"} if force else {})}
    target = f"{get_collection_path(kind)}/web?{urlencode(query)}"
    status, answer = hub.answer("PATCH", target, "admin-token", json.dumps(body).encode())
    assert status == 200, answer


OURS = """
    toleration {
      key      = "edge"
      operator = "Exists"
      effect   = "NoSchedule"
    }
"""
EDGE = {**THEIRS, "key": "edge"}


MEMBERS = """
resource "fleet_member_cluster" "all" {
  for_each = toset(["ams1", "fra1", "lon1", "par1"])
  name     = each.key
}
"""


def write_with_toleration(more: str = "") -> None:
    """Write a configuration with its own toleration."""
    write_configuration(more=more)
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(
        text.replace("number_of_clusters = 2", f"number_of_clusters = 2{OURS}")
    )


def test_foreign_fields_are_a_note_and_no_change(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    apply_as(hub, "ops", {"policy": {"tolerations": [THEIRS]}})
    code, said = run_command(
        "plan", "-detailed-exitcode", "-out=x.nfplan", "-report=markdown:plan.md"
    )
    assert (code, "No changes." in said) == (0, True), said
    words = "fleet_cluster_resource_placement.web: ops sets spec.policy.tolerations"
    assert f"fields-owned-by-others {words}" in said
    assert words in Path("plan.md").read_text()
    (note,) = json.loads(run_command("show", "-json", "x.nfplan")[1])["diagnostics"]
    assert (note["id"], note["level"]) == ("fields-owned-by-others", "note")
    assert "fields-owned-by-others" not in run_command("plan", "-destroy")[1]


def test_own_change_keeps_and_predicts_foreign_fields(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    rolling = {"maxUnavailable": 2, "maxSurge": 0}
    more = {"strategy": {"rollingUpdate": rolling}, "revisionHistoryLimit": 3}
    apply_as(hub, "ops", {"policy": {"tolerations": [THEIRS]}, **more})
    assert "No changes." in run_command("plan")[1]
    write_configuration(content="2")
    code, said = run_command("plan")
    assert code == 0, said
    # All clusters are updated at once; with a quarter it would be one after another.
    assert "start wave" not in said
    write_configuration(number=3, content="2")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "3 of 3 predictions correct" in said
    spec = (hub.get("ClusterResourcePlacement", "web") or {})["spec"]
    assert spec["policy"] == {
        "placementType": "PickN",
        "numberOfClusters": 3,
        "tolerations": [THEIRS],
    }
    assert spec["strategy"]["rollingUpdate"].items() >= rolling.items()
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said


def test_foreign_fields_without_data_block_are_no_change(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(text.replace('data "fleet_hub" "hub" {}', MEMBERS))
    assert run_command("apply", "-auto-approve")[0] == 0
    apply_as(
        hub,
        "ops",
        {"policy": {"tolerations": [THEIRS]}, "strategy": {"rollingUpdate": {"maxSurge": 1}}},
    )
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said


def test_removal_of_foreign_toleration_is_reported_with_owner(
    hub: Front, run_command: CommandRunner
) -> None:
    write_with_toleration()
    assert run_command("apply", "-auto-approve")[0] == 0
    apply_as(hub, "ops", {"policy": {"tolerations": [EDGE, THEIRS]}}, force=True)
    code, said = run_command("plan")
    assert code == 1
    assert "ops set spec.policy.tolerations on the hub. gpu:NoSchedule is missing here" in said
    assert "Add it here, or leave the list to ops: lifecycle { ignore_changes = [pol" in said
    write_with_toleration("lifecycle {\n    ignore_changes = [policy.toleration]\n  }")
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    assert placement["spec"]["policy"]["tolerations"] == [EDGE, THEIRS]


def test_foreign_fields_are_reported_by_object(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    names = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "web"},
    }
    hub.put({**names, "data": {"b": "theirs"}}, "kubectl")
    said = run_command("plan")[1]
    assert "fleet_hub_manifest.web: kubectl sets ConfigMap web/settings data.b" in said


def test_fields_before_ownership_tracking_have_no_owner() -> None:
    head = {"apiVersion": "v1", "kind": "Namespace"}
    fields = {"f:spec": {"f:finalizers": {}}}
    entry = {"manager": "before-first-apply", "operation": "Update", "fieldsV1": fields}
    body = {
        **head,
        "metadata": {"name": "web", "managedFields": [entry]},
        "spec": {"finalizers": ["k8s"]},
    }
    sent = HubObject({**head, "metadata": {"name": "web"}}, "/api/v1/namespaces/web")
    assert describe_foreign_fields("fleet_hub_manifest", [(sent, body)], "nexusform") == ""
    entry["manager"] = "ops"
    sentence = describe_foreign_fields("fleet_hub_manifest", [(sent, body)], "nexusform")
    assert sentence == "ops sets Namespace web spec.finalizers"


def test_foreign_defaults_and_labels_are_not_reported(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    names = {"apiVersion": placement["apiVersion"], "kind": placement["kind"]}
    metadata = {"name": "web", "labels": {"team": "a"}, "annotations": {"seen": "yes"}}
    hub.put({**names, "metadata": metadata, "spec": {"revisionHistoryLimit": 10}}, "kubectl")
    assert "fields-owned-by-others" not in run_command("plan")[1]
