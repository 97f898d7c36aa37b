"""Order of a repacking: VMs re-created together, cordons, and target machines.

The order is checked under all samples.

A window is one plan with `-replace`: all its VMs leave, then they are placed by pool and number,
with their own machine as last choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pod_outage import NO_CLUSTER_PODS
from nexusform.domains.whatif.questions.repack_choice import RepackChoice
from nexusform.domains.whatif.questions.repack_context import (
    NO_TIME_LIMIT,
    Constraint,
    MovableVm,
    RepackContext,
    RepackRequest,
    TimeBudget,
    build_pool_demand,
    find_pods_without_resources,
    is_drain_blocked,
)
from nexusform.kubernetes.quantity import compute_amount_of_total
from nexusform.planning.vm_planning.site_plans import rebuild_scheduler
from nexusform.plans.maintenance import compute_quorum
from nexusform.scheduling.racks.explanation import MachineRanking
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Placement, UnschedulableReason

SAMPLES: Final = 100
CORDONED: Final = "cordoned"


class RepackStep(Struct, frozen=True):
    """Re-creation of one VM; it reaches its target in `hits` of `runs` samples."""

    source: MovableVm
    target: Placement
    hits: int = 0
    runs: int = 0


class MovedPod(Struct, frozen=True):
    """Pod of a re-created node: its node `meanwhile` and afterwards (`final_node`), "" for none.

    With `is_certain`, every scheduler run has this result.
    """

    cluster_id: str
    workload: str
    pod: str
    old_node: str
    meanwhile: str
    final_node: str
    is_certain: bool


class RepackWindow(Struct, frozen=True):
    """VMs re-created together while these machines are cordoned, and their pods."""

    steps: tuple[RepackStep, ...]
    cordons: tuple[str, ...]
    pods: tuple[MovedPod, ...] = ()


def count_recreations(windows: Iterable[RepackWindow]) -> int:
    """Count the VMs re-created in these windows."""
    return sum(len(window.steps) for window in windows)


class RepackWindowSequence(Struct, frozen=True):
    """Windows in order, and the site after them."""

    windows: tuple[RepackWindow, ...]
    scheduler_after: RackScheduler


def find_window_sequence(
    context: RepackContext,
    request: RepackRequest,
    choice: RepackChoice,
    time_budget: TimeBudget = NO_TIME_LIMIT,
) -> RepackWindowSequence | None:
    """Find an order of windows with all VMs placed and the demand fitting.

    First, VMs may use any machine not reserved for the demand. Then they are steered (by cordons)
    to the target machines of the choice, if it has any. Return the first certain order, else the
    one with the highest certainty, or None without one.
    """
    best_sequence = None
    best_certainty = -1.0
    # Strict targets hold in every NUMA layout.
    for strategy, is_strict in _list_window_strategies(context, choice):
        builder = _RepackSequenceBuilder(context, request, choice, strategy, is_strict=is_strict)
        sequence = builder.build_sequence(time_budget)
        if sequence is None or not has_capacity(sequence.scheduler_after, request):
            continue
        # Known NUMA cells: every target is certain.
        if not context.scheduler.is_sampled:
            return sequence
        windows = verify_sequence(context, sequence, time_budget)
        # Shares of samples on the target.
        shares = [step.hits / step.runs for window in windows for step in window.steps]
        certainty = min(shares, default=1.0)
        # No other order is better.
        if certainty == 1.0:
            return sequence
        if certainty > best_certainty:
            best_sequence = sequence
            best_certainty = certainty
    return best_sequence


def build_ordered_sequence(
    context: RepackContext, request: RepackRequest, order: Sequence[Mapping[int, str]]
) -> RepackWindowSequence | None:
    """Build one window per group of `order`.

    A group is a mapping from the handle of a VM to its target machine. Return None if no cordons
    lead a VM to its target, or the demand does not fit afterwards.
    """
    targets: dict[int, str] = {}
    for group in order:
        targets |= group
    sources = {
        source.handle: source for source in context.all_movable_vms if source.handle in targets
    }
    choice = RepackChoice(
        tuple(sources.values()), targets, reserved=frozenset(), crowding_pools=frozenset()
    )
    builder = _RepackSequenceBuilder(
        context, request, choice, _WindowStrategy.STEERED, is_strict=True
    )
    sequence = builder.build_windows([sources[handle] for handle in group] for group in order)
    if sequence is None or not has_capacity(sequence.scheduler_after, request):
        return None
    return sequence


def _list_window_strategies(
    context: RepackContext, choice: RepackChoice
) -> list[tuple[_WindowStrategy, bool]]:
    """List the strategies to try, as pairs with `is_strict`.

    `is_strict` is true if targets must hold in every NUMA layout.
    """
    # No targets, or some exceed the limit of a rack: not used.
    if choice.crowding_pools or not choice.targets:
        return [(_WindowStrategy.FREE, True)]
    # No unknown NUMA cells, so no machine is emptied because of them.
    if not context.scheduler.is_sampled:
        return [(_WindowStrategy.FREE, True), (_WindowStrategy.STEERED, True)]
    certain_targets = [(strategy, True) for strategy in _WindowStrategy]
    # Uncertain targets come last.
    return certain_targets + [(strategy, False) for strategy in _STEERING_STRATEGIES]


class _WindowStrategy(Enum):
    """Strategy of an order search: free placement, or steering to target machines.

    The others are for machines emptied because of unknown cells: `BY_TURNS` moves other VMs first,
    then returning VMs at once, then the rest; `AT_ONCE` moves all VMs allowed to be down together;
    `LARGEST` moves large VMs first to avoid fragmented cells.
    """

    FREE = "free"
    STEERED = "steered"
    BY_TURNS = "by turns"
    AT_ONCE = "at once"
    LARGEST = "largest"


_RETURN_TURN: Final = 1
_STEERING_STRATEGIES: Final = (
    _WindowStrategy.STEERED,
    _WindowStrategy.BY_TURNS,
    _WindowStrategy.AT_ONCE,
    _WindowStrategy.LARGEST,
)


def has_capacity(scheduler: RackScheduler, request: RepackRequest) -> bool:
    """Return True if all VMs of the demand fit in every possible NUMA layout."""
    return scheduler.count_free_slots(request.demand).minimum >= request.want


class _RepackWindowBuilder(Struct):
    """Builder of a window: scheduler, VMs, target machines and cordons."""

    scheduler: RackScheduler
    handles: dict[int, int]
    placements: dict[int, tuple[MovableVm, int, Placement]] = {}
    cordons: set[str] = set()

    @property
    def targets(self) -> set[str]:
        """Target machines of placed VMs."""
        return {location.machine for _, _, location in self.placements.values()}


class _RepackSequenceBuilder:
    """Builder of a sequence, window by window."""

    def __init__(
        self,
        context: RepackContext,
        request: RepackRequest,
        choice: RepackChoice,
        strategy: _WindowStrategy,
        *,
        is_strict: bool,
    ) -> None:
        """Start before the first window.

        With `is_strict`, VMs must reach their targets in every NUMA layout.
        """
        self._context = context
        self._request = request
        self._choice = choice
        self._strategy = strategy
        self._is_steered = strategy is not _WindowStrategy.FREE
        # Without unknown cells, targets are certain.
        self._is_strict = is_strict and context.scheduler.is_sampled
        # Of VMs in unknown cells: these VMs leave a machine all together.
        self._emptied_machines = {
            source.vm.placement.machine
            for source in choice.sources
            if not source.vm.placement.cells
        }
        self._scheduler = context.scheduler.copy()
        # Handles of VMs sent to other machines than their targets.
        self._unsteered: set[int] = set()
        # By handle of a VM already moved, or no longer steered.
        self._settled_targets: dict[int, str] = {}
        # The current handle of a VM by its first one: a VM placed again gets a new handle.
        self._handles = {source.handle: source.handle for source in choice.sources}
        self._racks = {machine.name: machine.rack for machine in context.scheduler.machines}
        # VMs in place by pool and rack.
        self._existing = Counter(context.existing)
        for source in choice.sources:
            # `_apply_window` adds it to its new rack.
            self._existing[source.pool, source.vm.placement.rack] -= 1

    def build_sequence(
        self, time_budget: TimeBudget = NO_TIME_LIMIT
    ) -> RepackWindowSequence | None:
        """Build all windows; None if no remaining VM can move, or time runs out."""
        remaining = list(self._choice.sources)
        windows: list[RepackWindow] = []
        while remaining:
            if time_budget.is_exhausted:
                return None
            selected = self._select_vms(remaining, time_budget)
            window = None if time_budget.is_exhausted else self._build_window(selected)
            if window is None:
                return None
            windows.append(self._apply_window(window))
            moved = {step.source.handle for step in windows[-1].steps}
            remaining = [source for source in remaining if source.handle not in moved]
        return RepackWindowSequence(tuple(windows), self._scheduler)

    def build_windows(self, groups: Iterable[Sequence[MovableVm]]) -> RepackWindowSequence | None:
        """Build a window of each group, None if a VM cannot be placed as planned."""
        windows: list[RepackWindow] = []
        for group in groups:
            window = self._place_vms_together(group)
            if window is None:
                return None
            windows.append(self._apply_window(window))
        return RepackWindowSequence(tuple(windows), self._scheduler)

    def _select_vms(
        self, remaining: Sequence[MovableVm], time_budget: TimeBudget
    ) -> list[MovableVm]:
        """Select the VMs of the next window.

        They are the VMs of the lowest turn, as many as may be down together. Each must fit on a
        machine after the ones before it, as VMs may move one by one.
        """
        # Without turns, and without this test.
        if self._strategy is _WindowStrategy.AT_ONCE:
            return self._select_all_allowed(remaining)
        turn = min(map(self._compute_turn, remaining))
        remaining = [source for source in remaining if self._compute_turn(source) == turn]
        # Returning VMs leave all at once.
        if self._strategy is _WindowStrategy.BY_TURNS and turn == _RETURN_TURN:
            return self._select_all_allowed(remaining)
        window = _RepackWindowBuilder(self._scheduler.copy(), dict(self._handles))
        selected: list[MovableVm] = []
        for source in remaining:
            # The caller stops, too.
            if time_budget.is_exhausted:
                break
            can_join = can_be_down_together(self._context, self._request, selected, source)
            if can_join and self._place_vm(window, source):
                selected.append(source)
        # If none fits, try one VM on another machine than its target, else all: each may fit once
        # the others left.
        return (
            selected
            or self._select_vm_for_other_machine(remaining)
            or self._select_all_allowed(remaining)
        )

    def _compute_turn(self, source: MovableVm) -> float:
        """Return the turn of a VM: the lowest moves first.

        LARGEST starts with the largest VMs. BY_TURNS has three turns: most VMs, then VMs returning
        to their own machine, then VMs with targets on emptied machines.
        """
        if self._strategy is _WindowStrategy.LARGEST:
            return -self._context.vm_classes[source.vm_class].sku.memory_gib
        if self._strategy is not _WindowStrategy.BY_TURNS:
            return 0
        if self._is_returning_vm(source):
            return _RETURN_TURN
        if self._choice.targets.get(source.handle, "") in self._emptied_machines:
            # Its target has to be emptied first.
            return _RETURN_TURN + 1
        return _RETURN_TURN - 1

    def _select_vm_for_other_machine(self, remaining: Sequence[MovableVm]) -> list[MovableVm]:
        """Select one VM able to move to a machine other than its target, and give up this target.

        Return [] if there is no such VM.
        """
        # VMs without targets were tried on all machines.
        if not self._is_steered:
            return []
        for source in remaining:
            self._unsteered.add(source.handle)
            # The machine is free for other VMs.
            self._settled_targets[source.handle] = self._choice.targets.get(source.handle, "")
            if self._place_vm(
                _RepackWindowBuilder(self._scheduler.copy(), dict(self._handles)), source
            ):  # a trial
                return [source]
            self._unsteered.remove(source.handle)
            del self._settled_targets[source.handle]
        return []

    def _select_all_allowed(self, remaining: Sequence[MovableVm]) -> list[MovableVm]:
        """Select each VM allowed to be down together with the ones selected before it."""
        selected: list[MovableVm] = []
        for source in remaining:
            if can_be_down_together(self._context, self._request, selected, source):
                selected.append(source)
        return selected

    def _build_window(self, selected: Sequence[MovableVm]) -> _RepackWindowBuilder | None:
        """Build a window: all VMs leave, then each is placed.

        If one does not fit, try half of the VMs, and so on.
        """
        size = len(selected)
        while size:
            by_pool_and_number = sorted(selected[:size], key=lambda source: source.handle)
            window = self._place_vms_together(by_pool_and_number)
            if window is not None:
                return window
            size //= 2
        # Not even one VM fits.
        return None

    def _place_vms_together(self, sources: Sequence[MovableVm]) -> _RepackWindowBuilder | None:
        """Remove all `sources`, then place each of them in their order.

        Return None if one cannot be placed.
        """
        window = _RepackWindowBuilder(self._scheduler.copy(), dict(self._handles))
        for source in sources:
            window.scheduler.release(window.handles.pop(source.handle))
        for source in sources:
            if not self._place_vm(window, source):
                return None
        return window

    def _apply_window(self, window: _RepackWindowBuilder) -> RepackWindow:
        """Apply the window; the next one starts from its result.

        Return its steps and cordons.
        """
        self._scheduler = window.scheduler
        steps = []
        for source, handle, location in window.placements.values():
            self._handles[source.handle] = handle
            self._settled_targets[source.handle] = self._choice.targets.get(source.handle, "")
            self._existing[source.pool, location.rack] += 1
            steps.append(RepackStep(source, location))
        return RepackWindow(tuple(steps), tuple(sorted(window.cordons, key=str.encode)))

    def _place_vm(self, window: _RepackWindowBuilder, source: MovableVm) -> bool:
        """Place a VM on the best machine allowed for it, with cordons on all better ones.

        If none is allowed, or if a cordon would be on the target of another VM of the window, put
        it back on its own machine and return False.
        """
        # Not yet released with the whole window.
        if source.handle in window.handles:
            window.scheduler.release(window.handles.pop(source.handle))
        demand = build_pool_demand(self._context.pools[source.pool], source.vm)
        cordons = set(window.cordons)
        if self._must_wait_for_target(window, source, exclude_machines(demand, cordons)):
            self._restore_vm(window, source)
            return False
        ranking = window.scheduler.rank_machines(demand)
        cordons |= self._find_machines_before_own(ranking, source)
        target = self._find_target(window, source, ranking, cordons)
        answer = self._place_on_target(window, demand, cordons, target) if target else None
        if answer is None:
            self._restore_vm(window, source)
            return False
        window.cordons = cordons
        window.placements[source.handle] = (source, *answer)
        return True

    def _find_target(
        self,
        window: _RepackWindowBuilder,
        source: MovableVm,
        ranking: MachineRanking,
        cordons: set[str],
    ) -> str:
        """Return the first allowed machine for a VM, in the order of the ranking.

        All better ones are added to `cordons`.

        Return "" if there is none, or if a cordon would be on the target of another VM
        of the window.
        """
        # Returning to the own machine is useless, unless it was emptied because of unknown cells.
        excluded = set() if self._is_returning_vm(source) else {source.vm.placement.machine}
        target = ""
        while not target and not cordons & window.targets:
            avoided = cordons | excluded
            # Machines chosen in some NUMA layout.
            best = ranking.find_best_excluding(avoided).in_some_splits
            if not best:
                return ""
            target = self._choose_target_machine(window, source, best)
            if target and self._is_strict and window.scheduler.is_sampled:
                # Every layout of unknown cells must lead to the target with the
                # other machines cordoned.
                certain_machines = ranking.find_best_excluding(
                    (avoided | best) - {target}
                ).in_all_splits
                if target not in certain_machines:
                    # The machine is cordoned, too, and the next ones are tried.
                    target = ""
            cordons |= best - {target}
        return "" if cordons & window.targets else target

    @staticmethod
    def _place_on_target(
        window: _RepackWindowBuilder, demand: Demand, cordons: set[str], target: str
    ) -> tuple[int, Placement] | None:
        """Place a VM on its target; add the machines of higher rank to `cordons`.

        Return its handle and location. Return None if it fits nowhere, or if another VM needs a
        machine of higher rank as its target.
        """
        while (answer := window.scheduler.try_place(exclude_machines(demand, cordons))) is not None:
            handle, location = answer
            if location.machine == target:
                return answer
            window.scheduler.release(handle)
            if location.machine in window.targets:
                return None
            cordons.add(location.machine)
        return None

    def _find_machines_before_own(self, ranking: MachineRanking, source: MovableVm) -> set[str]:
        """Find the machines to cordon for a returning VM.

        It then gets its own machine in every NUMA layout.

        The own machine is its last choice, so these are all other machines chosen in some layout.
        Only needed for `_is_strict`.
        """
        others: set[str] = set()
        if self._is_strict and self._is_returning_vm(source):
            own_machine = source.vm.placement.machine
            while best := ranking.find_best_excluding({*others, own_machine}).in_some_splits:
                others |= best
        return others

    def _restore_vm(self, window: _RepackWindowBuilder, source: MovableVm) -> None:
        """Put a VM back on its own machine, as it cannot move in this window."""
        demand = build_pool_demand(self._context.pools[source.pool], source.vm)
        window.handles[source.handle] = window.scheduler.add_existing(
            demand.vm, demand.sku, source.vm.placement
        )

    def _choose_target_machine(
        self, window: _RepackWindowBuilder, source: MovableVm, best: Collection[str]
    ) -> str:
        """Choose one of the `best` machines for a VM, "" if none is allowed.

        A steered VM must go to its target, unless it has given it up (`_unsteered`). Separation
        rules and the limits of racks always apply.
        """
        # Machines and racks, by separation rules.
        forbidden: set[str] = set()
        if self._request.separation_rules:
            name = build_pool_demand(self._context.pools[source.pool], source.vm).vm
            existing = list(window.scheduler.list_vms())
            for rule in self._request.separation_rules:
                forbidden |= rule.find_forbidden_locations(
                    (name.owner, name.pool, name.number), existing
                )
        best = {machine for machine in best if not {machine, self._racks[machine]} & forbidden}
        if self._is_steered:
            target = self._choice.targets.get(source.handle, "")
            if target in best and self._has_rack_capacity(window, source, target):
                return target
            # Only its target is allowed.
            if source.handle not in self._unsteered:
                return ""
            # (handle, target) of unmoved VMs.
            pending = self._choice.targets.items() - self._settled_targets.items()
            best -= {machine for _, machine in pending}
        # Reserved machines are for the demand, and a return to the own machine changes nothing.
        best -= {*self._choice.reserved, source.vm.placement.machine}
        allowed_machines = (
            machine for machine in best if self._has_rack_capacity(window, source, machine)
        )
        return min(allowed_machines, key=str.encode, default="")

    def _has_rack_capacity(
        self, window: _RepackWindowBuilder, source: MovableVm, machine: str
    ) -> bool:
        """Return True if the rack of a machine may have one more VM of the pool."""
        rack = self._racks[machine]
        # Without VMs not yet re-created.
        count = self._existing[source.pool, rack]
        count += sum(
            placed_vm.pool == source.pool and location.rack == rack
            for placed_vm, _, location in window.placements.values()
        )
        # A rack above the limit before the repacking may be filled up to its former number.
        limit = max(
            self._context.limits[source.pool], self._context.existing.get((source.pool, rack), 0)
        )
        return count + 1 <= limit

    def _is_returning_vm(self, source: MovableVm) -> bool:
        """Return True if a VM must return to its own machine.

        Targets only count with a steering strategy.
        """
        own_machine = source.vm.placement.machine
        return self._is_steered and self._choice.targets.get(source.handle) == own_machine

    def _must_wait_for_target(
        self, window: _RepackWindowBuilder, source: MovableVm, demand: Demand
    ) -> bool:
        """Return True if a steered VM cannot go to its target now.

        It has no target, or there is no capacity yet.
        """
        if not self._is_steered or source.handle in self._unsteered:
            return False
        target = self._choice.targets.get(source.handle, "")
        return not target or bool(window.scheduler.find_rejection(target, demand))


def can_be_down_together(
    context: RepackContext, request: RepackRequest, selected: Sequence[MovableVm], source: MovableVm
) -> bool:
    """Return True if one more VM may be down at the same time as the selected ones.

    -window and the limit of its pool apply. The nodes of its cluster down together may not violate
    a PodDisruptionBudget, nor starve pods of hugepages or devices.
    """
    # The limit of -window is reached.
    if request.window is not None and len(selected) >= request.window:
        return False
    down_count = 1 + sum(selected_vm.pool == source.pool for selected_vm in selected)
    if down_count > compute_max_vms_down(context, source.pool):
        return False
    cluster = context.clusters[source.pool]
    pods = context.pods.get(cluster.id, NO_CLUSTER_PODS)
    nodes = {source.vm.name}
    nodes |= {
        selected_vm.vm.name
        for selected_vm in selected
        if context.clusters[selected_vm.pool].id == cluster.id
    }
    # Single VMs were checked for the list of movable ones.
    if len(nodes) == 1:
        return True
    return not (
        is_drain_blocked(pods, nodes) or find_pods_without_resources(pods, pods.existing, nodes)
    )


def exclude_machines(demand: Demand, machines: Iterable[str]) -> Demand:
    """Return the demand with a hint against `machines`, as if they were cordoned.

    Without machines the demand is unchanged.
    """
    names = frozenset(machines)
    if not names:
        return demand
    cordon = Hint(
        is_affinity=False,
        is_hard=True,
        scope=HintScope.MACHINE,
        machines=names,
        racks=frozenset(),
        target=CORDONED,
    )
    return replace(
        demand, constraints=replace(demand.constraints, hints=(*demand.constraints.hints, cordon))
    )


def compute_max_vms_down(context: RepackContext, pool_number: int) -> int:
    """Compute the maximum VMs of a pool down at once, at least 1.

    Its quorum or max_unavailable sets it, unless that limit is lifted.
    """
    pool = context.pools[pool_number]
    count = len(pool.vms)
    if pool.is_control_plane:
        return max(count - compute_quorum(count), 1)
    # This repacking is tested without the limit.
    if Constraint.MAX_UNAVAILABLE in context.lifted:
        return count
    return max(compute_amount_of_total(pool.demand.max_unavailable, count), 1)


def compute_minimum_windows(
    context: RepackContext, request: RepackRequest, windows: Sequence[RepackWindow]
) -> int:
    """Compute a lower bound of windows for the VMs of these windows in any order."""
    pool_counts = Counter(step.source.pool for window in windows for step in window.steps)
    lower_bounds = [
        ceil(count / compute_max_vms_down(context, pool)) for pool, count in pool_counts.items()
    ]
    if request.window is not None:
        lower_bounds.append(ceil(sum(pool_counts.values()) / request.window))
    return max(lower_bounds, default=0)


def verify_sequence(
    context: RepackContext, sequence: RepackWindowSequence, time_budget: TimeBudget = NO_TIME_LIMIT
) -> tuple[RepackWindow, ...]:
    """Return the windows with verified steps.

    A step counts the samples (runs with other random choices) with its VM on the target. A window
    has 100 samples, or fewer if time runs out.
    """
    existing = {vm.handle: vm for vm in context.scheduler.list_vms()}
    verified: list[RepackWindow] = []
    for number, window in enumerate(sequence.windows):
        machines = [
            replace(machine, unschedulable_reasons=(UnschedulableReason(CORDONED),))
            if machine.name in window.cordons
            else machine
            for machine in context.scheduler.machines
        ]
        leaving = {step.source.handle for step in window.steps}
        staying = [vm for handle, vm in existing.items() if handle not in leaving]
        base = rebuild_scheduler(context.scheduler, machines, staying)
        # An equal share for each window left.
        window_budget = time_budget.split(1 / (len(sequence.windows) - number))
        verified.append(
            replace(window, steps=tuple(_count_target_hits(context, base, window, window_budget)))
        )
        for step in window.steps:
            handle = step.source.handle
            # For the next windows.
            existing[handle] = replace(existing[handle], placement=step.target)
    return tuple(verified)


def _count_target_hits(
    context: RepackContext, base: RackScheduler, window: RepackWindow, time_budget: TimeBudget
) -> Iterable[RepackStep]:
    """Yield the steps with counts.

    A VM is on its target in `hits` of `runs` samples (other random choices). `base` has the
    machines and VMs of the site at the start of the window, without its leaving VMs.
    """
    if _is_deterministic(context, base, window):
        yield from (replace(step, hits=SAMPLES, runs=SAMPLES) for step in window.steps)
        return
    hits: Counter[int] = Counter()
    for runs in range(1, SAMPLES + 1):
        scheduler = base.copy(sample=runs - 1, split_choice=runs - 1)
        for step in window.steps:
            answer = scheduler.try_place(
                build_pool_demand(context.pools[step.source.pool], step.source.vm)
            )
            # The answer is a handle and a placement.
            if answer is not None and answer[1].machine == step.target.machine:
                hits[step.source.handle] += 1
        if time_budget.is_exhausted:
            break
    for step in window.steps:
        yield replace(step, hits=hits[step.source.handle], runs=runs)


def _is_deterministic(context: RepackContext, base: RackScheduler, window: RepackWindow) -> bool:
    """Return True if only the planned target is best for every VM of the window.

    One run then covers all samples.
    """
    # Unknown cells differ from sample to sample.
    if base.is_sampled:
        return False
    scheduler = base.copy()
    for step in window.steps:
        demand = build_pool_demand(context.pools[step.source.pool], step.source.vm)
        ranking = scheduler.rank_machines(demand)
        # The VM leaves it, so it is only the last choice.
        own_machine = {step.source.vm.placement.machine}
        best = (
            ranking.find_best_excluding(own_machine).in_some_splits
            or ranking.find_best_excluding().in_some_splits
        )
        # (handle, placement), or None.
        answer = scheduler.try_place(demand)
        if (
            best != {step.target.machine}
            or answer is None
            or answer[1].machine != step.target.machine
        ):
            return False
    return True
