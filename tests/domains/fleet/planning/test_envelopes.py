"""Tests of envelopes rejected by a hub, and of members under ReportDiff."""

from __future__ import annotations

import pytest

from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_placement,
    get_bindings,
)
from tests.domains.fleet.planning.test_operations import P, list_colours
from tests.planning.harness import (
    attributes,
    build_state,
    build_state_after,
    list_errors,
    list_warnings,
    plan,
    require_success,
)

MEMBERS = "".join(build_member(name) for name in ("m1", "m2", "m3"))
POLICY = 'placement_type = "PickFixed"\n cluster_names = ["m1", "m2", "m3"]'
ONE_BY_ONE = """
  strategy {
    apply_strategy {
      type = "APPLYING"
    }
    rolling_update {
      max_unavailable = "1"
    }
  }
"""


def build_configuration(inside: str, applying: str = "ClientSideApply") -> str:
    """Return a namespace with an envelope; `inside` is the metadata of the object in it."""
    envelope = f"""
    apiVersion: v1
    kind: Namespace
    metadata:
      name: web
    ---
    apiVersion: placement.kubernetes-fleet.io/v1beta1
    kind: ResourceEnvelope
    metadata:
      name: e
      namespace: web
    data:
      a.yaml:
        apiVersion: v1
        kind: ConfigMap
        metadata: {inside}
        data:
          colour: blue
"""
    resource = f'resource "fleet_hub_manifest" "web" {{\n  yaml_body = <<-EOT{envelope}  EOT\n}}\n'
    return resource + MEMBERS + build_placement(POLICY, ONE_BY_ONE.replace("APPLYING", applying))


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (
            "{name: inside, namespace: other}",
            (
                "a namespaced object a.yaml (other/inside) in has been wrapped in a resource "
                "envelope from "
                "another namespace (web/e)"
            ),
        ),
        (
            "{name: inside}",
            "a cluster scope object a.yaml (inside) has been wrapped in a resource envelope web/e",
        ),
    ],
)
def test_object_of_another_scope_in_envelope_stops_rollout(inside: str, said: str) -> None:
    state = build_state(build_configuration("{name: inside, namespace: web}"))
    result = require_success(plan(build_configuration(inside), state))
    kinds = {warning.id for warning in list_warnings(result)}
    assert {"envelope-cannot-be-opened", "incomplete-rollout"} <= kinds
    broken = build_state_after(result, state)
    assert {name: each["resource_snapshot"] for name, each in get_bindings(broken).items()} == {
        "m1": 1,
        "m2": 0,
        "m3": 0,
    }
    last = attributes(broken, P)["placement_statuses"][0]["conditions"][-1]
    assert (last["type"], last["status"], last["reason"]) == (
        "WorkSynchronized",
        "False",
        "SyncWorkFailed",
    )
    assert last["message"] == f"Failed to synchronize the work to the latest: {said}"
    mended = build_state_after(
        require_success(plan(build_configuration("{name: inside, namespace: web}"), broken)), broken
    )
    assert {each["resource_snapshot"] for each in get_bindings(mended).values()} == {2}


def test_content_of_envelope_without_a_kind_is_an_error_at_its_line() -> None:
    text = build_configuration("{name: inside, namespace: web}").replace(
        "        kind: ConfigMap\n", ""
    )
    (problem,) = list_errors(plan(text))
    assert problem.detail == "yaml_body:12: this document has no kind (a text)."


def test_status_in_namespace_has_condition() -> None:
    inside = build_configuration("{name: inside, namespace: web}")
    told = inside.replace(
        "strategy {", 'status_reporting_scope = "NamespaceAccessible"\n  strategy {', 1
    )
    conditions = attributes(build_state(told), P)["conditions"]
    assert conditions[1] == {
        "type": "ClusterResourcePlacementStatusSynced",
        "status": "True",
        "reason": "StatusSyncSucceeded",
        "message": (
            "Successfully created or updated ClusterResourcePlacementStatus in namespace 'web'"
        ),
    }
    assert [each["type"] for each in attributes(build_state(inside), P)["conditions"]] == [
        each["type"] for each in (conditions[0], *conditions[2:])
    ]


def test_status_namespace_is_of_the_core_api() -> None:
    text = build_configuration("{name: inside, namespace: web}")
    text = text.replace(
        "strategy {", 'status_reporting_scope = "NamespaceAccessible"\n  strategy {', 1
    )
    text = text.replace('version = "v1"', 'group = "tenancy.example.com"\n    version = "v1"', 1)
    tenant = (
        "apiVersion: tenancy.example.com/v1\n    kind: Namespace\n    metadata:\n      name: web\n"
        "    ---\n    "
    )
    text = text.replace("apiVersion: v1\n", f"{tenant}apiVersion: v1\n", 1)
    state = build_state(text)
    assert attributes(state, P)["selected_resources"][0]["group"] == "tenancy.example.com"
    types = [each["type"] for each in attributes(state, P)["conditions"]]
    assert "ClusterResourcePlacementStatusSynced" not in types


def test_changes_under_report_diff_are_applied_later() -> None:
    def build_text(colour: str, applying: str) -> str:
        return (
            build_hub(colour)
            + MEMBERS
            + build_placement(POLICY, ONE_BY_ONE.replace("APPLYING", applying))
        )

    state = build_state(build_text("blue", "ClientSideApply"))
    state = build_state_after(require_success(plan(build_text("red", "ReportDiff"), state)), state)
    assert list_colours(state) == {"blue"}
    state = build_state_after(
        require_success(plan(build_text("red", "ClientSideApply"), state)), state
    )
    assert list_colours(state) == {"red"}


def test_waves_of_untracked_objects_wait_between_each_other() -> None:
    def build_text(colour: str) -> str:
        widget = (
            "    ---\n    {apiVersion: example.com/v1, kind: Widget, metadata: {name: once, "
            "namespace: web}}\n"
        )
        slow = ONE_BY_ONE.replace("APPLYING", "ClientSideApply").replace(
            '= "1"', '= "1"\n unavailable_period_seconds = 90'
        )
        return (
            build_hub(colour).replace("  EOT\n}", f"{widget}  EOT\n}}", 1)
            + MEMBERS
            + build_placement(POLICY, slow)
        )

    result = require_success(plan(build_text("red"), build_state(build_text("blue"))))
    (rollout,) = result.plan.workloads.rollouts
    assert [
        (step.kind, step.clusters, step.start_seconds, step.waits_for) for step in rollout.steps
    ] == [
        ("update", ("m1",), 0, ""),
        ("wait", (), 0, ""),
        ("update", ("m2",), 90, "1m30s"),
        ("wait", (), 90, ""),
        ("update", ("m3",), 180, "1m30s"),
    ]


def test_report_diff_causes_no_apply_failures() -> None:
    def now(colour: str) -> str:
        failing = MEMBERS.replace('"m1" {', '"m1" {\n  apply_fails = true', 1)
        return (
            build_hub(colour)
            + failing
            + build_placement(POLICY, ONE_BY_ONE.replace("APPLYING", "ReportDiff"))
        )

    result = require_success(plan(now("red"), build_state(now("blue"))))
    assert [
        step.clusters for rollout in result.plan.workloads.rollouts for step in rollout.steps
    ] == [("m1",), ("m2",), ("m3",)]
