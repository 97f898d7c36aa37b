"""`nexusform get`."""

from __future__ import annotations

from typing import Any

from nexusform.cli import flags
from nexusform.cli.commands import command, option, switch
from nexusform.cli.screen import Screen
from nexusform.configuration.model import Module
from nexusform.diagnostics import has_errors
from nexusform.workflow.project import load_configuration


@command("get", summary="Show which modules the configuration calls")
@switch("update", "Taken for likeness with other tools: modules are read in place")
@option("test-directory", "Taken for likeness with other tools", metavar="DIR")
@flags.view_flags
def get(**given: Any) -> int:
    """List the modules that the configuration calls and where they are, or say what is wrong with them.

    Modules are directories of this machine and are read in place, so nothing is fetched.
    """
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    configuration, problems = load_configuration(flags.place_of(given))
    screen.diagnostics(problems, configuration.files if configuration else {})
    if configuration is None or has_errors(problems):
        return 1
    found = list(_called(configuration.root))
    for path, directory in found:
        screen.out(f"- {path} in {directory}")
    if not found:
        screen.out("The configuration calls no modules.")
    return 0


def _called(module: Module) -> list[tuple[str, str]]:
    """The address of every call with the directory of its module, callers first."""
    found: list[tuple[str, str]] = []
    stack = list(module.calls.values())[::-1]
    while stack:
        call = stack.pop()
        found.append((".".join(call.module.path), call.module.directory))
        stack += list(call.module.calls.values())[::-1]
    return found
