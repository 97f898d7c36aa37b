"""nexus_site: an Operator Nexus instance, and its scheduler settings."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import ResourceType
from nexusform.placements.consequences import ConsequenceTable
from nexusform.resource_types.shared_arguments import (
    build_duplicate_object_problem,
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_optional_argument,
    check_whole_numbers,
    get_known_blocks,
)
from nexusform.scheduling.listing.site_listing import LISTING_KEY, LISTING_TYPE, read_listing
from nexusform.scheduling.racks.vms import DEFAULT_SEED, RackSpread
from nexusform.scheduling.site_inventory import MachineUpgradeStrategy, PlanInventory, SiteSettings
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    make_private_entry,
)
from nexusform.schemas.value_types import NUMBER, STRING

_MAXIMUM_PERCENTAGE: Final = 100

_SCHEDULER: Final = NestedBlock(
    BlockSchema(
        {
            "rack_spread": build_optional_argument(
                STRING,
                "First key of the rack ranking: VMs of the pool, or of the whole cluster. Applies "
                "to new VMs; moves none.",
                default=RackSpread.POOL.value,
                choices=tuple(spread.value for spread in RackSpread),
            ),
            "tie_break_seed": build_optional_argument(
                NUMBER,
                "Seed of the tie-break. Applies to new VMs; moves none.",
                default=DEFAULT_SEED,
            ),
        }
    ),
    Nesting.SINGLE,
    "VM placement on this site.",
    max_items=1,
)

_RACK = "Rack"
_PAUSE_AFTER_RACK = "PauseAfterRack"
_COUNT = "CountSuccess"
_PERCENT = "PercentSuccess"
_UPDATE_STRATEGY: Final = NestedBlock(
    BlockSchema(
        {
            "type": AttributeSchema(
                STRING,
                "Continue from rack to rack, or pause after each.",
                optional=True,
                default=_RACK,
                choices=(_RACK, _PAUSE_AFTER_RACK),
            ),
            "max_unavailable": AttributeSchema(
                NUMBER, "Machines of a rack down at once. Default: all.", optional=True, minimum=1
            ),
            "threshold_type": AttributeSchema(
                STRING,
                "Unit of threshold_value: machines of a rack, or percent of them.",
                optional=True,
                choices=(_COUNT, _PERCENT),
            ),
            "threshold_value": AttributeSchema(
                NUMBER,
                "Machines of a rack that must be back before the upgrade continues.",
                optional=True,
                minimum=0,
            ),
            "wait_time_minutes": AttributeSchema(
                NUMBER, "Pause after each rack.", optional=True, minimum=0
            ),
        }
    ),
    Nesting.SINGLE,
    "Runtime upgrade of the machines, used by `simulate runtime-upgrade`.",
    max_items=1,
)

_SCHEMA: Final = BlockSchema(
    {"id": build_id_attribute("<site>"), "name": build_name_attribute("site")},
    {"scheduler": _SCHEDULER, "update_strategy": _UPDATE_STRATEGY},
    "An Operator Nexus instance: one or more racks of bare-metal machines.",
    private={LISTING_KEY: make_private_entry(LISTING_TYPE, "Racks and machines as listed.")},
)
build_id: Final = build_id_builder("name")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check for numbers with a fraction, and an incomplete threshold."""
    problems: list[Problem] = []
    scheduler = attributes.get("scheduler")
    strategy = attributes.get("update_strategy")
    if isinstance(scheduler, Mapping):
        problems += check_whole_numbers(scheduler, ("tie_break_seed",), ("scheduler",))
    if isinstance(strategy, Mapping):
        numbers = ("max_unavailable", "threshold_value", "wait_time_minutes")
        problems += check_whole_numbers(strategy, numbers, ("update_strategy",))
        problems += _check_update_threshold(strategy)
    return problems


def _check_update_threshold(strategy: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a threshold with a missing half, or above 100 per cent."""
    kind = strategy.get("threshold_type")
    value = strategy.get("threshold_value")
    path = ("update_strategy", "threshold_value")
    if (kind is None) != (value is None):
        detail = "threshold_type and threshold_value belong together: set both, or neither."
        return [Problem(path, "invalid-threshold", detail)]
    if kind == _PERCENT and isinstance(value, (int, float)) and value > _MAXIMUM_PERCENTAGE:
        return [Problem(path, "invalid-threshold", f"It is {value:g} percent; the maximum is 100.")]
    return []


def add_to_inventory(
    attributes: Mapping[str, Any], address: str, inventory: PlanInventory
) -> list[Problem]:
    """Add the site to the inventory; a second site with one name is a problem."""
    site_id = build_id(attributes)
    # Kind, no scope, name.
    other_address = inventory.addresses_by_name.setdefault(("site", "", site_id), address)
    if other_address != address:
        return [build_duplicate_object_problem("duplicate-site", "site", site_id, other_address)]
    settings = get_known_blocks(attributes, "scheduler")
    inventory.sites[address] = SiteSettings(
        id=site_id,
        name=site_id,
        spread=RackSpread(settings.get("rack_spread") or RackSpread.POOL),
        seed=int(settings.get("tie_break_seed", DEFAULT_SEED)),
        update_strategy=_build_update_strategy(attributes.get("update_strategy")),
    )
    # From the private note of the site.
    listing = read_listing(attributes.get(LISTING_KEY))
    if listing is not None:
        inventory.listings[site_id] = listing
    return []


def _build_update_strategy(strategy: Any) -> MachineUpgradeStrategy | None:
    """Build the strategy for runtime upgrades from its block; None without one.

    Without a limit, fields are None.
    """
    if not isinstance(strategy, Mapping):
        return None  # no block
    threshold = strategy.get("threshold_value")
    max_unavailable = strategy.get("max_unavailable")
    return MachineUpgradeStrategy(
        pauses=strategy.get("type") == _PAUSE_AFTER_RACK,
        max_unavailable=None if max_unavailable is None else int(max_unavailable),
        is_percentage=strategy.get("threshold_type") == _PERCENT,
        threshold=None if threshold is None else int(threshold),
        wait_minutes=int(strategy.get("wait_time_minutes") or 0),
    )


NEXUS_SITE: Final = ResourceType(
    "nexus_site",
    1,
    _SCHEMA,
    build_id,
    check=check,
    add_to_inventory=add_to_inventory,
    consequences=ConsequenceTable(noun="site"),
)
