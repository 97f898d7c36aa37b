"""Tests of staged runs in a namespace, and of approval requests as objects.

An approval resumes the run.
"""

from __future__ import annotations

import json

import pytest

from tests.domains.fleet.planning.fleet_harness import build_hub, build_member, get_bindings
from tests.planning.harness import (
    build_state,
    build_state_after,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    require_success,
)

EXTERNAL = """
resource "fleet_RESOURCE_placement" "p" {
  NAMESPACE
  resource_selector {
    version = "v1"
    kind    = "KIND"
    name    = "NAME"
  }
  strategy {
    type = "External"
  }
}
resource "fleet_CLUSTERstaged_update_strategy" "s" {
  NAMESPACE
  stage {
    name = "one"
    label_selector {
      match_labels = { ring = "1" }
    }
    after_stage_task {
      type = "Approval"
    }
  }
  stage {
    name = "two"
    label_selector {
      match_labels = { ring = "2" }
    }
  }
}
resource "fleet_CLUSTERstaged_update_run" "r" {
  NAMESPACE
  placement_name               = "p"
  staged_rollout_strategy_name = "s"
  state                        = "Run"
}
"""
APPROVAL = """
resource "fleet_CLUSTERapproval_request" "a" {
  NAMESPACE
  name                 = "r-after-one"
  parent_stage_rollout = "r"
  target_stage         = "one"
}
"""


def set_scope(text: str, *, namespaced: bool) -> str:
    text = text.replace("CLUSTER", "" if namespaced else "cluster_")
    text = text.replace("RESOURCE", "resource" if namespaced else "cluster_resource")
    text = text.replace("NAMESPACE", 'namespace = "web"' if namespaced else "")
    text = text.replace("KIND", "ConfigMap" if namespaced else "Namespace")
    return text.replace("NAME", "settings" if namespaced else "web")


@pytest.mark.parametrize("namespaced", [True, False])
def test_approved_request_resumes_the_run(namespaced: bool) -> None:
    fleet = build_hub() + build_member("a", {"ring": "1"}) + build_member("b", {"ring": "2"})
    text = fleet + set_scope(EXTERNAL, namespaced=namespaced)
    address = f"fleet_{'' if namespaced else 'cluster_'}resource_placement.p"
    waits = require_success(plan(text))
    assert "staged-run-awaiting-approval" in [w.id for w in list_warnings(waits)]
    state = build_state(text)
    held = {name: each["state"] for name, each in get_bindings(state, address).items()}
    assert held == {"a": "Bound", "b": "Scheduled"}
    granted = text + set_scope(APPROVAL, namespaced=namespaced)
    refused = granted.replace('"one"\n}\n', '"one"\n  approved = false\n}\n')
    assert (
        get_bindings(build_state_after(require_success(plan(refused, state)), state), address)["b"][
            "state"
        ]
        == "Scheduled"
    )
    after = build_state_after(require_success(plan(granted, state)), state)
    assert {each["state"] for each in get_bindings(after, address).values()} == {"Bound"}
    assert is_empty(plan(granted, after))


def test_status_reporting_scope_is_immutable() -> None:
    text = build_hub() + build_member("a") + set_scope(EXTERNAL, namespaced=False)
    changed = text.replace(
        "  strategy {", '  status_reporting_scope = "NamespaceAccessible"\n  strategy {', 1
    )
    (problem,) = list_errors(plan(changed, build_state(text)))
    assert problem.id == "change-not-allowed"
    assert "StatusReportingScope is immutable" in problem.detail


def test_useless_approval_is_accepted_with_a_warning() -> None:
    text = set_scope(APPROVAL, namespaced=False).replace("r-after-one", "r-one")
    result = plan(text)
    assert list_errors(result) == []
    (warning,) = list_warnings(result)
    assert warning.id == "useless-approval-request"
    assert "A run requests r-before-one or r-after-one" in warning.detail


def test_manifest_status_grants_approval() -> None:
    manifest = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterApprovalRequest",
        "metadata": {"name": "r-after-one"},
        "spec": {"parentStageRollout": "r", "targetStage": "one"},
    }
    fleet = build_hub() + build_member("a", {"ring": "1"}) + build_member("b", {"ring": "2"})
    text = fleet + set_scope(EXTERNAL, namespaced=False)
    for status, last in (("True", "Bound"), ("False", "Scheduled")):
        shown = manifest | {"status": {"conditions": [{"type": "Approved", "status": status}]}}
        written = json.dumps(json.dumps(shown))
        request = f'resource "fleet_cluster_approval_request" "a" {{\n  manifest = {written}\n}}\n'
        assert get_bindings(build_state(text + request))["b"]["state"] == last


HEAD = (
    "apiVersion: placement.kubernetes-fleet.io/v1\nkind: {kind}\nmetadata: {{name: it}}\nspec: "
    "{spec}\n"
)
RUN = "{placementName: p, stagedRolloutStrategyName: s, state: Run}"
ASKS = "{parentStageRollout: it, targetStage: one}"
RULES = "policy: {overrideRules: [{overrideType: Delete}]}"
OVERRIDE = (
    f"{{clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: web}}], "
    f"{RULES}}}"
)


@pytest.mark.parametrize(
    ("kind", "spec", "changed", "says"),
    [
        (
            "ClusterStagedUpdateRun",
            RUN,
            RUN.replace("p,", "q,"),
            'placementName is immutable on a hub. Current value: "p"',
        ),
        (
            "ClusterStagedUpdateRun",
            RUN,
            RUN.replace("s,", "t,"),
            "stagedRolloutStrategyName is immutable",
        ),
        (
            "ClusterStagedUpdateRun",
            RUN,
            RUN.replace("{", "{resourceSnapshotIndex: '1', "),
            "resourceSnapshotIndex is immutable on a hub. Current value: not set",
        ),
        ("ClusterStagedUpdateRun", RUN, RUN.replace("Run", "Stop"), ""),
        ("ClusterApprovalRequest", ASKS, ASKS.replace("one", "two"), "targetStage is immutable"),
        (
            "ClusterApprovalRequest",
            ASKS,
            ASKS.replace("it", "r"),
            "parentStageRollout is immutable",
        ),
        (
            "ClusterResourceOverride",
            OVERRIDE,
            OVERRIDE.replace("{cl", "{placement: {name: p}, cl"),
            "placement is immutable on a hub. Current value: not set",
        ),
        ("ClusterResourceOverride", OVERRIDE, OVERRIDE.replace("name: web", "name: db"), ""),
    ],
)
def test_immutable_fields_are_rejected(kind: str, spec: str, changed: str, says: str) -> None:
    types = {
        "ClusterStagedUpdateRun": "fleet_cluster_staged_update_run",
        "ClusterApprovalRequest": "fleet_cluster_approval_request",
        "ClusterResourceOverride": "fleet_cluster_resource_override",
    }

    def build_text(of: str) -> str:
        text = HEAD.format(kind=kind, spec=of)
        return f'resource "{types[kind]}" "it" {{\n  manifest = <<-Y\n{text}Y\n}}\n'

    state = build_state_after(plan(build_text(spec)))
    result = plan(build_text(changed), state)
    if not says:
        require_success(result)
        return
    (error,) = list_errors(result)
    assert error.id == "change-not-allowed"
    assert says in error.detail
    require_success(plan(build_text(changed), state, replaces=(f"{types[kind]}.it",)))


def test_approval_request_in_blocks_is_recreated() -> None:
    state = build_state(APPROVAL.replace("NAMESPACE", "").replace("CLUSTER", "cluster_"))
    other = (
        APPROVAL.replace("NAMESPACE", "").replace("CLUSTER", "cluster_").replace('"one"', '"two"')
    )
    (change,) = require_success(plan(other, state)).plan.changes
    assert change.replace_paths == (("target_stage",),)
