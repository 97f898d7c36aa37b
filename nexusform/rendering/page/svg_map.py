"""The rack map as one SVG file: racks side by side, a row per machine, a box per NUMA cell.

Nothing is fetched from anywhere. Above LARGE machines on a site the drawing is condensed: no texts
in the boxes, one tooltip per machine, and only the side after the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.planning.plan import Plan
from nexusform.rendering.notation.markup import Markup, joined, shape
from nexusform.rendering.notation.places import place_text
from nexusform.rendering.page.cluster_paint import Paint, paints
from nexusform.rendering.page.rack_map import MapMachine, MapRack, MapVm, Mark, SiteMap, build_rack_maps
from nexusform.rendering.page.svg_legend import STYLE, clusters_legend, definitions, marks_legend
from nexusform.scheduling.racks.model import Placement
from nexusform.words import counted

LARGE: Final = 1000
_MARGIN: Final = 16
_HEADING: Final = 26


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
    return svg_of(build_rack_maps(plan))


def svg_of(maps: Sequence[SiteMap]) -> str:
    """The same from maps."""
    parts: list[Markup] = []
    width, top = 480, _MARGIN
    for site in maps:
        drawing = _Site(site)
        parts.append(shape("g", drawing.markup(top)))
        top += drawing.height + _MARGIN
        width = max(width, drawing.width)
    if not maps:
        parts.append(_text(_MARGIN, top + 14, "The plan knows no site.", "heading"))
        top += 40
    wide, high = width + 2 * _MARGIN, top
    whole = shape(
        "svg",
        shape("title", _title(maps), id="map-title"),
        shape("desc", _description(maps), id="map-desc"),
        STYLE,
        definitions(maps),
        shape("rect", class_="page", width=wide, height=high),
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {wide} {high}",
        width=wide,
        height=high,
        role="img",
        aria_labelledby="map-title map-desc",
    )
    return f"{whole}\n"


def _title(maps: Sequence[SiteMap]) -> str:
    return f"Rack map of {', '.join(site.name for site in maps)}" if maps else "Rack map"


def _description(maps: Iterable[SiteMap]) -> str:
    sentences = []
    for site in maps:
        marks = ", ".join(f"{site.count(mark)} {mark.value}" for mark in Mark)
        sentences.append(
            f"Site {site.name}: {counted(len(site.racks), 'rack')}, {counted(site.machines, 'machine')}, "
            f"{counted(len(site.vms), 'VM')} of {counted(len(site.clusters), 'cluster')}: {marks}."
        )
    return " ".join(sentences)


# --- one site ----------------------------------------------------------------------------------


class _Site:
    """Draws one site; `width` and `height` are known once it is made."""

    def __init__(self, site: SiteMap) -> None:
        self._map = site
        self._scale = _CONDENSED if site.machines > LARGE else _ORDINARY
        self._paints = paints(site.clusters)
        self._ids = {cluster: f"{number}" for number, cluster in enumerate(site.clusters)}
        stood = any(vm.before is not None and vm.address for vm in site.vms)
        changed = any(vm.mark is not Mark.KEPT for vm in site.vms)
        self._sides = ("before", "after") if stood and changed and self._scale.texts else ("after",)
        self._cells = max((m.facts.cells for rack in site.racks for m in rack.machines), default=2)
        self._rack_width = self._scale.label + self._cells * (self._scale.cell + 2) + 10
        across = min(self._scale.racks_per_line, max(len(site.racks), 1))
        self.width = max(across * self._rack_width, 460)
        self._lines = [
            site.racks[at : at + self._scale.racks_per_line]
            for at in range(0, len(site.racks), self._scale.racks_per_line)
        ]
        panel = sum(self._line_height(line) for line in self._lines)
        self._legend, self._legend_height = clusters_legend(
            list(self._paints.values()), _counts(site), self.width
        )
        self.height = _HEADING + self._legend_height + 26 + len(self._sides) * (_HEADING + panel)

    def _line_height(self, racks: Sequence[MapRack]) -> int:
        rows = max((len(rack.machines) for rack in racks), default=0)
        return 22 + rows * (self._scale.row + self._scale.gap) + 10

    def markup(self, top: int) -> list[Markup]:
        """The site's elements, from `top` down."""
        parts = [_text(_MARGIN, top + 16, f"Site {self._map.name}", "heading")]
        at = top + _HEADING
        parts.append(shape("g", self._legend, transform=f"translate({_MARGIN} {at})"))
        at += self._legend_height
        parts.append(shape("g", marks_legend(), transform=f"translate({_MARGIN} {at})"))
        at += 26
        for side in self._sides:
            words = (
                {"before": "Before", "after": "After"}
                if len(self._sides) > 1
                else {"after": "After the plan"}
            )
            parts.append(_text(_MARGIN, at + 16, words[side], "side"))
            at += _HEADING
            for line in self._lines:
                for number, rack in enumerate(line):
                    place = f"translate({_MARGIN + number * self._rack_width} {at})"
                    parts.append(shape("g", self._rack(rack, side), transform=place))
                at += self._line_height(line)
        return parts

    def _rack(self, rack: MapRack, side: str) -> list[Markup]:
        note = " (planned)" if rack.planned else ""
        zone = f" \N{MIDDLE DOT} zone {rack.zone}" if rack.zone != rack.name else ""
        name = f"{rack.name}{zone}{note}" if self._scale.texts else rack.name
        parts = [_text(0, 14, name, "rack" if self._scale.texts else "small")]
        for number, machine in enumerate(rack.machines):
            if machine.mark is Mark.REMOVED and side == "after":
                continue
            top = 22 + number * (self._scale.row + self._scale.gap)
            parts.append(shape("g", self._machine(machine, side), transform=f"translate(0 {top})"))
        return parts

    def _machine(self, machine: MapMachine, side: str) -> list[Markup]:
        facts, scale = machine.facts, self._scale
        refused = f"\ntakes no new VMs: {facts.refusal}" if facts.refusal else ""
        parts = [shape("title", f"{facts.name}{_hardware(machine)}{refused}{self._told(machine, side)}")]
        if scale.texts:
            parts.append(_text(scale.label - 5, scale.row - 5, f"{facts.slot:02d}", "slot"))
        for cell in range(facts.cells):
            left = scale.label + cell * (scale.cell + 2)
            kind = "cell refused" if facts.refusal else "cell"
            parts.append(shape("rect", class_=kind, x=left, width=scale.cell, height=scale.row))
        left_in = [0.0] * facts.cells
        for number in machine.before if side == "before" else machine.after:
            vm = self._map.vms[number]
            place = vm.before if side == "before" else vm.after
            assert place is not None, "listed on this side"
            parts.append(self._vm(vm, place, machine, left_in, side))
        return parts

    def _told(self, machine: MapMachine, side: str) -> str:
        if self._scale.texts:
            return ""
        numbers = machine.before if side == "before" else machine.after
        return "".join(f"\n{self._map.vms[number].name}" for number in numbers)

    def _vm(
        self, vm: MapVm, place: Placement, machine: MapMachine, left_in: list[float], side: str
    ) -> Markup:
        scale, paint = self._scale, self._paints[vm.cluster]
        size = machine.facts.memory_gib_per_cell or 1
        share = min(max(vm.sku.memory_in_cell / size, 0.06), 1.0)
        shown = _shown_mark(vm, side)
        parts: list[Markup] = [shape("title", vm_text(vm))] if scale.texts else []
        for cell in place.cells:
            if cell >= machine.facts.cells:
                continue
            start = min(left_in[cell], scale.cell - 3.0)
            wide = min(share * scale.cell, scale.cell - start)
            left_in[cell] = start + wide
            left = scale.label + cell * (scale.cell + 2) + start
            parts += _box(paint, shown, left, wide, scale)
        return shape("g", parts)


def _counts(site: SiteMap) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for vm in site.vms:
        counts[vm.cluster] = counts.get(vm.cluster, 0) + (vm.after is not None)
    return counts


def _shown_mark(vm: MapVm, side: str) -> Mark:
    # What comes is marked where it arrives, what goes where it stood.
    arriving = {Mark.PLACED, Mark.MOVED}
    leaving = {Mark.REMOVED, Mark.MOVED}
    return vm.mark if vm.mark in (arriving if side == "after" else leaving) else Mark.KEPT


def _box(paint: Paint, mark: Mark, left: float, wide: float, scale: _Scale) -> list[Markup]:
    inset = 0.5 if mark is Mark.KEPT or not scale.texts else 1.25
    name = f"vm {mark.value}" if scale.texts else f"vm bare {mark.value}"
    box = {"x": round(left + inset, 2), "y": inset, "width": round(max(wide - 2 * inset, 1.5), 2)}
    high = scale.row - 2 * inset
    parts = [shape("rect", class_=name, **box, height=high, fill=paint.fill)]
    if paint.pattern > 0 and scale.texts:
        parts.append(shape("rect", **box, height=high, fill=f"url(#{paint.pattern_name})"))
    sign = {Mark.PLACED: "+", Mark.MOVED: "~", Mark.REMOVED: "\N{MINUS SIGN}"}.get(mark, "")
    # Where the key does not fit beside the sign, the sign is what matters.
    label = next((text for text in (f"{sign}{paint.key}", sign) if wide >= 6 * len(text) + 4), "")
    if scale.texts and label:
        ink = "light" if paint.ink == "#ffffff" else "dark"
        parts.append(_text(left + wide / 2, scale.row - 5, label, f"key {ink}"))
    return parts


def vm_text(vm: MapVm) -> str:
    """A VM in a few lines: whose it is, where it stands, what happens to it and why."""
    lines = [vm.name, f"{vm.cluster}{f' / {vm.pool}' if vm.pool else ''}, {vm.sku.name}"]
    old = place_text(vm.before) if vm.before else ""
    new = place_text(vm.after) if vm.after else ""
    why = f" ({vm.trigger})" if vm.trigger else ""
    match vm.mark:
        case Mark.MOVED:
            lines.append(f"moves{why}: {old} to {new}")
        case Mark.REMOVED:
            lines.append(f"is removed{why} from {old}")
        case Mark.PLACED:
            lines.append(f"is placed{why}: {new}")
        case _:
            lines.append(new or old)
    return "\n".join(lines)


def _hardware(machine: MapMachine) -> str:
    facts = machine.facts
    each = f"{facts.cells} x {facts.cpus_per_cell} vCPU / {facts.memory_gib_per_cell} GiB"
    return f" ({facts.machine_sku}, {each})" if facts.machine_sku else f" ({each})"


def _text(left: float, top: float, text: str, kind: str) -> Markup:
    return shape("text", joined(text), class_=kind, x=round(left, 2), y=top)
