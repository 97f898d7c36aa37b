"""Commands equal to `apply` with a flag: `destroy` and `refresh`."""

from __future__ import annotations

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.apply import ApplyFlags, apply_new_plan
from nexusform.cli.arguments import declare_flag_group
from nexusform.cli.commands import define_command
from nexusform.cli.planning_flags import PlanningFlags


class DestroyArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `destroy`."""

    planning: PlanningFlags = declare_flag_group(PlanningFlags)
    flags: ApplyFlags = declare_flag_group(ApplyFlags)


@define_command("destroy", DestroyArguments)
def destroy(arguments: DestroyArguments) -> int:
    """Destroy all resources in the state. The same as `apply -destroy`."""
    if arguments.planning.refresh_only:
        raise click.UsageError("destroy does not support -refresh-only.")
    planning = replace(arguments.planning, destroy=True)
    return apply_new_plan(arguments.flags, planning.build_options())
