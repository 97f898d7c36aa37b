"""The VMs of one instance while a plan is made."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from nexusform.demands import PlacedVm, VmDemand
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.triggers import Moves, VmKey
from nexusform.scheduling.racks.explanation import Explanation
from nexusform.scheduling.racks.model import Placement
from nexusform.scheduling.racks.shortage import Shortage

ROLLING = "kubernetes_version_changed"


class VmObject(Struct):
    """The VMs of one instance, from where they stand to where they will.

    `prior_demand` is what the prior arguments asked for, `demand` what is asked for now (None while it
    cannot be told), `site` where. `standing` are the VMs read from state, `held` the room they hold: site
    and handle. `moves` is what happens to each. `placed` are the VMs after the plan, `tokens` the handles of
    those that it placed itself, `failed` those that found no place, `short` the pools that are exhausted.
    `explained` are the decisions asked about, `crowded` the reasons why pinned VMs do not fit.
    `renamed_around`: a machine has got another rack or zone around a VM that stays.
    """

    instance: Instance
    prior_demand: VmDemand | None = None
    demand: VmDemand | None = None
    site: SitePlan | None = None
    standing: dict[VmKey, PlacedVm] = field(default_factory=dict)
    held: dict[VmKey, tuple[SitePlan, int]] = field(default_factory=dict)
    moves: Moves = field(default_factory=Moves)
    placed: dict[VmKey, PlacedVm] = field(default_factory=dict)
    tokens: dict[VmKey, int] = field(default_factory=dict)
    failed: dict[VmKey, Shortage] = field(default_factory=dict)
    short: dict[str, Shortage] = field(default_factory=dict)
    explained: dict[VmKey, Explanation] = field(default_factory=dict)
    crowded: list[str] = field(default_factory=list)
    renamed_around: bool = False

    @property
    def untouched(self) -> bool:
        """Whether the same object stays, with every VM exactly as it is."""
        moves = self.moves
        return not (
            self.instance.replaced or moves.leave or moves.again or moves.arrive or self.renamed_around
        )

    @property
    def keeps_old(self) -> bool:
        """Whether the old VMs hold their room while the new are placed."""
        return self.instance.action is Action.REPLACE_CREATE_FIRST

    @property
    def going(self) -> bool:
        """Whether the whole instance goes."""
        return self.instance.going

    def trigger_of(self, key: VmKey) -> str:
        """Why this plan places a VM, "" for one that stays."""
        return self.moves.again.get(key) or self.moves.arrive.get(key) or ""

    def place_before(self, key: VmKey) -> Placement:
        """Where a VM stood before the plan."""
        return self.standing[key].placement

    def place_after(self, key: VmKey) -> Placement:
        """Where a VM stands after the plan."""
        return self.placed[key].placement

    def names_before(self) -> list[str]:
        """The VMs that stood before the plan."""
        return [vm.name for vm in self.standing.values()]

    def names_after(self) -> list[str]:
        """The VMs that stand after the plan, pools in order, numbers ascending."""
        return [vm.name for vm in self.placed_vms()]

    def names_placed(self) -> list[tuple[str, str]]:
        """The VMs that this plan placed, in the order in which it did, and why."""
        return [(self.placed[key].name, self.trigger_of(key)) for key in self.tokens]

    def stay_as_they_are(self) -> None:
        """Every VM stays where it is, whatever stands around it."""
        self.placed = dict(self.standing)
        self.moves = Moves(stay=list(self.standing))

    def placed_vms(self) -> list[PlacedVm]:
        """Every VM after the plan, pools in order, numbers ascending."""
        pools = self.demand.pools if self.demand is not None else ()
        keys = ((pool.pool, number) for pool in pools for number in pool.numbers)
        return [self.placed[key] for key in keys if key in self.placed]

    def vms_after(self) -> Sequence[PlacedVm]:
        """Every VM after the plan, also where it cannot be told what is asked for: then all stay."""
        if self.going:
            return ()
        return tuple(self.standing.values()) if self.demand is None else self.placed_vms()

    def remaining_vms(self) -> list[PlacedVm]:
        """The prior VMs as a release step leaves them: those that stay, and those that roll later."""
        return [vm for key, vm in self.standing.items() if not self.leaves_early(key)]

    def leaves_early(self, key: VmKey) -> bool:
        """Whether a VM of a kept object leaves before anything is placed. A rolling one does not: it makes
        room as its own object is updated.
        """
        return key in self.moves.leave or self.moves.again.get(key, ROLLING) != ROLLING
