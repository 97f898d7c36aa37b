"""Commands that read the state.

They are `nexusform state list`, `state show`, `state verify`, `state pull`,
`state history` and `output`.
"""

from collections.abc import Mapping
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_optional_positional,
    declare_positional,
    declare_positionals,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_count
from nexusform.resources.address import Address, AddressProblem, parse_pattern
from nexusform.schemas.value_types import build_type_json
from nexusform.state import state_edits
from nexusform.state.objects import InstanceState, OutputState, State
from nexusform.workflow.states.state_commands import (
    StateReadResult,
    has_been_written,
    parse_patterns,
    read_state,
)
from nexusform.workflow.states.state_history import read_history

NO_STATE = build_error(
    "no-state-file-was-found",
    "This command needs a state. The first `nexusform apply` creates it. Run it in the directory "
    "of the configuration, or use -state=FILE.",
)


def _read_written_state(state_path: str, *, checks_objects: bool = False) -> StateReadResult:
    """Read the state of -state; a state that was never written is an error."""
    context = create_context(state_path, requires_state=True)
    reading = read_state(context, checks_objects=checks_objects)
    if reading.state is None or has_been_written(reading.state):
        return reading
    return replace(reading, diagnostics=(*reading.diagnostics, NO_STATE))


def _read_state_and_print_errors(screen: Screen, state_path: str) -> State | None:
    """Read the state of -state and print its errors; return None with errors."""
    reading = read_state(create_context(state_path, requires_state=True))
    screen.print_diagnostics(reading.diagnostics, reading.sources)
    return None if has_errors(reading.diagnostics) else reading.state


class ListArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state list`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    state: str = declare_state_flag()
    object_id: str = declare_text_flag("List only the object with this id", metavar="ID", flag="id")
    addresses: tuple[str, ...] = declare_positionals()


@define_command("list", ListArguments)
def list_instances(arguments: ListArguments) -> int:
    """List the resource instances in the state, one address per line.

    ADDRESSES limit the list to instances, resources or modules.
    """
    screen = Screen()
    addresses, reading = _select_listed_instances(arguments)
    if arguments.as_json:
        from nexusform.rendering.json.json_diagnostics import build_address_keys

        instances = reading.state.instances if reading.state is not None else {}
        resources = [
            {
                "address": str(address),
                **build_address_keys(address),
                **_build_identity_keys(instances[address]),
            }
            for address in addresses
        ]
        return screen.print_answer_document(
            reading.diagnostics, reading.sources, resources=resources
        )
    screen.print_diagnostics(reading.diagnostics, reading.sources)
    for address in addresses:
        screen.print_text(str(address))
    return 1 if has_errors(reading.diagnostics) else 0


def _build_identity_keys(instance: InstanceState) -> dict[str, Any]:
    """Return the id of the current object, or the keys of deposed ones, as JSON."""
    current = instance.current
    keys: dict[str, Any] = {"id": current.attributes.get("id")} if current is not None else {}
    return keys | ({"deposed_keys": sorted(instance.deposed)} if instance.deposed else {})


def _select_listed_instances(arguments: ListArguments) -> tuple[list[Address], StateReadResult]:
    """Read the state and select the addresses to list; none after errors.

    Every address of the command line must be in the state.
    """
    patterns, problems = parse_patterns(arguments.addresses)
    if problems:
        return [], StateReadResult(state=None, diagnostics=tuple(problems), sources={})
    reading = _read_written_state(arguments.state)
    state = reading.state
    if state is None or has_errors(reading.diagnostics):
        return [], reading
    for pattern in patterns:
        if not state_edits.select_instances(state, [pattern]):
            hint = suggest_name(str(pattern), map(str, state.instances))
            detail = (
                f"The state has no object at {pattern}.{hint} `nexusform state list` shows all "
                "addresses."
            )
            problems.append(build_error("no-such-resource-instance", detail))
    if problems:
        return [], replace(reading, diagnostics=(*reading.diagnostics, *problems))
    return state_edits.select_instances(state, patterns, arguments.object_id), reading


class ShowInstanceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state show`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    state: str = declare_state_flag()
    show_sensitive: bool = declare_switch_flag("Show sensitive values")
    view: ViewFlags = declare_flag_group(ViewFlags)
    address: str = declare_positional()


@define_command("show", ShowInstanceArguments)
def show(arguments: ShowInstanceArguments) -> int:
    """Show the attributes of the resource instance at ADDRESS."""
    screen = arguments.view.create_screen()
    address, reading = _read_single_instance(arguments)
    if arguments.as_json:
        from nexusform.rendering.json.json_document import build_object_documents

        documents: list[dict[str, Any]] = []
        if address is not None and reading.state is not None:
            instance = reading.state.instances[address]
            documents += build_object_documents(
                address, instance, show_sensitive=arguments.show_sensitive
            )
        # The current object, or a deposed one without it.
        parts: dict[str, Any] = {"resource": documents[0] if documents else None}
        if len(documents) > 1:
            parts["deposed_resources"] = documents[1:]
        return screen.print_answer_document(reading.diagnostics, reading.sources, **parts)
    screen.print_diagnostics(reading.diagnostics, reading.sources)
    if address is None or reading.state is None:
        return 1
    # Pairs of deposed key and object; the key of the current object is "".
    objects = reading.state.instances[address].all_objects
    from nexusform.rendering.text.state_text import render_object
    from nexusform.resource_types.registry import build_registries

    type_registries = build_registries()
    types_by_name = (
        type_registries.data_sources if address.mode == "data" else type_registries.resource_types
    )
    resource_type = types_by_name.get(address.type)
    schema = resource_type.schema if resource_type else None
    texts = [
        render_object(
            address,
            instance_object,
            schema,
            deposed=key,
            colour=screen.colour,
            show_sensitive=arguments.show_sensitive,
        )
        for key, instance_object in objects
    ]
    screen.print_text("\n".join(texts), end="")
    return 0


def _read_single_instance(
    arguments: ShowInstanceArguments,
) -> tuple[Address | None, StateReadResult]:
    """Read the state and find the single instance to show; None with errors."""
    reading = _read_written_state(arguments.state, checks_objects=True)
    if reading.state is None or has_errors(reading.diagnostics):
        return None, reading
    address, problems = _find_single_instance(reading.state, arguments.address)
    return address, replace(reading, diagnostics=(*reading.diagnostics, *problems))


def _find_single_instance(state: State, text: str) -> tuple[Address | None, list[Diagnostic]]:
    """Find the single instance at an address.

    Return None, with an error, for none or several.
    """
    try:
        pattern = parse_pattern(text)
    except AddressProblem as problem:
        return None, [build_error("invalid-address", str(problem))]
    addresses = state_edits.select_instances(state, [pattern])
    # A module address has no type.
    if len(addresses) == 1 and pattern.type:
        return addresses[0], []
    count_text = f"matches {len(addresses)}" if addresses else "matches none"
    return None, [
        build_error(
            "no-instance-found-for-the-given-address",
            (
                f"Specify one resource instance; {pattern} {count_text}. `nexusform state list` "
                "lists them."
            ),
        )
    ]


class VerifyArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state verify`."""

    state: str = declare_state_flag()
    refresh: bool = declare_switch_flag("Skip the refresh, check only the state", default=True)
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()


@define_command("verify", VerifyArguments)
def verify(arguments: VerifyArguments) -> int:
    """Check the state; exit code 2 with errors or warnings.

    Checks for missing or overfull cells, duplicate names and ids, unknown providers, and circular
    or missing dependencies. Also checks hard hints, zones, placement groups and separation rules.
    With a configuration it reports drift.
    """
    from nexusform.workflow.states import state_commands

    screen = Screen()
    context = create_context(arguments.state, arguments.variables, requires_state=True)
    reading = state_commands.verify_state(context, reads_providers=arguments.refresh)
    screen.print_diagnostics(reading.diagnostics, reading.sources)
    if reading.state is None:
        return 1
    if not has_been_written(reading.state):
        return screen.print_failure([NO_STATE])
    if reading.diagnostics:
        return 2
    screen.print_text("The state is consistent.")
    return 0


class PullArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state pull`."""

    state: str = declare_state_flag()


@define_command("pull", PullArguments)
def pull(arguments: PullArguments) -> int:
    """Print the state document, for a backup or for `state push`."""
    from nexusform.state.state_codec import encode_state

    state = _read_state_and_print_errors(Screen(), arguments.state)
    if state is None:
        return 1
    # Otherwise there is no document to print.
    if has_been_written(state):
        click.echo(encode_state(state), nl=False)
    return 0


class HistoryArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state history`."""

    state: str = declare_state_flag()


@define_command("history", HistoryArguments)
def history(arguments: HistoryArguments) -> int:
    """List the stored versions of the state, newest first.

    Versions are snapshots (azurerm), versions (s3), rows (postgres), or the previous file (local).
    """
    screen = Screen()
    state_versions = read_history(create_context(arguments.state, requires_state=True))
    screen.print_diagnostics(state_versions.diagnostics, state_versions.sources)
    for version in state_versions.versions:
        objects = format_count(len(version.state.instances), "object")
        screen.print_text(
            f"serial {version.serial:<6}  {version.timestamp or 'current':<27}  {objects}"
        )  # "": current
    if not state_versions.versions and not state_versions.diagnostics:
        screen.print_text("No state exists.")
    return 1 if has_errors(state_versions.diagnostics) else 0


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
    reading = read_state(create_context(arguments.state, requires_state=True))
    screen.print_diagnostics(reading.diagnostics, reading.sources)
    if reading.state is None or has_errors(reading.diagnostics):
        return 1
    show = _print_single_output if arguments.name else _print_all_outputs
    return show(screen, arguments, reading.state.outputs)


def _print_all_outputs(
    screen: Screen, arguments: OutputArguments, outputs: Mapping[str, OutputState]
) -> int:
    """Print all outputs as JSON (including sensitive values) or as text.

    Return the exit code 0, also without any.
    """
    if arguments.as_json:
        from nexusform.rendering.notation.json_values import encode_value

        document = {}
        for name, state in sorted(outputs.items()):
            document[name] = {
                "sensitive": state.sensitive,
                "type": build_type_json(state.type),
                "value": state.value,
            }
        screen.print_text(encode_value(document, pretty=True).decode())
        return 0
    if not outputs:
        detail = "The state has no outputs. Declare an output and apply the configuration."
        screen.print_diagnostics([build_warning("no-outputs-found", detail)], sources={})
        return 0
    from nexusform.rendering.text.state_text import render_outputs

    screen.print_text(render_outputs(outputs, show_sensitive=arguments.show_sensitive), end="")
    return 0


def _print_single_output(
    screen: Screen, arguments: OutputArguments, outputs: Mapping[str, OutputState]
) -> int:
    """Print one output, also a sensitive one, as JSON, HCL or with -raw alone.

    Return the exit code.
    """
    name = arguments.name
    output_state = outputs.get(name)
    if output_state is None:
        detail = (
            f'The state has no output "{name}".{suggest_name(name, outputs)} `nexusform apply` '
            "records outputs."
        )
        return screen.print_failure(
            [build_error("output-not-found", detail, headline=f'Output "{name}" not found')]
        )
    if arguments.as_json:
        from nexusform.rendering.notation.json_values import encode_value

        screen.print_text(encode_value(output_state.value, pretty=True).decode())
        return 0
    from nexusform.rendering.notation.hcl_text import format_scalar, render_hcl_value

    if not arguments.raw:  # HCL
        screen.print_text(render_hcl_value(output_state.value, output_state.type))
        return 0
    if output_state.value is None or isinstance(output_state.value, list | dict):
        detail = (
            f'-raw prints strings, numbers and booleans only. Use -json for the output "{name}".'
        )
        return screen.print_failure([build_error("unsupported-value-for-raw-output", detail)])
    # Print it unchanged, because scripts read it.
    text = (
        output_state.value
        if isinstance(output_state.value, str)
        else format_scalar(output_state.value)
    )
    click.echo(text, nl=False)
    return 0
