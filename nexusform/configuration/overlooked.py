"""What lies beside a configuration and is not read, because it has the name that another tool reads."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from nexusform.words import first_of, form

_MOST: Final = 3
# Endings of configuration that other tools read -> ours.
_CONFIGURATION: Final = {
    ".tf.json": ".nf.json",
    ".tofu.json": ".nf.json",
    ".tf": ".nf.hcl",
    ".tofu": ".nf.hcl",
    ".nf": ".nf.hcl",
    ".hcl": ".nf.hcl",
}
_OTHER_KINDS: Final = (".nf.hcl", ".nfvars.hcl", ".nftest.hcl", ".sites.hcl")
_FLEET: Final = "nexusform.sites.hcl"
# The same for files of variables.
_VARIABLES: Final = {
    "terraform.tfvars.json": "nexusform.nfvars.json",
    "terraform.tfvars": "nexusform.nfvars.hcl",
    ".auto.tfvars": ".auto.nfvars.hcl",
    ".tfvars": ".nfvars.hcl",
    "nexusform.nfvars": "nexusform.nfvars.hcl",
    ".nfvars": ".nfvars.hcl",
}
# Those that are read without being named.
_READ_BY_ITSELF: Final = {
    ending: new for ending, new in _VARIABLES.items() if ending not in (".tfvars", ".nfvars")
}
_OF_ANOTHER_TOOL: Final = (".tf", ".tf.json", ".tofu", ".tofu.json")
_VARIABLE_FILE: Final = (".nfvars.hcl", ".nfvars.json")


def overlooked_configuration(names: Collection[str]) -> str:
    """What to do in a directory with these files and no configuration: sentences that begin with a blank, ""
    without any.
    """
    renamed = [
        f'"{name}" to "{new}"'
        for name in names
        if not name.endswith(_OTHER_KINDS) and (new := _renamed(name, _CONFIGURATION))
    ]
    if _FLEET in names:
        return f" {_FLEET} names sites, each with its root module: `nexusform sites plan` plans them."
    if not renamed:
        return ""
    text = first_of(renamed, _MOST)
    return (
        f" {form(len(renamed), 'A file here has the name', 'Files here have the names')} that another tool "
        f"reads. The language is the same, the resource types are not: to use what is in it, rename {text}."
    )


def overlooked_value(
    name: str, environment: Mapping[str, str], names: Iterable[str], read: Iterable[str]
) -> str:
    """Where a value of the variable `name` may be meant to come from: sentences that begin with a blank, ""
    without any. `names` are the files of the directory, `read` those of them that were read.
    """
    if f"TF_VAR_{name}" in environment:
        return f" TF_VAR_{name} is set in the environment, but nexusform reads NF_VAR_{name}."
    already = set(read)
    for file in names:
        new = _renamed(file, _VARIABLES)
        if new:
            return f' "{file}" is not read: its name would have to be "{new}".'
        if file.endswith(_VARIABLE_FILE) and file not in already:
            return f' "{file}" is read only with -var-file={file}.'
    return ""


def unread_values(
    defaulted: Iterable[str], environment: Mapping[str, str], names: Iterable[str]
) -> list[str]:
    """What another tool would take values from, and nexusform does not, while these variables have their
    defaults: a sentence each. `names` are the files of the directory.

    Beside configuration of the other tool its files of variables are that tool's own.
    """
    variables = list(defaulted)
    sentences = [
        f"TF_VAR_{name} is set in the environment, but nexusform reads NF_VAR_{name}: {name} has its default."
        for name in variables
        if f"TF_VAR_{name}" in environment
    ]
    files = list(names)
    if not variables or any(file.endswith(_OF_ANOTHER_TOOL) for file in files):
        return sentences
    for file in files:
        new = _renamed(file, _READ_BY_ITSELF)
        if new:
            sentences.append(f'"{file}" is not read: its name would have to be "{new}".')
    return sentences


def listed(directory: str) -> list[str]:
    """The names in a directory, sorted; none when it cannot be read."""
    try:
        return sorted(os.listdir(directory), key=os.fsencode)  # noqa: PTH208 - names, not paths
    except OSError:
        return []


def _renamed(name: str, endings: Mapping[str, str]) -> str:
    """The name with our ending in place of another tool's; "" when it has none of these."""
    if name.startswith("."):
        return ""
    for ending, ours in endings.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + ours
    return ""
