"""`nexusform get`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.arguments import group, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.configuration.configuration import Module
from nexusform.diagnostics import has_errors
from nexusform.workflow.place import load_configuration


class GetArguments(Struct, frozen=True, kw_only=True):
    """What `get` takes."""

    update: bool = switch("Taken for likeness with other tools: modules are read in place")
    test_directory: str = text("Taken for likeness with other tools", metavar="DIR")
    view: ViewFlags = group(ViewFlags)


@command("get", GetArguments)
def get(arguments: GetArguments) -> int:
    """List the modules that the configuration calls and where they are, or say what is wrong with them.

    Modules are directories of this machine and are read in place, so nothing is fetched.
    """
    screen = arguments.view.screen()
    configuration, problems = load_configuration(place_of())
    screen.diagnostics(problems, configuration.files if configuration else {})
    if configuration is None or has_errors(problems):
        return 1
    calls = _calls(configuration.root)
    for path, directory in calls:
        screen.out(f"- {path} in {directory}")
    if not calls:
        screen.out("The configuration calls no modules.")
    return 0


def _calls(module: Module) -> list[tuple[str, str]]:
    """The address of every call with the directory of its module, callers first."""
    calls: list[tuple[str, str]] = []
    stack = list(module.calls.values())[::-1]
    while stack:
        call = stack.pop()
        calls.append((".".join(call.module.path), call.module.directory))
        stack += list(call.module.calls.values())[::-1]
    return calls
