"""Declaration of command-line arguments as fields of frozen records.

    class TaintArguments(Struct, frozen=True, kw_only=True):
        address: str = declare_positional()
        allow_missing: bool = declare_switch("Do not fail when the object is not there")
        lock: LockFlags = declare_flag_group(LockFlags)

The field `allow_missing` is the flag `-allow-missing`; `flag` sets another name.

A group is a record of shared flags. The declared types are those of the click values, for mypy.
Flags appear in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import click
from msgspec import Struct

from nexusform.files.external_files import AllowedWriter, ArgumentFile, PathValueForm

# Only shells that complete load it.
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Record = TypeVar("Record", bound=Struct)
Default = TypeVar("Default")


class _FlagDeclaration(Struct, frozen=True):
    """Default of a field: the click options and the default value of its flag.

    `flags` are the names of the flag, separated by spaces; "" is the name of the field.
    """

    options: Mapping[str, Any]
    default: object
    flags: str = ""

    def create_parameter(self, name: str) -> click.Parameter:
        """Create the click parameter for the field of this name."""
        # One, or several separated by blanks.
        names = self.flags or name.replace("_", "-")
        flags = [f"-{flag_name}" for flag_name in names.split()]
        return Flag([*flags, name], **self.options)


class _PositionalDeclaration(Struct, frozen=True):
    """Default of a field: the click options and the default value of its positional argument."""

    options: Mapping[str, Any]
    default: object

    def create_parameter(self, name: str) -> click.Parameter:
        """Create the click parameter for the field of this name."""
        return PositionalArgument([name], **self.options)


class _FlagGroup(Struct, frozen=True):
    """Default of a field: a record of shared flags."""

    record: type[Struct]


_Declaration: TypeAlias = _FlagDeclaration | _PositionalDeclaration | _FlagGroup


class Flag(click.Option):
    """A flag with one or two dashes.

    `is_switch` flags have no separate value (`-x`, `-x=false`, `-x=DIR`); `is_tagged` ones return
    (flag name, value) pairs to keep the order of several flags. `is_output` ones name an output
    file, after `FORMAT:` with formats. `file` is what the value leads to: a sandboxed run rejects
    files and programs that no argument declares.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        is_switch: bool = False,
        is_tagged: bool = False,
        is_output: bool = False,
        file: ArgumentFile | None = None,
        **options: Any,
    ) -> None:
        """Keep how the value of the flag is written.

        `options` are further arguments of click.Option.
        """
        super().__init__(list(names), **options)
        # Its value is the path of an output file.
        self.is_output = is_output
        self.file = file
        # Its value can be omitted: `-name`.
        self.is_switch = is_switch
        # Its value includes its name: ("var", "a=1").
        self.is_tagged = is_tagged

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of a word after the flag.

        After a switch, the word is an argument of the command.
        """
        if self.is_switch:
            arguments = [
                parameter
                for parameter in ctx.command.params
                if isinstance(parameter, click.Argument)
            ]
            return arguments[0].shell_complete(ctx, incomplete) if arguments else []
        if isinstance(self.type, click.Choice):
            return super().shell_complete(ctx, incomplete)
        from nexusform.cli.completion_values import list_flag_value_completions

        return list_flag_value_completions(self.metavar or "", self.opts[0].lstrip("-"), incomplete)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:  # noqa: ARG002 - click's signature
        """Return the flag as typed by users (`-name=METAVAR`) and its meaning.

        Return None for a hidden flag.
        """
        if self.hidden:
            return None
        if not self.is_switch:
            value = f"={self.metavar}"
        elif self.default is True:
            # Only switching it off is useful.
            value = "=false"
        elif self.metavar:
            value = f"[={self.metavar}]"
        else:
            value = ""
        usage = ", ".join(f"-{name.lstrip('-')}{value}" for name in self.opts)
        meaning = f"{self.help} (repeatable)" if self.multiple else f"{self.help}"
        return usage, meaning


class PositionalArgument(click.Argument):
    """An argument of ours: its completions come from the configuration and its state.

    `file` is what its value leads to, as for a flag.
    """

    def __init__(
        self, names: Sequence[str], *, file: ArgumentFile | None = None, **options: Any
    ) -> None:
        """Keep what the value leads to; `options` are further arguments of click.Argument."""
        super().__init__(list(names), **options)
        self.file = file

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of a word.

        The choices of the argument, or names from the project.
        """
        if isinstance(self.type, click.Choice):
            return super().shell_complete(ctx, incomplete)
        from nexusform.cli.completion_values import list_argument_completions

        return list_argument_completions(ctx, str(self.name), incomplete)


# Values of switches, as Go reads them.
_SWITCH_VALUES: Final = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}


# The type is not generic in click 8.1.
class _SwitchType(click.ParamType):  # type: ignore[type-arg]
    """Value of a switch; an empty one, such as `-lock=$UNSET`, is an error."""

    name = "boolean"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return the value, True or False; raise a usage error for another text."""
        if isinstance(value, bool):
            return value
        if value not in _SWITCH_VALUES:
            subject = f'"{value}" is' if value else "an empty value is"
            self.fail(f"{subject} neither true nor false.", param, ctx)
        return _SWITCH_VALUES[value]


_SWITCH: Final = _SwitchType()


def declare_switch_flag(meaning: str, *, default: bool = False, flag: str = "") -> bool:
    """Declare a record field as a switch: `-name` or `-name=false`.

    `flag` replaces the name of the field.
    """
    options = {"is_switch": True, "type": _SWITCH, "default": default, "help": meaning}
    return cast("bool", _FlagDeclaration(options, default, flag))


def declare_switch_or_text(meaning: str, *, metavar: str, file: ArgumentFile | None = None) -> str:
    """Declare a record field as a flag with an optional value: `-name` ("true"), `-name=value`.

    The field is "" if the flag is absent. `file` is what the value leads to.
    """
    options = {
        "is_switch": True,
        "type": str,
        "metavar": metavar,
        "default": "",
        "help": meaning,
        "file": file,
    }
    return cast("str", _FlagDeclaration(options, default=""))


def declare_text_flag(
    meaning: str,
    *,
    metavar: str = "VALUE",
    default: str = "",
    flag: str = "",
    file: ArgumentFile | None = None,
) -> str:
    """Declare a record field as a flag with a text: `-name=value`, `-name value`.

    `flag` replaces the field's name. `file` is what the text leads to, if it is more than a text.
    """
    options = {"type": str, "metavar": metavar, "default": default, "help": meaning, "file": file}
    return cast("str", _FlagDeclaration(options, default, flag))


def declare_output_path_flag(meaning: str) -> str:
    """Declare a record field as a flag with the path of an output file.

    mypy sees the type of its parsed value.
    """
    options = {
        "type": str,
        "metavar": "FILE",
        "default": "",
        "help": meaning,
        "is_output": True,
        "file": ArgumentFile("output", AllowedWriter.COMMAND),
    }
    return cast("str", _FlagDeclaration(options, default=""))


def declare_report_flags() -> tuple[str, ...]:
    """Declare -report=FORMAT:PATH, repeatable, as a record field.

    mypy sees the type of its parsed values.
    """
    meaning = "Write a report to a file (- is stdout)"
    options = {
        "type": str,
        "metavar": "FORMAT:PATH",
        "multiple": True,
        "help": meaning,
        "is_output": True,
        "file": ArgumentFile("reports", AllowedWriter.COMMAND, PathValueForm.REPORT),
    }
    return cast("tuple[str, ...]", _FlagDeclaration(options, default=()))


def declare_repeatable_text(
    meaning: str, *, metavar: str = "VALUE", flag: str = "", file: ArgumentFile | None = None
) -> tuple[str, ...]:
    """Declare a record field as a repeatable flag with a text.

    The name of the flag is `flag`, or else that of the field. `file` is what each text leads to.
    """
    options = {"type": str, "metavar": metavar, "multiple": True, "help": meaning, "file": file}
    return cast("tuple[str, ...]", _FlagDeclaration(options, default=(), flags=flag))


def declare_number(meaning: str, *, default: Default, minimum: int | None = None) -> int | Default:
    """Declare a record field as a flag with an integer. mypy sees the type of its parsed value."""
    kind = click.INT if minimum is None else click.IntRange(min=minimum)
    options = {"type": kind, "metavar": "N", "default": default, "help": meaning}
    return cast("int | Default", _FlagDeclaration(options, default))


def declare_choice(
    meaning: str, choices: Sequence[str], *, metavar: str = "", flag: str = ""
) -> str:
    """Declare a record field as a flag with a choice, by default the first.

    `flag` replaces the name of the field.
    """
    default = choices[0] if choices else ""
    options = {
        "type": click.Choice(choices),
        "metavar": metavar or "|".join(choices),
        "default": default,
        "help": meaning,
    }
    return cast("str", _FlagDeclaration(options, default, flag))


def declare_optional_choice_flag(meaning: str, choices: Sequence[str]) -> str | None:
    """Declare a record field as a flag with one of several values, or none.

    mypy sees the type of its parsed value.
    """
    options = {"type": click.Choice(choices), "metavar": "|".join(choices), "help": meaning}
    return cast("str | None", _FlagDeclaration(options, default=None))


def declare_ignored_flag(name: str, *, switch: bool = False) -> Flag:
    """Return a flag of Terraform that a command accepts, ignores and does not show in its help."""
    kind = _SWITCH if switch else click.INT
    return Flag([f"-{name}"], is_switch=switch, type=kind, hidden=True, expose_value=False)


def declare_ordered_flags(
    meaning: str, flags: Sequence[str], file: ArgumentFile | None = None
) -> tuple[tuple[str, str], ...]:
    """Declare a record field for flags with a significant order.

    It holds (flag name, value) pairs as typed. `file` is what the values of flags named
    `...-file` lead to.
    """
    options = {
        "is_tagged": True,
        "nargs": 2,
        "multiple": True,
        "metavar": "VALUE",
        "help": meaning,
        "file": file,
    }
    return cast(
        "tuple[tuple[str, str], ...]", _FlagDeclaration(options, default=(), flags=" ".join(flags))
    )


def declare_positional(
    *, metavar: str | None = None, choices: Sequence[str] = (), file: ArgumentFile | None = None
) -> str:
    """Declare a record field as a required positional argument.

    mypy sees the type of its parsed value.
    """
    kind = click.Choice(choices) if choices else None
    options = {"metavar": metavar, "type": kind, "file": file}
    return cast("str", _PositionalDeclaration(options, default=None))


def declare_optional_positional(
    default: Default, *, metavar: str | None = None, file: ArgumentFile | None = None
) -> str | Default:
    """Declare a record field as an optional positional argument.

    mypy sees the type of its parsed value.
    """
    options = {"required": False, "default": default, "metavar": metavar, "file": file}
    return cast("str | Default", _PositionalDeclaration(options, default))


def declare_positionals(
    *, metavar: str | None = None, required: bool = False, file: ArgumentFile | None = None
) -> tuple[str, ...]:
    """Declare a record field for all remaining positional arguments.

    mypy sees the type of its parsed value.
    """
    options = {"nargs": -1, "required": required, "metavar": metavar, "file": file}
    return cast("tuple[str, ...]", _PositionalDeclaration(options, default=()))


def declare_flag_group(record: type[Record]) -> Record:
    """Declare a record field as a group of shared flags, the fields of `record`.

    mypy sees the type of the record.
    """
    return cast("Record", _FlagGroup(record))


class ArgumentWord(Struct, frozen=True):
    """A word of a command line that leads to a file or a program, and its declaration."""

    name: str
    word: str
    file: ArgumentFile


def list_argument_files(
    parameters: Sequence[click.Parameter], values: Mapping[str, Any]
) -> list[ArgumentWord]:
    """List the words of a command that lead to files or programs.

    `values` are those of click by field name.
    """
    words: list[ArgumentWord] = []
    for parameter in parameters:
        file = get_argument_file(parameter)
        value = values.get(parameter.name or "")
        if file is None or not value:
            continue
        for part in value if isinstance(value, tuple) else (value,):
            # A pair of an ordered flag.
            if isinstance(part, tuple):
                if part[0].endswith("-file"):
                    words.append(ArgumentWord(f"-{part[0]}", part[1], file))
            else:
                words.append(ArgumentWord(parameter.opts[0], str(part), file))
    return words


def get_argument_file(parameter: click.Parameter) -> ArgumentFile | None:
    """Return what the value of a parameter leads to; None for a text."""
    return parameter.file if isinstance(parameter, Flag | PositionalArgument) else None


def build_click_parameters(record: type[Struct]) -> list[click.Parameter]:
    """Build the click parameters of the fields of a record, in order.

    The default of a field is its declaration.
    """
    parameters: list[click.Parameter] = []
    declarations: tuple[_Declaration, ...] = record.__struct_defaults__
    for name, declaration in zip(record.__struct_fields__, declarations, strict=True):
        # A record of further flags.
        if isinstance(declaration, _FlagGroup):
            parameters += build_click_parameters(declaration.record)
        else:
            parameters.append(declaration.create_parameter(name))
    return parameters


def build_arguments_record(record: type[Record], values: Mapping[str, Any]) -> Record:
    """Build the record from the values of click by field name.

    Its fields declare the values of missing flags.
    """
    arguments: dict[str, Any] = {}
    declarations: tuple[_Declaration, ...] = record.__struct_defaults__
    for name, declaration in zip(record.__struct_fields__, declarations, strict=True):
        # A record of further flags.
        if isinstance(declaration, _FlagGroup):
            arguments[name] = build_arguments_record(declaration.record, values)
        else:
            arguments[name] = values.get(name, declaration.default)
    return record(**arguments)
