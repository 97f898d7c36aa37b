"""Text picture of changed racks, for a comment on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.diagnostics.phrases import compute_natural_sort_key, format_count
from nexusform.plans.site_capacity.occupancy import RackVmCounts
from nexusform.rendering.notation.colours import count_columns, escape_control_characters, fill_to_width

MAX_WIDTH: Final = 38
_GROUP_SIZE: Final = 4  # machines without a gap between them
_MARGIN_WIDTH: Final = 8
_GROUPS_PER_LINE: Final = 5  # per line
_MAX_RACKS: Final = 4  # shown before and after
_MAX_NEW_RACKS: Final = 12
_NO_MACHINE: Final = "."
_CLOSED: Final = "x"
_TEN_OR_MORE: Final = "+"
_SIGN_MEANINGS: Final = ((_CLOSED, "cordoned"), (_NO_MACHINE, "no machine"), (_TEN_OR_MORE, "ten or more"))


def render_rack_picture(racks: Sequence[RackVmCounts], *, has_several_sites: bool = False) -> list[str]:
    """Render the lines of the picture, at most MAX_WIDTH wide; none without changed racks."""
    racks = [rack for rack in racks if any(machine.before != machine.after for machine in rack.machines)]
    if not racks:
        return []
    existing = [rack for rack in racks if rack.existed_before]
    new = [rack for rack in racks if not rack.existed_before]
    # New racks of many sites are usually alike: the first site is an example.
    if len(new) > _MAX_NEW_RACKS:
        new = [rack for rack in new if rack.site == new[0].site]
    # If not all racks fit, keep those with the most removed VMs, sorted by name.
    visible_racks = [*sorted(existing[:_MAX_RACKS], key=_get_sort_key), *new[:_MAX_NEW_RACKS]]
    lines: list[str] = []
    has_several = len({rack.site for rack in racks}) > 1
    for rack in visible_racks:
        lines += _render_rack(rack, f"{rack.site}/{rack.name}" if has_several or has_several_sites else rack.name)
    figures = "".join(_list_vm_counts(visible_racks))
    if len(racks) > len(visible_racks):
        lines.append(f"and {format_count(len(racks) - len(visible_racks), 'more rack')}")
    lines.append("digit: VMs on that machine")
    lines += [f"{sign}: {meaning}" for sign, meaning in _SIGN_MEANINGS if sign in figures]
    return lines


def _get_sort_key(rack: RackVmCounts) -> tuple[object, ...]:
    return rack.site, compute_natural_sort_key(rack.name)


def _list_vm_counts(racks: Iterable[RackVmCounts]) -> Iterable[str]:
    for rack in racks:
        for machine in rack.machines:
            yield _format_vm_count(machine.after, is_closed=machine.is_closed)
            if rack.existed_before:
                yield _format_vm_count(machine.before, is_closed=False)


def _render_rack(rack: RackVmCounts, display_name: str) -> list[str]:
    """Render one rack: its name, the slots above, and a line per existing side."""
    text = escape_control_characters(display_name).replace("\n", " ")
    name = text if count_columns(text) <= MAX_WIDTH else f"{text[: MAX_WIDTH // 2 - 3]}..."
    lines: list[str] = []
    if count_columns(name) >= _MARGIN_WIDTH:
        lines.append(name)
        name = ""
    for first in range(0, len(rack.machines), _GROUP_SIZE * _GROUPS_PER_LINE):
        machines = rack.machines[first : first + _GROUP_SIZE * _GROUPS_PER_LINE]
        after = _render_row([_format_vm_count(machine.after, is_closed=machine.is_closed) for machine in machines])
        if not rack.existed_before:
            lines.append(fill_to_width(f"from {first + 1}" if first else name, _MARGIN_WIDTH) + after)
            continue
        before = _render_row([_format_vm_count(machine.before, is_closed=False) for machine in machines])
        numbers = range(first + 1, first + len(machines) + 1, _GROUP_SIZE)
        lines.append(
            (fill_to_width(name, _MARGIN_WIDTH) + "  ".join(f"{number:<{_GROUP_SIZE}}" for number in numbers)).rstrip()
        )
        lines += [fill_to_width("before", _MARGIN_WIDTH) + before, fill_to_width("after", _MARGIN_WIDTH) + after]
    return lines


def _render_row(figures: Sequence[str]) -> str:
    groups = ["".join(figures[start : start + _GROUP_SIZE]) for start in range(0, len(figures), _GROUP_SIZE)]
    return "  ".join(groups)


def _format_vm_count(vms: int | None, *, is_closed: bool) -> str:
    if vms is None:
        return _NO_MACHINE
    if is_closed and not vms:
        return _CLOSED
    return str(vms) if vms < 10 else _TEN_OR_MORE
