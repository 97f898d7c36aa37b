"""What a hub shows of evictions and staged runs: which are over, and how far the others are.

Sources: KubeFleet apis/placement/v1beta1 (eviction_types.go, stageupdate_types.go); conditions as a running
hub was seen to set them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.shapes import mapping_at, mappings_at, value_at
from nexusform.domains.fleet.importers.fleet_export import conditions_of, override_names
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, is_fleet_group

EVICTION: Final = "ClusterResourcePlacementEviction"
RUNS: Final = ("ClusterStagedUpdateRun", "StagedUpdateRun")
APPROVALS: Final = ("ClusterApprovalRequest", "ApprovalRequest")


class ShownEviction(Struct, frozen=True):
    """An eviction that is over: invalid, executed, or valid and not executed; and why."""

    name: str
    placement: str
    cluster: str
    valid: bool
    executed: bool
    reason: str


class ShownRun(Struct, frozen=True):
    """A staged run that a hub has begun. `ended`: it goes no further, for the `reason`; it `succeeded` or did
    not. `policy_snapshot`, `cluster_count` and `resource_snapshot` are what it began with, None where nothing
    tells; `stages` its clusters by stage, `done` those that are finished. `approved` are the names of the
    approvals that are granted to it, `overrides` the override snapshots of each of its clusters. `strategy`
    is the spec of its strategy as it was when the run began, `apply` that of its placement.
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
        """`<name>`, or `<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def read_evictions(manifests: Iterable[Manifest]) -> Iterator[ShownEviction]:
    """The evictions that are over."""
    for manifest in manifests:
        if manifest.kind != EVICTION or not is_fleet_group(manifest.group):
            continue
        conditions = _by_type(manifest.body)
        valid, executed = conditions.get("Valid", {}), conditions.get("Executed", {})
        is_invalid = valid.get("status") == "False"
        if not is_invalid and executed.get("status") not in ("True", "False"):
            continue
        spec = mapping_at(manifest.body, "spec")
        yield ShownEviction(
            manifest.name,
            str(spec.get("placementName") or ""),
            str(spec.get("clusterName") or ""),
            valid=not is_invalid,
            executed=executed.get("status") == "True",
            reason=str((valid if is_invalid else executed).get("message") or ""),
        )


def read_runs(manifests: Iterable[Manifest]) -> Iterator[ShownRun]:
    """The staged runs that have begun, or failed to."""
    manifests = tuple(manifests)
    granted = _granted(manifests)
    for manifest in manifests:
        if manifest.kind in RUNS and is_fleet_group(manifest.group):
            conditions = _by_type(manifest.body)
            if "Initialized" in conditions:
                yield _run(manifest, conditions, granted.get((manifest.namespace, manifest.name), []))


def _granted(manifests: Iterable[Manifest]) -> dict[tuple[str, str], list[str]]:
    """The approval requests that say Approved, by the namespace and name of their run."""
    granted: dict[tuple[str, str], list[str]] = {}
    for manifest in manifests:
        if manifest.kind in APPROVALS and _is_true(mapping_at(manifest.body, "status"), "Approved"):
            run = str(value_at(manifest.body, "spec", "parentStageRollout") or "")
            granted.setdefault((manifest.namespace, run), []).append(manifest.name)
    return granted


def _run(manifest: Manifest, conditions: Mapping[str, Mapping[str, Any]], granted: Iterable[str]) -> ShownRun:
    status = mapping_at(manifest.body, "status")
    initialized, succeeded = conditions["Initialized"], conditions.get("Succeeded", {})
    failed = initialized.get("status") == "False"
    ending = initialized if failed else succeeded
    stages = [*mappings_at(status, "stagesStatus"), mapping_at(status, "deletionStageStatus")]
    clusters = {str(stage.get("stageName") or ""): mappings_at(stage, "clusters") for stage in stages[:-1]}
    everyone = [each for stage in stages for each in mappings_at(stage, "clusters")]
    return ShownRun(
        name=manifest.name,
        namespace=manifest.namespace,
        placement=str(value_at(manifest.body, "spec", "placementName") or ""),
        ended=failed or succeeded.get("status") in ("True", "False"),
        succeeded=succeeded.get("status") == "True",
        reason=str(ending.get("message") or ""),
        policy_snapshot=_whole(status.get("policySnapshotIndexUsed")),
        cluster_count=_whole(status.get("policyObservedClusterCount")),
        resource_snapshot=_whole(status.get("resourceSnapshotIndexUsed")),
        stages=tuple((name, tuple(map(_name_of, each))) for name, each in clusters.items()),
        done=tuple(_name_of(each) for each in everyone if _is_true(each, "Succeeded")),
        approved=tuple(sorted({*granted, *_approved(stages)})),
        overrides={_name_of(each): tuple(override_names(each)) for each in everyone},
        strategy=mapping_at(status, "stagedUpdateStrategySnapshot") or None,
        apply=mapping_at(status, "appliedStrategy") or None,
    )


def _approved(stages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The approval requests that were granted."""
    for stage in stages:
        for key in ("beforeStageTaskStatus", "afterStageTaskStatus"):
            for task in mappings_at(stage, key):
                if _is_true(task, "ApprovalRequestApproved"):
                    yield str(task.get("approvalRequestName") or "")


def _name_of(cluster: Mapping[str, Any]) -> str:
    return str(cluster.get("clusterName") or "")


def _is_true(part: Mapping[str, Any], condition: str) -> bool:
    return _by_type({"status": part}).get(condition, {}).get("status") == "True"


def _by_type(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(one.get("type")): one for one in conditions_of(body)}


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 10 else None
