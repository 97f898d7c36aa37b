"""nexus_site: an Operator Nexus instance, and how its scheduler decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.ports import ResourceType
from nexusform.resource_types.shared_arguments import (
    duplicate_problem,
    id_attribute,
    joined_id,
    name_attribute,
    whole_number_problems,
)
from nexusform.scheduling.racks.vms import DEFAULT_SEED, RackSpread
from nexusform.scheduling.world import Inventory, SiteOffer
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import NUMBER, STRING

_SCHEDULER: Final = NestedBlock(
    BlockSchema(
        {
            "rack_spread": Attribute(
                STRING,
                "What is counted first when a rack is chosen: VMs of the pool, or of the whole cluster. "
                "A change moves nobody; it concerns new VMs.",
                optional=True,
                default=RackSpread.POOL.value,
                choices=tuple(spread.value for spread in RackSpread),
                decides_placement=True,
            ),
            "tie_break_seed": Attribute(
                NUMBER,
                "Seed of the tie-break. A change moves nobody; it concerns new VMs.",
                optional=True,
                default=DEFAULT_SEED,
                decides_placement=True,
            ),
        }
    ),
    Nesting.SINGLE,
    "How VMs of this site are placed.",
    max_items=1,
)

_SCHEMA: Final = BlockSchema(
    {"id": id_attribute("<site>"), "name": name_attribute("site")},
    {"scheduler": _SCHEDULER},
    "An Operator Nexus instance: one or more racks of bare-metal machines.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: the site's name."""
    return joined_id(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """A seed with a fraction."""
    scheduler = attributes.get("scheduler")
    if not isinstance(scheduler, Mapping):
        return []
    return whole_number_problems(scheduler, ("tie_break_seed",), ("scheduler",))


def offer(attributes: Mapping[str, Any], address: str, inventory: Inventory) -> list[Problem]:
    """Put the site into the inventory; a second site of one name is a problem."""
    site_id = identify(attributes)
    other = inventory.taken.setdefault(("site", "", site_id), address)
    if other != address:
        return [duplicate_problem("duplicate-site", "name", "site", site_id, other)]
    scheduler = attributes.get("scheduler")
    chosen: Mapping[str, Any] = scheduler if isinstance(scheduler, Mapping) else {}
    inventory.sites[address] = SiteOffer(
        site_id,
        site_id,
        RackSpread(chosen.get("rack_spread") or RackSpread.POOL),
        int(chosen.get("tie_break_seed", DEFAULT_SEED)),
    )
    return []


NEXUS_SITE: Final = ResourceType("nexus_site", 1, _SCHEMA, identify, check=check, offer=offer)
