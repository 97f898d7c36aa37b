"""`nexusform init` and `nexusform get`."""

import sys

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_ignored_flag,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    StateLockFlags,
    ViewFlags,
    create_context,
    declare_variable_flags,
)
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.files.external_files import ArgumentFile
from nexusform.rendering.notation.colours import Painter, wrap_hanging
from nexusform.workflow.initialization import (
    InitOptions,
    find_missing_files,
    init_directory,
    write_first_file,
)
from nexusform.workflow.module_packages.module_installation import ModuleOptions
from nexusform.workflow.opening.directory_validation import TEST_DIRECTORY


class InitArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `init`."""

    reconfigure: bool = declare_switch_flag("Use the configured backend, forget the previous one")
    migrate_state: bool = declare_switch_flag("Copy the state from the previous backend")
    force_copy: bool = declare_switch_flag("With -migrate-state, overwrite an existing state")
    input: bool = declare_switch_flag("Do not offer a first configuration", default=True)
    upgrade: bool = declare_switch_flag("Select the newest modules")
    from_mirror: str = declare_text_flag(
        "Read modules from a mirror only",
        metavar="DIR",
        file=ArgumentFile("modules, checked by hash"),
    )
    lockfile: str = declare_text_flag(
        "readonly: fail if the lock file of modules would change", metavar="MODE"
    )
    allow_module: tuple[str, ...] = declare_repeatable_text(
        "With -confine, download modules from this prefix", metavar="URL-PREFIX"
    )
    backend: bool = declare_switch_flag("Check the configuration only", default=True)
    test_directory: str = declare_text_flag(
        "Find test files in DIR, not tests",
        metavar="DIR",
        default=TEST_DIRECTORY,
        file=ArgumentFile("tests"),
    )
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("init", InitArguments, accepts=(declare_ignored_flag("get", switch=True),))
def init(arguments: InitArguments) -> int:
    """Download modules, prepare the backend and print a summary.

    -var and -var-file set constant variables: those in the source of a module.

    Works without network if no module is remote. Then, with the local backend, plan and apply do
    not need it.
    """
    if arguments.lockfile not in ("", "readonly"):
        raise click.UsageError("-lockfile: the only mode is readonly.")
    if arguments.upgrade and arguments.lockfile:
        raise click.UsageError("-upgrade and -lockfile=readonly cannot be combined.")
    if arguments.reconfigure and arguments.migrate_state:
        raise click.UsageError("-reconfigure and -migrate-state cannot be combined.")
    options = InitOptions(
        reconfigure=arguments.reconfigure,
        migrate=arguments.migrate_state or arguments.force_copy,
        force_copy=arguments.force_copy,
        has_backend=arguments.backend,
        modules=ModuleOptions(
            upgrade=arguments.upgrade,
            mirror=arguments.from_mirror,
            is_readonly=arguments.lockfile == "readonly",
            test_directory=arguments.test_directory,
        ),
        locking=arguments.lock.build_options(),
    )
    screen = arguments.view.create_screen()
    context = create_context(variables=arguments.variables)
    allowed = (*arguments.allow_module, *context.environment.get("NF_ALLOW_MODULE", "").split())
    context = replace(context, allow_module=allowed)
    if (
        is_input_allowed(arguments.input)
        and sys.stdin.isatty()
        and not _prompt_for_files(screen, context.directory)
    ):
        # A file could not be written.
        return 1
    result = init_directory(context, options, screen.print_text)
    screen.print_diagnostics(result.diagnostics, result.sources)
    if has_errors(result.diagnostics):
        return 1
    for line in result.lines:
        screen.print_text(wrap_hanging(line, screen.width))
    paint = Painter(screen.colour)
    screen.print_text(f"\n{paint('nexusform has been successfully initialized!', 'bold', 'green')}")
    if not screen.is_automated:
        screen.print_text("\nNow `nexusform plan` shows what would change.")
    return 0


def _prompt_for_files(screen: Screen, directory: str) -> bool:
    """Offer to write the missing files of a new directory.

    Return False only if one cannot be written.
    """
    missing = find_missing_files(directory)
    if not missing:
        return True
    names = " and ".join(missing)
    answer = screen.prompt_user(
        f"Write {names}?",
        "  The directory has no configuration. Only 'yes' will be accepted to confirm.",
    )
    for name in missing if answer == "yes" else ():
        try:
            write_first_file(directory, name)
        except OSError as problem:
            screen.print_error(f"Error: {name} cannot be written: {problem.strerror}.")
            return False
        screen.print_text(f"Wrote {name}.")
    return True
