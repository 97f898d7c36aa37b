"""Which objects of the hub a placement selects, and what a hub has against its selectors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, product
from typing import Any, Final, TypeAlias, TypeVar

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
T = TypeVar("T")


class SelectorProblem(Struct, frozen=True):
    """What a hub has against the selectors of a placement, in its words: the number of the selector where it
    stops, and what to do.
    """

    selector: int
    message: str
    advice: str


Key: TypeAlias = tuple[str, str, str, str]


class HubIndex:
    """The objects of a hub that may be selected, found by what a selector names: a fleet has as many
    placements as namespaces, and each looks at its own alone.
    """

    def __init__(self, hub: Sequence[Manifest]) -> None:
        services = _services(hub)
        self._objects = [manifest for manifest in hub if never_selected(manifest, services) is None]

    @cached_property
    def unique(self) -> HubIndex:
        """With each object once, in its last form."""
        last = {_key(manifest): manifest for manifest in self._objects}
        return self if len(last) == len(self._objects) else HubIndex(list(last.values()))

    def chosen(self, selector: ObjectSelector, namespaces: Collection[str]) -> list[Manifest]:
        """What a selector is for in these namespaces ("": of the whole cluster), in the hub's order."""
        kind = (selector.group, selector.kind)
        if selector.name:
            return self._at([self._by_key.get((*kind, each, selector.name), ()) for each in namespaces])
        of_kind = self._at([self._by_kind.get((*kind, each), ()) for each in namespaces])
        return [manifest for manifest in of_kind if _has_labels(selector, manifest)]

    def within(self, namespaces: Collection[str]) -> list[Manifest]:
        """All objects in these namespaces, in the hub's order."""
        return self._at([self._by_namespace.get(each, ()) for each in namespaces])

    def _at(self, lists: Sequence[Sequence[int]]) -> list[Manifest]:
        """The objects at some positions, each once."""
        numbers = lists[0] if len(lists) == 1 else sorted(set(chain.from_iterable(lists)))
        return [self._objects[number] for number in numbers]

    @cached_property
    def _by_key(self) -> Mapping[Key, list[int]]:
        return self._numbers(_key)

    @cached_property
    def _by_kind(self) -> Mapping[tuple[str, str, str], list[int]]:
        return self._numbers(lambda manifest: (manifest.group, manifest.kind, manifest.namespace))

    @cached_property
    def _by_namespace(self) -> Mapping[str, list[int]]:
        return self._numbers(lambda manifest: manifest.namespace)

    def _numbers(self, sort: Callable[[Manifest], T]) -> Mapping[T, list[int]]:
        """The positions of the objects of each sort."""
        numbers: dict[T, list[int]] = {}
        for number, manifest in enumerate(self._objects):
            numbers.setdefault(sort(manifest), []).append(number)
        return numbers


def _services(hub: Sequence[Manifest]) -> set[tuple[str, str]]:
    services = [manifest for manifest in hub if (manifest.group, manifest.kind) == ("", "Service")]
    return {(service.namespace, service.name) for service in services}


def selected(placement: FleetPlacement, hub: HubIndex) -> tuple[Manifest, ...]:
    """The objects of the hub that a placement selects, in the order of its selectors, each once."""
    by_key: dict[Key, Manifest] = {}
    brings_all: dict[str, bool] = {}  # of namespaces that come with objects: whether with all of them
    for selector in placement.selectors:
        for manifest in hub.chosen(selector, (placement.namespace,)):
            by_key.setdefault(_key(manifest), manifest)
            if (manifest.group, manifest.kind) == _NAMESPACE and selector.scope != ONLY_NAMESPACE:
                with_all = selector.scope != WITH_SELECTED
                brings_all[manifest.name] = brings_all.get(manifest.name, False) or with_all
    if not placement.namespace:
        for manifest in _inside(hub, brings_all, placement.selectors):
            by_key.setdefault(_key(manifest), manifest)
    return tuple(by_key.values())


def idle_selectors(placement: FleetPlacement, objects: Sequence[Manifest]) -> list[int]:
    """The selectors of a placement, by number, that select none of the objects that it got."""
    brought = [manifest for manifest in objects if (manifest.group, manifest.kind) == _NAMESPACE]
    namespaces = {placement.namespace, *(namespace.name for namespace in brought)}

    def selects_something(selector: ObjectSelector) -> bool:
        pairs = product(objects, namespaces)
        return any(_chosen(selector, manifest, namespace) for manifest, namespace in pairs)

    selectors = enumerate(placement.selectors)
    return [number for number, selector in selectors if not selects_something(selector)]


def selector_problem(placement: FleetPlacement, hub: HubIndex) -> SelectorProblem | None:
    """What a hub stops at when it selects, selector by selector: a reserved namespace that is named, and an
    object that is selected a second time.

    Source: KubeFleet pkg/utils/controller/resource_selector_resolver.go.
    """
    with_selected = (selector.name for selector in placement.selectors if selector.scope == WITH_SELECTED)
    inside = placement.namespace or next(with_selected, "")
    chosen_so_far: set[Key] = set()
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
        chosen = hub.unique.chosen(selector, {placement.namespace, inside})
        if takes_all_inside:
            chosen += hub.unique.within({manifest.name for manifest in chosen})
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


def _key(manifest: Manifest) -> Key:
    return manifest.group, manifest.kind, manifest.namespace, manifest.name


def _chosen(selector: ObjectSelector, manifest: Manifest, namespace: str) -> bool:
    """Whether a selector is for an object of this namespace; "" for the objects of the whole cluster."""
    if manifest.namespace != namespace or (manifest.group, manifest.kind) != (selector.group, selector.kind):
        return False
    return manifest.name == selector.name if selector.name else _has_labels(selector, manifest)


def _has_labels(selector: ObjectSelector, manifest: Manifest) -> bool:
    return selector.labels is None or matches(selector.labels, manifest.labels)


def _inside(
    hub: HubIndex, namespaces: Mapping[str, bool], selectors: Sequence[ObjectSelector]
) -> Iterator[Manifest]:
    """What is in the selected namespaces, by name: everything (True), or what other selectors name."""
    for namespace, with_everything in namespaces.items():
        for manifest in hub.within((namespace,)):
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
