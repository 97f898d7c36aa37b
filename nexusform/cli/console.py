"""`nexusform console`: interactive evaluation of expressions."""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_switch_flag, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.workflow.expression_console import ExpressionConsole, is_unfinished, open_console

HELP: Final = """\
Type an expression and press Enter to see its value, as in the configuration:
  var.NAME, local.NAME, nexus_rack.NAME.machines, cidrsubnet("10.0.0.0/8", 8, 1)
Resources are read from the state; missing ones are shown as (known after apply).
type(EXPRESSION) shows the type of a value. Open brackets and heredocs continue on the next line.

To leave: "exit", Ctrl-D or Ctrl-C."""


class ConsoleArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `console`."""

    explain: str = declare_text_flag("Explain the value of one expression and exit", metavar="EXPR")
    as_json: bool = declare_switch_flag("With -explain, print JSON", flag="json")
    scope: str = declare_text_flag("Evaluate in this module instance", metavar="ADDR")
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("console", ConsoleArguments)
def console(arguments: ConsoleArguments) -> int:
    """Evaluate expressions over configuration, variables and state.

    Changes nothing.

    In a terminal it prompts for expressions, with a history. Otherwise it reads them from stdin,
    one per line, and prints each result. It stops with exit code 1 at the first error.

    -explain shows one expression as a tree: every part with its value and type, the definitions of
    names, and the causes of sensitive or unknown values.

    -scope=module.NAME["KEY"] evaluates with the names of this module: its variables, locals,
    resources.
    """
    if arguments.as_json and not arguments.explain:
        raise click.UsageError("-json needs -explain.")
    screen = arguments.view.create_screen()
    context = create_context(arguments.state, arguments.variables, requires_state=True)
    opened = open_console(context, arguments.scope)
    screen.print_diagnostics(opened.diagnostics, opened.sources)
    # The errors are printed above.
    if opened.console is None:
        return 1
    if arguments.explain:
        from nexusform.rendering.answers.console_text import build_trace_document, render_trace

        explanation = opened.console.explain(_replace_undecoded_bytes(arguments.explain))
        screen.print_diagnostics(explanation.diagnostics, explanation.sources)
        # A syntax error, printed above.
        if explanation.tree is None:
            return 1
        if arguments.as_json:
            from nexusform.rendering.notation.json_values import encode_document

            screen.print_text(
                encode_document(build_trace_document(explanation.tree), pretty=True).decode()
            )
        else:
            screen.print_text(render_trace(explanation.tree, screen.width), end="")
        return 1 if has_errors(explanation.diagnostics) else 0
    if sys.stdin.isatty():
        return _run_interactive_console(screen, opened.console)
    for expression in _join_expressions(sys.stdin):
        if expression == "exit":
            return 0
        if not _print_expression_value(screen, opened.console, expression):
            return 1
    return 0


def _join_expressions(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, joined to whole expressions; empty ones are dropped."""
    # The lines read so far.
    expression = ""
    for line in lines:
        expression += line
        if not expression.strip():
            expression = ""
        elif not is_unfinished(expression):
            yield _trim_expression(expression)
            expression = ""
    # The text ends inside an expression; its evaluation reports it.
    if expression:
        yield _trim_expression(expression)


def _trim_expression(text: str) -> str:
    """Remove surrounding space, except the newline at the end of a heredoc."""
    expression = text.strip()
    return f"{expression}\n" if "\n" in expression else expression


def _replace_undecoded_bytes(text: str) -> str:
    """Replace the bytes of input that are not UTF-8, as in all values."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _print_expression_value(screen: Screen, session: ExpressionConsole, expression: str) -> bool:
    """Print the value of an expression or its errors, or the help.

    Return whether there were no errors.
    """
    if expression == "help":
        screen.print_text(HELP)
        return True
    result = session.evaluate(_replace_undecoded_bytes(expression))
    screen.print_diagnostics(result.diagnostics, result.sources)
    if result.text is not None:
        screen.print_text(result.text)
    return not has_errors(result.diagnostics)


def _run_interactive_console(screen: Screen, session: ExpressionConsole) -> int:
    """Read and evaluate expressions until the end of input.

    An unfinished expression continues on the next line. Return 0.
    """
    _enable_line_editing(session)
    # Lines of an unfinished expression.
    pending = ""
    while True:
        try:
            line = input(": " if pending else "> ")
        except EOFError:
            screen.print_text()
            return 0
        except KeyboardInterrupt:
            screen.print_text()
            if not pending:
                return 0
            # Only the unfinished expression is dropped.
            pending = ""
            continue
        pending = f"{pending}{line}\n".lstrip()
        # Continue with the next line of an unfinished expression; an empty line ends it.
        if not pending or (line.strip() and is_unfinished(pending)):
            continue
        text = _trim_expression(pending)
        pending = ""
        if text in ("exit", "quit"):
            return 0
        _print_expression_value(screen, session, text)


def _enable_line_editing(session: ExpressionConsole) -> None:
    """Enable line editing, history and completion if available."""
    try:
        import readline
    except ImportError:
        return
    names = session.list_names()

    def complete_name(text: str, state: int) -> str | None:
        """Return the completion with this number. readline counts from 0 and stops at None."""
        if not text:
            return None
        completions = [name for name in names if name.startswith(text)]
        return completions[state] if state < len(completions) else None

    readline.set_completer(complete_name)
    readline.set_completer_delims(' \t\n()[]{},+-*/%!<>=&|?:"$')
    readline.parse_and_bind("tab: complete")
