"""Shortages of addresses and storage of a site, for current use or for an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.plans.plan import Plan
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResourceKind,
    format_shortage,
    read_recorded_site_resources,
)

RESOURCE_SHORTAGE: Final = "exhausted-site-resources"

_REMEDIES: Final[Mapping[SiteResourceKind, str]] = {
    SiteResourceKind.NODE_ADDRESSES: (
        "lower the count or the max_surge of a pool, or create the cluster on an L3 network with a "
        "larger prefix (the prefix of a network is fixed)"
    ),
    SiteResourceKind.POD_BLOCKS: (
        "lower the count or the max_surge of a pool, or re-create the cluster with more podCidrs (they are fixed)"
    ),
    SiteResourceKind.BALANCER_ADDRESSES: "add addresses to the cluster's pool",
    SiteResourceKind.STORAGE: "delete unused volumes (an existing site gets no second appliance)",
    SiteResourceKind.VOLUMES: ("delete unused volumes: more is promised than exists, and late writes will fail"),
    SiteResourceKind.CLAIMS: (
        "request less in the claims, run fewer replicas of workloads with a volume each, or delete "
        "unused volumes: requests exceed the capacity"
    ),
}


def check_shortages(plan: Plan) -> Iterator[Diagnostic]:
    """Yield a warning per shortage, at its site; shortages from before the plan are existing findings."""
    sites = {
        str(attributes.get("name")): change
        for change in plan.changes
        if read_recorded_site_resources(change.private) and (attributes := change.after or change.before) is not None
    }
    promised = {row.site: row.used for row in plan.other_capacity if row.kind is SiteResourceKind.VOLUMES}
    for row in plan.other_capacity:
        # If volumes alone exceed the storage, equal claims are not reported again.
        is_reported = row.kind is SiteResourceKind.CLAIMS and row.used == promised.get(row.site)
        if not row.is_insufficient or is_reported:
            continue
        shortage = format_shortage(row)
        detail = (
            f"On {row.site}, {shortage}. Neither Azure nor a plan rejects this: nodes or volumes fail to "
            f"start. Suggested fixes: {_REMEDIES[row.kind]}."
        )
        was_insufficient = row.free_before is not None and row.free_before < row.surge
        site = sites.get(row.site)
        yield build_warning(
            RESOURCE_SHORTAGE,
            detail,
            site.source if site is not None else None,
            address=str(site.address) if site is not None else "",
            block=site.block if site is not None else "",
            brief=f"{row.site}: {shortage}",
            is_preexisting=was_insufficient and row.used == row.used_before,
        )
