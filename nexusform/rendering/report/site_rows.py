"""Rows per site of a plan over several sites: VMs afterwards and changes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    format_count,
    format_counts,
    format_first_items,
    group_by,
)
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import Plan
from nexusform.rendering.report.placement_rows import list_vm_rows

_MAX_ROWS: Final = 12
_MAX_NAMES: Final = 8


class SiteRow(Struct, frozen=True):
    """One site, or several `sites` with equal figures.

    It has the numbers of VMs before and after, and of changed VMs by effect.
    """

    name: str
    before: int
    after: int
    placed: int = 0
    moved: int = 0
    recreated: int = 0
    removed: int = 0
    host_lost: int = 0
    sites: int = 1

    @property
    def changed(self) -> int:
        """The number of changed VMs."""
        return self.placed + self.moved + self.recreated + self.removed + self.host_lost

    @property
    def has_changes(self) -> bool:
        """Whether any VM of the site changes."""
        return self.changed > 0

    @property
    def delta(self) -> str:
        """The number of VMs with its difference: `83 (-12)`, `7 (+7) each`."""
        difference = self.after - self.before
        text = f"{self.after:,} ({difference:+,})" if difference else f"{self.after:,}"
        return text if self.sites == 1 else f"{text} each"

    @property
    def summary(self) -> str:
        """The changes in short form: `12 to remove, 3 to move`."""
        figures = (
            (self.placed, "to place"),
            (self.moved, "to move"),
            (self.recreated, "to re-create in place"),
            (self.removed, "to remove"),
            (self.host_lost, "host lost"),
        )
        return ", ".join(format_counts(figures))


def build_site_rows(plan: Plan) -> tuple[SiteRow, ...]:
    """Return a row per site, most changes first.

    Forgotten VMs count as removed, VMs without a new place as moved.
    """
    # Numbers of changed VMs by site id.
    effects: dict[str, Counter[Effect]] = {}
    for row in list_vm_rows(plan):
        effects.setdefault(row.site_id, Counter())[compute_effect(row)] += 1
    rows = []
    for site in plan.site_records.sites:
        # A moved VM is among `removed` and `added`.
        kept = sum(len(pool.unchanged) for pool in site.pools)
        site_effects = effects.get(site.id, Counter())
        rows.append(
            SiteRow(
                name=site.name,
                before=kept + sum(len(pool.removed) for pool in site.pools),
                after=kept + sum(len(pool.added) for pool in site.pools),
                placed=site_effects[Effect.PLACED],
                moved=site_effects[Effect.MOVED] + site_effects[Effect.UNPLACED],
                recreated=site_effects[Effect.RECREATED],
                removed=site_effects[Effect.REMOVED] + site_effects[Effect.FORGOTTEN],
                host_lost=site_effects[Effect.LOST],
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.changed, row.name)))


def select_changed_rows(rows: Sequence[SiteRow]) -> list[SiteRow]:
    """Return the first rows of sites with changes, with equal sites in one row."""
    return _fold_changed_rows(rows)[:_MAX_ROWS]


def _fold_changed_rows(rows: Sequence[SiteRow]) -> list[SiteRow]:
    """Return a row per group of changed sites with equal figures.

    It has their names and their number.
    """
    changed_rows = (row for row in rows if row.has_changes)
    # Rows that are equal except for the name.
    rows_by_figures = group_by(changed_rows, lambda row: replace(row, name=""))
    folded_rows = []
    for figures, equal_rows in rows_by_figures.items():
        names = sorted((row.name for row in equal_rows), key=compute_natural_sort_key)
        folded_rows.append(replace(figures, name=format_names(names), sites=len(names)))
    return folded_rows


def describe_other_sites(rows: Sequence[SiteRow]) -> Iterator[str]:
    """Yield texts about the sites without a row in the table.

    They are changed sites beyond its maximum of rows, and unchanged ones:
    `4 sites unchanged: ber1`. A row may be of several sites (`row.sites`) with equal figures,
    those of each.
    """
    further_rows = _fold_changed_rows(rows)[_MAX_ROWS:]
    if further_rows:
        placed = sum(row.placed * row.sites for row in further_rows)
        removed = sum(row.removed * row.sites for row in further_rows)
        count = format_count(sum(row.sites for row in further_rows), "more site")
        yield f"{count} change: {placed:,} VMs to place, {removed:,} to remove"
    unchanged_names = [row.name for row in rows if not row.has_changes]
    if unchanged_names:
        sorted_names = sorted(unchanged_names, key=compute_natural_sort_key)
        yield (
            f"{format_count(len(unchanged_names), 'site')} unchanged: "
            f"{format_first_items(sorted_names, _MAX_NAMES)}"
        )
