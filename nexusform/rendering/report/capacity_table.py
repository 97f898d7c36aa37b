"""Table of the spare capacity of every site before and after a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.plans.site_capacity.occupancy import Capacity, SiteCapacity
from nexusform.plans.site_capacity.other_capacity import (
    OtherCapacity,
    OtherResourceKind,
    find_scarcest_resource,
    format_spare_resources,
)
from nexusform.rendering.report.folding import format_names
from nexusform.rendering.report.report_tree import Row, Span, Style, Table

_MAX_NAMES: Final = 3


class _CapacityRow(Struct, frozen=True):
    """One figure of the capacity table as text per site: (before, after) pairs."""

    label: str
    values: tuple[tuple[str, str], ...]
    worse: tuple[bool, ...]


class _CapacityState(Struct, frozen=True):
    """Capacity of one site before or after a plan: capacity for its largest SKU, its clusters, those without
    surge capacity and those with uncertain surge capacity.
    """

    largest: Capacity
    clusters: tuple[str, ...]
    no_surge_clusters: tuple[str, ...]
    uncertain_surge_clusters: tuple[str, ...] = ()


class _SiteSummary(Struct, frozen=True):
    """One site before and after the plan; None if it does not exist. `sku` is its largest SKU in use."""

    name: str
    sku: str
    cells: int
    before: _CapacityState | None
    after: _CapacityState | None


def build_capacity_table(
    capacity: Sequence[SiteCapacity], other_capacity: Sequence[OtherCapacity], *, has_unchanged: bool = False
) -> tuple[Table | None, str]:
    """Return the figures of changed sites before and after, those with less capacity first, and a note about
    the other sites. Without changes, or with `has_unchanged`, it has all sites. Equal sites share their rows.
    """
    rows = (*_build_capacity_rows(capacity), *_build_other_rows(capacity, other_capacity))
    sites = _summarize_sites(capacity)
    if not rows or not sites:
        return None, ""
    changed = [number for number in range(len(sites)) if any(len(set(row.values[number])) > 1 for row in rows)]
    columns: dict[object, list[int]] = {}
    for number in range(len(sites)) if has_unchanged else changed or range(len(sites)):
        figures = tuple((row.values[number], row.worse[number]) for row in rows)
        columns.setdefault((sites[number].sku, figures), []).append(number)
    ordered = sorted(columns.values(), key=lambda numbers: not any(row.worse[numbers[0]] for row in rows))
    names = [format_names(sites[number].name for number in numbers) for numbers in ordered]
    table_rows: list[Row] = []
    for name, numbers in zip(names, ordered, strict=True):
        prefix = "" if len(names) == 1 else f"{name}: "
        table_rows += [_build_table_row(f"{prefix}{row.label}", row, numbers[0]) for row in rows]
    scope = f"{names[0]}{', each' if len(ordered[0]) > 1 else ''}" if len(names) == 1 else "site"
    unchanged_count = len(sites) - len(changed) if changed else 0
    note = f"{format_count(unchanged_count, 'site')} unchanged." if unchanged_count else ""
    return Table((scope, "before", "after"), tuple(table_rows), frozenset({1, 2}), "Capacity before and after"), note


def _build_table_row(label: str, row: _CapacityRow, number: int) -> Row:
    """Build the cells of one figure of a site; less capacity is highlighted."""
    before, after = row.values[number]
    return Row((label, before, Span(after, Style.STRONG) if row.worse[number] else after))


def _build_capacity_rows(capacity: Sequence[SiteCapacity]) -> tuple[_CapacityRow, ...]:
    """Build the rows of the table; none without sites."""
    sites = _summarize_sites(capacity)
    if not sites:
        return ()
    skus = {site.sku for site in sites}
    largest = sites[0].sku if len(skus) == 1 else "the largest SKU"
    return (
        _build_row(
            f"spare capacity for {largest}",
            sites,
            lambda state: str(state.largest.free_interval),
            lambda state: -state.largest.free,
        ),
        _build_row(
            "with one rack down",
            sites,
            lambda state: str(state.largest.free_interval_after_rack_loss),
            lambda state: -state.largest.free_after_rack_loss,
        ),
        _build_row("surge capacity for every cluster", sites, _format_surge, _compute_surge_deficit),
    )


# Labels of the rows of other kinds of capacity.
_OTHER_LABELS: Final[Mapping[OtherResourceKind, str]] = {
    OtherResourceKind.NODE_ADDRESSES: "addresses left for nodes, at most",
    OtherResourceKind.POD_BLOCKS: "blocks of pod addresses left (one per node)",
    OtherResourceKind.STORAGE: "GiB left on storage",
    OtherResourceKind.CLAIMS: "GiB left for claims of pods, at most",
}


def _build_other_rows(
    capacity: Sequence[SiteCapacity], other_capacity: Sequence[OtherCapacity]
) -> tuple[_CapacityRow, ...]:
    """Build the rows of capacity other than machines, in the columns of `_build_capacity_rows`: the scarcest
    of each kind.
    """
    sites = [rows[0].site_id for rows in _group_by_site(capacity)]
    by_site = {site: [row for row in other_capacity if row.site_id == site] for site in sites}
    if not any(by_site.values()):
        return ()
    rows: list[_CapacityRow] = []
    for kind, label in _OTHER_LABELS.items():
        scarcest = [find_scarcest_resource(by_site[site], kind) for site in sites]
        values = tuple(
            (format_spare_resources(row, row.free_before), format_spare_resources(row, row.free)) if row else ("-", "-")
            for row in scarcest
        )
        worse = tuple(_is_worse(row) for row in scarcest)
        rows.append(_CapacityRow(label, values, worse))
    return tuple(rows)


def _group_by_site(capacity: Sequence[SiteCapacity]) -> list[list[SiteCapacity]]:
    by_site: dict[str, list[SiteCapacity]] = {}
    for row in capacity:
        by_site.setdefault(row.site_id, []).append(row)
    return list(by_site.values())


def _is_worse(row: OtherCapacity | None) -> bool:
    return row is not None and row.free is not None and row.free < (row.free_before or 0)


def _summarize_sites(capacity: Sequence[SiteCapacity]) -> list[_SiteSummary]:
    """Summarize the capacity of every site, in plan order."""
    return [_summarize_site(rows) for rows in _group_by_site(capacity)]


def _summarize_site(rows: Sequence[SiteCapacity]) -> _SiteSummary:
    largest = rows[0]
    before = _build_state([row.before for row in rows if row.before is not None])
    after = _build_state([row.after for row in rows if row.after is not None])
    return _SiteSummary(name=largest.site, sku=largest.sku, cells=largest.cells, before=before, after=after)


def _build_state(capacities: Sequence[Capacity]) -> _CapacityState | None:
    """Build the state of a site of its capacities by SKU, largest first; None without any."""
    if not capacities:
        return None
    clusters: dict[str, None] = {}
    no_surge: dict[str, None] = {}
    uncertain: dict[str, None] = {}
    for capacity in capacities:
        clusters.update(dict.fromkeys(capacity.clusters))
        no_surge.update(dict.fromkeys(capacity.no_surge_clusters))
        uncertain.update(dict.fromkeys(capacity.uncertain_surge_clusters))
    uncertain_surge = tuple(cluster for cluster in uncertain if cluster not in no_surge)
    return _CapacityState(capacities[0], tuple(clusters), tuple(no_surge), uncertain_surge)


def _build_row(
    label: str,
    sites: Iterable[_SiteSummary],
    format_state: Callable[[_CapacityState], str],
    compute_deficit: Callable[[_CapacityState], int],
) -> _CapacityRow:
    """Build one figure of every site, before and after. A greater deficit after the plan is worse."""
    values: list[tuple[str, str]] = []
    worse: list[bool] = []
    for site in sites:
        before, after = site.before, site.after
        values.append((format_state(before) if before else "-", format_state(after) if after else "-"))
        worse.append(bool(before and after and compute_deficit(after) > compute_deficit(before)))
    return _CapacityRow(label, tuple(values), tuple(worse))


def _compute_surge_deficit(state: _CapacityState) -> int:
    """Return a higher number for more clusters without certain surge capacity."""
    return 2 * len(state.no_surge_clusters) + len(state.uncertain_surge_clusters)


def _format_surge(state: _CapacityState) -> str:
    """Return "yes", or the clusters without certain surge capacity."""
    if state.no_surge_clusters:
        return f"no: {format_first_items(state.no_surge_clusters, _MAX_NAMES)}"
    if state.uncertain_surge_clusters:
        return f"unknown: {format_first_items(state.uncertain_surge_clusters, _MAX_NAMES)}"
    return "yes" if state.clusters else "-"
