"""Verification of the objects of each cluster after overrides: its Works against the planned content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import convert

from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.field_validation import get_mapping, list_mappings
from nexusform.domains.fleet.importers.fleet_export import is_deleting, read_snapshot_objects
from nexusform.domains.fleet.importers.fleet_records import RunRecord
from nexusform.domains.fleet.planning.override_rendering import ClusterRenderer, RenderedResources, expand_envelopes
from nexusform.domains.fleet.planning.placement_records import AppliedResources
from nexusform.domains.hub.providers.hub_bodies import find_differences
from nexusform.domains.hub.providers.rollout_progress import get_name
from nexusform.domains.pods.importers.manifest_parser import Manifest, build_manifest

_MEMBER_NAMESPACE: Final = "fleet-member-"
_MAX_NAMES: Final = 4
Body = Mapping[str, Any]
Works = Sequence[Body]


def has_cluster_content(planned: AppliedResources) -> bool:
    """Return whether overrides change the objects of any cluster."""
    return any(rendered.digest for rendered in planned.on_cluster.values())


def render_run_content(note: Body, snapshots: Works, members: Works) -> AppliedResources:
    """Return the objects of the clusters of a completed run with overrides: those of its resource snapshot, changed
    by the planned overrides. `note` is the planned private note of the run.
    """
    record = convert(note, RunRecord)
    manifests = [manifest for manifest in map(build_manifest, map(dict, snapshots)) if manifest is not None]
    objects = read_snapshot_objects(manifests, -1 if record.resource_snapshot is None else record.resource_snapshot)
    labels = {get_name(member): get_mapping(member, "metadata", "labels") for member in members}
    on_cluster: dict[str, RenderedResources] = {}
    for cluster, positions in (record.picked or {}).items() if objects and record.overrides else ():
        overrides = tuple((record.overrides or ())[position] for position in positions)
        rendered = ClusterRenderer(objects, overrides, labels).render_cluster(cluster)
        if rendered is not None and rendered.digest and cluster in record.done:
            on_cluster[cluster] = rendered
    return AppliedResources((), on_cluster)


def find_wrong_works(planned: AppliedResources, works: Works) -> Iterator[tuple[str, str]]:
    """Yield the clusters with other objects in their Works than planned, and the difference. Clusters without
    Works and with a predicted failure are left out, and so are objects with another owner on the cluster.
    """
    objects_by_cluster = _read_objects(works)
    for cluster, rendered in sorted(planned.on_cluster.items()):
        objects = objects_by_cluster.get(cluster, {})
        if not objects or rendered.failure:
            continue
        expected = {manifest.title: manifest for manifest in expand_envelopes(rendered.manifests)}
        different = [
            title
            for title in sorted(
                (expected.keys() | objects.keys()) - {item.title for item in rendered.conflicting_objects}
            )
            if title not in expected
            or title not in objects
            or (next(find_differences(expected[title].body, objects[title].body), None) is not None)
        ]
        if different:
            yield cluster, f"its Works differ from the plan in {format_first_items(different, _MAX_NAMES)}"


def describe_missing_works(planned: AppliedResources, works: Works | None) -> str:
    """Describe the clusters without Works to verify them; "" if all have some. None: no permission."""
    if works is None:
        return "the hub does not let Works be listed, so the objects of its clusters are unknown"
    observed = _read_objects(works)
    expected = (name for name, rendered in planned.on_cluster.items() if rendered.manifests and not rendered.failure)
    missing = sorted(name for name in expected if not observed.get(name))
    return f"the hub has no Works of {format_first_items(missing, _MAX_NAMES)}" if missing else ""


def _read_objects(works: Works) -> dict[str, dict[str, Manifest]]:
    """Return the objects in Works, by cluster and title, without those of Works in deletion."""
    objects_by_cluster: dict[str, dict[str, Manifest]] = {}
    for work in works:
        if is_deleting(work):
            continue
        cluster = str((work.get("metadata") or {}).get("namespace")).removeprefix(_MEMBER_NAMESPACE)
        manifests = map(build_manifest, map(dict, list_mappings(work, "spec", "workload", "manifests")))
        objects = objects_by_cluster.setdefault(cluster, {})
        objects |= {manifest.title: manifest for manifest in manifests if manifest is not None}
    return objects_by_cluster
