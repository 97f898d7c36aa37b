"""Tests that blocks are read as the manifest with the same values: equal errors and objects."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import has_errors
from nexusform.domains.fleet.types.block_bodies import build_block_body
from nexusform.domains.fleet.types.fleet_placements import FLEET_CLUSTER_RESOURCE_PLACEMENT
from nexusform.domains.fleet.types.fleet_schemas import PLACEMENT_ARGUMENTS, PLACEMENT_BLOCKS
from nexusform.schemas.block_schema import BlockSchema, Nesting
from tests.planning.harness import plan

SPEC = BlockSchema(PLACEMENT_ARGUMENTS, PLACEMENT_BLOCKS)
OLD_NAME = "kubernetes.azure.com/node-count"


def fill_defaults(schema: BlockSchema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a block as a plan has them."""
    filled = {
        name: values.get(name, attribute.default) for name, attribute in schema.attributes.items()
    }
    for name, block in schema.blocks.items():
        value = values.get(name)
        if block.nesting is Nesting.SINGLE:
            filled[name] = None if value is None else fill_defaults(block.schema, value)
        else:
            filled[name] = [fill_defaults(block.schema, item) for item in value or ()]
    return filled


def draw_term(draw: random.Random) -> dict[str, Any]:
    term: dict[str, Any] = {}
    if draw.random() < 0.5:
        operator = draw.choice(["In", "Exists", "NotIn"])
        fitting = [] if operator == "Exists" else ["a"]
        values = draw.choice([fitting, fitting, fitting, [], ["a", "b"]])
        expression = {"key": "env", "operator": operator, "values": values}
        term["label_selector"] = {"match_expression": [expression]}
    if draw.random() < 0.4:
        name = draw.choice([OLD_NAME, "kubernetes-fleet.io/node-count", "a/b"])
        values = draw.choice([["3"], ["3"], ["3"], [], ["x"]])
        operator = draw.choice(["Ge", "Ge", "Lt", "Has"])
        requirement = {"name": name, "operator": operator, "values": values}
        term["property_selector"] = {"match_expression": [requirement]}
    return term


def draw_policy(draw: random.Random) -> dict[str, Any]:
    policy: dict[str, Any] = {"placement_type": draw.choice(["PickAll", "PickN", "PickFixed"])}
    if draw.random() < (0.9 if policy["placement_type"] == "PickN" else 0.1):
        policy["number_of_clusters"] = draw.randint(0, 4)
    if draw.random() < (0.9 if policy["placement_type"] == "PickFixed" else 0.1):
        policy["cluster_names"] = draw.choice([[], ["a"], ["a", "a"]])
    affinity: dict[str, Any] = {}
    if draw.random() < 0.4:
        terms = [draw_term(draw) for _ in range(draw.randint(0, 2))]
        affinity["required_during_scheduling_ignored_during_execution"] = {
            "cluster_selector_term": terms
        }
    if draw.random() < 0.4:
        sorter = {
            "name": draw.choice([OLD_NAME, "a/b"]),
            "sort_order": draw.choice(["Ascending", "Descending", "Descending", "Up"]),
        }
        preference = {**draw_term(draw), draw.choice(["property_sorter", "metric_sorter"]): sorter}
        affinity["preferred_during_scheduling_ignored_during_execution"] = [
            {"weight": draw.choice([-100, 0, 20, 100, 101]), "preference": preference}
        ]
    if affinity:
        policy["affinity"] = {"cluster_affinity": affinity}
    if draw.random() < 0.3:
        policy["toleration"] = [
            {"key": draw.choice(["", "k"]), "operator": draw.choice(["Equal", "Exists"])}
        ]
    if draw.random() < 0.3:
        policy["topology_spread_constraint"] = [
            {"topology_key": "zone", "max_skew": draw.choice([0, 1, 2])}
        ]
    return policy


# Names of the API that differ from those of blocks by more than their case.
API_NAMES = {
    "match_expression": "matchExpressions",
    "cluster_selector_term": "clusterSelectorTerms",
    "toleration": "tolerations",
    "topology_spread_constraint": "topologySpreadConstraints",
    "metric_sorter": "propertySorter",
}


def translate(value: Any) -> Any:
    """Return a policy in the form of the API; blocks send no empty list."""
    if isinstance(value, list):
        return [translate(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        API_NAMES.get(name) or re.sub(r"_(\w)", lambda found: found[1].upper(), name): translate(
            item
        )
        for name, item in value.items()
        if item != []
    }


def build_forms(policy: Mapping[str, Any], *, lenient: bool) -> tuple[dict[str, Any], ...]:
    """Return the attributes of a placement in blocks, and with the manifest of these values."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
    arguments = fill_defaults(SPEC, {"policy": policy, "resource_selector": [selector]})
    body = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "p"},
        "spec": build_block_body(SPEC, arguments),
    }
    common = {"name": "p", "lenient": lenient}
    blocks = {**common, **arguments, "manifest": None}
    return blocks, {**common, **fill_defaults(SPEC, {}), "manifest": json.dumps(body)}


@pytest.mark.parametrize("lenient", [False, True])
def test_random_policies_have_equal_errors_and_objects(*, lenient: bool) -> None:
    draw = random.Random(118)
    placement = FLEET_CLUSTER_RESOURCE_PLACEMENT
    assert placement.check is not None
    rejected = 0
    for _ in range(500):
        policy = draw_policy(draw)
        blocks, manifest = build_forms(policy, lenient=lenient)
        body = json.loads(manifest["manifest"])
        # Not made by the product.
        body["spec"]["policy"] = translate(policy)
        manifest = {**manifest, "manifest": json.dumps(body)}
        problems = [placement.check(form) for form in (blocks, manifest)]
        assert has_errors(problems[0]) == has_errors(problems[1]), (policy, problems)
        rejected += has_errors(problems[0])
        if not has_errors(problems[0]):
            read = placement.build_fleet_object
            assert read(blocks) == read(manifest), policy
    assert 100 < rejected < 450


def list_errors(policy: Mapping[str, Any], *, lenient: bool = False) -> list[tuple[Any, str]]:
    blocks, _manifest = build_forms(policy, lenient=lenient)
    assert FLEET_CLUSTER_RESOURCE_PLACEMENT.check is not None
    problems = FLEET_CLUSTER_RESOURCE_PLACEMENT.check(blocks)
    return [(problem.path, problem.detail) for problem in problems]


def test_missing_number_of_clusters_is_an_error_of_the_block() -> None:
    policy = {"placement_type": "PickN"}
    text = (
        "NumberOfClusters must be set when placementType is PickN. Set lenient = true to accept it."
    )
    assert list_errors(policy) == [(("policy", "number_of_clusters"), text)]
    ((_path, warning),) = list_errors(policy, lenient=True)
    assert "selects every eligible cluster" in warning


def test_alias_of_a_sorter_has_the_name_of_the_api_on_the_wire() -> None:
    sorter = {"name": "a/b", "sort_order": "Ascending"}
    preferred = [{"weight": 1, "preference": {"metric_sorter": sorter}}]
    affinity = {"preferred_during_scheduling_ignored_during_execution": preferred}
    policy = {
        "placement_type": "PickN",
        "number_of_clusters": 1,
        "affinity": {"cluster_affinity": affinity},
    }
    assert list_errors(policy) == []
    _blocks, manifest = build_forms(policy, lenient=False)
    assert "propertySorter" in manifest["manifest"]
    assert "metricSorter" not in manifest["manifest"]


def test_bindings_of_a_corrected_policy_are_not_exact() -> None:
    text = """
resource "fleet_member_cluster" "m" {
  name = "m"
}
resource "fleet_cluster_resource_placement" "p" {
  lenient = LENIENT
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type = "PickN"
    NUMBER
  }
}
"""
    number = "number_of_clusters = 1"
    for values, doubt in (
        (("true", ""), "the finding corrected-manifest"),
        (("false", number), None),
    ):
        result = plan(text.replace("LENIENT", values[0]).replace("NUMBER", values[1]))
        (row,) = result.plan.placements
        assert row.object == "m"
        assert row.scores.get("depends_on") == doubt
