"""Racks and bare-metal machines of an export, joined.

What a server is, names of SKUs tell: of its rack, its own, or of a list of rack SKUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.domains.azure.importers.arm import Item, id_key, name_of
from nexusform.domains.azure.importers.az_model import AzMachine, AzRack
from nexusform.resource_types.machine_facts import EXPORTED_FACTS, default_facts
from nexusform.scheduling.racks.vms import MachineSku
from nexusform.words import counted

# Parts of SKU names and the hardware that they stand for, as published for near-edge racks.
SKU_HARDWARE: Final[tuple[tuple[str, str], ...]] = (
    ("r760", "bom-2.0"),
    ("vnearedge4", "bom-2.0"),
    ("r750", "bom-1.7.3"),
    ("vnearedge1", "bom-1.7.3"),
    ("vnearedge2", "bom-1.7.3"),
    ("vnearedge3", "bom-1.7.3"),
)
COMPUTE: Final = "compute-plane"
MANAGEMENT: Final = "management-plane"
# How a machine's SKU id begins, and the role that it stands for (exports before API 2024-07 name none).
_ROLE_OF_SKU: Final = (("controller", MANAGEMENT), ("compute", COMPUTE))
_FIGURES: Final = re.compile(r"_(\d{1,3})c_(\d{1,4})gb(?:_|$)")


class RackSku(Struct, frozen=True):
    """What a rack SKU houses by slot: a machine SKU of the catalogue (None: one that it lacks) and a role."""

    servers: Mapping[int, tuple[str | None, str]] = field(default_factory=dict)


def machine_sku_of(sku_id: str | None) -> str | None:
    """The catalogue's machine SKU for the id of a SKU; None when its name tells nothing."""
    name = name_of(sku_id or "").lower()
    return next((sku for part, sku in SKU_HARDWARE if part in name), None)


def role_of_sku(sku_id: str | None) -> str | None:
    """The role that a machine's SKU id begins with; None when it tells none."""
    name = name_of(sku_id or "").lower()
    return next((role for start, role in _ROLE_OF_SKU if name.startswith(start)), None)


def figures_of_sku(sku_id: str | None) -> MachineSku | None:
    """The cores and memory that a machine's SKU id names (`Controller_DellR650_8C_128GB_2d8n`), as one
    cell without disk; None when it names none.
    """
    match = _FIGURES.search(name_of(sku_id or "").lower())
    if match is None:
        return None
    return MachineSku(
        name=name_of(sku_id or ""),
        cells=1,
        cpus_per_cell=int(match[1]),
        memory_gib_per_cell=int(match[2]),
        disk_gib=0,
    )


def read_rack_skus(items: Iterable[Item]) -> dict[str, RackSku]:
    """The rack SKUs that `az networkcloud racksku list` prints, by name in lower case."""
    skus: dict[str, RackSku] = {}
    for item in items:
        name = item.needed_text("name")
        if name is None:
            continue
        servers: dict[int, tuple[str | None, str]] = {}
        for key, role in (("computeMachines", COMPUTE), ("controllerMachines", MANAGEMENT)):
            for server in item.items(key):
                slot = server.whole("rackSlot")
                if slot is not None:
                    servers[slot] = (machine_sku_of(server.text("model")), role)
        skus[id_key(name)] = RackSku(servers)
    return skus


_OF_EVERY_MACHINE: Final = ("rackId", "rackSlot")
AGGREGATOR: Final = "aggregator"
_HOW_SKUS_TELL: Final = " Rack SKUs may tell it: az networkcloud racksku list --output json > rack_skus.json"


def read_racks(items: Iterable[Item]) -> dict[str, AzRack]:
    """The racks by id key. The second of two racks of one name is reported and left out."""
    racks: dict[str, AzRack] = {}
    names: set[str] = set()
    for item in items:
        name = item.needed_text("name")
        rack_id = item.text("id") or name
        if name is None or rack_id is None:
            continue
        if name in names:
            item.report("name", "duplicate-rack", f'a rack "{name}" stands further up already.')
            continue
        names.add(name)
        sku_id = item.text("rackSkuId")
        racks[id_key(rack_id)] = AzRack(
            name=name,
            id=rack_id,
            availability_zone=item.text("availabilityZone"),
            rack_sku_id=sku_id,
            machine_sku=machine_sku_of(sku_id),
        )
    return racks


def compute_racks(racks: Mapping[str, AzRack], machines: Iterable[AzMachine]) -> tuple[AzRack, ...]:
    """The racks by name, without aggregator racks that hold no machine."""
    used = {machine.rack for machine in machines}
    kept = [r for r in racks.values() if r.name in used or AGGREGATOR not in (r.rack_sku_id or "").lower()]
    return tuple(sorted(kept, key=lambda rack: rack.name))


class MachineReading(Struct, frozen=True):
    """What machines are read with: the racks by id key, what the user says of machine SKU ids, and the rack
    SKUs by name. `judges_racks`: the list of racks was read, so a rack that it lacks is an error.
    """

    racks: Mapping[str, AzRack]
    by_sku_id: Mapping[str, str] = field(default_factory=dict)
    rack_skus: Mapping[str, RackSku] = field(default_factory=dict)
    judges_racks: bool = True


def read_machines(items: Iterable[Item], reading: MachineReading) -> dict[str, AzMachine]:
    """The machines by id key; those without a name, a rack or a slot are reported and left out."""
    by_sku_id = {key.strip().lower(): sku for key, sku in reading.by_sku_id.items()}
    reading = replace(reading, by_sku_id=by_sku_id)
    listed = list(items)
    if _is_cut_short(listed):
        return {}
    machines: dict[str, AzMachine] = {}
    names: set[str] = set()
    without_roles: list[tuple[Item, AzMachine]] = []
    for item in listed:
        machine = _machine(item, reading)
        if machine is None:
            continue
        if machine.name in names:
            item.report("name", "duplicate-machine", f'a machine "{machine.name}" stands further up already.')
            continue
        names.add(machine.name)
        machines[id_key(machine.id)] = machine
        if item.value("machineRoles") is None:
            without_roles.append((item, machine))
    _say_roles(without_roles)
    return machines


def _is_cut_short(items: Sequence[Item]) -> bool:
    """Whether all of several machines lack what each of them has, which is said once."""
    lacking = [name for name in _OF_EVERY_MACHINE if all(item.value(name) is None for item in items)]
    if len(items) < 2 or not lacking:
        return False
    items[0].report(
        lacking[0],
        "missing-field",
        f"none of {len(items):,} machines has {' and '.join(lacking)}: the list holds a part of each machine "
        "alone (`az resource list`, or a --query). Capture it with: az networkcloud baremetalmachine list "
        "--resource-group MANAGED_RESOURCE_GROUP --output json",
    )
    return True


def _machine(item: Item, reading: MachineReading) -> AzMachine | None:
    """A machine of a rack that was read; None, and a finding, without name, rack or slot. A state that is
    not there counts as not ready.
    """
    name = item.needed_text("name")
    rack_id = item.needed_text("rackId")
    slot = item.needed_whole("rackSlot")
    if name is None or rack_id is None or slot is None:
        return None
    rack = reading.racks.get(id_key(rack_id))
    if rack is None:
        if reading.judges_racks:
            _report_unknown_rack(item, name, rack_id)
        return None
    sku_id = item.text("machineSkuId")
    _, slot_role = _server_in(rack, slot, reading.rack_skus)
    sku, hardware = _hardware(sku_id, rack, slot, reading)
    if sku is None and hardware is None:
        _report_unknown_sku(item, name, sku_id, rack, lists_skus=bool(reading.rack_skus))
    facts = _facts(item, name)
    if item.value("machineRoles") is None:
        facts["roles"] = [role_of_sku(sku_id) or slot_role or COMPUTE]
    return AzMachine(
        name=name,
        id=item.text("id") or name,
        rack=rack.name,
        slot=slot,
        machine_sku=sku,
        machine_sku_id=sku_id,
        machine_name=item.text("machineName"),
        facts=facts,
        hardware=hardware,
    )


def _facts(item: Item, machine: str) -> dict[str, Any]:
    """What an export says of a machine, by the names of the facts; one that lacks a state is not ready."""
    facts = default_facts()
    absent: list[str] = []
    for fact in EXPORTED_FACTS:
        if fact.name == "roles":
            facts["roles"] = list(plain_roles(item.texts(fact.exported)))
            continue
        said = item.text(fact.exported)
        if said is not None:
            facts[fact.name] = said
        elif fact.absent is not None:
            facts[fact.name] = fact.absent
            absent.append(fact.exported)
    if absent:
        facts["ready_state"] = "False"
        detail = f'the machine "{machine}" has no {", ".join(sorted(absent))}; it counts as not ready.'
        item.report(min(absent), "unknown-machine-state", detail, Severity.WARNING)
    return facts


def _server_in(rack: AzRack, slot: int, rack_skus: Mapping[str, RackSku]) -> tuple[str | None, str | None]:
    """Hardware and role of what stands in a slot, as the list of rack SKUs says it."""
    sku = rack_skus.get(id_key(name_of(rack.rack_sku_id or "")))
    return sku.servers.get(slot, (None, None)) if sku is not None else (None, None)


def _hardware(
    sku_id: str | None, rack: AzRack, slot: int, reading: MachineReading
) -> tuple[str | None, MachineSku | None]:
    """The machine SKU of the catalogue, or figures of the machine's own, from the surest source down."""
    sku = reading.by_sku_id.get((sku_id or "").strip().lower()) or machine_sku_of(sku_id)
    figures = figures_of_sku(sku_id) if sku is None else None
    if sku is None and figures is None:
        sku = _server_in(rack, slot, reading.rack_skus)[0] or rack.machine_sku
    return sku, figures


def _say_roles(machines: Sequence[tuple[Item, AzMachine]]) -> None:
    """Say once that roles were derived: exports before API 2024-07 have none."""
    if not machines:
        return
    item, _ = machines[0]
    with_role = sum(role_of_sku(machine.machine_sku_id) is not None for _, machine in machines)
    rest = len(machines) - with_role
    assumed = f"; {counted(rest, 'machine')} without a telling SKU id counts as compute-plane" if rest else ""
    item.report(
        "name",
        "derived-at-reading",
        f"{counted(len(machines), 'machine')} without machineRoles (exports before API 2024-07 have none): "
        f"the roles come from machineSkuId{assumed}.",
        Severity.WARNING,
    )


def _report_unknown_rack(item: Item, name: str, rack_id: str) -> None:
    item.report(
        "rackId",
        "unknown-rack",
        f'the machine "{name}" stands in the rack "{name_of(rack_id)}", which the list of racks does not '
        "have. Capture both lists again, at one time.",
    )


def _report_unknown_sku(item: Item, name: str, sku_id: str | None, rack: AzRack, *, lists_skus: bool) -> None:
    way_out = (
        f'machine_sku_by_id = {{ "{sku_id}" = "bom-1.7.3" }}' if sku_id else "a machine block of your own"
    )
    more = "" if lists_skus else _HOW_SKUS_TELL
    item.report(
        "machineSkuId" if sku_id else "name",
        "unknown-hardware",
        f'what hardware the machine "{name}" is, neither its SKU nor the rack SKU '
        f'"{name_of(rack.rack_sku_id or "")}" tells. Say it, for example with {way_out}.{more}',
        Severity.WARNING,
    )


def plain_roles(labels: Iterable[str]) -> tuple[str, ...]:
    """The roles without the platform's prefix and `=true`, sorted; a role set to false is none."""
    roles = set()
    for label in labels:
        name, _, flag = label.rpartition("/")[2].partition("=")
        if name and flag.lower() in {"", "true"}:
            roles.add(name)
    return tuple(sorted(roles))


# --- a site before a server is racked ----------------------------------------------------------


def planned_site(
    clusters: Iterable[Item], reading: MachineReading
) -> tuple[dict[str, AzRack], dict[str, AzMachine]]:
    """The racks and machines that Nexus clusters define, by id key: what stands once they are deployed. Every
    machine is taken as ready.
    """
    racks: dict[str, AzRack] = {}
    machines: dict[str, AzMachine] = {}
    for cluster in clusters:
        single = cluster.item("aggregatorOrSingleRackDefinition")
        definitions = [*([single] if single is not None else []), *cluster.items("computeRackDefinitions")]
        for number, definition in enumerate(definitions, 0 if single is not None else 1):
            rack = _planned_rack(cluster, definition, number)
            servers = definition.items("bareMetalMachineConfigurationData")
            racks[id_key(rack.id)] = rack
            for server in servers:
                machine = _planned_machine(server, rack, reading)
                if machine is not None:
                    machines[id_key(f"{rack.id}/{machine.name}")] = machine
        _say_planned(cluster, reading, has_racks=bool(definitions))
    return racks, machines


def _say_planned(cluster: Item, reading: MachineReading, *, has_racks: bool) -> None:
    """Say once that the machines which a Nexus cluster defines stand in for captured ones."""
    nothing = "neither racks nor machines were captured, and this Nexus cluster defines none."
    roles = "" if reading.rack_skus else ", and as compute-plane, since no rack_skus.json tells the slots"
    planned = (
        f"no racks and machines were captured: those that it defines stand in, each taken as ready{roles}."
    )
    kind = "derived-at-reading" if has_racks else "missing-field"
    cluster.report("computeRackDefinitions", kind, planned if has_racks else nothing, Severity.WARNING)


def _planned_rack(cluster: Item, definition: Item, number: int) -> AzRack:
    network_rack = definition.text("networkRackId")
    name = name_of(network_rack) if network_rack else definition.text("rackSerialNumber")
    name = name or f"{cluster.text('name') or 'cluster'}-rack{number}"
    sku_id = definition.text("rackSkuId")
    return AzRack(
        name=name,
        id=name,
        availability_zone=definition.text("availabilityZone"),
        rack_sku_id=sku_id,
        machine_sku=machine_sku_of(sku_id),
    )


def _planned_machine(server: Item, rack: AzRack, reading: MachineReading) -> AzMachine | None:
    """A machine that a Nexus cluster defines, as if it were ready."""
    slot = server.needed_whole("rackSlot")
    if slot is None:
        return None
    sku, role = _server_in(rack, slot, reading.rack_skus)
    name = server.text("machineName") or f"{rack.name}-slot{slot:02d}"
    return AzMachine(
        name=name,
        id=f"{rack.id}/{name}",
        rack=rack.name,
        slot=slot,
        machine_sku=sku or rack.machine_sku,
        machine_sku_id=None,
        machine_name=server.text("machineName"),
        facts={**default_facts(), "roles": [role or COMPUTE]},
    )
