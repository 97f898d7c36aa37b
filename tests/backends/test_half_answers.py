"""Tests of wrong answers of a state server to one request of a command: no state is lost."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.remote_state.backends import http
from tests.contracts.bad_answers import (
    CUT,
    GARBAGE,
    Answer,
    build_raw_answer,
    build_redirect,
    run_bad_server,
)
from tests.contracts.http_state_server import ServerContent, run_state_server

CONFIGURATION = """{backend}
resource "nexus_site" "lab" {{
  name = "lab"
}}
resource "nexus_rack" "r" {{
  count         = {count}
  site_id       = nexus_site.lab.id
  name          = "r${{count.index}}"
  machine_count = 1
}}
"""
BACKEND = """nexusform {{
  backend "http" {{
    address      = "{address}/lon1"
    lock_address = "{address}/lon1/lock"
  }}
}}
"""
WRONG: dict[str, Answer] = {
    "a body cut off": CUT["no body"],
    "no answer": CUT["no head"],
    "a page": GARBAGE["a page"],
    "another protocol": GARBAGE["another protocol"],
    "a redirect": build_redirect(302, "http://127.0.0.1:9/x"),
    "an error": build_raw_answer(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
}


@pytest.fixture(autouse=True)
def skip_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only of this module: threads of other tests would not pause, either, and keep
    # a processor busy.
    monkeypatch.setattr(
        http, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _seconds: None)
    )


def write_configuration(directory: Path, count: int, address: str = "") -> None:
    directory.mkdir(exist_ok=True)
    backend = BACKEND.format(address=address) if address else ""
    (directory / "main.nf.hcl").write_text(CONFIGURATION.format(backend=backend, count=count))


def build_failing_proxy(address: str, number: int, wrong: Answer) -> Callable[..., None]:
    """Return a proxy of the real server with wrong answers from request `number` on."""
    import socket

    port = int(address.rpartition(":")[2])
    seen = [0]

    def answer_request(connection: socket.socket, head: bytes) -> None:
        seen[0] += 1
        if seen[0] >= number:
            wrong(connection, head)
            return
        head = re.sub(rb"(?i)connection: [^\r]*", b"Connection: close", head)
        with socket.create_connection(("127.0.0.1", port)) as behind:
            behind.sendall(head)
            length = int((re.search(rb"(?i)content-length: (\d+)", head) or [0, b"0"])[1])
            rest = length - len(head.partition(b"\r\n\r\n")[2])
            while rest > 0 and (part := connection.recv(65536)):
                behind.sendall(part)
                rest -= len(part)
            while part := behind.recv(65536):
                connection.sendall(part)

    return answer_request


def apply_team_state(
    store: ServerContent, address: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """Apply the state of a team, a site and two racks, to the server, and return it."""
    write_configuration(directory, 2, address)
    monkeypatch.chdir(directory)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    return store.places["/lon1"].document or b""


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("wrong", WRONG)
def test_unread_state_is_not_overwritten(
    wrong: str,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with run_state_server() as (address, store):
        before = apply_team_state(store, address, tmp_path / "team", monkeypatch)
        lineage = re.findall(rb'"lineage": ?"([^"]+)"', before)
        with run_bad_server(build_failing_proxy(address, number, WRONG[wrong])) as server:
            write_configuration(tmp_path / "mine", 3, server.address)
            monkeypatch.chdir(tmp_path / "mine")
            capsys.readouterr()
            code = run_command_line(["apply", "-auto-approve", "-no-color"])
        said = capsys.readouterr()
        assert code == 1, said.out
        assert "Traceback" not in said.err
        assert "a bug" not in said.err
        assert "127.0.0.1" in said.err or "was not released" in said.err
        assert all(
            re.findall(rb'"lineage": ?"([^"]+)"', document) == lineage for document in store.written
        )


@pytest.mark.parametrize("wrong", WRONG)
def test_migration_is_complete_or_reports_the_error(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_state_server() as (address, store):
        before = apply_team_state(store, address, tmp_path / "team", monkeypatch)
        for number in range(1, 5):
            with run_bad_server(build_failing_proxy(address, 10_000, WRONG[wrong])) as server:
                mine = tmp_path / f"mine{number}"
                write_configuration(mine, 2, server.address)
                monkeypatch.chdir(mine)
                assert run_command_line(["init"]) == 0
                write_configuration(mine, 2)
                server.answer = build_failing_proxy(address, number, WRONG[wrong])
                capsys.readouterr()
                code = run_command_line(["init", "-migrate-state", "-input=false", "-no-color"])
            said = capsys.readouterr()
            taken = mine / "state" / "nexusform.nfstate"
            store.places["/lon1"].lock = None
            if code == 0:
                assert taken.exists(), said.out
            else:
                assert "127.0.0.1" in said.err
            assert store.places["/lon1"].document == before
            if code:
                # After a reported error, the next command does not start from an empty state.
                assert run_command_line(["plan", "-input=false"]) == 1
