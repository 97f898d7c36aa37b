"""`nexusform destroy`, which is `apply` with a flag."""

from __future__ import annotations

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.apply import ApplyFlags, apply_fresh
from nexusform.cli.arguments import group
from nexusform.cli.commands import command
from nexusform.cli.planning_flags import PlanningFlags


class DestroyArguments(Struct, frozen=True, kw_only=True):
    """What `destroy` takes."""

    planning: PlanningFlags = group(PlanningFlags)
    flags: ApplyFlags = group(ApplyFlags)


@command("destroy", DestroyArguments)
def destroy(arguments: DestroyArguments) -> int:
    """Destroy all resources in the state. The same as `apply -destroy`."""
    if arguments.planning.refresh_only:
        raise click.UsageError("-refresh-only does not go with destroy.")
    planning = replace(arguments.planning, destroy=True)
    return apply_fresh(arguments.flags, planning.options())
