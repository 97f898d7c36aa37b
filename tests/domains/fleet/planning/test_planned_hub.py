"""Tests of selected hub objects, and of override results per cluster."""

from __future__ import annotations

from typing import Any

from nexusform.domains.fleet.importers.fleet_records import (
    NAMESPACE_ONLY,
    WITH_SELECTED,
    FleetOverride,
    FleetPlacement,
    JsonPatch,
    ObjectSelector,
    OverrideRule,
)
from nexusform.domains.fleet.planning.override_rendering import OverrideIndex, render_resources
from nexusform.domains.fleet.planning.placement_records import (
    compute_content_hash,
    is_availability_tracked,
)
from nexusform.domains.fleet.planning.resource_selection import HubIndex, select_resources
from nexusform.domains.pods.importers.manifest_parser import Manifest, parse_manifests
from nexusform.kubernetes.matching import build_label_selector
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import build_member, build_placement
from tests.planning.harness import build_state, list_warnings, plan, require_success

HUB = """
{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {team: a}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: web}, data: {a: "1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt, namespace: web}}
---
{apiVersion: v1, kind: Pod, metadata: {name: lonely, namespace: web}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: web}
spec: {replicas: 1, args: [x, w]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: db, labels: {team: b}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: db}}
"""
RBAC = "rbac.authorization.k8s.io"


def parse_hub() -> tuple[Manifest, ...]:
    return parse_manifests("hub", HUB).manifests


def select_titles(*selectors: ObjectSelector, namespace: str = "") -> list[str]:
    return [
        m.title
        for m in select_resources(
            FleetPlacement("p", namespace, selectors=selectors), HubIndex(parse_hub())
        )
    ]


def select_namespace(
    name: str = "", scope: str = "NamespaceWithResources", **labels: str
) -> ObjectSelector:
    return ObjectSelector(
        "", "v1", "Namespace", name, build_label_selector(labels) if labels else None, scope
    )


def test_namespace_is_selected_with_its_content() -> None:
    assert select_titles(select_namespace("web")) == [
        "Namespace web",
        "ConfigMap web/settings",
        "Deployment web/shop",
    ]
    assert select_titles(select_namespace("web", NAMESPACE_ONLY)) == ["Namespace web"]
    picky = ObjectSelector("", "v1", "ConfigMap", "settings")
    assert select_titles(select_namespace("web", WITH_SELECTED), picky) == [
        "Namespace web",
        "ConfigMap web/settings",
    ]


def test_selection_by_labels_and_kind_excludes_reserved_objects() -> None:
    assert select_titles(select_namespace(team="b")) == ["Namespace db", "Job db/once"]
    assert select_titles(ObjectSelector(RBAC, "v1", "ClusterRole")) == ["ClusterRole reader"]
    assert select_titles(select_namespace("kube-system")) == []
    assert "Namespace kube-system" not in select_titles(select_namespace())
    assert select_titles(select_namespace("web"), select_namespace(team="a"))[:1] == [
        "Namespace web"
    ]
    assert select_titles() == []


def test_namespaced_placement_is_limited_to_its_namespace() -> None:
    maps = ObjectSelector("", "v1", "ConfigMap")
    assert select_titles(maps, namespace="web") == ["ConfigMap web/settings"]
    assert select_titles(maps, namespace="db") == []


def test_availability_of_jobs_is_not_tracked() -> None:
    web = select_resources(
        FleetPlacement("p", selectors=(select_namespace("web"),)), HubIndex(parse_hub())
    )
    db = select_resources(
        FleetPlacement("p", selectors=(select_namespace("db"),)), HubIndex(parse_hub())
    )
    assert is_availability_tracked(web)
    assert not is_availability_tracked(db)
    assert compute_content_hash(web) != compute_content_hash(web[:-1])


# --- overrides ---------------------------------------------------------------------------------


def build_override(
    *rules: OverrideRule, selector: ObjectSelector | None = None, **more: Any
) -> FleetOverride:
    given = {"name": "o", "namespace": "web", "placement": "p"} | more
    shop = ObjectSelector("apps", "v1", "Deployment", "shop")
    return FleetOverride(**given, selectors=(selector or shop,), rules=rules)


def build_patch(operation: str, path: str, value: Any = None) -> OverrideRule:
    return OverrideRule((), (JsonPatch(operation, path, value),))


def render_spec(*overrides: FleetOverride, labels: dict[str, str] | None = None) -> Any:
    web = select_resources(
        FleetPlacement("p", selectors=(select_namespace("web"),)), HubIndex(parse_hub())
    )
    found = render_resources(
        web, OverrideIndex(overrides).list_overrides("p"), "east", labels or {}
    )
    assert not found.failure, found.failure
    return next((m.body["spec"] for m in found.manifests if m.kind == "Deployment"), None)


def test_patches_apply_in_order_and_last_wins() -> None:
    assert render_spec(
        build_override(
            build_patch("replace", "/spec/replicas", 2), build_patch("replace", "/spec/replicas", 3)
        )
    ) == {"replicas": 3, "args": ["x", "w"]}
    assert render_spec(build_override(build_patch("add", "/spec/args/1", "m"))) == {
        "replicas": 1,
        "args": ["x", "m", "w"],
    }
    assert render_spec(build_override(build_patch("add", "/spec/args/-", "z")))["args"] == [
        "x",
        "w",
        "z",
    ]
    assert render_spec(build_override(build_patch("remove", "/spec/args/0")))["args"] == ["w"]
    assert render_spec(build_override(build_patch("remove", "/spec/replicas"))) == {
        "args": ["x", "w"]
    }


def test_namespaced_overrides_precede_cluster_overrides() -> None:
    wide = build_override(
        build_patch("replace", "/spec/replicas", 7),
        selector=select_namespace("web"),
        name="z",
        namespace="",
    )
    narrow = build_override(build_patch("replace", "/spec/replicas", 2), name="a")
    only = build_override(
        build_patch("replace", "/spec/replicas", 7), name="z", namespace="", selector=None
    )
    assert render_spec(narrow, only)["replicas"] == 2
    web = select_resources(
        FleetPlacement("p", selectors=(select_namespace("web"),)), HubIndex(parse_hub())
    )
    assert (
        "doc is missing key: /spec/replicas" in render_resources(web, (wide,), "east", {}).failure
    )


def test_variables_and_cluster_selectors() -> None:
    named = build_override(
        build_patch(
            "add", "/spec/name", "${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-LABEL-KEY-region}"
        )
    )
    assert render_spec(named, labels={"region": "eu"})["name"] == "east-eu"
    web = select_resources(
        FleetPlacement("p", selectors=(select_namespace("web"),)), HubIndex(parse_hub())
    )
    assert (
        "label key region not found on cluster east"
        in render_resources(web, (named,), "east", {}).failure
    )
    eu = OverrideRule(
        (build_label_selector({"region": "eu"}),), (JsonPatch("replace", "/spec/replicas", 9),)
    )
    assert render_spec(build_override(eu), labels={"region": "eu"})["replicas"] == 9
    assert render_spec(build_override(eu), labels={"region": "us"})["replicas"] == 1
    nobody = OverrideRule(None, (JsonPatch("replace", "/spec/replicas", 9),))
    assert render_spec(build_override(nobody))["replicas"] == 1


def test_delete_override_removes_only_its_object() -> None:
    assert render_spec(build_override(OverrideRule((), delete=True))) is None
    assert (
        render_spec(build_override(build_patch("replace", "/spec/replicas", 9), placement="other"))[
            "replicas"
        ]
        == 1
    )
    assert (
        render_spec(build_override(build_patch("replace", "/spec/replicas", 9), placement=""))[
            "replicas"
        ]
        == 9
    )
    assert parse_hub()[4].body["spec"] == {"replicas": 1, "args": ["x", "w"]}


SHOP = """
resource "fleet_hub_manifest" "app" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
      namespace: shopp
  EOT
}
"""
SPACE = """
resource "fleet_hub_manifest" "space" {
  yaml_body = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: shop
  EOT
}
"""


def test_content_that_the_hub_rejects_makes_its_placement_uncertain() -> None:
    member = build_member("a")
    content = SHOP.replace(
        "  EOT\n}",
        "    ---\n    apiVersion: v1\n    kind: Namespace\n"
        "    metadata:\n      name: web\n  EOT\n}",
    )
    doubt = {"certain": False, "depends_on": "the finding missing-hub-namespace"}
    for namespace, expected in (("shopp", doubt), ("default", {})):
        text = member + content.replace("shopp", namespace) + build_placement()
        (row,) = require_success(plan(text)).plan.placements
        assert row.object == "a"
        assert {name: row.scores[name] for name in doubt if name in row.scores} == expected


def list_namespace_warnings(text: str, *arguments: State, **options: Any) -> list[str]:
    found = list_warnings(require_success(plan(text, *arguments, **options)))
    return [each.detail for each in found if each.id == "missing-hub-namespace"]


def test_missing_hub_namespace_is_reported() -> None:
    [detail] = list_namespace_warnings(SHOP + SPACE)
    assert (
        "the hub rejects ConfigMap shopp/settings, because no object creates the namespace shopp"
        in detail
    )
    assert 'Did you mean "shop"?' in detail
    right = SHOP.replace("shopp", "shop") + SPACE
    assert list_namespace_warnings(right) == []
    assert list_namespace_warnings(SHOP.replace("shopp", "default")) == []
    # Objects outside -target still exist; objects removed by this plan do not.
    state = build_state(right)
    changed = right.replace("name: settings", "name: more")
    assert list_namespace_warnings(changed, state, targets=("fleet_hub_manifest.app",)) == []
    assert list_namespace_warnings(SHOP.replace("shopp", "shop"), state)
