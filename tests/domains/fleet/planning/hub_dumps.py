"""Recordings of a running hub as dumps to plan from, in the directory NEXUSFORM_HUB_CASES."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER: Final = os.environ.get("NEXUSFORM_HUB_CASES", "")
needs_recordings = pytest.mark.skipif(
    not FOLDER, reason="NEXUSFORM_HUB_CASES names no folder with recordings of a hub"
)
ATTRIBUTES: Final = {
    "cluster_resource_placements": "fleet_cluster_resource_placement",
    "resource_placements": "fleet_resource_placement",
    "cluster_resource_overrides": "fleet_cluster_resource_override",
    "resource_overrides": "fleet_resource_override",
    "placement_disruption_budgets": "fleet_placement_disruption_budget",
    "placement_evictions": "fleet_placement_eviction",
    "cluster_staged_update_strategies": "fleet_cluster_staged_update_strategy",
    "staged_update_strategies": "fleet_staged_update_strategy",
    "cluster_staged_update_runs": "fleet_cluster_staged_update_run",
    "staged_update_runs": "fleet_staged_update_run",
    "cluster_approval_requests": "fleet_cluster_approval_request",
    "approval_requests": "fleet_approval_request",
}
_FIRST: Final = """
data "fleet_hub_export" "hub" {
  files = ["hub.json"]
}
resource "fleet_hub_manifest" "all" {
  for_each  = data.fleet_hub_export.hub.hub_objects
  yaml_body = each.value
}
resource "fleet_member_cluster" "all" {
  for_each   = data.fleet_hub_export.hub.member_clusters
  name       = each.key
  labels     = each.value.labels
  health     = each.value.health
  properties = each.value.properties
  namespaces = each.value.namespaces
  resources {
    total       = each.value.resources.total
    allocatable = each.value.resources.allocatable
    available   = each.value.resources.available
  }
  dynamic "taint" {
    for_each = each.value.taints
    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = taint.value.effect
    }
  }
}
"""


def build_configuration() -> str:
    """Return resources for everything in a dump: the documentation's example, for each map."""
    hub = "data.fleet_hub_export.hub"
    body = "manifest = each.value"
    blocks = (
        f'resource "{of}" "all" {{\n  for_each = {hub}.{name}\n  {body}\n}}\n'
        for name, of in ATTRIBUTES.items()
    )
    return _FIRST + "".join(blocks)


def read_recording(name: str) -> dict[str, Any]:
    """Read a recording."""
    document: dict[str, Any] = json.loads((Path(FOLDER) / f"{name}.json").read_text())
    return document


def write_dump(objects: Iterable[Mapping[str, Any]], directory: Path) -> None:
    """Write a directory with a dump and a configuration that reads everything from it."""
    (directory / "main.nf.hcl").write_text(build_configuration())
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    (directory / "hub.json").write_text(json.dumps(items))


Key = tuple[str, str, str]


def get_object_key(body: Mapping[str, Any]) -> Key:
    """Return the kind, namespace and name of an object."""
    metadata = body["metadata"]
    return str(body["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])


def replay_events(
    events: Iterable[Mapping[str, Any]], start: Mapping[Key, Any]
) -> Iterator[dict[Key, Any]]:
    """Yield the objects of a hub after each event, including the writes of users."""
    objects = dict(start)
    for event in events:
        if "event" in event:
            key = get_object_key(event["object"])
            if event["event"] == "DELETED":
                objects.pop(key, None)
            else:
                objects[key] = event["object"]
        elif "request" in event:
            _write(event, objects)
        yield dict(objects)


def _write(event: Mapping[str, Any], objects: dict[Key, Any]) -> None:
    """Store the result of a user's request, because the watch reports only some kinds."""
    answer = event.get("answer")
    method = event["request"]["method"]
    written = event["request"].get("body")
    if event["status"] >= 300 or method == "GET":
        return
    if event["request"]["path"].endswith("/status"):
        named = answer if isinstance(answer, Mapping) and "metadata" in answer else written
        standing = objects.get(get_object_key(named), named)
        if _is_complete(standing):
            objects[get_object_key(named)] = {**standing, "status": written["status"]}
        return
    if method == "DELETE":
        objects.pop(_parse_key(event["request"]["path"]), None)
        return
    body = answer if _is_complete(answer) else written
    if not _is_complete(body):
        return
    key = get_object_key(body)
    if key[0] in ("ConfigMap", "Namespace", "Deployment", "Service", "Job") or "Override" in key[0]:
        objects[key] = body
    else:
        standing = objects.get(key, body)
        # The watch reports it later if it was recorded sparsely.
        objects[key] = {**standing, "spec": body.get("spec", {})}


def _is_complete(body: Any) -> bool:
    """Return whether an answer or a request holds a complete object, not only its names."""
    return isinstance(body, Mapping) and bool(
        body.keys() & {"spec", "data"} or body.get("kind") == "Namespace"
    )


_KINDS: Final = {
    "resourceoverrides": "ResourceOverride",
    "clusterresourceoverrides": "ClusterResourceOverride",
}


def _parse_key(path: str) -> Key:
    """Return the key of the object at a path, for kinds without watch events."""
    parts = path.split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else ""
    return _KINDS.get(parts[-2], parts[-2]), namespace, parts[-1]
