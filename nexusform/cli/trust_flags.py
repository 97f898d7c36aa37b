"""Flags of every command for untrusted configuration, and the sandbox that they open."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    ArgumentWord,
    build_arguments_record,
    declare_repeatable_text,
    declare_switch_or_text,
    list_argument_files,
)
from nexusform.files.external_files import PLAN_FILE, AllowedWriter, ArgumentFile, PathValueForm

# Loaded only in sandboxed runs.
if TYPE_CHECKING:
    from nexusform.files.regular_files import Confinement


TRUST_KEY: Final = "nexusform.trust"


class TrustFlags(Struct, frozen=True, kw_only=True):
    """Limits on untrusted configuration: flags of every command that reads it or a state."""

    confine: str = declare_switch_or_text(
        "Restrict files to DIR (default: work tree), block addresses",
        metavar="DIR",
        file=ArgumentFile("top of the work tree", AllowedWriter.OPERATOR, PathValueForm.WORK_TREE),
    )
    allow_remote: tuple[str, ...] = declare_repeatable_text(
        "With -confine, allow addresses with this prefix", metavar="URL-PREFIX"
    )
    limit: tuple[str, ...] = declare_repeatable_text(
        "Set a resource limit (docs/limits.md)", metavar="NAME=N"
    )
    backend_config: tuple[str, ...] = declare_repeatable_text(
        "Set a backend argument, or read a file of them",
        metavar="FILE|K=V",
        file=ArgumentFile("settings of the backend", AllowedWriter.LIMITED, PathValueForm.SETTING),
    )


def get_trust_flags() -> TrustFlags:
    """Return the limits on untrusted configuration set by the running command.

    Without a command the defaults apply.
    """
    context = click.get_current_context(silent=True)
    flags = context.meta.get(TRUST_KEY) if context is not None else None
    return flags if isinstance(flags, TrustFlags) else build_arguments_record(TrustFlags, {})


@contextmanager
def open_sandbox(
    parameters: Sequence[click.Parameter], values: Mapping[str, Any]
) -> Iterator[None]:
    """Reject accesses that the arguments of a command do not declare, if the run is confined.

    Raises a usage error for a file or program of the operator in the work tree.
    """
    confine = get_trust_flags().confine or os.environ.get("NF_CONFINE", "")
    words = list_argument_files(parameters, values)
    if not confine and not os.environ.get("NF_IN_AUTOMATION"):
        with _prepare_for_plan_file(words):
            yield
        return
    from nexusform.files.regular_files import OutsideConfinement
    from nexusform.files.sandbox import declare_program, use_sandbox
    from nexusform.workflow.opening.command_context import parse_confinement

    try:
        confinement = parse_confinement(confine, os.environ)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    if not confinement.root:
        yield
        return
    for item in words:
        if item.file.writer is AllowedWriter.OPERATOR:
            _reject_untrusted_word(item, confinement)
    paths = [path for item in words for path in item.file.list_paths(item.word)]
    with use_sandbox(confinement, paths):
        for item in words:
            if item.file.form is PathValueForm.COMMAND:
                # Reported where the command is run.
                with suppress(ValueError):
                    declare_program(shlex.split(item.word))
        try:
            yield
        except OutsideConfinement as problem:
            raise _build_rejection(problem) from None


@contextmanager
def _prepare_for_plan_file(words: Sequence[ArgumentWord]) -> Iterator[None]:
    """Let the evaluation of a plan file enter a sandbox, with what the command declares."""
    if not any(item.file == PLAN_FILE for item in words):
        yield
        return
    from nexusform.files.regular_files import UNCONFINED, OutsideConfinement
    from nexusform.files.sandbox import use_sandbox

    paths = [path for item in words for path in item.file.list_paths(item.word)]
    with use_sandbox(UNCONFINED, paths):
        try:
            yield
        except OutsideConfinement as problem:
            raise _build_rejection(problem) from None


def _build_rejection(problem: OSError) -> click.ClickException:
    """Build the error about an access that a sandbox rejects."""
    path = f'"{problem.filename}" cannot be used: ' if problem.filename else ""
    return click.ClickException(f"{path}{problem.strerror}.")


def _reject_untrusted_word(item: ArgumentWord, confinement: Confinement) -> None:
    """Raise a usage error for an argument of the operator that leads into the work tree."""
    from nexusform.files.external_files import (
        explain_untrusted_file,
        is_untrusted_path,
        list_command_files,
    )

    if item.file.form is PathValueForm.LOCATION:
        raise click.UsageError(
            f"{item.name} starts programs, so it is not allowed in a sandboxed run. Omit it, or "
            "use -confine=false."
        )
    paths = item.file.list_paths(item.word)
    if item.file.form is PathValueForm.COMMAND:
        # Reported where the command is run.
        with suppress(ValueError):
            paths = list(list_command_files(shlex.split(item.word), os.environ))
    for path in paths:
        if is_untrusted_path(path, confinement):
            raise click.UsageError(
                explain_untrusted_file(item.name, path, "a pull request could replace it")
            )
