"""A plan's fleet as Kubernetes YAML, for what applies it from a repository, and labels of nodes as a script.

Blocks mirror the API in snake case, repeated ones in the singular: the schemas lead back.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.planning.plan import Plan
from nexusform.ports import Registries
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting

_PLACEMENT: Final = "placement.kubernetes-fleet.io/v1beta1"
_KINDS: Final = {
    "fleet_cluster_resource_placement": "ClusterResourcePlacement",
    "fleet_resource_placement": "ResourcePlacement",
    "fleet_cluster_resource_override": "ClusterResourceOverride",
    "fleet_resource_override": "ResourceOverride",
    "fleet_cluster_staged_update_strategy": "ClusterStagedUpdateStrategy",
    "fleet_placement_disruption_budget": "ClusterResourcePlacementDisruptionBudget",
}
_MEMBER: Final = "fleet_member_cluster"
_OF_OBJECT: Final = frozenset({"id", "name", "namespace", "manifest"})
_SINGULAR: Final = frozenset({"preferred_during_scheduling_ignored_during_execution"})
_AMOUNTS: Final = frozenset({"max_unavailable", "max_surge", "min_available", "max_concurrency"})
_SCRIPT_HEAD: Final = """\
#!/usr/bin/env bash
# Written by nexusform from a plan: the machine of each worker, as foretold.
set -euo pipefail"""
_HEAD: Final = "# Written by nexusform from a plan. Apply server-side: member clusters are labels alone.\n"


def fleet_manifests(plan: Plan, registries: Registries) -> str:
    """Placements, overrides, strategies and budgets, and the labels of member clusters, as they are after the
    plan; "" where there are none.
    """
    documents: list[str] = []
    for change in plan.changes:
        schema = registries.resource_types[change.address.type].schema if change.after else None
        if schema is not None and change.after is not None:
            documents += _documents(change.address.type, schema, change.after)
    return _HEAD + "".join(f"---\n{document}" for document in documents) if documents else ""


def _documents(type_name: str, schema: BlockSchema, attributes: Mapping[str, Any]) -> Iterator[str]:
    """The manifest of one object of the fleet; none for types that have none."""
    if type_name == _MEMBER:
        labels = attributes.get("labels")
        if labels:
            head = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
            yield _yaml({**head, "metadata": {"name": attributes["name"], "labels": labels}})
    elif type_name in _KINDS:
        if isinstance(attributes.get("manifest"), str):
            yield attributes["manifest"].strip().removeprefix("---").strip() + "\n"
            return
        metadata = {name: attributes[name] for name in ("name", "namespace") if attributes.get(name)}
        spec = _body(schema, attributes)
        yield _yaml({"apiVersion": _PLACEMENT, "kind": _KINDS[type_name], "metadata": metadata, "spec": spec})


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
