"""What a command takes: a frozen record whose fields declare flags and words of the command line.

    class UntaintArguments(Struct, frozen=True, kw_only=True):
        address: str = positional()
        allow_missing: bool = switch("Do not fail when the object is not there")
        lock: LockFlags = group(LockFlags)

The field `allow_missing` is the flag `-allow-missing`; `flag` names another one. A group is a record of
flags that several commands share. The declared types are what click hands over, so mypy sees every use.
Flags are shown in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from msgspec import Struct

if TYPE_CHECKING:  # only shells that complete load it
    from click.shell_completion import CompletionItem

Record = TypeVar("Record", bound=Struct)
Default = TypeVar("Default")

_NONE: Final = object()  # a word without default


class _Declared(Struct, frozen=True):
    """What a field's default stands for: the click parameter of the field's name, and its default."""

    parameter: Callable[[str], click.Parameter]
    default: object


class _Group(Struct, frozen=True):
    """What a field's default stands for: a record of shared flags."""

    record: type[Struct]


class Flag(click.Option):
    """A flag of ours, written with one dash or two.

    `switch` ones stand alone (`-x`), or take what follows at once (`-x=false`, `-x=DIR`); `tagged` ones
    hand over (flag name, value) pairs, so that the order of several flags is kept.
    """

    def __init__(
        self, names: Sequence[str], *, switch: bool = False, tagged: bool = False, **more: Any
    ) -> None:
        super().__init__(list(names), **more)
        self.switch = switch
        self.tagged = tagged

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the values of a shell's completion; a switch has none and leaves the word to an argument."""
        if self.switch:
            words = [each for each in ctx.command.params if isinstance(each, click.Argument)]
            return words[0].shell_complete(ctx, incomplete) if words else []
        if isinstance(self.type, click.Choice):
            return super().shell_complete(ctx, incomplete)
        from nexusform.cli.completion_values import complete_value

        return complete_value(self.metavar or "", self.opts[0].lstrip("-"), incomplete)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:  # noqa: ARG002 - click's signature
        """The flag as users write it: `-name=METAVAR`; None when it is hidden."""
        if self.hidden:
            return None
        names = [name.lstrip("-") for name in self.opts]
        value = f"={self.metavar or 'VALUE'}"
        if self.switch:
            value = f"[{value}]" if self.metavar else ""
        shown = ", ".join(f"-{name}{value}" for name in names)
        meaning = self.help or ""
        if self.multiple:
            meaning += " (repeatable)"
        if self.switch and self.default is True:
            return shown.replace(f"-{names[0]}", f"-{names[0]}=false", 1), meaning
        return shown, meaning


class Word(click.Argument):
    """An argument of ours: its completions come from the configuration and its state."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the words of a shell's completion."""
        if isinstance(self.type, click.Choice):
            return super().shell_complete(ctx, incomplete)
        from nexusform.cli.completion_values import complete_argument

        return complete_argument(ctx, str(self.name), incomplete)


def switch(meaning: str, *, default: bool = False, flag: str = "") -> bool:
    """A flag that is on or off: `-name`, `-name=false`."""

    def parameter(name: str) -> click.Parameter:
        return Flag(_names(name, flag), switch=True, type=click.BOOL, default=default, help=meaning)

    return cast("bool", _Declared(parameter, default))


def switch_or_text(meaning: str, *, metavar: str) -> str:
    """A flag that stands alone ("true") or takes a text: `-name`, `-name=value`; "" when it is absent."""

    def parameter(name: str) -> click.Parameter:
        return Flag(_names(name), switch=True, type=str, metavar=metavar, default="", help=meaning)

    return cast("str", _Declared(parameter, ""))


def text(meaning: str, *, metavar: str = "VALUE", default: str = "", flag: str = "") -> str:
    """A flag with a text: `-name=value` or `-name value`."""

    def parameter(name: str) -> click.Parameter:
        return Flag(_names(name, flag), type=str, metavar=metavar, default=default, help=meaning)

    return cast("str", _Declared(parameter, default))


def texts(meaning: str, *, metavar: str = "VALUE", flag: str = "") -> tuple[str, ...]:
    """A flag with a text that may be repeated."""

    def parameter(name: str) -> click.Parameter:
        return Flag(_names(name, flag), type=str, metavar=metavar, multiple=True, help=meaning)

    return cast("tuple[str, ...]", _Declared(parameter, ()))


def number(
    meaning: str, *, default: Default, metavar: str = "N", at_least: int | None = None
) -> int | Default:
    """A flag with an integer."""
    kind = click.INT if at_least is None else click.IntRange(min=at_least)

    def parameter(name: str) -> click.Parameter:
        return Flag(_names(name), type=kind, metavar=metavar, default=default, help=meaning)

    return cast("int | Default", _Declared(parameter, default))


def choice(meaning: str, choices: Sequence[str], *, metavar: str = "", default: str | None = None) -> str:
    """A flag with one of a few words; the first one, if any, unless `default` says otherwise."""
    first = default if default is not None else next(iter(choices), "")

    def parameter(name: str) -> click.Parameter:
        return Flag(
            _names(name),
            type=click.Choice(choices),
            metavar=metavar or "|".join(choices),
            default=first,
            help=meaning,
        )

    return cast("str", _Declared(parameter, first))


def optional_choice(meaning: str, choices: Sequence[str]) -> str | None:
    """A flag with one of a few words, or none."""

    def parameter(name: str) -> click.Parameter:
        return Flag(_names(name), type=click.Choice(choices), metavar="|".join(choices), help=meaning)

    return cast("str | None", _Declared(parameter, None))


def ignored(name: str, *, switch: bool = False) -> Flag:
    """Return a flag of Terraform that a command accepts, ignores and does not show in its help."""
    kind = click.BOOL if switch else click.INT
    return Flag([f"-{name}"], switch=switch, type=kind, hidden=True, expose_value=False)


def in_order(meaning: str, flags: Sequence[str], *, metavar: str = "VALUE") -> tuple[tuple[str, str], ...]:
    """Several flags whose order among each other counts: (flag name, value) pairs as typed."""

    def parameter(name: str) -> click.Parameter:
        declared = [f"-{flag}" for flag in flags]
        return Flag([*declared, name], tagged=True, nargs=2, multiple=True, metavar=metavar, help=meaning)

    return cast("tuple[tuple[str, str], ...]", _Declared(parameter, ()))


def positional(*, metavar: str | None = None, choices: Sequence[str] = ()) -> str:
    """A word that must stand on the command line."""
    kind = click.Choice(choices) if choices else None

    def parameter(name: str) -> click.Parameter:
        return Word([name], metavar=metavar, type=kind)

    return cast("str", _Declared(parameter, _NONE))


def optional(default: Default, *, metavar: str | None = None) -> str | Default:
    """A word that may stand on the command line."""

    def parameter(name: str) -> click.Parameter:
        return Word([name], required=False, default=default, metavar=metavar)

    return cast("str | Default", _Declared(parameter, default))


def positionals(*, metavar: str | None = None, required: bool = False) -> tuple[str, ...]:
    """All further words of the command line."""

    def parameter(name: str) -> click.Parameter:
        return Word([name], nargs=-1, required=required, metavar=metavar)

    return cast("tuple[str, ...]", _Declared(parameter, ()))


def group(record: type[Record]) -> Record:
    """Flags that several commands share."""
    return cast("Record", _Group(record))


def parameters_of(record: type[Struct]) -> list[click.Parameter]:
    """The click parameters that a record's fields declare, in their order."""
    parameters: list[click.Parameter] = []
    for name, declared in _fields(record):
        if isinstance(declared, _Group):
            parameters += parameters_of(declared.record)
        else:
            parameters.append(declared.parameter(name))
    return parameters


def filled(record: type[Record], values: Mapping[str, Any]) -> Record:
    """The record with the values that click read, by field name; what is not among them has its default."""
    arguments: dict[str, Any] = {}
    for name, declared in _fields(record):
        if isinstance(declared, _Group):
            arguments[name] = filled(declared.record, values)
        elif name in values or declared.default is not _NONE:
            arguments[name] = values.get(name, declared.default)
    return record(**arguments)


def _fields(record: type[Struct]) -> Iterator[tuple[str, _Declared | _Group]]:
    return zip(record.__struct_fields__, record.__struct_defaults__, strict=True)


def _names(field_name: str, flag: str = "") -> list[str]:
    """What click is told: the flag as typed, and under which name its value is handed over."""
    return [f"-{flag or field_name.replace('_', '-')}", field_name]
