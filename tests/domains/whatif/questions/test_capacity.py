import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.capacity import (
    CapacityAnswer,
    SkuCount,
    compute_site_capacity,
)
from nexusform.domains.whatif.questions.name_lookup import parse_sku_mix
from nexusform.resource_types import nks_pools
from nexusform.resource_types.nks_pools import get_zones
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.layout import Usage
from nexusform.scheduling.racks.rule import CountFilter, RankedItemKind, RejectionCheck
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    PlacementConstraints,
    VmSku,
    sum_count_intervals,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.snapshots.snapshot import SiteSnapshot
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import agent_pool, cluster, plan, pool
from tests.scheduling.racks.samples import change_profile
from tests.worlds.small_worlds import (
    build_applied_state,
    build_document_state,
    build_racks,
    get_site,
)

SKUS = CATALOGUES[NEWEST].vm_skus
P46, G24, G12, G6, E94 = (
    SKUS[n]
    for n in ("NC_P46_224_v1", "NC_G24_112_v1", "NC_G12_56_v1", "NC_G6_28_v1", "NC_E94_448_v1")
)
SLOW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def compute_capacity(site: SiteSnapshot, sku: VmSku, *zones: str) -> int:
    [found] = compute_site_capacity(site, [sku], frozenset(zones) or None).sku_capacities
    assert found.current.is_exact
    return found.current.maximum


def build_exact_interval(count: int) -> Interval:
    return Interval(count, count)


# --- agreement with apply ----------------------------------------------------------------------

SOME = st.sampled_from([P46.name, G24.name, G12.name, G6.name, "NC_P22_112_v1", E94.name])
POOLS = st.lists(st.tuples(SOME, st.integers(0, 4)), max_size=4)
SITES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


def build_crowded_site(machines: list[int], pools: list[tuple[str, int]]) -> str | None:
    """Return a site with one cluster on it; None if it does not fit."""
    blocks = "".join(pool(f"p{k}", count, sku) for k, (sku, count) in enumerate(pools))
    files = build_racks(*machines) + cluster("a", pools=blocks)
    return None if plan(files).plan.errored else files


@SLOW
@given(SITES, POOLS, SOME, st.data())
def test_computed_capacity_fits_and_one_more_does_not(
    machines: list[int], pools: list[tuple[str, int]], sku: str, data: st.DataObject
) -> None:
    files = build_crowded_site(machines, pools)
    if files is None:
        return
    state = build_applied_state(files)
    numbers = st.sets(st.integers(1, len(machines)), max_size=len(machines))
    zones = sorted(str(number) for number in data.draw(numbers))
    count = compute_capacity(get_site(state), SKUS[sku], *zones)
    pin = f"availability_zones = {zones}".replace("'", '"') if zones else ""

    def can_grow(by: int) -> bool:
        more = agent_pool("x", "nexus_kubernetes_cluster.a.id", by, sku, pin)
        return not plan(files + more, state).plan.errored

    assert can_grow(count)
    assert not can_grow(count + 1)


@SLOW
@given(SITES, POOLS, SOME)
def test_capacity_after_rack_loss_is_capacity_of_other_racks(
    machines: list[int], pools: list[tuple[str, int]], sku: str
) -> None:
    files = build_crowded_site(machines, pools)
    if files is None:
        return
    site = get_site(build_applied_state(files))
    [found] = compute_site_capacity(site, [SKUS[sku]]).sku_capacities
    assert set(found.without_rack) == set(site.active_racks)
    for rack, left in found.without_rack.items():
        others = [name.removeprefix("r") for name in site.active_racks if name != rack]
        assert left == build_exact_interval(
            compute_capacity(site, SKUS[sku], *others) if others else 0
        )
    assert found.with_one_rack_down == found.without_rack[found.worst_rack]
    assert sum_count_intervals(zone.current for zone in found.zones) == found.current


def test_computed_number_of_mixes_can_be_applied() -> None:
    files = build_racks(2, 2) + cluster("a", pools=pool("p", 2, G24.name))
    state = build_applied_state(files)
    parts = [SkuCount(2, G12), SkuCount(1, P46)]
    mix = compute_site_capacity(get_site(state), mix=parts).mix
    assert mix is not None

    def can_apply_sets(sets: int) -> bool:
        agent = "nexus_kubernetes_cluster.a.id"
        more = agent_pool("large", agent, sets, P46.name) + agent_pool(
            "small", agent, 2 * sets, G12.name
        )
        return not plan(files + more, state).plan.errored

    # Five of eight cells are empty. Next to five P46 the other three have capacity for 2 + 2 + 3
    # G12, not for ten.
    assert mix.sets == build_exact_interval(4)
    assert can_apply_sets(4)
    assert not can_apply_sets(5)
    assert (mix.short, mix.missing) == (G12, 3)
    assert dict(mix.remaining)[G12] == build_exact_interval(3)


# --- figures ------------------------------------------------------------------------------------


def test_empty_environment_of_document_has_only_free_cells() -> None:
    site = get_site(build_applied_state(build_racks(*[16] * 8)))
    answer = compute_site_capacity(site, [P46])
    [found] = answer.sku_capacities
    assert (found.current, found.with_one_rack_down) == (
        build_exact_interval(256),
        build_exact_interval(224),
    )
    assert (answer.totals.vcpus, answer.totals.memory_gib) == (12_288, 57_344)
    assert (found.unusable_vcpus, found.unusable_memory_gib) == (
        build_exact_interval(0),
        build_exact_interval(0),
    )
    assert compute_capacity(site, E94) == 128


def test_nearly_full_document_has_no_xlarge_cell_in_racks_7_and_8() -> None:
    site = get_site(build_document_state("nearly-full"), "lab")
    answer = compute_site_capacity(site, [P46])
    by_zone = {zone.zone: zone.current for zone in answer.sku_capacities[0].zones}
    assert (by_zone["7"], by_zone["8"]) == (build_exact_interval(0), build_exact_interval(0))
    cells = answer.fragmentation
    # 140 extra-large VMs exist.
    assert (build_exact_interval(cells.open), cells.taken) == (
        answer.sku_capacities[0].current,
        140,
    )
    assert cells.open + cells.taken + cells.broken == cells.cells == 256


def test_planned_racks_count_separately() -> None:
    planned = """
resource "nexus_rack" "later" {
  site_id       = nexus_site.s.id
  name          = "later"
  machine_count = 3
  status        = "planned"
}
"""
    files = build_racks(2) + planned
    state = build_applied_state(files)
    answer = compute_site_capacity(get_site(state), [P46], start=build_start(state))
    [found] = answer.sku_capacities
    assert (found.current, found.planned, found.with_planned) == (
        build_exact_interval(4),
        6,
        build_exact_interval(10),
    )
    assert answer.planned_racks == ("later",)
    active = get_site(build_applied_state(files.replace('"planned"', '"active"')))
    assert build_exact_interval(compute_capacity(active, P46)) == found.with_planned
    later = frozenset({"later"})
    answer = compute_site_capacity(get_site(state), [P46], later, start=build_start(state))
    assert answer.sku_capacities[0].with_planned == build_exact_interval(6)


def test_machines_with_blocks_of_their_own_in_a_planned_rack_count() -> None:
    """The rack has one closed machine, and a machine with more cells in a block of its own."""
    files = (
        build_racks(1)
        + """
resource "nexus_rack" "later" {
  site_id       = nexus_site.s.id
  name          = "later"
  machine_count = 2
  status        = "planned"
  machine_override "later-bm01" {
    cordoned = true
  }
}
resource "nexus_bare_metal_machine" "large" {
  rack_id     = nexus_rack.later.id
  name        = "large"
  machine_sku = "bom-1.7.3"
  slot        = 3
}
"""
    )
    state = build_applied_state(files)
    answer = compute_site_capacity(get_site(state), [P46], start=build_start(state))
    [found] = answer.sku_capacities
    active = get_site(build_applied_state(files.replace('"planned"', '"active"')))
    assert found.planned == 4
    assert build_exact_interval(compute_capacity(active, P46)) == found.with_planned


def test_three_g14_and_a_g6_strand_28_gib_of_a_cell() -> None:
    one_cell = """machine {
    numa_cells            = 1
    cpus_per_cell         = 48
    memory_gib_per_cell   = 224
    ephemeral_disk_gib    = 3500
  }"""
    files = build_racks(1, more=one_cell) + cluster("a", pools=pool("p", 3, "NC_G14_56_v1"))
    cells = compute_site_capacity(get_site(build_applied_state(files))).fragmentation
    assert (cells.stranded_cells, cells.stranded_vcpus, cells.stranded_memory_gib) == (1, 0, 28)


def test_small_vm_splits_a_cell_for_largest_sku() -> None:
    cells = compute_site_capacity(
        get_site(build_applied_state(build_racks(1) + cluster("a")))
    ).fragmentation
    assert (cells.open, cells.broken, cells.taken) == (1, 1, 0)
    [culprit] = cells.broken_by
    assert (culprit.cluster, culprit.pool, culprit.cells) == ("a", "control-plane", 1)
    assert (cells.broken_vcpus, cells.broken_memory_gib) == (42, 196)


def test_unschedulable_machines_are_excluded() -> None:
    files = build_racks(2, more='machine_override "r1-bm02" {\n cordoned = true\n }')
    answer = compute_site_capacity(get_site(build_applied_state(files)), [P46])
    assert answer.sku_capacities[0].current == build_exact_interval(2)
    assert dict(answer.closed) == {"cordoned": 1}
    assert (answer.fragmentation.closed, answer.totals.machines) == (2, 1)


@SLOW
@given(SITES, POOLS)
def test_every_cell_has_one_kind_and_free_capacity_adds_up(
    machines: list[int], pools: list[tuple[str, int]]
) -> None:
    files = build_crowded_site(machines, pools)
    if files is None:
        return
    site = get_site(build_applied_state(files))
    cells = compute_site_capacity(site).fragmentation
    kinds = (cells.open, cells.taken, cells.broken, cells.spoiled, cells.small, cells.closed)
    assert sum(kinds) == cells.cells == 2 * sum(machines)
    taken = sum(vm.sku.memory_gib for vm in site.scheduler.list_vms())
    assert cells.free_memory_gib == 448 * sum(machines) - taken
    assert cells.broken_memory_gib <= cells.free_memory_gib
    # Measured in one-cell SKUs: as long as disk is no limit, the number of open cells
    # equals the capacity.
    assert cells.open == compute_capacity(site, cells.yardstick or P46)


def test_missing_capacity_is_a_finding_only_if_requested() -> None:
    full = get_site(
        build_applied_state(
            build_racks(1) + cluster("a", plane=G24.name, pools=pool("p", 1, G24.name))
        )
    )
    assert compute_capacity(full, E94) == 0
    assert compute_site_capacity(full, [E94]).has_findings
    assert not compute_site_capacity(full).has_findings
    assert compute_site_capacity(full, mix=[SkuCount(3, P46)]).has_findings


# --- a new argument -------------------------------------------------------------------------------


class _MaximumPerRack(PlacementConstraints, frozen=True):
    """Constraints of a pool with a new argument: the maximum of its VMs per rack."""

    most_on_rack: int = 0


def _build_rack_check(usage: Usage, demand: Demand) -> RejectionCheck | None:
    most = getattr(demand.constraints, "most_on_rack", 0)
    return (lambda rack: "full" if usage.pool.racks[rack] >= most else None) if most else None


def test_mix_respects_pool_constraints_like_single_skus(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = CountFilter(
        name="at_most",
        item=RankedItemKind.RACK,
        build_check=_build_rack_check,
        describe_shortage=lambda _: "full",
        is_monotonic=True,
    )
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))
    monkeypatch.setattr(
        nks_pools,
        "build_placement_constraints",
        lambda values: _MaximumPerRack(get_zones(values), most_on_rack=2),
    )
    site = get_site(
        build_applied_state(
            build_racks(4, 4) + cluster("a", plane=G12.name, pools=pool("p", 4, P46.name))
        )
    )
    assert compute_capacity(site, P46) == 4
    mix = compute_site_capacity(site, mix=[SkuCount(1, P46)]).mix
    assert mix is not None
    assert (mix.sets, mix.sequential_sets) == (build_exact_interval(4), build_exact_interval(4))
    # A SKU without constraints in any pool is unrestricted.
    free = compute_site_capacity(site, mix=[SkuCount(1, G6)]).mix
    assert free is not None
    assert free.sets.minimum > 4


# --- text form of a mix --------------------------------------------------------------------------


def parse_mix(text: str) -> list[tuple[int, str]] | str:
    try:
        mix = parse_sku_mix({**SKUS, "2xlarge": replace(G6, name="2xlarge")}, text)
    except DiagnosticsError as rejection:
        return rejection.diagnostics[0].summary
    return [(p.count, p.sku.name) for p in mix]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("3xNC_P46_224_v1", [(3, "NC_P46_224_v1")]),
        ("NC_P46_224_v1, 2 x NC_G6_28_v1", [(1, "NC_P46_224_v1"), (2, "NC_G6_28_v1")]),
        ("1xNC_G6_28_v1,2XNC_G6_28_v1", [(3, "NC_G6_28_v1")]),
        ("2xlarge,2x2xlarge", [(3, "2xlarge")]),
        ("0xNC_G6_28_v1", "Invalid mix"),
        ("", "Invalid mix"),
        ("3xNC_P47", "Unknown VM SKU"),
        ("3x", "Unknown VM SKU"),
        ("3", "Invalid mix"),
        ("1000001xNC_G6_28_v1", "Invalid mix"),
        ("9" * 6000 + "xNC_G6_28_v1", "Invalid mix"),
    ],
)
def test_mix_is_parsed(text: str, parts: object) -> None:
    assert parse_mix(text) == parts


def test_reversed_or_long_mix_has_short_error() -> None:
    with pytest.raises(
        DiagnosticsError, match=r"^Write the number before the SKU: 3xNC_P46_224_v1\.$"
    ):
        parse_sku_mix(SKUS, "NC_P46_224_v1x3")
    for text in ("2xNC_" + "9" * 6000, "9" * 6000, "1000001xNC_P46_224_v1"):
        with pytest.raises(DiagnosticsError) as rejection:
            parse_sku_mix(SKUS, text)
        assert len(str(rejection.value)) < 500
    assert "1 to 1,000,000 VMs" in str(rejection.value)


def test_answer_is_reproducible() -> None:
    state = build_applied_state(build_racks(2, 2) + cluster("a", pools=pool("p", 3, G24.name)))

    def compute_answer() -> CapacityAnswer:
        return compute_site_capacity(get_site(state), mix=[SkuCount(1, G12)])

    assert compute_answer() == compute_answer()
