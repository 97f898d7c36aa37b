"""What instances ask for: their demand on a site that is there, and what may not be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nexusform.demands import PoolDemand, VmDemand
from nexusform.diagnostics import Diagnostic, Problem, did_you_mean
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.triggers import changed_argument
from nexusform.planning.vms.vm_object import VmObject
from nexusform.planning.vms.vm_world import VmWorld


def demand_of(instance: Instance, world: VmWorld) -> tuple[VmDemand | None, list[Diagnostic]]:
    """What an instance asks for; None when it goes or it cannot be told, and then it is broken."""
    attributes = instance.config if instance.config is not None else instance.planned
    if instance.going or instance.broken or attributes is None or instance.type.vms is None:
        return None, []
    demand, problems = instance.type.vms.demand(attributes, world.after, instance.address)
    if demand is not None and instance.block is not None:
        refusals = list(_refusals(demand, world))
        problems = [*problems, *refusals]
        demand = None if refusals else demand
    instance.broken |= demand is None
    return demand, [instance.problem(problem) for problem in problems]


def _refusals(demand: VmDemand, world: VmWorld) -> Iterator[Problem]:
    """Sites, zones and machines that are not there."""
    site = world.sites.get(demand.site_id)
    if site is None:
        yield _unknown_site(demand, sorted(world.sites))
        return
    zones = site.zones()
    for pool in demand.pools:
        missing = sorted((pool.zones or frozenset()) - set(zones))
        if missing:
            yield _unknown_zones(pool, demand.site_id, missing, zones)
        if pool.pinned and pool.pinned not in site.machines:
            yield _unknown_machine(pool, site)


def _unknown_site(demand: VmDemand, known: Sequence[str]) -> Problem:
    hint = did_you_mean(demand.site_id, known) if demand.site_id else ""
    listed = f" Known sites: {', '.join(known)}." if known else " No nexus_site is declared."
    return Problem(
        () if demand.parent_id else ("site_id",),
        "unknown-site",
        f'No site has the id "{demand.site_id}".{hint}{listed}',
    )


def _unknown_zones(pool: PoolDemand, site_id: str, missing: Iterable[str], zones: Iterable[str]) -> Problem:
    listed = ", ".join(f'"{zone}"' for zone in zones) or "none"
    names = ", ".join(f'"{zone}"' for zone in missing)
    return Problem(
        (*pool.path, "availability_zones"),
        "unknown-availability-zone",
        f"No rack of site {site_id} is in zone {names}. Zones of the site: {listed}. "
        "Name one of these, or leave availability_zones out to allow all.",
    )


def _unknown_machine(pool: PoolDemand, site: SitePlan) -> Problem:
    near = did_you_mean(pool.pinned, site.machines)
    return Problem(("machine",), "unknown-machine", f'Site {site.id} has no machine "{pool.pinned}".{near}')


# --- the last System pool ----------------------------------------------------------------------


def last_system_pools(objects: Sequence[VmObject]) -> Iterator[Diagnostic]:
    """Errors for pools that are the only System pool of their cluster and would be replaced.

    A change that re-places a pool's VMs is delete and create of the pool on Azure, and a cluster needs a
    System pool at all times.
    """
    system_pools: dict[str, int] = {}
    for vms in objects:
        if vms.prior_demand is not None:
            owner = vms.prior_demand.owner
            own = sum(1 for pool in vms.prior_demand.pools if pool.system)
            system_pools[owner] = system_pools.get(owner, 0) + own
    for vms in objects:
        prior = vms.prior_demand
        if prior is None or vms.demand is None or vms.instance.replaced or vms.instance.block is None:
            continue
        if system_pools[prior.owner] == 1:
            pools = {pool.pool: pool for pool in vms.demand.pools}
            for pool in prior.pools:
                if pool.system and pool.pool in pools and _is_replaced(vms, pool, pools[pool.pool]):
                    yield _last_system_pool(vms.instance, prior.cluster, pool)


def _is_replaced(vms: VmObject, prior: PoolDemand, pool: PoolDemand) -> bool:
    """Another trigger may stand before this one for every VM; the pool is replaced all the same."""
    stands = any(name == pool.pool for name, _ in vms.standing)
    return stands and bool(changed_argument(prior, pool))


def _last_system_pool(instance: Instance, cluster: str, pool: PoolDemand) -> Diagnostic:
    return instance.error(
        "last-system-pool-cannot-be-replaced",
        f"The change deletes and creates {pool.pool}, the only pool of {cluster} with mode System, and a "
        "cluster needs one at all times. Take two steps: add a second pool with mode System and apply; then "
        f"change {pool.pool} and apply again.",
        pool.path,
    )
