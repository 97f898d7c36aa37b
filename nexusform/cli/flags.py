"""The flags that several commands share, and what they say as one value."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from nexusform.cli.commands import option, ordered_options, switch
from nexusform.planning.plan import Mode
from nexusform.workflow.locking import Locking
from nexusform.workflow.project import Place
from nexusform.workflow.run import PlanOptions

Function = TypeVar("Function", bound=Callable[..., Any])

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_MOST_ADDRESSES = 1024 * 1024  # bytes of a -target-file


def duration(text: str) -> float:
    """Seconds of `90s`, `5m`, `1h30m`, `0`. Raises a usage error."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise click.UsageError(f'"{text}" is no duration; write for example 30s, 5m or 1h30m.')
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _stack(function: Function, flags: Iterable[Callable[[Function], Function]]) -> Function:
    for flag in reversed(list(flags)):
        function = flag(function)
    return function


def view_flags(function: Function) -> Function:
    """-no-color, -compact-warnings."""
    return _stack(
        function,
        [
            switch("no-color", "Without colours"),
            switch("compact-warnings", "Warnings as one line each, unless there are errors"),
        ],
    )


def variable_flags(function: Function) -> Function:
    """-var, -var-file, in the order given."""
    told = "Set a variable (-var 'name=value'), or read a file of them (-var-file=FILE)"
    return _stack(
        function, [ordered_options(("var", "var-file"), told, metavar="VALUE", parameter="variables")]
    )


def state_flags(function: Function) -> Function:
    """-state."""
    return _stack(function, [option("state", "State file of the local backend", metavar="FILE")])


def lock_flags(function: Function) -> Function:
    """-lock, -lock-timeout."""
    return _stack(
        function,
        [
            switch("lock", "Do not lock the state; another run may then change it meanwhile", default=True),
            option("lock-timeout", "How long to wait for a lock", metavar="DURATION", default="0s"),
        ],
    )


def planning_flags(function: Function) -> Function:
    """What shapes a plan."""
    told = "Read addresses, one per line, # for comments"
    return _stack(
        function,
        [
            switch("destroy", "Plan to remove everything"),
            switch("refresh-only", "Only bring the state up to what the providers see"),
            switch("refresh", "Plan on what the state remembers, without asking the providers", default=True),
            option("target", "Only this address and what it needs", metavar="ADDR", many=True),
            option("target-file", told, metavar="FILE", many=True),
            option("exclude", "All but this address and what needs it", metavar="ADDR", many=True),
            option("exclude-file", told, metavar="FILE", many=True),
            option(
                "replace",
                "Replace this resource, or re-place one of its VMs",
                metavar="ADDR[:OBJECT]",
                many=True,
            ),
            option(
                "tie-breaks", "Repetitions that certainty stands on; 0 turns it off", metavar="N", kind=int
            ),
        ],
    )


def placement_flags(function: Function) -> Function:
    """-placements, -report."""
    return _stack(
        function,
        [
            option(
                "placements",
                "Which placements to list",
                metavar="changed|all|none",
                default="changed",
                kind=click.Choice(["changed", "all", "none"]),
            ),
            option("report", "Also write the plan to a file (- is stdout)", metavar="FORMAT:PATH", many=True),
        ],
    )


def place_of(given: Mapping[str, Any]) -> Place:
    """Where the command runs, from its flags and the environment."""
    return Place(
        environment=dict(os.environ),
        state_path=given.get("state") or "",
        variables=tuple(given.get("variables") or ()),
    )


def locking_of(given: Mapping[str, Any]) -> Locking:
    """What -lock and -lock-timeout say."""
    return Locking(given.get("lock", True), duration(given.get("lock_timeout", "0s")))


def plan_options_of(given: Mapping[str, Any]) -> PlanOptions:
    """What shapes the plan. Raises a usage error for flags that do not go together."""
    _refuse_conflicts(given)
    return PlanOptions(
        mode=Mode.DESTROY
        if given["destroy"]
        else Mode.REFRESH_ONLY
        if given["refresh_only"]
        else Mode.NORMAL,
        refresh=given["refresh"],
        targets=(*given["target"], *_addresses(given["target_file"])),
        excludes=(*given["exclude"], *_addresses(given["exclude_file"])),
        replaces=tuple(given["replace"]),
        tie_breaks=given["tie_breaks"],
        want_rejected=given.get("placements") == "all",
    )


def _refuse_conflicts(given: Mapping[str, Any]) -> None:
    conflicts = [
        (given["destroy"] and given["refresh_only"], "-destroy and -refresh-only do not go together."),
        (
            given["refresh_only"] and not given["refresh"],
            "-refresh-only and -refresh=false do not go together.",
        ),
        (
            bool((given["target"] or given["target_file"]) and (given["exclude"] or given["exclude_file"])),
            "-target and -exclude do not go together.",
        ),
        (
            bool(given["replace"]) and (given["destroy"] or given["refresh_only"]),
            "-replace goes with an ordinary plan only.",
        ),
        ((given["tie_breaks"] or 0) < 0, "-tie-breaks cannot be negative."),
    ]
    for met, told in conflicts:
        if met:
            raise click.UsageError(told)


def _addresses(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        try:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(_MOST_ADDRESSES + 1)
        except (OSError, UnicodeDecodeError) as problem:
            raise click.UsageError(f'The file of addresses "{path}" cannot be read: {problem}.') from None
        if len(text) > _MOST_ADDRESSES:
            raise click.UsageError(f'The file of addresses "{path}" is too large.')
        lines = (line.split("#")[0].strip() for line in text.splitlines())
        found.extend(line for line in lines if line)
    return found
