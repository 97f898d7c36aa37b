"""The flags that the commands about sites share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click
from msgspec import Struct

from nexusform.cli.arguments import number, text, texts
from nexusform.cli.commands import trust_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import error
from nexusform.domains.sites.engines.choice import PROCESSES, check_engine, engine_of
from nexusform.domains.sites.ports import Engine, EngineProblem


class EngineFlags(Struct, frozen=True, kw_only=True):
    """Who does the work."""

    engine: str = text(
        "Use local processes or dask://HOST:PORT",
        metavar="ENGINE",
        default=PROCESSES,
    )
    workers: int = number("Set the number of worker processes (0: one per core)", default=0, at_least=0)

    def usable(self, screen: Screen) -> bool:
        """Whether there is such an engine; told on the screen where there is none. Raises a usage error for
        flags that all commands take and that mean nothing for many sites.
        """
        if trust_flags().backend_config:
            raise click.UsageError("-backend-config: nexusform.sites.hcl says where the states of sites are.")
        try:
            check_engine(self.engine)
        except EngineProblem as problem:
            screen.diagnostics([error("engine-cannot-be-used", str(problem))], {})
            return False
        return True

    @contextmanager
    def opened(self, screen: Screen) -> Iterator[Engine | None]:
        """The engine, closed at the end; None, told on the screen, where it cannot be used."""
        engine: Engine | None = None
        try:
            engine = engine_of(self.engine, os.environ, self.workers)
            yield engine
        except EngineProblem as problem:
            screen.diagnostics([error("engine-cannot-be-used", str(problem))], {})
            if engine is None:
                yield None
        finally:
            if engine is not None:
                engine.close()


class SelectionFlags(Struct, frozen=True, kw_only=True):
    """Which sites."""

    site: tuple[str, ...] = texts("Use only sites with matching names (* and ?)", metavar="GLOB")
    wave: str = text("Use only the sites of this wave", metavar="WAVE")


class SourceFlags(Struct, frozen=True, kw_only=True):
    """Where root modules may be."""

    allow_source: tuple[str, ...] = texts("Allow module sources below DIR", metavar="DIR")
