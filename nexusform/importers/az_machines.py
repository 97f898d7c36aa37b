"""Racks and bare-metal machines of an export, joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nexusform.diagnostics import Severity
from nexusform.importers.arm import Item, id_key, name_of
from nexusform.importers.az_model import AzMachine, AzRack

# Parts of rack SKU names and the hardware that they stand for, as published for near-edge racks.
RACK_SKU_HARDWARE: Final[tuple[tuple[str, str], ...]] = (
    ("r760", "bom-2.0"),
    ("vnearedge4", "bom-2.0"),
    ("r750", "bom-1.7.3"),
    ("vnearedge1", "bom-1.7.3"),
    ("vnearedge2", "bom-1.7.3"),
    ("vnearedge3", "bom-1.7.3"),
)
AGGREGATOR: Final = "aggregator"


def machine_sku_of_rack(rack_sku_id: str | None) -> str | None:
    """The catalogue's machine SKU for a rack SKU id; None when its name tells nothing."""
    name = name_of(rack_sku_id or "").lower()
    return next((sku for part, sku in RACK_SKU_HARDWARE if part in name), None)


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
            name, rack_id, item.text("availabilityZone"), sku_id, machine_sku_of_rack(sku_id)
        )
    return racks


def compute_racks(racks: Mapping[str, AzRack], machines: Iterable[AzMachine]) -> tuple[AzRack, ...]:
    """The racks by name, without aggregator racks that hold no machine."""
    used = {machine.rack for machine in machines}
    kept = [r for r in racks.values() if r.name in used or AGGREGATOR not in (r.rack_sku_id or "").lower()]
    return tuple(sorted(kept, key=lambda rack: rack.name))


def read_machines(
    items: Iterable[Item], racks: Mapping[str, AzRack], machine_sku_by_id: Mapping[str, str]
) -> dict[str, AzMachine]:
    """The machines by id key; those without a name, a rack or a slot are reported and left out."""
    by_sku_id = {key.strip().lower(): sku for key, sku in machine_sku_by_id.items()}
    machines: dict[str, AzMachine] = {}
    names: set[str] = set()
    for item in items:
        machine = _machine(item, racks, by_sku_id)
        if machine is None:
            continue
        if machine.name in names:
            item.report("name", "duplicate-machine", f'a machine "{machine.name}" stands further up already.')
            continue
        names.add(machine.name)
        machines[id_key(machine.id)] = machine
    return machines


def _machine(item: Item, racks: Mapping[str, AzRack], by_sku_id: Mapping[str, str]) -> AzMachine | None:
    name = item.needed_text("name")
    rack_id = item.needed_text("rackId")
    slot = item.needed_whole("rackSlot")
    if name is None or rack_id is None or slot is None:
        return None
    rack = racks.get(id_key(rack_id))
    if rack is None:
        item.report(
            "rackId",
            "unknown-rack",
            f'the machine "{name}" stands in the rack "{name_of(rack_id)}", which the list of racks does not '
            "have. Capture both lists again, at one time.",
        )
        return None
    sku_id = item.text("machineSkuId")
    sku = by_sku_id.get((sku_id or "").strip().lower()) or rack.machine_sku
    if sku is None:
        _report_unknown_sku(item, name, sku_id, rack)
    states = {key: item.text(key) for key in ("cordonStatus", "powerState", "readyState", "detailedStatus")}
    absent = sorted(key for key, state in states.items() if state is None)
    if absent:
        item.report(
            absent[0],
            "unknown-machine-state",
            f'the machine "{name}" has no {", ".join(absent)}; it counts as not ready.',
            Severity.WARNING,
        )
    return AzMachine(
        name=name,
        id=item.text("id") or name,
        rack=rack.name,
        slot=slot,
        machine_sku=sku,
        machine_sku_id=sku_id,
        machine_name=item.text("machineName"),
        roles=plain_roles(item.texts("machineRoles")),
        cordon_status=states["cordonStatus"] or "Uncordoned",
        power_state=states["powerState"] or "On",
        ready_state="False" if absent else str(states["readyState"]),
        detailed_status=states["detailedStatus"] or "Provisioned",
    )


def _report_unknown_sku(item: Item, name: str, sku_id: str | None, rack: AzRack) -> None:
    way_out = (
        f'machine_sku_by_id = {{ "{sku_id}" = "bom-1.7.3" }}' if sku_id else "a machine block of your own"
    )
    item.report(
        "machineSkuId" if sku_id else "name",
        "unknown-hardware",
        f'what hardware the machine "{name}" is, neither its SKU nor the rack SKU '
        f'"{name_of(rack.rack_sku_id or "")}" tells. Say it, for example with {way_out}.',
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
