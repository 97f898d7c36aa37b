"""Facts of a site known from state only.

They are the pools and numbers of nodes, and the racks of unlisted machines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.azure.importers.az_records import (
    AzNode,
    AzSite,
    AzVirtualMachine,
    AzVmLocation,
)
from nexusform.domains.azure.importers.azure_request_bodies import select_members
from nexusform.json_data.plain_data import get_mapping

# Arguments of an agent pool in Azure besides name and count.
POOL_ARGUMENTS: Final = (
    "vm_sku_name",
    "availability_zones",
    "mode",
    "labels",
    "taint",
    "upgrade_settings",
)


class PredictedNodeLocation(NamedTuple):
    """Predicted location of a node."""

    machine: str
    rack: str


class RecordedPoolNodes(Struct, frozen=True):
    """Recorded nodes of a pool.

    They are numbers by platform name, and predicted locations by number for nodes without a
    platform name. `arguments` are those of the pool's block, for sites that do not list them;
    None if unknown.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    predicted_locations: dict[int, PredictedNodeLocation] = field(default_factory=dict)
    arguments: Mapping[str, Any] | None = None


# Recorded pools by cluster id and pool name.
RecordedNodes: TypeAlias = Mapping[tuple[str, str], RecordedPoolNodes]
NO_NODES: Final[RecordedNodes] = {}
_Vm = TypeVar("_Vm", AzNode, AzVirtualMachine)


def collect_recorded_nodes(objects: Iterable[Mapping[str, Any]]) -> RecordedNodes:
    """Collect the recorded nodes of each pool, by (cluster id, pool name).

    `objects` are the attributes of clusters in state, and of pools with a block of their own.
    """
    pools: dict[tuple[str, str], RecordedPoolNodes] = {}
    for attributes in objects:
        cluster_id = str(attributes.get("kubernetes_cluster_id") or attributes.get("id"))
        # By name of the pool.
        pool_arguments = get_mapping(attributes, "agent_pool")
        # A pool with a block of its own.
        if attributes.get("kubernetes_cluster_id"):
            arguments = {name: attributes.get(name) for name in POOL_ARGUMENTS}
            count = attributes.get("node_count") or 0
            pool_arguments = {str(attributes.get("name")): {"count": count, **arguments}}
        for name, arguments in pool_arguments.items():
            pools[cluster_id, name] = RecordedPoolNodes(arguments=arguments)
        for node in get_mapping(attributes, "nodes").values():
            pool = pools.setdefault((cluster_id, str(node.get("pool"))), RecordedPoolNodes())
            # The node was observed in Azure.
            if node.get("platform_name"):
                pool.numbers[str(node["platform_name"])] = int(node["number"])
            elif node.get("machine"):
                # A plan predicted the node.
                pool.predicted_locations[int(node["number"])] = PredictedNodeLocation(
                    str(node["machine"]), str(node.get("rack"))
                )
    return pools


def add_pool_arguments(
    recorded_nodes: RecordedNodes, objects: Iterable[Mapping[str, Any]]
) -> RecordedNodes:
    """Return the recorded nodes with the pool arguments in `objects`.

    `objects` are attributes of clusters and pools. Their arguments replace those in
    `recorded_nodes`. The arguments of a pool missing in `objects` are None.
    """
    pools_of_objects = collect_recorded_nodes(objects)
    pools: dict[tuple[str, str], RecordedPoolNodes] = {}
    for key in dict.fromkeys([*recorded_nodes, *pools_of_objects]):
        arguments = pools_of_objects.get(key, RecordedPoolNodes()).arguments
        if arguments is not None:
            arguments = select_members(arguments, POOL_ARGUMENTS)
        pools[key] = replace(recorded_nodes.get(key, RecordedPoolNodes()), arguments=arguments)
    return pools


def assign_node_numbers(
    nodes: Sequence[AzNode], count: int, recorded_pool: RecordedPoolNodes
) -> dict[int, AzNode]:
    """Assign the numbers 0 to `count` - 1 to the nodes of a pool.

    Recorded numbers stay. A node on a predicted machine, or else in a predicted rack, gets the
    number of the prediction. The others get free numbers: nodes on machines first, then by creation
    time and name.
    """
    numbers = recorded_pool.numbers
    # The default `count` is out of range: it excludes nodes without a recorded number.
    assigned = {numbers[node.name]: node for node in nodes if numbers.get(node.name, count) < count}
    names = {node.name for node in assigned.values()}
    unassigned = [node for node in nodes if node.name not in names]
    unassigned.sort(key=lambda node: (node.placement is None, node.created_at, node.name))
    locations = recorded_pool.predicted_locations
    for get_name in (attrgetter("machine"), attrgetter("rack")):
        unassigned = _assign_predicted_numbers(unassigned, assigned, locations, count, get_name)
    free = (number for number in range(count) if number not in assigned)
    assigned.update(zip(free, unassigned, strict=False))
    return assigned


def _assign_predicted_numbers(
    nodes: Sequence[AzNode],
    assigned: dict[int, AzNode],
    predicted_locations: Mapping[int, PredictedNodeLocation],
    count: int,
    get_name: Callable[[PredictedNodeLocation | AzVmLocation], str],
) -> list[AzNode]:
    """Add nodes at a predicted location to `assigned`; return the other nodes.

    A node gets the number of the prediction if it is below `count`. Return the other nodes.
    `get_name` returns the machine or rack of a location: equal names are the same location.
    """
    # Free numbers by the name of a machine or rack.
    numbers_by_name: dict[str, list[int]] = {}
    for number, location in sorted(predicted_locations.items()):
        if number < count and number not in assigned:
            numbers_by_name.setdefault(get_name(location), []).append(number)
    unassigned: list[AzNode] = []
    for node in nodes:
        numbers = (
            numbers_by_name.get(get_name(node.placement)) if node.placement is not None else None
        )
        if numbers:
            assigned[numbers.pop(0)] = node
        else:
            unassigned.append(node)
    return unassigned


def locate_vms_on_unlisted_machines(
    sites: Iterable[AzSite], objects: Sequence[Mapping[str, Any]]
) -> tuple[AzSite, ...]:
    """Return the sites with a placement for VMs on unlisted machines.

    An incomplete list may lack an existing machine. The racks of the machines come from `objects`
    in state; without a rack a VM stays unplaced.
    """
    locations = _collect_recorded_locations(objects)
    located_sites = []
    for site in sites:
        inventory = site.inventory
        if inventory.vms_on_unlisted_machines:
            vms = tuple(_locate_vm(vm, site.name, locations) for vm in inventory.virtual_machines)
            clusters = [
                replace(
                    cluster,
                    nodes=tuple(_locate_vm(node, site.name, locations) for node in cluster.nodes),
                )
                for cluster in inventory.clusters
            ]
            inventory = replace(inventory, virtual_machines=vms, clusters=tuple(clusters))
        located_sites.append(replace(site, inventory=inventory))
    return tuple(located_sites)


def _locate_vm(vm: _Vm, site: str, locations: Mapping[tuple[str, str], AzVmLocation]) -> _Vm:
    """Return a VM with the recorded location of its unlisted machine.

    Without a record the VM is unchanged.
    """
    location = locations.get((site, vm.unlisted_machine))
    return vm if location is None else replace(vm, placement=location, unlisted_machine="")


def _collect_recorded_locations(
    objects: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], AzVmLocation]:
    """Collect the location of each recorded machine, by site and name.

    The source is the attributes of racks and machines.
    """
    # By site and machine.
    rack_names: dict[tuple[str, str], str] = {}
    # By rack id.
    zones: dict[str, Any] = {}
    for attributes in objects:
        if "slot" in attributes:  # a machine
            site, _, rack = str(attributes["rack_id"]).partition("/")
            rack_names[site, str(attributes["name"])] = rack
        elif "machine_override" in attributes:  # a rack
            rack_id = str(attributes["id"])
            site, _, rack = rack_id.partition("/")
            zones[rack_id] = attributes["availability_zone"]
            rack_names |= {(site, machine): rack for machine in get_mapping(attributes, "machines")}
    locations: dict[tuple[str, str], AzVmLocation] = {}
    for (site, machine), rack in rack_names.items():
        # None if the rack has no record of its own.
        zone = zones.get(f"{site}/{rack}")
        locations[site, machine] = AzVmLocation(machine, rack, zone)
    return locations
