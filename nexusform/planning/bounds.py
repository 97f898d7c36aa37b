"""How much a plan may stand for, so that a slip or a stranger's text ends in a diagnostic, not in gigabytes.

Configuration cannot raise them: `-bound=NAME=N` and NF_BOUNDS can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Refused, did_you_mean, error


class Bounds(Struct, frozen=True):
    """The most of each that one plan may have; the fields are the names that -bound takes."""

    vms: int = 2_000_000
    machines: int = 200_000
    instances: int = 200_000
    cpus_per_cell: int = 4_096
    memory_gib_per_cell: int = 65_536


DEFAULT: Final = Bounds()


def beyond(what: str, name: str, most: int) -> Refused:
    """To be raised: it ends the whole plan. `what` the plan has too much of, and the bound's name."""
    detail = (
        f"The configuration stands for more than {most:,} {what}, the most that is planned. If that is "
        f"meant, raise the bound: -bound={name}=N or NF_BOUNDS."
    )
    return Refused(error("plan-is-too-large", detail))


def bounds_of(words: Iterable[str]) -> Bounds:
    """The bounds, with those of words of the form NAME=N. Raises ValueError with what is wrong."""
    bounds = DEFAULT
    for word in words:
        name, _, number = word.partition("=")
        if name not in Bounds.__struct_fields__:
            known = ", ".join(Bounds.__struct_fields__)
            near = did_you_mean(name, Bounds.__struct_fields__)
            raise ValueError(f'-bound: there is no bound "{name}". Known are: {known}.{near}')
        if not number.isdecimal() or not 0 < len(number) < 16:
            raise ValueError(f'-bound: "{word}" is not of the form NAME=N with a whole number.')
        bounds = replace(bounds, **{name: int(number)})
    return bounds
