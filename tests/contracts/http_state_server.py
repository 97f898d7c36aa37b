"""State server with Terraform's HTTP protocol, and GitLab's dialect below `/gitlab/`."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.crowded_server import CrowdedServer, PlainRequestHandler, read_body


@dataclass
class StoredState:
    """Content of one path."""

    document: bytes | None = None
    lock: bytes | None = None

    @property
    def lock_id(self) -> str:
        return str(json.loads(self.lock)["ID"]) if self.lock else ""


@dataclass
class ServerContent:
    """Content of the server, and the number of further requests to answer with 503."""

    places: dict[str, StoredState] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)
    refuse_next: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    # Every document, in order.
    written: list[bytes] = field(default_factory=list)


class Handler(PlainRequestHandler):
    store: ClassVar[ServerContent]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        body = read_body(self)
        with self.store.guard:
            self.store.requests.append((self.command, self.path))
            if self.store.refuse_next:
                self.store.refuse_next -= 1
                self.answer(503)
                return
            is_lock = parts.path.endswith("/lock")
            place = self.store.places.setdefault(parts.path.removesuffix("/lock"), StoredState())
            if self.command == "LOCK" or (is_lock and self.command == "POST"):
                self.lock(place, body)
            elif self.command == "UNLOCK" or (is_lock and self.command == "DELETE"):
                self.unlock(place, body)
            else:
                self.document(place, body, parse_qs(parts.query).get("ID", [""])[0])

    def lock(self, place: StoredState, body: bytes) -> None:
        if place.lock is not None:
            self.answer(423 if self.command == "LOCK" else 409, place.lock)
            return
        place.lock = body
        self.answer(200)

    def unlock(self, place: StoredState, body: bytes) -> None:
        named = str(json.loads(body)["ID"]) if body else ""
        if place.lock is None or (named and named != place.lock_id):
            self.answer(409, place.lock or b"")
            return
        place.lock = None
        self.answer(200)

    def document(self, place: StoredState, body: bytes, lock_id: str) -> None:
        if self.command == "GET":
            self.answer(200 if place.document is not None else 404, place.document or b"")
        elif place.lock is not None and lock_id != place.lock_id:
            self.answer(423, place.lock)
        elif self.command == "DELETE":
            place.document = None
            self.answer(200)
        else:
            place.document = body
            self.store.written.append(body)
            self.answer(200)

    do_GET = do_POST = do_PUT = do_DELETE = do_LOCK = do_UNLOCK = handle_any  # noqa: N815


@contextmanager
def run_state_server(
    kind: type[Handler] = Handler, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, ServerContent]]:
    """Run the server in a thread; yield its address and content."""
    store = ServerContent()
    handler = type("StoreHandler", (kind,), {"store": store})
    server = CrowdedServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}", store
    finally:
        server.shutdown()
        server.server_close()
