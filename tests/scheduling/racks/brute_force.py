"""Brute-force placement by the five steps, written from the text of the rule.

Every VM scans every machine. It shares no decision code with the product, only its types (Machine,
VmSku, Demand, ...).
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from nexusform.scheduling.racks.vms import (
    Demand,
    Hint,
    Machine,
    Placement,
    PlacementConstraints,
    RackSpread,
    VmName,
    VmSku,
)

# Arguments of pools that this module repeats, and those that no rule of Azure reads.
REPEATED_ARGUMENTS = frozenset({"zones", "hints"})
# Of Nova: an image, local disks, the host or zone that a server requests, and a request without a
# known value.
UNUSED_ARGUMENTS = frozenset(
    {"image", "flavor", "local_disks", "platform_host", "platform_zone", "unknown_request"}
)


def check_arguments() -> None:
    """Raise NotImplementedError for an argument of pools that this module does not know."""
    arguments = frozenset(PlacementConstraints.__struct_fields__)
    unknown = sorted(arguments - REPEATED_ARGUMENTS - UNUSED_ARGUMENTS)
    if unknown:
        raise NotImplementedError(
            f"BruteForce does not know {', '.join(unknown)} of PlacementConstraints. "
            "Repeat its rule in `place` and add it to REPEATED_ARGUMENTS."
        )


class PlacedVm(Struct):
    vm: VmName
    sku: VmSku
    machine: str
    cells: tuple[int, ...]


class BruteForce:
    def __init__(self, machines: list[Machine], spread: RackSpread, seed: int) -> None:
        check_arguments()
        self.machines = {machine.name: machine for machine in machines}
        self.spread = spread
        self.seed = seed
        self.vms: dict[int, PlacedVm] = {}
        self.count = 0

    def occupy(self, vm: VmName, sku: VmSku, placement: Placement) -> int:
        self.vms[self.count] = PlacedVm(vm, sku, placement.machine, placement.cells)
        self.count += 1
        return self.count - 1

    def release(self, handle: int) -> None:
        del self.vms[handle]

    def place(self, demand: Demand) -> tuple[int, Placement] | None:
        candidates = [
            m
            for m in self.machines.values()
            if not m.unschedulable_reason and self.fits(demand.sku, m)
        ]
        if demand.zones is not None:
            candidates = [m for m in candidates if m.availability_zone in demand.zones]
        candidates = [
            m for m in candidates if not any(h.is_hard and is_violated(h, m) for h in demand.hints)
        ]
        if any(m.name != demand.last_resort for m in candidates):
            candidates = [m for m in candidates if m.name != demand.last_resort]
        if not candidates:
            return None
        rack = min({m.rack for m in candidates}, key=lambda rack: self.rack_key(demand, rack))
        candidates = [m for m in candidates if m.rack == rack]
        machine = min(candidates, key=lambda m: self.machine_key(demand, m))
        fitting = sorted(
            self.fitting(demand.sku, machine), key=lambda c: (self.free(machine, c)[1], c)
        )
        cells = tuple(sorted(fitting[: demand.sku.numa_cells]))
        placement = Placement(machine.name, machine.rack, machine.availability_zone, cells)
        return self.occupy(demand.vm, demand.sku, placement), placement

    def on(self, *names: str) -> list[PlacedVm]:
        return [vm for vm in self.vms.values() if vm.machine in names]

    def free(self, machine: Machine, cell: int) -> tuple[int, int]:
        inside = [vm.sku for vm in self.on(machine.name) if cell in vm.cells]
        cpus = machine.cpus_per_cell - sum(
            -(-(s.vcpus + s.emulator_vcpus) // s.numa_cells) for s in inside
        )
        memory = machine.memory_gib_per_cell - sum(-(-s.memory_gib // s.numa_cells) for s in inside)
        return max(cpus, 0), max(memory, 0)

    def fitting(self, sku: VmSku, machine: Machine) -> list[int]:
        cpus = -(-(sku.vcpus + sku.emulator_vcpus) // sku.numa_cells)
        memory = -(-sku.memory_gib // sku.numa_cells)
        return [
            cell
            for cell in range(machine.cells)
            if self.free(machine, cell)[0] >= cpus
            and self.free(machine, cell)[1] >= memory
            and self.vfs(machine, cell) >= -(-sku.vfs // sku.numa_cells)
        ]

    def vfs(self, machine: Machine, cell: int) -> int:
        inside = [vm.sku for vm in self.on(machine.name) if cell in vm.cells]
        return max(machine.vfs_per_cell - sum(-(-s.vfs // s.numa_cells) for s in inside), 0)

    def fits(self, sku: VmSku, machine: Machine) -> bool:
        if (
            machine.machine_sku is not None
            and sku.machine_skus
            and machine.machine_sku not in sku.machine_skus
        ):
            return False
        disk = machine.disk_gib - sum(vm.sku.disk_gib for vm in self.on(machine.name))
        return max(disk, 0) >= sku.disk_gib and len(self.fitting(sku, machine)) >= sku.numa_cells

    def rack_key(self, demand: Demand, rack: str) -> tuple[int, int, int, int, int, bytes]:
        names = [m.name for m in self.machines.values() if m.rack == rack]
        there = self.on(*names)
        soft = sum(
            not h.is_hard and h.scope == "Rack" and (rack in h.racks) != h.is_affinity
            for h in demand.hints
        )
        cluster = sum(vm.vm.owner == demand.vm.owner for vm in there)
        pool = sum((vm.vm.owner, vm.vm.pool) == (demand.vm.owner, demand.vm.pool) for vm in there)
        memory = sum(vm.sku.memory_gib for vm in there)
        if self.spread != "cluster":
            cluster = 0
        return soft, cluster, pool, len(there), memory, self.tie(demand.vm, rack)

    def machine_key(
        self, demand: Demand, machine: Machine
    ) -> tuple[int, int, int, bool, int, bytes]:
        there = self.on(machine.name)
        soft = sum(
            not h.is_hard and h.scope == "Machine" and (machine.name in h.machines) != h.is_affinity
            for h in demand.hints
        )
        cluster = sum(vm.vm.owner == demand.vm.owner for vm in there)
        pool = sum((vm.vm.owner, vm.vm.pool) == (demand.vm.owner, demand.vm.pool) for vm in there)
        company = any(vm.sku.extra_large and vm.vm.owner != demand.vm.owner for vm in there)
        memory = sum(vm.sku.memory_gib for vm in there)
        alone = demand.sku.extra_large and not company
        return soft, cluster, pool, alone, memory, self.tie(demand.vm, machine.name)

    def tie(self, vm: VmName, candidate: str) -> bytes:
        text = "|".join([str(self.seed), vm.cluster, vm.pool, str(vm.number), candidate])
        return blake2b(text.encode("utf-8"), digest_size=8).digest()


def is_violated(hint: Hint, machine: Machine) -> bool:
    inside = (
        machine.name in hint.machines if hint.scope == "Machine" else machine.rack in hint.racks
    )
    return inside != hint.is_affinity
