"""Overrides rendered per cluster.

Cluster overrides precede namespaced ones; of the rules, the last one wins; Delete removes the
object. Source: KubeFleet pkg/controllers/workgenerator/override.go.
"""

from __future__ import annotations

import copy
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.importers.fleet_records import (
    FleetOverride,
    JsonPatch,
    ObjectSelector,
    OverrideRule,
    format_object_key,
)
from nexusform.domains.fleet.scheduling.go_integers import parse_go_integer
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    build_changed_manifest,
    is_envelope,
    unwrap_envelopes,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.kubernetes.matching import is_selected

MAX_OVERRIDES: Final = 100


class ObjectIdentity(NamedTuple):
    """Identity of an object on a cluster."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """Display name, `Kind namespace/name`."""
        return f"{self.kind} {format_object_key(self.namespace, self.name)}"


def get_object_identity(manifest: Manifest) -> ObjectIdentity:
    """Return the identity of a manifest's object."""
    return ObjectIdentity(manifest.group, manifest.kind, manifest.namespace, manifest.name)


def collect_object_identities(manifests: Iterable[Manifest]) -> frozenset[ObjectIdentity]:
    """Return the identities of these objects on a member, with envelopes expanded."""
    return frozenset(map(get_object_identity, expand_envelopes(manifests)))


def collect_namespace_names(objects: Iterable[Manifest | ObjectIdentity]) -> set[str]:
    """Return the names of the Namespaces among objects."""
    return {item.name for item in objects if (item.group, item.kind) == ("", "Namespace")}


_WRAPPED_MESSAGE: Final = "has been wrapped in a"


class RenderedResources(Struct, frozen=True):
    """Objects rendered for one cluster.

    `digest` identifies the changes made ("": none). `failure` is the error of an override or
    envelope, "" without one; `conflicting_objects` have another owner on the cluster.
    `overrides` are the override snapshots of its binding. `reported_failure` is a hub's shorter
    text of the failure. `is_pending` means that the objects are those from before a change that
    waits for the member.
    """

    manifests: tuple[Manifest, ...]
    digest: str = ""
    failure: str = ""
    conflicting_objects: tuple[ObjectIdentity, ...] = ()
    overrides: tuple[str, ...] = ()
    reported_failure: str = ""
    is_pending: bool = False

    @property
    def failure_message(self) -> str:
        """Failure as reported by a hub, perhaps shorter than the `failure` itself."""
        return self.reported_failure or self.failure

    @property
    def has_envelope_failure(self) -> bool:
        """Whether an envelope failed, by the text of the failure.

        Overrides succeeded, but no Work could be created.
        """
        return _WRAPPED_MESSAGE in self.failure

    def has_same_result(self, other: RenderedResources) -> bool:
        """Return True if overrides change the objects equally, or fail in both."""
        return (self.digest, bool(self.failure)) == (other.digest, bool(other.failure))


class OverrideIndex:
    """Overrides by placement; those without a placement apply to all."""

    def __init__(self, overrides: Iterable[FleetOverride]) -> None:
        # "": for all placements.
        self._by_placement = group_by(overrides, attrgetter("placement"))

    def list_overrides(self, placement: str) -> tuple[FleetOverride, ...]:
        """Return the overrides of a placement (key) in order: cluster overrides first.

        Later overrides win.
        """
        general = self._by_placement.get("", ())
        specific = self._by_placement.get(placement, ())
        return tuple(
            sorted(
                (*general, *specific),
                key=lambda item: (bool(item.namespace), item.namespace, item.name),
            )
        )


# What an override and an object have in common if the first selects the second: the namespace of
# the override, and the group, version, kind and name that its selector has.
SelectionKey: TypeAlias = tuple[str, str, str, str, str]


def collect_selection_keys(manifests: Iterable[Manifest]) -> frozenset[SelectionKey]:
    """Return the keys of the overrides that select one of these objects, envelopes expanded.

    A cluster override of a Namespace selects the objects inside, too.
    """
    return frozenset(
        key
        for manifest in expand_envelopes(manifests)
        for key in _iterate_selection_keys_of_object(manifest)
    )


def _iterate_selection_keys_of_object(manifest: Manifest) -> Iterator[SelectionKey]:
    if manifest.namespace:
        yield "", "", "v1", "Namespace", manifest.namespace
    yield manifest.namespace, manifest.group, manifest.version, manifest.kind, manifest.name


def _iterate_selection_keys(override: FleetOverride) -> Iterator[SelectionKey]:
    for selector in override.selectors:
        yield override.namespace, selector.group, selector.version, selector.kind, selector.name


def is_any_affected(override: FleetOverride, keys: frozenset[SelectionKey]) -> bool:
    """Return True if an override selects an object with one of these keys."""
    return not keys.isdisjoint(_iterate_selection_keys(override))


def select_overrides(
    overrides: Iterable[FleetOverride], keys: frozenset[SelectionKey], labels: Mapping[str, str]
) -> tuple[FleetOverride, ...]:
    """Return the overrides that select any object with these keys and match a cluster.

    Such an override has a rule for a cluster with these labels.

    Source: KubeFleet pkg/utils/overrider/overrider.go.
    """
    return tuple(
        override
        for override in overrides
        if is_any_affected(override, keys)
        and any(is_rule_for_cluster(rule, labels) for rule in override.rules)
    )


def find_override_conflicts(
    overrides: Sequence[tuple[FleetOverride, bool]],
) -> dict[int, list[tuple[int | None, str]]]:
    """Return the webhook errors by position in `overrides`, as (index of the selector, text).

    The index is None for an error of the whole override. `overrides` are pairs
    with a flag: True for those created by the plan. Source: KubeFleet pkg/webhook
    and pkg/utils/validator, {clusterresourceoverride,resourceoverride}.go.
    """
    conflicts: dict[int, list[tuple[int | None, str]]] = {}
    # names of overrides by namespace and selector.
    owners: dict[tuple[str, ObjectSelector], str] = {}
    # By namespace, "" for cluster overrides.
    counts: Counter[str] = Counter()
    # Existing overrides are first: they have priority over those created by the plan.
    for position, (override, is_new) in sorted(enumerate(overrides), key=lambda item: item[1][1]):
        counts[override.namespace] += 1
        if is_new and counts[override.namespace] > MAX_OVERRIDES:
            message = (
                "clusterResourceOverride limit has been reached: at most 100 cluster resources "
                "can be created."
            )
            if override.namespace:
                message = (
                    "resourceOverride limit has been reached: at most 100 resources can be created."
                )
            conflicts.setdefault(position, []).append((None, message))
        for i, selector in enumerate(override.selectors):
            # The first override with the selector owns it.
            owner = owners.setdefault((override.namespace, selector), override.name)
            if owner != override.name:
                reason = (
                    f"the resource has been selected by both {override.name} and {owner}, which "
                    "is not supported"
                )
                text = f"invalid resource selector {selector.title}: {reason}"
                conflicts.setdefault(position, []).append((i, text))
    return conflicts


def render_resources(
    manifests: Sequence[Manifest],
    overrides: Sequence[FleetOverride],
    cluster: str,
    labels: Mapping[str, str],
) -> RenderedResources:
    """Return a placement's objects changed by the overrides for a cluster, with a hash.

    The hash of the changes compares two results. If an override fails, return the unchanged objects
    with the failure.
    """
    rendered: list[Manifest] = []
    # filled by _apply_object_overrides.
    changes: list[Any] = []
    positions: defaultdict[SelectionKey, set[int]] = defaultdict(set)
    for position, override in enumerate(overrides):
        for key in _iterate_selection_keys(override):
            positions[key].add(position)
    for manifest, envelope in _iterate_with_envelope(manifests):
        keys = _iterate_selection_keys_of_object(manifest)
        own_positions = set[int]().union(*(positions.get(key, ()) for key in keys))
        own_overrides = [overrides[position] for position in sorted(own_positions)]
        try:
            changed_manifest = _apply_object_overrides(
                manifest, own_overrides, cluster, labels, changes
            )
        except PatchError as problem:
            # The hub shortens the text for an object inside an envelope. Else ("") it reports the
            # failure as it is.
            reported_failure = (
                _truncate_message(str(problem), manifest, envelope) if envelope is not None else ""
            )
            return RenderedResources(
                tuple(manifests), failure=str(problem), reported_failure=reported_failure
            )
        # None: an override deletes it.
        if changed_manifest is not None:
            rendered.append(changed_manifest)
    if not changes:
        return RenderedResources(tuple(manifests))
    text = json.dumps(changes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return RenderedResources(
        tuple(rendered), digest=sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    )


def expand_envelopes(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield the objects with each envelope replaced by its content."""
    for manifest, _ in _iterate_with_envelope(manifests):
        yield manifest


def _iterate_with_envelope(
    manifests: Iterable[Manifest],
) -> Iterator[tuple[Manifest, Manifest | None]]:
    """Yield each object with its envelope, None without one."""
    for manifest in manifests:
        if is_envelope(manifest):
            yield from ((wrapped, manifest) for wrapped in unwrap_envelopes([manifest]).manifests)
        else:
            yield manifest, None


def _truncate_message(problem: str, manifest: Manifest, envelope: Manifest) -> str:
    """Return a hub's message about a failure inside an envelope.

    A hub cuts off its beginning: as many bytes as the error at its end has. Source: seen on a
    running hub; KubeFleet pkg/controllers/workgenerator, envelope.go and controller.go.
    """
    envelope_name = format_object_key(envelope.namespace, envelope.name)
    error = f"failed to process the request due to a client error: {problem}"
    message = (
        f"failed to apply overrides to {_describe_target(manifest)} from envelope "
        f"{envelope_name}: {error}"
    )
    offset = len(f"{error}: ".encode("utf-8", "surrogatepass"))
    return message.encode("utf-8", "surrogatepass")[offset:].decode("utf-8", "replace")


class ClusterRenderer:
    """Objects of a placement with the overrides for each cluster, on demand.

    `labels` are those of the members by name.
    """

    def __init__(
        self,
        manifests: tuple[Manifest, ...],
        overrides: tuple[FleetOverride, ...],
        labels: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Keep the manifests and overrides.

        Invalid content of an envelope makes every rendering a failure.
        """
        self._manifests = manifests
        # For the selection of overrides.
        self._keys = collect_selection_keys(manifests)
        # Of these objects.
        self._overrides = tuple(
            override for override in overrides if is_any_affected(override, self._keys)
        )
        # Of members by name.
        self._labels = labels
        self._envelope_failure = _explain_invalid_envelope_content(manifests)
        self._unchanged = RenderedResources(manifests, failure=self._envelope_failure)
        self._cache: dict[str, RenderedResources] = {}  # by cluster

    def render_cluster(self, cluster: str) -> RenderedResources | None:
        """Return the resources of a cluster; None without such a member."""
        if cluster not in self._labels:
            return None
        if not self._overrides:
            # One list for all clusters.
            return self._unchanged
        if cluster not in self._cache:
            labels = self._labels[cluster]
            rendered = render_resources(self._manifests, self._overrides, cluster, labels)
            selected_overrides = select_overrides(self._overrides, self._keys, labels)
            # The names of their snapshots in bindings: `[namespace/]override-3`.
            names = tuple(f"{override.key}-{override.snapshot}" for override in selected_overrides)
            # A hub applies overrides first.
            failure = rendered.failure or self._envelope_failure
            self._cache[cluster] = replace(rendered, failure=failure, overrides=names)
        return self._cache[cluster]


def _explain_invalid_envelope_content(manifests: Iterable[Manifest]) -> str:
    """Return a hub's message for the first object in an envelope with another namespace or scope.

    The result is "" if there is none.
    """
    for envelope in filter(is_envelope, manifests):
        for key, body in sorted(get_mapping(envelope.body, "data").items()):
            metadata = get_mapping(body, "metadata")
            namespace = str(metadata.get("namespace") or "")
            # A ClusterResourceEnvelope has no namespace, and neither have its objects. No metadata:
            # not an object.
            if metadata and namespace != envelope.namespace:
                return _format_misplaced_message(
                    envelope, key, namespace, str(metadata.get("name"))
                )
    return ""


def _format_misplaced_message(envelope: Manifest, key: str, namespace: str, name: str) -> str:
    """Return a hub's message for an object that does not fit its envelope.

    Its scope or namespace differs. `key` is its key in the envelope.
    """
    if not envelope.namespace:
        subject = f"a namespaced object {key} ({namespace}/{name})"
        return f"{subject} {_WRAPPED_MESSAGE} cluster resource envelope {envelope.name}"
    envelope_name = f"{envelope.namespace}/{envelope.name}"
    if not namespace:
        return (
            f"a cluster scope object {key} ({name}) {_WRAPPED_MESSAGE} resource envelope "
            f"{envelope_name}"
        )
    subject = f"a namespaced object {key} ({namespace}/{name}) in"
    return (
        f"{subject} {_WRAPPED_MESSAGE} resource envelope from another namespace ({envelope_name})"
    )


def _apply_object_overrides(
    manifest: Manifest,
    overrides: Sequence[FleetOverride],
    cluster: str,
    labels: Mapping[str, str],
    changes: list[Any],
) -> Manifest | None:
    """Return an object after the overrides for a cluster, None if one deletes it.

    Append each operation to `changes` as a flat list: the parts of the object's identity, the
    operation, path and value. Raises PatchError, with the hub's message.
    """
    key = get_object_identity(manifest)
    body: Any = manifest.body
    # The last override that deletes the object.
    deleting: FleetOverride | None = None
    for override, rule in list_matching_rules(manifest, overrides, labels):
        if override is deleting:
            # A hub reads no further rule of it.
            continue
        if rule.delete:
            changes.append([*key, "delete"])
            deleting = override
            continue
        try:
            values = replace_patch_variables(rule.patches, cluster, labels)
            if deleting is not None:
                # A hub still fills in the variables of later overrides, and patches nothing.
                continue
            body = _patch_defaulted_body(body, rule, values)
        except PatchError as reason:
            snapshot = f'{override.kind}Snapshot "{override.name}-{override.snapshot}"'
            failure = f"{snapshot} failed to apply on {_describe_target(manifest)}"
            raise PatchError(f"{failure}: {reason}") from None
        for patch, value in zip(rule.patches, values, strict=True):
            changes.append([*key, patch.operation, patch.path, value])
    if deleting is not None:
        return None
    # No rule patched it.
    if body is manifest.body:
        return manifest
    changed_manifest = build_changed_manifest(body, manifest)
    if changed_manifest is None:
        raise PatchError(f"{manifest.title}: the result is not an object")
    return changed_manifest


def _patch_defaulted_body(body: Any, rule: OverrideRule, values: Sequence[Any]) -> Any:
    """Return a body after the patches of a rule. Raises PatchError."""
    try:
        return apply_json_patches(body, rule.patches, values)
    except PatchError:
        # Retried with the defaults of the hub's API server.
        return apply_json_patches(add_api_server_defaults(body), rule.patches, values)


def list_matching_rules(
    manifest: Manifest, overrides: Iterable[FleetOverride], labels: Mapping[str, str]
) -> Iterator[tuple[FleetOverride, OverrideRule]]:
    """Yield the overrides of an object in order, each with its rules for these labels.

    The rules are those for a cluster with these labels.
    """
    keys = frozenset(_iterate_selection_keys_of_object(manifest))
    for override in overrides:
        if is_any_affected(override, keys):
            for rule in override.rules:
                if is_rule_for_cluster(rule, labels):
                    yield override, rule


def _describe_target(manifest: Manifest) -> str:
    """Return kind, name and namespace of an object, as in messages of a hub."""
    suffix = f' in namespace "{manifest.namespace}"' if manifest.namespace else ""
    return f'{manifest.kind} "{manifest.name}"{suffix}'


def is_rule_for_cluster(rule: OverrideRule, labels: Mapping[str, str]) -> bool:
    """Return True if a rule matches a cluster with these labels.

    One matching term of its selector is enough.
    """
    # No clusterSelector: the rule matches none.
    if rule.clusters is None:
        return False
    # A selector without terms matches every cluster.
    if not rule.clusters:
        return True
    # A term without a label selector (None) matches every cluster.
    return any(term is None or is_selected(term, labels) for term in rule.clusters)


_LABEL_VARIABLE: Final = "${MEMBER-CLUSTER-LABEL-KEY-"
_MISSING_VALUE: Final = "missing value"


class PatchError(Exception):
    """Failure to apply a patch; its text is the hub's message."""


def replace_patch_variables(
    patches: Sequence[JsonPatch], cluster: str, labels: Mapping[str, str]
) -> list[Any]:
    """Return the values of patches with variables replaced.

    Raises PatchError.
    """
    return [_replace_variables_in_value(patch.value, cluster, labels) for patch in patches]


def _replace_variables_in_value(value: Any, cluster: str, labels: Mapping[str, str]) -> Any:
    """Return a value with variables replaced in its keys and values.

    Like a hub, replace them in its JSON text.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if "${" not in text:
        return value
    original = text = text.replace("${MEMBER-CLUSTER-NAME}", cluster)
    while _LABEL_VARIABLE in text:
        prefix, _, suffix = text.partition(_LABEL_VARIABLE)
        key, bracket, remainder = suffix.partition("}")
        if not bracket:
            raise PatchError(f"input {original} is missing the closing bracket `}}`")
        if key not in labels:
            raise PatchError(f"label key {key} not found on cluster {cluster}")
        text = f"{prefix}{labels[key]}{remainder}"
    return json.loads(text)


def apply_json_patches(body: Any, patches: Sequence[JsonPatch], values: Sequence[Any]) -> Any:
    """Return a copy of a body after patches with these values.

    Raises PatchError.
    """
    copied = copy.deepcopy(body)
    for patch, value in zip(patches, values, strict=True):
        _apply_patch(copied, patch, copy.deepcopy(value))
    return copied


def _apply_patch(body: Any, patch: JsonPatch, value: Any) -> None:
    """Apply a patch to a body in place.

    Raise PatchError, with the hub's text, if its target is missing.
    """
    steps = _split_pointer(patch.path)
    # The last step is the key or position to change, the steps before lead to its mapping or list.
    last = steps[-1]
    target = _find_patch_target(body, steps[1:-1])
    if isinstance(target, dict):
        is_missing = last not in target
        if is_missing and patch.operation == "replace":
            raise PatchError(_describe_missing_key(patch))
        if is_missing and patch.operation == "remove":
            unable = f"unable to remove nonexistent key: {last}: {_MISSING_VALUE}"
            raise PatchError(f"error in remove for path: '{patch.path}': {unable}")
        if patch.operation == "remove":
            del target[last]
        else:
            target[last] = value
    elif isinstance(target, list):
        _apply_patch_to_list(target, last, patch, value)
    else:
        # quoted as by the hub.
        path = patch.path if patch.operation == "replace" else f'"{patch.path}"'
        raise PatchError(
            f"{patch.operation} operation does not apply: doc is missing path: {path}: "
            f"{_MISSING_VALUE}"
        )


def _split_pointer(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer (RFC 6901): "/a/b~1c" has "", "a" and "b/c"."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def find_pointer_value(body: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer, None if it is missing."""
    return _find_patch_target(body, _split_pointer(pointer)[1:])


def _find_patch_target(body: Any, steps: Sequence[str]) -> Any:
    """Return the mapping or list reached from a body by these steps of a patch path.

    The result is None if a step is missing.
    """
    target = body
    for step in steps:
        if isinstance(target, dict):
            target = target.get(step)
        else:
            position = _resolve_index(step, len(target)) if isinstance(target, list) else None
            target = None if position is None else target[position]
    return target


def _describe_missing_key(patch: JsonPatch) -> str:
    """Return the hub's message for a missing key to replace."""
    return f"replace operation does not apply: doc is missing key: {patch.path}: {_MISSING_VALUE}"


def _apply_patch_to_list(target: list[Any], last: str, patch: JsonPatch, value: Any) -> None:
    """Apply a patch to a list in place; `last` is the last step of its path.

    Raises PatchError.
    """
    if patch.operation == "add" and last == "-":
        target.append(value)
        return
    # "add" inserts before a position, or at the end.
    position = _resolve_index(last, len(target) + 1 if patch.operation == "add" else len(target))
    if position is None:
        if patch.operation == "replace":
            raise PatchError(_describe_missing_key(patch))
        raise PatchError(
            f"error in {patch.operation} for path: '{patch.path}': "
            f"{_explain_missing_item(last, patch)}"
        )
    if patch.operation == "add":
        target.insert(position, value)
    elif patch.operation == "remove":
        del target[position]
    else:
        target[position] = value


def _explain_missing_item(step: str, patch: JsonPatch) -> str:
    """Return the hub's message for a patch path with a step (an index) not found in a list."""
    number_or_error = parse_go_integer(step)
    if isinstance(number_or_error, int):
        return f"Unable to access invalid index: {number_or_error}: invalid index referenced"
    prefix = f"value was not a proper array index: '{step}': " if patch.operation == "add" else ""
    return prefix + number_or_error


def _resolve_index(step: str, count: int) -> int | None:
    """Return the list position of a step, counted from the end if negative; None if invalid."""
    # Or the error, a string.
    number = parse_go_integer(step)
    return number % count if isinstance(number, int) and number in range(-count, count) else None
