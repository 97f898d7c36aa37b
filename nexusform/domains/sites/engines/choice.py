"""Which engine -engine=... asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.domains.sites.ports import Engine, EngineProblem

PROCESSES: Final = "processes"


def check_engine(word: str) -> None:
    """Look whether there is such an engine, before anything is read. Raises EngineProblem."""
    scheme = word.partition("://")[0]
    if word == PROCESSES:
        return
    if scheme not in ("dask", "tcp", "tls"):
        raise EngineProblem(
            f'There is no engine "{word}". Known are: {PROCESSES} (worker processes of this machine, the '
            "default) and dask://HOST:PORT (the scheduler of a Dask cluster)."
        )
    from nexusform.domains.sites.engines.dask_cluster import check_cluster

    check_cluster(word)


def engine_of(word: str, environment: Mapping[str, str], workers: int = 0) -> Engine:
    """The engine of a word that was checked. Raises EngineProblem."""
    if word == PROCESSES:
        from nexusform.domains.sites.engines.warm import WarmWorkers

        return WarmWorkers(workers)
    from nexusform.domains.sites.engines.dask_cluster import DaskCluster

    return DaskCluster(word, environment)
