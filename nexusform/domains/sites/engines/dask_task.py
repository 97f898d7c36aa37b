"""What a worker of a Dask cluster runs: bytes in, bytes out, whatever else is read where it is."""

from __future__ import annotations

import time
from threading import Thread
from typing import Final

from nexusform.domains.sites.engines.warm_worker import done_safely
from nexusform.domains.sites.types.work import encode, task_of
from nexusform.domains.sites.workflow.site_work import Worker

_LOOKS: Final = 10.0  # seconds between looks for locks that nobody wants any more
_WORKERS: Final[list[Worker]] = []  # the one of this process


def _worker() -> Worker:
    """The worker of this process, made when it gets its first task."""
    if not _WORKERS:
        _WORKERS.append(Worker())
        Thread(target=_look, args=(_WORKERS[0],), daemon=True, name="nexusform-locks").start()
    return _WORKERS[0]


def _look(worker: Worker) -> None:
    while True:
        time.sleep(_LOOKS)
        worker.forget_the_unheard()


def work(message: bytes) -> tuple[str, bytes]:
    """Do the task in these bytes: the address of the worker that did, and its answer."""
    from distributed import get_worker

    answer = encode(done_safely(_worker(), task_of(message)))
    return str(get_worker().address), answer


def hear(session: str) -> None:
    """Note that a command goes on, so that this worker keeps its locks."""
    for worker in _WORKERS:
        worker.hear(session)
