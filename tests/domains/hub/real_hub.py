"""A real hub: etcd, an API server and KubeFleet's hub agent, and members that are played beside it."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_CLUSTER = "/apis/cluster.kubernetes-fleet.io/v1beta1"
_PLACEMENT = "/apis/placement.kubernetes-fleet.io/v1beta1"


class RealHub:
    """Starts all of it in a directory; `close` ends it."""

    def __init__(self, programs: Path, crds: Path, where: Path) -> None:
        self._programs, self._where = programs, where
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ended = threading.Event()
        client, peer, self._port = _port(), _port(), _port()
        self.url = f"https://127.0.0.1:{self._port}"
        etcd = f"http://127.0.0.1:{client}"
        self._start(
            "etcd",
            f"--data-dir={where}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        subprocess.run(
            ["openssl", "genrsa", "-out", f"{where}/sa.key", "2048"], check=True, capture_output=True
        )
        (where / "tokens.csv").write_text('admin-token,admin,1,"system:masters"\nbob-token,bob,2,\n')
        self._start(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={where}/certs",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={where}/sa.key",
            f"--service-account-signing-key-file={where}/sa.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={where}/tokens.csv",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
        )
        self.kubeconfig = self._write_kubeconfig()
        self._until(lambda: "error" not in self.call("GET", "/readyz"))
        for file in sorted(crds.glob("*.yaml")):
            group, _, plural = file.stem.partition("_")
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}"
            self.call("PATCH", f"{path}?fieldManager=setup&force=true", file.read_bytes(), _APPLY)
        self.apply("/api/v1/namespaces/fleet-system", _object("v1", "Namespace", "fleet-system"))
        self._until(lambda: "items" in self.call("GET", f"{_PLACEMENT}/works"))
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--secure-port={_port()}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--controllers=namespace-controller,garbage-collector-controller",
            f"--cert-dir={where}/certs-of-controllers",
        )
        self._start(
            "hubagent",
            "--leader-elect=false",
            f"--metrics-bind-address=127.0.0.1:{_port()}",
            f"--health-probe-bind-address=127.0.0.1:{_port()}",
            "--enable-webhook=false",
            "--enable-guard-rail=false",
            "--enable-cluster-inventory-apis=false",
            "--resource-snapshot-creation-minimum-interval=0s",
            "--resource-changes-collection-duration=0s",
        )

    def close(self) -> None:
        self._ended.set()
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, program: str, *flags: str) -> None:
        with (self._where / f"{program}.log").open("wb") as log:
            environment = {
                **os.environ,
                "KUBECONFIG": f"{self._where}/kubeconfig",
                "POD_NAMESPACE": "fleet-system",
            }
            self._processes.append(
                subprocess.Popen(
                    [str(self._programs / program), *flags],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    env=environment,
                )
            )

    def _write_kubeconfig(self) -> Path:
        path = self._where / "kubeconfig"
        cluster = {"server": self.url, "certificate-authority": f"{self._where}/certs/apiserver.crt"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": "admin-token"}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "admin"}}],
        }
        path.write_text(json.dumps(document))
        return path

    def _until(self, holds: Any, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"the hub does not come up: see {self._where}"
            time.sleep(0.3)

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer admin-token", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, context=context, timeout=20) as answer:
                text = answer.read()
        except urllib.error.HTTPError as problem:
            problem.close()
            return {"error": problem.code}
        except OSError as problem:
            return {"error": str(problem)}
        return {"text": text.decode()} if not text.startswith(b"{") else json.loads(text)

    def apply(self, path: str, body: Mapping[str, Any], manager: str = "setup") -> dict[str, Any]:
        return self.call("PATCH", f"{path}?fieldManager={manager}&force=true", body, _APPLY)

    # --- members ---------------------------------------------------------------------------------

    def join(self, members: Mapping[str, Mapping[str, str]]) -> None:
        """Let members join, and play their agents from now on."""
        identity = {"kind": "User", "name": "member", "apiGroup": "rbac.authorization.k8s.io"}
        for name, labels in members.items():
            body = _object("cluster.kubernetes-fleet.io/v1beta1", "MemberCluster", name)
            body["metadata"]["labels"] = dict(labels)
            self.apply(f"{_CLUSTER}/memberclusters/{name}", {**body, "spec": {"identity": identity}}, "join")
        threading.Thread(target=self._play, args=(tuple(members),), daemon=True).start()
        self._until(lambda: all(self._has_joined(name) for name in members))

    def _has_joined(self, name: str) -> bool:
        status = self.call("GET", f"{_CLUSTER}/memberclusters/{name}").get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return conditions.get("Joined") == "True" and bool(status.get("agentStatus"))

    def _play(self, names: tuple[str, ...]) -> None:
        done: dict[str, int] = {}
        while not self._ended.wait(0.3):
            for name in names:
                self._beat(name)
            for work in self.call("GET", f"{_PLACEMENT}/works").get("items") or ():
                self._apply_work(work, done)

    def _beat(self, name: str) -> None:
        path = f"{_CLUSTER}/namespaces/fleet-member-{name}/internalmemberclusters/{name}"
        own = self.call("GET", path)
        if "error" in own or (own.get("status") or {}).get("agentStatus"):
            return
        conditions = _conditions(own["metadata"]["generation"], Joined="Joined", Healthy="Healthy")
        agent = {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": _now()}
        self.call("PATCH", f"{path}/status", {"status": {"agentStatus": [agent]}}, _MERGE)

    def _apply_work(self, work: Mapping[str, Any], done: dict[str, int]) -> None:
        metadata = work["metadata"]
        path = f"{_PLACEMENT}/namespaces/{metadata['namespace']}/works/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            self.call("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
            return
        generation = metadata["generation"]
        if done.get(metadata["uid"]) == generation:
            return
        conditions = _conditions(generation, Applied="WorkAppliedSuccess", Available="WorkAvailable")
        if "error" not in self.call(
            "PATCH", f"{path}/status", {"status": {"conditions": conditions}}, _MERGE
        ):
            done[metadata["uid"]] = generation


def _object(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _conditions(generation: int, **reasons: str) -> list[dict[str, Any]]:
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": _now(),
        }
        for kind, reason in reasons.items()
    ]


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
