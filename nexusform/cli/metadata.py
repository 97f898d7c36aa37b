"""What tools ask of nexusform itself: `metadata functions` and `providers schema`, both as JSON alone."""

from __future__ import annotations

import sys
from typing import Any, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import switch
from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.language.functions.function import Function, Parameter, declared_type
from nexusform.value_types import Type

FORMAT_VERSION: Final = "1.0"

metadata: Final = LazyGroup(
    "metadata",
    {"functions": Entry("nexusform.cli.metadata:functions", "The signatures of all functions, as JSON")},
    summary="What tools ask of nexusform itself.",
)
providers: Final = LazyGroup(
    "providers",
    {"schema": Entry("nexusform.cli.metadata:schema", "The schemas of all types, as JSON")},
    summary="What configuration can say of each type.",
    hints={
        "lock": "Providers come with nexusform, so there is no lock file and nothing to download.",
        "mirror": "Providers come with nexusform, so there is nothing to mirror.",
    },
)


class FunctionsArguments(Struct, frozen=True, kw_only=True):
    """What `metadata functions` takes."""

    as_json: bool = switch("As a JSON document (the only form there is)", flag="json")


@command("functions", FunctionsArguments, trusts=False)
def functions(arguments: FunctionsArguments) -> int:
    """Print the signature of every function that expressions may call, as JSON."""
    if not arguments.as_json:
        raise click.UsageError("The signatures are printed as JSON only: add -json.")
    from nexusform.rendering.notation.json_values import json_bytes

    sys.stdout.write(json_bytes(signatures_document(), pretty=True).decode())
    return 0


def signatures_document() -> dict[str, Any]:
    """The document: function signatures by name, in the shape of other tools of this kind."""
    from nexusform.language.functions.registry import described_families

    signatures = {
        function.name: _signature(function) for _, family in described_families() for function in family
    }
    return {"format_version": FORMAT_VERSION, "function_signatures": dict(sorted(signatures.items()))}


def _signature(function: Function) -> dict[str, Any]:
    signature: dict[str, Any] = {
        "description": function.description,
        "return_type": _type(declared_type(function)),
    }
    if function.parameters:
        signature["parameters"] = [_parameter(p) for p in function.parameters]
    if function.variadic is not None:
        signature["variadic_parameter"] = _parameter(function.variadic)
    return signature


def _parameter(parameter: Parameter) -> dict[str, Any]:
    document: dict[str, Any] = {"name": parameter.name, "description": parameter.description}
    if parameter.allow_null:
        document["is_nullable"] = True
    document["type"] = _type(parameter.type)
    return document


def _type(of: Type) -> Any:
    from nexusform.value_types import type_to_json

    return type_to_json(of)


class SchemaArguments(Struct, frozen=True, kw_only=True):
    """What `providers schema` takes."""

    as_json: bool = switch("As a JSON document (the only form there is)", flag="json")


@command("schema", SchemaArguments, trusts=False)
def schema(arguments: SchemaArguments) -> int:
    """Print every resource type and data source with its arguments and blocks, in Terraform's JSON form."""
    if not arguments.as_json:
        raise click.UsageError("The schemas are printed as JSON only: add -json.")
    from nexusform.rendering.json.json_configuration import providers_schema
    from nexusform.rendering.notation.json_values import json_bytes
    from nexusform.resource_types.registry import registries

    sys.stdout.write(json_bytes(providers_schema(registries()), pretty=True).decode())
    return 0
