"""A site drawn rack by rack, where a drawing of every machine would be too large a file."""

from __future__ import annotations

from collections import Counter
from typing import Final

from nexusform.rendering.notation.markup import Markup, shape
from nexusform.rendering.page.legend import marks_legend
from nexusform.rendering.page.rack_map import MapMachine, MapRack, Mark, SiteMap
from nexusform.words import counted

MOST_BYTES: Final = 5_000_000
NOTE: Final = (
    "Racks alone, with their VMs; the bar is the memory that they take. With every machine this picture "
    "would be larger than 5 MB."
)
MOST_RACKS: Final = 8_000  # in one picture
_RACKS_PER_LINE: Final = 16
_WIDTH, _HEIGHT, _STEP, _LINE = 62, 18, 72, 40
_TAKEN: Final = "#56b4e9"
# A rack is outlined by the gravest of what happens in it.
_GRAVEST: Final = (Mark.REMOVED, Mark.MOVED, Mark.PLACED)


class RackDrawing:
    """Draws one site of at most `room` racks; `width` and `height` are known once it is made."""

    def __init__(self, site: SiteMap, room: int = MOST_RACKS) -> None:
        self._site = site
        self._racks = site.racks[: max(room, 0)]
        lines = -(-len(self._racks) // _RACKS_PER_LINE)
        self.width = _RACKS_PER_LINE * _STEP
        self.height = 26 + 20 + 26 + 20 + lines * _LINE
        # A mark is for the minority, as where machines are drawn.
        self._plain = Mark.PLACED if site.count(Mark.PLACED) * 2 > len(site.vms) else None

    def markup(self, top: int, margin: int) -> list[Markup]:
        """The site's elements, from `top` down."""
        left_out = len(self._site.racks) - len(self._racks)
        more = f" {counted(left_out, 'more rack')} of this site left out." if left_out else ""
        side = "what stands" if self._site.refused else "after the plan"
        parts = [
            shape("text", f"Site {self._site.name}, {side}", class_="heading", x=margin, y=top + 16),
            shape("text", f"{NOTE}{more}", x=margin, y=top + 40),
            shape("g", marks_legend(self._plain), transform=f"translate({margin} {top + 50})"),
        ]
        for number, rack in enumerate(self._racks):
            line, column = divmod(number, _RACKS_PER_LINE)
            place = f"translate({margin + column * _STEP} {top + 92 + line * _LINE})"
            parts.append(shape("g", self._rack(rack), transform=place))
        return parts

    def _rack(self, rack: MapRack) -> list[Markup]:
        """A rack: tooltip, name, and a box with its VMs."""
        staying = [machine for machine in rack.machines if machine.mark is not Mark.REMOVED]
        happenings = self._happenings(rack)
        vms = sum(len(machine.after) for machine in staying)
        mark = next((each for each in _GRAVEST if happenings[each] and each is not self._plain), None)
        closed = bool(staying) and all(machine.facts.refusal for machine in staying)
        kind = " ".join(["cell", *(["refused"] if closed else []), *([mark.value] if mark else [])])
        taken = round(_WIDTH * self._share(staying), 1)
        return [
            shape("title", _tooltip(rack, len(staying), vms, happenings)),
            shape("text", rack.name, class_="small", y=-3),
            shape("rect", class_=kind, width=_WIDTH, height=_HEIGHT),
            shape("rect", y=_HEIGHT - 5, width=taken, height=5, fill=_TAKEN),
            shape("text", str(vms), class_="key dark", x=_WIDTH / 2, y=11),
        ]

    def _happenings(self, rack: MapRack) -> Counter[Mark]:
        """How many of its VMs come, move (here or away) and leave."""
        numbers = {number for machine in rack.machines for number in (*machine.before, *machine.after)}
        return Counter(self._site.vms[number].mark for number in numbers)

    def _share(self, machines: list[MapMachine]) -> float:
        """The part of a rack's memory that its VMs take."""
        room = sum(machine.facts.cells * machine.facts.memory_gib_per_cell for machine in machines)
        vms = (self._site.vms[number] for machine in machines for number in machine.after)
        taken = sum(vm.sku.memory_in_cell * vm.sku.numa_cells for vm in vms)
        return float(min(taken / room, 1)) if room else 0.0


def _tooltip(rack: MapRack, machines: int, vms: int, happenings: Counter[Mark]) -> str:
    """What a rack holds after the plan, and what happens in it."""
    zone = f", zone {rack.zone}" if rack.zone != rack.name else ""
    words = ((Mark.PLACED, "placed"), (Mark.MOVED, "moved from or to it"), (Mark.REMOVED, "removed"))
    clauses = [f"{happenings[mark]:,} {word}" for mark, word in words if happenings[mark]]
    changes = f"\n{', '.join(clauses)}" if clauses else ""
    return f"{rack.name}{zone}: {counted(machines, 'machine')}, {counted(vms, 'VM')}{changes}"
