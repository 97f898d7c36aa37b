"""`nexusform state mv`, `state rm` and `state push`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from nexusform.address import Address
from nexusform.cli.commands import command, switch
from nexusform.cli.flags import lock_flags, locking_of, place_of, state_flags
from nexusform.cli.screen import Screen
from nexusform.cli.state_view import NO_STATE
from nexusform.diagnostics import error, has_errors
from nexusform.workflow import state_commands
from nexusform.workflow.state_commands import (
    Change,
    Changed,
    Found,
    Session,
    change_state,
    exists,
    parse_patterns,
    read_state,
)

_LARGEST: Final = 1 << 31  # bytes of a state that is pushed


def change_from(
    screen: Screen, operation: str, change: Change, given: dict[str, Any], *, force: bool = False
) -> Changed:
    """Make a change at the place that the flags name; what is to be told is printed."""
    changed = change_state(
        place_of(given),
        operation,
        locking_of(given),
        change,
        session=Session(waiting=screen.out),
        force=force,
    )
    told = list(changed.diagnostics)
    if changed.before is not None and changed.after is None and not exists(changed.before):
        told = [d for d in told if d.id not in ("no-matching-objects-found", "nothing-to-move")] + [NO_STATE]
    screen.diagnostics(told, changed.sources)
    return changed


def _made(screen: Screen, operation: str, change: Change, given: dict[str, Any], *, dry_run: bool) -> bool:
    """Whether the change was made, or with `dry_run` whether it could be."""
    if dry_run:
        return _rehearsed(screen, change, given)
    return change_from(screen, operation, change, given).after is not None


def _rehearsed(screen: Screen, change: Change, given: dict[str, Any]) -> bool:
    """Whether a change could be made to the state as it is; nothing is locked or written."""
    found: Found = read_state(place_of(given))
    told = list(found.diagnostics)
    done = False
    if found.state is not None:
        after, more = change(found.state)
        told += more
        done = after is not None
    screen.diagnostics(told, found.sources)
    return done and not has_errors(told)


@command("mv", summary="Give an instance, a resource or a module another address")
@switch("dry-run", "Only say what would move")
@lock_flags
@state_flags
@click.argument("source")
@click.argument("target")
def mv(source: str, target: str, dry_run: bool, **given: Any) -> int:
    """Move what stands at SOURCE to TARGET: two instances, two resources, or two modules.

    Nothing is destroyed or made. Write it so when a block was renamed in the configuration; a
    `moved` block does the same in a way that others can review.
    """
    screen = Screen()
    patterns, problems = parse_patterns((source, target))
    if problems:
        screen.diagnostics(problems, {})
        return 1
    pairs: list[tuple[Address, Address]] = []
    change = state_commands.move(patterns[0], patterns[1], pairs)
    if not _made(screen, "state mv", change, given, dry_run=dry_run):
        return 1
    for old, new in pairs:
        screen.out(f'{"Would move" if dry_run else "Move"} "{old}" to "{new}"')
    if not dry_run:
        screen.out(f"Successfully moved {len(pairs)} object(s).")
    return 0


@command("rm", summary="Forget instances without destroying them")
@switch("dry-run", "Only say what would be forgotten")
@lock_flags
@state_flags
@click.argument("addresses", nargs=-1, required=True)
def rm(addresses: tuple[str, ...], dry_run: bool, **given: Any) -> int:
    """Forget what stands at ADDRESSES: instances, whole resources, or modules.

    The objects themselves stay as they are; nexusform no longer knows of them, and the room that
    they take counts as free.
    """
    screen = Screen()
    patterns, problems = parse_patterns(addresses)
    if problems:
        screen.diagnostics(problems, {})
        return 1
    removed: list[Address] = []
    change = state_commands.remove(patterns, removed)
    if not _made(screen, "state rm", change, given, dry_run=dry_run):
        return 1
    for address in removed:
        screen.out(f"{'Would remove' if dry_run else 'Removed'} {address}")
    if not dry_run:
        screen.out(f"Successfully removed {len(removed)} resource instance(s).")
    return 0


@command("push", summary="Replace the state by a document")
@switch("force", "Also when it is of another history, or older than the current state")
@lock_flags
@state_flags
@click.argument("file")
def push(file: str, force: bool, **given: Any) -> int:
    """Replace the current state by the document in FILE (- is standard input)."""
    screen = Screen()
    try:
        data = read_document(file)
    except OSError as problem:
        detail = f"{file} cannot be read: {problem.strerror or problem}."
        screen.diagnostics([error("file-cannot-be-read", detail)], {})
        return 1
    state, problems, sources = state_commands.decode_pushed(data, file)
    if state is None:
        screen.diagnostics(problems, sources)
        return 1
    change = state_commands.push(state, file, force=force)
    return 0 if change_from(screen, "state push", change, given, force=force).after is not None else 1


def read_document(file: str) -> bytes:
    """The content of a regular file, or standard input. Raises OSError."""
    if file == "-":
        return sys.stdin.buffer.read(_LARGEST)
    path = Path(file)
    if path.exists() and not path.is_file():
        raise OSError(0, "it is not a regular file")
    with path.open("rb") as opened:
        return opened.read(_LARGEST)
