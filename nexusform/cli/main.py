"""Entry point: which command is asked for, and what happens when one goes wrong.

Importing this module and answering `version` or `-help` loads none of the heavy libraries; each
command is imported when it is run.
"""

from __future__ import annotations

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
from nexusform.cli.commands import Entry, LazyGroup, RemovedCommandError, take_global_options
from nexusform.diagnostics import Refused
from nexusform.domain_table import is_there
from nexusform.log import log, start

# One line per command: its name, where it lives, and what `-help` says of it.
_COMMANDS: Final[dict[str, Entry]] = {
    "init": Entry("nexusform.cli.init:init", "Check the configuration and prepare the backend"),
    "validate": Entry("nexusform.cli.validate:validate", "Validate the configuration"),
    "plan": Entry("nexusform.cli.plan:plan", "Show planned changes and placements"),
    "apply": Entry("nexusform.cli.apply:apply", "Apply a plan"),
    "destroy": Entry("nexusform.cli.shorthands:destroy", "Destroy all resources in the state"),
    "sign": Entry("nexusform.cli.sign:sign", "Sign an approved plan"),
    "show": Entry("nexusform.cli.show:show", "Show the state, a saved plan or one resource"),
    "output": Entry("nexusform.cli.output:output", "Show the root module's outputs"),
    "explain": Entry("nexusform.cli.explain:explain", "Explain a placement"),
    "simulate": Entry(
        "nexusform.domains.whatif.cli.simulate:simulate",
        "Simulate capacity, failures, upgrades and repacking",
    ),
    "sites": Entry("nexusform.domains.sites.cli.sites:sites", "Plan and apply many sites"),
    "advise": Entry("nexusform.cli.advise:advise", "List placement risks"),
    "graph": Entry("nexusform.cli.graph:graph", "Draw the dependency graph"),
    "console": Entry("nexusform.cli.console:console", "Evaluate expressions"),
    "fmt": Entry("nexusform.cli.fmt:fmt", "Format configuration files"),
    "predict": Entry(
        "nexusform.domains.azure.cli.predict:predict", "Predict placement for a Terraform, ARM or Bicep plan"
    ),
    "export": Entry("nexusform.cli.export:export", "Export a saved plan for other tools"),
    "import": Entry("nexusform.cli.import_:import_", "Import an existing resource"),
    "inventory": Entry("nexusform.domains.azure.cli.inventory:inventory", "Export a site, check the export"),
    "reconcile": Entry(
        "nexusform.domains.azure.cli.reconcile:reconcile_", "Detect drift between site and state"
    ),
    "state": Entry("nexusform.cli.main:STATE", "Inspect and edit the state"),
    "untaint": Entry("nexusform.cli.state_edit:untaint", "Remove the taint of a resource"),
    "workspace": Entry("nexusform.cli.workspace:workspace", "Manage workspaces"),
    "force-unlock": Entry("nexusform.cli.state_lock:force_unlock", "Remove a stale lock"),
    "test": Entry("nexusform.domains.testing.cli.test:test", "Run test files"),
    "providers": Entry("nexusform.cli.metadata:providers", "Print the schemas of all types"),
    "explore": Entry("nexusform.domains.explorer.cli.explore:explore", "Explore the plan in a browser"),
    "lsp": Entry("nexusform.domains.editor.cli.lsp:lsp", "Start the language server"),
    "completion": Entry("nexusform.cli.completion:completion", "Print a shell completion script"),
    "version": Entry("nexusform.cli.version:version", "Show the version"),
}
COMMANDS: Final[dict[str, Entry]] = {
    name: entry for name, entry in _COMMANDS.items() if is_there(entry.target)
}
# No room, no quota, a file as large as may be, a device that fails.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_STACK: Final = 8 << 20  # bytes, what systems give the first thread
_CALLS: Final = 3_000
_SAFE: Final = (
    "Nothing that was recorded is lost: the state and its journal are as the last finished step left them."
)
# The same of `nexusform state ...`.
_STATE_COMMANDS: Final[dict[str, Entry]] = {
    "list": Entry("nexusform.cli.state_view:list_instances", "List resource instances"),
    "show": Entry("nexusform.cli.state_view:show", "Show one resource instance"),
    "mv": Entry("nexusform.cli.state_edit:mv", "Rename a resource or module"),
    "rm": Entry("nexusform.cli.state_edit:rm", "Remove resources from the state"),
    "verify": Entry("nexusform.cli.state_view:verify", "Check the state for errors"),
    "pull": Entry("nexusform.cli.state_view:pull", "Print the state document"),
    "push": Entry("nexusform.cli.state_edit:push", "Replace the state with a document"),
    "history": Entry("nexusform.cli.state_view:history", "List stored versions of the state"),
    "rollback": Entry("nexusform.cli.state_edit:rollback_to", "Restore an earlier version of the state"),
}
ALIASES: Final[dict[str, str]] = {"why": "explain"}
_CHAPTERS: Final[dict[str, tuple[str, ...]]] = {
    "Main commands": ("init", "validate", "fmt", "plan", "apply", "destroy", "show", "output"),
    "Analysis": ("explain", "simulate", "advise", "predict", "explore", "graph", "console"),
    "Sites": ("sites", "import", "inventory", "reconcile"),
    "State": ("state", "workspace", "untaint", "force-unlock"),
    "Other tools": ("sign", "export", "test", "lsp", "completion"),
}
# Commands of Terraform that there are none of, and what is done instead.
_HINTS: Final[dict[str, str]] = {
    "login": "Nothing is signed in to: backends and providers read their own credentials "
    "(docs/state-and-teams.md).",
    "logout": "Nothing is signed in to, so there is nothing to sign out of.",
    "env": 'Workspaces are "nexusform workspace".',
    "cloud": "There is no service behind nexusform: state lies in a backend of yours, many sites are planned "
    'with "nexusform sites".',
    "push": 'State is replaced with "nexusform state push".',
    "query": 'What stands on a site is captured with "nexusform inventory".',
    "stacks": 'Many configurations under one plan are "nexusform sites".',
    "debug": "NF_LOG=debug writes what happens to stderr.",
}
# These change neither state nor any site.
_ONLY_LOOKING: Final = frozenset(
    ("validate", "plan", "show", "output", "explain", "why", "simulate", "advise", "graph")
) | frozenset(("console", "predict", "explore", "version", "providers"))

ROOT: Final = LazyGroup(
    "nexusform",
    COMMANDS,
    aliases=ALIASES,
    summary="Placement planning for Azure Operator Nexus, in Terraform style.",
    epilogue="Use -chdir=DIR before the command to run it in DIR. More: nexusform COMMAND -help.",
    chapters=_CHAPTERS,
    hints=_HINTS,
)
STATE: Final = LazyGroup(
    "state",
    _STATE_COMMANDS,
    summary="Inspect and edit the state.",
    hints={
        "replace-provider": "A block's provider argument says who carries it out; the next plan takes that "
        "over.",
        "identities": 'Ids are among the attributes: "nexusform state show ADDRESS".',
    },
)


def main() -> NoReturn:
    """Run the command of `sys.argv` and exit with its code."""
    let_calls_nest()
    sys.exit(run(sys.argv[1:]))


def let_calls_nest() -> None:
    """Let calls nest as deep as documents may (512 levels, some calls a level; Python's own bound is 1,000).

    A call that C makes takes up to 2.7 KB of stack (a key of `sort`): 8 MB last for all of them. Where
    the stack is smaller Python's bound stays, and what is too deep for it is refused.
    """
    if sys.platform == "win32":
        return
    import resource
    import threading

    most, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if most == resource.RLIM_INFINITY or most >= _STACK:
        threading.stack_size(_STACK)
        sys.setrecursionlimit(_CALLS)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    Nothing escapes: bad usage, a closed pipe, a full disk, an interrupt and even a bug end in a
    message and a code.
    """
    _prepare_streams()
    try:
        code = _command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_has_gone()
    except OSError as problem:
        return _output_does_not_fit(problem) if problem.errno in _FULL else _bug(problem)
    except Exception as bug:  # noqa: BLE001 - the one place where a bug becomes a message
        return _bug(bug)
    return code


def _command(arguments: Sequence[str]) -> int:
    """Run the command of a line; its exit code."""
    remaining: list[str] = []
    try:
        remaining = take_global_options(list(arguments))
        _start_log(remaining)
        if "_NEXUSFORM_COMPLETE" in os.environ:  # a shell completes a line
            import nexusform.cli.completion  # noqa: F401 - it knows the shells
        result = ROOT.main(remaining, prog_name="nexusform", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as problem:
        click.echo(problem.ctx.get_help() if problem.ctx else "")
        return 1
    except click.UsageError as problem:
        return _usage_error(problem)
    except RemovedCommandError as problem:
        click.echo(f"Error: {problem.format_message()}", err=True)
        return 1
    except Refused as refused:
        # What ends a run wherever it is met, such as the budget of files that it may read.
        for each in refused.diagnostics:
            _say(f"Error: {each.summary}\n\n{each.detail}")
        return 1
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        only_looked = remaining[:1] != [] and remaining[0] in _ONLY_LOOKING
        nothing = " Nothing was changed." if only_looked else ""
        click.echo(f"\nInterrupted.{nothing}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _start_log(arguments: Sequence[str]) -> None:
    """Log as NF_LOG says, from here on; which flags are set, and not to what."""
    problem = start(os.environ)
    if problem:
        raise click.UsageError(problem)
    for theirs in ("TF_LOG", "TF_LOG_PATH"):
        ours = theirs.replace("TF_", "NF_")
        if theirs in os.environ and ours not in os.environ:
            click.echo(f"{theirs} is set and not read: nexusform reads {ours}.", err=True)
    words = [word.partition("=")[0] if word.startswith("-") else word for word in arguments]
    flags = [word for word in words if word.startswith("-")]
    log("info", "command", name=words[0] if words else "", flags=flags, version=nexusform.__version__)


def _bug(bug: Exception) -> int:
    """What a user sees of a bug: one paragraph; the traceback goes to a file.

    Running out of memory is none: then the machine is too small for what is asked.
    """
    if isinstance(bug, MemoryError):
        _say(f"Error: The memory of this machine does not suffice for this. {_SAFE}")
        return 1
    from traceback import format_exception

    trace = _without_secrets("".join(format_exception(bug)))
    if os.environ.get("NF_LOG", "").lower() in ("debug", "trace", "json"):
        click.echo(trace, err=True)
    name = type(bug).__name__
    _say(f"Error: nexusform met a bug of its own ({name}). {_SAFE} {_traceback_kept(trace)}")
    return 1


def _say(text: str) -> None:
    """Tell it on stderr, as wide as the terminal is."""
    from nexusform.cli.screen import Screen
    from nexusform.rendering.notation.colours import wrap

    click.echo("\n".join(wrap(text, Screen().width)), err=True)


# What an address may hold beside the place: who signs in and how, and a token among the questions.
_SECRETS: Final = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)|(?<=\?)[^\s'\"]+")


def _without_secrets(trace: str) -> str:
    """A traceback that may be handed to others: addresses without credentials and questions."""
    return re.sub(r"\w+://[^\s'\"]+", lambda address: _SECRETS.sub("...", address[0]), trace)


def _traceback_kept(trace: str) -> str:
    """Where the traceback stands now, in a sentence."""
    import tempfile

    try:
        handle, path = tempfile.mkstemp(prefix="nexusform-crash-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8") as log:
            log.write(f"nexusform {nexusform.__version__}\n{trace}")
    except OSError:
        return "Please report it; NF_LOG=debug prints the details, which could not be written to a file."
    return (
        f"The details are in {path}. Please report it, with that file and, if you can, the configuration "
        "that led to it."
    )


def _prepare_streams() -> None:
    """`nexusform plan <&- >&-` leaves no streams at all; then nothing is read, and what is said goes nowhere.
    A terminal that lacks a character shows a question mark for it.
    """
    # stdin first: the lowest free descriptor is its own, and stays so whatever is opened later.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _usage_error(problem: click.UsageError) -> int:
    where = problem.ctx.command_path if problem.ctx else "nexusform"
    text = f"Error: {problem.format_message()}\n\nRun {where} -help for what it takes."
    _say(text)
    return 1


def _reader_has_gone() -> int:
    """`nexusform show | head`: the rest of the output has no reader, which is no error of ours.

    stdout is pointed at nothing, so that the flush at exit meets no closed pipe.
    """
    _silence_stdout()
    return 1


def _output_does_not_fit(problem: OSError) -> int:
    """`nexusform plan > FILE` on a full disk."""
    _silence_stdout()
    _say(
        f"Error: the output cannot be written: {problem.strerror}. Nothing that was recorded is lost; make "
        "room and run the command again."
    )
    return 1


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
