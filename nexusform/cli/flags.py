"""The flags that several commands share, and what they say as one value."""

from __future__ import annotations

import os
import re
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import in_order, switch, text
from nexusform.cli.commands import trust_flags
from nexusform.cli.screen import Screen
from nexusform.configuration.declared.limits import operators_limits
from nexusform.workflow.opening.place import Place, confinement_of, confining_of
from nexusform.workflow.runs.locking import Locking

_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


class NoArguments(Struct, frozen=True, kw_only=True):
    """A command that takes nothing."""


class ViewFlags(Struct, frozen=True, kw_only=True):
    """How messages look."""

    no_color: bool = switch("Disable colours")

    def screen(self) -> Screen:
        """Where text goes."""
        return Screen(no_color=self.no_color)


class LockFlags(Struct, frozen=True, kw_only=True):
    """Whether and how long to wait for the lock of the state."""

    lock: bool = switch("Do not lock the state", default=True)
    lock_timeout: str = text("Wait this long for the lock", metavar="DURATION", default="0s")

    def locking(self) -> Locking:
        """What both say. Raises a usage error for what is no duration."""
        return Locking(self.lock, duration(self.lock_timeout))


def variable_flags() -> tuple[tuple[str, str], ...]:
    """-var, -var-file, in the order given."""
    meaning = "Set a variable, or read a file of variables"
    return in_order(meaning, ("var", "var-file"))


def state_flag() -> str:
    """-state."""
    return text("Use this state file of the local backend", metavar="FILE")


def ownership_flag() -> bool:
    """-take-ownership."""
    return switch("Take fields of other managers on a fleet hub")


def place_of(
    state: str = "", variables: tuple[tuple[str, str], ...] = (), *, take_ownership: bool = False
) -> Place:
    """Where the command runs, from its flags and the environment. Raises a usage error."""
    flags, environment = trust_flags(), dict(os.environ)
    try:
        word = flags.confine or environment.get("NF_CONFINE", "")
        confinement = confinement_of(word, environment)
        state = confinement.followed(state) if state else ""
        limits = operators_limits(environment, flags.limit)
    except OSError as problem:
        raise click.UsageError(f'-state: "{state}" cannot be used: {problem.strerror}.') from None
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    return Place(
        environment=environment,
        state_path=state,
        variables=variables,
        confinement=confinement,
        confining=confining_of(word, environment),
        allow_remote=(*flags.allow_remote, *environment.get("NF_ALLOW_REMOTE", "").split()),
        backend_config=flags.backend_config,
        limits=limits,
        take_ownership=take_ownership,
    )


def duration(written: str) -> float:
    """Seconds of `90s`, `5m`, `1h30m`, `0`. Raises a usage error."""
    if re.fullmatch(r"\d+(?:\.\d+)?", written):
        return float(written)
    match = _DURATION.fullmatch(written)
    if not written or match is None:
        raise click.UsageError(f'"{written}" is no duration; write for example 30s, 5m or 1h30m.')
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds
