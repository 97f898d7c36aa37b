"""A configurable controller for the hub server: the picked clusters, and their progress."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.domains.hub.hub_front import Body, Front
from tests.domains.hub.hub_runs import execute_run

_FLEET = "kubernetes-fleet.io"
_API = f"placement.{_FLEET}/v1beta1"
_PARENT = f"{_FLEET}/parent-CRP"
_LATEST = f"{_FLEET}/is-latest-snapshot"
_OVERRIDE = f"{_FLEET}/parent-resource-override"
# A required field of override snapshots, not read by tests.
_HASH = "bm9uZQ=="


def build_member(name: str, **labels: str) -> Body:
    """Return a joined member with heartbeats."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at}
        for kind in ("Joined", "Healthy")
    ]
    agent = {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": at}
    return {
        "apiVersion": f"cluster.{_FLEET}/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "identity": {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        },
        "status": {"agentStatus": [agent], "conditions": conditions},
    }


class Controller:
    """Simulated controllers of a hub.

    With `evicts`, they delete the bindings named by evictions. `picks` are clusters by placement
    (default: the last members by name). `stuck` are clusters without progress. With `asleep`, they
    do nothing at all. `holding` are clusters that keep removed resources. With `overrides_wait`,
    they ignore overrides. For `late` further requests they pick as before. With `holds_back`,
    rollouts apply no override and no new content to existing bindings. With `sees_nothing`, they do
    not know any selectable object.
    """

    def __init__(self) -> None:
        self.picks: dict[str, list[str]] = {}
        self.stuck: set[str] = set()
        self.holding: set[str] = set()
        self.asleep = False
        self.evicts = False
        self.overrides_wait = False
        self.late = 0
        self.holds_back = False
        self.sees_nothing = False

    def __call__(self, server: Front) -> None:
        if self.asleep:
            return
        if not self.overrides_wait:
            for kind in ("ClusterResourceOverride", "ResourceOverride"):
                self._write_override_snapshots(server, kind)
        self.late -= self.late > 0
        for placement in server.all("ClusterResourcePlacement"):
            self._place(server, placement)
        self._clean(server)
        for run in server.all("ClusterStagedUpdateRun"):
            self._execute_run(server, run)
        for eviction in server.all("ClusterResourcePlacementEviction"):
            if not eviction.get("status"):
                self._evict(server, eviction)

    def _evict(self, server: Front, eviction: Body) -> None:
        """Check an eviction against the budget of its placement, and delete its binding.

        The eviction names the binding.
        """
        name, cluster = (eviction["spec"][each] for each in ("placementName", "clusterName"))
        bindings = {
            each["spec"]["targetCluster"]: each for each in self._list_bindings(server, name)
        }
        budget = server.get("ClusterResourcePlacementDisruptionBudget", name)
        least = budget["spec"].get("minAvailable", 0) if budget is not None else 0
        valid = cluster in bindings
        executed = len(bindings) > least
        told = {"Valid": str(valid)} | ({"Executed": str(executed)} if valid else {})
        server.put({**_build_reference(eviction), "status": _build_status(1, **told)})
        if valid and executed and self.evicts:
            self._release_binding(server, bindings[cluster])

    def _place(self, server: Front, placement: Body) -> None:
        name = placement["metadata"]["name"]
        spec = placement["spec"]
        # This is a separate update.
        if not (spec.get("strategy") or {}).get("type"):
            server.put(
                {**_build_reference(placement), "spec": {"strategy": {"type": "RollingUpdate"}}}
            )
            return
        external = spec["strategy"]["type"] == "External"
        policy = spec.get("policy") or {}
        members = sorted(
            (each["metadata"]["name"] for each in server.all("MemberCluster")), reverse=True
        )
        clusters = self.picks.get(name, members[: policy.get("numberOfClusters", len(members))])
        if self.late:
            clusters = [
                b["spec"]["targetCluster"] for b in self._list_bindings(server, name)
            ] or clusters
        generation = placement["metadata"]["generation"]
        self._write_policy_snapshot(server, name, policy, generation)
        index = None if external else self._content(server, name, spec)
        there = (
            {each["spec"]["targetCluster"] for each in self._list_bindings(server, name)}
            if external
            else set()
        )
        for cluster in clusters:
            # External bindings are left to staged runs.
            if cluster not in there:
                self._bind(server, name, cluster, index)
        for binding in self._list_bindings(server, name):
            if binding["spec"]["targetCluster"] not in clusters:
                self._release_binding(server, binding)
        self._report(server, placement, clusters, external=external)

    def _execute_run(self, server: Front, run: Body) -> None:
        """Let a staged run apply the content selected by its placement."""
        name = run["spec"]["placementName"]
        placement = server.get("ClusterResourcePlacement", name)
        if placement is None:
            return
        clusters = sorted(
            each["spec"]["targetCluster"] for each in self._list_bindings(server, name)
        )

        used = (run.get("status") or {}).get("resourceSnapshotIndexUsed") or run["spec"].get(
            "resourceSnapshotIndex"
        )
        index = int(used) if used else self._content(server, name, placement["spec"])

        def update_cluster(cluster: str) -> bool:
            self._bind(server, name, cluster, index)
            return cluster not in self.stuck

        execute_run(server, run, clusters, index, update_cluster)

    def _report(
        self, server: Front, placement: Body, clusters: list[str], *, external: bool
    ) -> None:
        """Write the status of a placement with the messages of a hub when it is complete.

        Before that, write only the decision.
        """
        generation = placement["metadata"]["generation"]
        number = len(clusters)
        labels = [each["metadata"]["labels"] for each in server.all("ClusterResourceSnapshot")]
        name = placement["metadata"]["name"]
        latest = [each for each in labels if each[_PARENT] == name and each[_LATEST] == "true"]
        index = latest[0][f"{_FLEET}/resource-index"] if latest else ""
        stopped = external or self.stuck & set(clusters)
        words = _OF_PLACEMENT[:1] if stopped else _OF_PLACEMENT
        of_clusters = [
            {
                "clusterName": cluster,
                "observedResourceIndex": index,
                "conditions": _build_conditions(
                    generation, _OF_CLUSTER[: 1 if stopped else 6], cluster
                ),
            }
            for cluster in clusters
        ]
        conditions = _build_conditions(generation, words, number)
        if external:
            conditions.append(
                {**_build_conditions(generation, [_LEFT_TO_RUNS], "")[0], "status": "Unknown"}
            )
            for each in of_clusters:
                each["conditions"].append(
                    {**_build_conditions(generation, [_NOT_BEGUN], "")[0], "status": "Unknown"}
                )
        status = {
            "conditions": conditions,
            "observedResourceIndex": index,
            "placementStatuses": of_clusters,
            "selectedResources": self._list_selected(server, name, index),
        }
        server.put({**_build_reference(placement), "status": status})

    def _list_selected(self, server: Front, name: str, index: str) -> list[Body]:
        snapshot = server.get("ClusterResourceSnapshot", f"{name}-{index}-snapshot") or {"spec": {}}
        return [
            {
                "version": each["apiVersion"].rpartition("/")[2],
                "kind": each["kind"],
                **{n: each["metadata"][n] for n in ("namespace", "name") if n in each["metadata"]},
            }
            for each in snapshot["spec"].get("selectedResources") or ()
        ]

    def _write_policy_snapshot(
        self, server: Front, name: str, policy: Body, generation: int
    ) -> None:
        """Write the snapshot of a policy.

        Every change except the number of clusters makes a new one.
        """
        before = self._find_latest_policy(server, name)
        number = policy.get("numberOfClusters")
        index = 0 if before is None else int(before["metadata"]["labels"][f"{_FLEET}/policy-index"])
        is_new = before is None or _remove_number(before["spec"]["policy"]) != _remove_number(
            policy
        )
        if before is not None and is_new:
            index += 1
            metadata = {**_build_reference(before)["metadata"], "labels": {_LATEST: "false"}}
            server.put({**_build_reference(before), "metadata": metadata})
        body: Body = {
            "apiVersion": _API,
            "kind": "ClusterSchedulingPolicySnapshot",
            "metadata": {
                "name": f"{name}-{index}",
                "labels": {_LATEST: "true", _PARENT: name, f"{_FLEET}/policy-index": str(index)},
                "annotations": {f"{_FLEET}/number-of-clusters": str(number)} if number else {},
            },
            "status": {"observedCRPGeneration": generation},
        }
        if is_new:
            body["spec"] = {"policy": policy, "policyHash": _compute_hash(policy)}
        server.put(body)

    def _find_latest_policy(self, server: Front, name: str) -> Body | None:
        for each in server.all("ClusterSchedulingPolicySnapshot"):
            labels = each["metadata"]["labels"]
            if labels[_PARENT] == name and labels[_LATEST] == "true":
                return each
        return None

    def _content(self, server: Front, name: str, spec: Body) -> int:
        """Return the index of the snapshot with the currently selected content."""
        names = {each["name"] for each in spec["resourceSelectors"] if each["kind"] == "Namespace"}
        objects = [
            _remove_server_fields(each)
            for each in server.all("Namespace")
            if each["metadata"]["name"] in names
        ]
        kinds = ("ConfigMap", "Secret", "Deployment")
        inside = [
            each
            for kind in kinds
            for each in sorted(server.all(kind), key=lambda each: each["metadata"]["name"])
        ]
        objects += [
            _remove_server_fields(each) for each in inside if each["metadata"]["namespace"] in names
        ]
        objects = [] if self.sees_nothing else objects
        digest = hashlib.sha256(json.dumps(objects, sort_keys=True).encode()).hexdigest()
        known = [
            each
            for each in server.all("ClusterResourceSnapshot")
            if each["metadata"]["labels"][_PARENT] == name
        ]
        for each in known:
            if each["metadata"]["labels"][_LATEST] == "true":
                if each["metadata"]["annotations"]["digest"] == digest:
                    return int(each["metadata"]["labels"][f"{_FLEET}/resource-index"])
                metadata = {**_build_reference(each)["metadata"], "labels": {_LATEST: "false"}}
                server.put({**_build_reference(each), "metadata": metadata})
        index = len(known)
        server.put(
            {
                "apiVersion": _API,
                "kind": "ClusterResourceSnapshot",
                "metadata": {
                    "name": f"{name}-{index}-snapshot",
                    "labels": {
                        _LATEST: "true",
                        _PARENT: name,
                        f"{_FLEET}/resource-index": str(index),
                    },
                    "annotations": {"digest": digest},
                },
                "spec": {"selectedResources": objects},
            }
        )
        return index

    def _write_override_snapshots(self, server: Front, kind: str) -> None:
        """Write a snapshot of each current override, and remove those of deleted ones."""
        standing = {_get_name(each): each for each in server.all(kind)}
        latest: dict[tuple[str, str], Body] = {}
        for snapshot in server.all(f"{kind}Snapshot"):
            of = (_get_name(snapshot)[0], snapshot["metadata"]["labels"][_OVERRIDE])
            if of not in standing:
                server.remove(snapshot)
            elif snapshot["metadata"]["labels"][_LATEST] == "true":
                latest[of] = snapshot
        for (namespace, name), override in standing.items():
            before = latest.get((namespace, name))
            if before is not None and before["spec"]["overrideSpec"] == override["spec"]:
                continue
            index = 0
            if before is not None:
                index = int(before["metadata"]["name"].rpartition("-")[2]) + 1
                metadata = {**_build_reference(before)["metadata"], "labels": {_LATEST: "false"}}
                server.put({**_build_reference(before), "metadata": metadata})
            metadata = {"name": f"{name}-{index}", "labels": {_LATEST: "true", _OVERRIDE: name}}
            metadata |= {"namespace": namespace} if namespace else {}
            spec = {"overrideSpec": json.loads(json.dumps(override["spec"])), "overrideHash": _HASH}
            server.put(
                {"apiVersion": _API, "kind": f"{kind}Snapshot", "metadata": metadata, "spec": spec}
            )

    def _list_overrides(self, server: Front, name: str) -> Body:
        """Return the overrides of a placement as in its bindings; all clusters get all of them."""
        lists: Body = {}
        for key, kind in (("cluster", "ClusterResource"), ("", "Resource")):
            listed = [
                _build_reference(each)["metadata"]
                for each in server.all(f"{kind}OverrideSnapshot")
                if each["metadata"]["labels"][_LATEST] == "true"
                and (each["spec"]["overrideSpec"].get("placement") or {}).get("name") == name
            ]
            lists[f"{key}ResourceOverrideSnapshots" if key else "resourceOverrideSnapshots"] = (
                [each["name"] for each in listed] if key else listed
            )
        return lists

    def _list_bindings(self, server: Front, name: str) -> list[Body]:
        every = server.all("ClusterResourceBinding")
        return [each for each in every if each["metadata"]["labels"][_PARENT] == name]

    def _bind(self, server: Front, name: str, cluster: str, index: int | None) -> None:
        state = "Scheduled" if index is None else "Bound"
        snapshot = "" if index is None else f"{name}-{index}-snapshot"
        overrides = self._list_overrides(server, name)
        before = server.get("ClusterResourceBinding", f"{name}-{cluster}-0")
        policy = self._find_latest_policy(server, name)
        assert policy is not None
        if self.holds_back and before is not None:
            overrides = {each: before["spec"].get(each) for each in overrides}
            snapshot = before["spec"]["resourceSnapshotName"]
        body: Body = {
            "apiVersion": _API,
            "kind": "ClusterResourceBinding",
            "metadata": {
                "name": f"{name}-{cluster}-0",
                "labels": {_PARENT: name},
                "finalizers": [f"{_FLEET}/work-cleanup"],
            },
            "spec": {
                "state": state,
                "targetCluster": cluster,
                "resourceSnapshotName": snapshot,
                "schedulingPolicySnapshotName": policy["metadata"]["name"],
                **overrides,
                "clusterDecision": {
                    "clusterName": cluster,
                    "selected": True,
                    "clusterScore": {"affinityScore": 0, "priorityScore": 0},
                    "reason": _SCHEDULED.format(cluster),
                },
            },
        }
        written = server.put(body)
        generation = written["metadata"]["generation"]
        conditions = (
            [] if index is None else _build_conditions(generation, _OF_CLUSTER[1:], cluster)
        )
        for each in conditions[-2:] if cluster in self.stuck else ():
            each.update(
                status="False",
                reason="NotAllWorkHaveBeenApplied",
                message="Work has failed to apply",
            )
        server.put({**_build_reference(written), "status": {"conditions": conditions}})

    def _release_binding(self, server: Front, binding: Body) -> None:
        if binding["spec"]["targetCluster"] in self.holding:
            server.hold(binding)
        else:
            server.remove(binding)

    def _clean(self, server: Front) -> None:
        """Remove the bindings of deleted placements."""
        names = {each["metadata"]["name"] for each in server.all("ClusterResourcePlacement")}
        for binding in server.all("ClusterResourceBinding"):
            if binding["metadata"]["labels"][_PARENT] not in names:
                self._release_binding(server, binding)


def _remove_number(policy: Body) -> Body:
    return {name: each for name, each in policy.items() if name != "numberOfClusters"}


def _compute_hash(policy: Body) -> str:
    """Return the field of bytes with the hash; the hub sorts the fields of a policy by kind."""
    fields = ("placementType", "clusterNames", "affinity", "topologySpreadConstraints")
    ordered = {name: policy[name] for name in (*fields, "tolerations") if name in policy}
    text = json.dumps(ordered, separators=(",", ":"))
    return b64encode(hashlib.sha256(text.encode()).hexdigest().encode()).decode()


def _get_name(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _build_reference(body: Body) -> Body:
    metadata = {
        name: body["metadata"][name] for name in ("name", "namespace") if name in body["metadata"]
    }
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata}


def _remove_server_fields(body: Body) -> Body:
    rest: Body = {name: value for name, value in body.items() if name not in ("metadata", "status")}
    metadata = body["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    return {**rest, "metadata": kept}


def _build_status(generation: int, **statuses: str) -> Body:
    told = [(kind, "AsTold", "") for kind in statuses]
    conditions = _build_conditions(generation, told, "")
    for each in conditions:
        each["status"] = statuses[each["type"]]
    return {"conditions": conditions}


def _build_conditions(
    generation: int, told: Sequence[tuple[str, str, str]], about: Any
) -> list[Body]:
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message.format(about),
            "observedGeneration": generation,
            "lastTransitionTime": "2026-11-21T02:11:19Z",
        }
        for kind, reason, message in told
    ]


_SCHEDULED = (
    'Successfully scheduled resources for placement in "{}" (affinity score: 0, topology spread '
    "score: 0): picked by scheduling policy"
)
_NO_OVERRIDE = "No override rules are configured for the selected resources"
# The messages are those of a running hub.
_OF_PLACEMENT = [
    (f"ClusterResourcePlacement{kind}", reason, message)
    for kind, reason, message in (
        (
            "Scheduled",
            "SchedulingPolicyFulfilled",
            "found all cluster needed as specified by the scheduling policy, found {} cluster(s)",
        ),
        (
            "RolloutStarted",
            "RolloutStarted",
            "All {} cluster(s) start rolling out the latest resource",
        ),
        ("Overridden", "NoOverrideSpecified", _NO_OVERRIDE),
        (
            "WorkSynchronized",
            "WorkSynchronized",
            "Work(s) are successfully created or updated in {} target cluster(s)' namespaces",
        ),
        (
            "Applied",
            "ApplySucceeded",
            "The selected resources are successfully applied to {} cluster(s)",
        ),
        (
            "Available",
            "ResourceAvailable",
            "The selected resources in {} cluster(s) are available now",
        ),
    )
]
_LEFT_TO_RUNS = (
    "ClusterResourcePlacementRolloutStarted",
    "RolloutControlledByExternalController",
    (
        "Rollout is controlled by an external controller and no resource snapshot name is observed "
        "across clusters. To determine rollout status, check the ClusterStagedUpdateRun resources "
        "with spec.placementName matching this placement"
    ),
)
_NOT_BEGUN = (
    "RolloutStarted",
    "RolloutStartedUnknown",
    "In the process of deciding whether to roll out some version of the resources or not",
)
_OF_CLUSTER = [
    ("Scheduled", "Scheduled", _SCHEDULED),
    (
        "RolloutStarted",
        "RolloutStarted",
        "Detected the new changes on the resources and started the rollout process",
    ),
    ("Overridden", "NoOverrideSpecified", _NO_OVERRIDE),
    ("WorkSynchronized", "AllWorkSynced", "All of the works are synchronized to the latest"),
    ("Applied", "AllWorkHaveBeenApplied", "All corresponding work objects are applied"),
    ("Available", "AllWorkAreAvailable", "All corresponding work objects are available"),
]
