"""Tests of the addresses of requests to an API server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nexusform.network.api_client import ApiClient, ApiRequest
from tests.crowded_server import CrowdedServer, PlainRequestHandler


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/api/v1/nodes", "/api/v1/nodes"),
        ("/", "api/v1/nodes", "/api/v1/nodes"),
        ("/clusters/c-1", "/api/v1/nodes", "/clusters/c-1/api/v1/nodes"),
        ("", "//other.example/nodes", "/other.example/nodes"),
        ("", "/@other.example", "/@other.example"),
        # A name with these must not end the path, or the query would be lost.
        ("", "/nodes/a?b#c", "/nodes/a%3Fb%23c"),
    ],
)
def test_target_has_the_folder_the_path_and_the_query(base: str, path: str, target: str) -> None:
    targets: list[str] = []

    class Handler(PlainRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 - a name of http.server
            targets.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None: ...

    server = CrowdedServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = ApiClient(f"http://127.0.0.1:{server.server_port}{base}", trust_env=False)
    try:
        client.send(ApiRequest("GET", path))
        client.send(ApiRequest("GET", path, {"dryRun": "All", "name": "a b&c/é"}))
    finally:
        client.close()
        server.shutdown()
        server.server_close()
    assert targets == [target, f"{target}?dryRun=All&name=a+b%26c%2F%C3%A9"]
