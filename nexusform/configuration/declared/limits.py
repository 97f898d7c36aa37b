"""How much a plan may stand for and read, so that a slip or a stranger's text ends in a diagnostic, not in
gigabytes.

The `limits` block of a configuration sets them, in a confined run only lower; `-limit=NAME=N` and
NF_LIMIT_NAME win over it and may raise them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from nexusform.diagnostics import Refused, did_you_mean, error

VARIABLE: Final = "NF_LIMIT_"  # how the names of environment variables begin


class Limits(Struct, frozen=True):
    """The most of each that one plan may have; the fields are the names in configuration and flags."""

    vms: int = 2_000_000
    machines: int = 200_000
    instances: int = 200_000
    cpus_per_cell: int = 4_096
    memory_gib_per_cell: int = 65_536
    file_mib: int = 1_024  # of a state, a journal, a plan file
    read_mib: int = 2_048  # of all files that functions and data sources read
    seconds: int = 600  # that planning may take in a confined run

    @property
    def file_bytes(self) -> int:
        """`file_mib` in bytes."""
        return self.file_mib << 20


DEFAULT: Final = Limits()
NAMES: Final = Limits.__struct_fields__
# What somebody may look for among them, and why it is not there.
FIXED: Final[Mapping[str, str]] = {
    "nesting": (
        '"nesting" cannot be set: YAML and JSON nest at most 512 levels, as deep as the calls of the '
        "interpreter are sure to reach. Make the document flatter."
    ),
}


def beyond(what: str, name: str, most: int) -> Refused:
    """To be raised: it ends the whole plan. `what` the plan has too much of, and the limit's name."""
    detail = (
        f"The configuration stands for more than {most:,} {what}, the most that is planned. If that is "
        f"meant, raise the limit: -limit={name}=N or {VARIABLE}{name.upper()}=N."
    )
    return Refused(error("plan-is-too-large", detail))


def operators_limits(environment: Mapping[str, str], flags: Iterable[str]) -> dict[str, int]:
    """What the environment (NF_LIMIT_VMS=N) and flags (vms=N) say; flags win.

    Raises ValueError with what is wrong.
    """
    words = [
        (name, f"{name.removeprefix(VARIABLE).lower()}={number}")
        for name, number in sorted(environment.items())
        if name.startswith(VARIABLE)
    ]
    words += [("-limit", word) for word in flags]
    limits: dict[str, int] = {}
    for origin, word in words:
        name, _, number = word.partition("=")
        if name in FIXED:
            raise ValueError(f"{origin}: {FIXED[name]}")
        if name not in NAMES:
            raise ValueError(f'{origin}: there is no limit "{name}". {known_limits(name)}')
        if not number.isdecimal() or not 0 < len(number) < 16:
            raise ValueError(f'{origin}: "{word}" is not of the form NAME=N with a whole number.')
        limits[name] = int(number)
    return limits


def known_limits(name: str) -> str:
    """The names that there are, and the one that may be meant."""
    return f"Known are: {', '.join(NAMES)}.{did_you_mean(name, NAMES)}"


def limits_of(configured: Mapping[str, int], operators: Mapping[str, int], *, confined: bool) -> Limits:
    """The limits of a plan. Of a confined configuration only what is lower counts."""
    limits = DEFAULT
    if confined:
        configured = {name: min(number, asdict(limits)[name]) for name, number in configured.items()}
    return replace(limits, **{**configured, **operators})
