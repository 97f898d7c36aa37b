"""What every command has in common: flags with one dash or two, and loading on demand.

A command module is written so:

    @command("taint", summary="Mark an object for replacement")
    @switch("allow-missing", "Do not fail when the object is not there")
    @option("lock-timeout", "How long to wait for the lock", metavar="DURATION", default="0s")
    @click.argument("address")
    def taint(address: str, allow_missing: bool, lock_timeout: str) -> int:
        ...

and returns its exit code. The flag `-lock-timeout` is the parameter `lock_timeout`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar, cast

import click
from msgspec import Struct

from nexusform.diagnostics import did_you_mean

_HELP_FLAGS: Final = frozenset({"help", "h"})

Function = TypeVar("Function", bound=Callable[..., Any])


class Flag(click.Option):
    """A flag of ours, written with one dash or two.

    `switch` ones stand alone (`-x`) or take true or false (`-x=false`); `tagged` ones hand over
    (flag name, value) pairs, so that the order of several flags is kept.
    """

    def __init__(
        self, names: Sequence[str], *, switch: bool = False, tagged: bool = False, **more: Any
    ) -> None:
        super().__init__(list(names), **more)
        self.switch = switch
        self.tagged = tagged

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:  # noqa: ARG002 - click's signature
        """The flag as users write it: `-name=METAVAR`."""
        if self.hidden:
            return None
        names = [name.lstrip("-") for name in self.opts]
        shown = ", ".join(f"-{n}" if self.switch else f"-{n}={self.metavar or 'VALUE'}" for n in names)
        told = self.help or ""
        if self.multiple:
            told += "; may be repeated"
        if self.switch and self.default is True:
            return shown.replace(f"-{names[0]}", f"-{names[0]}=false", 1), told
        return shown, told


def switch(
    name: str, told: str, *, default: bool = False, parameter: str = ""
) -> Callable[[Function], Function]:
    """A flag that is on or off: `-name`, `-name=false`."""
    declared = [f"--{name}", parameter] if parameter else [f"--{name}"]

    def add(function: Function) -> Function:
        attach = click.option(*declared, cls=Flag, switch=True, type=click.BOOL, default=default, help=told)
        return attach(function)

    return add


def option(
    name: str,
    told: str,
    *,
    metavar: str = "VALUE",
    default: Any = None,
    many: bool = False,
    kind: Any = str,
    parameter: str = "",
    hidden: bool = False,
) -> Callable[[Function], Function]:
    """A flag with a value: `-name=value` or `-name value`; `many` makes it a tuple of all given."""
    declared = [f"--{name}", parameter] if parameter else [f"--{name}"]
    more: dict[str, Any] = {} if many else {"default": default}

    def add(function: Function) -> Function:
        attach = click.option(
            *declared, cls=Flag, type=kind, metavar=metavar, multiple=many, help=told, hidden=hidden, **more
        )
        return attach(function)

    return add


def ordered_options(
    names: Sequence[str], told: str, *, metavar: str, parameter: str
) -> Callable[[Function], Function]:
    """Several flags whose order among each other counts.

    The parameter is a tuple of (flag name, value) pairs as given.
    """
    declared = [f"--{name}" for name in names]

    def add(function: Function) -> Function:
        attach = click.option(
            *declared, parameter, cls=Flag, tagged=True, nargs=2, multiple=True, metavar=metavar, help=told
        )
        return attach(function)

    return add


class Command(click.Command):
    """A command whose flags take one dash or two; NF_CLI_ARGS go before what was typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite the flags into click's form, then let click parse."""
        return super().parse_args(ctx, self._rewritten(ctx, [*_environment_arguments(ctx), *args]))

    def _rewritten(self, ctx: click.Context, arguments: list[str]) -> list[str]:
        flags = {
            name.lstrip("-"): parameter
            for parameter in self.params
            if isinstance(parameter, Flag)
            for name in parameter.opts
        }
        waiting = iter(arguments)
        done: list[str] = []
        for word in waiting:
            if word == "--":
                return [*done, word, *waiting]
            if not word.startswith("-") or word == "-":
                done.append(word)
                continue
            done.extend(self._rewrite_flag(ctx, word, flags, waiting))
        return done

    def _rewrite_flag(
        self, ctx: click.Context, word: str, flags: Mapping[str, Flag], waiting: Iterator[str]
    ) -> list[str]:
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if name in _HELP_FLAGS:
            return ["--help"]
        flag = flags.get(name)
        if flag is None:
            near = did_you_mean(f"-{name}", [f"-{known}" for known in flags])
            raise click.UsageError(f"There is no flag -{name} here.{near}", ctx)
        if flag.switch:
            return [f"--{name}={value if equals else 'true'}"]
        if not equals:
            following = next(waiting, None)
            if following is None:
                raise click.UsageError(f"The flag -{name} needs a value: -{name}={flag.metavar}.", ctx)
            value = following
        return [f"--{name}", name, value] if flag.tagged else [f"--{name}={value}"]

    def get_short_help_str(self, limit: int = 70) -> str:
        """The one line that a group's help shows."""
        return self.short_help or super().get_short_help_str(limit)


def command(name: str, *, summary: str) -> Callable[[Callable[..., int]], Command]:
    """Make a function a command; its docstring is the help text."""

    def make(function: Callable[..., int]) -> Command:
        return click.command(name, cls=Command, short_help=summary)(function)

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
    return words


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
    ) -> None:
        super().__init__(name, help=summary, short_help=summary, epilog=epilogue or None)
        self.table = table
        self.aliases = aliases or {}

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
        found = self.get_command(ctx, name)
        if found is None:
            near = did_you_mean(name, [*self.table, *self.aliases])
            raise click.UsageError(f'There is no command "{name}" here.{near}', ctx)
        return name, found, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.table.items()])
