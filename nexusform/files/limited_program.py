"""Programs of the operator, with limits of time and output.

Their memory has no limit: programs in Go and JavaScript reserve more than they use.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO, Final

# Maximum bytes of stdout and of stderr.
_MAX_OUTPUT_BYTES: Final = 1 << 26
_CHECK_SECONDS: Final = 0.02


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    content: bytes | None = None,
    *,
    captures_errors: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program without a shell and return its result; `content` is its input.

    Raises OSError if it cannot be started or prints too much, and subprocess.TimeoutExpired. It
    then ends with the programs that it started.
    """
    process = subprocess.Popen(  # noqa: S603 - the operator's own program
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL if content is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if captures_errors else None,
        start_new_session=True,
    )
    # Pipes, not files: the output may be a key.
    output = _PipeReader(process.stdout)
    errors = _PipeReader(process.stderr)
    writer = Thread(target=_write_input, args=(process.stdin, content), daemon=True)
    threads = (output, errors, writer)
    for thread in threads:
        thread.start()
    ends_at = time.monotonic() + seconds
    try:
        while process.poll() is None or output.is_alive() or errors.is_alive():
            if max(len(output.content), len(errors.content)) > _MAX_OUTPUT_BYTES:
                raise OSError(0, f"it prints more than {_MAX_OUTPUT_BYTES >> 20} MiB")
            if time.monotonic() > ends_at:
                raise subprocess.TimeoutExpired(command, seconds)
            output.join(_CHECK_SECONDS)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_CHECK_SECONDS)
    finally:
        if process.poll() is None or output.is_alive() or errors.is_alive():
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for thread in threads:
            # A program that left the group may keep a pipe open.
            thread.join(1)
    if max(len(output.content), len(errors.content)) > _MAX_OUTPUT_BYTES:
        raise OSError(0, f"it prints more than {_MAX_OUTPUT_BYTES >> 20} MiB")
    return subprocess.CompletedProcess(command, process.returncode, output.content, errors.content)


class _PipeReader(Thread):
    """Thread that reads a pipe to its end, or to one byte above the limit."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self.content = b""

    def run(self) -> None:
        """Read the pipe."""
        if self._stream is not None:
            with self._stream:
                self.content = self._stream.read(_MAX_OUTPUT_BYTES + 1)


def _write_input(stream: IO[bytes] | None, content: bytes | None) -> None:
    """Write the input of a program, which may end before it has read all."""
    if stream is not None:
        with suppress(OSError):
            stream.write(content or b"")
        with suppress(OSError):
            stream.close()
