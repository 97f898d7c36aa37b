"""`nexusform import`: existing objects into the state."""

import os

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_optional_positional,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    StateLockFlags,
    ViewFlags,
    create_context,
    declare_migration_flag,
    declare_ownership_flag,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.diagnostics.phrases import format_count
from nexusform.files.external_files import AllowedWriter, ArgumentFile, PathValueForm
from nexusform.rendering.notation.colours import wrap_hanging
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.object_import import (
    find_source_importer,
    import_object,
    resolve_import_address,
)
from nexusform.workflow.runs.run import RunCallbacks, begin_run, build_base_request

DONE = """
Import successful!

The imported object is in the state and is now managed by nexusform.
Run `nexusform plan` to compare it with the configuration.
"""


class ImportArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `import`."""

    address: str = declare_optional_positional("")
    object_id: str = declare_optional_positional("", metavar="ID")
    source: str = declare_text_flag(
        "Import all objects of an export, Azure or a fleet hub",
        metavar="DIR|azure|hub",
        flag="from",
        file=ArgumentFile("inventory", form=PathValueForm.SOURCE),
    )
    generate_config_out: str = declare_text_flag(
        "With -from, write the configuration to a new file",
        metavar="FILE",
        file=ArgumentFile("configuration", AllowedWriter.COMMAND),
    )
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    take_ownership: bool = declare_ownership_flag()
    allow_other_hub: str = declare_migration_flag()
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)
    parallelism: int | None = declare_number("Accepted for compatibility, ignored", default=None)


@define_command("import", ImportArguments)
def import_(arguments: ImportArguments) -> int:
    """Import existing objects into the state, without changing them.

    `import ADDRESS ID` imports one object; its resource block must exist. Import blocks in the
    configuration do the same as part of a reviewed plan.

    `import -from=DIR -generate-config-out=F` imports whole sites and writes their configuration.
    The next plan has no changes. `nexusform inventory script` exports a site. `-from=hub` imports
    user objects of a fleet hub (docs/provider-fleet.md).
    """
    screen = arguments.view.create_screen()
    if arguments.source:
        return _import_from_source(screen, arguments)
    if not arguments.address or not arguments.object_id:
        raise click.UsageError("Specify ADDRESS and ID, or -from=DIR and -generate-config-out=F.")
    opened = open_project(_create_context(arguments))
    screen.print_diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    project = opened.project
    block, address, problems = resolve_import_address(project, arguments.address)
    # An invalid address, or no block has it.
    if block is None or address is None:
        return screen.print_failure(problems, project.sources)
    locking = arguments.lock.build_options()
    notices = RunCallbacks(on_wait=screen.print_error)
    with begin_run(project, "OperationTypeImport", locking, notices=notices) as run:
        if run.is_ready:
            run.diagnostics += run.check_identities()
        # Those added later are printed at the end.
        reported_count = len(run.diagnostics)
        screen.print_diagnostics(run.diagnostics, project.sources)
        # For example, another run holds the state lock.
        if not run.is_ready:
            return 1
        object_id = arguments.object_id
        screen.print_text(f'{address}: Importing from ID "{object_id}"...')
        request = build_base_request(project, run.stored)
        preserved_lines = run.stored.list_preserved_lines()
        problems = import_object(
            request, project, run.providers, block, address, object_id, preserved_lines
        )
    screen.print_diagnostics([*problems, *run.diagnostics[reported_count:]], project.sources)
    if has_errors(problems) or has_errors(run.diagnostics):
        return 1
    screen.print_text(DONE, end="")
    return 0


def _create_context(arguments: ImportArguments) -> CommandContext:
    """Return the context of an import, with its flags for ownership and other hubs."""
    return create_context(
        arguments.state,
        arguments.variables,
        take_ownership=arguments.take_ownership,
        allow_other_hub=arguments.allow_other_hub,
    )


def _import_from_source(screen: Screen, arguments: ImportArguments) -> int:
    """Import all objects of a source (a directory or hub), and write their configuration.

    Return the exit code.
    """
    if arguments.address:
        raise click.UsageError("-from imports whole sites. Remove ADDRESS and ID.")
    if not arguments.generate_config_out:
        raise click.UsageError(
            "-from needs -generate-config-out=F, the file for the configuration."
        )
    importer = find_source_importer(arguments.source)
    if importer is None:
        raise click.UsageError(f'-from: no installed importer supports "{arguments.source}".')
    result = importer(
        _create_context(arguments),
        os.path.normpath(arguments.source),
        arguments.generate_config_out,
        arguments.lock.build_options(),
        RunCallbacks(on_wait=screen.print_error),
    )
    screen.print_diagnostics(result.diagnostics, result.sources)
    if has_errors(result.diagnostics):
        return 1
    for line in result.lines:
        screen.print_text(wrap_hanging(line, screen.width))
    if not result.imported:
        screen.print_text("\nNothing to import: the state already has all of its objects.")
    else:
        screen.print_text(
            f"\nImport successful! {format_count(result.imported, 'object')} in the state, nothing "
            "moved.\n"
            f"Wrote the configuration to {arguments.generate_config_out}. Review and keep it;\n"
            "`nexusform plan` has no changes now."
        )
    return 0
