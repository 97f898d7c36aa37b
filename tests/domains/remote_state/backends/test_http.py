"""Tests of state over Terraform's HTTP protocol, beyond the contract of all backends.

The contract is in tests/contracts.
"""

import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.backends import locks
from nexusform.cli.main import run_command_line
from nexusform.domains.remote_state.backends import http
from nexusform.domains.remote_state.backends.http import HttpBackend, HttpSettings, open_http
from nexusform.interfaces.state_storage import BackendProblem, LockInfo
from tests.certificates import create_certificate
from tests.contracts.bad_answers import build_document, run_bad_server
from tests.contracts.http_state_server import ServerContent, StoredState, run_state_server

HOLDER = LockInfo("id-1", "apply", "me@here", "0.1.0", "2026-11-20", "p", "here", 1)


@pytest.fixture
def server() -> Iterator[tuple[str, ServerContent]]:
    with run_state_server() as (address, store):
        yield address, store


def open_http_backend(address: str, directory: Path, **more: object) -> HttpBackend:
    service = HttpSettings(
        f"{address}/lon1", lock_address=f"{address}/lon1/lock", pause=0.01, **more
    )  # type: ignore[arg-type]
    return HttpBackend(service, str(directory))


def test_busy_server_is_retried(server: tuple[str, ServerContent], tmp_path: Path) -> None:
    address, store = server
    backend = open_http_backend(address, tmp_path)
    backend.write(b"one")
    store.refuse_next = 2
    assert backend.read() == b"one"
    store.refuse_next = 3
    with pytest.raises(BackendProblem, match="answered 503"):
        backend.read()


def test_write_sends_lock_id_and_is_rejected_without_lock(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    address, store = server
    holder = open_http_backend(address, tmp_path / "a")
    holder.lock(HOLDER)
    holder.write(b"mine")
    assert ("POST", "/lon1?ID=id-1") in store.requests
    with pytest.raises(BackendProblem, match="Another run holds the lock"):
        open_http_backend(address, tmp_path / "b").write(b"theirs")
    assert holder.read() == b"mine"


def test_unreachable_server_is_named_without_credentials(tmp_path: Path) -> None:
    backend = HttpBackend(
        HttpSettings("http://me:secret@127.0.0.1:9/x?token=t", attempts=1), str(tmp_path)
    )
    with pytest.raises(BackendProblem) as refused:
        backend.read()
    assert "http://127.0.0.1:9/x" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "token" not in str(refused.value)


def test_empty_answer_is_no_missing_state(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    address, store = server
    backend = open_http_backend(address, tmp_path)
    assert backend.read() is None
    store.places["/lon1"] = StoredState(document=b"")
    with pytest.raises(BackendProblem) as told:
        backend.read()
    assert "the server answered 200 without content" in str(told.value)
    assert "must answer 204 or 404" in str(told.value)


def test_state_that_another_run_wrote_is_not_overwritten(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    """A cache answered with an old document, or the server has no locks."""
    address, store = server
    backend = open_http_backend(address, tmp_path)
    backend.lock(HOLDER)
    assert backend.read() is None
    store.places["/lon1"].document = b'{"serial": 5}'
    with pytest.raises(BackendProblem, match="is another one than this run read"):
        backend.write(b'{"serial": 1}')
    assert store.places["/lon1"].document == b'{"serial": 5}'
    # The next run reads it.
    backend.unlock(HOLDER.id)
    backend.lock(HOLDER)
    assert backend.read() == b'{"serial": 5}'
    backend.write(b'{"serial": 6}')
    # Its own documents, also those whose answer was lost.
    store.places["/lon1"].document = b'{"serial":6}'
    backend.write(b'{"serial": 7}')
    assert store.places["/lon1"].document == b'{"serial": 7}'


def test_workspace_requires_placeholder_in_address(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    with pytest.raises(BackendProblem, match=r"Write \{workspace\} for its name"):
        open_http_backend(server[0], tmp_path).select_workspace("staging")


def test_lock_that_the_server_does_not_hold_is_rejected(tmp_path: Path) -> None:
    # A proxy or a login page that answers 200 to anything.
    with run_bad_server(build_document(b"<html>Sign in</html>")) as server:
        backend = open_http_backend(server.address, tmp_path)
        with pytest.raises(BackendProblem, match="accepted the lock, but does not hold it"):
            backend.lock(HOLDER)


def test_remedy_of_a_web_page_instead_of_a_state_is_to_check_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with run_bad_server(build_document(b"<html>Sign in</html>")) as server:
        block = f'nexusform {{\n  backend "http" {{\n    address = "{server.address}/s"\n  }}\n}}\n'
        Path("main.nf.hcl").write_text(block)
        assert run_command_line(["plan", "-no-color"]) == 1
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "is not valid JSON" in error
    assert "Check the address and the login first" in error
    assert ".backup" not in error


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://x/y", "lon1"])
def test_only_http_addresses_are_accepted(address: str) -> None:
    with pytest.raises(BackendProblem, match="must be an http or https address"):
        open_http({"address": address}, "data")


def test_write_after_broken_lock_is_rejected_even_if_lock_is_free(
    server: tuple[str, ServerContent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run has finished while this one was suspended; servers would accept its writes."""
    address, store = server
    clock = [100.0]
    monkeypatch.setattr(locks, "read_monotonic_clock", lambda: clock[0])
    sleeper = open_http_backend(address, tmp_path / "a")
    sleeper.lock(HOLDER)
    sleeper.append(b"{a}")
    other = open_http_backend(address, tmp_path / "b")
    other.force_unlock("id-1")
    other.lock(replace(HOLDER, id="id-2"))
    other.write(b"theirs")
    other.unlock("id-2")
    clock[0] += 90.0
    for act in (
        lambda: sleeper.append(b"{b}"),
        lambda: sleeper.write(b"mine"),
        lambda: sleeper.write_merged_state(b"mine"),
        lambda: sleeper.write_checkpoint(b"mine", []),
    ):
        with pytest.raises(BackendProblem, match="Another process broke the lock"):
            act()
    assert store.written == [b"theirs"]
    assert store.places["/lon1"].lock is None


def write_racks(directory: Path, address: str) -> None:
    (directory / "main.nf.hcl").write_text(
        f"""nexusform {{
  backend "http" {{
    address      = "{address}/lon1"
    lock_address = "{address}/lon1/lock"
  }}
}}
resource "nexus_site" "lab" {{
  name = "lab"
}}
resource "nexus_rack" "r" {{
  count         = 3
  site_id       = nexus_site.lab.id
  name          = "r${{count.index}}"
  machine_count = 1
}}
"""
    )


def test_state_is_sent_during_apply(
    server: tuple[str, ServerContent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, store = server
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(http, "_CHECKPOINT_SECONDS", 0.0)
    write_racks(tmp_path, address)
    assert run_command_line(["apply", "-auto-approve", "-parallelism=1"]) == 0
    documents = [json.loads(document) for document in store.written]
    counts = [
        sum(len(each["instances"]) for each in document["resources"]) for document in documents
    ]
    assert len(counts) > 2
    assert counts == sorted(counts)
    assert counts[-1] == 4
    # A server with one version per serial accepts every document.
    serials = [document["serial"] for document in documents]
    assert serials == sorted(set(serials))


def test_host_loss_loses_only_changes_since_last_checkpoint(
    server: tuple[str, ServerContent],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, store = server
    monkeypatch.setattr(http, "_CHECKPOINT_SECONDS", 0.0)
    first = tmp_path / "first"
    second = tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        write_racks(directory, address)
    monkeypatch.chdir(first)
    # The host is lost after the third document.
    sent = http.HttpBackend.write

    def interrupt_write(self: HttpBackend, document: bytes) -> None:
        if len(store.written) == 3:
            raise KeyboardInterrupt
        sent(self, document)

    monkeypatch.setattr(http.HttpBackend, "write", interrupt_write)
    assert run_command_line(["apply", "-auto-approve", "-parallelism=1"]) != 0
    monkeypatch.setattr(http.HttpBackend, "write", sent)
    store.places["/lon1"].lock = None  # Like force-unlock.
    monkeypatch.chdir(second)
    capsys.readouterr()
    assert run_command_line(["plan"]) == 0
    shown = capsys.readouterr().out
    held = sum(len(each["instances"]) for each in json.loads(store.written[-1])["resources"])
    assert 0 < held < 4
    assert f"Plan: {4 - held} to add, 0 to change, 0 to destroy." in shown


def test_returning_machine_does_not_undo_later_applies(
    server: tuple[str, ServerContent],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, store = server
    places = [tmp_path / "first", tmp_path / "second"]
    for directory in places:
        directory.mkdir()
        write_racks(directory, address)
    monkeypatch.chdir(places[0])
    write = http.HttpBackend.write

    def lose_connection(_self: HttpBackend, _document: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(http.HttpBackend, "write", lose_connection)
    assert run_command_line(["apply", "-auto-approve"]) != 0
    monkeypatch.setattr(http.HttpBackend, "write", write)
    store.places["/lon1"].lock = None  # Like force-unlock.
    monkeypatch.chdir(places[1])
    assert run_command_line(["apply", "-auto-approve"]) == 0
    latest = store.written[-1]
    monkeypatch.chdir(places[0])
    for command in (["plan"], ["apply", "-auto-approve"], ["apply", "-resume"]):
        capsys.readouterr()
        assert run_command_line(command) == 1
        error = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert "that began on another state" in error
        assert "`nexusform apply -discard`" in error
    (journal,) = (places[0] / ".nexusform").glob("*.journal")
    lines = journal.read_bytes()
    assert run_command_line(["apply", "-discard"]) == 0
    output = capsys.readouterr()
    warning = "".join((output.out + output.err).replace("│", " ").split())
    assert f'keptin".nexusform/{journal.name}.old"' in warning
    assert "Nounfinishedapply" not in warning
    assert Path(f"{journal}.old").read_bytes() == lines
    assert store.written[-1] == latest
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0


def test_reformatted_document_is_that_of_its_journal(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    address, store = server
    backend = open_http_backend(address, tmp_path)
    backend.write(b'{"a": 1, "b": 2}')
    backend.append(b"{first}")
    backend._journal.mark_compacted(b'{"b": 3, "a": 1}', [b"{kept}"])
    # Killed before the journal tells that the server has it.
    store.places["/lon1"].document = b'{"a":1,"b":3}'
    assert open_http_backend(address, tmp_path).read_journal() == [b"{kept}"]


CLUSTERS = """provider "simulated" {
  reality = "../site.json"
}
resource "nexus_kubernetes_cluster" "c" {
  count      = 2
  name       = "c${count.index}"
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
}
"""
ADDRESSES = {"lab": "nexus_site.lab"} | {f"lab/r{n}": f"nexus_rack.r[{n}]" for n in range(3)}
ADDRESSES |= {f"lab/c{n}": f"nexus_kubernetes_cluster.c[{n}]" for n in range(2)}


@pytest.mark.parametrize("sent", [1, 3, 5])
def test_resources_created_before_host_loss_are_imported(
    server: tuple[str, ServerContent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """The journal is lost with the host; the state on the server is that of the last checkpoint."""
    address, store = server
    monkeypatch.setattr(http, "_CHECKPOINT_SECONDS", 0.0)
    # One work tree contains both directories and the file of the site.
    (tmp_path / ".git").mkdir()
    places = [tmp_path / "first", tmp_path / "second"]
    for directory in places:
        directory.mkdir()
        write_racks(directory, address)
        with (directory / "main.nf.hcl").open("a") as file:
            file.write(CLUSTERS)
    monkeypatch.chdir(places[0])
    assert run_command_line(["plan", "-out=p"]) == 0
    write = http.HttpBackend.write

    def dying(self: HttpBackend, document: bytes) -> None:
        if len(store.written) == sent:
            raise KeyboardInterrupt
        write(self, document)

    monkeypatch.setattr(http.HttpBackend, "write", dying)
    assert run_command_line(["apply", "-parallelism=1", "p"]) != 0
    monkeypatch.setattr(http.HttpBackend, "write", write)
    store.places["/lon1"].lock = None  # Like force-unlock.
    monkeypatch.chdir(places[1])
    shutil.rmtree(places[0])
    held = {each["attributes"]["id"] for each in list_instances(store.written[-1])}
    made = [each["id"] for each in json.loads((tmp_path / "site.json").read_text())]
    assert len(made) > len(held)
    for object_id in sorted(set(made) - held, key=list(ADDRESSES).index):
        assert run_command_line(["import", ADDRESSES[object_id], object_id]) == 0
    assert run_command_line(["apply", "-auto-approve"]) == 0
    final = list_instances(store.written[-1])
    assert sorted(each["attributes"]["id"] for each in final) == sorted(ADDRESSES)
    reality = json.loads((tmp_path / "site.json").read_text())
    assert sorted(each["id"] for each in reality) == sorted(ADDRESSES)
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0


def list_instances(document: bytes) -> list[dict[str, Any]]:
    return [
        instance for each in json.loads(document)["resources"] for instance in each["instances"]
    ]


def test_workspace_missing_from_list_after_crash_is_listed_by_next_run(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    address, store = server
    dev = HttpBackend(HttpSettings(f"{address}/{{workspace}}", pause=0.01), str(tmp_path), "dev")
    dev.write(b"one")
    # The run crashed before this write.
    del store.places["/nexusform-workspaces"]
    assert dev.list_workspaces() == ["default"]
    dev.write(b"one")
    assert dev.list_workspaces() == ["default", "dev"]


READER = """data "nexusform_remote_state" "lab" {
  backend = "http"
  config = {
    address                = "ADDRESS"
    skip_cert_verification = true
  }
}
"""


@pytest.mark.parametrize("in_block", [True, False])
def test_unverified_server_is_reported(
    in_block: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Plan, apply and a remote state of another configuration warn.

    A verified server has no warning.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*create_certificate(tmp_path))
    monkeypatch.chdir(tmp_path)
    with run_state_server(tls=tls) as (address, _):
        settings = f'    address = "{address}/lab"\n'
        skip = "    skip_cert_verification = true\n"
        block = settings + skip * in_block
        Path("main.nf.hcl").write_text(
            f'nexusform {{\n  backend "http" {{\n{block}  }}\n}}\nresource "nexus_site" "s" {{}}\n'
        )
        flags = [] if in_block else ["-backend-config=skip_cert_verification=true"]

        def run_and_read_output(*words: str) -> str:
            assert run_command_line([words[0], *flags, *words[1:]]) == 0, capsys.readouterr().err
            said = capsys.readouterr()
            return " ".join((said.out + said.err).replace("│", " ").split())

        warning = f"The certificate of {address} is not verified"
        assert warning in run_and_read_output("plan", "-out=p")
        assert ("on main.nf.hcl line 2" in run_and_read_output("plan")) is in_block
        assert warning in run_and_read_output("apply", "-auto-approve", "p")
        assert warning in run_and_read_output("apply", "-auto-approve")
        (tmp_path / "reader").mkdir()
        monkeypatch.chdir(tmp_path / "reader")
        Path("main.nf.hcl").write_text(READER.replace("ADDRESS", f"{address}/lab"))
        flags = []
        assert f"{warning} (skip_cert_verification)" in run_and_read_output("plan")


def test_older_state_than_this_machine_has_seen_is_an_error(
    server: tuple[str, ServerContent],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A cache, or a copy of the server that lags behind, answers with what this machine wrote."""
    address, store = server
    monkeypatch.chdir(tmp_path)
    write_racks(tmp_path, address)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    older = store.written[-1]
    racks = Path("main.nf.hcl")
    racks.write_text(racks.read_text().replace("count         = 3", "count         = 5"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    newest = store.written[-1]
    for document in (older, None):
        for command in (["plan"], ["apply", "-auto-approve"], ["state", "list"]):
            store.places["/lon1"].document = document
            capsys.readouterr()
            assert run_command_line(command) == 1
            error = " ".join(capsys.readouterr().err.replace("│", " ").split())
            assert "this machine has seen a newer one" in error
    assert store.written[-1] == newest
    store.places["/lon1"].document = newest
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    # The older state was restored on purpose.
    store.places["/lon1"].document = older
    (seen,) = Path(".nexusform").glob("*.seen")
    assert f"rm {seen}" in error
    seen.unlink()
    assert run_command_line(["plan", "-detailed-exitcode"]) == 2


def test_warning_if_seen_states_cannot_be_recorded_or_read(
    server: tuple[str, ServerContent],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, _ = server
    monkeypatch.chdir(tmp_path)
    write_racks(tmp_path, address)
    assert run_command_line(["apply", "-auto-approve"]) == 0

    def run_and_read_output(*words: str) -> str:
        assert run_command_line(words) == 0
        said = capsys.readouterr()
        return " ".join((said.out + said.err).replace("│", " ").split())

    assert "Warning" not in run_and_read_output("plan")
    (seen,) = Path(".nexusform").glob("*.seen")
    seen.write_text("[{")
    warning = f"{seen} cannot be read (not valid)."
    assert warning in run_and_read_output("plan")
    # That run recorded its state again.
    assert "Warning" not in run_and_read_output("state", "list")
    # A directory in its place: it cannot be replaced, also by root.
    seen.unlink()
    seen.mkdir()
    assert "Seen states not recorded" in run_and_read_output("plan")
    assert "Seen states not recorded" in run_and_read_output("state", "list")


def test_order_of_documents_is_kept_for_later_commands(
    server: tuple[str, ServerContent], tmp_path: Path
) -> None:
    address, store = server
    place = store.places["/lon1"] = StoredState(document=b"encrypted 1")
    assert open_http_backend(address, tmp_path).read() == b"encrypted 1"
    # Another machine writes.
    place.document = b"encrypted 2"
    assert open_http_backend(address, tmp_path).read() == b"encrypted 2"
    place.document = b"encrypted 1"
    with pytest.raises(BackendProblem, match="with an older state"):
        open_http_backend(address, tmp_path).read()
    # Not encrypted: also documents that this machine has not seen.
    place.document = b'{"lineage": "a", "serial": 7}'
    assert open_http_backend(address, tmp_path).read()
    place.document = b'{"lineage": "a", "serial": 6}'
    with pytest.raises(BackendProblem, match="with an older state"):
        open_http_backend(address, tmp_path).read()
    # Written here again, it is the newest.
    place.document = b'{"lineage": "a", "serial": 7}'
    open_http_backend(address, tmp_path).write(b"encrypted 1")
    assert open_http_backend(address, tmp_path).read() == b"encrypted 1"
    # Another machine has its own file.
    place.document = b"encrypted 2"
    assert open_http_backend(address, tmp_path / "other").read() == b"encrypted 2"


def test_document_that_the_server_accepted_replaces_the_one_before(
    server: tuple[str, ServerContent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy that answers does not have it yet; the next command must not start from it."""
    address, store = server
    backend = open_http_backend(address, tmp_path)
    backend.write(b"one")
    monkeypatch.setattr(HttpBackend, "_read_document", lambda *_: b"one")
    with pytest.raises(BackendProblem, match="returns a different document"):
        backend.write(b"two")
    assert store.written[-1] == b"two"
    with pytest.raises(BackendProblem, match="with an older state"):
        open_http_backend(address, tmp_path).read()


def test_deleted_state_is_forgotten(server: tuple[str, ServerContent], tmp_path: Path) -> None:
    address, _ = server
    backend = open_http_backend(address, tmp_path)
    backend.write(b"one")
    backend.remove()
    assert backend.read() is None
    assert open_http_backend(address, tmp_path).read() is None


@pytest.mark.parametrize("head", [(), ("Age: 0",), ("Age: 12",)])
def test_answer_of_a_cache_is_an_error(head: tuple[str, ...], tmp_path: Path) -> None:
    """A server itself, or a cache that asked it for this request, gives no age."""
    document = b'{"lineage": "a", "serial": 7}'
    with run_bad_server(build_document(document, *head)) as server:
        backend = open_http_backend(server.address, tmp_path)
        if head != ("Age: 12",):
            assert backend.read() == document
            return
        with pytest.raises(BackendProblem, match="a cache answered with a copy that is 12 s old"):
            backend.read()
