"""sku-mismatch: a VM SKU that was made for other hardware than the pool's zones have.

SKUs of one type and one memory size differ in vCPUs: the one whose vCPUs per GiB are nearest to
those of a NUMA cell fills the cell evenly; any other strands vCPUs or memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nexusform.advice.facts import NAMED, Facts, PoolFacts, SiteFacts, finding
from nexusform.diagnostics import Diagnostic
from nexusform.scheduling.racks.vms import MIB_PER_GIB, Machine, VmSku
from nexusform.words import counted, listed

ID: Final = "sku-mismatch"


def rule(facts: Facts) -> list[Diagnostic]:
    """One finding for every pool whose SKU fits the hardware badly, or not at all."""
    findings: list[Diagnostic] = []
    for pool in facts.pools:
        site = facts.site(pool)
        machines = site.schedulable(pool.zones)
        if not machines or not pool.new_numbers:
            continue
        detail = _detail(pool, site, machines, facts.vm_skus)
        if detail:
            brief = (
                f"{pool.cluster}/{pool.pool}: {pool.sku.name} is made for other hardware than its zones have"
            )
            findings.append(finding(ID, detail, pool, brief=brief))
    return findings


def _detail(pool: PoolFacts, site: SiteFacts, machines: Sequence[Machine], skus: Sequence[VmSku]) -> str:
    """What is wrong in words, or "".

    That no machine lists the SKU is an error of a plan; it is said only where nothing is placed.
    """
    without = [machine for machine in machines if not _takes(machine, pool.sku)]
    if not without:
        return _uneven(pool, machines, skus)
    if len(without) == len(machines) and site.rehearse is not None:
        return ""
    return _unlisted(pool, without, machines)


def _takes(machine: Machine, sku: VmSku) -> bool:
    return machine.machine_sku is None or not sku.machine_skus or machine.machine_sku in sku.machine_skus


def _unlisted(pool: PoolFacts, without: Sequence[Machine], machines: Sequence[Machine]) -> str:
    hardware = listed(sorted({str(m.machine_sku) for m in without}), NAMED)
    if len(without) == len(machines):
        return (
            f"No machine in the zones of {pool.pool} of {pool.cluster} lists {pool.sku.name} (it needs "
            f"{listed(pool.sku.machine_skus, NAMED)}; they are {hardware}). The pool will not fit."
        )
    do_not = "does not" if len(without) == 1 else "do not"
    return (
        f"{counted(len(without), 'machine')} of {len(machines)} in the zones of {pool.pool} of "
        f"{pool.cluster} ({hardware}) {do_not} list {pool.sku.name} and cannot house its VMs. Choose a SKU "
        "that all of them list, or zones with one kind of hardware."
    )


def _uneven(pool: PoolFacts, machines: Sequence[Machine], skus: Sequence[VmSku]) -> str:
    """Words for a SKU that another of its type and size beats on all hardware; "" otherwise."""
    kinds = Counter((m.cpus_per_cell, m.memory_gib_per_cell, m.machine_sku) for m in machines)
    better: dict[str, tuple[VmSku, int, int]] = {}
    for cpus, memory, machine_sku in sorted(kinds, key=str):
        same_hardware = next(m for m in machines if m.machine_sku == machine_sku and m.cpus_per_cell == cpus)
        best = _nearest(pool.sku, same_hardware, skus)
        if best is None:
            return ""
        better[machine_sku or f"{cpus} vCPUs and {memory} GiB per cell"] = (best, cpus, memory)
    hardware, (best, cpus, memory) = next(iter(better.items()))
    whose = f"{pool.pool} of {pool.cluster}"
    have, would = _per_cell(pool.sku, cpus, memory), _per_cell(best, cpus, memory)
    return (
        f"{whose} asks for {pool.sku.name}: {have} of them fit a NUMA cell of {hardware} ({cpus} vCPUs, "
        f"{memory} GiB) and leave {_left(pool.sku, cpus, memory)} of it. {best.name} is made for this "
        f"hardware: {would} fit and leave {_left(best, cpus, memory)}."
    )


def _left(sku: VmSku, cpus: int, memory: int) -> str:
    number = _per_cell(sku, cpus, memory)
    return f"{cpus - number * sku.cpus_in_cell} vCPUs and {memory - number * sku.memory_in_cell} GiB"


def _nearest(sku: VmSku, machine: Machine, skus: Sequence[VmSku]) -> VmSku | None:
    """The SKU of the same type and memory that fills a cell more evenly, or None."""
    if not sku.kind:
        return None
    same = (sku.kind, sku.memory_gib, sku.numa_cells)
    alike = [other for other in skus if (other.kind, other.memory_gib, other.numa_cells) == same]
    fitting = [other for other in alike if _fits(machine, other)]

    def distance(other: VmSku) -> float:
        # |vCPUs / GiB of the VM - vCPUs / GiB of the cell|, without fractions: memory is equal.
        return abs(
            other.cpus_in_cell * machine.memory_gib_per_cell - machine.cpus_per_cell * other.memory_in_cell
        )

    best = min(fitting, key=lambda other: (distance(other), other.name), default=None)
    return best if best is not None and distance(best) < distance(sku) else None


def _fits(machine: Machine, sku: VmSku) -> bool:
    """Whether a cell of such a machine holds a VM of the SKU."""
    per_cell = _per_cell(sku, machine.cpus_per_cell, machine.memory_gib_per_cell)
    return _takes(machine, sku) and per_cell > 0


def _per_cell(sku: VmSku, cpus: int, memory: int) -> int:
    return min(cpus // max(sku.cpus_in_cell, 1), memory * MIB_PER_GIB // max(sku.mib_in_cell, 1))
