"""Base of all commands: flags with one or two dashes, and loading on demand.

A command module returns its exit code: @define_command("taint", TaintArguments) def
taint(arguments: TaintArguments) -> int: ... The record declares the arguments; see arguments.py.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click

from nexusform.cli.arguments import (
    Flag,
    Record,
    build_arguments_record,
    build_click_parameters,
    declare_ignored_flag,
)
from nexusform.cli.global_options import HELP_KEY, VARIABLE_WORDS_KEY
from nexusform.cli.other_tools import find_flag_hint
from nexusform.cli.output_files import delete_older_output_files
from nexusform.cli.removed_words import REMOVED_FLAGS, RemovedCommandError, find_removed_flag
from nexusform.cli.trust_flags import TRUST_KEY, TrustFlags, open_sandbox
from nexusform.diagnostics.diagnostic import suggest_name

_PATH_METAVARS: Final = ("FILE", "PLANFILE", "KEYFILE", "DIR")


class Command(click.Command):
    """A command with flags of one or two dashes; NF_CLI_ARGS precede the typed arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite the words of NF_CLI_ARGS and `args` into click's form.

        Then let click parse them.
        """
        # Words of NF_CLI_ARGS and (for `state list`) NF_CLI_ARGS_state_list precede `args`.
        path = "_".join(ctx.command_path.split()[1:]).replace("-", "_")
        environment_words: list[str] = []
        for variable in ("NF_CLI_ARGS", f"NF_CLI_ARGS_{path}"):
            try:
                environment_words.extend(shlex.split(os.environ.get(variable, "")))
            except ValueError as problem:
                raise click.UsageError(f"{variable} cannot be parsed: {problem}.", ctx) from None
        words = [*environment_words, *args]
        # They are rejected below, with a better message than click's.
        ctx.allow_extra_args = True
        try:
            variable_words = self._rewrite_single_dash_arguments(ctx, environment_words)
            ctx.meta[VARIABLE_WORDS_KEY] = variable_words
            extra_arguments = super().parse_args(
                ctx, [*variable_words, *self._rewrite_single_dash_arguments(ctx, args)]
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
        from nexusform.cli.help_rows import get_command_examples, group_flags, select_main_help_rows

        # Without the name of the program: "state list".
        path = " ".join(ctx.command_path.split()[1:])
        help_rows: Mapping[str, tuple[str, str]] = {
            parameter.opts[0].lstrip("-"): row
            for parameter in self.get_params(ctx)
            # None: a hidden flag.
            if (row := parameter.get_help_record(ctx))
        }
        shows_all = ctx.meta.get(HELP_KEY, False)
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
            ctx.meta[HELP_KEY] = value == "all"
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
        # The library click reads a tagged flag as two values: its own name, and the value.
        return [f"-{name}", name, value] if flag.is_tagged else [f"-{name}={value}"]


def _build_unknown_flag_error(
    ctx: click.Context, name: str, value: str, flags: Mapping[str, Flag]
) -> click.UsageError:
    """Build the error for an unknown flag `-name=value`.

    The error has advice on a flag of the whole program or of another tool, or names a similar flag.
    """
    if name == "chdir":
        command_line = ctx.command_path.replace(
            "nexusform", f"nexusform -chdir={value or 'DIR'}", 1
        )
        return click.UsageError(f"-chdir must precede the command: {command_line} ...", ctx)
    command = " ".join(ctx.command_path.split()[1:])
    hint = find_flag_hint(command, name, flags)
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
            click.get_current_context().meta[TRUST_KEY] = build_arguments_record(TrustFlags, values)
            with nullcontext() if has_own_sandbox else open_sandbox(parameters, values):
                delete_older_output_files(parameters, values)
                return function(build_arguments_record(record, values))

        parameters = [
            *build_click_parameters(record),
            *(build_click_parameters(TrustFlags) if has_trust_flags else ()),
        ]
        parameters += [*accepts, declare_ignored_flag("compact-warnings", switch=True)]
        return Command(name, params=parameters, callback=run_callback, help=function.__doc__)

    return make_command
