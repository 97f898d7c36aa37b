"""Files next to a configuration that are not read, because their names belong to another tool."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from nexusform.diagnostics.phrases import format_first_items, select_word_form

_MAX_LISTED: Final = 3
# Endings of configuration of other tools -> ours.
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
# Endings of files that are read automatically.
_AUTOMATIC_ENDINGS: Final = {ending: new for ending, new in _VARIABLES.items() if ending not in (".tfvars", ".nfvars")}
_FOREIGN_ENDINGS: Final = (".tf", ".tf.json", ".tofu", ".tofu.json")
_VARIABLE_FILE_ENDINGS: Final = (".nfvars.hcl", ".nfvars.json")


def describe_foreign_configuration(names: Collection[str]) -> str:
    """Return advice for a directory without configuration: sentences with a leading blank, or ""."""
    renames = [
        f'"{name}" to "{new_name}"'
        for name in names
        if not name.endswith(_OTHER_KINDS) and (new_name := _suggest_nexusform_file_name(name, _CONFIGURATION))
    ]
    if _FLEET in names:
        return f" {_FLEET} lists several sites. Run `nexusform sites plan` to plan them."
    if not renames:
        return ""
    text = format_first_items(renames, _MAX_LISTED)
    return (
        f" {select_word_form(len(renames), 'A file here has a name', 'Files here have names')} for another "
        f"tool. The language is the same, but the resource types differ. To use the content, rename {text}."
    )


def describe_intended_value_source(
    name: str, environment: Mapping[str, str], names: Iterable[str], read_files: Iterable[str]
) -> str:
    """Return hints on the intended source of a value of the variable `name`: sentences with a leading blank,
    or "".

    `names` are the files of the directory, `read` those of them that were read.
    """
    if f"TF_VAR_{name}" in environment:
        return f" TF_VAR_{name} is set in the environment, but nexusform reads NF_VAR_{name}."
    read_set = set(read_files)
    for file in names:
        new_name = _suggest_nexusform_file_name(file, _VARIABLES)
        if new_name:
            return f' "{file}" is not read: its name would have to be "{new_name}".'
        if file.endswith(_VARIABLE_FILE_ENDINGS) and file not in read_set:
            return f' "{file}" is read only with -var-file={file}.'
    return ""


def list_unread_values(defaulted: Iterable[str], environment: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """List the sources of another tool for these variables, which have their defaults: a sentence each.

    `names` are the files of the directory. Next to configuration of the other tool, its files of variables
    are not listed.
    """
    variables = list(defaulted)
    sentences = [
        f"TF_VAR_{name} is set in the environment, but nexusform reads NF_VAR_{name}: {name} has its default."
        for name in variables
        if f"TF_VAR_{name}" in environment
    ]
    files = list(names)
    if not variables or any(file.endswith(_FOREIGN_ENDINGS) for file in files):
        return sentences
    for file in files:
        new_name = _suggest_nexusform_file_name(file, _AUTOMATIC_ENDINGS)
        if new_name:
            sentences.append(f'"{file}" is not read: its name would have to be "{new_name}".')
    return sentences


def _suggest_nexusform_file_name(name: str, endings: Mapping[str, str]) -> str:
    """Return the name with our ending in place of another tool's; "" without such an ending."""
    if name.startswith("."):
        return ""
    for ending, new_ending in endings.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + new_ending
    return ""
