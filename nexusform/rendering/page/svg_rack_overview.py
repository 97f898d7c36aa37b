"""Drawing of a site by racks, used if a drawing of every machine would be too large."""

from __future__ import annotations

from collections import Counter
from typing import Final

from nexusform.diagnostics.phrases import format_count
from nexusform.rendering.notation.markup import Markup, build_svg_element
from nexusform.rendering.page.map_legend import render_mark_legend
from nexusform.rendering.page.rack_map import ChangeMark, MapMachine, MapRack, SiteMap

MAX_BYTES: Final = 5_000_000
NOTE: Final = (
    "Racks alone, with their VMs; the bar is the memory that they take. With all machines this picture "
    "would be larger than 5 MB."
)
MAX_RACKS: Final = 8_000  # in one picture
_RACKS_PER_LINE: Final = 16
_WIDTH, _HEIGHT, _STEP, _LINE = 62, 18, 72, 40
_USED_COLOUR: Final = "#56b4e9"
# The outline of a rack shows its most severe change.
_MARKS_BY_SEVERITY: Final = (ChangeMark.REMOVED, ChangeMark.MOVED, ChangeMark.PLACED)


class RackOverviewDrawing:
    """Drawing of one site with at most `rack_limit` racks, with its `width` and `height`."""

    def __init__(self, site: SiteMap, rack_limit: int = MAX_RACKS) -> None:
        self._site = site
        self._racks = site.racks[: max(rack_limit, 0)]
        lines = -(-len(self._racks) // _RACKS_PER_LINE)
        self.width = _RACKS_PER_LINE * _STEP
        self.height = 26 + 20 + 26 + 20 + lines * _LINE
        # Mark the minority only, as in drawings of machines.
        self._unmarked = ChangeMark.PLACED if site.count_vms(ChangeMark.PLACED) * 2 > len(site.vms) else None

    def render_markup(self, top: int, margin: int) -> list[Markup]:
        """Render the elements of the site from `top` down."""
        hidden_count = len(self._site.racks) - len(self._racks)
        hidden_note = f" {format_count(hidden_count, 'more rack')} of this site omitted." if hidden_count else ""
        side = "current placement" if self._site.is_current_only else "after the plan"
        parts = [
            build_svg_element("text", f"Site {self._site.name}, {side}", class_="heading", x=margin, y=top + 16),
            build_svg_element("text", f"{NOTE}{hidden_note}", x=margin, y=top + 40),
            build_svg_element("g", render_mark_legend(self._unmarked), transform=f"translate({margin} {top + 50})"),
        ]
        for number, rack in enumerate(self._racks):
            line, column = divmod(number, _RACKS_PER_LINE)
            position = f"translate({margin + column * _STEP} {top + 92 + line * _LINE})"
            parts.append(build_svg_element("g", self._render_rack(rack), transform=position))
        return parts

    def _render_rack(self, rack: MapRack) -> list[Markup]:
        """Render a rack: tooltip, name, and a box with its VMs."""
        remaining_machines = [machine for machine in rack.machines if machine.mark is not ChangeMark.REMOVED]
        numbers = {number for machine in rack.machines for number in (*machine.before, *machine.after)}
        mark_counts = Counter(self._site.vms[number].mark for number in numbers)
        vms = sum(len(machine.after) for machine in remaining_machines)
        mark = next(
            (
                candidate
                for candidate in _MARKS_BY_SEVERITY
                if mark_counts[candidate] and candidate is not self._unmarked
            ),
            None,
        )
        is_closed = bool(remaining_machines) and all(
            machine.facts.unschedulable_reason for machine in remaining_machines
        )
        kind = " ".join(["cell", *(["refused"] if is_closed else []), *([mark.value] if mark else [])])
        used_width = round(_WIDTH * self._compute_memory_share(remaining_machines), 1)
        return [
            build_svg_element("title", _format_tooltip(rack, len(remaining_machines), vms, mark_counts)),
            build_svg_element("text", rack.name, class_="small", y=-3),
            build_svg_element("rect", class_=kind, width=_WIDTH, height=_HEIGHT),
            build_svg_element("rect", y=_HEIGHT - 5, width=used_width, height=5, fill=_USED_COLOUR),
            build_svg_element("text", str(vms), class_="key dark", x=_WIDTH / 2, y=11),
        ]

    def _compute_memory_share(self, machines: list[MapMachine]) -> float:
        """Compute the share of the memory of a rack used by its VMs."""
        total = sum(machine.facts.cells * machine.facts.memory_gib_per_cell for machine in machines)
        vms = (self._site.vms[number] for machine in machines for number in machine.after)
        used = sum(vm.sku.memory_in_cell * vm.sku.numa_cells for vm in vms)
        return float(min(used / total, 1)) if total else 0.0


def _format_tooltip(rack: MapRack, machines: int, vms: int, mark_counts: Counter[ChangeMark]) -> str:
    """Format the contents of a rack after the plan and its changes."""
    zone = f", zone {rack.zone}" if rack.zone != rack.name else ""
    labels = ((ChangeMark.PLACED, "placed"), (ChangeMark.MOVED, "moved from or to it"), (ChangeMark.REMOVED, "removed"))
    clauses = [f"{mark_counts[mark]:,} {label}" for mark, label in labels if mark_counts[mark]]
    changes = f"\n{', '.join(clauses)}" if clauses else ""
    return f"{rack.name}{zone}: {format_count(machines, 'machine')}, {format_count(vms, 'VM')}{changes}"
