"""The `azure` block: what Azure needs of a resource beyond what nexusform plans with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.plain_data import Path
from nexusform.resource_types.shared_arguments import is_known
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import DYNAMIC, STRING
from nexusform.values import Unknown

_OF_THE_BLOCK: Final = ("id", "name", "type")
_Unread: Final = type(None) | Unknown

_BODY: Final = Attribute(
    DYNAMIC,
    "Whatever else the body of the request needs, as the REST API has it: location, extendedLocation, tags, "
    "properties. What nexusform plans is laid over it; the rest it passes on and never reads.",
    optional=True,
)
_GROUP: Final = Attribute(
    STRING,
    "Resource group in which it is made. Default: that of the provider block.",
    optional=True,
)
AZURE_BLOCK: Final = NestedBlock(
    BlockSchema({"resource_group": _GROUP, "body": _BODY}),
    Nesting.SINGLE,
    'What Azure needs of it beyond that, for provider "azure".',
    max_items=1,
)
# A pool stands in the resource group of its cluster.
POOL_AZURE_BLOCK: Final = NestedBlock(
    BlockSchema({"body": _BODY}),
    Nesting.SINGLE,
    'What Azure needs of it beyond that, for provider "azure".',
    max_items=1,
)


def azure_problems(values: Mapping[str, Any], said: Collection[str], path: Path) -> Iterator[Problem]:
    """What is wrong with the azure block among the arguments of a resource or pool at `path`. `said` are the
    properties of the body that follow from its arguments.
    """
    block = values.get("azure")
    body = block.get("body") if isinstance(block, Mapping) else None
    if not is_known(body):
        return
    here = (*path, "azure", "body")
    properties = body.get("properties") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(properties, Mapping | _Unread):
        detail = "A body is an object such as { properties = { networkConfiguration = { ... } } }."
        yield Problem(here, "invalid-azure-body", detail)
        return
    known = properties if isinstance(properties, Mapping) else {}
    names: list[Path] = [(name,) for name in _OF_THE_BLOCK if name in body]
    names += [("properties", name) for name in sorted(said) if name in known]
    for at in names:
        detail = (
            f"{'.'.join(map(str, at))} follows from the arguments of the block: leave it out of the body."
        )
        yield Problem((*here, *at), "invalid-azure-body", detail)
