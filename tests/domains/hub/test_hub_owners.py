"""Tests of unchanged objects: fields already applied by a manager are not sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.hub.providers.field_ownership import (
    is_already_applied,
    remove_ignored_fields,
)
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front, list_managed_fields

SPEC = {
    "policy": {"numberOfClusters": 2},
    "resourceSelectors": [{"kind": "Namespace", "name": "web"}],
}
SENT = {"apiVersion": "v1", "kind": "Placement", "metadata": {"name": "web"}, "spec": SPEC}
FIELDS = {"f:spec": {"f:policy": {".": {}, "f:numberOfClusters": {}}, "f:resourceSelectors": {}}}


def build_applied_object(
    spec: dict[str, Any], fields: dict[str, Any], **metadata: Any
) -> dict[str, Any]:
    entry = {"manager": "nexusform", "operation": "Apply", "fieldsV1": fields}
    other = {
        "manager": "hubagent",
        "operation": "Update",
        "fieldsV1": {"f:spec": {"f:strategy": {}}},
    }
    return {
        **SENT,
        "metadata": {"name": "web", "managedFields": [other, entry], **metadata},
        "spec": spec,
    }


def test_unchanged_object_is_already_applied() -> None:
    assert is_already_applied(
        SENT,
        build_applied_object({**SPEC, "strategy": {"type": "RollingUpdate"}}, FIELDS),
        "nexusform",
    )


def test_atomic_field_is_compared_as_a_whole() -> None:
    sent = {"spec": {"selector": {"matchLabels": {"env": "prod"}}}}
    fields = {"f:spec": {"f:selector": {}}}
    assert is_already_applied(sent, build_applied_object(sent["spec"], fields), "nexusform")
    wider = {"selector": {"matchLabels": {"env": "prod", "tier": "gold"}}}
    assert not is_already_applied(sent, build_applied_object(wider, fields), "nexusform")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({**SPEC, "policy": {"numberOfClusters": 3}}, FIELDS),  # Another value
        (
            {**SPEC, "revisionHistoryLimit": 3},
            {"f:spec": {**FIELDS["f:spec"], "f:revisionHistoryLimit": {}}},
        ),
        # The list has another owner.
        (SPEC, {"f:spec": {"f:policy": {"f:numberOfClusters": {}}}}),
        (
            SPEC,
            {
                "f:spec": {
                    "f:policy": {"f:numberOfClusters": {}},
                    "f:resourceSelectors": {'k:{"name":"web"}': {}},
                }
            },
        ),
        (SPEC, {}),
    ],
)
def test_different_or_foreign_fields_are_sent(spec: dict[str, Any], fields: dict[str, Any]) -> None:
    assert not is_already_applied(SENT, build_applied_object(spec, fields), "nexusform")


def test_bare_namespace_is_already_applied() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    assert is_already_applied(bare, {**bare, "spec": {"finalizers": ["kubernetes"]}}, "nexusform")


def test_object_applied_by_another_manager_is_sent() -> None:
    assert not is_already_applied(SENT, build_applied_object(SPEC, FIELDS), "somebody-else")


MEMBER = {
    "kind": "MemberCluster",
    "metadata": {"name": "m", "labels": {"tier": "silver", "kind": "edge"}},
}


def build_managed_fields(*owners: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    entries = [{"manager": who, "operation": "Apply", "fieldsV1": fields} for who, fields in owners]
    return {"metadata": {"managedFields": entries}}


@pytest.mark.parametrize(
    ("ignored", "theirs", "labels"),
    [
        ((("labels",),), {"f:tier": {}}, {"kind": "edge"}),
        ((("labels", "tier"),), {".": {}, "f:tier": {}}, {"kind": "edge"}),
        ((("labels",), ("labels", "tier")), {"f:tier": {}, "f:kind": {}}, None),
        ((("labels",),), {".": {}, "f:env": {}}, {"tier": "silver", "kind": "edge"}),
        ((("labels", "kind"),), {"f:tier": {}}, {"tier": "silver", "kind": "edge"}),
        ((("taint",),), {"f:tier": {}, "f:kind": {}}, {"tier": "silver", "kind": "edge"}),
    ],
)
def test_ignored_labels_of_others_are_not_sent(
    ignored: tuple[tuple[str, ...], ...], theirs: dict[str, Any], labels: dict[str, str] | None
) -> None:
    shown = build_managed_fields(
        ("join", {"f:metadata": {"f:labels": theirs}}),
        ("nexusform", {"f:metadata": {"f:labels": {"f:tier": {}, "f:kind": {}}}}),
    )
    left = remove_ignored_fields(MEMBER, shown, ignored, "nexusform")
    assert left["metadata"].get("labels") == labels


def test_fields_without_other_owner_in_ignored_block_are_sent() -> None:
    sent = {
        "spec": {
            "policy": {"placementType": "PickN", "numberOfClusters": 3},
            "stages": [{"name": "a"}],
        }
    }
    shown = build_managed_fields(
        ("autoscaler", {"f:spec": {"f:policy": {"f:numberOfClusters": {}}, "f:stages": {}}})
    )
    left = remove_ignored_fields(sent, shown, [("policy",), ("stage",)], "nexusform")
    assert left == {"spec": {"policy": {"placementType": "PickN"}}}


def test_atomic_fields_of_others_are_omitted_completely() -> None:
    sent = {"spec": {"selector": {"matchLabels": {"env": "prod"}}, "name": "a"}}
    shown = build_managed_fields(("kubectl", {"f:spec": {"f:selector": {}}}))
    assert remove_ignored_fields(sent, shown, [("selector",)], "nexusform") == {
        "spec": {"name": "a"}
    }


LABELLED = """
provider "fleet" {{}}
data "fleet_hub" "hub" {{}}
resource "fleet_member_cluster" "m" {{
  provider = fleet
  name     = "ams1"
  labels   = {{ tier = "gold", rank = "{rank}" }}
  lifecycle {{
    ignore_changes = [labels["tier"]]
  }}
}}
"""


TAINTED = """
provider "fleet" {}
resource "fleet_member_cluster" "m" {
  provider = fleet
  name     = "ams1"
  taint {
    key    = "edge"
    effect = "NoSchedule"
  }
}
"""


def test_conflict_on_creation_suggests_applicable_fix(
    hub: Front, run_command: CommandRunner
) -> None:
    names = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
    theirs = [{"key": "gpu", "effect": "NoSchedule"}]
    hub.put({**names, "metadata": {"name": "ams1"}, "spec": {"taints": theirs}}, "kubectl")
    Path("main.nf.hcl").write_text(TAINTED)
    code, said = run_command("plan")
    assert (code, ".spec.taints belongs to kubectl" in said) == (1, True), said
    assert "ignore_changes" not in said
    assert 'import { to = fleet_member_cluster.m, id = "ams1" }' in said
    block = 'import {\n  to = fleet_member_cluster.m\n  id = "ams1"\n}\n'
    Path("main.nf.hcl").write_text(TAINTED.replace('"edge"', '"gpu"') + block)
    code, said = run_command("apply", "-auto-approve")
    assert (code, "1 imported" in said) == (0, True), said
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_ignored_label_of_another_manager_is_kept(hub: Front, run_command: CommandRunner) -> None:
    Path("main.nf.hcl").write_text(LABELLED.format(rank="one"))
    assert run_command("apply", "-auto-approve")[0] == 0
    names = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
    hub.put({**names, "metadata": {"name": "ams1", "labels": {"tier": "silver"}}}, "other")
    Path("main.nf.hcl").write_text(LABELLED.format(rank="two"))
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    member = hub.get("MemberCluster", "ams1")
    assert member is not None
    assert member["metadata"]["labels"] == {"env": "prod", "tier": "silver", "rank": "two"}
    ours = list_managed_fields(member, "nexusform")
    assert ".metadata.labels.rank" in ours
    assert ".metadata.labels.tier" not in ours
    assert run_command("plan", "-detailed-exitcode")[0] == 0
