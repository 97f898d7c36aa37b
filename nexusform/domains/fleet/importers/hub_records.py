"""Observed evictions, staged runs and members as records.

Sources: KubeFleet apis/placement/v1beta1 (eviction_types.go, stageupdate_types.go) and
pkg/scheduler/clustereligibilitychecker at e160c1cd; conditions seen on a running hub.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.scalars import parse_integer
from nexusform.documents.times import parse_time
from nexusform.documents.yaml_documents import Node, TextPosition
from nexusform.domains.fleet.importers.fleet_export import (
    list_conditions,
    list_override_names,
    select_fleet_objects,
)
from nexusform.domains.fleet.importers.fleet_records import KeyedObject
from nexusform.domains.fleet.scheduling.bindings import Health
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


class ObservedRun(Struct, KeyedObject, frozen=True):
    """Started staged run.

    `ended` means that it does not continue, for the `reason`; it `succeeded` or failed.
    `policy_snapshot`, `cluster_count` and `resource_snapshot` are those of its start, None if
    unknown; `stages` its clusters by stage, `done` the finished ones. `approved` are names of
    granted approvals, `overrides` the override snapshots of each cluster. `strategy` is its
    strategy's spec at the start, `apply` that of its placement.
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


def read_evictions(manifests: Iterable[Manifest]) -> Iterator[ObservedEviction]:
    """Yield the completed evictions: the invalid ones, and those executed or not executed."""
    for manifest in select_fleet_objects(manifests, [EVICTION_KIND]):
        conditions = _index_conditions(manifest.body)
        valid_condition = conditions.get("Valid", {})
        executed_condition = conditions.get("Executed", {})
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
    """Yield the staged runs with a condition Initialized.

    They have started, or failed to start.
    """
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
            yield _read_run(
                manifest, conditions, approvals.get((manifest.namespace, manifest.name), [])
            )


def _read_run(
    manifest: Manifest, conditions: Mapping[str, Mapping[str, Any]], approvals: Iterable[str]
) -> ObservedRun:
    """Read a run with the condition Initialized; `approvals` are its granted approval requests."""
    status = get_mapping(manifest.body, "status")
    initialized = conditions["Initialized"]
    succeeded = conditions.get("Succeeded", {})
    is_init_failed = initialized.get("status") == "False"
    final_condition = initialized if is_init_failed else succeeded
    deletion_stage = get_mapping(status, "deletionStageStatus")
    # Of the last stage, only a failure counts.
    checked_stages = [*list_mappings(status, "stagesStatus"), {**deletion_stage, "clusters": []}]
    stage_failure = next(filter(None, map(_find_stage_failure, checked_stages)), "")
    # names of clusters by stage.
    stages: dict[str, tuple[str, ...]] = {}
    # Of all stages.
    clusters: list[Mapping[str, Any]] = []
    approved = set(approvals)
    for stage in list_mappings(status, "stagesStatus"):
        stage_clusters = list_mappings(stage, "clusters")
        stages[get_text(stage, "stageName")] = tuple(map(_get_cluster_name, stage_clusters))
        clusters += stage_clusters
        approved.update(_find_granted_approvals(stage))
    clusters += list_mappings(deletion_stage, "clusters")
    approved.update(_find_granted_approvals(deletion_stage))
    return ObservedRun(
        name=manifest.name,
        namespace=manifest.namespace,
        placement=get_text(manifest.body, "spec", "placementName"),
        ended=is_init_failed or succeeded.get("status") in ("True", "False") or bool(stage_failure),
        succeeded=succeeded.get("status") == "True",
        reason=get_text(final_condition, "message") or stage_failure,
        policy_snapshot=parse_integer(status.get("policySnapshotIndexUsed")),
        cluster_count=parse_integer(status.get("policyObservedClusterCount")),
        resource_snapshot=parse_integer(status.get("resourceSnapshotIndexUsed")),
        stages=tuple(stages.items()),
        done=tuple(
            _get_cluster_name(item) for item in clusters if _has_true_condition(item, "Succeeded")
        ),
        approved=tuple(sorted(approved)),
        overrides={_get_cluster_name(item): tuple(list_override_names(item)) for item in clusters},
        strategy=get_mapping(status, "stagedUpdateStrategySnapshot") or None,
        apply=get_mapping(status, "appliedStrategy") or None,
    )


def _find_stage_failure(stage: Mapping[str, Any]) -> str:
    """Return why KubeFleet ends the run of a stage, "" if it goes on.

    It ends if the stage failed, or if it succeeded before one of its clusters. Source:
    validation.go of updaterun.
    """
    succeeded = _index_conditions({"status": stage}).get("Succeeded", {})
    name = get_text(stage, "stageName")
    if succeeded.get("status") == "False":
        return get_text(succeeded, "message") or f"stage {name} failed"
    clusters = list_mappings(stage, "clusters")
    unfinished = [item for item in clusters if not _has_true_condition(item, "Succeeded")]
    if succeeded.get("status") == "True" and unfinished:
        cluster = _get_cluster_name(unfinished[0])
        return f"cluster {cluster} in the finished stage {name} has not succeeded"
    return ""


def _find_granted_approvals(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the approval requests granted for the tasks before and after a stage."""
    for task in chain(
        list_mappings(stage, "beforeStageTaskStatus"), list_mappings(stage, "afterStageTaskStatus")
    ):
        if _has_true_condition(task, "ApprovalRequestApproved"):
            yield get_text(task, "approvalRequestName")


def _get_cluster_name(cluster: Mapping[str, Any]) -> str:
    return get_text(cluster, "clusterName")


def _has_true_condition(status: Mapping[str, Any], condition: str) -> bool:
    return _index_conditions({"status": status}).get(condition, {}).get("status") == "True"


def _index_conditions(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(condition.get("type")): condition for condition in list_conditions(body)}


_NO_LOCATION: Final = TextPosition(0, 0)


class ObservedMember(Struct, frozen=True):
    """Observed member; `namespaces` are None if not collected.

    Without `has_health` it counts as Healthy.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    health: Health = Health.HEALTHY
    properties: Mapping[str, str] = field(default_factory=dict)
    total: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    available: Mapping[str, str] = field(default_factory=dict)
    namespaces: tuple[str, ...] | None = None
    has_health: bool = True


def find_newest_heartbeat(members: Iterable[Mapping[str, Any]]) -> datetime | None:
    """Return the newest heartbeat time of MemberCluster objects, None without one.

    Their export is not older.
    """
    agents = (_find_agent(Node(body, _NO_LOCATION)) for body in members)
    times = (parse_time(agent.get_node("lastReceivedHeartbeat").text) for agent in agents)
    return max((time for time in times if time is not None), default=None)


def read_member_cluster(root: Node, now: datetime | None) -> ObservedMember:
    """Read a MemberCluster; `now` is the time of observation, None if unknown."""
    status = root.get_node("status")
    usage = status.get_node("resourceUsage")
    properties = {
        name: node.get_node("value") for name, node in status.get_node("properties").list_fields()
    }
    labels = _read_string_map(root.get_node("metadata", "labels"))
    # added by the hub.
    labels.pop("kubernetes-fleet.io/member-name", None)
    namespaces = None  # not collected
    if not _find_condition(status, "NamespaceCollectionSucceeded").is_absent:
        namespaces = tuple(sorted(name for name, _ in status.get_node("namespaces").list_fields()))
    return ObservedMember(
        labels=labels,
        taints=tuple(
            {"key": "", "value": "", "effect": "NoSchedule", **_read_string_map(taint)}
            for taint in root.get_node("spec", "taints").list_items()
        ),
        health=_determine_member_health(root, now),
        properties={
            name: str(node.data) for name, node in properties.items() if not node.is_absent
        },
        total=_read_string_map(usage.get_node("capacity")),
        allocatable=_read_string_map(usage.get_node("allocatable")),
        available=_read_string_map(usage.get_node("available")),
        namespaces=namespaces,
        # The health is derived from the status.
        has_health=not status.is_absent,
    )


def read_member_health(body: Mapping[str, Any], now: datetime | None) -> Health:
    """Return the health of a MemberCluster; `now` is the time of observation."""
    return _determine_member_health(Node(body, _NO_LOCATION), now)


def check_member_times(root: Node) -> Iterator[tuple[TextPosition, str]]:
    """Yield the location and message of each invalid time that affects a MemberCluster's health."""
    agent = _find_agent(root)
    healthy = _find_condition(agent, "Healthy")
    for parent, name in ((agent, "lastReceivedHeartbeat"), (healthy, "lastTransitionTime")):
        node = parent.get_node(name)
        if not node.is_absent and parse_time(node.text) is None:
            text = f'{name} "{node.data}" is not a time. Use a form such as "2026-01-31T10:00:00Z".'
            yield node.position, text


def _read_string_map(node: Node) -> dict[str, str]:
    return {name: str(value.data) for name, value in node.list_fields() if not value.is_absent}


def _find_agent(root: Node) -> Node:
    """Return the status of the member agent; an empty node if absent."""
    return _find_item(root.get_node("status", "agentStatus"), "MemberAgent")


def _find_condition(node: Node, kind: str) -> Node:
    """Return the condition of a type; an empty node if absent."""
    return _find_item(node.get_node("conditions"), kind)


def _find_item(items: Node, kind: str) -> Node:
    """Return the first item of a list with this value of `type`; an empty node if there is none."""
    found = (item for item in items.list_items() if item.get_node("type").text == kind)
    return next(found, Node(None, items.position))


def _is_older_than_limit(time: datetime | None, now: datetime | None) -> bool:
    """Return True if a time is missing (None) or over five minutes before `now`.

    If `now` is None, no time is.
    """
    return time is None or (now is not None and now - time > timedelta(minutes=5))


def _determine_member_health(root: Node, now: datetime | None) -> Health:
    """Return the first reason against a member's eligibility.

    HEALTHY and RECENTLY_UNHEALTHY members are eligible.
    """
    if not root.get_node("metadata", "deletionTimestamp").is_absent:
        return Health.LEAVING
    if root.get_node("status").is_absent:
        # No status was captured, so there is no reason against the member.
        return Health.HEALTHY
    agent = _find_agent(root)
    if agent.is_absent:
        return Health.NO_AGENT
    joined = _find_condition(agent, "Joined")
    healthy = _find_condition(agent, "Healthy")
    if _is_older_than_limit(parse_time(agent.get_node("lastReceivedHeartbeat").text), now):
        return Health.NO_HEARTBEAT
    if joined.get_node("status").text != "True":
        return Health.NOT_JOINED
    # The agent has not reported it yet.
    if healthy.is_absent:
        return Health.NO_HEALTH
    if healthy.get_node("status").text == "True":
        return Health.HEALTHY
    is_prolonged = _is_older_than_limit(
        parse_time(healthy.get_node("lastTransitionTime").text), now
    )
    return Health.UNHEALTHY if is_prolonged else Health.RECENTLY_UNHEALTHY
