"""The shapes of the fleet's API objects, which reading runs: what each field is, and what the API server
refuses of it.

Source: config/crd/bases of KubeFleet at e160c1cd. A key of a shape is the key of the YAML; the block that
says the same in a configuration has the name of `block_name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.shapes import Holds, Objection, Rule, Shape, mappings_at, text_at
from nexusform.kubernetes.quantity import LARGEST_INT32, LARGEST_INT64

V1, BETA, ALPHA = "v1", "v1beta1", "v1alpha1"


def _object(fields: Mapping[str, Shape], *rules: Rule) -> Shape:
    return Shape(Holds.OBJECT, fields, rules=rules)


def _each(fields: Mapping[str, Shape], least: int | None = None, most: int | None = None) -> Shape:
    return Shape(Holds.LIST, items=_object(fields), least=least, most=most)


def _list(of: Shape, most: int | None = None) -> Shape:
    return Shape(Holds.LIST, items=of, most=most)


def _one_of(*choices: str, defaulted: bool = True) -> Shape:
    return Shape(Holds.TEXT, choices=choices, defaulted=defaulted)


def _needed(shape: Shape) -> Shape:
    return replace(shape, required=True)


def _only_in(shape: Shape, *versions: str) -> Shape:
    return replace(shape, versions=versions)


def _whole(least: int, most: int = LARGEST_INT32, *, defaulted: bool = False) -> Shape:
    return Shape(Holds.WHOLE, least=least, most=most, defaulted=defaulted)


_TEXT: Final = Shape(Holds.TEXT)
_NAME: Final = Shape(Holds.TEXT, most=255, required=True)
_FLAG: Final = Shape(Holds.FLAG)
_TEXTS: Final = Shape(Holds.TEXTS)
_ANY: Final = Shape(Holds.ANY)
_PERCENT: Final = r"(100|[0-9]{1,2})%"

_LABELS: Final = _object(
    {
        "matchLabels": _TEXTS,
        "matchExpressions": _each(
            {"key": _needed(_TEXT), "operator": _needed(_TEXT), "values": _list(_TEXT)}
        ),
    }
)
_PROPERTY: Final = {"name": _needed(_TEXT), "operator": _needed(_TEXT), "values": _needed(_list(_TEXT, 1))}
_TERM: Final = {
    "labelSelector": _LABELS,
    "propertySelector": _object({"matchExpressions": _needed(_each(_PROPERTY))}),
    "propertySorter": _object(
        {
            "name": _needed(_TEXT),
            "sortOrder": _needed(_one_of("Ascending", "Descending", defaulted=False)),
        }
    ),
}
_CLUSTERS: Final = _object({"clusterSelectorTerms": _needed(_each(_TERM, most=10))})
_SCOPES: Final = ("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors")
_OBJECT: Final = {"group": _needed(_TEXT), "version": _needed(_TEXT), "kind": _needed(_TEXT), "name": _TEXT}
_SELECTED: Final = {**_OBJECT, "labelSelector": _LABELS, "selectionScope": _one_of(*_SCOPES)}


def _fields_of_the_type(policy: Mapping[str, Any]) -> Iterator[Objection]:
    """Fields that do not go with the placement type, however empty they are."""
    kind = policy.get("placementType") or "PickAll"
    if not isinstance(kind, str):
        return
    never = {
        "PickFixed": ("affinity", "numberOfClusters", "topologySpreadConstraints", "tolerations"),
        "PickAll": ("clusterNames", "numberOfClusters", "topologySpreadConstraints"),
        "PickN": ("clusterNames",),
    }
    for key in never.get(kind, ()):
        if key in policy:
            yield Objection(key, f"{key} cannot be set when placementType is {kind}; take it out.")
    if kind == "PickN" and policy.get("numberOfClusters") is None:
        text = "numberOfClusters must be set when placementType is PickN; write how many clusters."
        yield Objection("", text, "no-number-of-clusters")


_POLICY: Final = _object(
    {
        "placementType": _one_of("PickAll", "PickN", "PickFixed"),
        "clusterNames": _list(_TEXT, 100),
        "numberOfClusters": _whole(0),
        "affinity": _object(
            {
                "clusterAffinity": _object(
                    {
                        "requiredDuringSchedulingIgnoredDuringExecution": _CLUSTERS,
                        "preferredDuringSchedulingIgnoredDuringExecution": _each(
                            {"weight": _needed(_whole(-100, 100)), "preference": _needed(_object(_TERM))}
                        ),
                    }
                )
            }
        ),
        "tolerations": _each(
            {
                "key": _TEXT,
                "operator": _one_of("Equal", "Exists"),
                "value": _TEXT,
                "effect": _one_of("NoSchedule", defaulted=False),
            },
            most=100,
        ),
        "topologySpreadConstraints": _each(
            {
                "topologyKey": _needed(_TEXT),
                "maxSkew": _whole(1, defaulted=True),
                "whenUnsatisfiable": _one_of("DoNotSchedule", "ScheduleAnyway"),
            }
        ),
    },
    _fields_of_the_type,
)


def _mirror_has_a_destination(strategy: Mapping[str, Any]) -> Iterator[Objection]:
    if strategy.get("type") == "Mirror" and not strategy.get("destination"):
        yield Objection("", "when reportBackStrategy.type is 'Mirror', a destination must be specified.")


# The schema takes digits in quotes, too; the webhook takes per cent alone.
_PACE: Final = Shape(Holds.AMOUNT, least=0, most=LARGEST_INT32, pattern=_PERCENT, defaulted=True)
_STRATEGY: Final = _object(
    {
        "type": _one_of("RollingUpdate", "External"),
        "rollingUpdate": _object(
            {
                "maxUnavailable": _PACE,
                "maxSurge": _PACE,
                "unavailablePeriodSeconds": _whole(0, LARGEST_INT64, defaulted=True),
            }
        ),
        "applyStrategy": _object(
            {
                "type": _one_of("ClientSideApply", "ServerSideApply", "ReportDiff"),
                "comparisonOption": _one_of("PartialComparison", "FullComparison"),
                "whenToApply": _one_of("Always", "IfNotDrifted"),
                "whenToTakeOver": _one_of("Always", "IfNoDiff", "Never"),
                "allowCoOwnership": _FLAG,
                "serverSideApplyConfig": _object({"force": _FLAG}),
            }
        ),
        "deleteStrategy": _only_in(_object({"propagationPolicy": _one_of("Delete", "Abandon")}), BETA),
        "reportBackStrategy": _only_in(
            _object(
                {
                    "type": _needed(_one_of("Disabled", "Mirror")),
                    "destination": _one_of("OriginalResource", "WorkAPI", defaulted=False),
                },
                _mirror_has_a_destination,
            ),
            BETA,
        ),
    }
)


def _namespaces(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The selectors of namespaces; what is no list of mappings is refused for that."""
    return [each for each in mappings_at(spec, "resourceSelectors") if each.get("kind") == "Namespace"]


def _one_namespace_to_report_in(spec: Mapping[str, Any]) -> Iterator[Objection]:
    """A status that is reported in the namespace needs exactly one namespace."""
    if spec.get("statusReportingScope") != "NamespaceAccessible":
        return
    if len(_namespaces(spec)) != 1:
        text = (
            "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind "
            "'Namespace' is required."
        )
        yield Objection("statusReportingScope", text)


def _one_namespace_with_selectors(spec: Mapping[str, Any]) -> Iterator[Objection]:
    """What goes with the scope NamespaceWithResourceSelectors."""
    namespaces = [
        each for each in _namespaces(spec) if each.get("group") == "" and each.get("version") == "v1"
    ]
    inside = [each for each in namespaces if each.get("selectionScope") == "NamespaceWithResourceSelectors"]
    if not inside:
        return
    if len(inside) > 1:
        text = "only one namespace selector with NamespaceWithResourceSelectors mode is allowed."
        yield Objection("resourceSelectors", text)
    elif not inside[0].get("name") or "labelSelector" in inside[0]:
        text = (
            "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)."
        )
        yield Objection("resourceSelectors", text)
    elif len(namespaces) > 1:
        text = (
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot "
            "mix with other namespace selectors)."
        )
        yield Objection("resourceSelectors", text)


_PLACEMENT_FIELDS: Final = {
    "resourceSelectors": _needed(_each(_SELECTED, 1, 100)),
    "policy": _POLICY,
    "strategy": _STRATEGY,
    "revisionHistoryLimit": _whole(1, 1000, defaulted=True),
    "statusReportingScope": _one_of("ClusterScopeOnly", "NamespaceAccessible"),
}
_PATCH: Final = {
    "op": _needed(_one_of("add", "remove", "replace", defaulted=False)),
    "path": _needed(_TEXT),
    "value": _ANY,
}
_OVERRIDES: Final = _object(
    {
        "overrideRules": _needed(
            _each(
                {
                    "clusterSelector": _CLUSTERS,
                    "overrideType": _one_of("JSONPatch", "Delete"),
                    "jsonPatchOverrides": _each(_PATCH, 1, 20),
                },
                1,
                20,
            )
        )
    }
)
_OVERRIDDEN: Final = _object({"name": _needed(_TEXT), "scope": _one_of("Cluster", "Namespaced")})


def _cluster_scope(spec: Mapping[str, Any]) -> Iterator[Objection]:
    if text_at(spec, "placement", "scope") == "Namespaced":
        yield Objection(
            "placement", "clusterResourceOverride placement reference cannot be Namespaced scope."
        )


def _not_both_amounts(spec: Mapping[str, Any]) -> Iterator[Objection]:
    if "maxUnavailable" in spec and "minAvailable" in spec:
        yield Objection("minAvailable", "Both MaxUnavailable and MinAvailable cannot be specified.")


_BUDGET_AMOUNT: Final = Shape(Holds.AMOUNT, least=0, most=LARGEST_INT32, pattern=_PERCENT)
_TASK: Final = {
    "type": _needed(_one_of("TimedWait", "Approval", defaulted=False)),
    "waitTime": Shape(Holds.TEXT, pattern=r"(0|((0|[1-9][0-9]*)(\.[0-9]+)?(s|m|h))+)"),
}
_STAGE: Final = {
    "name": Shape(Holds.TEXT, required=True, most=63, pattern="[a-z0-9]+"),
    "labelSelector": _LABELS,
    "sortingLabelKey": _TEXT,
    "maxConcurrency": Shape(
        Holds.AMOUNT,
        least=1,
        most=LARGEST_INT32,
        pattern="(100|[1-9][0-9]?)%",
        defaulted=True,
        versions=(V1, BETA),
    ),
    "beforeStageTasks": replace(_each(_TASK, most=1), versions=(V1, BETA)),
    "afterStageTasks": _each(_TASK, most=2),
}
_STAGES: Final = _object({"stages": _needed(_each(_STAGE, most=31))})


def _index_of_the_first_version(spec: Mapping[str, Any]) -> Iterator[Objection]:
    index = spec.get("resourceSnapshotIndex")
    if isinstance(index, str) and index and not index.isdecimal():
        text = f'invalid resource snapshot index "{index}" provided, expected an integer >= 0.'
        yield Objection("resourceSnapshotIndex", text)


_RUN: Final = _object(
    {
        "placementName": _NAME,
        "stagedRolloutStrategyName": _needed(_TEXT),
        "resourceSnapshotIndex": _TEXT,
        "state": _only_in(_one_of("Initialize", "Run", "Stop"), V1, BETA),
    },
    _index_of_the_first_version,
)
_APPROVAL: Final = _object({"parentStageRollout": _needed(_TEXT), "targetStage": _needed(_TEXT)})
_MEMBER: Final = _object(
    {
        "identity": _needed(
            _object({"kind": _needed(_TEXT), "name": _needed(_TEXT), "namespace": _TEXT, "apiGroup": _TEXT})
        ),
        "heartbeatPeriodSeconds": _whole(1, 600, defaulted=True),
        "taints": _each(
            {
                "key": _needed(_TEXT),
                "value": _TEXT,
                "effect": _needed(_one_of("NoSchedule", defaulted=False)),
            },
            most=100,
        ),
        "deleteOptions": _only_in(_object({"validationMode": _one_of("Skip", "Strict")}), BETA),
    }
)
# The server sets most of these; what has no use here is let pass, whatever it is.
METADATA: Final = _object(
    {
        "name": _needed(_TEXT),
        "namespace": replace(_TEXT, defaulted=True),
        "labels": replace(_TEXTS, defaulted=True),
        "annotations": replace(_TEXTS, defaulted=True),
        **dict.fromkeys(
            (
                "generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
                "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
                "managedFields",
            ),
            _ANY,
        ),
    }
)  # fmt: skip


class ApiKind(Struct, frozen=True, eq=False):
    """A kind of the fleet's API: the resource type that plans it, the versions that a hub serves, and its
    `spec`.
    """

    kind: str
    type_name: str
    versions: tuple[str, ...]
    spec: Shape
    group: str = "placement.kubernetes-fleet.io"
    # v1alpha1 has no default for a run's snapshot.
    needed_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_ALL: Final = (V1, BETA, ALPHA)
_OLD: Final = (BETA, ALPHA)
_NEW: Final = (V1, BETA)
API_KINDS: Final[Mapping[str, ApiKind]] = {
    each.kind: each
    for each in (
        ApiKind(
            "ClusterResourcePlacement",
            "fleet_cluster_resource_placement",
            _NEW,
            _object(_PLACEMENT_FIELDS, _one_namespace_to_report_in, _one_namespace_with_selectors),
        ),
        ApiKind(
            "ResourcePlacement",
            "fleet_resource_placement",
            _NEW,
            _object(_PLACEMENT_FIELDS, _one_namespace_with_selectors),
        ),
        ApiKind(
            "ClusterResourceOverride",
            "fleet_cluster_resource_override",
            _ALL,
            _object(
                {
                    "placement": _OVERRIDDEN,
                    "clusterResourceSelectors": _needed(_each(_SELECTED, 1, 20)),
                    "policy": _needed(_OVERRIDES),
                },
                _cluster_scope,
            ),
        ),
        ApiKind(
            "ResourceOverride",
            "fleet_resource_override",
            _ALL,
            _object(
                {
                    "placement": _OVERRIDDEN,
                    "resourceSelectors": _needed(_each({**_OBJECT, "name": _needed(_TEXT)}, 1, 20)),
                    "policy": _needed(_OVERRIDES),
                }
            ),
        ),
        ApiKind(
            "ClusterResourcePlacementDisruptionBudget",
            "fleet_placement_disruption_budget",
            _OLD,
            _object({"maxUnavailable": _BUDGET_AMOUNT, "minAvailable": _BUDGET_AMOUNT}, _not_both_amounts),
        ),
        ApiKind(
            "ClusterResourcePlacementEviction",
            "fleet_placement_eviction",
            _OLD,
            _object({"placementName": _NAME, "clusterName": _NAME}),
        ),
        ApiKind(
            "ClusterStagedUpdateRun",
            "fleet_cluster_staged_update_run",
            _ALL,
            _RUN,
            needed_in={ALPHA: ("resourceSnapshotIndex",)},
        ),
        ApiKind("StagedUpdateRun", "fleet_staged_update_run", _NEW, _RUN),
        ApiKind("ClusterStagedUpdateStrategy", "fleet_cluster_staged_update_strategy", _ALL, _STAGES),
        ApiKind("StagedUpdateStrategy", "fleet_staged_update_strategy", _NEW, _STAGES),
        ApiKind("ClusterApprovalRequest", "fleet_cluster_approval_request", _ALL, _APPROVAL),
        ApiKind("ApprovalRequest", "fleet_approval_request", _NEW, _APPROVAL),
        ApiKind("MemberCluster", "fleet_member_cluster", _NEW, _MEMBER, "cluster.kubernetes-fleet.io"),
    )
}


def block_name(key: str, shape: Shape) -> str:
    """The name of a field in a configuration: in snake case, and repeated blocks in the singular."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
    repeated = shape.items is not None and shape.items.holds is Holds.OBJECT
    return snake.removesuffix("s") if repeated else snake
