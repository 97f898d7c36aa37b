"""`nexusform state list`, `state show`, `state verify`, `state pull` and `state history`."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.address import Address, AddressProblem, parse_pattern
from nexusform.cli.arguments import group, positional, positionals, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.schema import BlockSchema
from nexusform.state import edits
from nexusform.state.objects import State
from nexusform.words import counted
from nexusform.workflow.states.state_commands import exists, parse_patterns, read_state
from nexusform.workflow.states.state_history import Version, read_history

NO_STATE = error(
    "no-state-file-was-found",
    "These commands need a state, which the first `nexusform apply` makes. Run them in the directory of the "
    "configuration, or name the file with -state=FILE.",
)


def _read(screen: Screen, state_path: str, *, closely: bool = False) -> State | None:
    """The state at the place that -state names; what is wrong with it is printed."""
    reading = read_state(place_of(state_path), closely=closely)
    screen.diagnostics(reading.diagnostics, reading.sources)
    return None if has_errors(reading.diagnostics) else reading.state


class ListArguments(Struct, frozen=True, kw_only=True):
    """What `state list` takes."""

    state: str = state_flag()
    object_id: str = text("List only the object with this id", metavar="ID", flag="id")
    addresses: tuple[str, ...] = positionals()


@command("list", ListArguments)
def list_instances(arguments: ListArguments) -> int:
    """List the resource instances in the state, one address per line.

    ADDRESSES limit the list to instances, resources or modules.
    """
    screen = Screen()
    patterns, problems = parse_patterns(arguments.addresses)
    if problems:
        screen.diagnostics(problems, {})
        return 1
    state = _read(screen, arguments.state)
    if state is None:
        return 1
    if not exists(state):
        screen.diagnostics([NO_STATE], {})
        return 1
    for address in edits.matching(state, patterns, arguments.object_id):
        screen.out(str(address))
    return 0


class ShowInstanceArguments(Struct, frozen=True, kw_only=True):
    """What `state show` takes."""

    state: str = state_flag()
    show_sensitive: bool = switch("Show sensitive values")
    view: ViewFlags = group(ViewFlags)
    address: str = positional()


@command("show", ShowInstanceArguments)
def show(arguments: ShowInstanceArguments) -> int:
    """Show the attributes of the resource instance at ADDRESS."""
    from nexusform.rendering.text.state_text import render_object

    screen = arguments.view.screen()
    state = _read(screen, arguments.state, closely=True)
    if state is None:
        return 1
    address, problems = _only_instance(state, arguments.address)
    if address is None:
        screen.diagnostics(problems, {})
        return 1
    instance = state.instances[address]
    objects = [] if instance.current is None else [("", instance.current)]
    objects += sorted(instance.deposed.items())
    schema = _schema(address)
    shown = [
        render_object(
            address,
            each,
            schema,
            deposed=key,
            colour=screen.colour,
            show_sensitive=arguments.show_sensitive,
        )
        for key, each in objects
    ]
    screen.out("\n".join(shown), end="")
    return 0


def _only_instance(state: State, written: str) -> tuple[Address | None, list[Diagnostic]]:
    """The one instance at an address; None, and an error, for none or several."""
    if not exists(state):
        return None, [NO_STATE]
    try:
        pattern = parse_pattern(written)
    except AddressProblem as problem:
        return None, [error("invalid-address", str(problem))]
    addresses = edits.matching(state, [pattern])
    if len(addresses) == 1 and pattern.type:
        return addresses[0], []
    what = f"names {len(addresses)} of them" if addresses else "names none"
    return None, [
        error(
            "no-instance-found-for-the-given-address",
            f"One resource instance must be named; {pattern} {what}. `nexusform state list` shows them.",
        )
    ]


def _schema(address: Address) -> BlockSchema | None:
    from nexusform.resource_types.registry import registries

    known = registries()
    table = known.data_sources if address.mode == "data" else known.resource_types
    kind = table.get(address.type)
    return kind.schema if kind else None


class VerifyArguments(Struct, frozen=True, kw_only=True):
    """What `state verify` takes."""

    state: str = state_flag()
    refresh: bool = switch("Skip the refresh, check only the state", default=True)
    variables: tuple[tuple[str, str], ...] = variable_flags()


@command("verify", VerifyArguments)
def verify(arguments: VerifyArguments) -> int:
    """Check the state; exit code 2 with errors or warnings.

    Checks for missing or overfull cells, duplicate names and ids, unknown providers, and circular
    or missing dependencies. Also checks hard hints, zones, placement groups and separation rules.
    With a configuration it reports drift.
    """
    from nexusform.workflow.states import state_commands

    screen = Screen()
    place = place_of(arguments.state, arguments.variables)
    reading = state_commands.verify(place, asks=arguments.refresh)
    screen.diagnostics(reading.diagnostics, reading.sources)
    if reading.state is None:
        return 1
    if not exists(reading.state):
        screen.diagnostics([NO_STATE], {})
        return 1
    if reading.diagnostics:
        return 2
    screen.out("The state agrees with itself.")
    return 0


class PullArguments(Struct, frozen=True, kw_only=True):
    """What `state pull` takes."""

    state: str = state_flag()


@command("pull", PullArguments)
def pull(arguments: PullArguments) -> int:
    """Print the state document, for a backup or for `state push`."""
    from nexusform.state.codec import encode

    screen = Screen()
    state = _read(screen, arguments.state)
    if state is None:
        return 1
    if exists(state):
        click.echo(encode(state), nl=False)
    return 0


class HistoryArguments(Struct, frozen=True, kw_only=True):
    """What `state history` takes."""

    state: str = state_flag()


@command("history", HistoryArguments)
def history(arguments: HistoryArguments) -> int:
    """List the stored versions of the state, newest first.

    Versions are snapshots (azurerm), versions (s3), rows (postgres), or the previous file (local).
    """
    screen = Screen()
    kept = read_history(place_of(arguments.state))
    screen.diagnostics(kept.diagnostics, kept.sources)
    for version in kept.versions:
        screen.out(_version_line(version))
    if not kept.versions and not kept.diagnostics:
        screen.out("There is no state yet.")
    return 1 if has_errors(kept.diagnostics) else 0


def _version_line(version: Version) -> str:
    objects = counted(len(version.state.instances), "object")
    return f"serial {version.serial:<6}  {version.written or 'current':<27}  {objects}"
