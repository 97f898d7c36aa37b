"""A warm worker process: reads tasks from stdin, writes answers to stdout, until stdin ends.

Whatever else anybody prints goes to stderr.
"""

from __future__ import annotations

import os
import signal
import struct
from typing import IO, Final

import click

from nexusform.domains.sites.ports import lost
from nexusform.domains.sites.types.work import Answer, Task, encode, task_of
from nexusform.domains.sites.workflow.site_work import Worker
from nexusform.log import start

LENGTH: Final = struct.Struct("<I")  # before each message


def send(stream: IO[bytes], message: bytes) -> None:
    """Write one message."""
    stream.write(LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end."""
    head = stream.read(LENGTH.size)
    if head is None or len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return body if body is not None and len(body) == length else None


def done_safely(worker: Worker, task: Task) -> Answer:
    """The answer of a worker; a bug is one site's, and said so."""
    try:
        return worker.do(task)
    except Exception as bug:  # noqa: BLE001 - one site's bug must not stop the others
        from traceback import format_exception

        if os.environ.get("NF_LOG", "").lower() in ("debug", "trace", "json"):
            click.echo("".join(format_exception(bug)), err=True)
        what = (
            "the memory did not suffice" if isinstance(bug, MemoryError) else f"{type(bug).__name__}: {bug}"
        )
        return lost(task, f"nexusform met a bug of its own with this site ({what}). NF_LOG=debug tells more.")


def main() -> None:
    """Work until nobody asks any more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever asks decides when to stop
    tasks = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    start(os.environ)  # what is wrong with NF_LOG was told by whoever started us
    worker = Worker()
    while (message := receive(tasks)) is not None:
        send(answers, encode(done_safely(worker, task_of(message))))


if __name__ == "__main__":
    main()
