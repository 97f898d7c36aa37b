"""`nexusform state list`, `state show` and `state pull`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.address import Address, AddressProblem, parse_pattern
from nexusform.cli.commands import command, option, switch
from nexusform.cli.flags import place_of, state_flags, view_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.schema import BlockSchema
from nexusform.state import edits
from nexusform.state.model import State
from nexusform.workflow.state_commands import exists, parse_patterns, read_state

NO_STATE = error(
    "no-state-file-was-found",
    "These commands need a state, which the first `nexusform apply` makes. Run them in the directory of the "
    "configuration, or name the file with -state=FILE.",
)


def read_for(screen: Screen, given: dict[str, Any], *, closely: bool = False) -> State | None:
    """The state of the place that the flags name; what is wrong with it is printed."""
    found = read_state(place_of(given), closely=closely)
    screen.diagnostics(found.diagnostics, found.sources)
    return None if has_errors(found.diagnostics) else found.state


@command("list", summary="List the addresses of what the state holds")
@state_flags
@option("id", "Only the object with this id", metavar="ID", default="", parameter="object_id")
@click.argument("addresses", nargs=-1)
def list_instances(addresses: tuple[str, ...], object_id: str, **given: Any) -> int:
    """List the resource instances in the state, one address per line.

    ADDRESSES narrow the list to instances, resources or modules.
    """
    screen = Screen()
    patterns, problems = parse_patterns(addresses)
    if problems:
        screen.diagnostics(problems, {})
        return 1
    state = read_for(screen, given)
    if state is None:
        return 1
    if not exists(state):
        screen.diagnostics([NO_STATE], {})
        return 1
    for address in edits.matching(state, patterns, object_id):
        screen.out(str(address))
    return 0


@command("show", summary="Show one resource instance")
@state_flags
@switch("show-sensitive", "Show sensitive values too")
@view_flags
@click.argument("address")
def show(address: str, show_sensitive: bool, **given: Any) -> int:
    """Show the attributes of the resource instance at ADDRESS."""
    from nexusform.rendering.text.state_text import render_object

    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    state = read_for(screen, given, closely=True)
    if state is None:
        return 1
    found, problems = _instance(state, address)
    if found is None:
        screen.diagnostics(problems, {})
        return 1
    instance = state.instances[found]
    objects = [] if instance.current is None else [("", instance.current)]
    shown = [
        render_object(
            found, each, _schema(found), deposed=key, colour=screen.colour, show_sensitive=show_sensitive
        )
        for key, each in [*objects, *sorted(instance.deposed.items())]
    ]
    screen.out("\n".join(shown), end="")
    return 0


def _instance(state: State, text: str) -> tuple[Address | None, list[Diagnostic]]:
    if not exists(state):
        return None, [NO_STATE]
    try:
        pattern = parse_pattern(text)
    except AddressProblem as problem:
        return None, [error("invalid-address", str(problem))]
    found = edits.matching(state, [pattern])
    if len(found) == 1 and pattern.type:
        return found[0], []
    what = f"names {len(found)} of them" if found else "names none"
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


@command("pull", summary="Print the state document")
@state_flags
def pull(**given: Any) -> int:
    """Print the state document as it would be written now, to keep or to edit and push back."""
    from nexusform.state.codec import encode

    screen = Screen()
    state = read_for(screen, given)
    if state is None:
        return 1
    if exists(state):
        click.echo(encode(state), nl=False)
    return 0
