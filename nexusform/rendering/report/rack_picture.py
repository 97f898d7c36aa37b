"""Picture of changed racks in characters, for screens without graphics."""

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import compute_natural_sort_key, format_count, group_by
from nexusform.plans.site_capacity.occupancy import MachineVmCount, RackVmCounts, list_changed_racks
from nexusform.rendering.notation.colours import count_columns, fill_to_width
from nexusform.rendering.report.plan_report_data import PlanReportData
from nexusform.rendering.report.report_tree import CodeBlock, Section

MAX_WIDTH: Final = 38
# Number of machines without a gap between them.
_GROUP_SIZE: Final = 4
_MARGIN_WIDTH: Final = 8
_GROUPS_PER_LINE: Final = 5  # per line
# Number of racks shown before and after.
_MAX_RACKS: Final = 4
_MAX_NEW_RACKS: Final = 12
_NO_MACHINE: Final = "."
_CLOSED: Final = "x"
_TEN_OR_MORE: Final = "+"
_MAY_LOSE: Final = "?"
_SIGN_MEANINGS: Final = (
    (_CLOSED, "out of service"),
    (_NO_MACHINE, "no machine"),
    (_TEN_OR_MORE, "ten or more"),
    (_MAY_LOSE, "may lose VMs (Azure picks them)"),
)


def build_rack_section(view: PlanReportData) -> Section:
    """Build the picture of the changed racks of a plan, folded if it has only some of them."""
    sites = view.plan.site_records.sites
    racks = list_changed_racks(sites, view.plan.shrunk_pools)
    lines = render_rack_picture(racks, has_several_sites=len(sites) > 1)
    is_partial = len(racks) > _MAX_RACKS
    return Section("Racks", code=CodeBlock("\n".join(lines), "text"), is_folded=is_partial)


def render_rack_picture(
    racks: Sequence[RackVmCounts], *, has_several_sites: bool = False
) -> list[str]:
    """Render the VMs per machine of changed racks before and after the plan.

    Lines have up to MAX_WIDTH columns.

    The racks with the most removed VMs come first in `racks`. Only the first existing and new racks
    are shown, then the number of the other racks and a legend. Return [] if no machine has another
    number of VMs after the plan.

    For example, a rack of 5 machines (the first one cordoned, the third one new) and a new rack of
    2 machines give:

        rack1   1     5
        before  21.0  +
        after   x131  +
        rack9   01
    """
    racks = [
        rack
        for rack in racks
        if any(machine.may_lose or machine.before != machine.after for machine in rack.machines)
    ]
    if not racks:
        return []
    by_existence = group_by(racks, lambda rack: rack.existed_before)
    existing = by_existence.get(True, [])
    new = by_existence.get(False, [])  # changed racks
    # New racks of many sites are usually alike: the first site is an example.
    if len(new) > _MAX_NEW_RACKS:
        new = [rack for rack in new if rack.site == new[0].site]
    with_most_removed = existing[:_MAX_RACKS]
    with_most_removed.sort(key=lambda rack: (rack.site, compute_natural_sort_key(rack.name)))
    visible_racks = [*with_most_removed, *new[:_MAX_NEW_RACKS]]
    lines: list[str] = []
    # Only these are explained below the picture.
    used_signs: set[str] = set()
    for rack in visible_racks:
        lines += _render_rack(rack, f"{rack.site}/{rack.name}" if has_several_sites else rack.name)
        for machine in rack.machines:
            used_signs.add(_format_count_after(machine))
            if rack.existed_before:
                used_signs.add(_format_vm_count(machine.before, is_closed=False))
    if len(racks) > len(visible_racks):
        lines.append(f"and {format_count(len(racks) - len(visible_racks), 'more rack')}")
    lines.append("digit: VMs on that machine")
    lines += [f"{sign}: {meaning}" for sign, meaning in _SIGN_MEANINGS if sign in used_signs]
    return lines


def _render_rack(rack: RackVmCounts, display_name: str) -> list[str]:
    """Render the VMs per machine of one rack.

    The lines are the slot numbers, the numbers of VMs before, and those after. A new rack has only
    the last line. A rack with many machines has these lines again for the next slots. The margin on
    the left has the name of the rack, or `before` and `after`.
    """
    name = escape_name(display_name)
    if count_columns(name) > MAX_WIDTH:
        # The name fits even if each character has two columns.
        name = f"{name[: MAX_WIDTH // 2 - 3]}..."
    lines: list[str] = []
    name_margin = fill_to_width(name, _MARGIN_WIDTH)
    # A name too long for the margin has a line of its own.
    if count_columns(name) >= _MARGIN_WIDTH:
        lines.append(name)
        name_margin = " " * _MARGIN_WIDTH
    machines_per_line = _GROUP_SIZE * _GROUPS_PER_LINE
    for first in range(0, len(rack.machines), machines_per_line):
        machines = rack.machines[first : first + machines_per_line]
        after = _join_in_groups([_format_count_after(machine) for machine in machines])
        # One line without slots; further ones have the first slot in the margin.
        if not rack.existed_before:
            margin = fill_to_width(f"from {first + 1}", _MARGIN_WIDTH) if first else name_margin
            lines.append(margin + after)
            continue
        before = _join_in_groups(
            [_format_vm_count(machine.before, is_closed=False) for machine in machines]
        )
        numbers = range(first + 1, first + len(machines) + 1, _GROUP_SIZE)
        slots = "  ".join(f"{number:<{_GROUP_SIZE}}" for number in numbers)
        lines.append((name_margin + slots).rstrip())
        lines += [
            fill_to_width("before", _MARGIN_WIDTH) + before,
            fill_to_width("after", _MARGIN_WIDTH) + after,
        ]
    return lines


def _format_count_after(machine: MachineVmCount) -> str:
    """Return the sign of a machine after the plan."""
    if machine.may_lose:
        return _MAY_LOSE
    return _format_vm_count(machine.after, is_closed=machine.is_closed)


def _join_in_groups(signs: Sequence[str]) -> str:
    """Join the signs of machines, with two spaces after each group of _GROUP_SIZE."""
    groups = [
        "".join(signs[start : start + _GROUP_SIZE]) for start in range(0, len(signs), _GROUP_SIZE)
    ]
    return "  ".join(groups)


def _format_vm_count(vms: int | None, *, is_closed: bool) -> str:
    """Return the sign of a machine in the picture: its number of VMs, or a state.

    `vms` is None if the machine does not exist.
    """
    if vms is None:
        return _NO_MACHINE
    # VMs on a machine out of service may keep running and count.
    if is_closed and not vms:
        return _CLOSED
    return str(vms) if vms < 10 else _TEN_OR_MORE
