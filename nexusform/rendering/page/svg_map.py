"""Rack map as one SVG file: racks side by side, a row per machine, a box per NUMA cell.

A plan without sites shows the fleet as a matrix of placements and clusters. The file makes no
requests. Above LARGE machines per site the drawing is condensed: no texts in boxes, one tooltip per
machine, only the side after the plan. Files above 5 MB are drawn rack by rack.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose, format_count, format_counts, join_texts
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.markup import Markup, build_svg_element
from nexusform.rendering.page.map_legend import (
    ClusterStyle,
    build_cluster_styles,
    build_pattern_definitions,
    render_cluster_legend,
    render_mark_legend,
)
from nexusform.rendering.page.matrix_picture import render_matrix_picture
from nexusform.rendering.page.page_data import format_optional_location
from nexusform.rendering.page.svg_elements import (
    MARGIN,
    MAX_BYTES,
    render_document,
    render_text,
    translate_parts,
)
from nexusform.rendering.report.domain_sections import build_domain_sections
from nexusform.rendering.report.plan_sentences import describe_assumptions
from nexusform.rendering.report.plan_verdict import describe_rejection
from nexusform.rendering.report.rack_map import (
    MAY_BE_REMOVED,
    ChangeMark,
    MapMachine,
    MapRack,
    MapVm,
    SiteMap,
    build_rack_maps,
)
from nexusform.scheduling.racks.vms import Placement

LARGE: Final = 1000
_MIN_VM_BYTES: Final = 60  # bytes
# Sizes in pixels.
_HEADING_HEIGHT: Final = 26
_CELL_GAP: Final = 2
_RACK_GAP: Final = 10
_RACK_NAME_HEIGHT: Final = 22
_MARK_LEGEND_HEIGHT: Final = 26
# The legend of marks fits.
_MIN_SITE_WIDTH: Final = 460
_MIN_VM_WIDTH: Final = 3.0
# Width of a letter in a box.
_LETTER_WIDTH: Final = 6
# Margin of both sides.
_LETTER_MARGIN: Final = 4
# Number of cells of a site without machines.
_DEFAULT_CELLS: Final = 2


class _MapSizes(Struct, frozen=True):
    """Sizes in pixels.

    The row of a machine has the height `row` with `gap` below and a `label` on the left.
    """

    row: int
    gap: int
    cell: int
    label: int
    racks_per_line: int
    has_texts: bool


_FULL_SCALE: Final = _MapSizes(row=17, gap=3, cell=58, label=22, racks_per_line=8, has_texts=True)
_CONDENSED_SCALE: Final = _MapSizes(
    row=5, gap=1, cell=24, label=0, racks_per_line=20, has_texts=False
)


def render_svg(plan: Plan) -> str:
    """Render the rack map of a plan as an SVG document.

    Without sites, draw the matrix of a domain such as fleet.
    """
    maps = build_rack_maps(plan)
    rejection = enclose("Blocked by ", describe_rejection(plan))
    verdict = join_texts((describe_assumptions(plan).rstrip("."), rejection), ". ")
    # The maps have the current placement only.
    if plan.errored:
        return render_maps(
            maps, f"{verdict}. No changes were made", empty_text="The site has no VMs."
        )
    # A plan without sites.
    for section in () if maps else chain.from_iterable(build_domain_sections(plan).values()):
        picture = render_matrix_picture(section, verdict)
        if picture:
            return picture
    return render_maps(maps, verdict)


def render_maps(
    maps: Sequence[SiteMap], verdict: str = "", *, empty_text: str = "The plan has no site."
) -> str:
    """Render an SVG document of maps below a verdict.

    If it exceeds MAX_BYTES, draw racks without their machines.
    """
    # A VM needs at least _MIN_VM_BYTES: draw no machines if the document is certain to
    # be too large.
    if sum(len(site.vms) for site in maps) * _MIN_VM_BYTES <= MAX_BYTES:
        picture = _render_machines(maps, verdict, empty_text)
        if len(picture) <= MAX_BYTES:
            return picture
    drawings: list[Markup] = []
    # The limit is shared by all sites.
    width = 0
    top = MARGIN
    rack_limit = MAX_RACKS
    for site in maps:
        drawing = RackOverviewDrawing(site, rack_limit)
        drawings += drawing.render_markup(top, MARGIN)
        rack_limit -= len(site.racks)
        top += drawing.height + MARGIN
        width = max(width, drawing.width)
    description = f"{_describe_maps(maps)} {NOTE}"
    return render_document(
        _format_title(maps),
        description,
        [build_pattern_definitions(maps), *drawings],
        width,
        top,
        verdict,
    )


def _render_machines(maps: Sequence[SiteMap], verdict: str, empty_text: str) -> str:
    """Render an SVG document with every machine of the maps.

    If there are none, it shows `empty_text`.
    """
    drawings: list[Markup] = []
    # The minimum width.
    width = 480
    top = MARGIN
    for site in maps:
        drawing = _SiteDrawing(site)
        drawings.append(build_svg_element("g", drawing.render_markup(top)))
        top += drawing.height + MARGIN
        width = max(width, drawing.width)
    if not maps:
        drawings.append(render_text(MARGIN, top + 14, empty_text, "heading"))
        top += 40
    patterns = build_pattern_definitions(maps)
    return render_document(
        _format_title(maps), _describe_maps(maps), [patterns, *drawings], width, top, verdict
    )


def _format_title(maps: Sequence[SiteMap]) -> str:
    return f"Rack map of {', '.join(site.name for site in maps)}" if maps else "Rack map"


def _describe_maps(maps: Iterable[SiteMap]) -> str:
    """Return a text alternative of the picture.

    It has the sizes of each site, and its numbers of VMs by change.
    """
    sentences = []
    for site in maps:
        sizes = (
            f"{format_count(len(site.racks), 'rack')}, "
            f"{format_count(site.machine_count, 'machine')}, "
        )
        sizes += (
            f"{format_count(len(site.vms), 'VM')} of {format_count(len(site.clusters), 'cluster')}"
        )
        counts = {mark: site.count_vms(mark) for mark in ChangeMark}
        # Other plans have no VM with this mark.
        choice = counts.pop(ChangeMark.CHOICE)
        texts = [f"{count} {mark.value}" for mark, count in counts.items()]
        marks = ", ".join([*texts, f"{choice} may be removed"] if choice else texts)
        sentences.append(f"Site {site.name}: {sizes}: {marks}.")
    return " ".join(sentences)


class _SiteMapView(Struct, frozen=True):
    """A site before or after the plan, with a title."""

    title: str
    is_after: bool

    def list_vms(self, machine: MapMachine) -> tuple[int, ...]:
        """Return the VMs on a machine on this side, as positions in the list of VMs of the site.

        A side is before or after the plan.
        """
        return machine.after if self.is_after else machine.before

    def get_location(self, vm: MapVm) -> Placement | None:
        """Return the location of a VM on this side (before or after the plan)."""
        return vm.after if self.is_after else vm.before

    def get_mark(self, vm: MapVm) -> ChangeMark:
        """Return the mark of a VM on this side.

        PLACED is shown only after the plan, REMOVED only before it.
        """
        mark_of_other_side = ChangeMark.REMOVED if self.is_after else ChangeMark.PLACED
        return ChangeMark.KEPT if vm.mark is mark_of_other_side else vm.mark


_BEFORE_AND_AFTER: Final = (
    _SiteMapView("Before", is_after=False),
    _SiteMapView("After", is_after=True),
)
_AFTER: Final = (_SiteMapView("After the plan", is_after=True),)
_CURRENT: Final = (_SiteMapView("Current placement", is_after=True),)


def _select_map_sides(site: SiteMap, *, has_both: bool) -> Sequence[_SiteMapView]:
    """Return both sides (before, after) if the plan changes existing VMs and `has_both` allows two.

    Otherwise there is one side.
    """
    if site.is_current_only:
        # No plan, or a failed one.
        return _CURRENT
    if not has_both:
        return _AFTER
    has_changes = site.count_vms(ChangeMark.KEPT) < len(site.vms)
    # Unmanaged VMs have no address.
    had_vms = any(vm.before is not None and vm.address for vm in site.vms)
    return _BEFORE_AND_AFTER if had_vms and has_changes else _AFTER


def _select_unmarked(site: SiteMap) -> ChangeMark | None:
    """Return the mark without a sign on the map: PLACED if most VMs are new, else None."""
    return ChangeMark.PLACED if site.count_vms(ChangeMark.PLACED) * 2 > len(site.vms) else None


def _render_mark_legend(site: SiteMap, unmarked: ChangeMark | None) -> list[Markup]:
    return render_mark_legend(unmarked, has_choice=site.count_vms(ChangeMark.CHOICE) > 0)


class _SiteDrawing:
    """Drawing of one site, with its `width` and `height`."""

    def __init__(self, site: SiteMap) -> None:
        """Compute the layout of the site.

        Racks are in lines, once per side (before and after), below the legends.
        """
        self._map = site
        self._scale = _CONDENSED_SCALE if site.machine_count > LARGE else _FULL_SCALE
        self._sides = _select_map_sides(site, has_both=self._scale.has_texts)
        self._styles = build_cluster_styles(site.clusters)
        # VMs with this mark have no sign: PLACED if most VMs are new.
        self._unmarked = _select_unmarked(site)
        machines = chain.from_iterable(rack.machines for rack in site.racks)
        max_cells = max((machine.facts.cells for machine in machines), default=0) or _DEFAULT_CELLS
        self._rack_width = (
            self._scale.label + max_cells * (self._scale.cell + _CELL_GAP) + _RACK_GAP
        )
        racks_per_line = self._scale.racks_per_line
        line_starts = range(0, len(site.racks), racks_per_line)
        self._lines = [site.racks[first : first + racks_per_line] for first in line_starts]
        # Of the first, longest line.
        racks_across = min(racks_per_line, max(len(site.racks), 1))
        self.width = max(racks_across * self._rack_width, _MIN_SITE_WIDTH)
        entries = list(self._styles.values())
        changed_clusters = {vm.cluster for vm in site.vms if vm.mark is not ChangeMark.KEPT}
        vm_counts = Counter(vm.cluster for vm in site.vms if vm.is_running_after)
        self._legend, self._legend_height = render_cluster_legend(
            entries, vm_counts, changed_clusters, self.width
        )
        panel_height = sum(map(self._compute_rack_line_height, self._lines))
        legend_height = self._legend_height + _MARK_LEGEND_HEIGHT
        self.height = (
            _HEADING_HEIGHT + legend_height + len(self._sides) * (_HEADING_HEIGHT + panel_height)
        )

    def _compute_rack_line_height(self, racks: Sequence[MapRack]) -> int:
        """Return the height of a line of racks: that of its tallest rack."""
        rows = max((len(rack.machines) for rack in racks), default=0)
        return _RACK_NAME_HEIGHT + rows * (self._scale.row + self._scale.gap) + _RACK_GAP

    def render_markup(self, top: int) -> list[Markup]:
        """Render the site from `top` down.

        Its name, two legends, and for each side a title and the racks in lines.
        """
        parts = [render_text(MARGIN, top + 16, f"Site {self._map.name}", "heading")]
        y = top + _HEADING_HEIGHT
        parts.append(translate_parts(self._legend, MARGIN, y))
        y += self._legend_height
        parts.append(translate_parts(_render_mark_legend(self._map, self._unmarked), MARGIN, y))
        y += _MARK_LEGEND_HEIGHT
        for side in self._sides:
            parts.append(render_text(MARGIN, y + 16, side.title, "side"))
            y += _HEADING_HEIGHT
            for line in self._lines:  # of racks
                for number, rack in enumerate(line):
                    parts.append(
                        translate_parts(
                            self._render_rack(rack, side), MARGIN + number * self._rack_width, y
                        )
                    )
                y += self._compute_rack_line_height(line)
        return parts

    def _render_rack(self, rack: MapRack, side: _SiteMapView) -> list[Markup]:
        """Render a rack: its name above its machines."""
        parts = [self._render_rack_name(rack)]
        for number, machine in enumerate(rack.machines):
            is_removed = machine.mark is ChangeMark.REMOVED and side.is_after
            if not is_removed:
                top = _RACK_NAME_HEIGHT + number * (self._scale.row + self._scale.gap)
                parts.append(translate_parts(self._render_machine(machine, side), 0, top))
        return parts

    def _render_rack_name(self, rack: MapRack) -> Markup:
        """Render the name of a rack, with its zone if different."""
        if not self._scale.has_texts:
            return render_text(0, 14, rack.name, "small")
        zone = enclose(" \N{MIDDLE DOT} ", rack.zone_text)
        note = " (planned)" if rack.planned else ""
        return render_text(0, 14, f"{rack.name}{zone}{note}", "rack")

    def _render_machine(self, machine: MapMachine, side: _SiteMapView) -> list[Markup]:
        """Render a machine: tooltip, slot, cells and VMs."""
        facts = machine.facts
        scale = self._scale
        vms = [self._map.vms[number] for number in side.list_vms(machine)]
        cells = f"{facts.cells} x {facts.cpus_per_cell} vCPU / {facts.memory_gib_per_cell} GiB"
        tooltip_lines = [f"{facts.name} ({join_texts((facts.machine_sku or '', cells))})"]
        if facts.unschedulable_reason:
            tooltip_lines.append(f"takes no new VM: {facts.unschedulable_reason}")
        # The condensed form of large sites: VMs have no tooltips.
        if not scale.has_texts:
            tooltip_lines += [vm.name for vm in vms]
        parts = [build_svg_element("title", "\n".join(map(escape_name, tooltip_lines)))]
        if scale.has_texts:
            parts.append(render_text(scale.label - 5, scale.row - 5, f"{facts.slot:02d}", "slot"))
        for cell in range(facts.cells):
            left = scale.label + cell * (scale.cell + _CELL_GAP)
            css_class = "cell closed" if facts.unschedulable_reason else "cell"  # hatched
            parts.append(
                build_svg_element(
                    "rect", class_=css_class, x=left, width=scale.cell, height=scale.row
                )
            )
        # By cell, the width of the boxes drawn so far.
        fill_levels = [0.0] * facts.cells
        for vm in vms:
            location = side.get_location(vm)
            assert location is not None, "listed on this side"
            mark = side.get_mark(vm)
            shown_mark = ChangeMark.KEPT if mark is self._unmarked else mark
            parts.append(self._render_vm(vm, location, machine, fill_levels, shown_mark))
        return parts

    def _render_vm(
        self,
        vm: MapVm,
        location: Placement,
        machine: MapMachine,
        fill_levels: list[float],
        mark: ChangeMark,
    ) -> Markup:
        """Render a VM as a box in each of its NUMA cells, right of earlier boxes.

        With unknown cells, it is one box over the machine. `fill_levels` has the width used in each
        cell, and is updated.
        """
        scale = self._scale
        # No division by 0.
        cell_memory = machine.facts.memory_gib_per_cell or 1
        # Small VMs stay visible.
        share = min(max(vm.sku.memory_in_cell / cell_memory, 0.06), 1.0)
        parts: list[Markup] = (
            [build_svg_element("title", describe_vm(vm))] if scale.has_texts else []
        )
        # Such a VM is drawn over all cells of the machine.
        if not location.cells:
            machine_width = machine.facts.cells * (scale.cell + _CELL_GAP) - _CELL_GAP
            start = min(sum(fill_levels), machine_width - _MIN_VM_WIDTH)
            width = min(share * scale.cell * vm.sku.numa_cells, machine_width - start)
            # In the first cell: the next such box starts at the sum of all cells.
            fill_levels[0] += width
            parts += _render_box(self._styles[vm.cluster], mark, scale.label + start, width, scale)
        for cell in location.cells:
            # No such cell is drawn.
            if cell >= machine.facts.cells:
                continue
            # In an overfull cell boxes overlap.
            start = min(fill_levels[cell], scale.cell - _MIN_VM_WIDTH)
            width = min(share * scale.cell, scale.cell - start)
            fill_levels[cell] = start + width
            left = scale.label + cell * (scale.cell + _CELL_GAP) + start
            parts += _render_box(self._styles[vm.cluster], mark, left, width, scale)
        return build_svg_element("g", parts)


_MARK_SIGNS: Final = {
    ChangeMark.PLACED: "+",
    ChangeMark.MOVED: "~",
    ChangeMark.REMOVED: "\N{MINUS SIGN}",
    ChangeMark.CHOICE: "?",
    ChangeMark.KEPT: "",
}


def _render_box(
    style: ClusterStyle, mark: ChangeMark, left: float, width: float, scale: _MapSizes
) -> list[Markup]:
    """Render the part of a cell used by a VM in the style of its cluster.

    It has the sign and the cluster key if they fit.
    """
    if not scale.has_texts:
        rectangle = _compute_rectangle(left, width, scale, 0.5)
        return [
            build_svg_element("rect", class_=f"vm bare {mark.value}", **rectangle, fill=style.fill)
        ]
    # A mark has a thick outline.
    inset = 0.5 if mark is ChangeMark.KEPT else 1.25
    inner_rectangle = _compute_rectangle(left, width, scale, inset)
    parts = [
        build_svg_element("rect", class_=f"vm {mark.value}", **inner_rectangle, fill=style.fill)
    ]
    if style.pattern > 0:  # 0: plain
        parts.append(
            build_svg_element("rect", **inner_rectangle, fill=f"url(#{style.pattern_name})")
        )
    label = f"{_MARK_SIGNS[mark]}{style.key}"
    if width < _LETTER_WIDTH * len(label) + _LETTER_MARGIN:
        # The key does not fit.
        label = _MARK_SIGNS[mark]
    if label and width >= _LETTER_WIDTH * len(label) + _LETTER_MARGIN:
        parts.append(render_text(left + width / 2, scale.row - 5, label, f"key {style.tone}"))
    return parts


def _compute_rectangle(
    left: float, width: float, scale: _MapSizes, inset: float
) -> dict[str, float]:
    """Compute the rectangle of a box.

    It is smaller by `inset` on each side, with space for its outline.
    """
    return {
        "x": round(left + inset, 2),
        "y": inset,
        "width": round(max(width - 2 * inset, 1.5), 2),
        "height": scale.row - 2 * inset,
    }


def describe_vm(vm: MapVm) -> str:
    """Describe a VM in three lines.

    Its name, its owner and SKU, and its change with the trigger (or its location).
    """
    old = format_optional_location(vm.before)
    new = format_optional_location(vm.after)
    trigger_note = enclose(" (", vm.trigger, ")")
    changes = {
        ChangeMark.MOVED: f"moves{trigger_note}: {old} to {new}",
        ChangeMark.REMOVED: f"is removed{trigger_note} from {old}",
        ChangeMark.PLACED: f"is placed{trigger_note}: {new}",
        ChangeMark.CHOICE: f"{MAY_BE_REMOVED}: {new}",
        ChangeMark.KEPT: new,
    }
    owner = join_texts((vm.cluster, vm.pool), " / ")
    lines = (vm.name, f"{owner}, {vm.sku.name}", changes[vm.mark])
    return "\n".join(map(escape_name, lines))


NOTE: Final = (
    "Racks alone, with their VMs; the bar is the memory that they take. With all machines this "
    "picture would be larger than 5 MB."
)
# Limit of racks in one picture.
MAX_RACKS: Final = 8_000
_RACKS_PER_LINE: Final = 16
_WIDTH = 62
_HEIGHT = 18
_STEP = 72
_LINE = 40
_USED_COLOUR: Final = "#56b4e9"
# The outline of a rack shows its most severe change.
_MARKS_BY_SEVERITY: Final = (
    ChangeMark.REMOVED,
    ChangeMark.CHOICE,
    ChangeMark.MOVED,
    ChangeMark.PLACED,
)


class RackOverviewDrawing:
    """Drawing of one site with at most `rack_limit` racks, with its `width` and `height`."""

    def __init__(self, site: SiteMap, rack_limit: int = MAX_RACKS) -> None:
        """Compute the size of the drawing, with at most `rack_limit` racks of the site."""
        self._site = site
        self._racks = site.racks[: max(rack_limit, 0)]
        lines = -(-len(self._racks) // _RACKS_PER_LINE)  # rounded up
        self.width = _RACKS_PER_LINE * _STEP
        # Heading, note, legend and gap above the racks.
        self.height = 26 + 20 + 26 + 20 + lines * _LINE
        self._unmarked = _select_unmarked(site)

    def render_markup(self, top: int, margin: int) -> list[Markup]:
        """Render the elements of the site from `top` down."""
        hidden_count = len(self._site.racks) - len(self._racks)
        hidden_note = (
            f" {format_count(hidden_count, 'more rack')} of this site omitted."
            if hidden_count
            else ""
        )
        side = "current placement" if self._site.is_current_only else "after the plan"
        parts = [
            build_svg_element(
                "text", f"Site {self._site.name}, {side}", class_="heading", x=margin, y=top + 16
            ),
            build_svg_element("text", f"{NOTE}{hidden_note}", x=margin, y=top + 40),
            build_svg_element(
                "g",
                _render_mark_legend(self._site, self._unmarked),
                transform=f"translate({margin} {top + 50})",
            ),
        ]
        for number, rack in enumerate(self._racks):
            line, column = divmod(number, _RACKS_PER_LINE)
            position = f"translate({margin + column * _STEP} {top + 92 + line * _LINE})"
            parts.append(build_svg_element("g", self._render_rack(rack), transform=position))
        return parts

    def _render_rack(self, rack: MapRack) -> list[Markup]:
        """Render a rack after the plan.

        Tooltip, name, and a box with the number of VMs and a bar of used memory. The box has the
        style of the most severe mark of its VMs. It is hatched if no machine takes new VMs.
        """
        remaining_machines = [
            machine for machine in rack.machines if machine.mark is not ChangeMark.REMOVED
        ]
        vm_numbers = set(
            chain.from_iterable((*machine.before, *machine.after) for machine in rack.machines)
        )
        mark_counts = Counter(self._site.vms[number].mark for number in vm_numbers)
        vm_count = sum(len(machine.after) for machine in remaining_machines)
        shown_marks = mark_counts.keys() - {self._unmarked}
        visible_marks = [mark.value for mark in _MARKS_BY_SEVERITY if mark in shown_marks]
        reasons = [machine.facts.unschedulable_reason for machine in remaining_machines]
        # No machine takes new VMs.
        is_closed = bool(reasons) and all(reasons)
        # The worst mark.
        css_classes = join_texts(("cell", "closed" if is_closed else "", *visible_marks[:1]), " ")
        used_width = round(_WIDTH * self._compute_memory_share(remaining_machines), 1)
        sizes = (
            f"{format_count(len(remaining_machines), 'machine')}, {format_count(vm_count, 'VM')}"
        )
        changes = format_counts(
            (
                (mark_counts[ChangeMark.PLACED], "placed"),
                (mark_counts[ChangeMark.MOVED], "moved from or to it"),
                (mark_counts[ChangeMark.REMOVED], "removed"),
                (mark_counts[ChangeMark.CHOICE], "may be removed"),
            )
        )
        zone = enclose(", ", rack.zone_text)
        change_line = enclose("\n", ", ".join(changes))
        return [
            build_svg_element("title", f"{escape_name(rack.name + zone)}: {sizes}{change_line}"),
            build_svg_element("text", rack.name, class_="small", y=-3),
            build_svg_element("rect", class_=css_classes, width=_WIDTH, height=_HEIGHT),
            build_svg_element("rect", y=_HEIGHT - 5, width=used_width, height=5, fill=_USED_COLOUR),
            build_svg_element("text", str(vm_count), class_="key dark", x=_WIDTH / 2, y=11),
        ]

    def _compute_memory_share(self, machines: list[MapMachine]) -> float:
        """Compute the share of the memory of a rack used by its VMs after the plan.

        It is 0 without memory.
        """
        total_gib = 0.0
        used_gib = 0.0
        for machine in machines:
            total_gib += machine.facts.cells * machine.facts.memory_gib_per_cell
            for number in machine.after:
                sku = self._site.vms[number].sku
                used_gib += sku.memory_in_cell * sku.numa_cells
        return min(used_gib / total_gib, 1.0) if total_gib else 0.0
