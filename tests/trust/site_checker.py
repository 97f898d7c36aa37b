"""Checks of the placement rules on a site: cells, zones, hints and triggers.

They use only the configuration data and the state document, and are written from the text of the
rules without code of the package.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# SKU: host vCPUs, GiB, disk in GiB, NUMA cells (the SKU page). A machine has two such cells
# and its disk.
SKUS: Mapping[str, tuple[int, int, int, int]] = {
    "NC_G6_28_v1": (6, 28, 300, 1),
    "NC_G12_56_v1": (12, 56, 300, 1),
    "NC_G24_112_v1": (24, 112, 300, 1),
    "NC_P22_112_v1": (24, 112, 300, 1),
    "NC_P46_224_v1": (48, 224, 300, 1),
    "NC_E94_448_v1": (96, 448, 300, 2),
}
CELLS = 2
CPUS = 48
MEMORY = 224
DISK = 3500


class Vm(NamedTuple):
    """A VM of the state, with its owner and placement."""

    owner: str
    pool: str
    number: int
    size: tuple[int, int, int, int]
    machine: str
    rack: str
    zone: str
    cells: tuple[int, ...]


def list_vms(state: Mapping[str, Any]) -> dict[str, Vm]:
    """Return every VM of a state document by name."""
    vms: dict[str, Vm] = {}
    for resource in state["resources"]:
        for instance in resource["instances"]:
            values = instance.get("attributes") or {}
            address = f"{resource['type']}.{resource['name']}"
            if resource["type"] == "nexus_kubernetes_cluster":
                for name, node in values["nodes"].items():
                    size = SKUS[node["vm_sku_name"]]
                    place = (node["machine"], node["rack"], node["availability_zone"])
                    vms[name] = Vm(
                        address,
                        node["pool"],
                        _number(name),
                        size,
                        *place,
                        tuple(node["numa_cells"]),
                    )
            elif resource["type"] == "nexus_virtual_machine" and values["machine"]:
                size = (
                    values["cpu_cores"],
                    values["memory_gib"],
                    values["disk_gib"],
                    values["numa_cells"],
                )
                place = (values["machine"], values["rack"], values["availability_zone"])
                vms[values["name"]] = Vm(address, "", 0, size, *place, tuple(values["cells"]))
    return vms


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def list_machines(site: Mapping[str, Any]) -> dict[str, str]:
    """Return every machine of the site with its rack."""
    return {
        f"{rack}-bm{slot:02}": rack
        for rack, count in site["racks"].items()
        for slot in range(1, count + 1)
    }


def find_overcommitted_cells(vms: Mapping[str, Vm]) -> Iterator[str]:
    """Yield violations of capacity and cells.

    A cell or disk is above its capacity, or a VM has the wrong number of cells.
    """
    cpus: Counter[tuple[str, int]] = Counter()
    memory: Counter[tuple[str, int]] = Counter()
    disk: Counter[str] = Counter()
    for name, vm in vms.items():
        vcpus, gib, root, wanted = vm.size
        if (
            len(vm.cells) != wanted
            or sorted(set(vm.cells)) != list(vm.cells)
            or max(vm.cells) >= CELLS
        ):
            yield f"{name}: cells {vm.cells}"
        disk[vm.machine] += root
        for cell in vm.cells:
            cpus[vm.machine, cell] += math.ceil(vcpus / wanted)
            memory[vm.machine, cell] += math.ceil(gib / wanted)
    yield from (f"{where}: {used} vCPUs" for where, used in cpus.items() if used > CPUS)
    yield from (f"{where}: {used} GiB" for where, used in memory.items() if used > MEMORY)
    yield from (f"{where}: {used} GiB of disk" for where, used in disk.items() if used > DISK)


def find_misplaced_vms(site: Mapping[str, Any], vms: Mapping[str, Vm]) -> Iterator[str]:
    """Yield violations of requested places.

    A requested VM is missing, or a VM is on a wrong machine or outside the zones of its pool.
    """
    machines = list_machines(site)
    asked = {name: zones for name, (_, zones) in list_requested_vms(site).items()}
    yield from (f"{name}: does not stand" for name in asked.keys() - vms.keys())
    for name, vm in vms.items():
        if name not in asked:
            yield f"{name}: nobody asked for it"
        elif machines.get(vm.machine) != vm.rack or vm.zone != vm.rack:
            yield f"{name}: {vm.machine} is not on {vm.rack} in zone {vm.zone}"
        elif asked[name] and vm.zone not in asked[name]:
            yield f"{name}: in zone {vm.zone}, not in {asked[name]}"
        elif vm.machine in site["evacuated"]:
            yield f"{name}: on {vm.machine}, which is evacuated"


def list_requested_vms(
    site: Mapping[str, Any],
) -> dict[str, tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return every VM requested by the site, by name.

    Each has its pool (or the VM) and its zones, () = all.
    """
    asked: dict[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {}
    for cluster, values in site["clusters"].items():
        for pool, terms in values["pools"].items():
            for number in range(terms["count"]):
                asked[f"{cluster}-{pool}-{number}"] = (terms, tuple(terms["zones"]))
    asked.update({name: (values, ()) for name, values in site["vms"].items()})
    return asked


def find_violated_hints(site: Mapping[str, Any], vms: Mapping[str, Vm]) -> Iterator[str]:
    """Yield hard hints violated by the places of a VM and all VMs of its target."""
    for name, values in site["vms"].items():
        for kind, target, scope in values["hints"]:
            others = [
                vm
                for other, vm in vms.items()
                if other == target or vm.owner.endswith(f".{target}")
            ]
            here = vms[name].machine if scope == "Machine" else vms[name].rack
            there = {vm.machine if scope == "Machine" else vm.rack for vm in others}
            if (here in there) is not (kind == "Affinity"):
                yield f"{name}: {kind} {scope} to {target}, on {here}, {target} on {sorted(there)}"


def get_trigger(name: str, vm: Vm, before: Mapping[str, Any], site: Mapping[str, Any]) -> str:
    """Return the first reason for removing or re-creating an existing VM; "" if it stays.

    Reasons are in the order of the rules.
    """
    cluster = vm.owner.rpartition(".")[2]
    whole = before["vms"].get(name) if not vm.pool else before["clusters"][cluster]
    now = site["vms"].get(name) if not vm.pool else site["clusters"].get(cluster)
    if now is None or whole is None:
        return "cluster_removed"
    if vm.pool and vm.pool not in now["pools"]:
        return "pool_removed"
    old, new = (whole["pools"][vm.pool], now["pools"][vm.pool]) if vm.pool else (whole, now)
    argument = next(
        (key for key in ("sku", "zones", "labels") if vm.pool and old[key] != new[key]), ""
    )
    reasons = {
        "scale_in": bool(vm.pool) and vm.number >= new["count"],
        "heal": name == site["healed"],
        "cluster_replaced": vm.owner == site["tainted"] or (not vm.pool and old != new),
        "machine_removed": vm.machine not in list_machines(site),
        "machine_evacuated": vm.machine in site["evacuated"],
        "kubernetes_version_changed": bool(vm.pool) and whole["version"] != now["version"],
        f"{argument}_changed": bool(argument),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")
