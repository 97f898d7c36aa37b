"""Prompts for the values of required variables, at a terminal."""

import sys
from collections.abc import Callable
from textwrap import indent

from nexusform.cli.terminal_screen import Screen
from nexusform.configuration.declarations.configuration import Variable
from nexusform.schemas.value_types import describe_type


def create_variable_prompt() -> Callable[[Variable], str | None]:
    """Return a function that asks for the value of a variable, once for each.

    It returns None at the end of the input.
    """
    # A redirected stdout is for the plan.
    screen = Screen(is_aside=not sys.stdout.isatty())
    answers: dict[str, str | None] = {}

    def ask_for_value(variable: Variable) -> str | None:
        if variable.name not in answers:
            kind = describe_type(variable.type, constraint=True)
            answers[variable.name] = screen.read_value(
                f"var.{variable.name} ({kind})",
                indent(variable.description, "  "),
                is_hidden=bool(variable.marks),
            )
        return answers[variable.name]

    return ask_for_value
