"""Separation rules during a repacking: machines and racks forbidden for a VM."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import PodSpec
from nexusform.domains.whatif.questions.pod_outage import NO_PODS, ClusterPods
from nexusform.json_data.plain_data import get_mapping, list_mappings, list_texts
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.scheduling.racks.vms import Placement, ScheduledVm
from nexusform.snapshots.snapshot import SiteSnapshot

_RULE: Final = "nexus_separation_rule"
_WARN: Final = "warn"
# Key of a pool (owner, pool) and of one of its VMs (with its number).
PoolKey = tuple[str, str]
VmKey = tuple[str, str, int | str]


class PodSelector(Struct, frozen=True):
    """Selector of pods by labels and namespaces (none: all)."""

    labels: frozenset[tuple[str, str]]
    namespaces: frozenset[str]

    def is_match(self, pod: PodSpec) -> bool:
        """Return True if the selector matches a pod."""
        in_namespace = not self.namespaces or pod.namespace in self.namespaces
        return in_namespace and self.labels <= set(pod.labels)


class VmLocation(Struct, frozen=True):
    """VM with its pool, location and pods."""

    pool: PoolKey
    location: Placement
    pods: tuple[PodSpec, ...]


class SeparationRuleGroup(Struct, frozen=True):
    """Group of a rule: pools, and pods by selector.

    `nodes` are the VMs of these pods before the repacking.
    """

    pools: frozenset[PoolKey] = frozenset()
    selector: PodSelector | None = None
    nodes: frozenset[VmKey] = frozenset()

    def has_vm(self, vm: VmKey) -> bool:
        """Return whether the pool of a VM, or a pod on it, belongs to the group.

        The pod was there before the repacking.
        """
        owner, pool, _ = vm
        return (owner, pool) in self.pools or vm in self.nodes

    def is_member(self, located_vm: VmLocation) -> bool:
        """Return whether the pool of a VM, or a pod on it now, belongs to the group."""
        if located_vm.pool in self.pools:
            return True
        return self.selector is not None and any(
            self.selector.is_match(pod) for pod in located_vm.pods
        )


class SeparationRule(Struct, frozen=True):
    """Denying rule: members of different groups share no machine (or rack, by `scope`)."""

    scope: str
    groups: tuple[SeparationRuleGroup, ...]

    def find_forbidden_locations(self, vm: VmKey, vms: Iterable[ScheduledVm]) -> frozenset[str]:
        """Find the machines or racks with VMs of other groups: forbidden for a VM in a group.

        The result is empty for a VM in no group.
        """
        other_groups = [group for group in self.groups if not group.has_vm(vm)]
        # The VM is in no group.
        if len(other_groups) == len(self.groups):
            return frozenset()
        locations = (
            other_vm.placement
            for other_vm in vms
            if any(
                group.has_vm((other_vm.vm.owner, other_vm.vm.pool, other_vm.vm.number))
                for group in other_groups
            )
        )
        return frozenset(self._get_scope_location(location) for location in locations)

    def find_shared_locations(self, vm_locations: Iterable[VmLocation]) -> frozenset[str]:
        """Find the machines or racks with members of several groups."""
        # Numbers of groups by machine or rack.
        groups_at: dict[str, set[int]] = {}
        for vm_location in vm_locations:
            group_numbers = {
                number for number, group in enumerate(self.groups) if group.is_member(vm_location)
            }
            # Neither the VM nor its pods belong to a group.
            if not group_numbers:
                continue
            machine_or_rack = self._get_scope_location(vm_location.location)
            groups_at.setdefault(machine_or_rack, set()).update(group_numbers)
        return frozenset(location for location, groups in groups_at.items() if len(groups) > 1)

    def _get_scope_location(self, location: Placement) -> str:
        """Return the name of the machine or rack, by the scope of the rule."""
        return location.machine if self.scope == "machine" else location.rack


def build_separation_rules(
    site: SiteSnapshot, objects: Iterable[SiteObject], pods: Mapping[str, ClusterPods] = NO_PODS
) -> tuple[SeparationRule, ...]:
    """Build the rules to obey in a repacking.

    Rules about racks or machines, unless they only warn.
    """
    resolver = _GroupResolver(site, pods)
    rules: list[SeparationRule] = []
    for site_object in objects:
        attributes = site_object.attributes
        is_rule = site_object.address.type == _RULE
        if (
            not is_rule
            or attributes.get("enforcement") == _WARN
            or attributes.get("scope") == "site"
        ):
            # A repacking keeps VMs on their site.
            continue
        groups = tuple(
            resolver.resolve_group(group) for group in list_mappings(attributes, "group")
        )
        rules.append(SeparationRule(str(attributes.get("scope")), groups))
    return tuple(rules)


class _GroupResolver:
    """Resolver of groups to pools and nodes.

    `_pools` are by pool id, `_pods` are existing pods, each with its VM.
    """

    def __init__(self, site: SiteSnapshot, pods: Mapping[str, ClusterPods]) -> None:
        """Collect the pools by id and by cluster, and the existing pods with their VMs."""
        self._pools: dict[str, PoolKey] = {}
        # Pools by cluster id.
        self._clusters: dict[str, set[PoolKey]] = {}
        self._pods: list[tuple[VmKey, PodSpec]] = []
        for cluster in site.clusters:
            # By node name.
            nodes: dict[str, VmKey] = {}
            for pool in cluster.pools:
                # Rules count all VMs of one block of plain VMs as one pool, `rule_pool`.
                pool_key = pool.owner.owner, pool.demand.rule_pool or pool.name
                self._pools[f"{cluster.id}/{pool.name}"] = pool_key
                self._clusters.setdefault(cluster.id, set()).add(pool_key)
                nodes |= {vm.name: (*pool_key, vm.number) for vm in pool.vms}
            existing = pods[cluster.id].existing if cluster.id in pods else ()
            self._pods += [(nodes[pod.node], pod.spec) for pod in existing if pod.node in nodes]

    def resolve_group(self, group: Mapping[str, Any]) -> SeparationRuleGroup:
        """Resolve a group to its pools and selected nodes.

        A group has ids of clusters and pools, and perhaps a selector of pods.
        """
        pools: set[PoolKey] = set()
        for cluster in list_texts(group, "cluster_ids"):
            pools |= self._clusters.get(cluster, set())
        for pool in list_texts(group, "pool_ids"):
            # A pool of this site.
            if pool in self._pools:
                pools.add(self._pools[pool])
        selector_values = group.get("workload_selector")
        # A group without pods.
        if not isinstance(selector_values, Mapping):
            return SeparationRuleGroup(frozenset(pools))
        labels = get_mapping(selector_values, "match_labels").items()
        namespaces = frozenset(list_texts(selector_values, "namespaces"))  # empty: all
        selector = PodSelector(
            frozenset((str(key), str(value)) for key, value in labels), namespaces
        )
        nodes = frozenset(vm for vm, pod in self._pods if selector.is_match(pod))
        return SeparationRuleGroup(frozenset(pools), selector, nodes)
