"""Runner of commands in separate processes that end, or fail, at one durable call.

Started as a program, it reads a JSON object per line: directory, words, fault (`kind`) and number
of the call, and answers with a line: the exit code and the number of durable calls. Forked from a
process with all modules loaded, a command takes a fraction of a start. Additional modules of a
command are loaded for later ones, too; `load` runs a command in the parent, to prepare anything
else. `longest_wait` shortens pauses of clients between attempts.
"""

import errno
import http.client
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nexusform
from nexusform.applying import apply_recorder
from nexusform.state.journal import Record
from tests.commands import (
    build_module_command,
    import_modules,
    list_modules_after,
    read_names,
    send_names,
)
from tests.garbage_collection import keep_loaded_objects
from tests.kill_points import tries_first_calls

DIED = 77
READ_ONLY = "read-only"
LOCAL_KINDS = ("before", "after", "torn", "ENOSPC", "EIO")
REMOTE_KINDS = ("before", "after", "EIO")
_READING = ("GET", "HEAD")


class CrashPoint:
    """Counter of durable calls; at one of them the process dies, or the call fails.

    With the kind "cut" the call is done, and its answer is lost. With "slow" each call takes time,
    and with READ_ONLY each one fails.

    The situation of a call is the lines of the product that led to it, and the records of the
    journal so far: none, one or several of each type. Calls in equal situations leave the same
    kind of remains.
    """

    def __init__(self, kind: str, call: int) -> None:
        self.kind = kind
        self.call = call
        self.calls = 0
        self.first_calls: dict[tuple[object, ...], int] = {}
        self.records: Counter[str] = Counter()
        self.guard = threading.Lock()

    def is_here(self) -> bool:
        lines = find_product_lines()
        with self.guard:
            self.calls += 1
            journal = frozenset((name, count > 1) for name, count in self.records.items())
            self.first_calls.setdefault((lines, journal), self.calls)
            return self.calls == self.call

    def count_records(self) -> None:
        """Count the journal's records by type."""
        encode = apply_recorder.encode_journal_record

        def count_and_encode(record: Record, *position: Any) -> bytes:
            with self.guard:
                self.records[type(record).__name__] += 1
            return encode(record, *position)

        apply_recorder.encode_journal_record = count_and_encode

    def around(
        self, whole: Callable[..., Any], failure: Callable[[], Exception]
    ) -> Callable[..., Any]:
        """Return the call with the crash before or after it, or instead of it."""

        def call_or_crash(*arguments: Any, **more: Any) -> Any:
            is_here = self.is_here()
            if self.kind == "slow":
                _SLEEP(_DELAY)
                return whole(*arguments, **more)
            if not is_here and self.kind != READ_ONLY:
                return whole(*arguments, **more)
            if self.kind == "cut":
                whole(*arguments, **more)
            if self.kind in ("ENOSPC", "EIO", "cut", READ_ONLY):
                raise failure()
            if self.kind == "after":
                whole(*arguments, **more)
            if self.kind == "torn" and whole is _WRITE:
                whole(arguments[0], arguments[1][: len(arguments[1]) // 2])
            os._exit(DIED)

        return call_or_crash

    def build_os_error(self) -> OSError:
        number = errno.EROFS if self.kind == READ_ONLY else getattr(errno, self.kind, errno.EIO)
        return OSError(number, os.strerror(number))

    def patch_disk(self) -> None:
        """Patch the calls that make files durable."""
        for name in ("write", "fsync", "replace", "unlink", "rename", "mkdir", "rmdir"):
            setattr(os, name, self.around(getattr(os, name), self.build_os_error))

    def patch_network(self) -> None:
        """Patch modifying requests: crash before they are sent, or after their response."""
        connection: Any = http.client.HTTPConnection
        begin = connection.putrequest
        answer = connection.getresponse
        crash = self

        def putrequest(this: Any, method: str, *arguments: Any, **more: Any) -> Any:
            this.crashes = method not in _READING and crash.is_here()
            if this.crashes and crash.kind in ("before", "torn"):
                os._exit(DIED)
            if this.crashes and crash.kind in ("EIO", "ENOSPC"):
                # Not a reset: urllib3 would then read the response on a connection that does
                # not exist yet.
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            if crash.kind == READ_ONLY and method not in _READING:
                # No server knows this change.
                method = "TRACE"
            return begin(this, method, *arguments, **more)

        def getresponse(this: Any, *arguments: Any, **more: Any) -> Any:
            if crash.kind == "slow":
                _SLEEP(_DELAY)
            response = answer(this, *arguments, **more)
            if this.crashes and crash.kind == "after":
                os._exit(DIED)
            if this.crashes and crash.kind == "cut":
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            return response

        connection.putrequest = putrequest
        connection.getresponse = getresponse

    def patch_database(self) -> None:
        """Patch all statements: a transaction may be interrupted between any two."""
        import psycopg

        def build_lost_connection() -> Exception:
            return psycopg.OperationalError("the connection is lost")

        if self.kind == READ_ONLY:
            psycopg.connect = partial(
                psycopg.connect, options="-c default_transaction_read_only=on"
            )
            return
        cursor: Any = psycopg.Cursor
        cursor.execute = self.around(cursor.execute, build_lost_connection)


def shorten_pauses(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """Return a `sleep` with short pauses between retries.

    An SDK waits for seconds after a failed call.
    """
    return lambda seconds: sleep(min(seconds, 0.02))


def find_product_lines() -> tuple[tuple[str, int], ...]:
    """Return file and line of each of the product's frames in this thread, innermost first."""
    lines = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PRODUCT):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)


_PRODUCT = str(Path(nexusform.__file__).parent)
_WRITE = os.write
_SLEEP = time.sleep
# Seconds of a slow call.
_DELAY = 0.1
_PLACES: dict[str, Callable[[CrashPoint], None]] = {
    "disk": CrashPoint.patch_disk,
    "wire": CrashPoint.patch_network,
    "database": CrashPoint.patch_database,
}


def execute_command(task: dict[str, Any], report: int) -> None:
    """Run one command in this process, and end it.

    `report` is the file for the names of its loaded modules.
    """
    from nexusform.cli.main import run_command_line

    module_count = len(sys.modules)
    os.chdir(task["where"])
    Path(task["said"] + ".pid").write_text(str(os.getpid()))
    said = os.open(task["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    if task["longest_wait"] is not None:
        wait = time.sleep
        longest = task["longest_wait"]
        time.sleep = lambda seconds: wait(min(seconds, longest))
    for name, value in task["constants"].items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
    crash = CrashPoint(task["kind"], task["call"])
    if crash.kind:
        time.sleep = shorten_pauses(time.sleep)
    for place in task["places"]:
        _PLACES[place](crash)
    crash.count_records()
    code = run_command_line(task["words"])
    crash.call = 0
    sys.stdout.flush()
    sys.stderr.flush()
    Path(task["said"] + ".calls").write_text(
        json.dumps({"all": crash.calls, "first": [*crash.first_calls.values()]})
    )
    send_names(list_modules_after(module_count), report)
    os._exit(code)


class CommandRunner:
    """Commands in separate processes (see the docstring of the module)."""

    def __init__(
        self,
        template: Path,
        variables: Mapping[str, str],
        backend: str = "memory",
        settings: Mapping[str, Any] | None = None,
        longest_wait: float | None = None,
        constants: Mapping[str, float] | None = None,
    ) -> None:
        """Set the project, the backend and the variables of the runs.

        `template` is a project for loading the modules of commands, and the backend is opened for
        the same reason. `variables` are added to the environment. `longest_wait` is in seconds.
        `constants` are other values of constants, by module and name.
        """
        self.constants = dict(constants or {})
        self.longest_wait = longest_wait
        command = [*build_module_command("tests.contracts.crash_runner"), str(template)]
        command += [backend, json.dumps(settings or {})]
        root = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            "PYTHONPATH": root,
            "NF_IN_AUTOMATION": "1",
            "NF_CONFINE": "false",
            **variables,
        }
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            env=environment,
            text=True,
        )
        assert self.process.stdout is not None
        self.answers = self.process.stdout

    def run(
        self, where: Path, *words: str, kind: str = "", call: int = 0, places: Sequence[str] = ()
    ) -> tuple[int, str]:
        """Return the exit code and all output."""
        said = where.parent / "said"
        task = {
            "where": str(where),
            "words": list(words),
            "said": str(said),
            "kind": kind,
            "call": call,
            "places": list(places),
            "longest_wait": self.longest_wait,
            "constants": self.constants,
        }
        assert self.process.stdin is not None
        print(json.dumps(task), file=self.process.stdin, flush=True)
        code = int(self.answers.readline())
        return code, " ".join(said.read_text().replace("│", " ").split())

    def load(self, where: Path, *words: str) -> None:
        """Run a command in the parent process, so that later ones find its modules loaded."""
        assert self.process.stdin is not None
        print(
            json.dumps({"load": [f"-chdir={where}", *words]}), file=self.process.stdin, flush=True
        )
        assert self.answers.readline()

    def calls(self, where: Path, places: Sequence[str], *words: str) -> list[int]:
        """Return the numbers of the durable calls of a command that a run tries.

        `.ci/run` tries the first call of each situation (see CrashPoint), other runs each call.
        """
        code, told = self.run(where, *words, places=places)
        assert code == 0, told
        calls = json.loads((where.parent / "said.calls").read_text())
        if tries_first_calls():
            return list(calls["first"])
        return list(range(1, calls["all"] + 1))

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.answers.close()


def main() -> None:
    """Answer tasks until the end of the input."""
    from nexusform.backends.backend_definition import Directories
    from nexusform.backends.registry import BACKENDS
    from nexusform.cli.main import run_command_line

    template, backend, backend_settings = sys.argv[-3:]
    answers = os.fdopen(os.dup(1), "w")
    # Commands that load modules print, too.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    # modules of all commands are loaded once.
    run_command_line([f"-chdir={template}", "validate"])
    run_command_line([f"-chdir={template}", "plan", "-lock=false"])
    BACKENDS[backend].open_backend(json.loads(backend_settings), Directories(template, template))
    for line in sys.stdin:
        task = json.loads(line)
        if "load" in task:
            print(run_command_line(task["load"]), file=answers, flush=True)
            keep_loaded_objects()
            continue
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                execute_command(task, writing)
            finally:
                os._exit(99)
        os.close(writing)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        import_modules(read_names(reading))
        print(code, file=answers, flush=True)


if __name__ == "__main__":
    main()
