"""`nexusform refresh`: `apply -refresh-only -auto-approve`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.apply import apply_flags, apply_fresh
from nexusform.cli.commands import command


@command("refresh", summary="Bring the state up to what the providers see")
@flags.planning_flags
@apply_flags
def refresh(**given: Any) -> int:
    """Bring the state up to what the providers see. The same as `apply -refresh-only -auto-approve`."""
    if given["destroy"]:
        raise click.UsageError("-destroy does not go with refresh.")
    given |= {"refresh_only": True, "auto_approve": True}
    return apply_fresh(given, flags.plan_options_of(given))
