"""The workers of a Dask cluster. They see the directory of the sites under the same path, and have the
credentials that states and providers ask for: a task names a site and holds neither.
"""

from __future__ import annotations

import ipaddress
import queue
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from nexusform.domains.sites.engines.dask_task import hear, work
from nexusform.domains.sites.ports import Done, EngineProblem, lost
from nexusform.domains.sites.types.work import Kind, Task, answer_of, encode

CERTIFICATES: Final = ("NF_CLUSTER_CA", "NF_CLUSTER_CERT", "NF_CLUSTER_KEY")
_CONNECTING: Final = 15.0  # seconds
_ANSWERING: Final = 600.0
_HEARING: Final = 20.0  # seconds between signs of life
_IDLE: Final = 0.2
_COUNTED_FOR: Final = 2.0  # seconds
_WITHOUT_WORKERS: Final = 120.0  # seconds that a cluster may have none
_RETRIES: Final = 2


def _address(word: str) -> tuple[str, bool]:
    """The scheduler's address and whether it is spoken to under TLS. Raises EngineProblem."""
    parts = urlsplit(word)
    try:
        host, port = parts.hostname or "", parts.port or 8786
    except ValueError:
        host, port = "", 0
    if not host or parts.username or parts.path not in ("", "/"):
        raise EngineProblem(f'"{word}" names no scheduler. Write -engine=dask://HOST:8786.')
    shown = f"[{host}]" if ":" in host else host
    secure = parts.scheme == "tls" or not _is_loopback(host)
    if parts.scheme == "tcp" and secure:
        raise EngineProblem(
            f'Plain tcp to "{host}" would let anybody on the way run what they like on the workers and here. '
            f"Use tls://{shown}:{port} with certificates ({', '.join(CERTIFICATES)})."
        )
    return f"{'tls' if secure else 'tcp'}://{shown}:{port}", secure


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_cluster(word: str) -> Any:
    """Look whether a cluster is named as one may be; the library. Raises EngineProblem."""
    _address(word)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import distributed
    except ImportError:
        raise EngineProblem(
            "The engine dask needs the package distributed: pip install 'nexusform[cluster]'."
        ) from None
    return distributed


class _Handed(Struct, frozen=True):
    """A task that was handed to the scheduler; `home`: for that worker alone."""

    task: Task
    future: Any
    home: str


class DaskCluster:
    """An engine of whatever workers a scheduler has; they may come and go."""

    def __init__(self, word: str, environment: Mapping[str, str]) -> None:
        library = check_cluster(word)
        address, secure = _address(word)
        security = library.Security(**_certificates(environment, address)) if secure else None
        try:
            self._client: Any = library.Client(
                address, timeout=_CONNECTING, security=security, set_as_default=False, name="nexusform"
            )
        except (OSError, ValueError) as problem:
            raise EngineProblem(f"The scheduler at {address} does not answer: {problem}.") from None
        self._address = address
        self._homes: dict[str, str] = {}
        self._heard = monotonic()
        self._numbered = 0
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._known_threads, self._counted = 1, 0.0

    @property
    def workers(self) -> int:
        """How many tasks the workers have at a time: one for each of their threads and one that waits."""
        return 2 * self._threads()

    def _threads(self) -> int:
        """How many threads there are, as of a moment ago."""
        if monotonic() - self._counted > _COUNTED_FOR:
            threads: dict[str, int] = self._client.nthreads()
            self._known_threads, self._counted = max(sum(threads.values()), 1), monotonic()
        return self._known_threads

    def _most(self, task: Task, at_once: int) -> int:
        """How many tasks may be handed out: of those that write none waits on the cluster, where a failure
        elsewhere could not stop it any more.
        """
        return min(at_once, self._threads() if task.kind is Kind.APPLY else self.workers)

    def run(
        self, tasks: Sequence[Task], done: Done, *, at_once: Callable[[], int], stopping: Callable[[], bool]
    ) -> list[Task]:
        """See Engine."""
        waiting = list(reversed(tasks))
        under_way: dict[str, _Handed] = {}
        seen = monotonic()
        while waiting or under_way:
            while waiting and not stopping() and len(under_way) < self._most(waiting[-1], at_once()):
                self._hand(waiting.pop(), under_way)
            if not under_way and (stopping() or not at_once()):
                break
            try:
                key = self._ended.get(timeout=_IDLE)
            except queue.Empty:
                seen = self._look(seen, under_way)
                continue
            handed = under_way.pop(key, None)
            if handed is not None:  # what was taken back ends, too
                seen = monotonic()
                self._take(handed.task, handed.future, done)
                self._sign_of_life(handed.task)
        return list(reversed(waiting))

    def close(self) -> None:
        """Leave the cluster; it goes on without us."""
        self._client.close()

    # --- how -----------------------------------------------------------------------------------

    def _hand(self, task: Task, under_way: dict[str, _Handed]) -> None:
        """Hand a task to the scheduler, for the worker that holds the site's lock if there is one.

        For that one alone: another that takes it over would find the lock held.
        """
        self._numbered += 1
        home = self._homes.get(task.site, "") if task.kind in (Kind.APPLY, Kind.RELEASE) else ""
        future = self._client.submit(
            work,
            encode(task),
            key=f"{_label(task)} {task.site}-{task.fleet.session}{self._numbered:08x}",
            workers=[home] if home else None,
            retries=_RETRIES,
            pure=False,
        )
        under_way[future.key] = _Handed(task, future, home)
        future.add_done_callback(lambda each: self._ended.put(each.key))

    def _without_gone(self, under_way: dict[str, _Handed]) -> None:
        """Hand anew what waits for a worker that is gone, and its lock with it."""
        there = self._client.nthreads()
        for key, handed in list(under_way.items()):
            if handed.home and handed.home not in there:
                del under_way[key]
                handed.future.cancel()
                self._homes.pop(handed.task.site, None)
                self._hand(handed.task, under_way)

    def _take(self, task: Task, future: Any, done: Done) -> None:
        """Take the answer of a task."""
        try:
            # An answer that was lost with its worker is made again: what was applied is known by its state.
            address, message = future.result(timeout=_ANSWERING)
            answer = answer_of(message)
        except Exception as problem:  # noqa: BLE001 - whatever the cluster says of it
            self._homes.pop(task.site, None)
            done(task, lost(task, f"The cluster could not do it: {type(problem).__name__}: {problem}"))
            return
        finally:
            future.release()
        if answer.held and task.kind is Kind.PREPARE:
            self._homes[task.site] = address
        else:
            self._homes.pop(task.site, None)
        done(task, answer)

    def _look(self, seen: float, under_way: dict[str, _Handed]) -> float:
        """While nothing comes: whether there is still anybody. Raises EngineProblem."""
        for handed in under_way.values():
            self._sign_of_life(handed.task)
            break
        if self._client.status != "running":
            raise EngineProblem(f"{self._address} is gone; -resume goes on.")
        self._without_gone(under_way)
        if self._client.nthreads():
            return monotonic() if self._client.processing() else seen
        if monotonic() - seen > _WITHOUT_WORKERS:
            raise EngineProblem(
                f"The cluster at {self._address} has had no worker for two minutes. Start workers; "
                "`sites apply -resume` goes on."
            )
        return seen

    def _sign_of_life(self, task: Task) -> None:
        """Tell all workers that we go on, so that they keep our locks."""
        if monotonic() - self._heard < _HEARING:
            return
        self._heard = monotonic()
        self._client.run(hear, task.fleet.session, on_error="ignore")


def _label(task: Task) -> str:
    """What the dashboard calls a task."""
    return task.question.asked.value if task.question is not None else task.kind.value


def _certificates(environment: Mapping[str, str], address: str) -> dict[str, Any]:
    """What TLS takes. Raises EngineProblem."""
    values = [environment.get(name, "") for name in CERTIFICATES]
    if not all(values):
        missing = ", ".join(name for name, value in zip(CERTIFICATES, values, strict=True) if not value)
        raise EngineProblem(
            f"{address} is on another machine, which takes TLS and certificates on both sides: set {missing}."
        )
    for name, path in zip(CERTIFICATES, values, strict=True):
        if not Path(path).is_file():
            raise EngineProblem(f'{name}: there is no file "{path}".')
    names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
    return {**dict(zip(names, values, strict=True)), "require_encryption": True}
