"""Zones: a pool's availability_zones are a hard filter on the rack's zone."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Layout
from nexusform.scheduling.racks.rule import DemandFilter, Item, Refuse, Scene
from nexusform.scheduling.racks.vms import Demand, Interval


def where(demand: Demand) -> str:
    """The zones asked for, in words: `zones: 1, 4`."""
    zones = demand.zones
    return f"zones: {', '.join(sorted(zones, key=str.encode))}" if zones else "zones: all"


def _opens(layout: Layout, demand: Demand) -> Refuse:
    """The refusals of the zones that the pool allows, by the number of a rack."""
    zones = demand.zones or frozenset()

    def refuse(rack: int) -> str | None:
        zone = layout.rack_zone[rack]
        return None if zone in zones else f"zone {zone} is not among {', '.join(sorted(zones))}"

    return refuse


def _count(demand: Demand, left: Interval, _before: Interval) -> str:
    if demand.zones is None:
        return f"all; {left} stay"
    return f"{{{', '.join(sorted(demand.zones))}}} leave {left}"


def _sentence(scene: Scene) -> str:
    zones = dict.fromkeys(scene.layout.rack_zone)
    return f"No rack is in {where(scene.demand)}; the site's zones are {', '.join(zones) or 'none'}."


FILTER = DemandFilter(
    name="zones",
    item=Item.RACK,
    reads=lambda demand: demand.terms.zones,
    opens=_opens,
    sentence=_sentence,
    binding="unknown_zones",
    line="2 zones",
    count=_count,
)
