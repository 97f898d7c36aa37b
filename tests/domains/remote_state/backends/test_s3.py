"""Tests of an S3 service in another region, and of a lock replaced while it is released."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("boto3")
from botocore.exceptions import ClientError

from nexusform.backends import locks
from nexusform.domains.remote_state.backends.s3 import S3Backend, open_s3
from nexusform.interfaces.state_storage import BackendProblem, LockInfo

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


class MemoryClient:
    """S3 client with objects in memory; `before_delete` is called before each deletion."""

    meta = SimpleNamespace(endpoint_url="https://s3.amazonaws.com")

    def __init__(self, *, conditional_deletes: bool = True) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.before_delete: Callable[[], None] = lambda: None
        self.conditional_deletes = conditional_deletes
        # Keys in lists, without an object; one fewer after each list.
        self.ghosts: list[str] = []

    def get_object(self, **members: Any) -> dict[str, Any]:
        if members["Key"] not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        content, etag = self.objects[members["Key"]]
        now = datetime.now(UTC)
        return {
            "Body": io.BytesIO(content),
            "ContentLength": len(content),
            "ETag": etag,
            "LastModified": now,
            "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(now)}},
        }

    def get_paginator(self, _name: str) -> MemoryClient:
        return self

    def paginate(self, **members: Any) -> list[dict[str, Any]]:
        keys = sorted(key for key in self.objects if key.startswith(members["Prefix"]))
        keys += [key for key in self.ghosts if key.startswith(members["Prefix"])]
        self.ghosts = self.ghosts[1:]
        return [{"Name": "b", "Contents": [{"Key": key} for key in keys]}]

    def put_object(self, **members: Any) -> dict[str, Any]:
        etag = str(hash(members["Body"]))
        self.objects[members["Key"]] = (members["Body"], etag)
        return {"ETag": etag}

    def delete_object(self, **members: Any) -> None:
        self.before_delete()
        key, etag = members["Key"], members.get("IfMatch")
        if etag and not self.conditional_deletes:
            raise ClientError({"Error": {"Code": "NotImplemented"}}, "DeleteObject")
        if etag and self.objects[key][1] != etag:
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "DeleteObject")
        self.objects.pop(key, None)


def build_holder(lock_id: str) -> LockInfo:
    return LockInfo(lock_id, "apply", "me@here", "0.1.0", "2026-11-20", "p", "here", 1)


def test_lock_that_another_run_took_meanwhile_is_not_removed() -> None:
    client = MemoryClient()
    backend = S3Backend(client, "b", "k")
    backend.lock(build_holder("ours"))
    # The lease expires between the look at the lock and its deletion.
    other = locks.format_lock(build_holder("other"), Lease="60", Renewed="0")
    client.before_delete = lambda: client.objects.update({"k.lock": (other, "etag of other")})
    with pytest.raises(BackendProblem, match="other"):
        backend.unlock("ours")
    assert client.objects["k.lock"] == (other, "etag of other")


def test_lock_is_released_on_a_server_without_conditional_deletion() -> None:
    client = MemoryClient(conditional_deletes=False)
    backend = S3Backend(client, "b", "k")
    backend.lock(build_holder("ours"))
    backend.unlock("ours")
    assert "k.lock" not in client.objects


def test_journal_emptied_while_it_is_read_is_read_again() -> None:
    client = MemoryClient()
    backend = S3Backend(client, "b", "k")
    client.objects["k.journal/0000000002"] = (b"{}\n", "etag")
    client.ghosts = ["k.journal/0000000001"] * 2
    assert backend.read_journal() == [b"{}"]
    assert client.ghosts == []
    client.ghosts = ["k.journal/0000000001"] * 20
    with pytest.raises(BackendProblem, match="are listed, but do not exist"):
        backend.read_journal()
