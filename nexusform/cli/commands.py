"""What every command has in common: flags with one dash or two, and loading on demand.

A command module is written so, and returns its exit code:

    @command("untaint", UntaintArguments)
    def untaint(arguments: UntaintArguments) -> int:
        ...

The record says what the command takes; see arguments.py.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import click
from msgspec import Struct

from nexusform.cli.arguments import Flag, Record, filled, ignored, parameters_of, switch_or_text, texts
from nexusform.diagnostics import did_you_mean

if TYPE_CHECKING:  # only shells that complete load it
    from click.shell_completion import CompletionItem

_HELP_FLAGS: Final = frozenset({"help", "h"})
_TRUST: Final = "nexusform.trust"


class TrustFlags(Struct, frozen=True, kw_only=True):
    """What every command takes that looks at configuration or state: how far configuration is trusted."""

    confine: str = switch_or_text(
        "Restrict files to DIR (default: work tree), block addresses",
        metavar="DIR",
    )
    allow_remote: tuple[str, ...] = texts(
        "With -confine, allow addresses with this prefix", metavar="URL-PREFIX"
    )
    limit: tuple[str, ...] = texts("Set a resource limit (docs/security.md)", metavar="NAME=N")
    backend_config: tuple[str, ...] = texts(
        "Set a backend argument, or read a file of them", metavar="FILE|K=V"
    )


def trust_flags() -> TrustFlags:
    """Those of the command that runs."""
    context = click.get_current_context(silent=True)
    flags = context.meta.get(_TRUST) if context is not None else None
    return flags if isinstance(flags, TrustFlags) else filled(TrustFlags, {})


class Command(click.Command):
    """A command whose flags take one dash or two; NF_CLI_ARGS go before what was typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite the flags into click's form, then let click parse."""
        words = [*_environment_arguments(ctx), *args]
        ctx.allow_extra_args = True
        try:
            extra = super().parse_args(ctx, self._rewritten(ctx, words))
        except click.UsageError:
            if ctx.resilient_parsing:  # a shell completes a line whose end is missing
                return super().parse_args(ctx, args)
            _reject_removed_flags(ctx, words)
            raise
        if extra and not ctx.resilient_parsing:
            raise click.UsageError(
                f'There is no place for "{extra[0]}" here.{self._hint(extra[0], words)}', ctx
            )
        return extra

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Flags by what they are for, then what people type."""
        from nexusform.cli.help_chapters import examples_of, in_chapters

        records = [(each.opts[0].lstrip("-"), each.get_help_record(ctx)) for each in self.get_params(ctx)]
        told = in_chapters((name, record) for name, record in records if record)
        examples = examples_of(self.name or "")
        for title, rows in {**told, "Examples": examples}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=45 if title == "Examples" else 30)

    def _hint(self, extra: str, words: Sequence[str]) -> str:
        """What to type for a word too many: a switch takes its value with "=", an id stands after a flag."""
        flags = [parameter for parameter in self.params if isinstance(parameter, Flag)]
        before = words[words.index(extra) - 1].lstrip("-") if extra in words[1:] else ""
        for flag in flags:
            if flag.switch and f"-{before}" in flag.opts:
                return f" Write -{before}={extra}."
        ids = [f"{flag.opts[0]}={extra}" for flag in flags if flag.metavar == "ID"]
        return f" Write {' or '.join(ids)}." if ids else ""

    def _rewritten(self, ctx: click.Context, arguments: list[str]) -> list[str]:
        """Arguments as click takes them: flags with one dash become click's own."""
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
                return [*rewritten, word, *words]
            if not word.startswith("-") or word == "-":
                rewritten.append(word)
                continue
            rewritten.extend(self._rewrite_flag(ctx, word, flags, words))
        return rewritten

    def _rewrite_flag(
        self, ctx: click.Context, word: str, flags: Mapping[str, Flag], following: Iterator[str]
    ) -> list[str]:
        """One flag as click takes it, with its value from the following words. Raises a usage error."""
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if name in _HELP_FLAGS:
            return ["--help"]
        flag = flags.get(name)
        if flag is None:
            if name == "chdir":
                typed = ctx.command_path.replace("nexusform", f"nexusform -chdir={value or 'DIR'}", 1)
                raise click.UsageError(f"-chdir stands before the command: {typed} ...", ctx)
            near = did_you_mean(f"-{name}", [f"-{known}" for known, each in flags.items() if not each.hidden])
            raise click.UsageError(f"There is no flag -{name} here.{near}", ctx)
        if flag.switch:
            return [f"-{name}={value if equals else 'true'}"]
        if not equals:
            next_word = next(following, None)
            if next_word is None:
                raise click.UsageError(f"The flag -{name} needs a value: -{name}={flag.metavar}.", ctx)
            value = next_word
        return [f"-{name}", name, value] if flag.tagged else [f"-{name}={value}"]


def command(
    name: str, record: type[Record], *, trusts: bool = True, accepts: Sequence[Flag] = ()
) -> Callable[[Callable[[Record], int]], Command]:
    """Make a function of an argument record a command; its docstring is the help text.

    One that looks at no configuration and no state (`trusts=False`) takes no TrustFlags. `accepts` are flags
    that it ignores; every command ignores -compact-warnings.
    """

    def make(function: Callable[[Record], int]) -> Command:
        def callback(**values: Any) -> int:
            click.get_current_context().meta[_TRUST] = filled(TrustFlags, values)
            return function(filled(record, values))

        parameters = [*parameters_of(record), *(parameters_of(TrustFlags) if trusts else ())]
        parameters += [*accepts, ignored("compact-warnings", switch=True)]
        return Command(name, params=parameters, callback=callback, help=function.__doc__)

    return make


def _environment_arguments(ctx: click.Context) -> list[str]:
    """Words of NF_CLI_ARGS and NF_CLI_ARGS_<cmd> (`state list` reads NF_CLI_ARGS_state_list)."""
    path = "_".join(ctx.command_path.split()[1:]).replace("-", "_")
    words: list[str] = []
    for variable in ("NF_CLI_ARGS", f"NF_CLI_ARGS_{path}"):
        try:
            words.extend(shlex.split(os.environ.get(variable, "")))
        except ValueError as problem:
            raise click.UsageError(f"{variable} cannot be split into words: {problem}.", ctx) from None
        theirs = variable.replace("NF_", "TF_", 1)
        if theirs in os.environ and variable not in os.environ:
            click.echo(f"{theirs} is set and not read: nexusform reads {variable}.", err=True)
    return words


def _reject_removed_flags(ctx: click.Context, words: Sequence[str]) -> None:
    """Raise RemovedCommandError if a flag that was removed is among the words."""
    from nexusform.cli.removed_words import REMOVED_FLAGS, find_removed_flag

    removed = find_removed_flag(" ".join(ctx.command_path.split()[1:]), words)
    if removed:
        raise RemovedCommandError(f'"nexusform {removed}" was removed. Use: {REMOVED_FLAGS[removed]}')


class RemovedCommandError(click.ClickException):
    """A command or a flag that was removed is typed; the message is one line with what to use instead."""


def take_global_options(arguments: list[str]) -> list[str]:
    """Obey `-chdir=DIR` and `-version` before the command; returns the rest."""
    while arguments and arguments[0].startswith("-"):
        name, equals, value = arguments[0].lstrip("-").partition("=")
        if name in ("version", "v"):
            return ["version", *arguments[1:]]
        if name != "chdir":
            break
        if not equals and len(arguments) > 1:
            value = arguments.pop(1)
        arguments.pop(0)
        try:
            os.chdir(value)
        except OSError as problem:
            raise click.UsageError(
                f'-chdir: the directory "{value}" cannot be entered: {problem.strerror}.'
            ) from None
    if arguments and arguments[0] in ("-help", "-h"):
        return ["--help"]
    if arguments and arguments[0] == "help":  # `help state list` is `state list -help`
        return [*(each for each in arguments[1:] if each != "help"), "--help"]
    if arguments and arguments[0].startswith("-") and arguments[0] != "--help":
        near = did_you_mean(arguments[0].lstrip("-").split("=")[0], ("chdir", "help", "version"))
        raise click.UsageError(
            f"There is no global option {arguments[0]}; options of a command follow its name.{near}"
        )
    return arguments


class Entry(Struct, frozen=True):
    """Where a command lives (`module:attribute`) and what the help of its group says of it."""

    target: str
    summary: str


class LazyGroup(click.Group):
    """Commands by name, each imported when it is asked for."""

    def __init__(
        self,
        name: str,
        table: Mapping[str, Entry],
        *,
        aliases: Mapping[str, str] | None = None,
        summary: str = "",
        epilogue: str = "",
        chapters: Mapping[str, Sequence[str]] | None = None,
        hints: Mapping[str, str] | None = None,
    ) -> None:
        """`chapters` are titles of the help with the commands below each; `hints` what is said to people who
        type a command of Terraform that there is none of here.
        """
        super().__init__(name, help=summary, epilog=epilogue or None)
        self.table = table
        self.aliases = aliases or {}
        self.chapters = chapters or {}
        self.hints = hints or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and give one command; None when there is none of that name."""
        entry = self.table.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `-help` with one dash too."""
        if args and args[0] in ("-help", "-h"):
            args = ["--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names, or say which one may be meant."""
        name = args[0]
        known = self.get_command(ctx, name)
        if known is None and ctx.resilient_parsing:
            return None, None, []
        if known is None:
            from nexusform.cli.removed_words import REMOVED_COMMANDS, find_removed_command

            removed = find_removed_command(" ".join([*ctx.command_path.split()[1:], *args]))
            if removed:
                use = REMOVED_COMMANDS[removed]
                raise RemovedCommandError(f'"nexusform {removed}" was removed. Use: {use}')
            hint = self.hints.get(name)
            near = f" {hint}" if hint else did_you_mean(name, [*self.table, *self.aliases])
            raise click.UsageError(f'There is no command "{name}" here.{near}', ctx)
        return name, known, args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Return the commands of a shell's completion without importing any."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands without importing any, each in its chapter."""
        for title, names in self._listed().items():
            with formatter.section(title):
                formatter.write_dl([(name, self.table[name].summary) for name in names])

    def _listed(self) -> dict[str, list[str]]:
        """The names of commands by the title that they stand under; what is in no chapter comes last."""
        listed = {
            title: [name for name in names if name in self.table] for title, names in self.chapters.items()
        }
        told = {name for names in listed.values() for name in names}
        others = [name for name in self.table if name not in told]
        listed["Other commands" if listed else "Commands"] = others
        return {title: names for title, names in listed.items() if names}
