"""`nexusform console`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import group, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.console import Console, is_unfinished, open_console

HELP: Final = """\
Type an expression and press Enter to see its value, as it would be anywhere in the configuration:
  var.NAME, local.NAME, nexus_rack.NAME.machines, cidrsubnet("10.0.0.0/8", 8, 1)
Resources are as the state holds them; what it does not hold is shown as (known after apply).
type(EXPRESSION) shows the type of a value. Open brackets and heredocs go on over several lines.

"exit", Ctrl-D or Ctrl-C leaves."""


class ConsoleArguments(Struct, frozen=True, kw_only=True):
    """What `console` takes."""

    explain: str = text("Explain the value of one expression and exit", metavar="EXPR")
    as_json: bool = switch("With -explain, print JSON", flag="json")
    variables: tuple[tuple[str, str], ...] = variable_flags()
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("console", ConsoleArguments)
def console(arguments: ConsoleArguments) -> int:
    """Evaluate expressions over configuration, variables and state. Changes nothing.

    In a terminal it prompts for expressions, with a history. Otherwise it reads them from stdin,
    one per line, and prints each result. It stops with exit code 1 at the first error.

    -explain shows one expression as a tree: every part with its value and type, the definitions of
    names, and the causes of sensitive or unknown values.
    """
    if arguments.as_json and not arguments.explain:
        raise click.UsageError("-json goes with -explain.")
    screen = arguments.view.screen()
    opened = open_console(place_of(arguments.state, arguments.variables))
    screen.diagnostics(opened.diagnostics, opened.sources)
    if opened.console is None:
        return 1
    if arguments.explain:
        return _explained(screen, opened.console, arguments)
    if sys.stdin.isatty():
        return _interactive(screen, opened.console)
    return _piped(screen, opened.console)


def _explained(screen: Screen, session: Console, arguments: ConsoleArguments) -> int:
    """Show what every part of an expression comes to."""
    from nexusform.rendering.answers.console_text import tree_document, tree_text

    explained = session.explained(arguments.explain)
    screen.diagnostics(explained.diagnostics, explained.sources)
    if explained.tree is not None and arguments.as_json:
        from nexusform.rendering.notation.json_values import json_bytes

        screen.out(json_bytes(tree_document(explained.tree), pretty=True).decode())
    elif explained.tree is not None:
        screen.out(tree_text(explained.tree, screen.width), end="")
    return 1 if has_errors(explained.diagnostics) else 0


def _piped(screen: Screen, session: Console) -> int:
    for expression in _expressions(sys.stdin):
        if expression == "exit":
            return 0
        if not _answer(screen, session, expression):
            return 1
    return 0


def _expressions(lines: Iterable[str]) -> Iterator[str]:
    """The lines, joined where an expression goes on; empty ones are left out."""
    pending = ""
    for line in lines:
        pending += line
        if not pending.strip():
            pending = ""
        elif not is_unfinished(pending):
            yield _trimmed(pending)
            pending = ""
    if pending:
        yield _trimmed(pending)


def _trimmed(text: str) -> str:
    """Without surrounding space, except the newline that ends a heredoc."""
    return text.strip() + "\n" if "\n" in text.strip() else text.strip()


def _answer(screen: Screen, session: Console, expression: str) -> bool:
    """Print the value of an expression; whether it has one."""
    if expression == "help":
        screen.out(HELP)
        return True
    answer = session.answer(expression)
    screen.diagnostics(answer.diagnostics, answer.sources)
    if answer.text is not None:
        screen.out(answer.text)
    return not has_errors(answer.diagnostics)


def _interactive(screen: Screen, session: Console) -> int:
    """Read expressions until the end of input, line by line where they are not finished."""
    _with_history(session)
    pending = ""
    while True:
        try:
            line = input(": " if pending else "> ")
        except EOFError:
            screen.out()
            return 0
        except KeyboardInterrupt:
            screen.out()
            if not pending:
                return 0
            pending = ""
            continue
        pending += line + "\n"
        # An empty line gives up on what cannot be finished.
        if not pending.strip() or (line.strip() and is_unfinished(pending)):
            pending = pending if pending.strip() else ""
            continue
        text, pending = _trimmed(pending), ""
        if text in ("exit", "quit"):
            return 0
        _answer(screen, session, text)


def _with_history(session: Console) -> None:
    """Line editing, history and completion, where the system has them."""
    try:
        import readline
    except ImportError:
        return
    names = session.names()

    def complete(text: str, state: int) -> str | None:
        completions = [name for name in names if name.startswith(text)]
        return completions[state] if text and state < len(completions) else None

    readline.set_completer(complete)
    readline.set_completer_delims(' \t\n()[]{},+-*/%!<>=&|?:"$')
    readline.parse_and_bind("tab: complete")
