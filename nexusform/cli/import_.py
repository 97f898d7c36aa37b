"""`nexusform import`."""

from __future__ import annotations

import os

import click
from msgspec import Struct

from nexusform.cli.arguments import group, number, optional, text
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, ownership_flag, place_of, state_flag, variable_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.rendering.notation.colours import hang
from nexusform.words import counted
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import Project, open_project
from nexusform.workflow.runs.importing import address_to_import, import_one, take_over_from
from nexusform.workflow.runs.run import Notices, base_request, begin

DONE = """
Import successful!

The object that was imported is in the state and from now on managed by nexusform.
Run `nexusform plan` to see where the configuration says something else.
"""


class ImportArguments(Struct, frozen=True, kw_only=True):
    """What `import` takes."""

    address: str = optional("")
    object_id: str = optional("", metavar="ID")
    source: str = text(
        "Import all objects of an export, Azure or a fleet hub",
        metavar="DIR|azure|hub",
        flag="from",
    )
    generate_config_out: str = text("With -from, write the configuration to a new file", metavar="FILE")
    variables: tuple[tuple[str, str], ...] = variable_flags()
    lock: LockFlags = group(LockFlags)
    take_ownership: bool = ownership_flag()
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)
    parallelism: int | None = number("Accepted for compatibility, ignored", default=None)


@command("import", ImportArguments)
def import_(arguments: ImportArguments) -> int:
    """Import existing objects into the state, without changing them.

    `import ADDRESS ID` imports one object; its resource block must exist. Import blocks in the
    configuration do the same as part of a reviewed plan.

    `import -from=DIR -generate-config-out=F` imports whole sites and writes their configuration.
    The next plan has no changes. `nexusform inventory script` exports a site. `-from=hub` imports
    user objects of a fleet hub (docs/provider-fleet.md).
    """
    screen = arguments.view.screen()
    if arguments.source:
        return _take_over_source(screen, arguments)
    if not arguments.address or not arguments.object_id:
        raise click.UsageError("Say what to import: ADDRESS and ID, or -from=DIR and -generate-config-out=F.")
    opened = open_project(_place(arguments))
    screen.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    return _take_over(screen, opened.project, arguments)


def _place(arguments: ImportArguments) -> Place:
    return place_of(arguments.state, arguments.variables, take_ownership=arguments.take_ownership)


def _take_over(screen: Screen, project: Project, arguments: ImportArguments) -> int:
    """Import one object."""
    block, address, problems = address_to_import(project, arguments.address)
    if block is None or address is None:
        screen.diagnostics(problems, project.sources)
        return 1
    locking, notices = arguments.lock.locking(), Notices(waiting=screen.err)
    with begin(project, "OperationTypeImport", locking, notices=notices) as run:
        already_told = len(run.diagnostics)
        screen.diagnostics(run.diagnostics, project.sources)
        if not run.ready:
            return 1
        object_id = arguments.object_id
        screen.out(f'{address}: Importing from ID "{object_id}"...')
        request = base_request(project, run.stored)
        problems = import_one(
            request, project, run.providers, block, address, object_id, run.stored.kept_lines()
        )
    screen.diagnostics([*problems, *run.diagnostics[already_told:]], project.sources)
    if has_errors(problems) or has_errors(run.diagnostics):
        return 1
    screen.out(DONE, end="")
    return 0


# --- whole sites and hubs ----------------------------------------------------------------------


def _take_over_source(screen: Screen, arguments: ImportArguments) -> int:
    """Import everything of a source that a domain reads, and write its configuration."""
    if arguments.address:
        raise click.UsageError("-from takes over whole sites: leave ADDRESS and ID out.")
    if not arguments.generate_config_out:
        raise click.UsageError("-from needs -generate-config-out=F: the file that the configuration goes to.")
    take_over = take_over_from(arguments.source)
    if take_over is None:
        raise click.UsageError(f'-from: nothing that is installed takes over "{arguments.source}".')
    answer = take_over(
        _place(arguments),
        os.path.normpath(arguments.source),
        arguments.generate_config_out,
        arguments.lock.locking(),
        Notices(waiting=screen.err),
    )
    screen.diagnostics(answer.diagnostics, answer.sources)
    if has_errors(answer.diagnostics):
        return 1
    for line in answer.lines:
        screen.out(hang(line, screen.width))
    _tell_imported(screen, answer.imported, arguments.generate_config_out)
    return 0


def _tell_imported(screen: Screen, imported: int, path: str) -> None:
    if not imported:
        screen.out("\nNothing to import: the state holds everything of it already.")
        return
    screen.out(
        f"\nImport successful! {counted(imported, 'object')} in the state, nothing moved.\n"
        f"Their configuration was written to {path}. Look it through and keep it;\n"
        "`nexusform plan` has no changes now."
    )
