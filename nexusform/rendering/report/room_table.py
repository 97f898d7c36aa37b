"""The room that is free on every site before a plan and after it, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.plans.room.occupancy import Room, SiteRoom
from nexusform.plans.room.other_room import OtherKind, OtherRoom, left_text, tightest
from nexusform.words import first_of

_MOST_NAMES: Final = 3


class RoomRow(Struct, frozen=True):
    """One figure of the room table, as text per site: (before, after) pairs."""

    label: str
    values: tuple[tuple[str, str], ...]
    worse: tuple[bool, ...]


class Moment(Struct, frozen=True):
    """One site at one moment: the room for its largest SKU, its clusters, those that cannot surge, and those
    that perhaps cannot.
    """

    largest: Room
    clusters: tuple[str, ...]
    no_surge: tuple[str, ...]
    unsure_surge: tuple[str, ...] = ()


class SiteSummary(Struct, frozen=True):
    """One site before the plan and after it; None where it does not stand. `sku` is its largest in play."""

    name: str
    sku: str
    cells: int
    before: Moment | None
    after: Moment | None


def sites_with_room(room: Sequence[SiteRoom]) -> tuple[str, ...]:
    """The names of the sites of which the table speaks, in its order."""
    return tuple(site.name for site in site_rooms(room))


def room_rows(room: Sequence[SiteRoom]) -> tuple[RoomRow, ...]:
    """The rows of the table; none when there is no room to speak of."""
    sites = site_rooms(room)
    if not sites:
        return ()
    skus = {site.sku for site in sites}
    largest = f" ({sites[0].sku})" if len(skus) == 1 else ""
    return (
        _row(f"more of your largest VM{largest} that fit", sites, _free, lambda moment: -moment.largest.free),
        _row("the same if any one rack is lost", sites, _rack_lost, lambda moment: -moment.largest.rack_lost),
        _row("room to upgrade every cluster", sites, _surge, _surge_badness),
    )


# What is asked of the kinds of which a table has a row, in words.
_OTHER_ROWS: Final[Mapping[OtherKind, str]] = {
    OtherKind.NODE_ADDRESSES: "addresses left for nodes, at most",
    OtherKind.POD_BLOCKS: "blocks of pod addresses left (one a node)",
    OtherKind.STORAGE: "GiB left on storage",
    OtherKind.CLAIMS: "GiB left for claims of pods, at most",
}


def other_rows(room: Sequence[SiteRoom], others: Sequence[OtherRoom]) -> tuple[RoomRow, ...]:
    """What is left beside machines, in the columns of `room_rows`: of each kind what runs out first."""
    sites = [rows[0].site_id for rows in _by_site(room)]
    by_site = {site: [row for row in others if row.site_id == site] for site in sites}
    if not any(by_site.values()):
        return ()
    rows: list[RoomRow] = []
    for kind, label in _OTHER_ROWS.items():
        first = [tightest(by_site[site], kind) for site in sites]
        values = tuple(
            (left_text(row, row.free_before), left_text(row, row.free)) if row else ("-", "-")
            for row in first
        )
        worse = tuple(_is_worse(row) for row in first)
        rows.append(RoomRow(label, values, worse))
    return tuple(rows)


def _by_site(room: Sequence[SiteRoom]) -> list[list[SiteRoom]]:
    by_site: dict[str, list[SiteRoom]] = {}
    for row in room:
        by_site.setdefault(row.site_id, []).append(row)
    return list(by_site.values())


def _is_worse(row: OtherRoom | None) -> bool:
    return row is not None and row.free is not None and row.free < (row.free_before or 0)


def site_rooms(room: Sequence[SiteRoom]) -> list[SiteSummary]:
    """What the room of every site comes to, in the plan's order."""
    return [_site(rows) for rows in _by_site(room)]


def _site(rows: Sequence[SiteRoom]) -> SiteSummary:
    largest = rows[0]
    before = _moment([row.before for row in rows if row.before is not None])
    after = _moment([row.after for row in rows if row.after is not None])
    return SiteSummary(name=largest.site, sku=largest.sku, cells=largest.cells, before=before, after=after)


def _moment(rooms: Sequence[Room]) -> Moment | None:
    """A site's rooms by SKU, largest first, at one moment; None when it is not there then."""
    if not rooms:
        return None
    clusters: dict[str, None] = {}
    no_surge: dict[str, None] = {}
    unsure: dict[str, None] = {}
    for room in rooms:
        clusters.update(dict.fromkeys(room.clusters))
        no_surge.update(dict.fromkeys(room.no_surge))
        unsure.update(dict.fromkeys(room.unsure_surge))
    unsure_surge = tuple(cluster for cluster in unsure if cluster not in no_surge)
    return Moment(rooms[0], tuple(clusters), tuple(no_surge), unsure_surge)


def _row(
    label: str,
    sites: Iterable[SiteSummary],
    text: Callable[[Moment], str],
    badness: Callable[[Moment], int],
) -> RoomRow:
    """One figure of every site, before and after; a greater `badness` after is worse."""
    values: list[tuple[str, str]] = []
    worse: list[bool] = []
    for site in sites:
        before, after = site.before, site.after
        values.append((text(before) if before else "-", text(after) if after else "-"))
        worse.append(bool(before and after and badness(after) > badness(before)))
    return RoomRow(label, tuple(values), tuple(worse))


def _free(moment: Moment) -> str:
    """How many VMs of the largest SKU fit."""
    return f"{moment.largest.fitting}"


def _rack_lost(moment: Moment) -> str:
    """How many of them fit with any one rack lost."""
    return f"{moment.largest.fitting_with_a_rack_lost}"


def _surge_badness(moment: Moment) -> int:
    """The more clusters have no room for surge VMs, or perhaps none, the worse."""
    return 2 * len(moment.no_surge) + len(moment.unsure_surge)


def _surge(moment: Moment) -> str:
    """Whether every cluster has room for its surge VMs, else which have none."""
    if moment.no_surge:
        return f"no: {first_of(moment.no_surge, _MOST_NAMES)}"
    if moment.unsure_surge:
        return f"perhaps not: {first_of(moment.unsure_surge, _MOST_NAMES)}"
    return "yes" if moment.clusters else "-"
