"""What becomes of an object on a hub once it is applied: the fields of others stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.planning.contents import compared_hash
from nexusform.domains.fleet.planning.overrides import identity
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, manifest_from

_NAME: Final = "name"


def applied_objects(
    written: Iterable[Manifest], before: Iterable[Manifest], shown: Iterable[Manifest]
) -> Iterator[Manifest]:
    """The objects as a hub holds them once `written` is applied where `before` was applied last. `shown` is
    what stands.
    """
    standing = {identity(manifest): manifest for manifest in shown}
    former = {identity(manifest): manifest for manifest in before}
    for manifest in written:
        stands, was = standing.get(identity(manifest)), former.get(identity(manifest))
        if stands is None or was is None:
            yield manifest
            continue
        body = _applied(stands.body, was.body, manifest.body)
        applied = manifest_from(body, manifest)
        same = applied is None or compared_hash(applied) == compared_hash(manifest)
        yield manifest if applied is None or same else applied


def _applied(stands: Any, was: Any, written: Any) -> Any:
    """A value after a server-side apply: lists whose parts have names are merged by these, as most lists of
    Kubernetes are; others are replaced.
    """
    if isinstance(stands, Mapping) and isinstance(written, Mapping):
        return _merged(stands, was if isinstance(was, Mapping) else {}, written)
    if _has_names(stands) and _has_names(written):
        by_name = [{part[_NAME]: part for part in parts} for parts in (stands, written)]
        was_by_name = {part[_NAME]: part for part in was} if _has_names(was) else {}
        return list(_merged(by_name[0], was_by_name, by_name[1]).values())
    return written


def _merged(stands: Mapping[str, Any], was: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name, value in stands.items():
        if name in written:
            merged[name] = _applied(value, was.get(name), written[name])
        elif name not in was:
            merged[name] = value
        elif isinstance(value, Mapping) and isinstance(was[name], Mapping):
            left = _merged(value, was[name], {})
            merged |= {name: left} if left else {}
    return {**merged, **{name: value for name, value in written.items() if name not in merged}}


def _has_names(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(isinstance(part, Mapping) and isinstance(part.get(_NAME), str) for part in value)
    )
