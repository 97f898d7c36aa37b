"""`nexusform sites sign`."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_optional_positional, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context, is_confinement_disabled
from nexusform.domains.sites.workflow.fleet_plan_file import sign_fleet_plan


class SignArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites sign`."""

    planfile: str | None = declare_optional_positional(None)
    key: str = declare_text_flag("Use this private key (Ed25519, PEM)", metavar="KEYFILE")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("sign", SignArguments)
def sign(arguments: SignArguments) -> int:
    """Sign an approved plan of sites, for `sites apply -verify=key:FILE`.

    It must have been made with -confine, or type -confine=false.
    """
    if arguments.planfile is None or not arguments.key:
        raise click.UsageError("The plan or the key is missing. Use nexusform sites sign -key=KEYFILE F.nfsites.")
    screen = arguments.view.create_screen()
    problems = sign_fleet_plan(
        arguments.planfile, arguments.key, create_context(), is_unconfined_accepted=is_confinement_disabled()
    )
    screen.print_diagnostics(problems, {})
    if problems:
        return 1
    screen.print_text(f"Signed: {arguments.planfile}")
    return 0
