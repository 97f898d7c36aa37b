"""Parallel processes with a backend, forked from one with loaded modules.

A start takes a fraction of the time of a new Python process.

    with BackendWorkers() as workers:
        worker = workers.start(kind, directory, settings, "hold")

Every process opens its own client: the parent process only loads modules. A sign-in thread of the
parent could hold a lock that is never released in a child.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

MODULES = {"s3": "boto3", "azurerm": "azure.storage.blob", "postgres": "psycopg"}


class Worker:
    """One process: its lines, its signals and its end."""

    def __init__(self, control: socket.socket, pid: int, stdin: int, stdout: int) -> None:
        self.control = control
        self.pid = pid
        self.stdin = os.fdopen(stdin, "w")
        self.stdout = os.fdopen(stdout)
        self.returncode: int | None = None

    def read_line(self) -> str:
        return self.stdout.readline().strip()

    def go(self) -> None:
        """Let a waiting worker continue."""
        self.stdin.write("go\n")
        self.stdin.flush()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> str:
        """Kill the worker; return its remaining output."""
        self.send_signal(signal.SIGKILL)
        return self.finish()

    def finish(self) -> str:
        """Wait for the end of the worker; return its remaining output."""
        self.stdin.close()
        rest = self.stdout.read()
        self.stdout.close()
        self.control.sendall(json.dumps({"wait": self.pid}).encode() + b"\n")
        self.returncode = int(self.control.recv(64))
        return rest


class BackendWorkers:
    """Process that forks the workers, until the end of the block."""

    def __enter__(self) -> Self:
        self.control, theirs = socket.socketpair()
        root = str(Path(__file__).parents[2])
        command = [sys.executable, "-m", "tests.contracts.backend_workers", str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": root}
        self.process = subprocess.Popen(
            command, cwd=root, env=environment, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.control.close()
        self.process.wait(30)

    def start(
        self, kind: str, directory: Path, settings: Mapping[str, Any], task: str, *more: str
    ) -> Worker:
        """Start a task of `TASKS` in a separate process, with the NF_ variables of this one."""
        stdin, our_stdin = os.pipe()
        our_stdout, stdout = os.pipe()
        variables = {name: value for name, value in os.environ.items() if name.startswith("NF_")}
        words = [kind, str(directory), dict(settings), task, list(more), variables]
        content = json.dumps({"start": words}).encode() + b"\n"
        socket.send_fds(self.control, [content], [stdin, stdout])
        pid = int(self.control.recv(64))
        os.close(stdin)
        os.close(stdout)
        return Worker(self.control, pid, our_stdin, our_stdout)


# --- the parent process of the workers ------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Start workers and wait for them until the other side is closed."""
    while True:
        content, files, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not content:
            return
        request = json.loads(content)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = start_child(control, request["start"], files)
        control.sendall(str(answer).encode())


def start_child(control: socket.socket, words: Sequence[Any], files: Sequence[int]) -> int:
    if words[0] in MODULES:
        importlib.import_module(MODULES[words[0]])
    child = os.fork()
    if not child:
        control.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
        run_child(*words)
    for file in files:
        os.close(file)
    return child


def run_child(
    kind: str,
    directory: str,
    settings: Mapping[str, Any],
    task: str,
    more: Sequence[str],
    variables: Mapping[str, str],
) -> NoReturn:
    code = 1
    try:
        for name in [name for name in os.environ if name.startswith("NF_")]:
            del os.environ[name]
        os.environ.update(variables)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        TASKS[task](lambda: open_backend(kind, directory, settings), *more)
        code = 0
    except BaseException as problem:  # noqa: BLE001
        # A child never returns into the loop of its parent.
        print(repr(problem), file=sys.stderr, flush=True)
    os._exit(code)


# --- tasks ----------------------------------------------------------------------------------------


def open_backend(kind: str, directory: str, settings: Mapping[str, Any]) -> Any:
    from nexusform.backends.backend_definition import Directories
    from nexusform.backends.registry import BACKENDS

    return BACKENDS[kind].open_backend(
        dict(settings), Directories(directory, f"{directory}/.nexusform")
    )


def build_info(lock_id: str = "") -> Any:
    from nexusform.interfaces.state_storage import LockInfo

    me = lock_id or f"id-{os.getpid()}"
    return LockInfo(me, "apply", "me", "0", "now", "p", socket.gethostname(), os.getpid())


def print_line(text: str) -> None:
    print(text, flush=True)


def wait_for_lock(backend: Any, info: Any, pause: float) -> None:
    """Take the lock as soon as it is free.

    Sleep between attempts for the sake of other processes.
    """
    from nexusform.interfaces.state_storage import StateLocked

    while True:
        try:
            backend.lock(info)
        except StateLocked:
            time.sleep(random.uniform(pause / 5, pause))
        else:
            return


def hold(opened: Any) -> None:
    for warning in opened().lock(build_info()):
        print_line("warning " + warning)
    print_line("held")
    time.sleep(60)


def write(opened: Any) -> None:
    from nexusform.interfaces.state_storage import BackendProblem

    backend = opened()
    backend.lock(build_info())
    print_line("held")
    for number in range(100000):
        try:
            backend.append(b"{%d}" % number)
            backend.write(b"%d" % number)
        except BackendProblem as problem:
            print_line(f"stopped {problem}")
            break
        print_line(str(number))
        time.sleep(0.1)


def race(opened: Any) -> None:
    from nexusform.interfaces.state_storage import StateLocked

    backend = opened()
    print_line("ready")
    sys.stdin.readline()
    try:
        warnings = backend.lock(build_info())
    except StateLocked:
        print_line("lost")
    else:
        print_line(f"won {len(warnings)}")
        sys.stdin.readline()


def count(opened: Any) -> None:
    backend = opened()
    info = build_info()
    for _ in range(4):
        wait_for_lock(backend, info, 0.05)
        backend.write(str(int(backend.read() or b"0") + 1).encode())
        backend.unlock(info.id)


def write_serial(opened: Any, number: str) -> None:
    backend = opened()
    info = build_info(f"id-{number}")
    print_line("ready")
    sys.stdin.readline()
    wait_for_lock(backend, info, 0.3)
    serial = int(backend.read() or b"0")
    backend.append(b"{%s}" % number.encode())
    backend.write_merged_state(str(serial + 1).encode())
    backend.unlock(info.id)


def append(opened: Any) -> None:
    backend = opened()
    backend.lock(build_info())
    for number in range(100000):
        backend.append(b"{%d}" % number)
        print_line(str(number))


def compact(opened: Any) -> None:
    backend = opened()
    backend.lock(build_info())
    for number in range(100000):
        backend.append(b"{%d}" % number)
        backend.write_merged_state(b"%d" % number + b" " * 100000)
        print_line(str(number))


TASKS: dict[str, Any] = {
    task.__name__: task for task in (hold, write, race, count, write_serial, append, compact)
}


def main() -> None:
    import nexusform.backends.registry  # noqa: F401 - loaded once

    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
