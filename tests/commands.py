"""`nexusform` as a program, for tests of output, files and exit code of a command.

A start of Python with all modules of a plan takes 0.4 s of processor time. Here each command is a
separate process, too, but forked from a process with all modules loaded, and takes a twentieth of
that. Additional modules of a command are loaded in the parent process after its end, for later
commands. Start it by `subprocess.run([*commands.nexusform(), "plan"])`.

Differences: resource limits and the hash seed are those of the parent process, and three files are
always open. A test of these, of imports at the start, or of a killed process starts
`python -m nexusform`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import selectors
import shutil
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
from itertools import islice
from pathlib import Path

from tests.garbage_collection import keep_loaded_objects

ROOT = Path(__file__).parents[1]
CLIENT = Path(__file__).with_name("command_client.py")
# precedes the name of a module.
MODULE = "--module"
# bytes that fit into a pipe without a reader.
PIPE_SIZE = 60_000
# As in conftest.py.
os.fsync = os.fstat
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
    """Return the program and its first arguments to start a command.

    The parent process of the command ends with this process.
    """
    folder = tempfile.mkdtemp(prefix="nexusform-commands-")
    path = f"{folder}/socket"
    owner = os.getpid()
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

    def stop_server() -> None:
        if os.getpid() != owner:
            # A forked process that ends.
            return
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        shutil.rmtree(folder)

    atexit.register(stop_server)
    return sys.executable, "-I", "-S", str(CLIENT), path


def build_module_command(name: str) -> tuple[str, ...]:
    """Return the program and its first arguments to start a module of the product.

    They start it as `python -m NAME` does.
    """
    return *nexusform(), MODULE, name


def build_shell_line() -> str:
    """Return the same as a line of a shell script."""
    return f'exec {" ".join(nexusform())} "$@"'


# --- the process with loaded modules --------------------------------------------------------------


class CommandServer:
    """Server at a socket: it accepts commands, and waits for running ones."""

    def __init__(self, path: str) -> None:
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen(128)
        self.waiting = selectors.DefaultSelector()
        self.waiting.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self.waiting.register(self.listening, selectors.EVENT_READ, self.begin)

    def serve(self) -> None:
        """Serve until the other side closes standard input."""
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
            # here, so that it is loaded only once.
            importlib.import_module(os.fsdecode(task[3]))
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            self.waiting.close()
            self.listening.close()
            connection.close()
            os.close(reading)
            execute_command(task, files, writing)
        os.close(writing)
        for file in files:
            os.close(file)
        handle = os.pidfd_open(child)
        connection.sendall(struct.pack("i", child))

        def finish_command() -> None:
            self.waiting.unregister(handle)
            os.close(handle)
            self.waiting.unregister(connection)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            # The client is gone.
            with suppress(OSError):
                connection.sendall(struct.pack("i", code))
            connection.close()
            import_modules(read_names(reading))

        def kill_command() -> None:
            """Kill the command: its client was killed, so its result is not needed."""
            os.kill(child, signal.SIGKILL)
            finish_command()

        self.waiting.register(handle, selectors.EVENT_READ, finish_command)
        self.waiting.register(connection, selectors.EVENT_READ, kill_command)


def list_modules_after(count: int) -> list[str]:
    """Return the names of the modules loaded after the first `count`, newest first.

    They are modules of the product and of installed packages. Others are not visited: a forked
    process would copy their memory.
    """
    folders = (str(ROOT / "nexusform"), sys.prefix, sys.base_prefix)
    new_names = list(islice(reversed(sys.modules), max(0, len(sys.modules) - count)))
    return [
        name
        for name in new_names
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(folders)
    ]


def send_names(names: Sequence[str], pipe: int) -> None:
    """Write names of modules to a pipe, as many as fit without a reader."""
    with suppress(OSError):
        os.write(pipe, " ".join(sorted(names)).encode()[:PIPE_SIZE])


def read_names(pipe: int) -> list[str]:
    """Return the names sent by an ended process, and close the pipe."""
    # child processes of that process may still run.
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, PIPE_SIZE).decode().split()
    except BlockingIOError:
        return []
    finally:
        os.close(pipe)


def import_modules(names: Sequence[str]) -> None:
    """Import the modules loaded by a command.

    Otherwise each later command would load them again.
    """
    for name in names:
        # Some depend on environment variables of the command.
        with suppress(Exception):
            importlib.import_module(name)
    if names:
        keep_loaded_objects()


def execute_command(task: list[bytes], files: list[int], report: int) -> None:
    """Execute the command in this process; never return.

    `report` is the file for the names of its loaded modules.
    """
    code, module_count = 99, len(sys.modules)
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
        send_names(list_modules_after(module_count), report)
    finally:
        os._exit(code)


def load_common_modules() -> None:
    """Load the modules needed by most commands."""
    from nexusform.cli.main import run_command_line

    with (
        tempfile.TemporaryDirectory() as folder,
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
    ):
        Path(folder, "main.nf.hcl").write_text(SITE)
        run_command_line([f"-chdir={folder}", "init"])
        run_command_line(
            [f"-chdir={folder}", "plan", "-out=p", "-report=json:p.json", "-report=markdown:p.md"]
        )
        run_command_line([f"-chdir={folder}", "apply", "p"])
        run_command_line([f"-chdir={folder}", "show", "-json", "p"])
    gc.collect()
    keep_loaded_objects()


def main() -> None:
    load_common_modules()
    forks = CommandServer(sys.argv[1])
    print("ready", flush=True)
    forks.serve()


if __name__ == "__main__":
    main()
