"""`nexusform sign`."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.cli.arguments import group, optional, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.diagnostics import has_errors


class SignArguments(Struct, frozen=True, kw_only=True):
    """What `sign` takes."""

    planfile: str | None = optional(None)
    key: str = text("Use this private key (Ed25519, PEM)", metavar="KEYFILE")
    view: ViewFlags = group(ViewFlags)


@command("sign", SignArguments)
def sign(arguments: SignArguments) -> int:
    """Sign the approved plan PLANFILE. Replaces an existing signature.

    The plan does not change. `apply -verify=key:FILE` accepts only signed plans. Keep the key away
    from jobs that read unreviewed input.
    """
    if arguments.planfile is None or not arguments.key:
        raise click.UsageError("Name the plan and the key: nexusform sign -key=KEYFILE PLANFILE.")
    from nexusform.workflow.plan_files.signed_plans import sign_plan

    screen = arguments.view.screen()
    problems = sign_plan(arguments.planfile, arguments.key, place_of())
    screen.diagnostics(problems, {})
    if has_errors(problems):
        return 1
    screen.out(f"Signed: {arguments.planfile}")
    return 0
