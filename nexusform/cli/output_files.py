"""Paths that a command writes: checked, and older files there deleted, before it runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import Flag
from nexusform.cli.trust_flags import get_trust_flags

_INPUT_SUFFIXES: Final = (
    ".hcl",
    ".nfvars",
    ".nfstate",
    ".nf.json",
    ".nfvars.json",
    ".nftest.json",
    ".backup",
    ".journal",
)
# Of commands handling older files themselves.
_CHECKED_OUTPUTS: Final = ("-out", "-generate-config-out")


class _OutputPath(Struct, frozen=True):
    """A path to be written, of a flag.

    With `is_deleted`, an older file at this path is deleted before the command runs.
    """

    flag: str
    path: str
    is_deleted: bool


def delete_older_output_files(
    parameters: Iterable[click.Parameter], values: Mapping[str, Any]
) -> None:
    """Delete older files at the output paths of a command.

    After a failure, none is mistaken for its result. All paths are checked before the first
    deletion. Raises a usage error for a path in use as an input. A command with a flag of
    `_CHECKED_OUTPUTS` replaces the older file itself, so its path is checked only.
    """
    # Real paths of the arguments with files to keep.
    inputs: set[str] = set()
    outputs: list[_OutputPath] = []
    for parameter in parameters:
        words = _list_argument_words(values.get(parameter.name or ""))
        flag = parameter.opts[0]
        is_deleted = isinstance(parameter, Flag) and parameter.is_output
        if is_deleted or flag in _CHECKED_OUTPUTS:
            # The words of a repeatable output flag are FORMAT:PATH.
            paths = [word.partition(":")[2] if parameter.multiple else word for word in words]
            outputs += [
                _OutputPath(flag, path, is_deleted) for path in paths if path not in ("", "-")
            ]
        if not is_deleted and not isinstance(parameter.type, click.Choice):
            inputs.update(map(os.path.realpath, words))
    for output in outputs:
        _check_output_path(output, inputs)
    for output in outputs:
        if output.is_deleted:
            from nexusform.workflow.opening.system_io import remove_older_output

            # Writing it reports the problem.
            with suppress(OSError):
                remove_older_output(output.path)


def _list_argument_words(value: object) -> list[str]:
    """Return the words of an argument's value, without empty ones.

    A value is one word, a tuple of the words of a repeatable flag, or for ordered flags a
    tuple of pairs of flag and word. For example, `(("var-file", "a.nfvars"), ("var", "b=1"))`
    gives ["a.nfvars", "b=1"].
    """
    parts = value if isinstance(value, tuple) else (value,)
    words = []
    for part in filter(None, parts):
        word = part[-1] if isinstance(part, tuple) else part
        words.append(str(word))
    return words


def _check_output_path(output: _OutputPath, inputs: Collection[str]) -> None:
    """Raise a usage error for a path outside of the allowed directories, or of an input.

    An input has one of the `inputs` paths or a suffix of inputs. Other existing files may be inputs
    by their content.
    """
    from nexusform.workflow.opening.command_context import parse_confinement
    from nexusform.workflow.opening.system_io import may_be_input

    flag = output.flag
    path = output.path
    try:
        confinement = parse_confinement(
            get_trust_flags().confine or os.environ.get("NF_CONFINE", ""), os.environ
        )
        # A link at the path itself is replaced.
        confinement.resolve_path_of_operator(Path(path).parent)
    except (OSError, ValueError) as problem:
        reason = str(getattr(problem, "strerror", problem)).rstrip(".")
        raise click.UsageError(f'{flag}: "{path}" cannot be written: {reason}.') from None
    # So it may have the suffix of an input.
    writes_configuration = flag == "-generate-config-out"
    has_input_suffix = path.endswith(_INPUT_SUFFIXES) and not writes_configuration
    if has_input_suffix or (output.is_deleted and os.path.realpath(path) in inputs):
        raise click.UsageError(
            f'{flag}: "{path}" is an input and is not overwritten. Choose another name.'
        )
    if output.is_deleted and may_be_input(path, confinement):
        raise click.UsageError(
            f'{flag}: "{path}" may be an input and is not overwritten. Choose another name.'
        )
