"""The reference pages, written from what the product itself knows: schemas and commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nexusform.backends.registry import BACKENDS
from nexusform.cli.commands import LazyGroup
from nexusform.cli.main import ROOT
from nexusform.ports import ResourceType
from nexusform.providers.registry import PROVIDERS
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.value_types import friendly_name

HEAD = "<!-- Written by tests/docs; do not edit. NEXUSFORM_REWRITE_GOLDEN=1 python -m pytest tests/docs -->"

PROVIDERS_WORDS = """\
A provider carries out what a plan says. The default one, `simulated`, serves every type and sends nothing:
what is planned is recorded in the state. For drills it takes a file that plays the site, and faults:

```hcl
provider "simulated" {
  reality = "site.json" # created, changed and read as a site would be; edit it to see drift, import from it
  fault {
    address   = "nexus_rack.r[*]"
    operation = "create"
    error     = "the rack is not wired" # without it the call is only delayed
    delay     = "2s"
  }
}
```"""

_MEANING = {
    OnChange.UPDATE: "",
    OnChange.REPLACE: "a change replaces the resource",
    OnChange.REPLACE_POOL: "a change re-places the pool's VMs",
}


def types_page() -> str:
    """docs/reference/types.md."""
    lines = [HEAD, "", "# Resource types and data sources", ""]
    lines += [
        "(c) computed by nexusform; (pr) predicted: an observed value may differ without being an error.",
        "",
    ]
    for table in (RESOURCE_TYPES, DATA_SOURCES):
        for resource_type in table.values():
            lines += _type(resource_type)
    return "\n".join(lines).rstrip() + "\n"


def backends_page() -> str:
    """docs/reference/backends.md."""
    lines = [HEAD, "", "# Backends", "", "How to choose one: [state and teams](../state-and-teams.md).", ""]
    for name, kind in BACKENDS.items():
        lines += [f'## backend "{name}"', "", kind.schema.description, ""]
        lines += _body(kind.schema, "") if kind.schema.attributes else []
    return "\n".join(lines).rstrip() + "\n"


def providers_page() -> str:
    """docs/reference/providers.md."""
    lines = [HEAD, "", "# Providers", "", *PROVIDERS_WORDS.splitlines(), ""]
    for name, kind in PROVIDERS.items():
        lines += [f'## provider "{name}"', "", kind.settings.description, "", *_body(kind.settings, "")]
    return "\n".join(lines).rstrip() + "\n"


def _type(resource_type: ResourceType) -> Iterator[str]:
    keyword = "data" if resource_type.mode == "data" else "resource"
    yield f"## {keyword} {resource_type.name}"
    yield ""
    yield resource_type.schema.description
    yield ""
    if resource_type.phase:
        yield f"Planning phase {resource_type.phase}."
        yield ""
    yield from _body(resource_type.schema, "")


def _body(schema: BlockSchema, prefix: str) -> Iterator[str]:
    yield "| argument | type | meaning |"
    yield "|---|---|---|"
    yield from _rows(schema, prefix)
    yield ""


def _rows(schema: BlockSchema, prefix: str) -> Iterator[str]:
    for name, attribute in schema.attributes.items():
        kind = friendly_name(attribute.type, constraint=True)
        yield f"| `{prefix}{name}` | {kind} | {_attribute(attribute)} |"
    for name, block in schema.blocks.items():
        yield f"| `{prefix}{name}{_label(block)}` | block | {_block(block)} |"
        yield from _rows(block.schema, f"{prefix}{name}.")


def _label(block: NestedBlock) -> str:
    return f' "{block.label.upper()}"' if block.nesting is Nesting.MAP else ""


def _attribute(attribute: Attribute) -> str:
    notes = []
    if attribute.required:
        notes.append("required")
    elif attribute.optional and attribute.default is not None:
        notes.append(f"default `{_literal(attribute.default)}`")
    elif attribute.optional:
        notes.append("optional")
    if attribute.computed:
        notes.append("(c)")
    if attribute.predicted:
        notes.append("(pr)")
    if attribute.choices:
        notes.append("one of " + ", ".join(f"`{choice}`" for choice in attribute.choices))
    if attribute.minimum is not None or attribute.maximum is not None:
        notes.append(_bounds(attribute))
    if _MEANING[attribute.on_change] and attribute.configurable:
        notes.append(_MEANING[attribute.on_change])
    return f"{attribute.description} {'; '.join(notes)}".replace("|", "\\|").strip() + "."


def _bounds(attribute: Attribute) -> str:
    if attribute.maximum is None:
        return f"at least {attribute.minimum}"
    if attribute.minimum is None:
        return f"at most {attribute.maximum}"
    return f"{attribute.minimum} to {attribute.maximum}"


def _literal(value: object) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _block(block: NestedBlock) -> str:
    notes = []
    if block.min_items:
        notes.append("required")
    if block.nesting is not Nesting.SINGLE:
        notes.append("may be repeated")
    if _MEANING[block.on_change]:
        notes.append(_MEANING[block.on_change])
    return f"{block.description} {'; '.join(notes)}".replace("|", "\\|").strip()


def commands_page() -> str:
    """docs/reference/commands.md."""
    lines = [HEAD, "", "# Commands", ""]
    lines += _commands("nexusform", ROOT)
    return "\n".join(lines).rstrip() + "\n"


def _commands(path: str, group: LazyGroup) -> Iterator[str]:
    with click.Context(group, info_name=path) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"## {path} {name}"
            yield ""
            with click.Context(command, info_name=f"{path} {name}", terminal_width=100) as inner:
                yield "```"
                yield from (line.rstrip() for line in command.get_help(inner).splitlines())
                yield "```"
                yield ""
            if isinstance(command, LazyGroup):
                yield from _commands(f"{path} {name}", command)
