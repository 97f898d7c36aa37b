"""Small Azure Resource Manager on this machine.

It serves the operations of provider azure over TLS, with the faults of real servers.

Sources: azure-rest-api-specs, networkcloud (201 and 202 with Azure-AsyncOperation, If-Match and
If-None-Match, 409 during another operation), the rules of Azure Resource Manager for long-running
operations, and recordings of the Azure CLI's networkcloud extension: status of an operation in
progress and at its end (`properties` null or an object), signed addresses, a new one with each
202, pages of lists. `recorded_answers.json` summarizes these recordings, and a test compares this
server with it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.certificates import create_certificate
from tests.crowded_server import CrowdedServer, PlainRequestHandler, read_body

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
ROOT = f"/subscriptions/{SUBSCRIPTION}"
GROUP = f"{ROOT}/resourceGroups/tenants"
PROVIDER = "providers/Microsoft.NetworkCloud"
HOSTED = f"{ROOT}/resourceGroups/hosted/{PROVIDER}"
LOCATION = {
    "name": (
        f"{ROOT}/resourceGroups/hosted/providers/Microsoft.ExtendedLocation/customLocations/lab"
    ),
    "type": "CustomLocation",
}
NEXUS = f"{ROOT}/resourceGroups/hosted/{PROVIDER}/clusters/lab"
VERSION = "2025-02-01"
# Properties of a machine after an action.
SHOWN_AFTER = {
    "cordon": {"cordonStatus": "Cordoned"},
    "uncordon": {"cordonStatus": "Uncordoned"},
    "powerOff": {"powerState": "Off", "readyState": "False"},
}
ENDED = ("Succeeded", "Failed", "Canceled")
SYSTEM_DATA = {
    "createdBy": "REDACTED",
    "createdByType": "User",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastModifiedBy": "REDACTED",
    "lastModifiedByType": "User",
    "lastModifiedAt": "2026-01-01T00:00:00Z",
}
Body = dict[str, Any]


@dataclass
class Faults:
    """Faults, each with its number of occurrences (or of polls)."""

    # polls of an operation until its end.
    polls: int = 1
    # changes answered 409.
    conflicts: int = 0
    # changes answered 429.
    throttles: int = 0
    # reads answered 429.
    throttled_reads: int = 0
    # Of the 429.
    retry_after: str = "0.01"
    # operations with the final status Failed.
    fails: int = 0
    # accepted changes with a broken connection.
    resets: int = 0
    # changes lost with a broken connection, before they are accepted.
    lost: int = 0
    # accepted changes with a connection broken within the response.
    halves: int = 0
    # polls answered with a page of a proxy.
    pages: int = 0
    # reads of a changed resource with its old content.
    stale: int = 0
    # operations are unknown when polled.
    forgets: bool = False
    # status codes of the first polls, one each.
    errors: tuple[int, ...] = ()
    # polls until an operation becomes unknown, although it continues.
    vanishes: int = 0
    # final status of failed operations.
    outcome: str = "Failed"
    # failed changes are rolled back: the resource has its earlier content.
    rollback: bool = False
    # requested nodes that are never created, although the change succeeds.
    short: int = 0
    # Only Location has the address of an operation.
    bare: bool = False
    # polls answered 404 before the operation is known again.
    gap: int = 0
    # Of the 409.
    code: str = "Conflict"
    # changes answered 400.
    refusals: int = 0
    # changes preceded by a change of the resource by another client.
    others: int = 0
    # Every connection breaks.
    gone: bool = False
    # Every connection breaks after an accepted change.
    leaves: bool = False


@dataclass
class Operation:
    polls: int
    path: str
    method: str
    fails: bool = False
    over: bool = False
    looks: int = 0
    # responses with a status in progress.
    heard: int = 0

    @property
    def owner(self) -> str:
        """Return the path of the changed resource; for an action, of the machine."""
        return self.path.rpartition("/")[0] if self.method == "POST" else self.path


@dataclass
class Site:
    """Resources and a record of changes.

    `place` returns the machine of a node or VM by its pool and number.
    """

    faults: Faults = field(default_factory=Faults)
    # By id in lower case.
    resources: dict[str, Body] = field(default_factory=dict)
    # remaining stale reads, body.
    before: dict[str, tuple[int, Body | None]] = field(default_factory=dict)
    # error of failed operations.
    words: dict[str, str] = field(
        default_factory=lambda: {"code": "InsufficientResources", "message": "no machine has room"}
    )
    operations: dict[str, Operation] = field(default_factory=dict)
    taken: list[tuple[str, str]] = field(default_factory=list)  # accepted changes
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    # Never cleared by a test.
    requests: list[tuple[str, str, Body]] = field(default_factory=list)
    place: Callable[[str, int], str] = lambda _pool, number: f"m{number % 6 + 1}"
    etags: int = 0
    named: int = 0
    # actionStates of machines.
    shows_runs: bool = True
    # In bodies, as in API versions since 2025; older ones have them in the header only.
    tells_etags: bool = True
    # properties accepted but never shown.
    keeps_out: tuple[str, ...] = ()
    # addresses of operations issued so far.
    signed: int = 0
    # resource group that the client may not read.
    hidden: str = "-"
    # Called with the path of a changed resource: before a request takes effect, and at its end.
    before_change: Callable[[str], None] = lambda _path: None
    after_change: Callable[[str], None] = lambda _path: None

    # --- resources ---

    def put(self, path: str, body: Body) -> None:
        self.etags += 1
        for hidden in self.keeps_out:
            body.get("properties", {}).pop(hidden, None)
        name = path.rsplit("/", 1)[1]
        top = {"id": path, "name": name, "type": get_resource_type(path), "systemData": SYSTEM_DATA}
        self.resources[path.lower()] = {**top, "etag": f"e{self.etags}", **body}

    def of_type(self, kind: str, under: str) -> list[Body]:
        parents = under.lower().rstrip("/")
        found = []
        for path, body in self.resources.items():
            owner, type_name, _ = path.rsplit("/", 2)
            if type_name == kind.lower() and owner.startswith(parents):
                found.append(body)
        return found

    def properties(self, path: str) -> Body:
        return dict(self.resources[path.lower()]["properties"])

    # --- changes ---

    def change(self, method: str, path: str, body: Body | None) -> Operation:
        """Start a change; it is shown as in progress at once."""
        key = path.lower()
        self.taken.append((method, path))
        self.bodies.append(json.loads(json.dumps(body or {})))
        self.requests.append((method, path, self.bodies[-1]))
        self.before[key] = (self.faults.stale, json.loads(json.dumps(self.resources.get(key))))
        fails = self.faults.fails > 0
        self.faults.fails -= fails
        # An action of a machine does not change its etag.
        if method == "POST":
            self.begin_run(path)
        elif method == "DELETE":
            self.resources[key]["properties"]["provisioningState"] = "Deleting"
        elif method == "PUT":
            self.put(path, dict(body or {}))
            self.resources[key]["properties"]["provisioningState"] = "Accepted"
        else:
            self.etags += 1
            sent = (body or {}).get("properties", {})
            kept = {name: one for name, one in sent.items() if name not in self.keeps_out}
            merged = merge_bodies(self.resources[key], {**(body or {}), "properties": kept})
            # "will replace the existing ones" (KubernetesClusterPatchParameters).
            if body and "tags" in body:
                merged["tags"] = body["tags"]
            merged["etag"] = f"e{self.etags}"
            merged["properties"]["provisioningState"] = "Updating"
            self.resources[key] = merged
        operation = Operation(self.faults.polls, path, method, fails)
        self.operations[build_operation_name(len(self.operations) + 1)] = operation
        if not self.faults.polls:
            self.end(operation)
        return operation

    def begin_run(self, path: str) -> None:
        """Show a run of an action in its machine, the newest last."""
        machine, _, action = path.rpartition("/")
        if self.shows_runs:
            run = {
                "actionType": f"Microsoft.NetworkCloud/bareMetalMachines/{action}/action",
                "startTime": f"2026-01-01T{len(self.taken):02}:00:00Z",
                "status": "InProgress",
            }
            properties = self.resources[machine.lower()]["properties"]
            properties["actionStates"] = [*(properties.get("actionStates") or ()), run]

    def end_run(self, operation: Operation) -> None:
        machine, _, action = operation.path.rpartition("/")
        properties = self.resources[machine.lower()]["properties"]
        if not operation.fails:
            properties |= SHOWN_AFTER.get(action, {})
        for run in properties.get("actionStates") or ():
            if run["status"] == "InProgress":
                run["status"] = "Failed" if operation.fails else "Completed"
                run |= {
                    "endTime": f"2026-01-01T{len(self.taken):02}:30:00Z",
                    "message": self.words["message"],
                }

    def end(self, operation: Operation) -> None:
        """End an operation, and show its result in the resource."""
        operation.over = True
        self.show_result(operation)
        self.after_change(operation.owner)

    def show_result(self, operation: Operation) -> None:
        """Show the result of an operation in its resource."""
        key = operation.path.lower()
        if operation.method == "POST":
            self.end_run(operation)
            return
        if operation.method == "DELETE" and not operation.fails:
            owned = [path for path in self.resources if path == key or path.startswith(f"{key}/")]
            for path in owned:
                del self.resources[path]
            if "/agentpools/" in key:
                self.adjust_nodes(operation.path.rsplit("/", 2)[0])
            return
        state = self.faults.outcome if operation.fails else "Succeeded"
        stood = self.before.get(key, (0, None))[1]
        if operation.fails and self.faults.rollback and stood is not None:
            self.resources[key]["properties"] = stood["properties"]
        properties = self.resources[key]["properties"]
        properties["provisioningState"] = state
        self.resources[key]["etag"] = f"e{self.etags}x"
        if operation.fails:
            properties["detailedStatus"] = "Error"
            properties["detailedStatusMessage"] = self.words.get("message", "")
            return
        properties["detailedStatus"] = "Available"
        properties["detailedStatusMessage"] = ""
        if "/kubernetesclusters/" in key:
            owner = (
                operation.path if "/agentpools/" not in key else operation.path.rsplit("/", 2)[0]
            )
            self.adjust_nodes(owner)
        elif "/virtualmachines/" in key:
            properties["powerState"] = "On"
            machine = self.place(operation.path.rsplit("/", 1)[1], 0)
            self.resources[key]["properties"]["bareMetalMachineId"] = build_machine_id(machine)
            self.resources[key]["properties"]["clusterId"] = NEXUS

    def adjust_nodes(self, cluster: str) -> None:
        """Add and remove nodes until every pool has its count."""
        body = self.resources[cluster.lower()]
        properties = body["properties"]
        properties["clusterId"] = NEXUS
        for pool in properties.get("initialAgentPoolConfigurations") or []:
            path = f"{cluster}/agentPools/{pool['name']}"
            if path.lower() not in self.resources and not properties.get("poolsMade"):
                made = {name: part for name, part in pool.items() if name != "name"}
                made["provisioningState"] = "Succeeded"
                self.put(path, {"location": body.get("location", "eastus"), "properties": made})
        properties["poolsMade"] = True
        plane = properties["controlPlaneNodeConfiguration"]
        counts = {"": (plane["count"], plane["vmSkuName"])}
        for pool in self.of_type("agentPools", cluster):
            counts[pool["id"]] = (pool["properties"]["count"], pool["properties"]["vmSkuName"])
        kept: list[Body] = []
        for pool_id, (count, sku) in counts.items():
            of_pool = [
                n for n in properties.get("nodes") or [] if n.get("agentPoolId", "") == pool_id
            ]
            kept += of_pool[:count]
            coming = range(len(of_pool), count - self.faults.short)
            kept += [self.node(body["name"], pool_id, sku, number) for number in coming]
        properties["nodes"] = kept

    def node(self, cluster: str, pool_id: str, sku: str, number: int) -> Body:
        self.named += 1
        pool = pool_id.rsplit("/", 1)[-1] if pool_id else "control-plane"
        _, cpus, memory, _ = sku.split("_")  # NC_P22_112_v1
        return {
            "name": f"{cluster}-0a1b2c3d-{pool}-x{self.named:04}",
            **({"agentPoolId": pool_id} if pool_id else {}),
            "role": "Worker" if pool_id else "ControlPlane",
            "bareMetalMachineId": build_machine_id(self.place(pool, number)),
            "vmSkuName": sku,
            "cpuCores": int(cpus[1:]),
            "memorySizeGB": int(memory),
            "diskSizeGB": 300,
            "detailedStatus": "Running",
        }

    def delete_node(
        self, name: str, cluster: str = f"{GROUP}/{PROVIDER}/kubernetesClusters/c"
    ) -> None:
        """Delete a node as `kubectl delete node` does: the platform creates another one."""
        nodes = self.resources[cluster.lower()]["properties"]["nodes"]
        nodes[:] = [node for node in nodes if node["name"] != name]
        self.adjust_nodes(cluster)


def merge_bodies(under: Body, over: Body) -> Body:
    merged = dict(under)
    for name, part in over.items():
        old = merged.get(name)
        merged[name] = (
            merge_bodies(old, part) if isinstance(old, dict) and isinstance(part, dict) else part
        )
    return merged


def get_resource_type(path: str) -> str:
    """Return the type of a resource as written by Azure."""
    _, _, typed = path.rpartition("/providers/")
    return "/".join([typed.split("/", 1)[0], *typed.split("/")[1::2]]).lower()


def build_operation_name(number: int) -> str:
    """Return the name of an operation, with the length and characters of Azure's names."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    middle = f"{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}"
    return f"{digest[:8]}-{middle}-{digest[20:32]}*{digest.upper()}"


def build_machine_id(name: str) -> str:
    return f"{HOSTED}/bareMetalMachines/{name}"


def add_hardware(site: Site, racks: int = 2, machines: int = 3) -> None:
    """Add racks r1.. with machines m1.., and the Nexus cluster."""
    running = {"clusterExtendedLocation": LOCATION, "detailedStatus": "Running"}
    site.put(NEXUS, {"properties": running, "location": "eastus"})
    for rack in range(1, racks + 1):
        rack_id = f"{HOSTED}/racks/r{rack}"
        properties: Body = {
            "availabilityZone": str(rack),
            "clusterId": NEXUS,
            "rackSkuId": "/s/VNearEdge1_Compute_DellR750_16C2M",
        }
        site.put(
            rack_id, {"extendedLocation": LOCATION, "location": "eastus", "properties": properties}
        )
        for slot in range(1, machines + 1):
            number = (rack - 1) * machines + slot
            properties = {
                "rackId": rack_id,
                "rackSlot": slot,
                "clusterId": NEXUS,
                "cordonStatus": "Uncordoned",
                "powerState": "On",
                "readyState": "True",
                "detailedStatus": "Provisioned",
                "machineSkuId": "Compute_DellR750_56C_512GB_4d6n",
                "machineRoles": ["platform.afo-nc.microsoft.com/compute-plane=true"],
            }
            body = {"extendedLocation": LOCATION, "location": "eastus", "properties": properties}
            site.put(build_machine_id(f"m{number}"), body)


# --- the server ----------------------------------------------------------------------------------


class ClientKilled(Exception):
    """The client was killed: no response is sent."""


class ArmServer:
    """Server of a site.

    `at_request(number, after)` is called for every request except those for tokens, before and
    after its execution by the site.
    """

    def __init__(self, folder: Path) -> None:
        self.site = Site()
        self.requests = 0
        self.page_size = 4
        self.at_request: Callable[[int, bool], None] = lambda _number, _after: None
        self.guard = threading.Lock()
        certificate, key = create_certificate(folder)
        self.certificate = certificate
        handler = type("Handler", (_Handler,), {"arm": self})
        self.http = CrowdedServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.http.socket = context.wrap_socket(
            self.http.socket, server_side=True, do_handshake_on_connect=False
        )
        self.address = f"https://localhost:{self.http.server_address[1]}"
        # base address of operations.
        self.endpoint = self.address
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def environment(self) -> dict[str, str]:
        """Return the variables of a client.

        They are the endpoint, its certificate, and a managed identity.
        """
        return {
            "NF_AZURE_ENDPOINT": self.endpoint,
            "NF_AZURE_POLL_SECONDS": "0.01",
            "REQUESTS_CA_BUNDLE": str(self.certificate),
            "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
            "IDENTITY_ENDPOINT": f"{self.endpoint}/msi/token",
            "IDENTITY_HEADER": "secret",
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
        }

    def take_snapshot(self) -> Site:
        return copy.deepcopy(self.site)

    def restore(self, snapshot: Site) -> None:
        self.site = copy.deepcopy(snapshot)

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


class _Handler(PlainRequestHandler):
    arm: ArmServer
    query: dict[str, str]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:  # noqa: N802 - a name of http.server
        self.serve()

    do_PUT = do_PATCH = do_DELETE = do_POST = do_GET  # noqa: N815 - names of http.server

    def serve(self) -> None:
        content = read_body(self)
        body = json.loads(content) if content else None
        parts = urlsplit(self.path)
        path = parts.path
        self.query = dict(parse_qsl(parts.query))
        if path.startswith("/msi/"):
            token = {"access_token": "token", "expires_on": "4000000000", "token_type": "Bearer"}
            self.answer(200, token)
            return
        with self.arm.guard:
            try:
                self.arm.requests += 1
                number = self.arm.requests
                self.arm.at_request(number, False)
                try:
                    status, reply, headers = self.act(path, body)
                finally:
                    # Also after a request with a lost response.
                    self.arm.at_request(number, True)
                self.arm.site.asked.append((self.command, path, status))
            except (ClientKilled, ConnectionError):
                self.close_connection = True
                return
        self.answer(status, reply, headers)

    def answer(self, status: int, reply: Any, headers: dict[str, str] | None = None) -> None:
        content = (
            b""
            if status == 204
            else reply
            if isinstance(reply, bytes)
            else json.dumps(reply).encode()
        )
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header(
            "Content-Type", "text/html" if isinstance(reply, bytes) else "application/json"
        )
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "GET" and status < 300 and self.arm.site.faults.halves:
            self.arm.site.faults.halves -= 1
            content = content[: len(content) // 2]
            self.close_connection = True
        self.wfile.write(content)

    def act(self, path: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        faults = self.arm.site.faults
        if faults.gone or (faults.leaves and self.arm.site.taken):
            raise ConnectionError
        if self.headers.get("Authorization") != "Bearer token":
            return 401, build_error("AuthenticationFailed", "Who are you?"), {}
        if self.command == "GET" and faults.throttled_reads:
            faults.throttled_reads -= 1
            return (
                429,
                build_error("TooManyRequests", "Slow down."),
                {"Retry-After": faults.retry_after},
            )
        if self.command == "GET":
            return self.read(path)
        return self.change(path, body)

    def read(self, path: str) -> tuple[int, Any, dict[str, str]]:
        site = self.arm.site
        if "/operationStatuses/" in path:
            return self.poll(path.rsplit("/", 1)[1])
        parts = path.split("/")
        hidden = f"/resourcegroups/{site.hidden}/"
        if hidden in f"{path.lower()}/":
            return (
                403,
                build_error("AuthorizationFailed", "The client may not read this scope."),
                {},
            )
        # A list: the last part of its path is a type.
        if len(parts) % 2 == 0:
            under = (
                f"/{'/'.join(parts[1 : parts.index('providers')])}"
                if "agentPools" not in parts
                else (path.rsplit("/", 1)[0])
            )
            bodies = [
                self.shown(body)
                for body in site.of_type(parts[-1], under)
                if hidden not in body["id"].lower()
            ]
            return 200, self.page(path, bodies), {}
        for operation in site.operations.values():
            if operation.owner.lower() == path.lower() and not operation.over:
                # reads of the resource advance the operation, too.
                operation.polls -= 1
                if operation.polls <= 0:
                    site.end(operation)
        left, before = site.before.get(path.lower(), (0, None))
        body = site.resources.get(path.lower())
        if left:
            site.before[path.lower()] = (left - 1, before)
            body = before
        if not body:
            return 404, build_error("ResourceNotFound", path), {}
        return 200, self.shown(body), {"ETag": f'"{body["etag"]}"'}

    def shown(self, body: Body) -> Body:
        """Return a resource as shown by this API version."""
        told = {
            name: part for name, part in body.items() if self.arm.site.tells_etags or name != "etag"
        }
        if "properties" in body:
            ours = body["properties"]
            told["properties"] = {name: part for name, part in ours.items() if name != "poolsMade"}
        return told

    def page(self, path: str, bodies: list[Body]) -> Body:
        """Return a part of a list, and the address of the next page."""
        skipped = int(self.query.get("$skipToken", "0"))
        rest = skipped + self.arm.page_size
        more = f"{self.arm.address}{path}?api-version={VERSION}&$skipToken={rest}"
        return {"value": bodies[skipped:rest], **({"nextLink": more} if len(bodies) > rest else {})}

    def poll(self, name: str) -> tuple[int, Any, dict[str, str]]:
        """Return the status of an operation as in recordings.

        An address without its original signature is rejected.
        """
        site = self.arm.site
        if self.query.get("s") != compute_signature(name, self.query.get("t", "")):
            return 403, build_error("InvalidAuthenticationToken", "The address is not signed."), {}
        if site.faults.pages:
            site.faults.pages -= 1
            return 200, b"<html><body>not available right now</body></html>", {}
        status, reply, headers = self.progress(name)
        if status == 200 and "Location" in self.query.get("c", "") and reply["status"] not in ENDED:
            site.signed += 1
            return 202, reply, {**headers, "Location": self.signed(name, "Location")}
        return status, reply, headers

    def signed(self, name: str, purpose: str) -> str:
        """Return a new address of an operation at each call."""
        time = f"{638585633756722770 + self.arm.site.signed}"
        at = f"{self.arm.endpoint}{ROOT}/{PROVIDER}/locations/eastus/operationStatuses/{name}"
        signature = compute_signature(name, time)
        return f"{at}?api-version={VERSION}&t={time}&c={purpose}&s={signature}&h=x-1_"

    def progress(self, name: str) -> tuple[int, Any, dict[str, str]]:
        site = self.arm.site
        operation = site.operations.get(name)
        if site.faults.gap:
            site.faults.gap -= 1
            return 404, build_error("NotFound", "There is no such operation."), {}
        if site.faults.errors:
            status, *rest = site.faults.errors
            site.faults.errors = tuple(rest)
            return status, build_error("NotNow", "Ask again."), {"Retry-After": "0"}
        if site.faults.vanishes and operation is not None:
            operation.looks += 1
            if operation.looks > site.faults.vanishes:
                return 404, build_error("NotFound", "There is no such operation."), {}
        if operation is None or site.faults.forgets:
            if operation and not operation.over:
                site.end(operation)
            return 404, build_error("NotFound", "There is no such operation."), {}
        operation.polls -= 1
        where = f"{ROOT}/{PROVIDER}/locations/eastus/operationStatuses/{name}"
        told = {"id": where, "name": name, "resourceId": operation.owner}
        started = {"startTime": "2026-01-01T00:00:00Z"}
        if operation.polls > 0:
            operation.heard += 1
            status = "InProgress" if operation.heard > 1 else "Accepted"
            return 200, {**told, "status": status, **started}, {"Retry-After": "0"}
        if not operation.over:
            site.end(operation)
        ended = {**started, "endTime": "2026-01-01T00:01:00Z", "properties": None}
        if operation.fails:
            refused = {**ended, "error": site.words} if site.words else ended
            return 200, {**told, "status": site.faults.outcome, **refused}, {}
        result = site.resources.get(operation.path.lower())
        ended["properties"] = result and result["properties"]
        return 200, {**told, "status": "Succeeded", **ended}, {}

    def is_busy(self, path: str, standing: Body | None) -> bool:
        """Return whether an exclusive operation is in progress."""
        acted_on = (one.owner == path for one in self.arm.site.operations.values() if not one.over)
        state = (standing or {}).get("properties", {}).get("provisioningState")
        return state not in (*ENDED, None) or any(acted_on)

    def change(self, path: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        site = self.arm.site
        faults = self.arm.site.faults
        owner = path.rpartition("/")[0] if self.command == "POST" else path
        site.before_change(owner)
        standing = site.resources.get(owner.lower())
        refusal = self.refuse_now() or self.refuse(owner, standing)
        if refusal:
            return refusal
        if faults.lost:
            faults.lost -= 1
            raise ConnectionError
        site.change(self.command, path, body)
        name = build_operation_name(len(site.operations))
        if faults.resets:
            faults.resets -= 1
            raise ConnectionError
        headers = {"Azure-AsyncOperation": self.signed(name, "Async"), "Retry-After": "0"}
        if self.command == "PUT":
            made = site.resources[path.lower()]
            return 201, self.shown(made), {**headers, "ETag": f'"{made["etag"]}"'}
        if standing is not None and self.command != "POST":
            headers["ETag"] = f'"e{site.etags}"'
        located = {**headers, "Location": self.signed(name, "Location")}
        if faults.bare:
            del located["Azure-AsyncOperation"]
        return 202, None, located

    def refuse_now(self) -> tuple[int, Any, dict[str, str]] | None:
        """Return a temporary error for any change."""
        faults = self.arm.site.faults
        if faults.conflicts:
            faults.conflicts -= 1
            return 409, build_error(faults.code, "Another operation is in progress."), {}
        if faults.throttles:
            faults.throttles -= 1
            return (
                429,
                build_error("TooManyRequests", "Slow down."),
                {"Retry-After": faults.retry_after},
            )
        if faults.refusals:
            faults.refusals -= 1
            return 400, {"error": self.arm.site.words}, {}
        return None

    def refuse(self, owner: str, standing: Body | None) -> tuple[int, Any, dict[str, str]] | None:
        """Return an error for a change that conflicts with the resource."""
        site = self.arm.site
        faults = self.arm.site.faults
        if faults.others and standing is not None:
            faults.others -= 1
            site.etags += 1
            standing["etag"] = f"e{site.etags}"
        if self.headers.get("If-None-Match") == "*" and standing:
            return 412, build_error("PreconditionFailed", "It exists."), {}
        match = (self.headers.get("If-Match") or "").strip('"')
        if match and (standing is None or standing["etag"] != match):
            return 412, build_error("PreconditionFailed", "It is another version."), {}
        if standing is None and self.command != "PUT":
            return (
                (204, None, {})
                if self.command == "DELETE"
                else (404, build_error("NotFound", owner), {})
            )
        if self.is_busy(owner, standing):
            return 409, build_error("Conflict", "Another operation is in progress."), {}
        return None


def compute_signature(name: str, time: str) -> str:
    """Return the signature of an operation's address."""
    return hashlib.sha256(f"{name} {time}".encode()).hexdigest()


def build_error(code: str, message: str) -> Body:
    return {"error": {"code": code, "message": message}}
