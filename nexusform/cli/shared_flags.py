"""Flags shared by several commands, and their values."""

import glob
import os
import re
import sys
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_ordered_flags,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.cli.trust_flags import get_trust_flags
from nexusform.configuration.declarations.limits import parse_limit_overrides
from nexusform.documents.times import parse_duration as parse_age
from nexusform.files.external_files import AllowedWriter, ArgumentFile
from nexusform.workflow.opening.command_context import (
    CommandContext,
    detect_confinement_source,
    parse_confinement,
)
from nexusform.workflow.runs.state_locking import LockOptions

# Maximum age of a saved plan in seconds.
_AUTOMATION_MAX_AGE: Final = 7 * 24 * 3600
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


class NoArguments(Struct, frozen=True, kw_only=True):
    """Arguments of a command without any."""


class ViewFlags(Struct, frozen=True, kw_only=True):
    """Flags for the display of messages."""

    no_color: bool = declare_switch_flag("Disable colours")

    def create_screen(self, *, is_aside: bool = False) -> Screen:
        """Create the screen of the command.

        With `is_aside` it uses stderr, because stdout is for a document.
        """
        return Screen(no_color=self.no_color, is_aside=is_aside)


class StateLockFlags(Struct, frozen=True, kw_only=True):
    """Flags for the lock of the state."""

    lock: bool = declare_switch_flag("Do not lock the state", default=True)
    lock_timeout: str = declare_text_flag(
        "Wait this long for the lock", metavar="DURATION", default="0s"
    )

    def build_options(self) -> LockOptions:
        """Build the lock options.

        Raises a usage error for an invalid duration.
        """
        return LockOptions(self.lock, parse_duration(self.lock_timeout))


def declare_variable_flags() -> tuple[tuple[str, str], ...]:
    """Declare -var and -var-file, in the given order."""
    meaning = "Set a variable, or read a file of variables"
    return declare_ordered_flags(meaning, ("var", "var-file"), ArgumentFile("values of variables"))


def declare_state_flag() -> str:
    """Declare -state."""
    return declare_text_flag(
        "Use this state file of the local backend", metavar="FILE", file=ArgumentFile("state")
    )


def declare_ownership_flag() -> bool:
    """Declare -take-ownership."""
    return declare_switch_flag("Take fields of other managers on a hub, VNFs of other states")


def declare_migration_flag() -> str:
    """Declare -allow-other-hub."""
    return declare_text_flag("Accept this hub or site instead of the recorded one", metavar="UID")


def create_context(
    state: str = "",
    variables: tuple[tuple[str, str], ...] = (),
    *,
    requires_state: bool = False,
    take_ownership: bool = False,
    allow_other_hub: str = "",
    allow_unchecked_site: bool = False,
    can_ask: bool = False,
) -> CommandContext:
    """Create the context of the command from its flags and the environment.

    With `can_ask` it asks for missing variables at a terminal. `requires_state` is for commands
    that only read the state: a missing file at `state` would count as an empty one.

    Raises a usage error.
    """
    flags = get_trust_flags()
    environment = dict(os.environ)
    try:
        confine = flags.confine or environment.get("NF_CONFINE", "")
        confinement = parse_confinement(confine, environment)
        state = confinement.resolve_path_of_operator(state) if state else ""
        limits = parse_limit_overrides(environment, flags.limit)
    except OSError as problem:
        # For example, the path leads out of the work tree.
        raise click.UsageError(f'-state: "{state}" cannot be used: {problem.strerror}.') from None
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    if requires_state and state and not _has_state_files(Path(state)):
        raise click.UsageError(f'-state: there is no state "{state}".')
    # A sandboxed run accepts no keys or other trusted files from its work tree.
    if confinement.root:
        from nexusform.files.external_files import explain_untrusted_file, find_untrusted_files

        untrusted_files = find_untrusted_files(environment, confinement)
        if untrusted_files:
            messages = [
                explain_untrusted_file(entry.name, path, entry.content)
                for entry, path in untrusted_files
            ]
            raise click.UsageError("\n".join(messages))
    ask_for_value = None
    if is_input_allowed(can_ask) and sys.stdin.isatty():
        # Loaded on first use.
        from nexusform.cli.variable_prompt import create_variable_prompt

        ask_for_value = create_variable_prompt()
    return CommandContext(
        environment=environment,
        state_path=state,
        variables=variables,
        confinement=confinement,
        confinement_source=detect_confinement_source(confine, environment),
        allow_remote=(*flags.allow_remote, *environment.get("NF_ALLOW_REMOTE", "").split()),
        backend_config=flags.backend_config,
        limits=limits,
        take_ownership=take_ownership,
        allow_other_hub=allow_other_hub,
        allow_unchecked_site=allow_unchecked_site,
        ask_for_value=ask_for_value,
    )


def _has_state_files(path: Path) -> bool:
    """Return whether there is a state file, its journal or backup, or one of a workspace."""
    return path.exists() or any(path.parent.glob(f"{glob.escape(path.name)}.*"))


def declare_revocations_flag() -> tuple[str, ...]:
    """Declare -revocations."""
    return declare_repeatable_text(
        "Reject plans withdrawn in this file (sign -withdraw)",
        metavar="FILE",
        file=ArgumentFile("withdrawn plans", AllowedWriter.OPERATOR),
    )


def parse_max_age(text: str) -> float | None:
    """Parse -max-age in seconds; None for "".

    Raises a usage error.
    """
    if not text:
        return None
    age = parse_age(text)
    if not age:
        raise click.UsageError(f'-max-age: "{text}" is not a duration. Examples: 12h, 7d.')
    return age.total_seconds()


_MERGE_STEP: Final = re.compile(r"apply|none|wave:[A-Za-z0-9][A-Za-z0-9_.-]*")


class AfterReviewFlags(Struct, frozen=True, kw_only=True):
    """Flags for what happens with a plan after its review."""

    max_age: str = declare_text_flag(
        "Let apply reject the saved plan after this time", metavar="DURATION"
    )
    next: str = declare_text_flag("Report what a merge does: apply, wave:N or none", metavar="STEP")

    def choose_max_age(self, context: CommandContext) -> float:
        """Return the maximum age of a plan in seconds: of -max-age, else a week in automation.

        Return 0 if there is no maximum. Raises a usage error.
        """
        max_age = parse_max_age(self.max_age)
        if max_age is not None:
            return max_age
        return _AUTOMATION_MAX_AGE if context.environment.get("NF_IN_AUTOMATION") else 0

    def parse_step(self) -> str:
        """Return what a merge does, "" without -next; raises a usage error."""
        if self.next and not _MERGE_STEP.fullmatch(self.next):
            raise click.UsageError(
                f'-next: "{self.next}" is not a step. Use apply, wave:N or none.'
            )
        return self.next


def is_confinement_disabled() -> bool:
    """Return whether -confine=false was typed; NF_CONFINE does not count."""
    return get_trust_flags().confine in ("0", "false")


def parse_duration(text: str) -> float:
    """Parse a duration in seconds from `90s`, `5m`, `1h30m`, `0`.

    Raises a usage error.
    """
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    match = _DURATION.fullmatch(text)
    # The pattern accepts "".
    if not text or match is None:
        raise click.UsageError(f'"{text}" is not a duration. Examples: 30s, 5m, 1h30m.')
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds
