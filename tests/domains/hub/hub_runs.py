"""Staged runs executed by the controller of the tests, up to a required approval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.domains.hub.hub_front import Body, Front

_FLEET = "kubernetes-fleet.io"
_AT = "2026-11-21T02:08:25Z"
# Updates a cluster with the content of a run; returns whether it succeeds there.
Update = Callable[[str], bool]


def execute_run(hub: Front, run: Body, clusters: list[str], index: int, update: Update) -> None:
    """Advance a run as far as possible.

    `clusters` are those of its placement, `index` is its snapshot.
    """
    if run["spec"].get("state") != "Run" or _has_condition(run.get("status") or {}, "Succeeded"):
        return
    strategy = hub.get("ClusterStagedUpdateStrategy", run["spec"]["stagedRolloutStrategyName"])
    assert strategy is not None
    stages = list(_run_stages(hub, run, strategy["spec"]["stages"], clusters, update))
    done = len(stages) == len(strategy["spec"]["stages"]) and all(
        _has_condition(each, "Succeeded") for each in stages
    )
    told = [("Initialized", "True", "UpdateRunInitializedSuccessfully")]
    told.append(
        (
            "Progressing",
            "False" if done else "True",
            "UpdateRunSucceeded" if done else "Progressing",
        )
    )
    told += [("Succeeded", "True", "UpdateRunSucceeded")] if done else []
    status = {
        "policySnapshotIndexUsed": "0",
        "policyObservedClusterCount": len(clusters),
        "resourceSnapshotIndexUsed": str(index),
        "stagesStatus": stages,
        "stagedUpdateStrategySnapshot": strategy["spec"],
        "deletionStageStatus": {"stageName": f"{_FLEET}/deleteStage", "clusters": []},
        "conditions": _build_conditions(told, run["metadata"]["generation"]),
    }
    hub.put({**_build_reference(run), "status": status})


def _run_stages(
    hub: Front, run: Body, stages: list[Body], clusters: list[str], update: Update
) -> Iterator[Body]:
    """Yield the status of each reached stage."""
    for stage in stages:
        selected = [name for name in clusters if _is_cluster_in_stage(hub, name, stage)]
        works = {name: update(name) for name in selected}
        requests = [
            _ensure_approval_request(hub, run, stage)
            for task in stage.get("afterStageTasks") or ()
            if task
        ]
        ends = all(works.values()) and all(
            _has_condition(each.get("status") or {}, "Approved") for each in requests
        )
        yield {
            "stageName": stage["name"],
            "clusters": [_build_cluster_status(name, works=works[name]) for name in selected],
            "conditions": _build_conditions(
                [("Succeeded", "True", "StageUpdatingSucceeded")] if ends else []
            ),
        }
        if not ends:
            return


def _is_cluster_in_stage(hub: Front, cluster: str, stage: Body) -> bool:
    wanted = (stage.get("labelSelector") or {}).get("matchLabels") or {}
    member = hub.get("MemberCluster", cluster) or {"metadata": {}}
    labels = member["metadata"].get("labels") or {}
    return bool(wanted.items() <= labels.items())


def _build_cluster_status(name: str, *, works: bool) -> Body:
    told = [("Started", "True", "ClusterUpdatingStarted")]
    told += [("Succeeded", "True", "ClusterUpdatingSucceeded")] if works else []
    return {"clusterName": name, "conditions": _build_conditions(told)}


def _ensure_approval_request(hub: Front, run: Body, stage: Body) -> Body:
    """Return the approval request of a stage; create it after its clusters are updated."""
    name = f"{run['metadata']['name']}-after-{stage['name']}"
    there = hub.get("ClusterApprovalRequest", name)
    labels = {
        f"{_FLEET}/targetUpdateRun": run["metadata"]["name"],
        f"{_FLEET}/targetUpdatingStage": stage["name"],
        f"{_FLEET}/isLatestUpdateRunApproval": "true",
    }
    return there or hub.put(
        {
            "apiVersion": run["apiVersion"],
            "kind": "ClusterApprovalRequest",
            "metadata": {"name": name, "labels": labels},
            "spec": {"parentStageRollout": run["metadata"]["name"], "targetStage": stage["name"]},
        }
    )


def _build_reference(body: Body) -> Body:
    kept = {name: body[name] for name in ("apiVersion", "kind")}
    return {**kept, "metadata": {"name": body["metadata"]["name"]}}


def _has_condition(status: Body, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())


def _build_conditions(
    told: list[tuple[str, str, str]], generation: int = 1
) -> list[dict[str, Any]]:
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": _AT,
        }
        for kind, status, reason in told
    ]
