"""Overrides rendered per cluster: which rules apply there, and what becomes of the objects.

Source: KubeFleet pkg/controllers/workgenerator/override.go. Cluster overrides apply first, namespaced
ones after them; rules in order, the last one wins; a Delete leaves the object out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.importers.api_defaults import with_defaults
from nexusform.domains.fleet.importers.fleet_model import (
    FleetOverride,
    JsonPatch,
    ObjectSelector,
    OverrideRule,
)
from nexusform.domains.fleet.planning.json_patches import PatchFailed, filled_values, patched
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    is_envelope,
    manifest_from,
    unwrapped,
)
from nexusform.kubernetes.matching import matches

MOST_OVERRIDES: Final = 100
_LIMITS: Final = {
    "ClusterResourceOverride": (
        "clusterResourceOverride limit has been reached: at most 100 cluster resources can be created."
    ),
    "ResourceOverride": "resourceOverride limit has been reached: at most 100 resources can be created.",
}


class Identity(NamedTuple):
    """What tells objects of a cluster apart."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """`Kind namespace/name`, for people."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def identity(manifest: Manifest) -> Identity:
    """Which object of a cluster a manifest is."""
    return Identity(manifest.group, manifest.kind, manifest.namespace, manifest.name)


def identities(manifests: Iterable[Manifest]) -> frozenset[Identity]:
    """The objects that members get of these."""
    return frozenset(identity(manifest) for manifest in opened(manifests))


_WRAPPED: Final = "has been wrapped in a"


class Rendered(Struct, frozen=True):
    """The objects as one cluster gets them. `digest` tells which changes were made ("" = none); `failure`
    why overriding or opening an envelope failed there, "" when neither did; `refused` are objects that the
    cluster has from others. `overrides` are the override snapshots that its binding names, None where state
    did not note them. `said` is what a hub says of the failure where it says less.
    """

    manifests: tuple[Manifest, ...]
    digest: str = ""
    failure: str = ""
    refused: tuple[Identity, ...] = ()
    overrides: tuple[str, ...] | None = ()
    said: str = ""

    @property
    def in_words(self) -> str:
        """The failure as a hub says it."""
        return self.said or self.failure

    @property
    def unopened(self) -> bool:
        """Whether an envelope is what fails: overriding went well, and no Work could be made."""
        return _WRAPPED in self.failure

    def reads_like(self, other: Rendered) -> bool:
        """Whether overrides make the same of the objects, or fail, in both."""
        return (self.digest, bool(self.failure)) == (other.digest, bool(other.failure))

    def names_like(self, other: Rendered) -> bool:
        """Whether the bindings of both name the same override snapshots, which is what a hub compares."""
        if self.overrides is None or other.overrides is None:
            return self.reads_like(other)
        return self.overrides == other.overrides


class AppliedOverrides:
    """Overrides, found by the placement that they name; those that name none are of all."""

    def __init__(self, overrides: Iterable[FleetOverride]) -> None:
        self._by_placement: dict[str, list[FleetOverride]] = {}
        for override in sorted(overrides, key=_applying_order):
            self._by_placement.setdefault(override.placement, []).append(override)

    def of(self, placement: str) -> tuple[FleetOverride, ...]:
        """The overrides of a placement (its key), in the order in which they apply."""
        of_all = self._by_placement.get("", ())
        own = self._by_placement.get(placement, ()) if placement else ()
        return tuple(sorted((*of_all, *own), key=_applying_order)) if own else tuple(of_all)


def picked(
    overrides: Iterable[FleetOverride], manifests: Sequence[Manifest], labels: Mapping[str, str]
) -> tuple[FleetOverride, ...]:
    """Those that are about any of the objects and have a rule for a cluster with these labels.

    Source: KubeFleet pkg/utils/overrider/overrider.go.
    """
    objects = tuple(opened(manifests))

    def is_picked(override: FleetOverride) -> bool:
        has_rule = any(_for_cluster(rule, labels) for rule in override.rules)
        return has_rule and any(_is_about(override, manifest) for manifest in objects)

    return tuple(filter(is_picked, overrides))


def _is_about(override: FleetOverride, manifest: Manifest) -> bool:
    return any(_selects(selector, manifest, override.namespace) for selector in override.selectors)


def refusals(overrides: Sequence[tuple[FleetOverride, bool]]) -> dict[int, list[tuple[int | None, str]]]:
    """What the webhooks refuse of overrides (new or not) because of others: by position in the list, with
    that of the selector that is meant. Those that stand are asked first.

    Source: KubeFleet pkg/webhook and pkg/utils/validator, {clusterresourceoverride,resourceoverride}.go.
    """
    refused: dict[int, list[tuple[int | None, str]]] = {}
    owners: dict[tuple[str, ObjectSelector], str] = {}
    counts: Counter[str] = Counter()
    for position in sorted(range(len(overrides)), key=lambda i: overrides[i][1]):
        override, is_new = overrides[position]
        counts[override.namespace] += 1
        if is_new and counts[override.namespace] > MOST_OVERRIDES:
            refused.setdefault(position, []).append((None, _LIMITS[override.kind]))
        for i, selector in enumerate(override.selectors):
            owner = owners.setdefault((override.namespace, selector), override.name)
            if owner != override.name:
                text = (
                    f"invalid resource selector {selector.title}: the resource has been selected by both "
                    f"{override.name} and {owner}, which is not supported"
                )
                refused.setdefault(position, []).append((i, text))
    return refused


def _applying_order(override: FleetOverride) -> tuple[bool, str, str]:
    return bool(override.namespace), override.namespace, override.name


def render(
    manifests: Sequence[Manifest],
    overrides: Sequence[FleetOverride],
    cluster: str,
    labels: Mapping[str, str],
) -> Rendered:
    """The objects of a placement as one cluster gets them."""
    if not overrides:
        return Rendered(tuple(manifests))
    rendered: list[Manifest] = []
    changes: list[Any] = []
    for manifest, envelope in _with_envelopes(manifests):
        try:
            changed = _changed(manifest, overrides, cluster, labels, changes)
        except PatchFailed as problem:
            said = _cut_off(str(problem), manifest, envelope) if envelope is not None else ""
            return Rendered(tuple(manifests), failure=str(problem), said=said)
        if changed is not None:
            rendered.append(changed)
    if not changes:
        return Rendered(tuple(manifests))
    text = json.dumps(changes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Rendered(tuple(rendered), sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def opened(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """What overrides are about: objects, and in the place of an envelope what is in it."""
    for manifest, _ in _with_envelopes(manifests):
        yield manifest


def _with_envelopes(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, Manifest | None]]:
    """What overrides are about, each with the envelope that it is in, None of one that is in none."""
    for manifest in manifests:
        if is_envelope(manifest):
            yield from ((inside, manifest) for inside in unwrapped([manifest]).manifests)
        else:
            yield manifest, None


_CLIENT_ERROR: Final = "failed to process the request due to a client error"


def _cut_off(problem: str, manifest: Manifest, envelope: Manifest) -> str:
    """What a hub says of a failure inside an envelope: it takes as many bytes off the front of its message
    as the error has that the message ends with. Source: seen on a running hub; KubeFleet
    pkg/controllers/workgenerator, envelope.go and controller.go.
    """
    place = f"{envelope.namespace}/{envelope.name}" if envelope.namespace else envelope.name
    error = f"{_CLIENT_ERROR}: {problem}"
    whole = f"failed to apply overrides to {_target(manifest)} from envelope {place}: {error}"
    beyond = len(f"{error}: ".encode("utf-8", "surrogatepass"))
    return whole.encode("utf-8", "surrogatepass")[beyond:].decode("utf-8", "replace")


class Renders:
    """The objects of a placement cluster by cluster, rendered when they are asked for. `labels` are those
    of the members, by name.
    """

    def __init__(
        self,
        manifests: tuple[Manifest, ...],
        overrides: tuple[FleetOverride, ...],
        labels: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._manifests = manifests
        self._objects = tuple(opened(manifests)) if overrides else ()
        self._overrides = overrides
        self._labels = labels
        self._unopened = _misplaced(manifests)
        self._plain = Rendered(manifests, failure=self._unopened)
        self._known: dict[str, Rendered] = {}

    def get(self, cluster: str) -> Rendered | None:
        """What a cluster gets; None when there is no such member."""
        if cluster not in self._labels:
            return None
        if not self._overrides:
            return self._plain
        if cluster not in self._known:
            labels = self._labels[cluster]
            rendered = render(self._manifests, self._overrides, cluster, labels)
            names = tuple(each.snapshot_name for each in picked(self._overrides, self._objects, labels))
            failure = rendered.failure or self._unopened
            self._known[cluster] = replace(rendered, failure=failure, overrides=names)
        return self._known[cluster]


def _misplaced(manifests: Iterable[Manifest]) -> str:
    """Why no Work can be made of an envelope, as a hub says it: an object in it is not of its namespace, or
    not of the scope that the envelope is for. "" where all are. Source: seen on a running hub.
    """
    for envelope in filter(is_envelope, manifests):
        for key, body in sorted((envelope.body.get("data") or {}).items()):
            metadata = body.get("metadata") if isinstance(body, Mapping) else None
            namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
            if metadata and str(namespace or "") != envelope.namespace:
                return _in_envelope(envelope, key, str(namespace or ""), str(metadata.get("name")))
    return ""


def _in_envelope(envelope: Manifest, key: str, namespace: str, name: str) -> str:
    """The hub's words for an object that does not belong into an envelope: what is written there counts."""
    if not envelope.namespace:
        who = f"a namespaced object {key} ({namespace}/{name})"
        return f"{who} {_WRAPPED} cluster resource envelope {envelope.name}"
    where = f"{envelope.namespace}/{envelope.name}"
    if not namespace:
        return f"a cluster scope object {key} ({name}) {_WRAPPED} resource envelope {where}"
    who = f"a namespaced object {key} ({namespace}/{name}) in"
    return f"{who} {_WRAPPED} resource envelope from another namespace ({where})"


def _changed(
    manifest: Manifest,
    overrides: Sequence[FleetOverride],
    cluster: str,
    labels: Mapping[str, str],
    changes: list[Any],
) -> Manifest | None:
    """An object as overrides leave it, None where they leave it out; what they do joins `changes`, each the
    four names of the object and the operation, with its path and value.
    """
    key = [manifest.group, manifest.kind, manifest.namespace, manifest.name]
    body: Any = None
    for override in overrides:
        if not _is_about(override, manifest):
            continue
        for rule in override.rules:
            if not _for_cluster(rule, labels):
                continue
            if rule.delete:
                changes.append([*key, "delete"])
                return None
            body = dict(manifest.body) if body is None else body
            try:
                body, made = _patched(body, rule.patches, cluster, labels)
                changes += ([*key, *change] for change in made)
            except PatchFailed as reason:
                failure = f"{override.snapshot_title} failed to apply on {_target(manifest)}"
                raise PatchFailed(f"{failure}: {reason}") from None
    if body is None:
        return manifest
    changed = manifest_from(body, manifest)
    if changed is None:
        raise PatchFailed(f"{manifest.title}: the result is no object any more")
    return changed


def _patched(
    body: Any, patches: Sequence[JsonPatch], cluster: str, labels: Mapping[str, str]
) -> tuple[Any, list[tuple[str, str, Any]]]:
    """A body after patches, and each change: operation, path and value. Patches find what the hub's API
    server fills in: where they find nothing in the body as it was written, they are tried on that.
    """
    values = filled_values(patches, cluster, labels)
    told = [(patch.operation, patch.path, value) for patch, value in zip(patches, values, strict=True)]
    try:
        return patched(body, patches, values), told
    except PatchFailed:
        return patched(with_defaults(body), patches, values), told


def _target(manifest: Manifest) -> str:
    inside = f' in namespace "{manifest.namespace}"' if manifest.namespace else ""
    return f'{manifest.kind} "{manifest.name}"{inside}'


def _selects(selector: ObjectSelector, manifest: Manifest, namespace: str) -> bool:
    """A cluster override that names a namespace is about all that is in it. Objects are named by version,
    too.
    """
    if not namespace and manifest.namespace:
        is_namespace = (selector.group, selector.version, selector.kind) == ("", "v1", "Namespace")
        return is_namespace and selector.name == manifest.namespace
    kind = (manifest.group, manifest.version, manifest.kind, manifest.namespace, manifest.name)
    return kind == (selector.group, selector.version, selector.kind, namespace, selector.name)


def _for_cluster(rule: OverrideRule, labels: Mapping[str, str]) -> bool:
    """Whether a rule is for a cluster: without terms for each, without a selector of clusters for none."""
    if rule.clusters is None:
        return False
    return not rule.clusters or any(term is None or matches(term, labels) for term in rule.clusters)
