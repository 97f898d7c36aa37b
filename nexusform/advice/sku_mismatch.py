"""sku-mismatch: a VM SKU made for other hardware than the pool's zones have.

SKUs of one type and one memory size differ in vCPUs: the one with vCPUs per GiB nearest to those of
a NUMA cell fills the cell evenly; any other strands vCPUs or memory.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.scheduling.racks.vms import MIB_PER_GIB, Machine, VmSku

ID: Final = "sku-mismatch"

# A SKU, with the vCPUs and the GiB of a NUMA cell of the hardware.
_BetterSku: TypeAlias = tuple[VmSku, int, float]


class _HardwareMatch(NamedTuple):
    """Machines that do not list a SKU, and the SKUs that fit better, by hardware."""

    unlisted_machines: list[Machine]
    better: Mapping[str, _BetterSku]


def check(facts: LintInput) -> list[Diagnostic]:
    """Return a finding per pool with a SKU that does not match the machines of its zones.

    The machines do not list the SKU, or another SKU fits them better.
    """
    findings: list[Diagnostic] = []
    # By site and zones, and by SKU, too: many pools share them.
    machines_by_zones: dict[tuple[str, frozenset[str] | None], list[Machine]] = {}
    matches: dict[tuple[str, frozenset[str] | None, VmSku], _HardwareMatch] = {}
    for pool in facts.pools:
        if not facts.is_reported(pool):
            continue
        site = facts.get_site(pool)
        key = (pool.site_id, pool.zones)
        if key not in machines_by_zones:
            machines_by_zones[key] = site.list_schedulable(pool.zones)
        machines = machines_by_zones[key]
        if not machines:
            # No machine to compare.
            continue
        match_key = (*key, pool.sku)
        if match_key not in matches:
            matches[match_key] = _match_hardware(pool.sku, machines, facts.vm_skus)
        unlisted_machines, better = matches[match_key]
        hardware = format_list(
            sorted({str(machine.machine_sku) for machine in unlisted_machines}), MAXIMUM_ITEMS
        )
        if not unlisted_machines:
            detail = _format_inefficient_sku(pool, better)
        elif len(unlisted_machines) < len(machines):
            verb = select_word_form(len(unlisted_machines), "does not", "do not")
            detail = (
                f"{format_count(len(unlisted_machines), 'machine')} of {len(machines)} in the "
                f"zones of {pool.pool} of {pool.cluster} ({hardware}) {verb} list {pool.sku.name} "
                "and cannot run its VMs. Choose a SKU that all of them list, or zones with one "
                "kind of hardware."
            )
        elif site.usage is None:
            detail = (
                f"No machine in the zones of {pool.pool} of {pool.cluster} lists {pool.sku.name} "
                f"(it needs {format_list(pool.sku.machine_skus, MAXIMUM_ITEMS)}; they are "
                f"{hardware}). The pool will not fit."
            )
        else:
            # In a plan, this is an error already.
            continue
        if detail:
            summary = (
                f"{pool.cluster}/{pool.pool}: {pool.sku.name} is designed for other hardware than "
                "its zones have"
            )
            findings.append(build_finding(ID, detail, pool, summary=summary))
    return findings


def _is_sku_supported_by_machine(machine: Machine, sku: VmSku) -> bool:
    return not sku.machine_skus or machine.machine_sku in (None, *sku.machine_skus)  # None: unknown


def _match_hardware(
    sku: VmSku, machines: Sequence[Machine], skus: Sequence[VmSku]
) -> _HardwareMatch:
    """Compare a SKU with the hardware of machines."""
    unlisted_machines = [
        machine for machine in machines if not _is_sku_supported_by_machine(machine, sku)
    ]
    if unlisted_machines:
        return _HardwareMatch(unlisted_machines, {})
    return _HardwareMatch([], _find_better_skus(sku, machines, skus))


def _find_better_skus(
    sku: VmSku, machines: Sequence[Machine], skus: Sequence[VmSku]
) -> dict[str, _BetterSku]:
    """Return SKUs of the same type and size that are better on all hardware of the machines.

    The keys name the hardware. Return {} if the SKU is best on some of it.
    """
    # One machine of each.
    kinds = {(m.cpus_per_cell, m.memory_gib_per_cell, m.machine_sku): m for m in machines}
    better: dict[str, _BetterSku] = {}
    for cpus, memory, machine_sku in sorted(kinds, key=str):
        best = _find_better_fitting_sku(sku, kinds[cpus, memory, machine_sku], skus)
        # The SKU is best on this hardware.
        if best is None:
            return {}
        better[machine_sku or f"{cpus} vCPUs and {memory} GiB per cell"] = (best, cpus, memory)
    return better


def _format_inefficient_sku(pool: LintPool, better: Mapping[str, _BetterSku]) -> str:
    """Return a sentence on a SKU that is better on all hardware, "" without such a SKU."""
    if not better:
        return ""
    # One example is enough.
    hardware, (best, cpus, memory) = next(iter(better.items()))
    pool_text = f"{pool.pool} of {pool.cluster}"
    current_count = _count_vms_per_cell(pool.sku, cpus, memory)
    better_count = _count_vms_per_cell(best, cpus, memory)
    return (
        f"{pool_text} asks for {pool.sku.name}: {current_count} of them fit a NUMA cell of "
        f"{hardware} ({cpus} vCPUs, {memory} GiB) and leave "
        f"{_format_cell_remainder(pool.sku, cpus, memory)} of it. {best.name} is designed for this "
        f"hardware: {better_count} fit and leave {_format_cell_remainder(best, cpus, memory)}."
    )


def _format_cell_remainder(sku: VmSku, cpus: int, memory: float) -> str:
    """Format the vCPUs and memory left in a NUMA cell with as many VMs of a SKU as fit."""
    number = _count_vms_per_cell(sku, cpus, memory)
    return (
        f"{cpus - number * sku.cpus_in_cell} vCPUs and {memory - number * sku.memory_in_cell} GiB"
    )


def _find_better_fitting_sku(sku: VmSku, machine: Machine, skus: Sequence[VmSku]) -> VmSku | None:
    """Return the SKU that fits a cell of the machine best; None if none fits better than `sku`.

    It must have the same type, memory and number of NUMA cells. The closer its vCPUs per GiB are to
    those of the cell, the better it fits.
    """
    # The SKU is of no known type.
    if not sku.kind:
        return None
    key = (sku.kind, sku.memory_gib, sku.numa_cells)

    def compute_distance(candidate: VmSku) -> float:
        # |vCPUs / GiB of the VM - vCPUs / GiB of the cell|, without fractions: memory is equal.
        return abs(
            candidate.cpus_in_cell * machine.memory_gib_per_cell
            - machine.cpus_per_cell * candidate.memory_in_cell
        )

    better = []
    for candidate in skus:
        is_same_size = (candidate.kind, candidate.memory_gib, candidate.numa_cells) == key
        if not is_same_size or not _is_sku_supported_by_machine(machine, candidate):
            continue
        count = _count_vms_per_cell(candidate, machine.cpus_per_cell, machine.memory_gib_per_cell)
        if count > 0 and compute_distance(candidate) < compute_distance(sku):
            better.append(candidate)
    return min(
        better, key=lambda candidate: (compute_distance(candidate), candidate.name), default=None
    )


def _count_vms_per_cell(sku: VmSku, cpus: int, memory: float) -> int:
    return min(
        cpus // max(sku.cpus_in_cell, 1), int(memory * MIB_PER_GIB) // max(sku.mib_in_cell, 1)
    )
