"""Flags and variables of other tools, with what to use instead.

A flag that a command has is never looked up here. Flags and variables without an effect on the
result are missing.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

_HYPOTHETICAL: Final = "A hypothetical plan cannot be saved or signed."
_NO_PLUGINS: Final = "Providers come with nexusform, so there is nothing to download."
_NO_SERVICE: Final = "nexusform has no service: state is in your backend."
_LOG: Final = "NF_LOG=debug logs to stderr."


class FlagHint(Struct, frozen=True):
    """Flags of other tools (names separated by blanks), and what to use instead.

    `commands` are the commands of the hint, or their groups; () for all. `required_flag` is a flag
    that the command must have, because the hint names it.
    """

    names: str
    hint: str
    commands: tuple[str, ...] = ()
    required_flag: str = ""


# The first one that fits is shown.
FLAG_HINTS: Final = (
    FlagHint(
        "terraform-plan",
        "Use: nexusform predict -terraform-plan=FILE -inventory=DIR",
        commands=("plan",),
    ),
    FlagHint(
        "arm-what-if", "Use: nexusform predict -arm-what-if=FILE -inventory=DIR", commands=("plan",)
    ),
    FlagHint("plugin-dir get-plugins lockfile verify-plugins", _NO_PLUGINS, commands=("init",)),
    FlagHint(
        "from-module",
        "Copy the files of the module, or call it with a module block.",
        commands=("init",),
    ),
    FlagHint(
        "auto-approve y yes approve force",
        "A gate is approved by -wave=NAME, or by a typed yes.",
        commands=("sites apply",),
    ),
    FlagHint("y yes approve force", "Use -auto-approve.", required_flag="auto-approve"),
    FlagHint("out sign", _HYPOTHETICAL, commands=("simulate", "explore")),
    FlagHint("dry-run", "A plan changes nothing.", commands=("plan", "sites plan", "predict")),
    FlagHint("dry-run", 'Use "nexusform plan -destroy".', commands=("destroy",)),
    FlagHint("dry-run", 'Use "nexusform sites plan".', commands=("sites apply",)),
    FlagHint("dry-run", 'Use "nexusform plan": it changes nothing.'),
    FlagHint(
        "concise", "The output is concise. -details shows everything.", required_flag="details"
    ),
    FlagHint(
        "light",
        "Use -refresh=false to read nothing, or -target=ADDR for a part.",
        required_flag="refresh",
    ),
    FlagHint(
        "f filename",
        "nexusform reads all *.nf.hcl files of a directory. For another directory: "
        "nexusform -chdir=DIR COMMAND",
    ),
    FlagHint(
        "minimal-refresh",
        "A refresh reads whole sites and hubs: use -refresh=false to read nothing, or -target=ADDR "
        "for a part.",
        required_flag="refresh",
    ),
    FlagHint(
        "lint",
        "Findings of lint are part of every validate and plan. nexusform advise lists them all.",
        commands=("validate", "plan", "apply"),
    ),
    FlagHint("policies", "Use -fail-on=NAME:LIMIT for guard rails.", required_flag="fail-on"),
    FlagHint("invoke", "There are no actions: run the command after apply."),
    FlagHint("json-into", "Use -report=json:FILE.", required_flag="report"),
    FlagHint("json-into", "Use -json > FILE.", required_flag="json"),
    FlagHint("o output json", "Use -json.", required_flag="json"),
    FlagHint("o output json", "Use -format=json.", required_flag="format"),
    FlagHint(
        "state-out",
        "nexusform writes the state where it reads it: use -state=FILE.",
        required_flag="state",
    ),
    FlagHint("backup backup-out", 'Earlier states are kept: "nexusform state history".'),
    FlagHint("consolidate-warnings consolidate-errors", "Equal warnings are always grouped."),
    FlagHint("force-conflicts server-side", "Use -take-ownership.", required_flag="take-ownership"),
    FlagHint("prune", "apply deletes all objects that the configuration no longer has."),
    FlagHint("l selector", "Use -target=ADDR.", required_flag="target"),
    FlagHint("n namespace", "The namespace of an object is in the configuration."),
    FlagHint("kubeconfig", 'Set NF_FLEET_KUBECONFIG, or "kubeconfig" of the provider "fleet".'),
    FlagHint("context", 'Set NF_FLEET_CONTEXT, or "context" of the provider "fleet".'),
    FlagHint("ignore-remote-version cloud-run", _NO_SERVICE),
    FlagHint("debug v verbose", _LOG),
)


def find_flag_hint(command: str, name: str, flags: Collection[str]) -> str:
    """Return what to use instead of an unknown flag of a command, "" if it is of no other tool.

    `flags` are the names of the command's own flags.
    """
    group = command.partition(" ")[0]
    for entry in FLAG_HINTS:
        is_of_command = not entry.commands or command in entry.commands or group in entry.commands
        is_usable = not entry.required_flag or entry.required_flag in flags
        if name in entry.names.split() and is_of_command and is_usable:
            return entry.hint
    return ""


class VariableHint(Struct, frozen=True):
    """A variable of Terraform or OpenTofu that nexusform ignores, and what to use instead.

    `replacement` is the variable of nexusform, "" if there is none. `commands` are the commands
    that Terraform's variable concerns; () for all.
    """

    name: str
    replacement: str = ""
    hint: str = ""
    commands: tuple[str, ...] = ()


_INIT: Final = ("init",)
# The variables of the backend http that name its arguments.
_HTTP_ARGUMENTS: Final = (
    "address",
    "update_method",
    "lock_address",
    "lock_method",
    "unlock_address",
    "unlock_method",
)
VARIABLE_HINTS: Final = (
    *(
        VariableHint(f"TF_{suffix}", f"NF_{suffix}")
        for suffix in (
            "LOG",
            "LOG_PATH",
            "DATA_DIR",
            "INPUT",
            "IN_AUTOMATION",
            "ENCRYPTION",
            "HTTP_USERNAME",
            "HTTP_PASSWORD",
        )
    ),
    *(
        VariableHint(
            f"TF_HTTP_{argument.upper()}",
            hint=f"Use -backend-config={argument}=VALUE.",
            commands=_INIT,
        )
        for argument in _HTTP_ARGUMENTS
    ),
    VariableHint("TF_PLUGIN_CACHE_DIR", hint=_NO_PLUGINS, commands=_INIT),
    VariableHint(
        "TF_CLI_CONFIG_FILE",
        hint="nexusform has no such file. The token of a module registry is in NF_TOKEN_HOST.",
        commands=_INIT,
    ),
    *(
        VariableHint(f"TF_CLOUD_{suffix}", hint=_NO_SERVICE, commands=_INIT)
        for suffix in ("ORGANIZATION", "HOSTNAME", "PROJECT")
    ),
)
_ARGUMENTS: Final = "CLI_ARGS"


def list_variable_notes(environment: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Return a line for each set variable of Terraform that a command ignores, or uses.

    `words` is the command line after global options. A variable is not listed if that of nexusform
    is set, too.
    """
    command = words[0] if words else ""
    notes = [
        f"{entry.name} is ignored. {entry.hint or f'Use {entry.replacement}.'}"
        for entry in (*VARIABLE_HINTS, *_list_argument_hints(words))
        if entry.name in environment
        and entry.replacement not in environment
        and (not entry.commands or command in entry.commands)
    ]
    if environment.get("TF_WORKSPACE") and "NF_WORKSPACE" not in environment:
        notes.append(f'TF_WORKSPACE selects the workspace "{environment["TF_WORKSPACE"]}".')
    return notes


def _list_argument_hints(words: Sequence[str]) -> list[VariableHint]:
    """Return the variables with arguments of a command, such as TF_CLI_ARGS_state_list."""
    # A command has at most three words; further ones are its arguments.
    suffixes = ["", *("_" + "_".join(words[:length]).replace("-", "_") for length in (1, 2, 3))]
    names = dict.fromkeys(f"{_ARGUMENTS}{suffix}" for suffix in suffixes)
    return [VariableHint(f"TF_{name}", f"NF_{name}") for name in names]
