"""Tests of an S3 service in another region."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("boto3")
from nexusform.domains.remote_state.backends.s3 import open_s3
from nexusform.interfaces.state_storage import BackendProblem

BODY = b"<Error><Code>PermanentRedirect</Code><Message>another endpoint</Message></Error>"


class RedirectHandler(BaseHTTPRequestHandler):
    """Answer every request with a redirect."""

    region = ""

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.send_response(301)
        if self.region:
            self.send_header("x-amz-bucket-region", self.region)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(BODY)

    do_PUT = do_HEAD = do_GET  # noqa: N815 - names of http.server


@pytest.fixture(params=["eu-west-1", ""])
def redirecting_service(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Return the address of a redirecting service, and the region in its answer."""
    handler = type("Handler", (RedirectHandler,), {"region": request.param})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", request.param
    server.shutdown()
    server.server_close()


def test_bucket_in_another_region_is_reported(redirecting_service: tuple[str, str]) -> None:
    endpoint, region = redirecting_service
    settings = {
        "bucket": "b",
        "key": "k",
        "region": "us-east-1",
        "endpoint": endpoint,
        "use_path_style": True,
    }
    backend = open_s3({**settings, "access_key": "a", "secret_key": "s"})
    with pytest.raises(BackendProblem) as told:
        backend.read()
    words = str(told.value)
    assert 'the server answered 301 (redirect). The bucket "b" is in' in words
    assert 'not in "us-east-1"' in words
    assert f'region = "{region or "REGION"}"' in words
