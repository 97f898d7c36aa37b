"""Clusters that a fleet asks for (FEP-0001): which sites hold them, and whether they meet the terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domains.fleet.planning.fleet_harness import hub, member, placement
from tests.planning.harness import Unreadable, applied, errors, is_empty, plan, warnings

SITES = """
resource "nexus_site" "lab" {}
resource "nexus_site" "edge" {}
resource "nexus_rack" "r" {
  count             = 2
  name              = "r${count.index}"
  availability_zone = tostring(count.index)
  site_id           = nexus_site.lab.id
  machine_count     = 4
}
resource "nexus_rack" "e" {
  name              = "r0"
  availability_zone = "9"
  site_id           = nexus_site.edge.id
  machine_count     = 1
}
"""
ON = 'nexusform {\n  experimental = ["cluster_request"]\n}\n'


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def cluster_request(*terms: dict[str, Any]) -> dict[str, Any]:
    policy = {"apiVersion": "v1alpha1", "kind": "PlacementPolicy", "namespace": "web", "name": "web"}
    return {
        "apiVersion": "placement.kubefleet.dev/v1alpha1",
        "kind": "ClusterRequest",
        "metadata": {"name": "web-1"},
        "spec": {"placementPolicyRef": policy, "clusterSelectorTerms": list(terms)},
    }


def policy(*selectors: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubefleet.dev/v1alpha1",
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "clusterSelectors": list(selectors),
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "web"}],
        },
    }


def asking(document: dict[str, Any], template: str = "") -> str:
    return f"""
data "fleet_cluster_request" "web" {{
  manifest = {json.dumps(json.dumps(document))}
  template {{
    sku    = "NC_P46_224_v1"
    count  = 5
    labels = {{ region = "west" }}
    {template}
  }}
}}
output "answer" {{
  value = data.fleet_cluster_request.web
}}
"""


def answer(text: str) -> dict[str, Any]:
    state = applied(plan(ON + SITES + text))
    value: dict[str, Any] = state.outputs["answer"].value
    return value


WEST = {"matchLabels": {"region": "west"}}


def test_the_sites_that_hold_the_cluster_are_told() -> None:
    told = answer(asking(cluster_request(WEST)))
    assert told["id"] == "ClusterRequest web-1"
    assert told["policy"] == "web/web"
    assert told["meets_terms"]
    assert told["sites"]["lab"] == {
        "fits": True,
        "vms_at_least": 16,
        "vms_at_most": 16,
        "racks": ["r0", "r1"],
        "reason": None,
    }
    assert told["sites"]["edge"]["reason"] == "2 of 5 NC_P46_224_v1 fit"


def test_room_is_what_the_plan_leaves() -> None:
    cluster = """
resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_P46_224_v1"
  }
  agent_pool "np" {
    count       = 4
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
    told = answer(cluster + asking(cluster_request(WEST), 'zones = ["0"]'))
    assert told["sites"]["lab"]["vms_at_least"] in (5, 6)
    assert told["sites"]["lab"]["racks"] == ["r0"]


def test_derived_properties_are_compared_as_the_scheduler_would() -> None:
    nodes = "kubernetes-fleet.io/node-count"
    cpu = "resources.kubernetes-fleet.io/available-cpu"
    met = {"matchClusterPropertyExpressions": [expression(nodes, "Ge", "5"), expression(cpu, "Gt", "200")]}
    assert answer(asking(cluster_request(met)))["meets_terms"]
    few = {"matchClusterPropertyExpressions": [expression(nodes, "Ge", "6")]}
    east = {"matchLabels": {"region": "east"}}
    result = plan(ON + SITES + asking(cluster_request(few, east)))
    assert answer(asking(cluster_request(few, east)))["unmet"] == [
        f"property {nodes} Ge 6 does not hold: it is 5",
        'label region is "west", not east',
    ]
    assert [warning.id for warning in warnings(result)] == ["cluster-request-is-not-met"]
    # Terms are alternatives.
    assert answer(asking(cluster_request(few, WEST)))["meets_terms"]


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        ({"matchLabelExpressions": [expression("region", "NotIn", "west")]}, 'does not hold: it is "west"'),
        ({"matchLabelExpressions": [expression("gpu", "Exists")]}, "does not hold: it is absent"),
        ({"matchLabelExpressions": [expression("region", "Gt", "1")]}, "labels are no numbers"),
        ({"matchClusterPropertyExpressions": [expression("x.io/y", "Ge", "1")]}, "x.io/y is not there"),
        (
            {"matchClusterPropertyExpressions": [expression("kubernetes-fleet.io/node-count", "Eq", "x")]},
            "stops the scheduler",
        ),
    ],
)
def test_what_is_lacking_is_said(term: dict[str, Any], reason: str) -> None:
    assert reason in answer(asking(cluster_request(term)))["unmet"][0]


def test_a_policy_asks_for_as_many_as_its_selectors_lack() -> None:
    members = member("a", {"region": "west"}) + member("b", {"region": "east"})
    document = policy(
        {"terms": [WEST], "count": 3, "minCount": 2},
        {"terms": [{"matchLabels": {"region": "east"}}], "count": 1},
        {"terms": [{"matchLabels": {"region": "south"}}], "whenUnfulfilled": "KeepSearching"},
        {"terms": [WEST], "count": "All"},
    )
    told = answer(hub() + members + placement() + asking(document))
    selectors = told["selectors"]
    assert [(each["members"], each["missing"], each["asks"]) for each in selectors] == [
        (["a"], 1, True),
        (["b"], 0, True),
        ([], 1, False),
        (["a"], 0, True),
    ]
    assert told["meets_terms"]


def test_a_second_plan_is_empty_and_nothing_fits_is_a_warning() -> None:
    text = ON + SITES + asking(cluster_request(WEST)).replace("count  = 5", "count  = 50")
    result = plan(text)
    (only,) = warnings(result)
    assert only.id == "cluster-request-fits-nowhere"
    assert "edge: 2 of 50 NC_P46_224_v1 fit" in only.detail
    state = applied(result)
    assert is_empty(plan(text, state))


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (("NC_P46_224_v1", "NC_P46_224"), "unknown-vm-sku", 'Did you mean "NC_P46_224_v1"?'),
        (("count  = 5", "count  = 0"), "invalid-value-for-argument", "1 to 1,000,000 nodes"),
        (("count  = 5", "count  = 1000000000"), "invalid-value-for-argument", "1 to 1,000,000 nodes"),
        (("count  = 5", 'count  = 5\nzones = ["7"]'), "unknown-availability-zone", "Known: 0, 1 and 9."),
        (("ClusterRequest", "ClusterRequests"), "invalid-fleet-manifest", 'Did you mean "ClusterRequest"?'),
        (("matchLabels", "matchLabel"), "invalid-fleet-manifest", 'Did you mean "matchLabels"?'),
        (("placementPolicyRef", "x"), "invalid-fleet-manifest", "spec.placementPolicyRef is missing"),
        (('[\\"cluster_request\\"]', ""), "experiment-is-not-switched-on", "experimental = "),
        (("experimental", "experiment"), "unsupported-argument", "experimental"),
    ],
)
def test_mistakes_are_errors(change: tuple[str, str], kind: str, says: str) -> None:
    text = ON + SITES + asking(cluster_request(WEST))
    off = kind == "experiment-is-not-switched-on"
    text = text.removeprefix(ON) if off else text.replace(*change)
    try:
        found = errors(plan(text))
    except Unreadable as problem:
        found = list(problem.problems)
    assert kind in {each.id for each in found}
    assert says in "".join(each.detail for each in found)


def test_an_experiment_that_is_none_is_told_alone() -> None:
    text = ON.replace("cluster_request", "cluster_requests") + SITES + asking(cluster_request(WEST))
    with pytest.raises(Unreadable, match='Did you mean "cluster_request"') as caught:
        plan(text)
    assert [each.id for each in caught.value.problems] == ["unknown-experiment"]


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ({"count": 0}, "must be 1 to 999"),
        ({"count": "Some"}, "([1-9][0-9]{0,2}|All)"),
        ({"count": 2, "minCount": 3}, "minCount must be less than or equal to count"),
        ({"whenUnfulfilled": "Ask"}, "RequestCluster, KeepSearching"),
        ({"terms": [{"matchLabelExpressions": [expression("a", "In")]}]}, "values must be non-empty"),
        ({"terms": [{"matchLabelExpressions": [expression("a", "Exists", "x")]}]}, "values must be empty"),
        ({"terms": [{"matchClusterPropertyExpressions": [expression("a", "Ge")]}]}, "exactly one element"),
    ],
)
def test_a_policy_is_read_as_strictly_as_the_api_is(selector: dict[str, Any], says: str) -> None:
    found = errors(plan(ON + SITES + asking(policy(selector))))
    assert says in "".join(each.detail for each in found)
