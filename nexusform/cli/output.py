"""`nexusform output`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from msgspec import Struct

from nexusform.cli.arguments import group, optional, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag
from nexusform.cli.screen import Screen
from nexusform.diagnostics import did_you_mean, error, has_errors, warning
from nexusform.state.objects import OutputState
from nexusform.value_types import type_to_json
from nexusform.workflow.states.state_commands import read_state


class OutputArguments(Struct, frozen=True, kw_only=True):
    """What `output` takes; without `name` it shows all outputs."""

    as_json: bool = switch("Print JSON", flag="json")
    raw: bool = switch("Print one output without quotes and newline")
    show_sensitive: bool = switch("Show sensitive values")
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)
    name: str = optional("")


@command("output", OutputArguments)
def output(arguments: OutputArguments) -> int:
    """Show the outputs of the last apply, or the output NAME."""
    if arguments.as_json and arguments.raw:
        raise click.UsageError("-json and -raw do not go together.")
    if arguments.raw and not arguments.name:
        raise click.UsageError("-raw needs the NAME of an output.")
    screen = arguments.view.screen()
    reading = read_state(place_of(arguments.state))
    screen.diagnostics(reading.diagnostics, reading.sources)
    if reading.state is None or has_errors(reading.diagnostics):
        return 1
    show = _show_one if arguments.name else _show_all
    return show(screen, arguments, reading.state.outputs)


def _show_all(screen: Screen, arguments: OutputArguments, outputs: Mapping[str, OutputState]) -> int:
    if arguments.as_json:
        document = {
            name: {"sensitive": each.sensitive, "type": type_to_json(each.type), "value": each.value}
            for name, each in sorted(outputs.items())
        }
        screen.out(_json_text(document))
        return 0
    if not outputs:
        detail = (
            "The state holds no outputs: the configuration declares none, or was not applied since it does."
        )
        screen.diagnostics([warning("no-outputs-found", detail)], {})
        return 0
    from nexusform.rendering.text.state_text import render_outputs

    screen.out(render_outputs(outputs, show_sensitive=arguments.show_sensitive), end="")
    return 0


def _show_one(screen: Screen, arguments: OutputArguments, outputs: Mapping[str, OutputState]) -> int:
    name = arguments.name
    named = outputs.get(name)
    if named is None:
        detail = f'The state holds no output "{name}".{did_you_mean(name, outputs)}'
        screen.diagnostics([error("output-not-found", detail, headline=f'Output "{name}" not found')], {})
        return 1
    if arguments.as_json:
        screen.out(_json_text(named.value))
        return 0
    from nexusform.rendering.notation.hcl_text import hcl_value, scalar

    if not arguments.raw:
        screen.out(hcl_value(named.value, named.type))
        return 0
    if named.value is None or isinstance(named.value, (list, dict)):
        detail = f'-raw prints strings, numbers and booleans; the output "{name}" is none of them. Use -json.'
        screen.diagnostics([error("unsupported-value-for-raw-output", detail)], {})
        return 1
    # As it is, whatever it holds: a script takes it.
    click.echo(named.value if isinstance(named.value, str) else scalar(named.value), nl=False)
    return 0


def _json_text(value: Any) -> str:
    from nexusform.rendering.notation.json_values import encoded

    return encoded(value, pretty=True).decode()
