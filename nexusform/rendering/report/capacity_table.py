"""Table of the spare capacity of every site before and after a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_first
from nexusform.plans.site_capacity.occupancy import Capacity, SiteCapacity
from nexusform.plans.site_capacity.other_capacity import OtherCapacity, OtherResourceKind, find_tightest, format_spare
from nexusform.rendering.report.folding import format_names

_MAX_NAMES: Final = 3


class CapacityRow(Struct, frozen=True):
    """One figure of the capacity table as text per site: (before, after) pairs."""

    label: str
    values: tuple[tuple[str, str], ...]
    worse: tuple[bool, ...]


class CapacityState(Struct, frozen=True):
    """Capacity of one site before or after a plan: capacity for its largest SKU, its clusters, those without
    surge capacity and those with uncertain surge capacity.
    """

    largest: Capacity
    clusters: tuple[str, ...]
    no_surge_clusters: tuple[str, ...]
    uncertain_surge_clusters: tuple[str, ...] = ()


class SiteSummary(Struct, frozen=True):
    """One site before and after the plan; None if it does not exist. `sku` is its largest SKU in use."""

    name: str
    sku: str
    cells: int
    before: CapacityState | None
    after: CapacityState | None


def fold_equal_sites(
    capacity: Sequence[SiteCapacity], rows: Sequence[CapacityRow]
) -> tuple[tuple[str, ...], tuple[CapacityRow, ...]]:
    """Return the names and rows of the table with one column for changed sites of equal figures and SKU.
    Without any changed site, unchanged ones share columns, too.
    """
    sites = summarize_sites(capacity) if rows else []
    changed = [any(before != after for before, after in (row.values[k] for row in rows)) for k in range(len(sites))]
    columns: dict[object, list[int]] = {}
    for number, site in enumerate(sites):
        figures = tuple((row.values[number], row.worse[number]) for row in rows)
        is_foldable = changed[number] or not any(changed)
        columns.setdefault((site.sku, figures) if is_foldable else number, []).append(number)
    names = [
        sites[numbers[0]].name if len(numbers) == 1 else f"{format_names(sites[k].name for k in numbers)} (each)"
        for numbers in columns.values()
    ]
    firsts = [numbers[0] for numbers in columns.values()]
    folded = [
        replace(row, values=tuple(row.values[k] for k in firsts), worse=tuple(row.worse[k] for k in firsts))
        for row in rows
    ]
    return tuple(names), tuple(folded)


def build_capacity_rows(capacity: Sequence[SiteCapacity]) -> tuple[CapacityRow, ...]:
    """Build the rows of the table; none without sites."""
    sites = summarize_sites(capacity)
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


def build_other_rows(
    capacity: Sequence[SiteCapacity], other_capacity: Sequence[OtherCapacity]
) -> tuple[CapacityRow, ...]:
    """Build the rows of capacity other than machines, in the columns of `build_capacity_rows`: the scarcest
    of each kind.
    """
    sites = [rows[0].site_id for rows in _group_by_site(capacity)]
    by_site = {site: [row for row in other_capacity if row.site_id == site] for site in sites}
    if not any(by_site.values()):
        return ()
    rows: list[CapacityRow] = []
    for kind, label in _OTHER_LABELS.items():
        scarcest = [find_tightest(by_site[site], kind) for site in sites]
        values = tuple(
            (format_spare(row, row.free_before), format_spare(row, row.free)) if row else ("-", "-") for row in scarcest
        )
        worse = tuple(_is_worse(row) for row in scarcest)
        rows.append(CapacityRow(label, values, worse))
    return tuple(rows)


def _group_by_site(capacity: Sequence[SiteCapacity]) -> list[list[SiteCapacity]]:
    by_site: dict[str, list[SiteCapacity]] = {}
    for row in capacity:
        by_site.setdefault(row.site_id, []).append(row)
    return list(by_site.values())


def _is_worse(row: OtherCapacity | None) -> bool:
    return row is not None and row.free is not None and row.free < (row.free_before or 0)


def summarize_sites(capacity: Sequence[SiteCapacity]) -> list[SiteSummary]:
    """Summarize the capacity of every site, in plan order."""
    return [_summarize_site(rows) for rows in _group_by_site(capacity)]


def _summarize_site(rows: Sequence[SiteCapacity]) -> SiteSummary:
    largest = rows[0]
    before = _build_state([row.before for row in rows if row.before is not None])
    after = _build_state([row.after for row in rows if row.after is not None])
    return SiteSummary(name=largest.site, sku=largest.sku, cells=largest.cells, before=before, after=after)


def _build_state(capacities: Sequence[Capacity]) -> CapacityState | None:
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
    return CapacityState(capacities[0], tuple(clusters), tuple(no_surge), uncertain_surge)


def _build_row(
    label: str,
    sites: Iterable[SiteSummary],
    format_state: Callable[[CapacityState], str],
    compute_deficit: Callable[[CapacityState], int],
) -> CapacityRow:
    """Build one figure of every site, before and after. A greater deficit after the plan is worse."""
    values: list[tuple[str, str]] = []
    worse: list[bool] = []
    for site in sites:
        before, after = site.before, site.after
        values.append((format_state(before) if before else "-", format_state(after) if after else "-"))
        worse.append(bool(before and after and compute_deficit(after) > compute_deficit(before)))
    return CapacityRow(label, tuple(values), tuple(worse))


def _compute_surge_deficit(state: CapacityState) -> int:
    """Return a higher number for more clusters without certain surge capacity."""
    return 2 * len(state.no_surge_clusters) + len(state.uncertain_surge_clusters)


def _format_surge(state: CapacityState) -> str:
    """Return "yes", or the clusters without certain surge capacity."""
    if state.no_surge_clusters:
        return f"no: {format_first(state.no_surge_clusters, _MAX_NAMES)}"
    if state.uncertain_surge_clusters:
        return f"unknown: {format_first(state.uncertain_surge_clusters, _MAX_NAMES)}"
    return "yes" if state.clusters else "-"
