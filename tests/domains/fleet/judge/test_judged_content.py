"""Random selections and overrides give the objects that KubeFleet's own code gives."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.importers.fleet_records import FleetOverride
from nexusform.domains.fleet.planning.override_rendering import OverrideIndex, render_resources
from nexusform.domains.hub.providers.hub_bodies import build_fleet_object
from nexusform.domains.pods.importers.manifest_parser import build_manifest
from tests.domains.fleet.judge.judge import CASES, FIRST_SEED, ask_judge, needs_judge, select
from tests.domains.fleet.planning.observed_fleet import build_binding, build_fleet, plan_fleet
from tests.planning.harness import list_errors

pytestmark = needs_judge
Body = dict[str, Any]
API: Final = "placement.kubernetes-fleet.io/v1"
# Group, version, kind and whether it is namespaced.
KINDS: Final = (
    ("", "v1", "Namespace", False),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", False),
    ("", "v1", "ConfigMap", True),
    ("", "v1", "Secret", True),
    ("", "v1", "ServiceAccount", True),
    ("apps", "v1", "Deployment", True),
    ("apps", "v1", "ReplicaSet", True),
)
VERSIONS: Final = {kind: f"{group}/{version}".lstrip("/") for group, version, kind, _ in KINDS}
CONFIG: Final[Body] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "web", "labels": {"app": "w"}},
    "data": {"a": "1", "b": "2"},
}
CONTAINER: Final = {"name": "c", "image": "nginx:1", "args": ["a", "b"]}
DEPLOYMENT: Final[Body] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [CONTAINER]}},
    },
}
NAMESPACE: Final[Body] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
ROLE: Final[Body] = {
    "apiVersion": VERSIONS["ClusterRole"],
    "kind": "ClusterRole",
    "metadata": {"name": "reader"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}
ARGS: Final = "/spec/template/spec/containers/0/args"
PATHS: Final = (
    "/data/a",
    "/data/c",
    "/metadata/labels",
    "/metadata/labels/app",
    "/metadata/annotations",
    "/spec/replicas",
    "/spec/template/spec/containers/0/image",
    f"{ARGS}/0",
    f"{ARGS}/-",
    f"{ARGS}/-1",
    f"{ARGS}/7",
    "/rules/0/verbs/0",
)
VALUES: Final = (
    "x",
    "${MEMBER-CLUSTER-NAME}-x",
    "${MEMBER-CLUSTER-LABEL-KEY-region}",
    {"${MEMBER-CLUSTER-NAME}": "${MEMBER-CLUSTER-LABEL-KEY-tier}"},
    ["a", "${MEMBER-CLUSTER-NAME}"],
    3,
)


def draw_selector(draw: random.Random) -> Body:
    """Draw the clusters of a rule: all, some, or none."""
    terms = [
        {"labelSelector": {"matchLabels": {"region": "east"}}},
        {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
    ]
    return draw.choice(
        [
            {"clusterSelector": {}},
            {"clusterSelector": {"clusterSelectorTerms": []}},
            {"clusterSelector": {"clusterSelectorTerms": draw.sample(terms, draw.randint(1, 2))}},
            {},
        ]
    )


def draw_rule(draw: random.Random) -> Body:
    selector = draw_selector(draw)
    if draw.random() < 0.2:
        return {**selector, "overrideType": "Delete"}
    patches = []
    for _ in range(draw.randint(1, 3)):
        patch: Body = {"op": draw.choice(["add", "replace", "remove"]), "path": draw.choice(PATHS)}
        if patch["op"] != "remove":
            patch["value"] = draw.choice(VALUES)
        patches.append(patch)
    return {**selector, "overrideType": "JSONPatch", "jsonPatchOverrides": patches}


def draw_override(draw: random.Random, name: str) -> Body:
    policy = {"overrideRules": [draw_rule(draw) for _ in range(draw.randint(1, 3))]}
    is_namespaced = draw.random() < 0.6
    listed = draw.choice([CONFIG, DEPLOYMENT] if is_namespaced else [NAMESPACE, ROLE])
    group, _, version = str(listed["apiVersion"]).rpartition("/")
    selector = {
        "group": group,
        "version": version,
        "kind": listed["kind"],
        "name": listed["metadata"]["name"],
    }
    field = "resourceSelectors" if is_namespaced else "clusterResourceSelectors"
    return {
        "apiVersion": API,
        "kind": "ResourceOverride" if is_namespaced else "ClusterResourceOverride",
        "metadata": {"name": name, **({"namespace": "web"} if is_namespaced else {})},
        "spec": {"placement": {"name": "p"}, field: [selector], "policy": policy},
    }


def build_snapshot(override: Body) -> Body:
    metadata = {**override["metadata"], "name": f"{override['metadata']['name']}-0"}
    spec = {"overrideSpec": override["spec"], "overrideHash": ""}
    return {"metadata": metadata, "spec": spec}


def read_override(body: Body) -> FleetOverride:
    is_namespaced = body["kind"] == "ResourceOverride"
    name = "fleet_resource_override" if is_namespaced else "fleet_cluster_resource_override"
    override = build_fleet_object(name, {**body["metadata"], "manifest": json.dumps(body)})
    assert isinstance(override, FleetOverride)
    return override


def test_random_overrides() -> None:
    draw = random.Random(FIRST_SEED + 3)
    questions = []
    drawn = []
    objects = [
        add_api_server_defaults(dict(body)) for body in (NAMESPACE, ROLE, CONFIG, DEPLOYMENT)
    ]
    for _ in range(CASES):
        labels = {"region": draw.choice(["east", "west"]), "tier": "gold"}
        if draw.random() < 0.3:
            del labels[draw.choice(sorted(labels))]
        # The order of names differs from that of their list.
        names = draw.sample(["o1", "o2", "o10"], draw.randint(1, 3))
        overrides = [draw_override(draw, name) for name in names]
        questions.append(
            {
                "member": {"metadata": {"name": "m1", "labels": labels}},
                "objects": objects,
                "clusterOverrides": [
                    build_snapshot(item)
                    for item in overrides
                    if item["kind"] == "ClusterResourceOverride"
                ],
                "overrides": [
                    build_snapshot(item) for item in overrides if item["kind"] == "ResourceOverride"
                ],
                "clusterKinds": [kind[:3] for kind in KINDS if not kind[3]],
            }
        )
        drawn.append((labels, overrides))
    changed = failed = 0
    answers = ask_judge("override", questions)
    for (labels, overrides), answer in zip(drawn, answers, strict=True):
        index = OverrideIndex([read_override(body) for body in overrides])
        manifests = [build_manifest(body) for body in objects]
        rendered = render_resources(
            [item for item in manifests if item is not None],
            index.list_overrides("p"),
            "m1",
            labels,
        )
        case = json.dumps([labels, overrides])
        if answer["failure"]:
            failed += 1
            assert rendered.failure in answer["failure"], (answer, case)
        assert bool(rendered.failure) is bool(answer["failure"]), (rendered.failure, answer, case)
        if not answer["failure"]:
            expected = [item for item in answer["objects"] if item]
            assert [item.body for item in rendered.manifests] == expected, case
            changed += expected != objects
    assert min(changed, failed) > CASES / 10


def draw_object(draw: random.Random, kind: str, name: str, namespace: str) -> Body:
    metadata: Body = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if draw.random() < 0.5:
        metadata["labels"] = {"app": draw.choice("wx")}
    body: Body = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": metadata}
    if kind in ("Deployment", "ReplicaSet"):
        body["spec"] = DEPLOYMENT["spec"]
    if kind == "ReplicaSet" and draw.random() < 0.5:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}
        metadata["ownerReferences"] = [owner]
    if kind == "Secret" and draw.random() < 0.3:
        body["type"] = "kubernetes.io/service-account-token"
    return body


def draw_hub(draw: random.Random) -> list[Mapping[str, Any]]:
    """Draw a hub with namespaces, their objects, and a placement that selects some of them."""
    contents = [draw_object(draw, "Namespace", name, "") for name in ("web", "web-2", "shop")]
    for kind in ("ConfigMap", "Secret", "ServiceAccount", "Deployment", "ReplicaSet"):
        names = ["settings", "default", "kube-root-ca.crt", "b"]
        for namespace in ("web", "web-2", "shop"):
            drawn = draw.sample(names, draw.choice((0, 0, 1, 2)))
            contents += [draw_object(draw, kind, name, namespace) for name in drawn]
    contents += [draw_object(draw, "ClusterRole", name, "") for name in ("reader", "b")]
    draw.shuffle(contents)
    selectors: list[Body] = []
    for kind in draw.choice([["Namespace"], ["ClusterRole"], ["Namespace", "ClusterRole"]]):
        group = "" if kind == "Namespace" else "rbac.authorization.k8s.io"
        selector: Body = {"group": group, "version": "v1", "kind": kind}
        selector |= draw.choice(
            [
                {"name": draw.choice(["web", "shop", "reader", "missing"])},
                {"labelSelector": {"matchLabels": {"app": "w"}}},
                {},
            ]
        )
        if kind == "Namespace":
            selector |= draw.choice([{}, {"selectionScope": "NamespaceOnly"}])
        selectors.append(selector)
    objects = [
        item
        for item in build_fleet([build_binding("m1"), build_binding("m2"), build_binding("m3")])
        if item["kind"] != "Namespace"
    ]
    for body in objects:
        if body["kind"] == "ClusterResourcePlacement":
            body["spec"]["resourceSelectors"] = selectors
    return [*objects, *contents]


def test_random_selections() -> None:
    draw = random.Random(FIRST_SEED + 4)
    hubs = [draw_hub(draw) for _ in range(CASES)]
    served = {kind for _, _, kind, _ in KINDS}
    questions = [
        {
            "placement": select(hub, "ClusterResourcePlacement")[0],
            "objects": [item for item in hub if item["kind"] in served],
            "kinds": [
                dict(zip(("group", "version", "kind", "namespaced"), kind, strict=True))
                for kind in KINDS
            ],
        }
        for hub in hubs
    ]
    several = 0
    for hub, question, answer in zip(
        hubs, questions, ask_judge("selection", questions), strict=True
    ):
        result = plan_fleet(hub)
        assert not list_errors(result), list_errors(result)
        (change,) = (
            item
            for item in result.plan.changes
            if item.address.type == "fleet_cluster_resource_placement"
        )
        assert change.after is not None
        selected = [
            [item["kind"], item["namespace"], item["name"]]
            for item in change.after["selected_resources"]
        ]
        assert not answer["failure"]
        assert selected == answer["selected"], json.dumps(question)
        several += len(selected) > 3
    assert several > CASES / 10
