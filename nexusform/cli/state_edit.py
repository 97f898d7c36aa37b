"""`nexusform state mv`, `state rm`, `state push`, `state rollback` and `untaint`."""

from __future__ import annotations

import sys

from msgspec import Struct

from nexusform.address import Address
from nexusform.backends.refusals import Reading
from nexusform.cli.arguments import group, positional, positionals, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, place_of, state_flag
from nexusform.cli.screen import Screen
from nexusform.cli.state_view import NO_STATE
from nexusform.diagnostics import error, has_errors
from nexusform.regular_files import read_regular
from nexusform.state.objects import State
from nexusform.workflow.opening.place import Place
from nexusform.workflow.plan_files.saved_plans import unsealed
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.states import state_commands
from nexusform.workflow.states.state_commands import (
    ChangedState,
    Session,
    StateChange,
    change_state,
    exists,
    parse_patterns,
    read_state,
)
from nexusform.workflow.states.state_history import rollback


def change_from(
    screen: Screen,
    operation: str,
    change: StateChange,
    place: Place,
    locking: Locking,
    *,
    force: bool = False,
    rescued: State | None = None,
) -> ChangedState:
    """Make a change at the place; what is to be told is printed. See change_state."""
    session = Session(waiting=screen.out)
    changed = change_state(place, operation, locking, change, session=session, force=force, rescued=rescued)
    diagnostics = list(changed.diagnostics)
    if changed.before is not None and changed.after is None and not exists(changed.before):
        beside_the_point = ("no-matching-objects-found", "nothing-to-move")
        diagnostics = [each for each in diagnostics if each.id not in beside_the_point]
        diagnostics.append(NO_STATE)
    screen.diagnostics(diagnostics, changed.sources)
    return changed


class MoveArguments(Struct, frozen=True, kw_only=True):
    """What `state mv` takes."""

    dry_run: bool = switch("Only show the moves")
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    source: str = positional()
    target: str = positional()


@command("mv", MoveArguments)
def mv(arguments: MoveArguments) -> int:
    """Rename SOURCE to TARGET in the state: instances, resources or modules.

    Nothing is destroyed or created. Use it after renaming a block; a `moved` block does the same in
    a reviewed plan.
    """
    screen = Screen()
    patterns, problems = parse_patterns((arguments.source, arguments.target))
    if problems:
        screen.diagnostics(problems, {})
        return 1
    pairs: list[tuple[Address, Address]] = []
    change = state_commands.move(patterns[0], patterns[1], pairs)
    if not _done(screen, "state mv", change, arguments):
        return 1
    for old, new in pairs:
        screen.out(f'{"Would move" if arguments.dry_run else "Move"} "{old}" to "{new}"')
    if not arguments.dry_run:
        screen.out(f"Successfully moved {len(pairs)} object(s).")
    return 0


class RemoveArguments(Struct, frozen=True, kw_only=True):
    """What `state rm` takes."""

    dry_run: bool = switch("Only show the objects to forget")
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    addresses: tuple[str, ...] = positionals(required=True)


@command("rm", RemoveArguments)
def rm(arguments: RemoveArguments) -> int:
    """Remove ADDRESSES from the state: instances, resources or modules.

    The objects keep running, unmanaged. Racks and machines record such VMs, and plans do not use
    their capacity. RACK:VM removes such a record.
    """
    from nexusform.planning.preparation.selection import split_object

    screen = Screen()
    parts = [split_object(text) for text in arguments.addresses]
    vms = [(address, name) for address, name in parts if name]
    patterns, problems = parse_patterns([address for address, name in parts if not name])
    on_patterns, more_problems = parse_patterns([address for address, _ in vms])
    problems += more_problems
    if problems:
        screen.diagnostics(problems, {})
        return 1
    removed: list[Address] = []
    names = [name for _, name in vms]
    change = state_commands.remove(patterns, removed, list(zip(on_patterns, names, strict=True)))
    if not _done(screen, "state rm", change, arguments):
        return 1
    for named in [*(f"{address}:{name}" for address, name in vms), *removed]:
        screen.out(f"{'Would remove' if arguments.dry_run else 'Removed'} {named}")
    if not arguments.dry_run and (removed or not vms):
        screen.out(f"Successfully removed {len(removed)} resource instance(s).")
    return 0


def _done(
    screen: Screen, operation: str, change: StateChange, arguments: MoveArguments | RemoveArguments
) -> bool:
    """Whether the change was made, or with -dry-run whether it could be."""
    place = place_of(arguments.state)
    if arguments.dry_run:
        return _rehearsed(screen, change, place)
    return change_from(screen, operation, change, place, arguments.lock.locking()).after is not None


def _rehearsed(screen: Screen, change: StateChange, place: Place) -> bool:
    """Whether a change could be made to the state as it is; nothing is locked or written."""
    reading = read_state(place)
    diagnostics = list(reading.diagnostics)
    after = None
    if reading.state is not None:
        after, problems = change(reading.state)
        diagnostics += problems
    screen.diagnostics(diagnostics, reading.sources)
    return after is not None and not has_errors(diagnostics)


class PushArguments(Struct, frozen=True, kw_only=True):
    """What `state push` takes."""

    force: bool = switch("Overwrite a state of another lineage, or a newer one")
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    file: str = positional()


@command("push", PushArguments)
def push(arguments: PushArguments) -> int:
    """Replace the state with the document in FILE (- is stdin)."""
    screen = Screen()
    document = document_to_push(screen, arguments.file, place_of(arguments.state))
    if document is None:
        return 1
    force = arguments.force
    change = state_commands.push(document, arguments.file, force=force)
    place, locking = place_of(arguments.state), arguments.lock.locking()
    changed = change_from(screen, "state push", change, place, locking, force=force, rescued=document)
    return 0 if changed.after is not None else 1


def document_to_push(screen: Screen, file: str, place: Place) -> State | None:
    """The state in a file; what is wrong with it is printed."""
    try:
        data = _read_document(file, place)
    except OSError as problem:
        detail = f"{file} cannot be read: {problem.strerror or problem}."
        screen.diagnostics([error("file-cannot-be-read", detail)], {})
        return None
    data, problems = unsealed(data, file, place)
    if has_errors(problems):
        screen.diagnostics(problems, {})
        return None
    state, problems, sources = state_commands.decode_pushed(data, file)
    screen.diagnostics(problems, sources)
    return state


def _read_document(file: str, place: Place) -> bytes:
    """The content of a regular file, or standard input. Raises OSError."""
    if file == "-":
        return Reading(place.largest_file()).take_all(sys.stdin.buffer)
    return read_regular(place.confinement.followed(file), place.largest_file())


class UntaintArguments(Struct, frozen=True, kw_only=True):
    """What `untaint` takes."""

    address: str = positional()
    allow_missing: bool = switch("Do not fail if the object does not exist")
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()


@command("untaint", UntaintArguments)
def untaint(arguments: UntaintArguments) -> int:
    """Remove the taint of the resource instance at ADDRESS."""
    screen = Screen()
    patterns, problems = parse_patterns((arguments.address,))
    if problems:
        screen.diagnostics(problems, {})
        return 1
    addresses: list[Address] = []
    change = state_commands.untaint(patterns[0], addresses, allow_missing=arguments.allow_missing)
    place = place_of(arguments.state)
    if change_from(screen, "untaint", change, place, arguments.lock.locking()).after is None:
        return 1
    for address in addresses:
        screen.out(f"Resource instance {address} has been successfully untainted.")
    return 0


class RollbackArguments(Struct, frozen=True, kw_only=True):
    """What `state rollback` takes."""

    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    serial: str = positional()


@command("rollback", RollbackArguments)
def rollback_to(arguments: RollbackArguments) -> int:
    """Restore the state with this SERIAL, as a new version.

    Only the state changes, no object does. The next plan shows the differences.
    """
    screen = Screen()
    if not arguments.serial.isdigit():
        detail = f'"{arguments.serial}" is not a serial. `nexusform state history` lists them.'
        screen.diagnostics([error("no-such-version", detail)], {})
        return 1
    place = place_of(arguments.state)
    change, diagnostics, sources = rollback(place, int(arguments.serial))
    screen.diagnostics(diagnostics, sources)
    if change is None:
        return 1
    changed = change_from(screen, "state rollback", change, place, arguments.lock.locking())
    if changed.after is None:
        return 1
    screen.say(f"The state is that of serial {arguments.serial} again, under serial {changed.after.serial}.")
    screen.out("No object was changed. `nexusform plan` shows how they differ from it.")
    return 0
