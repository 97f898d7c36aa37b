"""Fakes of Keystone, Heat and the Nova zones with the endpoints used by Tacker.

Servers are only records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import yaml

from tests.crowded_server import CrowdedServer, PlainRequestHandler, read_body

GROUP = "OS::Heat::AutoScalingGroup"
SERVER = "OS::Nova::Server"


@dataclass
class Member:
    """Nested stack with one server; `group` is its scaling group."""

    name: str
    vdu: str
    zone: str | None
    file: str
    group: str = ""
    nested_id: str = field(default_factory=lambda: str(uuid4()))
    server_id: str = field(default_factory=lambda: str(uuid4()))
    created: str = ""
    properties: dict[str, Any] = field(default_factory=dict)
    is_unhealthy: bool = False


@dataclass
class Stack:
    name: str
    template: dict[str, Any]
    files: dict[str, Any]
    nfv: dict[str, Any]
    id: str = field(default_factory=lambda: str(uuid4()))
    status: str = "CREATE_COMPLETE"
    reason: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    is_deleted: bool = False


class OpenStackStandIn(CrowdedServer):
    """Fake of OpenStack.

    `full` are zones without a valid host; while `is_held`, operations stay in progress.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stacks: dict[str, Stack] = {}
        self.zones: tuple[str, ...] = ("az1",)
        self.full: set[str] = set()
        self.failures: list[str] = []
        self.is_held = False
        self.lock = Lock()
        self._seconds = 0
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def list_servers(self) -> list[Member]:
        return [member for stack in self.stacks.values() for member in stack.members.values()]

    def apply(self, stack: Stack, action: str) -> None:
        """Create and delete servers until the stack matches its template."""
        stack.status = f"{action}_COMPLETE"
        stack.reason = ""
        wanted = {member.name: member for member in self._list_wanted(stack)}
        for name in [name for name in stack.members if name not in wanted]:
            del stack.members[name]
        for name, member in wanted.items():
            existing = stack.members.get(name)
            if existing is not None and not existing.is_unhealthy:
                existing.properties = member.properties
                continue
            if existing is not None:
                member.nested_id = existing.nested_id
            if self.failures or member.zone in self.full:
                text = self.failures.pop(0) if self.failures else "No valid host was found. "
                stack.status = f"{action}_FAILED"
                prefix = f"Resource {action} failed: "
                if action == "UPDATE":
                    prefix += f"resources.{name}: Resource CREATE failed: "
                stack.reason = (
                    f"{prefix}ResourceInError: resources.{name}.resources.{member.vdu}: {text}"
                )
                if action == "UPDATE":
                    stack.reason = f"{prefix}ResourceInError: resources.{member.vdu}: {text}"
                return
            self._seconds += 1
            member.created = (
                datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)
            ).strftime("%Y-%m-%dT%H:%M:%SZ")
            stack.members[name] = member

    def _list_wanted(self, stack: Stack) -> Iterator[Member]:
        for name, resource in stack.template["resources"].items():
            if resource is None:
                continue
            properties = resource.get("properties") or {}
            if resource["type"] == GROUP:
                inner = properties["resource"]
                current = [member for member in stack.members.values() if member.group == name]
                count = int(_resolve(properties["desired_capacity"], stack.nfv))
                surplus = sorted(current, key=lambda member: not member.is_unhealthy)[
                    : max(len(current) - count, 0)
                ]
                names = [member.name for member in current if member not in surplus]
                names += [uuid4().hex[:10] for _ in range(count - len(names))]
                for member_name in names:
                    yield _build_member(member_name, inner, stack, name)
            elif resource["type"].endswith(".yaml"):
                yield _build_member(name, resource, stack, "")


def _build_member(name: str, resource: Mapping[str, Any], stack: Stack, group: str) -> Member:
    values = {
        key: _resolve(value, stack.nfv) for key, value in (resource.get("properties") or {}).items()
    }
    nested = yaml.safe_load(stack.files[resource["type"]])["resources"]
    vdu = next(key for key, value in nested.items() if value["type"] == SERVER)
    return Member(name, vdu, values.get("zone"), resource["type"], group, properties=values)


def _resolve(value: Any, nfv: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("get_param"), list):
        for key in value["get_param"][1:]:
            nfv = (nfv or {}).get(key)
        return nfv
    return value


def _list_resources(stack: Stack, url: str) -> Iterator[dict[str, Any]]:
    def link(name: str, identifier: str) -> list[dict[str, str]]:
        return [{"rel": "stack", "href": f"{url}/heat/stacks/{name}/{identifier}"}]

    groups = {member.group for member in stack.members.values() if member.group}
    for group in sorted(groups):
        yield {
            "resource_name": group,
            "resource_type": GROUP,
            "physical_resource_id": f"{stack.id}-{group}",
            "links": link(stack.name, stack.id),
        }
    for member in stack.members.values():
        parent = {"parent_resource": member.group} if member.group else {}
        owner = (
            link(f"{stack.name}-{member.group}", f"{stack.id}-{member.group}")
            if member.group
            else link(stack.name, stack.id)
        )
        yield {
            "resource_name": member.name,
            "resource_type": member.file,
            "physical_resource_id": member.nested_id,
            "links": owner,
            **parent,
        }
        yield {
            "resource_name": member.vdu,
            "resource_type": SERVER,
            "physical_resource_id": member.server_id,
            "creation_time": member.created,
            "parent_resource": member.name,
            "required_by": [],
            "links": link(f"{stack.name}-{member.name}", member.nested_id),
        }


class _Handler(PlainRequestHandler):
    server: OpenStackStandIn
    protocol_version = "HTTP/1.1"

    def handle_request(self) -> None:
        body = json.loads(read_body(self) or b"{}")
        path = urlsplit(self.path).path
        with self.server.lock:
            if path.startswith("/v3"):
                self._send_keystone(path)
            elif path.startswith("/nova"):
                hosts = {"host": {"nova-compute": {"available": True}}}
                zones = [
                    {"zoneName": zone, "zoneState": {"available": True}, "hosts": hosts}
                    for zone in self.server.zones
                ]
                self._send(200, {"availabilityZoneInfo": zones})
            else:
                self._handle_stack([part for part in path.split("/") if part][2:], body)

    def _send_keystone(self, path: str) -> None:
        if not path.endswith("/tokens"):
            version = {
                "id": "v3.14",
                "status": "stable",
                "links": [{"rel": "self", "href": f"{self.server.url}/v3/"}],
            }
            self._send(200, {"version": version})
            return
        catalog = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {
                        "id": kind,
                        "interface": "public",
                        "region": "R",
                        "region_id": "R",
                        "url": f"{self.server.url}/{name}",
                    }
                ],
            }
            for kind, name in (
                ("orchestration", "heat"),
                ("compute", "nova"),
                ("nfv-orchestration", "vnfm"),
            )
        ]
        token = {
            "methods": ["password"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "tacker", "domain": {"id": "d", "name": "Default"}},
            "project": {"id": "p", "name": "nfv", "domain": {"id": "d", "name": "Default"}},
            "roles": [{"id": "r", "name": "admin"}],
            "catalog": catalog,
        }
        self._send(201, {"token": token}, {"X-Subject-Token": "token-of-keystone"})

    def _handle_stack(self, parts: list[str], body: dict[str, Any]) -> None:
        server = self.server
        if self.command == "POST":
            stack = Stack(body["stack_name"], _load(body["template"]), body.get("files") or {}, {})
            stack.nfv = body["parameters"]["nfv"]
            server.stacks[stack.name] = stack
            server.apply(stack, "CREATE")
            self._send(201, {"stack": {"id": stack.id}})
            return
        if "resources" in parts and parts[-1] != "resources":
            self._mark(parts[1], parts[-1])
            return
        found = server.stacks.get(parts[0])
        if found is not None and found.is_deleted and not server.is_held:
            del server.stacks[parts[0]]
            found = None
        if found is None and parts[-1] == "template":
            found = next((s for s in server.stacks.values() if parts[1].startswith(s.id)), None)
            members = (
                {m.name: {"properties": m.properties} for m in found.members.values()}
                if found
                else {}
            )
            self._send(200, {"resources": members})
        elif found is None:
            self._send(404, {})
        elif self.command == "DELETE":
            if server.is_held:
                found.is_deleted = True
                found.status = "DELETE_COMPLETE"
            else:
                del server.stacks[found.name]
            self._send(204, None)
        elif self.command in ("PATCH", "PUT"):
            if "template" in body:
                found.template = _load(body["template"])
            found.files |= body.get("files") or {}
            found.nfv = (body.get("parameters") or {}).get("nfv", found.nfv)
            server.apply(found, "UPDATE")
            self._send(202, {})
        else:
            self._send_stack(found, parts[-1])

    def _send_stack(self, stack: Stack, part: str) -> None:
        if part == "resources":
            self._send(200, {"resources": list(_list_resources(stack, self.server.url))})
        elif part == "template":
            self._send(200, stack.template)
        elif part == "files":
            self._send(200, stack.files)
        else:
            status = (
                re.sub("COMPLETE|FAILED", "IN_PROGRESS", stack.status)
                if self.server.is_held
                else stack.status
            )
            values = {
                "id": stack.id,
                "stack_status": status,
                "stack_status_reason": stack.reason,
                "parameters": {"nfv": json.dumps(stack.nfv)},
            }
            self._send(200, {"stack": values})

    def _mark(self, stack_id: str, name: str) -> None:
        for stack in self.server.stacks.values():
            for member in stack.members.values():
                in_group = stack_id == f"{stack.id}-{member.group}" and name == member.name
                member.is_unhealthy |= in_group or (
                    stack_id == member.nested_id and name == member.vdu
                )
        self._send(200, {})

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        content = b"" if body is None else json.dumps(body, default=str).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_request  # noqa: N815 - the names called by the library

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name in the library
        pass


def _load(template: Any) -> Any:
    return yaml.safe_load(template) if isinstance(template, str) else template
