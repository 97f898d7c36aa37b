"""Base of all commands: flags with one or two dashes, and loading on demand.

A command module returns its exit code: @define_command("taint", TaintArguments) def
taint(arguments: TaintArguments) -> int: ... The record declares the arguments; see arguments.py.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    ArgumentWord,
    Flag,
    Record,
    build_arguments_record,
    build_click_parameters,
    declare_ignored_flag,
    declare_repeatable_text,
    declare_switch_or_text,
    list_argument_files,
)
from nexusform.command_entry import CommandEntry, CommandSection
from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.domain_table import collect_removed_words
from nexusform.files.external_files import AllowedWriter, ArgumentFile, PathValueForm

# Only shells that complete load it, and sandboxed runs.
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from nexusform.files.regular_files import Confinement


_INPUT_SUFFIXES: Final = (
    ".hcl",
    ".nfvars",
    ".nfstate",
    ".nf.json",
    ".nfvars.json",
    ".nftest.json",
    ".backup",
    ".journal",
)
# Of commands handling older files themselves.
_CHECKED_OUTPUTS: Final = ("-out", "-generate-config-out")
_PATH_METAVARS: Final = ("FILE", "PLANFILE", "KEYFILE", "DIR")

_HELP_ALL: Final = "--help=all"
_HELP_KEY: Final = "nexusform.help-all"
_TRUST_KEY: Final = "nexusform.trust"
_NO_TEXTS: Final[Mapping[str, str]] = {}


class TrustFlags(Struct, frozen=True, kw_only=True):
    """Flags of every command that reads configuration or state.

    Limits on untrusted configuration.
    """

    confine: str = declare_switch_or_text(
        "Restrict files to DIR (default: work tree), block addresses",
        metavar="DIR",
        file=ArgumentFile("top of the work tree", AllowedWriter.OPERATOR, PathValueForm.WORK_TREE),
    )
    allow_remote: tuple[str, ...] = declare_repeatable_text(
        "With -confine, allow addresses with this prefix", metavar="URL-PREFIX"
    )
    limit: tuple[str, ...] = declare_repeatable_text(
        "Set a resource limit (docs/security.md)", metavar="NAME=N"
    )
    backend_config: tuple[str, ...] = declare_repeatable_text(
        "Set a backend argument, or read a file of them",
        metavar="FILE|K=V",
        file=ArgumentFile("settings of the backend", AllowedWriter.LIMITED, PathValueForm.SETTING),
    )


def get_trust_flags() -> TrustFlags:
    """Return the limits on untrusted configuration set by the running command.

    Without a command the defaults apply.
    """
    context = click.get_current_context(silent=True)
    flags = context.meta.get(_TRUST_KEY) if context is not None else None
    return flags if isinstance(flags, TrustFlags) else build_arguments_record(TrustFlags, {})


def warn_of_terraform_variable(variable: str) -> None:
    """Print a warning if Terraform's variable is set instead of this one, because it is ignored.

    NF_...
    """
    terraform_variable = variable.replace("NF_", "TF_", 1)
    if terraform_variable in os.environ and variable not in os.environ:
        click.echo(f"{terraform_variable} is ignored. Use {variable}.", err=True)


class Command(click.Command):
    """A command with flags of one or two dashes; NF_CLI_ARGS precede the typed arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite the words of NF_CLI_ARGS and `args` into click's form.

        Then let click parse them.
        """
        # Words of the variables NF_CLI_ARGS and (for `state list`) NF_CLI_ARGS_state_list precede
        # `args`.
        path = "_".join(ctx.command_path.split()[1:]).replace("-", "_")
        environment_words: list[str] = []
        for variable in ("NF_CLI_ARGS", f"NF_CLI_ARGS_{path}"):
            try:
                environment_words.extend(shlex.split(os.environ.get(variable, "")))
            except ValueError as problem:
                raise click.UsageError(f"{variable} cannot be parsed: {problem}.", ctx) from None
            warn_of_terraform_variable(variable)
        words = [*environment_words, *args]
        # They are rejected below, with a better message than click's.
        ctx.allow_extra_args = True
        try:
            extra_arguments = super().parse_args(
                ctx, self._rewrite_single_dash_arguments(ctx, words)
            )
        except click.UsageError:
            # A shell completes an unfinished line.
            if ctx.resilient_parsing:
                return super().parse_args(ctx, args)
            removed = find_removed_flag(" ".join(ctx.command_path.split()[1:]), words)
            if removed:
                raise RemovedCommandError(
                    f'"nexusform {removed}" was removed. Use: {REMOVED_FLAGS[removed]}'
                ) from None
            raise
        if extra_arguments and not ctx.resilient_parsing:
            hint = self._format_hint(extra_arguments[0], words)
            raise click.UsageError(f"Unexpected argument: {extra_arguments[0]}.{hint}", ctx)
        return extra_arguments

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the command's own flags and examples.

        With -help=all, shared and rare flags are included.
        """
        # Without the name of the program: "state list".
        path = " ".join(ctx.command_path.split()[1:])
        help_rows: Mapping[str, tuple[str, str]] = {
            parameter.opts[0].lstrip("-"): row
            for parameter in self.get_params(ctx)
            # None: a hidden flag.
            if (row := parameter.get_help_record(ctx))
        }
        shows_all = ctx.meta.get(_HELP_KEY, False)
        if not shows_all:
            help_rows = select_main_help_rows(path, help_rows)
        for title, rows in group_flags(help_rows).items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=30)
        examples = get_command_examples(path)
        if examples:
            with formatter.section("Examples"):
                formatter.write_dl(examples, col_max=45)
        if not shows_all:
            formatter.write(f"\nAll flags: {ctx.command_path} -help=all\n")

    def _format_hint(self, extra: str, words: Sequence[str]) -> str:
        """Return a hint for an unexpected argument, after a blank; "" without one.

        It may be the value of a switch (`-lock false`), an id without its flag, or a directory.
        """
        flags = [parameter for parameter in self.params if isinstance(parameter, Flag)]
        # The word before `extra`, without dashes.
        previous_word = ""
        if extra in words[1:]:
            previous_word = words[words.index(extra) - 1].lstrip("-")
        # The value of a switch: `-lock false` instead of `-lock=false`.
        for flag in flags:
            if flag.is_switch and f"-{previous_word}" in flag.opts:
                return f" Write -{previous_word}={extra}."
        # An id without its flag: `NAME` instead of `-id=NAME`.
        ids = [f"{flag.opts[0]}={extra}" for flag in flags if flag.metavar == "ID"]
        if ids:
            return f" Write {' or '.join(ids)}."
        if Path(extra).is_dir():
            return f" For another directory: nexusform -chdir={extra} ..."
        return ""

    def _rewrite_single_dash_arguments(self, ctx: click.Context, arguments: list[str]) -> list[str]:
        """Rewrite flags with one or two dashes into click's form, `-name=value`."""
        flags = {
            name.lstrip("-"): parameter
            for parameter in self.params
            if isinstance(parameter, Flag)
            for name in parameter.opts
        }
        words = iter(arguments)
        rewritten: list[str] = []
        for word in words:
            if word == "--":
                # No flag follows.
                return [*rewritten, word, *words]
            # "-" is stdin.
            if not word.startswith("-") or word == "-":
                rewritten.append(word)
                continue
            # May take the next word, too.
            rewritten.extend(self._rewrite_single_dash_flag(ctx, word, flags, words))
        return rewritten

    def _rewrite_single_dash_flag(
        self, ctx: click.Context, word: str, flags: Mapping[str, Flag], following: Iterator[str]
    ) -> list[str]:
        """Return a flag in click's form, for example `["-out=FILE"]` for `--out FILE`.

        Without `=`, its value is taken from the words `following` it. Raises a usage error.
        """
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if name in ("help", "h"):
            # True: the help lists all commands.
            ctx.meta[_HELP_KEY] = value == "all"
            return ["--help"]
        if name not in flags:
            raise _build_unknown_flag_error(ctx, name, value, flags)
        flag = flags[name]
        has_value = True
        if flag.is_switch and not equals:
            value = "true"
        elif not equals:
            # The value is the next word of the command line, if there is one.
            next_word = next(following, None)
            has_value = next_word is not None
            value = next_word or ""
        # An empty path: "-confine=$UNSET".
        if not has_value or (not value and flag.metavar in _PATH_METAVARS):
            raise click.UsageError(f"The flag -{name} needs a value: -{name}={flag.metavar}.", ctx)
        # click reads a tagged flag as two values: its own name, and the value.
        return [f"-{name}", name, value] if flag.is_tagged else [f"-{name}={value}"]


def _build_unknown_flag_error(
    ctx: click.Context, name: str, value: str, flags: Mapping[str, Flag]
) -> click.UsageError:
    """Build the error for `-name=value`.

    A flag of the whole program, of another tool, or similar to a known one.
    """
    if name == "chdir":
        command_line = ctx.command_path.replace(
            "nexusform", f"nexusform -chdir={value or 'DIR'}", 1
        )
        return click.UsageError(f"-chdir must precede the command: {command_line} ...", ctx)
    command = " ".join(ctx.command_path.split()[1:])
    # For flags of other tools, by command and name.
    hints = {
        "plan terraform-plan": "Use: nexusform predict -terraform-plan=FILE -inventory=DIR",
        "plan arm-what-if": "Use: nexusform predict -arm-what-if=FILE -inventory=DIR",
        "init plugin-dir": _NO_PLUGINS,
        "init get-plugins": _NO_PLUGINS,
        "init lockfile": _NO_PLUGINS,
        "sites apply auto-approve": "A gate is approved by -wave=NAME, or by a typed yes.",
        f"{command} json": "Use -format=json." if "format" in flags else "",
    }
    hint = hints.get(f"{command} {name}", "")
    if command in ("apply", "destroy", "sites apply") and name in ("y", "yes", "approve", "force"):
        hint = "Use -auto-approve."
    visible_flags = [f"-{known_name}" for known_name, known in flags.items() if not known.hidden]
    advice = f" {hint}" if hint else suggest_name(f"-{name}", visible_flags)
    return click.UsageError(f"Unknown flag -{name}.{advice}", ctx)


def define_command(
    name: str,
    record: type[Record],
    *,
    has_trust_flags: bool = True,
    has_own_sandbox: bool = False,
    accepts: Sequence[Flag] = (),
) -> Callable[[Callable[[Record], int]], Command]:
    """Make a function of an argument record a command; its docstring is the help text.

    A command without configuration and state (`has_trust_flags=False`) has no TrustFlags. A command
    for directories besides the current one (`has_own_sandbox`) confines each of them itself.
    `accepts` are further hidden flags.
    """

    def make_command(function: Callable[[Record], int]) -> Command:
        """Make a command with the flags of its record.

        It also takes the flags for trust, and hidden flags of Terraform.
        """

        def run_callback(**values: Any) -> int:
            click.get_current_context().meta[_TRUST_KEY] = build_arguments_record(
                TrustFlags, values
            )
            with nullcontext() if has_own_sandbox else _open_sandbox(parameters, values):
                _delete_older_output_files(parameters, values)
                return function(build_arguments_record(record, values))

        parameters = [
            *build_click_parameters(record),
            *(build_click_parameters(TrustFlags) if has_trust_flags else ()),
        ]
        parameters += [*accepts, declare_ignored_flag("compact-warnings", switch=True)]
        return Command(name, params=parameters, callback=run_callback, help=function.__doc__)

    return make_command


@contextmanager
def _open_sandbox(
    parameters: Sequence[click.Parameter], values: Mapping[str, Any]
) -> Iterator[None]:
    """Reject accesses that the arguments of a command do not declare, if the run is confined.

    Raises a usage error for a file or program of the operator in the work tree.
    """
    confine = get_trust_flags().confine or os.environ.get("NF_CONFINE", "")
    if not confine and not os.environ.get("NF_IN_AUTOMATION"):
        yield
        return
    from nexusform.files.external_files import list_argument_paths
    from nexusform.files.regular_files import OutsideConfinement
    from nexusform.files.sandbox import declare_program, use_sandbox
    from nexusform.workflow.opening.command_context import parse_confinement

    try:
        confinement = parse_confinement(confine, os.environ)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    if not confinement.root:
        yield
        return
    words = list_argument_files(parameters, values)
    for item in words:
        if item.file.writer is AllowedWriter.OPERATOR:
            _reject_untrusted_word(item, confinement)
    paths = [path for item in words for path in list_argument_paths(item.file, item.word)]
    with use_sandbox(confinement, paths):
        for item in words:
            if item.file.form is PathValueForm.COMMAND:
                # Reported where the command is run.
                with suppress(ValueError):
                    declare_program(shlex.split(item.word))
        try:
            yield
        except OutsideConfinement as problem:
            path = f'"{problem.filename}" cannot be used: ' if problem.filename else ""
            raise click.ClickException(f"{path}{problem.strerror}.") from None


def _reject_untrusted_word(item: ArgumentWord, confinement: Confinement) -> None:
    """Raise a usage error for an argument of the operator that leads into the work tree."""
    from nexusform.files.external_files import (
        explain_untrusted_file,
        is_untrusted_path,
        list_argument_paths,
        list_command_files,
    )

    if item.file.form is PathValueForm.LOCATION:
        raise click.UsageError(
            f"{item.name} starts programs, so it is not allowed in a sandboxed run. Omit it, or "
            "use -confine=false."
        )
    paths = list_argument_paths(item.file, item.word)
    if item.file.form is PathValueForm.COMMAND:
        # Reported where the command is run.
        with suppress(ValueError):
            paths = list(list_command_files(shlex.split(item.word), os.environ))
    for path in paths:
        if is_untrusted_path(path, confinement):
            raise click.UsageError(
                explain_untrusted_file(item.name, path, "a pull request could replace it")
            )


class _OutputPath(Struct, frozen=True):
    """A path to be written, of a flag.

    `is_deleted`: an older file is deleted here, before the command runs.
    """

    flag: str
    path: str
    is_deleted: bool


def _delete_older_output_files(
    parameters: Iterable[click.Parameter], values: Mapping[str, Any]
) -> None:
    """Delete older files at the output paths of a command.

    After a failure, none is mistaken for its result. All paths are checked before the first
    deletion. Raises a usage error for a path in use as an input. A command with a flag of
    `_CHECKED_OUTPUTS` replaces the older file itself, so its path is checked only.
    """
    # real paths of the arguments with files to keep.
    inputs: set[str] = set()
    outputs: list[_OutputPath] = []
    for parameter in parameters:
        words = _list_argument_words(values.get(parameter.name or ""))
        flag = parameter.opts[0]
        is_deleted = isinstance(parameter, Flag) and parameter.is_output
        if is_deleted or flag in _CHECKED_OUTPUTS:
            # The words of a repeatable output flag are FORMAT:PATH.
            paths = [word.partition(":")[2] if parameter.multiple else word for word in words]
            outputs += [
                _OutputPath(flag, path, is_deleted) for path in paths if path not in ("", "-")
            ]
        if not is_deleted and not isinstance(parameter.type, click.Choice):
            inputs.update(map(os.path.realpath, words))
    for output in outputs:
        _check_output_path(output, inputs)
    for output in outputs:
        if output.is_deleted:
            from nexusform.workflow.opening.system_io import remove_older_output

            # writing it reports the problem.
            with suppress(OSError):
                remove_older_output(output.path)


def _list_argument_words(value: object) -> list[str]:
    """Return the words of an argument's value, without empty ones.

    A value is one word, a tuple of the words of a repeatable flag, or for ordered flags a tuple of
    pairs of flag and word. For example, `(("var-file", "a.nfvars"), ("var", "b=1"))` gives
    ["a.nfvars", "b=1"].
    """
    parts = value if isinstance(value, tuple) else (value,)
    words = []
    for part in filter(None, parts):
        word = part[-1] if isinstance(part, tuple) else part
        words.append(str(word))
    return words


def _check_output_path(output: _OutputPath, inputs: Collection[str]) -> None:
    """Raise a usage error for a path outside of the allowed directories, or of an input.

    An input has one of the `inputs` paths or a suffix of inputs. Other existing files may be inputs
    by their content.
    """
    from nexusform.workflow.opening.command_context import parse_confinement
    from nexusform.workflow.opening.system_io import may_be_input

    flag = output.flag
    path = output.path
    try:
        confinement = parse_confinement(
            get_trust_flags().confine or os.environ.get("NF_CONFINE", ""), os.environ
        )
        # A link at the path itself is replaced.
        confinement.resolve_path_of_operator(Path(path).parent)
    except (OSError, ValueError) as problem:
        reason = str(getattr(problem, "strerror", problem)).rstrip(".")
        raise click.UsageError(f'{flag}: "{path}" cannot be written: {reason}.') from None
    # So it may have the suffix of an input.
    writes_configuration = flag == "-generate-config-out"
    has_input_suffix = path.endswith(_INPUT_SUFFIXES) and not writes_configuration
    if has_input_suffix or (output.is_deleted and os.path.realpath(path) in inputs):
        raise click.UsageError(
            f'{flag}: "{path}" is an input and is not overwritten. Choose another name.'
        )
    if output.is_deleted and may_be_input(path, confinement):
        raise click.UsageError(
            f'{flag}: "{path}" may be an input and is not overwritten. Choose another name.'
        )


class RemovedCommandError(click.ClickException):
    """A command or a flag that was removed is typed.

    The message is one line with what to use instead.
    """


def apply_global_options(arguments: list[str]) -> list[str]:
    """Apply `-chdir=DIR` before the command.

    Return the remaining words in the form that click expects. `-version` becomes the command
    `version`, and each form of help the flag `--help` at the end. Raises a usage error.
    """
    arguments = _change_directory(arguments)
    first = arguments[0] if arguments else ""
    name = first.lstrip("-").partition("=")[0]
    if first.startswith("-") and name in ("version", "v"):
        return ["version", *arguments[1:]]
    if first in ("-help", "-h"):
        return ["--help"]
    if arguments == ["help", "all"] or first in ("-help=all", _HELP_ALL):
        return [_HELP_ALL]
    # `help state list` is `state list -help`.
    if first == "help":
        return [*(word for word in arguments[1:] if word != "help"), "--help"]
    if first.startswith("-") and first != "--help":
        suggestion = suggest_name(name, ("chdir", "help", "version"))
        raise click.UsageError(
            f"Unknown global option {first}.{suggestion} Options of a command follow its name."
        )
    return arguments


def _change_directory(arguments: list[str]) -> list[str]:
    """Enter the directory of each leading `-chdir=DIR` or `-chdir DIR`.

    Return the words after them.
    """
    while (
        arguments
        and arguments[0].lstrip("-").partition("=")[0] == "chdir"
        and arguments[0].startswith("-")
    ):
        _, equals, directory = arguments.pop(0).partition("=")
        if not equals and arguments:
            directory = arguments.pop(0)
        try:
            os.chdir(directory)
        except OSError as problem:
            message = f'-chdir: the directory "{directory}" cannot be entered: {problem.strerror}.'
            raise click.UsageError(message) from None
    return arguments


class LazyGroup(click.Group):
    """Group of commands, each imported on use."""

    def __init__(
        self,
        name: str,
        table: Mapping[str, CommandEntry],
        *,
        aliases: Mapping[str, str] = _NO_TEXTS,
        summary: str = "",
        epilogue: str = "",
        hints: Mapping[str, str] = _NO_TEXTS,
    ) -> None:
        """Create the group.

        `hints` are messages for Terraform commands without an equivalent. The help lists only the
        common commands of the table, if there are any.
        """
        super().__init__(name, help=summary, epilog=epilogue)
        self.table = table
        self.aliases = aliases
        self.hints = hints

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the names in table order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return one command; None without a command of that name."""
        entry = self.table.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept `-help` with one dash, too.

        Store whether all commands are requested (-help=all).
        """
        if args and args[0] in ("-help", "-h", "-help=all", _HELP_ALL):
            ctx.meta[_HELP_KEY] = args[0].endswith("=all")
            args = ["--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and its words.

        Without a command, a shell completes its name, or it is an error.
        """
        name = args[0]
        found_command = self.get_command(ctx, name)
        if found_command is not None:
            return name, found_command, args[1:]
        # A shell completes the name.
        if ctx.resilient_parsing:
            return None, None, []
        words = " ".join([*ctx.command_path.split()[1:], *args])
        removed_names = [
            removed for removed in REMOVED_COMMANDS if f"{words} ".startswith(f"{removed} ")
        ]
        if removed_names:
            # The most specific one.
            removed = max(removed_names, key=len)
            raise RemovedCommandError(
                f'"nexusform {removed}" was removed. Use: {REMOVED_COMMANDS[removed]}'
            )
        # For a Terraform command without an equivalent.
        hint = self.hints.get(name)
        suggestion = f" {hint}" if hint else suggest_name(name, [*self.table, *self.aliases])
        raise click.UsageError(f'Unknown command "{name}".{suggestion}', ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Return the commands of a shell's completion without importing any."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands only; click would write the help flag, too."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the main commands and examples, or all commands by section.

        Commands are not imported.
        """
        common = [(name, entry.summary) for name, entry in self.table.items() if entry.is_common]
        if common and not ctx.meta.get(_HELP_KEY, False):  # without -help=all
            with formatter.section("Main commands"):
                formatter.write_dl(common)
            with formatter.section("Examples"):
                formatter.write_dl(get_command_examples(""), col_max=45)
            formatter.write("\nAll commands: nexusform help all\n")
            return
        sections = {entry.section for entry in self.table.values()}
        for section in CommandSection:
            rows = [
                (name, entry.summary)
                for name, entry in self.table.items()
                if entry.section is section
            ]
            if rows:
                with formatter.section(section.value if len(sections) > 1 else "Commands"):
                    formatter.write_dl(rows)


# By the words after `nexusform`.
REMOVED_COMMANDS: Final[Mapping[str, str]] = {
    "get": "nexusform init",
    "metadata": "docs/reference/functions.md",
    "metadata functions": "docs/reference/functions.md",
    "refresh": "nexusform apply -refresh-only",
    "state lock": "nexusform force-unlock ID",
    "state lock break": "nexusform force-unlock ID",
    "state lock list": "nexusform force-unlock ID",
    "taint": "nexusform plan -replace=ADDR",
    **collect_removed_words("removed_commands"),
}
# By the words after `nexusform`: a flag, or one value of it.
REMOVED_FLAGS: Final[Mapping[str, str]] = collect_removed_words("removed_flags")
_NO_PLUGINS: Final = "Providers come with nexusform, so there is nothing to download."


def find_removed_flag(command: str, words: Iterable[str]) -> str:
    """Return the first removed flag in a command line; else "".

    `COMMAND -FLAG`, or a value: `COMMAND -FLAG=VALUE`.
    """
    for word in words:
        flag = f"{command} -{word.lstrip('-')}"
        for name in (flag, flag.partition("=")[0]):
            if name in REMOVED_FLAGS:
                return name
    return ""


# flags under a single title.
_MAX_UNGROUPED: Final = 15
_FLAG_SECTIONS: Final[Mapping[str, str]] = {
    "Plan options": (
        "destroy refresh-only refresh target target-file exclude exclude-file replace var "
        "var-file samples assume allow-older-export"
    ),
    "Result": "out previous sign check-with generate-config-out detailed-exitcode fail-on max-age",
    "Output": (
        "details placements report diff source-url json compat no-color concise show-sensitive"
    ),
    "Apply options": (
        "auto-approve resume discard fail-fast verify revocations take-ownership allow-other-hub "
        "parallelism input"
    ),
    "State and backend": "state lock lock-timeout backup backend-config",
    "Confinement": "confine allow-remote limit",
}
# Commands with too many flags of their own.
_MAIN_FLAGS: Final[Mapping[str, str]] = {
    "plan": "out var var-file target replace destroy report fail-on previous",
    "apply": (
        "auto-approve resume discard verify var var-file target replace destroy refresh-only report"
    ),
}


_EXAMPLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "": (
        ("nexusform plan -out=p.nfplan", "show what changes, save the plan"),
        ("nexusform apply p.nfplan", "apply the saved plan"),
        ("nexusform explain ADDRESS NODE", "show why a node is on its machine"),
    ),
    "plan": (
        ("nexusform plan -out=p.nfplan", "save the plan for apply"),
        ("nexusform plan -report=markdown:plan.md", "a comment for a pull request"),
        ("nexusform plan -fail-on=moved:0,capacity:5", "fail if a VM moves"),
        ("nexusform plan -replace=ADDR:core-w-1", "re-place one VM of a cluster"),
        ("nexusform plan -details -target=ADDR", "every argument of one object"),
    ),
    "apply": (
        ("nexusform apply p.nfplan", "apply a reviewed plan"),
        ("nexusform apply -resume", "continue an interrupted apply"),
        ("nexusform apply -refresh-only", "only refresh the state"),
    ),
}


def select_main_help_rows(
    command: str, rows: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Select the rows (usage, help) of a command without -help=all.

    Its main flags if defined, else its own ones.
    """
    if command in _MAIN_FLAGS:
        return {name: rows[name] for name in _MAIN_FLAGS[command].split() if name in rows}
    hidden_flags = {
        "help",
        "confine",
        "allow-remote",
        "limit",
        "no-color",
        "state",
        "lock",
        "lock-timeout",
        "backup",
    }
    # backend-config is shared with other commands, too, but central for `init`.
    if command != "init":
        hidden_flags.add("backend-config")
    # Positional arguments without help are in the usage line.
    return {name: row for name, row in rows.items() if name not in hidden_flags and row[1]}


def group_flags(rows: Mapping[str, tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Group the help rows of flags (usage, help) by title; few flags share one title."""
    if len(rows) <= _MAX_UNGROUPED:
        return {"Options": list(rows.values())}
    # Without help: positional arguments, named by the usage line.
    described_rows = {name: row for name, row in rows.items() if row[1]}
    names_by_title = {title: names.split() for title, names in _FLAG_SECTIONS.items()}
    return _group_help_rows(described_rows, names_by_title, "Other options")


def _group_help_rows(
    rows: Mapping[str, tuple[str, str]],
    names_by_title: Mapping[str, Sequence[str]],
    other_title: str,
) -> dict[str, list[tuple[str, str]]]:
    """Group help rows by title; those under no title come last.

    Titles without rows are omitted. `rows` have pairs of usage and help, by name of a flag or
    command; `names_by_title` has the names of each title.
    """
    remaining = dict(rows)
    groups: dict[str, list[tuple[str, str]]] = {}
    for title, names in names_by_title.items():
        group = [remaining.pop(name) for name in names if name in remaining]
        if group:
            groups[title] = group
    if remaining:
        groups[other_title] = list(remaining.values())
    return groups


def get_command_examples(command: str) -> tuple[tuple[str, str], ...]:
    """Return the examples of a command with their effects; empty without any."""
    return _EXAMPLES.get(command, ())
