"""Web server of the exploration on the loopback interface.

Requests need the token of the address and must be sent by this page: other pages in the same
browser can neither read nor request anything.
"""

from collections.abc import Mapping
from http import HTTPStatus
from importlib import resources
from threading import Lock
from typing import Any, ClassVar, Final

import msgspec

from nexusform.domains.explorer.plan_exploration import (
    ExplorationRequest,
    ExplorationRequestError,
    PlanExploration,
)
from nexusform.network.local_server import (
    LocalRequest,
    LocalRequestHandler,
    LocalResponse,
    LocalServer,
)
from nexusform.rendering.notation.json_values import encode_document
from nexusform.rendering.notation.markup import build_code_element, build_data_script, build_element
from nexusform.rendering.page.html_page import build_page_content
from nexusform.rendering.page.page_elements import render_page
from nexusform.rendering.report.plan_sentences import HYPOTHETICAL_PLAN

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; base-uri 'none'; form-action 'none'"
)


class ExplorerServer(LocalServer):
    """Server of one exploration until its shutdown."""

    def __init__(self, exploration: PlanExploration, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _ExplorerRequestHandler)
        self.exploration = exploration
        # One plan at a time.
        self.lock = Lock()

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
            build_element("h1", _format_headline(content.headline), id="headline"),
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
        return {
            "hypothetical": True,
            "headline": _format_headline(content.headline),
            "main": str(content.main),
            "data": content.data,
        }


def _format_headline(headline: str) -> str:
    """Return the headline of the page; the first plan has no change yet, and is never applied."""
    return f"{HYPOTHETICAL_PLAN}: {headline}"


def _read_asset(name: str) -> str:
    return (
        resources.files("nexusform.domains.explorer")
        .joinpath("assets", name)
        .read_text(encoding="utf-8")
    )


class _RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wish: ExplorationRequest = ExplorationRequest()
    digest: str = ""


class _ExplorerRequestHandler(LocalRequestHandler):
    server: ExplorerServer
    extra_headers: ClassVar[Mapping[str, str]] = {
        **LocalRequestHandler.extra_headers,
        "Referrer-Policy": "no-referrer",
        # Browsers accept this directive only from a header.
        "Content-Security-Policy": "frame-ancestors 'none'",
    }

    def find_token(self, request: LocalRequest) -> str:
        """Return the token of the address, or the one that the page sends."""
        if request.method == "GET":
            return request.parameters.get("token", "")
        return request.headers.get("x-token", "")

    def answer_request(self, request: LocalRequest) -> LocalResponse:
        """Return the page for `/`, or the plan of a request, its changes or their result."""
        if request.method == "GET":
            if request.path != "/":
                return self.build_rejection(HTTPStatus.NOT_FOUND, "Not found.")
            page = self.server.render_page()
            return LocalResponse(HTTPStatus.OK, page, "text/html; charset=utf-8")
        if request.path not in ("/plan", "/change", "/write"):
            return self.build_rejection(HTTPStatus.NOT_FOUND, "Not found.")
        # Pages of browsers always name their origin.
        if "origin" not in request.headers:
            return self.build_rejection(
                HTTPStatus.FORBIDDEN, "Only the page itself may send requests."
            )
        try:
            document = self._handle_request_body(
                request.path, msgspec.json.decode(request.body, type=_RequestBody)
            )
        except (
            msgspec.DecodeError,
            UnicodeDecodeError,
            ExplorationRequestError,
            OSError,
            RecursionError,
        ) as problem:
            return self.build_rejection(HTTPStatus.BAD_REQUEST, str(problem))
        return LocalResponse(HTTPStatus.OK, encode_document(document))

    def build_rejection(self, status: HTTPStatus, reason: str) -> LocalResponse:
        """Return the response to a rejected request."""
        if status == HTTPStatus.UNAUTHORIZED:
            # No client can sign in.
            status = HTTPStatus.FORBIDDEN
            reason = "Open the address that `nexusform explore` printed."
        return LocalResponse(status, encode_document({"problem": reason}))

    def _handle_request_body(self, path: str, body: _RequestBody) -> dict[str, Any]:
        """Return the answer to a request by its path.

        It is the plan, the file changes, or the names of the written files.
        """
        # `wish`: the requested counts and racks.
        if path == "/plan":
            return self.server.render_plan(body.wish)
        if path == "/change":
            document: dict[str, Any] = msgspec.to_builtins(
                self.server.exploration.compute_file_changes(body.wish)
            )
            return document
        with self.server.lock:  # /write
            # The digest is of the change shown.
            return {"files": list(self.server.exploration.write_files(body.wish, body.digest))}
