"""Differences of sites as their platform lists them, in a plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.diagnostics.phrases import format_count
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.plans.plan import Action, Change, Plan
from nexusform.plans.site_capacity.occupancy import (
    SiteSkuCapacity,
    SpareCapacity,
    select_largest_sku_rows,
)
from nexusform.scheduling.listing.site_listing import (
    DifferenceKind,
    ListedSite,
    collect_recorded_roles,
    compare_listing,
)
from nexusform.scheduling.racks.vms import Interval
from nexusform.state.objects import State

SITE_IN_MAINTENANCE = "site-in-maintenance"


def compare_listed_sites(sites: Mapping[str, SitePlan], state: State) -> tuple[ListedSite, ...]:
    """Return the sites that differ from what their platform lists, by id.

    `state` has the roles of machines before this plan read them.
    """
    compared = [site for site in sites.values() if site.listing is not None]
    if not compared:
        return ()
    roles = collect_recorded_roles(
        (address.type, current.attributes) for address, current in state.list_current_objects()
    )
    listed_sites: list[ListedSite] = []
    for site in sorted(compared, key=lambda item: item.id):
        assert site.listing is not None
        machines = site.configured_machines
        # A planned rack offers no machine yet.
        planned = {machine.name: machine for rack in site.racks for machine in rack.machines}
        racks = [rack.name for rack in site.racks]
        differences = compare_listing(
            site.listing, {**planned, **machines}, racks, roles.get(site.id, {})
        )
        if differences:
            listed_sites.append(ListedSite(site.id, site.name, differences))
    return tuple(listed_sites)


def build_maintenance_warnings(
    sites: Iterable[ListedSite], changes: Sequence[Change]
) -> Iterator[Diagnostic]:
    """Yield a warning per site with changes in this plan and maintenance in progress."""
    for site in sites:
        count = sum(_changes_site(change, site.site_id) for change in changes)
        if not count:
            continue
        for difference in site.differences:
            if difference.kind is DifferenceKind.MAINTENANCE:
                detail = (
                    f"{site.site}: {difference.text}. This plan changes "
                    f"{format_count(count, 'object')} of this site meanwhile. Apply when the site "
                    "is Running again."
                )
                yield build_warning(SITE_IN_MAINTENANCE, detail)


def _changes_site(change: Change, site_id: str) -> bool:
    """Return whether a change is about an object of a site other than its settings."""
    is_change = change.action not in (Action.NO_OP, Action.READ, Action.FORGET)
    return is_change and change.id.startswith(f"{site_id}/")


def add_listed_capacity(
    plan: Plan, configured: Sequence[SiteSkuCapacity], listed: Sequence[SiteSkuCapacity]
) -> tuple[Plan, tuple[SiteSkuCapacity, ...]]:
    """Return the plan and its capacity with the range from configured to listed machines."""
    listed_rows = {(row.site_id, row.sku): row for row in listed}
    differing = {site.site_id for site in plan.observed.listed if site.changes_capacity}
    rows: list[SiteSkuCapacity] = []
    for row in configured:
        other = listed_rows.get((row.site_id, row.sku))
        if other is None or row.site_id not in differing:
            rows.append(row)
            continue
        before = _merge_capacity(row.before, other.before)
        rows.append(replace(row, before=before, after=_merge_capacity(row.after, other.after)))
    clauses: dict[str, str] = {}
    after_by_site = {row.site_id: after for row, after in select_largest_sku_rows(configured)}
    for row, after in select_largest_sku_rows(listed):
        configured_after = after_by_site.get(row.site_id)
        if configured_after is not None:
            clauses[row.site_id] = (
                f"capacity as listed: {after.free_interval} x {row.sku} "
                f"({configured_after.free_interval} as configured)"
            )
    sites = [
        replace(site, capacity=(clauses[site.site_id],))
        if site.changes_capacity and not site.lacks_hardware and site.site_id in clauses
        else site
        for site in plan.observed.listed
    ]
    return replace(plan, observed=replace(plan.observed, listed=tuple(sites))), tuple(rows)


def _merge_capacity(
    first: SpareCapacity | None, second: SpareCapacity | None
) -> SpareCapacity | None:
    """Return the capacity between two figures; that of one side if the other does not exist."""
    if first is None or second is None:
        return first or second
    free = _join_intervals(first.free_interval, second.free_interval)
    rack_lost = _join_intervals(
        first.free_interval_after_rack_loss, second.free_interval_after_rack_loss
    )
    without_surge = set(first.no_surge_clusters) & set(second.no_surge_clusters)
    doubtful = {
        *first.no_surge_clusters,
        *second.no_surge_clusters,
        *first.uncertain_surge_clusters,
        *second.uncertain_surge_clusters,
    } - without_surge
    return replace(
        first,
        free=free.minimum,
        free_after_rack_loss=rack_lost.minimum,
        no_surge_clusters=tuple(name for name in first.clusters if name in without_surge),
        uncertain_surge_clusters=tuple(name for name in first.clusters if name in doubtful),
        maximum_free=None if free.is_exact else free.maximum,
        maximum_free_after_rack_loss=None if rack_lost.is_exact else rack_lost.maximum,
    )


def _join_intervals(first: Interval, second: Interval) -> Interval:
    return Interval(min(first.minimum, second.minimum), max(first.maximum, second.maximum))
