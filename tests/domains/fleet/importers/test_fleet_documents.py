"""Tests of fleet manifests: a rejected field is an error at its line.

Lenient parsing lists its corrections.
"""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import Severity
from nexusform.documents.field_validation import FieldKind
from nexusform.domains.fleet.importers.fleet_documents import CORRECTIONS
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS, FieldShape, get_block_name
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.schemas.block_schema import BlockSchema

HEAD = """apiVersion: placement.kubernetes-fleet.io/{version}
kind: {kind}
metadata:
  name: it
{namespace}spec:
{spec}"""
PLACEMENT = """  resourceSelectors:
  - group: ""
    version: v1
    kind: Namespace
    name: web
  policy:
    placementType: PickN
    numberOfClusters: 2
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
          - labelSelector:
              matchLabels:
                env: prod
              matchExpressions:
              - {key: ring, operator: In, values: [a, b]}
            propertySelector:
              matchExpressions:
              - {name: kubernetes-fleet.io/node-count, operator: Ge, values: ["5"]}
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 20
          preference:
            propertySorter: {name: kubernetes-fleet.io/node-count, sortOrder: Descending}
    topologySpreadConstraints:
    - {maxSkew: 2, topologyKey: region, whenUnsatisfiable: DoNotSchedule}
    tolerations:
    - {key: k, operator: Equal, value: v, effect: NoSchedule}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 25%, maxSurge: 1, unavailablePeriodSeconds: 60}
    applyStrategy:
      type: ServerSideApply
      comparisonOption: PartialComparison
      whenToApply: Always
      whenToTakeOver: Always
      allowCoOwnership: true
      serverSideApplyConfig: {force: true}
    deleteStrategy: {propagationPolicy: Abandon}
    reportBackStrategy: {type: Mirror, destination: WorkAPI}
  revisionHistoryLimit: 5
  statusReportingScope: ClusterScopeOnly
"""
OVERRIDE = """  placement: {name: p, scope: Cluster}
  SELECTORS:
  - {group: apps, version: v1, kind: ClusterRole, name: web}
  policy:
    overrideRules:
    - clusterSelector:
        clusterSelectorTerms:
        - labelSelector: {matchLabels: {env: prod}}
      overrideType: JSONPatch
      jsonPatchOverrides:
      - {op: replace, path: /spec/replicas, value: 3}
"""
STAGES = """  stages:
  - name: canary
    labelSelector: {matchLabels: {env: canary}}
    sortingLabelKey: order
    maxConcurrency: 50%
    beforeStageTasks:
    - {type: Approval}
    afterStageTasks:
    - {type: Approval}
    - {type: TimedWait, waitTime: 1h30m}
"""
RUN = """  placementName: p
  resourceSnapshotIndex: "1"
  stagedRolloutStrategyName: s
  state: Run
"""
BUDGET = "  minAvailable: 50%\n"
EVICTION = "  placementName: p\n  clusterName: c\n"
SPECS = {
    "ClusterResourcePlacement": ("v1beta1", PLACEMENT),
    "ResourcePlacement": ("v1beta1", PLACEMENT.replace("kind: Namespace", "kind: ConfigMap")),
    "ClusterResourceOverride": ("v1", OVERRIDE.replace("SELECTORS", "clusterResourceSelectors")),
    "ResourceOverride": ("v1alpha1", OVERRIDE.replace("SELECTORS", "resourceSelectors")),
    "ClusterStagedUpdateStrategy": ("v1", STAGES),
    "ClusterStagedUpdateRun": ("v1", RUN),
    "StagedUpdateStrategy": ("v1beta1", STAGES),
    "StagedUpdateRun": ("v1", RUN),
    "ClusterResourcePlacementDisruptionBudget": ("v1alpha1", BUDGET),
    "ClusterResourcePlacementEviction": ("v1beta1", EVICTION),
}
IN_NAMESPACE = ("ResourcePlacement", "ResourceOverride", "StagedUpdateStrategy", "StagedUpdateRun")


def build_manifest_text(kind: str, version: str = "") -> str:
    default, spec = SPECS[kind]
    namespace = "  namespace: web\n" if kind in IN_NAMESPACE else ""
    return HEAD.format(version=version or default, kind=kind, namespace=namespace, spec=spec)


def list_findings(kind: str, text: str, *, lenient: bool = False) -> tuple[list[str], list[str]]:
    """Return errors and warnings of the type that plans the kind."""
    check = RESOURCE_TYPES[API_KINDS[kind].type_name].check
    assert check is not None
    names = {"name": "it", "namespace": "web"} if kind in IN_NAMESPACE else {"name": "it"}
    problems = check({"manifest": text, "lenient": lenient, **names})
    errors = [p.detail for p in problems if p.severity is Severity.ERROR]
    warnings = [p.detail for p in problems if p.severity is Severity.WARNING]
    return errors, warnings


def list_rejections(kind: str, old: str, new: str) -> list[str]:
    text = build_manifest_text(kind)
    assert old in text, old
    errors, _ = list_findings(kind, text.replace(old, new, 1))
    return errors


@pytest.mark.parametrize("kind", SPECS)
def test_valid_manifests_are_read(kind: str) -> None:
    for version in API_KINDS[kind].versions:
        text = build_manifest_text(kind, version)
        if version == "v1":
            text = text.replace("    deleteStrategy: {propagationPolicy: Abandon}\n", "")
            text = text.replace(
                "    reportBackStrategy: {type: Mirror, destination: WorkAPI}\n", ""
            )
        if version == "v1alpha1":
            text = text.replace("  state: Run\n", "").replace("    maxConcurrency: 50%\n", "")
            text = text.replace("    beforeStageTasks:\n    - {type: Approval}\n", "", 1)
        assert list_findings(kind, text) == ([], []), version


SERVER = """  uid: 1-2
  resourceVersion: "7"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: [{manager: kubectl}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
spec:"""


def test_server_fields_are_ignored() -> None:
    text = (
        build_manifest_text("ClusterResourcePlacement").replace("spec:", SERVER, 1)
        + "status: {conditions: []}\n"
    )
    assert list_findings("ClusterResourcePlacement", text) == ([], [])


CRP = "ClusterResourcePlacement"
CRO = "ClusterResourceOverride"
RO = "ResourceOverride"
STRATEGY = "ClusterStagedUpdateStrategy"
SELECTED = "    name: web\n    selectionScope: NamespaceWithResourceSelectors\n"
OTHER = '  - group: ""\n    version: v1\n    kind: Namespace\n    name: db\n'
BROKEN = [
    # Unknown keys
    (CRP, "numberOfClusters:", "numberOfCluster:", 'unknown field "spec.policy.numberOfCluster"'),
    (CRP, "placementType:", "type:", 'unknown field "spec.policy.type"'),
    (CRP, "    affinity:", "    affinities:", 'unknown field "spec.policy.affinities"'),
    (CRP, "clusterAffinity:", "clusterAffinities:", "unknown field"),
    (
        CRP,
        "requiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringScheduling",
        "unknown field",
    ),
    (CRP, "clusterSelectorTerms", "clusterSelectorTerm", 'Did you mean "clusterSelectorTerms"?'),
    (CRP, "labelSelector:", "labelsSelector:", 'Did you mean "labelSelector"?'),
    (CRP, "matchLabels:", "matchLabel:", 'Did you mean "matchLabels"?'),
    (CRP, "matchExpressions:", "matchExpression:", "unknown field"),
    (CRP, "propertySelector:", "propertiesSelector:", "unknown field"),
    (CRP, "propertySorter:", "metricSorter:", "use propertySorter"),
    (CRP, "  name: web", "  names: web", 'unknown field "spec.resourceSelectors[0].names"'),
    (CRP, "    kind: Namespace", "    kind: Namespace\n    namespace: web", "unknown field"),
    (CRP, "topologySpreadConstraints:", "topologySpreadConstraint:", "unknown field"),
    (CRP, "whenUnsatisfiable:", "whenUnsatisfied:", "unknown field"),
    (CRP, "tolerations:", "toleration:", "unknown field"),
    (CRP, "  strategy:", "  strategies:", 'unknown field "spec.strategies"'),
    (CRP, "rollingUpdate:", "rollingUpdates:", "unknown field"),
    (CRP, "maxSurge:", "maxsurge:", 'Did you mean "maxSurge"?'),
    (CRP, "whenToTakeOver:", "whenToTakeover:", "unknown field"),
    (CRP, "serverSideApplyConfig: {force", "serverSideApplyConfig: {forced", "unknown field"),
    (CRP, "revisionHistoryLimit:", "revisionHistory:", "unknown field"),
    (CRP, "  name: it", "  name: it\n  label: {}", 'unknown field "metadata.label"'),
    (CRP, "spec:", "specs: {}\nspec:", 'unknown field "specs"'),
    (CRO, "clusterResourceSelectors", "resourceSelectors", "unknown field"),
    (CRO, "overrideRules:", "rules:", "unknown field"),
    (CRO, "clusterSelector:", "clusterSelectors:", "unknown field"),
    (CRO, "clusterSelectorTerms", "terms", "unknown field"),
    (CRO, "jsonPatchOverrides", "jsonPatches", "unknown field"),
    (CRO, "{op:", "{operation:", "unknown field"),
    (RO, "{group: apps,", "{group: apps, labelSelector: {},", "unknown field"),
    (STRATEGY, "sortingLabelKey", "sortLabelKey", "unknown field"),
    (STRATEGY, "afterStageTasks", "afterStage", "unknown field"),
    ("ClusterStagedUpdateRun", "resourceSnapshotIndex", "snapshotIndex", "unknown field"),
    ("ClusterResourcePlacementDisruptionBudget", "minAvailable", "minavailable", "unknown field"),
    # Duplicate keys
    (
        CRP,
        "    numberOfClusters: 2\n",
        "    numberOfClusters: 2\n    numberOfClusters: 3\n",
        "occurs twice",
    ),
    (CRP, "{key: k,", "{key: k, key: l,", "occurs twice"),
    (CRO, "{op: replace,", "{op: replace, op: add,", "occurs twice"),
    # Missing required fields
    (
        CRP,
        '  - group: ""\n    version',
        "  - version",
        "spec.resourceSelectors[0].group is missing",
    ),
    (CRP, "    version: v1\n", "", "spec.resourceSelectors[0].version is missing"),
    (CRP, "    kind: Namespace\n", "", "spec.resourceSelectors[0].kind is missing"),
    (CRP, "    numberOfClusters: 2\n", "", "numberOfClusters must be set"),
    (CRP, "{key: ring, operator", "{operator", ".key is missing"),
    (CRP, "operator: In, values", "values", ".operator is missing"),
    (CRP, ', values: ["5"]', "", ".values is missing"),
    (CRP, ", sortOrder: Descending", "", ".sortOrder is missing"),
    (
        CRP,
        "        - weight: 20\n          preference",
        "        - preference",
        ".weight is missing",
    ),
    (CRP, "topologyKey: region, ", "", ".topologyKey is missing"),
    (
        CRP,
        "{type: Mirror, destination: WorkAPI}",
        "{type: Mirror}",
        "a destination must be specified",
    ),
    (CRP, "{type: Mirror, destination", "{destination", ".type is missing"),
    (CRP, "  name: it\n", "  labels: {}\n", "metadata.name is missing"),
    (RO, "kind: ClusterRole, name: web", "kind: ClusterRole", ".name is missing"),
    (CRO, "{name: p, scope", "{scope", "spec.placement.name is missing"),
    (CRO, "{op: replace, path", "{path", ".op is missing"),
    (CRO, "path: /spec/replicas, ", "", ".path is missing"),
    (STRATEGY, "  - name: canary\n    label", "  - label", ".name is missing"),
    (STRATEGY, "{type: Approval}", "{}", ".type is missing"),
    (STRATEGY, ", waitTime: 1h30m", "", "waitTime is required"),
    ("ClusterStagedUpdateRun", "  placementName: p\n", "", "spec.placementName is missing"),
    ("ClusterStagedUpdateRun", "  stagedRolloutStrategyName: s\n", "", "is missing"),
    ("ClusterResourcePlacementEviction", "  clusterName: c\n", "", "spec.clusterName is missing"),
    # Invalid enumeration values
    (CRP, "PickN", "pickN", 'must be one of PickAll, PickN, PickFixed. Did you mean "PickN"?'),
    (CRP, "sortOrder: Descending", "sortOrder: Falling", "must be one of Ascending, Descending"),
    (CRP, "DoNotSchedule", "DoNotschedule", "must be one of"),
    (CRP, "operator: Equal", "operator: Is", "must be one of Equal, Exists"),
    (CRP, "effect: NoSchedule", "effect: NoExecute", "must be one of NoSchedule"),
    (CRP, "effect: NoSchedule", 'effect: ""', "must be one of NoSchedule"),
    (CRP, "type: RollingUpdate", "type: Rolling", "must be one of RollingUpdate, External"),
    (CRP, "type: ServerSideApply", "type: Apply", "must be one of"),
    (CRP, "PartialComparison", "Partial", "must be one of"),
    (CRP, "whenToApply: Always", "whenToApply: Never", "must be one of"),
    (CRP, "whenToTakeOver: Always", "whenToTakeOver: Sometimes", "must be one of"),
    (CRP, "propagationPolicy: Abandon", "propagationPolicy: Orphan", "must be one of"),
    (CRP, "type: Mirror", "type: Back", "must be one of Disabled, Mirror"),
    (CRP, "destination: WorkAPI", "destination: Hub", "must be one of"),
    (CRP, "statusReportingScope: ClusterScopeOnly", "statusReportingScope: All", "must be one of"),
    (CRP, "    name: web", "    name: web\n    selectionScope: All", "must be one of"),
    (CRP, "operator: In", "operator: Within", "not a valid label selector operator"),
    (CRP, "operator: Ge", "operator: In", "Unsupported operator In"),
    (CRO, "overrideType: JSONPatch", "overrideType: Patch", "must be one of JSONPatch, Delete"),
    (CRO, "op: replace", "op: move", "must be one of add, remove, replace"),
    (CRO, "scope: Cluster", "scope: Namespaced", "cannot be Namespaced scope"),
    (STRATEGY, "{type: Approval}", "{type: Wait}", "must be one of TimedWait, Approval"),
    (
        "ClusterStagedUpdateRun",
        "state: Run",
        "state: Start",
        "must be one of Initialize, Run, Stop",
    ),
    # Values of the wrong type
    (
        CRP,
        "numberOfClusters: 2",
        'numberOfClusters: "2"',
        "must be a whole number; write 2, without quotes.",
    ),
    (CRP, "numberOfClusters: 2", "numberOfClusters: 2.5", "must be a whole number"),
    (CRP, "numberOfClusters: 2", "numberOfClusters: true", "must be a whole number"),
    (CRP, "numberOfClusters: 2", "numberOfClusters:", "is null"),
    (CRP, "env: prod", "env: 1", 'write "1", with quotes'),
    (CRP, "env: prod", "env: yes", 'write "yes", with quotes'),
    (CRP, "env: prod", "env:", "must be a text"),
    (CRP, "env: prod", "env: [prod]", "must be a text"),
    (CRP, "values: [a, b]", "values: a", "must be a list"),
    (CRP, "values: [a, b]", "values: [1]", "with quotes"),
    (CRP, 'values: ["5"]', "values: [5]", "with quotes"),
    (CRP, "values: [a, b]", "values: [yes, b]", 'write "yes", with quotes'),
    (CRP, "values: [a, b]", "values: [0x10, b]", 'write "0x10", with quotes'),
    (CRP, "values: [a, b]", "values: [a, 1_0, 010]", 'write "010", with quotes'),
    (CRP, "name: web", "name: On", 'write "On", with quotes'),
    (
        CRP,
        "        - weight: 20\n          preference:",
        "          weight: 20\n          preference:",
        "list",
    ),
    (
        CRP,
        "preference:\n            propertySorter",
        "preference:\n          - propertySorter",
        "Remove the dash",
    ),
    (CRP, "allowCoOwnership: true", 'allowCoOwnership: "true"', "must be true or false"),
    (CRP, "name: web", "name: 5", "with quotes"),
    (CRP, "  name: it", "  name: 5", "metadata.name must be a text"),
    (CRP, "  name: it", "  name: it\n  labels: {a: 1}", "with quotes"),
    (CRP, "PickN", "..", "must be one of"),
    (CRP, "    name: web", "    name: web\n  - ...", "a placeholder"),
    ("ClusterStagedUpdateRun", 'Index: "1"', "Index: 1", "with quotes"),
    # Numbers, sizes and patterns
    (CRP, "numberOfClusters: 2", "numberOfClusters: -1", "must be 0 or more"),
    (
        CRP,
        "numberOfClusters: 2",
        f"numberOfClusters: {2**31}",
        "must be at most 2147483647, not 2147483648",
    ),
    (
        CRP,
        "numberOfClusters: 2",
        f"numberOfClusters: {'9' * 20}",
        "must be at most 2147483647, not 99999",
    ),
    (CRP, "maxSkew: 2", f"maxSkew: {'9' * 20}", "must be at most 2147483647"),
    (CRP, "maxSurge: 1", f"maxSurge: {'9' * 20}", "must be at most 2147483647"),
    (
        CRP,
        "unavailablePeriodSeconds: 60",
        f"unavailablePeriodSeconds: {'9' * 20}",
        "must be at most 922337",
    ),
    (STRATEGY, "maxConcurrency: 50%", f"maxConcurrency: {'9' * 20}", "must be at most 2147483647"),
    (CRP, "weight: 20", f"weight: {'9' * 20}", "must be -100 to 100"),
    (CRP, "weight: 20", "weight: 101", "must be -100 to 100"),
    (CRP, "maxSkew: 2", "maxSkew: 0", "must be 1 or more"),
    (CRP, "revisionHistoryLimit: 5", "revisionHistoryLimit: 0", "must be 1 to 1000"),
    (CRP, "maxUnavailable: 25%", "maxUnavailable: 101%", "must match"),
    (CRP, "maxSurge: 1", "maxSurge: lots", "must match"),
    (CRP, "maxSurge: 1", "maxSurge: -1", "must be 0 or more"),
    (CRP, "unavailablePeriodSeconds: 60", "unavailablePeriodSeconds: -1", "must be 0 or more"),
    (CRP, 'values: ["5"]', 'values: ["5", "6"]', "must have at most 1 items"),
    (CRP, 'values: ["5"]', 'values: ["5 GB"]', "not a valid resource.Quantity"),
    (
        CRP,
        "clusterSelectorTerms:\n",
        "clusterSelectorTerms:\n" + "          - {}\n" * 10,
        "at most 10 items",
    ),
    (STRATEGY, "name: canary", "name: Canary", "must match [a-z0-9]+"),
    (STRATEGY, "maxConcurrency: 50%", "maxConcurrency: 0", "must be 1 or more"),
    (STRATEGY, "maxConcurrency: 50%", 'maxConcurrency: "5"', "must match"),
    (STRATEGY, "maxConcurrency: 50%", "maxConcurrency: 0%", "must match"),
    (STRATEGY, "waitTime: 1h30m", "waitTime: 1d", "must match"),
    (
        STRATEGY,
        "    - {type: Approval}\n    after",
        "    - {type: TimedWait, waitTime: 1h}\n    after",
        "not allowed",
    ),
    ("ClusterResourcePlacementDisruptionBudget", "50%", "150%", "must match"),
    ("ClusterResourcePlacementDisruptionBudget", "50%", "-1", "must be 0 or more"),
    (
        "ClusterResourcePlacementDisruptionBudget",
        "50%",
        "50%\n  maxUnavailable: 1",
        "cannot be specified",
    ),
    (
        "ClusterResourcePlacementEviction",
        "clusterName: c",
        f"clusterName: {'c' * 256}",
        "at most 255",
    ),
    # Conflicting fields
    (
        CRP,
        "numberOfClusters: 2",
        "numberOfClusters: 2\n    clusterNames: []",
        "clusterNames cannot be set",
    ),
    (CRP, "PickN", "PickAll", "numberOfClusters cannot be set when placementType is PickAll"),
    (CRP, "PickN", "PickFixed", "affinity cannot be set when placementType is PickFixed"),
    (CRP, "operator: Equal, value: v", "operator: Exists, value: v", "value needs to be empty"),
    (CRP, "{key: k, operator", "{operator", "key cannot be empty"),
    (CRP, "name: web\n", "name: web\n    labelSelector: {}\n", "not both"),
    (CRP, "ClusterScopeOnly", "NamespaceAccessible\n  x: 1", "unknown field"),
    (CRP, "Namespace\n    name", "ClusterRole\n    name", ""),
    (
        CRO,
        "op: replace, path: /spec/replicas",
        "op: remove, path: /spec/replicas",
        "cannot have value",
    ),
    (
        CRO,
        "overrideType: JSONPatch",
        "overrideType: Delete",
        "cannot be set when the override type is Delete",
    ),
    (CRO, "- labelSelector: {matchLabels: {env: prod}}", "- {}", "labelSelector is required"),
    # Namespaces with selected resources
    (
        CRP,
        "    name: web\n",
        "    selectionScope: NamespaceWithResourceSelectors\n",
        "must select by name (not by label)",
    ),
    (
        CRP,
        "    name: web\n",
        SELECTED + OTHER + SELECTED,
        "only one namespace selector with NamespaceWithResourceSel",
    ),
    (CRP, "    name: web\n", SELECTED + OTHER, "cannot mix with other namespace selectors"),
    # An empty key is no field of a rule.
    (
        CRP,
        "{type: Mirror, destination: WorkAPI}",
        '{type: Mirror, "": x}',
        "a destination must be specified",
    ),
    # A placeholder as the only item
    (CRP, "{force: true}", "[...]", "a placeholder"),
    # Other objects
    (CRP, "/v1beta1", "/v1", 'unknown field "spec.strategy.deleteStrategy": v1 does not have it'),
    (CRP, "/v1beta1", "/v1alpha1", "a hub has ClusterResourcePlacement as"),
    (
        CRP,
        "placement.kubernetes-fleet.io/",
        "fleet.azure.com/",
        "a hub has ClusterResourcePlacement as",
    ),
    (
        CRP,
        "kind: ClusterResourcePlacement",
        "kind: ResourcePlacement",
        "expected ClusterResourcePlacement",
    ),
    ("ClusterResourcePlacementEviction", "/v1beta1", "/v7", "a hub has"),
]


@pytest.mark.parametrize(("kind", "old", "new", "words"), [case for case in BROKEN if case[3]])
def test_invalid_manifest_is_rejected_at_its_line(
    kind: str, old: str, new: str, words: str
) -> None:
    errors = list_rejections(kind, old, new)
    assert any(words in error for error in errors), errors
    assert all(error.startswith(("manifest:", "namespace")) for error in errors), errors


def test_namespace_accessible_status_needs_one_namespace() -> None:
    text = build_manifest_text(CRP).replace("ClusterScopeOnly", "NamespaceAccessible")
    assert list_findings(CRP, text) == ([], [])
    errors, _ = list_findings(CRP, text.replace("kind: Namespace", "kind: StorageClass"))
    assert any("exactly one resourceSelector" in error for error in errors)


def test_pick_fixed_needs_no_names() -> None:
    spec = PLACEMENT[: PLACEMENT.index("  policy:")] + "  policy: {placementType: PickFixed}\n"
    text = HEAD.format(version="v1", kind=CRP, namespace="", spec=spec)
    errors, [advice] = list_findings(CRP, text)
    assert not errors
    assert "PickFixed without cluster_names selects no cluster, and removes none" in advice


SLIPS = {
    "left-out-condition": (
        "labelSelector:\n              matchLabels:\n                env: prod",
        "labelSelector: ...",
    ),
    "no-number-of-clusters": ("    numberOfClusters: 2\n", ""),
    "left-out": ("    name: web\n", "    name: web\n  - ...\n"),
    "mapping-for-a-list": ("        - weight: 20\n", "          weight: 20\n"),
    "list-for-a-mapping": ("            propertySorter: {", "          - propertySorter: {"),
    "unquoted-text": ("env: prod", "env: 1"),
    "metric-sorter": ("propertySorter:", "metricSorter:"),
}
SLIPS["left-out-condition"] = (
    "    - {key: k, operator: Equal, value: v, effect: NoSchedule}",
    "    - ...",
)


OLD_NAME = "old-property-name"


def test_every_correction_is_tested() -> None:
    assert sorted([*SLIPS, OLD_NAME]) == sorted(CORRECTIONS)


def test_old_node_count_name_is_valid_for_a_hub() -> None:
    text = build_manifest_text(CRP).replace(
        "kubernetes-fleet.io/node-count", "kubernetes.azure.com/node-count", 1
    )
    assert list_findings(CRP, text) == ([], [])
    errors, warnings = list_findings(CRP, text, lenient=True)
    assert errors == []
    assert [f"[{OLD_NAME}]" in warning for warning in warnings] == [True]


@pytest.mark.parametrize("correction", SLIPS)
def test_lenient_mode_corrects_and_lists_a_slip(correction: str) -> None:
    text = build_manifest_text(CRP).replace(*SLIPS[correction], 1)
    errors, _ = list_findings(CRP, text)
    assert any("Set lenient = true to accept it" in error for error in errors)
    errors, warnings = list_findings(CRP, text, lenient=True)
    assert errors == []
    assert [f"[{correction}]" in warning for warning in warnings] == [True]
    assert ("this widens the selection" in warnings[0]) is CORRECTIONS[correction].widens


def test_widening_corrections_are_listed_first() -> None:
    text = build_manifest_text(CRP)
    for slip in SLIPS.values():
        text = text.replace(*slip, 1)
    _, warnings = list_findings(CRP, text, lenient=True)
    wider = ["this widens the selection" in line for line in warnings[0].splitlines()]
    assert wider == sorted(wider, reverse=True)
    assert len(wider) == len(SLIPS)


def test_unknown_slips_stay_errors() -> None:
    for old, new in (
        ("numberOfClusters", "numberOfCluster"),
        ("PickN", "pickN"),
        ("weight: 20", 'weight: "20"'),
    ):
        errors, _ = list_findings(CRP, build_manifest_text(CRP).replace(old, new, 1), lenient=True)
        assert errors, new


def find_field_differences(shape: FieldShape, schema: BlockSchema, path: str) -> list[str]:
    """Return the fields with different API shapes and block schemas."""
    apart = []
    for key, field in shape.fields.items():
        name = get_block_name(key, field)
        below = (
            field.items
            if field.items is not None and field.items.kind is FieldKind.OBJECT
            else field
        )
        if below.kind is FieldKind.OBJECT:
            block = schema.blocks.get(name)
            apart += (
                [f"{path}.{name}"]
                if block is None
                else find_field_differences(below, block.schema, f"{path}.{name}")
            )
            continue
        attribute = schema.attributes.get(name)
        if attribute is None:
            apart.append(f"{path}.{name}")
        elif attribute.choices and sorted(attribute.choices) != sorted(field.choices):
            apart.append(f"{path}.{name}: {attribute.choices}")
    return apart


@pytest.mark.parametrize("kind", [kind for kind in API_KINDS if kind != "MemberCluster"])
def test_blocks_match_the_api(kind: str) -> None:
    api = API_KINDS[kind]
    apart = find_field_differences(api.spec, RESOURCE_TYPES[api.type_name].schema, "")
    # A namespace scope in an override has no effect: it names one object.
    assert [
        each for each in apart if not each.endswith("cluster_resource_selector.selection_scope")
    ] == []
