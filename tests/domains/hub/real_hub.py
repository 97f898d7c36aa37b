"""A real hub: an API server, KubeFleet's hub agent, and simulated members."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.domains.hub.api_programs import MERGE, ApiPrograms, free_port, object_of

# A hub considers a member lost after five minutes.
_HEARTBEAT_SECONDS = 30
_FINALIZER = "kubernetes-fleet.io/work-cleanup"
_CLUSTER = "/apis/cluster.kubernetes-fleet.io/v1beta1"
_PLACEMENT = "/apis/placement.kubernetes-fleet.io/v1beta1"


class MemberRuntime(Protocol):
    """Runs the objects applied to members."""

    def apply(self, member: str, work: Mapping[str, Any]) -> bool:
        """Apply a Work; return whether its objects are available."""
        ...

    def remove(self, member: str, work: Mapping[str, Any]) -> None:
        """Remove the objects of a Work."""
        ...


class RealHub(ApiPrograms):
    """Start all programs in a directory; `close` ends them.

    Without a `runtime`, all Works are available at once. `collection` is the time for which the
    hub agent collects changes of content into one snapshot.
    """

    def __init__(self, programs: Path, crds: Path, where: Path, *, collection: str = "0s") -> None:
        super().__init__(programs, crds, where)
        self._collection = collection
        self._ended = threading.Event()
        # All members that ever joined.
        self._names: set[str] = set()
        self.runtime: MemberRuntime | None = None
        # Members whose agents neither report nor apply.
        self.unreachable: set[str] = set()
        try:
            self._start_controllers()
        except BaseException:
            self._end_processes()
            raise

    def _start_controllers(self) -> None:
        where = self.where
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--controllers=namespace-controller,garbage-collector-controller",
            f"--cert-dir={where}/certs-of-controllers",
        )
        self._start(
            "hubagent",
            "--leader-elect=false",
            f"--metrics-bind-address=127.0.0.1:{free_port()}",
            f"--health-probe-bind-address=127.0.0.1:{free_port()}",
            "--enable-webhook=false",
            "--enable-guard-rail=false",
            "--enable-cluster-inventory-apis=false",
            "--resource-snapshot-creation-minimum-interval=0s",
            f"--resource-changes-collection-duration={self._collection}",
        )

    def close(self) -> None:
        self._ended.set()
        super().close()

    # --- members ---------------------------------------------------------------------------------

    def join(self, members: Mapping[str, Mapping[str, str]]) -> None:
        """Let members join, and simulate their agents from now on."""
        identity = {"kind": "User", "name": "member", "apiGroup": "rbac.authorization.k8s.io"}
        for name, labels in members.items():
            body = object_of("cluster.kubernetes-fleet.io/v1beta1", "MemberCluster", name)
            body["metadata"]["labels"] = dict(labels)
            self.apply(
                f"{_CLUSTER}/memberclusters/{name}",
                {**body, "spec": {"identity": identity}},
                "join",
            )
        if not self._names:
            threading.Thread(target=self._simulate_agents, daemon=True).start()
        self._names |= members.keys()
        self._until(lambda: all(self._has_joined(name) for name in members))

    def leave(self, name: str) -> None:
        """Let a member leave, and wait for the deletion of its namespace."""
        self.call("DELETE", f"{_CLUSTER}/memberclusters/{name}")
        paths = (f"{_CLUSTER}/memberclusters/{name}", f"/api/v1/namespaces/fleet-member-{name}")
        self._until(lambda: all(self.call("GET", path).get("error") == 404 for path in paths))

    def _has_joined(self, name: str) -> bool:
        status = self.call("GET", f"{_CLUSTER}/memberclusters/{name}").get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return conditions.get("Joined") == "True" and bool(status.get("agentStatus"))

    def _simulate_agents(self) -> None:
        done: dict[str, int] = {}
        next_beat = 0.0
        while not self._ended.wait(0.3):
            is_due = time.monotonic() > next_beat
            next_beat = time.monotonic() + _HEARTBEAT_SECONDS if is_due else next_beat
            for name in sorted(self._names):
                self._send_heartbeat(name, is_due=is_due)
            for work in self.call("GET", f"{_PLACEMENT}/works").get("items") or ():
                self._apply_work(work, done)

    def _send_heartbeat(self, name: str, *, is_due: bool) -> None:
        if name in self.unreachable:
            return
        path = f"{_CLUSTER}/namespaces/fleet-member-{name}/internalmemberclusters/{name}"
        own = self.call("GET", path)
        if "error" in own:
            return
        if (own.get("spec") or {}).get("state") == "Leave":
            conditions = _build_conditions(own["metadata"]["generation"], Joined="Left")
            conditions[0]["status"] = "False"
            agent = {
                "type": "MemberAgent",
                "conditions": conditions,
                "lastReceivedHeartbeat": _format_time(),
            }
            self.call("PATCH", f"{path}/status", {"status": {"agentStatus": [agent]}}, MERGE)
            return
        if (own.get("status") or {}).get("agentStatus") and not is_due:
            return
        conditions = _build_conditions(
            own["metadata"]["generation"], Joined="Joined", Healthy="Healthy"
        )
        agent = {
            "type": "MemberAgent",
            "conditions": conditions,
            "lastReceivedHeartbeat": _format_time(),
        }
        self.call("PATCH", f"{path}/status", {"status": {"agentStatus": [agent]}}, MERGE)

    def _apply_work(self, work: Mapping[str, Any], done: dict[str, int]) -> None:
        metadata = work["metadata"]
        path = f"{_PLACEMENT}/namespaces/{metadata['namespace']}/works/{metadata['name']}"
        member = str(metadata["namespace"]).removeprefix("fleet-member-")
        if member in self.unreachable:
            return
        if metadata.get("deletionTimestamp"):
            if self.runtime is not None:
                self.runtime.remove(member, work)
            self.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            return
        generation = metadata["generation"]
        if done.get(metadata["uid"]) == generation:
            return
        # A member's agent does the same.
        if self.runtime is not None and not metadata.get("finalizers"):
            self.call("PATCH", path, {"metadata": {"finalizers": [_FINALIZER]}}, MERGE)
        conditions = _build_conditions(
            generation, Applied="WorkAppliedSuccess", Available="WorkAvailable"
        )
        is_available = self.runtime is None or self.runtime.apply(member, work)
        if not is_available:
            conditions[1] |= {"status": "False", "reason": "WorkNotAvailableYet"}
        answer = self.call("PATCH", f"{path}/status", {"status": {"conditions": conditions}}, MERGE)
        if "error" not in answer and is_available:
            done[metadata["uid"]] = generation


def _build_conditions(generation: int, **reasons: str) -> list[dict[str, Any]]:
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": _format_time(),
        }
        for kind, reason in reasons.items()
    ]


def _format_time() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
