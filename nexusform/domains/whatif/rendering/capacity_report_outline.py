"""The room of many sites: as a table for people, and as one for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.domains.whatif.questions.capacity_report import (
    OtherOutlook,
    Outlook,
    SiteLine,
)
from nexusform.domains.whatif.rendering.capacity_outline import left_of
from nexusform.plans.room.other_room import WORDS
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.placements_csv import harmless_cells
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, listed

_HEADS: Final = (
    "site",
    "largest SKU",
    "cells",
    "used",
    "free",
    "stranded",
    "more",
    "-1 rack",
    "months",
)
_FIRST_FIGURE: Final = 2
_LONG: Final = 1200  # months; nobody believes more


def report_outline(lines: Sequence[SiteLine]) -> Outline:
    """A row per site, in the order of the lines."""
    if not lines:
        return Outline("Capacity of all sites", "None of the states holds a site.", bad=False)
    rows = tuple(Row(tuple(_cells(line))) for line in lines)
    table = Table(_HEADS, rows, frozenset(range(_FIRST_FIGURE, len(_HEADS))))
    return Outline(
        "Capacity of all sites",
        f"{counted(len(lines), 'site')}: {_fullest(lines)}{_lacking(lines)}.",
        bad=False,
        facts=tuple(_facts(lines)),
        sections=(Section("By site", (), table=table), *_beside_machines(lines)),
    )


def _beside_machines(lines: Sequence[SiteLine]) -> Iterable[Section]:
    """What is left of everything else, site by site, and how long it lasts."""
    rows = tuple(
        Row(
            (line.room.site_id, WORDS[one.row.kind], one.row.name or "-", left_of(one.row), _lasts(one)),
            one.row.lacks,
        )
        for line in lines
        for one in line.other
    )
    if not rows:
        return
    said = "What is left is what is left at most. Months as above; -: no earlier state tells."
    table = Table(("site", "beside machines", "of", "left", "months"), rows, frozenset({3, 4}))
    yield Section("Beside machines", (said,), table=table)


def _lasts(outlook: OtherOutlook) -> str:
    if outlook.monthly is None:
        return "-"
    return "not growing" if outlook.months is None else f"{outlook.months:.1f}"


def _fullest(lines: Sequence[SiteLine]) -> str:
    """The sites that a rack's loss leaves without room, or the one that is full first."""
    tight = [line.room.site_id for line in lines if not _with_a_rack_lost(line).least]
    if tight:
        return f"with a rack lost no VM of the largest SKU is certain to fit on {listed(tight)}"
    soon = [(line.outlook.months, line) for line in lines if line.outlook and line.outlook.months]
    if soon:
        _, line = min(soon, key=lambda pair: pair[0][0])
        return f"{line.room.site_id} is full first, in {_months(line.outlook)} months"
    return "each has room with any one rack lost"


def _lacking(lines: Sequence[SiteLine]) -> str:
    """The sites where something beside machines does not do."""
    lacking = [line.room.site_id for line in lines if any(one.row.lacks for one in line.other)]
    return f"; addresses or storage lack on {listed(lacking)}" if lacking else ""


def _with_a_rack_lost(line: SiteLine) -> Interval:
    return Interval(0, 0) if line.room.room is None else line.room.room.with_a_rack_lost


def _facts(lines: Sequence[SiteLine]) -> Iterable[str]:
    """What the columns mean, and what they do not count."""
    yield (
        "Cells are NUMA cells of active machines: used by a VM, free, or on a machine that takes no VM. "
        "Stranded ones have something free that no VM SKU can take."
    )
    yield "More: VMs of the site's largest SKU, now and with the rack lost whose loss leaves the least."
    if any(line.outlook for line in lines):
        yield "Months until it is full: at the pace at which VMs took vCPUs and GiB since the oldest state."
    if any(not line.outlook for line in lines):
        yield "Months -: no earlier state of at least a day ago is kept, so there is no pace."
    for line in lines:
        if line.room.closed.most:
            yield f"{line.room.site_id}: {line.room.closed} empty cells on machines that take no VM."
        if line.room.homeless:
            vms = counted(line.room.homeless, "VM")
            yield f"{line.room.site_id}: {vms} without a machine, whose room is not counted."


def _cells(line: SiteLine) -> Iterable[str]:
    """The cells of one site, in the order of the heads."""
    room = line.room
    yield room.site_id
    yield "none" if room.room is None else room.room.sku.name
    yield f"{room.cells:,}"
    yield from map(str, (room.used, room.free, room.stranded))
    yield str(Interval(0, 0) if room.room is None else room.room.now)
    yield str(_with_a_rack_lost(line))
    yield _months(line.outlook)


def _months(outlook: Outlook | None) -> str:
    if outlook is None:
        return "-"
    if outlook.months is None or outlook.months[0] > _LONG:
        return "not growing" if outlook.months is None else f"over {_LONG:,}"
    least, most = (f"{months:.1f}" for months in outlook.months)
    return least if least == most else f"{least} to {most}"


# --- for spreadsheets --------------------------------------------------------------------------

_PAIRS: Final = (
    "used_cells",
    "free_cells",
    "closed_cells",
    "stranded_cells",
    "more_vms",
    "more_vms_rack_lost",
)
COLUMNS: Final = (
    "site",
    "state",
    "serial",
    "vm_sku_name",
    "cells",
    *[f"{name}_{bound}" for name in _PAIRS for bound in ("min", "max")],
    "worst_rack",
    "used_vcpus",
    "used_memory_gib",
    "vms_without_machine",
    "history_since",
    "vms_per_month",
    "months_to_full_min",
    "months_to_full_max",
    "other_first_out",
    "other_left",
    "other_months",
)


def report_csv(lines: Iterable[SiteLine]) -> str:
    """A line per site (RFC 4180, a header line first). Months are empty where nothing tells them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for line in lines:
        table.writerow(_csv_row(line))
    return text.getvalue()


def _csv_row(line: SiteLine) -> list[str | float]:
    """A site as a row of CSV, intervals as two figures."""
    site, room, outlook = line.room, line.room.room, line.outlook
    now = Interval(0, 0) if room is None else room.now
    pairs = (site.used, site.free, site.closed, site.stranded, now, _with_a_rack_lost(line))
    bounds: list[str | float] = []
    for pair in pairs:
        bounds += (pair.least, pair.most)
    months = outlook.months if outlook is not None else None
    return [
        *harmless_cells([site.site_id, line.state]),
        line.serial,
        *harmless_cells(["" if room is None else room.sku.name]),
        site.cells,
        *bounds,
        *harmless_cells(["" if room is None else room.worst_rack]),
        site.taken.vcpus,
        site.taken.memory_gib,
        site.homeless,
        "" if outlook is None else outlook.since,
        "" if outlook is None else f"{outlook.monthly:.2f}",
        *(("", "") if months is None else (f"{months[0]:.1f}", f"{months[1]:.1f}")),
        *_other_cells(line),
    ]


def _other_cells(line: SiteLine) -> Sequence[str | float]:
    """What runs out first beside machines; empty where no provider looked, or nothing does."""
    first = line.other_first_out
    if first is None:
        return ("", "", "")
    name = f"{first.row.kind}:{first.row.name}"
    left = "" if first.row.free is None else first.row.free
    return (*harmless_cells([name]), left, "" if first.months is None else f"{first.months:.1f}")
