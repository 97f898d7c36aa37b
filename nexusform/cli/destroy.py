"""`nexusform destroy`: `apply -destroy`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.apply import apply_flags, apply_fresh
from nexusform.cli.commands import command


@command("destroy", summary="Remove everything that the state holds")
@flags.planning_flags
@apply_flags
def destroy(**given: Any) -> int:
    """Remove everything that the state holds. The same as `apply -destroy`."""
    if given["refresh_only"]:
        raise click.UsageError("-refresh-only does not go with destroy.")
    given["destroy"] = True
    return apply_fresh(given, flags.plan_options_of(given))
