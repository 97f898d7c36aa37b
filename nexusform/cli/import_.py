"""`nexusform import`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.commands import command, option
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.importing import import_one, wanted_address
from nexusform.workflow.project import Project, open_project
from nexusform.workflow.run import Notices, base_request, begin

DONE = """
Import successful!

The object that was imported is in the state and from now on managed by nexusform.
Run `nexusform plan` to see where the configuration says something else.
"""


@command("import", summary="Take over an object that stands already")
@click.argument("address")
@click.argument("object_id", metavar="ID")
@flags.variable_flags
@flags.lock_flags
@flags.state_flags
@flags.view_flags
@option("parallelism", "Taken for likeness with other tools", kind=int, metavar="N")
def import_(address: str, object_id: str, **given: Any) -> int:
    """Bring the object with ID, as its provider knows it, into the state at ADDRESS.

    The resource block must exist. Import blocks in the configuration do the same as a part of a
    plan that can be reviewed.
    """
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    opened = open_project(flags.place_of(given))
    screen.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    return _taken_over(screen, opened.project, address, object_id, given)


def _taken_over(screen: Screen, project: Project, text: str, object_id: str, given: dict[str, Any]) -> int:
    block, address, problems = wanted_address(project, text)
    if block is None or address is None:
        screen.diagnostics(problems, project.sources)
        return 1
    with begin(
        project, "OperationTypeImport", flags.locking_of(given), notices=Notices(waiting=screen.err)
    ) as run:
        told = list(run.diagnostics)
        screen.diagnostics(told, project.sources)
        if not run.ready:
            return 1
        screen.out(f'{address}: Importing from ID "{object_id}"...')
        request = base_request(project, run.stored)
        problems = import_one(request, project, run.providers, block, (address, object_id))
    screen.diagnostics([*problems, *run.diagnostics[len(told) :]], project.sources)
    if has_errors(problems) or has_errors(run.diagnostics):
        return 1
    screen.out(DONE, end="")
    return 0
