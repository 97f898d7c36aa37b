"""`nexusform providers schema`, as JSON alone."""

from __future__ import annotations

import sys
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import switch
from nexusform.cli.commands import Entry, LazyGroup, command

providers: Final = LazyGroup(
    "providers",
    {"schema": Entry("nexusform.cli.metadata:schema", "Print the schemas of all types as JSON")},
    summary="Print the schemas of all types.",
    hints={
        "lock": "Providers come with nexusform, so there is no lock file and nothing to download.",
        "mirror": "Providers come with nexusform, so there is nothing to mirror.",
    },
)


class SchemaArguments(Struct, frozen=True, kw_only=True):
    """What `providers schema` takes."""

    as_json: bool = switch("Print a JSON document (the only format)", flag="json")


@command("schema", SchemaArguments, trusts=False)
def schema(arguments: SchemaArguments) -> int:
    """Print the schemas of all types in Terraform's JSON format."""
    if not arguments.as_json:
        raise click.UsageError("The schemas are printed as JSON only: add -json.")
    from nexusform.rendering.json.json_configuration import providers_schema
    from nexusform.rendering.notation.json_values import json_bytes
    from nexusform.resource_types.registry import registries

    sys.stdout.write(json_bytes(providers_schema(registries()), pretty=True).decode())
    return 0
