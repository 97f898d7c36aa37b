"""Web server of the exploration on the loopback interface.

Requests need the token of the address and must be sent by this page: other pages in the same
browser can neither read nor request anything.
"""

import hmac
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from nexusform.documents.scalars import parse_integer
from nexusform.domains.explorer.plan_exploration import (
    ExplorationRequest,
    ExplorationRequestError,
    PlanExploration,
)
from nexusform.rendering.notation.json_values import encode_document
from nexusform.rendering.notation.markup import build_code_element, build_data_script, build_element
from nexusform.rendering.page.html_page import build_page_content
from nexusform.rendering.page.page_elements import render_page

# bytes of a question.
_MAX_REQUEST_BYTES: Final = 1024 * 1024
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'"
)


class ExplorerServer(ThreadingHTTPServer):
    """Server of one exploration until its shutdown."""

    daemon_threads = True

    def __init__(self, exploration: PlanExploration, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _ExplorerRequestHandler)
        self.exploration = exploration
        # needed in each request.
        self.token = secrets.token_urlsafe(24)
        # One plan at a time.
        self.lock = Lock()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        """Address to open."""
        return f"{self.origin}/?token={self.token}"

    def render_page(self) -> bytes:
        """Render the whole page with the plan of the files."""
        exploration = self.exploration
        project = exploration.project
        content = build_page_content(exploration.base, project.sources, project.registries)
        controls = {
            "pools": exploration.list_pools(),
            "racks": exploration.list_racks(),
            "token": self.token,
        }
        detail = (
            "Change a count, or remove or add a rack. The plan updates at once; nothing is applied."
        )
        header = build_element(
            "header",
            build_element("h1", f"Explore: {content.headline}", id="headline"),
            build_element("p", detail, class_="quiet"),
            build_element("div", id="explore"),
            build_data_script("explore-data", msgspec.to_builtins(controls)),
            build_code_element("style", _read_asset("explore.css")),
        )
        script = [build_code_element("script", _read_asset("explore.js"))]
        page = render_page(
            "nexusform explore",
            header,
            content.main,
            build_element(
                "footer", "Planned on the recorded state; nothing is applied.", class_="quiet"
            ),
            content.data,
            extra_scripts=script,
            policy=_POLICY,
        )
        return page.encode()

    def render_plan(self, request: ExplorationRequest) -> dict[str, Any]:
        """Plan a request.

        Return the headline, the main HTML and the data for the page.
        """
        exploration = self.exploration
        with self.lock:
            plan = exploration.plan_request(request)
        content = build_page_content(
            plan, exploration.project.sources, exploration.project.registries
        )
        return {"headline": content.headline, "main": str(content.main), "data": content.data}


def _read_asset(name: str) -> str:
    return (
        resources.files("nexusform.domains.explorer")
        .joinpath("assets", name)
        .read_text(encoding="utf-8")
    )


class _RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wish: ExplorationRequest = ExplorationRequest()
    digest: str = ""


class _ExplorerRequestHandler(BaseHTTPRequestHandler):
    server: ExplorerServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the page for `/?token=TOKEN`; reject other paths and tokens."""
        url_parts = urlsplit(self.path)
        token = parse_qs(url_parts.query).get("token", [""])[0]
        if url_parts.path != "/":
            self._reject(HTTPStatus.NOT_FOUND, "Not found.")
            return
        if not self._verify_access_token(token):
            return
        self._send_response(HTTPStatus.OK, self.server.render_page(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Send the plan of a request, its file changes, or the result of writing them."""
        if not self._verify_access_token(self.headers.get("X-Token", "")):
            return  # already rejected
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            self._reject(HTTPStatus.FORBIDDEN, "Only the page itself may send requests.")
            return
        length = parse_integer(self.headers.get("Content-Length"))
        if (
            self.path not in ("/plan", "/change", "/write")
            or length is None
            or length > _MAX_REQUEST_BYTES
        ):
            self._reject(HTTPStatus.NOT_FOUND, "Not found.")
            return
        try:
            document = self._handle_request_body(
                msgspec.json.decode(self.rfile.read(length), type=_RequestBody)
            )
        except (msgspec.DecodeError, ExplorationRequestError, OSError) as problem:
            self._reject(HTTPStatus.BAD_REQUEST, str(problem))
            return
        self._send_response(HTTPStatus.OK, encode_document(document), "application/json")

    def _handle_request_body(self, body: _RequestBody) -> dict[str, Any]:
        """Return the answer to a request by its path.

        It is the plan, the file changes, or the names of the written files.
        """
        # `wish`: the requested counts and racks.
        if self.path == "/plan":
            return self.server.render_plan(body.wish)
        if self.path == "/change":
            document: dict[str, Any] = msgspec.to_builtins(
                self.server.exploration.compute_file_changes(body.wish)
            )
            return document
        with self.server.lock:  # /write
            # Of the change shown.
            return {"files": list(self.server.exploration.write_files(body.wish, body.digest))}

    def _verify_access_token(self, token: str) -> bool:
        """Return whether a request has the token of the opened page; otherwise reject it."""
        hosts = (f"127.0.0.1:{self.server.server_port}", f"localhost:{self.server.server_port}")
        if self.headers.get("Host") not in hosts or not hmac.compare_digest(
            token.encode(), self.server.token.encode()
        ):
            self._reject(HTTPStatus.FORBIDDEN, "Open the address that `nexusform explore` printed.")
            return False
        return True

    def _reject(self, status: HTTPStatus, text: str) -> None:
        # The body of the request may be unread: on the same connection it would be taken for the
        # next request.
        self.close_connection = True
        self._send_response(status, encode_document({"problem": text}), "application/json")

    def _send_response(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        """Send a whole response.

        Its headers forbid caching, referrers, framing and guesses of its type.
        """
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        # Browsers accept this directive only from a header.
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name it has in the library
        """Skip the log: requests are not interesting to users."""
