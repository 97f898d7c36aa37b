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
from nexusform.scheduling.world import Inventory, SiteOffer, UpdateStrategy
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import NUMBER, STRING

_ALL: Final = 100  # per cent
_SCHEDULER: Final = NestedBlock(
    BlockSchema(
        {
            "rack_spread": Attribute(
                STRING,
                "First key of the rack ranking: VMs of the pool, or of the whole cluster. Applies to new "
                "VMs; moves none.",
                optional=True,
                default=RackSpread.POOL.value,
                choices=tuple(spread.value for spread in RackSpread),
                decides_placement=True,
            ),
            "tie_break_seed": Attribute(
                NUMBER,
                "Seed of the tie-break. Applies to new VMs; moves none.",
                optional=True,
                default=DEFAULT_SEED,
                decides_placement=True,
            ),
        }
    ),
    Nesting.SINGLE,
    "VM placement on this site.",
    max_items=1,
)

_RACK, _PAUSE_AFTER_RACK = "Rack", "PauseAfterRack"
_COUNT, _PERCENT = "CountSuccess", "PercentSuccess"
_UPDATE_STRATEGY: Final = NestedBlock(
    BlockSchema(
        {
            "type": Attribute(
                STRING,
                "Continue from rack to rack, or pause after each.",
                optional=True,
                default=_RACK,
                choices=(_RACK, _PAUSE_AFTER_RACK),
            ),
            "max_unavailable": Attribute(
                NUMBER, "Machines of a rack down at once. Default: all.", optional=True, minimum=1
            ),
            "threshold_type": Attribute(
                STRING,
                "Unit of threshold_value: machines of a rack, or percent of them.",
                optional=True,
                choices=(_COUNT, _PERCENT),
            ),
            "threshold_value": Attribute(
                NUMBER,
                "Machines of a rack that must be back before the upgrade continues.",
                optional=True,
                minimum=0,
            ),
            "wait_time_minutes": Attribute(NUMBER, "Pause after each rack.", optional=True, minimum=0),
        }
    ),
    Nesting.SINGLE,
    "Runtime upgrade of the machines, used by `simulate runtime-upgrade`.",
    max_items=1,
)

_SCHEMA: Final = BlockSchema(
    {"id": id_attribute("<site>"), "name": name_attribute("site")},
    {"scheduler": _SCHEDULER, "update_strategy": _UPDATE_STRATEGY},
    "An Operator Nexus instance: one or more racks of bare-metal machines.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: the site's name."""
    return joined_id(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Numbers with a fraction, and a threshold that says nothing."""
    problems: list[Problem] = []
    scheduler, strategy = attributes.get("scheduler"), attributes.get("update_strategy")
    if isinstance(scheduler, Mapping):
        problems += whole_number_problems(scheduler, ("tie_break_seed",), ("scheduler",))
    if isinstance(strategy, Mapping):
        numbers = ("max_unavailable", "threshold_value", "wait_time_minutes")
        problems += whole_number_problems(strategy, numbers, ("update_strategy",))
        problems += _threshold_problems(strategy)
    return problems


def _threshold_problems(strategy: Mapping[str, Any]) -> list[Problem]:
    """A threshold of which one half is missing, or more than all."""
    kind, value = strategy.get("threshold_type"), strategy.get("threshold_value")
    path = ("update_strategy", "threshold_value")
    if (kind is None) != (value is None):
        detail = "threshold_type and threshold_value belong together: write both, or neither."
        return [Problem(path, "invalid-threshold", detail)]
    if kind == _PERCENT and isinstance(value, (int, float)) and value > _ALL:
        return [Problem(path, "invalid-threshold", f"It is {value:g} per cent; 100 is all.")]
    return []


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
        _update_strategy(attributes.get("update_strategy")),
    )
    return []


def _update_strategy(strategy: Any) -> UpdateStrategy | None:
    if not isinstance(strategy, Mapping):
        return None
    threshold, at_once = strategy.get("threshold_value"), strategy.get("max_unavailable")
    return UpdateStrategy(
        pauses=strategy.get("type") == _PAUSE_AFTER_RACK,
        max_unavailable=None if at_once is None else int(at_once),
        is_percentage=strategy.get("threshold_type") == _PERCENT,
        threshold=None if threshold is None else int(threshold),
        wait_minutes=int(strategy.get("wait_time_minutes") or 0),
    )


NEXUS_SITE: Final = ResourceType("nexus_site", 1, _SCHEMA, identify, check=check, offer=offer)
