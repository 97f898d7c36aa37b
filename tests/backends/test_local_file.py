"""Tests of files of the local backend, in addition to the tests of all backends."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nexusform.backends.guarded_backend import guard_backend
from nexusform.backends.local_file import LocalBackend
from nexusform.files import regular_files
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateLocked

HERE = socket.gethostname()
as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "s.nfstate"


@pytest.fixture
def backend(path: Path) -> LocalBackend:
    return LocalBackend(str(path))


def build_lock_info(lock_id: str = "mine", pid: int | None = None, host: str = HERE) -> LockInfo:
    return LockInfo(
        lock_id, "apply", "me", "0", "now", "p", host, os.getpid() if pid is None else pid
    )


def list_names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_reading_creates_no_files(backend: LocalBackend, path: Path) -> None:
    backend.read()
    backend.read_journal()
    backend.read_lock()
    backend.list_workspaces()
    assert not path.parent.exists()


def test_previous_version_is_kept_as_backup(backend: LocalBackend, path: Path) -> None:
    backend.write(b"one")
    assert list_names(path) == ["s.nfstate"]
    backend.write(b"two")
    backend.write(b"two")
    assert list_names(path) == ["s.nfstate", "s.nfstate.backup"]
    assert path.with_name("s.nfstate.backup").read_bytes() == b"one"


@pytest.mark.parametrize("renamed", [0, 1])
def test_failed_write_keeps_document_and_backup(
    backend: LocalBackend, path: Path, monkeypatch: pytest.MonkeyPatch, renamed: int
) -> None:
    """A rollback writes the backup again: it must not be deleted before it is written."""
    backend.write(b"one")
    backend.write(b"two")
    calls: list[object] = []
    rename = os.replace

    def fail_with_full_disk(*names: Any, **directories: Any) -> None:
        calls.append(names)
        if len(calls) == renamed + 1:
            raise OSError(28, "No space left on device")
        rename(*names, **directories)

    monkeypatch.setattr(os, "replace", fail_with_full_disk)
    with pytest.raises(BackendProblem, match="No space left"):
        backend.write(b"one")
    assert (path.read_bytes(), path.with_name("s.nfstate.backup").read_bytes()) == (b"two", b"one")
    assert list_names(path) == ["s.nfstate", "s.nfstate.backup"]


def test_backup_is_kept_without_hard_links(
    backend: LocalBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject_link(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", reject_link)
    backend.lock(build_lock_info())
    with pytest.raises(StateLocked):
        LocalBackend(str(path)).lock(build_lock_info("other"))
    backend.write(b"one")
    backend.write(b"two")
    backend.unlock("mine")
    assert path.with_name("s.nfstate.backup").read_bytes() == b"one"
    assert list_names(path) == ["s.nfstate", "s.nfstate.backup"]


def test_state_file_is_private_and_wider_mode_is_kept(backend: LocalBackend, path: Path) -> None:
    backend.write(b"one")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    backend.write(b"two")
    assert path.stat().st_mode & 0o777 == 0o640


def test_failed_write_keeps_the_file(
    backend: LocalBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.write(b"one")

    def reject_write(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(regular_files, "write_all_bytes", reject_write)
    with pytest.raises(BackendProblem, match="No space left"):
        backend.write(b"two")
    assert path.read_bytes() == b"one"
    assert list_names(path) == ["s.nfstate"]


def test_symbolic_link_to_state_is_kept(tmp_path: Path) -> None:
    real = tmp_path / "real.nfstate"
    link = tmp_path / "link.nfstate"
    real.write_bytes(b"one")
    link.symlink_to(real)
    LocalBackend(str(link)).write(b"two")
    assert link.is_symlink()
    assert real.read_bytes() == b"two"


@pytest.mark.parametrize("name", ["state", "state/s.nfstate"])
def test_link_to_a_missing_state_is_no_empty_state(tmp_path: Path, name: str) -> None:
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "unmounted" / "s")
    backend = LocalBackend(str(tmp_path / "state" / "s.nfstate"))
    for call in (backend.read, partial(backend.lock, build_lock_info())):
        with pytest.raises(BackendProblem, match=f'{name}" is a link to .* does not exist'):
            call()
    assert not (tmp_path / "unmounted").exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_irregular_file_is_rejected(path: Path, make: Any) -> None:
    path.parent.mkdir()
    make(path)
    with pytest.raises(BackendProblem, match="regular file"):
        LocalBackend(str(path)).read()


def test_file_in_place_of_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    backend = LocalBackend(str(tmp_path / "state" / "s.nfstate"))
    with pytest.raises(BackendProblem, match="A parent in the path is a file"):
        backend.write(b"one")
    with pytest.raises(BackendProblem, match="Cannot create the lock file"):
        backend.lock(build_lock_info())


@as_root
def test_missing_permissions_are_reported(backend: LocalBackend, path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with pytest.raises(BackendProblem, match="Permission denied"):
        backend.write(b"one")


def test_torn_record_is_skipped_and_then_truncated(backend: LocalBackend, path: Path) -> None:
    backend.append(b"{a}")
    journal = path.with_name("s.nfstate.journal")
    journal.write_bytes(journal.read_bytes() + b"{torn" * 30000)
    again = LocalBackend(str(path))
    assert again.read_journal() == [b"{a}"]
    again.append(b"{b}")
    assert again.read_journal() == [b"{a}", b"{b}"]
    assert journal.read_bytes().split(b"\n")[1:] == [b"{a}", b"{b}", b""]


def test_journal_is_not_added_to_a_document_of_another_machine(
    backend: LocalBackend, path: Path
) -> None:
    backend.write(b"one")
    backend.append(b"{a}")
    # Such as by `git pull`.
    path.write_bytes(b"newer")
    again = LocalBackend(str(path))
    with pytest.raises(
        BackendProblem, match=r"began on another state.*apply -discard.*journal away: mv "
    ):
        again.read_journal()
    # No write makes it a journal of the new document.
    with pytest.raises(BackendProblem, match="began on another state"):
        again.write(b"newest")
    again.lock(LockInfo("x", "plan", "me@here", "0.1.0", "2026-11-20", "p", "here", 1))
    journal = path.with_name("s.nfstate.journal")
    lines = journal.read_bytes()
    # An earlier one is kept, too.
    earlier = path.with_name("s.nfstate.journal.old")
    earlier.write_bytes(b"earlier")
    with pytest.raises(BackendProblem, match=r"nfstate\.journal\.old2\."):
        again.read_journal()
    assert again.move_foreign_journal() == f"{journal}.old2"
    assert (again.read_journal(), again.move_foreign_journal()) == ([], "")
    assert (Path(f"{journal}.old2").read_bytes(), earlier.read_bytes()) == (lines, b"earlier")
    again.append(b"{c}")
    assert (again.read_journal(), again.move_foreign_journal()) == ([b"{c}"], "")


def test_journal_continues_a_document_of_its_own_backend(backend: LocalBackend, path: Path) -> None:
    backend.append(b"{a}")
    backend.write(b"one")
    backend.append(b"{b}")
    backend.write(b"two")
    assert LocalBackend(str(path)).read_journal() == [b"{a}", b"{b}"]


def test_apply_in_progress_is_no_journal_of_another_machine(
    backend: LocalBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document is written between two reads of a plan, the journal's lines and the document."""
    backend.write(b"one")
    backend.append(b"{a}")
    reader = LocalBackend(str(path))
    read = reader._journal._read_document

    def write_before_read() -> bytes | None:
        if read() == b"one":
            backend.write_merged_state(b"two", [b"{b}"])
        return read()

    monkeypatch.setattr(reader._journal, "_read_document", write_before_read)
    assert reader.read_journal() == [b"{b}"]


def test_crash_before_document_write_keeps_records(backend: LocalBackend, path: Path) -> None:
    backend.write(b"one")
    backend.append(b"{a}")
    backend._journal.mark_compacted(b"two")
    assert LocalBackend(str(path)).read_journal() == [b"{a}"]
    LocalBackend(str(path)).append(b"{b}")
    assert LocalBackend(str(path)).read_journal() == [b"{a}", b"{b}"]


def test_crash_after_document_write_counts_no_record_twice(
    backend: LocalBackend, path: Path
) -> None:
    backend.write(b"one")
    backend.append(b"{a}")
    backend._journal.mark_compacted(b"two")
    backend.write(b"two")
    assert LocalBackend(str(path)).read_journal() == []
    LocalBackend(str(path)).append(b"{b}")
    assert LocalBackend(str(path)).read_journal() == [b"{b}"]


def test_unlock_leaves_no_files(backend: LocalBackend, path: Path) -> None:
    backend.lock(build_lock_info())
    assert list_names(path) == ["s.nfstate.lock.info"]
    backend.unlock("mine")
    assert not path.parent.exists()


def write_stale_lock(path: Path, **changes: Any) -> Path:
    """Write the lock file of a terminated process."""
    backend = LocalBackend(str(path))
    backend.lock(build_lock_info("theirs"))
    file = path.with_name("s.nfstate.lock.info")
    document = json.loads(file.read_text()) | changes
    backend.unlock("theirs")
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(document))
    return file


def test_lock_of_reused_process_id_is_stale(backend: LocalBackend, path: Path) -> None:
    write_stale_lock(path, Start="an earlier boot/123")
    (warning,) = backend.lock(build_lock_info())
    assert "ID theirs" in warning


def test_running_process_keeps_its_lock(backend: LocalBackend, path: Path) -> None:
    write_stale_lock(path)
    with pytest.raises(StateLocked):
        backend.lock(build_lock_info())


def test_process_on_other_host_keeps_its_lock(backend: LocalBackend, path: Path) -> None:
    write_stale_lock(path, Host="elsewhere", Start="x/1", Pid=999_999_999)
    with pytest.raises(StateLocked) as held:
        backend.lock(build_lock_info())
    assert held.value.holder is not None
    assert held.value.holder.host == "elsewhere"
    backend.force_unlock("theirs")
    assert backend.lock(build_lock_info()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ID": 3}', "{}"])
def test_unreadable_lock_file_is_never_stale(backend: LocalBackend, path: Path, text: str) -> None:
    path.parent.mkdir()
    path.with_name("s.nfstate.lock.info").write_text(text)
    with pytest.raises(StateLocked):
        backend.lock(build_lock_info())
    holder = LocalBackend(str(path)).read_lock()
    assert holder is not None
    with pytest.raises(BackendProblem, match=f"ID {holder.id}"):
        backend.force_unlock("x")
    backend.force_unlock(holder.id)
    backend.lock(build_lock_info())
    backend.unlock("mine")


def test_no_writes_after_loss_of_lock(backend: LocalBackend, path: Path) -> None:
    backend.lock(build_lock_info())
    backend.write(b"one")
    other = LocalBackend(str(path))
    other.force_unlock("mine")
    other.lock(build_lock_info("other"))
    for work in (backend.write, backend.append, backend.write_merged_state):
        with pytest.raises(BackendProblem, match="Another process broke the lock"):
            work(b"two")
    assert path.read_bytes() == b"one"
    with pytest.raises(BackendProblem, match="ID other"):
        backend.unlock("mine")
    assert other.read_lock() == build_lock_info("other")


def test_late_takeover_of_stale_lock_fails(backend: LocalBackend, path: Path) -> None:
    write_stale_lock(path, Start="an earlier boot/123")
    faster = LocalBackend(str(path))
    opened = backend._lock._open_existing

    def open_then_pause() -> int:
        descriptor = opened()
        backend._lock._open_existing = opened  # type: ignore[method-assign]
        assert len(faster.lock(build_lock_info("faster"))) == 1
        return descriptor

    backend._lock._open_existing = open_then_pause  # type: ignore[method-assign]
    with pytest.raises(StateLocked) as held:
        backend.lock(build_lock_info())
    assert held.value.holder == build_lock_info("faster")
    faster.unlock("faster")


@pytest.mark.parametrize(
    ("dies_in", "document", "records"), [("write", b"one", [b"{a}"]), ("remove", b"two", [])]
)
def test_interrupted_compaction_keeps_state_consistent(
    backend: LocalBackend,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dies_in: str,
    document: bytes,
    records: list[bytes],
) -> None:
    backend.write(b"one")
    backend.append(b"{a}")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backend if dies_in == "write" else backend._journal, dies_in, interrupt)
    with pytest.raises(KeyboardInterrupt):
        backend.write_merged_state(b"two")
    again = LocalBackend(str(path))
    assert (again.read(), again.read_journal()) == (document, records)


def test_temporary_files_of_killed_run_do_not_block_deletion(
    backend: LocalBackend, path: Path
) -> None:
    workspace = backend.select_workspace("w")
    workspace.write(b"one")
    folder = path.parent / "s.nfstate.d" / "w"
    for left in ("s.nfstate.lock.info.0123456789abcdef.tmp", ".s.nfstate.1-0123456789abcdef.tmp"):
        (folder / left).write_text("x")
    backend.delete_workspace("w")
    assert not folder.exists()


def test_workspace_with_foreign_file_keeps_its_state(backend: LocalBackend, path: Path) -> None:
    backend.select_workspace("w").write(b"one")
    folder = path.parent / "s.nfstate.d" / "w"
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(
        BackendProblem, match=r'contains "notes.txt", which is not a file of its state'
    ):
        backend.delete_workspace("w")
    assert backend.select_workspace("w").read() == b"one"


def test_workspace_is_deleted_completely_or_not_at_all(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.select_workspace("w").write(b"one")

    def reject_rename(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", reject_rename)
        with pytest.raises(BackendProblem):
            backend.delete_workspace("w")
    assert backend.select_workspace("w").read() == b"one"

    def interrupt_deletion(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", interrupt_deletion)
        with pytest.raises(KeyboardInterrupt):
            backend.delete_workspace("w")
    assert backend.list_workspaces() == ["default"]
    backend.select_workspace("w").write(b"two")
    backend.delete_workspace("w")
    assert backend.list_workspaces() == ["default"]


TEMPORARY_FILES = (
    "s.nfstate.lock.info.0123456789abcdef.tmp",
    ".s.nfstate.PID-0123456789abcdef.tmp",
    ".s.nfstate.backup.PID-0123456789abcdef.tmp",
)


def test_next_lock_removes_the_files_of_a_killed_run(
    backend: LocalBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = find_dead_process()
    backend.write(b"one")
    backend.append(b"first")
    # Killed after the write of the document, before the removal of the journal.
    monkeypatch.setattr(backend._journal, "remove", lambda: None)
    backend.write_merged_state(b"two")
    for name in TEMPORARY_FILES:
        (path.parent / name.replace("PID", str(dead))).write_text("x")
    again = LocalBackend(str(path))
    assert again.read_journal() == []
    again.lock(build_lock_info())
    assert list_names(path) == ["s.nfstate", "s.nfstate.backup", "s.nfstate.lock.info"]
    again.unlock("mine")
    assert list_names(path) == ["s.nfstate", "s.nfstate.backup"]


def test_lock_keeps_pending_records_and_files_of_live_processes(
    backend: LocalBackend, path: Path
) -> None:
    backend.write(b"one")
    backend.append(b"first")
    names = [name.replace("PID", str(os.getpid())) for name in TEMPORARY_FILES]
    for name in names:
        (path.parent / name).write_text("x")
    with (path.parent / names[0]).open() as competitor:
        fcntl.flock(competitor, fcntl.LOCK_EX)
        again = LocalBackend(str(path))
        again.lock(build_lock_info())
    assert again.read_journal() == [b"first"]
    assert set(names) < set(list_names(path))


def find_dead_process() -> int:
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_state_written_without_the_lock_meanwhile_is_not_overwritten(path: Path) -> None:
    holder = guard_backend(LocalBackend(str(path)), is_remote=False)
    holder.lock(build_lock_info())
    holder.read()
    holder.write(b"one")
    holder.append(b"{a}")
    # As a run with -lock=false.
    other = guard_backend(LocalBackend(str(path)), is_remote=False)
    assert (other.read(), other.read_journal()) == (b"one", [b"{a}"])
    other.write_merged_state(b"two")
    with pytest.raises(BackendProblem, match="another process removed it"):
        holder.append(b"{b}")
    with pytest.raises(BackendProblem, match="It was not overwritten"):
        holder.write_merged_state(b"three")
    assert (other.read(), other.read_journal()) == (b"two", [])
