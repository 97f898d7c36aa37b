"""A plan's fleet as Kubernetes YAML, for what applies it from a repository, and labels of nodes as a script.

Blocks mirror the API in snake case, repeated ones in the singular: the schemas lead back.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.fleet.importers.fleet_documents import (
    NODE_COUNT,
    OLD_NODE_COUNT,
    read_fleet_document,
)
from nexusform.domains.fleet.importers.fleet_model import FleetRun
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.pods.importers.kubernetes_manifests import read_manifests
from nexusform.plans.plan import Action, Plan
from nexusform.ports import Registries
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.words import first_of

_PLACEMENT: Final = "placement.kubernetes-fleet.io/v1beta1"
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
_EVICTION: Final = "fleet_placement_eviction"
_APPROVALS: Final = ("fleet_cluster_approval_request", "fleet_approval_request")
# The order in which a hub takes them: what others name comes before these. Overrides come before placements:
# one that names none reaches only what is made after it.
_ORDER: Final = (_HUB_OBJECTS, _MEMBER, *_KINDS)
_OF_OBJECT: Final = frozenset(
    {"id", "name", "namespace", "manifest", "lenient", "force_conflicts", "approvals"}
)
_SINGULAR: Final = frozenset({"preferred_during_scheduling_ignored_during_execution"})
_AMOUNTS: Final = frozenset({"max_unavailable", "max_surge", "min_available", "max_concurrency"})
_SCRIPT_HEAD: Final = """\
#!/usr/bin/env bash
# Written by nexusform from a plan: the machine of each worker, as foretold.
set -euo pipefail"""
_HEAD: Final = (
    "# Written by nexusform from a plan. Apply server-side: member clusters are labels and taints alone.\n"
)


class FleetExport(Struct, frozen=True):
    """The YAML, "" where there is nothing to say, and what it does not say, a sentence each."""

    text: str
    unsaid: tuple[str, ...] = ()


def fleet_manifests(plan: Plan, registries: Registries) -> FleetExport:
    """What a hub is to have after the plan: objects, labels and taints of member clusters, placements and
    what acts on them; evictions that this plan makes.
    """
    changes = [change for change in plan.changes if change.after and change.address.type in _ORDER]
    documents: list[str] = []
    for change in sorted(changes, key=lambda change: _ORDER.index(change.address.type)):
        if change.address.type == _EVICTION and change.action is not Action.CREATE:
            continue
        schema = registries.resource_types[change.address.type].schema
        documents += _documents(change.address.type, schema, change.after or {})
    text = _HEAD + "".join(f"---\n{document}" for document in documents) if documents else ""
    return FleetExport(text, tuple(_unsaid(plan, registries)))


def _unsaid(plan: Plan, registries: Registries) -> Iterator[str]:
    """What stands in no manifest."""
    after = {change.address: change.after for change in plan.changes if change.after}
    titles: dict[str, list[str]] = {}
    for address, attributes in after.items():
        kind = address.type
        if kind in _APPROVALS or (attributes.get("approvals") and kind.endswith("_run")):
            titles.setdefault("approvals", []).append(str(address))
        elif kind == _HUB_OBJECTS and attributes.get("cluster_id"):
            titles.setdefault("clusters", []).append(str(address))
        elif kind == _MEMBER and any(attributes.get(name) for name in ("properties", "resources")):
            titles.setdefault("members", []).append(str(address))
    evictions = [
        str(change.address)
        for change in plan.changes
        if change.address.type == _EVICTION and change.after and change.action is not Action.CREATE
    ]
    if evictions:
        titles["evictions"] = evictions
    runs = list(_runs_in_haste(plan, registries))
    if runs:
        titles["runs"] = runs
    for name, addresses in titles.items():
        yield f"{first_of(addresses, _MOST_NAMED)}: {_WHY_UNSAID[name]}"


def _runs_in_haste(plan: Plan, registries: Registries) -> Iterator[str]:
    """The runs that come with their placement."""
    new = [change for change in plan.changes if change.after and change.action is Action.CREATE]
    placed = {(change.after or {}).get("id") for change in new if change.address.type in _PLACEMENTS}
    for change in new:
        read_object = registries.resource_types[change.address.type].fleet
        run = read_object(change.after or {}) if read_object is not None else None
        if isinstance(run, FleetRun) and run.key_of(run.placement) in placed:
            yield str(change.address)


_MOST_NAMED: Final = 4
_WHY_UNSAID: Final = {
    "approvals": "an approval is a condition on the status of a request that the hub makes itself; grant it "
    "there once it stands, by a patch of the status.",
    "clusters": "its objects go to a cluster without a placement; apply them there.",
    "members": "properties and resources are what a member's agent reports; labels and taints are written.",
    "runs": "a hub fails a run for good that comes before its placement is scheduled; it stands here all the "
    "same: apply it once the placement's condition Scheduled is True.",
    "evictions": "it was made before, and applied anew to a hub it would evict again; it is left out.",
}


def _documents(type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]) -> Iterator[str]:
    """The manifests of one object of the fleet."""
    if type_name == _MEMBER:
        yield from _member(attributes)
    elif type_name == _HUB_OBJECTS:
        yield from () if attributes.get("cluster_id") else _hub_objects(attributes)
    else:
        manifest = attributes.get("manifest")
        if isinstance(manifest, str) and attributes.get("lenient") is not True:
            yield manifest.strip().removeprefix("---").strip() + "\n"
            return
        text = _yaml(_fleet_object(type_name, schema, attributes))
        # The name that a lenient reading takes for today's.
        yield text.replace(OLD_NODE_COUNT, NODE_COUNT) if attributes.get("lenient") is True else text


def _fleet_object(type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """An object of the fleet that is written in blocks, or in a manifest with corrections."""
    kind = _KINDS[type_name]
    manifest = attributes.get("manifest")
    metadata = {name: attributes[name] for name in ("name", "namespace") if attributes.get(name)}
    arguments = attributes if not isinstance(manifest, str) else _corrected(kind, schema, manifest)
    return {"apiVersion": _PLACEMENT, "kind": kind, "metadata": metadata, "spec": _body(schema, arguments)}


def hub_bodies(type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects that a resource stands for, as a hub takes them, in the order in which it does."""
    import yaml

    if type_name in _KINDS and not isinstance(attributes.get("manifest"), str):
        return [_fleet_object(type_name, schema, attributes)]
    return [yaml.safe_load(text) for text in _documents(type_name, schema, attributes)]


def _corrected(kind: str, schema: BlockSchema, manifest: str) -> Mapping[str, Any]:
    """The arguments of a manifest that is read with corrections."""
    return read_fleet_document("manifest", manifest, API_KINDS[kind], schema, lenient=True).values


def _member(attributes: Mapping[str, Any]) -> Iterator[str]:
    """The labels and taints of a member, which others than its agent may write."""
    labels, taints = attributes.get("labels"), attributes.get("taint") or ()
    if not labels and not taints:
        return
    metadata = {"name": attributes["name"], **({"labels": labels} if labels else {})}
    document: dict[str, Any] = {"apiVersion": _MEMBER_API, "kind": "MemberCluster", "metadata": metadata}
    if taints:
        names = ("key", "value", "effect")
        said = [{name: taint.get(name) for name in names if taint.get(name)} for taint in taints]
        document["spec"] = {"taints": said}
    yield _yaml(document)


_MEMBER_API: Final = "cluster.kubernetes-fleet.io/v1beta1"


def _hub_objects(attributes: Mapping[str, Any]) -> Iterator[str]:
    """The objects on the hub, as they are read; namespaces first."""
    manifests = read_manifests("yaml_body", str(attributes.get("yaml_body") or "")).manifests
    for manifest in sorted(manifests, key=lambda manifest: manifest.kind != "Namespace"):
        yield _yaml(manifest.body)


def _says_something(name: str, attribute: Attribute, arguments: Mapping[str, Any]) -> bool:
    """Whether an argument is more than its default."""
    if name == "group":  # the API wants it said, the core group too
        return True
    value = arguments.get(name)
    return value is not None and (attribute.required or value != attribute.default)


def _body(schema: BlockSchema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a body that say something."""
    outside = _OF_OBJECT if "id" in schema.attributes else ()
    body: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if attribute.configurable and name not in outside and _says_something(name, attribute, arguments):
            body[_camel(name)] = _value(name, arguments.get(name))
    for name, block in schema.blocks.items():
        value = arguments.get(name)
        if value is not None and value != []:
            body[_key(name, block)] = _block(block, value)
    # An empty selector selects every cluster, and the API wants its terms said.
    if "clusterSelector" in body and not body["clusterSelector"]:
        body["clusterSelector"] = {"clusterSelectorTerms": []}
    return body


def _block(block: NestedBlock, content: Any) -> Any:
    """The content of a nested block: of a repeated one a list."""
    if block.nesting is Nesting.LIST:
        return [_body(block.schema, body) for body in content]
    return _body(block.schema, content)


def _key(name: str, block: NestedBlock) -> str:
    """What the API calls a block: a repeated one in the plural."""
    several = block.nesting is Nesting.LIST and name not in _SINGULAR
    return _camel(name) + ("s" if several else "")


def _value(name: str, value: Any) -> Any:
    """A value as Kubernetes has it: amounts as numbers, JSON unpacked."""
    if name in _AMOUNTS and isinstance(value, str) and value.isdecimal():
        return int(value)
    if name == "value" and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _camel(name: str) -> str:
    """`max_unavailable` -> `maxUnavailable`."""
    first_word, *further_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in further_words)


def _yaml(document: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text


# --- labels of nodes ---------------------------------------------------------------------------


def node_labels_script(plan: Plan) -> str:
    """`kubectl label` for the keys of `hardware_label_keys`: each worker's machine, as the plan leaves it; ""
    where no cluster has such keys. Nodes are called as the platform does where that is known.
    """
    lines: list[str] = []
    for change in plan.changes:
        attributes = change.after or {}
        keys = attributes.get("hardware_label_keys")
        if change.address.type != "nexus_kubernetes_cluster" or not keys:
            continue
        lines.append(f"\n# {change.address}; the context of kubectl is called as the cluster is.")
        context = shlex.quote(str(attributes["name"]))
        nodes = attributes.get("nodes")
        if not isinstance(nodes, Mapping):
            continue
        for name, node in nodes.items():
            if node.get("role") == "Worker" and node.get("machine"):
                node_name = shlex.quote(node.get("platform_name") or name)
                labels = " ".join(shlex.quote(f"{key}={node['machine']}") for key in keys)
                lines.append(f"kubectl --context {context} label node {node_name} --overwrite {labels}")
    return "\n".join([_SCRIPT_HEAD, *lines, ""]) if lines else ""
