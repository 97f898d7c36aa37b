"""Commands of nexusform in the order of the help; each is imported on use.

To add one, write its function and its line, or its line in domain_table.py if a domain has it.
"""

from typing import Final

import click

from nexusform.command_entry import CommandEntry, CommandSection
from nexusform.domain_table import collect_commands

_MAIN: Final = CommandSection.MAIN
_ANALYSIS: Final = CommandSection.ANALYSIS
_SITES: Final = CommandSection.SITES
_STATE_SECTION: Final = CommandSection.STATE
_OTHER_TOOLS: Final = CommandSection.OTHER_TOOLS


def _load_init() -> click.Command:
    from nexusform.cli.init import init

    return init


def _load_modules() -> click.Command:
    from nexusform.cli.modules import modules

    return modules


def _load_validate() -> click.Command:
    from nexusform.cli.validate import validate

    return validate


def _load_fmt() -> click.Command:
    from nexusform.cli.fmt import fmt

    return fmt


def _load_plan() -> click.Command:
    from nexusform.cli.plan import plan

    return plan


def _load_apply() -> click.Command:
    from nexusform.cli.apply import apply

    return apply


def _load_destroy() -> click.Command:
    from nexusform.cli.apply import destroy

    return destroy


def _load_show() -> click.Command:
    from nexusform.cli.show import show

    return show


def _load_output() -> click.Command:
    from nexusform.cli.state_view import output

    return output


def _load_explain() -> click.Command:
    from nexusform.cli.explain import explain

    return explain


def _load_advise() -> click.Command:
    from nexusform.cli.advise import advise

    return advise


def _load_graph() -> click.Command:
    from nexusform.cli.graph import graph

    return graph


def _load_console() -> click.Command:
    from nexusform.cli.console import console

    return console


def _load_import() -> click.Command:
    from nexusform.cli.import_ import import_

    return import_


def _load_state() -> click.Command:
    from nexusform.cli.state import state

    return state


def _load_workspace() -> click.Command:
    from nexusform.cli.workspace import workspace

    return workspace


def _load_untaint() -> click.Command:
    from nexusform.cli.state_edit import untaint

    return untaint


def _load_force_unlock() -> click.Command:
    from nexusform.cli.state_edit import force_unlock

    return force_unlock


def _load_sign() -> click.Command:
    from nexusform.cli.export import sign

    return sign


def _load_export() -> click.Command:
    from nexusform.cli.export import export

    return export


def _load_completion() -> click.Command:
    from nexusform.cli.completion import completion

    return completion


def _load_providers() -> click.Command:
    from nexusform.cli.version import providers

    return providers


def _load_version() -> click.Command:
    from nexusform.cli.version import version

    return version


# Commands of the engine. Those of a domain are in its entry of domain_table.py.
_COMMANDS: Final[dict[str, CommandEntry]] = {
    "init": CommandEntry("Download modules and prepare the backend", _MAIN, load=_load_init),
    "modules": CommandEntry(
        "List modules and their sources", _MAIN, is_read_only=True, load=_load_modules
    ),
    "validate": CommandEntry(
        "Validate the configuration", _MAIN, is_common=True, is_read_only=True, load=_load_validate
    ),
    "fmt": CommandEntry("Format configuration files", _MAIN, is_common=True, load=_load_fmt),
    "plan": CommandEntry(
        "Show planned changes and placements",
        _MAIN,
        is_common=True,
        is_read_only=True,
        load=_load_plan,
    ),
    "apply": CommandEntry("Apply a plan", _MAIN, is_common=True, load=_load_apply),
    "destroy": CommandEntry("Destroy all resources in the state", _MAIN, load=_load_destroy),
    "show": CommandEntry(
        "Show the state, a saved plan or one resource",
        _MAIN,
        is_common=True,
        is_read_only=True,
        load=_load_show,
    ),
    "output": CommandEntry(
        "Show the root module's outputs", _MAIN, is_read_only=True, load=_load_output
    ),
    "explain": CommandEntry(
        "Explain a placement", _ANALYSIS, is_common=True, is_read_only=True, load=_load_explain
    ),
    "advise": CommandEntry("List placement risks", _ANALYSIS, is_read_only=True, load=_load_advise),
    "graph": CommandEntry(
        "Draw the dependency graph", _ANALYSIS, is_read_only=True, load=_load_graph
    ),
    "console": CommandEntry(
        "Evaluate expressions", _ANALYSIS, is_read_only=True, load=_load_console
    ),
    "import": CommandEntry(
        "Import an existing resource", _SITES, is_common=True, load=_load_import
    ),
    "state": CommandEntry("Inspect and edit the state", _STATE_SECTION, load=_load_state),
    "workspace": CommandEntry("Manage workspaces", _STATE_SECTION, load=_load_workspace),
    "untaint": CommandEntry("Remove the taint of a resource", _STATE_SECTION, load=_load_untaint),
    "force-unlock": CommandEntry("Remove a stale lock", _STATE_SECTION, load=_load_force_unlock),
    "sign": CommandEntry("Sign an approved plan", _OTHER_TOOLS, load=_load_sign),
    "export": CommandEntry("Export a saved plan for other tools", _OTHER_TOOLS, load=_load_export),
    "completion": CommandEntry(
        "Print a shell completion script", _OTHER_TOOLS, load=_load_completion
    ),
    "providers": CommandEntry(
        "Print the schemas of all types", is_read_only=True, load=_load_providers
    ),
    "version": CommandEntry("Show the version", is_read_only=True, load=_load_version),
}
COMMANDS: Final[dict[str, CommandEntry]] = {**_COMMANDS, **collect_commands()}
