"""Front end of every hub of the tests, our own or a real API server.

It has HTTP in the format of a hub, a request log, configured faults, and a
controller between requests.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from nexusform.domains.hub.api.hub_kinds import READ_KINDS, WORK
from tests.crowded_server import CrowdedServer, PlainRequestHandler, read_body

Body = dict[str, Any]
WEBHOOK = "owner.acme.example"
# User, object before (None: new), object after; raises RequestRejection
Rule = Callable[[str, Body | None, Body], None]
_CORE = {
    "namespaces": ("Namespace", False),
    "configmaps": ("ConfigMap", True),
    "secrets": ("Secret", True),
}
_CORE["pods"] = ("Pod", True)
_CORE["services"] = ("Service", True)
# Group and plural to kind and scope (True: namespaced)
PLURALS = {
    **{(kind.group, kind.plural): (kind.kind, kind.is_namespaced) for kind in (*READ_KINDS, WORK)},
    **{("", plural): said for plural, said in _CORE.items()},
    ("apps", "deployments"): ("Deployment", True),
}
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>status))?"
)
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
}


class RequestRejection(Exception):
    def __init__(self, status: int, message: str, causes: list[Body] | None = None) -> None:
        super().__init__(message)
        self.status = status
        details: Body = {"details": {"causes": causes}} if causes else {}
        self.body: Any = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": _REASONS.get(status, ""),
            **details,
            "code": status,
        }


HAND_OVER = "HAND OVER"


class Front:
    """`faults` are called before each request: a returned status is the answer; None for no fault.

    `carried_out` is called with each executed request, before its answer is sent. `log` has every
    request: method, path, whether it is a dry run, the status.
    """

    def __init__(self) -> None:
        self.may_watch = True
        # Path and status.
        self.watches: list[tuple[str, int]] = []
        # Paths of lists and watches with a version that was too old.
        self.expired: list[str] = []
        self.closed = False
        self.lock = threading.RLock()
        self.log: list[tuple[str, str, bool, int]] = []
        self.faults: Callable[[str, str], int | None] = lambda _method, _path: None
        self.carried_out: Callable[[str, str], None] = lambda _method, _target: None
        self.tokens = {"admin-token", "bob-token"}
        self.controller: Callable[[Front], None] = lambda _hub: None
        self._http = CrowdedServer(("127.0.0.1", 0), _build_handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.closed = True
        self._http.shutdown()
        self._http.server_close()

    def kubeconfig(self, directory: Path, user: str = "admin") -> Path:
        path = directory / f"kubeconfig.{user}"
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": {"server": self.url}}],
            "users": [{"name": user, "user": {"token": f"{user}-token"}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": user}}],
        }  # fmt: skip
        path.write_text(json.dumps(document))
        return path

    # --- implemented by each hub ------------------------------------------------------------------

    def all(self, kind: str, namespace: str = "") -> list[Body]:
        """Return all objects of a kind."""
        raise NotImplementedError

    def get(self, kind: str, name: str, namespace: str = "") -> Body | None:
        """Return an object."""
        raise NotImplementedError

    def put(self, body: Body, manager: str = "hubagent") -> Body:
        """Write an object as a manager without server-side apply: the fields become its own."""
        raise NotImplementedError

    def remove(self, body: Body) -> None:
        """Remove an object regardless of finalizers."""
        raise NotImplementedError

    def hold(self, body: Body) -> None:
        """Delete an object as far as its finalizers allow."""
        raise NotImplementedError

    def act(self) -> None:
        """Let the controller do its pending work."""
        raise NotImplementedError

    def judge(self, deny: Callable[[Body], str] | None) -> None:
        """Let the webhook WEBHOOK deny writes of a fleet's objects with a reason.

        With the reason None, the webhook does not answer.
        """
        raise NotImplementedError

    def admit(self, rule: Rule, fill_in: Callable[[Body], None]) -> None:
        """Let webhooks fill in missing fields of an object, and validate it."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let every version be too old from now on."""
        raise NotImplementedError

    def respond(
        self, method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Any]:
        """Return the answer to a request.

        Raises RequestRejection.
        """
        raise NotImplementedError

    def events(self, path: str, query: dict[str, str], token: str) -> Iterable[Body]:
        """Yield the events of a watch.

        Raises RequestRejection.
        """
        raise NotImplementedError

    # --- requests --------------------------------------------------------------------------------

    def answer(self, method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        with self.lock:
            try:
                self._raise_configured_fault(method, parts.path, token)
                self.act()
                status, body = self.respond(method, parts.path, query, token, content)
                if method != "GET" and "dryRun" not in query and status < 400:
                    self.act()
            except RequestRejection as refused:
                status = refused.status
                body = refused.body
            # The second request of a creation changes only the names of field managers.
            logged_method = HAND_OVER if b'"managedFields"' in content else method
            self.log.append((logged_method, parts.path, "dryRun" in query, status))
            self.expired += [parts.path] * (status == 410)
        self.carried_out(method, target)
        return status, body

    def watch(self, target: str, token: str) -> tuple[int, Any]:
        """Return the status of a watch, and its events or the error."""
        parts = urlsplit(target)
        match = PATH.fullmatch(parts.path)
        assert match is not None
        status = 200
        answer = {}
        try:
            self._raise_configured_fault("GET", parts.path, token)
            if not self.may_watch:
                raise build_forbidden(
                    "WATCH", match["group"] or "", match["plural"], match["namespace"] or "", ""
                )
            answer = self._record_expiry(
                parts.path, self.events(parts.path, dict(parse_qsl(parts.query)), token)
            )
        except RequestRejection as refused:
            status = refused.status
            answer = refused.body
        self.watches.append((parts.path, status))
        return status, answer

    def _record_expiry(self, path: str, events: Iterable[Body]) -> Iterator[Body]:
        for event in events:
            self.expired += [path] * (
                event["type"] == "ERROR" and event["object"].get("code") == 410
            )
            yield event

    def _raise_configured_fault(self, method: str, path: str, token: str) -> None:
        if token not in self.tokens:
            raise RequestRejection(401, "Unauthorized")
        fault = self.faults(method, path)
        if fault:
            raise RequestRejection(fault, "told to fail")


def _build_handler(server: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(PlainRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            content = read_body(self)
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if "watch=1" in self.path:
                return self._stream(*server.watch(self.path, token))
            kind = "apply" if "apply-patch" in self.headers.get("Content-Type", "") else "merge"
            joint = "&" if "?" in self.path else "?"
            return self._send(
                *server.answer(self.command, f"{self.path}{joint}%23type={kind}", token, content)
            )

        def _stream(self, status: int, events: Any) -> None:
            if status != 200:
                return self._send(status, events)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.close_connection = True
            for event in events:
                self.wfile.write(msgspec.json.encode(format_object(event)) + b"\n")
                self.wfile.flush()
            return None

        def _send(self, status: int, body: Any) -> None:
            is_text = isinstance(body, str)
            data = body.encode() if is_text else msgspec.json.encode(format_object(body))
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_DELETE = do_POST = do_PUT = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    return Handler


def build_forbidden(
    method: str, group: str, plural: str, namespace: str, name: str
) -> RequestRejection:
    verb = {
        "PATCH": "patch",
        "DELETE": "delete",
        "POST": "create",
        "PUT": "update",
        "WATCH": "watch",
    }[method]
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    resource = f"{plural}.{group}" if group else plural
    words = f'User "bob" cannot {verb} resource "{plural}" in API group "{group}" {where}'
    return RequestRejection(403, f'{resource} "{name}" is forbidden: {words}')


@cache
def get_group(kind: str) -> str:
    return next(group for (group, _), (served, _) in PLURALS.items() if served == kind)


def get_api_version(kind: str) -> str:
    """Return the API version of a kind, with its group."""
    group = get_group(kind)
    return f"{group}/v1beta1" if group.endswith("fleet.io") else f"{group}/v1".lstrip("/")


def get_collection_path(kind: str, namespace: str = "") -> str:
    """Return the path of a kind's objects, in all namespaces or in one."""
    group = get_group(kind)
    plural = next(
        each for (of, each), (served, _) in PLURALS.items() if (of, served) == (group, kind)
    )
    root = f"/apis/{get_api_version(kind)}" if group else f"/api/{get_api_version(kind)}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def copy_body(body: Any) -> Any:
    """Return a deep copy of a JSON value.

    `copy.deepcopy` takes ten times as long.
    """
    return msgspec.json.decode(msgspec.json.encode(body))


def merge_patch(before: Any, sent: Any) -> Any:
    """Apply a merge patch to a value in place, and return it."""
    if isinstance(before, dict) and isinstance(sent, dict):
        for name, value in sent.items():
            if value is None:
                before.pop(name, None)
            else:
                before[name] = merge_patch(before.get(name), value)
        return before
    return copy_body(sent)


def format_object(value: Any) -> Any:
    """Return an object with its managed fields in the format of an API server."""
    if isinstance(value, dict):
        if "#paths" in value:
            fields: Body = {}
            for path in value["#paths"]:
                here = fields
                for step in path:
                    here = here.setdefault(f"f:{step}", {})
            rest = {name: each for name, each in value.items() if name != "#paths"}
            return {**rest, "fieldsType": "FieldsV1", "fieldsV1": fields}
        return {name: format_object(each) for name, each in value.items()}
    return [format_object(each) for each in value] if isinstance(value, list) else value


def list_managed_fields(body: Body, manager: str) -> set[str]:
    """Return the paths of the fields of a manager, with dots."""
    entries = format_object(body["metadata"].get("managedFields") or [])
    owned = [each["fieldsV1"] for each in entries if each["manager"] == manager]
    return {path for fields in owned for path in _list_paths(fields, "")}


def _list_paths(fields: Body, above: str) -> Iterable[str]:
    for name, below in fields.items():
        if name != ".":
            path = f"{above}.{name.removeprefix('f:')}"
            yield path
            yield from _list_paths(below, path)
