"""`nexusform version` and `nexusform providers schema`.

They print the version, and the schemas of all types (as JSON only).
"""

import sys
from typing import Final

import click
from msgspec import Struct

import nexusform
from nexusform.cli.arguments import declare_switch_flag
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.commands import define_command
from nexusform.command_entry import CommandEntry
from nexusform.domain_table import find_external_domains


class VersionArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `version`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")


@define_command("version", VersionArguments, has_trust_flags=False)
def version(arguments: VersionArguments) -> int:
    """Show the version of nexusform."""
    if arguments.as_json:
        from json import dumps
        from platform import machine, system

        from nexusform.rendering.json.json_diagnostics import TERRAFORM_VERSION

        document = {
            "nexusform_version": nexusform.__version__,
            # Wrappers compare it with their minimum: JSON output is that of this version.
            "terraform_version": TERRAFORM_VERSION,
            "platform": f"{system()}_{machine()}".lower(),
            "provider_selections": {},
            "terraform_outdated": False,
        }
        click.echo(dumps(document, indent=2))
    else:
        click.echo(f"nexusform v{nexusform.__version__}")
        for domain in find_external_domains():
            click.echo(f"+ {domain.problem or f'domain of {domain.distribution}'}")
    return 0


class SchemaArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `providers schema`."""

    as_json: bool = declare_switch_flag("Print a JSON document (the only format)", flag="json")


@define_command("schema", SchemaArguments, has_trust_flags=False)
def schema(arguments: SchemaArguments) -> int:
    """Print the schemas of all types in Terraform's JSON format."""
    if not arguments.as_json:
        raise click.UsageError("Schemas are printed as JSON only. Add -json.")
    from nexusform.rendering.json.json_configuration import build_providers_schema
    from nexusform.rendering.notation.json_values import encode_document
    from nexusform.resource_types.registry import build_registries

    sys.stdout.write(
        encode_document(build_providers_schema(build_registries()), pretty=True).decode()
    )
    return 0


providers: Final = LazyGroup(
    "providers",
    {"schema": CommandEntry("Print the schemas of all types as JSON", load=lambda: schema)},
    summary="Print the schemas of all types.",
    hints={
        "lock": "Providers come with nexusform, so there is no lock file and nothing to download.",
        "mirror": "Providers come with nexusform, so there is nothing to mirror.",
    },
)
