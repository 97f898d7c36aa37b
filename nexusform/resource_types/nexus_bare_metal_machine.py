"""nexus_bare_metal_machine: one machine, when racks differ or come from a real inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity, did_you_mean
from nexusform.plain_data import Path
from nexusform.ports import Kind, ResourceType
from nexusform.resource_types.hardware import (
    MACHINE_BLOCK,
    MACHINE_SKU,
    hardware_of,
    hardware_problems,
    machine_with,
)
from nexusform.resource_types.machine_facts import DETAILED_STATUSES, fact_attributes
from nexusform.resource_types.shared_arguments import (
    duplicate_problem,
    figure_attribute,
    id_attribute,
    is_known,
    joined_id,
    name_attribute,
    parent_attribute,
    reference_problem,
    whole_number_problems,
)
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.world import Inventory, MachineOffer, Occupied, RackOffer
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import NUMBER, STRING, ListType

_OCCUPIED: Final = NestedBlock(
    BlockSchema(
        {
            "name": Attribute(STRING, "Name of the VM.", required=True, decides_placement=True),
            "cpu_cores": figure_attribute("vCPUs on the machine.", 0),
            "memory_gib": figure_attribute("Memory in GiB.", 0),
            "disk_gib": figure_attribute("Disk in GiB.", 0, 0),
            "numa_cells": figure_attribute("NUMA cells.", 1, 1),
            "cells": Attribute(
                ListType(NUMBER),
                "Cell numbers from 0. Default: unknown; capacity is then a range.",
                optional=True,
                decides_placement=True,
            ),
        },
        lengths={"numa_cells": "cells"},
    ),
    Nesting.LIST,
    "Capacity used by an unmanaged VM.",
)

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<site>/<rack>/<machine>"),
        "rack_id": parent_attribute("nexus_rack"),
        "name": name_attribute("machine"),
        "slot": Attribute(
            NUMBER,
            "Slot in the rack. A slot of machine_count describes that machine; another slot adds one.",
            required=True,
            minimum=1,
            maximum=256,
            decides_placement=True,
        ),
        "machine_sku": MACHINE_SKU,
        **fact_attributes(),
    },
    {"machine": MACHINE_BLOCK, "occupied": _OCCUPIED},
    "One bare-metal machine of a rack.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: `<site>/<rack>/<machine>`."""
    return joined_id(attributes.get("rack_id"), attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Everything about a machine that its schema cannot say."""
    problems = whole_number_problems(attributes, ("slot",))
    problems += hardware_problems(attributes, required=True)
    problems += _status_problems(attributes)
    names: dict[str, int] = {}
    for index, block in _occupied_blocks(attributes):
        problems += _occupied_problems(attributes, index, block)
        name = block.get("name")
        if isinstance(name, str) and names.setdefault(name, index) != index:
            problems.append(
                Problem(
                    ("occupied", index, "name"),
                    "duplicate-occupied-block",
                    f'This machine has another "occupied" block named "{name}". Remove one of the two.',
                )
            )
    if not problems:
        problems += _overfull_problems(attributes)
    return problems


def _status_problems(attributes: Mapping[str, Any]) -> list[Problem]:
    """A warning of a detailed status that we do not know."""
    status = attributes.get("detailed_status")
    if not isinstance(status, str) or status in DETAILED_STATUSES:
        return []
    return [
        Problem(
            ("detailed_status",),
            "unknown-detailed-status",
            f'"{status}" is not a detailed status that we know.{did_you_mean(status, DETAILED_STATUSES)} '
            f"The machine takes no new VMs. Known: {', '.join(DETAILED_STATUSES)}.",
            Severity.WARNING,
        )
    ]


def _occupied_blocks(attributes: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    blocks = attributes.get("occupied")
    if isinstance(blocks, list):
        for index, block in enumerate(blocks):
            if isinstance(block, Mapping):
                yield index, block


def _occupied_problems(attributes: Mapping[str, Any], index: int, block: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the room that an `occupied` block holds: figures, and the cells that it names."""
    path = ("occupied", index)
    problems = whole_number_problems(block, ("cpu_cores", "memory_gib", "disk_gib", "numa_cells"), path)
    cells, numa_cells = block.get("cells"), block.get("numa_cells", 1)
    hardware = hardware_of(attributes)
    if hardware is not None and not cells and isinstance(numa_cells, int) and numa_cells > hardware.cells:
        detail = (
            f"It spans {numa_cells} cells, and the machine has {hardware.cells}. Compare with the real "
            "hardware."
        )
        return [*problems, Problem((*path, "numa_cells"), "invalid-numa-cell", detail)]
    if isinstance(cells, list) and all(isinstance(cell, int | float | Fraction) for cell in cells):
        last = hardware.cells - 1 if hardware is not None else None
        problems += _cell_problems(cells, last, (*path, "cells"))
    return problems


def _cell_problems(
    cells: Sequence[int | float | Fraction], last: int | None, path: Path
) -> Iterator[Problem]:
    """What is wrong with a list of NUMA cells; `last` is the last one of the machine, None if not known."""
    there = f"0 to {last}" if last is not None else "counted from 0"
    for cell in cells:
        if not isinstance(cell, int) or cell < 0 or (last is not None and cell > last):
            yield Problem(path, "invalid-numa-cell", f"There is no cell {cell}: the cells are {there}.")
    if len(set(cells)) != len(cells):
        yield Problem(path, "invalid-numa-cell", f"The list {cells} names a cell twice. Name each once.")
    elif not cells:
        detail = '"cells" lists no cell, and a VM is in one at least. Leave it out to leave them unknown.'
        yield Problem(path, "conflicting-numa-cells", detail)


def _overfull_problems(attributes: Mapping[str, Any]) -> list[Problem]:
    """A warning where the occupied blocks add up to more than the machine has."""
    hardware = hardware_of(attributes)
    if hardware is None:
        return []
    have = {
        "cpu_cores": hardware.cells * hardware.cpus_per_cell,
        "memory_gib": hardware.cells * hardware.memory_gib_per_cell,
        "disk_gib": hardware.disk_gib,
    }
    blocks = [block for _, block in _occupied_blocks(attributes)]
    problems = []
    for name, total in have.items():
        figures = [block.get(name) or 0 for block in blocks]
        taken = sum(f for f in figures if isinstance(f, int))
        if taken > total:
            problems.append(
                Problem(
                    ("occupied", 0),
                    "machine-more-than-full",
                    f'The "occupied" blocks add up to {name} = {taken:,}, and the machine has {total:,}. '
                    "It counts as full. Compare machine_sku with the real hardware.",
                    Severity.WARNING,
                )
            )
    return problems


def machine_of(attributes: Mapping[str, Any], rack: RackOffer) -> Machine | None:
    """The machine as the scheduler sees it; None when its hardware is not known."""
    hardware = hardware_of(attributes)
    if hardware is None:
        return None
    return machine_with(
        hardware,
        attributes,
        name=str(attributes["name"]),
        rack=rack.name,
        availability_zone=rack.availability_zone,
        slot=int(attributes["slot"]),
    )


def occupied_of(attributes: Mapping[str, Any]) -> tuple[Occupied, ...]:
    """The occupied blocks, in order of name."""
    machine = str(attributes["name"])
    occupied = []
    for _, block in _occupied_blocks(attributes):
        numbers = tuple(sorted(int(cell) for cell in block.get("cells") or ()))
        occupied.append(
            Occupied(
                machine=machine,
                name=str(block["name"]),
                cpu_cores=int(block["cpu_cores"]),
                memory_gib=int(block["memory_gib"]),
                disk_gib=int(block.get("disk_gib") or 0),
                cells=len(numbers) or int(block.get("numa_cells") or 1),
                cell_numbers=numbers,
            )
        )
    return tuple(sorted(occupied, key=lambda one: one.name))


def offer(attributes: Mapping[str, Any], address: str, inventory: Inventory) -> list[Problem]:
    """Put the machine into the inventory.

    A rack that is not there, and a name or slot that another machine has, are problems.
    """
    rack_id = attributes.get("rack_id")
    if not isinstance(rack_id, str) or not is_known(attributes.get("name")):
        return []
    rack = inventory.racks.get(inventory.taken.get(("rack", "", rack_id), ""))
    if rack is None:
        known = [offered.id for offered in inventory.racks.values()]
        return [reference_problem("unknown-rack", "rack_id", "rack", rack_id, known, "nexus_rack.NAME.id")]
    machine = machine_of(attributes, rack)
    if machine is None:
        return []
    problem = _clash(machine, rack, address, inventory)
    if problem is not None:
        return [problem]
    inventory.taken["slot", rack_id, machine.slot] = address
    inventory.taken["machine", rack.site_id, machine.name] = address
    inventory.machines[address] = MachineOffer(
        rack_id, machine, attributes.get("evacuate") is True, occupied_of(attributes)
    )
    return []


def _clash(machine: Machine, rack: RackOffer, address: str, inventory: Inventory) -> Problem | None:
    """The problem of a slot or name that is taken; names are unique on a site."""
    other = inventory.taken.get(("slot", rack.id, machine.slot), address)
    if other != address:
        return Problem(
            ("slot",),
            "duplicate-slot",
            f'{other} already stands in slot {machine.slot} of the rack "{rack.name}". '
            "Give one of the two another slot.",
        )
    other = inventory.taken.get(("machine", rack.site_id, machine.name), address)
    if other == address:
        return None
    maker = inventory.racks.get(other)
    if maker is None:
        return duplicate_problem("duplicate-machine", "name", "machine", machine.name, other)
    made = next(m for m in maker.machines if m.name == machine.name)
    if maker.id == rack.id and made.slot == machine.slot:
        return None
    return Problem(
        ("name",),
        "duplicate-machine",
        f'{other} makes a machine "{made.name}" in slot {made.slot} already. To describe that machine, give '
        f'this one rack_id = "{maker.id}" and slot = {made.slot}; else another name.',
    )


NEXUS_BARE_METAL_MACHINE: Final = ResourceType(
    "nexus_bare_metal_machine", 3, _SCHEMA, identify, check=check, offer=offer, kind=Kind.MACHINE
)
