"""A plan as a shell script of `az networkcloud` commands."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, cast

from nexusform.diagnostics.phrases import enclose
from nexusform.domains.azure.rendering.azure_objects import (
    CLUSTER,
    LOCATION,
    POOL,
    VM,
    AzureResource,
    MachineAction,
    MachineCordon,
    PlannedAzureResources,
    RecreatedNode,
    ResourceAction,
    UserInput,
    group_inputs_by_name,
)
from nexusform.json_data.plain_data import get_value_at_path
from nexusform.rendering.notation.json_values import omit_empty

MACHINE: Final = "Microsoft.NetworkCloud/bareMetalMachines"
# Has all of these; later versions have more.
EXTENSION: Final = "networkcloud 3.0.0b1"
_CREATE_FLAGS: Final = "extended-location location tags admin-username ssh-key-values "
_ARGUMENT_NAMES: Final = {
    (CLUSTER, "create"): _CREATE_FLAGS
    + "aad-configuration control-plane-node-configuration kubernetes-version "
    "initial-agent-pool-configurations managed-resource-group-configuration network-configuration",
    (CLUSTER, "update"): "tags ssh-key-values control-plane-node-configuration kubernetes-version",
    (POOL, "create"): _CREATE_FLAGS
    + "agent-options attached-network-configuration availability-zones count labels "
    "mode taints upgrade-settings vm-sku-name",
    (POOL, "update"): "tags ssh-key-values count upgrade-settings",
    (VM, "create"): _CREATE_FLAGS
    + "boot-method cloud-services-network-attachment cpu-cores memory-size network-attachments "
    "network-data placement-hints storage-profile user-data vm-device-model vm-image "
    "vm-image-repository-credentials",
    (VM, "update"): "tags vm-image-repository-credentials",
    (MACHINE, "cordon"): "evacuate",
    (MACHINE, "uncordon"): "",
    (MACHINE, "power-off"): "skip-shutdown",
    (MACHINE, "restart"): "",
    (MACHINE, "reimage"): "",
    (
        MACHINE,
        "replace",
    ): "bmc-credentials bmc-mac-address boot-mac-address machine-name safeguard-mode serial-number",
}
# Flags of each command, without those naming the resource.
ARGUMENTS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    command: frozenset(names.split()) for command, names in _ARGUMENT_NAMES.items()
}
_ADMINISTRATOR: Final = "administratorConfiguration"
_KEYS: Final = "sshPublicKeys"
_ATTACHMENT: Final = "cloudServicesNetworkAttachment"
_DYNAMIC: Final = ("ipAllocationMethod", "Dynamic")


def convert_to_cli_arguments(value: Any) -> Any:
    """Convert a part of a request body to the form of arguments of the `az` command.

    Members of `administratorConfiguration` move up to the object around it. SSH keys become a list
    of plain texts: {"sshPublicKeys": [{"keyData": "ssh-rsa A"}]} becomes {"sshKeyValues": ["ssh-rsa
    A"]}. The attachment to the cloud services network loses the allocation method Dynamic.
    """
    if isinstance(value, list):
        return list(map(convert_to_cli_arguments, value))
    if not isinstance(value, Mapping):
        # A scalar, or an input of the user.
        return value
    arguments: dict[str, Any] = {}
    for name, part in value.items():
        if name == _ADMINISTRATOR and isinstance(part, Mapping):
            arguments |= convert_to_cli_arguments(part)
        elif name == _KEYS and isinstance(part, list):
            # Keys are objects, or inputs of the user.
            arguments["sshKeyValues"] = [get_value_at_path(key, "keyData") or key for key in part]
        elif name == _KEYS:
            # One input for all keys.
            arguments["sshKeyValues"] = part
        elif name == _ATTACHMENT and isinstance(part, Mapping):
            # Dynamic is the command's default and has no argument.
            arguments[name] = {
                key: element for key, element in part.items() if (key, element) != _DYNAMIC
            }
        else:
            arguments[name] = convert_to_cli_arguments(part)
    return arguments


def find_unsupported_arguments(kind: str, verb: str, flags: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags without an argument of the `az` command of a kind and verb."""
    supported = ARGUMENTS[kind, verb]
    yield from (name for name in flags if name not in supported)
    # _DYNAMIC is the allocation method with its default. Without an argument for it, only the
    # default is possible.
    if get_value_at_path(flags, "cloud-services-network-attachment", _DYNAMIC[0]) is not None:
        yield f"cloud-services-network-attachment {_DYNAMIC[0]}"


_GROUP: Final = UserInput(
    ("resource", "group"), entry="", meaning="Name of the resource group of clusters and VMs."
)
# Command and flags by action.
_CORDON_COMMANDS: Final = {
    "cordon": ("cordon",),
    "evacuate": ("cordon", "--evacuate True"),
    "uncordon": ("uncordon",),
}
_MACHINES_GROUP: Final = ("machines", "resource", "group")
_COMMANDS: Final = {
    CLUSTER: "az networkcloud kubernetescluster",
    POOL: "az networkcloud kubernetescluster agentpool",
    VM: "az networkcloud virtualmachine",
}
# Flags that differ from the property's name in kebab case.
_FLAGS: Final = {
    "memorySizeGB": "memory-size",
    "cloudServicesNetworkAttachment": "cloud-services-network-attachment",
    "diskSizeGB": "disk-size",
}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ,.()/_-]")  # within ${NAME:?...}
_SPECIAL: Final = re.compile(r'["$`\\!]')
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9_./@%+-]+")
# Key in `--flag key=value`.
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TAGS: Final = "tags"
# Null, and a request for help.
_SPECIAL_VALUES: Final = ("null", "??")
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HEADER: Final = f"""\
#!/usr/bin/env bash
# Written by nexusform from a plan, to be read before it is run. Keep the order of the commands:
# placement depends on it. Each command waits until Azure is done. Arguments: extension {EXTENSION}.
set -euo pipefail
"""


def render_az_script(objects: PlannedAzureResources) -> tuple[str, tuple[str, ...]]:
    """Render the script.

    Also return descriptions of values missing in it: no argument of a command sets them.
    """
    writer = _ScriptWriter(objects)
    steps = [
        *map(writer.render_deletion, objects.deleted),
        *map(writer.render_cordon, objects.cordons),
    ]
    for item in objects.ordered:
        if isinstance(item, RecreatedNode):
            steps.append(writer.render_node_deletion(item))
        elif item.action is ResourceAction.UPDATE:
            steps.append(writer.render_update(item))
        else:
            steps.append(writer.render_creation(item))
    # These run once VMs have left the machines.
    steps += map(writer.render_machine_action, objects.machine_actions)
    return "\n".join([_HEADER, *writer.render_variables(), "", *steps]), tuple(writer.unsupported)


class _ScriptWriter:
    """Writer of one script."""

    def __init__(self, objects: PlannedAzureResources) -> None:
        self.objects = objects
        # Name by input, in order of first use.
        self.variables: dict[UserInput, str] = {}
        # Descriptions of values without an argument of a command.
        self.unsupported: list[str] = []

    def render_variables(self) -> Iterator[str]:
        """Render a check of each variable.

        `: "${NAME:?MEANING}"` ends the script with MEANING if NAME is not set.
        """
        for inputs in group_inputs_by_name(self.variables).values():
            for variable in inputs:
                # In place of the full stop.
                entry_suffix = enclose(" (", variable.entry, ")")
                meaning = _UNSAFE.sub("", f"{variable.meaning[:-1]}{entry_suffix}")
                yield f': "${{{self.variables[variable]}:?{meaning}}}"'

    def render_creation(self, resource: AzureResource) -> str:
        """Render the creation of a resource; a replaced one is deleted first."""
        site = self.objects.build_location(resource.site)
        location = f"name={self._render_variable(site)} type=CustomLocation"
        flags = [f"--extended-location {location}", f"--location {self._render_variable(LOCATION)}"]
        flags += self._render_flags(resource, "create", resource.properties, resource.tags)
        command = self._render_command(resource, "create", flags)
        if resource.action is ResourceAction.REPLACE:
            return f"{self.render_deletion(resource)}\n{command}"
        return f"# {resource.address}: make {resource.title}\n{command}"

    def render_update(self, resource: AzureResource) -> str:
        """Render the update of an existing resource."""
        flags = self._render_flags(
            resource, "update", resource.update_properties, resource.update_tags
        )
        return (
            f"# {resource.address}: change {resource.title}\n"
            f"{self._render_command(resource, 'update', flags)}"
        )

    def render_deletion(self, resource: AzureResource) -> str:
        """Render the deletion of a resource."""
        verb = "re-create" if resource.action is ResourceAction.REPLACE else "remove"
        return (
            f"# {resource.address}: {verb} {resource.title}\n"
            f"{self._render_command(resource, 'delete', ['--yes'])}"
        )

    def render_cordon(self, cordon: MachineCordon) -> str:
        """Render the cordon or uncordon of a machine."""
        verb, *options = _CORDON_COMMANDS[cordon.verb]
        return self._render_machine_command(cordon, cordon.verb, verb, options)

    def render_machine_action(self, action: MachineAction) -> str:
        """Render the run of a lifecycle action of a machine."""
        verb = _WORD_BOUNDARY.sub("-", action.action).lower()
        options = ["--evacuate False"] if verb == "cordon" else []
        if verb == "replace":
            arguments = {"safeguardMode": "All", **action.body}
            unsupported = find_unsupported_arguments(
                MACHINE, verb, {_format_flag(name): "" for name in arguments}
            )
            self.unsupported += [f"{action.title}: {name}" for name in unsupported]
            options = [self._render_flag(name, part) for name, part in arguments.items()]
        return self._render_machine_command(action, action.action, verb, options)

    def render_node_deletion(self, node: RecreatedNode) -> str:
        """Render the deletion of a node in its cluster: Azure creates a new one."""
        named = UserInput(
            ("node", "name"), entry=node.name, meaning="Name of the node in its cluster."
        )
        name = (
            shlex.quote(node.platform_name) if node.platform_name else self._render_variable(named)
        )
        kubectl = f"kubectl --context={shlex.quote(node.cluster)}"
        lines = [
            f"# {node.address}: re-create {node.name}. Azure deletes no single node.",
            f"{kubectl} cordon {name}",
            f"{kubectl} drain {name} --ignore-daemonsets  # where its pods allow it",
            f"{kubectl} delete node {name}",
            "# Wait until Azure has created the new node.",
        ]
        return "\n".join(lines) + "\n"

    def _render_machine_command(
        self, step: MachineCordon | MachineAction, title: str, verb: str, flags: Sequence[str]
    ) -> str:
        """Render a command for a machine with one flag per line, below a comment with the title."""
        sites = {cordon.site for cordon in self.objects.cordons}
        sites |= {action.site for action in self.objects.machine_actions}
        group = UserInput(
            _MACHINES_GROUP,
            # Of several sites, each has its own group.
            entry=step.site if len(sites) > 1 else "",
            meaning="Name of the resource group of machines.",
        )
        flags = [
            f"--name {shlex.quote(step.machine)}",
            f"--resource-group {self._render_variable(group)}",
            *flags,
        ]
        command = " \\\n  ".join([f"az networkcloud baremetalmachine {verb}", *flags])
        return f"# {step.address}: {title} {step.machine}\n{command}\n"

    def _render_command(self, resource: AzureResource, verb: str, flags: list[str]) -> str:
        """Render an `az` command with one flag per line."""
        group = shlex.quote(resource.group) if resource.group else self._render_variable(_GROUP)
        names = [f"--name {shlex.quote(resource.names[-1])}", f"--resource-group {group}"]
        if resource.type == POOL:
            names.insert(0, f"--kubernetes-cluster-name {shlex.quote(resource.names[0])}")
        return " \\\n  ".join([f"{_COMMANDS[resource.type]} {verb}", *names, *flags]) + "\n"

    def _render_flags(
        self, resource: AzureResource, verb: str, body: Mapping[str, Any], tags: Mapping[str, Any]
    ) -> list[str]:
        """Render a body and tags as flags.

        Record values without an argument of the command as unsupported.
        """
        arguments = convert_to_cli_arguments(body)
        flags = {_format_flag(name): part for name, part in arguments.items()}
        unsupported = find_unsupported_arguments(resource.type, verb, flags)
        self.unsupported += [f"{resource.title}: {name}" for name in unsupported]
        arguments = {**arguments, **omit_empty({_TAGS: tags})}
        return [self._render_flag(name, part) for name, part in arguments.items()]

    def _render_flag(self, name: str, value: Any) -> str:
        """Render a property as a flag; an object becomes name=value words."""
        flag = f"--{_format_flag(name)}"
        if isinstance(value, Mapping):
            # Its only property.
            members = value["osDisk"] if name == "storageProfile" else value
            keys = list(map(_format_flag, members))
            # Names of tags are user data, not arguments of the command.
            if name == _TAGS:
                keys = [_quote_shell_word(_quote_shorthand(key, _KEY)) for key in members]
            words = map(self._render_value_as_shell_word, members.values())
            return " ".join(
                [flag, *(f"{key}={word}" for key, word in zip(keys, words, strict=True))]
            )
        if name == "sshKeyValues" and isinstance(value, list):
            return " ".join([flag, *map(self._render_value_as_shell_word, value)])
        return f"{flag} {self._render_value_as_shell_word(value)}"

    def _render_value_as_shell_word(self, value: Any) -> str:
        """Render a value as a shell word.

        Lists and objects are in the CLI's shorthand, inputs are shell variables.
        """
        words: list[str] = []
        pieces = _render_shorthand(value, is_top_level=True)
        for is_text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
            # Adjacent texts are quoted as one.
            if is_text:
                words.append(_quote_shell_word("".join(map(str, group))))
            else:
                words += map(self._render_variable, cast("Iterator[UserInput]", group))
        return "".join(words)

    def _render_variable(self, variable: UserInput) -> str:
        """Render a shell variable and record it as required.

        The name gets a number if another variable has the same one (`a-b`, `a_b`).
        """
        if variable not in self.variables:
            # "": not an entry of a map.
            words = filter(None, (*variable.name_words, variable.entry))
            base_name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words)).upper()
            name = base_name
            number = 2
            used_names = set(self.variables.values())
            while name in used_names:
                name = f"{base_name}_{number}"
                number = number + 1
            self.variables[variable] = name
        return f'"${self.variables[variable]}"'


def _quote_shell_word(text: str) -> str:
    """Quote a string for the shell.

    A string with apostrophes and no special characters gets double quotes.
    """
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)


def _render_shorthand(value: Any, *, is_top_level: bool = False) -> Iterator[str | UserInput]:
    """Yield the pieces of a value in the shorthand of `az`: `{a:[1,'b c']}`.

    A UserInput (filled in by the user) is a piece of its own. At the top level most strings
    need no quotes.
    """
    if isinstance(value, UserInput):
        yield value
    elif isinstance(value, Mapping):
        yield "{"
        for number, (name, inner) in enumerate(value.items()):
            yield f"{',' if number else ''}{_format_flag(name)}:"
            yield from _render_shorthand(inner)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, inner in enumerate(value):
            yield "," if number else ""
            yield from _render_shorthand(inner)
        yield "]"
    else:
        text = str(value)
        needs_quotes_at_top = text in ("", *_SPECIAL_VALUES) or text.startswith("'")
        if isinstance(value, int) or (is_top_level and not needs_quotes_at_top):
            yield text
        elif is_top_level or _needs_az_shorthand_quotes(text):
            # Always in quotes.
            yield _quote_shorthand(text, None)
        else:
            # In quotes only if the text has special characters.
            yield _quote_shorthand(text, _PLAIN_TEXT)


def _quote_shorthand(text: str, plain_pattern: re.Pattern[str] | None) -> str:
    """Quote a string for the shorthand unless it matches `plain_pattern` (None: always).

    An apostrophe becomes '/.
    """
    return (
        text
        if plain_pattern and plain_pattern.fullmatch(text)
        else "'" + text.replace("'", "'/") + "'"
    )


def _needs_az_shorthand_quotes(text: str) -> bool:
    """Return True if `az` reads an unquoted string as something else.

    For example, it reads 1.10 as 1.1, and null as nothing.
    """
    try:
        float(text)
    except ValueError:
        return text in _SPECIAL_VALUES
    return True


def _format_flag(name: str) -> str:
    """Return the flag of an API property: `adminUsername` -> `admin-username`."""
    return _FLAGS.get(name) or _WORD_BOUNDARY.sub("-", name).lower()
