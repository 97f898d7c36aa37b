"""What plans claimed of VMs and nobody has looked at yet, in the private note of the object that has them.

A pool is one line of JSON with a row for each rack, and in it a column for each thing: a value once where it
is the same for all VMs there. That is some 20 bytes a VM, where a row for each took 80.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.vms import Placement

OPEN_CLAIMS: Final = "open_claims"  # their key in an object's private note
OpenClaims: TypeAlias = "Mapping[str, tuple[Landing, ...]]"  # by pool


class Landing(Struct, frozen=True):
    """A VM that a plan places: on which rack and machine and how surely, and where it was seen, None where it
    was not. `machine_is_told` and `count_is_told`: the plan called certain what holds in every draw.
    """

    number: int | str
    rack: str
    machine: str
    shares: Certainty
    machine_is_told: bool
    count_is_told: bool
    object: str = ""
    seen: Placement | None = None


_Shares: TypeAlias = "float | list[float]"
_Ties: TypeAlias = "int | list[int]"


class _Row(Struct, frozen=True, array_like=True):
    """The VMs of a pool on one rack. `machines` are what follows on `prefix`, a comma between them, or a list
    where a name has a comma; what is told, and stated of the number of VMs, holds for the whole rack.
    """

    rack: str
    told: tuple[bool, bool]
    count_share: float
    count_tied: int
    numbers: list[int | str]
    prefix: str
    machines: str | list[str]
    rack_share: _Shares
    machine_share: _Shares
    rack_tied: _Ties
    machine_tied: _Ties
    measured: tuple[_Shares, _Shares, _Shares] | None = None


_T = TypeVar("_T")


def open_claims(private: Mapping[str, Any] | None) -> OpenClaims:
    """The claims in a private note that nobody has settled; none where the note says something else."""
    noted = (private or {}).get(OPEN_CLAIMS)
    found: dict[str, tuple[Landing, ...]] = {}
    for pool, text in noted.items() if isinstance(noted, Mapping) else ():
        with suppress(msgspec.DecodeError, ValueError):
            found[str(pool)] = tuple(_by_rack(str(text)))
    return found


def _by_rack(text: str) -> Iterator[Landing]:
    for row in msgspec.json.decode(text, type=list[_Row]):
        yield from _landings_of(row)


def with_open_claims(private: Mapping[str, Any] | None, opened: OpenClaims) -> Mapping[str, Any] | None:
    """A private note with these open claims instead of those that it had, each pool's in one line."""
    others = {name: value for name, value in (private or {}).items() if name != OPEN_CLAIMS}
    rows = {pool: msgspec.json.encode(list(_rows_of(opened[pool]))).decode() for pool in sorted(opened)}
    return ({**others, OPEN_CLAIMS: rows} if rows else others) or None


def _rows_of(landings: Iterable[Landing]) -> Iterator[_Row]:
    """The landings by what a row says of all its VMs."""
    by_row: dict[tuple[Any, ...], list[Landing]] = {}
    for each in landings:
        shares, told = each.shares, (each.machine_is_told, each.count_is_told)
        key = (each.rack, told, shares.rack_count, shares.tied[2], shares.measured is None)
        by_row.setdefault(key, []).append(each)
    for (rack, told, count_share, count_tied, _), here in by_row.items():
        machines = [each.machine for each in here]
        prefix = _shared_start(machines)
        ends = [machine[len(prefix) :] for machine in machines]
        shares_here = [each.shares for each in here]
        measured = [each.measured for each in shares_here if each.measured is not None]
        yield _Row(
            rack,
            told,
            count_share,
            count_tied,
            [each.number for each in here],
            prefix,
            ends if any("," in end for end in ends) else ",".join(ends),
            _folded([each.rack for each in shares_here]),
            _folded([each.machine for each in shares_here]),
            _folded([each.tied[0] for each in shares_here]),
            _folded([each.tied[1] for each in shares_here]),
            _three([_folded([each[part] for each in measured]) for part in range(3)]) if measured else None,
        )


def _shared_start(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    first, last = min(texts), max(texts)
    length = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first)
    )
    return first[:length]


def _three(values: Sequence[_T]) -> tuple[_T, _T, _T]:
    first, second, third = values
    return first, second, third


def _folded(values: list[_T]) -> _T | list[_T]:
    """A column: its value once, where all have the same."""
    return values[0] if values.count(values[0]) == len(values) else values


def _column(told: list[_T] | _T, length: int) -> list[_T]:
    """A column with a value for each VM; ValueError where it has another number of them."""
    values = told if isinstance(told, list) else [told] * length
    if len(values) != length:
        raise ValueError("a column of open claims is not as long as its VMs are many")
    return values


def _landings_of(row: _Row) -> Iterator[Landing]:
    length = len(row.numbers)
    ends = row.machines.split(",") if isinstance(row.machines, str) else row.machines
    machines: list[str] = _column(ends, length)
    stated = zip(_column(row.rack_share, length), _column(row.machine_share, length), strict=True)
    tied = zip(_column(row.rack_tied, length), _column(row.machine_tied, length), strict=True)
    parts = [_column(part, length) for part in row.measured or ()]
    columns = zip(row.numbers, machines, stated, tied, strict=True)
    for at, (number, machine, (on_rack, on_machine), (racks, places)) in enumerate(columns):
        measured = _three([part[at] for part in parts]) if parts else None
        shares = Certainty(on_rack, on_machine, row.count_share, (racks, places, row.count_tied), measured)
        yield Landing(number, row.rack, row.prefix + machine, shares, *row.told)
