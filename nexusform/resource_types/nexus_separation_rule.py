"""nexus_separation_rule: clusters, pools and workloads that must not share hardware."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import get_list
from nexusform.placements.consequences import LASTING_LOSS, ConsequenceTable, ObjectChange
from nexusform.resource_types.shared_arguments import (
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_optional_argument,
    build_required_argument,
)
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import STRING, MapType, SetType

_SELECTOR: Final = NestedBlock(
    BlockSchema(
        {
            "match_labels": build_optional_argument(
                MapType(STRING), "Required pod labels. Default: every pod of the namespaces."
            ),
            "namespaces": build_optional_argument(
                SetType(STRING), "Namespaces of the pods. Default or empty: all."
            ),
        }
    ),
    Nesting.SINGLE,
    "Pods by label and namespace: of the configuration, and those read by data kubernetes_nodes.",
    max_items=1,
)

_GROUP: Final = NestedBlock(
    BlockSchema(
        {
            "cluster_ids": build_optional_argument(
                SetType(STRING), "Ids of clusters, VNFs and VMs in the group."
            ),
            "pool_ids": build_optional_argument(
                SetType(STRING),
                "Pools in the group: `<cluster id>/<pool>`. The control plane is `control-plane`.",
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
        "scope": build_required_argument(
            STRING, "What different groups must not share.", choices=("machine", "rack", "site")
        ),
        "enforcement": build_optional_argument(
            STRING,
            "Error or warning if the rule may be violated.",
            default="deny",
            choices=("deny", "warn"),
        ),
    },
    {"group": _GROUP},
    "Clusters, pools or workloads that must not share a machine, rack or site. It moves nothing: "
    "plans check it in every sample.",
)
build_id: Final = build_id_builder("name")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check for groups without members: all of their arguments are absent or empty lists."""
    problems = []
    for index, group in enumerate(get_list(attributes, "group")):
        members = [group.get(name) for name in ("cluster_ids", "pool_ids", "workload_selector")]
        if all(member in (None, []) for member in members):
            detail = "The group is empty. Set cluster_ids, pool_ids or a workload_selector."
            problems.append(Problem(("group", index), "empty-separation-group", detail))
    return problems


def _find_weakening(change: ObjectChange) -> str:
    """Return `changes from deny to warn`, or "" if the rule is as strict as before."""
    is_weaker = tuple(values.get("enforcement") for values in (change.before, change.after)) == (
        "deny",
        "warn",
    )
    return "changes from deny to warn" if is_weaker else ""


NEXUS_SEPARATION_RULE: Final = ResourceType(
    "nexus_separation_rule",
    7,
    _SCHEMA,
    build_id,
    check=check,
    kind=PlanningKind.SEPARATION_RULE,
    consequences=ConsequenceTable(
        noun="separation rule",
        delete=LASTING_LOSS,
        leave=LASTING_LOSS,
        find_weakening=_find_weakening,
    ),
)
