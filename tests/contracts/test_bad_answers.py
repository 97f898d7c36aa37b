"""Tests of every remote backend with servers that send bad responses.

Bad responses are incomplete, wrong or slow, or there are none.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateBackend
from tests.contracts import servers
from tests.contracts.bad_answers import (
    CUT,
    GARBAGE,
    Answer,
    build_redirect,
    drip_body,
    keep_silent,
    run_bad_server,
    shorten_deadline,
)

pytestmark = pytest.mark.of_domains("remote_state")
INFO = LockInfo("id-1", "apply", "me@here", "0.1.0", "2026-11-20", "p", "here", 1)
SETTINGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "http": lambda address: {"address": f"{address}/s", "lock_address": f"{address}/s/lock"},
    "azurerm": lambda address: {
        "storage_account_name": servers.ACCOUNT,
        "container_name": "c",
        "key": "k",
        "access_key": servers.KEY,
        "endpoint": f"{address}/{servers.ACCOUNT}",
    },
    "s3": lambda address: {
        "bucket": "b",
        "key": "k",
        "endpoint": address,
        "use_path_style": True,
        "region": "us-east-1",
        "access_key": "test",
        "secret_key": "test",
    },
    "postgres": lambda address: {
        "conn_str": f"postgres://me:canary@{address.removeprefix('http://')}/d"
    },
}
CALLS: dict[str, Callable[[StateBackend], object]] = {
    "read": lambda backend: backend.read(),
    "write": lambda backend: backend.write(b"{}"),
    "lock": lambda backend: backend.lock(INFO),
    "journal": lambda backend: backend.read_journal(),
    "workspaces": lambda backend: backend.list_workspaces(),
}
ANSWERS: dict[str, Answer] = {
    "silent": keep_silent,
    "dripping": drip_body,
    "redirecting": build_redirect(302, "http://127.0.0.1:9/x"),
    **{name: CUT[name] for name in ("no body", "half a body", "no head", "half a chunk")},
    **{
        name: GARBAGE[name]
        for name in ("another protocol", "a page", "an endless line", "control characters")
    },
}
# The journal of http is on this machine, and its workspaces are those of the address.
NOT_ASKED = {("http", "journal"), ("http", "workspaces")}


# Resources left open by a client library after an error are not ours.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", SETTINGS)
def test_call_ends_in_time_with_an_error(
    kind: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Directories(str(tmp_path), str(tmp_path / ".nexusform"))
    calls = {name: call for name, call in CALLS.items() if (kind, name) not in NOT_ASKED}
    with run_bad_server(ANSWERS[answer]) as server, ThreadPoolExecutor(len(calls)) as threads:
        settings = SETTINGS[kind](server.address)
        backends = {name: BACKENDS[kind].open_backend(settings, place) for name in calls}
        # A page is an answer in time.
        shorten_deadline(monkeypatch, 1 if answer == "a page" else 0.2)
        begun = time.monotonic()
        results = {name: threads.submit(call, backends[name]) for name, call in calls.items()}
        if (kind, answer) == ("http", "a page"):
            # The reader of the state decides whether this is one.
            assert results.pop("read").result() == b"<html>Hi</html>"
            # A server that accepts everything; writes are verified by a read.
            results.pop("lock")
        for result in results.values():
            with pytest.raises(BackendProblem) as refused:
                result.result()
            said = str(refused.value)
            assert "127.0.0.1" in said, said
            # The reason phrase of a status gives no information.
            assert "Elsewhere" not in said, said
            assert "canary" not in said
            assert len(said) < 1000
        # each call has a deadline of a second or less, all in threads of a busy machine
        assert time.monotonic() - begun < 60


# Resources left open by a client library after an error are not ours.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("kind", ["http", "azurerm", "s3"])
def test_redirect_to_another_host_is_not_followed(kind: str, status: int, tmp_path: Path) -> None:
    with run_bad_server(GARBAGE["a page"]) as elsewhere:
        with run_bad_server(build_redirect(status, f"{elsewhere.address}/x")) as server:
            place = Directories(str(tmp_path), str(tmp_path / ".nexusform"))
            backend = BACKENDS[kind].open_backend(SETTINGS[kind](server.address), place)
            for call in ("read", "write", "lock"):
                with pytest.raises(
                    BackendProblem,
                    match=rf"the server answered {status}(, a redirect| \(redirect\))",
                ):
                    CALLS[call](backend)
        assert elsewhere.heads == []


@pytest.mark.parametrize(
    ("connection", "server"),
    [
        (
            "host=db.example port=5433 user=me password=canary dbname=d",
            ("postgres://db.example:5433",),
        ),
        ("dbname=d password='canary' host='db.example'", ("postgres://db.example",)),
        (
            "postgresql://me:canary@db.example:5433/d?sslmode=require",
            ("postgres://db.example:5433",),
        ),
        ("postgres://db.example?password=canary", ("postgres://db.example",)),
        ("service=lab", ()),
    ],
)
def test_server_of_connection_string_is_named_without_secrets(
    connection: str, server: tuple[str, ...]
) -> None:
    assert BACKENDS["postgres"].list_server_urls({"conn_str": connection}) == server
