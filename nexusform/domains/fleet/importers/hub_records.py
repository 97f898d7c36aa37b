"""Observed evictions and staged runs: results, or progress. Sources: KubeFleet apis/placement/v1beta1
(eviction_types.go, stageupdate_types.go); conditions seen on a running hub.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.scalars import parse_integer
from nexusform.domains.fleet.importers.fleet_export import list_conditions, list_override_names, select_fleet_objects
from nexusform.domains.fleet.importers.fleet_records import format_object_key
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings

EVICTION_KIND: Final = "ClusterResourcePlacementEviction"
RUN_KINDS: Final = ("ClusterStagedUpdateRun", "StagedUpdateRun")
APPROVAL_KINDS: Final = ("ClusterApprovalRequest", "ApprovalRequest")


class ObservedEviction(Struct, frozen=True):
    """Completed eviction: invalid, executed, or valid and blocked; with the reason."""

    name: str
    placement: str
    cluster: str
    valid: bool
    executed: bool
    reason: str


class ObservedRun(Struct, frozen=True):
    """Started staged run. `ended`: it does not continue, for the `reason`; it `succeeded` or failed. `policy_snapshot`,
    `cluster_count` and `resource_snapshot` are those of its start, None if unknown; `stages` its clusters by stage,
    `done` the finished ones. `approved` are names of granted approvals, `overrides` the override snapshots of each
    cluster. `strategy` is its strategy's spec at the start, `apply` that of its placement.
    """

    name: str
    namespace: str
    placement: str
    ended: bool = False
    succeeded: bool = False
    reason: str = ""
    policy_snapshot: int | None = None
    cluster_count: int | None = None
    resource_snapshot: int | None = None
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    done: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    overrides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strategy: Mapping[str, Any] | None = None
    apply: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        """Id: `<name>` or `<namespace>/<name>`."""
        return format_object_key(self.namespace, self.name)


def read_evictions(manifests: Iterable[Manifest]) -> Iterator[ObservedEviction]:
    """Yield the completed evictions."""
    for manifest in select_fleet_objects(manifests, [EVICTION_KIND]):
        conditions = _index_conditions(manifest.body)
        valid_condition, executed_condition = conditions.get("Valid", {}), conditions.get("Executed", {})
        is_invalid = valid_condition.get("status") == "False"
        if not is_invalid and executed_condition.get("status") not in ("True", "False"):
            continue  # not completed
        spec = get_mapping(manifest.body, "spec")
        yield ObservedEviction(
            name=manifest.name,
            placement=get_text(spec, "placementName"),
            cluster=get_text(spec, "clusterName"),
            valid=not is_invalid,
            executed=executed_condition.get("status") == "True",
            reason=get_text(valid_condition if is_invalid else executed_condition, "message"),
        )


def read_runs(manifests: Iterable[Manifest]) -> Iterator[ObservedRun]:
    """Yield the staged runs started, or failed to start; others have no condition Initialized."""
    manifests = tuple(manifests)  # read twice
    # The granted approval requests by namespace and name of their run.
    approvals: dict[tuple[str, str], list[str]] = {}
    for manifest in select_fleet_objects(manifests, APPROVAL_KINDS):
        if _has_true_condition(get_mapping(manifest.body, "status"), "Approved"):
            run = get_text(manifest.body, "spec", "parentStageRollout")
            approvals.setdefault((manifest.namespace, run), []).append(manifest.name)
    for manifest in select_fleet_objects(manifests, RUN_KINDS):
        conditions = _index_conditions(manifest.body)
        if "Initialized" in conditions:
            yield _read_run(manifest, conditions, approvals.get((manifest.namespace, manifest.name), []))


def _read_run(manifest: Manifest, conditions: Mapping[str, Mapping[str, Any]], approvals: Iterable[str]) -> ObservedRun:
    """Read a run with the condition Initialized; `approvals` are its granted approval requests."""
    status = get_mapping(manifest.body, "status")
    initialized, succeeded = conditions["Initialized"], conditions.get("Succeeded", {})
    is_init_failed = initialized.get("status") == "False"
    final_condition = initialized if is_init_failed else succeeded
    stages: dict[str, tuple[str, ...]] = {}  # names of clusters by stage
    clusters: list[Mapping[str, Any]] = []  # of all stages
    approved = set(approvals)
    for stage in list_mappings(status, "stagesStatus"):
        stage_clusters = list_mappings(stage, "clusters")
        stages[get_text(stage, "stageName")] = tuple(map(_get_cluster_name, stage_clusters))
        clusters += stage_clusters
        approved.update(_find_granted_approvals(stage))
    deletion_stage = get_mapping(status, "deletionStageStatus")
    clusters += list_mappings(deletion_stage, "clusters")
    approved.update(_find_granted_approvals(deletion_stage))
    return ObservedRun(
        name=manifest.name,
        namespace=manifest.namespace,
        placement=get_text(manifest.body, "spec", "placementName"),
        ended=is_init_failed or succeeded.get("status") in ("True", "False"),
        succeeded=succeeded.get("status") == "True",
        reason=get_text(final_condition, "message"),
        policy_snapshot=parse_integer(status.get("policySnapshotIndexUsed")),
        cluster_count=parse_integer(status.get("policyObservedClusterCount")),
        resource_snapshot=parse_integer(status.get("resourceSnapshotIndexUsed")),
        stages=tuple(stages.items()),
        done=tuple(_get_cluster_name(item) for item in clusters if _has_true_condition(item, "Succeeded")),
        approved=tuple(sorted(approved)),
        overrides={_get_cluster_name(item): tuple(list_override_names(item)) for item in clusters},
        strategy=get_mapping(status, "stagedUpdateStrategySnapshot") or None,
        apply=get_mapping(status, "appliedStrategy") or None,
    )


def _find_granted_approvals(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the approval requests granted for the tasks before and after a stage."""
    for task in chain(list_mappings(stage, "beforeStageTaskStatus"), list_mappings(stage, "afterStageTaskStatus")):
        if _has_true_condition(task, "ApprovalRequestApproved"):
            yield get_text(task, "approvalRequestName")


def _get_cluster_name(cluster: Mapping[str, Any]) -> str:
    return get_text(cluster, "clusterName")


def _has_true_condition(status: Mapping[str, Any], condition: str) -> bool:
    return _index_conditions({"status": status}).get(condition, {}).get("status") == "True"


def _index_conditions(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(condition.get("type")): condition for condition in list_conditions(body)}
