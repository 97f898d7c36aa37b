"""`nexusform version`."""

from __future__ import annotations

import click

import nexusform
from nexusform.cli.commands import command, switch


@command("version", summary="Show the version")
@switch("json", "As a JSON document", parameter="as_json")
def version(as_json: bool) -> int:
    """Show the version of nexusform."""
    if as_json:
        from json import dumps
        from platform import machine, system

        told = {
            "nexusform_version": nexusform.__version__,
            "platform": f"{system()}_{machine()}".lower(),
            "provider_selections": {},
        }
        click.echo(dumps(told, indent=2))
    else:
        click.echo(f"nexusform v{nexusform.__version__}")
    return 0
