"""The arguments that fleet types share: selectors, policy, strategy, and how placements are shown.

Blocks mirror the API in snake case; repeated blocks are in the singular.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.kubernetes.quantity import LARGEST_INT32, LARGEST_INT64
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange, Reference
from nexusform.value_types import BOOL, NUMBER, STRING, ListType, MapType, ObjectType, Type


def argument(
    kind: Type, description: str, *, default: Any = None, required: bool = False, **more: Any
) -> Attribute:
    """An argument that decides placements: it must be known in the plan."""
    return Attribute(
        kind,
        description,
        required=required,
        optional=not required,
        default=default,
        decides_placement=True,
        **more,
    )


def text(description: str, **more: Any) -> Attribute:
    """A text argument."""
    return argument(STRING, description, **more)


def number(description: str, **more: Any) -> Attribute:
    """A number argument."""
    return argument(NUMBER, description, **more)


def texts(description: str, **more: Any) -> Attribute:
    """A list of texts."""
    return argument(ListType(STRING), description, **more)


def one(description: str, schema: BlockSchema, **more: Any) -> NestedBlock:
    """A block that stands at most once."""
    return NestedBlock(schema, Nesting.SINGLE, description, **more)


def many(description: str, schema: BlockSchema, **more: Any) -> NestedBlock:
    """A block that may stand any number of times."""
    return NestedBlock(schema, Nesting.LIST, description, **more)


# What a cluster may be where a fleet names one by its id.
CLUSTER: Final = Reference(("nexus_kubernetes_cluster", "tacker_vnf"))
MANIFEST: Final = text("The object as YAML instead of blocks, validated like kubectl apply.")
LENIENT: Final = argument(
    BOOL,
    "Correct known mistakes of printed manifests and list each correction. Default: a mistake is an error.",
)
FORCE_CONFLICTS: Final = argument(
    BOOL,
    "Take fields owned by other managers (server-side apply with force). Default: false; a conflict is an "
    "error.",
)
PLACEMENT_NAME: Final = text("Name of the placement, as literal text: a reference would be a cycle.")


def filled_name(what: str) -> Attribute:
    """`name`: the manifest's where one is given, else by default the block's."""
    return Attribute(
        STRING,
        f"Name of the {what}. Default: from the manifest, else the block's name. Required with count or "
        "for_each.",
        optional=True,
        computed=True,
        on_change=OnChange.REPLACE,
        decides_placement=True,
    )


def filled_namespace() -> Attribute:
    """`namespace`: required, or the manifest's."""
    return Attribute(
        STRING,
        "Namespace on the hub. Default: that of the manifest.",
        optional=True,
        computed=True,
        on_change=OnChange.REPLACE,
        decides_placement=True,
    )


_LABEL_EXPRESSION: Final = BlockSchema(
    {
        "key": text("Label key.", required=True),
        "operator": text("In, NotIn, Exists or DoesNotExist.", required=True),
        "values": texts("Values of In and NotIn.", default=[]),
    }
)
LABEL_SELECTOR: Final = BlockSchema(
    {"match_labels": argument(MapType(STRING), "Required labels with these values.")},
    {"match_expression": many("A condition on one label.", _LABEL_EXPRESSION)},
)
_SELECTED_BY_LABEL: Final = one("Selects by labels.", LABEL_SELECTOR)
_PROPERTY_SELECTOR: Final = BlockSchema(
    {},
    {
        "match_expression": many(
            "A condition on one property.",
            BlockSchema(
                {
                    "name": text("Property name.", required=True),
                    "operator": text("Gt, Ge, Lt, Le, Eq or Ne.", required=True),
                    "values": texts("Exactly one quantity.", default=[]),
                }
            ),
        )
    },
)
_SORTER: Final = BlockSchema(
    {
        "name": text("Property name.", required=True),
        "sort_order": text("Ascending or Descending.", required=True),
    }
)
_TERM_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "label_selector": one("Required labels of the cluster.", LABEL_SELECTOR),
    "property_selector": one("Required properties of the cluster.", _PROPERTY_SELECTOR),
    "property_sorter": one("Ranks clusters by a property.", _SORTER),
    "metric_sorter": one("Alias of property_sorter.", _SORTER),
}
CLUSTER_TERM: Final = BlockSchema({}, _TERM_BLOCKS)
_REQUIRED: Final = BlockSchema(
    {}, {"cluster_selector_term": many("Eligible clusters; terms are alternatives.", CLUSTER_TERM)}
)
_PREFERRED: Final = BlockSchema(
    {"weight": number("-100 to 100.", required=True)},
    {"preference": one("Clusters that get the weight.", CLUSTER_TERM, min_items=1)},
)
_CLUSTER_AFFINITY: Final = BlockSchema(
    {},
    {
        "required_during_scheduling_ignored_during_execution": one("Required terms.", _REQUIRED),
        "preferred_during_scheduling_ignored_during_execution": many("Preferred terms.", _PREFERRED),
    },
)
TOLERATION: Final = BlockSchema(
    {
        "key": text("Taint key. Empty with Exists: every key.", default=""),
        "operator": text("Equal or Exists.", default="Equal"),
        "value": text("Taint value.", default=""),
        "effect": text("NoSchedule. Empty: every effect.", default=""),
    }
)
POLICY: Final = BlockSchema(
    {
        "placement_type": text(
            "Selection type.",
            default="PickAll",
            choices=("PickAll", "PickFixed", "PickN"),
        ),
        "number_of_clusters": number("Number of clusters (PickN).", minimum=0, maximum=LARGEST_INT32),
        "cluster_names": texts("Cluster names (PickFixed).", default=[]),
    },
    {
        "affinity": one(
            "Affinity to clusters.",
            BlockSchema(
                {}, {"cluster_affinity": one("Affinity by labels and properties.", _CLUSTER_AFFINITY)}
            ),
        ),
        "topology_spread_constraint": many(
            "Spreads clusters over the values of a label.",
            BlockSchema(
                {
                    "max_skew": number("Maximum difference of counts.", default=1, maximum=LARGEST_INT32),
                    "topology_key": text("Label key.", required=True),
                    "when_unsatisfiable": text("DoNotSchedule or ScheduleAnyway.", default="DoNotSchedule"),
                }
            ),
        ),
        "toleration": many("A tolerated taint.", TOLERATION),
    },
)
RESOURCE_SELECTOR: Final = BlockSchema(
    {
        "group": text("API group; empty for the core group.", default=""),
        "version": text("API version.", required=True),
        "kind": text("Kind.", required=True),
        "name": text("Name of the object. Default: all selected by label_selector.", default=""),
        "selection_scope": text(
            "For a Namespace: selected contents.",
            choices=("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"),
        ),
    },
    {"label_selector": _SELECTED_BY_LABEL},
)
_ROLLING: Final = BlockSchema(
    {
        "max_unavailable": text("Clusters that may be without it: a number or percent.", default="25%"),
        "max_surge": text("Clusters added at once: a number or percent.", default="25%"),
        "unavailable_period_seconds": number(
            "Wait if availability cannot be tracked.", default=60, maximum=LARGEST_INT64
        ),
    }
)
_APPLY: Final = BlockSchema(
    {
        "type": text(
            "How to apply objects.",
            default="ClientSideApply",
            choices=("ClientSideApply", "ServerSideApply", "ReportDiff"),
        ),
        "comparison_option": text(
            "Fields to compare with the member.",
            default="PartialComparison",
            choices=("PartialComparison", "FullComparison"),
        ),
        "when_to_apply": text(
            "Whether to apply drifted objects.", default="Always", choices=("Always", "IfNotDrifted")
        ),
        "when_to_take_over": text(
            "Whether to take over existing objects on a member.",
            default="Always",
            choices=("Always", "IfNoDiff", "Never"),
        ),
        "allow_co_ownership": argument(BOOL, "Whether an object may have other owners too."),
    },
    {
        "server_side_apply_config": one(
            "Conflict handling with ServerSideApply.",
            BlockSchema({"force": argument(BOOL, "Take fields of other managers.")}),
        )
    },
)
_DELETE: Final = BlockSchema(
    {
        "propagation_policy": text(
            "What to do with objects on members after deletion.",
            default="Delete",
            choices=("Delete", "Abandon"),
        )
    }
)
_REPORT_BACK: Final = BlockSchema(
    {
        "type": text("Whether to report the status of objects back.", choices=("Disabled", "Mirror")),
        "destination": text("Target of the status (Mirror).", choices=("OriginalResource", "WorkAPI")),
    }
)
STRATEGY: Final = BlockSchema(
    {
        "type": text(
            "Rollout by the hub or by a staged run.",
            default="RollingUpdate",
            choices=("RollingUpdate", "External"),
        )
    },
    {
        "rolling_update": one("Limits of a rolling update.", _ROLLING),
        "apply_strategy": one("How to apply objects.", _APPLY),
        "delete_strategy": one("Objects of a deleted placement.", _DELETE),
        "report_back_strategy": one("Status reports of members.", _REPORT_BACK),
    },
)
PLACEMENT_ARGUMENTS: Final[Mapping[str, Attribute]] = {
    "revision_history_limit": number("Number of old snapshots to keep.", default=10, minimum=1, maximum=1000),
    "status_reporting_scope": text(
        "Show the status in the namespace too. Default: no.",
        choices=("ClusterScopeOnly", "NamespaceAccessible"),
    ),
}
PLACEMENT_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "resource_selector": many("Objects on the hub to place.", RESOURCE_SELECTOR, max_items=100),
    "policy": one("Cluster selection. Default: every eligible cluster.", POLICY),
    "strategy": one("Rollout of changes.", STRATEGY),
}

_CONDITION: Final = ObjectType.of({"type": STRING, "status": STRING, "reason": STRING, "message": STRING})
_CONDITIONS: Final = ListType(_CONDITION)
_FAILED: Final = ObjectType.of(
    dict.fromkeys(("group", "kind", "namespace", "name", "reason", "message"), STRING)
)
BINDING: Final = ObjectType.of(
    {
        "state": STRING,
        "previous_state": STRING,
        "affinity_score": NUMBER,
        "topology_spread_score": NUMBER,
        "policy_snapshot": NUMBER,
        "resource_snapshot": NUMBER,
        "provenance": STRING,
    }
)
_POD: Final = ObjectType.of(
    {
        "node": STRING,
        "machine": STRING,
        "availability_zone": STRING,
        "certain": BOOL,
        "provenance": STRING,
        "former_template": STRING,
        "former_pod": STRING,
        "state": STRING,
        "reason": STRING,
        "volumes": MapType(STRING),
    },
    optional=("former_template", "former_pod", "state", "reason", "volumes"),
)
PODS: Final = MapType(MapType(_POD))


def shown(
    kind: Type, description: str, *, predicted: bool = False, refers_to: Reference | None = None
) -> Attribute:
    """A value that nexusform computes."""
    return Attribute(kind, description, computed=True, predicted=predicted, refers_to=refers_to)


PLACEMENT_VALUES: Final[Mapping[str, Attribute]] = {
    "bindings": shown(
        MapType(BINDING),
        "Bound clusters by name.",
        predicted=True,
        refers_to=Reference(("fleet_member_cluster",), by="name"),
    ),
    "policy_snapshot": shown(
        ObjectType.of({"index": NUMBER, "hash": STRING, "number_of_clusters": NUMBER}),
        "Latest policy: number, hash and N.",
    ),
    "conditions": shown(_CONDITIONS, "Conditions as in `kubectl describe`."),
    "placement_statuses": shown(
        ListType(
            ObjectType.of(
                {
                    "cluster_name": STRING,
                    "observed_resource_index": NUMBER,
                    "conditions": _CONDITIONS,
                    "failed_placements": ListType(_FAILED),
                },
                optional=("failed_placements",),
            )
        ),
        "A status per cluster.",
    ),
    "selected_resources": shown(
        ListType(
            ObjectType.of(
                {"group": STRING, "version": STRING, "kind": STRING, "namespace": STRING, "name": STRING}
            )
        ),
        "Selected objects on the hub.",
        refers_to=Reference(("fleet_hub_manifest",), "objects", ("group", "kind", "namespace", "name")),
    ),
    "evictions": shown(
        ListType(
            ObjectType.of(
                {
                    "name": STRING,
                    "cluster_name": STRING,
                    "valid": BOOL,
                    "executed": BOOL,
                    "reason": STRING,
                }
            )
        ),
        "Evictions, executed or rejected.",
    ),
    "workloads": shown(MapType(PODS), "Pod placement by cluster, workload and pod.", predicted=True),
}
