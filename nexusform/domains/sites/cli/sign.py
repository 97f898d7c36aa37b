"""`nexusform sites sign`."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.cli.arguments import group, optional, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.domains.sites.workflow.fleet_file import sign_fleet_plan


class SignArguments(Struct, frozen=True, kw_only=True):
    """What `sites sign` takes."""

    planfile: str | None = optional(None)
    key: str = text("Use this private key (Ed25519, PEM)", metavar="KEYFILE")
    view: ViewFlags = group(ViewFlags)


@command("sign", SignArguments)
def sign(arguments: SignArguments) -> int:
    """Sign an approved plan of sites, for `sites apply -verify=key:FILE`."""
    if arguments.planfile is None or not arguments.key:
        raise click.UsageError("Name the plan and the key: nexusform sites sign -key=KEYFILE F.nfsites.")
    screen = arguments.view.screen()
    problems = sign_fleet_plan(arguments.planfile, arguments.key, place_of())
    screen.diagnostics(problems, {})
    if problems:
        return 1
    screen.out(f"Signed: {arguments.planfile}")
    return 0
