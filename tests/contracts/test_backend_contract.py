"""What every backend promises, run for every entry of the registry."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends.registry import BACKENDS, Place
from nexusform.ports import AppendsMany, BackendProblem, LockHeld, LockInfo, StateBackend
from nexusform.schema import BlockSchema

# How a test reaches a backend of each kind: the settings for a fresh one.
SETTINGS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "local": lambda _: {"path": "state/s.nfstate"},
    "memory": lambda _: {},
}
# Kinds whose backends forget everything with the process.
FORGETFUL = {"memory"}


class Opened(Struct):
    """A backend and the way to open the same place again, as another process would."""

    backend: StateBackend
    open_again: Callable[[], StateBackend]


@pytest.fixture(params=list(BACKENDS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    kind = BACKENDS[request.param]
    settings = SETTINGS[request.param](tmp_path)
    place = Place(str(tmp_path), str(tmp_path / ".nexusform"))
    backend = kind.open(settings, place)
    if request.param in FORGETFUL:
        return Opened(backend, lambda: backend.for_workspace("default"))
    return Opened(backend, lambda: kind.open(settings, place))


@pytest.fixture
def backend(opened: Opened) -> StateBackend:
    return opened.backend


def info(lock_id: str = "id-1", **more: Any) -> LockInfo:
    import os
    import socket

    here = LockInfo(
        lock_id, "apply", "me@here", "0.1.0", "2024-11-20", "p", socket.gethostname(), os.getpid()
    )
    return replace(here, **more)


def test_every_kind_has_a_schema_of_settings() -> None:
    assert set(BACKENDS) == set(SETTINGS)
    assert all(isinstance(kind.schema, BlockSchema) for kind in BACKENDS.values())


def test_a_fresh_place_holds_nothing(backend: StateBackend) -> None:
    assert backend.read() is None
    assert backend.journal() == []
    assert backend.holder() is None
    assert backend.workspaces() == ["default"]
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
    assert opened.open_again().journal() == [b"{a}", b"{b}"]
    assert opened.open_again().read() == b"one"
    opened.backend.compact(b"two")
    assert (opened.open_again().read(), opened.open_again().journal()) == (b"two", [])
    opened.backend.append(b"{c}")
    assert opened.open_again().journal() == [b"{c}"]


def test_compacting_an_unchanged_document_empties_the_journal_too(opened: Opened) -> None:
    opened.backend.compact(b"one")
    opened.backend.append(b"{a}")
    opened.backend.compact(b"one")
    assert opened.open_again().journal() == []


def test_several_records_are_added_in_order(opened: Opened) -> None:
    if not isinstance(opened.backend, AppendsMany):
        pytest.skip("adds one record at a time")
    opened.backend.append_all([])
    opened.backend.append_all([b"{a}", b"{b}"])
    opened.backend.append(b"{c}")
    with pytest.raises(ValueError, match="one line"):
        opened.backend.append_all([b"{d}", b"\n"])
    assert opened.open_again().journal() == [b"{a}", b"{b}", b"{c}"]


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
    found = opened.open_again().journal()
    assert sorted(found) == sorted(b"{%d-%d}" % (name, n) for name in range(6) for n in range(20))
    assert [line for line in found if line.startswith(b"{3-")] == [b"{3-%d}" % n for n in range(20)]


def test_one_holds_the_lock_and_others_are_told_who(opened: Opened) -> None:
    assert opened.backend.lock(info()) == []
    other = opened.open_again()
    with pytest.raises(LockHeld) as held:
        other.lock(info("id-2"))
    assert held.value.holder == info()
    assert other.holder() == info()
    opened.backend.unlock("id-1")
    assert other.holder() is None
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
    assert opened.open_again().holder() is None
    with pytest.raises(BackendProblem):
        other.force_unlock("id-1")
    with pytest.raises(BackendProblem):
        opened.backend.unlock("id-1")


def test_a_lock_remembers_everything_about_its_holder(opened: Opened) -> None:
    full = info("x", info="müde", link="https://ci.example/job/1", path="state/ä")
    opened.backend.lock(full)
    assert opened.open_again().holder() == full
    opened.backend.unlock("x")


def test_workspaces_are_apart(opened: Opened) -> None:
    opened.backend.write(b"main")
    staging = opened.backend.for_workspace("staging")
    assert staging.read() is None
    staging.write(b"staged")
    staging.append(b"{a}")
    opened.backend.for_workspace("a-1").write(b"x")
    assert opened.open_again().workspaces() == ["default", "a-1", "staging"]
    assert opened.open_again().for_workspace("staging").read() == b"staged"
    assert opened.backend.journal() == []
    assert staging.for_workspace("default").read() == b"main"


def test_each_workspace_has_its_own_lock(backend: StateBackend) -> None:
    staging = backend.for_workspace("staging")
    backend.lock(info())
    staging.lock(info("id-2"))
    assert (backend.holder(), staging.holder()) == (info(), info("id-2"))
    staging.unlock("id-2")
    backend.unlock("id-1")


def test_a_workspace_is_deleted_with_all_it_has(opened: Opened) -> None:
    staging = opened.backend.for_workspace("staging")
    staging.write(b"one")
    staging.write(b"two")
    staging.append(b"{a}")
    opened.backend.delete_workspace("staging")
    assert opened.backend.workspaces() == ["default"]
    again = opened.open_again().for_workspace("staging")
    assert (again.read(), again.journal()) == (None, [])


def test_only_what_exists_is_deleted_and_never_the_default(backend: StateBackend) -> None:
    with pytest.raises(BackendProblem, match="no workspace"):
        backend.delete_workspace("nowhere")
    with pytest.raises(BackendProblem, match="default"):
        backend.delete_workspace("default")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "ä", "x" * 91, "a\n"])
def test_a_name_that_could_lead_elsewhere_is_refused(backend: StateBackend, name: str) -> None:
    with pytest.raises(BackendProblem):
        backend.for_workspace(name)
    with pytest.raises(BackendProblem):
        backend.delete_workspace(name)


# --- across processes ---------------------------------------------------------------------------

WORKER = """
import os, socket, sys, time
from nexusform.backends.registry import BACKENDS, Place
from nexusform.ports import LockHeld, LockInfo

kind, directory, settings, task = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4]
backend = BACKENDS[kind].open(settings, Place(directory, directory))
me = f"id-{os.getpid()}"
info = LockInfo(me, "apply", "me", "0", "now", "p", socket.gethostname(), os.getpid())

def say(text):
    print(text, flush=True)

if task == "hold":
    for warning in backend.lock(info):
        say("warning " + warning)
    say("held")
    time.sleep(60)
elif task == "race":
    sys.stdin.readline()
    try:
        warnings = backend.lock(info)
    except LockHeld:
        say("lost")
    else:
        say(f"won {len(warnings)}")
        sys.stdin.readline()
elif task == "count":
    done = 0
    while done < 15:
        try:
            backend.lock(info)
        except LockHeld:
            continue
        backend.write(str(int(backend.read() or b"0") + 1).encode())
        backend.unlock(me)
        done += 1
elif task == "append":
    backend.lock(info)
    for number in range(100000):
        backend.append(b"{%d}" % number)
        say(str(number))
elif task == "compact":
    backend.lock(info)
    for number in range(100000):
        document = b"%d" % number
        backend.append(b"{%d}" % number)
        backend.compact(document + b" " * 100000)
        say(str(number))
"""

lasting = pytest.mark.parametrize("kind", [name for name in BACKENDS if name not in FORGETFUL])


def worker(kind: str, place: Path, task: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, kind, str(place), repr(SETTINGS[kind](place)), task]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def reopened(kind: str, place: Path) -> StateBackend:
    return BACKENDS[kind].open(SETTINGS[kind](place), Place(str(place), str(place)))


@lasting
def test_a_living_holder_keeps_its_lock_and_a_killed_one_is_replaced(kind: str, tmp_path: Path) -> None:
    holder = worker(kind, tmp_path, "hold")
    assert line_of(holder) == "held"
    backend = reopened(kind, tmp_path)
    with pytest.raises(LockHeld) as held:
        backend.lock(info())
    assert held.value.holder is not None
    assert held.value.holder.pid == holder.pid
    holder.kill()
    holder.wait()
    (warning,) = backend.lock(info())
    assert f"process {holder.pid} " in warning
    assert backend.holder() == info()
    backend.unlock("id-1")
    finish(holder)


@lasting
@pytest.mark.parametrize("dead", [False, True])
def test_of_many_that_want_the_lock_one_gets_it(kind: str, tmp_path: Path, dead: bool) -> None:
    if dead:
        holder = worker(kind, tmp_path, "hold")
        assert line_of(holder) == "held"
        finish(holder)
    racers = [worker(kind, tmp_path, "race") for _ in range(6)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [line_of(racer) for racer in racers]
    assert sorted(said) == ["lost"] * 5 + [f"won {int(dead)}"]
    finish(*racers)


@lasting
def test_under_the_lock_nothing_is_lost(kind: str, tmp_path: Path) -> None:
    workers = [worker(kind, tmp_path, "count") for _ in range(3)]
    for process in workers:
        process.communicate()
        assert process.returncode == 0
    assert reopened(kind, tmp_path).read() == b"45"


@lasting
def test_a_killed_process_loses_no_record_that_it_was_told_is_kept(kind: str, tmp_path: Path) -> None:
    process = worker(kind, tmp_path, "append")
    for _ in range(25):
        last = line_of(process)
    process.kill()
    rest, _ = process.communicate()
    last = (rest.split("\n")[-2:-1] or [last])[0]
    found = reopened(kind, tmp_path).journal()
    assert found == [b"{%d}" % number for number in range(len(found))]
    assert len(found) > int(last)


@lasting
def test_a_process_killed_while_compacting_leaves_one_truth(kind: str, tmp_path: Path) -> None:
    process = worker(kind, tmp_path, "compact")
    for _ in range(20):
        last = line_of(process)
    process.kill()
    rest, _ = process.communicate()
    last = (rest.split("\n")[-2:-1] or [last])[0]
    backend = reopened(kind, tmp_path)
    document = int(backend.read() or b"-1")
    journal = backend.journal()
    # The next record is in the journal or in the document, never in both, never lost.
    assert journal in ([], [b"{%d}" % (document + 1)])
    assert document >= int(last)
    backend.lock(info())
    backend.compact(b"new")
    assert reopened(kind, tmp_path).journal() == []
    backend.unlock("id-1")
