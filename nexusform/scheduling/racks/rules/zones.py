"""Zones: a pool's availability_zones are a hard filter on the rack's zone."""

from nexusform.scheduling.racks.layout import NumberedSite
from nexusform.scheduling.racks.rule import (
    DemandFilter,
    RankedItemKind,
    RejectionCheck,
    ShortageContext,
)
from nexusform.scheduling.racks.vms import Demand, Interval


def describe_zones(demand: Demand) -> str:
    """Return the requested zones as text: `zones: 1, 4`."""
    zones = demand.zones
    return f"zones: {', '.join(sorted(zones, key=str.encode))}" if zones else "zones: all"


def _build_allowed_zone_check(layout: NumberedSite, demand: Demand) -> RejectionCheck:
    """Build the check of the zones allowed by the pool, by rack number."""
    # Never None: without zones the filter is not built.
    zones = demand.zones or frozenset()

    def find_rejection(rack: int) -> str | None:
        """Return why the zone of a rack is not allowed, None if it is."""
        zone = layout.rack_zone[rack]
        return None if zone in zones else f"zone {zone} is not among {', '.join(sorted(zones))}"

    return find_rejection


def _describe_machines_in_allowed_zones(
    demand: Demand, remaining: Interval, _before: Interval
) -> str:
    if demand.zones is None:
        return f"all; {remaining} stay"
    # The text has the zones and machines: "{1, 2} leave 12".
    return f"{{{', '.join(sorted(demand.zones))}}} leave {remaining}"


def _describe_shortage(context: ShortageContext) -> str:
    zones = dict.fromkeys(context.layout.rack_zone)
    return (
        f"No rack is in {describe_zones(context.demand)}; the site's zones are "
        f"{', '.join(zones) or 'none'}."
    )


FILTER = DemandFilter(
    name="zones",
    item=RankedItemKind.RACK,
    select_input=lambda demand: demand.constraints.zones,
    build_check=_build_allowed_zone_check,
    describe_shortage=_describe_shortage,
    binding="unknown_zones",
    line="2 zones",
    describe_remaining=_describe_machines_in_allowed_zones,
)
