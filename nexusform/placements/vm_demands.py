"""VM demands of resource types, and VMs with a placement."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import Path
from nexusform.scheduling.racks.vms import (
    CONTROL_PLANE,
    NO_CONSTRAINTS,
    Hint,
    Placement,
    PlacementConstraints,
    VmSku,
)


class PlacementGroupRule(Struct, frozen=True):
    """Placement group of VMs of one resource: affinity or anti-affinity of all VMs of `pools`.

    `scope` is "machine", "rack" or "site". With anti-affinity, `max_vms` VMs of the group may share
    one machine or rack.
    """

    name: str
    is_affinity: bool
    is_hard: bool
    scope: str
    pools: tuple[str, ...]
    max_vms: int = 1

    def get_location(self, placement: Placement) -> str:
        """Return the machine or rack of a placement, by the scope; "" for the scope "site"."""
        return {"machine": placement.machine, "rack": placement.rack}.get(self.scope, "")


def _convert_number_or_percentage(text: str, total: int) -> int:
    """Return the number of VMs for a text: `3`, or a share of the total such as `33%`."""
    from nexusform.kubernetes.quantity import compute_amount_of_total

    return compute_amount_of_total(text, total)


class PoolDemand(Struct, frozen=True):
    """Requested VMs of one pool of a resource.

    `numbers` and `names` are parallel (names as displayed: `cluster-a-np1-0`). `sku` is the
    resolved VM SKU. `triggers` are (trigger name, comparable value) pairs in order of precedence: a
    changed value re-places the pool's VMs with that trigger. `path` is the path of the pool in the
    resource's configuration; `constraints` are its placement constraints besides the SKU.
    `max_surge` and `max_unavailable` are the configured texts ("1", "33%"). `pinned_machine` is the
    machine set by the user, or "". `rule_pool` and `rule_number` replace pool and number in the
    placement rule if they differ (plain VMs). `count_path` is the path of the number of VMs (empty
    for plain VMs and VNFs). `drain_timeout` is the maximum drain time of a node in seconds. With
    `removes_newest`, fewer VMs remove those created last, not the highest numbers. A platform
    starts the VMs of the pools at once, apart from `awaited` ones, which are complete before.
    """

    pool: str
    numbers: tuple[int | str, ...]
    names: tuple[str, ...]
    sku: VmSku
    constraints: PlacementConstraints = NO_CONSTRAINTS
    triggers: tuple[tuple[str, Any], ...] = ()
    path: Path = ()
    max_surge: str = "1"
    max_unavailable: str = "0"
    pinned_machine: str = ""
    rule_pool: str = ""
    rule_number: int | str = 0
    count_path: Path = ()
    groups: tuple[PlacementGroupRule, ...] = ()
    is_system: bool = False
    is_control_plane: bool = False
    drain_timeout: int = 1800
    removes_newest: bool = False
    awaited: tuple[str, ...] = ()

    @property
    def keys(self) -> list[tuple[str, int | str]]:
        """Pool and number of each VM, in order."""
        return [(self.pool, number) for number in self.numbers]

    @property
    def surge_size(self) -> int:
        """Number of VMs added by an upgrade before it removes old ones (max surge).

        It is 1 for a control plane.
        """
        # A pool without VMs needs none.
        size = len(self.numbers)
        return min(
            1
            if self.pool == CONTROL_PLANE
            else _convert_number_or_percentage(self.max_surge, size),
            size,
        )

    @property
    def batch_size(self) -> int:
        """Number of VMs re-created at once by an upgrade.

        It is the surge size, else the maximum unavailable.
        """
        return self.surge_size or max(
            _convert_number_or_percentage(self.max_unavailable, len(self.numbers)), 1
        )

    @property
    def zones(self) -> frozenset[str] | None:
        """Allowed availability zones of its VMs; None = all."""
        return self.constraints.zones

    @property
    def configured_zones(self) -> frozenset[str]:
        """Availability zones named by the configuration; none if all are allowed."""
        return self.zones or frozenset()

    def is_zone_allowed(self, zone: str | None) -> bool:
        """Return whether its VMs may be in a zone; None is the zone of an unknown rack."""
        return self.zones is None or zone in self.zones

    @property
    def has_further_constraints(self) -> bool:
        """Whether its VMs have constraints besides zones and the image: hints or groups."""
        return (
            bool(self.groups) or replace(self.constraints, zones=None, image="") != NO_CONSTRAINTS
        )

    @property
    def hints(self) -> tuple[Hint, ...]:
        """Placement hints."""
        return self.constraints.hints


def index_pools(pools: Iterable[PoolDemand]) -> dict[str, PoolDemand]:
    """Return the pools of one resource by name."""
    return {pool.pool: pool for pool in pools}


class ClaimDemand(Struct, frozen=True):
    """Storage demand of the PersistentVolumeClaims of pods on one cluster: bytes in total.

    `unbound_size` are the bytes of claims without an existing volume (negative if volumes are
    removed). `unsized_claim` is a claim of unknown size, "" if there is none. `unverified_sizes`
    are the bytes of each existing claim with an unknown volume.
    """

    size: int = 0
    unbound_size: int = 0
    unsized_claim: str = ""
    unverified_sizes: tuple[int, ...] = ()


class VmDemand(Struct, frozen=True):
    """All requested VMs of one resource, with their owner and site.

    `owner` and `cluster` are those of racks.vms.VmName. `version` is the kubernetes_version: a
    changed one re-places every VM, rolling. `parent_id` is the cluster of a separate pool, ""
    otherwise. `provenance` is "decided" if nexusform's choice is applied, "predicted" if the
    platform chooses. `unread` are facts about the VMs in documents that nexusform does not read.
    """

    site_id: str
    owner: str
    cluster: str
    pools: tuple[PoolDemand, ...]
    version: str | None = None
    parent_id: str = ""
    provenance: str = "predicted"
    unread: tuple[Doubt, ...] = ()

    @property
    def cluster_id(self) -> str:
        """Id of the cluster of the VMs, also for a separate pool."""
        # The owner is `nks:ID`.
        return self.owner.partition(":")[2]

    @property
    def is_recreated_by_platform(self) -> bool:
        """Whether the platform re-creates a lost VM elsewhere: only a node of an NKS cluster."""
        return self.owner.startswith("nks:")


# Demand of an object without requested VMs, or with unknown ones.
NO_DEMAND: Final = VmDemand(site_id="", owner="", cluster="", pools=())

# Trigger of a VM whose machine is down in a hypothetical plan.
MACHINE_LOST: Final = "machine_lost"
# Provenance of an observed placement.
OBSERVED: Final = "observed"


class PlacedVm(Struct, frozen=True):
    """VM with a placement: read from state by its resource type, or decided in a plan.

    `number` is its number in the pool, `name` its displayed name (`cluster-a-np1-0`). `provenance`
    is the source of the placement: "predicted", "decided" or "observed". `platform_name` is the
    platform's own name, None if unknown. `trigger` is the trigger of its placement in a plan, or
    the recorded one of its resource type; "" if unknown. Without `has_recorded_sku` its SKU is the
    one of its pool, and `sku_name` is for display. `platform_id` is its id in inventories of the
    platform, "" if unknown.
    """

    pool: str
    number: int | str
    name: str
    sku_name: str
    placement: Placement
    provenance: str = "predicted"
    platform_name: str | None = None
    trigger: str = ""
    has_recorded_sku: bool = True
    platform_id: str = ""

    @property
    def display_name(self) -> str:
        """Name, with the platform's name if known: `c-np1-0 [c-1a2b3c4d-np1-md-x7k2p]`."""
        return self.name if self.platform_name is None else f"{self.name} [{self.platform_name}]"

    @property
    def names(self) -> tuple[str, ...]:
        """All names: its own, and the platform's if known."""
        return (self.name,) if self.platform_name is None else (self.name, self.platform_name)

    @property
    def identities(self) -> tuple[str, ...]:
        """All names, and the id in inventories if known: a VM observed with one of them is it."""
        return (*self.names, self.platform_id) if self.platform_id else self.names


def index_vms(vms: Iterable[PlacedVm]) -> dict[tuple[str, int | str], PlacedVm]:
    """Return the VMs of one resource by pool and number."""
    return {(vm.pool, vm.number): vm for vm in vms}


def compute_number_sort_key(number: int | str) -> tuple[bool, int, str]:
    """Return the sort key of a VM's number in its pool: whole numbers first."""
    if isinstance(number, int):
        return False, number, ""
    return True, 0, number  # a name
