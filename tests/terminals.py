"""Commands at a terminal of 80 columns, with answers and keys typed by a person."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

CTRL_C = "\x03"
CTRL_D = "\x04"
ROOT = Path(__file__).parents[1]
_SECONDS = 60
_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROGRESS = re.compile(r"^Applying [ ━╸╺]+.*$")


def run_at_terminal(
    arguments: Sequence[str], keys: Sequence[tuple[str, str]], directory: Path
) -> tuple[int, str]:
    """Run a command line; return its exit code and everything that the terminal received.

    `keys` are pairs of a text to wait for, and the keys typed after it.
    """
    process, terminal = pty.fork()
    if process == 0:
        # A parent process may ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(directory)
        os.environ.update(NO_COLOR="1", TERM="xterm", PYTHONPATH=str(ROOT))
        # In automation nothing is asked.
        for name in ("CI", "NF_IN_AUTOMATION", "NF_INPUT"):
            os.environ.pop(name, None)
        os.execv(sys.executable, [sys.executable, "-m", "nexusform", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = b""
    position = 0
    awaited = list(keys)
    try:
        while part := _read(terminal):
            shown += part
            while awaited and (found := shown.find(awaited[0][0].encode(), position)) >= 0:
                position = found + len(awaited[0][0].encode())
                os.write(terminal, awaited.pop(0)[1].encode())
    except AssertionError:
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(process, 0)
        os.close(terminal)
    assert not awaited, shown.decode()
    return os.waitstatus_to_exitcode(status), shown.decode()


def _read(terminal: int) -> bytes:
    """Return what a process wrote to its terminal, b"" at its end."""
    readable, _, _ = select.select([terminal], [], [], _SECONDS)
    assert readable, "the command does not answer"
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def list_lines(shown: str) -> list[str]:
    """Return the lines of a terminal without empty ones, control sequences and progress bars."""
    text = _CONTROL_SEQUENCE.sub("", shown).replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n")]
    return [line for line in lines if line and not _PROGRESS.match(line)]
