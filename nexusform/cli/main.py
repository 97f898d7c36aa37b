"""Entry point: command dispatch and error handling.

Commands are imported on use, for a fast `version` and `-help`.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

import nexusform
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.command_table import COMMANDS
from nexusform.cli.global_options import apply_global_options
from nexusform.cli.other_tools import list_variable_notes
from nexusform.cli.removed_words import RemovedCommandError
from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.diagnostics.missing_packages import describe_missing_package, find_extra
from nexusform.files.access_record import start_access_record
from nexusform.files.run_log import format_traceback, log_event, start_log
from nexusform.workflow.opening.garbage_collection import collect_garbage_rarely

# Usual stack size of the main thread, in bytes.
_STACK_BYTES: Final = 8 << 20
_RECURSION_LIMIT: Final = 3_000
_NOTHING_LOST: Final = "The state and its journal are intact up to the last finished step."
_OUT_OF_MEMORY: Final = f"Error: Out of memory. {_NOTHING_LOST}\n".encode()
ALIASES: Final[dict[str, str]] = {"why": "explain"}
# Terraform commands without an equivalent, and their replacements.
_HINTS: Final[dict[str, str]] = {
    "preview": 'Use "nexusform plan".',
    "diff": 'Use "nexusform plan".',
    "drift": (
        'Use "nexusform plan -refresh-only" for the state, or "nexusform reconcile" for a site.'
    ),
    "up": 'Use "nexusform apply".',
    "down": 'Use "nexusform destroy".',
    "login": (
        "nexusform has no login: backends and providers read their own credentials "
        "(docs/state-and-teams.md)."
    ),
    "logout": "nexusform has no login, so there is no logout.",
    "env": 'Use "nexusform workspace".',
    "cloud": (
        'nexusform has no service: state is in your backend. Use "nexusform sites" for many sites.'
    ),
    "push": 'Use "nexusform state push".',
    "query": 'Use "nexusform inventory" to export a site.',
    "stacks": 'Use "nexusform sites".',
    "debug": "NF_LOG=debug logs to stderr.",
    "logs": "NF_LOG=debug logs to stderr.",
    "status": 'Use "nexusform show" for the state, or "nexusform sites status" for many sites.',
    "describe": (
        'Use "nexusform state show ADDRESS", or "nexusform explain ADDRESS" for its placement.'
    ),
    "ls": 'Use "nexusform state list".',
    "delete": 'Use "nexusform destroy".',
    "lint": 'Use "nexusform validate" for errors, or "nexusform advise" for risks.',
    "check": 'Use "nexusform validate" for errors, or "nexusform advise" for risks.',
    "undo": (
        'Revert the commit, then use "nexusform plan" and "nexusform apply" '
        "(docs/undo-a-change.md)."
    ),
    "rollback": (
        'Revert the commit, then use "nexusform plan" and "nexusform apply" '
        "(docs/undo-a-change.md)."
    ),
    "cancel": (
        'Press Ctrl-C in the running command. If it has ended, use "nexusform force-unlock ID".'
    ),
}

_APPLY_COMMANDS: Final = frozenset(("apply", "destroy"))
_COMMAND_IN_TEXT: Final = re.compile(r'"nexusform ([a-z-]+)')


def _names_only_available_commands(text: str) -> bool:
    """Return whether a domain without a folder has no command that a text names."""
    return all(name in COMMANDS for name in _COMMAND_IN_TEXT.findall(text))


ROOT: Final = LazyGroup(
    "nexusform",
    COMMANDS,
    aliases=ALIASES,
    summary="Placement planning for Azure Operator Nexus, in Terraform style.",
    epilogue="Use -chdir=DIR before the command to run it in DIR. More: nexusform COMMAND -help.",
    hints={name: hint for name, hint in _HINTS.items() if _names_only_available_commands(hint)},
)


def main() -> NoReturn:
    """Run the command of `sys.argv` and exit with its code."""
    raise_recursion_limit()
    collect_garbage_rarely()
    try:
        code = run_command_line(sys.argv[1:])
    except MemoryError:
        # Even the usual message and the end of the interpreter need more memory.
        os.write(2, _OUT_OF_MEMORY)
        os._exit(1)
    sys.exit(code)


def raise_recursion_limit() -> None:
    """Raise the recursion limit for deeply nested documents.

    The limit is for 512 levels with several calls each; Python's default is 1,000. A call from C
    takes up to 2.7 KB of stack (a key of `sort`), so 8 MB suffice. With a smaller stack Python's
    limit stays, and deeper documents are rejected.
    """
    if sys.platform == "win32":
        return
    import resource
    import threading

    stack_limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if stack_limit == resource.RLIM_INFINITY or stack_limit >= _STACK_BYTES:
        threading.stack_size(_STACK_BYTES)
        sys.setrecursionlimit(_RECURSION_LIMIT)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    Problems, interrupts and bugs all end in a message and a code.
    """
    _prepare_streams()
    try:
        code = _run_command(arguments)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader of stdout ended, as in `nexusform show | head`; click raises SystemExit then.
        # stdout is redirected to the null device, so that the flush at exit succeeds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if _APPLY_COMMANDS.intersection(arguments):
            _print_to_stderr(
                f"Error: stdout was closed, so the command stopped. {_NOTHING_LOST} "
                "`nexusform apply -resume` continues an unfinished apply."
            )
        return 1
    except OSError as problem:
        if _is_current_directory_deleted():
            _print_to_stderr(
                "Error: the current directory was deleted. Change to another one, or use "
                "-chdir=DIR."
            )
            return 1
        # Disk full (`nexusform plan > FILE`), quota exceeded, file too large, I/O error.
        write_errors = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if problem.errno not in write_errors:
            return _report_internal_error(problem)
        # The null device, as above.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _print_to_stderr(
            f"Error: the output cannot be written: {problem.strerror}. State and journal are "
            "intact. Free disk space and run the command again."
        )
        return 1
    except ImportError as problem:
        if not find_extra(problem):
            return _report_internal_error(problem)
        _print_to_stderr(
            f"Error: This command needs {describe_missing_package(problem)}. {_NOTHING_LOST}"
        )
        return 1
    except Exception as bug:  # noqa: BLE001
        # The only handler that turns a bug into a message.
        return _report_internal_error(bug)
    return code


def _is_current_directory_deleted() -> bool:
    try:
        return not Path.cwd().exists()
    except FileNotFoundError:
        return True


def _prepare_streams() -> None:
    """Open closed streams, and let output have any character.

    Stdin first, to get the lowest free descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            # A character unsupported by the terminal becomes `?`.
            stream.reconfigure(errors="replace")


def _run_command(arguments: Sequence[str]) -> int:
    """Run the command of a line.

    Return its exit code, 1 after printing an expected error or at an interrupt.
    """
    # The line after global options; the command is first.
    remaining: list[str] = []
    start_access_record()
    try:
        remaining = apply_global_options(list(arguments))
        _start_log(remaining)
        _check_clock()
        # A shell completes a line.
        if "_NEXUSFORM_COMPLETE" in os.environ:
            import nexusform.cli.completion  # noqa: F401 - it knows the shells
        code: int = ROOT.main(remaining, prog_name="nexusform", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as problem:
        # The help text.
        click.echo(problem.message)
        return 1
    except click.UsageError as problem:
        command_path = problem.ctx.command_path if problem.ctx else "nexusform"
        text = f"Error: {problem.format_message()}\n\nRun {command_path} -help for usage."
        _print_to_stderr(text)
        return 1
    except RemovedCommandError as problem:
        click.echo(f"Error: {problem.format_message()}", err=True)
        return 1
    except click.ClickException as problem:
        # An access that a sandboxed run does not allow.
        _print_to_stderr(f"Error: {problem.format_message()}")
        return 1
    except DiagnosticsError as failure:
        # Errors that end a run anywhere, such as an exceeded read budget.
        for diagnostic in failure.diagnostics:
            _print_to_stderr(f"Error: {diagnostic.summary}\n\n{diagnostic.detail}")
        return 1
    except (click.Abort, KeyboardInterrupt):
        name = remaining[0] if remaining else ""
        entry = COMMANDS.get(ALIASES.get(name, name))
        is_unchanged = entry is not None and entry.is_read_only
        unchanged_note = " No changes were made." if is_unchanged else ""
        click.echo(f"\nInterrupted.{unchanged_note}", err=True)
        return 1
    return code


def _check_clock() -> None:
    """Raise a usage error for a SOURCE_DATE_EPOCH that is not a time: a plan would ignore it."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        from nexusform.providers.clock import check_clock

        problem = check_clock(os.environ)
        if problem:
            raise click.UsageError(problem)


def _start_log(arguments: Sequence[str]) -> None:
    """Start logging as set by NF_LOG; log the names of flags without values."""
    problem = start_log(os.environ)
    if problem:
        raise click.UsageError(problem)
    # A shell that completes a line shows nothing else.
    if "_NEXUSFORM_COMPLETE" not in os.environ:
        for note in list_variable_notes(os.environ, arguments):
            _print_to_stderr(note)
    flags = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    command = arguments[0].partition("=")[0] if arguments else ""
    log_event("info", "command", name=command, flags=flags, version=nexusform.__version__)


def _report_internal_error(bug: Exception) -> int:
    """Report a bug in one paragraph and write the traceback to a file.

    Lack of memory is not a bug.
    """
    if _is_out_of_memory(bug):
        _print_to_stderr(f"Error: Out of memory. {_NOTHING_LOST}")
        return 1
    # Its addresses (URLs) may have passwords.
    text = format_traceback(bug)
    traceback_text = re.sub(
        r"\w+://[^\s'\"]+", lambda match: _ADDRESS_SECRETS.sub("...", match[0]), text
    )
    if os.environ.get("NF_LOG", "").lower() in ("debug", "trace", "json"):
        click.echo(traceback_text, err=True)
    name = type(bug).__name__
    _print_to_stderr(
        f"Error: Internal error ({name}). {_NOTHING_LOST} {_save_traceback(traceback_text)}"
    )
    return 1


def _is_out_of_memory(problem: Exception) -> bool:
    """Return whether memory was missing, also for a library or a thread."""
    if isinstance(problem, MemoryError):
        return True
    if isinstance(problem, OSError) and problem.errno == errno.ENOMEM:
        return True
    if not isinstance(problem, ImportError | RuntimeError | OSError):
        return False
    # The import of a library and the start of a thread report it by a message only.
    message = str(problem).lower()
    signs = ("cannot allocate memory", "failed to map segment", "can't start new thread")
    return any(sign in message for sign in signs)


def _print_to_stderr(text: str) -> None:
    """Print a text to stderr, wrapped to the terminal width."""
    from nexusform.cli.terminal_screen import Screen
    from nexusform.rendering.notation.colours import wrap_lines

    click.echo("\n".join(wrap_lines(text, Screen().width)), err=True)


# Secret parts of an address: credentials, and tokens in the query.
_ADDRESS_SECRETS: Final = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)|(?<=\?)[^\s'\"]+")


def _save_traceback(traceback_text: str) -> str:
    """Save the traceback and return a sentence with its path."""
    import tempfile

    try:
        handle, path = tempfile.mkstemp(prefix="nexusform-crash-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8") as log:
            log.write(f"nexusform {nexusform.__version__}\n{traceback_text}")
    except OSError:
        return (
            "Please report it; NF_LOG=debug prints the details, which could not be written to a "
            "file."
        )
    return (
        f"The details are in {path}. Please report it, with that file and, if you can, the "
        "configuration that led to it."
    )
