"""nexus_rack: a rack of identical machines; one availability zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.ports import Kind, ResourceType
from nexusform.resource_types.hardware import (
    MACHINE_BLOCK,
    MACHINE_SKU,
    hardware_of,
    hardware_problems,
    machine_with,
)
from nexusform.resource_types.machine_facts import facts_of_override, switch_attributes
from nexusform.resource_types.shared_arguments import (
    duplicate_problem,
    id_attribute,
    is_known,
    joined_id,
    name_attribute,
    parent_attribute,
    reference_problem,
    whole_number_problems,
)
from nexusform.scheduling.catalogue import DEFAULT_MACHINE_SKU
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.world import Inventory, RackOffer
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.value_types import NUMBER, STRING, MapType, ObjectType
from nexusform.values import UNKNOWN

MAX_MACHINES: Final = 256
ZONE_PATTERN: Final = r"[a-zA-Z0-9]{1,10}"


_OVERRIDE: Final = NestedBlock(
    BlockSchema(switch_attributes()),
    Nesting.MAP,
    "Overrides for one machine of the rack.",
    label="name",
)

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<site>/<rack>"),
        "site_id": parent_attribute("nexus_site"),
        "name": name_attribute("rack"),
        "availability_zone": Attribute(
            STRING,
            "Availability zone. Default: letters and digits of the rack's name.",
            optional=True,
            computed=True,
            on_change=OnChange.REPLACE,
            decides_placement=True,
            pattern=ZONE_PATTERN,
            pattern_hint="1 to 10 letters and digits",
        ),
        "machine_count": Attribute(
            NUMBER,
            "Machines in slots 1 to machine_count. A lower count removes the highest slots.",
            required=True,
            minimum=0,
            maximum=MAX_MACHINES,
            decides_placement=True,
        ),
        "machine_sku": replace(
            MACHINE_SKU,
            computed=True,
            description=f"Machine SKU of the catalogue. Default without a machine block: "
            f"{DEFAULT_MACHINE_SKU}.",
        ),
        "status": Attribute(
            STRING,
            "A planned rack accepts no VMs; `simulate capacity` counts it.",
            optional=True,
            default="active",
            choices=("active", "planned"),
            decides_placement=True,
        ),
        "machines": Attribute(MapType(ObjectType.of({"slot": NUMBER})), "Machines by name.", computed=True),
    },
    {"machine": MACHINE_BLOCK, "machine_override": _OVERRIDE},
    "A rack of identical machines, named <rack>-bm<slot>.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: `<site>/<rack>`."""
    return joined_id(attributes.get("site_id"), attributes.get("name"))


def zone_from_name(name: str) -> str:
    """The default availability zone of a rack: its name's letters and digits. May be too long."""
    return re.sub(r"[^a-zA-Z0-9]", "", name)


def machine_name(rack: str, slot: int) -> str:
    """The name of the machine that a rack makes in a slot: at least two digits."""
    return f"{rack}-bm{slot:02d}"


def derive(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The zone and the hardware where they are not written, and the machines by name."""
    name, count = attributes.get("name"), attributes.get("machine_count")
    zone, sku = attributes.get("availability_zone"), attributes.get("machine_sku")
    if zone is None:
        zone = zone_from_name(name) if isinstance(name, str) else UNKNOWN
    if sku is None and attributes.get("machine") is None:
        sku = DEFAULT_MACHINE_SKU
    machines: Any = UNKNOWN
    if isinstance(name, str) and isinstance(count, int):
        machines = {machine_name(name, slot): {"slot": slot} for slot in range(1, count + 1)}
    return {"availability_zone": zone, "machine_sku": sku, "machines": machines}


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Everything about a rack that its schema cannot say."""
    problems = whole_number_problems(attributes, ("machine_count",))
    problems += hardware_problems(attributes, required=False)
    problems += _zone_problems(attributes)
    problems += _override_problems(attributes)
    return problems


def _zone_problems(attributes: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a zone that is taken from the name."""
    name, zone = attributes.get("name"), attributes.get("availability_zone")
    if not isinstance(name, str):
        return []
    default = zone_from_name(name)
    if zone not in {None, default} or re.fullmatch(ZONE_PATTERN, default):
        return []
    why = f'"{default}" has {len(default)} characters' if default else "it has no letter or digit"
    return [
        Problem(
            ("name",),
            "invalid-availability-zone",
            f'The availability zone cannot be taken from the name "{name}": {why}, and a zone is '
            '1 to 10 letters and digits. Add "availability_zone" to this rack.',
        )
    ]


def _override_problems(attributes: Mapping[str, Any]) -> list[Problem]:
    """Overrides of machines that the rack does not have."""
    overrides = attributes.get("machine_override")
    machines = derive(attributes)["machines"]
    if not isinstance(overrides, Mapping) or not isinstance(machines, Mapping):
        return []
    count, name = len(machines), attributes.get("name")
    range_text = f"{machine_name(str(name), 1)} to {machine_name(str(name), count)}" if count else "none"
    return [
        Problem(
            ("machine_override", label),
            "unknown-machine",
            f'The rack "{name}" has no machine "{label}".{did_you_mean(label, machines)} '
            f"Its machines: {range_text}. A machine beyond these is a nexus_bare_metal_machine.",
        )
        for label in overrides
        if label not in machines
    ]


def machines_of(attributes: Mapping[str, Any]) -> tuple[Machine, ...]:
    """The rack's machines in order of slot."""
    hardware = hardware_of(attributes)
    if hardware is None:
        return ()
    overrides = attributes.get("machine_override") or {}
    rack = str(attributes["name"])
    zone = attributes.get("availability_zone")
    machines = []
    for slot in range(1, int(attributes["machine_count"]) + 1):
        name = machine_name(rack, slot)
        machines.append(
            machine_with(
                hardware,
                facts_of_override(overrides.get(name) or {}),
                name=name,
                rack=rack,
                availability_zone=zone if isinstance(zone, str) else zone_from_name(rack),
                slot=slot,
            )
        )
    return tuple(machines)


def offer(attributes: Mapping[str, Any], address: str, inventory: Inventory) -> list[Problem]:
    """Put the rack and its machines into the inventory.

    A site that is not there and a second rack of one id are problems.
    """
    site_id, rack_id = attributes.get("site_id"), identify(attributes)
    if not isinstance(site_id, str) or not is_known(attributes.get("name")):
        return []
    if ("site", "", site_id) not in inventory.taken:
        return [
            reference_problem(
                "unknown-site", "site_id", "site", site_id, inventory.site_ids(), "nexus_site.NAME.id"
            )
        ]
    other = inventory.taken.setdefault(("rack", "", rack_id), address)
    if other != address:
        return [duplicate_problem("duplicate-rack", "name", "rack", rack_id, other)]
    filled = {**attributes, **derive(attributes)}
    overrides = attributes.get("machine_override") or {}
    machines = machines_of(filled)
    inventory.racks[address] = RackOffer(
        id=rack_id,
        site_id=site_id,
        name=str(attributes["name"]),
        availability_zone=str(filled["availability_zone"]),
        planned=attributes.get("status") == "planned",
        machines=machines,
        evacuating=frozenset(
            name for name, override in overrides.items() if override.get("evacuate") is True
        ),
    )
    inventory.taken.update({("machine", site_id, machine.name): address for machine in machines})
    return []


NEXUS_RACK: Final = ResourceType(
    "nexus_rack", 2, _SCHEMA, identify, derive=derive, check=check, offer=offer, kind=Kind.RACK
)
