"""Task of a Dask worker: bytes in, bytes out; everything else is read locally."""

from __future__ import annotations

import time
from threading import Thread
from typing import Final

from nexusform.domains.sites.engines.local_worker import run_task_safely
from nexusform.domains.sites.types.site_tasks import decode_task, encode_task_message
from nexusform.domains.sites.workflow.site_worker import FleetTaskWorker

_CHECK_SECONDS: Final = 10.0  # seconds between checks for abandoned locks
_WORKERS: Final[list[FleetTaskWorker]] = []  # the worker of this process


def _release_abandoned_locks(worker: FleetTaskWorker) -> None:
    while True:
        time.sleep(_CHECK_SECONDS)
        worker.release_abandoned_locks()


def run_task(message: bytes) -> tuple[str, bytes]:
    """Run the task in these bytes; return the worker's address and the result."""
    from distributed import get_worker

    if not _WORKERS:
        _WORKERS.append(FleetTaskWorker())
        Thread(target=_release_abandoned_locks, args=(_WORKERS[0],), daemon=True, name="nexusform-locks").start()
    result = encode_task_message(run_task_safely(_WORKERS[0], decode_task(message)))
    return str(get_worker().address), result


def record_heartbeat(session: str) -> None:
    """Record the heartbeat of a command, so that this worker keeps its locks."""
    for worker in _WORKERS:
        worker.record_heartbeat(session)
