"""A real API server: etcd and kube-apiserver, started in a directory with the kinds of a fleet."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nexusform.domains.hub.api.hub_kinds import READ_KINDS, WORK
from nexusform.files import sandbox
from nexusform.files.regular_files import Confinement
from tests.certificates import create_signing_key

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
TOKENS = """admin-token,admin,1,"system:masters"
renewed-token,admin,1,"system:masters"
bob-token,bob,2,
"""
_CASES = os.environ.get("NEXUSFORM_HUB_CASES", "")
CRDS = Path(_CASES) / "crds"
_DISABLED_PLUGINS = "--disable-admission-plugins"
PROGRAMS = Path(os.environ.get("NEXUSFORM_HUB_PROGRAMS", ""))


def find_obstacle(*programs: str) -> str:
    """Return the reason against starting these programs, or "" if there is none."""
    absent = [name for name in programs if not (PROGRAMS / name).is_file()]
    if absent:
        return f"NEXUSFORM_HUB_PROGRAMS (build_hub.sh makes them, of Go) names no {absent[0]}"
    if not _CASES or not CRDS.is_dir():
        return "NEXUSFORM_HUB_CASES names no definitions of a fleet's kinds"
    return ""


# Ports of the servers of tests on this machine.
_TEST_PORTS: set[int] = set()


def _let_sandboxes_use(ports: set[int]) -> None:
    """Let the sandbox of each command in this process use servers of a test.

    Threads of the test use them, too, while a command runs: the front that forwards its requests,
    and the agents of members.
    """
    if not _TEST_PORTS:
        create = sandbox._create_sandbox

        def create_with_servers(confinement: Confinement, paths: Iterable[str]) -> sandbox.Sandbox:
            created = create(confinement, paths)
            created.servers.update(("127.0.0.1", port) for port in _TEST_PORTS)
            return created

        sandbox._create_sandbox = create_with_servers
    _TEST_PORTS.update(ports)


class ApiPrograms:
    """Start both programs in a directory; `close` ends them."""

    def __init__(self, programs: Path, crds: Path, where: Path, *flags: str) -> None:
        self._programs = programs
        self.where = where
        self._processes: list[subprocess.Popen[bytes]] = []
        client = free_port()
        peer = free_port()
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.authority = f"{where}/certs/apiserver.crt"
        self._etcd = f"http://127.0.0.1:{client}"
        _let_sandboxes_use({self._port, client})
        try:
            self._begin(peer, crds, flags)
        except BaseException:
            self._end_processes()
            raise

    def _begin(self, peer: int, crds: Path, flags: tuple[str, ...]) -> None:
        where = self.where
        etcd = self._etcd
        if not any(flag.startswith(_DISABLED_PLUGINS) for flag in flags):
            flags = (f"{_DISABLED_PLUGINS}=ServiceAccount", *flags)
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
        create_signing_key(where / "sa.key", algorithm="rsa")
        (where / "tokens.csv").write_text(TOKENS)
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
            "--endpoint-reconciler-type=none",
            *flags,
        )
        self.kubeconfig = self._write_kubeconfig()
        self._until(lambda: "error" not in self.call("GET", "/readyz"))
        for file in sorted(crds.glob("*.yaml")):
            group, _, plural = file.stem.partition("_")
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}"
            self.call("PATCH", f"{path}?fieldManager=setup&force=true", file.read_bytes(), APPLY)
        self.apply("/api/v1/namespaces/fleet-system", object_of("v1", "Namespace", "fleet-system"))
        # None for pods without recordings of a hub.
        for kind in (*READ_KINDS, WORK) if any(crds.glob("*.yaml")) else ():
            self._until(lambda kind=kind: "items" in self.call("GET", f"{kind.collection}?limit=1"))

    def close(self) -> None:
        self._end_processes()

    def _end_processes(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def forget(self) -> None:
        """Let all earlier versions be too old; this is the case after five minutes anyway."""
        # A watch continues after its start version.
        for _ in range(2):
            put = self._etcd_call("put", {"key": base64.b64encode(b"now").decode(), "value": ""})
        self._etcd_call("compaction", {"revision": put["header"]["revision"], "physical": True})

    def _etcd_call(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._etcd}/v3/kv/{what}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            told: dict[str, Any] = json.loads(answer.read())
        return told

    def _start(self, program: str, *flags: str) -> None:
        with (self.where / f"{program}.log").open("wb") as log:
            environment = {
                **os.environ,
                "KUBECONFIG": f"{self.where}/kubeconfig",
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
        path = self.where / "kubeconfig"
        cluster = {"server": self.url, "certificate-authority": self.authority}
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
            assert time.monotonic() < end, f"the hub does not come up: see {self.where}"
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
        return self.call("PATCH", f"{path}?fieldManager={manager}&force=true", body, APPLY)

    def try_creation(self, path: str, body: Mapping[str, Any]) -> str:
        """Create an object in a dry run; return the message of its rejection, "" for none."""
        headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}{path}?dryRun=All", json.dumps(body).encode(), headers, method="POST"
        )
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, context=context, timeout=30):
                return ""
        except urllib.error.HTTPError as problem:
            return str(json.loads(problem.read())["message"])


def object_of(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
