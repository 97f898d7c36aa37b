"""Programs on loopback, in a private directory."""

import base64
import ctypes
import os
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from msgspec import json

from nexusform.files.program_environment import build_program_environment
from nexusform.network.api_client import ApiClient, ApiRequest
from nexusform.network.http_client import WebResponse
from nexusform.network.web_errors import WebError, find_free_port

_START_SECONDS: Final = 90.0
_STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005
# PR_SET_PDEATHSIG of Linux.
_DEATH_SIGNAL: Final = 1
DISABLED_ADMISSION: Final = (
    "ServiceAccount,TaintNodesByCondition,Priority,"
    "DefaultTolerationSeconds,LimitRanger,RuntimeClass"
)
# DER of an EC private key of P-256 around its 32 random bytes (RFC 5915), without the public key.
_KEY_HEAD = bytes.fromhex("30310201010420")
_KEY_TAIL = bytes.fromhex("a00a06082a8648ce3d030107")
_Result = TypeVar("_Result")


class ProgramProblem(Exception):
    """Program without a start, a stopped one, or an error of its own."""


class RejectedRequestError(ProgramProblem):
    """Request that the API server rejects."""


class LoopbackPrograms:
    """Running programs.

    `call` sends a request to the API server, as an administrator.
    """

    def __init__(self, programs: Path, directory: Path) -> None:
        """Keep the directories of the programs and of their files; no program is started yet."""
        self._programs = programs
        self._directory = directory
        # Processes by name of the program.
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # Of the API server, once it is started.
        self._client: ApiClient | None = None
        self.kubeconfig = directory / "kubeconfig"

    def start_api_server(self, *flags: str, disabled_admission: str = DISABLED_ADMISSION) -> None:
        """Start etcd and kube-apiserver without these admission plug-ins; wait for their answers.

        Raises ProgramProblem.
        """
        client_port, peer_port, port = (find_free_port() for _ in range(3))
        etcd = f"http://127.0.0.1:{client_port}"
        peer = f"http://127.0.0.1:{peer_port}"
        directory = self._directory
        self.start(
            "etcd",
            f"--data-dir={directory}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        token = secrets.token_hex(32)
        _write_private(directory / "tokens.csv", f'{token},admin,1,"system:masters"\n')
        key = base64.b64encode(_KEY_HEAD + secrets.token_bytes(32) + _KEY_TAIL).decode()
        _write_private(
            directory / "sa.key",
            f"-----BEGIN EC PRIVATE KEY-----\n{key}\n-----END EC PRIVATE KEY-----\n",
        )
        self.start(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={directory}/certs",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory}/sa.key",
            f"--service-account-signing-key-file={directory}/sa.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={directory}/tokens.csv",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={disabled_admission}",
            "--endpoint-reconciler-type=none",
            *flags,
        )
        authority = directory / "certs" / "apiserver.crt"
        context = self.wait_for("kube-apiserver", lambda: _load_authority(authority))
        address = f"https://127.0.0.1:{port}"
        self._write_kubeconfig(address, authority, token)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._client = ApiClient(address, verify=context, headers=headers, trust_env=False)
        self.wait_for("kube-apiserver", lambda: self._is_served("/readyz"))
        self.wait_for("kube-apiserver", lambda: self._is_served("/api/v1/namespaces/default"))

    def start(
        self, name: str, *flags: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Start a program with these variables, PATH and HOME alone.

        Raises ProgramProblem.
        """
        with (self._directory / f"{name}.log").open("wb") as log:
            try:
                self._processes[name] = subprocess.Popen(  # noqa: S603 - the operator's own programs
                    [str(self._programs / name), *flags],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._directory,
                    env={
                        "PATH": os.environ.get("PATH", ""),
                        "HOME": str(self._directory),
                        **environment,
                    },
                    # An interrupt of the terminal is for nexusform.
                    start_new_session=True,
                    preexec_fn=_stop_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one thread
                )
            except OSError as problem:
                raise ProgramProblem(
                    f"{self._programs / name} cannot be started: {problem.strerror}"
                ) from None

    def wait_for(
        self, name: str, condition: Callable[[], _Result], seconds: float = _START_SECONDS
    ) -> _Result:
        """Wait until a condition of a running program has a result, and return it.

        Raises ProgramProblem.
        """
        end = time.monotonic() + seconds
        while not (result := condition()):
            if self._processes[name].poll() is not None:
                raise ProgramProblem(f"{name} stopped. {self._read_last_line(name)}")
            if time.monotonic() > end:
                raise ProgramProblem(
                    f"{name} did not answer within {seconds:.0f} s. {self._read_last_line(name)}"
                )
            time.sleep(_POLL_SECONDS)
        return result

    def wait_for_end(self, name: str, seconds: float) -> bool:
        """Wait for the end of a program; return False if it still runs.

        Raises ProgramProblem if it failed.
        """
        try:
            code = self._processes[name].wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        if code:
            raise ProgramProblem(f"{name} stopped. {self._read_last_line(name)}")
        return True

    def get_path(self, name: str) -> Path:
        """Return the path of a file in the private directory."""
        return self._directory / name

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, patch: str = ""
    ) -> dict[str, Any]:
        """Return the API server's JSON answer, {} for a 404.

        `patch` is its kind, such as "merge-patch". Raises ProgramProblem, or RejectedRequestError.
        """
        try:
            answer = self._send_once(method, path, body, patch)
        except WebError as problem:
            raise ProgramProblem(f"kube-apiserver does not answer: {problem}") from None
        if answer.status == 404:
            return {}
        content: dict[str, Any] = (
            json.decode(answer.content) if answer.content.startswith(b"{") else {}
        )
        if not answer.is_success:
            raise RejectedRequestError(
                f"kube-apiserver rejects {method} {path}: {content.get('message', answer.status)}"
            )
        return content

    def close(self) -> None:
        """Stop all programs together; kill those still running after a time."""
        if self._client is not None:
            self._client.close()
        for process in reversed(self._processes.values()):
            process.terminate()
        end = time.monotonic() + _STOP_SECONDS
        for process in self._processes.values():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _is_served(self, path: str) -> bool:
        """Return whether the API server answers a read with success."""
        with suppress(WebError):
            return self._send_once("GET", path, body=None, patch="").is_success
        return False

    def _send_once(
        self, method: str, path: str, body: Mapping[str, Any] | None, patch: str
    ) -> WebResponse:
        """Send a request to the API server; `path` may have a query.

        Raises WebError.
        """
        assert self._client is not None, "start_api_server was called"
        headers = {"Content-Type": f"application/{patch}+json"} if patch else {}
        path, _, query = path.partition("?")
        parameters = dict(parse_qsl(query))
        content = json.encode(body) if body is not None else None
        return self._client.send(ApiRequest(method, path, parameters, content, headers))

    def _write_kubeconfig(self, address: str, authority: Path, token: str) -> None:
        """Write a private kubeconfig for an administrator.

        `authority` is the path of the CA certificate.
        """
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "check",
            "clusters": [
                {
                    "name": "check",
                    "cluster": {"server": address, "certificate-authority": str(authority)},
                }
            ],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "check", "context": {"cluster": "check", "user": "admin"}}],
        }
        _write_private(self.kubeconfig, json.encode(document).decode())

    def _read_last_line(self, name: str) -> str:
        """Return a sentence with the last line in the log of a program."""
        lines = (
            (self._directory / f"{name}.log")
            .read_text("utf-8", errors="replace")
            .strip()
            .splitlines()
        )
        return f"Its last message: {lines[-1][:300]}" if lines else "It has no message."


@contextmanager
def open_programs(programs: str) -> Iterator[LoopbackPrograms]:
    """Provide the programs of a directory; all are stopped at the end."""
    with tempfile.TemporaryDirectory(
        prefix="nexusform-check-", ignore_cleanup_errors=True
    ) as directory:
        running = LoopbackPrograms(Path(programs).absolute(), Path(directory))
        try:
            yield running
        finally:
            running.close()


def read_version(program: Path, *flags: str) -> str:
    """Return the version printed by a program, such as "1.34.4", else "of unknown version".

    Raises ProgramProblem.
    """
    try:
        result = subprocess.run(  # noqa: S603 - the operator's own program
            [program, *flags],
            env=build_program_environment(),
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        reason = getattr(problem, "strerror", None) or f"no answer within {_START_SECONDS:.0f} s"
        raise ProgramProblem(f"{program} cannot be started: {reason}") from None
    words = result.stdout.split()
    return words[-1].removeprefix("v") if words else "of unknown version"


def _load_authority(path: Path) -> ssl.SSLContext | None:
    """Return the trust in a certificate; None if its file is not written yet or is half-written."""
    with suppress(FileNotFoundError, ssl.SSLError):
        return ssl.create_default_context(cafile=str(path))
    return None


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")


def _stop_with_parent() -> None:
    """Stop the program if nexusform is killed."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
