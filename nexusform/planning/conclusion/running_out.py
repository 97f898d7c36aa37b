"""Addresses and storage of a site that do not do for who stands there, or not for an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.diagnostics import Diagnostic, warning
from nexusform.plans.plan import Change, Plan
from nexusform.plans.room.other_room import OtherKind, OtherRoom, lacking_text, noted_supplies

RUNS_OUT: Final = "runs-out-beside-machines"

_WAYS_OUT: Final[Mapping[OtherKind, str]] = {
    OtherKind.NODE_ADDRESSES: (
        "lower the count or the max_surge of a pool, or make the cluster on an L3 network with a larger "
        "prefix (that of a network is fixed)"
    ),
    OtherKind.POD_BLOCKS: (
        "lower the count or the max_surge of a pool, or make the cluster anew with more podCidrs (they are "
        "fixed)"
    ),
    OtherKind.BALANCER_ADDRESSES: "add addresses to the cluster's pool",
    OtherKind.STORAGE: "delete volumes that nobody uses (a site that stands gets no second appliance)",
    OtherKind.VOLUMES: (
        "delete volumes that nobody uses: more is promised than there is, and the last ones to write will "
        "find no room"
    ),
    OtherKind.CLAIMS: (
        "ask for less in the claims, run fewer replicas of what claims a volume for each, or delete volumes "
        "that nobody uses: more is asked than there is"
    ),
}


def runs_out(plan: Plan) -> Iterator[Diagnostic]:
    """A warning for each, at its site; what lacked as much before this plan is not caused by it."""
    sites = {
        str(attributes.get("name")): change
        for change in plan.changes
        if noted_supplies(change.private) and (attributes := change.after or change.before) is not None
    }
    promised = {row.site: row.used for row in plan.room_other if row.kind is OtherKind.VOLUMES}
    for row in plan.room_other:
        # Where volumes alone are too many, claims that ask for no more have nothing to add.
        is_told = row.kind is OtherKind.CLAIMS and row.used == promised.get(row.site)
        if row.lacks and not is_told:
            yield _warning(row, sites.get(row.site))


def _warning(row: OtherRoom, site: Change | None) -> Diagnostic:
    said = lacking_text(row)
    detail = (
        f"On {row.site}, {said}. Neither Azure nor a plan refuses anything for it; it shows when nodes or "
        f"volumes do not come up. Ways out: {_WAYS_OUT[row.kind]}."
    )
    lacked = row.free_before is not None and row.free_before < row.surge
    return warning(
        RUNS_OUT,
        detail,
        site.source if site is not None else None,
        address=str(site.address) if site is not None else "",
        block=site.block if site is not None else "",
        brief=f"{row.site}: {said}",
        held_before=lacked and row.used == row.used_before,
    )
