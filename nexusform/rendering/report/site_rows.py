"""Plans over several sites, a row per site: how many VMs stand there afterwards, and what changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from nexusform.placement_kinds.kinds import VM
from nexusform.plans.impact.effects import Effect, effect_of
from nexusform.plans.plan import Plan
from nexusform.words import counted, first_of, natural

_MOST_ROWS: Final = 12
_MOST_NAMED: Final = 8


class SiteRow(Struct, frozen=True):
    """One site: its VMs before and after the plan, and what becomes of those that do not just stay."""

    name: str
    before: int
    after: int
    placed: int = 0
    moved: int = 0
    again: int = 0
    left: int = 0
    lost: int = 0

    @property
    def changes(self) -> bool:
        """Whether a VM comes, goes or moves there."""
        return bool(self.placed or self.moved or self.again or self.left or self.lost)

    @property
    def delta(self) -> str:
        """`83 (-12)`."""
        difference = self.after - self.before
        return f"{self.after:,} ({difference:+,})" if difference else f"{self.after:,}"

    @property
    def words(self) -> str:
        """`12 leave, 3 move`."""
        figures = (
            (self.placed, "placed"),
            (self.moved, "moved"),
            (self.again, "re-created in place"),
            (self.left, "removed"),
            (self.lost, "without their machine"),
        )
        return ", ".join(f"{count:,} {word}" for count, word in figures if count)


def site_rows(plan: Plan) -> tuple[SiteRow, ...]:
    """A row for every site of a plan over several: those that change first, most changes first; none where
    there is one site.
    """
    if len(plan.sites) < 2:
        return ()
    effects: dict[str, Counter[Effect]] = {}
    for row in plan.placements:
        if row.kind == VM:
            effects.setdefault(row.site_id, Counter())[effect_of(row)] += 1
    rows = []
    for site in plan.sites:
        kept = sum(len(pool.kept) for pool in site.pools)
        of_site = effects.get(site.id, Counter())
        rows.append(
            SiteRow(
                name=site.name,
                before=kept + sum(len(pool.left) for pool in site.pools),
                after=kept + sum(len(pool.came) for pool in site.pools),
                placed=of_site[Effect.PLACED],
                moved=of_site[Effect.MOVED] + of_site[Effect.UNPLACED],
                again=of_site[Effect.AGAIN],
                left=of_site[Effect.REMOVED] + of_site[Effect.FORGOTTEN],
                lost=of_site[Effect.LOST],
            )
        )
    return tuple(sorted(rows, key=_most_first))


def _most_first(row: SiteRow) -> tuple[object, ...]:
    return -(row.placed + row.moved + row.again + row.left + row.lost), row.name


def changed_rows(rows: Sequence[SiteRow]) -> list[SiteRow]:
    """The rows of sites that change, as many as one looks at."""
    return [row for row in rows if row.changes][:_MOST_ROWS]


def other_sites(rows: Sequence[SiteRow]) -> Iterator[str]:
    """What is said of all other sites: `4 sites unchanged: ber1, lon1, mad1, rom1`."""
    further = [row for row in rows if row.changes][_MOST_ROWS:]
    if further:
        placed, left = sum(row.placed for row in further), sum(row.left for row in further)
        yield f"{counted(len(further), 'more site')} change: {placed:,} VMs placed, {left:,} removed"
    kept = [row.name for row in rows if not row.changes]
    if kept:
        yield f"{counted(len(kept), 'site')} unchanged: {first_of(sorted(kept, key=natural), _MOST_NAMED)}"
