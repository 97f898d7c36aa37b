"""`nexusform providers schema`: the schemas of all types, as JSON only."""

import sys
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_switch_flag
from nexusform.cli.commands import CommandEntry, LazyGroup, define_command

providers: Final = LazyGroup(
    "providers",
    {"schema": CommandEntry("nexusform.cli.provider_schemas:schema", "Print the schemas of all types as JSON")},
    summary="Print the schemas of all types.",
    hints={
        "lock": "Providers come with nexusform, so there is no lock file and nothing to download.",
        "mirror": "Providers come with nexusform, so there is nothing to mirror.",
    },
)


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

    sys.stdout.write(encode_document(build_providers_schema(build_registries()), pretty=True).decode())
    return 0
