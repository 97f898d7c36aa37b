"""Types of VM placement: machines, VM SKUs, demands and placements.

They are frozen, and only compute with one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import select_word_form
from nexusform.doubts.doubt import Doubt
from nexusform.scheduling.placement_decision import ObjectLocation

CONTROL_PLANE = "control-plane"
DEFAULT_SEED = 8
MIB_PER_GIB: Final = 1024
# A state of a machine that the platform does not return.
UNKNOWN_STATE: Final = "Unknown"
# SR-IOV virtual functions that tenants get of each NUMA cell (inferred for figures of
# a machine's own).
VFS_PER_CELL = 30


class RackSpread(StrEnum):
    """VMs counted first for the choice of a rack: those of the pool, or of the whole cluster."""

    POOL = "pool"
    CLUSTER = "cluster"


def convert_to_gib(mib: int) -> float:
    """Convert MiB to GiB; a whole number if possible."""
    return mib // MIB_PER_GIB if mib % MIB_PER_GIB == 0 else mib / MIB_PER_GIB


def round_up_to_mib(memory_gib: float | Fraction) -> float:
    """Round GiB up to whole MiB, and return it in GiB."""
    return convert_to_gib(ceil(memory_gib * MIB_PER_GIB))


class MachineSku(Struct, frozen=True):
    """Bare-metal server type: NUMA cells, vCPUs and GiB per cell, ephemeral disk in GiB."""

    name: str
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int


class VmSku(Struct, frozen=True):
    """VM size.

    `vcpus` are guest vCPUs; the host provides `host_vcpus` = guest + emulator threads. `numa_cells`
    is the number of cells it spans; every cell provides ceil(host_vcpus / cells) vCPUs and its
    share of the memory, counted in MiB, rounded up: `memory_gib` may have a fraction.
    `machine_skus` lists the supported hardware; empty = any. `kind` is the type letter G, P, E or
    L, or "" for a SKU of the user's own. `extended` are further resources of a node of this size,
    per cell of the node: they decide about pods, not about VMs. `vfs` are the SR-IOV virtual
    functions taken by each VM, as declared by its pool. A profile with further counts gets the
    `record` of each VM of a machine; it also counts `dedicated_vcpus`.
    """

    name: str
    vcpus: int
    emulator_vcpus: int
    memory_gib: float
    disk_gib: int
    numa_cells: int = 1
    extra_large: bool = False
    machine_skus: tuple[str, ...] = ()
    kind: str = ""
    extended: tuple[tuple[str, tuple[int, ...]], ...] = ()
    vfs: int = 0
    record: str = ""
    dedicated_vcpus: int = 0

    @property
    def host_vcpus(self) -> int:
        """Host vCPUs taken on the machine."""
        return self.vcpus + self.emulator_vcpus - self.dedicated_vcpus

    @property
    def cpus_in_cell(self) -> int:
        """Host vCPUs taken in each of its cells, rounded up."""
        return -(-self.host_vcpus // self.numa_cells)

    @property
    def memory_mib(self) -> int:
        """MiB of memory, rounded up."""
        return ceil(self.memory_gib * MIB_PER_GIB)

    @property
    def mib_in_cell(self) -> int:
        """MiB taken in each of its cells, rounded up."""
        return -(-self.memory_mib // self.numa_cells)

    @property
    def memory_in_cell(self) -> float:
        """GiB taken in each of its cells."""
        return convert_to_gib(self.mib_in_cell)

    @property
    def vfs_in_cell(self) -> int:
        """VFs taken in each of its cells, rounded up."""
        return -(-self.vfs // self.numa_cells)

    @property
    def title(self) -> str:
        """Name, with the VFs added by a pool."""
        return (
            f"{self.name} + {self.vfs} {select_word_form(self.vfs, 'VF')}"
            if self.vfs
            else self.name
        )


class UnschedulableReason(Struct, frozen=True):
    """Reason that a machine takes no new VM.

    `text` is the reason in lists of reasons ("powered off"), and `title` as the only one ("Off"; ""
    for the same as `text`). `fact` is the name of the machine fact and `value` its value; both are
    "" for a reason that is no fact. The reason with the lowest `rank` is the main one. `is_health`
    means that it is not set on purpose.
    """

    text: str
    fact: str = ""
    value: str = ""
    title: str = ""
    rank: int = 0
    is_health: bool = False


def join_reasons(reasons: Iterable[UnschedulableReason]) -> str:
    """Return the texts of reasons against new VMs, each once; "" for none."""
    return ", ".join(dict.fromkeys(reason.text for reason in reasons))


class MachineStatus(Struct, frozen=True):
    """Facts of a compute machine out of service.

    `cordoned_by` is "nexusform", "azure", "other" or None.
    """

    power_state: str
    ready_state: str
    detailed_status: str
    cordon_status: str
    cordoned_by: str | None = None
    message: str | None = None
    since: str | None = None


class Machine(Struct, frozen=True):
    """Bare-metal machine of a plan.

    Names are unique on a site. `machine_sku` is None for a machine with figures of its own (then
    any VM SKU passes the hardware check). `unschedulable_reasons` are empty for a schedulable
    machine; its VMs stay and count either way. `status` is set for compute machines out of service.
    `roles` are short names. `record` is the first of its records, before those of its VMs.
    """

    name: str
    rack: str
    availability_zone: str
    slot: int
    machine_sku: str | None
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int | float
    disk_gib: int
    unschedulable_reasons: tuple[UnschedulableReason, ...] = ()
    vfs_per_cell: int = VFS_PER_CELL
    status: MachineStatus | None = None
    roles: tuple[str, ...] = ()
    record: str = ""

    @property
    def unschedulable_reason(self) -> str:
        """Reasons that it takes no new VM, joined ("cordoned, powered off"); "" for none."""
        return join_reasons(self.unschedulable_reasons)

    @property
    def health_problems(self) -> str:
        """Reasons that are not set on purpose, joined; "" for a healthy machine."""
        return join_reasons(reason for reason in self.unschedulable_reasons if reason.is_health)

    @property
    def is_healthy(self) -> bool:
        """Whether no reason against new VMs is a problem of its health."""
        return not any(reason.is_health for reason in self.unschedulable_reasons)

    @property
    def is_down(self) -> bool:
        """Whether its VMs are down: it is observed off or not ready."""
        status = self.status
        return status is not None and (
            status.power_state.lower() == "off" or status.ready_state.lower() == "false"
        )

    @property
    def memory_mib_per_cell(self) -> int:
        """MiB of memory per cell."""
        return int(self.memory_gib_per_cell * MIB_PER_GIB)


class VmName(Struct, frozen=True):
    """Identity of a VM for counts and samples: cluster, pool, number.

    `owner` distinguishes clusters of different kinds with the same name in VM counts (an NKS
    cluster and a VNF may both be called "a"); the tie-break text uses `cluster` alone.
    """

    owner: str
    cluster: str
    pool: str
    number: int | str


def format_pool_name(cluster: str, pool: str) -> str:
    """Return `cluster/pool`; a VM outside of clusters is named once."""
    return pool if cluster == pool else f"{cluster}/{pool}"


class HintScope(StrEnum):
    """Scope of a placement hint."""

    MACHINE = "Machine"
    RACK = "Rack"


class Hint(Struct, frozen=True):
    """Affinity (`is_affinity`) or anti-affinity to a target: machines or racks by name.

    Hard hints reject machines; soft ones count as violated or not, in the first key of racks (rack
    scope) or machines (machine scope). `target` is the name given by the user, for the reason.
    `vms_by_machine` are the VMs of a placement group, by machine.
    """

    is_affinity: bool
    is_hard: bool
    scope: HintScope
    machines: frozenset[str]
    racks: frozenset[str]
    target: str
    vms_by_machine: tuple[tuple[str, int], ...] = ()


class PlacementConstraints(Struct, frozen=True):
    """Constraints of a pool (or a VM) for the placement rule besides its SKU.

    They are the arguments of the rules. `zones` is None for all zones. `image` is the name of the
    VM's image, "" if unknown, and `flavor` the name of its SKU, "" if it has only a size.
    `platform_zone` and `platform_host` are requested of a platform that chooses the machines;
    other sites ignore them. `unknown_request` is the fact of a request of it without a known
    value, such as an image from a parameter. `local_disks` are requested of it: GiB of ephemeral
    disk and MiB of swap. Pools pass their constraints as a whole, so a new argument is one more
    field.
    """

    zones: frozenset[str] | None = None
    hints: tuple[Hint, ...] = ()
    image: str = ""
    flavor: str = ""
    platform_zone: str = ""
    platform_host: str = ""
    unknown_request: Doubt | None = None
    local_disks: tuple[int, int] = (0, 0)

    def remove_platform_requests(self) -> PlacementConstraints:
        """Return the constraints without those of a platform: image, flavor, zone and host."""
        return replace(
            self,
            image="",
            flavor="",
            platform_zone="",
            platform_host="",
            unknown_request=None,
            local_disks=(0, 0),
        )


NO_CONSTRAINTS = PlacementConstraints()


class Demand(Struct, frozen=True):
    """VM to be placed.

    `last_resort` is a machine used only if no other candidate remains (heal).
    """

    vm: VmName
    sku: VmSku
    constraints: PlacementConstraints = NO_CONSTRAINTS
    last_resort: str | None = None

    @property
    def zones(self) -> frozenset[str] | None:
        """Requested zones; None = all."""
        return self.constraints.zones

    @property
    def hints(self) -> tuple[Hint, ...]:
        """Placement hints, hard and soft."""
        return self.constraints.hints


def build_standalone_demand(
    sku: VmSku, constraints: PlacementConstraints = NO_CONSTRAINTS
) -> Demand:
    """Build a demand to count free capacity.

    Of a VM without a cluster or pool, so no other VM belongs to it.
    """
    return Demand(VmName("", "", "", 0), sku, constraints)


def find_common_constraints(pools: Iterable[PlacementConstraints]) -> PlacementConstraints:
    """Return the constraints of all pools without zones, hosts and hints.

    Return NO_CONSTRAINTS if these pools differ in them.
    """
    distinct_constraints = {
        replace(constraints, zones=None, hints=(), platform_zone="", platform_host="")
        for constraints in pools
    }
    return distinct_constraints.pop() if len(distinct_constraints) == 1 else NO_CONSTRAINTS


class Interval(Struct, frozen=True):
    """Count with known bounds; they are equal if the count is exact."""

    minimum: int
    maximum: int

    @property
    def is_exact(self) -> bool:
        """True if the count is exact."""
        return self.minimum == self.maximum

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.minimum + other.minimum, self.maximum + other.maximum)

    def __str__(self) -> str:
        return f"{self.minimum:,}" if self.is_exact else f"{self.minimum:,} to {self.maximum:,}"


NONE_FITS = Interval(0, 0)


def sum_count_intervals(intervals: Iterable[Interval]) -> Interval:
    """Sum independent counts: the minimums, and the maximums.

    The sum of no counts is 0.
    """
    return sum(intervals, NONE_FITS)


class Placement(ObjectLocation, frozen=True):
    """Placement of a VM.

    `cells` are ascending and numbered from 0; they are () if unknown.
    """

    machine: str
    rack: str
    availability_zone: str
    cells: tuple[int, ...]


class ScheduledVm(Struct, frozen=True):
    """One VM on the site with its placement, for reports and explanations."""

    handle: int
    vm: VmName
    sku: VmSku
    placement: Placement


class NoFitReason(Struct, frozen=True):
    """Reason why nothing fits: the binding constraint (one word, for programs) and sentences."""

    binding: str
    reason: str
