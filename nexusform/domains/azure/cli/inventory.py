"""`nexusform inventory`: capture a site, and check a capture."""

import os
from collections.abc import Callable
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_choice,
    declare_flag_group,
    declare_positional,
    declare_text_flag,
)
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, AnswerFormatFlags, write_answer
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.command_entry import CommandEntry
from nexusform.diagnostics.diagnostic import convert_problem, has_errors
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.files.external_files import AllowedWriter, ArgumentFile

_AZURE: Final = "azure"
# Functions that build the script of another target from the name of a directory.
_SCRIPTS: Final = LazyTable[Callable[[str], str]](collect_loaders("export_scripts"))
_TARGETS: Final = (_AZURE, *_SCRIPTS)


class ScriptArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `inventory script`."""

    directory: str = declare_text_flag(
        "Write the files to DIR",
        metavar="DIR",
        default="export",
        file=ArgumentFile("named in the printed script", AllowedWriter.COMMAND),
    )
    target: str = declare_choice(
        "What to export: a site in Azure, or another system", _TARGETS, flag="for"
    )
    location: str = declare_text_flag("Use only this extended location (custom location)")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("script", ScriptArguments)
def script(arguments: ScriptArguments) -> int:
    """Print the commands that export a site with `az` and `kubectl`.

    Runs nothing.

    Read the script, then run it after signing in: `nexusform inventory script | bash`. It needs the
    az extension networkcloud, and kubectl for the creation times of nodes. With another -for it
    lists the objects of that system with its own command line, into one file per kind.
    """
    if arguments.target == _AZURE:
        from nexusform.domains.azure.importers.az_capture_commands import build_capture_script

        text = build_capture_script(arguments.directory, arguments.location)
    else:
        if arguments.location:
            raise click.UsageError(
                f"-location selects a site in Azure. Omit it with -for={arguments.target}."
            )
        text = _SCRIPTS[arguments.target](arguments.directory)
    arguments.view.create_screen().print_text(text, end="")
    return 0


class CheckArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `inventory check`."""

    directory: str = declare_positional(metavar="DIR", file=ArgumentFile("inventory"))
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("check", CheckArguments)
def check(arguments: CheckArguments) -> int:
    """Check an exported directory.

    Reports racks, machines, clusters and VMs of each site, and the age of the export. Lists
    cordoned or unready machines, unknown machine SKUs and VMs without a machine. Exit code 0
    without findings, 2 with findings, 1 if the export cannot be read.
    """
    from nexusform.domains.azure.providers.azure_export import read_export
    from nexusform.domains.azure.questions.reconciliation import summarize_site
    from nexusform.domains.azure.rendering.reconciliation_report import (
        build_inventory_document,
        build_inventory_report,
    )

    screen = arguments.view.create_screen()
    directory = os.path.normpath(arguments.directory)
    sites, findings = read_export(
        directory, {}, create_context().confinement.get_operator_confinement(directory)
    )
    captures = tuple(map(summarize_site, sites))
    diagnostics = tuple(map(convert_problem, findings))
    if has_errors(diagnostics):
        screen.print_diagnostics(diagnostics, sources={})
        return 1
    report = build_inventory_report(arguments.directory, captures, diagnostics)
    document = build_inventory_document(captures, diagnostics)
    return write_answer(
        Answer("inventory", arguments.directory, report, document), arguments.answer, screen
    )


_TABLE: Final = {
    "script": CommandEntry("Print the commands that export a site", load=lambda: script),
    "check": CommandEntry("Check an exported directory", load=lambda: check),
}
inventory = LazyGroup("inventory", _TABLE, summary="Export a site, check the export.")
