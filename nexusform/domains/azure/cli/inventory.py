"""`nexusform inventory`: how to capture a site, and what a capture holds."""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFormFlags, tell
from nexusform.cli.arguments import group, positional, text
from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.diagnostics import diagnostic_of, has_errors


class ScriptArguments(Struct, frozen=True, kw_only=True):
    """What `inventory script` takes."""

    directory: str = text("Write the files to DIR", metavar="DIR", default="export")
    location: str = text("Use only this extended location (custom location)")
    view: ViewFlags = group(ViewFlags)


@command("script", ScriptArguments)
def script(arguments: ScriptArguments) -> int:
    """Print the commands that export a site with `az` and `kubectl`. Runs nothing.

    Read the script, then run it after signing in: `nexusform inventory script | bash`. It needs the
    az extension networkcloud, and kubectl for the creation times of nodes.
    """
    from nexusform.domains.azure.importers.az_capture import capture_script

    arguments.view.screen().out(capture_script(arguments.directory, arguments.location), end="")
    return 0


class CheckArguments(Struct, frozen=True, kw_only=True):
    """What `inventory check` takes."""

    directory: str = positional(metavar="DIR")
    answer: AnswerFormFlags = group(AnswerFormFlags)
    view: ViewFlags = group(ViewFlags)


@command("check", CheckArguments)
def check(arguments: CheckArguments) -> int:
    """Check an exported directory.

    Reports racks, machines, clusters and VMs of each site, and the age of the export. Lists
    cordoned or unready machines, unknown machine SKUs and VMs without a machine. Exit code 0
    without findings, 2 with findings, 1 if the export cannot be read.
    """
    from nexusform.domains.azure.providers.azure_export import read_export
    from nexusform.domains.azure.questions.reconciliation import capture
    from nexusform.domains.azure.rendering.inventory_outline import inventory_document, inventory_outline

    screen = arguments.view.screen()
    directory = os.path.normpath(arguments.directory)
    sites, findings = read_export(directory, {}, place_of().confinement.of_operator(directory))
    captures = tuple(map(capture, sites))
    diagnostics = tuple(map(diagnostic_of, findings))
    if has_errors(diagnostics):
        screen.diagnostics(diagnostics, {})
        return 1
    outline = inventory_outline(arguments.directory, captures, diagnostics)
    document = inventory_document(captures, diagnostics)
    return tell(Answer("inventory", arguments.directory, outline, document), arguments.answer, screen)


_TABLE: Final = {
    "script": Entry("nexusform.domains.azure.cli.inventory:script", "Print the commands that export a site"),
    "check": Entry("nexusform.domains.azure.cli.inventory:check", "Check an exported directory"),
}
inventory = LazyGroup("inventory", _TABLE, summary="Export a site, check the export.")
