"""The last System pool of a cluster: a change that re-places its VMs is delete and create of the pool on
Azure, and a cluster needs one at all times.
"""

from __future__ import annotations

from collections.abc import Iterable

from nexusform.diagnostics import Diagnostic
from nexusform.plain_data import Path
from nexusform.planning.vms.triggers import changed_argument
from nexusform.planning.vms.vm_phase import VmObject


def last_system_pools(objects: Iterable[VmObject]) -> list[Diagnostic]:
    """Errors for pools that are the only System pool of their cluster and would be replaced."""
    found = list(objects)
    systems: dict[str, int] = {}
    for vms in found:
        for pool in vms.before.pools if vms.before is not None else ():
            if pool.system and vms.before is not None:
                systems[vms.before.owner] = systems.get(vms.before.owner, 0) + 1
    problems = []
    for vms in found:
        if vms.before is None or vms.wanted is None or vms.instance.replaced or vms.instance.block is None:
            continue
        if systems.get(vms.before.owner) != 1:
            continue
        wanted = {pool.pool: pool for pool in vms.wanted.pools}
        for pool in vms.before.pools:
            after = wanted.get(pool.pool)
            # Another trigger may stand before this one for every VM; the pool is replaced all the same.
            changed = after is not None and bool(changed_argument(pool, after))
            if pool.system and changed and any(key[0] == pool.pool for key in vms.standing):
                problems.append(_refusal(vms, pool.pool, pool.path))
    return problems


def _refusal(vms: VmObject, pool: str, path: Path) -> Diagnostic:
    assert vms.before is not None
    cluster = vms.before.cluster
    return vms.instance.error(
        "last-system-pool-cannot-be-replaced",
        f"The change deletes and creates {pool}, the only pool of {cluster} with mode System, and a cluster "
        "needs one at all times. Take two steps: add a second pool with mode System and apply; then change "
        f"{pool} and apply again.",
        path,
    )
