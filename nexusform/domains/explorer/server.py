"""The exploration as a page on loopback. Whoever asks must know the token of the address, and ask from this
page: a page of somebody else in the same browser can neither read nor ask anything.
"""

from __future__ import annotations

import hmac
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from nexusform.domains.explorer.exploration import Exploration, Wish, WishProblem
from nexusform.rendering.notation.json_values import json_bytes
from nexusform.rendering.notation.markup import data_script, element, trusted_code
from nexusform.rendering.page.html_page import page_content, whole_page

_LARGEST: Final = 1024 * 1024  # bytes of a question
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


class ExplorerServer(ThreadingHTTPServer):
    """Serves one exploration until it is shut down."""

    daemon_threads = True

    def __init__(self, exploration: Exploration, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.exploration = exploration
        self.token = secrets.token_urlsafe(24)
        self.lock = Lock()  # one plan at a time

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        """The address to open."""
        return f"{self.origin}/?token={self.token}"

    def page(self) -> bytes:
        """The whole page, with the plan of the files."""
        exploration = self.exploration
        project = exploration.project
        content = page_content(exploration.base, project.sources, project.registries)
        knobs = {"pools": exploration.pools(), "racks": exploration.racks(), "token": self.token}
        header = element(
            "header",
            element("h1", f"Explore: {content.overview.headline}", id="headline"),
            element(
                "p",
                "Change a count, lose or add a rack: the engine plans it at once, and nothing is applied.",
                class_="quiet",
            ),
            element("div", id="explore"),
            data_script("explore-data", msgspec.to_builtins(knobs)),
            trusted_code("style", _asset("explore.css")),
        )
        script = [trusted_code("script", _asset("explore.js"))]
        page = whole_page(
            "nexusform explore",
            header,
            content.main,
            element(
                "footer", "Planned by the engine on the recorded state; nothing is applied.", class_="quiet"
            ),
            content.data,
            extra_scripts=script,
            policy=_POLICY,
        )
        return page.encode()

    def answer(self, wish: Wish) -> dict[str, Any]:
        """The plan of a wish, as the page draws it."""
        exploration = self.exploration
        with self.lock:
            plan = exploration.plan(wish)
        content = page_content(plan, exploration.project.sources, exploration.project.registries)
        return {"headline": content.overview.headline, "main": str(content.main), "data": content.data}


def _asset(name: str) -> str:
    return resources.files("nexusform.domains.explorer").joinpath("assets", name).read_text(encoding="utf-8")


class _Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wish: Wish = Wish()
    digest: str = ""


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The page."""
        asked = urlsplit(self.path)
        token = parse_qs(asked.query).get("token", [""])[0]
        if asked.path != "/":
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing here.")
            return
        if not self._may_ask(token):
            return
        self._send(HTTPStatus.OK, self.server.page(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """A plan, the change that a wish makes to the files, or writing it."""
        if not self._may_ask(self.headers.get("X-Token", "")) or not self._is_from_the_page():
            return
        answers = {"/plan": self._plan, "/change": self._change, "/write": self._write}
        answer = answers.get(self.path)
        length = self.headers.get("Content-Length", "")
        if answer is None or not length.isdigit() or int(length) > _LARGEST:
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing here.")
            return
        try:
            question = msgspec.json.decode(self.rfile.read(int(length)), type=_Question)
            document = answer(question)
        except (msgspec.DecodeError, WishProblem, OSError) as problem:
            self._refuse(HTTPStatus.BAD_REQUEST, str(problem))
            return
        self._send(HTTPStatus.OK, json_bytes(document), "application/json")

    def _plan(self, question: _Question) -> dict[str, Any]:
        return self.server.answer(question.wish)

    def _change(self, question: _Question) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.to_builtins(self.server.exploration.written(question.wish))
        return document

    def _write(self, question: _Question) -> dict[str, Any]:
        with self.server.lock:
            return {"files": list(self.server.exploration.write(question.wish, question.digest))}

    # --- who may ask ---

    def _may_ask(self, token: str) -> bool:
        """Whether a request comes from the page that was opened; refused otherwise."""
        hosts = (f"127.0.0.1:{self.server.server_port}", f"localhost:{self.server.server_port}")
        if self.headers.get("Host") not in hosts or not hmac.compare_digest(
            token.encode(), self.server.token.encode()
        ):
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address that `nexusform explore` printed.")
            return False
        return True

    def _is_from_the_page(self) -> bool:
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            self._refuse(HTTPStatus.FORBIDDEN, "Only the page itself may ask.")
            return False
        return True

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        self._send(status, json_bytes({"problem": text}), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        # Browsers read this one from a header alone.
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name it has in the library
        """Requests are nothing that people want to read."""
