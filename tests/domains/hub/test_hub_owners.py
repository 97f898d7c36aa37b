"""What a manager applied is not sent again where it stands as it was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.hub.providers.field_ownership import is_already_applied, remove_ignored_fields
from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_front import Front, fields_of

SPEC = {"policy": {"numberOfClusters": 2}, "resourceSelectors": [{"kind": "Namespace", "name": "web"}]}
SENT = {"apiVersion": "v1", "kind": "Placement", "metadata": {"name": "web"}, "spec": SPEC}
FIELDS = {"f:spec": {"f:policy": {".": {}, "f:numberOfClusters": {}}, "f:resourceSelectors": {}}}


def standing(spec: dict[str, Any], fields: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    entry = {"manager": "nexusform", "operation": "Apply", "fieldsV1": fields}
    other = {"manager": "hubagent", "operation": "Update", "fieldsV1": {"f:spec": {"f:strategy": {}}}}
    return {**SENT, "metadata": {"name": "web", "managedFields": [other, entry], **metadata}, "spec": spec}


def test_what_stands_as_it_was_sent_is_as_applied() -> None:
    assert is_already_applied(SENT, standing({**SPEC, "strategy": {"type": "RollingUpdate"}}, FIELDS), "nexusform")


def test_an_atomic_field_is_compared_as_a_whole() -> None:
    sent = {"spec": {"selector": {"matchLabels": {"env": "prod"}}}}
    fields = {"f:spec": {"f:selector": {}}}
    assert is_already_applied(sent, standing(sent["spec"], fields), "nexusform")
    wider = {"selector": {"matchLabels": {"env": "prod", "tier": "gold"}}}
    assert not is_already_applied(sent, standing(wider, fields), "nexusform")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({**SPEC, "policy": {"numberOfClusters": 3}}, FIELDS),  # another value
        ({**SPEC, "revisionHistoryLimit": 3}, {"f:spec": {**FIELDS["f:spec"], "f:revisionHistoryLimit": {}}}),
        (SPEC, {"f:spec": {"f:policy": {"f:numberOfClusters": {}}}}),  # the list belongs to somebody else
        (SPEC, {"f:spec": {"f:policy": {"f:numberOfClusters": {}}, "f:resourceSelectors": {'k:{"name":"web"}': {}}}}),
        (SPEC, {}),
    ],
)
def test_what_is_otherwise_or_belongs_to_others_is_sent(spec: dict[str, Any], fields: dict[str, Any]) -> None:
    assert not is_already_applied(SENT, standing(spec, fields), "nexusform")


def test_a_namespace_that_says_nothing_is_as_applied() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    assert is_already_applied(bare, {**bare, "spec": {"finalizers": ["kubernetes"]}}, "nexusform")


def test_what_another_manager_applied_is_sent() -> None:
    assert not is_already_applied(SENT, standing(SPEC, FIELDS), "somebody-else")


MEMBER = {"kind": "MemberCluster", "metadata": {"name": "m", "labels": {"tier": "silver", "kind": "edge"}}}


def owned_by(*owners: tuple[str, dict[str, Any]]) -> dict[str, Any]:
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
def test_of_ignored_labels_those_of_others_are_left_to_them(
    ignored: tuple[tuple[str, ...], ...], theirs: dict[str, Any], labels: dict[str, str] | None
) -> None:
    shown = owned_by(
        ("join", {"f:metadata": {"f:labels": theirs}}),
        ("nexusform", {"f:metadata": {"f:labels": {"f:tier": {}, "f:kind": {}}}}),
    )
    left = remove_ignored_fields(MEMBER, shown, ignored, "nexusform")
    assert left["metadata"].get("labels") == labels


def test_of_an_ignored_block_fields_that_nobody_else_owns_are_sent() -> None:
    sent = {"spec": {"policy": {"placementType": "PickN", "numberOfClusters": 3}, "stages": [{"name": "a"}]}}
    shown = owned_by(("autoscaler", {"f:spec": {"f:policy": {"f:numberOfClusters": {}}, "f:stages": {}}}))
    left = remove_ignored_fields(sent, shown, [("policy",), ("stage",)], "nexusform")
    assert left == {"spec": {"policy": {"placementType": "PickN"}}}


def test_what_others_own_as_a_whole_is_left_to_them_in_all_its_parts() -> None:
    sent = {"spec": {"selector": {"matchLabels": {"env": "prod"}}, "name": "a"}}
    shown = owned_by(("kubectl", {"f:spec": {"f:selector": {}}}))
    assert remove_ignored_fields(sent, shown, [("selector",)], "nexusform") == {"spec": {"name": "a"}}


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


def test_a_conflict_while_something_is_made_says_what_helps_there(hub: Front, told: Told) -> None:
    names = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
    theirs = [{"key": "gpu", "effect": "NoSchedule"}]
    hub.put({**names, "metadata": {"name": "ams1"}, "spec": {"taints": theirs}}, "kubectl")
    Path("main.nf.hcl").write_text(TAINTED)
    code, said = told("plan")
    assert (code, ".spec.taints belongs to kubectl" in said) == (1, True), said
    assert "ignore_changes" not in said
    assert 'import { to = fleet_member_cluster.m, id = "ams1" }' in said
    block = 'import {\n  to = fleet_member_cluster.m\n  id = "ams1"\n}\n'
    Path("main.nf.hcl").write_text(TAINTED.replace('"edge"', '"gpu"') + block)
    code, said = told("apply", "-auto-approve")
    assert (code, "1 imported" in said) == (0, True), said
    assert told("plan", "-detailed-exitcode")[0] == 0


def test_an_ignored_label_that_somebody_else_sets_stays_theirs(hub: Front, told: Told) -> None:
    Path("main.nf.hcl").write_text(LABELLED.format(rank="one"))
    assert told("apply", "-auto-approve")[0] == 0
    names = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
    hub.put({**names, "metadata": {"name": "ams1", "labels": {"tier": "silver"}}}, "other")
    Path("main.nf.hcl").write_text(LABELLED.format(rank="two"))
    code, said = told("apply", "-auto-approve")
    assert code == 0, said
    member = hub.get("MemberCluster", "ams1")
    assert member is not None
    assert member["metadata"]["labels"] == {"env": "prod", "tier": "silver", "rank": "two"}
    ours = fields_of(member, "nexusform")
    assert ".metadata.labels.rank" in ours
    assert ".metadata.labels.tier" not in ours
    assert told("plan", "-detailed-exitcode")[0] == 0
