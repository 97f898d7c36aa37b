import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.rendering.answers.explanation_text import elsewhere_lines
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.vms import Demand, Terms, VmName
from nexusform.worlds.other_places import Need, Way, find_ways
from nexusform.worlds.world_view import SiteView
from tests.planning.harness import cluster, plan, pool
from tests.scheduling.racks.samples import limit
from tests.worlds.small_worlds import racks, site_of, standing

SKUS = CATALOGUES[NEWEST].vm_skus


def demand(sku: str, *zones: str) -> Demand:
    return Demand(VmName("new", "new", "p", 0), SKUS[sku], Terms(frozenset(zones) or None))


def ways(site: SiteView, wanted: Demand) -> dict[str, Way]:
    return {way.machine: way for way in find_ways(site, wanted, "")}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["NC_G24_112_v1", "NC_P46_224_v1", "NC_G12_56_v1", "NC_E94_448_v1"]),
            st.integers(1, 5),
        ),
        max_size=3,
    ),
    st.sampled_from(["NC_P46_224_v1", "NC_G24_112_v1", "NC_E94_448_v1", "NC_G28_112_v1"]),
)
def test_when_exactly_these_leave_the_rule_takes_the_machine(pools: list[tuple[str, int]], sku: str) -> None:
    blocks = "".join(pool(f"p{k}", count, name) for k, (name, count) in enumerate(pools))
    files = racks(2, 2) + cluster("a", pools=blocks)
    if plan(files).plan.errored:
        return
    site = site_of(standing(files))
    handles = {name: handle for c in site.clusters for p in c.pools for name, handle in p.handles.items()}
    for way in find_ways(site, demand(sku), ""):
        assert set(way.needs) <= {Need.LEAVE}
        assert bool(way.leaving) == (Need.LEAVE in way.needs)
        scheduler = site.scheduler.copy()
        assert bool(scheduler.refusal(way.machine, demand(sku))) == bool(way.leaving)
        for name in way.leaving:
            assert scheduler.refusal(way.machine, demand(sku))  # none leaves for nothing
            scheduler.release(handles[name])
        assert not scheduler.refusal(way.machine, demand(sku))


def vm(name: str, cores: int, memory: int) -> str:
    return f"""
resource "nexus_virtual_machine" "{name}" {{
  site_id    = nexus_site.s.id
  name       = "{name}"
  cpu_cores  = {cores}
  memory_gib = {memory}
  disk_gib   = 10
  machine    = "r1-bm01"
}}
"""


def test_no_vm_leaves_that_need_not() -> None:
    one_cell = """machine {
    numa_cells          = 1
    cpus_per_cell       = 48
    memory_gib_per_cell = 224
    ephemeral_disk_gib  = 3500
  }"""
    site = site_of(standing(racks(1, more=one_cell) + vm("roomy", 4, 100) + vm("busy", 40, 90)))
    assert ways(site, demand("NC_P34_168_v1"))["r1-bm01"].leaving == ("roomy", "busy")
    # 26 vCPUs and 112 GiB: the roomy one alone would not free enough vCPUs, the busy one does both.
    assert ways(site, demand("NC_P26_112_v1"))["r1-bm01"].leaving == ("busy",)


def test_zones_cordons_and_hardware_stand_in_the_way() -> None:
    files = racks(1, 2, more='machine_override "r2-bm01" {\n cordoned = true\n }').replace(
        'machine_override "r2-bm01" {\n cordoned = true\n }', "", 1
    )
    site = site_of(standing(files))
    found = ways(site, demand("NC_P46_224_v1", "2"))
    assert found["r1-bm01"].needs == (Need.ZONE,)
    assert (found["r2-bm01"].needs, found["r2-bm01"].refusal) == ((Need.OPEN,), "cordoned")
    assert found["r2-bm02"].needs == ()
    assert ways(site, demand("NC_G56_224_v1"))["r1-bm01"].needs == (Need.HARDWARE,)
    own = replace(SKUS["NC_G56_224_v1"], machine_skus=())
    too_large = find_ways(site, Demand(VmName("n", "n", "p", 0), own), "r1-bm01")
    assert [way.needs for way in too_large] == [(Need.OPEN, Need.SIZE), (Need.SIZE,)]


def test_a_rule_about_the_vms_that_stand_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "FILTERS", (*profile.FILTERS, limit(1)))
    site = site_of(standing(racks(2, 1) + cluster("a", pools=pool("p", 1))))
    stands = next(vm for vm in site.scheduler.vms() if vm.vm.pool == "p")
    asked = Demand(VmName(stands.vm.owner, "a", "p", 7), stands.sku)
    found = {way.machine: way for way in find_ways(site, asked, "")}
    own, other = (found[f"r{n}-bm01"] for n in (("1", "2") if stands.placement.rack == "r1" else ("2", "1")))
    assert (own.needs, own.rule) == ((Need.RULE,), "1 VMs of p already")
    assert other.needs == ()
    lines = elsewhere_lines([own], asked, 1)
    assert lines == [f"1 machine has room, but a rule refuses: {own.machine} (1 VMs of p already)."]
    # The VM itself is no reason for it to stay away.
    assert all(way.needs == () for way in find_ways(site, replace(asked, vm=stands.vm), ""))


def test_in_words() -> None:
    found = [
        Way("a", "r1", "1", (Need.ZONE,)),
        Way("b", "r2", "2", (Need.LEAVE,), ("x", "y")),
        Way("c", "r2", "2", (Need.LEAVE,), ("z",)),
        Way("d", "r2", "2", (Need.OPEN,), refusal="cordoned"),
        Way("e", "r2", "2", ()),
        Way("f", "r1", "1", (Need.ZONE, Need.OPEN)),
    ]
    assert elsewhere_lines(found, demand("NC_P46_224_v1", "2"), 3) == [
        "1 machine has room, and the rule only ranks others first: e.",
        (
            "1 machine has room in zones that are not among {2}: r1 (1). A wider availability_zones would "
            "let it go there; that re-places all 3 VMs of the pool."
        ),
        "1 machine has room once it takes VMs: d (cordoned).",
        "1 machine would have room if 1 VM left: c (z); 1 more if several did.",
        "1 machine would need more than one such change.",
    ]
