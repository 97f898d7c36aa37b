"""Authentication by a program that prints a token, such as kubelogin and the credential plug-ins of clouds.
All versions of the API are called alike. Source: kubernetes.io, "Authenticating", client-go credential
plugins.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_EXEC_INFO_VARIABLE: Final = "KUBERNETES_EXEC_INFO"
_MAX_MESSAGE: Final = 200  # characters of a program's error output, of its last line: earlier ones may have secrets
_SECONDS: Final = 60  # time limit: an interactive sign-in prompt would not be visible


class ExecPluginProblem(Exception):
    """Program without a token: the message has the program and the reason."""


class ExecPlugin(Struct, frozen=True):
    """A program with arguments, environment and API version, and the cluster if it needs it."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    version: str
    cluster: Mapping[str, Any] | None = None

    def fetch_token(self) -> str:
        """Run the program and return its token. Raises PluginProblem."""
        name = Path(self.command[0]).name
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        exec_info = json.dumps({"kind": "ExecCredential", "apiVersion": self.version, "spec": spec})
        environment = {**os.environ, **self.environment, _EXEC_INFO_VARIABLE: exec_info}
        try:
            result = subprocess.run(  # noqa: S603
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise ExecPluginProblem(
                f"The sign-in program {name} did not finish within {_SECONDS} s. If it waits for input, "
                "run it by hand first."
            ) from None
        except OSError as problem:
            raise ExecPluginProblem(f"Cannot run the sign-in program {name}: {problem}") from None
        if result.returncode:
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            last_line = lines[-1].strip()[:_MAX_MESSAGE] if lines else "no error output"
            raise ExecPluginProblem(f"The sign-in program {name} failed ({result.returncode}): {last_line}")
        token = _parse_token(result.stdout)
        if not token:
            raise ExecPluginProblem(f"The sign-in program {name} printed no ExecCredential with a token.")
        return token


def _parse_token(output: bytes) -> str:
    try:
        document = json.loads(output)
    except ValueError:
        return ""
    status = document.get("status") if isinstance(document, dict) else None
    token = status.get("token") if isinstance(status, dict) else None
    return token if isinstance(token, str) else ""
