"""Flags shared by the sites commands, and the engine of -engine."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_repeatable_text,
    declare_text_flag,
)
from nexusform.cli.shared_flags import create_context
from nexusform.cli.terminal_screen import Screen
from nexusform.cli.trust_flags import get_trust_flags
from nexusform.diagnostics.diagnostic import build_error
from nexusform.domains.sites.types.fleet_plan import UndeclaredSite
from nexusform.domains.sites.types.site_tasks import TaskEngine, TaskEngineError
from nexusform.domains.sites.workflow.fleet_tasks import Fleet, open_fleet, select_sites
from nexusform.domains.sites.workflow.undeclared_states import find_undeclared_sites
from nexusform.files.external_files import ArgumentFile

PROCESSES: Final = "processes"


class TaskEngineFlags(Struct, frozen=True, kw_only=True):
    """Flags of the engine."""

    engine: str = declare_text_flag(
        "Use local processes or dask://HOST:PORT", metavar="ENGINE", default=PROCESSES
    )
    workers: int = declare_number(
        "Set the number of worker processes (0: one per core)", default=0, minimum=0
    )

    def check_usable(self, screen: Screen) -> None:
        """Check the engine; end the command with diagnostics if it is unusable.

        Raise a usage error for wrong flags.
        """
        if get_trust_flags().backend_config:
            raise click.UsageError(
                "-backend-config cannot be used here: nexusform.sites.hcl sets the states of sites."
            )
        with _exit_on_engine_error(screen):
            check_engine_name(self.engine)

    @contextmanager
    def open_engine(self, screen: Screen) -> Iterator[TaskEngine]:
        """Open the engine and close it at the end.

        End the command with diagnostics if it is unusable or lost.
        """
        with (
            _exit_on_engine_error(screen),
            closing(make_engine(self.engine, self.workers)) as engine,
        ):
            yield engine


@contextmanager
def _exit_on_engine_error(screen: Screen) -> Iterator[None]:
    """Print the error of an engine, and end the command with code 1."""
    try:
        yield
    except TaskEngineError as problem:
        screen.print_diagnostics([build_error("unusable-engine", str(problem))], sources={})
        raise click.exceptions.Exit(1) from None


class SiteSelectionFlags(Struct, frozen=True, kw_only=True):
    """Flags that select sites."""

    site: tuple[str, ...] = declare_repeatable_text(
        "Use only sites with matching names (* and ?)", metavar="GLOB"
    )
    wave: str = declare_text_flag("Use only the sites of this wave", metavar="WAVE")


class ModuleSourceFlags(Struct, frozen=True, kw_only=True):
    """Flags for locations of root modules."""

    allow_source: tuple[str, ...] = declare_repeatable_text(
        "Allow module sources below DIR", metavar="DIR", file=ArgumentFile("modules")
    )


class SelectedSites(Struct, frozen=True):
    """Opened fleet with the names of its selected sites, and the undeclared ones if requested."""

    fleet: Fleet
    names: list[str]
    undeclared: tuple[UndeclaredSite, ...]


class SiteTargetFlags(Struct, frozen=True, kw_only=True):
    """Flags for sites, sources and engine."""

    selection: SiteSelectionFlags = declare_flag_group(SiteSelectionFlags)
    sources: ModuleSourceFlags = declare_flag_group(ModuleSourceFlags)
    engine: TaskEngineFlags = declare_flag_group(TaskEngineFlags)

    def select(
        self, screen: Screen, *, with_undeclared: bool = False, is_aside: bool = False
    ) -> SelectedSites:
        """Open the fleet and select its sites.

        An invalid flag or definition ends the command with diagnostics. With
        `with_undeclared`, also find sites no longer declared. With `is_aside`, print
        diagnostics to stderr, not to stdout.
        """
        self.engine.check_usable(screen)
        opened = open_fleet(create_context(), allowed_sources=self.sources.allow_source)
        screen.print_diagnostics(opened.diagnostics, opened.sources, is_aside=is_aside)
        if opened.fleet is None:
            raise click.exceptions.Exit(1)
        patterns = self.selection.site
        undeclared = (
            find_undeclared_sites(opened.fleet, create_context(), patterns)
            if with_undeclared
            else ()
        )
        names, problems = select_sites(
            opened.fleet.definition, patterns, self.selection.wave, undeclared
        )
        screen.print_diagnostics(problems, sources={}, is_aside=is_aside)
        if problems:
            raise click.exceptions.Exit(1)
        return SelectedSites(opened.fleet, names, undeclared)


def check_engine_name(name: str) -> None:
    """Check the engine name before anything is read.

    Raises TaskEngineError.
    """
    scheme = name.partition("://")[0]
    # Local processes need no library.
    if name == PROCESSES:
        return
    if scheme not in ("dask", "tcp", "tls"):
        raise TaskEngineError(
            f'There is no engine "{name}". Known engines: {PROCESSES} (worker processes of this '
            "machine, the default) and dask://HOST:PORT (the scheduler of a Dask cluster)."
        )
    from nexusform.domains.sites.engines.dask_cluster import load_cluster_library

    # This checks the address and the installation.
    load_cluster_library(name)


def make_engine(name: str, workers: int = 0) -> TaskEngine:
    """Create the engine of a checked name.

    Raises TaskEngineError.
    """
    if name == PROCESSES:
        from nexusform.domains.sites.engines.local_workers import LocalTaskEngine

        return LocalTaskEngine(workers)
    from nexusform.domains.sites.engines.dask_cluster import DaskTaskEngine

    return DaskTaskEngine(name, os.environ)
