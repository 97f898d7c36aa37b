"""Which objects of the hub a placement selects, and what a hub has against its selectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.fleet.importers.fleet_model import (
    ONLY_NAMESPACE,
    WITH_RESOURCES,
    WITH_SELECTED,
    FleetPlacement,
    ObjectSelector,
)
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, is_reserved, never_selected
from nexusform.kubernetes.matching import matches

_NAMESPACE: Final = ("", "Namespace")


class SelectorProblem(Struct, frozen=True):
    """What a hub has against the selectors of a placement, in its words: the number of the selector where it
    stops, and what to do.
    """

    selector: int
    message: str
    advice: str


def selected(placement: FleetPlacement, hub: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """The objects of the hub that a placement selects, in the order of its selectors, each once."""
    selectable = _selectable(hub)
    by_key: dict[tuple[str, str, str, str], Manifest] = {}
    brings_all: dict[str, bool] = {}  # of namespaces that come with objects: whether with all of them
    for selector in placement.selectors:
        for manifest in selectable:
            if not _chosen(selector, manifest, placement.namespace):
                continue
            by_key.setdefault(_key(manifest), manifest)
            if (manifest.group, manifest.kind) == _NAMESPACE and selector.scope != ONLY_NAMESPACE:
                with_all = selector.scope != WITH_SELECTED
                brings_all[manifest.name] = brings_all.get(manifest.name, False) or with_all
    if not placement.namespace:
        for manifest in _inside(selectable, brings_all, placement.selectors):
            by_key.setdefault(_key(manifest), manifest)
    return tuple(by_key.values())


def _selectable(hub: Sequence[Manifest]) -> list[Manifest]:
    """The objects of the hub that may be selected at all."""
    service_objects = [manifest for manifest in hub if (manifest.group, manifest.kind) == ("", "Service")]
    services = {(service.namespace, service.name) for service in service_objects}
    return [manifest for manifest in hub if never_selected(manifest, services) is None]


def idle_selectors(placement: FleetPlacement, objects: Sequence[Manifest]) -> list[int]:
    """The selectors of a placement, by number, that select none of the objects that it got."""
    brought = [manifest for manifest in objects if (manifest.group, manifest.kind) == _NAMESPACE]
    namespaces = {placement.namespace, *(namespace.name for namespace in brought)}

    def selects_something(selector: ObjectSelector) -> bool:
        pairs = product(objects, namespaces)
        return any(_chosen(selector, manifest, namespace) for manifest, namespace in pairs)

    selectors = enumerate(placement.selectors)
    return [number for number, selector in selectors if not selects_something(selector)]


def selector_problem(placement: FleetPlacement, hub: Sequence[Manifest]) -> SelectorProblem | None:
    """What a hub stops at when it selects, selector by selector: a reserved namespace that is named, and an
    object that is selected a second time.

    Source: KubeFleet pkg/utils/controller/resource_selector_resolver.go.
    """
    selectable = list({_key(manifest): manifest for manifest in _selectable(hub)}.values())
    with_selected = (selector.name for selector in placement.selectors if selector.scope == WITH_SELECTED)
    inside = placement.namespace or next(with_selected, "")
    chosen_so_far: set[tuple[str, str, str, str]] = set()
    for number, selector in enumerate(placement.selectors):
        is_namespace = (selector.group, selector.kind) == _NAMESPACE and not placement.namespace
        takes_all_inside = is_namespace and selector.scope == WITH_RESOURCES
        if takes_all_inside and is_reserved(selector.name):
            # The double R is KubeFleet's.
            text = (
                f"invalid clusterRresourcePlacement {placement.key}: namespace {selector.name} is not "
                "allowed to propagate"
            )
            return SelectorProblem(number, text, _RESERVED)
        chosen = [
            manifest
            for manifest in selectable
            if _chosen(selector, manifest, placement.namespace) or _chosen(selector, manifest, inside)
        ]
        if takes_all_inside:
            names = {manifest.name for manifest in chosen}
            chosen += [manifest for manifest in selectable if manifest.namespace in names]
        for manifest in chosen:
            if _key(manifest) in chosen_so_far:
                text = f"found duplicate resource {_as_printed(manifest)}"
                return SelectorProblem(number, text, f"{manifest.title}: {_TWICE}")
            chosen_so_far.add(_key(manifest))
    return None


_RESERVED: Final = "default, kube-* and fleet-* belong to the cluster."
_TWICE: Final = "an earlier selector selects it already; let only one of them do so."


def _as_printed(manifest: Manifest) -> str:
    """A resource identifier as Go prints it."""
    return (
        f"{{Group:{manifest.group} Version:{manifest.version} Kind:{manifest.kind} Name:{manifest.name} "
        f"Namespace:{manifest.namespace} Envelope:<nil>}}"
    )


def _key(manifest: Manifest) -> tuple[str, str, str, str]:
    return manifest.group, manifest.kind, manifest.namespace, manifest.name


def _chosen(selector: ObjectSelector, manifest: Manifest, namespace: str) -> bool:
    """Whether a selector is for an object of this namespace; "" for the objects of the whole cluster."""
    if manifest.namespace != namespace or (manifest.group, manifest.kind) != (selector.group, selector.kind):
        return False
    if selector.name:
        return manifest.name == selector.name
    return selector.labels is None or matches(selector.labels, manifest.labels)


def _inside(
    selectable: Iterable[Manifest], namespaces: Mapping[str, bool], selectors: Sequence[ObjectSelector]
) -> Iterator[Manifest]:
    """What is in the selected namespaces, by name: everything (True), or what other selectors name."""
    for namespace, with_everything in namespaces.items():
        for manifest in selectable:
            if manifest.namespace != namespace:
                continue
            if with_everything or any(_chosen(selector, manifest, namespace) for selector in selectors):
                yield manifest


def write_selected(manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    """The selected objects as an attribute."""
    return [
        {
            "group": manifest.group,
            "version": manifest.version,
            "kind": manifest.kind,
            "namespace": manifest.namespace,
            "name": manifest.name,
        }
        for manifest in manifests
    ]
