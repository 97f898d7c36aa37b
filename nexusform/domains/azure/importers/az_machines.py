"""Racks and machines of an export.

SKU names give a machine's hardware: its own, its rack's, or those of rack SKUs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.domains.azure.importers.arm_resources import (
    ArmItem,
    extract_name,
    iterate_named_items,
    iterate_unique_items,
    normalize_id,
)
from nexusform.domains.azure.importers.az_records import AzMachine, AzRack
from nexusform.domains.azure.importers.azure_fields import normalize_value, read_enum
from nexusform.json_data.plain_data import list_mappings
from nexusform.resource_types.machine_facts import EXPORTED_FACTS, get_default_facts
from nexusform.scheduling.racks.vms import UNKNOWN_STATE, MachineSku

# Parts of SKU names and their hardware, as published for near-edge racks.
SKU_HARDWARE: Final[tuple[tuple[str, str], ...]] = (
    ("r760", "bom-2.0"),
    ("vnearedge4", "bom-2.0"),
    ("r750", "bom-1.7.3"),
    ("vnearedge1", "bom-1.7.3"),
    ("vnearedge2", "bom-1.7.3"),
    ("vnearedge3", "bom-1.7.3"),
)
# Rack SKUs of undecided hardware: Microsoft's table has BOM 1.7.3 with R760 for this one.
_UNDECIDED_RACK_SKU: Final = re.compile(r"vnearedge4_.*7c3m")
_MODEL_IN_SKU: Final = re.compile(r"r\d{3}(?!\d)")
# A reference in an ARM template; with a value, it would have been replaced.
_PARAMETER: Final = re.compile(r"\[parameters\('([^']+)'\)\]")
COMPUTE: Final = "compute-plane"
MANAGEMENT: Final = "management-plane"
# Prefix of a machine's SKU id and its role, for exports before API 2024-07.
_ROLE_OF_SKU: Final = (("controller", MANAGEMENT), ("compute", COMPUTE))
_SIZE_IN_SKU: Final = re.compile(r"_(\d{1,3})c_(\d{1,4})gb(?:_|$)")


# Servers of a rack SKU by slot: machine SKU of the catalogue (None if absent) and role.
RackSku: TypeAlias = Mapping[int, tuple[str | None, str]]
_REQUIRED_MACHINE_FIELDS: Final = ("id", "rackId", "rackSlot")
AGGREGATOR: Final = "aggregator"
_RACK_SKU_HINT: Final = (
    " Rack SKUs may contain it: az networkcloud racksku list --output json > rack_skus.json"
)


def find_machine_sku(sku_id: str | None) -> str | None:
    """Find the catalogue's machine SKU for a SKU id, None if its name is not known."""
    name = extract_name(sku_id).lower()
    if _UNDECIDED_RACK_SKU.search(name):
        return None
    return next((sku for part, sku in SKU_HARDWARE if part in name), None)


def _names_compute_model(sku_id: str | None) -> bool:
    """Return whether a SKU id names the model of a compute machine (`Compute_DellR770`)."""
    name = extract_name(sku_id).lower()
    return find_role_in_sku(sku_id) == COMPUTE and _MODEL_IN_SKU.search(name) is not None


def find_role_in_sku(sku_id: str | None) -> str | None:
    """Find the role in the prefix of a machine's SKU id, None if absent."""
    name = extract_name(sku_id).lower()
    return next((role for start, role in _ROLE_OF_SKU if name.startswith(start)), None)


def parse_sku_size(sku_id: str | None) -> MachineSku | None:
    """Parse cores and memory in a SKU id (`Controller_DellR650_8C_128GB_2d8n`), assuming one cell.

    Return None if the id has no size.
    """
    match = _SIZE_IN_SKU.search(extract_name(sku_id).lower())
    if match is None:
        return None
    return MachineSku(
        name=extract_name(sku_id),
        cells=1,
        cpus_per_cell=int(match[1]),
        memory_gib_per_cell=int(match[2]),
        disk_gib=0,
    )


def read_rack_skus(items: Iterable[ArmItem]) -> dict[str, RackSku]:
    """Read the rack SKUs of `az networkcloud racksku list` by name in lower case.

    A rack SKU has the machine SKU and the role of each slot.
    """
    skus: dict[str, RackSku] = {}
    for name, item in iterate_named_items(items):
        servers: dict[int, tuple[str | None, str]] = {}
        for key, role in (("computeMachines", COMPUTE), ("controllerMachines", MANAGEMENT)):
            for server in item.read_objects(key):
                slot = server.read_number("rackSlot")
                if slot is not None:
                    servers[slot] = (find_machine_sku(server.read_text("model")), role)
        skus[normalize_id(name)] = servers
    return skus


def read_racks(items: Iterable[ArmItem]) -> dict[str, AzRack]:
    """Read the racks by lower-case id; report and skip a second rack of the same name."""
    racks: dict[str, AzRack] = {}
    for name, item in iterate_unique_items(items, "rack"):
        rack_id = item.read_text("id", name)
        racks[normalize_id(rack_id)] = _build_rack(item, name, rack_id)
    return racks


def _build_rack(item: ArmItem, name: str, rack_id: str) -> AzRack:
    sku_id = item.read_text("rackSkuId")
    return AzRack(
        name,
        rack_id,
        item.read_text("availabilityZone"),
        sku_id,
        find_machine_sku(sku_id),
        normalize_value("RackProperties.detailedStatus", item.read_text("detailedStatus", "")),
    )


def select_compute_racks(
    racks: Mapping[str, AzRack], machines: Iterable[AzMachine]
) -> tuple[AzRack, ...]:
    """Select all racks except aggregator racks without machines, sorted by name."""
    used_racks = {machine.rack for machine in machines}
    selected = []
    for rack in sorted(racks.values(), key=attrgetter("name")):
        is_aggregator = AGGREGATOR in str(rack.rack_sku_id).lower()
        if rack.name in used_racks or not is_aggregator:
            selected.append(rack)
    return tuple(selected)


class MachineReadOptions(Struct, frozen=True):
    """Options for reading machines.

    `racks` are by lower-case id, `by_sku_id` has user-defined machine SKUs by SKU id, and
    `rack_skus` are by name. With `has_rack_list` the list of racks was read, so an unknown rack
    is an error.
    """

    racks: Mapping[str, AzRack]
    by_sku_id: Mapping[str, str] = field(default_factory=dict)
    rack_skus: Mapping[str, RackSku] = field(default_factory=dict)
    has_rack_list: bool = True


def read_machines(items: Iterable[ArmItem], options: MachineReadOptions) -> dict[str, AzMachine]:
    """Read the machines by lower-case id.

    Report and skip a machine without name, rack or slot, and a second one of a name. Report a
    truncated list, and return {}.
    """
    options = replace(
        options, by_sku_id={key.strip().lower(): sku for key, sku in options.by_sku_id.items()}
    )
    item_list = list(items)
    if _report_truncated_machine_list(item_list):
        return {}
    machines: dict[str, AzMachine] = {}
    without_roles: list[tuple[ArmItem, AzMachine]] = []
    with_empty_roles: list[ArmItem] = []
    # Of unknown hardware, by SKU id.
    unknown: dict[str, list[tuple[ArmItem, AzMachine]]] = {}
    for name, item in iterate_unique_items(item_list, "machine"):
        machine = _read_machine(item, name, options)
        if machine is None:
            # It is reported, or is in an unread rack.
            continue
        machines[normalize_id(machine.id)] = machine
        if machine.machine_sku is None and machine.hardware is None:
            unknown.setdefault(machine.machine_sku_id or "", []).append((item, machine))
        if item.read_value("machineRoles") is None:
            without_roles.append((item, machine))
        elif not machine.facts["roles"]:
            with_empty_roles.append(item)
    for sku_id, unknown_machines in unknown.items():
        _report_unknown_sku(sku_id, unknown_machines, options)
    _report_derived_roles(without_roles)
    if with_empty_roles:
        count = len(with_empty_roles)
        with_empty_roles[0].report(
            "machineRoles",
            "machine-without-roles",
            f"{format_count(count, 'machine')} {select_word_form(count, 'has', 'have')} empty "
            "machineRoles: no VM is placed there. Check the machines in Azure, or capture again.",
            Severity.WARNING,
        )
    return machines


def _report_truncated_machine_list(items: Sequence[ArmItem]) -> bool:
    """Return True, with one finding, if all of several machines lack a required field."""
    missing_fields = [
        name
        for name in _REQUIRED_MACHINE_FIELDS
        if all(item.read_value(name) is None for item in items)
    ]
    if len(items) < 2 or not missing_fields:
        # The rack is complete, or a single machine.
        return False
    items[0].report(
        missing_fields[0],
        "missing-field",
        f"none of {len(items):,} machines has {' and '.join(missing_fields)}: the list contains "
        "only part of each machine (`az resource list`, or a --query). Capture it with: az "
        "networkcloud baremetalmachine list --resource-group MANAGED_RESOURCE_GROUP --output json",
    )
    return True


def _read_machine(item: ArmItem, name: str, options: MachineReadOptions) -> AzMachine | None:
    """Read a machine.

    Without an id, a slot or a known rack, report it and return None.
    """
    # VMs refer to the id.
    arm_id = item.read_required_text("id")
    rack_id = item.read_required_text("rackId")
    slot = item.read_required_number("rackSlot")
    if arm_id is None or rack_id is None or slot is None:
        return None  # reported above
    rack = options.racks.get(normalize_id(rack_id))
    if rack is None:
        # Else the missing list is reported.
        if options.has_rack_list:
            item.report(
                "rackId",
                "unknown-rack",
                f'the machine "{name}" is in the rack "{extract_name(rack_id)}", which is not in '
                "the list of racks. Capture both lists again at the same time.",
            )
        return None
    sku_id = item.read_text("machineSkuId")
    server_sku, slot_role = _find_server(rack, slot, options.rack_skus)
    # Most reliable first: mapping or catalogue by SKU id, size in the SKU id, server in the slot,
    # SKU of the rack.
    is_undecided = bool(_UNDECIDED_RACK_SKU.search(extract_name(rack.rack_sku_id).lower()))
    own_sku = None if is_undecided else find_machine_sku(sku_id)
    sku = options.by_sku_id.get((sku_id or "").strip().lower()) or own_sku
    # The id of a compute machine has no size for VMs: the host needs a part of it.
    is_other_model = _names_compute_model(sku_id)
    hardware = parse_sku_size(sku_id) if sku is None and not is_other_model else None
    if sku is None and hardware is None and not is_undecided and not is_other_model:
        sku = server_sku or rack.machine_sku
    facts = _read_machine_facts(item, name)
    # Before API 2024-07.
    if item.read_value("machineRoles") is None:
        facts["roles"] = [find_role_in_sku(sku_id) or slot_role]
    return AzMachine(
        name=name,
        id=arm_id,
        rack=rack.name,
        slot=slot,
        machine_sku=sku,
        machine_sku_id=sku_id,
        machine_name=item.read_text("machineName"),
        facts=facts,
        hardware=hardware,
        status_message=" ".join(item.read_text("detailedStatusMessage", "").split()) or None,
        runtime_version=item.read_text("machineClusterVersion", ""),
    )


def _read_machine_facts(item: ArmItem, machine: str) -> dict[str, Any]:
    """Read the facts of a machine by name, in Azure's spelling.

    An absent or unknown value is UNKNOWN_STATE: the machine then takes no new VM. Report absent
    ones; unknown ones are unread facts.
    """
    facts = dict(get_default_facts())
    absent: list[str] = []
    for fact in EXPORTED_FACTS:
        # A list; if absent, the caller derives it.
        if fact.name == "roles":
            facts["roles"] = list(parse_machine_roles(item.read_texts(fact.export_field)))
            continue
        text = item.read_text(fact.export_field)
        spellings = read_enum(f"BareMetalMachineProperties.{fact.export_field}")
        facts[fact.name] = spellings.get((text or "").casefold(), UNKNOWN_STATE)
        if not text:
            absent.append(fact.export_field)
    if absent:
        detail = (
            f'the machine "{machine}" has no {", ".join(sorted(absent))}: its state is unknown.'
        )
        item.report(min(absent), "unknown-machine-state", detail, Severity.WARNING)
    return facts


def _find_server(
    rack: AzRack, slot: int, rack_skus: Mapping[str, RackSku]
) -> tuple[str | None, str]:
    """Find machine SKU and role of the server in a slot of a rack SKU.

    (None, COMPUTE) if it is not listed there.
    """
    servers_by_slot = rack_skus.get(normalize_id(extract_name(rack.rack_sku_id)), {})
    return servers_by_slot.get(slot, (None, COMPUTE))


def _report_derived_roles(machines: Sequence[tuple[ArmItem, AzMachine]]) -> None:
    """Add one warning about machines without roles, at the first of them.

    Exports before API 2024-07 have such machines.
    """
    if not machines:
        # All have roles.
        return
    item, _ = machines[0]
    with_role = sum(find_role_in_sku(machine.machine_sku_id) is not None for _, machine in machines)
    assumed_count = len(machines) - with_role
    assumed = ""
    if assumed_count:
        assumed = (
            f"; {format_count(assumed_count, 'machine')} with an uninformative SKU id counts as "
            "compute-plane"
        )
    item.report(
        "name",
        "derived-value",
        f"{format_count(len(machines), 'machine')} without machineRoles (exports before API "
        "2024-07 have none): "
        f"the roles come from machineSkuId{assumed}.",
        Severity.WARNING,
    )


def _report_unknown_sku(
    sku_id: str, machines: Sequence[tuple[ArmItem, AzMachine]], options: MachineReadOptions
) -> None:
    """Report machines of unknown hardware with one SKU id, at the first of them.

    Suggest also a list of rack SKUs unless there is one.
    """
    remedy = (
        f'machine_sku_by_id = {{ "{sku_id}" = "bom-1.7.3" }}'
        if sku_id
        else "your own machine block"
    )
    hint = "" if options.rack_skus else _RACK_SKU_HINT
    item, machine = machines[0]
    rack_sku_ids = {rack.name: rack.rack_sku_id for rack in options.racks.values()}
    rack_sku = extract_name(rack_sku_ids.get(machine.rack))
    others = len(machines) - 1
    more = f" and of {format_count(others, 'other')}" if others else ""
    item.report(
        "machineSkuId" if sku_id else "name",
        "unknown-hardware",
        f'the hardware of the machine "{machine.name}"{more} is unknown: neither its SKU nor the '
        f'rack SKU "{rack_sku}" identifies it. Set it, for example with {remedy}.{hint}',
        Severity.WARNING,
    )


def parse_machine_roles(labels: Iterable[str]) -> tuple[str, ...]:
    """Parse the sorted roles in labels of the form `[PREFIX/]ROLE[=true]`.

    A label with another value is no role.
    """
    roles = set()
    for label in labels:
        name, _, flag = label.rpartition("/")[2].partition("=")
        if name and flag.lower() in {"", "true"}:
            roles.add(name)
    return tuple(sorted(roles))


def read_planned_site(
    clusters: Iterable[ArmItem], options: MachineReadOptions
) -> tuple[dict[str, AzRack], dict[str, AzMachine]]:
    """Read the racks and machines defined by Nexus clusters, by lower-case id, and warn about it.

    A site defined this way is a planned site.
    """
    racks: dict[str, AzRack] = {}
    machines: dict[str, AzMachine] = {}
    for cluster in clusters:
        # None without one.
        single = cluster.read_object("aggregatorOrSingleRackDefinition")
        definitions = [single, *cluster.read_objects("computeRackDefinitions")]
        for number, definition in enumerate(definitions):
            if definition is None:
                continue
            default_name = f"{cluster.read_text('name', 'cluster')}-rack{number}"
            serial_number = definition.read_text("rackSerialNumber", default_name)
            name = extract_name(definition.read_text("networkRackId")) or serial_number
            rack = _build_rack(definition, name, name)
            racks[normalize_id(rack.id)] = rack
            for server in definition.read_objects("bareMetalMachineConfigurationData"):
                machine = _read_planned_machine(server, rack, options)
                if machine is not None:
                    machines[normalize_id(f"{rack.id}/{machine.name}")] = machine
        problem_id = "derived-value"
        detail = (
            "racks and machines were not captured: those that it defines are used, each counted as "
            "ready"
        )
        if not options.rack_skus:
            detail += ", and as compute-plane, because rack_skus.json with the slots is missing"
        if not any(definitions):
            problem_id = "missing-field"
            detail = "racks and machines were not captured, and this Nexus cluster defines none"
            reference = _PARAMETER.fullmatch(str(cluster.read_value("computeRackDefinitions")))
            if reference is not None:
                detail = (
                    "racks and machines were not captured, and the template has no value of its "
                    f"parameter {reference[1]}. Set its defaultValue in the template"
                )
        cluster.report("computeRackDefinitions", problem_id, f"{detail}.", Severity.WARNING)
    return racks, machines


def count_defined_machines(cluster: ArmItem) -> int:
    """Count the machines in the rack definitions of a Nexus cluster.

    Malformed parts count as absent.
    """
    single = cluster.read_value("aggregatorOrSingleRackDefinition")
    definitions = [single, *list_mappings(cluster.read_value("computeRackDefinitions"))]
    return sum(
        len(list_mappings(definition, "bareMetalMachineConfigurationData"))
        for definition in definitions
    )


def _read_planned_machine(
    server: ArmItem, rack: AzRack, options: MachineReadOptions
) -> AzMachine | None:
    """Read a machine from the definition of a Nexus cluster; it counts as ready.

    Return None for a machine without a slot, which is reported.
    """
    slot = server.read_required_number("rackSlot")
    if slot is None:
        return None
    sku, role = _find_server(rack, slot, options.rack_skus)
    name = server.read_text("machineName", f"{rack.name}-slot{slot:02d}")
    return AzMachine(
        name=name,
        id=f"{rack.id}/{name}",
        rack=rack.name,
        slot=slot,
        machine_sku=sku or rack.machine_sku,
        machine_sku_id=None,
        machine_name=server.read_text("machineName"),
        facts={**get_default_facts(), "roles": [role]},
    )
