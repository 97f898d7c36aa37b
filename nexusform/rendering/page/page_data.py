"""What the page's scripts work on: sites, VMs and changes as plain data, short names to keep it small.

Rows are lists; the order of their fields stands in FIELDS, which goes into the document too.
Secrets are hidden here as in every other text: changes are the drawn difference, not the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nexusform.address import module_text
from nexusform.planning.plan import Change, Place, PlacementChange, Plan
from nexusform.rendering.notation.json_values import known_part
from nexusform.rendering.notation.places import place_text
from nexusform.rendering.page.cluster_paint import paints
from nexusform.rendering.page.rack_map import MapMachine, MapVm, Mark, SiteMap
from nexusform.rendering.report.report import Report, Stanza
from nexusform.rendering.report.wording import SYMBOLS, headline, headline_address
from nexusform.rendering.text.alike import drawn_changes
from nexusform.rendering.text.stanza_text import stanza_text
from nexusform.scheduling.racks.model import Placement

FIELDS: Final = {
    "machine": ["name", "slot", "sku", "cells", "cpus", "memory", "refusal", "mark", "before", "after"],
    "vm": ["name", "address", "cluster", "pool", "sku", "mark", "before", "after", "more"],
    "sku": ["name", "cpus", "memory", "cpusInCell", "memoryInCell"],
    "change": ["address", "module", "type", "symbol", "headline", "text", "file", "line"],
    "row": ["kind", "object", "address", "group", "action", "from", "to", "trigger", "more"],
}
_MARKS: Final = {Mark.KEPT: 0, Mark.PLACED: 1, Mark.MOVED: 2, Mark.REMOVED: 3}


def page_data(plan: Plan, report: Report, maps: Sequence[SiteMap]) -> dict[str, Any]:
    """The whole document."""
    return {
        "fields": FIELDS,
        "sites": [_site(site) for site in maps],
        "changes": [_change(change, stanza) for change, stanza in drawn_changes(plan, report)],
        "rows": [_row(row) for row in plan.placements if row.kind != "vm"],
        "tieBreaks": plan.tie_breaks,
    }


# --- sites -------------------------------------------------------------------------------------


def _site(site: SiteMap) -> dict[str, Any]:
    addresses = _Numbers()
    pools = _Numbers()
    skus: dict[tuple[Any, ...], int] = {}
    clusters = {cluster: number for number, cluster in enumerate(site.clusters)}
    vms = []
    for vm in site.vms:
        sku = (vm.sku.name, vm.sku.host_vcpus, vm.sku.memory_gib, vm.sku.cpus_in_cell, vm.sku.memory_in_cell)
        vms.append(
            [
                vm.name,
                addresses.of(vm.address),
                clusters[vm.cluster],
                pools.of(vm.pool),
                skus.setdefault(sku, len(skus)),
                _MARKS[vm.mark],
                _place(vm.before),
                _place(vm.after),
                _more(vm),
            ]
        )
    return {
        "id": site.id,
        "name": site.name,
        "clusters": [
            {"name": p.cluster, "key": p.key, "colour": p.colour, "pattern": p.pattern_name}
            for p in paints(site.clusters).values()
        ],
        "addresses": addresses.names,
        "pools": pools.names,
        "skus": [list(sku) for sku in skus],
        "racks": [
            {
                "name": rack.name,
                "zone": rack.zone,
                "planned": rack.planned,
                "machines": [_machine(machine) for machine in rack.machines],
            }
            for rack in site.racks
        ],
        "vms": vms,
    }


class _Numbers:
    """Names as small numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of a name."""
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[str]:
        """The names in the order of their numbers."""
        return list(self._numbers)


def _machine(machine: MapMachine) -> list[Any]:
    facts = machine.facts
    return [
        facts.name,
        facts.slot,
        facts.machine_sku or "",
        facts.cells,
        facts.cpus_per_cell,
        facts.memory_gib_per_cell,
        facts.refusal,
        _MARKS[machine.mark],
        list(machine.before),
        list(machine.after),
    ]


def _place(place: Placement | None) -> list[Any] | None:
    return None if place is None else [place.rack, place.machine, place.availability_zone, *place.cells]


def _more(vm: MapVm) -> dict[str, Any] | None:
    """What the plan says of a VM beyond its place; None when it says nothing."""
    found = _told(vm.row) if vm.row is not None else {}
    if vm.provenance and vm.provenance != "predicted":
        found["provenance"] = vm.provenance
    return found or None


def _told(row: PlacementChange) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if row.trigger:
        found["trigger"] = row.trigger
    if row.reason and row.reason != row.trigger:
        found["reason"] = row.reason
    if row.certainty is not None:
        found["certainty"] = [row.certainty.rack, row.certainty.machine]
    if row.scores:
        found["scores"] = known_part(row.scores)
    if row.rejected:
        found["rejected"] = [[r.candidate, r.rule, r.reason] for r in row.rejected]
    return found


# --- changes -----------------------------------------------------------------------------------


def _change(change: Change, stanza: Stanza | None) -> list[Any]:
    text = stanza_text(stanza) if stanza is not None else ""
    span = change.source
    return [
        headline_address(change),
        module_text(change.address.module),
        change.address.type,
        SYMBOLS[change.action],
        headline(change),
        # The first line is the headline, which stands above it already.
        text.partition("\n")[2],
        span.filename if span else "",
        span.start.line if span else 0,
    ]


# --- bindings and pods -------------------------------------------------------------------------


def _row(row: PlacementChange) -> list[Any]:
    more = _told(row)
    more.pop("trigger", None)
    return [
        row.kind,
        row.object,
        str(row.address),
        "/".join(part for part in (row.cluster, row.pool) if part),
        row.action.value,
        _where(row.source),
        _where(row.target),
        row.trigger,
        more or None,
    ]


def _where(place: Place | None) -> str:
    return place_text(place) if place else ""
