"""The rack map as one SVG file: racks side by side, a row per machine, a box per NUMA cell; of a plan without
a site the fleet as a matrix of placements and clusters.

Nothing is fetched from anywhere. Above LARGE machines on a site the drawing is condensed: no texts
in the boxes, one tooltip per machine, and only the side after the plan. What would be larger than 5 MB is
drawn rack by rack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.placement_kinds.kinds import place_text
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.markup import Markup, joined, shape
from nexusform.rendering.page.domain_parts import parts_of_domains
from nexusform.rendering.page.legend import (
    STYLE,
    Paint,
    clusters_legend,
    definitions,
    marks_legend,
    paints,
)
from nexusform.rendering.page.rack_map import MapMachine, MapRack, MapVm, Mark, SiteMap, build_rack_maps
from nexusform.rendering.page.svg_racks import MOST_BYTES, MOST_RACKS, NOTE, RackDrawing
from nexusform.rendering.report.overview import denied_by
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted

LARGE: Final = 1000
MARGIN: Final = 16
_HEADING: Final = 26
_LETTER_OF_HEADING: Final = 9  # pixels
_LEAST_OF_A_VM: Final = 60  # bytes


class _Scale(Struct, frozen=True):
    """Sizes in pixels. A machine's row is `row` high with `gap` below it; `label` is left of it."""

    row: int
    gap: int
    cell: int
    label: int
    racks_per_line: int
    texts: bool


_ORDINARY: Final = _Scale(row=17, gap=3, cell=58, label=22, racks_per_line=8, texts=True)
_CONDENSED: Final = _Scale(row=5, gap=1, cell=24, label=0, racks_per_line=20, texts=False)


def render_svg(plan: Plan) -> str:
    """The rack map of a plan as an SVG document, a newline at its end."""
    maps = build_rack_maps(plan)
    denied = denied_by(plan)
    verdict = f"Denied by {denied}" if denied else ""
    if plan.errored:
        return svg_of(maps, f"{verdict}. Nothing is changed", without_sites="Nothing stands yet.")
    pictures = () if maps else (part.picture(plan, verdict) for part in parts_of_domains(plan))
    return next(filter(None, pictures), "") or svg_of(maps, verdict)


def svg_of(
    maps: Sequence[SiteMap], verdict: str = "", *, without_sites: str = "The plan knows no site."
) -> str:
    """An SVG document of maps, one below the other, under a verdict. Where that would be too large a file, of
    their racks alone.
    """
    # A VM takes more than so many bytes: what cannot be small enough is not drawn first.
    if sum(len(site.vms) for site in maps) * _LEAST_OF_A_VM <= MOST_BYTES:
        picture = _machines_of(maps, verdict, without_sites)
        if len(picture) <= MOST_BYTES:
            return picture
    return _racks_of(maps, verdict)


def _racks_of(maps: Sequence[SiteMap], verdict: str) -> str:
    """The racks of maps."""
    drawings: list[Markup] = []
    width, top, room = 0, MARGIN, MOST_RACKS
    for site in maps:
        drawing = RackDrawing(site, room)
        drawings += drawing.markup(top, MARGIN)
        room -= len(site.racks)
        top += drawing.height + MARGIN
        width = max(width, drawing.width)
    description = f"{_description(maps)} {NOTE}"
    return document(_title(maps), description, [definitions(maps), *drawings], width, top, verdict)


def _machines_of(maps: Sequence[SiteMap], verdict: str, without_sites: str) -> str:
    """The machines of maps."""
    drawings: list[Markup] = []
    width, top = 480, MARGIN
    for site in maps:
        drawing = _Site(site)
        drawings.append(shape("g", drawing.markup(top)))
        top += drawing.height + MARGIN
        width = max(width, drawing.width)
    if not maps:
        drawings.append(lettering(MARGIN, top + 14, without_sites, "heading"))
        top += 40
    patterns = definitions(maps)
    return document(_title(maps), _description(maps), [patterns, *drawings], width, top, verdict)


def document(
    title: str, description: str, drawings: Sequence[Markup], width: int, height: int, verdict: str
) -> str:
    """A whole file: parts of this width, with margins beside them, on a white page."""
    if verdict:
        width = max(width, round(len(verdict) * _LETTER_OF_HEADING))
        description = f"{verdict}. {description}"
        drawings = [lettering(MARGIN, MARGIN + 14, verdict, "heading"), moved(drawings, 0, _HEADING)]
        height += _HEADING
    page_width = width + 2 * MARGIN
    picture = shape(
        "svg",
        shape("title", title, id="map-title"),
        shape("desc", description, id="map-desc"),
        STYLE,
        shape("rect", class_="page", width=page_width, height=height),
        drawings,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {page_width} {height}",
        width=page_width,
        height=height,
        role="img",
        aria_labelledby="map-title map-desc",
    )
    return f"{picture}\n"


def _title(maps: Sequence[SiteMap]) -> str:
    return f"Rack map of {', '.join(site.name for site in maps)}" if maps else "Rack map"


def _description(maps: Iterable[SiteMap]) -> str:
    return " ".join(_site_description(site) for site in maps)


def _site_description(site: SiteMap) -> str:
    """What the picture shows, for those who do not see it."""
    sizes = ", ".join(
        (
            counted(len(site.racks), "rack"),
            counted(site.machines, "machine"),
            f"{counted(len(site.vms), 'VM')} of {counted(len(site.clusters), 'cluster')}",
        )
    )
    marks = ", ".join(f"{site.count(mark)} {mark.value}" for mark in Mark)
    return f"Site {site.name}: {sizes}: {marks}."


# --- one site ----------------------------------------------------------------------------------


class _Side(Struct, frozen=True):
    """A site before or after the plan, under a title."""

    title: str
    is_after: bool

    def vms(self, machine: MapMachine) -> tuple[int, ...]:
        """The numbers of the VMs on a machine."""
        return machine.after if self.is_after else machine.before

    def place(self, vm: MapVm) -> Placement | None:
        """Where a VM stands."""
        return vm.after if self.is_after else vm.before

    def mark(self, vm: MapVm) -> Mark:
        """How a VM is marked: what comes where it arrives, what goes where it stood."""
        marked = (Mark.PLACED, Mark.MOVED) if self.is_after else (Mark.REMOVED, Mark.MOVED)
        return vm.mark if vm.mark in marked else Mark.KEPT


_BEFORE_AND_AFTER: Final = (_Side("Before", is_after=False), _Side("After", is_after=True))
_AFTER: Final = (_Side("After the plan", is_after=True),)
_NOW: Final = (_Side("What stands", is_after=True),)


def _sides(site: SiteMap, *, both: bool) -> Sequence[_Side]:
    """Both sides where VMs stood before and something changes."""
    if site.refused:
        return _NOW
    had_vms = any(vm.before is not None and vm.address for vm in site.vms)
    changes = any(vm.mark is not Mark.KEPT for vm in site.vms)
    return _BEFORE_AND_AFTER if both and had_vms and changes else _AFTER


class _Site:
    """Draws one site; `width` and `height` are known once it is made."""

    def __init__(self, site: SiteMap) -> None:
        self._map = site
        self._scale = _CONDENSED if site.machines > LARGE else _ORDINARY
        self._sides = _sides(site, both=self._scale.texts)
        self._paints = paints(site.clusters)
        # A mark is for the minority, as on the page.
        self._plain = Mark.PLACED if site.count(Mark.PLACED) * 2 > len(site.vms) else None
        self._rack_width = self._scale.label + _most_cells(site) * (self._scale.cell + 2) + 10
        across = self._scale.racks_per_line
        self._lines = [site.racks[first : first + across] for first in range(0, len(site.racks), across)]
        racks_across = min(across, max(len(site.racks), 1))
        self.width = max(racks_across * self._rack_width, 460)
        entries = list(self._paints.values())
        changing = {vm.cluster for vm in site.vms if vm.mark is not Mark.KEPT}
        self._legend, self._legend_height = clusters_legend(entries, _vms_after(site), changing, self.width)
        panel = sum(self._line_height(line) for line in self._lines)
        self.height = _HEADING + self._legend_height + 26 + len(self._sides) * (_HEADING + panel)

    def _line_height(self, racks: Sequence[MapRack]) -> int:
        """How high a line of racks is: that of its tallest."""
        rows = max((len(rack.machines) for rack in racks), default=0)
        return 22 + rows * (self._scale.row + self._scale.gap) + 10

    def markup(self, top: int) -> list[Markup]:
        """The site's elements, from `top` down."""
        parts = [lettering(MARGIN, top + 16, f"Site {self._map.name}", "heading")]
        at = top + _HEADING
        parts.append(moved(self._legend, MARGIN, at))
        at += self._legend_height
        parts.append(moved(marks_legend(self._plain), MARGIN, at))
        at += 26
        for side in self._sides:
            parts.append(lettering(MARGIN, at + 16, side.title, "side"))
            at += _HEADING
            for line in self._lines:
                for number, rack in enumerate(line):
                    parts.append(moved(self._rack(rack, side), MARGIN + number * self._rack_width, at))
                at += self._line_height(line)
        return parts

    def _rack(self, rack: MapRack, side: _Side) -> list[Markup]:
        """A rack: its name over its machines."""
        parts = [self._rack_name(rack)]
        for number, machine in enumerate(rack.machines):
            is_gone = machine.mark is Mark.REMOVED and side.is_after
            if not is_gone:
                top = 22 + number * (self._scale.row + self._scale.gap)
                parts.append(moved(self._machine(machine, side), 0, top))
        return parts

    def _rack_name(self, rack: MapRack) -> Markup:
        """The name of a rack, with its zone where that is another."""
        if not self._scale.texts:
            return lettering(0, 14, rack.name, "small")
        zone = f" \N{MIDDLE DOT} zone {rack.zone}" if rack.zone != rack.name else ""
        note = " (planned)" if rack.planned else ""
        return lettering(0, 14, f"{rack.name}{zone}{note}", "rack")

    def _machine(self, machine: MapMachine, side: _Side) -> list[Markup]:
        """A machine: tooltip, slot, cells, and the VMs in them."""
        facts, scale = machine.facts, self._scale
        vms = [self._map.vms[number] for number in side.vms(machine)]
        parts = [shape("title", self._tooltip(machine, vms))]
        if scale.texts:
            parts.append(lettering(scale.label - 5, scale.row - 5, f"{facts.slot:02d}", "slot"))
        for cell in range(facts.cells):
            left = scale.label + cell * (scale.cell + 2)
            kind = "cell refused" if facts.refusal else "cell"
            parts.append(shape("rect", class_=kind, x=left, width=scale.cell, height=scale.row))
        filled = [0.0] * facts.cells
        for vm in vms:
            place = side.place(vm)
            assert place is not None, "listed on this side"
            mark = side.mark(vm)
            parts.append(self._vm(vm, place, machine, filled, Mark.KEPT if mark is self._plain else mark))
        return parts

    def _tooltip(self, machine: MapMachine, vms: Iterable[MapVm]) -> str:
        """What a machine is, and the VMs on it where they have no tooltips of their own."""
        facts = machine.facts
        lines = [f"{facts.name}{_hardware(machine)}"]
        if facts.refusal:
            lines.append(f"takes no new VMs: {facts.refusal}")
        if not self._scale.texts:
            lines += [vm.name for vm in vms]
        return "\n".join(lines)

    def _vm(
        self, vm: MapVm, place: Placement, machine: MapMachine, filled: list[float], mark: Mark
    ) -> Markup:
        """A box per cell, right of what is in it; `filled` is how far each cell is, and grows. Where nobody
        told the cells: one box over the machine as a whole, right of all that is in it.
        """
        scale = self._scale
        size = machine.facts.memory_gib_per_cell or 1
        share = min(max(vm.sku.memory_in_cell / size, 0.06), 1.0)
        parts: list[Markup] = [shape("title", vm_text(vm))] if scale.texts else []
        if not place.cells:
            machine_width = machine.facts.cells * (scale.cell + 2) - 2.0
            start = min(sum(filled), machine_width - 3.0)
            width = min(share * scale.cell * vm.sku.numa_cells, machine_width - start)
            filled[0] += width
            parts += _box(self._paints[vm.cluster], mark, scale.label + start, width, scale)
        for cell in place.cells:
            if cell >= machine.facts.cells:
                continue
            start = min(filled[cell], scale.cell - 3.0)
            width = min(share * scale.cell, scale.cell - start)
            filled[cell] = start + width
            left = scale.label + cell * (scale.cell + 2) + start
            parts += _box(self._paints[vm.cluster], mark, left, width, scale)
        return shape("g", parts)


def moved(parts: Sequence[Markup], left: int, top: int) -> Markup:
    """Drawings set to another place."""
    return shape("g", parts, transform=f"translate({left} {top})")


def _most_cells(site: SiteMap) -> int:
    """How many cells the machines of a site have at most."""
    cells = 0
    for rack in site.racks:
        cells = max([cells, *(machine.facts.cells for machine in rack.machines)])
    return cells or 2


def _vms_after(site: SiteMap) -> Counter[str]:
    """How many VMs each cluster has after the plan."""
    return Counter(vm.cluster for vm in site.vms if vm.after is not None)


_SIGNS: Final = {Mark.PLACED: "+", Mark.MOVED: "~", Mark.REMOVED: "\N{MINUS SIGN}", Mark.KEPT: ""}


def _box(paint: Paint, mark: Mark, left: float, width: float, scale: _Scale) -> list[Markup]:
    """The part of a cell that a VM takes, with its key where that fits."""
    if not scale.texts:
        bare = _inside(left, width, scale, 0.5)
        return [shape("rect", class_=f"vm bare {mark.value}", **bare, fill=paint.fill)]
    box = _inside(left, width, scale, 0.5 if mark is Mark.KEPT else 1.25)
    parts = [shape("rect", class_=f"vm {mark.value}", **box, fill=paint.fill)]
    if paint.pattern > 0:
        parts.append(shape("rect", **box, fill=f"url(#{paint.pattern_name})"))
    label = _label(f"{_SIGNS[mark]}{paint.key}", _SIGNS[mark], width)
    if label:
        parts.append(lettering(left + width / 2, scale.row - 5, label, f"key {paint.tone}"))
    return parts


def _inside(left: float, width: float, scale: _Scale, inset: float) -> dict[str, float]:
    """The rectangle of a box without its outline."""
    return {
        "x": round(left + inset, 2),
        "y": inset,
        "width": round(max(width - 2 * inset, 1.5), 2),
        "height": scale.row - 2 * inset,
    }


def _label(key: str, sign: str, width: float) -> str:
    """Where the key does not fit beside the sign, the sign is what matters."""
    for text in (key, sign):
        if width >= 6 * len(text) + 4:
            return text
    return ""


def vm_text(vm: MapVm) -> str:
    """A VM in a few lines: whose it is, where it stands, what happens to it and why."""
    owner = f"{vm.cluster} / {vm.pool}" if vm.pool else vm.cluster
    return f"{vm.name}\n{owner}, {vm.sku.name}\n{_fate(vm)}"


def _fate(vm: MapVm) -> str:
    """What happens to a VM, or where it stands."""
    old = place_text(vm.before) if vm.before else ""
    new = place_text(vm.after) if vm.after else ""
    why = f" ({vm.trigger})" if vm.trigger else ""
    match vm.mark:
        case Mark.MOVED:
            return f"moves{why}: {old} to {new}"
        case Mark.REMOVED:
            return f"is removed{why} from {old}"
        case Mark.PLACED:
            return f"is placed{why}: {new}"
        case Mark.KEPT:
            return new or old


def _hardware(machine: MapMachine) -> str:
    """What a machine is made of, in brackets."""
    facts = machine.facts
    cells = f"{facts.cells} x {facts.cpus_per_cell} vCPU / {facts.memory_gib_per_cell} GiB"
    return f" ({facts.machine_sku}, {cells})" if facts.machine_sku else f" ({cells})"


def lettering(left: float, top: float, text: str, kind: str) -> Markup:
    """Text at a place, as its kind is written."""
    return shape("text", joined(text), class_=kind, x=round(left, 2), y=top)
