"""Objects that several placements bring to one cluster, and selectors that bring nothing or may not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import hub, member, moves, placement
from tests.domains.pods.planning.test_placement_pods import CLUSTERS, MEMBERS, web
from tests.domains.pods.planning.test_placement_pods import hub as objects
from tests.planning.harness import RACKS, applied, attributes, errors, good, is_empty, plan, state_of, warnings

FLEET = hub() + member("c1")
A, B = "fleet_cluster_resource_placement.a", "fleet_cluster_resource_placement.b"
ON_NODES = RACKS + CLUSTERS + MEMBERS


def by(name: str, more: str = "") -> str:
    return placement("", more, name)


def taking_over(how: str, *, shared: bool = False) -> str:
    return f"""strategy {{
    apply_strategy {{
      when_to_take_over  = "{how}"
      allow_co_ownership = {str(shared).lower()}
    }}
  }}"""


def owned(result_warnings: list[Diagnostic]) -> list[str]:
    return [w.detail for w in result_warnings if w.id == "object-owned-by-another"]


def last_condition(state: State, address: str) -> tuple[str, str, str]:
    found = attributes(state, address)["conditions"][-1]
    return found["type"], found["status"], found["reason"]


def failures(state: State, address: str) -> list[dict[str, Any]]:
    return [f for each in attributes(state, address)["placement_statuses"] for f in each.get("failed_placements", ())]


def pods(state: State, address: str) -> dict[str, int]:
    workloads = attributes(state, address)["workloads"]
    return {cluster: sum(map(len, placed.values())) for cluster, placed in workloads.items()}


def test_owner_in_state_keeps_the_object() -> None:
    text = FLEET + by("b")
    state = state_of(text)
    result = good(plan(text + by("a"), state))
    details = owned(warnings(result))
    assert len(details) == 2  # the Namespace and the ConfigMap
    assert all(f"belongs to {B}" in detail and "co-ownership is disallowed" in detail for detail in details)
    state = applied(result, state)
    assert last_condition(state, A) == ("ClusterResourcePlacementApplied", "False", "ApplyFailed")
    assert last_condition(state, B) == ("ClusterResourcePlacementAvailable", "True", "ResourceAvailable")
    assert [(f["kind"], f["reason"]) for f in failures(state, A)] == [
        ("ConfigMap", "FailedToTakeOver"),
        ("Namespace", "FailedToTakeOver"),
    ]
    assert is_empty(plan(text + by("a"), state))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (taking_over("Always"), "co-ownership is disallowed"),
        (taking_over("Always", shared=True), "already owned by another Fleet AppliedWork object"),
        (taking_over("Never"), "no ownership of the object in the member cluster; takeover is needed"),
    ],
)
def test_why_an_object_is_not_taken_over(how: str, message: str) -> None:
    state = state_of(FLEET + by("b"))
    result = good(plan(FLEET + by("b") + by("a", how), state))
    assert all(message in detail for detail in owned(warnings(result)))
    assert {f["message"].endswith(message) for f in failures(applied(result, state), A)} == {True}


def test_one_of_two_new_owners_fails() -> None:
    details = owned(warnings(plan(FLEET + by("a") + by("b"))))
    assert len(details) == 2
    assert all(A in detail and B in detail and "but the hub decides" in detail for detail in details)


def as_if_it_had_all(state: State, text: str) -> State:
    """State as older versions wrote it, which knew no owners."""
    address = parse_address(text)
    instance = state.instances[address]
    assert instance.current is not None
    noted = {**(instance.current.private or {}), "content": {}}
    return state.replace_instance(address, replace(instance, current=replace(instance.current, private=noted)))


def test_an_old_state_in_which_two_have_an_object_plans_no_change() -> None:
    text = FLEET + by("a") + by("b")
    state = as_if_it_had_all(as_if_it_had_all(state_of(text), A), B)
    result = good(plan(text, state))
    assert is_empty(result)
    details = owned(warnings(result))
    assert len(details) == 2
    assert all("This plan does not change that" in detail and A in detail for detail in details)
    # The next rollout is the time at which a hub would tell.
    changed = hub("red") + member("c1") + by("a") + by("b")
    result = good(plan(changed, state))
    assert all(f"belongs to {A}" in detail for detail in owned(warnings(result)))
    state = applied(result, state)
    assert {f["kind"] for f in failures(state, B)} == {"ConfigMap", "Namespace"}
    assert is_empty(plan(changed, state))


def test_removed_owner_releases_the_object() -> None:
    text = ON_NODES + objects(web(1)) + by("b")
    state = state_of(text)
    state = applied(good(plan(text + by("a"), state)), state)
    assert (pods(state, A), pods(state, B)) == ({}, {"a": 1, "b": 1})
    alone = ON_NODES + objects(web(1)) + by("a")
    result = good(plan(alone, state))
    assert owned(warnings(result)) == []
    state = applied(result, state)
    assert pods(state, A) == {"a": 1, "b": 1}
    assert last_condition(state, A) == ("ClusterResourcePlacementAvailable", "True", "ResourceAvailable")
    assert failures(state, A) == []
    assert is_empty(plan(alone, state))


def test_report_diff_applies_and_owns_nothing() -> None:
    report = """strategy {
    apply_strategy {
      type = "ReportDiff"
    }
  }"""
    text = ON_NODES + objects(web(1)) + by("a", report) + by("b")
    result = good(plan(text))
    assert owned(warnings(result)) == []
    state = applied(result)
    assert (pods(state, A), pods(state, B)) == ({}, {"a": 1, "b": 1})


def test_what_a_cluster_has_without_a_placement_is_taken_over_where_that_is_allowed() -> None:
    direct = (
        objects(web(1))
        .replace('"hub"', '"direct"')
        .replace("  yaml_body", "  cluster_id = nexus_kubernetes_cluster.a.id\n  yaml_body")
    )
    text = ON_NODES + objects(web(1)) + direct
    never = owned(warnings(good(plan(text + by("a", taking_over("Never"))))))
    assert all("fleet_hub_manifest.direct" in detail and " on a " in detail for detail in never)
    assert len(never) == 2
    assert owned(warnings(good(plan(text + by("a", taking_over("IfNoDiff")))))) == []
    differing = text.replace("web:1", "web:2", 1)
    (detail,) = owned(warnings(good(plan(differing + by("a", taking_over("IfNoDiff"))))))
    assert "configuration differences are found" in detail


@pytest.mark.parametrize("name", ["kube-system", "fleet-system", "default"])
def test_a_reserved_namespace_is_accepted_and_nothing_is_selected(name: str) -> None:
    text = FLEET + placement().replace('"web"', f'"{name}"')
    result = good(plan(text))
    assert errors(result) == []
    assert [w.id for w in warnings(result)] == ["invalid-resource-selectors"]
    assert moves(result) == {}
    state = applied(result)
    (condition,) = attributes(state, "fleet_cluster_resource_placement.p")["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InvalidResourceSelectors")
    assert condition["message"] == (
        "The resource selectors are invalid: failed to process the request due to a client error: "
        f"invalid clusterRresourcePlacement p: namespace {name} is not allowed to propagate"
    )
    assert is_empty(plan(text, state))
    mended = good(plan(FLEET + placement(), state))
    assert moves(mended) == {"c1": ("place", "placement_created")}


@pytest.mark.parametrize(
    ("second", "object_as_printed"),
    [
        ('name = "web"', "Kind:Namespace Name:web Namespace: "),
        ("label_selector {}", "Kind:Namespace Name:web Namespace: "),
        ('name = "web"\n    selection_scope = "NamespaceOnly"', "Kind:Namespace Name:web Namespace: "),
    ],
)
def test_an_object_that_two_selectors_select_is_refused_as_a_hub_does(second: str, object_as_printed: str) -> None:
    more = f"""
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    {second}
  }}
"""
    text = hub() + member("c1") + placement("", more)
    result = good(plan(text))
    (warning,) = warnings(result)
    assert warning.id == "invalid-resource-selectors"
    assert f"found duplicate resource {{Group: Version:v1 {object_as_printed}Envelope:<nil>}}" in warning.detail
    assert "an earlier selector already selects it" in warning.detail
    state = applied(result)
    assert attributes(state, "fleet_cluster_resource_placement.p")["bindings"] == {}
    (condition,) = attributes(state, "fleet_cluster_resource_placement.p")["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InvalidResourceSelectors")
    assert is_empty(plan(text, state))


def test_a_placement_that_begins_to_select_a_reserved_namespace_is_left_as_it_is() -> None:
    state = state_of(FLEET + placement())
    text = FLEET + member("c2") + placement().replace('"web"', '"kube-system"')
    result = good(plan(text, state))
    assert moves(result) == {}
    state = applied(result, state)
    assert sorted(attributes(state, "fleet_cluster_resource_placement.p")["bindings"]) == ["c1"]
    assert is_empty(plan(text, state))


def test_empty_selector_is_reported() -> None:
    other = placement().replace('name    = "web"', 'name    = "wbe"')
    (warning,) = warnings(good(plan(FLEET + other)))
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
    (warning,) = warnings(good(plan(FLEET + namespaced)))
    assert warning.id == "missing-cluster-namespace"
    assert "The namespace web is missing on c1" in warning.detail
    only = placement().replace('name    = "web"', 'name    = "web"\n    selection_scope = "NamespaceOnly"')
    assert warnings(good(plan(FLEET + namespaced + only))) == []
    known = hub() + member("c1", None, 'namespaces = ["web"]')
    assert warnings(good(plan(known + namespaced))) == []
