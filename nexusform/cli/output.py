"""`nexusform output`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nexusform.cli.commands import command, switch
from nexusform.cli.flags import place_of, state_flags, view_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import did_you_mean, error, has_errors, warning
from nexusform.state.model import OutputState
from nexusform.value_types import type_to_json
from nexusform.workflow.project import Place
from nexusform.workflow.state_commands import read_state


@command("output", summary="Show the root module's outputs")
@switch("json", "As JSON", parameter="as_json")
@switch("raw", "One output's text as it is, without quotes or a newline")
@switch("show-sensitive", "Show sensitive values too")
@state_flags
@view_flags
@click.argument("name", required=False, default="")
def output(name: str, as_json: bool, raw: bool, show_sensitive: bool, **given: Any) -> int:
    """Show the outputs of the root module as the last apply left them, or the one called NAME."""
    if as_json and raw:
        raise click.UsageError("-json and -raw do not go together.")
    if raw and not name:
        raise click.UsageError("-raw needs the NAME of an output.")
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    place: Place = place_of(given)
    found = read_state(place)
    screen.diagnostics(found.diagnostics, found.sources)
    if found.state is None or has_errors(found.diagnostics):
        return 1
    if name:
        return _one(screen, name, found.state.outputs, as_json=as_json, raw=raw)
    return _all(screen, found.state.outputs, as_json=as_json, show_sensitive=show_sensitive)


def _all(screen: Screen, outputs: Mapping[str, OutputState], *, as_json: bool, show_sensitive: bool) -> int:
    if as_json:
        document = {
            name: {"sensitive": each.sensitive, "type": type_to_json(each.type), "value": each.value}
            for name, each in sorted(outputs.items())
        }
        screen.out(_json_text(document))
        return 0
    if not outputs:
        told = (
            "The state holds no outputs: the configuration declares none, or was not applied since it does."
        )
        screen.diagnostics([warning("no-outputs-found", told)], {})
        return 0
    from nexusform.rendering.text.state_text import render_outputs

    screen.out(render_outputs(outputs, show_sensitive=show_sensitive), end="")
    return 0


def _one(screen: Screen, name: str, outputs: Mapping[str, OutputState], *, as_json: bool, raw: bool) -> int:
    found = outputs.get(name)
    if found is None:
        told = f'The state holds no output "{name}".{did_you_mean(name, outputs)}'
        screen.diagnostics([error("output-not-found", told, headline=f'Output "{name}" not found')], {})
        return 1
    if as_json:
        screen.out(_json_text(found.value))
        return 0
    from nexusform.rendering.notation.hcl_text import hcl_value, scalar

    if not raw:
        screen.out(hcl_value(found.value, found.type))
        return 0
    if found.value is None or isinstance(found.value, (list, dict)):
        told = f'-raw prints strings, numbers and booleans; the output "{name}" is none of them. Use -json.'
        screen.diagnostics([error("unsupported-value-for-raw-output", told)], {})
        return 1
    screen.out(found.value if isinstance(found.value, str) else scalar(found.value), end="")
    return 0


def _json_text(value: Any) -> str:
    from nexusform.rendering.notation.json_writer import encoded

    return encoded(value, pretty=True).decode()
