"""Racks that a plan changes as a picture of characters, narrow enough for a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.rendering.notation.colours import columns, harmless, pad
from nexusform.rendering.report.machine_counts import MachineCount, RackCounts
from nexusform.words import counted

WIDTH: Final = 38
_GROUP: Final = 4  # machines side by side without a gap
_MARGIN: Final = 8
_GROUPS: Final = 5  # in a line
_RACKS: Final = 4  # that are shown before and after
_NEW_RACKS: Final = 12
_NOT_THERE: Final = "."
_CLOSED: Final = "x"
_MANY: Final = "+"
_MEANINGS: Final = ((_CLOSED, "takes no VM"), (_NOT_THERE, "no machine"), (_MANY, "ten or more"))


def rack_picture(racks: Sequence[RackCounts]) -> list[str]:
    """The lines of the picture, at most WIDTH wide; none when no rack changes."""
    if not racks:
        return []
    standing = [rack for rack in racks if rack.stood]
    new = [rack for rack in racks if not rack.stood]
    shown = [*standing[:_RACKS], *new[:_NEW_RACKS]]
    lines: list[str] = []
    for rack in shown:
        lines += _rack_lines(rack)
    drawn = "".join(_figures(shown))
    if len(racks) > len(shown):
        lines.append(f"and {counted(len(racks) - len(shown), 'more rack')}")
    lines.append("a figure: VMs on a machine")
    lines += [f"{sign}: {meaning}" for sign, meaning in _MEANINGS if sign in drawn]
    return lines


def _figures(racks: Iterable[RackCounts]) -> Iterable[str]:
    for rack in racks:
        for machine in rack.machines:
            yield _figure(machine.after, closed=machine.closed)
            if rack.stood:
                yield _figure(machine.before, closed=False)


def _rack_lines(rack: RackCounts) -> list[str]:
    """One rack: its name, the slots above, and a line for each side that stands."""
    name = _shortened(rack.name)
    lines: list[str] = []
    if columns(name) >= _MARGIN:
        lines.append(name)
        name = ""
    for first in range(0, len(rack.machines), _GROUP * _GROUPS):
        machines = rack.machines[first : first + _GROUP * _GROUPS]
        after = _row([_figure(machine.after, closed=machine.closed) for machine in machines])
        if not rack.stood:
            lines.append(pad(name, _MARGIN) + after)
            continue
        before = _row([_figure(machine.before, closed=False) for machine in machines])
        lines.append((pad(name, _MARGIN) + _slots(first, machines)).rstrip())
        lines += [pad("before", _MARGIN) + before, pad("after", _MARGIN) + after]
    return lines


def _shortened(name: str) -> str:
    text = harmless(name).replace("\n", " ")
    return text if columns(text) <= WIDTH else f"{text[: WIDTH // 2 - 3]}..."


def _row(figures: Sequence[str]) -> str:
    groups = ["".join(figures[at : at + _GROUP]) for at in range(0, len(figures), _GROUP)]
    return "  ".join(groups)


def _slots(first: int, machines: Sequence[MachineCount]) -> str:
    """The number of the first machine of every group, above it."""
    numbers = range(first + 1, first + len(machines) + 1, _GROUP)
    return "  ".join(f"{number:<{_GROUP}}" for number in numbers)


def _figure(vms: int | None, *, closed: bool) -> str:
    if vms is None:
        return _NOT_THERE
    if closed and not vms:
        return _CLOSED
    return str(vms) if vms < 10 else _MANY
