"""A child process for a foreign engine, with limits of processor time, memory and time.

An engine in C cannot be interrupted, and lack of memory ends its process. In a child that is an
error of one request. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from typing import Any, Final

from msgspec import DecodeError, json

from nexusform.files.program_environment import build_program_environment

_MEBIBYTE: Final = 1 << 20


class WorkerFailure(Exception):
    """A request without an answer; the message is the reason."""


class LimitedWorker:
    """A child process that answers requests by a module's `main`; started on first use."""

    def __init__(self, module: str, *, cpu_seconds: float, memory_mib: int, seconds: float) -> None:
        """Keep the name of the module, and the limits of one request.

        The engine's own memory does not count.
        """
        self._module = module
        self._cpu_seconds = cpu_seconds
        self._memory_mib = memory_mib
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        # One request at a time.
        self._lock = Lock()

    def send_request(self, request: Any) -> Any:
        """Return the answer to a request.

        Raises WorkerFailure if the child ends or exceeds a limit; the next request gets a new one.
        """
        with self._lock:
            process = self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = Timer(self._seconds, process.kill)
            timer.daemon = True
            timer.start()
            line = b""
            try:
                # A child that ended.
                with suppress(BrokenPipeError):
                    process.stdin.write(json.encode(request) + b"\n")
                    process.stdin.flush()
                line = process.stdout.readline()
            finally:
                timer.cancel()
                # Also after an interrupt: its answer would be taken for the next one's.
                if not line.endswith(b"\n"):
                    self._stop()
            with suppress(DecodeError):
                return json.decode(line)
        raise WorkerFailure(
            f"it exceeds {self._cpu_seconds:g} s of processor time or "
            f"{self._memory_mib} MiB of memory"
        )

    def _start(self) -> subprocess.Popen[bytes]:
        """Return the child process, started if there is none.

        Raises WorkerFailure.
        """
        if self._process is not None and self._process.poll() is None:
            return self._process
        environment = {
            **build_program_environment(),
            "PYTHONPATH": os.pathsep.join([path for path in sys.path if path]),
        }
        numbers = [str(self._cpu_seconds), str(self._memory_mib)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very Python and a module of ours
                [sys.executable, "-P", "-m", self._module, *numbers],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # An interrupt of the terminal is for nexusform.
                start_new_session=True,
            )
        except OSError as problem:
            raise WorkerFailure(f"no process can be started: {problem.strerror}") from None
        atexit.register(self._stop)
        return self._process

    def _stop(self) -> None:
        """End the child process, if there is one."""
        process = self._process
        self._process = None
        atexit.unregister(self._stop)
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            # The rest of a request is lost.
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        process.wait()


def serve_requests(answer: Callable[[Any], Any], lines: Iterable[bytes]) -> None:
    """Answer each line within the limits of the command line; for the `main` of a worker.

    The memory of the engine and of its earlier requests does not count.
    """
    cpu_seconds = float(sys.argv[1])
    more_bytes = int(sys.argv[2]) * _MEBIBYTE
    output = os.fdopen(os.dup(1), "wb")
    # Prints of a library are no answers.
    os.dup2(2, 1)
    for line in lines:
        _limit_memory(more_bytes)
        _limit_processor_time(cpu_seconds)
        try:
            response = answer(json.decode(line))
        except MemoryError:
            # The parent reports the limit.
            os._exit(1)
        _limit_processor_time(0)
        output.write(json.encode(response) + b"\n")
        output.flush()


def _limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to its current size and some bytes.

    Systems without /proc have no such limit: their processes are limited by processor time.
    """
    if sys.platform != "linux":
        return
    import resource

    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    except OSError:
        return
    hard_limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = pages * resource.getpagesize() + more_bytes
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    # The soft limit alone: the next request starts from another size.
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))
    # A crash writes no memory to disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_processor_time(seconds: float) -> None:
    """End this process after more processor time; 0 ends the limit."""
    if sys.platform == "win32":
        return
    import signal

    # Its default action ends the process, also in code of C.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
