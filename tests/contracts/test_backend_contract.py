"""Contract of every backend, run for every entry of the registry."""

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

from nexusform.backends import backend_definition
from nexusform.backends.backend_definition import Directories
from nexusform.backends.memory import MemoryBackend
from nexusform.backends.registry import BACKENDS
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
# seconds; the minimum of NF_LEASE_SECONDS.
LEASE = 15


def build_local_settings(_server: str, _name: str) -> dict[str, Any]:
    return {"path": "state/s.nfstate"}


def build_azurerm_settings(server: str, name: str) -> dict[str, Any]:
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


def build_http_settings(server: str, name: str) -> dict[str, Any]:
    return {
        "address": f"{server}/{name}/{{workspace}}",
        "lock_address": f"{server}/{name}/{{workspace}}/lock",
    }


def build_gitlab_settings(server: str, name: str) -> dict[str, Any]:
    dialect = {
        "lock_method": "POST",
        "unlock_method": "DELETE",
        "username": "ci",
        "password": "token",
    }
    return build_http_settings(server, f"gitlab/{name}") | dialect


def build_s3_settings(server: str, name: str) -> dict[str, Any]:
    import boto3

    login = {"region": "us-east-1", "access_key": "test", "secret_key": "test"}
    client = boto3.client(
        "s3",
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket=f"b{name}")
    client.put_bucket_versioning(Bucket=f"b{name}", VersioningConfiguration={"Status": "Enabled"})
    return {
        "bucket": f"b{name}",
        "key": "site/lon1.nfstate",
        "endpoint": server,
        "use_path_style": True,
    } | login


def build_postgres_settings(server: str, name: str) -> dict[str, Any]:
    return {"conn_str": server, "schema_name": f"s{name}"}


class BackendKind(Struct, frozen=True):
    """Access to backends of one kind in tests, and their expected properties."""

    backend: str
    settings: Callable[[str, str], dict[str, Any]]
    # The fixture with its server.
    server: str = ""
    # everything, at the end of the process.
    forgets: bool = False
    # minimum number of earlier documents.
    keeps: int = 2
    # Seconds until the lock of a killed holder is free; None: it never expires.
    frees_within: float | None = 0.0


_EVERY_KIND = {
    "local": BackendKind("local", build_local_settings, keeps=1),
    "memory": BackendKind("memory", lambda _server, _name: {}, forgets=True, keeps=1),
    "azurerm": BackendKind("azurerm", build_azurerm_settings, "azurite", frees_within=LEASE),
    "http": BackendKind("http", build_http_settings, "http_server", frees_within=None),
    "gitlab": BackendKind("http", build_gitlab_settings, "http_server", frees_within=None),
    "s3": BackendKind("s3", build_s3_settings, "s3_server", frees_within=LEASE),
    "postgres": BackendKind("postgres", build_postgres_settings, "postgres"),
}
# Backends of a deleted domain are omitted.
KINDS = {name: kind for name, kind in _EVERY_KIND.items() if kind.backend in BACKENDS}
# By several processes.
SHARED = [name for name, kind in KINDS.items() if not kind.forgets]


@pytest.fixture(autouse=True)
def shorten_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_LEASE_SECONDS", str(LEASE))


class OpenedBackend(Struct):
    """A backend and a function to open the same location again, as another process would."""

    kind: BackendKind
    backend: StateBackend
    open_again: Callable[[], StateBackend]


class BackendLocation(Struct, frozen=True):
    """An empty location of one kind, also accessible by other processes."""

    kind: BackendKind
    settings: dict[str, Any]
    directory: Path

    def open(self, largest: int = backend_definition.MAXIMUM_SIZE) -> StateBackend:
        place = Directories(
            str(self.directory), str(self.directory / ".nexusform"), maximum_size=largest
        )
        return BACKENDS[self.kind.backend].open_backend(self.settings, place)


def create_location(request: pytest.FixtureRequest, directory: Path) -> BackendLocation:
    kind = KINDS[request.param]
    server = request.getfixturevalue(kind.server) if kind.server else ""
    return BackendLocation(kind, kind.settings(server, uuid.uuid4().hex), directory)


@pytest.fixture(params=list(KINDS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenedBackend:
    where = create_location(request, tmp_path)
    backend = where.open()
    if where.kind.forgets:
        return OpenedBackend(where.kind, backend, lambda: backend.select_workspace("default"))
    return OpenedBackend(where.kind, backend, where.open)


@pytest.fixture(params=SHARED)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> BackendLocation:
    return create_location(request, tmp_path)


@pytest.fixture
def backend(opened: OpenedBackend) -> StateBackend:
    return opened.backend


def build_lock_info(lock_id: str = "id-1", **more: Any) -> LockInfo:
    import os
    import socket

    here = LockInfo(
        lock_id, "apply", "me@here", "0.1.0", "2024-11-20", "p", socket.gethostname(), os.getpid()
    )
    return replace(here, **more)


def test_every_kind_has_a_schema_of_settings() -> None:
    assert set(BACKENDS) == {kind.backend for kind in KINDS.values()}
    assert all(isinstance(kind.schema, BlockSchema) for kind in BACKENDS.values())


def test_new_location_is_empty(backend: StateBackend) -> None:
    assert backend.read() is None
    assert backend.read_journal() == []
    assert backend.read_lock() is None
    assert backend.list_workspaces() == ["default"]
    assert backend.describe()


def test_written_document_is_read_by_others(opened: OpenedBackend) -> None:
    opened.backend.write(b"one")
    assert opened.open_again().read() == b"one"
    opened.backend.write(b"two")
    assert opened.open_again().read() == b"two"


def test_records_are_kept_in_order_until_compaction(opened: OpenedBackend) -> None:
    opened.backend.write(b"one")
    opened.backend.append(b"{a}")
    opened.backend.append(b"{b}")
    assert opened.open_again().read_journal() == [b"{a}", b"{b}"]
    assert opened.open_again().read() == b"one"
    opened.backend.write_merged_state(b"two")
    assert (opened.open_again().read(), opened.open_again().read_journal()) == (b"two", [])
    opened.backend.append(b"{c}")
    assert opened.open_again().read_journal() == [b"{c}"]


def test_compaction_of_unchanged_document_empties_the_journal(opened: OpenedBackend) -> None:
    opened.backend.write_merged_state(b"one")
    opened.backend.append(b"{a}")
    opened.backend.write_merged_state(b"one")
    assert opened.open_again().read_journal() == []


def test_records_to_keep_survive_a_compaction(opened: OpenedBackend) -> None:
    opened.backend.append(b"{a}")
    opened.backend.write_merged_state(b"one", [b"{kept}", b"{too}"])
    assert (opened.open_again().read(), opened.open_again().read_journal()) == (
        b"one",
        [b"{kept}", b"{too}"],
    )
    opened.backend.append(b"{b}")
    assert opened.open_again().read_journal() == [b"{kept}", b"{too}", b"{b}"]
    opened.backend.write_merged_state(b"two", [b"{kept}"])
    assert opened.open_again().read_journal() == [b"{kept}"]
    opened.backend.write_merged_state(b"two")
    assert opened.open_again().read_journal() == []


def test_journal_of_another_document_can_be_moved_away(where: BackendLocation) -> None:
    backend = where.open()
    backend.write(b"one")
    backend.append(b"{a}")
    assert (backend.move_foreign_journal(), backend.read_journal()) == ("", [b"{a}"])
    replace_document(where, b"two")
    again = where.open()
    again.lock(build_lock_info())
    with pytest.raises(BackendProblem, match="nexusform apply -discard"):
        again.read_journal()
    assert again.read() == b"two"
    with pytest.raises(BackendProblem, match="nexusform apply -discard"):
        again.write(b"three")
    path = again.move_foreign_journal()
    assert path
    assert again.read_journal() == []
    assert again.read() == b"two"
    again.append(b"{b}")
    again.unlock("id-1")
    assert where.open().read_journal() == [b"{b}"]
    assert where.open().list_workspaces() == ["default"]
    if where.kind.backend in ("local", "http"):
        assert b"{a}" in Path(path).read_bytes().splitlines()


def test_records_of_a_stored_document_do_not_count_for_an_older_one(where: BackendLocation) -> None:
    backend = where.open()
    backend.write(b"one")
    backend.append(b"{a}")
    backend.write_merged_state(b"two")
    # As an operator restores an earlier version.
    replace_document(where, b"one")
    assert where.open().read_journal() == []


def replace_document(where: BackendLocation, document: bytes, workspace: str = "default") -> None:
    """Replace the document without nexusform on this machine."""
    opened: Any = where.open().select_workspace(workspace)
    backend = opened.inner
    if where.kind.backend == "local":
        Path(backend.describe()).write_bytes(document)
    elif where.kind.backend == "s3":
        backend._client.put_object(Bucket=backend._bucket, Key=backend._key, Body=document)
    elif where.kind.backend == "azurerm":
        backend._blob.upload_blob(document, overwrite=True)
    elif where.kind.backend == "postgres":
        statement = backend._database.format_sql("UPDATE {schema}.workspaces SET document = %s")
        with backend._open_session("replace the document") as connection:
            connection.execute(statement, (document,))
    else:
        other = replace(where, directory=where.directory / "other").open()
        other = other.select_workspace(workspace)
        other.read()
        other.write(document)


def test_deleted_workspace_leaves_other_states_alone(where: BackendLocation) -> None:
    if where.kind.backend not in ("s3", "azurerm"):
        pytest.skip("its states have no common prefix")
    other = replace(where, settings={**where.settings, "key": f"{where.settings['key']}2"})
    for location in (where, other):
        location.open().select_workspace("staging").write(b"one")
    where.open().delete_workspace("staging")
    assert other.open().select_workspace("staging").read() == b"one"


def test_several_records_are_added_in_order(opened: OpenedBackend) -> None:
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
def test_oversized_content_is_rejected_before_it_is_in_memory(
    where: BackendLocation, what: str, workspace: str
) -> None:
    def opened(largest: int = backend_definition.MAXIMUM_SIZE) -> StateBackend:
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
    # Responses of unknown length are read up to the limit.
    assert where.kind.backend == "http" or peak < 12 << 20
    # A journal has a mark of its document, too.
    assert read(opened((16 << 20) + 1024)) in (large, [large])


GARBAGE = {
    "nothing": b"",
    "bytes": b"\xff\x00",
    "text": b"not JSON",
    "no ID": b"{}",
    "a number": b'{"ID": 7}',
    "an ID that nobody types": b'{"ID": "a\\u001b", "Who": "x"}',
}


def write_foreign_lock(where: BackendLocation, content: bytes) -> None:
    """Write a lock of another process with this content."""
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
        backend.lock(build_lock_info("another"))
        statement = backend._database.format_sql("UPDATE {schema}.workspaces SET holder = %s")
        with backend._open_session("lay a lock") as connection:
            connection.execute(statement, (content,))
    else:
        pytest.skip("its locks are tried elsewhere, or are the server's")


@pytest.mark.parametrize("garbage", GARBAGE)
def test_unreadable_lock_is_broken_by_its_reported_id(where: BackendLocation, garbage: str) -> None:
    write_foreign_lock(where, GARBAGE[garbage])
    again = where.open()
    with pytest.raises(StateLocked) as held:
        again.lock(build_lock_info("mine"))
    holder = held.value.holder
    assert holder is not None
    assert holder.id.startswith("unreadable-")
    again.force_unlock(holder.id)
    again.lock(build_lock_info("mine"))
    again.unlock("mine")


@pytest.mark.parametrize("record", [b"a\nb", b"#compacted x"])
def test_record_is_one_line_and_no_mark(backend: StateBackend, record: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        backend.append(record)


def test_threads_may_append_in_parallel(opened: OpenedBackend) -> None:
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


def test_lock_has_one_holder_and_others_get_its_details(opened: OpenedBackend) -> None:
    assert opened.backend.lock(build_lock_info()) == []
    other = opened.open_again()
    with pytest.raises(StateLocked) as held:
        other.lock(build_lock_info("id-2"))
    assert held.value.holder == build_lock_info()
    assert other.read_lock() == build_lock_info()
    opened.backend.unlock("id-1")
    assert other.read_lock() is None
    assert other.lock(build_lock_info("id-2")) == []
    other.unlock("id-2")


def test_lock_is_not_released_with_another_id(backend: StateBackend) -> None:
    backend.lock(build_lock_info())
    with pytest.raises(BackendProblem, match="id-2"):
        backend.unlock("id-2")


def test_lock_is_broken_with_its_id_only(opened: OpenedBackend) -> None:
    opened.backend.lock(build_lock_info())
    other = opened.open_again()
    with pytest.raises(BackendProblem, match="id-1"):
        other.force_unlock("id-2")
    other.force_unlock("id-1")
    assert opened.open_again().read_lock() is None
    with pytest.raises(BackendProblem):
        other.force_unlock("id-1")
    with pytest.raises(BackendProblem):
        opened.backend.unlock("id-1")


def test_lock_has_all_details_of_its_holder(opened: OpenedBackend) -> None:
    full = build_lock_info("x", info="müde", link="https://ci.example/job/1", path="state/ä")
    opened.backend.lock(full)
    assert opened.open_again().read_lock() == full
    opened.backend.unlock("x")


def test_workspaces_are_separate(opened: OpenedBackend) -> None:
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
    backend.lock(build_lock_info())
    staging.lock(build_lock_info("id-2"))
    assert (backend.read_lock(), staging.read_lock()) == (
        build_lock_info(),
        build_lock_info("id-2"),
    )
    staging.unlock("id-2")
    backend.unlock("id-1")


def test_workspace_is_deleted_with_all_its_content(opened: OpenedBackend) -> None:
    staging = opened.backend.select_workspace("staging")
    staging.write(b"one")
    staging.write(b"two")
    staging.append(b"{a}")
    opened.backend.delete_workspace("staging")
    assert opened.backend.list_workspaces() == ["default"]
    again = opened.open_again().select_workspace("staging")
    assert (again.read(), again.read_journal()) == (None, [])


def test_holder_of_the_lock_deletes_its_workspace(opened: OpenedBackend) -> None:
    staging = opened.backend.select_workspace("staging")
    staging.write(b"one")
    staging.lock(build_lock_info())
    staging.delete_workspace("staging")
    assert opened.backend.list_workspaces() == ["default"]
    again = opened.open_again().select_workspace("staging")
    assert (again.read(), again.read_lock()) == (None, None)
    again.lock(build_lock_info("id-2"))
    again.write(b"two")
    again.unlock("id-2")


def test_deleted_workspace_leaves_no_copy_of_a_foreign_journal(where: BackendLocation) -> None:
    if where.kind.forgets:
        pytest.skip("its journal is stored with its document")
    copies = []
    for document in (b"one", b"three"):
        staging = where.open().select_workspace("staging")
        staging.write(document)
        staging.append(b"{a}")
        replace_document(where, document + b"+1", "staging")
        copies.append(where.open().select_workspace("staging").move_foreign_journal())
        where.open().delete_workspace("staging")
    # A second copy beside the first would have a number.
    assert copies[0]
    assert copies[0] == copies[1]


def test_only_existing_workspace_except_default_is_deleted(backend: StateBackend) -> None:
    with pytest.raises(BackendProblem, match="no workspace"):
        backend.delete_workspace("nowhere")
    with pytest.raises(BackendProblem, match="default"):
        backend.delete_workspace("default")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "ä", "x" * 91, "a\n"]
)
def test_unsafe_workspace_name_is_rejected(backend: StateBackend, name: str) -> None:
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
def start(workers: BackendWorkers, where: BackendLocation) -> Start:
    """Return a function that starts a task in a process at the same location."""
    return partial(workers.start, where.kind.backend, where.directory, where.settings)


def lock_when_free(backend: StateBackend, kind: BackendKind) -> list[str]:
    """Take the lock of a killed holder after its expiry."""
    assert kind.frees_within is not None
    end = time.monotonic() + kind.frees_within + 30
    while True:
        try:
            return backend.lock(build_lock_info())
        except StateLocked:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_living_holder_keeps_its_lock_and_killed_one_is_replaced(
    where: BackendLocation, start: Start
) -> None:
    holder = start("hold")
    assert holder.read_line() == "held"
    backend = where.open()
    with pytest.raises(StateLocked) as held:
        backend.lock(build_lock_info())
    assert held.value.holder is not None
    assert held.value.holder.pid == holder.pid
    holder.kill()
    if where.kind.frees_within is None:
        backend.force_unlock(held.value.holder.id)
        assert backend.lock(build_lock_info()) == []
    else:
        (warning,) = lock_when_free(backend, where.kind)
        assert f"process {holder.pid} " in warning
    assert backend.read_lock() == build_lock_info()
    backend.unlock("id-1")


@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
@pytest.mark.parametrize("dead", [False, True])
def test_one_of_several_processes_gets_the_lock(
    where: BackendLocation, start: Start, dead: bool
) -> None:
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
def test_no_update_is_lost_under_the_lock(where: BackendLocation, start: Start) -> None:
    processes = [start("count") for _ in range(3)]
    for process in processes:
        process.finish()
        assert process.returncode == 0
    assert where.open().read() == b"12"


@pytest.mark.slow
@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_each_of_many_processes_writes_one_serial(where: BackendLocation, start: Start) -> None:
    # Each waits for all others, and its attempts to lock take processor time of the service.
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
        mine = build_lock_info(f"id-{number}")
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


def test_killed_process_loses_no_confirmed_record(where: BackendLocation, start: Start) -> None:
    process = start("append")
    for _ in range(25):
        last = process.read_line()
    rest = process.kill()
    last = (rest.split("\n")[-2:-1] or [last])[0]
    records = where.open().read_journal()
    assert records == [b"{%d}" % number for number in range(len(records))]
    assert len(records) > int(last)


@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_kill_during_compaction_keeps_state_consistent(
    where: BackendLocation, start: Start
) -> None:
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
        backend.lock(build_lock_info())
    else:
        lock_when_free(backend, where.kind)
    backend.write_merged_state(b"new")
    assert where.open().read_journal() == []
    backend.unlock("id-1")


@pytest.mark.slow
@pytest.mark.parametrize("where", select_groups(SHARED), indirect=True)
def test_holder_stopped_beyond_its_lease_writes_nothing(
    where: BackendLocation, start: Start
) -> None:
    """After stop, replacement and wake-up, it has neither journal nor document any more."""
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
def test_holder_stopped_for_ninety_seconds_writes_nothing(
    where: BackendLocation, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the default lease: free within 60 s, or by `force-unlock` if it does not expire."""
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
        backend.lock(build_lock_info())
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
    # Its journal is a file of one machine, here of both processes.
    if where.kind.backend != "http":
        assert where.open().read_journal() == [*records, b"{mine}"]
    backend.unlock("id-1")


def test_versioned_backends_keep_earlier_documents(opened: OpenedBackend) -> None:
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


# --- protection of unread state -------------------------------------------------------------------


WRITES: dict[str, Callable[[Any, bytes], None]] = {
    "write": lambda backend, document: backend.write(document),
    "compact": lambda backend, document: backend.write_merged_state(document),
    "checkpoint": lambda backend, document: backend.write_checkpoint(document, []),
}


def build_document(lineage: str) -> bytes:
    return b'{"lineage": "%s", "serial": 3}' % lineage.encode()


@pytest.mark.parametrize("write", WRITES)
def test_unread_state_is_not_overwritten(opened: OpenedBackend, write: str) -> None:
    opened.backend.write(build_document("theirs"))
    ours = opened.open_again()
    with pytest.raises(
        BackendProblem,
        match='contains the state with lineage "theirs", serial 3, which this run has not',
    ):
        WRITES[write](ours, build_document("ours"))
    assert opened.open_again().read() == build_document("theirs")


@pytest.mark.parametrize("write", [*WRITES, "append"])
def test_state_changed_since_read_is_not_overwritten(opened: OpenedBackend, write: str) -> None:
    """As after a wrong response: nothing was read, and there is a state."""
    ours = opened.open_again()
    assert ours.read() is None
    opened.backend.write(build_document("theirs"))
    ours.lock(build_lock_info())
    with pytest.raises(
        BackendProblem, match='lineage "theirs", serial 3; before, it contained no state'
    ):
        (WRITES | {"append": lambda backend, _: backend.append(b"{a}")})[write](
            ours, build_document("ours")
        )
    ours.unlock("id-1")
    again = opened.open_again()
    assert (again.read(), again.read_journal()) == (build_document("theirs"), [])


def test_state_may_be_overwritten_after_read(opened: OpenedBackend) -> None:
    opened.backend.write(build_document("theirs"))
    ours = opened.open_again()
    ours.lock(build_lock_info())
    assert ours.read() == build_document("theirs")
    ours.append(b"{a}")
    ours.write_merged_state(build_document("ours"))
    ours.unlock("id-1")
    assert opened.open_again().read() == build_document("ours")


@pytest.mark.of_domains("remote_state")
def test_force_unlock_ends_no_session_of_another_database(postgres: str, tmp_path: Path) -> None:
    """Advisory locks of all databases of a server are in one list."""
    import psycopg

    name = f"other{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    place = Directories(str(tmp_path), str(tmp_path / ".nexusform"))
    elsewhere = psycopg.conninfo.make_conninfo(postgres, dbname=name)
    settings = build_postgres_settings(postgres, uuid.uuid4().hex)
    ours = BACKENDS["postgres"].open_backend(settings, place)
    theirs = BACKENDS["postgres"].open_backend({**settings, "conn_str": elsewhere}, place)
    ours.lock(build_lock_info("ours"))
    theirs.lock(build_lock_info("theirs"))
    BACKENDS["postgres"].open_backend(settings, place).force_unlock("ours")
    assert theirs.read_lock() == build_lock_info("theirs")
    theirs.write(b"{}")
    theirs.unlock("theirs")


@pytest.fixture
def slow_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the database not see that a session was closed until the test ends."""
    from psycopg import Connection

    sessions: list[Connection[Any]] = []

    def close_later(session: Connection[Any]) -> None:
        sessions.append(session)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "close", close_later)
        yield
    for session in sessions:
        session.close()


@pytest.mark.of_domains("remote_state")
@pytest.mark.usefixtures("slow_server")
def test_lock_is_free_before_the_server_ends_the_session(postgres: str, tmp_path: Path) -> None:
    place = Directories(str(tmp_path), str(tmp_path))
    settings = build_postgres_settings(postgres, uuid.uuid4().hex)
    former = BACKENDS["postgres"].open_backend(settings, place)
    former.lock(build_lock_info("former"))
    former.unlock("former")
    backend = BACKENDS["postgres"].open_backend(settings, place)
    assert backend.lock(build_lock_info("ours")) == []
    backend.unlock("ours")


@pytest.mark.of_domains("remote_state")
@pytest.mark.usefixtures("slow_server")
def test_lock_of_a_workspace_that_is_deleted_meanwhile_is_of_a_new_one(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Directories(str(tmp_path), str(tmp_path))
    settings = build_postgres_settings(postgres, uuid.uuid4().hex)
    former = BACKENDS["postgres"].open_backend(settings, place).select_workspace("w")
    former.lock(build_lock_info("former"))
    former.write(b"{}")
    backend = BACKENDS["postgres"].open_backend(settings, place).select_workspace("w")
    inner = backend.inner  # type: ignore[attr-defined]
    find_row = type(inner)._get_or_create_row_id
    deletions: list[int] = []

    def delete_after_find(self: Any, connection: Any) -> int:
        row = int(find_row(self, connection))
        if self is inner and not deletions:
            deletions.append(row)
            former.delete_workspace("w")
        return row

    monkeypatch.setattr(type(inner), "_get_or_create_row_id", delete_after_find)
    assert backend.lock(build_lock_info("ours")) == []
    backend.write(b"[]")
    assert backend.read() == b"[]"
    holder = backend.read_lock()
    assert holder is not None
    assert holder.id == "ours"
    backend.unlock("ours")
