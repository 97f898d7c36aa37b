"""`nexusform version`."""

import click
from msgspec import Struct

import nexusform
from nexusform.cli.arguments import declare_switch_flag
from nexusform.cli.commands import define_command


class VersionArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `version`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")


@define_command("version", VersionArguments, has_trust_flags=False)
def version(arguments: VersionArguments) -> int:
    """Show the version of nexusform."""
    if arguments.as_json:
        from json import dumps
        from platform import machine, system

        document = {
            "nexusform_version": nexusform.__version__,
            "platform": f"{system()}_{machine()}".lower(),
            "provider_selections": {},
        }
        click.echo(dumps(document, indent=2))
    else:
        click.echo(f"nexusform v{nexusform.__version__}")
    return 0
