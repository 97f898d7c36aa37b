"""Data of the page scripts: sites, VMs and changes as plain data with short names.

Rows are lists in the order of FIELDS, which is part of the document. Secrets are redacted; changes
are rendered differences without values.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from msgspec import json

from nexusform.diagnostics.phrases import join_texts
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS, format_location_text
from nexusform.plans.plan import Change, PlacementChange
from nexusform.rendering.notation.json_values import drop_unknown_values, omit_empty
from nexusform.rendering.page.map_legend import ClusterStyle, build_cluster_styles
from nexusform.rendering.report.change_stanzas import ChangeStanza
from nexusform.rendering.report.plan_report_data import PlanReportData
from nexusform.rendering.report.plan_sections import build_moved_vm_rows
from nexusform.rendering.report.plan_sentences import (
    SYMBOLS,
    format_headline,
    format_headline_address,
)
from nexusform.rendering.report.playback import Playback, PlaybackStep
from nexusform.rendering.report.rack_map import (
    CertaintyLevel,
    ChangeMark,
    MapMachine,
    MapRack,
    SiteMap,
    describe_vm_outcome,
)
from nexusform.rendering.report.report_tree import get_plain_text
from nexusform.rendering.text.change_stanza_text import pair_stanzas, render_stanza
from nexusform.resources.address import format_module
from nexusform.scheduling.placement_decision import ObjectLocation
from nexusform.scheduling.racks.vms import Placement

FIELDS: Final = {
    "machine": [
        "name",
        "slot",
        "sku",
        "cells",
        "cpus",
        "memory",
        "closed",
        "mark",
        "before",
        "after",
    ],
    "vm": ["name", "address", "cluster", "pool", "sku", "mark", "before", "after", "more"],
    "sku": ["name", "cpus", "memory", "cpusInCell", "memoryInCell"],
    "change": ["address", "module", "type", "symbol", "headline", "text", "file", "line"],
    "row": ["kind", "object", "address", "group", "action", "from", "to", "trigger", "more", "at"],
}
_CERTAINTY_NUMBERS: Final = {
    CertaintyLevel.COUNT: 1,
    CertaintyLevel.LIKELY: 2,
    CertaintyLevel.UNCERTAIN: 3,
}
_MARK_NUMBERS: Final = {
    ChangeMark.KEPT: 0,
    ChangeMark.PLACED: 1,
    ChangeMark.MOVED: 2,
    ChangeMark.REMOVED: 3,
    ChangeMark.CHOICE: 4,
}


def build_page_data(view: PlanReportData, maps: Sequence[SiteMap]) -> dict[str, Any]:
    """Build the data of the scripts of the page.

    It has sites with racks and VMs, changes, and placements of bindings and pods. For a plan with
    errors leave out its changes and placements.
    """
    plan = view.plan
    changes = () if plan.errored else pair_stanzas(plan, view.stanzas)
    placements = () if plan.errored else plan.placements
    # Members of separation rules on one rack or machine.
    violations: list[dict[str, Any]] = []
    for verdict in plan.verdicts.separation_verdicts:
        for violation in verdict.violations:
            hardware = {
                "site": violation.site_id,
                "rack": violation.rack,
                "machine": violation.machine,
            }
            violations.append(
                {"rule": str(verdict.address), **hardware, "members": list(violation.members)}
            )
    moved_rows = {} if plan.errored else build_moved_vm_rows(plan)
    sites: list[dict[str, Any]] = []
    for site_map in maps:
        sites.append(_build_site(site_map))
        if site_map.id in moved_rows:
            sites[-1]["moves"] = [
                [item.symbol, item.label, get_plain_text(item.text)]
                for item in moved_rows[site_map.id]
            ]
    document = {
        "fields": FIELDS,
        "sites": sites,
        "changes": [_build_change(change, stanza) for change, stanza in changes],
        "rows": [_build_binding_or_pod(row) for row in placements if row.kind != VM],
        "members": list(map(list, view.cluster_names)),  # of fleets
        "shared": violations,
        "errored": plan.errored,
        "denied": plan.is_rejected,
        "samples": plan.figures.samples,
    }
    return compress_document(document)


def build_simulation_data(
    playbacks: Sequence[Playback], rows: Sequence[PlacementChange] = ()
) -> dict[str, Any]:
    """Build the page data of simulations: each site with its steps.

    `rows` are the bindings and pods of the plan.
    """
    sites = [
        {**_build_site(playback.site), "steps": list(map(_build_step, playback.steps))}
        for playback in playbacks
    ]
    empty_lists: dict[str, Any] = {name: [] for name in ("changes", "members", "shared")}
    # Labels of the marks of VMs by number: kept, placed (not in a simulation), moved, removed.
    marks = ["stays", "", playbacks[0].moved_label, playbacks[0].removed_label] if playbacks else []
    return {
        "fields": FIELDS,
        "sites": sites,
        **empty_lists,
        "rows": list(map(_build_binding_or_pod, rows)),
        "marks": marks,
        "errored": False,
        "denied": False,
        "samples": 0,
    }


def _build_step(step: PlaybackStep) -> dict[str, Any]:
    """Build a step of a simulation.

    `moves` has the positions of affected VMs in the list of VMs of the site.
    """
    figures = [[figure.pool, figure.text, figure.is_insufficient] for figure in step.figures]
    return {
        "title": step.title,
        "down": list(step.failed_machines),
        "moves": list(step.affected_vms),
        "figures": figures,
    }


def _build_site(site: SiteMap) -> dict[str, Any]:
    """Build a site with its racks and VMs.

    A VM is a list: name, positions of its address, cluster, pool and SKU in the lists of the site,
    number of its mark, locations before and after, and further details (None: none).
    """
    addresses: dict[str, int] = {}
    pools: dict[str, int] = {}
    skus: dict[_Sku, int] = {}
    clusters = {cluster: number for number, cluster in enumerate(site.clusters)}
    vms: list[list[Any]] = []
    for vm in site.vms:
        sku = (
            vm.sku.name,
            vm.sku.host_vcpus,
            vm.sku.memory_gib,
            vm.sku.cpus_in_cell,
            vm.sku.memory_in_cell,
        )
        numbers = (
            addresses.setdefault(vm.address, len(addresses)),
            clusters[vm.cluster],
            pools.setdefault(vm.pool, len(pools)),
            skus.setdefault(sku, len(skus)),
        )
        sides = (_encode_location(vm.before), _encode_location(vm.after))
        details = _build_row_explanation(vm.row) if vm.row is not None else {}
        details |= omit_empty(
            {"outcome": describe_vm_outcome(vm), "step": _CERTAINTY_NUMBERS.get(vm.certainty)}
        )
        # The origin is not the usual one.
        if vm.provenance not in ("", "predicted"):
            details["provenance"] = vm.provenance
        vms.append([vm.name, *numbers, _MARK_NUMBERS[vm.mark], *sides, details or None])
    return {
        "id": site.id,
        "name": site.name,
        # The fields as JSON.
        "clusters": list(map(_build_cluster_style, build_cluster_styles(site.clusters).values())),
        "addresses": list(addresses),
        "pools": list(pools),
        "skus": list(map(list, skus)),
        "racks": list(map(_build_rack, site.racks)),
        # Only a simulation has some.
        "steps": [],
        "vms": vms,
    }


_Sku: TypeAlias = tuple[str, int, float, int, float]


def _build_cluster_style(style: ClusterStyle) -> dict[str, Any]:
    """Build the JSON object of a cluster style."""
    return {
        "name": style.cluster,
        "key": style.key,
        "colour": style.colour,
        "pattern": style.pattern_name,
    }


def _build_machine(machine: MapMachine) -> list[Any]:
    """Build the fields of a machine in the order of FIELDS."""
    facts = machine.facts
    return [
        facts.name,
        facts.slot,
        facts.machine_sku or "",
        facts.cells,
        facts.cpus_per_cell,
        facts.memory_gib_per_cell,
        facts.unschedulable_reason,
        _MARK_NUMBERS[machine.mark],
        list(machine.before),
        list(machine.after),
    ]


def _build_rack(rack: MapRack) -> dict[str, Any]:
    """Build the JSON object of a rack of the map."""
    return {
        "name": rack.name,
        "zone": rack.zone,
        "planned": rack.planned,
        "machines": [_build_machine(machine) for machine in rack.machines],
    }


def _encode_location(placement: Placement | None) -> list[Any] | None:
    """Return a location as `[rack, machine, zone, cell, ...]`; None without one."""
    if placement is None:
        return None
    return [placement.rack, placement.machine, placement.availability_zone, *placement.cells]


def _build_row_explanation(row: PlacementChange) -> dict[str, Any]:
    """Build the explanation of a row: trigger, reason, certainty, scores and rejections."""
    certainty = row.certainty
    document = {
        "trigger": row.trigger,
        "reason": row.reason if row.reason != row.trigger else "",
        "certainty": [certainty.rack_count, certainty.machine]
        if certainty is not None
        else None,  # shares (0..1)
        "scores": drop_unknown_values(row.scores),
        "rejected": [
            [rejection.candidate, rejection.rule, rejection.reason] for rejection in row.rejections
        ],
    }
    return omit_empty(document)


def _build_change(change: Change, stanza: ChangeStanza | None) -> list[Any]:
    """Build the fields of a change in the order of FIELDS."""
    text = render_stanza(stanza) if stanza is not None else ""
    span = change.source
    file_and_line = [span.filename, span.start.line] if span else ["", 0]
    return [
        format_headline_address(change),
        format_module(change.address.module),
        change.address.type,
        SYMBOLS[change.action],
        format_headline(change),
        # Skip the first line, since the headline is shown above.
        text.partition("\n")[2],
        *file_and_line,
    ]


def _build_binding_or_pod(row: PlacementChange) -> list[Any]:
    """Build the fields of a binding or a pod in the order of FIELDS."""
    explanation = _build_row_explanation(row)
    # A field of its own.
    explanation.pop("trigger", None)
    # A row is linked by its cluster, node and machine.
    location = row.target or row.origin
    link = [row.object, "", ""] if location is None else list(KINDS[row.kind].get_link(location))
    return [
        row.kind,
        row.object,
        str(row.address),
        join_texts((row.cluster, row.pool), "/"),
        row.action.value,
        format_optional_location(row.origin),
        format_optional_location(row.target),
        row.trigger,
        explanation or None,
        link,
    ]


def format_optional_location(location: ObjectLocation | None) -> str:
    """Format a location; "" without one."""
    return format_location_text(location) if location else ""


# Smaller documents are not packed.
_MIN_PACKED: Final = 2000
# Position of the difference in the fields of page_data.py.
_TEXT_INDEX: Final = 5


def compress_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document unchanged if it is small.

    Otherwise a part `packed` replaces its changes and rows. It has the distinct values and text
    lines once, and their numbers in the changes and rows.
    """
    changes = document["changes"]
    rows = document["rows"]
    if len(changes) + len(rows) < _MIN_PACKED:
        return document
    values = _NumberedValues()
    lines = _NumberedValues()
    packed = {
        "changes": [_compress_change(change, values, lines) for change in changes],
        "rows": [list(map(values.assign_number, row)) for row in rows],
    }
    other_parts = {name: value for name, value in document.items() if name not in packed}
    return {**other_parts, "packed": {**packed, "values": values.values, "lines": lines.values}}


class _NumberedValues:
    """Distinct values with numbers."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        # Positions in `values`, by the JSON text of a value.
        self._numbers: dict[bytes, int] = {}

    def assign_number(self, value: Any) -> int:
        """Return the number of a value, assigned on first use."""
        number = self._numbers.setdefault(json.encode(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def _compress_change(
    change: Sequence[Any], values: _NumberedValues, lines: _NumberedValues
) -> list[Any]:
    """Return a change with a number in place of each value: equal values of all changes share one.

    Its difference, a text, becomes a list of runs of consecutive line numbers. A run has two
    elements, first number and count: the lines 4, 5, 6 and 9 are `[4, 3, 9, 1]`.
    """
    numbers = list(map(lines.assign_number, change[_TEXT_INDEX].split("\n")))
    runs: list[int] = []
    for number in numbers:
        # It continues the last run: first number and count.
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return [
        runs if position == _TEXT_INDEX else values.assign_number(value)
        for position, value in enumerate(change)
    ]
