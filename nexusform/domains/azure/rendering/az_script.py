"""A plan as a shell script of `az networkcloud` commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.domains.azure.rendering.az_arguments import EXTENSION, as_arguments, beyond
from nexusform.domains.azure.rendering.azure_objects import (
    CLUSTER,
    LOCATION,
    POOL,
    VM,
    AzureObject,
    AzureObjects,
    Cordon,
    Do,
    Input,
    distinct,
)

_GROUP: Final = Input(("resource", "group"), "", "Name of the resource group of clusters and VMs.")
_MACHINES_GROUP: Final = ("machines", "resource", "group")
_COMMANDS: Final = {
    CLUSTER: "az networkcloud kubernetescluster",
    POOL: "az networkcloud kubernetescluster agentpool",
    VM: "az networkcloud virtualmachine",
}
# Properties of the API and what the command calls them, where it is not the same in kebab case.
_FLAGS: Final = {
    "memorySizeGB": "memory-size",
    "cloudServicesNetworkAttachment": "cloud-services-network-attachment",
    "diskSizeGB": "disk-size",
}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ,.()/_-]")  # within ${NAME:?...}
_SPECIAL: Final = re.compile(r'["$`\\!]')
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./@%+-]+")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")  # of `--flag key=value`
_TAGS: Final = "tags"
_WORDS_OF_AZ: Final = ("null", "??")  # nothing, and a request for help
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HEAD: Final = f"""\
#!/usr/bin/env bash
# Written by nexusform from a plan, for a person to read and run. Commands stand in the plan's order:
# places depend on it. Each waits until Azure is done. Arguments are those of the extension {EXTENSION}.
set -euo pipefail
"""


def az_script(objects: AzureObjects) -> tuple[str, tuple[str, ...]]:
    """The script, and what of the bodies the commands have no argument for, in words."""
    writer = _Writer(objects)
    steps = [writer.removed(resource) for resource in objects.removed]
    steps += [writer.cordoned(cordon) for cordon in objects.cordons]
    for resource in objects.placed:
        write = writer.changed if resource.do is Do.UPDATE else writer.made
        steps.append(write(resource))
    return "\n".join([_HEAD, *writer.variables(), "", *steps]), tuple(writer.unsaid)


class _Writer:
    """One script while it is written."""

    def __init__(self, objects: AzureObjects) -> None:
        self.objects = objects
        self.inputs: list[Input] = []
        self.unsaid: list[str] = []

    def variables(self) -> Iterator[str]:
        """What has to be filled in, checked before anything is done."""
        for inputs in distinct(self.inputs).values():
            for variable in inputs:
                of_entry = f" ({variable.entry})" if variable.entry else ""
                meaning = _UNSAFE.sub("", f"{variable.meaning[:-1]}{of_entry}")
                yield f': "${{{variable.shouted}:?{meaning}}}"'

    def made(self, resource: AzureObject) -> str:
        """A new resource; one that is made anew goes first."""
        site = self.objects.location(resource.site)
        location = f"name={self._variable(site)} type=CustomLocation"
        flags = [f"--extended-location {location}", f"--location {self._variable(LOCATION)}"]
        flags += self._flags(resource, "create", resource.properties)
        flags += [self._flag(_TAGS, resource.tags)] if resource.tags else []
        command = self._command(resource, "create", flags)
        if resource.do is Do.REPLACE:
            return f"{self.removed(resource)}\n{command}"
        return f"# {resource.address}: make {resource.title}\n{command}"

    def changed(self, resource: AzureObject) -> str:
        """What is sent to a resource that stands."""
        flags = self._flags(resource, "update", resource.changed)
        flags += [self._flag(_TAGS, resource.changed_tags)] if resource.changed_tags else []
        return f"# {resource.address}: change {resource.title}\n{self._command(resource, 'update', flags)}"

    def removed(self, resource: AzureObject) -> str:
        """A resource that goes."""
        verb = "make anew" if resource.do is Do.REPLACE else "remove"
        return (
            f"# {resource.address}: {verb} {resource.title}\n{self._command(resource, 'delete', ['--yes'])}"
        )

    def cordoned(self, cordon: Cordon) -> str:
        """A machine that takes new VMs no more, or again."""
        sites = {step.site for step in self.objects.cordons}
        group = Input(
            _MACHINES_GROUP, cordon.site if len(sites) > 1 else "", "Name of the resource group of machines."
        )
        verb = "uncordon" if cordon.verb == "uncordon" else "cordon"
        flags = [f"--name {shlex.quote(cordon.machine)}", f"--resource-group {self._variable(group)}"]
        flags += ["--evacuate True"] if cordon.verb == "evacuate" else []
        command = " \\\n  ".join([f"az networkcloud baremetalmachine {verb}", *flags])
        return f"# {cordon.address}: {cordon.verb} {cordon.machine}\n{command}\n"

    def _command(self, resource: AzureObject, verb: str, flags: list[str]) -> str:
        """A command of `az` about a resource, a flag to a line."""
        group = shlex.quote(resource.group) if resource.group else self._variable(_GROUP)
        names = [f"--name {shlex.quote(resource.names[-1])}", f"--resource-group {group}"]
        if resource.type == POOL:
            names.insert(0, f"--kubernetes-cluster-name {shlex.quote(resource.names[0])}")
        lines = [f"{_COMMANDS[resource.type]} {verb}", *names, *flags]
        return " \\\n  ".join(lines) + "\n"

    def _flags(self, resource: AzureObject, verb: str, body: Mapping[str, Any]) -> list[str]:
        """A body as flags; what the command has no argument for is noted."""
        told = as_arguments(body)
        named = {_kebab(name): part for name, part in told.items()}
        self.unsaid += [f"{resource.title}: {name}" for name in beyond(resource.type, verb, named)]
        return [self._flag(name, part) for name, part in told.items()]

    def _flag(self, name: str, value: Any) -> str:
        """A property as a flag of `az`; an object as words of name and value."""
        flag = f"--{_kebab(name)}"
        if name == _TAGS and isinstance(value, Mapping):
            # What tags are called is theirs, and no argument of the command.
            words = [f"{_word(_quoted(key, _KEY))}={self._argument(inner)}" for key, inner in value.items()]
            return " ".join([flag, *words])
        if isinstance(value, Mapping):
            if name == "storageProfile":
                value = value["osDisk"]
            words = [f"{_kebab(key)}={self._argument(inner)}" for key, inner in value.items()]
            return " ".join([flag, *words])
        if name == "sshKeyValues" and isinstance(value, list):
            return " ".join([flag, *map(self._argument, value)])
        return f"{flag} {self._argument(value)}"

    def _argument(self, value: Any) -> str:
        """A value as a word of the shell, in the CLI's shorthand where it is a list or an object."""
        if isinstance(value, Input):
            return self._variable(value)
        return "".join(
            self._variable(piece) if isinstance(piece, Input) else _word(piece)
            for piece in _joined(_shorthand(value, top=True))
        )

    def _variable(self, variable: Input) -> str:
        """A variable of the shell, which is noted to be filled in."""
        self.inputs.append(variable)
        return f'"${variable.shouted}"'


def _word(text: str) -> str:
    """A text as a word of the shell, in the quotes that leave it easy to read."""
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)


def _shorthand(value: Any, *, top: bool = False) -> Iterator[str | Input]:
    """A value in the shorthand of `az`, piece by piece: `{a:[1,'b c']}`. At the top text needs no quotes."""
    if isinstance(value, Input):
        yield value
    elif isinstance(value, Mapping):
        yield "{"
        for number, (name, inner) in enumerate(value.items()):
            yield f"{',' if number else ''}{_kebab(name)}:"
            yield from _shorthand(inner)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, inner in enumerate(value):
            if number:
                yield ","
            yield from _shorthand(inner)
        yield "]"
    else:
        text = str(value)
        if isinstance(value, int) or (top and text and text not in _WORDS_OF_AZ and text[0] != "'"):
            yield text
        else:
            yield _quoted(text, None if top or _is_read_otherwise(text) else _PLAIN)


def _quoted(text: str, plain: re.Pattern[str] | None) -> str:
    """A text in the quotes of the shorthand, where it is not plain."""
    return text if plain and plain.fullmatch(text) else "'" + text.replace("'", "'/") + "'"


def _is_read_otherwise(text: str) -> bool:
    """Whether `az` takes a text without quotes for something else: 1.10 for 1.1, null for nothing."""
    try:
        float(text)
    except ValueError:
        return text in _WORDS_OF_AZ
    return True


def _joined(pieces: Iterator[str | Input]) -> Iterator[str | Input]:
    """Texts that stand side by side as one."""
    text = ""
    for piece in pieces:
        if isinstance(piece, Input):
            if text:
                yield text
            yield piece
            text = ""
        else:
            text += piece
    if text:
        yield text


def _kebab(name: str) -> str:
    """The flag for a property of the API: `adminUsername` -> `admin-username`."""
    return _FLAGS.get(name) or _WORD.sub("-", name).lower()
