"""What to say when VMs do not fit: which pool, how many, and what stood in the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import PoolDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity, error
from nexusform.planning.vms.vm_object import VmObject
from nexusform.scheduling.racks.model import Demand
from nexusform.scheduling.racks.shortage import Shortage

MOST_CULPRITS = 5
DOES_NOT_FIT = "does-not-fit"


class Unplaced(Struct, frozen=True):
    """A pool of which not every VM vms a place. `placed` counts those that stand or were placed,
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
    for vms in objects:
        diagnostics += [_crowded(vms, reason) for reason in vms.crowded]
        for pool in vms.demand.pools if vms.demand is not None else ():
            shortage = _shortage(vms, pool)
            if shortage is not None:
                diagnostics.append(_error(vms, pool, shortage, left_out))
                unplaced.append(_unplaced(vms, pool, shortage))
    return Failures(tuple(diagnostics), tuple(unplaced))


def _shortage(vms: VmObject, pool: PoolDemand) -> Shortage | None:
    """What the first VM of a pool that vms no place fell short of; None when all have one."""
    keys = ((pool.pool, number) for number in pool.numbers)
    return next((vms.failed[key] for key in keys if key in vms.failed), None)


def _unplaced(vms: VmObject, pool: PoolDemand, shortage: Shortage) -> Unplaced:
    demand = vms.demand
    assert demand is not None
    keys = [(pool.pool, number) for number in pool.numbers]
    placed = sum(1 for key in keys if key in vms.placed)
    standing = sum(1 for key in keys if key in vms.standing)
    return Unplaced(
        vms.instance.address, pool, shortage.demand, demand.site_id, demand.cluster, placed, standing
    )


def _crowded(vms: VmObject, reason: str) -> Diagnostic:
    return vms.instance.problem(
        Problem(
            ("machine",),
            "pinned-vm-does-not-fit",
            f"The rule would not put {vms.instance.address} there: {reason}. It is counted on that "
            "machine anyway.",
            Severity.WARNING,
        )
    )


def _error(vms: VmObject, pool: PoolDemand, shortage: Shortage, left_out: Sequence[str] = ()) -> Diagnostic:
    total = len(pool.numbers)
    placed = sum(1 for number in pool.numbers if (pool.pool, number) in vms.placed)
    instance = vms.instance
    subject = instance.locate(pool.path)
    return error(
        DOES_NOT_FIT,
        shortage.reason + _left_out(left_out),
        subject,
        address=str(instance.address),
        block=instance.block.header if instance.block is not None else "",
        headline=f"{total} x {pool.sku.name} do not fit: {placed} of {total} placed",
        extra={"fit": {"pool": pool.pool, "wanted": total, "placed": placed, "binding": shortage.binding}},
    )


def _left_out(addresses: Sequence[str]) -> str:
    if not addresses:
        return ""
    named = ", ".join(addresses[:MOST_CULPRITS])
    more = f" and {len(addresses) - MOST_CULPRITS} more" if len(addresses) > MOST_CULPRITS else ""
    return f" -target or -exclude leave these out of the plan, so that their room is not seen: {named}{more}."
