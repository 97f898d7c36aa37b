"""`nexusform init`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.commands import command, option, switch
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.rendering.notation.colours import Painter
from nexusform.workflow.init import InitOptions, init_directory


@command("init", summary="Check the configuration and prepare its backend")
@option("backend-config", "A setting of the backend, or a file of them", metavar="FILE|K=V", many=True)
@switch("reconfigure", "Use the backend as configured now and forget the earlier one")
@switch("migrate-state", "Take the state along from the earlier backend")
@switch("force-copy", "With -migrate-state, also over another state that stands there")
@switch("input", "Taken for likeness with other tools; init asks nothing", default=True)
@switch("upgrade", "Taken for likeness with other tools; nothing is downloaded")
@flags.lock_flags
@flags.view_flags
def init(**given: Any) -> int:
    """Check the configuration, prepare its backend and say what was found.

    Works without network. plan and apply with the local backend work without it.
    """
    if given["reconfigure"] and given["migrate_state"]:
        raise click.UsageError("-reconfigure and -migrate-state do not go together.")
    options = InitOptions(
        backend_config=given["backend_config"],
        reconfigure=given["reconfigure"],
        migrate=given["migrate_state"] or given["force_copy"],
        force_copy=given["force_copy"],
        locking=flags.locking_of(given),
    )
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    done = init_directory(flags.place_of(given), options)
    screen.diagnostics(done.diagnostics, done.sources)
    if has_errors(done.diagnostics):
        return 1
    for line in done.lines:
        screen.out(line)
    paint = Painter(screen.colour)
    screen.out(f"\n{paint('nexusform has been successfully initialized!', 'bold', 'green')}")
    if not screen.in_automation:
        screen.out("\nNow `nexusform plan` shows what would change.")
    return 0
