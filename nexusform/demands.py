"""What a resource type says of its VMs: what it wants, and each VM that has a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.kubernetes.matching import Taint
from nexusform.kubernetes.quantity import amount_of
from nexusform.plain_data import Path
from nexusform.scheduling.kubelet import Kubelet
from nexusform.scheduling.racks.vms import ANYWHERE, CONTROL_PLANE, Hint, Placement, Terms, VmSku


class GroupRule(Struct, frozen=True):
    """A placement group among the VMs of one resource: all VMs of `pools` together, or apart.

    `scope` is "machine", "rack" or "site". `most` VMs of the group may share one machine or rack
    under anti-affinity.
    """

    name: str
    affinity: bool
    hard: bool
    scope: str
    pools: tuple[str, ...]
    most: int = 1


class PoolDemand(Struct, frozen=True):
    """The VMs of one pool that a resource wants.

    `numbers` and `names` run in parallel (names as shown: `cluster-a-np1-0`). `sku` is the
    resolved VM SKU. `triggers` are (trigger name, comparable value) pairs in order of precedence:
    a value that differs from the prior's re-places the pool's VMs with that trigger. `path` is
    where the pool stands in the resource's configuration; `terms` are what it asks of the placement
    rule beside the SKU. `max_surge` and `max_unavailable` are as written ("1", "33%").
    `pinned` names the machine that the user fixed, or "". `rule_pool` and `rule_number` stand in
    for pool and number in the placement rule where they differ (plain VMs). `count_path` is where the
    number of VMs is written (empty for what has none: plain VMs, VNFs). A node may take `drain_timeout`
    seconds to drain.
    """

    pool: str
    numbers: tuple[int | str, ...]
    names: tuple[str, ...]
    sku: VmSku
    terms: Terms = ANYWHERE
    triggers: tuple[tuple[str, Any], ...] = ()
    path: Path = ()
    max_surge: str = "1"
    max_unavailable: str = "0"
    pinned: str = ""
    rule_pool: str = ""
    rule_number: int | str | None = None
    count_path: Path = ()
    groups: tuple[GroupRule, ...] = ()
    system: bool = False
    control_plane: bool = False
    drain_timeout: int = 1800

    @property
    def surge(self) -> int:
        """How many VMs an upgrade of the pool adds before old ones leave; a control plane adds one."""
        size = len(self.numbers)
        return min(1 if self.pool == CONTROL_PLANE else amount_of(self.max_surge, size), size)

    @property
    def batch(self) -> int:
        """How many of its VMs an upgrade makes anew at once: as many as come first, else as may be away."""
        return self.surge or max(amount_of(self.max_unavailable, len(self.numbers)), 1)

    @property
    def zones(self) -> frozenset[str] | None:
        """The availability zones that its VMs may be in; None = all."""
        return self.terms.zones

    @property
    def hints(self) -> tuple[Hint, ...]:
        """Its placement hints."""
        return self.terms.hints


class ClaimDemand(Struct, frozen=True):
    """What the claims of pods on one cluster ask of the storage of its site: how many bytes in all, and how
    many of them belong to no volume that could stand already (fewer than none where volumes go). `unsized` is
    a claim of which nobody can read how much it asks, "" where there is none. `unlooked` are the bytes of
    each claim that stands and of which nobody says whether it has its volume.
    """

    size: int = 0
    waiting: int = 0
    unsized: str = ""
    unlooked: tuple[int, ...] = ()


class VmDemand(Struct, frozen=True):
    """All VMs that one resource wants: whose they are and on which site.

    `owner` and `cluster` are as in racks.vms.VmName. `version` is the kubernetes_version: a
    changed one re-places every VM, rolling. `parent_id` is the cluster that a separate pool
    belongs to, "" otherwise. `provenance` is what the plan says of the places that it gives:
    "decided" where nexusform's choice is carried out, "predicted" where the platform chooses.
    """

    site_id: str
    owner: str
    cluster: str
    pools: tuple[PoolDemand, ...]
    version: str | None = None
    parent_id: str = ""
    provenance: str = "predicted"


# How a place is known that somebody saw.
OBSERVED: Final = "observed"


class PlacedVm(Struct, frozen=True):
    """One VM that has a place: read once from state by its resource type, or decided once in a plan.

    `number` is its number in the pool, `name` as shown (`cluster-a-np1-0`). `provenance` says how the
    place is known: "predicted", "decided" or "observed". `platform_name` is the platform's own name of
    it, None where it told none. `came` is the trigger under which a plan places it, or what its resource
    type recorded of that; "" where nothing is.
    """

    pool: str
    number: int | str
    name: str
    sku_name: str
    placement: Placement
    provenance: str = "predicted"
    platform_name: str | None = None
    came: str = ""

    @property
    def called(self) -> str:
        """Its name, and the platform's where that is known: `c-np1-0 [c-1a2b3c4d-np1-md-x7k2p]`."""
        return self.name if self.platform_name is None else f"{self.name} [{self.platform_name}]"

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called: its name, and the platform's where that is known."""
        return (self.name,) if self.platform_name is None else (self.name, self.platform_name)


# What keeps ordinary pods off the nodes of a control plane.
CONTROL_PLANE_TAINT: Final = Taint("node-role.kubernetes.io/control-plane")


class NodeMarks(Struct, frozen=True):
    """What a VM carries as a node of its cluster: labels that its resource type gives it, and taints; and
    what its kubelet leaves to pods.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kubelet: Kubelet = Kubelet()


def number_order(number: int | str) -> tuple[bool, int, str]:
    """The sort key of a VM's number in its pool: whole numbers first."""
    if isinstance(number, int):
        return False, number, ""
    return True, 0, number
