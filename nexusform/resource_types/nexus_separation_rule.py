"""nexus_separation_rule: clusters, pools and workloads that must not share hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.resource_types.shared_arguments import build_id_attribute, build_name_attribute, join_id_parts
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import STRING, MapType, SetType

_SELECTOR: Final = NestedBlock(
    BlockSchema(
        {
            "match_labels": AttributeSchema(
                MapType(STRING),
                "Required pod labels. Default: every pod of the namespaces.",
                optional=True,
                decides_placement=True,
            ),
            "namespaces": AttributeSchema(
                SetType(STRING), "Namespaces of the pods. Default or empty: all.", optional=True, decides_placement=True
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
            "cluster_ids": AttributeSchema(
                SetType(STRING), "Ids of clusters, VNFs and VMs in the group.", optional=True, decides_placement=True
            ),
            "pool_ids": AttributeSchema(
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
        "id": build_id_attribute("<name>"),
        "name": build_name_attribute("rule"),
        "scope": AttributeSchema(
            STRING,
            "What different groups must not share.",
            required=True,
            choices=("machine", "rack", "site"),
            decides_placement=True,
        ),
        "enforcement": AttributeSchema(
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


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the id: the rule's name."""
    return join_id_parts(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check for groups without members."""
    groups = attributes.get("group")
    problems = []
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        parts = [group.get(name) for name in ("cluster_ids", "pool_ids", "workload_selector")]
        if not any(part is not None and part != [] for part in parts):
            detail = "The group is empty. Set cluster_ids, pool_ids or a workload_selector."
            problems.append(Problem(("group", index), "empty-separation-group", detail))
    return problems


NEXUS_SEPARATION_RULE: Final = ResourceType(
    "nexus_separation_rule", 7, _SCHEMA, build_id, check=check, kind=PlanningKind.SEPARATION_RULE
)
