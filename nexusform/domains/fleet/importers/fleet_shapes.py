"""Shapes of the fleet API's objects: fields and rules of the API server.

Source: config/crd/bases of KubeFleet at e160c1cd. A shape's keys are those of the YAML;
`get_block_name` gives the name of the matching block.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.field_validation import FieldKind, FieldShape, Rule, RuleViolation
from nexusform.json_data.plain_data import get_text, list_mappings
from nexusform.kubernetes.quantity import MAX_INT32, MAX_INT64

V1 = "v1"
BETA = "v1beta1"
ALPHA = "v1alpha1"


def _make_object(fields: Mapping[str, FieldShape], *rules: Rule) -> FieldShape:
    return FieldShape(FieldKind.OBJECT, fields, rules=rules)


def _make_object_list(
    fields: Mapping[str, FieldShape], minimum: int | None = None, maximum: int | None = None
) -> FieldShape:
    return FieldShape(FieldKind.LIST, items=_make_object(fields), minimum=minimum, maximum=maximum)


def _make_list(item_shape: FieldShape, maximum: int | None = None) -> FieldShape:
    return FieldShape(FieldKind.LIST, items=item_shape, maximum=maximum)


def _make_choice(*choices: str, defaulted: bool = True) -> FieldShape:
    """Return the shape of a text with these choices.

    `defaulted` means that the server replaces null by a default.
    """
    return FieldShape(FieldKind.TEXT, choices=choices, is_defaulted=defaulted)


def _make_required(shape: FieldShape) -> FieldShape:
    return replace(shape, is_required=True)


def _make_integer(minimum: int, maximum: int = MAX_INT32, *, defaulted: bool = False) -> FieldShape:
    """Return the shape of an integer.

    `defaulted` means that the server replaces null by a default.
    """
    return FieldShape(FieldKind.WHOLE, minimum=minimum, maximum=maximum, is_defaulted=defaulted)


_TEXT: Final = FieldShape(FieldKind.TEXT)
_NAME: Final = FieldShape(FieldKind.TEXT, maximum=255, is_required=True)
_FLAG: Final = FieldShape(FieldKind.FLAG)
_TEXTS: Final = FieldShape(FieldKind.TEXTS)
_ANY: Final = FieldShape(FieldKind.ANY)
_PERCENT: Final = r"(100|[0-9]{1,2})%"

_LABELS: Final = _make_object(
    {
        "matchLabels": _TEXTS,
        "matchExpressions": _make_object_list(
            {
                "key": _make_required(_TEXT),
                "operator": _make_required(_TEXT),
                "values": _make_list(_TEXT),
            }
        ),
    }
)
_PROPERTY: Final = {
    "name": _make_required(_TEXT),
    "operator": _make_required(_TEXT),
    "values": _make_required(_make_list(_TEXT, 1)),
}
_TERM: Final = {
    "labelSelector": _LABELS,
    "propertySelector": _make_object(
        {"matchExpressions": _make_required(_make_object_list(_PROPERTY))}
    ),
    "propertySorter": _make_object(
        {
            "name": _make_required(_TEXT),
            "sortOrder": _make_required(_make_choice("Ascending", "Descending", defaulted=False)),
        }
    ),
}
_CLUSTERS: Final = _make_object(
    {"clusterSelectorTerms": _make_required(_make_object_list(_TERM, maximum=10))}
)
_SCOPES: Final = ("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors")
_OBJECT_FIELDS: Final = {
    "group": _make_required(_TEXT),
    "version": _make_required(_TEXT),
    "kind": _make_required(_TEXT),
    "name": _TEXT,
}
_SELECTOR_FIELDS: Final = {
    **_OBJECT_FIELDS,
    "labelSelector": _LABELS,
    "selectionScope": _make_choice(*_SCOPES),
}


def _check_placement_type_fields(policy: Mapping[str, Any]) -> Iterator[RuleViolation]:
    """Yield violations for fields unsupported by the placement type, even if empty."""
    kind = policy.get("placementType") or "PickAll"
    # rejected by its own shape.
    if not isinstance(kind, str):
        return
    forbidden = {
        "PickFixed": ("affinity", "numberOfClusters", "topologySpreadConstraints", "tolerations"),
        "PickAll": ("clusterNames", "numberOfClusters", "topologySpreadConstraints"),
        "PickN": ("clusterNames",),
    }
    for key in forbidden.get(kind, ()):
        if key in policy:
            yield RuleViolation(
                key, f"{key} cannot be set when placementType is {kind}; remove it."
            )
    if kind == "PickN" and policy.get("numberOfClusters") is None:
        text = "numberOfClusters must be set when placementType is PickN."
        # "": about the whole policy.
        yield RuleViolation(key="", detail=text, correction="no-number-of-clusters")


_POLICY: Final = _make_object(
    {
        "placementType": _make_choice("PickAll", "PickN", "PickFixed"),
        "clusterNames": _make_list(_TEXT, 100),
        "numberOfClusters": _make_integer(0),
        "affinity": _make_object(
            {
                "clusterAffinity": _make_object(
                    {
                        "requiredDuringSchedulingIgnoredDuringExecution": _CLUSTERS,
                        "preferredDuringSchedulingIgnoredDuringExecution": _make_object_list(
                            {
                                "weight": _make_required(_make_integer(-100, 100)),
                                "preference": _make_required(_make_object(_TERM)),
                            }
                        ),
                    }
                )
            }
        ),
        "tolerations": _make_object_list(
            {
                "key": _TEXT,
                "operator": _make_choice("Equal", "Exists"),
                "value": _TEXT,
                "effect": _make_choice("NoSchedule", defaulted=False),
            },
            maximum=100,
        ),
        "topologySpreadConstraints": _make_object_list(
            {
                "topologyKey": _make_required(_TEXT),
                "maxSkew": _make_integer(1, defaulted=True),
                "whenUnsatisfiable": _make_choice("DoNotSchedule", "ScheduleAnyway"),
            }
        ),
    },
    _check_placement_type_fields,
)


def _report_violation(is_violated: bool, key: str, detail: str) -> Iterator[RuleViolation]:
    """Yield a violation at a key ("": about the whole mapping) if a rule is violated."""
    if is_violated:
        yield RuleViolation(key, detail)


def _check_mirror_destination(strategy: Mapping[str, Any]) -> Iterator[RuleViolation]:
    text = "when reportBackStrategy.type is 'Mirror', a destination must be specified."
    lacks_destination = strategy.get("type") == "Mirror" and not strategy.get("destination")
    return _report_violation(lacks_destination, "", text)


# The schema also accepts quoted digits; the webhook accepts percentages only.
_ROLLING_AMOUNT: Final = FieldShape(
    FieldKind.AMOUNT, minimum=0, maximum=MAX_INT32, pattern=_PERCENT, is_defaulted=True
)
_STRATEGY: Final = _make_object(
    {
        "type": _make_choice("RollingUpdate", "External"),
        "rollingUpdate": _make_object(
            {
                "maxUnavailable": _ROLLING_AMOUNT,
                "maxSurge": _ROLLING_AMOUNT,
                "unavailablePeriodSeconds": _make_integer(0, MAX_INT64, defaulted=True),
            }
        ),
        "applyStrategy": _make_object(
            {
                "type": _make_choice("ClientSideApply", "ServerSideApply", "ReportDiff"),
                "comparisonOption": _make_choice("PartialComparison", "FullComparison"),
                "whenToApply": _make_choice("Always", "IfNotDrifted"),
                "whenToTakeOver": _make_choice("Always", "IfNoDiff", "Never"),
                "allowCoOwnership": _FLAG,
                "serverSideApplyConfig": _make_object({"force": _FLAG}),
            }
        ),
        "deleteStrategy": replace(
            _make_object({"propagationPolicy": _make_choice("Delete", "Abandon")}), versions=(BETA,)
        ),
        "reportBackStrategy": replace(
            _make_object(
                {
                    "type": _make_required(_make_choice("Disabled", "Mirror")),
                    "destination": _make_choice("OriginalResource", "WorkAPI", defaulted=False),
                },
                _check_mirror_destination,
            ),
            versions=(BETA,),
        ),
    }
)


def _list_namespace_selectors(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the selectors of namespaces.

    Invalid selectors are omitted, since their shapes reject them.
    """
    return [
        selector
        for selector in list_mappings(spec, "resourceSelectors")
        if selector.get("kind") == "Namespace"
    ]


def _check_status_namespace(spec: Mapping[str, Any]) -> Iterator[RuleViolation]:
    """Return a violation if namespace-accessible status lacks exactly one namespace selector."""
    is_accessible = spec.get("statusReportingScope") == "NamespaceAccessible"
    text = (
        "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind "
        "'Namespace' is required."
    )
    is_violated = is_accessible and len(_list_namespace_selectors(spec)) != 1
    return _report_violation(is_violated, "statusReportingScope", text)


def _check_namespace_selectors(spec: Mapping[str, Any]) -> Iterator[RuleViolation]:
    """Yield the violation of the scope NamespaceWithResourceSelectors, if any.

    A selector with this scope must select a namespace by name, and no other selector
    may select namespaces.
    """
    namespaces = [
        selector
        for selector in _list_namespace_selectors(spec)
        if selector.get("group") == "" and selector.get("version") == "v1"
    ]
    scoped = [
        selector
        for selector in namespaces
        if selector.get("selectionScope") == "NamespaceWithResourceSelectors"
    ]
    # The scope is not used.
    if not scoped:
        return
    if len(scoped) > 1:
        text = "only one namespace selector with NamespaceWithResourceSelectors mode is allowed."
    elif not scoped[0].get("name") or "labelSelector" in scoped[0]:
        text = (
            "namespace selector with NamespaceWithResourceSelectors mode must select by name (not "
            "by label)."
        )
    elif len(namespaces) > 1:
        text = (
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is "
            "allowed (cannot "
            "mix with other namespace selectors)."
        )
    else:
        return
    yield RuleViolation("resourceSelectors", text)


_PLACEMENT_FIELDS: Final = {
    "resourceSelectors": _make_required(_make_object_list(_SELECTOR_FIELDS, 1, 100)),
    "policy": _POLICY,
    "strategy": _STRATEGY,
    "revisionHistoryLimit": _make_integer(1, 1000, defaulted=True),
    "statusReportingScope": _make_choice("ClusterScopeOnly", "NamespaceAccessible"),
}
_PATCH: Final = {
    "op": _make_required(_make_choice("add", "remove", "replace", defaulted=False)),
    "path": _make_required(_TEXT),
    "value": _ANY,
}
_OVERRIDE_POLICY: Final = _make_object(
    {
        "overrideRules": _make_required(
            _make_object_list(
                {
                    "clusterSelector": _CLUSTERS,
                    "overrideType": _make_choice("JSONPatch", "Delete"),
                    "jsonPatchOverrides": _make_object_list(_PATCH, 1, 20),
                },
                1,
                20,
            )
        )
    }
)
_PLACEMENT_REFERENCE: Final = _make_object(
    {"name": _make_required(_TEXT), "scope": _make_choice("Cluster", "Namespaced")}
)


def _require_cluster_scope(spec: Mapping[str, Any]) -> Iterator[RuleViolation]:
    text = "clusterResourceOverride placement reference cannot be Namespaced scope."
    return _report_violation(
        get_text(spec, "placement", "scope") == "Namespaced", "placement", text
    )


def _check_budget_amounts(spec: Mapping[str, Any]) -> Iterator[RuleViolation]:
    text = "Both MaxUnavailable and MinAvailable cannot be specified."
    return _report_violation(
        "maxUnavailable" in spec and "minAvailable" in spec, "minAvailable", text
    )


_BUDGET_AMOUNT: Final = FieldShape(FieldKind.AMOUNT, minimum=0, maximum=MAX_INT32, pattern=_PERCENT)
_TASK: Final = {
    "type": _make_required(_make_choice("TimedWait", "Approval", defaulted=False)),
    "waitTime": FieldShape(FieldKind.TEXT, pattern=r"(0|((0|[1-9][0-9]*)(\.[0-9]+)?(s|m|h))+)"),
}
_STAGE: Final = {
    "name": FieldShape(FieldKind.TEXT, is_required=True, maximum=63, pattern="[a-z0-9]+"),
    "labelSelector": _LABELS,
    "sortingLabelKey": _TEXT,
    "maxConcurrency": FieldShape(
        FieldKind.AMOUNT,
        minimum=1,
        maximum=MAX_INT32,
        pattern="(100|[1-9][0-9]?)%",
        is_defaulted=True,
        versions=(V1, BETA),
    ),
    "beforeStageTasks": replace(_make_object_list(_TASK, maximum=1), versions=(V1, BETA)),
    "afterStageTasks": _make_object_list(_TASK, maximum=2),
}
_STAGES: Final = _make_object({"stages": _make_required(_make_object_list(_STAGE, maximum=31))})


def _check_snapshot_index(spec: Mapping[str, Any]) -> Iterator[RuleViolation]:
    """Return a violation if the snapshot index of a run is not a number.

    "" requests the latest snapshot.
    """
    index = get_text(spec, "resourceSnapshotIndex")
    text = f'invalid resource snapshot index "{index}" provided, expected an integer >= 0.'
    return _report_violation(index != "" and not index.isdecimal(), "resourceSnapshotIndex", text)


_RUN: Final = _make_object(
    {
        "placementName": _NAME,
        "stagedRolloutStrategyName": _make_required(_TEXT),
        "resourceSnapshotIndex": _TEXT,
        "state": replace(_make_choice("Initialize", "Run", "Stop"), versions=(V1, BETA)),
    },
    _check_snapshot_index,
)
_APPROVAL: Final = _make_object(
    {"parentStageRollout": _make_required(_TEXT), "targetStage": _make_required(_TEXT)}
)
_MEMBER: Final = _make_object(
    {
        "identity": _make_required(
            _make_object(
                {
                    "kind": _make_required(_TEXT),
                    "name": _make_required(_TEXT),
                    "namespace": _TEXT,
                    "apiGroup": _TEXT,
                }
            )
        ),
        "heartbeatPeriodSeconds": _make_integer(1, 600, defaulted=True),
        "taints": _make_object_list(
            {
                "key": _make_required(_TEXT),
                "value": _TEXT,
                "effect": _make_required(_make_choice("NoSchedule", defaulted=False)),
            },
            maximum=100,
        ),
        "deleteOptions": replace(
            _make_object({"validationMode": _make_choice("Skip", "Strict")}), versions=(BETA,)
        ),
    }
)
# The server sets most of these; unused fields pass with any value.
METADATA: Final = _make_object(
    {
        "name": _make_required(_TEXT),
        "namespace": replace(_TEXT, is_defaulted=True),
        "labels": replace(_TEXTS, is_defaulted=True),
        "annotations": replace(_TEXTS, is_defaulted=True),
        **dict.fromkeys(
            (
                "generateName", "selfLink", "uid", "resourceVersion", "generation",
                "creationTimestamp",
                "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
                "finalizers",
                "managedFields",
            ),
            _ANY,
        ),
    }
)  # fmt: skip


class ApiKind(Struct, frozen=True, eq=False):
    """Kind of the fleet's API: its resource type, served versions and `spec`."""

    kind: str
    type_name: str
    versions: tuple[str, ...]
    spec: FieldShape
    group: str = "placement.kubernetes-fleet.io"
    # v1alpha1 has no default for the snapshot of a run.
    required_by_version: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_CLUSTER_PLACEMENT: Final = _make_object(
    _PLACEMENT_FIELDS, _check_status_namespace, _check_namespace_selectors
)
_PLACEMENT: Final = _make_object(_PLACEMENT_FIELDS, _check_namespace_selectors)
_CLUSTER_OVERRIDE: Final = _make_object(
    {
        "placement": _PLACEMENT_REFERENCE,
        "clusterResourceSelectors": _make_required(_make_object_list(_SELECTOR_FIELDS, 1, 20)),
        "policy": _make_required(_OVERRIDE_POLICY),
    },
    _require_cluster_scope,
)
_NAMED_OBJECT: Final = {**_OBJECT_FIELDS, "name": _make_required(_TEXT)}
_OVERRIDE: Final = _make_object(
    {
        "placement": _PLACEMENT_REFERENCE,
        "resourceSelectors": _make_required(_make_object_list(_NAMED_OBJECT, 1, 20)),
        "policy": _make_required(_OVERRIDE_POLICY),
    }
)
_BUDGET: Final = _make_object(
    {"maxUnavailable": _BUDGET_AMOUNT, "minAvailable": _BUDGET_AMOUNT}, _check_budget_amounts
)
_EVICTION: Final = _make_object({"placementName": _NAME, "clusterName": _NAME})
_ALL_VERSIONS: Final = (V1, BETA, ALPHA)
_CURRENT_VERSIONS: Final = (V1, BETA)
API_KINDS: Final[Mapping[str, ApiKind]] = {
    each.kind: each
    for each in (
        ApiKind(
            "ClusterResourcePlacement",
            "fleet_cluster_resource_placement",
            _CURRENT_VERSIONS,
            _CLUSTER_PLACEMENT,
        ),
        ApiKind("ResourcePlacement", "fleet_resource_placement", _CURRENT_VERSIONS, _PLACEMENT),
        ApiKind(
            "ClusterResourceOverride",
            "fleet_cluster_resource_override",
            _ALL_VERSIONS,
            _CLUSTER_OVERRIDE,
        ),
        ApiKind("ResourceOverride", "fleet_resource_override", _ALL_VERSIONS, _OVERRIDE),
        ApiKind(
            "ClusterResourcePlacementDisruptionBudget",
            "fleet_placement_disruption_budget",
            _ALL_VERSIONS,
            _BUDGET,
        ),
        ApiKind(
            "ClusterResourcePlacementEviction", "fleet_placement_eviction", _ALL_VERSIONS, _EVICTION
        ),
        ApiKind(
            "ClusterStagedUpdateRun",
            "fleet_cluster_staged_update_run",
            _ALL_VERSIONS,
            _RUN,
            required_by_version={ALPHA: ("resourceSnapshotIndex",)},
        ),
        ApiKind("StagedUpdateRun", "fleet_staged_update_run", _CURRENT_VERSIONS, _RUN),
        ApiKind(
            "ClusterStagedUpdateStrategy",
            "fleet_cluster_staged_update_strategy",
            _ALL_VERSIONS,
            _STAGES,
        ),
        ApiKind("StagedUpdateStrategy", "fleet_staged_update_strategy", _CURRENT_VERSIONS, _STAGES),
        ApiKind(
            "ClusterApprovalRequest", "fleet_cluster_approval_request", _ALL_VERSIONS, _APPROVAL
        ),
        ApiKind("ApprovalRequest", "fleet_approval_request", _CURRENT_VERSIONS, _APPROVAL),
        ApiKind(
            "MemberCluster",
            "fleet_member_cluster",
            _CURRENT_VERSIONS,
            _MEMBER,
            "cluster.kubernetes-fleet.io",
        ),
    )
}


def get_block_name(key: str, shape: FieldShape) -> str:
    """Return the name of a field in the configuration: `max_skew` of `maxSkew`.

    Repeated blocks are in the singular.
    """
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
    is_repeated = shape.items is not None and shape.items.kind is FieldKind.OBJECT
    return snake.removesuffix("s") if is_repeated else snake
