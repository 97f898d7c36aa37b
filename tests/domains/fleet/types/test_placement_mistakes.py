"""Tests of single slips in a placement: each gives exactly one error."""

from __future__ import annotations

import re

import pytest

from nexusform.domains.fleet.types.fleet_placements import FLEET_CLUSTER_RESOURCE_PLACEMENT

RIGHT = """apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata:
  name: web
spec:
  resourceSelectors:
    - group: ""
      version: v1
      kind: Namespace
      name: web
  policy:
    placementType: PickN
    numberOfClusters: 3
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
            - labelSelector:
                matchLabels: {a: b}
                matchExpressions:
                  - {key: x, operator: In, values: [z]}
              propertySelector:
                matchExpressions:
                  - {name: kubernetes-fleet.io/node-count, operator: Ge, values: ["3"]}
        preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 20
            preference:
              propertySorter:
                name: resources.kubernetes-fleet.io/available-cpu
                sortOrder: Descending
    topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: region
        whenUnsatisfiable: DoNotSchedule
    tolerations:
      - {key: a, operator: Exists}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 25%, maxSurge: 25%, unavailablePeriodSeconds: 60}
    applyStrategy: {type: ClientSideApply}
"""
KEYS = [
    match.span(1)
    for match in re.finditer(r"([a-zA-Z]{3,})\??:", RIGHT[RIGHT.index("  resource") :])
]
OFFSET = RIGHT.index("  resource")


def list_errors(text: str) -> list[str]:
    check = FLEET_CLUSTER_RESOURCE_PLACEMENT.check
    assert check is not None
    return [problem.detail for problem in check({"manifest": text})]


def test_valid_manifest_has_no_error() -> None:
    assert list_errors(RIGHT) == []
    assert len(KEYS) > 40


@pytest.mark.parametrize("where", KEYS, ids=lambda span: RIGHT[OFFSET + span[0] : OFFSET + span[1]])
def test_misspelt_key_is_one_error(where: tuple[int, int]) -> None:
    start = OFFSET + where[0]
    end = OFFSET + where[1]
    key = RIGHT[start:end]
    (problem,) = list_errors(f"{RIGHT[: end - 1]}x{RIGHT[end:]}")
    assert 'unknown field "' in problem
    assert f'Did you mean "{key}"?' in problem


@pytest.mark.parametrize("key", ["apiVersion", "kind", "metadata", "spec"])
def test_misspelt_top_level_key_is_one_error(key: str) -> None:
    (problem,) = list_errors(RIGHT.replace(f"{key}:", f"{key[:-1]}x:", 1))
    assert f'Did you mean "{key}"?' in problem


def test_missing_section_is_one_error() -> None:
    (problem,) = list_errors(RIGHT[: RIGHT.index("spec:")])
    assert "spec is missing" in problem


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("PickN", "PickM"),
        ("numberOfClusters: 3", "numberOfClusters: x"),
        ("numberOfClusters: 3\n", "\n"),
        ("operator: Ge", "operator: Gee"),
        ("operator: In", "operator: Inn"),
        ("Descending", "Down"),
        ("25%", "25%%"),
        ("DoNotSchedule", "Never"),
        ("Exists", "Exist"),
        ("weight: 20", "weight: 2000"),
        ('["3"]', "[3]"),
        ('["3"]', '["3", "4"]'),
        ('["3"]', '["x"]'),
        ("[z]", "[y]"),
        ("node-count", "node count"),
        ("maxSkew: 1", "maxSkew: 0"),
        ("{a: b}", "[a]"),
        ("kind: Namespace", "kind: 3"),
        ("version: v1", "version: 1"),
        ("- maxSkew", "  maxSkew"),
    ],
)
def test_invalid_value_is_one_error(right: str, wrong: str) -> None:
    assert right in RIGHT
    assert len(list_errors(RIGHT.replace(right, wrong, 1))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "resourceSelectors: 5",
        "resourceSelectors: [5]",
        "resourceSelectors: [[]]",
        "resourceSelectors: {}",
        "resourceSelectors: true\n  statusReportingScope: NamespaceAccessible",
        "resourceSelectors: [{group: [], version: {}, kind: [Namespace], name: 1.5}]",
    ],
)
def test_invalid_selectors_are_reported(wrong: str) -> None:
    text = RIGHT[: RIGHT.index("  resource")] + f"  {wrong}\n" + RIGHT[RIGHT.index("  policy:") :]
    assert "resourceSelectors" in " ".join(list_errors(text))


@pytest.mark.parametrize("wrong", ["[PickN]", "{a: b}", "5", "true"])
def test_placement_type_must_be_text(wrong: str) -> None:
    (problem,) = list_errors(RIGHT.replace("placementType: PickN", f"placementType: {wrong}"))
    assert "spec.policy.placementType" in problem


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (
            "maxSurge: 25%",
            'maxSurge: "5"',
            (
                'rollingUpdate.maxSurge is "5"; it must match (100|[0-9]{1,2})%, or a number, '
                "without quotes: 5."
            ),
        ),
        (
            "{type: ClientSideApply}",
            "{type: ClientSideApply, serverSideApplyConfig: {}}",
            "ServerSideApplyConfig is only valid for ServerSideApply strategy type.",
        ),
        (
            "  name: web\nspec",
            "  name: Web_1\nspec",
            'manifest:4: Name "Web_1": a lowercase RFC 1123 subdomain',
        ),
        (
            "  name: web\nspec",
            "  name: web\n  labels: {-a: b}\nspec",
            'manifest:5: metadata.labels: key "-a":',
        ),
        (
            "  name: web\nspec",
            "  name: web\n  labels:\n    a: b c\nspec",
            'manifest:6: metadata.labels.a is "b c": a valid label must be',
        ),
        (
            "  name: web\nspec",
            "  name: web\n  annotations: {a/b/c: d}\nspec",
            'manifest:5: metadata.annotations: key "a/b/c": a qualified name must',
        ),
    ],
)
def test_webhook_rejections_have_a_line(right: str, wrong: str, says: str) -> None:
    assert right in RIGHT
    text = RIGHT.replace(right, wrong, 1)
    name = "Web_1" if "Web_1" in wrong else "web"
    check = FLEET_CLUSTER_RESOURCE_PLACEMENT.check
    assert check is not None
    (problem,) = (each.detail for each in check({"manifest": text, "name": name}))
    assert says in problem


def test_null_in_metadata_counts_as_absent() -> None:
    assert (
        list_errors(
            RIGHT.replace(
                "  name: web\nspec", "  name: web\n  labels:\n  annotations: null\nspec", 1
            )
        )
        == []
    )


def test_annotation_keys_may_have_upper_case_letters() -> None:
    assert (
        list_errors(
            RIGHT.replace("  name: web\nspec", "  name: web\n  annotations: {A.B/c: d e}\nspec", 1)
        )
        == []
    )
