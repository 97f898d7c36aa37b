"""Exports of a plan: YAML of fleet objects for GitOps tools, and node labels.

The labels are set by a script.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.diagnostics.phrases import format_first_items, group_by
from nexusform.documents.yaml_documents import load_yaml
from nexusform.domains.fleet.importers.fleet_documents import (
    NODE_COUNT,
    OLD_NODE_COUNT,
    read_fleet_document,
)
from nexusform.domains.fleet.importers.fleet_records import FleetUpdateRun
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.types.block_bodies import BLOCK_API_VERSION, build_block_body
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import get_list, get_mapping, get_text
from nexusform.plans.plan import Action, Plan
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import BlockSchema

_KINDS: Final = {
    "fleet_cluster_resource_override": "ClusterResourceOverride",
    "fleet_resource_override": "ResourceOverride",
    "fleet_cluster_resource_placement": "ClusterResourcePlacement",
    "fleet_resource_placement": "ResourcePlacement",
    "fleet_cluster_staged_update_strategy": "ClusterStagedUpdateStrategy",
    "fleet_placement_disruption_budget": "ClusterResourcePlacementDisruptionBudget",
    "fleet_staged_update_strategy": "StagedUpdateStrategy",
    "fleet_cluster_staged_update_run": "ClusterStagedUpdateRun",
    "fleet_staged_update_run": "StagedUpdateRun",
    "fleet_placement_eviction": "ClusterResourcePlacementEviction",
}
_MEMBER: Final = "fleet_member_cluster"
_HUB_OBJECTS: Final = "fleet_hub_manifest"
_PLACEMENTS: Final = ("fleet_cluster_resource_placement", "fleet_resource_placement")
_APPROVALS: Final = ("fleet_cluster_approval_request", "fleet_approval_request")
# The order for a hub: referenced objects first. Overrides precede placements: one without a
# placement name affects only placements created later.
_ORDER: Final = (_HUB_OBJECTS, _MEMBER, *_KINDS)


class FleetManifestExport(Struct, frozen=True):
    """YAML of a fleet, "" if empty, and its limitations, a sentence each."""

    text: str
    limitations: tuple[str, ...] = ()


class _ExportedObject(Struct, frozen=True):
    """Object after the plan, with its attributes.

    `is_created` means that the plan creates it.
    """

    address: Address
    attributes: Mapping[str, Any]
    is_created: bool

    @property
    def is_earlier_eviction(self) -> bool:
        """Whether it is an existing eviction: applied again, it would evict again."""
        return self.address.type == "fleet_placement_eviction" and not self.is_created


def render_fleet_manifests(plan: Plan, registries: PluginRegistries) -> FleetManifestExport:
    """Render the fleet after the plan.

    The order is: objects, labels and taints, placements and related objects, new evictions.
    """
    objects = [
        _ExportedObject(change.address, change.after, is_created=change.action is Action.CREATE)
        for change in plan.changes
        if change.after
    ]
    documents: list[str] = []
    # Other types have no manifest.
    for type_name in _ORDER:
        for item in objects:
            if item.address.type == type_name and not item.is_earlier_eviction:
                schema = registries.resource_types[type_name].schema
                documents += _render_documents(type_name, schema, item.attributes)
    text = "".join(f"---\n{document}" for document in documents)
    if text:
        head = (
            "# Written by nexusform from a plan. Apply server-side: member clusters have labels "
            "and taints only.\n"
        )
        text = head + text
    return FleetManifestExport(text, tuple(_list_export_limitations(objects, registries)))


def _list_export_limitations(
    objects: Sequence[_ExportedObject], registries: PluginRegistries
) -> Iterator[str]:
    """Yield a sentence for each limitation of the export.

    It has the addresses of the objects it affects.
    """
    # By key of _LIMITATION_TEXTS.
    by_limitation = group_by(objects, _find_limitation)
    # exported in full.
    by_limitation.pop("", None)
    by_limitation["evictions"] = [item for item in objects if item.is_earlier_eviction]
    by_limitation["runs"] = _select_runs_of_new_placements(objects, registries)
    for limitation, items in by_limitation.items():
        if items:
            addresses = format_first_items([str(item.address) for item in items], _MAX_NAMES)
            yield f"{addresses}: {_LIMITATION_TEXTS[limitation]}"


def _find_limitation(item: _ExportedObject) -> str:
    """Return the key of `_LIMITATION_TEXTS` for an object not exported in full; "" for others.

    Such objects are approvals, objects of a single cluster, and members with figures that only
    their agent may report.
    """
    kind = item.address.type
    attributes = item.attributes
    # A hub creates approval requests itself, and approves them in their status. So the approvals in
    # a run are not exported either.
    has_approvals = kind.endswith("_run") and attributes.get("approvals")
    if kind in _APPROVALS or has_approvals:
        return "approvals"
    if kind == _HUB_OBJECTS and attributes.get("cluster_id"):
        return "clusters"
    if kind == _MEMBER and (attributes.get("properties") or attributes.get("resources")):
        return "members"
    return ""


def _select_runs_of_new_placements(
    objects: Sequence[_ExportedObject], registries: PluginRegistries
) -> list[_ExportedObject]:
    """Return the new staged runs of placements that are new themselves."""
    created = [item for item in objects if item.is_created]
    new_placement_ids = {
        item.attributes.get("id") for item in created if item.address.type in _PLACEMENTS
    }
    runs: list[_ExportedObject] = []
    for item in created:
        resource_type = registries.resource_types[item.address.type]
        if not isinstance(resource_type, FleetObjectType):
            continue
        run = resource_type.build_fleet_object(item.attributes)
        if isinstance(run, FleetUpdateRun) and run.build_key(run.placement) in new_placement_ids:
            runs.append(item)
    return runs


_MAX_NAMES: Final = 4
_LIMITATION_TEXTS: Final = {
    "approvals": "an approval is a status condition of a request that the hub creates. Patch the "
    "status "
    "once the request exists.",
    "clusters": "its objects have no placement. Apply them on their cluster.",
    "members": (
        "the member's agent reports properties and resources. The export has labels and "
        "taints only."
    ),
    "runs": "the hub fails a run that is created before its placement is scheduled. Apply it once "
    "the placement's condition Scheduled is True.",
    "evictions": "omitted, because it exists already: applied again, it would evict again.",
}


def _render_documents(
    type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the manifests of one fleet object."""
    if type_name == _MEMBER:
        yield from _render_member_labels_and_taints(attributes)
    elif type_name == _HUB_OBJECTS:
        yield from map(render_yaml, _list_hub_objects(attributes))
    else:
        manifest = attributes.get("manifest")
        is_lenient = attributes.get("lenient") is True
        # As written by the user.
        if isinstance(manifest, str) and not is_lenient:
            yield manifest.strip().removeprefix("---").strip() + "\n"
            return
        text = render_yaml(_build_fleet_object(type_name, schema, attributes))
        # members have only the new name.
        yield text.replace(OLD_NODE_COUNT, NODE_COUNT) if is_lenient else text


def _list_hub_objects(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects of a manifest for the hub, namespaces first."""
    # applied to a cluster, not to the hub.
    if attributes.get("cluster_id"):
        return []
    manifests = parse_manifests(
        "yaml_body", get_text(attributes, "yaml_body"), get_text(attributes, "namespace")
    ).manifests
    return [item.body for item in sorted(manifests, key=lambda item: not item.is_namespace)]


def _build_fleet_object(
    type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the API object from the blocks of an instance, or from its manifest.

    Mistakes are corrected (lenient).
    """
    kind = _KINDS[type_name]
    manifest = attributes.get("manifest")
    metadata = omit_empty({name: attributes.get(name) for name in ("name", "namespace")})
    arguments = attributes
    if isinstance(manifest, str):
        arguments = read_fleet_document(
            "manifest", manifest, API_KINDS[kind], schema, lenient=True
        ).values
    return {
        "apiVersion": BLOCK_API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": build_block_body(schema, arguments),
    }


def build_hub_bodies(
    type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Build the objects of a resource as sent to a hub, in order."""
    if type_name in _KINDS and not isinstance(attributes.get("manifest"), str):
        # From its blocks; others are rendered as text.
        return [_build_fleet_object(type_name, schema, attributes)]
    if type_name == _HUB_OBJECTS:
        return [deepcopy(dict(body)) for body in _list_hub_objects(attributes)]
    return list(map(load_yaml, _render_documents(type_name, schema, attributes)))


def _render_member_labels_and_taints(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield a member with its labels and taints, the only fields not written by its agent.

    Yield nothing without labels and taints.
    """
    labels = attributes.get("labels")
    taints = get_list(attributes, "taint")
    if not labels and not taints:
        return
    metadata = omit_empty({"name": attributes["name"], "labels": labels})
    document: dict[str, Any] = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": metadata,
    }
    if taints:
        names = ("key", "value", "effect")
        document["spec"] = {
            "taints": [omit_empty({name: taint.get(name) for name in names}) for taint in taints]
        }
    yield render_yaml(document)


def render_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as block-style YAML, with its keys in their order."""
    import yaml

    text: str = yaml.safe_dump(
        dict(document), sort_keys=False, default_flow_style=False, allow_unicode=True
    )
    return text


def render_node_labels(plan: Plan) -> str:
    """Render `kubectl label` commands for the keys of `hardware_label_keys`.

    They set the machine of each worker after the plan. The result is "" without such keys. Nodes
    have the platform's name if it is known. For the key `example/machine` a line is "kubectl
    --context site1 label node worker-0 --overwrite example/machine=m7".
    """
    lines: list[str] = []
    for change in plan.changes:
        attributes = get_mapping(change.after)
        keys = attributes.get("hardware_label_keys")
        if change.address.type != "nexus_kubernetes_cluster" or not keys:
            continue
        lines.append(f"\n# {change.address}; the kubectl context has the name of the cluster.")
        context = shlex.quote(str(attributes["name"]))
        nodes = attributes.get("nodes")
        if not isinstance(nodes, Mapping):  # unknown nodes
            continue
        for name, node in nodes.items():
            machine = node.get("machine")
            if node.get("role") != "Worker" or not machine:
                # Not a worker, or without a predicted machine.
                continue
            node_name = shlex.quote(node.get("platform_name") or name)
            labels = " ".join(shlex.quote(f"{key}={machine}") for key in keys)
            lines.append(f"kubectl --context {context} label node {node_name} --overwrite {labels}")
    if not lines:
        return ""
    head = [
        "#!/usr/bin/env bash",
        "# Written by nexusform from a plan: the predicted machine of each worker.",
        "set -euo pipefail",
    ]
    return "\n".join([*head, *lines, ""])


def export_manifests(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Render the fleet objects of a plan as Kubernetes manifests.

    Return the text, and a warning per limitation.
    """
    export = render_fleet_manifests(plan, build_registries())
    return export.text, [
        build_warning("missing-in-export", sentence) for sentence in export.limitations
    ]


def export_node_labels(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Render the node labels of a plan as `kubectl label` commands.

    There are no warnings.
    """
    return render_node_labels(plan), []
