"""`nexusform output`: root outputs of the state."""

from collections.abc import Mapping
from typing import Any

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_optional_positional, declare_switch_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context, declare_state_flag
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import build_error, build_warning, has_errors, suggest_name
from nexusform.schemas.value_types import build_type_json
from nexusform.state.objects import OutputState
from nexusform.workflow.states.state_commands import read_state


class OutputArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `output`; without `name` it shows all outputs."""

    as_json: bool = declare_switch_flag("Print JSON", flag="json")
    raw: bool = declare_switch_flag("Print one output without quotes and newline")
    show_sensitive: bool = declare_switch_flag("Show sensitive values")
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)
    name: str = declare_optional_positional("")


@define_command("output", OutputArguments)
def output(arguments: OutputArguments) -> int:
    """Show the outputs of the last apply, or the output NAME."""
    if arguments.as_json and arguments.raw:
        raise click.UsageError("-json and -raw cannot be combined.")
    if arguments.raw and not arguments.name:
        raise click.UsageError("-raw needs the NAME of an output.")
    screen = arguments.view.create_screen()
    reading = read_state(create_context(arguments.state))
    screen.print_diagnostics(reading.diagnostics, reading.sources)
    if reading.state is None or has_errors(reading.diagnostics):
        return 1
    show = _print_single_output if arguments.name else _print_all_outputs
    return show(screen, arguments, reading.state.outputs)


def _print_all_outputs(screen: Screen, arguments: OutputArguments, outputs: Mapping[str, OutputState]) -> int:
    """Print all outputs as JSON (including sensitive values) or as text; return the exit code 0, also without any."""
    if arguments.as_json:
        document = {}
        for name, state in sorted(outputs.items()):
            document[name] = {"sensitive": state.sensitive, "type": build_type_json(state.type), "value": state.value}
        screen.print_text(_encode_json(document))
        return 0
    if not outputs:
        detail = "The state has no outputs. Declare an output and apply the configuration."
        screen.print_diagnostics([build_warning("no-outputs-found", detail)], sources={})
        return 0
    from nexusform.rendering.text.state_text import render_outputs

    screen.print_text(render_outputs(outputs, show_sensitive=arguments.show_sensitive), end="")
    return 0


def _print_single_output(screen: Screen, arguments: OutputArguments, outputs: Mapping[str, OutputState]) -> int:
    """Print one output, also a sensitive one, as JSON, HCL or with -raw alone; return the exit code."""
    name = arguments.name
    output_state = outputs.get(name)
    if output_state is None:
        detail = f'The state has no output "{name}".{suggest_name(name, outputs)} `nexusform apply` records outputs.'
        return screen.print_failure([build_error("output-not-found", detail, headline=f'Output "{name}" not found')])
    if arguments.as_json:
        screen.print_text(_encode_json(output_state.value))
        return 0
    from nexusform.rendering.notation.hcl_text import format_scalar, render_hcl_value

    if not arguments.raw:  # HCL
        screen.print_text(render_hcl_value(output_state.value, output_state.type))
        return 0
    if output_state.value is None or isinstance(output_state.value, list | dict):
        detail = f'-raw prints strings, numbers and booleans only. Use -json for the output "{name}".'
        return screen.print_failure([build_error("unsupported-value-for-raw-output", detail)])
    # Print it unchanged, because scripts read it.
    text = output_state.value if isinstance(output_state.value, str) else format_scalar(output_state.value)
    click.echo(text, nl=False)
    return 0


def _encode_json(value: Any) -> str:
    from nexusform.rendering.notation.json_values import encode_value

    return encode_value(value, pretty=True).decode()
