"""Maintenance in a plan: upgrades of clusters, drains, and lifecycle actions of machines.

Upgrades have batches, quorum, hours and disruptions. Actions are in order of execution.
`simulate kubernetes-upgrade` shares the upgrades.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.resources.address import Address

_SECONDS_PER_MINUTE: Final = 60
_SECONDS_PER_HOUR: Final = 3600


def compute_quorum(members: int) -> int:
    """Return the minimum number of control plane members up: more than half (etcd)."""
    return members // 2 + 1


# Error of an action that would stop VMs.
ACTION_WITH_WORKLOADS: Final = "machine-action-with-workloads"


class PoolNodeRecreation(Struct, frozen=True):
    """Re-creation of the nodes of one pool.

    `concurrent_vms` of the `vms` are re-created or down at a time; with surge, new nodes come
    first. `minimum_up` is the smallest number of the pool's nodes up at any time. `failed_batch` is
    the first batch without capacity (from 1, 0: none), `reason` its reason. `batch` is the number
    of nodes per batch; `concurrent_vms` is larger if nodes are down for another reason.
    `scale_in_pools` are the pools with VMs removed by a scale-in of this plan; if the platform
    removes other VMs than expected, capacity may be missing. `count` is the number of all nodes
    without new ones of a scale-out, `drain_timeout` the maximum seconds of a drain. `max_surge` and
    `max_unavailable` are the settings of the pool ("" for unknown ones).
    """

    pool: str
    sku: str
    vms: int
    concurrent_vms: int
    batches: int
    surges: bool
    minimum_up: int
    failed_batch: int = 0
    reason: str = ""
    batch: int = 0
    scale_in_pools: tuple[str, ...] = ()
    count: int = 0
    is_control_plane: bool = False
    drain_timeout: int = 0
    max_surge: str = ""
    max_unavailable: str = ""

    @property
    def quorum(self) -> int:
        """Number of nodes required for quorum; 0 unless it is a control plane."""
        return compute_quorum(self.count) if self.is_control_plane else 0

    @property
    def has_lost_quorum(self) -> bool:
        """Whether a control plane loses its quorum."""
        return self.minimum_up < self.quorum

    @property
    def is_lost(self) -> bool:
        """Whether the pool or its quorum is lost at some time."""
        return self.has_lost_quorum or (self.count > 0 and self.minimum_up == 0)

    @property
    def drain_seconds(self) -> int:
        """Maximum seconds of drains: every batch up to the drain timeout.

        Control planes have none.
        """
        return 0 if self.is_control_plane else self.batches * self.drain_timeout


class DrainObstacles(Struct, frozen=True):
    """Obstacles to draining nodes.

    They are budgets without allowed evictions, single replicas, and protected workloads.
    """

    budgets: tuple[str, ...] = ()
    single_replicas: tuple[str, ...] = ()
    protected_workloads: tuple[str, ...] = ()


class Upgrade(Struct, frozen=True):
    """Pools of one cluster with nodes to re-create.

    They are re-created either batch by batch for another version of Kubernetes (`before` and
    `after`), or all at once because an argument of the pools changed (`trigger`). `budgets` are
    PodDisruptionBudgets that allow no eviction and block drains, `single_replicas` the workloads
    that are down while their only pod moves, `protected_workloads` those kept up by a budget.
    """

    address: Address
    cluster: str
    site_id: str
    before: str
    after: str
    pools: tuple[PoolNodeRecreation, ...]
    budgets: tuple[str, ...] = ()
    single_replicas: tuple[str, ...] = ()
    trigger: str = "kubernetes_version_changed"
    protected_workloads: tuple[str, ...] = ()

    @property
    def is_rolling(self) -> bool:
        """Whether the upgrade runs batch by batch."""
        return self.trigger == "kubernetes_version_changed"

    @property
    def vms(self) -> int:
        """Number of nodes to re-create."""
        return sum(pool.vms for pool in self.pools)

    @property
    def is_feasible(self) -> bool:
        """Whether every batch fits and every drain may evict.

        This holds for any choice of VMs to scale in.
        """
        return not self.budgets and not any(
            pool.failed_batch or pool.scale_in_pools for pool in self.pools
        )

    @property
    def drain_hours(self) -> float:
        """Maximum hours of drains."""
        return sum(pool.drain_seconds for pool in self.pools) / _SECONDS_PER_HOUR

    @property
    def lost_pools(self) -> tuple[str, ...]:
        """Pools without a node, or control planes without quorum, at some time."""
        return tuple(pool.pool for pool in self.pools if pool.is_lost)

    @property
    def blocked_pools(self) -> tuple[PoolNodeRecreation, ...]:
        """Pools without capacity for a batch."""
        return tuple(pool for pool in self.pools if pool.failed_batch)


class EvacuatedVm(Struct, frozen=True):
    """VM to move from a machine before its action, and its next machine."""

    name: str
    machine: str


class PlannedMachineAction(Struct, frozen=True):
    """Action on a machine.

    Actions of a site run one after another, by `window` (from 1), each up to `minutes`.
    `stopped_vms` stop with the machine; they start again there unless it stays off (`leaves_off`).
    `options` are the platform's own options of the action by name, as configured.
    """

    address: Address
    site_id: str
    site: str
    rack: str
    machine: str
    action: str
    window: int
    minutes: int
    leaves_off: bool = False
    is_disruptive: bool = True
    leaving_vms: tuple[EvacuatedVm, ...] = ()
    stopped_vms: tuple[str, ...] = ()
    options: Mapping[str, str] = {}


def select_stopped_vms(actions: Iterable[PlannedMachineAction]) -> frozenset[tuple[str, str]]:
    """Return the VMs stopped by actions, each once: site id, name."""
    return frozenset((action.site_id, vm) for action in actions for vm in action.stopped_vms)


def describe_stopped_vms(actions: Iterable[PlannedMachineAction]) -> list[str]:
    """Return `2 VMs stop`; empty without any."""
    count = len(select_stopped_vms(actions))
    return (
        [f"{format_count(count, 'VM')} {select_word_form(count, 'stops', 'stop')}"] if count else []
    )


class EqualDrains(Struct, frozen=True):
    """Drains with one timeout in seconds; `noun` is what drains at a time, "node" or "batch"."""

    timeout: int
    noun: str
    count: int


class ClusterDrains(Struct, frozen=True):
    """Drains of one cluster, one after another, those with the longest timeout first."""

    cluster: str
    drains: tuple[EqualDrains, ...]

    @property
    def seconds(self) -> int:
        """Maximum seconds of all drains."""
        return sum(equal.timeout * equal.count for equal in self.drains)


class DrainSchedule(Struct, frozen=True):
    """Drains of the clusters of a plan.

    `concurrent_clusters` drain at a time, `seconds` is the time until the last one ends, after
    `path_length` clusters one after another.
    """

    clusters: tuple[ClusterDrains, ...]
    concurrent_clusters: int
    seconds: int
    path_length: int = 1

    @property
    def longest(self) -> ClusterDrains:
        """The cluster with the longest drains."""
        return max(self.clusters, key=lambda cluster: cluster.seconds)

    @property
    def minimum_minutes(self) -> int:
        """Minutes until the last drain ends if every drain ends at once."""
        return 0

    @property
    def maximum_minutes(self) -> int:
        """Minutes until the last drain ends if every drain times out."""
        return _round_up_minutes(self.seconds)

    @property
    def cluster_minutes(self) -> int:
        """Maximum minutes of the cluster with the longest drains."""
        return _round_up_minutes(self.longest.seconds)


def _round_up_minutes(seconds: int) -> int:
    return -(-seconds // _SECONDS_PER_MINUTE)
