"""nexus_separation_rule: clusters, pools and workloads that must not share hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.ports import Kind, ResourceType
from nexusform.resource_types.shared_arguments import id_attribute, joined_id, name_attribute
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import STRING, MapType, SetType

_SELECTOR: Final = NestedBlock(
    BlockSchema(
        {
            "match_labels": Attribute(
                MapType(STRING),
                "Labels that a pod must have. Default: none, so every pod of the namespaces.",
                optional=True,
                decides_placement=True,
            ),
            "namespaces": Attribute(
                SetType(STRING),
                "Namespaces of the pods. Default, and when empty: all.",
                optional=True,
                decides_placement=True,
            ),
        }
    ),
    Nesting.SINGLE,
    "Pods by their labels and namespaces, on every cluster whose nodes are known.",
    max_items=1,
)

_GROUP: Final = NestedBlock(
    BlockSchema(
        {
            "cluster_ids": Attribute(
                SetType(STRING),
                "Clusters, VNFs and plain VMs whose VMs belong to the group.",
                optional=True,
                decides_placement=True,
            ),
            "pool_ids": Attribute(
                SetType(STRING),
                "Pools whose VMs belong to the group: `<cluster id>/<pool>`, the control plane's pool being "
                "`control-plane`.",
                optional=True,
                decides_placement=True,
            ),
        },
        {"workload_selector": _SELECTOR},
    ),
    Nesting.LIST,
    "One of the parties that are kept apart; members of one group may share hardware.",
    min_items=2,
)

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<name>"),
        "name": name_attribute("rule"),
        "scope": Attribute(
            STRING,
            "What members of different groups must not share.",
            required=True,
            choices=("machine", "rack", "site"),
            decides_placement=True,
        ),
        "enforcement": Attribute(
            STRING,
            "Whether a plan in which the rule may not hold is refused or warns.",
            optional=True,
            default="deny",
            choices=("deny", "warn"),
            decides_placement=True,
        ),
    },
    {"group": _GROUP},
    "A rule that clusters, pools or workloads must not share a machine, a rack or a site. It moves nobody: "
    "it is verified on the planned placements and over the tie-breaks.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: the rule's name."""
    return joined_id(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Groups that name nobody."""
    groups = attributes.get("group")
    problems = []
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        parts = [group.get(name) for name in ("cluster_ids", "pool_ids", "workload_selector")]
        if not any(part is not None and part != [] for part in parts):
            problems.append(
                Problem(
                    ("group", index),
                    "empty-separation-group",
                    "The group names nobody. Give it cluster_ids, pool_ids or a workload_selector.",
                )
            )
    return problems


NEXUS_SEPARATION_RULE: Final = ResourceType(
    "nexus_separation_rule", 7, _SCHEMA, identify, check=check, kind=Kind.SEPARATION_RULE
)
