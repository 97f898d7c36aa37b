"""What to say when VMs do not fit: which pool, how many, and what stood in the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import PoolDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity, error
from nexusform.planning.vms.vm_object import VmObject
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.model import Demand
from nexusform.scheduling.racks.shortage import Binding, Shortage

MOST_CULPRITS = 5


class Unplaced(Struct, frozen=True):
    """A pool of which not every VM found a place. `placed` counts those that stand or were placed,
    `standing` those that stood before.
    """

    address: Address
    pool: PoolDemand
    demand: Demand
    site_id: str
    cluster: str
    placed: int
    standing: int


class Failures(Struct, frozen=True):
    """The errors, and every pool that failed."""

    diagnostics: tuple[Diagnostic, ...]
    unplaced: tuple[Unplaced, ...]


def fit_failures(objects: Iterable[VmObject], left_out: Sequence[str] = ()) -> Failures:
    """One error per pool that does not fit, and a warning for each pinned VM that does not. `left_out` are
    the racks and machines that -target or -exclude keep out of the plan.
    """
    diagnostics: list[Diagnostic] = []
    unplaced = []
    for found in objects:
        if found.crowded:
            diagnostics += [_crowded(found, reason) for reason in found.crowded]
        if found.demand is None:
            continue
        for pool in found.demand.pools:
            shortage = next(
                (found.failed[k] for n in pool.numbers if (k := (pool.pool, n)) in found.failed), None
            )
            if shortage is not None:
                diagnostics.append(_error(found, pool, shortage, left_out))
                unplaced.append(_unplaced(found, pool, shortage))
    return Failures(tuple(diagnostics), tuple(unplaced))


def _unplaced(found: VmObject, pool: PoolDemand, shortage: Shortage) -> Unplaced:
    assert found.demand is not None
    keys = [(pool.pool, number) for number in pool.numbers]
    placed = sum(1 for key in keys if key in found.placed)
    standing = sum(1 for key in keys if key in found.standing)
    wanted = found.demand
    return Unplaced(
        found.instance.address, pool, shortage.demand, wanted.site_id, wanted.cluster, placed, standing
    )


def _crowded(found: VmObject, reason: str) -> Diagnostic:
    return found.instance.problem(
        Problem(
            ("machine",),
            "pinned-vm-does-not-fit",
            f"The rule would not put {found.instance.address} there: {reason}. It is counted on that "
            "machine anyway.",
            Severity.WARNING,
        )
    )


def _error(found: VmObject, pool: PoolDemand, shortage: Shortage, left_out: Sequence[str] = ()) -> Diagnostic:
    total = len(pool.numbers)
    placed = sum(1 for number in pool.numbers if (pool.pool, number) in found.placed)
    instance = found.instance
    subject = instance.locate(pool.path)
    return error(
        "does-not-fit",
        explain_shortage(pool, shortage) + _left_out(left_out),
        subject,
        address=str(instance.address),
        block=instance.block.header if instance.block is not None else "",
        headline=f"{total} x {pool.sku.name} do not fit: {placed} of {total} placed",
        extra={
            "fit": {"pool": pool.pool, "wanted": total, "placed": placed, "binding": shortage.binding.value}
        },
    )


def _left_out(addresses: Sequence[str]) -> str:
    if not addresses:
        return ""
    named = ", ".join(addresses[:MOST_CULPRITS])
    more = f" and {len(addresses) - MOST_CULPRITS} more" if len(addresses) > MOST_CULPRITS else ""
    return f" -target or -exclude leave these out of the plan, so that their room is not seen: {named}{more}."


def explain_shortage(pool: PoolDemand, shortage: Shortage) -> str:
    """The binding constraint in sentences."""
    sku, zones = pool.sku, _zones(shortage)
    if shortage.binding is Binding.UNKNOWN_ZONES:
        return f"No rack is in {zones}; the site's zones are {', '.join(shortage.site_zones) or 'none'}."
    if shortage.binding is Binding.NO_MACHINE:
        return f"There is no machine on the site ({zones})."
    if shortage.binding is Binding.NOT_SCHEDULABLE:
        why = ", ".join(f"{count} {reason}" for reason, count in shortage.refusals)
        return f"None of the {shortage.in_zones} machines on the site ({zones}) takes new VMs: {why}."
    if shortage.binding is Binding.HARDWARE:
        return _hardware(pool, shortage)
    if shortage.binding is Binding.DISK:
        return f"No machine on the site ({zones}) has {sku.disk_gib:,} GiB of disk left."
    if shortage.binding is Binding.HINTS:
        return "Hard placement hints refuse every machine that has room: " + "; ".join(shortage.hints) + "."
    return _cells(pool, shortage)


def _zones(shortage: Shortage) -> str:
    zones = shortage.demand.zones
    return f"zones: {', '.join(sorted(zones, key=str.encode))}" if zones else "zones: all"


def _hardware(pool: PoolDemand, shortage: Shortage) -> str:
    have = ", ".join(shortage.machine_skus)
    text = (
        f"{pool.sku.name} runs on {', '.join(pool.sku.machine_skus)} only, and the machines here are {have}."
    )
    listed = [CATALOGUES[NEWEST].largest_listed(pool.sku.kind, machine) for machine in shortage.machine_skus]
    largest = max(
        (s for s in listed if s is not None), key=lambda s: (s.host_vcpus, s.memory_gib), default=None
    )
    if largest is not None:
        text += f" The largest SKU of the same type that this hardware lists is {largest.name}."
    return text


def _cells(pool: PoolDemand, shortage: Shortage) -> str:
    sku = pool.sku
    size = f"{sku.cpus_in_cell} vCPUs and {sku.memory_in_cell} GiB"
    if sku.numa_cells > 1:
        cells = f"{sku.numa_cells} NUMA cells of {size} each"
        text = f"No machine with {cells} is free on the site ({_zones(shortage)})."
    else:
        text = f"No NUMA cell with {size} is free on the site ({_zones(shortage)})."
    if shortage.empty_machines == 0:
        text += " No machine there could hold one even when empty."
    elif shortage.broken_cells:
        culprits = shortage.broken_by[:MOST_CULPRITS]
        names = ", ".join(f"{b.cluster}/{b.pool} ({b.cells})" for b in culprits)
        more = sum(b.cells for b in shortage.broken_by[MOST_CULPRITS:])
        rest = f", others ({more})" if more else ""
        text += f" {shortage.broken_cells} cells hold only smaller VMs; they were broken by {names}{rest}."
    return text
