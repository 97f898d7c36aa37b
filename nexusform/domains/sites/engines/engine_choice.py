"""Task engine of the flag -engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.domains.sites.task_engine import TaskEngine, TaskEngineError

PROCESSES: Final = "processes"


def check_engine_name(name: str) -> None:
    """Check the engine name before anything is read. Raises EngineError."""
    scheme = name.partition("://")[0]
    if name == PROCESSES:
        return
    if scheme not in ("dask", "tcp", "tls"):
        raise TaskEngineError(
            f'There is no engine "{name}". Known engines: {PROCESSES} (worker processes of this '
            "machine, the default) and dask://HOST:PORT (the scheduler of a Dask cluster)."
        )
    from nexusform.domains.sites.engines.dask_cluster import load_cluster_library

    load_cluster_library(name)


def make_engine(name: str, environment: Mapping[str, str], workers: int = 0) -> TaskEngine:
    """Create the engine of a checked name. Raises EngineError."""
    if name == PROCESSES:
        from nexusform.domains.sites.engines.local_workers import LocalTaskEngine

        return LocalTaskEngine(workers)
    from nexusform.domains.sites.engines.dask_cluster import DaskTaskEngine

    return DaskTaskEngine(name, environment)
