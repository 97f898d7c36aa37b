"""`nexusform import`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.arguments import group, number, positional
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, place_of, state_flag, variable_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.importing import address_to_import, import_one
from nexusform.workflow.project import Project, open_project
from nexusform.workflow.run import Notices, base_request, begin

DONE = """
Import successful!

The object that was imported is in the state and from now on managed by nexusform.
Run `nexusform plan` to see where the configuration says something else.
"""


class ImportArguments(Struct, frozen=True, kw_only=True):
    """What `import` takes."""

    address: str = positional()
    object_id: str = positional(metavar="ID")
    variables: tuple[tuple[str, str], ...] = variable_flags()
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)
    parallelism: int | None = number("Taken for likeness with other tools", default=None)


@command("import", ImportArguments)
def import_(arguments: ImportArguments) -> int:
    """Bring the object with ID, as its provider knows it, into the state at ADDRESS.

    The resource block must exist. Import blocks in the configuration do the same as a part of a
    plan that can be reviewed.
    """
    screen = arguments.view.screen()
    opened = open_project(place_of(arguments.state, arguments.variables))
    screen.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    return _take_over(screen, opened.project, arguments)


def _take_over(screen: Screen, project: Project, arguments: ImportArguments) -> int:
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
