"""Webhooks of a real API server.

They run in a local server with configurable validation and defaults, a TLS authority of its own,
and its registration.
"""

from __future__ import annotations

import base64
import copy
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.certificates import create_certificate
from tests.crowded_server import CrowdedServer, read_body
from tests.domains.hub.hub_front import WEBHOOK, Body, RequestRejection, Rule, get_collection_path

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_GROUPS = ["placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"]
# Seconds until an API server honours a registration or its removal.
_PATIENCE = 60
_PROBE = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "probe"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "probe"}]
    },
}

Ask = Callable[..., Any]


class Webhooks:
    """Admission webhooks of a test.

    `deny` returns the reason against a write: its arguments are the user, the object before, and
    the object after. `change` fills in missing fields. `is_silent` means that no server listens
    at their address.
    """

    def __init__(
        self,
        ask: Ask,
        where: Path,
        deny: Callable[[str, Body | None, Body], str],
        change: Callable[[Body], None] | None = None,
        *,
        is_silent: bool = False,
    ) -> None:
        self._send_request = ask
        self._deny = deny
        self._change = change
        self._heard = threading.Event()
        folder = where / "webhooks"
        folder.mkdir(exist_ok=True)
        certificate, key = create_certificate(folder)
        self._http = CrowdedServer(
            ("127.0.0.1", 0), type("Handler", (_RequestHandler,), {"webhooks": self})
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._http.socket = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        # Port 9 has no listener.
        self._address = f"https://127.0.0.1:{9 if is_silent else self._http.server_address[1]}"
        self._authority = base64.b64encode(certificate.read_bytes()).decode()
        self._register("Validating")
        if change is not None:
            self._register("Mutating")
        self._until(lambda status: status == 500 if is_silent else self._heard.is_set())

    def close(self) -> None:
        """Remove the registration from the API server."""
        for kind in ("validating", "mutating"):
            self._send_request("DELETE", f"{_CONFIGURATIONS}/{kind}webhookconfigurations/{WEBHOOK}")

        def is_unregistered(status: int) -> bool:
            was_heard = self._heard.is_set()
            self._heard.clear()
            return status < 300 and not was_heard

        self._heard.set()
        self._until(is_unregistered)
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, review: Body) -> Body:
        """Return the answer to an admission review."""
        self._heard.set()
        request = review["request"]
        after = request["object"]
        response = {"uid": request["uid"], "allowed": True}
        if path == "/mutating":
            assert self._change is not None
            before = copy.deepcopy(after)
            self._change(after)
            if after != before:
                patch = json.dumps([{"op": "replace", "path": "/spec", "value": after["spec"]}])
                response |= {
                    "patchType": "JSONPatch",
                    "patch": base64.b64encode(patch.encode()).decode(),
                }
        else:
            denied = self._deny(request["userInfo"]["username"], request.get("oldObject"), after)
            if denied:
                response |= {"allowed": False, "status": {"code": 403, "message": denied}}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        }

    def _register(self, what: str) -> None:
        url = f"{self._address}/{what.lower()}"
        webhook = {
            "name": WEBHOOK,
            "clientConfig": {"url": url, "caBundle": self._authority},
            "rules": [
                {
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": _GROUPS,
                    "apiVersions": ["*"],
                    "resources": ["*"],
                }
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
        }
        kind = f"{what}WebhookConfiguration"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": WEBHOOK},
        }
        answer = self._send_request(
            "POST", f"{_CONFIGURATIONS}/{kind.lower()}s", {}, {**body, "webhooks": [webhook]}
        )
        assert answer.is_success, answer.text

    def _until(self, holds: Callable[[int], bool]) -> None:
        """Wait until a dry run has the expected result."""
        end = time.monotonic() + _PATIENCE
        path = get_collection_path("ClusterResourcePlacement")
        while not holds(self._send_request("POST", path, {"dryRun": "All"}, _PROBE).status_code):
            assert time.monotonic() < end, "the API server does not heed its webhooks"
            time.sleep(0.1)


class _RequestHandler(BaseHTTPRequestHandler):
    webhooks: Webhooks
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(read_body(self))
        data = json.dumps(self.webhooks.answer(self.path.partition("?")[0], review)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return


def build_denial(rule: Rule) -> Callable[[str, Body | None, Body], str]:
    """Return a function with the reason of a rule against a write."""

    def deny(user: str, before: Body | None, after: Body) -> str:
        try:
            rule(user, before, after)
        except RequestRejection as refused:
            return str(refused).partition("denied the request: ")[2]
        return ""

    return deny
