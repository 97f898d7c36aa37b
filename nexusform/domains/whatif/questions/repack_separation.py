"""Which pools a separation rule keeps off one another's machines or racks while VMs are re-created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.planning.vms.sites import Thing
from nexusform.scheduling.racks.vms import StandingVm
from nexusform.worlds.world_view import SiteView

_RULE: Final = "nexus_separation_rule"
_DENY: Final = "deny"


class Apart(Struct, frozen=True):
    """A rule that denies: VMs of one group share no machine (or rack, as `scope` says) with those of another.

    Groups are sets of pools, as VMs are counted: (owner, pool).
    """

    scope: str
    groups: tuple[frozenset[tuple[str, str]], ...]

    def keeps_off(self, owner: str, pool: str, vms: Iterable[StandingVm]) -> frozenset[str]:
        """The machines, or racks, where a VM of this pool may not land."""
        others: set[tuple[str, str]] = set()
        for group in self.groups:
            if (owner, pool) not in group:
                others |= group
        if not any((owner, pool) in group for group in self.groups):
            return frozenset()
        places = (vm.placement for vm in vms if (vm.vm.owner, vm.vm.pool) in others)
        return frozenset(place.machine if self.scope == "machine" else place.rack for place in places)


def find_separations(site: SiteView, things: Iterable[Thing]) -> tuple[Apart, ...]:
    """The rules over clusters and pools of a site. Those over workloads are judged by the plans alone."""
    pools: dict[str, frozenset[tuple[str, str]]] = {}
    clusters: dict[str, set[tuple[str, str]]] = {}
    for cluster in site.clusters:
        for pool in cluster.pools:
            counted = pool.owner.owner, pool.demand.rule_pool or pool.name
            pools[f"{cluster.id}/{pool.name}"] = frozenset({counted})
            clusters.setdefault(cluster.id, set()).add(counted)
    rules: list[Apart] = []
    for thing in things:
        attributes = thing.attributes
        denies = (attributes.get("enforcement") or _DENY) == _DENY
        if thing.address.type != _RULE or not denies or attributes.get("scope") == "site":
            continue
        groups = tuple(_group(group, clusters, pools) for group in attributes.get("group") or ())
        rules.append(Apart(str(attributes.get("scope")), groups))
    return tuple(rules)


def _group(
    group: Mapping[str, Any],
    clusters: Mapping[str, set[tuple[str, str]]],
    pools: Mapping[str, frozenset[tuple[str, str]]],
) -> frozenset[tuple[str, str]]:
    members: set[tuple[str, str]] = set()
    for cluster in group.get("cluster_ids") or ():
        members |= clusters.get(str(cluster), set())
    for pool in group.get("pool_ids") or ():
        members |= pools.get(str(pool), frozenset())
    return frozenset(members)
