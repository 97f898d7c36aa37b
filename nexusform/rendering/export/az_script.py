"""A plan as a shell script of `az networkcloud` commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.rendering.export.azure_objects import (
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
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HEAD: Final = """\
#!/usr/bin/env bash
# Written by nexusform from a plan, for a person to read and run. Commands stand in the plan's order:
# places depend on it. Each waits until Azure is done.
set -euo pipefail
"""


def az_script(objects: AzureObjects) -> str:
    """The script."""
    writer = _Writer(objects)
    steps = [writer.removed(one) for one in objects.removed]
    steps += [writer.cordoned(one) for one in objects.cordons]
    steps += [writer.changed(one) if one.do is Do.UPDATE else writer.made(one) for one in objects.placed]
    return "\n".join([_HEAD, *writer.variables(), "", *steps])


class _Writer:
    """One script while it is written."""

    def __init__(self, objects: AzureObjects) -> None:
        self.objects = objects
        self.inputs: list[Input] = []

    def variables(self) -> Iterator[str]:
        """What has to be filled in, checked before anything is done."""
        for inputs in distinct(self.inputs).values():
            for one in inputs:
                of = f" ({one.entry})" if one.entry else ""
                meaning = _UNSAFE.sub("", f"{one.meaning[:-1]}{of}")
                yield f': "${{{one.shouted}:?{meaning}}}"'

    def made(self, one: AzureObject) -> str:
        """A new resource; one that is made anew goes first."""
        site = self.objects.location(one.site)
        location = f"name={self._variable(site)} type=CustomLocation"
        flags = [f"--extended-location {location}", f"--location {self._variable(LOCATION)}"]
        flags += [self._flag(name, value) for name, value in one.properties.items()]
        flags += [self._flag("tags", one.tags)] if one.tags else []
        command = self._command(one, "create", flags)
        if one.do is Do.REPLACE:
            return f"{self.removed(one)}\n{command}"
        return f"# {one.address}: make {one.title}\n{command}"

    def changed(self, one: AzureObject) -> str:
        """What is sent to a resource that stands."""
        flags = [self._flag(name, value) for name, value in one.changed.items()]
        return f"# {one.address}: change {one.title}\n{self._command(one, 'update', flags)}"

    def removed(self, one: AzureObject) -> str:
        """A resource that goes."""
        what = "make anew" if one.do is Do.REPLACE else "remove"
        return f"# {one.address}: {what} {one.title}\n{self._command(one, 'delete', ['--yes'])}"

    def cordoned(self, one: Cordon) -> str:
        """A machine that takes new VMs no more, or again."""
        several = len({cordon.site for cordon in self.objects.cordons}) > 1
        group = Input(_MACHINES_GROUP, one.site if several else "", "Name of the resource group of machines.")
        verb = "uncordon" if one.verb == "uncordon" else "cordon"
        flags = [f"--name {shlex.quote(one.machine)}", f"--resource-group {self._variable(group)}"]
        flags += ["--evacuate True"] if one.verb == "evacuate" else []
        command = " \\\n  ".join([f"az networkcloud baremetalmachine {verb}", *flags])
        return f"# {one.address}: {one.verb} {one.machine}\n{command}\n"

    def _command(self, one: AzureObject, verb: str, flags: list[str]) -> str:
        names = [f"--name {shlex.quote(one.names[-1])}", f"--resource-group {self._variable(_GROUP)}"]
        if one.type == POOL:
            names.insert(0, f"--kubernetes-cluster-name {shlex.quote(one.names[0])}")
        lines = [f"{_COMMANDS[one.type]} {verb}", *names, *flags]
        return " \\\n  ".join(lines) + "\n"

    def _flag(self, name: str, value: Any) -> str:
        """A property as a flag of `az`; an object as words of name and value."""
        flag = f"--{_kebab(name)}"
        if isinstance(value, Mapping):
            if name == "storageProfile":
                value = value["osDisk"]
            parts = [f"{_kebab(key)}={self._argument(part)}" for key, part in value.items()]
            return " ".join([flag, *parts])
        return f"{flag} {self._argument(value)}"

    def _argument(self, value: Any) -> str:
        """A value as a word of the shell, in the CLI's shorthand where it is a list or an object."""
        if isinstance(value, Input):
            return self._variable(value)
        return "".join(
            self._variable(part) if isinstance(part, Input) else _word(part)
            for part in _joined(_shorthand(value, top=True))
        )

    def _variable(self, one: Input) -> str:
        self.inputs.append(one)
        return f'"${one.shouted}"'


def _word(text: str) -> str:
    """A text as a word of the shell, in the quotes that leave it easy to read."""
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)


def _shorthand(value: Any, *, top: bool = False) -> Iterator[str | Input]:
    """A value in the shorthand of `az`, piece by piece: `{a:[1,'b c']}`. At the top text needs no quotes."""
    if isinstance(value, Input):
        yield value
    elif isinstance(value, Mapping):
        yield "{"
        for number, (name, part) in enumerate(value.items()):
            yield f"{',' if number else ''}{_kebab(name)}:"
            yield from _shorthand(part)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, part in enumerate(value):
            if number:
                yield ","
            yield from _shorthand(part)
        yield "]"
    else:
        text = str(value)
        bare = top or isinstance(value, int) or (_PLAIN.fullmatch(text) and not text.isdecimal())
        yield text if bare else "'" + text.replace("'", "'/") + "'"


def _joined(parts: Iterator[str | Input]) -> Iterator[str | Input]:
    """Texts that stand side by side as one."""
    text = ""
    for part in parts:
        if isinstance(part, Input):
            if text:
                yield text
            yield part
            text = ""
        else:
            text += part
    if text:
        yield text


def _kebab(name: str) -> str:
    return _FLAGS.get(name) or _WORD.sub("-", name).lower()
