"""What a rule may look at, one machine or one rack as it stands for one demand, and what a key says."""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.racks.model import Machine


class Host(Struct, frozen=True):
    """A machine: what is free per cell (vCPUs, GiB) and of its disk (GiB), never below 0.

    Beside it the GiB used by VMs, the VMs of the demand's cluster and pool, and whether an extra-large
    VM of another cluster is there.
    """

    machine: Machine
    free_cpus: tuple[int, ...]
    free_memory: tuple[int, ...]
    free_disk: int
    memory_used: int
    cluster_vms: int
    pool_vms: int
    houses_other_extra_large: bool


class RackUse(Struct, frozen=True):
    """A rack: VMs and GiB on it, VMs of the demand's cluster and pool."""

    name: str
    vms: int
    memory_used: int
    cluster_vms: int
    pool_vms: int


class KeyPart(Struct, frozen=True):
    """One figure by which candidates are compared.

    The rule's name, the figure (lower wins), and the figure in words for people ("" = not worth saying).
    """

    rule: str
    value: int
    text: str
