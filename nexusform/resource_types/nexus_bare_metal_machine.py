"""nexus_bare_metal_machine: one machine.

It is for racks with different machines, or from a real inventory.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import Path, get_list
from nexusform.placements.consequences import ConsequenceTable
from nexusform.resource_types.machine_facts import (
    DETAILED_STATUSES,
    MACHINE_BLOCK,
    MACHINE_FACTS,
    MACHINE_SKU,
    OBSERVED_FACTS,
    build_machine,
    check_hardware,
    compute_cordon_status,
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
    build_placement_number,
    build_reference_problem,
    build_required_argument,
    check_whole_numbers,
    is_set_and_known,
)
from nexusform.scheduling.racks.vms import UNKNOWN_STATE, Machine
from nexusform.scheduling.site_inventory import (
    OBSERVED_KEY,
    InventoryMachine,
    InventoryRack,
    OccupiedCapacity,
    PlanInventory,
)
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting, make_private_entry
from nexusform.schemas.value_types import NUMBER, STRING, ListType

_OCCUPIED: Final = NestedBlock(
    BlockSchema(
        {
            "name": build_required_argument(STRING, "Name of the VM."),
            "cpu_cores": build_placement_number("vCPUs on the machine.", 0),
            "memory_gib": build_placement_number("Memory in GiB.", 0),
            "disk_gib": build_placement_number("Disk in GiB.", 0, 0),
            "numa_cells": build_placement_number("NUMA cells.", 1, 1),
            "cells": build_optional_argument(
                ListType(NUMBER), "Cell numbers from 0. Default: unknown; capacity is then a range."
            ),
        },
        lengths={"numa_cells": "cells"},
    ),
    Nesting.LIST,
    "Capacity used by an unmanaged VM.",
)

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>/<rack>/<machine>"),
        "rack_id": build_parent_attribute("nexus_rack"),
        "name": build_name_attribute("machine"),
        "slot": build_required_argument(
            NUMBER,
            (
                "Slot in the rack. A slot of machine_count describes that machine; another slot "
                "adds one."
            ),
            minimum=1,
            maximum=256,
        ),
        "machine_sku": MACHINE_SKU,
        **{fact.name: fact.attribute for fact in MACHINE_FACTS},
    },
    {"machine": MACHINE_BLOCK, "occupied": _OCCUPIED},
    "One bare-metal machine of a rack.",
    private={OBSERVED_KEY: make_private_entry(OBSERVED_FACTS, "Facts as last read.")},
)
build_id: Final = build_id_builder("rack_id", "name")


def derive(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cordon status of a simulated machine.

    Machines of other providers have no argument power_state.
    """
    return (
        {}
        if attributes.get("power_state") is None
        else {"cordon_status": compute_cordon_status(attributes)}
    )


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the rules for a machine beyond its schema."""
    problems = check_whole_numbers(attributes, ("slot",))
    problems += check_hardware(attributes, is_required=True)
    problems += _check_status(attributes)
    names: dict[str, int] = {}
    for index, block in _iterate_occupied_blocks(attributes):
        problems += _check_occupied_block(attributes, index, block)
        name = block.get("name")
        if isinstance(name, str) and names.setdefault(name, index) != index:
            detail = (
                f'This machine has another "occupied" block named "{name}". Remove one of the two.'
            )
            problems.append(
                Problem(("occupied", index, "name"), "duplicate-occupied-block", detail)
            )
    # A total needs valid numbers.
    if not problems:
        problems += _check_total_occupied(attributes)
    return problems


def _check_status(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return a warning for an unknown detailed status."""
    status = attributes.get("detailed_status")
    if not isinstance(status, str) or status in (*DETAILED_STATUSES, UNKNOWN_STATE):
        # Unknown, or valid.
        return []
    detail = (
        f'"{status}" is not a known detailed status.{suggest_name(status, DETAILED_STATUSES)} The '
        f"machine accepts no new VMs. Known: {', '.join(DETAILED_STATUSES)}."
    )
    return [Problem(("detailed_status",), "unknown-detailed-status", detail, Severity.WARNING)]


def _iterate_occupied_blocks(
    attributes: Mapping[str, Any],
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, block in enumerate(get_list(attributes, "occupied")):
        if isinstance(block, Mapping):
            yield index, block


def _check_occupied_block(
    attributes: Mapping[str, Any], index: int, block: Mapping[str, Any]
) -> list[Problem]:
    """Return the problems of an `occupied` block: figures and cells."""
    path = ("occupied", index)
    problems = check_whole_numbers(
        block, ("cpu_cores", "memory_gib", "disk_gib", "numa_cells"), path
    )
    # A list of cells, or else their number.
    cells = block.get("cells")
    numa_cells = block.get("numa_cells", 1)
    hardware = read_hardware(attributes)
    machine_cells = hardware.cells if hardware is not None else None  # None: unknown
    if (
        machine_cells is not None
        and not cells
        and isinstance(numa_cells, int)
        and numa_cells > machine_cells
    ):
        detail = (
            f"It spans {numa_cells} cells, and the machine has {machine_cells}. Compare with the "
            "real hardware."
        )
        return [*problems, Problem((*path, "numa_cells"), "invalid-numa-cell", detail)]
    # Only a list without unknown cells is checked.
    if isinstance(cells, list) and all(isinstance(cell, int | float | Fraction) for cell in cells):
        last_cell = machine_cells - 1 if machine_cells is not None else None
        problems += _check_numa_cell_list(cells, last_cell, (*path, "cells"))
    return problems


def _check_numa_cell_list(
    cells: Sequence[int | float | Fraction], last: int | None, path: Path
) -> Iterator[Problem]:
    """Yield the problems of a list of NUMA cells.

    `last` is the last one of the machine, None if unknown.
    """
    range_text, highest = ("counted from 0", inf) if last is None else (f"0 to {last}", last)
    for cell in cells:
        if not isinstance(cell, int) or not 0 <= cell <= highest:
            yield Problem(
                path, "invalid-numa-cell", f"There is no cell {cell}: the cells are {range_text}."
            )
    if len(set(cells)) < len(cells):
        yield Problem(
            path, "invalid-numa-cell", f"The list {cells} contains a cell twice. List each once."
        )
    if not cells:
        detail = (
            '"cells" is empty, but a VM uses at least one cell. Omit it if the cells are unknown.'
        )
        yield Problem(path, "conflicting-numa-cells", detail)


def _check_total_occupied(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return a warning per resource if the `occupied` blocks exceed the machine.

    These blocks describe capacity used by VMs outside of nexusform.
    """
    hardware = read_hardware(attributes)
    if hardware is None:
        # The hardware is unknown.
        return []
    totals = {
        "cpu_cores": hardware.cells * hardware.cpus_per_cell,
        "memory_gib": hardware.cells * hardware.memory_gib_per_cell,
        "disk_gib": hardware.disk_gib,
    }
    blocks = [block for _, block in _iterate_occupied_blocks(attributes)]
    problems = []
    for name, total in totals.items():
        figures = [block.get(name) or 0 for block in blocks]
        # The others are unknown.
        used = sum(figure for figure in figures if isinstance(figure, int))
        if used > total:
            detail = (
                f'The "occupied" blocks add up to {name} = {used:,}, and the machine has '
                f"{total:,}. It counts as full. Compare machine_sku with the real hardware."
            )
            problems.append(
                Problem(("occupied", 0), "overcommitted-machine", detail, Severity.WARNING)
            )
    return problems


def build_occupied(attributes: Mapping[str, Any]) -> tuple[OccupiedCapacity, ...]:
    """Return the capacity used by VMs outside nexusform, in order of name.

    The `occupied` blocks state it.
    """
    machine = str(attributes["name"])
    occupied = []
    for _, block in _iterate_occupied_blocks(attributes):
        # () if only their count is known.
        cell_numbers = tuple(sorted(int(cell) for cell in block.get("cells") or ()))
        occupied.append(
            OccupiedCapacity(
                machine=machine,
                name=str(block["name"]),
                cpu_cores=int(block["cpu_cores"]),
                memory_gib=int(block["memory_gib"]),
                disk_gib=int(block.get("disk_gib") or 0),
                cells=len(cell_numbers) or int(block.get("numa_cells") or 1),
                cell_numbers=cell_numbers,
            )
        )
    return tuple(sorted(occupied, key=lambda entry: entry.name))


def add_to_inventory(
    attributes: Mapping[str, Any], address: str, inventory: PlanInventory
) -> list[Problem]:
    """Add the machine to the inventory.

    An unknown rack, and a used name or slot, are problems.
    """
    rack_id = attributes.get("rack_id")
    if not isinstance(rack_id, str) or not is_set_and_known(attributes.get("name")):
        # Unknown in this plan.
        return []
    # By kind, scope (none) and name.
    rack_address = inventory.addresses_by_name.get(("rack", "", rack_id), "")
    rack = inventory.racks.get(rack_address)
    if rack is None:
        rack_ids = [known_rack.id for known_rack in inventory.racks.values()]
        return [
            build_reference_problem(
                "unknown-rack", "rack_id", "rack", rack_id, rack_ids, "nexus_rack.NAME.id"
            )
        ]
    hardware = read_hardware(attributes)
    if hardware is None:
        # Unknown hardware is reported by the check.
        return []
    machine = build_machine(
        hardware,
        merge_observed_facts(attributes, attributes.get(OBSERVED_KEY)),
        name=str(attributes["name"]),
        rack=rack.name,
        availability_zone=rack.availability_zone,
        slot=int(attributes["slot"]),
    )
    problem = _check_slot_and_name_conflict(machine, rack, address, inventory)
    if problem is not None:
        return [problem]
    inventory.addresses_by_name["slot", rack_id, machine.slot] = address
    inventory.addresses_by_name["machine", rack.site_id, machine.name] = address
    is_evacuating = attributes.get("evacuate") is True
    inventory.machines[address] = InventoryMachine(
        rack_id, machine, is_evacuating, build_occupied(attributes)
    )
    return []


def _check_slot_and_name_conflict(
    machine: Machine, rack: InventoryRack, address: str, inventory: PlanInventory
) -> Problem | None:
    """Return the problem of a used slot or name, None without one; names are unique on a site."""
    other_address = inventory.addresses_by_name.get(("slot", rack.id, machine.slot), address)
    # The slot is not free.
    if other_address != address:
        return Problem(
            ("slot",),
            "duplicate-slot",
            f'{other_address} is already in slot {machine.slot} of the rack "{rack.name}". Give '
            "one of the two another slot.",
        )
    other_address = inventory.addresses_by_name.get(
        ("machine", rack.site_id, machine.name), address
    )
    if other_address == address:
        # The name is free.
        return None
    other_rack = inventory.racks.get(other_address)
    # The other is a nexus_bare_metal_machine, too.
    if other_rack is None:
        return build_duplicate_object_problem(
            "duplicate-machine", "machine", machine.name, other_address
        )
    rack_machine = next(m for m in other_rack.machines if m.name == machine.name)
    if other_rack.id == rack.id and rack_machine.slot == machine.slot:
        # It describes this machine of the rack.
        return None
    return Problem(
        ("name",),
        "duplicate-machine",
        f'{other_address} adds a machine "{rack_machine.name}" in slot {rack_machine.slot} '
        f'already. To describe that machine, give this one rack_id = "{other_rack.id}" and slot = '
        f"{rack_machine.slot}; else another name.",
    )


NEXUS_BARE_METAL_MACHINE: Final = ResourceType(
    "nexus_bare_metal_machine",
    3,
    _SCHEMA,
    build_id,
    derive=derive,
    check=check,
    add_to_inventory=add_to_inventory,
    kind=PlanningKind.MACHINE,
    consequences=ConsequenceTable(noun="machine"),
)
