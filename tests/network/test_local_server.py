"""Walls of the local servers: `explore` and `serve sol003` pass the same tests."""

from __future__ import annotations

import base64
import io
import json
import random
import resource
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from nexusform.domains.explorer.plan_exploration import open_exploration
from nexusform.domains.explorer.server import ExplorerServer
from nexusform.domains.vnf.serving.grant_server import GrantJournal, GrantServer, VnfPackageFile
from nexusform.network import local_server
from nexusform.network.local_server import LocalServer
from nexusform.workflow.opening.command_context import CommandContext
from tests.domains.vnf.serving.test_grant_server import (
    DESCRIPTOR,
    build_grant_request,
    build_planned_grants,
)
from tests.kill_points import scale_count

pytestmark = pytest.mark.of_domains("explorer", "vnf")
SITE = """
resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 2
}
"""
PACKAGES = "/vnfpkgm/v2/onboarded_vnf_packages"


class Target:
    """A running server, and a request that it accepts."""

    def __init__(self, server: LocalServer, method: str, path: str, body: bytes) -> None:
        self.server = server
        self.method = method
        self.path = path
        self.body = body
        self.headers = {
            "Host": f"127.0.0.1:{server.server_port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Authorization": f"Bearer {server.token}",
            "X-Token": server.token,
            "Origin": server.origin,
        }

    def build(self, **changed: str | None) -> bytes:
        """Build the request, with changed headers by name with _ for - (None: omitted)."""
        headers = {
            **self.headers,
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        lines = [f"{self.method} {self.path} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body

    def send(self, request: bytes, seconds: float = 20) -> bytes:
        """Send bytes, and return the answer until the server ends the connection."""
        address = ("127.0.0.1", self.server.server_port)
        answer = b""
        with socket.create_connection(address, timeout=seconds) as connection:
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    answer += piece
            except TimeoutError:
                raise
            except OSError:
                # The server rejected a request that it had not read.
                return answer
        return answer

    def send_status(self, request: bytes) -> int:
        """Send bytes, and return the status of the first answer; 0 without any."""
        words = self.send(request).split(None, 2)
        return int(words[1]) if len(words) > 1 else 0


def run_server(server: LocalServer) -> Iterator[LocalServer]:
    """Run a server in a thread until the end."""
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(params=["explore", "serve sol003"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Target]:
    """A server of each command."""
    monkeypatch.chdir(tmp_path)
    if request.param == "explore":
        Path("main.nf.hcl").write_text(SITE)
        with open_exploration(CommandContext(environment={})) as (exploration, *_):
            assert exploration is not None
            for server in run_server(ExplorerServer(exploration)):
                yield Target(server, "POST", "/plan", b'{"wish": {}}')
        return
    journal = GrantJournal(str(tmp_path / "p.nfplan"), "digest")
    packages = {DESCRIPTOR: VnfPackageFile(Path("edge.csar").absolute(), DESCRIPTOR)}
    grants = GrantServer(("127.0.0.1", 0), build_planned_grants(), journal, packages)
    body = json.dumps(build_grant_request()).encode()
    for server in run_server(grants):
        yield Target(server, "POST", "/grant/v1/grants", body)


def test_own_request_is_accepted(target: Target) -> None:
    assert target.send_status(target.build()) in (200, 201)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": None}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": None}, 415),
        ({"Content_Length": None}, 411),
        ({"Content_Length": "-1"}, 411),
        ({"Transfer_Encoding": "chunked"}, 411),
        ({"Content_Length": str(2 << 20)}, 413),
        ({"Authorization": None, "X_Token": None}, 401),
        ({"Authorization": "Bearer x", "X_Token": "x"}, 401),
        ({"Authorization": "Bearer \u00e9", "X_Token": "\u00e9"}, 401),
    ],
)
def test_foreign_request_is_rejected(
    changed: dict[str, str | None], status: int, target: Target
) -> None:
    # Pages of `explore` need no sign-in: a token that is missing is forbidden.
    if status == 401 and isinstance(target.server, ExplorerServer):
        status = 403
    assert target.send_status(target.build(**changed)) == status
    assert not list(Path.cwd().glob("*.grants"))


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("evil.example", 403)])
def test_host_without_the_default_port_is_accepted(
    host: str, status: int, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of the ports 80 and 443 send no port."""
    ports = {"http": str(target.server.server_port)}
    monkeypatch.setattr(local_server, "_DEFAULT_PORTS", ports)
    answer = target.send_status(target.build(Host=host, Origin=f"http://{host}"))
    assert answer // 100 == status // 100


def test_cross_site_request_of_a_browser_uses_up_no_grant(target: Target) -> None:
    """A page sends a form without permission: text/plain, its origin, no token."""
    request = target.build(
        Origin="https://evil.example", Content_Type="text/plain", Authorization=None, X_Token=None
    )
    assert target.send_status(request) == 403
    assert target.send_status(target.build()) in (200, 201)


def test_body_that_is_no_text_is_rejected(target: Target) -> None:
    body = b'{"a\x8a": 1}'
    request = Target(target.server, target.method, target.path, body)
    assert request.send_status(request.build()) == 400


def test_failed_request_has_an_answer(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    handler = target.server.RequestHandlerClass
    monkeypatch.setattr(handler, "answer_request", fail)
    assert target.send_status(target.build()) == 500


def test_slow_and_many_clients_are_ended(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_REQUEST_SECONDS", 3)
    address = ("127.0.0.1", target.server.server_port)
    clients = [socket.create_connection(address, timeout=20) for _ in range(40)]
    # Those above the limit are rejected, the others end in time.
    clients[0].sendall(b"POST / HTTP/1.1\r\nHo")
    answers = [client.recv(100) for client in clients]
    assert sum(answer.startswith(b"HTTP/1.1 503") for answer in answers) == 8
    assert answers.count(b"") == 32
    for client in clients:
        client.close()
    ends_at = time.monotonic() + 10
    while target.send_status(target.build()) not in (200, 201):
        assert time.monotonic() < ends_at


def test_package_of_zeros_takes_little_memory(target: Target) -> None:
    if isinstance(target.server, ExplorerServer):
        pytest.skip("it serves no packages")
    with (
        zipfile.ZipFile("edge.csar", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("Definitions/bomb.yaml", "w") as member,
    ):
        # In pieces: this process must not have had their memory before.
        for _ in range(400):
            member.write(bytes(1 << 20))
    package = Target(target.server, "GET", f"{PACKAGES}/{DESCRIPTOR}/vnfd", b"")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert package.send_status(package.build()) == 500
    # KiB, the unit of Linux.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10
    content = Target(target.server, "GET", f"{PACKAGES}/{DESCRIPTOR}/package_content", b"")
    _, _, body = content.send(content.build()).partition(b"\r\n\r\n")
    assert zipfile.ZipFile(io.BytesIO(body)).namelist() == ["Definitions/bomb.yaml"]


HEADERS = (
    *("Host", "Origin", "Content-Type", "Content-Length", "Authorization", "X-Token", "Expect"),
    *("Transfer-Encoding", "Connection", "Sec-Fetch-Site", "Content-Encoding", "Range"),
)
PATHS = (
    *("/", "/plan", "/change", "/write", "/token", "//[", "/%ff", "/?token=%ff", "*", "http://["),
    *("/grant/v1/grants", "/grant/v2/grants/", PACKAGES, f"{PACKAGES}/%2e%2e/vnfd"),
    *(f"{PACKAGES}/{DESCRIPTOR}", f"{PACKAGES}/\u00e9/vnfd", "/" + "a" * 70_000),
)
VALUES = (
    *("", "0", "-1", "9" * 5000, "1e3", "chunked", "close", "100-continue", "null", "[]", "\u00e9"),
    *("Basic !", "Basic \u00e9", "Bearer", "text/plain", "application/json; charset=\u00b2"),
    *("Basic " + base64.b64encode(b"\xff:\xfe").decode(), "::1]:80", "a" * 70_000),
)
JSON_VALUES = (
    *(None, True, -1, 1e400, "", "\ud800", "\u0000", [], {}, [[[[]]]], "INSTANTIATE", 10**4000),
    *({"counts": {"": -1}}, {"lost": [""]}, {"id": {}}),
)
NAMES = (
    *("vnfInstanceId", "vnfLcmOpOccId", "vnfdId", "operation", "addResources", "removeResources"),
    *("wish", "digest", "counts", "lost", "added", "", "\ud800", "placementConstraints"),
)


def build_random_request(target: Target, chance: random.Random) -> bytes:
    """Build a request that is wrong in some way, with the token or without."""
    headers = dict(target.headers)
    for _ in range(chance.randrange(4)):
        headers[chance.choice(HEADERS)] = chance.choice(VALUES)
    body = target.body
    if chance.random() < 0.7:
        document = json.loads(target.body)
        for _ in range(chance.randrange(1, 4)):
            document[chance.choice(NAMES)] = chance.choice(JSON_VALUES)
        body = json.dumps(document).encode()
    if chance.random() < 0.2:
        body = chance.choice((b"", b"[" * 100_000, b"\xff", b"{}" * 1000, b'{"a":' * 5000))
    if chance.random() < 0.8:
        headers["Content-Length"] = str(len(body))
    path = target.path if chance.random() < 0.5 else chance.choice(PATHS)
    method = chance.choice((target.method, "GET", "POST", "PUT", "OPTIONS", "HEAD", ""))
    lines = [f"{method} {path} HTTP/1.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body
    if chance.random() < 0.2:
        position = chance.randrange(len(request))
        request = request[:position] + chance.randbytes(5) + request[position + 5 :]
    return request[: chance.randrange(len(request))] if chance.random() < 0.1 else request


def test_random_requests_crash_no_handler(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    monkeypatch.setattr(
        type(target.server),
        "handle_error",
        lambda *_: failures.append(repr(__import__("sys").exc_info()[1])),
    )
    chance = random.Random(86)
    for _ in range(scale_count(3200)):
        request = build_random_request(target, chance)
        answer = target.send(request)
        assert failures == [], request[:2000]
        is_answer = answer == b"" or answer.startswith((b"HTTP/1.", b"<!DOCTYPE"))
        assert is_answer, (request[:2000], answer[:200])
        assert not answer.startswith(b"HTTP/1.1 500"), (request[:2000], answer[-300:])
    assert target.send_status(target.build()) in (200, 201, 403)
