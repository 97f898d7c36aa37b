"""Tests of the limits of the network package."""

from __future__ import annotations

import io
import json
import threading
import time
import tracemalloc
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.files.regular_files import FileTooLarge
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network import deadlines, read_limits
from nexusform.network.deadlines import DeadlineRunner, OperationAbandoned, share_deadline
from nexusform.network.http_client import WebRequest, send_request
from nexusform.network.read_limits import (
    MAX_PAGES,
    PageLimits,
    ReadByteLimit,
    estimate_memory,
    parse_json,
)
from nexusform.network.web_errors import WebError, check_plain_credentials
from tests.architecture.network_imports import find_network_imports


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 200_000, "it nests deeper than 512 levels"),
        (b"[" * 600 + b"]" * 600, "it nests deeper than 512 levels"),
        (b"\xff", "it is not UTF-8"),
        (b"{", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"9" * 10_000, "it is not JSON"),
    ],
)
def test_unusable_document_has_a_reason(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(content)


@pytest.mark.parametrize(
    "value", [{"a": ["[[[", {"b": "}}"}]}, [[]] * 3, '\\"[', json.loads("[" * 500 + "]" * 500)]
)
def test_brackets_in_text_do_not_count_as_nesting(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value


def test_number_and_size_of_pages_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = PageLimits()
    assert [budget.add_page(b"1", f"{number}") for number in range(MAX_PAGES)] == [""] * MAX_PAGES
    assert budget.add_page(b"1", "one more") == "it has more than 20,000 pages"
    monkeypatch.setattr(read_limits, "MAX_ANSWER_BYTES", 1 << 20)
    assert PageLimits().add_page(b" " * (1 << 21), "") == "its pages have more than 1 MiB"


@pytest.mark.parametrize(
    "document",
    [
        [
            {"metadata": {"name": f"pod-{number}", "labels": {"app": "web"}}}
            for number in range(9_000)
        ],
        [[] for _ in range(100_000)],
        [{} for _ in range(100_000)],
        [f"{number}" for number in range(100_000)],
        {f"key{number}": number for number in range(50_000)},
    ],
)
def test_memory_of_documents_is_limited(document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.dumps(document, separators=(",", ":")).encode()
    tracemalloc.start()
    try:
        json.loads(content)
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.6 * memory < estimate_memory(content) < 3.5 * memory
    monkeypatch.setattr(read_limits, "MAX_MEMORY", 4 << 20)
    with pytest.raises(ValueError, match="it takes more than 4 MiB of memory"):
        parse_json(content)
    pages = PageLimits()
    answers = [pages.add_page(content[: 1 << 18], f"{number}") for number in range(20)]
    assert "its pages take more than 4 MiB of memory" in answers


def test_long_text_takes_no_more_memory_than_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_limits, "MAX_MEMORY", 1 << 20)
    content = json.dumps(["{[,:" * 50_000]).encode()
    assert parse_json(content) == ["{[,:" * 50_000]


def test_tries_of_a_request_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", "2")
    monkeypatch.setattr(deadlines, "_LAST_TRY_SECONDS", 0.2)
    ended = threading.Event()
    started_at = time.monotonic()
    with share_deadline():
        for _ in range(3):
            # A new runner each: an earlier silence shortens the time of the same one.
            with pytest.raises(OperationAbandoned):
                DeadlineRunner(lambda: "a server").run("ask the server", lambda: ended.wait(20))
    ended.set()
    assert time.monotonic() - started_at < 4


@pytest.mark.parametrize(
    ("address", "is_safe"),
    [
        ("https://state.example/s", True),
        ("http://state.example/s", False),
        ("http://10.0.0.1/s", False),
        ("http://127.0.0.1:9/s", True),
        ("http://[::1]:9/s", True),
        ("http://localhost/s", True),
        ("http://localhost.example/s", False),
    ],
)
def test_credentials_require_tls_except_on_localhost(address: str, is_safe: bool) -> None:
    assert (check_plain_credentials(address) == "") is is_safe
    request = WebRequest(
        "GET",
        address.replace("state.example", "host.invalid"),
        headers={"Authorization": "Basic x"},
    )
    if not is_safe:
        with pytest.raises(WebError, match="without TLS"):
            send_request(request)


@pytest.mark.of_domains("remote_state")
def test_azure_storage_gets_no_token_without_tls(tmp_path: Path) -> None:
    settings = {
        "storage_account_name": "a",
        "container_name": "c",
        "key": "k",
        "sas_token": "canary",
    }
    settings["endpoint"] = "http://blob.example/a"
    with pytest.raises(
        BackendProblem, match=r"credentials are not sent to http://blob\.example without TLS"
    ):
        BACKENDS["azurerm"].open_backend(settings, Directories(str(tmp_path), str(tmp_path)))


@pytest.mark.of_domains("remote_state")
def test_password_of_a_netrc_file_does_not_replace_the_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("azure.storage.blob")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password canary\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers["Authorization"])
            self.send_error(404)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = {
        "storage_account_name": "account",
        "container_name": "c",
        "key": "k",
        "access_key": "a2V5",
        "endpoint": f"http://127.0.0.1:{server.server_port}/account",
    }
    backend = BACKENDS["azurerm"].open_backend(settings, Directories(str(tmp_path), str(tmp_path)))
    with suppress(BackendProblem):
        backend.read()
    server.shutdown()
    server.server_close()
    assert received
    assert all(text.startswith("SharedKey account:") for text in received), received


@pytest.mark.parametrize(
    "address", ["http://me:canary x@127.0.0.1:9/s", "http://127.0.0.1:9/s?token=canary x\n"]
)
def test_address_with_blank_is_not_printed(address: str) -> None:
    with pytest.raises(WebError) as raised:
        send_request(WebRequest("GET", address))
    assert str(raised.value) == "its address has a blank or a control character"


def test_only_this_package_imports_clients(tmp_path: Path) -> None:
    folder = tmp_path / "nexusform" / "x"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(
        "def f():\n    from urllib import request\n    import http.client\n"
    )
    (folder / "b.py").write_text("import socket\nfrom urllib.parse import quote\n")
    problems = find_network_imports(tmp_path, frozenset({"nexusform/x/b.py"}))
    assert [problem.partition(":")[0] for problem in problems] == [
        "nexusform/x/a.py imports urllib.request",
        "nexusform/x/a.py imports http.client",
    ]


@pytest.mark.of_domains("hub")
def test_rejected_secret_is_not_printed() -> None:
    from nexusform.domains.hub.api.api_errors import ApiError
    from nexusform.domains.hub.providers.hub_bodies import HubObject
    from nexusform.domains.hub.providers.object_access import (
        format_request_rejection,
        hide_sensitive_values,
    )
    from nexusform.interfaces.plugins import ChangeRequest

    cause = {
        "reason": "FieldValueInvalid",
        "field": "data[key]",
        "message": 'Invalid value: "canary"',
    }
    body = {
        "reason": "Invalid",
        "message": 'Secret "s" is invalid: "canary"',
        "details": {"causes": [cause]},
    }
    for kind, is_sensitive in (("Secret", False), ("ConfigMap", True)):
        hub_object = HubObject({"kind": kind, "metadata": {"name": "s"}}, "")
        request = cast("ChangeRequest", SimpleNamespace(is_sensitive=is_sensitive))
        for status, words in ((422, body), (400, {**body, "details": {}}), (500, "canary")):
            text = format_request_rejection(
                hide_sensitive_values(ApiError(status, words), hub_object, request), hub_object
            )
            assert "canary" not in text
            assert "data[key]: FieldValueInvalid" in text or status != 422
            assert text.startswith(f"{kind} s: the hub refuses it ({status})")


def test_answer_of_the_largest_size_is_read() -> None:
    assert ReadByteLimit(4).read_all(io.BytesIO(b"four")) == b"four"
    limit = ReadByteLimit(4)
    limit.count(2)
    limit.count(2)
    with pytest.raises(FileTooLarge):
        limit.count(1)
    with pytest.raises(FileTooLarge):
        ReadByteLimit(4).read_all(io.BytesIO(b"fives"))
