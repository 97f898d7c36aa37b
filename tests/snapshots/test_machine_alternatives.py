import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.rendering.answers.explanation_text import describe_alternatives
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.vms import Demand, PlacementConstraints, VmName
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.snapshots.machine_alternatives import (
    MachineAlternative,
    MachineObstacle,
    list_alternative_machines,
)
from nexusform.snapshots.snapshot import SiteSnapshot
from tests.planning.harness import cluster, plan, pool
from tests.scheduling.racks.samples import build_limit, change_profile
from tests.worlds.small_worlds import build_applied_state, build_racks, get_site

SKUS = CATALOGUES[NEWEST].vm_skus


def build_demand(sku: str, *zones: str) -> Demand:
    return Demand(
        VmName("new", "new", "p", 0), SKUS[sku], PlacementConstraints(frozenset(zones) or None)
    )


def list_alternatives(site: SiteSnapshot, wanted: Demand) -> dict[str, MachineAlternative]:
    return {way.machine: way for way in list_alternative_machines(site, wanted, "")}


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
def test_machine_is_accepted_after_exactly_the_listed_removals(
    pools: list[tuple[str, int]], sku: str
) -> None:
    blocks = "".join(pool(f"p{k}", count, name) for k, (name, count) in enumerate(pools))
    files = build_racks(2, 2) + cluster("a", pools=blocks)
    if plan(files).plan.errored:
        return
    site = get_site(build_applied_state(files))
    handles = {
        name: handle for c in site.clusters for p in c.pools for name, handle in p.handles.items()
    }
    for way in list_alternative_machines(site, build_demand(sku), ""):
        assert set(way.requirements) <= {MachineObstacle.LEAVE}
        assert bool(way.removed_vms) == (MachineObstacle.LEAVE in way.requirements)
        scheduler = site.scheduler.copy()
        assert bool(scheduler.find_rejection(way.machine, build_demand(sku))) == bool(
            way.removed_vms
        )
        for name in way.removed_vms:
            # Every removal is needed.
            assert scheduler.find_rejection(way.machine, build_demand(sku))
            scheduler.release(handles[name])
        assert not scheduler.find_rejection(way.machine, build_demand(sku))


def build_vm(name: str, cores: int, memory: int) -> str:
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


def test_no_unnecessary_vm_is_removed() -> None:
    one_cell = """machine {
    numa_cells          = 1
    cpus_per_cell       = 48
    memory_gib_per_cell = 224
    ephemeral_disk_gib  = 3500
  }"""
    site = get_site(
        build_applied_state(
            build_racks(1, more=one_cell) + build_vm("roomy", 4, 100) + build_vm("busy", 40, 90)
        )
    )
    assert list_alternatives(site, build_demand("NC_P34_168_v1"))["r1-bm01"].removed_vms == (
        "roomy",
        "busy",
    )
    # 26 vCPUs and 112 GiB: removing only the roomy VM would not free enough vCPUs, removing the
    # busy one frees both.
    assert list_alternatives(site, build_demand("NC_P26_112_v1"))["r1-bm01"].removed_vms == (
        "busy",
    )


def test_zones_cordons_and_hardware_are_obstacles() -> None:
    files = build_racks(1, 2, more='machine_override "r2-bm01" {\n cordoned = true\n }').replace(
        'machine_override "r2-bm01" {\n cordoned = true\n }', "", 1
    )
    site = get_site(build_applied_state(files))
    found = list_alternatives(site, build_demand("NC_P46_224_v1", "2"))
    assert found["r1-bm01"].requirements == (MachineObstacle.ZONE,)
    assert (found["r2-bm01"].requirements, found["r2-bm01"].unschedulable_reason) == (
        (MachineObstacle.OPEN,),
        "cordoned",
    )
    assert found["r2-bm02"].requirements == ()
    assert list_alternatives(site, build_demand("NC_G56_224_v1"))["r1-bm01"].requirements == (
        MachineObstacle.HARDWARE,
    )
    own = replace(SKUS["NC_G56_224_v1"], machine_skus=())
    too_large = list_alternative_machines(site, Demand(VmName("n", "n", "p", 0), own), "r1-bm01")
    assert [way.requirements for way in too_large] == [
        (MachineObstacle.OPEN, MachineObstacle.SIZE),
        (MachineObstacle.SIZE,),
    ]


def test_rule_about_existing_vms_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, build_limit(1)))
    site = get_site(build_applied_state(build_racks(2, 1) + cluster("a", pools=pool("p", 1))))
    stands = next(vm for vm in site.scheduler.list_vms() if vm.vm.pool == "p")
    asked = Demand(VmName(stands.vm.owner, "a", "p", 7), stands.sku)
    found = {way.machine: way for way in list_alternative_machines(site, asked, "")}
    own, other = (
        found[f"r{n}-bm01"] for n in (("1", "2") if stands.placement.rack == "r1" else ("2", "1"))
    )
    assert (own.requirements, own.rule) == ((MachineObstacle.RULE,), "1 VMs of p already")
    assert other.requirements == ()
    lines = describe_alternatives([own], asked, 1)
    assert lines == [
        f"1 machine has capacity, but a rule rejects the VM: {own.machine} (1 VMs of p already)."
    ]
    # The VM itself does not exclude its machine.
    assert all(
        way.requirements == ()
        for way in list_alternative_machines(site, replace(asked, vm=stands.vm), "")
    )


def test_alternatives_are_described_in_words() -> None:
    found = [
        MachineAlternative("a", "r1", "1", (MachineObstacle.ZONE,)),
        MachineAlternative("b", "r2", "2", (MachineObstacle.LEAVE,), ("x", "y")),
        MachineAlternative("c", "r2", "2", (MachineObstacle.LEAVE,), ("z",)),
        MachineAlternative(
            "d", "r2", "2", (MachineObstacle.OPEN,), unschedulable_reason="cordoned"
        ),
        MachineAlternative("e", "r2", "2", ()),
        MachineAlternative("f", "r1", "1", (MachineObstacle.ZONE, MachineObstacle.OPEN)),
    ]
    assert describe_alternatives(found, build_demand("NC_P46_224_v1", "2"), 3) == [
        "1 machine has capacity but a lower rank: e.",
        (
            "1 machine has capacity in zones outside {2}: r1 (1). A wider availability_zones "
            "allows them; that "
            "re-places all 3 VMs of the pool."
        ),
        "1 machine has capacity once it takes VMs: d (cordoned).",
        "1 machine would have capacity with 1 VM fewer: c (z); 1 more if several were removed.",
        "1 machine would need several such changes.",
    ]
