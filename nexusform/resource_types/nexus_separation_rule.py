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
                "Required pod labels. Default: every pod of the namespaces.",
                optional=True,
                decides_placement=True,
            ),
            "namespaces": Attribute(
                SetType(STRING),
                "Namespaces of the pods. Default or empty: all.",
                optional=True,
                decides_placement=True,
            ),
        }
    ),
    Nesting.SINGLE,
    "Pods by label and namespace, on every cluster with known nodes.",
    max_items=1,
)

_GROUP: Final = NestedBlock(
    BlockSchema(
        {
            "cluster_ids": Attribute(
                SetType(STRING),
                "Ids of clusters, VNFs and VMs in the group.",
                optional=True,
                decides_placement=True,
            ),
            "pool_ids": Attribute(
                SetType(STRING),
                "Pools in the group: `<cluster id>/<pool>`. The control plane is `control-plane`.",
                optional=True,
                decides_placement=True,
            ),
        },
        {"workload_selector": _SELECTOR},
    ),
    Nesting.LIST,
    "One party. Members of a group may share hardware.",
    min_items=2,
)

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<name>"),
        "name": name_attribute("rule"),
        "scope": Attribute(
            STRING,
            "What different groups must not share.",
            required=True,
            choices=("machine", "rack", "site"),
            decides_placement=True,
        ),
        "enforcement": Attribute(
            STRING,
            "Error or warning if the rule may be violated.",
            optional=True,
            default="deny",
            choices=("deny", "warn"),
            decides_placement=True,
        ),
    },
    {"group": _GROUP},
    "Clusters, pools or workloads that must not share a machine, rack or site. It moves nothing: plans "
    "check it in every sample.",
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
