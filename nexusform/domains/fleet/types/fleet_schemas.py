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
MANIFEST: Final = text(
    "The object as real YAML, in place of the blocks, as strictly read as by kubectl apply."
)
LENIENT: Final = argument(
    BOOL,
    "Whether slips that printed manifests have are corrected, and each correction listed. Without it a slip "
    "is an error.",
)
FORCE_CONFLICTS: Final = argument(
    BOOL,
    "Whether fields of the object that another manager owns on a fleet hub are taken over (server-side apply "
    "with force). Default: false, and each is an error.",
)
PLACEMENT_NAME: Final = text(
    "Name of the placement (a text: a reference would be a cycle, so write the text of the placement's name)."
)


def filled_name(what: str) -> Attribute:
    """`name`: the manifest's where one is given, else by default the block's."""
    return Attribute(
        STRING,
        f"Name of the {what}. Default: that of the manifest, else the block's; required with count or "
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
    {"match_labels": argument(MapType(STRING), "Labels that must be there, with these values.")},
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
    "label_selector": one("Labels that the cluster must have.", LABEL_SELECTOR),
    "property_selector": one("Properties that the cluster must have.", _PROPERTY_SELECTOR),
    "property_sorter": one("Ranks clusters by a property.", _SORTER),
    "metric_sorter": one("Another name of property_sorter.", _SORTER),
}
CLUSTER_TERM: Final = BlockSchema({}, _TERM_BLOCKS)
_REQUIRED: Final = BlockSchema(
    {}, {"cluster_selector_term": many("Clusters that may be picked; terms are alternatives.", CLUSTER_TERM)}
)
_PREFERRED: Final = BlockSchema(
    {"weight": number("-100 to 100.", required=True)},
    {"preference": one("Which clusters get the weight.", CLUSTER_TERM, min_items=1)},
)
_CLUSTER_AFFINITY: Final = BlockSchema(
    {},
    {
        "required_during_scheduling_ignored_during_execution": one("What a cluster must be.", _REQUIRED),
        "preferred_during_scheduling_ignored_during_execution": many("What is preferred.", _PREFERRED),
    },
)
TOLERATION: Final = BlockSchema(
    {
        "key": text("Taint key; empty with Exists for every key.", default=""),
        "operator": text("Equal or Exists.", default="Equal"),
        "value": text("Taint value.", default=""),
        "effect": text("NoSchedule, or empty for every effect.", default=""),
    }
)
POLICY: Final = BlockSchema(
    {
        "placement_type": text(
            "How clusters are picked: PickAll, PickFixed or PickN.",
            default="PickAll",
            choices=("PickAll", "PickFixed", "PickN"),
        ),
        "number_of_clusters": number("How many clusters (PickN).", minimum=0, maximum=LARGEST_INT32),
        "cluster_names": texts("Which clusters (PickFixed).", default=[]),
    },
    {
        "affinity": one(
            "Which clusters.",
            BlockSchema({}, {"cluster_affinity": one("By labels and properties.", _CLUSTER_AFFINITY)}),
        ),
        "topology_spread_constraint": many(
            "Spreads picks over the values of a label.",
            BlockSchema(
                {
                    "max_skew": number("How far apart counts may be.", default=1, maximum=LARGEST_INT32),
                    "topology_key": text("Label key.", required=True),
                    "when_unsatisfiable": text("DoNotSchedule or ScheduleAnyway.", default="DoNotSchedule"),
                }
            ),
        ),
        "toleration": many("A taint that is put up with.", TOLERATION),
    },
)
RESOURCE_SELECTOR: Final = BlockSchema(
    {
        "group": text("API group; empty for the core group.", default=""),
        "version": text("API version.", required=True),
        "kind": text("Kind.", required=True),
        "name": text("Name of the object; without it all that the label_selector selects.", default=""),
        "selection_scope": text(
            "Of a Namespace: what is selected in it.",
            choices=("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"),
        ),
    },
    {"label_selector": _SELECTED_BY_LABEL},
)
_ROLLING: Final = BlockSchema(
    {
        "max_unavailable": text("How many clusters may be without it: a number or per cent.", default="25%"),
        "max_surge": text("How many clusters may be added at once: a number or per cent.", default="25%"),
        "unavailable_period_seconds": number(
            "Wait after a wave whose availability cannot be tracked.", default=60, maximum=LARGEST_INT64
        ),
    }
)
_APPLY: Final = BlockSchema(
    {
        "type": text(
            "How objects are applied.",
            default="ClientSideApply",
            choices=("ClientSideApply", "ServerSideApply", "ReportDiff"),
        ),
        "comparison_option": text(
            "What is compared with the member.",
            default="PartialComparison",
            choices=("PartialComparison", "FullComparison"),
        ),
        "when_to_apply": text(
            "Whether drifted objects are applied.", default="Always", choices=("Always", "IfNotDrifted")
        ),
        "when_to_take_over": text(
            "Whether objects that stand on a member already are taken over.",
            default="Always",
            choices=("Always", "IfNoDiff", "Never"),
        ),
        "allow_co_ownership": argument(BOOL, "Whether an object may have owners beside the placement."),
    },
    {
        "server_side_apply_config": one(
            "With ServerSideApply: what is done about conflicts.",
            BlockSchema({"force": argument(BOOL, "Whether fields of other managers are taken over.")}),
        )
    },
)
_DELETE: Final = BlockSchema(
    {
        "propagation_policy": text(
            "What becomes of the objects on members when the placement goes.",
            default="Delete",
            choices=("Delete", "Abandon"),
        )
    }
)
_REPORT_BACK: Final = BlockSchema(
    {
        "type": text("Whether the status of objects is reported back.", choices=("Disabled", "Mirror")),
        "destination": text("Where it is shown (Mirror).", choices=("OriginalResource", "WorkAPI")),
    }
)
STRATEGY: Final = BlockSchema(
    {"type": text("Who rolls out.", default="RollingUpdate", choices=("RollingUpdate", "External"))},
    {
        "rolling_update": one("The pace of a rolling update.", _ROLLING),
        "apply_strategy": one("How objects are applied.", _APPLY),
        "delete_strategy": one("What becomes of the objects when the placement goes.", _DELETE),
        "report_back_strategy": one("Whether members report the status of objects back.", _REPORT_BACK),
    },
)
PLACEMENT_ARGUMENTS: Final[Mapping[str, Attribute]] = {
    "revision_history_limit": number("How many old snapshots are kept.", default=10, minimum=1, maximum=1000),
    "status_reporting_scope": text(
        "Whether the status is shown in the namespace, too; by default it is not.",
        choices=("ClusterScopeOnly", "NamespaceAccessible"),
    ),
}
PLACEMENT_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "resource_selector": many("Objects on the hub that are placed.", RESOURCE_SELECTOR, max_items=100),
    "policy": one("Which clusters are picked; without it every eligible one.", POLICY),
    "strategy": one("How changes are rolled out.", STRATEGY),
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
        "The clusters that hold the placement, by name.",
        predicted=True,
        refers_to=Reference(("fleet_member_cluster",), by="name"),
    ),
    "policy_snapshot": shown(
        ObjectType.of({"index": NUMBER, "hash": STRING, "number_of_clusters": NUMBER}),
        "The latest policy: its number, its hash, and N.",
    ),
    "conditions": shown(_CONDITIONS, "The placement's conditions, as `kubectl describe` shows them."),
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
        "The objects on the hub that are placed.",
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
        "The evictions that were asked for, executed or refused.",
    ),
    "workloads": shown(MapType(PODS), "Where pods stand: by cluster, workload and pod.", predicted=True),
}
