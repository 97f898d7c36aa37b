"""Commands that change the state.

They are `nexusform state mv`, `state rm`, `state push`, `state rollback`,
`untaint` and `force-unlock`.
"""

import sys
from collections.abc import Sequence

from msgspec import Struct

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_positional,
    declare_positionals,
    declare_switch_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import StateLockFlags, create_context, declare_state_flag
from nexusform.cli.state_view import NO_STATE
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.documents.scalars import parse_integer
from nexusform.files.external_files import ArgumentFile
from nexusform.files.regular_files import read_regular
from nexusform.network.read_limits import ReadByteLimit
from nexusform.state import state_edits
from nexusform.state.objects import State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.plan_files.saved_plans import decrypt_document
from nexusform.workflow.runs.state_locking import LockOptions, break_lock, find_lock_holder
from nexusform.workflow.states import state_commands
from nexusform.workflow.states.state_commands import (
    StateChange,
    StateChangeResult,
    StateCommandContext,
    change_state,
    has_been_written,
    parse_patterns,
    read_state,
)
from nexusform.workflow.states.state_history import create_rollback_change


def run_state_change(
    screen: Screen,
    operation: str,
    change: StateChange,
    context: CommandContext,
    locking: LockOptions,
    *,
    force: bool = False,
    rescued: State | None = None,
) -> StateChangeResult:
    """Change the state and print the diagnostics.

    `rescued` is a state to push, perhaps one not saved by an apply.
    """
    session = StateCommandContext(on_wait=screen.print_text)
    result = change_state(
        context, operation, locking, change, session=session, force=force, rescued=rescued
    )
    diagnostics = list(result.diagnostics)
    if result.before is not None and result.after is None:
        diagnostics = _explain_missing_state(result.before, diagnostics)
    screen.print_diagnostics(diagnostics, result.sources)
    return result


def _explain_missing_state(state: State, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics of a rejected change, with the error of a missing state instead."""
    if has_been_written(state):
        return list(diagnostics)
    # The missing state explains them.
    irrelevant_ids = ("no-matching-objects-found", "nothing-to-move")
    kept = [diagnostic for diagnostic in diagnostics if diagnostic.id not in irrelevant_ids]
    return [*kept, NO_STATE]


class MoveArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state mv`."""

    dry_run: bool = declare_switch_flag("Only show the moves")
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    source: str = declare_positional()
    target: str = declare_positional()


@define_command("mv", MoveArguments)
def mv(arguments: MoveArguments) -> int:
    """Rename SOURCE to TARGET in the state: instances, resources or modules.

    Nothing is destroyed or created. Use it after renaming a block; a `moved` block does the same in
    a reviewed plan.
    """
    screen = Screen()
    patterns, problems = parse_patterns((arguments.source, arguments.target))
    if problems:
        return screen.print_failure(problems)
    source, target = patterns
    before = _apply_state_change(
        screen, "state mv", state_commands.create_move_change(source, target), arguments
    )
    if before is None:
        return 1
    # Old and new addresses.
    pairs = state_edits.plan_moves(before, source, target)
    for old, new in pairs:
        screen.print_text(f'{"Would move" if arguments.dry_run else "Move"} "{old}" to "{new}"')
    if not arguments.dry_run:
        screen.print_text(f"Successfully moved {len(pairs)} object(s).")
    return 0


class RemoveArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state rm`."""

    dry_run: bool = declare_switch_flag("Only show the objects to forget")
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    addresses: tuple[str, ...] = declare_positionals(required=True)


@define_command("rm", RemoveArguments)
def rm(arguments: RemoveArguments) -> int:
    """Remove ADDRESSES from the state: instances, resources or modules.

    The objects keep running, unmanaged. Their racks and machines record such VMs, so plans keep
    their capacity reserved. RACK:VM removes such a record.
    """
    from nexusform.planning.preparation.target_selection import split_object_address

    screen = Screen()
    # Addresses of objects.
    objects: list[str] = []
    # The address of a rack or machine, and the name of a VM recorded there.
    vms: list[tuple[str, str]] = []
    for text in arguments.addresses:
        address, vm_name = split_object_address(text)
        if vm_name:
            vms.append((address, vm_name))
        else:
            objects.append(address)
    patterns, problems = parse_patterns(objects)
    owner_patterns, owner_problems = parse_patterns([owner for owner, _ in vms])
    if problems or owner_problems:
        return screen.print_failure([*problems, *owner_problems])
    vms_by_pattern = list(zip(owner_patterns, [name for _, name in vms], strict=True))
    change = state_commands.create_remove_change(patterns, vms_by_pattern)
    before = _apply_state_change(screen, "state rm", change, arguments)
    if before is None:
        return 1
    removed = state_edits.select_instances(before, patterns) if patterns else []
    verb = "Would remove" if arguments.dry_run else "Removed"
    for owner, vm_name in vms:
        screen.print_text(f"{verb} {owner}:{vm_name}")
    for removed_address in removed:
        screen.print_text(f"{verb} {removed_address}")
    # Not after removing records of VMs only.
    if not arguments.dry_run and (removed or not vms):
        screen.print_text(f"Successfully removed {len(removed)} resource instance(s).")
    return 0


def _apply_state_change(
    screen: Screen, operation: str, change: StateChange, arguments: MoveArguments | RemoveArguments
) -> State | None:
    """Apply the change, or with -dry-run only check it.

    Return the state before the change, or None with errors.
    """
    context = create_context(arguments.state)
    if arguments.dry_run:
        # Nothing is locked or written.
        reading = read_state(context)
        diagnostics = list(reading.diagnostics)
        if reading.state is not None:
            # The new state is not used.
            _, problems = change(reading.state)
            diagnostics += problems
            if has_errors(problems):
                diagnostics = _explain_missing_state(reading.state, diagnostics)
        screen.print_diagnostics(diagnostics, reading.sources)
        return None if has_errors(diagnostics) else reading.state
    result = run_state_change(screen, operation, change, context, arguments.lock.build_options())
    return result.before if result.after is not None else None


class PushArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state push`."""

    force: bool = declare_switch_flag("Overwrite a state of another lineage, or a newer one")
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    file: str = declare_positional(file=ArgumentFile("state"))


@define_command("push", PushArguments)
def push(arguments: PushArguments) -> int:
    """Replace the state with the document in FILE (- is stdin)."""
    screen = Screen()
    document = read_state_to_push(screen, arguments.file, create_context(arguments.state))
    if document is None:
        return 1
    force = arguments.force
    change = state_commands.create_push_change(document, arguments.file, force=force)
    context = create_context(arguments.state)
    locking = arguments.lock.build_options()
    result = run_state_change(
        screen, "state push", change, context, locking, force=force, rescued=document
    )
    return 0 if result.after is not None else 1


def read_state_to_push(screen: Screen, file: str, context: CommandContext) -> State | None:
    """Read the state in a file (- is stdin).

    Print the errors and return None if it cannot be read.
    """
    try:
        if file == "-":
            data = ReadByteLimit(context.get_max_file_size()).read_all(sys.stdin.buffer)
        else:
            data = read_regular(
                context.confinement.resolve_path_of_operator(file), context.get_max_file_size()
            )
    except OSError as problem:
        detail = f"{file} cannot be read: {problem.strerror}."
        screen.print_diagnostics([build_error("unreadable-input-file", detail)], sources={})
        return None
    data, problems = decrypt_document(data, file, context)
    if has_errors(problems):
        screen.print_diagnostics(problems, sources={})
        return None
    state, problems, sources = state_commands.decode_document(data, file)
    screen.print_diagnostics(problems, sources)
    return state


class UntaintArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `untaint`."""

    address: str = declare_positional()
    allow_missing: bool = declare_switch_flag("Do not fail if the object does not exist")
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()


@define_command("untaint", UntaintArguments)
def untaint(arguments: UntaintArguments) -> int:
    """Remove the taint of the resource instance at ADDRESS."""
    screen = Screen()
    patterns, problems = parse_patterns((arguments.address,))
    if problems:
        return screen.print_failure(problems)
    change = state_commands.create_untaint_change(
        patterns[0], allow_missing=arguments.allow_missing
    )
    context = create_context(arguments.state)
    result = run_state_change(screen, "untaint", change, context, arguments.lock.build_options())
    if result.before is None or result.after is None:
        return 1
    address = state_edits.find_instance(result.before, patterns[0])
    # Otherwise a warning is printed.
    if address is not None:
        screen.print_text(f"Resource instance {address} has been successfully untainted.")
    return 0


class RollbackArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `state rollback`."""

    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    serial: str = declare_positional()


@define_command("rollback", RollbackArguments)
def rollback_to(arguments: RollbackArguments) -> int:
    """Restore the state with this SERIAL, as a new version.

    Only the state changes, no object does. The next plan shows the differences.
    """
    screen = Screen()
    serial = parse_integer(arguments.serial)
    if serial is None:
        detail = (
            f'"{arguments.serial}" is not a serial. `nexusform state history` lists the serials.'
        )
        return screen.print_failure([build_error("no-such-version", detail)])
    context = create_context(arguments.state)
    change, diagnostics, sources = create_rollback_change(context, serial)
    screen.print_diagnostics(diagnostics, sources)
    if change is None:
        return 1
    result = run_state_change(
        screen, "state rollback", change, context, arguments.lock.build_options()
    )
    if result.after is None:
        return 1
    screen.print_wrapped(f"Restored the state of serial {serial} as serial {result.after.serial}.")
    screen.print_text("No object was changed. `nexusform plan` shows the differences.")
    return 0


class ForceUnlockArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `force-unlock`."""

    lock_id: str = declare_positional(metavar="ID")
    force: bool = declare_switch_flag("Skip the confirmation")
    state: str = declare_state_flag()


@define_command("force-unlock", ForceUnlockArguments)
def force_unlock(arguments: ForceUnlockArguments) -> int:
    """Remove the lock with this ID, as named in the error message.

    Make sure that its holder no longer runs. It would stop at its next write, with
    a step unrecorded.
    """
    screen = Screen()
    holder, problems, sources = find_lock_holder(create_context(arguments.state))
    # `break_lock` (below) reports problems.
    if holder is None and not problems:
        screen.print_error("The state is not locked.")
        return 1
    if not arguments.force:
        if not is_input_allowed(flag=True):
            screen.print_error(
                "Input is disabled (NF_INPUT). Use -force to unlock without a prompt."
            )
            return 1
        answer = screen.prompt_user(
            "Do you really want to force-unlock?",
            "This removes the lock. A run that is still active could then write\n"
            "the same state. Only 'yes' will be accepted to confirm.",
        )
        if answer != "yes":
            screen.print_text("force-unlock cancelled.")
            return 1
    problems, sources = break_lock(create_context(arguments.state), arguments.lock_id)
    screen.print_diagnostics(problems, sources)
    if problems:
        return 1
    screen.print_text("The state has been successfully unlocked!")
    return 0
