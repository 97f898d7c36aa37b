"""What every backend promises, run for every entry of the registry."""

import base64
import os
import signal
import threading
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends import registry
from nexusform.backends.memory import MemoryBackend
from nexusform.backends.registry import BACKENDS, Directories
from nexusform.interfaces.state_storage import (
    BackendProblem,
    BatchJournalBackend,
    LockInfo,
    StateBackend,
    StateLocked,
    VersionedBackend,
)
from nexusform.schemas.block_schema import BlockSchema
from tests.contracts import servers
from tests.contracts.backend_workers import BackendWorkers, Worker
from tests.kill_points import select_groups

LONG = "NEXUSFORM_LONG_STORIES"
LEASE = 15  # seconds; the least that NF_LEASE_SECONDS takes


def local_settings(_server: str, _name: str) -> dict[str, Any]:
    return {"path": "state/s.nfstate"}


def azurerm_settings(server: str, name: str) -> dict[str, Any]:
    from azure.storage.blob import ContainerClient

    container = ContainerClient(server, f"c{name}", credential=servers.KEY)
    if not container.exists():
        container.create_container()
    return {
        "storage_account_name": servers.ACCOUNT,
        "container_name": f"c{name}",
        "key": "site/lon1.nfstate",
        "access_key": servers.KEY,
        "endpoint": server,
    }


def http_settings(server: str, name: str) -> dict[str, Any]:
    return {"address": f"{server}/{name}/{{workspace}}", "lock_address": f"{server}/{name}/{{workspace}}/lock"}


def gitlab_settings(server: str, name: str) -> dict[str, Any]:
    dialect = {"lock_method": "POST", "unlock_method": "DELETE", "username": "ci", "password": "token"}
    return http_settings(server, f"gitlab/{name}") | dialect


def s3_settings(server: str, name: str) -> dict[str, Any]:
    import boto3

    login = {"region": "us-east-1", "access_key": "test", "secret_key": "test"}
    client = boto3.client(
        "s3", endpoint_url=server, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    client.create_bucket(Bucket=f"b{name}")
    client.put_bucket_versioning(Bucket=f"b{name}", VersioningConfiguration={"Status": "Enabled"})
    return {"bucket": f"b{name}", "key": "site/lon1.nfstate", "endpoint": server, "use_path_style": True} | login


def postgres_settings(server: str, name: str) -> dict[str, Any]:
    return {"conn_str": server, "schema_name": f"s{name}"}


class Kind(Struct, frozen=True):
    """How a test reaches a backend of one kind, and what it may expect of it."""

    backend: str
    settings: Callable[[str, str], dict[str, Any]]
    server: str = ""  # the fixture that starts its server
    forgets: bool = False  # everything, with the process
    keeps: int = 2  # earlier documents, at the least
    # Seconds until the lock of a killed holder is free; None: never by itself.
    frees_within: float | None = 0.0


_EVERY_KIND = {
    "local": Kind("local", local_settings, keeps=1),
    "memory": Kind("memory", lambda _server, _name: {}, forgets=True, keeps=1),
    "azurerm": Kind("azurerm", azurerm_settings, "azurite", frees_within=LEASE),
    "http": Kind("http", http_settings, "http_server", frees_within=None),
    "gitlab": Kind("http", gitlab_settings, "http_server", frees_within=None),
    "s3": Kind("s3", s3_settings, "s3_server", frees_within=LEASE),
    "postgres": Kind("postgres", postgres_settings, "postgres"),
}
# Those of a domain go with it.
KINDS = {name: kind for name, kind in _EVERY_KIND.items() if kind.backend in BACKENDS}
SHARED = [name for name, kind in KINDS.items() if not kind.forgets]  # by several processes


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_LEASE_SECONDS", str(LEASE))


class Opened(Struct):
    """A backend and the way to open the same place again, as another process would."""

    kind: Kind
    backend: StateBackend
    open_again: Callable[[], StateBackend]


class Somewhere(Struct, frozen=True):
    """A fresh place of one kind, which other processes can open as well."""

    kind: Kind
    settings: dict[str, Any]
    directory: Path

    def open(self, largest: int = registry.MAXIMUM_SIZE) -> StateBackend:
        place = Directories(str(self.directory), str(self.directory / ".nexusform"), maximum_size=largest)
        return BACKENDS[self.kind.backend].open_backend(self.settings, place)


def fresh(request: pytest.FixtureRequest, directory: Path) -> Somewhere:
    kind = KINDS[request.param]
    server = request.getfixturevalue(kind.server) if kind.server else ""
    return Somewhere(kind, kind.settings(server, uuid.uuid4().hex), directory)


@pytest.fixture(params=list(KINDS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    where = fresh(request, tmp_path)
    backend = where.open()
    if where.kind.forgets:
        return Opened(where.kind, backend, lambda: backend.select_workspace("default"))
    return Opened(where.kind, backend, where.open)


@pytest.fixture(params=SHARED)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Somewhere:
    return fresh(request, tmp_path)


@pytest.fixture
def backend(opened: Opened) -> StateBackend:
    return opened.backend


def info(lock_id: str = "id-1", **more: Any) -> LockInfo:
    import os
    import socket

    here = LockInfo(lock_id, "apply", "me@here", "0.1.0", "2024-11-20", "p", socket.gethostname(), os.getpid())
    return replace(here, **more)


def test_every_kind_has_a_schema_of_settings() -> None:
    assert set(BACKENDS) == {kind.backend for kind in KINDS.values()}
    assert all(isinstance(kind.schema, BlockSchema) for kind in BACKENDS.values())


def test_a_fresh_place_holds_nothing(backend: StateBackend) -> None:
    assert backend.read() is None
    assert backend.read_journal() == []
    assert backend.read_lock() is None
    assert backend.list_workspaces() == ["default"]
    assert backend.describe()


def test_what_is_written_is_read_by_others(opened: Opened) -> None:
    opened.backend.write(b"one")
    assert opened.open_again().read() == b"one"
    opened.backend.write(b"two")
    assert opened.open_again().read() == b"two"


def test_records_are_kept_in_order_until_compaction(opened: Opened) -> None:
    opened.backend.write(b"one")
    opened.backend.append(b"{a}")
    opened.backend.append(b"{b}")
    assert opened.open_again().read_journal() == [b"{a}", b"{b}"]
    assert opened.open_again().read() == b"one"
    opened.backend.write_merged_state(b"two")
    assert (opened.open_again().read(), opened.open_again().read_journal()) == (b"two", [])
    opened.backend.append(b"{c}")
    assert opened.open_again().read_journal() == [b"{c}"]


def test_compacting_an_unchanged_document_empties_the_journal_too(opened: Opened) -> None:
    opened.backend.write_merged_state(b"one")
    opened.backend.append(b"{a}")
    opened.backend.write_merged_state(b"one")
    assert opened.open_again().read_journal() == []


def test_records_to_keep_outlive_a_compaction(opened: Opened) -> None:
    opened.backend.append(b"{a}")
    opened.backend.write_merged_state(b"one", [b"{kept}", b"{too}"])
    assert (opened.open_again().read(), opened.open_again().read_journal()) == (b"one", [b"{kept}", b"{too}"])
    opened.backend.append(b"{b}")
    assert opened.open_again().read_journal() == [b"{kept}", b"{too}", b"{b}"]
    opened.backend.write_merged_state(b"two", [b"{kept}"])
    assert opened.open_again().read_journal() == [b"{kept}"]
    opened.backend.write_merged_state(b"two")
    assert opened.open_again().read_journal() == []


def test_several_records_are_added_in_order(opened: Opened) -> None:
    if not isinstance(opened.backend, BatchJournalBackend):
        pytest.skip("adds one record at a time")
    opened.backend.append_all([])
    opened.backend.append_all([b"{a}", b"{b}"])
    opened.backend.append(b"{c}")
    with pytest.raises(ValueError, match="one line"):
        opened.backend.append_all([b"{d}", b"\n"])
    assert opened.open_again().read_journal() == [b"{a}", b"{b}", b"{c}"]


@pytest.mark.parametrize("what", ["document", "journal", "version"])
@pytest.mark.parametrize("workspace", ["default", "staging"])
def test_what_is_too_large_is_refused_before_it_is_in_memory(where: Somewhere, what: str, workspace: str) -> None:
    def opened(largest: int = registry.MAXIMUM_SIZE) -> StateBackend:
        return where.open(largest).select_workspace(workspace)

    backend = opened()
    if what == "version" and not isinstance(backend, VersionedBackend):
        pytest.skip("keeps no history")
    large = b"x" * (16 << 20)
    write = {"document": backend.write, "version": backend.write, "journal": backend.append}
    write[what](large)
    if what == "version":
        backend.write(b"small")

    def read(again: StateBackend) -> object:
        if what != "version":
            return again.read_journal() if what == "journal" else again.read()
        assert isinstance(again, VersionedBackend)
        (version,) = again.list_versions()
        return again.read_version(version.id)

    bounded = opened((16 << 20) - 1)
    tracemalloc.start()
    try:
        with pytest.raises(BackendProblem, match=r"larger than 16777215 bytes.*-limit=file_mib=N"):
            read(bounded)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Answers of unknown length are read up to the bound.
    assert where.kind.backend == "http" or peak < 12 << 20
    assert read(opened((16 << 20) + 1)) in (large, [large])


GARBAGE = {
    "nothing": b"",
    "bytes": b"\xff\x00",
    "text": b"not JSON",
    "no ID": b"{}",
    "a number": b'{"ID": 7}',
    "an ID that nobody types": b'{"ID": "a\\u001b", "Who": "x"}',
}


def lay_a_lock(where: Somewhere, content: bytes) -> None:
    """A lock of somebody else, with whatever stands in it."""
    opened: Any = where.open()
    opened.write(b"{}")
    backend = opened.inner
    if where.kind.backend == "s3":
        backend._client.put_object(Bucket=backend._bucket, Key=backend._lock_key, Body=content)
    elif where.kind.backend == "azurerm":
        from azure.storage.blob import BlobLeaseClient

        note = {"nexusformlock": base64.b64encode(content).decode()} if content else {}
        backend._blob.set_blob_metadata(note)
        BlobLeaseClient(backend._blob).acquire(60)
    elif where.kind.backend == "postgres":
        backend.lock(info("another"))
        statement = backend._database.format_sql("UPDATE {schema}.workspaces SET holder = %s")
        with backend._open_session("lay a lock") as connection:
            connection.execute(statement, (content,))
    else:
        pytest.skip("its locks are tried elsewhere, or are the server's")


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_garbage_lock_is_broken_by_the_id_that_it_is_told_by(where: Somewhere, garbage: str) -> None:
    lay_a_lock(where, GARBAGE[garbage])
    again = where.open()
    with pytest.raises(StateLocked) as held:
        again.lock(info("mine"))
    holder = held.value.holder
    assert holder is not None
    assert holder.id.startswith("unreadable-")
    again.force_unlock(holder.id)
    again.lock(info("mine"))
    again.unlock("mine")


def test_a_record_is_one_line(backend: StateBackend) -> None:
    with pytest.raises(ValueError, match="one line"):
        backend.append(b"a\nb")


def test_threads_may_append_at_once(opened: Opened) -> None:
    def work(name: int) -> None:
        for number in range(20):
            opened.backend.append(b"{%d-%d}" % (name, number))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = opened.open_again().read_journal()
    assert sorted(found) == sorted(b"{%d-%d}" % (name, n) for name in range(6) for n in range(20))
    assert [line for line in found if line.startswith(b"{3-")] == [b"{3-%d}" % n for n in range(20)]


def test_one_holds_the_lock_and_others_are_told_who(opened: Opened) -> None:
    assert opened.backend.lock(info()) == []
    other = opened.open_again()
    with pytest.raises(StateLocked) as held:
        other.lock(info("id-2"))
    assert held.value.holder == info()
    assert other.read_lock() == info()
    opened.backend.unlock("id-1")
    assert other.read_lock() is None
    assert other.lock(info("id-2")) == []
    other.unlock("id-2")


def test_a_lock_is_not_given_back_under_another_id(backend: StateBackend) -> None:
    backend.lock(info())
    with pytest.raises(BackendProblem, match="id-2"):
        backend.unlock("id-2")


def test_a_lock_is_broken_by_its_id_only(opened: Opened) -> None:
    opened.backend.lock(info())
    other = opened.open_again()
    with pytest.raises(BackendProblem, match="id-1"):
        other.force_unlock("id-2")
    other.force_unlock("id-1")
    assert opened.open_again().read_lock() is None
    with pytest.raises(BackendProblem):
        other.force_unlock("id-1")
    with pytest.raises(BackendProblem):
        opened.backend.unlock("id-1")


def test_a_lock_remembers_everything_about_its_holder(opened: Opened) -> None:
    full = info("x", info="müde", link="https://ci.example/job/1", path="state/ä")
    opened.backend.lock(full)
    assert opened.open_again().read_lock() == full
    opened.backend.unlock("x")


def test_workspaces_are_apart(opened: Opened) -> None:
    opened.backend.write(b"main")
    staging = opened.backend.select_workspace("staging")
    assert staging.read() is None
    staging.write(b"staged")
    staging.append(b"{a}")
    opened.backend.select_workspace("a-1").write(b"x")
    assert opened.open_again().list_workspaces() == ["default", "a-1", "staging"]
    assert opened.open_again().select_workspace("staging").read() == b"staged"
    assert opened.backend.read_journal() == []
    assert staging.select_workspace("default").read() == b"main"


def test_each_workspace_has_its_own_lock(backend: StateBackend) -> None:
    staging = backend.select_workspace("staging")
    backend.lock(info())
    staging.lock(info("id-2"))
    assert (backend.read_lock(), staging.read_lock()) == (info(), info("id-2"))
    staging.unlock("id-2")
    backend.unlock("id-1")


def test_a_workspace_is_deleted_with_all_it_has(opened: Opened) -> None:
    staging = opened.backend.select_workspace("staging")
    staging.write(b"one")
    staging.write(b"two")
    staging.append(b"{a}")
    opened.backend.delete_workspace("staging")
    assert opened.backend.list_workspaces() == ["default"]
    again = opened.open_again().select_workspace("staging")
    assert (again.read(), again.read_journal()) == (None, [])


def test_only_what_exists_is_deleted_and_never_the_default(backend: StateBackend) -> None:
    with pytest.raises(BackendProblem, match="no workspace"):
        backend.delete_workspace("nowhere")
    with pytest.raises(BackendProblem, match="default"):
        backend.delete_workspace("default")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "ä", "x" * 91, "a\n"])
def test_a_name_that_could_lead_elsewhere_is_refused(backend: StateBackend, name: str) -> None:
    with pytest.raises(BackendProblem):
        backend.select_workspace(name)
    with pytest.raises(BackendProblem):
        backend.delete_workspace(name)


# --- across processes ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def workers() -> Iterator[BackendWorkers]:
    with BackendWorkers() as workers:
        yield workers


Start = Callable[..., Worker]


@pytest.fixture
def start(workers: BackendWorkers, where: Somewhere) -> Start:
    """Start a process that does a task in the same place."""
    return partial(workers.start, where.kind.backend, where.directory, where.settings)


def lock_when_free(backend: StateBackend, kind: Kind) -> list[str]:
    """Take the lock of a holder that was killed, once it has run out."""
    assert kind.frees_within is not None
    end = time.monotonic() + kind.frees_within + 30
    while True:
        try:
            return backend.lock(info())
        except StateLocked:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_a_living_holder_keeps_its_lock_and_a_killed_one_is_replaced(where: Somewhere, start: Start) -> None:
    holder = start("hold")
    assert holder.read_line() == "held"
    backend = where.open()
    with pytest.raises(StateLocked) as held:
        backend.lock(info())
    assert held.value.holder is not None
    assert held.value.holder.pid == holder.pid
    holder.kill()
    if where.kind.frees_within is None:
        backend.force_unlock(held.value.holder.id)
        assert backend.lock(info()) == []
    else:
        (warning,) = lock_when_free(backend, where.kind)
        assert f"process {holder.pid} " in warning
    assert backend.read_lock() == info()
    backend.unlock("id-1")


@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
@pytest.mark.parametrize("dead", [False, True])
def test_of_many_that_want_the_lock_one_gets_it(where: Somewhere, start: Start, dead: bool) -> None:
    if dead and where.kind.frees_within is None:
        pytest.skip("a dead holder keeps this lock until it is broken")
    if dead:
        holder = start("hold")
        assert holder.read_line() == "held"
        holder.kill()
        time.sleep(where.kind.frees_within + 1 if where.kind.frees_within else 0.2)
    racers = [start("race") for _ in range(6)]
    for racer in racers:
        assert racer.read_line() == "ready"
    for racer in racers:
        racer.go()
    said = [racer.read_line() for racer in racers]
    assert sorted(said) == ["lost"] * 5 + [f"won {int(dead)}"]
    for racer in racers:
        racer.kill()


@pytest.mark.slow
@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_under_the_lock_nothing_is_lost(where: Somewhere, start: Start) -> None:
    processes = [start("count") for _ in range(3)]
    for process in processes:
        process.finish()
        assert process.returncode == 0
    assert where.open().read() == b"12"


@pytest.mark.slow
@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_many_processes_write_one_serial_each(where: Somewhere, start: Start) -> None:
    # Each waits for all others, and its looks at the lock cost the service processor time.
    count = 24 if where.kind.backend == "local" else 6
    crowd = [start("write_serial", str(number)) for number in range(count)]
    for process in crowd:
        assert process.read_line() == "ready"
    for process in crowd:
        process.go()
    for process in crowd:
        process.finish()
    assert [process.returncode for process in crowd] == [0] * count
    assert where.open().read() == str(count).encode()
    assert where.open().read_journal() == []


def test_fifty_threads_write_fifty_serials() -> None:
    memory = MemoryBackend()

    def work(number: int) -> None:
        mine = info(f"id-{number}")
        while True:
            try:
                memory.lock(mine)
                break
            except StateLocked:
                time.sleep(0.001)
        memory.write_merged_state(b"%d" % (int(memory.read() or b"0") + 1))
        memory.unlock(mine.id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.read() == b"50"


def test_a_killed_process_loses_no_record_that_it_was_told_is_kept(where: Somewhere, start: Start) -> None:
    process = start("append")
    for _ in range(25):
        last = process.read_line()
    rest = process.kill()
    last = (rest.split("\n")[-2:-1] or [last])[0]
    records = where.open().read_journal()
    assert records == [b"{%d}" % number for number in range(len(records))]
    assert len(records) > int(last)


@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_a_process_killed_while_compacting_leaves_one_truth(where: Somewhere, start: Start) -> None:
    process = start("compact")
    for _ in range(20):
        last = process.read_line()
    rest = process.kill()
    last = (rest.split("\n")[-2:-1] or [last])[0]
    backend = where.open()
    document = int(backend.read() or b"-1")
    journal = backend.read_journal()
    # The next record is in the journal or in the document, never in both, never lost.
    assert journal in ([], [b"{%d}" % (document + 1)])
    assert document >= int(last)
    if where.kind.frees_within is None:
        holder = backend.read_lock()
        assert holder is not None
        backend.force_unlock(holder.id)
        backend.lock(info())
    else:
        lock_when_free(backend, where.kind)
    backend.write_merged_state(b"new")
    assert where.open().read_journal() == []
    backend.unlock("id-1")


@pytest.mark.slow
@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_a_holder_that_slept_too_long_writes_nothing(where: Somewhere, start: Start) -> None:
    """Stopped past its time, replaced, and woken up: neither journal nor document is its own any more."""
    if where.kind.frees_within is None or where.kind.backend == "local":
        pytest.skip("this lock does not run out while its holder is stopped")
    holder = start("write")
    assert holder.read_line() == "held"
    assert holder.read_line() == "0"
    holder.send_signal(signal.SIGSTOP)
    backend = where.open()
    lock_when_free(backend, replace(where.kind, frees_within=LEASE))
    assert backend.read() is not None
    records = backend.read_journal()
    backend.append(b"{mine}")
    backend.write(b"mine")
    holder.send_signal(signal.SIGCONT)
    rest = holder.finish()
    assert "stopped" in rest
    assert where.open().read() == b"mine"
    assert where.open().read_journal() == [*records, b"{mine}"]
    backend.unlock("id-1")


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get(LONG), reason=f"takes 90 s of waiting; {LONG}=1 runs it")
def test_a_holder_that_slept_for_ninety_seconds_writes_nothing(
    where: Somewhere, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lease that people have: free within 60 s, or by `force-unlock` where it does not run out."""
    monkeypatch.delenv("NF_LEASE_SECONDS")
    holder = start("write")
    assert holder.read_line() == "held"
    assert holder.read_line() == "0"
    holder.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    backend = where.open()
    if where.kind.backend not in ("local", "http"):
        lock_when_free(backend, replace(where.kind, frees_within=45))
        assert time.monotonic() - stopped < 60
    else:
        held = backend.read_lock()
        assert held is not None
        backend.force_unlock(held.id)
        backend.lock(info())
    assert backend.read() is not None
    records = backend.read_journal()
    backend.append(b"{mine}")
    backend.write(b"mine")
    while time.monotonic() - stopped < 90:
        time.sleep(1)
    holder.send_signal(signal.SIGCONT)
    rest = holder.finish()
    assert "stopped" in rest
    assert where.open().read() == b"mine"
    if where.kind.backend != "http":  # its journal is that of one machine, here of both
        assert where.open().read_journal() == [*records, b"{mine}"]
    backend.unlock("id-1")


def test_earlier_documents_are_kept_where_the_kind_keeps_them(opened: Opened) -> None:
    backend = opened.backend
    if not isinstance(backend, VersionedBackend):
        pytest.skip("keeps no history")
    assert backend.list_versions() == []
    for document in (b"one", b"two", b"two", b"three"):
        backend.write(document)
    again = opened.open_again()
    assert isinstance(again, VersionedBackend)
    documents = [again.read_version(version.id) for version in again.list_versions()]
    assert documents == [b"two", b"one"][: opened.kind.keeps]
    assert all(version.written_at for version in again.list_versions())
    with pytest.raises(BackendProblem):
        again.read_version("0")


# --- nothing that was not read is written over ----------------------------------------------------


WRITES: dict[str, Callable[[Any, bytes], None]] = {
    "write": lambda backend, document: backend.write(document),
    "compact": lambda backend, document: backend.write_merged_state(document),
    "checkpoint": lambda backend, document: backend.write_checkpoint(document, []),
}


def of_lineage(lineage: str) -> bytes:
    return b'{"lineage": "%s", "serial": 3}' % lineage.encode()


@pytest.mark.parametrize("write", WRITES)
def test_a_state_that_was_not_read_is_not_written_over(opened: Opened, write: str) -> None:
    opened.backend.write(of_lineage("theirs"))
    ours = opened.open_again()
    with pytest.raises(
        BackendProblem, match='contains the state with lineage "theirs", serial 3, which this run has not'
    ):
        WRITES[write](ours, of_lineage("ours"))
    assert opened.open_again().read() == of_lineage("theirs")


@pytest.mark.parametrize("write", [*WRITES, "append"])
def test_a_state_that_is_another_than_was_read_is_not_written_over(opened: Opened, write: str) -> None:
    """As after an answer that was wrong: nothing was read, and something stands."""
    ours = opened.open_again()
    assert ours.read() is None
    opened.backend.write(of_lineage("theirs"))
    ours.lock(info())
    with pytest.raises(BackendProblem, match='lineage "theirs", serial 3; before, it contained no state'):
        (WRITES | {"append": lambda backend, _: backend.append(b"{a}")})[write](ours, of_lineage("ours"))
    ours.unlock("id-1")
    again = opened.open_again()
    assert (again.read(), again.read_journal()) == (of_lineage("theirs"), [])


def test_whoever_has_read_a_state_may_write_over_it(opened: Opened) -> None:
    opened.backend.write(of_lineage("theirs"))
    ours = opened.open_again()
    ours.lock(info())
    assert ours.read() == of_lineage("theirs")
    ours.append(b"{a}")
    ours.write_merged_state(of_lineage("ours"))
    ours.unlock("id-1")
    assert opened.open_again().read() == of_lineage("ours")


@pytest.mark.of_domains("remote_state")
def test_force_unlock_ends_no_session_of_another_database(postgres: str, tmp_path: Path) -> None:
    """Advisory locks of all databases of a server stand in one list."""
    import psycopg

    name = f"other{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    place = Directories(str(tmp_path), str(tmp_path / ".nexusform"))
    elsewhere = psycopg.conninfo.make_conninfo(postgres, dbname=name)
    settings = postgres_settings(postgres, uuid.uuid4().hex)
    ours = BACKENDS["postgres"].open_backend(settings, place)
    theirs = BACKENDS["postgres"].open_backend({**settings, "conn_str": elsewhere}, place)
    ours.lock(info("ours"))
    theirs.lock(info("theirs"))
    BACKENDS["postgres"].open_backend(settings, place).force_unlock("ours")
    assert theirs.read_lock() == info("theirs")
    theirs.write(b"{}")
    theirs.unlock("theirs")
