"""Objects found by selectors via the index equal those found by a scan of the whole hub."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from nexusform.domains.fleet.importers.fleet_records import FleetPlacement, ObjectSelector
from nexusform.domains.fleet.planning.resource_selection import (
    HubIndex,
    find_selector_problem,
    select_resources,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest, find_selection_exclusion
from nexusform.kubernetes.matching import build_label_selector, is_selected

KINDS = (
    ("", "Namespace"),
    ("", "ConfigMap"),
    ("apps", "Deployment"),
    ("", "Service"),
    ("", "Endpoints"),
)
NAMESPACES = ("web", "db", "kube-system")


def draw_hub(chance: random.Random) -> list[Manifest]:
    """Draw objects of a hub, some of them duplicates."""
    return [draw_object(chance) for _ in range(30)]


def draw_object(chance: random.Random) -> Manifest:
    group, kind = chance.choice(KINDS)
    namespace = "" if kind == "Namespace" else chance.choice(NAMESPACES)
    name = chance.choice((*NAMESPACES, "a"))
    labels = {"tier": chance.choice(("front", "back"))}
    return Manifest(group, chance.choice(("v1", "v2")), kind, namespace, name, labels, {}, 1)


def draw_selector(chance: random.Random) -> ObjectSelector:
    group, kind = chance.choice(KINDS)
    name = chance.choice((*NAMESPACES, ""))
    labels = None if name or chance.random() < 0.5 else build_label_selector({"tier": "front"})
    scope = chance.choice(
        ("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors")
    )
    return ObjectSelector(group, "v1", kind, name, labels, scope)


def scan_hub(
    hub: list[Manifest], selector: ObjectSelector, namespaces: Collection[str]
) -> list[Manifest]:
    """Return the objects of a selector by a check of every object."""
    services = {(each.namespace, each.name) for each in hub if each.kind == "Service"}
    return [
        each
        for each in hub
        if find_selection_exclusion(each, services) is None
        and each.namespace in namespaces
        and (each.group, each.kind) == (selector.group, selector.kind)
        and (not selector.name or each.name == selector.name)
        and (
            bool(selector.name)
            or selector.labels is None
            or is_selected(selector.labels, each.labels)
        )
    ]


@pytest.mark.parametrize("seed", range(40))
def test_index_matches_full_scan(seed: int) -> None:
    chance = random.Random(seed)
    hub = draw_hub(chance)
    index = HubIndex(hub)
    for _ in range(20):
        selector = draw_selector(chance)
        namespaces = {chance.choice(("", *NAMESPACES)) for _ in range(2)}
        assert index.select_objects(selector, namespaces) == scan_hub(hub, selector, namespaces)


def test_last_definition_of_an_object_counts() -> None:
    first = Manifest("", "v1", "Namespace", "", "web", {}, {"of": 1}, 1)
    last = Manifest("", "v2", "Namespace", "", "web", {}, {"of": 2}, 9)
    index = HubIndex([first, last])
    by_name = FleetPlacement("p", selectors=(ObjectSelector("", "v1", "Namespace", "web"),))
    assert select_resources(by_name, index) == (first,)
    assert find_selector_problem(by_name, index) is None
    twice = FleetPlacement("p", selectors=(ObjectSelector("", "v1", "Namespace", "web"),) * 2)
    problem = find_selector_problem(twice, index)
    assert problem is not None
    assert (problem.selector, "Version:v2" in problem.message) == (1, True)
