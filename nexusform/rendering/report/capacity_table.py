"""Table of the spare capacity of every site before and after a plan."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import format_count, format_first_items, group_by
from nexusform.plans.site_capacity.occupancy import SiteSkuCapacity, SpareCapacity
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResourceCapacity,
    SiteResourceKind,
    find_scarcest_resource,
    format_spare_resources,
)
from nexusform.rendering.report.report_tree import Row, Style, StyledText, Table

_MAX_NAMES: Final = 3


class _CapacityTableRow(Struct, frozen=True):
    """One figure of a site as text, before and after the plan."""

    label: str
    before: str
    after: str
    is_worse: bool


class _EqualSites(Struct, frozen=True):
    """Names and number of sites with equal figures."""

    names: str
    sites: int
    figures: tuple[_CapacityTableRow, ...]


def build_capacity_table(
    capacity: Sequence[SiteSkuCapacity],
    other_capacity: Sequence[SiteResourceCapacity],
    *,
    has_unchanged: bool = False,
) -> tuple[Table, str]:
    """Return a table of the spare capacity of sites before and after the plan, and a note.

    The note has the number of unchanged ones ("" if all or none are).

    A site has a row per figure, such as the free VMs of its largest SKU. Sites with equal
    figures share rows, worse figures first. If no site changes, or with `has_unchanged`, all
    sites have rows.
    """
    rows_by_site = group_by(capacity, lambda row: row.site_id)
    figures = _build_site_figures(rows_by_site, other_capacity)
    changed_ids = [
        id_ for id_ in figures if any(figure.before != figure.after for figure in figures[id_])
    ]
    shown_ids = figures if has_unchanged or not changed_ids else changed_ids
    groups = _group_equal_sites(shown_ids, rows_by_site, figures)
    # The first header has the names of the sites, else each row.
    if len(groups) == 1:
        scope = groups[0].names if groups[0].sites == 1 else f"{groups[0].names}, each"
        table_rows = _build_rows(groups[0].figures)
    else:
        scope = "site"
        table_rows = [
            row for group in groups for row in _build_rows(group.figures, f"{group.names}: ")
        ]
    unchanged_count = len(figures) - len(changed_ids)
    note = (
        f"{format_count(unchanged_count, 'site')} unchanged."
        if 0 < unchanged_count < len(figures)
        else ""
    )
    headers = (scope, "before", "after")
    caption = "Capacity before and after"
    return Table(
        headers, tuple(table_rows), number_columns=frozenset({1, 2}), caption=caption
    ), note


def _group_equal_sites(
    site_ids: Iterable[str],
    rows_by_site: Mapping[str, Sequence[SiteSkuCapacity]],
    figures: Mapping[str, tuple[_CapacityTableRow, ...]],
) -> list[_EqualSites]:
    """Group the sites with equal figures, those with a worse figure first.

    The largest SKU (of the first row of a site) must be equal, too: the figures are numbers
    of its VMs.
    """
    ids_by_figures = group_by(site_ids, lambda id_: (rows_by_site[id_][0].sku, figures[id_]))
    groups = [
        _EqualSites(format_names(rows_by_site[id_][0].site for id_ in ids), len(ids), site_figures)
        for (_, site_figures), ids in ids_by_figures.items()
    ]
    return sorted(groups, key=lambda group: not any(figure.is_worse for figure in group.figures))


def _build_rows(figures: Iterable[_CapacityTableRow], prefix: str = "") -> list[Row]:
    """Build a row per figure, a worse one highlighted.

    `prefix` names the sites in a table with several ones.
    """
    rows: list[Row] = []
    for figure in figures:
        after = StyledText(figure.after, Style.STRONG) if figure.is_worse else figure.after
        rows.append(Row((f"{prefix}{figure.label}", figure.before, after)))
    return rows


def _build_site_figures(
    rows_by_site: Mapping[str, Sequence[SiteSkuCapacity]],
    other_capacity: Sequence[SiteResourceCapacity],
) -> dict[str, tuple[_CapacityTableRow, ...]]:
    """Build the table rows of every site, in plan order.

    They have the VM capacity, then the scarcest other resource of each kind if any site has data
    about them. The first row of a site is its largest SKU.
    """
    skus = {rows[0].sku for rows in rows_by_site.values()}
    free_label = f"spare capacity for {skus.pop() if len(skus) == 1 else 'the largest SKU'}"
    figures = {site: tuple(_list_figures(rows, free_label)) for site, rows in rows_by_site.items()}
    resources_by_site = group_by(other_capacity, lambda row: row.site_id)
    if resources_by_site.keys().isdisjoint(rows_by_site):
        # Further rows would be `-` on every site.
        return figures
    for site in figures:
        site_resources = resources_by_site.get(site, [])
        for kind, label in _OTHER_LABELS.items():
            row = find_scarcest_resource(site_resources, kind)
            # If the site has no such resource.
            before = after = "-"
            is_worse = False
            if row is not None:
                before = format_spare_resources(row, row.free_before)
                after = format_spare_resources(row, row.free)
                # From unknown to a deficit, too.
                is_worse = row.free is not None and row.free < (row.free_before or 0)
            figures[site] += (_CapacityTableRow(label, before, after, is_worse),)
    return figures


def _list_figures(rows: Sequence[SiteSkuCapacity], free_label: str) -> Iterator[_CapacityTableRow]:
    """Yield the figures of one site as rows of a table.

    A row is a label, a text before and one after the plan. A text is "-" if the site does not exist
    then. `rows` have the capacity for each SKU, the largest first. Each measure has two functions
    of these capacities: one formats the figure, one computes its deficit. A larger deficit after
    the plan means that the figure is worse.
    """
    before = [row.before for row in rows if row.before is not None]
    after = [row.after for row in rows if row.after is not None]
    for label, (format_figure, compute_deficit) in {free_label: _FREE, **_FURTHER_MEASURES}.items():
        # A new site.
        if not before:
            yield _CapacityTableRow(label, before="-", after=format_figure(after), is_worse=False)
        elif not after:
            # A removed site.
            yield _CapacityTableRow(label, format_figure(before), after="-", is_worse=False)
        else:
            is_worse = compute_deficit(after) > compute_deficit(before)
            yield _CapacityTableRow(label, format_figure(before), format_figure(after), is_worse)


def _list_clusters_without_surge(
    capacities: Sequence[SpareCapacity],
) -> tuple[list[str], list[str]]:
    """Return the clusters without surge capacity for an upgrade, and uncertain ones.

    It is the capacity for the surge VMs.
    """
    # Each cluster once, in order.
    insufficient: dict[str, None] = {}
    uncertain: dict[str, None] = {}
    # Of one SKU each.
    for capacity in capacities:
        insufficient |= dict.fromkeys(capacity.no_surge_clusters)
        uncertain |= dict.fromkeys(capacity.uncertain_surge_clusters)
    only_uncertain = [cluster for cluster in uncertain if cluster not in insufficient]
    return list(insufficient), only_uncertain


def _format_surge_capacity(capacities: Sequence[SpareCapacity]) -> str:
    """Return "yes" if every cluster has surge capacity.

    Return the clusters without it as `no: a, b`, or else the uncertain ones as `unknown: c`. Return
    "-" without clusters.
    """
    insufficient, uncertain = _list_clusters_without_surge(capacities)
    if insufficient:
        return f"no: {format_first_items(insufficient, _MAX_NAMES)}"
    if uncertain:
        return f"unknown: {format_first_items(uncertain, _MAX_NAMES)}"
    return "yes" if any(capacity.clusters for capacity in capacities) else "-"


def _compute_surge_deficit(capacities: Sequence[SpareCapacity]) -> int:
    """Return a higher number for more clusters without certain surge capacity.

    It serves to compare before and after.
    """
    insufficient, uncertain = _list_clusters_without_surge(capacities)
    # From uncertain to insufficient is also worse.
    return 2 * len(insufficient) + len(uncertain)


# The text and the deficit of a figure.
_Measure: TypeAlias = tuple[
    Callable[[Sequence[SpareCapacity]], str], Callable[[Sequence[SpareCapacity]], int]
]
_FREE: Final[_Measure] = (lambda side: str(side[0].free_interval), lambda side: -side[0].free)
_FURTHER_MEASURES: Final[Mapping[str, _Measure]] = {
    "with one rack down": (
        lambda side: str(side[0].free_interval_after_rack_loss),
        lambda side: -side[0].free_after_rack_loss,
    ),
    "surge capacity for every cluster": (_format_surge_capacity, _compute_surge_deficit),
}

# Labels of the figures of other kinds of capacity.
_OTHER_LABELS: Final[Mapping[SiteResourceKind, str]] = {
    SiteResourceKind.NODE_ADDRESSES: "addresses left for nodes, at most",
    SiteResourceKind.POD_BLOCKS: "blocks of pod addresses left (one per node)",
    SiteResourceKind.STORAGE: "GiB left on storage",
    SiteResourceKind.CLAIMS: "GiB left for claims of pods, at most",
}
