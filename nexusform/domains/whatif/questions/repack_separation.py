"""Which VMs a separation rule keeps off one another's machines or racks while they are re-created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.workloads import PodSpec
from nexusform.domains.whatif.questions.pods_down import NO_PODS, ClusterPods
from nexusform.planning.vms.sites import Thing
from nexusform.scheduling.racks.vms import Placement, StandingVm
from nexusform.worlds.world_view import SiteView

_RULE: Final = "nexus_separation_rule"
_DENY: Final = "deny"
# A pool as VMs are counted (owner, pool), and one of its VMs (with its number).
PoolKey = tuple[str, str]
VmKey = tuple[str, str, int | str]


class Selector(Struct, frozen=True):
    """Pods by their labels and namespaces (none: all)."""

    labels: frozenset[tuple[str, str]]
    namespaces: frozenset[str]

    def selects(self, pod: PodSpec) -> bool:
        """Whether it chooses a pod."""
        in_namespace = not self.namespaces or pod.namespace in self.namespaces
        return in_namespace and self.labels <= set(pod.labels)


class Spot(Struct, frozen=True):
    """A VM: its pool, its place, and the pods on it."""

    pool: PoolKey
    place: Placement
    pods: tuple[PodSpec, ...]


class Group(Struct, frozen=True):
    """One party of a rule: pools, and pods; `nodes` are the VMs on which these run before anything moves."""

    pools: frozenset[PoolKey] = frozenset()
    selector: Selector | None = None
    nodes: frozenset[VmKey] = frozenset()

    def has(self, vm: VmKey) -> bool:
        """Whether a VM, or a pod on it, belongs to it."""
        return vm[:2] in self.pools or vm in self.nodes

    def is_at(self, spot: Spot) -> bool:
        """Whether a VM, or a pod on it, belongs to it now."""
        selector = self.selector
        return spot.pool in self.pools or (selector is not None and any(map(selector.selects, spot.pods)))


class Apart(Struct, frozen=True):
    """A rule that denies: members of one group share no machine (or rack, as `scope` says) with another's."""

    scope: str
    groups: tuple[Group, ...]

    @property
    def has_workloads(self) -> bool:
        """Whether it speaks of pods."""
        return any(group.selector is not None for group in self.groups)

    def keeps_off(self, vm: VmKey, vms: Iterable[StandingVm]) -> frozenset[str]:
        """The machines, or racks, where this VM may not land."""
        others = [group for group in self.groups if not group.has(vm)]
        if len(others) == len(self.groups):
            return frozenset()
        near = (
            one.placement
            for one in vms
            if any(group.has((one.vm.owner, one.vm.pool, one.vm.number)) for group in others)
        )
        return frozenset(self._at(place) for place in near)

    def shared(self, spots: Iterable[Spot]) -> frozenset[str]:
        """The machines, or racks, where two groups are."""
        groups_at: dict[str, set[int]] = {}
        for spot in spots:
            here = {number for number, group in enumerate(self.groups) if group.is_at(spot)}
            if here:
                groups_at.setdefault(self._at(spot.place), set()).update(here)
        return frozenset(place for place, groups in groups_at.items() if len(groups) > 1)

    def _at(self, place: Placement) -> str:
        return place.machine if self.scope == "machine" else place.rack


def find_separations(
    site: SiteView, things: Iterable[Thing], pods: Mapping[str, ClusterPods] = NO_PODS
) -> tuple[Apart, ...]:
    """The rules that deny over clusters, pools and workloads of a site."""
    parties = _Parties(site, pods)
    rules: list[Apart] = []
    for thing in things:
        attributes = thing.attributes
        denies = (attributes.get("enforcement") or _DENY) == _DENY
        if thing.address.type != _RULE or not denies or attributes.get("scope") == "site":
            continue
        groups = tuple(parties.group(group) for group in attributes.get("group") or ())
        rules.append(Apart(str(attributes.get("scope")), groups))
    return tuple(rules)


class _Parties:
    """Pools and nodes by what groups call them."""

    def __init__(self, site: SiteView, pods: Mapping[str, ClusterPods]) -> None:
        self._pools: dict[str, PoolKey] = {}
        self._clusters: dict[str, set[PoolKey]] = {}
        self._pods: list[tuple[VmKey, PodSpec]] = []
        for cluster in site.clusters:
            nodes: dict[str, VmKey] = {}
            for pool in cluster.pools:
                counted = pool.owner.owner, pool.demand.rule_pool or pool.name
                self._pools[f"{cluster.id}/{pool.name}"] = counted
                self._clusters.setdefault(cluster.id, set()).add(counted)
                nodes |= {vm.name: (*counted, vm.number) for vm in pool.vms}
            standing = pods[cluster.id].standing if cluster.id in pods else ()
            self._pods += [(nodes[pod.node], pod.spec) for pod in standing if pod.node in nodes]

    def group(self, group: Mapping[str, Any]) -> Group:
        """What a group names."""
        pools: set[PoolKey] = set()
        for cluster in group.get("cluster_ids") or ():
            pools |= self._clusters.get(str(cluster), set())
        for pool in group.get("pool_ids") or ():
            if str(pool) in self._pools:
                pools.add(self._pools[str(pool)])
        selector = _selector(group.get("workload_selector"))
        if selector is None:
            return Group(frozenset(pools))
        nodes = frozenset(vm for vm, pod in self._pods if selector.selects(pod))
        return Group(frozenset(pools), selector, nodes)


def _selector(values: Any) -> Selector | None:
    if isinstance(values, list):
        values = values[0] if values else None
    if not isinstance(values, Mapping):
        return None
    labels = frozenset((str(key), str(value)) for key, value in (values.get("match_labels") or {}).items())
    return Selector(labels, frozenset(map(str, values.get("namespaces") or ())))
