"""nexus_rack: a rack of identical machines; one availability zone."""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, suggest_name
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.consequences import ConsequenceTable
from nexusform.resource_types.machine_facts import (
    MACHINE_BLOCK,
    MACHINE_FACTS,
    MACHINE_SKU,
    OBSERVED_FACTS,
    build_machine,
    check_hardware,
    merge_observed_facts,
    read_hardware,
)
from nexusform.resource_types.shared_arguments import (
    build_duplicate_object_problem,
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_optional_argument,
    build_parent_attribute,
    build_reference_problem,
    build_required_argument,
    check_whole_numbers,
    get_known_blocks,
    is_set_and_known,
)
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.site_inventory import OBSERVED_KEY, InventoryRack, PlanInventory
from nexusform.scheduling.sku_catalogue import DEFAULT_MACHINE_SKU
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    OnChange,
    make_private_entry,
)
from nexusform.schemas.value_types import NUMBER, STRING, MapType, ObjectType
from nexusform.values.typed_value import UNKNOWN

MAXIMUM_MACHINES: Final = 256
ZONE_PATTERN: Final = r"[a-zA-Z0-9]{1,10}"

_OVERRIDES: Final = sorted(
    (fact for fact in MACHINE_FACTS if fact.is_override), key=lambda fact: fact.name
)
_OVERRIDE: Final = NestedBlock(
    BlockSchema(
        {
            fact.name: replace(fact.attribute, default=fact.attribute.default or False)
            for fact in _OVERRIDES
        }
    ),
    Nesting.MAP,
    "Overrides for one machine of the rack.",
    label="name",
)

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>/<rack>"),
        "site_id": build_parent_attribute("nexus_site"),
        "name": build_name_attribute("rack"),
        "availability_zone": build_optional_argument(
            STRING,
            "Availability zone. Default: letters and digits of the rack's name.",
            computed=True,
            on_change=OnChange.REPLACE,
            pattern=ZONE_PATTERN,
            pattern_hint="1 to 10 letters and digits",
        ),
        "machine_count": build_required_argument(
            NUMBER,
            "Machines in slots 1 to machine_count. A lower count removes the highest slots.",
            minimum=0,
            maximum=MAXIMUM_MACHINES,
        ),
        "machine_sku": replace(
            MACHINE_SKU,
            computed=True,
            description=(
                "Machine SKU of the catalogue. Default without a machine block: "
                f"{DEFAULT_MACHINE_SKU}."
            ),
        ),
        "status": build_optional_argument(
            STRING,
            "A planned rack accepts no VMs; `simulate capacity` counts it.",
            default="active",
            choices=("active", "planned"),
        ),
        "machines": AttributeSchema(
            MapType(ObjectType.create({"slot": NUMBER})), "Machines by name.", computed=True
        ),
    },
    {"machine": MACHINE_BLOCK, "machine_override": _OVERRIDE},
    "A rack of identical machines, named <rack>-bm<slot>.",
    private={
        OBSERVED_KEY: make_private_entry(MapType(OBSERVED_FACTS), "Facts of machines as last read.")
    },
)
build_id: Final = build_id_builder("site_id", "name")


def build_default_zone(name: str) -> str:
    """Return the default availability zone of a rack: its name's letters and digits.

    May be too long.
    """
    return re.sub(r"[^a-zA-Z0-9]", "", name)


def build_machine_name(rack: str, slot: int) -> str:
    """Return the name of the rack's machine in a slot: at least two digits."""
    return f"{rack}-bm{slot:02d}"


def derive(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the zone, the hardware and the machines by name, with defaults.

    The machines are unknown without the name or count.
    """
    name = attributes.get("name")
    count = attributes.get("machine_count")
    zone = attributes.get("availability_zone")
    sku = attributes.get("machine_sku")
    if zone is None:
        zone = build_default_zone(name) if isinstance(name, str) else UNKNOWN
    if sku is None and attributes.get("machine") is None:
        sku = DEFAULT_MACHINE_SKU
    machines: Any = UNKNOWN
    if isinstance(name, str) and isinstance(count, int):
        # {"rack1-bm01": {"slot": 1}, ...}
        machines = {build_machine_name(name, slot): {"slot": slot} for slot in range(1, count + 1)}
    return {"availability_zone": zone, "machine_sku": sku, "machines": machines}


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the rules for a rack beyond its schema."""
    problems = check_whole_numbers(attributes, ("machine_count",))
    problems += check_hardware(attributes, is_required=False)
    problems += _check_default_zone(attributes)
    problems += _check_machine_overrides(attributes)
    return problems


def _check_default_zone(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a zone derived from the name."""
    name = attributes.get("name")
    zone = attributes.get("availability_zone")
    if not isinstance(name, str):
        # Unknown in this plan.
        return []
    default = build_default_zone(name)
    if zone not in {None, default} or re.fullmatch(ZONE_PATTERN, default):
        # Configured, or valid.
        return []
    reason = (
        f'"{default}" has {len(default)} characters' if default else "it has no letter or digit"
    )
    detail = (
        f'The availability zone cannot be taken from the name "{name}": {reason}, and a zone is '
        '1 to 10 letters and digits. Add "availability_zone" to this rack.'
    )
    return [Problem(("name",), "invalid-availability-zone", detail)]


def _check_machine_overrides(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of overrides for machines missing in the rack."""
    overrides = get_known_blocks(attributes, "machine_override")
    machines = derive(attributes)["machines"]
    if machines is UNKNOWN:
        # Name or count is unknown.
        return []
    count = len(machines)
    name = attributes.get("name")
    range_text = (
        f"{build_machine_name(str(name), 1)} to {build_machine_name(str(name), count)}"
        if count
        else "none"
    )
    return [
        Problem(
            ("machine_override", label),
            "unknown-machine",
            f'The rack "{name}" has no machine "{label}".{suggest_name(label, machines)} '
            f"Its machines: {range_text}. A machine beyond these is a nexus_bare_metal_machine.",
        )
        for label in overrides
        if label not in machines
    ]


def build_machines(attributes: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the rack's machines in order of slot."""
    hardware = read_hardware(attributes)
    if hardware is None:
        # The check reports it.
        return ()
    overrides = get_mapping(attributes, "machine_override")
    observed = get_mapping(attributes, OBSERVED_KEY)
    rack = str(attributes["name"])
    zone = attributes.get("availability_zone")
    machines = []
    for slot in range(1, int(attributes["machine_count"]) + 1):
        name = build_machine_name(rack, slot)
        machines.append(
            build_machine(
                hardware,
                merge_observed_facts(get_mapping(overrides, name), observed.get(name)),
                name=name,
                rack=rack,
                availability_zone=zone if isinstance(zone, str) else build_default_zone(rack),
                slot=slot,
            )
        )
    return tuple(machines)


def add_to_inventory(
    attributes: Mapping[str, Any], address: str, inventory: PlanInventory
) -> list[Problem]:
    """Add the rack and its machines to the inventory, and return the problems."""
    site_id = attributes.get("site_id")
    rack_id = build_id(attributes)
    if not isinstance(site_id, str) or not is_set_and_known(attributes.get("name")):
        # Unknown in this plan.
        return []
    # Kind, no scope, name.
    if ("site", "", site_id) not in inventory.addresses_by_name:
        site_ids = inventory.list_site_ids()
        return [
            build_reference_problem(
                "unknown-site", "site_id", "site", site_id, site_ids, "nexus_site.NAME.id"
            )
        ]
    other_address = inventory.addresses_by_name.setdefault(("rack", "", rack_id), address)
    if other_address != address:
        return [build_duplicate_object_problem("duplicate-rack", "rack", rack_id, other_address)]
    complete_attributes = {**attributes, **derive(attributes)}
    overrides = get_mapping(attributes, "machine_override")
    machines = build_machines(complete_attributes)
    inventory.racks[address] = InventoryRack(
        id=rack_id,
        site_id=site_id,
        name=str(attributes["name"]),
        availability_zone=str(complete_attributes["availability_zone"]),
        is_planned=attributes.get("status") == "planned",
        machines=machines,
        evacuating_machines=frozenset(
            name for name, override in overrides.items() if override.get("evacuate") is True
        ),
    )
    inventory.addresses_by_name.update(
        {("machine", site_id, machine.name): address for machine in machines}
    )
    return []


NEXUS_RACK: Final = ResourceType(
    "nexus_rack",
    2,
    _SCHEMA,
    build_id,
    derive=derive,
    check=check,
    add_to_inventory=add_to_inventory,
    kind=PlanningKind.RACK,
    consequences=ConsequenceTable(noun="rack"),
)
