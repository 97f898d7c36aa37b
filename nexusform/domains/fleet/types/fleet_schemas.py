"""Schemas shared by fleet types.

Blocks mirror the API in snake case; repeated blocks are in the singular.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.kubernetes.quantity import MAX_INT32, MAX_INT64
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    ObjectReference,
    OnChange,
)
from nexusform.schemas.value_types import (
    BOOL,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    TupleType,
    Type,
)


def make_placement_argument(
    kind: Type, description: str, *, default: Any = None, required: bool = False, **more: Any
) -> AttributeSchema:
    """Return an argument that decides placements and must be known in the plan.

    `more` are other fields of the schema.
    """
    return AttributeSchema(
        kind,
        description,
        required=required,
        optional=not required,
        default=default,
        decides_placement=True,
        **more,
    )


def make_text(description: str, **more: Any) -> AttributeSchema:
    """Return a text argument; `more` are fields of its schema."""
    return make_placement_argument(STRING, description, **more)


def make_choice(description: str, *choices: str) -> AttributeSchema:
    """Return a text argument with these choices; the first one is the default."""
    return make_text(description, default=choices[0], choices=choices)


def make_number(description: str, **more: Any) -> AttributeSchema:
    """Return a number argument; `more` are fields of its schema."""
    return make_placement_argument(NUMBER, description, **more)


def make_text_list_attribute(description: str, **more: Any) -> AttributeSchema:
    """Return an argument with a list of texts; `more` are fields of its schema."""
    return make_placement_argument(ListType(STRING), description, **more)


def make_block(description: str, schema: BlockSchema, **more: Any) -> NestedBlock:
    """Return a block allowed at most once; `more` are fields of the NestedBlock."""
    return NestedBlock(schema, Nesting.SINGLE, description, **more)


def make_block_list(description: str, schema: BlockSchema, **more: Any) -> NestedBlock:
    """Return a block allowed any number of times; `more` are fields of the NestedBlock."""
    return NestedBlock(schema, Nesting.LIST, description, **more)


# Resource types referenced by a cluster id.
CLUSTER: Final = ObjectReference(("nexus_kubernetes_cluster", "tacker_vnf"))
# A member that is no such cluster has its name as id.
CLUSTER_OR_MEMBER: Final = ObjectReference((*CLUSTER.types, "fleet_member_cluster"))
MANIFEST: Final = make_text("The object as YAML instead of blocks, validated like kubectl apply.")
LENIENT: Final = make_placement_argument(
    BOOL,
    (
        "Correct known mistakes of printed manifests, also in blocks, and list each correction. "
        "Default: a mistake is an error."
    ),
)
FORCE_CONFLICTS: Final = make_placement_argument(
    BOOL,
    (
        "Take fields owned by other managers (server-side apply with force). Default: false; a "
        "conflict is an error."
    ),
)
PLACEMENT_NAME: Final = make_text(
    "Name of the placement, as literal text: a reference would be a cycle."
)


def make_name(noun: str) -> AttributeSchema:
    """Return the `name` argument: from the manifest if set, else by default the block's name."""
    description = (
        f"Name of the {noun}. Default: from the manifest, else the block's name. Required with "
        "count or for_each."
    )
    return make_text(description, computed=True, on_change=OnChange.REPLACE)


def make_namespace() -> AttributeSchema:
    """Return the `namespace` argument: required, or from the manifest."""
    description = "Namespace on the hub. Default: that of the manifest."
    return make_text(description, computed=True, on_change=OnChange.REPLACE)


_LABEL_EXPRESSION: Final = BlockSchema(
    {
        "key": make_text("Label key.", required=True),
        "operator": make_text("In, NotIn, Exists or DoesNotExist.", required=True),
        "values": make_text_list_attribute("Values of In and NotIn.", default=[]),
    }
)
LABEL_SELECTOR: Final = BlockSchema(
    {
        "match_labels": make_placement_argument(
            MapType(STRING), "Required labels with these values."
        )
    },
    {"match_expression": make_block_list("A condition on one label.", _LABEL_EXPRESSION)},
)
_LABEL_SELECTOR_BLOCK: Final = make_block("Selects by labels.", LABEL_SELECTOR)
_PROPERTY_SELECTOR: Final = BlockSchema(
    attributes={},
    blocks={
        "match_expression": make_block_list(
            "A condition on one property.",
            BlockSchema(
                {
                    "name": make_text("Property name.", required=True),
                    "operator": make_text("Gt, Ge, Lt, Le, Eq or Ne.", required=True),
                    "values": make_text_list_attribute("Exactly one quantity.", default=[]),
                }
            ),
        )
    },
)
_SORTER: Final = BlockSchema(
    {
        "name": make_text("Property name.", required=True),
        "sort_order": make_text("Ascending or Descending.", required=True),
    }
)
_TERM_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "label_selector": make_block("Required labels of the cluster.", LABEL_SELECTOR),
    "property_selector": make_block("Required properties of the cluster.", _PROPERTY_SELECTOR),
    "property_sorter": make_block("Ranks clusters by a property.", _SORTER),
    "metric_sorter": make_block("Alias of property_sorter.", _SORTER),
}
CLUSTER_TERM: Final = BlockSchema(attributes={}, blocks=_TERM_BLOCKS)
_REQUIRED: Final = BlockSchema(
    {},
    {
        "cluster_selector_term": make_block_list(
            "Eligible clusters; terms are alternatives.", CLUSTER_TERM
        )
    },
)
_PREFERRED: Final = BlockSchema(
    {"weight": make_number("-100 to 100.", required=True)},
    {"preference": make_block("Clusters that get the weight.", CLUSTER_TERM, min_items=1)},
)
_CLUSTER_AFFINITY: Final = BlockSchema(
    attributes={},
    blocks={
        "required_during_scheduling_ignored_during_execution": make_block(
            "Required terms.", _REQUIRED
        ),
        "preferred_during_scheduling_ignored_during_execution": make_block_list(
            "Preferred terms.", _PREFERRED
        ),
    },
)
TOLERATION: Final = BlockSchema(
    {
        "key": make_text("Taint key. Empty with Exists: every key.", default=""),
        "operator": make_text("Equal or Exists.", default="Equal"),
        "value": make_text("Taint value.", default=""),
        "effect": make_text("NoSchedule. Empty: every effect.", default=""),
    }
)
POLICY: Final = BlockSchema(
    {
        "placement_type": make_choice("Selection type.", "PickAll", "PickFixed", "PickN"),
        "number_of_clusters": make_number(
            "Number of clusters (PickN).", minimum=0, maximum=MAX_INT32
        ),
        "cluster_names": make_text_list_attribute("Cluster names (PickFixed).", default=[]),
    },
    {
        "affinity": make_block(
            "Affinity to clusters.",
            BlockSchema(
                {},
                {
                    "cluster_affinity": make_block(
                        "Affinity by labels and properties.", _CLUSTER_AFFINITY
                    )
                },
            ),
        ),
        "topology_spread_constraint": make_block_list(
            "Spreads clusters over the values of a label.",
            BlockSchema(
                {
                    "max_skew": make_number(
                        "Maximum difference of counts.", default=1, maximum=MAX_INT32
                    ),
                    "topology_key": make_text("Label key.", required=True),
                    "when_unsatisfiable": make_text(
                        "DoNotSchedule or ScheduleAnyway.", default="DoNotSchedule"
                    ),
                }
            ),
        ),
        "toleration": make_block_list("A tolerated taint.", TOLERATION),
    },
)
RESOURCE_SELECTOR: Final = BlockSchema(
    {
        "group": make_text("API group; empty for the core group.", default=""),
        "version": make_text("API version.", required=True),
        "kind": make_text("Kind.", required=True),
        "name": make_text(
            "Name of the object. Default: all selected by label_selector.", default=""
        ),
        "selection_scope": make_text(
            "For a Namespace: selected contents.",
            choices=("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"),
        ),
    },
    {"label_selector": _LABEL_SELECTOR_BLOCK},
)
_ROLLING: Final = BlockSchema(
    {
        "max_unavailable": make_text(
            "Clusters that may be without it: a number or percent.", default="25%"
        ),
        "max_surge": make_text("Clusters added at once: a number or percent.", default="25%"),
        "unavailable_period_seconds": make_number(
            "Wait if availability cannot be tracked.", default=60, maximum=MAX_INT64
        ),
    }
)
_APPLY: Final = BlockSchema(
    {
        "type": make_choice(
            "How to apply objects.", "ClientSideApply", "ServerSideApply", "ReportDiff"
        ),
        "comparison_option": make_choice(
            "Fields to compare with the member.", "PartialComparison", "FullComparison"
        ),
        "when_to_apply": make_choice("Whether to apply drifted objects.", "Always", "IfNotDrifted"),
        "when_to_take_over": make_choice(
            "Whether to take over existing objects on a member.", "Always", "IfNoDiff", "Never"
        ),
        "allow_co_ownership": make_placement_argument(
            BOOL, "Whether an object may have other owners too."
        ),
    },
    {
        "server_side_apply_config": make_block(
            "Conflict handling with ServerSideApply.",
            BlockSchema({"force": make_placement_argument(BOOL, "Take fields of other managers.")}),
        )
    },
)
_DELETE: Final = BlockSchema(
    {
        "propagation_policy": make_choice(
            "What to do with objects on members after deletion.", "Delete", "Abandon"
        )
    }
)
_REPORT_BACK: Final = BlockSchema(
    {
        "type": make_text(
            "Whether to report the status of objects back.", choices=("Disabled", "Mirror")
        ),
        "destination": make_text(
            "Target of the status (Mirror).", choices=("OriginalResource", "WorkAPI")
        ),
    }
)
STRATEGY: Final = BlockSchema(
    {"type": make_choice("Rollout by the hub or by a staged run.", "RollingUpdate", "External")},
    {
        "rolling_update": make_block("Limits of a rolling update.", _ROLLING),
        "apply_strategy": make_block("How to apply objects.", _APPLY),
        "delete_strategy": make_block("Objects of a deleted placement.", _DELETE),
        "report_back_strategy": make_block("Status reports of members.", _REPORT_BACK),
    },
)
PLACEMENT_ARGUMENTS: Final[Mapping[str, AttributeSchema]] = {
    "revision_history_limit": make_number(
        "Number of old snapshots to keep.", default=10, minimum=1, maximum=1000
    ),
    "status_reporting_scope": make_text(
        "Show the status in the namespace too. Default: no.",
        choices=("ClusterScopeOnly", "NamespaceAccessible"),
    ),
}
PLACEMENT_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "resource_selector": make_block_list(
        "Objects on the hub to place.", RESOURCE_SELECTOR, max_items=100
    ),
    "policy": make_block("Cluster selection. Default: every eligible cluster.", POLICY),
    "strategy": make_block("Rollout of changes.", STRATEGY),
}


def make_object_type(texts: str, numbers: str = "", **others: Type) -> ObjectType:
    """Return an object type.

    `texts` and `numbers` are names of its attributes of these types, separated by spaces.
    """
    text_attributes = dict.fromkeys(texts.split(), STRING)
    return ObjectType.create(
        {**text_attributes, **dict.fromkeys(numbers.split(), NUMBER), **others}
    )


CONDITIONS: Final = ListType(make_object_type("type status reason message"))
EVICTION: Final = make_object_type("name cluster_name reason", valid=BOOL, executed=BOOL)
POLICY_SNAPSHOT: Final = make_object_type("hash", "index number_of_clusters")
_SELECTED: Final = make_object_type("group version kind namespace name")
_FAILED: Final = make_object_type("group kind namespace name reason message")
BINDING: Final = make_object_type(
    "state previous_state provenance",
    "affinity_score topology_spread_score policy_snapshot resource_snapshot",
)
_POD: Final = replace(
    make_object_type(
        "node machine availability_zone provenance former_template former_pod state reason",
        certain=BOOL,
        volumes=MapType(STRING),
    ),
    optional=frozenset({"former_template", "former_pod", "state", "reason", "volumes"}),
)
PODS: Final = MapType(MapType(_POD))


_NO_CHOICES: Final[Mapping[str, tuple[str | None, ...]]] = {}
# Values of scheduling.bindings.BindingState.
_BINDING_STATES: Final = ("Scheduled", "Bound", "Unscheduled")


def make_computed(
    kind: Type,
    description: str,
    *,
    predicted: bool = False,
    refers_to: ObjectReference | None = None,
    member_choices: Mapping[str, tuple[str | None, ...]] = _NO_CHOICES,
    required_members: tuple[str, ...] = (),
) -> AttributeSchema:
    """Return a computed attribute.

    With `predicted`, an observed value may differ without an error.
    """
    return AttributeSchema(
        kind,
        description,
        computed=True,
        predicted=predicted,
        refers_to=refers_to,
        member_choices=member_choices,
        required_members=required_members,
    )


PLACEMENT_VALUES: Final[Mapping[str, AttributeSchema]] = {
    "bindings": make_computed(
        MapType(BINDING),
        "Bound clusters by name.",
        predicted=True,
        refers_to=ObjectReference(("fleet_member_cluster",), by="name"),
        member_choices={"state": _BINDING_STATES, "previous_state": (None, "", *_BINDING_STATES)},
    ),
    "policy_snapshot": make_computed(
        POLICY_SNAPSHOT, "Latest policy: number, hash and N.", required_members=("index", "hash")
    ),
    "conditions": make_computed(
        CONDITIONS, "Conditions as in `kubectl describe`.", required_members=("type", "status")
    ),
    "placement_statuses": make_computed(
        ListType(
            ObjectType.create(
                {
                    "cluster_name": STRING,
                    "observed_resource_index": NUMBER,
                    "conditions": CONDITIONS,
                    "failed_placements": ListType(_FAILED),
                },
                optional=("failed_placements",),
            )
        ),
        "A status per cluster.",
        required_members=(
            "cluster_name",
            "conditions",
            "conditions.type",
            "conditions.status",
            "failed_placements.kind",
            "failed_placements.name",
        ),
    ),
    "selected_resources": make_computed(
        ListType(_SELECTED),
        "Selected objects on the hub.",
        refers_to=ObjectReference(
            ("fleet_hub_manifest",), "objects", ("group", "kind", "namespace", "name")
        ),
        required_members=("group", "version", "kind", "namespace", "name"),
    ),
    "evictions": make_computed(
        ListType(EVICTION),
        "Evictions, executed or rejected.",
        required_members=("name", "cluster_name", "executed"),
    ),
    "workloads": make_computed(
        MapType(PODS), "Pod placement by cluster, workload and pod.", predicted=True
    ),
}
_DIGESTS: Final = ListType(STRING)
# The objects on each cluster, as `placement_records` writes them.
PLACEMENT_PRIVATE: Final[Mapping[str, AttributeSchema]] = {
    "bodies": make_computed(MapType(ObjectType.create({})), "Objects by hash."),
    "snapshots": make_computed(
        ListType(make_object_type("hash", "index", objects=_DIGESTS)),
        "Resource snapshots.",
        required_members=("index", "objects"),
    ),
    "content": make_computed(
        MapType(
            make_object_type(
                "overrides failure said",
                objects=_DIGESTS,
                picked=ListType(STRING),
                refused=ListType(TupleType((STRING,) * 4)),
            )
        ),
        "Objects on clusters that differ from their snapshot.",
        required_members=("objects",),
    ),
    "cleared_later": make_computed(
        ListType(STRING), "Unreachable clusters that still have to remove objects."
    ),
}
