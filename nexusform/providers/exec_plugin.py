"""Signing in by a program, as kubelogin and the plug-ins of clouds do: it prints a token.

Every version of the API is asked alike. Source: kubernetes.io, "Authenticating", client-go credential
plugins.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_HEARS: Final = "KUBERNETES_EXEC_INFO"
_NOT_SIGNED_IN: Final = 401
_SECONDS: Final = 60  # that it may take: somebody whom it asks to sign in would not see that


class PluginProblem(Exception):
    """A program gives no token: the message says which, and why."""


class ExecPlugin(Struct, frozen=True):
    """A program with its arguments, what is added to the environment, the version of the API that it speaks,
    and the cluster where it wants to hear of it.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    version: str
    cluster: Mapping[str, Any] | None = None

    def token(self) -> str:
        """Run it. Raises PluginProblem."""
        name = Path(self.words[0]).name
        environment = {**os.environ, **self.environment, _HEARS: self._heard()}
        try:
            ended = subprocess.run(  # noqa: S603
                self.words,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise PluginProblem(
                f"{name}, which signs in, is not done within {_SECONDS} s. Does it wait for a person? "
                "Sign in with it by hand first."
            ) from None
        except OSError as problem:
            raise PluginProblem(f"{name}, which signs in, cannot be run: {problem}") from None
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip() or "it says nothing"
            raise PluginProblem(f"{name}, which signs in, fails ({ended.returncode}): {said}")
        token = _token_of(ended.stdout)
        if not token:
            raise PluginProblem(f"{name}, which signs in, prints no ExecCredential with a token.")
        return token

    def _heard(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        return json.dumps({"kind": "ExecCredential", "apiVersion": self.version, "spec": spec})


def _token_of(printed: bytes) -> str:
    try:
        document = json.loads(printed)
    except ValueError:
        return ""
    status = document.get("status") if isinstance(document, dict) else None
    token = status.get("token") if isinstance(status, dict) else None
    return token if isinstance(token, str) else ""


def signed_in_by(plug_in: ExecPlugin) -> Any:
    """What signs requests of httpx in by a plug-in's token, which is asked for anew once it is refused."""
    from httpx2 import Auth, Request, Response

    class SignedIn(Auth):
        token = ""

        def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
            if self.token:
                request.headers["Authorization"] = f"Bearer {self.token}"
                answer = yield request
                if answer.status_code != _NOT_SIGNED_IN:
                    return
            self.token = plug_in.token()
            request.headers["Authorization"] = f"Bearer {self.token}"
            yield request

    return SignedIn()
