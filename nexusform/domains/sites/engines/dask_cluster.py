"""Workers of a Dask cluster, with the sites' directory under the same path, and all credentials.

Tasks have none.
"""

from __future__ import annotations

import ipaddress
import logging
import queue
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct, field

from nexusform.diagnostics.missing_packages import describe_missing_package
from nexusform.domains.sites.engines.local_worker import receive_message, send_message
from nexusform.domains.sites.engines.local_workers import WorkerProcess, start_process
from nexusform.domains.sites.types.site_tasks import (
    OnResult,
    SiteTaskKind,
    Task,
    TaskEngineError,
    build_lost_result,
    decode_task,
    decode_task_result,
    encode_task_message,
)
from nexusform.files.sandbox import declare_server

# Options of Dask by their environment variables.
CERTIFICATES: Final = {
    "NF_CLUSTER_CA": "tls_ca_file",
    "NF_CLUSTER_CERT": "tls_client_cert",
    "NF_CLUSTER_KEY": "tls_client_key",
}
# Seconds between heartbeats.
_HEARTBEAT_SECONDS: Final = 20.0
_THREADS_CACHE_SECONDS: Final = 2.0  # seconds
# Maximum seconds without a worker.
_NO_WORKERS_TIMEOUT: Final = 120.0
# Seconds that locks are kept without a heartbeat of their command.
_LOCK_TIMEOUT: Final = 120.0
# In a Dask worker: its processes by the session of their command.
_PROCESSES: Final[dict[str, _SessionProcess]] = {}
_STARTING: Final = Lock()


def _parse_address(engine_name: str) -> tuple[str, bool]:
    """Parse the scheduler's address (dask://HOST[:PORT]).

    Return the one for Dask, and True if it needs TLS. Only loopback addresses may do without TLS:
    dask://host gives ("tls://host:8786", True), and dask://localhost gives ("tcp://localhost:8786",
    False). Raises TaskEngineError.
    """
    parts = urlsplit(engine_name)
    host = parts.hostname or ""
    try:
        port = parts.port or 8786
    except ValueError:
        # No number, or too large.
        host = ""
    if not host or parts.username or parts.path not in ("", "/"):
        raise TaskEngineError(
            f'"{engine_name}" is not a scheduler. Write -engine=dask://HOST:8786.'
        )
    host_text = f"[{host}]" if ":" in host else host  # IPv6
    is_secure = parts.scheme == "tls" or not _is_loopback(host)
    if parts.scheme == "tcp" and is_secure:
        raise TaskEngineError(
            f'Plain tcp to "{host}" would let anyone on the network run code here and on the '
            f"workers. Use tls://{host_text}:{port} with certificates ({', '.join(CERTIFICATES)})."
        )
    scheme = "tls" if is_secure else "tcp"
    return f"{scheme}://{host_text}:{port}", is_secure


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_cluster_library(engine_name: str) -> Any:
    """Check the address of a cluster and return the library.

    Raises TaskEngineError.
    """
    address, _ = _parse_address(engine_name)
    declare_server(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import distributed

        for name in ["asyncio", *logging.Logger.manager.loggerDict]:
            if name.partition(".")[0] in ("asyncio", "distributed", "tornado"):
                # The engine reports their errors.
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    except ImportError as problem:
        package = describe_missing_package(problem)
        raise TaskEngineError(f"The engine dask needs {package}.") from None
    return distributed


class _SubmittedTask(Struct, frozen=True):
    """Submitted task; `home` is its required worker, "" for any."""

    task: Task
    future: Any
    home: str


class DaskTaskEngine:
    """Engine on the workers of a scheduler; workers may join and leave."""

    def __init__(self, engine_name: str, environment: Mapping[str, str]) -> None:
        """Connect to the scheduler `dask://HOST[:PORT]`; TLS files are in `environment`.

        Raises TaskEngineError.
        """
        library = load_cluster_library(engine_name)
        address, is_secure = _parse_address(engine_name)
        security = (
            library.Security(**_read_certificates(environment, address)) if is_secure else None
        )
        try:
            self._client: Any = library.Client(
                address, timeout=15.0, security=security, set_as_default=False, name="nexusform"
            )
        except (OSError, ValueError) as problem:
            raise TaskEngineError(
                f"The scheduler at {address} does not answer: {problem}."
            ) from None
        self._address = address
        # By site: the worker with its lock.
        self._homes: dict[str, str] = {}
        self._last_heartbeat = monotonic()
        self._task_counter = 0
        # Keys of tasks with a result.
        self._finished: queue.SimpleQueue[str] = queue.SimpleQueue()
        # Threads of all workers, and the time of the count.
        self._thread_count = 1
        self._counted_at = 0.0

    @property
    def parallelism(self) -> int:
        """Number of tasks on the cluster: one per thread, and one waiting for each."""
        return 2 * self._count_threads()

    def _count_threads(self) -> int:
        """Return the number of threads, cached for a moment."""
        if monotonic() - self._counted_at > _THREADS_CACHE_SECONDS:
            threads: dict[str, int] = self._client.nthreads()
            self._thread_count = max(sum(threads.values()), 1)
            self._counted_at = monotonic()
        return self._thread_count

    def run_tasks_until_stopped(
        self,
        tasks: Sequence[Task],
        on_result: OnResult,
        *,
        max_running: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> list[Task]:
        """Run up to `max_running()` tasks at once until `is_stopping()`.

        Return the tasks not started.
        """
        pending = list(reversed(tasks))
        running: dict[str, _SubmittedTask] = {}
        last_progress = monotonic()
        while pending or running:
            try:
                while pending and not is_stopping():
                    # An apply is sent only to a free thread: a queued one could start after the
                    # stop of its wave.
                    is_apply = pending[-1].kind is SiteTaskKind.APPLY
                    limit = self._count_threads() if is_apply else self.parallelism
                    if len(running) >= min(max_running(), limit):
                        break
                    self._submit(pending.pop(), running)
                if not running and (is_stopping() or not max_running()):
                    # Nothing may start any more.
                    break
                try:
                    key = self._finished.get(timeout=0.2)
                except queue.Empty:
                    last_progress = self._watch_cluster(last_progress, running)
                    continue
            except (OSError, RuntimeError) as problem:
                # The connection closed in the middle of a call.
                reason = f"The cluster at {self._address} failed: {type(problem).__name__}."
                raise TaskEngineError(reason, _list_sites(running)) from None
            submitted = running.pop(key, None)
            # None for a task cancelled by _watch_cluster.
            if submitted is not None:
                last_progress = monotonic()
                self._receive_result(submitted.task, submitted.future, on_result)
                self._send_heartbeat(submitted.task)
        return list(reversed(pending))

    def close(self) -> None:
        """Close the connection; the cluster keeps running."""
        self._client.close()

    def _submit(self, task: Task, running: dict[str, _SubmittedTask]) -> None:
        """Submit a task, only to the worker with the site's lock if any.

        Another worker would find it locked.
        """
        self._task_counter += 1
        home = (
            self._homes.get(task.site, "")
            if task.kind in (SiteTaskKind.APPLY, SiteTaskKind.RELEASE)
            else ""
        )
        # On the dashboard.
        label = task.question.kind.value if task.question is not None else task.kind.value
        future = self._client.submit(
            run_task,
            encode_task_message(task),
            key=f"{label} {task.site}-{task.fleet.session}{self._task_counter:08x}",
            workers=[home] if home else None,
            retries=2,
            pure=False,
        )
        running[future.key] = _SubmittedTask(task, future, home)
        future.add_done_callback(lambda finished_future: self._finished.put(finished_future.key))

    def _receive_result(self, task: Task, future: Any, on_result: OnResult) -> None:
        """Receive the result of a task."""
        try:
            # A result lost with its worker is computed again; the state shows an applied change.
            address, message = future.result(timeout=600.0)
            result = decode_task_result(message)
        except Exception as problem:  # noqa: BLE001 - whatever the cluster says of it
            self._homes.pop(task.site, None)
            on_result(
                task,
                build_lost_result(task, f"The cluster failed: {type(problem).__name__}: {problem}"),
            )
            return
        finally:
            future.release()
        if result.is_locked and task.kind is SiteTaskKind.PREPARE:
            # The worker with the lock.
            self._homes[task.site] = address
        else:
            # No worker has its lock.
            self._homes.pop(task.site, None)
        on_result(task, result)

    def _watch_cluster(self, last_progress: float, running: dict[str, _SubmittedTask]) -> float:
        """Check the cluster; resubmit tasks of lost workers.

        Return the last progress time. Raises TaskEngineError.
        """
        if running:
            # All tasks have the same session.
            self._send_heartbeat(next(iter(running.values())).task)
        if self._client.status != "running":
            raise TaskEngineError(
                f"The scheduler at {self._address} is gone.", _list_sites(running)
            )
        workers = self._client.nthreads()
        for key, submitted in list(running.items()):
            # The lock ended with its worker.
            if submitted.home and submitted.home not in workers:
                del running[key]
                submitted.future.cancel()
                self._homes.pop(submitted.task.site, None)
                self._submit(submitted.task, running)
        # Workers exist; as long as they process tasks, there is progress.
        if self._client.nthreads():
            return monotonic() if self._client.processing() else last_progress
        if monotonic() - last_progress > _NO_WORKERS_TIMEOUT:
            raise TaskEngineError(
                f"The cluster at {self._address} has had no worker for two minutes.",
                _list_sites(running),
            )
        return last_progress

    def _send_heartbeat(self, task: Task) -> None:
        """Send a heartbeat to all workers, so that they keep the locks.

        Skip it if the last one is recent.
        """
        if monotonic() - self._last_heartbeat < _HEARTBEAT_SECONDS:
            return
        self._last_heartbeat = monotonic()
        self._client.run(record_heartbeat, task.fleet.session, on_error="ignore")


def _list_sites(running: Mapping[str, _SubmittedTask]) -> list[str]:
    return [submitted.task.site for submitted in running.values()]


def _read_certificates(environment: Mapping[str, str], address: str) -> dict[str, Any]:
    """Read the TLS options of Dask from the environment.

    Raises TaskEngineError.
    """
    missing = [name for name in CERTIFICATES if not environment.get(name)]
    if missing:
        raise TaskEngineError(
            f"{address} is on another machine. It needs TLS and certificates on both sides: "
            f"set {', '.join(missing)}."
        )
    options: dict[str, Any] = {"require_encryption": True}
    for name, option in CERTIFICATES.items():
        options[option] = environment[name]
        if not Path(environment[name]).is_file():
            raise TaskEngineError(f'{name}: there is no file "{environment[name]}".')
    return options


class _SessionProcess(Struct):
    """Process with the tasks of one command, one at a time; it keeps their locks.

    `heartbeat` is the monotonic time of the last sign of life of the command.
    """

    worker: WorkerProcess
    heartbeat: float
    lock: Lock = field(default_factory=Lock)


def _end_abandoned_processes() -> None:
    """End the processes of commands without a recent heartbeat: they release their locks."""
    for session, process in list(_PROCESSES.items()):
        is_abandoned = monotonic() - process.heartbeat > _LOCK_TIMEOUT
        # A process with a task is not idle.
        if is_abandoned and process.lock.acquire(blocking=False):
            _PROCESSES.pop(session, None)
            process.worker.close()


def _watch_processes() -> None:
    """End abandoned processes every ten seconds, without end (daemon thread)."""
    while True:
        sleep(10.0)
        _end_abandoned_processes()


@cache
def _start_watch() -> None:
    Thread(target=_watch_processes, daemon=True, name="nexusform-locks").start()


def _find_process(session: str) -> _SessionProcess:
    """Return the process of a command, started for its first task.

    Raises TaskEngineError.
    """
    with _STARTING:
        _start_watch()
        if session not in _PROCESSES:
            worker = start_process(ends_with_parent=True)
            _PROCESSES[session] = _SessionProcess(worker, monotonic())
        return _PROCESSES[session]


def run_task(message: bytes) -> tuple[str, bytes]:
    """Run an encoded task for this Dask worker, in the process of its command.

    The process has the wall of the command's sandbox, and serves no other command. Return the
    worker's address and the encoded result. Raises RuntimeError if the process ended.
    """
    from distributed import get_worker

    session = decode_task(message).fleet.session
    process = _find_process(session)
    with process.lock:
        process.heartbeat = monotonic()
        try:
            send_message(process.worker.tasks, message)
            result = receive_message(process.worker.results)
        except (OSError, ValueError):
            # The process ended, or its pipes are closed.
            result = None
        if result is None:
            _PROCESSES.pop(session, None)
            process.worker.close()
            raise RuntimeError(f"its process ended with {process.worker.process.returncode}")
    return str(get_worker().address), result


def record_heartbeat(session: str) -> None:
    """Record a heartbeat of the command with this session id.

    This worker then keeps its locks.
    """
    process = _PROCESSES.get(session)
    if process is not None:
        process.heartbeat = monotonic()
