"""Tests of objects applied by several placements to one cluster, and of selectors.

The selectors are empty or forbidden.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_placement,
    list_moves,
)
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import OF_A, WEB, plan_observed
from tests.domains.pods.planning.test_live_workloads import (
    build_live_controller,
    build_managed_fields,
)
from tests.domains.pods.planning.test_placement_pods import CLUSTERS, MEMBERS, build_web_deployment
from tests.domains.pods.planning.test_placement_pods import build_hub_manifest as objects
from tests.planning.harness import (
    RACKS,
    attributes,
    build_state,
    build_state_after,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    require_success,
)

FLEET = build_hub() + build_member("c1")
A = "fleet_cluster_resource_placement.a"
B = "fleet_cluster_resource_placement.b"
ON_NODES = RACKS + CLUSTERS + MEMBERS


def by(name: str, more: str = "") -> str:
    return build_placement("", more, name)


def build_take_over(how: str, *, shared: bool = False) -> str:
    return f"""strategy {{
    apply_strategy {{
      when_to_take_over  = "{how}"
      allow_co_ownership = {str(shared).lower()}
    }}
  }}"""


def list_ownership_warnings(result_warnings: list[Diagnostic]) -> list[str]:
    return [w.detail for w in result_warnings if w.id == "object-owned-by-another"]


def get_last_condition(state: State, address: str) -> tuple[str, str, str]:
    found = attributes(state, address)["conditions"][-1]
    return found["type"], found["status"], found["reason"]


def list_failures(state: State, address: str) -> list[dict[str, Any]]:
    return [
        f
        for each in attributes(state, address)["placement_statuses"]
        for f in each.get("failed_placements", ())
    ]


def count_pods(state: State, address: str) -> dict[str, int]:
    workloads = attributes(state, address)["workloads"]
    return {cluster: sum(map(len, placed.values())) for cluster, placed in workloads.items()}


def test_owner_in_state_keeps_the_object() -> None:
    text = FLEET + by("b")
    state = build_state(text)
    result = require_success(plan(text + by("a"), state))
    details = list_ownership_warnings(list_warnings(result))
    # The two objects are the Namespace and the ConfigMap.
    assert len(details) == 2
    assert all(
        f"belongs to {B}" in detail and "co-ownership is disallowed" in detail for detail in details
    )
    state = build_state_after(result, state)
    assert get_last_condition(state, A) == (
        "ClusterResourcePlacementApplied",
        "False",
        "ApplyFailed",
    )
    assert get_last_condition(state, B) == (
        "ClusterResourcePlacementAvailable",
        "True",
        "ResourceAvailable",
    )
    assert [(f["kind"], f["reason"]) for f in list_failures(state, A)] == [
        ("ConfigMap", "FailedToTakeOver"),
        ("Namespace", "FailedToTakeOver"),
    ]
    assert is_empty(plan(text + by("a"), state))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (build_take_over("Always"), "co-ownership is disallowed"),
        (
            build_take_over("Always", shared=True),
            "already owned by another Fleet AppliedWork object",
        ),
        (
            build_take_over("Never"),
            "no ownership of the object in the member cluster; takeover is needed",
        ),
    ],
)
def test_takeover_failure_has_a_reason(how: str, message: str) -> None:
    state = build_state(FLEET + by("b"))
    result = require_success(plan(FLEET + by("b") + by("a", how), state))
    assert all(message in detail for detail in list_ownership_warnings(list_warnings(result)))
    assert {
        f["message"].endswith(message) for f in list_failures(build_state_after(result, state), A)
    } == {True}


def test_one_of_two_new_owners_fails() -> None:
    details = list_ownership_warnings(list_warnings(plan(FLEET + by("a") + by("b"))))
    assert len(details) == 2
    assert all(
        A in detail and B in detail and "but the hub decides" in detail for detail in details
    )


def remove_owner_records(state: State, text: str) -> State:
    """Return the state in the format of older versions, without owners."""
    address = parse_address(text)
    instance = state.instances[address]
    assert instance.current is not None
    noted = {**(instance.current.private or {}), "content": {}}
    return state.replace_instance(
        address, replace(instance, current=replace(instance.current, private=noted))
    )


def test_old_state_with_two_owners_plans_no_change() -> None:
    text = FLEET + by("a") + by("b")
    state = remove_owner_records(remove_owner_records(build_state(text), A), B)
    result = require_success(plan(text, state))
    assert is_empty(result)
    details = list_ownership_warnings(list_warnings(result))
    assert len(details) == 2
    assert all("This plan does not change that" in detail and A in detail for detail in details)
    # A hub would report it at the next rollout.
    changed = build_hub("red") + build_member("c1") + by("a") + by("b")
    result = require_success(plan(changed, state))
    assert all(
        f"belongs to {A}" in detail for detail in list_ownership_warnings(list_warnings(result))
    )
    state = build_state_after(result, state)
    assert {f["kind"] for f in list_failures(state, B)} == {"ConfigMap", "Namespace"}
    assert is_empty(plan(changed, state))


def test_removed_owner_releases_the_object() -> None:
    text = ON_NODES + objects(build_web_deployment(1)) + by("b")
    state = build_state(text)
    state = build_state_after(require_success(plan(text + by("a"), state)), state)
    assert (count_pods(state, A), count_pods(state, B)) == ({}, {"a": 1, "b": 1})
    alone = ON_NODES + objects(build_web_deployment(1)) + by("a")
    result = require_success(plan(alone, state))
    assert list_ownership_warnings(list_warnings(result)) == []
    state = build_state_after(result, state)
    assert count_pods(state, A) == {"a": 1, "b": 1}
    assert get_last_condition(state, A) == (
        "ClusterResourcePlacementAvailable",
        "True",
        "ResourceAvailable",
    )
    assert list_failures(state, A) == []
    assert is_empty(plan(alone, state))


def test_report_diff_applies_and_owns_nothing() -> None:
    report = """strategy {
    apply_strategy {
      type = "ReportDiff"
    }
  }"""
    text = ON_NODES + objects(build_web_deployment(1)) + by("a", report) + by("b")
    result = require_success(plan(text))
    assert list_ownership_warnings(list_warnings(result)) == []
    state = build_state_after(result)
    assert (count_pods(state, A), count_pods(state, B)) == ({}, {"a": 1, "b": 1})


def test_unmanaged_object_is_taken_over_if_allowed() -> None:
    direct = (
        objects(build_web_deployment(1))
        .replace('"hub"', '"direct"')
        .replace("  yaml_body", "  cluster_id = nexus_kubernetes_cluster.a.id\n  yaml_body")
    )
    text = ON_NODES + objects(build_web_deployment(1)) + direct
    never = list_ownership_warnings(
        list_warnings(require_success(plan(text + by("a", build_take_over("Never")))))
    )
    assert all("fleet_hub_manifest.direct" in detail and " on a " in detail for detail in never)
    assert len(never) == 2
    assert (
        list_ownership_warnings(
            list_warnings(require_success(plan(text + by("a", build_take_over("IfNoDiff")))))
        )
        == []
    )
    differing = text.replace("web:1", "web:2", 1)
    (detail,) = list_ownership_warnings(
        list_warnings(require_success(plan(differing + by("a", build_take_over("IfNoDiff")))))
    )
    assert "configuration differences are found" in detail


@pytest.mark.parametrize("name", ["kube-system", "fleet-system", "default"])
def test_reserved_namespace_is_accepted_and_not_selected(name: str) -> None:
    text = FLEET + build_placement().replace('"web"', f'"{name}"')
    result = require_success(plan(text))
    assert list_errors(result) == []
    assert [w.id for w in list_warnings(result)] == ["invalid-resource-selectors"]
    assert list_moves(result) == {}
    state = build_state_after(result)
    (condition,) = attributes(state, "fleet_cluster_resource_placement.p")["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InvalidResourceSelectors")
    assert condition["message"] == (
        "The resource selectors are invalid: failed to process the request due to a client error: "
        f"invalid clusterRresourcePlacement p: namespace {name} is not allowed to propagate"
    )
    assert is_empty(plan(text, state))
    mended = require_success(plan(FLEET + build_placement(), state))
    assert list_moves(mended) == {"c1": ("place", "placement_created")}


@pytest.mark.parametrize(
    ("second", "object_as_printed"),
    [
        ('name = "web"', "Kind:Namespace Name:web Namespace: "),
        ("label_selector {}", "Kind:Namespace Name:web Namespace: "),
        (
            'name = "web"\n    selection_scope = "NamespaceOnly"',
            "Kind:Namespace Name:web Namespace: ",
        ),
    ],
)
def test_object_selected_twice_is_rejected_as_by_a_hub(second: str, object_as_printed: str) -> None:
    more = f"""
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    {second}
  }}
"""
    text = build_hub() + build_member("c1") + build_placement("", more)
    result = require_success(plan(text))
    (warning,) = list_warnings(result)
    assert warning.id == "invalid-resource-selectors"
    assert (
        f"found duplicate resource {{Group: Version:v1 {object_as_printed}Envelope:<nil>}}"
        in warning.detail
    )
    assert "an earlier selector already selects it" in warning.detail
    state = build_state_after(result)
    assert attributes(state, "fleet_cluster_resource_placement.p")["bindings"] == {}
    (condition,) = attributes(state, "fleet_cluster_resource_placement.p")["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InvalidResourceSelectors")
    assert is_empty(plan(text, state))


def test_placement_is_kept_after_selecting_reserved_namespace() -> None:
    state = build_state(FLEET + build_placement())
    text = FLEET + build_member("c2") + build_placement().replace('"web"', '"kube-system"')
    result = require_success(plan(text, state))
    assert list_moves(result) == {}
    state = build_state_after(result, state)
    assert sorted(attributes(state, "fleet_cluster_resource_placement.p")["bindings"]) == ["c1"]
    assert is_empty(plan(text, state))


def test_empty_selector_is_reported() -> None:
    other = build_placement().replace('name    = "web"', 'name    = "wbe"')
    (warning,) = list_warnings(require_success(plan(FLEET + other)))
    assert warning.id == "empty-resource-selection"
    assert "v1 Namespace wbe selects nothing" in warning.detail


def test_namespaced_placement_without_its_namespace() -> None:
    namespaced = """
resource "fleet_resource_placement" "n" {
  namespace = "web"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
}
"""
    (warning,) = list_warnings(require_success(plan(FLEET + namespaced)))
    assert warning.id == "missing-cluster-namespace"
    assert "The namespace web is missing on c1" in warning.detail
    only = build_placement().replace(
        'name    = "web"', 'name    = "web"\n    selection_scope = "NamespaceOnly"'
    )
    assert list_warnings(require_success(plan(FLEET + namespaced + only))) == []
    known = build_hub() + build_member("c1", None, 'namespaces = ["web"]')
    assert list_warnings(require_success(plan(known + namespaced))) == []


@pytest.mark.parametrize(
    ("strategy", "owners", "message"),
    [
        (build_take_over("Never"), (), "exists on a already: no ownership of the object"),
        (build_take_over("IfNoDiff"), (), "exists on a already: cannot take over object"),
        (
            "",
            ({"kind": "Shop", "name": "s"},),
            "on a belongs to Shop s: failed to take over a pre-existing object",
        ),
        (build_take_over("Always"), (), ""),
        (build_take_over("Always", shared=True), ({"kind": "Shop", "name": "s"},), ""),
        (build_take_over("Never"), ({"kind": "AppliedWork", "name": "a-work"},), ""),
    ],
)
def test_observed_workload_without_takeover_keeps_its_pods(
    strategy: str, owners: tuple[Any, ...], message: str
) -> None:
    live = build_live_controller("Deployment", "web", 1, ownerReferences=owners, namespace="web")
    pod = build_pod("web-5d-0", "a-np-0", owner=("ReplicaSet", "web-5d"), labels=WEB)
    pod["metadata"]["namespace"] = "web"
    text = ON_NODES + OF_A + objects(build_web_deployment(2)) + by("a", strategy)
    result = require_success(plan_observed(text, build_node("a-np-0"), live, pod))
    rows = [
        row
        for row in result.plan.placements
        if row.kind == "pod" and row.target and row.target.cluster == "a"
    ]
    added = [row.object for row in rows if row.action != "keep"]
    details = list_ownership_warnings(list_warnings(result))
    assert bool(added) == (not message)
    assert [message in detail for detail in details] == ([True] if message else [])


def test_observed_workload_without_difference_is_taken_over() -> None:
    live = json.loads(build_web_deployment(2))
    text = ON_NODES + OF_A + objects(build_web_deployment(2)) + by("a", build_take_over("IfNoDiff"))
    result = require_success(plan_observed(text, build_node("a-np-0"), live))
    assert not list_ownership_warnings(list_warnings(result))


def test_placed_workload_without_replicas_has_the_default_of_the_hub() -> None:
    """The hub's API server sets `replicas: 1`, and the placement writes it.

    It replaces the 3 of the member.
    """
    live = build_live_controller("Deployment", "web", 3, namespace="web")
    live["metadata"]["managedFields"] = [
        build_managed_fields("kube-controller-manager", {"f:replicas": {}}, subresource="scale")
    ]
    pods = [
        build_pod(f"web-5d-{number}", "a-np-0", owner=("ReplicaSet", "web-5d"), labels=WEB)
        for number in range(3)
    ]
    for pod in pods:
        pod["metadata"]["namespace"] = "web"
    body = json.loads(build_web_deployment())
    del body["spec"]["replicas"]
    text = ON_NODES + OF_A + objects(json.dumps(body)) + by("a", build_take_over("Always"))
    result = require_success(plan_observed(text, build_node("a-np-0"), live, *pods))
    removed = [
        row for row in result.plan.placements if row.kind == "pod" and row.action == "remove"
    ]
    assert len(removed) == 2
    assert "replicas-of-cluster" not in {warning.id for warning in result.plan.diagnostics}
