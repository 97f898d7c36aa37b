"""Overrides rendered per cluster: which rules apply there, and what becomes of the objects.

Source: KubeFleet pkg/controllers/workgenerator/override.go. Cluster overrides apply first, namespaced
ones after them; rules in order, the last one wins; a Delete leaves the object out.
"""

from __future__ import annotations

import copy
import json
import re
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
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    is_envelope,
    manifest_from,
    unwrapped,
)
from nexusform.scheduling.matching import matches

MOST_OVERRIDES: Final = 100
_LIMITS: Final = {
    "ClusterResourceOverride": (
        "clusterResourceOverride limit has been reached: at most 100 cluster resources can be created."
    ),
    "ResourceOverride": "resourceOverride limit has been reached: at most 100 resources can be created.",
}
_NAME: Final = "${MEMBER-CLUSTER-NAME}"
_OPEN: Final = "${MEMBER-CLUSTER-LABEL-KEY-"
_LABEL: Final = re.compile(r"\$\{MEMBER-CLUSTER-LABEL-KEY-([^}]+)\}")


class _Failed(Exception):
    # Control flow of this file: a rule cannot be applied.
    pass


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
    cluster has from others.
    """

    manifests: tuple[Manifest, ...]
    digest: str = ""
    failure: str = ""
    refused: tuple[Identity, ...] = ()

    @property
    def unopened(self) -> bool:
        """Whether an envelope is what fails: overriding went well, and no Work could be made."""
        return _WRAPPED in self.failure


def applicable(overrides: Iterable[FleetOverride], placement: str) -> tuple[FleetOverride, ...]:
    """The overrides of a placement (its key), in the order in which they apply."""
    chosen = [override for override in overrides if override.placement in ("", placement)]
    return tuple(sorted(chosen, key=_applying_order))


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
    try:
        for manifest in opened(manifests):
            changed = _changed(manifest, overrides, cluster, labels, changes)
            if changed is not None:
                rendered.append(changed)
    except _Failed as problem:
        return Rendered(tuple(manifests), failure=str(problem))
    if not changes:
        return Rendered(tuple(manifests))
    text = json.dumps(changes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Rendered(tuple(rendered), sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def opened(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """What overrides are about: objects, and in the place of an envelope what is in it."""
    for manifest in manifests:
        if is_envelope(manifest):
            yield from unwrapped([manifest]).manifests
        else:
            yield manifest


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
            if self._unopened and not rendered.failure:
                rendered = replace(rendered, failure=self._unopened)
            self._known[cluster] = rendered
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
            except _Failed as reason:
                failure = f'{override.kind} "{override.name}" failed to apply on {_target(manifest)}'
                raise _Failed(f"{failure}: {reason}") from None
    if body is None:
        return manifest
    patched = manifest_from(body, manifest)
    if patched is None:
        raise _Failed(f"{manifest.title}: the result is no object any more")
    return patched


def _patched(
    body: Any, patches: Sequence[JsonPatch], cluster: str, labels: Mapping[str, str]
) -> tuple[Any, list[tuple[str, str, Any]]]:
    """A body after patches, and each change: operation, path and value. Patches find what the hub's API
    server fills in: where they find nothing in the body as it was written, they are tried on that.
    """
    values = [_filled(patch.value, cluster, labels) for patch in patches]
    told = [(patch.operation, patch.path, value) for patch, value in zip(patches, values, strict=True)]
    attempt = copy.deepcopy(body)
    try:
        for patch, value in zip(patches, values, strict=True):
            _apply(attempt, patch, copy.deepcopy(value))
    except _Failed:
        attempt = with_defaults(body)
        for patch, value in zip(patches, values, strict=True):
            _apply(attempt, patch, copy.deepcopy(value))
    return attempt, told


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


def _filled(value: Any, cluster: str, labels: Mapping[str, str]) -> Any:
    """The value with its variables filled in."""
    if isinstance(value, str):
        text = value.replace(_NAME, cluster)
        for key in _LABEL.findall(text):
            if key not in labels:
                raise _Failed(f"cluster {cluster} has no label {key}, which an override asks for")
        filled = _LABEL.sub(lambda match: labels[match[1]], text)
        if _OPEN in filled:
            raise _Failed(f"{value} is missing the closing bracket }}")
        return filled
    if isinstance(value, dict):
        names = {_filled(name, cluster, labels): inner for name, inner in value.items()}
        return {name: _filled(inner, cluster, labels) for name, inner in names.items()}
    if isinstance(value, list):
        return [_filled(item, cluster, labels) for item in value]
    return value


def _apply(body: Any, patch: JsonPatch, value: Any) -> None:
    """Carry out one JSON patch in a body. Raises _Failed."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in patch.path.split("/")[1:]]
    where = f"{patch.operation} {patch.path}"
    target = body
    for step in steps[:-1]:
        target = _below(target, step, where)
    last = steps[-1] if steps else ""
    if isinstance(target, dict):
        if patch.operation != "add" and last not in target:
            raise _Failed(f"{where}: there is nothing at this path")
        if patch.operation == "remove":
            del target[last]
        else:
            target[last] = value
        return
    if isinstance(target, list):
        _apply_to_list(target, last, patch.operation, value, where)
        return
    raise _Failed(f"{where}: there is nothing at this path")


def _below(target: Any, step: str, where: str) -> Any:
    """What is one step of a path below a value; `where` says which patch asks. Raises _Failed."""
    if isinstance(target, dict) and step in target:
        return target[step]
    position = _position(step, len(target)) if isinstance(target, list) else None
    if position is not None:
        return target[position]
    raise _Failed(f"{where}: there is nothing at this path")


def _apply_to_list(target: list[Any], last: str, operation: str, value: Any, where: str) -> None:
    """Carry out a JSON patch at an item of a list. Raises _Failed."""
    if operation == "add" and last == "-":
        target.append(value)
        return
    position = _position(last, len(target) + (operation == "add"))
    if position is None:
        raise _Failed(f"{where}: the list has no such item")
    if operation == "add":
        target.insert(position, value)
    elif operation == "remove":
        del target[position]
    else:
        target[position] = value


def _position(step: str, count: int) -> int | None:
    """The item of a list that a step names: from 0, or from the end for one below 0; None: there is none."""
    if not re.fullmatch(r"-?\d{1,9}", step, re.ASCII):
        return None
    position = int(step) + (count if step.startswith("-") else 0)
    return position if 0 <= position < count else None
