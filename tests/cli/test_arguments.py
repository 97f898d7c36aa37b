"""Tests of command arguments, declared once as fields of a frozen record."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from msgspec import Struct

from nexusform.cli.arguments import (
    build_arguments_record,
    build_click_parameters,
    declare_choice,
    declare_flag_group,
    declare_number,
    declare_optional_positional,
    declare_ordered_flags,
    declare_positional,
    declare_positionals,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.commands import Command, define_command
from nexusform.cli.main import ROOT


class _SpeedGroup(Struct, frozen=True, kw_only=True):
    slow: bool = declare_switch_flag("Slowly")
    steps: int = declare_number("Steps", default=10, minimum=1)


class _TryArguments(Struct, frozen=True, kw_only=True):
    source: str = declare_positional()
    target: str = declare_optional_positional("here")
    rest: tuple[str, ...] = declare_positionals()
    as_json: bool = declare_switch_flag("As JSON", flag="json")
    out: str = declare_text_flag("Where to", metavar="FILE")
    only: tuple[str, ...] = declare_repeatable_text("Only these")
    shape: str = declare_choice("Which shape", ("round", "square"))
    settings: tuple[tuple[str, str], ...] = declare_ordered_flags("Settings", ("var", "var-file"))
    speed: _SpeedGroup = declare_flag_group(_SpeedGroup)


def _parse_words(words: list[str]) -> _TryArguments:
    taken: list[_TryArguments] = []

    @define_command("try", _TryArguments)
    def run(arguments: _TryArguments) -> int:
        """Try."""
        taken.append(arguments)
        return 0

    run.main(words, standalone_mode=False)
    return taken[0]


def test_every_field_has_a_default() -> None:
    assert _parse_words(["a"]) == build_arguments_record(_TryArguments, {"source": "a"})


def test_every_field_takes_its_command_line_value() -> None:
    typed = "a b c -json -out=f -only=x -only y -shape=square -var-file=g -var k=v -slow -steps 3"
    words = typed.split(" ")
    assert _parse_words(words) == _TryArguments(
        source="a",
        target="b",
        rest=("c",),
        as_json=True,
        out="f",
        only=("x", "y"),
        shape="square",
        settings=(("var-file", "g"), ("var", "k=v")),
        speed=_SpeedGroup(slow=True, steps=3),
    )


def test_number_below_minimum_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError):
        _parse_words(["a", "-steps=0"])


def _iterate_commands(
    found: LazyGroup, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, Command]]:
    context = click.Context(found)
    for name in found.list_commands(context):
        below = found.get_command(context, name)
        if isinstance(below, LazyGroup):
            yield from _iterate_commands(below, (*path, name))
        elif isinstance(below, Command):
            yield " ".join((*path, name)), below


@pytest.mark.parametrize(("name", "declared"), list(_iterate_commands(ROOT)))
def test_fields_of_a_command_have_unique_names_and_flags(name: str, declared: Command) -> None:
    """Groups are flattened for click: a second field of the same name would win silently."""
    fields = [parameter.name for parameter in declared.params]
    flags = [flag for parameter in declared.params for flag in parameter.opts]
    assert len(set(fields)) == len(fields), name
    assert len(set(flags)) == len(flags), name


def test_record_is_built_from_click_values() -> None:
    assert [parameter.name for parameter in build_click_parameters(_SpeedGroup)] == [
        "slow",
        "steps",
    ]
    assert build_arguments_record(_SpeedGroup, {"slow": True, "steps": 3}) == _SpeedGroup(
        slow=True, steps=3
    )
