"""Tests of repacking against exhaustive search.

No smaller choice of VMs frees the capacity, and the steps free it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from math import ceil

import pytest
from msgspec.structs import replace

from nexusform.domains.whatif.questions import repack_program, repack_search, repack_windows
from nexusform.domains.whatif.questions.repack_choice import assign_machines, choose_vms_to_recreate
from nexusform.domains.whatif.questions.repack_context import (
    Constraint,
    FreeCell,
    MovableVm,
    RepackContext,
    RepackRequest,
    TimeBudget,
    build_repack_context,
)
from nexusform.domains.whatif.questions.repack_planning import (
    RepackResult,
    RepackStatus,
    plan_repack,
)
from nexusform.domains.whatif.questions.repack_program import (
    NoRepackSolution,
    RepackProgram,
    RepackSolution,
)
from nexusform.domains.whatif.questions.repack_separation import (
    SeparationRule,
    SeparationRuleGroup,
    build_separation_rules,
)
from nexusform.domains.whatif.questions.repack_windows import RepackWindow
from nexusform.domains.whatif.rendering.repack_report import build_repack_report
from nexusform.files.limited_worker import LimitedWorker
from nexusform.planning.vm_planning.site_plans import rebuild_scheduler
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Hint,
    HintScope,
    Machine,
    Placement,
    PlacementConstraints,
    ScheduledVm,
    UnschedulableReason,
    VmName,
    VmSku,
)
from nexusform.snapshots.snapshot import SiteSnapshot, list_state_objects
from tests.domains.whatif.questions.repack_sites import (
    LARGE,
    SKUS,
    build_site_with_history,
    build_snapshot_of_pools,
)
from tests.kill_points import select_cases
from tests.planning.harness import cluster
from tests.scheduling.racks.samples import change_profile
from tests.worlds.small_worlds import build_applied_state as standing_state
from tests.worlds.small_worlds import build_racks, get_site

pytest.importorskip("highspy")


def build_request(want: int, sku: str = LARGE, **options: object) -> RepackRequest:
    return RepackRequest(sku=SKUS[sku], want=want, **options)  # type: ignore[arg-type]


# --- exhaustive search -------------------------------------------------------------------------


def find_minimum_by_exhaustive_search(
    ground: RepackContext, asked: RepackRequest, most: int
) -> int | None:
    """Return the minimum number of moved VMs to free the capacity.

    Every choice of up to `most` VMs is tried.
    """
    for count in range(most + 1):
        if any(
            _can_move(ground, asked, chosen)
            for chosen in combinations(ground.all_movable_vms, count)
        ):
            return count
    return None


def _can_move(ground: RepackContext, asked: RepackRequest, chosen: Sequence[MovableVm]) -> bool:  # noqa: C901
    """Return whether these VMs have other places with capacity left for the demand.

    All places are tried.
    """
    cells: dict[tuple[str, int], FreeCell] = {}
    admits: Mapping[str, frozenset[int]] = {
        host.machine.name: host.admitted for host in ground.hosts
    }
    for host in ground.hosts:
        cells |= {(host.machine.name, number): free for number, free in enumerate(host.cells)}
    racks = {host.machine.name: host.machine.rack for host in ground.hosts}
    standing = Counter(ground.existing)
    for source in chosen:
        place = source.vm.placement
        standing[source.pool, place.rack] -= 1
        for cell in place.cells:
            at = place.machine, cell
            cells[at] = cells[at].subtract(ground.vm_classes[source.vm_class].sku, -1)
    demanded = {host.machine.name for host in ground.hosts if host.admits_demand}

    def count_fitting_vms() -> int:
        fits = 0
        for (machine, _), free in cells.items():
            if machine in demanded:
                fits += next(n for n in range(99) if min(free.subtract(asked.sku, n + 1)) < 0)
        return fits

    def try_placing(left: Sequence[MovableVm]) -> bool:
        if count_fitting_vms() < asked.want:
            return False
        if not left:
            return True
        source, *others = left
        sku = ground.vm_classes[source.vm_class].sku
        tried: set[tuple[FreeCell, str]] = set()
        for at, free in list(cells.items()):
            rack = racks[at[0]]
            crowded = standing[source.pool, rack] >= max(
                ground.limits[source.pool], ground.existing.get((source.pool, rack), 0)
            )
            own = (source.vm.placement.machine, source.vm.placement.cells) == (at[0], (at[1],))
            if (
                own
                or crowded
                or source.vm_class not in admits[at[0]]
                or not free.has_capacity(sku)
                or (free, rack) in tried
            ):
                continue
            tried.add((free, rack))
            cells[at] = free.subtract(sku)
            standing[source.pool, rack] += 1
            done = try_placing(others)
            cells[at] = free
            standing[source.pool, rack] -= 1
            if done:
                return True
        return False

    return try_placing(
        sorted(chosen, key=lambda source: -ground.vm_classes[source.vm_class].sku.memory_gib)
    )


@pytest.mark.parametrize("seed", select_cases(range(24)))
def test_no_smaller_choice_frees_capacity_on_small_sites(seed: int) -> None:
    site = build_site_with_history(seed, 2, 2, filled=0.6 + 0.03 * (seed % 8), zoned=0.3)
    want = 1 + seed % 3
    made = plan_repack(site, build_request(want))
    ground = build_repack_context(site, build_request(want))
    found = find_minimum_by_exhaustive_search(ground, build_request(want), most=4)
    if made.status is RepackStatus.IMPOSSIBLE:
        assert found is None
    elif made.recreations is not None:
        assert made.bound is not None
        assert found is None or made.bound <= found
        if made.status is not RepackStatus.GAP:
            assert found == made.recreations or (found is None and made.recreations > 4)


@pytest.mark.parametrize("seed", select_cases(range(16)))
def test_no_smaller_choice_frees_capacity_with_unknown_cells(seed: int) -> None:
    """Every choice of VMs is tried.

    For each choice, the fit of the demand and of these VMs is tried in every split.
    """
    site = build_site_with_history(
        seed, 2, 2, filled=0.35 + 0.04 * (seed % 8), zoned=0.3, known=False
    )
    want = site.scheduler.count_free_slots(build_request(1).demand).minimum + 1 + seed % 2
    made = plan_repack(site, build_request(want))
    ground = build_repack_context(site, build_request(want))
    found = find_minimum_of_whole_machines(site, ground, build_request(want), most=4)
    if made.status is RepackStatus.IMPOSSIBLE:
        assert found is None
        return
    assert made.bound is not None
    assert found is None or made.bound <= found
    if made.recreations is not None and made.status is RepackStatus.OPTIMAL:
        assert found == made.recreations or (found is None and made.recreations > 4)


def build_small_site_with_unknown_cells(seed: int) -> tuple[SiteSnapshot, RepackRequest]:
    site = build_site_with_history(
        seed, 2, 2, filled=0.35 + 0.04 * (seed % 8), zoned=0.3, known=False
    )
    return site, build_request(
        site.scheduler.count_free_slots(build_request(1).demand).minimum + 1 + seed % 2
    )


@pytest.mark.parametrize(("seed", "recreations"), [(6, 3), (10, 2), (38, 4), (40, 2)])
def test_emptied_machines_are_empty_before_vms_arrive(seed: int, recreations: int) -> None:
    """VMs with other targets move first, then VMs return to their machine.

    Only then are the cells known.
    """
    site, asked = build_small_site_with_unknown_cells(seed)
    made = plan_repack(site, asked)
    assert (made.status, made.recreations) == (RepackStatus.OPTIMAL, recreations)
    assert execute_windows(site, made, seed=5).count_free_slots(asked.demand).minimum >= asked.want


def test_constraint_without_valid_order_is_named() -> None:
    """Two VMs of one pool block each other, and the pool allows one unavailable VM at a time.

    The choice among equal optima depends on the version of the solver, and so does the existence
    of an order.
    """
    plans = [plan_repack(*build_small_site_with_unknown_cells(seed)) for seed in (33, 59, 62, 85)]
    without_order = [made for made in plans if made.has_no_order]
    assert without_order
    for made in without_order:
        assert (made.status, made.recreations) == (RepackStatus.GAP, None)
        [one] = made.blocking
        assert (one.constraint, one.recreations) == (Constraint.MAX_UNAVAILABLE, made.bound)
    assert all(made.recreations == made.bound for made in plans if not made.has_no_order)


def find_minimum_of_whole_machines(
    site: SiteSnapshot, ground: RepackContext, asked: RepackRequest, most: int
) -> int | None:
    """Return the minimum number of moved VMs if machines are emptied completely.

    Every choice is tried.
    """
    crews = [host.unknown_cell_vms for host in ground.hosts if host.unknown_cell_vms]
    choices = [
        [source for crew in chosen for source in crew]
        for count in range(1, len(crews) + 1)
        for chosen in combinations(crews, count)
    ]
    counts = [
        len(chosen)
        for chosen in choices
        if len(chosen) <= most and _can_settle(site, ground, asked, chosen)
    ]
    return min(counts, default=None)


def _can_settle(
    site: SiteSnapshot, ground: RepackContext, asked: RepackRequest, chosen: Sequence[MovableVm]
) -> bool:
    """Return whether these VMs find machines and the demand fits in every split.

    Every machine is tried for each VM. An emptied machine has known cells: VMs may return to it,
    to either cell.
    """
    scheduler = site.scheduler.copy()
    for source in chosen:
        scheduler.release(source.handle)
    standing = Counter(ground.existing)
    for source in chosen:
        standing[source.pool, source.vm.placement.rack] -= 1
    order = sorted(chosen, key=lambda source: -ground.vm_classes[source.vm_class].sku.memory_gib)
    return _try_placing(scheduler, ground, asked, order, standing)


def _try_placing(
    scheduler: RackScheduler,
    ground: RepackContext,
    asked: RepackRequest,
    left: Sequence[MovableVm],
    standing: Counter[tuple[int, str]],
) -> bool:
    if scheduler.count_free_slots(asked.demand).minimum < asked.want:
        return False
    if not left:
        return True
    source, *others = left
    kind = ground.vm_classes[source.vm_class]
    pool = ground.pools[source.pool]
    vm = VmName(pool.owner.owner, pool.owner.cluster, pool.name, source.vm.number)
    for host in ground.hosts:
        machine = host.machine
        rack = source.pool, machine.rack
        crowded = standing[rack] >= max(ground.limits[source.pool], ground.existing.get(rack, 0))
        if crowded or source.vm_class not in host.admitted:
            continue
        standing[rack] += 1
        for cells in _list_cells(scheduler, machine, Demand(vm, kind.sku, kind.constraints)):
            after = scheduler.copy()
            place = Placement(machine.name, machine.rack, machine.availability_zone, cells)
            after.add_existing(vm, kind.sku, place)
            if _try_placing(after, ground, asked, others, standing):
                return True
        standing[rack] -= 1
    return False


def _list_cells(
    scheduler: RackScheduler, machine: Machine, demand: Demand
) -> list[tuple[int, ...]]:
    """Return the cells with capacity for a VM; () if it fits in any split."""
    if machine.name in scheduler.list_machines_with_unknown_cells():
        here = Hint(True, True, HintScope.MACHINE, frozenset({machine.name}), frozenset(), "here")
        there = replace(
            demand, constraints=replace(demand.constraints, hints=(*demand.constraints.hints, here))
        )
        return [()] if scheduler.count_free_slots(there).minimum else []
    free = [
        FreeCell(machine.cpus_per_cell, machine.memory_gib_per_cell * 1024, machine.vfs_per_cell)
    ] * 2
    for vm in scheduler.list_vms():
        for cell in vm.placement.cells if vm.placement.machine == machine.name else ():
            free[cell] = free[cell].subtract(vm.sku)
    return [(cell,) for cell in range(2) if free[cell].has_capacity(demand.sku)]


# --- the steps ---------------------------------------------------------------------------------


def execute_windows(site: SiteSnapshot, made: RepackResult, seed: int) -> RackScheduler:
    """Return the site after all windows.

    The scheduler places with cordoned machines and this tie-break seed.
    """
    scheduler = site.scheduler.copy()
    standing: dict[int, ScheduledVm] = {vm.handle: vm for vm in scheduler.list_vms()}
    for window in made.windows:
        closed = [
            replace(machine, unschedulable_reasons=(UnschedulableReason("cordoned"),))
            if machine.name in window.cordons
            else machine
            for machine in site.scheduler.machines
        ]
        base = RackScheduler(closed, seed=seed)
        gone = {step.source.handle for step in window.steps}
        for handle, vm in standing.items():
            if handle not in gone:
                base.add_existing(vm.vm, vm.sku, vm.placement)
        for step in window.steps:
            vm = standing[step.source.handle]
            pool = site.pools[step.source.pool]
            answer = base.try_place(
                Demand(vm.vm, vm.sku, pool.demand.constraints, vm.placement.machine)
            )
            assert answer is not None
            assert answer[1].machine == step.target.machine
            standing[step.source.handle] = replace(vm, placement=answer[1])
    after = RackScheduler(site.scheduler.machines)
    for vm in standing.values():
        after.add_existing(vm.vm, vm.sku, vm.placement)
    return after


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", select_cases(range(10)))
def test_steps_free_the_predicted_capacity(seed: int, known: bool) -> None:
    filled = 0.6 + 0.03 * seed if known else 0.45
    site = build_site_with_history(seed, 4, 4, filled=filled, known=known)
    now = site.scheduler.count_free_slots(build_request(1).demand).minimum
    made = plan_repack(site, build_request(now + 2))
    if made.recreations is None:
        return
    for window in made.windows:
        assert all(step.hits == step.runs for step in window.steps)
    after = execute_windows(site, made, seed=17)
    assert after.count_free_slots(build_request(1).demand).minimum >= now + 2
    moved = {step.source.handle for window in made.windows for step in window.steps}
    assert len(moved) == made.recreations
    check_spread(site, made)


@pytest.mark.parametrize("seed", select_cases(range(8)))
def test_deterministic_steps_are_predicted_without_sampling(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = build_site_with_history(seed, 4, 4, filled=0.6 + 0.03 * seed)
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 2)
    made = plan_repack(site, asked)
    monkeypatch.setattr(repack_windows, "_is_deterministic", lambda *_: False)
    assert plan_repack(site, asked) == made


def test_order_with_certain_targets_is_preferred() -> None:
    """A VM moved to a machine not yet empty fits in only half of the splits.

    Another order empties the machine first.
    """
    site = build_site_with_history(711, 2, 3, filled=0.765, zoned=0.3, known=False)
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 2)
    made = plan_repack(site, asked)
    assert (made.status, made.recreations) == (RepackStatus.OPTIMAL, 7)
    assert {(step.hits, step.runs) for window in made.windows for step in window.steps} == {
        (100, 100)
    }
    assert execute_windows(site, made, seed=5).count_free_slots(asked.demand).minimum >= asked.want


@pytest.mark.parametrize("seed", [10, 20, 24, 36])
def test_returning_vm_avoids_machines_feasible_only_in_some_splits(seed: int) -> None:
    """Its own machine is tried last.

    Another machine with capacity in an unsampled split gets a cordon, too.
    """
    site = build_site_with_history(
        seed, 2, 3, filled=0.45 + 0.03 * (seed % 14), zoned=0.3, known=False
    )
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 1)
    made = plan_repack(site, asked)
    assert made.status is RepackStatus.OPTIMAL
    assert {(step.hits, step.runs) for window in made.windows for step in window.steps} == {
        (100, 100)
    }
    assert execute_windows(site, made, seed=5).count_free_slots(asked.demand).minimum >= asked.want


def test_large_vms_move_before_small_ones_take_their_cells() -> None:
    site = build_site_with_history(907, 2, 3, filled=0.705, zoned=0.3, known=False)
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 2)
    made = plan_repack(site, asked)
    assert (made.status, made.recreations) == (RepackStatus.OPTIMAL, 5)
    assert {(step.hits, step.runs) for window in made.windows for step in window.steps} == {
        (100, 100)
    }
    assert execute_windows(site, made, seed=5).count_free_slots(asked.demand).minimum >= asked.want


def test_answer_reports_if_no_order_is_certain() -> None:
    """No order has capacity for all of these VMs in every split; the most certain one is shown."""
    site = build_site_with_history(45, 2, 2, filled=0.54, zoned=0.3, known=False)
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 2)
    made = plan_repack(site, asked)
    fewest = min(step.hits for window in made.windows for step in window.steps)
    assert 0 < fewest < repack_windows.SAMPLES
    [fact] = [fact for fact in build_repack_report(made, "").facts if "land as planned" in fact]
    assert (
        f"8 of 9 land as planned in 100 of 100 samples, the others in at least {fewest} of 100:"
        in fact
    )
    # Time for fewer samples of the last window.
    step = replace(made.windows[-1].steps[-1], hits=3, runs=4)
    cut = replace(made, windows=(*made.windows, replace(made.windows[-1], steps=(step,))))
    [fact] = [fact for fact in build_repack_report(cut, "").facts if "land as planned" in fact]
    expected = min((fewest / 100, f"{fewest} of 100"), (3 / 4, "3 of 4"))[1]
    assert (
        "8 of 10 land as planned in all 4 to 100 samples of their window, the others in at least "
        f"{expected}:"
    ) in fact
    assert "no tested order or cordon prevents it" in fact


def check_spread(site: SiteSnapshot, made: RepackResult) -> None:
    """Check that no rack has more VMs of a pool than the fullest one had."""
    ground = build_repack_context(site, made.request)
    after = Counter(ground.existing)
    for window in made.windows:
        for step in window.steps:
            after[step.source.pool, step.source.vm.placement.rack] -= 1
            after[step.source.pool, step.target.rack] += 1
    for (pool, rack), count in after.items():
        assert count <= max(ground.limits[pool], ground.existing.get((pool, rack), 0))


def test_most_small_sites_are_solved_with_proof() -> None:
    """The fraction of proofs: a drop indicates a worse search."""
    ends = Counter(
        plan_repack(
            build_site_with_history(seed, 3, 3, filled=0.55 + 0.01 * seed), build_request(2)
        ).status
        for seed in range(20)
    )
    assert ends[RepackStatus.GAP] <= 2, ends


def build_time_budget(seconds: int) -> TimeBudget:
    """Return a budget with a clock that advances by a second on every read."""
    left = iter(range(seconds, -1_000_000, -1))
    return TimeBudget(lambda: float(next(left)))


@cache
def find_best_repack(known: bool) -> tuple[SiteSnapshot, int, RepackResult]:
    """Return a site, the number of wanted VMs, and the result of a search without a time limit."""
    site = build_site_with_history(1, 6, 4, filled=0.75, known=known)
    want = site.scheduler.count_free_slots(build_request(1).demand).minimum + 2
    return site, want, plan_repack(site, build_request(want))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seconds", [0, 3, 20])
def test_search_out_of_time_reports_known_results(seconds: int, known: bool) -> None:
    site, want, best = find_best_repack(known)
    made = plan_repack(site, build_request(want), time_budget=build_time_budget(seconds))
    assert made.bound is not None
    assert best.bound is not None
    assert made.bound <= best.bound
    if made.recreations is not None:
        assert made.recreations >= best.bound
        assert {step.hits for window in made.windows for step in window.steps} == {
            step.runs for window in made.windows for step in window.steps
        }
        room = execute_windows(site, made, seed=3).count_free_slots(build_request(1).demand).minimum
        assert room >= want
    assert made.is_machine_dependent or made.status is RepackStatus.OPTIMAL


def test_constraints_unchecked_for_lack_of_time_are_undecided() -> None:
    site = build_site_with_history(4, 2, 3, filled=0.6)
    everything = frozenset(str(pool.address) for pool in site.pools)
    made = plan_repack(
        site, build_request(2, excluded=everything), time_budget=build_time_budget(3)
    )
    assert made.blocking
    assert all(one.recreations is not None or one.undecided for one in made.blocking)


def test_multi_cell_vms_arrive_in_any_cells_of_a_larger_machine() -> None:
    """The VM of two cells has to leave m1 for the demand of four.

    On m2 only the last two of four cells are free.
    """
    one, wide, whole = (
        VmSku(
            name=f"of-{cells}",
            vcpus=8 * cells,
            emulator_vcpus=0,
            memory_gib=8 * cells,
            disk_gib=1,
            numa_cells=cells,
        )
        for cells in (1, 2, 4)
    )
    scheduler = RackScheduler(
        [Machine(name, "r1", "1", 1, None, 4, 8, 8, 1000) for name in ("m1", "m2")]
    )
    pools = {}
    for number, (sku, machine, cells) in enumerate(
        [(one, "m2", (0,)), (one, "m2", (1,)), (wide, "m1", (0, 1))]
    ):
        place = Placement(machine, "r1", "1", cells)
        handle = scheduler.add_existing(VmName(f"c{number}", f"c{number}", "p", 0), sku, place)
        pools[number] = sku, PlacementConstraints(), [handle]
    request = RepackRequest(sku=whole, want=1)
    lifted = frozenset({Constraint.SINGLE_REPLICA})
    context = build_repack_context(
        build_snapshot_of_pools(scheduler, pools), request, lifted=lifted
    )
    program = RepackProgram(context, request)
    solution = program.solve()
    assert isinstance(solution, RepackSolution)
    choice = choose_vms_to_recreate(context, program, solution, frozenset())
    assert {source.vm.name: choice.targets.get(source.handle) for source in choice.sources} == {
        "c2-p-0": "m2"
    }


def test_targets_are_assigned_without_unnecessary_crowding() -> None:
    """If VMs are assigned in turn, the first takes the only place of the second.

    No other place is allowed for the second.
    """
    site = build_site_with_history(2, 4, 4, filled=0.8)
    ground = build_repack_context(site, build_request(1))
    [one, other, *_] = [
        source
        for source in ground.all_movable_vms
        if source.vm_class == ground.all_movable_vms[0].vm_class
    ]
    hosts = {host.machine.rack: host for host in ground.hosts if one.vm_class in host.admitted}
    [here, there] = list(hosts.values())[:2]
    full = {(one.pool, here.machine.rack): 9, (other.pool, there.machine.rack): 9}
    crowded = replace(ground, existing=full, limits=tuple(1 for _ in ground.limits))
    size_of = [0] * len(ground.vm_classes)
    targets, pools = assign_machines(crowded, [one, other], [(0, here), (0, there)], size_of)
    assert len(targets) == 2
    if one.pool != other.pool:
        assert not pools
        assert targets[one.handle] == there.machine.name


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_single_machines_exclude_no_solution_with_ample_disk(seed: int, known: bool) -> None:
    """An emptied machine frees its disk, and a machine with fixed VMs has disk, too."""
    site = build_site_with_history(seed, 3, 2, filled=0.6 + 0.03 * seed, known=known, disk=99_000)
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 1)
    ground = build_repack_context(site, asked)
    names = frozenset(host.machine.name for host in ground.hosts)
    together = RepackProgram(ground, asked, is_fine=True).solve()
    apart = RepackProgram(ground, asked, is_fine=True, single_machines=names).solve()
    assert isinstance(apart, NoRepackSolution) == isinstance(together, NoRepackSolution)
    if isinstance(apart, RepackSolution) and isinstance(together, RepackSolution):
        assert apart.recreations == together.recreations


def test_freed_disk_is_counted_on_single_machines() -> None:
    """Disks are almost full: new VMs fit only on the freed disk of leaving VMs."""
    site = build_site_with_history(2, 3, 2, filled=0.7, known=False, disk=1700)
    asked = build_request(site.scheduler.count_free_slots(build_request(1).demand).minimum + 1)
    ground = build_repack_context(site, asked)
    names = frozenset(host.machine.name for host in ground.hosts)
    made = RepackProgram(ground, asked, is_fine=True, single_machines=names).solve()
    assert isinstance(made, RepackSolution)


def test_insufficient_window_size_is_named() -> None:
    """Two VMs return to a machine after it is empty: moved one at a time, it never is."""
    site, asked = build_small_site_with_unknown_cells(6)
    made = plan_repack(site, replace(asked, window=1))
    assert (made.status, made.recreations, made.bound) == (RepackStatus.GAP, None, 3)
    found = {one.constraint: one.recreations for one in made.blocking}
    assert found[Constraint.WINDOW] == plan_repack(site, asked).recreations == 3


def test_single_control_plane_vm_is_blocked_as_single_replica() -> None:
    """If this constraint alone is lifted, it may move.

    It is not blocked again because of quorum.
    """
    state = standing_state(build_racks(2, 2) + cluster("a", count=1))
    site = get_site(state)
    lifted = frozenset({Constraint.SINGLE_REPLICA})
    [control] = [pool for pool in site.pools if pool.is_control_plane and len(pool.vms) == 1]
    assert (
        build_repack_context(site, build_request(1)).blocked_by[control.vms[0].name]
        is Constraint.SINGLE_REPLICA
    )
    assert (
        control.vms[0].name
        not in build_repack_context(site, build_request(1), lifted=lifted).blocked_by
    )


FULL_OF_ROOM = Machine("m", "r", "1", 1, "bom-1.7.3", 2, 64, 448, 3500)
REFUSED = {
    "schedulable": (
        replace(FULL_OF_ROOM, unschedulable_reasons=(UnschedulableReason("cordoned"),)),
        build_request(1),
    ),
    "hardware": (FULL_OF_ROOM, build_request(1, "NC_G56_224_v1")),
    "disk": (replace(FULL_OF_ROOM, disk_gib=100), build_request(1)),
    "fits": (replace(FULL_OF_ROOM, cpus_per_cell=40), build_request(1)),
    "vfs": (FULL_OF_ROOM, replace(build_request(1), sku=replace(SKUS[LARGE], vfs=31))),
    "zones": (FULL_OF_ROOM, build_request(1, zones=frozenset({"2"}))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_filter_of_profile_matters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, asked = REFUSED[name]
    site = build_snapshot_of_pools(RackScheduler([machine]), {})
    assert plan_repack(site, asked).status is RepackStatus.IMPOSSIBLE
    left = tuple(rule for rule in profile.FILTERS if rule.name != name)
    change_profile(monkeypatch, "FILTERS", left)
    # A VM without restrictions fits without a limit.
    if name == "fits":
        assert not RackScheduler([machine]).find_rejection("m", asked.demand)
        return
    # A site keeps opened rules, so a new site is used.
    assert (
        plan_repack(build_snapshot_of_pools(RackScheduler([machine]), {}), asked).status
        is RepackStatus.NOTHING_TO_DO
    )


# --- invariants --------------------------------------------------------------------------------


def test_nothing_to_do() -> None:
    made = plan_repack(build_site_with_history(1, 2, 3, filled=0.2), build_request(1))
    assert made.status is RepackStatus.NOTHING_TO_DO
    assert (made.recreations, made.bound) == (0, 0)


def test_maximum_of_moves_is_a_proof_and_is_named() -> None:
    site = build_site_with_history(1, 8, 4, filled=0.8)
    free = plan_repack(site, build_request(4))
    assert free.recreations is not None
    made = plan_repack(site, build_request(4, moves=free.recreations - 1))
    assert made.status is RepackStatus.IMPOSSIBLE
    assert made.bound == free.recreations
    [moves] = [each for each in made.blocking if each.constraint is Constraint.MOVES]
    assert moves.recreations == free.recreations


def test_vms_kept_because_of_their_pods_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    site = build_site_with_history(1, 2, 4, filled=0.6)
    assert plan_repack(site, build_request(1)).status is RepackStatus.OPTIMAL

    def reject_all(
        context: RepackContext, windows: Sequence[RepackWindow], _: object
    ) -> tuple[Sequence[RepackWindow], frozenset[int]]:
        return windows, frozenset(source.handle for source in context.all_movable_vms)

    monkeypatch.setattr(repack_search, "simulate_window_pods", reject_all)
    made = plan_repack(site, build_request(1))
    assert (made.status, made.recreations) == (RepackStatus.GAP, None)
    report = build_repack_report(made, "the state")
    assert report.verdict.startswith("No solution found, none ruled out")
    assert "Not every order was searched: VMs were kept because of their pods." in report.facts


def test_windows_respect_requested_size() -> None:
    site = build_site_with_history(1, 8, 4, filled=0.8)
    made = plan_repack(site, build_request(4, window=2))
    assert made.windows
    assert all(len(window.steps) <= 2 for window in made.windows)
    assert made.recreations is not None
    assert ceil(made.recreations / 2) <= made.minimum_windows <= len(made.windows)


def test_excluded_vms_stay_and_are_named() -> None:
    site = build_site_with_history(4, 2, 3, filled=0.6)
    everything = frozenset(str(pool.address) for pool in site.pools)
    made = plan_repack(site, build_request(2, excluded=everything))
    assert made.status is RepackStatus.IMPOSSIBLE
    [spared] = [each for each in made.blocking if each.constraint is Constraint.NOT]
    assert spared.recreations == plan_repack(site, build_request(2)).recreations


def test_rebuilt_schedulers_keep_their_handles() -> None:
    site = build_site_with_history(3, 2, 3)
    again = rebuild_scheduler(site.scheduler, site.scheduler.machines, site.scheduler.list_vms())
    assert list(again.list_vms()) == list(site.scheduler.list_vms())


def test_separation_rules_hold_for_re_created_vms() -> None:
    """Some pools are separated from machines of others.

    No re-created VM is placed on one of these.
    """
    landed = 0
    # With 4, no VM moves.
    for seed in select_cases([seed for seed in range(12) if seed != 4]):
        site = build_site_with_history(seed, 4, 4, filled=0.5)
        keys = [(pool.owner.owner, pool.name) for pool in site.pools]
        rule = SeparationRule(
            "machine",
            (SeparationRuleGroup(frozenset(keys[::4])), SeparationRuleGroup(frozenset(keys[1::4]))),
        )
        want = site.scheduler.count_free_slots(build_request(1).demand).minimum + 2
        free = plan_repack(site, build_request(want))
        bound = plan_repack(site, build_request(want, separation_rules=(rule,)))
        assert bound.recreations is None or bound.recreations >= (free.bound or 0)
        standing = {vm.handle: vm for vm in site.scheduler.list_vms()}
        for window in bound.windows:
            for step in window.steps:
                standing.pop(step.source.handle)
            for step in window.steps:
                pool = site.pools[step.source.pool]
                off = rule.find_forbidden_locations(
                    (pool.owner.owner, pool.name, step.source.vm.number), standing.values()
                )
                assert step.target.machine not in off
                landed += 1
    assert landed


def test_rules_are_read_from_state() -> None:
    rule = """
resource "nexus_separation_rule" "x" {
  scope = "rack"
  group {
    cluster_ids = [nexus_kubernetes_cluster.a.id]
  }
  group {
    pool_ids = ["${nexus_kubernetes_cluster.b.id}/control-plane"]
  }
}
"""
    state = standing_state(build_racks(2, 2) + cluster("a", count=1) + cluster("b", count=1) + rule)
    [apart] = build_separation_rules(get_site(state), list_state_objects(state))
    assert apart.scope == "rack"
    assert [len(group.pools) for group in apart.groups] == [1, 1]
    [a, b] = get_site(state).pools
    assert apart.find_forbidden_locations(
        (a.owner.owner, a.name, 0), get_site(state).scheduler.list_vms()
    ) == {b.vms[0].placement.rack}


def test_planned_racks_and_unschedulable_machines_are_tried() -> None:
    planned = """
resource "nexus_rack" "later" {
  site_id           = nexus_site.s.id
  name              = "later"
  availability_zone = "9"
  machine_count     = 2
  status            = "planned"
}
"""
    closed = 'machine_override "r1-bm01" {\n cordoned = true\n }'
    state = standing_state(build_racks(2, more=closed) + planned + cluster("a", count=1))
    made = plan_repack(get_site(state), build_request(3))
    assert made.status is RepackStatus.IMPOSSIBLE
    found = {each.constraint: each.recreations for each in made.blocking}
    assert found[Constraint.PLANNED_RACK] == 0
    assert found[Constraint.CORDONED] == 0
    assert made.maximum == 1


def test_solver_beyond_its_limits_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        repack_program.ProgramColumn(cost=1.0, upper=float(number), entries={0: 1.0})
        for number in range(2_000)
    ]
    exact = repack_program.run_solver(columns, [7.0], [float("inf")])
    assert (exact.objective, exact.bound, exact.is_finished) == (7.0, 7, True)
    engine = "nexusform.domains.whatif.questions.highs_engine"
    small = LimitedWorker(engine, cpu_seconds=900, memory_mib=4096, seconds=0.001)
    monkeypatch.setattr(repack_program, "_SOLVER", small)
    stopped = repack_program.run_solver(columns, [7.0], [float("inf")])
    assert (stopped.values, stopped.bound, stopped.is_finished) == (None, 0, False)
