"""Worker process: reads tasks from stdin, writes results to stdout until stdin ends.

All else goes to stderr.
"""

import os
import signal
import struct
import sys
from contextlib import ExitStack
from threading import Thread
from typing import IO, Final

import click

from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    SiteResult,
    Task,
    build_lost_result,
    decode_task,
    encode_task_message,
)
from nexusform.domains.sites.workflow.site_project import build_fleet_context
from nexusform.domains.sites.workflow.site_worker import FleetTaskWorker
from nexusform.files.run_log import format_traceback, start_log
from nexusform.files.sandbox import use_sandbox

LIFELINE: Final = "-lifeline"
# Before each message.
LENGTH: Final = struct.Struct("<I")


def send_message(stream: IO[bytes], message: bytes) -> None:
    """Send one message, after its length."""
    stream.write(LENGTH.pack(len(message)) + message)
    stream.flush()


def receive_message(stream: IO[bytes]) -> bytes | None:
    """Receive one message from a buffered stream; None at its end, even amid a message."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def run_task_safely(worker: FleetTaskWorker, task: Task) -> SiteResult:
    """Run a task; convert an exception to the result of its site."""
    try:
        return worker.run_task(task)
    except Exception as bug:  # noqa: BLE001 - one site's bug must not stop the others
        if os.environ.get("NF_LOG", "").lower() in ("debug", "trace", "json"):
            click.echo(format_traceback(bug), err=True)
        # Its message may quote a value of the configuration.
        cause = "memory was exhausted" if isinstance(bug, MemoryError) else type(bug).__name__
        return build_lost_result(
            task,
            (
                f"nexusform failed on this site because of a bug ({cause}). Use NF_LOG=debug for "
                "details."
            ),
        )


def open_sandbox(walls: ExitStack, fleet: FleetContext) -> None:
    """Reject undeclared accesses of this process until its end, if the fleet is confined.

    All tasks of the process are of one fleet. Threads renew the leases of its sites between tasks.
    """
    confinement = build_fleet_context(fleet, os.environ).confinement
    paths = (fleet.root, fleet.spool, *fleet.allowed_sources)
    if confinement.root:
        walls.enter_context(use_sandbox(confinement, filter(None, paths)))


def _end_with_parent(descriptor: int) -> None:
    """End this process at the end of a pipe, which the parent process holds open."""
    os.read(descriptor, 1)
    os._exit(1)


def main() -> None:
    """Run tasks until stdin ends, then release the locks that they left.

    With the argument LIFELINE and the number of a pipe, end with it at once, also amid a task.
    """
    if sys.argv[1:2] == [LIFELINE]:
        Thread(target=_end_with_parent, args=(int(sys.argv[2]),), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        # The parent process decides on the end.
        signal.signal(number, signal.SIG_IGN)
    tasks = os.fdopen(os.dup(0), "rb")
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Prints go to stderr, not between the messages.
    os.dup2(2, 1)
    # The parent process reported errors in NF_LOG.
    start_log(os.environ)
    worker = FleetTaskWorker()
    is_open = False
    try:
        with ExitStack() as walls:
            while (message := receive_message(tasks)) is not None:
                task = decode_task(message)
                if not is_open:
                    open_sandbox(walls, task.fleet)
                    is_open = True
                send_message(results, encode_task_message(run_task_safely(worker, task)))
            worker.release_locks()
    except BrokenPipeError:
        # The parent process was killed; nothing may be flushed to it.
        os._exit(1)


if __name__ == "__main__":
    main()
