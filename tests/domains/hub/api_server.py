"""A hub with a real API server.

Requests are forwarded to it, and the controller of the tests acts on it.
"""

from __future__ import annotations

import copy
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

from httpx2 import Client, HTTPError, Response

from nexusform.domains.hub.api.hub_kinds import READ_KINDS, WORK
from tests.domains.hub.api_programs import APPLY, MERGE, ApiPrograms
from tests.domains.hub.hub_front import (
    PLURALS,
    Body,
    Front,
    Rule,
    get_api_version,
    get_collection_path,
    merge_patch,
)
from tests.domains.hub.real_webhooks import Webhooks, build_denial

# Seconds between actions of the controller during a watch; it also acts on every request.
_ACTS = 0.5
_SYSTEM = {"default", "fleet-system", "kube-node-lease", "kube-public", "kube-system"}
_READS = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ApiServer(Front):
    """The API server started by `programs`; `leave` removes everything from it for the next hub."""

    def __init__(self, programs: ApiPrograms) -> None:
        context = ssl.create_default_context(cafile=programs.authority)
        self._client = Client(base_url=programs.url, verify=context, timeout=60)
        self._listed: dict[str, list[Body]] = {}
        self._programs = programs
        self._forgets = False
        self._webhooks: list[Webhooks] = []
        # Server and controller at the last time without work left.
        self._at_rest: Any = None
        _grant_bob_read_access(self._send_request)
        super().__init__()

    # --- for tests and the controller -------------------------------------------------------------

    def all(self, kind: str, namespace: str = "") -> list[Body]:
        found = self._listed.get(kind)
        if found is None:
            answer = self._send_request("GET", get_collection_path(kind)).json()
            named = {"apiVersion": answer["apiVersion"], "kind": kind}
            found = self._listed[kind] = [{**named, **each} for each in answer["items"]]
        return [
            each
            for each in found
            if not namespace or each["metadata"].get("namespace") == namespace
        ]

    def get(self, kind: str, name: str, namespace: str = "") -> Body | None:
        for each in self.all(kind):
            if (each["metadata"].get("namespace", ""), each["metadata"]["name"]) == (
                namespace,
                name,
            ):
                return each
        return None

    def put(self, body: Body, manager: str = "hubagent") -> Body:
        kind = body["kind"]
        metadata = body["metadata"]
        name = metadata["name"]
        namespace = metadata.get("namespace", "")
        with self.lock:
            before = self.get(kind, name, namespace)
            if before is not None and merge_patch(copy.deepcopy(before), body) == before:
                return before
            self._listed.pop(kind, None)
            path = get_collection_path(kind, namespace)
            query = {"fieldManager": manager}
            rest = {each: value for each, value in body.items() if each != "status"}
            rest["apiVersion"] = get_api_version(kind)
            if before is None:
                after = self._written("POST", path, query, rest)
            else:
                after = self._written("PATCH", f"{path}/{name}", query, rest)
            if "status" in body:
                status = {"status": body["status"]}
                after = self._written("PATCH", f"{path}/{name}/status", query, status)
            return after

    def remove(self, body: Body) -> None:
        with self.lock:
            self.hold(body)
            path = _get_object_path(body)
            if body["kind"] == "Namespace":
                self._empty(body["metadata"]["name"])
                names = {name: body[name] for name in ("apiVersion", "kind")}
                named = {"metadata": {"name": body["metadata"]["name"]}, "spec": {"finalizers": []}}
                self._send_request("PUT", f"{path}/finalize", {}, {**names, **named})
            elif body["metadata"].get("finalizers"):
                self._send_request("PATCH", path, {}, {"metadata": {"finalizers": None}}, MERGE)

    def hold(self, body: Body) -> None:
        with self.lock:
            self._listed.pop(body["kind"], None)
            self._send_request("DELETE", _get_object_path(body))

    def leave(self) -> None:
        """Empty the hub and disconnect from it."""
        for webhooks in self._webhooks:
            webhooks.close()
        with self.lock:
            self._listed.clear()
            self._at_rest = None
            for kind in (*READ_KINDS, WORK):
                for body in self.all(kind.kind):
                    self.remove(body)
            for namespace in self.all("Namespace"):
                if namespace["metadata"]["name"] not in _SYSTEM:
                    self.remove(namespace)
            self._client.close()

    def act(self) -> None:
        """Let the controller do its pending work, and remove deleted namespaces."""
        with self.lock:
            for _ in range(0 if self._client.is_closed else 6):
                standing = self._compute_activity_mark()
                if standing == self._at_rest:
                    return
                for namespace in self.all("Namespace"):
                    if namespace["metadata"].get("deletionTimestamp"):
                        self.remove(namespace)
                self.controller(self)
                if self._compute_activity_mark() == standing:
                    self._at_rest = standing

    def judge(self, deny: Callable[[Body], str] | None) -> None:
        def rule(_user: str, _before: Body | None, after: Body) -> str:
            return deny(after) if deny is not None else ""

        self._webhooks.append(
            Webhooks(self._send_request, self._programs.where, rule, is_silent=deny is None)
        )

    def admit(self, rule: Rule, fill_in: Callable[[Body], None]) -> None:
        self._webhooks.append(
            Webhooks(self._send_request, self._programs.where, build_denial(rule), fill_in)
        )

    def forget(self) -> None:
        self._forgets = True

    def _compute_activity_mark(self) -> Any:
        """Return a value that changes on any activity.

        It has the server's version and the controller's settings.
        """
        self._listed.clear()
        answer = self._send_request("GET", "/api/v1/namespaces", {"limit": "1"})
        return answer.json()["metadata"]["resourceVersion"], repr(
            getattr(self.controller, "__dict__", "")
        )

    def _empty(self, namespace: str) -> None:
        """Do a namespace controller's work before the deletion of a namespace."""
        inside = [
            kind for (group, _), (kind, namespaced) in PLURALS.items() if namespaced and not group
        ]
        inside += [kind.kind for kind in (*READ_KINDS, WORK) if kind.is_namespaced]
        for kind in (*inside, "Deployment"):
            for body in self.all(kind, namespace):
                self.remove(body)

    # --- requests --------------------------------------------------------------------------------

    def respond(
        self, method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Any]:
        apply = query.pop("#type", "") == "apply"
        content_type = (APPLY if apply else MERGE) if method == "PATCH" else "application/json"
        self._listed.clear()
        if self._forgets and query.get("resourceVersionMatch") == "Exact":
            self._programs.forget()
        answer = self._send_request(method, path, query, content, content_type, token)
        told = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.status_code, answer.json() if told else answer.text

    def events(self, path: str, query: dict[str, str], token: str) -> Iterator[Body]:
        ended = threading.Event()
        threading.Thread(target=self._act_until, args=(ended,), daemon=True).start()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if self._forgets:
            self._programs.forget()
        try:
            with self._client.stream(
                "GET", path, params=query, headers=headers, timeout=600
            ) as answer:
                for line in answer.iter_lines():
                    if self.closed:
                        return
                    event = json.loads(line)
                    yield event if answer.is_success else {"type": "ERROR", "object": event}
        except HTTPError:
            if not self.closed:
                raise
        finally:
            ended.set()

    def _act_until(self, ended: threading.Event) -> None:
        while not ended.wait(_ACTS) and not self.closed:
            self.act()

    def _written(self, method: str, path: str, query: dict[str, str], body: Body) -> Body:
        answer = self._send_request(
            method, path, query, body, MERGE if method == "PATCH" else "application/json"
        )
        assert answer.is_success, f"{method} {path}: {answer.text}"
        written: Body = answer.json()
        return written

    def _send_request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        token: str = "admin-token",
    ) -> Response:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        headers |= {"Content-Type": content_type} if content else {}
        return self._client.request(method, path, params=query, content=content, headers=headers)


def _grant_bob_read_access(ask: Callable[..., Response]) -> None:
    named = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "readers"}}
    bob = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
    ask("POST", f"{_RBAC}/clusterroles", {}, {**named, "kind": "ClusterRole", "rules": [_READS]})
    binding = {**named, "kind": "ClusterRoleBinding", "subjects": [bob], "roleRef": role}
    ask("POST", f"{_RBAC}/clusterrolebindings", {}, binding)


def _get_object_path(body: Body) -> str:
    metadata = body["metadata"]
    return f"{get_collection_path(body['kind'], metadata.get('namespace', ''))}/{metadata['name']}"
