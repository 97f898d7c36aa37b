"""Hub objects after a server-side apply; fields of other managers stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.planning.override_rendering import get_object_identity
from nexusform.domains.fleet.planning.placement_records import compute_comparable_hash
from nexusform.domains.pods.importers.manifest_parser import Manifest, build_changed_manifest

_NAME: Final = "name"


def merge_applied_objects(
    configured: Iterable[Manifest], previous: Iterable[Manifest], observed: Iterable[Manifest]
) -> Iterator[Manifest]:
    """Yield the objects on a hub after applying `configured`, previously applied as `previous`, to the
    `observed` objects.
    """
    observed_by_identity = {get_object_identity(manifest): manifest for manifest in observed}
    previous_by_identity = {get_object_identity(manifest): manifest for manifest in previous}
    for manifest in configured:
        observed_manifest, previous_manifest = (
            observed_by_identity.get(get_object_identity(manifest)),
            previous_by_identity.get(get_object_identity(manifest)),
        )
        if observed_manifest is None or previous_manifest is None:
            yield manifest
            continue
        body = _merge_field(observed_manifest.body, previous_manifest.body, manifest.body)
        applied = build_changed_manifest(body, manifest)
        is_unchanged = applied is None or compute_comparable_hash(applied) == compute_comparable_hash(manifest)
        yield manifest if applied is None or is_unchanged else applied


def _merge_field(observed: Any, previous: Any, configured: Any) -> Any:
    """Return a value after a server-side apply. Lists of named elements merge by name, like most lists of
    Kubernetes; other lists are replaced.
    """
    if isinstance(observed, Mapping) and isinstance(configured, Mapping):
        return _merge_mapping(observed, previous if isinstance(previous, Mapping) else {}, configured)
    if _is_list_of_named_elements(observed) and _is_list_of_named_elements(configured):
        by_name = [{part[_NAME]: part for part in parts} for parts in (observed, configured)]
        previous_by_name = {part[_NAME]: part for part in previous} if _is_list_of_named_elements(previous) else {}
        return list(_merge_mapping(by_name[0], previous_by_name, by_name[1]).values())
    return configured


def _merge_mapping(
    observed: Mapping[str, Any], previous: Mapping[str, Any], configured: Mapping[str, Any]
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name, value in observed.items():
        if name in configured:
            merged[name] = _merge_field(value, previous.get(name), configured[name])
        elif name not in previous:
            merged[name] = value
        elif isinstance(value, Mapping) and isinstance(previous[name], Mapping):
            remaining = _merge_mapping(value, previous[name], {})
            merged |= {name: remaining} if remaining else {}
    return {**merged, **{name: value for name, value in configured.items() if name not in merged}}


def _is_list_of_named_elements(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(isinstance(part, Mapping) and isinstance(part.get(_NAME), str) for part in value)
    )
