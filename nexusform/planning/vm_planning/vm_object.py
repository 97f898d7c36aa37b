"""VMs of one instance during planning, and the reasons to add, remove or re-create each.

State records for each VM the trigger and the serial of the apply that placed it, in the object's
private note as {"placed": [[serial, trigger, [names...]], ...]}, oldest first: one entry for all
VMs placed together, so that a large pool costs little more than its names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.interfaces.plugins import UnplacedVms
from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.placements.vm_demands import (
    MACHINE_LOST,
    NO_DEMAND,
    PlacedVm,
    PlacementGroupRule,
    PoolDemand,
    VmDemand,
    index_pools,
)
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.resources.address import Address
from nexusform.scheduling.racks.uncertainty.arrivals import Stage
from nexusform.scheduling.racks.vms import Hint, NoFitReason, Placement
from nexusform.schemas.block_schema import PLACED_KEY, PREVIOUS_MACHINES_KEY
from nexusform.state.objects import replace_note_entry

if TYPE_CHECKING:
    from nexusform.scheduling.racks.explanation import DecisionExplanation

ROLLING = "kubernetes_version_changed"
MACHINE_REMOVED = "machine_removed"
MACHINE_REPLACED = "machine_replaced"
MACHINE_FORGOTTEN = "machine_forgotten"

VmKey: TypeAlias = tuple[str, "int | str"]  # pool, number
MACHINE_EVACUATED = "machine_evacuated"
HEAL = "heal"
# Keys in the extra data of diagnostics about VMs without a machine: suggested options, and site id,
# machine and name of each forgotten VM.
SELECTION_KEY = "selection"
LOST_VMS_KEY = "forgotten_vms"
_SCALE_IN: Final = "scale_in"


class VmActions(Struct, frozen=True):
    """Actions on the VMs of one resource instance, each with its trigger.

    `removals` are deleted. `recreations` are re-created under the same name (removed first, except
    for an upgrade of Kubernetes). `additions` are new. `unchanged` have no action. Pools are in the
    order of the demand, numbers ascending. `waiting` are VMs without a machine on the platform and
    without a trigger to re-create them. `losses` have no step that acts on them, and their machine
    is missing or another one after the plan. `forgets` keep running unmanaged.
    """

    removals: dict[VmKey, str] = field(default_factory=dict)
    recreations: dict[VmKey, str] = field(default_factory=dict)
    additions: dict[VmKey, str] = field(default_factory=dict)
    unchanged: list[VmKey] = field(default_factory=list)
    waiting: list[VmKey] = field(default_factory=list)
    losses: dict[VmKey, str] = field(default_factory=dict)
    forgets: dict[VmKey, str] = field(default_factory=dict)


class HardHint(Struct, frozen=True):
    """Hard hint that restricts the location of a VM.

    It is a hint of the VM, or a hint of another VM with this VM as its target. `address` is the
    owner of the hint, `name` its name, `index` its index among the `placement_hint` blocks.
    `is_existing` means that the owner is another VM that stays.
    """

    address: Address
    name: str
    index: int
    hint: Hint
    is_existing: bool


class PriorVms(Struct, frozen=True):
    """VMs of one instance before the plan.

    `demand` is that of the prior arguments, `existing` are the VMs in state, `unplaced` those
    without a machine, `recorded_placements` the placements in state of VMs observed elsewhere.
    """

    demand: VmDemand = NO_DEMAND
    existing: Mapping[VmKey, PlacedVm] = field(default_factory=dict)
    unplaced: UnplacedVms = field(default_factory=dict)
    recorded_placements: Mapping[VmKey, Placement] = field(default_factory=dict)

    @property
    def site_id(self) -> str:
        """Site of the prior arguments; "" for a new instance."""
        return self.demand.site_id


class RequestedVms(Struct, frozen=True):
    """Requested VMs (`demand`), their `site`, and the resulting actions.

    NO_DEMAND while unknown or if removed.
    """

    demand: VmDemand = NO_DEMAND
    site: SitePlan | None = None
    actions: VmActions = field(default_factory=VmActions)


class PlannedVmPlacements(Struct, frozen=True):
    """Placements of VMs, filled VM by VM by vm_placement_steps.py alone.

    `reservations` is the capacity used by VMs of before: site and handle. `vms` are the VMs after
    the plan, `new_handles` the handles of those it placed itself, `failures` those without
    capacity, `pool_shortages` the exhausted pools, `binding_hints` the hard hints behind failures.
    `explanations` are the requested decisions, `pin_rejections` the reasons against pinned VMs.
    `relocated` are unchanged VMs with a new rack or zone of their machine. `restored` are those
    re-created at their location on re-created machines, without a placement decision. `doubts` are
    clauses on orders of arrival that were not tried, by pool.
    """

    reservations: dict[VmKey, tuple[SitePlan, int]] = field(default_factory=dict)
    vms: dict[VmKey, PlacedVm] = field(default_factory=dict)
    new_handles: dict[VmKey, int] = field(default_factory=dict)
    failures: dict[VmKey, NoFitReason] = field(default_factory=dict)
    pool_shortages: dict[str, NoFitReason] = field(default_factory=dict)
    binding_hints: list[HardHint] = field(default_factory=list)
    explanations: dict[VmKey, DecisionExplanation] = field(default_factory=dict)
    pin_rejections: list[str] = field(default_factory=list)
    relocated: set[VmKey] = field(default_factory=set)
    restored: set[VmKey] = field(default_factory=set)
    doubts: dict[str, str] = field(default_factory=dict)


class VmObject(Struct):
    """VMs of one instance: prior, requested and placed.

    A block waiting for other placements sets `instance` later. The VMs of `awaited` stages are
    complete before it is applied.
    """

    instance: Instance
    prior: Final[PriorVms] = field(default_factory=PriorVms)
    request: RequestedVms = field(default_factory=RequestedVms)
    placements: Final[PlannedVmPlacements] = field(default_factory=PlannedVmPlacements)
    awaited: frozenset[Stage] = frozenset()

    @property
    def pools(self) -> tuple[PoolDemand, ...]:
        """Requested pools; none while unknown."""
        return self.request.demand.pools

    @property
    def prior_pools(self) -> tuple[PoolDemand, ...]:
        """Pools of the prior arguments; none for a new instance."""
        return self.prior.demand.pools

    @property
    def placement_groups(self) -> list[PlacementGroupRule]:
        """Placement groups of the requested pools, each once."""
        return list(dict.fromkeys(chain.from_iterable(pool.groups for pool in self.pools)))

    @property
    def requested_names(self) -> dict[VmKey, str]:
        """Names of the requested VMs, pools in order."""
        names: dict[VmKey, str] = {}
        for pool in self.pools:
            names.update(zip(pool.keys, pool.names, strict=True))
        return names

    @property
    def waiting_vms(self) -> UnplacedVms:
        """VMs without machine that exist after the plan."""
        return {key: self.prior.unplaced[key] for key in self.request.actions.waiting}

    @property
    def existing_names(self) -> Iterator[str]:
        """Names of the VMs in state, both nexusform's and the platform's."""
        return chain.from_iterable(vm.names for vm in self.prior.existing.values())

    @property
    def existing_identities(self) -> Iterator[str]:
        """Names of the VMs in state, and their ids in inventories."""
        return chain.from_iterable(vm.identities for vm in self.prior.existing.values())

    @property
    def is_unchanged(self) -> bool:
        """Whether the object and all of its VMs stay unchanged, also those without a machine."""
        actions = self.request.actions
        return not (
            self.instance.is_replaced
            or actions.removals
            or actions.recreations
            or actions.additions
            or actions.forgets
            or self.placements.relocated
            # Some are removed or re-created.
            or len(actions.waiting) < len(self.prior.unplaced)
        )

    def get_trigger(self, key: VmKey) -> str:
        """Return the trigger (reason) of placing a VM, "" for an unchanged one."""
        actions = self.request.actions
        return actions.recreations.get(key, actions.additions.get(key, ""))

    def get_prior_placement(self, key: VmKey) -> Placement:
        """Return the placement of a VM before the plan."""
        return self.prior.existing[key].placement

    def get_placement(self, key: VmKey) -> Placement:
        """Return the placement of a VM after the plan."""
        return self.placements.vms[key].placement

    def list_prior_names(self) -> list[str]:
        """Return all names of the VMs before the plan, including those without a machine."""
        names = list(self.existing_names)
        for record in self.prior.unplaced.values():
            names += [name for name in (record["name"], record.get("platform_name")) if name]
        return names

    def list_failed_names(self) -> list[str]:
        """Return the names of the requested VMs without capacity."""
        return [
            name for key, name in self.requested_names.items() if key in self.placements.failures
        ]

    def get_left_machines(self) -> dict[str, str]:
        """Return the machines left by VMs placed again because of their machine, by VM name.

        The machine is missing or evacuated, or the user re-places the VM (HEAL).
        """
        hardware_triggers = (MACHINE_REMOVED, MACHINE_EVACUATED, MACHINE_LOST, HEAL)
        return {
            self.placements.vms[key].name: self.prior.existing[key].placement.machine
            for key in self.placements.new_handles
            if key in self.prior.existing and self.get_trigger(key) in hardware_triggers
        }

    def keep_all_vms(self, demand: VmDemand) -> None:
        """Plan no action: every VM stays at its location, as one of the VMs of this demand."""
        self.placements.vms.clear()
        self.placements.vms.update(self.prior.existing)
        actions = VmActions(unchanged=list(self.prior.existing), waiting=list(self.prior.unplaced))
        self.request = replace(self.request, demand=demand, actions=actions)

    def keep_unselected_vms(
        self,
        find_trigger: Callable[[str], str],
        *,
        is_maintained: bool = False,
        heals_vms: bool = False,
    ) -> None:
        """Keep the VMs of an object that -target or -exclude leaves out.

        Losses of machines are recorded.

        `find_trigger` returns what this plan does to a machine, such as "machine_removed", or "".
        An evacuated machine still exists, so its VMs stay. The platform re-creates the VMs of an
        `is_maintained` object: those of lost machines, and with another version all. With
        `heals_vms` those that the request names are re-created.
        """
        requested = self.request.actions.recreations if heals_vms else {}
        is_upgraded = is_maintained and self.request.demand.version != self.prior.demand.version
        self.keep_all_vms(self.request.demand)
        losses: dict[VmKey, str] = {}
        recreations: dict[VmKey, str] = {}
        unchanged: list[VmKey] = []
        for key, vm in self.prior.existing.items():
            trigger = find_trigger(vm.placement.machine)
            if requested.get(key) == HEAL:
                recreations[key] = HEAL
                del self.placements.vms[key]
            elif is_maintained and trigger == MACHINE_LOST:
                recreations[key] = trigger
                del self.placements.vms[key]
            elif trigger in (MACHINE_REMOVED, MACHINE_REPLACED, MACHINE_FORGOTTEN, MACHINE_LOST):
                losses[key] = trigger
            elif is_upgraded:
                recreations[key] = ROLLING
                del self.placements.vms[key]
            else:
                unchanged.append(key)
        actions = replace(
            self.request.actions, unchanged=unchanged, losses=losses, recreations=recreations
        )
        self.request = replace(self.request, actions=actions)

    def forget(self, trigger: str, find_trigger: Callable[[str], str]) -> None:
        """Forget the object for the reason `trigger`: its VMs keep running, unmanaged.

        `find_trigger` returns what the plan does to a machine: VMs on a removed or replaced
        one are lost.
        """
        before = self.prior
        actions = VmActions(forgets=dict.fromkeys((*before.existing, *before.unplaced), trigger))
        for key, vm in before.existing.items():
            machine_trigger = find_trigger(vm.placement.machine)
            # A forgotten machine keeps its VMs running.
            if machine_trigger in (MACHINE_REMOVED, MACHINE_REPLACED, MACHINE_LOST):
                actions.losses[key] = machine_trigger
                del actions.forgets[key]
        self.request = RequestedVms(actions=actions)

    def list_placed_vms(self) -> list[PlacedVm]:
        """Return every VM with a location after the plan, pools in order, numbers ascending."""
        return self._list_requested_vms(self.placements.vms)

    def list_recorded_vms(self) -> list[PlacedVm]:
        """Return every VM that the state has after the plan, in the same order.

        VMs that fit nowhere keep their record, unless they are removed first: a VM of a lost
        machine is down until the machine returns, and an upgrade removes no old VM without a new
        one.
        """
        recreations = self.request.actions.recreations
        kept_vms = {
            key: self.prior.existing[key]
            for key in self.placements.failures
            if key in self.prior.existing and recreations.get(key) in (MACHINE_LOST, ROLLING)
        }
        return self._list_requested_vms({**kept_vms, **self.placements.vms})

    def _list_requested_vms(self, vms: Mapping[VmKey, PlacedVm]) -> list[PlacedVm]:
        return [vms[key] for pool in self.pools for key in pool.keys if key in vms]

    def list_names(self) -> list[str]:
        """Return the names of the VMs after the plan, pools in order, numbers ascending."""
        return [vm.name for vm in self.list_recorded_vms()]

    def list_newly_placed(self) -> list[tuple[str, str]]:
        """Return the names and reasons of the VMs placed by this plan, in order of placement.

        Each has its trigger.
        """
        return [
            (self.placements.vms[key].name, self.get_trigger(key))
            for key in self.placements.new_handles
        ]

    def list_chosen_removals(self) -> list[VmKey]:
        """List the VMs of smaller pools that are removed, of which the platform chooses others.

        A pool that ends leaves no choice. The manager of a VNF removes the newest: it decides the
        machines itself ("decided"), or leaves them to a platform of its own.
        """
        site = self.request.site
        has_manager = site is not None and bool(site.platform)
        if has_manager or self.request.demand.provenance == "decided":
            return []
        actions = self.request.actions
        staying_pools = {name for name, _ in actions.unchanged}
        return [
            key
            for key, trigger in actions.removals.items()
            if trigger == _SCALE_IN and key[0] in staying_pools
        ]

    def list_vms(self) -> Sequence[PlacedVm]:
        """Return every VM after the plan; while the demand is unknown (NO_DEMAND) all prior VMs."""
        if self.instance.is_removed:
            return ()
        if self.request.demand is NO_DEMAND:
            return tuple(self.prior.existing.values())
        return self.list_placed_vms()

    def is_released_early(self, key: VmKey) -> bool:
        """Return whether a VM of an updated object is removed before anything is placed.

        VMs of a Kubernetes upgrade (rolling) are not: they free capacity when their own
        object is updated.
        """
        actions = self.request.actions
        if key in actions.removals:
            return True
        return key in actions.recreations and actions.recreations[key] != ROLLING


class VmSituation(Struct, frozen=True):
    """Conditions of the VMs of one instance besides its arguments.

    `common_trigger` is the trigger of every VM ("cluster_replaced", "requested", or the
    one of a removal), "" for none. `healed_names` are the VMs to re-create on request.
    `find_machine_trigger(machine)` returns "machine_removed", "machine_forgotten",
    "machine_evacuated", "machine_replaced", "machine_lost" or "". `unplaced` are the
    VMs without machine.
    """

    common_trigger: str = ""
    healed_names: frozenset[str] = frozenset()
    find_machine_trigger: Callable[[str], str] = lambda _machine: ""
    unplaced: UnplacedVms = field(default_factory=dict)

    def choose_trigger(self, names: Iterable[str | None], own_trigger: str) -> str:
        """Return why a VM is re-created.

        -replace names it, or else a trigger of all VMs, or its own. "": it is not.
        """
        return (
            HEAL if not self.healed_names.isdisjoint(names) else self.common_trigger or own_trigger
        )


def compute_vm_actions(
    existing_vms: tuple[PlacedVm, ...],
    prior_demand: VmDemand,
    demand: VmDemand,
    situation: VmSituation,
) -> VmActions:
    """Compute the actions on the VMs of one instance.

    `prior_demand` is the demand of the prior arguments (to find changed arguments and nodes deleted
    outside nexusform). Without a resource, `demand` is NO_DEMAND.
    """
    existing_by_key = {(vm.pool, vm.number): vm for vm in existing_vms}
    # Of VMs with and without a machine.
    prior_keys = [*existing_by_key, *situation.unplaced]
    actions = VmActions(removals=_find_removals(prior_keys, demand, situation.common_trigger))
    vm_counts = Counter(pool_name for pool_name, _ in prior_keys)
    prior_pools = index_pools(prior_demand.pools)
    is_upgraded = prior_demand is not NO_DEMAND and demand.version != prior_demand.version
    for pool in demand.pools:
        prior = prior_pools.get(pool.pool)
        # "" for none.
        argument_trigger = ROLLING if is_upgraded else find_changed_argument(prior, pool)
        # With fewer VMs than requested before, some were deleted. Otherwise a scale-in left
        # a free number.
        prior_numbers = (
            set(prior.numbers) if prior and vm_counts[pool.pool] < len(prior.numbers) else set()
        )
        for number in pool.numbers:
            key = (pool.pool, number)
            trigger = ""
            if key in existing_by_key:
                vm = existing_by_key[key]
                own_trigger = (
                    situation.find_machine_trigger(vm.placement.machine) or argument_trigger
                )
                trigger = situation.choose_trigger(vm.names, own_trigger)
                if not trigger:
                    actions.unchanged.append(key)
            elif key in situation.unplaced:
                # It waits for a machine.
                # Its attributes in state.
                record = situation.unplaced[key]
                trigger = situation.choose_trigger(
                    (record["name"], record.get("platform_name")), argument_trigger
                )
                if not trigger:
                    actions.waiting.append(key)
            else:
                _add_action_for_missing_vm(
                    actions, key, situation, prior, was_there=number in prior_numbers
                )
            if trigger:
                actions.recreations[key] = trigger
    return actions


def _find_removals(
    prior_keys: Iterable[VmKey], demand: VmDemand, common_trigger: str
) -> dict[VmKey, str]:
    """Return the VMs before the plan that the demand does not include.

    Each comes with the trigger (reason) of its removal. `common_trigger` is a trigger for all
    VMs, such as "cluster_replaced", or "". Without it, a VM is removed with its whole pool, or
    by a scale-in.
    """
    numbers_by_pool = {pool.pool: frozenset(pool.numbers) for pool in demand.pools}
    removals: dict[VmKey, str] = {}
    for key in prior_keys:
        pool_name, number = key
        # Without a demand, the whole resource is removed.
        if pool_name not in numbers_by_pool:
            removals[key] = common_trigger if demand is NO_DEMAND else "pool_removed"
        elif number not in numbers_by_pool[pool_name]:
            removals[key] = common_trigger or "scale_in"
    return removals


def _add_action_for_missing_vm(
    actions: VmActions,
    key: VmKey,
    situation: VmSituation,
    prior: PoolDemand | None,
    was_there: bool,
) -> None:
    """Add a VM missing in state.

    It is re-created if all VMs are, or if it was deleted (`was_there`); else new.
    """
    if situation.common_trigger:
        actions.recreations[key] = situation.common_trigger
    elif was_there:
        actions.recreations[key] = "node_deleted"
    else:
        actions.additions[key] = "scale_out" if prior else "new"


def find_changed_argument(prior: PoolDemand | None, pool: PoolDemand) -> str:
    """Return the first changed argument that re-creates the VMs of the pool, or "".

    Arguments are in order of precedence.
    """
    # A new pool.
    if prior is None:
        return ""
    prior_values = dict(prior.triggers)
    return next((name for name, value in pool.triggers if prior_values.get(name) != value), "")


def record_vm_placements(
    prior: Mapping[str, Any] | None,
    placed_vms: Sequence[tuple[str, str]],
    present: Collection[str],
    serial: int,
) -> dict[str, Any] | None:
    """Return the private note of an object with the VMs placed by this plan.

    They are added to those in `prior`. Return None if the note is empty. `placed_vms` are (name,
    trigger), `present` the names of all VMs afterwards. `serial` is that of the state after apply.
    """
    unchanged_names = set(present) - {name for name, _ in placed_vms}
    # Serial of the state, trigger, names of the VMs placed then.
    entries: list[list[Any]] = []
    for prior_serial, trigger, names in _read_placed_entries(prior):
        remaining_names = [name for name in names if name in unchanged_names]
        if remaining_names:
            entries.append([prior_serial, trigger, remaining_names])
    names_by_trigger: dict[str, list[str]] = {}
    for name, trigger in placed_vms:
        names_by_trigger.setdefault(trigger, []).append(name)
    entries += [[serial, trigger, names] for trigger, names in names_by_trigger.items()]
    return replace_note_entry(prior, PLACED_KEY, entries)


def record_previous_machines(
    note: Mapping[str, Any] | None,
    # By name of the VM.
    left_machines: Mapping[str, str],
    # Of the VMs placed by this plan.
    placed_names: Collection[str],
    # Names of all VMs after it.
    present: Collection[str],
) -> dict[str, Any] | None:
    """Return the private note of an object with the machines left by its VMs.

    They are those left in this plan, and earlier ones of VMs not placed again.
    """
    earlier_machines = {
        name: machine
        for name, machine in _read_left_machines(note).items()
        if name in present and name not in placed_names
    }
    # Earlier versions recorded "left", which is read above.
    note = replace_note_entry(note, "left", {})
    return replace_note_entry(note, PREVIOUS_MACHINES_KEY, {**earlier_machines, **left_machines})


def get_previous_machine(private: Mapping[str, Any] | None, name: str) -> str:
    """Return the machine that a VM had to leave; "" for none."""
    return _read_left_machines(private).get(name, "")


def _read_left_machines(private: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the machines left by VMs in a private note, by name of the VM.

    Invalid entries are ignored: users may edit the state.
    """
    # Earlier versions recorded "left".
    entries = get_mapping(private, PREVIOUS_MACHINES_KEY) or get_mapping(private, "left")
    return {name: machine for name, machine in entries.items() if isinstance(machine, str)}


def find_placement_origin(private: Mapping[str, Any] | None, name: str) -> tuple[str, int] | None:
    """Return the reason (trigger) of a VM's placement and the serial of the state then.

    Return None if it is unknown.
    """
    for serial, trigger, names in reversed(_read_placed_entries(private)):
        if name in names:
            return trigger, serial
    return None


def rank_names_by_age(private: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the rank of each recorded VM name by age; 0 is the oldest VM."""
    # By the serial of the state.
    entries = sorted(_read_placed_entries(private), key=lambda entry: entry[0])
    # Each at its first entry.
    names = dict.fromkeys(name for _, _, entry_names in entries for name in entry_names)
    return {name: rank for rank, name in enumerate(names)}


def _read_placed_entries(note: Mapping[str, Any] | None) -> list[tuple[int, str, list[str]]]:
    """Return the valid placement entries of an object's private note, as users may edit it.

    An entry has the serial of the state, the reason (trigger) and the names of the VMs placed then.
    """
    valid_entries: list[tuple[int, str, list[str]]] = []
    for entry in get_list(note, PLACED_KEY):
        match entry:
            case [int(serial), str(trigger), [*names]] if all(
                isinstance(name, str) for name in names
            ):
                valid_entries.append((serial, trigger, names))
    return valid_entries
