"""Options before the command: -chdir, -version and the forms of help."""

import os
from typing import Final

import click

from nexusform.diagnostics.diagnostic import suggest_name

# Written in place of --help to list everything.
HELP_ALL: Final = "--help=all"
# Key of click's context: whether everything is listed.
HELP_KEY: Final = "nexusform.help-all"
# The words of NF_CLI_ARGS in click's form, `-name=value`.
VARIABLE_WORDS_KEY: Final = "nexusform.variable-words"


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
    if arguments == ["help", "all"] or first in ("-help=all", HELP_ALL):
        return [HELP_ALL]
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
