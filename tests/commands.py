"""`nexusform` as a program, for tests that look at what a command prints, writes and ends with.

A start of Python with all that a plan loads takes 0.4 s of processor time. Here each command is a process of
its own, too, but forked from one that has loaded everything, which takes a twentieth of that. Modules that a command
loads besides are loaded there once it ends, for those that follow. Start it by
`subprocess.run([*commands.nexusform(), "plan"])`.

What is different: limits of resources and the seed of hashes are those of the process that forks, and three
files are always open. A test of those, of what a start loads, or of a process that is killed starts
`python -m nexusform`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = Path(__file__).with_name("command_client.py")
MODULE = "--module"  # the word before the name of a module
PIPE_SIZE = 60_000  # bytes that a pipe takes before somebody reads
SITE = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  name          = "r"
  machine_count = 2
}
output "o" {
  value = 1
}
"""


@cache
def nexusform() -> tuple[str, ...]:
    """The words that start a command, but for its own. The process that forks it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="nexusform-commands-")
    path = f"{folder.name}/socket"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NF_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.commands", path],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        folder.cleanup()

    atexit.register(end)
    return sys.executable, "-I", "-S", str(CLIENT), path


def module(name: str) -> tuple[str, ...]:
    """The words that start a module of the product as a program, as `python -m NAME` does."""
    return *nexusform(), MODULE, name


def program() -> str:
    """The same as a line of a shell script."""
    return f'exec {" ".join(nexusform())} "$@"'


# --- the process that forks -----------------------------------------------------------------------


class Forks:
    """Waits at a socket for commands, and for those that run."""

    def __init__(self, path: str) -> None:
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen(128)
        self.waiting = selectors.DefaultSelector()
        self.waiting.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self.waiting.register(self.listening, selectors.EVENT_READ, self.begin)

    def serve(self) -> None:
        """Until the other side of standard input is closed."""
        while True:
            for key, _ in self.waiting.select():
                if key.data is None:
                    return
                key.data()

    def begin(self) -> None:
        connection, _ = self.listening.accept()
        head, files, _, _ = socket.recv_fds(connection, 4, 3)
        if len(head) < 4:
            return
        (length,) = struct.unpack("i", head)
        content = b""
        while len(content) < length and (part := connection.recv(length - len(content))):
            content += part
        task = content.split(b"\0")
        if task[2] == MODULE.encode():
            importlib.import_module(os.fsdecode(task[3]))  # here, so that it is loaded once
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            self.waiting.close()
            self.listening.close()
            connection.close()
            os.close(reading)
            carry_out(task, files, writing)
        os.close(writing)
        for file in files:
            os.close(file)
        handle = os.pidfd_open(child)
        connection.sendall(struct.pack("i", child))

        def end() -> None:
            self.waiting.unregister(handle)
            os.close(handle)
            self.waiting.unregister(connection)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with suppress(OSError):  # who asked is gone
                connection.sendall(struct.pack("i", code))
            connection.close()
            import_modules(read_names(reading))

        def gone() -> None:
            """Who asked was killed: nobody waits for the command any more."""
            os.kill(child, signal.SIGKILL)
            end()

        self.waiting.register(handle, selectors.EVENT_READ, end)
        self.waiting.register(connection, selectors.EVENT_READ, gone)


def list_modules() -> set[str]:
    """Return the names of the loaded modules of the product and of installed packages."""
    folders = (str(ROOT / "nexusform"), sys.prefix, sys.base_prefix)
    return {
        name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(folders)
    }


def send_names(names: set[str], pipe: int) -> None:
    """Write names of modules to a pipe, as many as it takes before they are read."""
    with suppress(OSError):
        os.write(pipe, " ".join(sorted(names)).encode()[:PIPE_SIZE])


def read_names(pipe: int) -> list[str]:
    """Return the names that a process has sent, which has ended, and close the pipe."""
    os.set_blocking(pipe, False)  # what that process has forked may still be there
    try:
        return os.read(pipe, PIPE_SIZE).decode().split()
    except BlockingIOError:
        return []
    finally:
        os.close(pipe)


def import_modules(names: Sequence[str]) -> None:
    """Import the modules that a command has loaded: each that follows would load them again."""
    for name in names:
        with suppress(Exception):  # some depend on the variables of the command
            importlib.import_module(name)
    if names:
        gc.freeze()


def carry_out(task: list[bytes], files: list[int], report: int) -> None:
    """Be the command; never returns. `report` is the file for the names of the modules that it loads."""
    code, before = 99, list_modules()
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        words = 2 + int(task[0])
        os.chdir(task[1])
        os.environ.clear()
        os.environb.update(dict(each.split(b"=", 1) for each in task[words:]))
        time.tzset()
        sys.stdin, sys.stdout, sys.stderr = (
            open(0, encoding="utf-8", closefd=False),  # noqa: SIM115 - for as long as the process lives
            open(1, "w", encoding="utf-8", closefd=False),  # noqa: SIM115
            open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False),  # noqa: SIM115
        )
        sys.argv = ["nexusform", *map(os.fsdecode, task[2:words])]
        from nexusform.cli.main import main

        if sys.argv[1:2] == [MODULE]:
            main = importlib.import_module(sys.argv[2]).main
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        atexit._run_exitfuncs()
        sys.stdout.flush()
        send_names(list_modules() - before, report)
    finally:
        os._exit(code)


def load() -> None:
    """Let everything be loaded that most commands need."""
    from nexusform.cli.main import run_command_line

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        Path(folder, "main.nf.hcl").write_text(SITE)
        run_command_line([f"-chdir={folder}", "init"])
        run_command_line([f"-chdir={folder}", "plan", "-out=p", "-report=json:p.json", "-report=markdown:p.md"])
        run_command_line([f"-chdir={folder}", "apply", "p"])
        run_command_line([f"-chdir={folder}", "show", "-json", "p"])
    gc.collect()
    gc.freeze()


def main() -> None:
    load()
    forks = Forks(sys.argv[1])
    print("ready", flush=True)
    forks.serve()


if __name__ == "__main__":
    main()
