"""Lint rules on small sites and on the placement document's site."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from nexusform.advice.lint_input import LintInput, LintPool, LintSite, build_placement_simulator
from nexusform.advice.registry import RULE_IDS, RULES, run_rules
from nexusform.diagnostics.diagnostic import Diagnostic, Position, Severity, Span
from nexusform.placements.vm_demands import PlacedVm, PoolDemand
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.layout import Usage
from nexusform.scheduling.racks.rule import CountFilter, RankedItem, RejectionCheck
from nexusform.scheduling.racks.vms import Demand, Machine, PlacementConstraints, VmName
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from tests.scheduling.racks.samples import change_profile

SKUS = CATALOGUES[NEWEST].vm_skus
HARDWARE = CATALOGUES[NEWEST].machine_skus


def machines(racks: int, each: int, sku: str = "bom-1.7.3") -> tuple[Machine, ...]:
    h = HARDWARE[sku]
    return tuple(
        Machine(
            f"rack{r}-bm{slot:02d}",
            f"rack{r}",
            str(r),
            slot,
            sku,
            h.cells,
            h.cpus_per_cell,
            h.memory_gib_per_cell,
            h.disk_gib,
        )
        for r in range(1, racks + 1)
        for slot in range(1, each + 1)
    )


def pool(cluster: str, name: str, sku: str, count: int, zones: Sequence[str] = (), **more: str) -> LintPool:
    return LintPool(
        address=f"nexus_kubernetes_cluster.{cluster[-1]}",
        owner=f"lab/{cluster}",
        cluster=cluster,
        pool=name,
        site_id="lab",
        sku=SKUS[sku],
        numbers=tuple(range(count)),
        new_numbers=tuple(range(count)),
        constraints=PlacementConstraints(frozenset(zones) or None),
        span=SPAN,
        **more,  # type: ignore[arg-type]
    )


SPAN = Span("main.nf.hcl", Position(1, 1, 0), Position(1, 5, 4))


def planned(
    site: tuple[Machine, ...], pools: Sequence[LintPool], stood: Sequence[str] = (), *, costless: bool = True
) -> LintInput:
    """Facts of a plan that places all pools but those of the clusters that stood before, as `advise` asks."""
    scheduler, before = RackScheduler(site), RackScheduler(site)
    placed = []
    for one in pools:
        vms = {}
        for number in one.numbers:
            vm = VmName(one.owner, one.cluster, one.pool, number)
            answer = scheduler.place(one.build_demand(number))
            if isinstance(answer, tuple):
                vms[number] = PlacedVm(one.pool, number, f"{one.pool}-{number}", one.sku.name, answer[1])
                if one.cluster in stood:
                    before.add_existing(vm, one.sku, answer[1])
        new = () if one.cluster in stood else one.numbers
        placed.append(replace(one, vms=vms, new_numbers=new))
    lab = LintSite("lab", site, build_placement_simulator(before), scheduler.count_free_slots)
    return LintInput(tuple(placed), {"lab": lab}, tuple(SKUS.values()), includes_costless=costless)


def literal(site: tuple[Machine, ...], pools: Sequence[LintPool]) -> LintInput:
    """What `validate` knows: nothing is placed, nothing can be measured."""
    return LintInput(tuple(pools), {"lab": LintSite("lab", site)}, tuple(SKUS.values()))


def of(rule: str, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.id == rule]


DOCUMENT = [
    pool("cluster-a", "control-plane", "NC_G12_56_v1", 3),
    pool("cluster-a", "pool1", "NC_P46_224_v1", 24),
    pool("cluster-a", "pool2", "NC_G6_28_v1", 6),
    pool("cluster-b", "control-plane", "NC_G24_112_v1", 5),
    pool("cluster-b", "pool1", "NC_P46_224_v1", 48),
    pool("cluster-b", "pool2", "NC_P22_112_v1", 24),
    pool("cluster-c", "control-plane", "NC_G12_56_v1", 3),
    pool("cluster-c", "pool1", "NC_P46_224_v1", 12, ["1", "4"]),
    pool("cluster-d", "control-plane", "NC_G24_112_v1", 5),
    pool("cluster-d", "pool1", "NC_P46_224_v1", 24, ["7", "8"]),
    pool("cluster-d", "pool2", "NC_P22_112_v1", 24),
    pool("cluster-e", "control-plane", "NC_G24_112_v1", 5),
    pool("cluster-e", "pool1", "NC_P46_224_v1", 32),
]
SITE = machines(8, 16)
UP_TO = {letter: [p for p in DOCUMENT if p.cluster[-1] <= letter] for letter in "abcde"}


class TestTheDocument:
    def test_a_before_b_is_small_before_large(self) -> None:
        findings = of("small-before-large", run_rules(planned(SITE, UP_TO["c"])))
        assert [d.address for d in findings] == ["nexus_kubernetes_cluster.a"]
        assert "cluster-a (5,712 GiB in all) is created before cluster-b (14,000 GiB)" in findings[0].detail

    def test_the_better_order_is_measured(self) -> None:
        findings = of("small-before-large", run_rules(planned(SITE, DOCUMENT)))
        assert [d.address[-1] for d in findings] == ["a", "c"]
        gain = re.search(
            r"capacity for (\d+) more NC_P46_224_v1 stays free \((\d+) instead of (\d+)\)", findings[0].detail
        )
        assert gain is not None
        more, then, now = map(int, gain.groups())
        assert then - now == more > 0

    def test_the_pin_of_d_is_measured(self) -> None:
        findings = run_rules(planned(SITE, UP_TO["d"], stood=["cluster-a", "cluster-b", "cluster-c"]))
        assert [(d.id, d.address) for d in findings] == [("zones-pinned", "nexus_kubernetes_cluster.d")]
        assert findings[0].severity is Severity.WARNING
        assert "6 machines will run two VMs of cluster-d because of it." in findings[0].detail
        assert "Without the pin all 53 VMs fit on 53 machines." in findings[0].detail

    def test_a_pin_that_costs_nothing_says_so(self) -> None:
        (finding,) = of("zones-pinned", run_rules(planned(SITE, UP_TO["c"])))
        assert "costs nothing in this plan" in finding.detail
        assert finding.brief == "cluster-c/pool1: pinned, at no cost now"

    def test_a_plan_is_silent_about_what_changes_nothing_today(self) -> None:
        assert {d.id for d in run_rules(planned(SITE, UP_TO["c"]))} == {"zones-pinned", "small-before-large"}
        assert run_rules(planned(SITE, UP_TO["c"], costless=False)) == []
        told = run_rules(planned(SITE, DOCUMENT, costless=False))
        assert [(d.id, d.address[-1]) for d in told] == [
            ("zones-pinned", "d"),
            ("small-before-large", "a"),
            ("small-before-large", "c"),
            ("no-surge-capacity", "d"),
        ]
        gain = "in another order 6 fewer machines are shared, 54 instead of 46 NC_P46_224_v1 stay free"
        assert [d.brief for d in told] == [
            "cluster-d/pool1: 6 machines run two VMs of cluster-d because of it",
            f"cluster-a: {gain}",
            f"cluster-c: {gain}",
            "cluster-d/pool1: an upgrade would fail, no NC_P46_224_v1 fits in the zones 7 and 8",
        ]

    def test_clusters_that_stand_are_left_alone(self) -> None:
        stood = ["cluster-a", "cluster-b", "cluster-c", "cluster-d"]
        assert {d.id for d in run_rules(planned(SITE, DOCUMENT, stood))} <= {"no-surge-capacity", "shared-machine"}
        assert run_rules(planned(SITE, DOCUMENT, [*stood, "cluster-e"])) == []

    def test_e_leaves_d_no_room_for_an_upgrade(self) -> None:
        findings = of("no-surge-capacity", run_rules(planned(SITE, DOCUMENT)))
        assert [d.address[-1] for d in findings] == ["d"]
        assert "no more fits in the zones 7 and 8" in findings[0].detail


class TestZonesPinned:
    def test_two_or_three_vms_on_racks_apart_are_right(self) -> None:
        site = machines(8, 2)
        apart = pool("cluster-a", "np", "NC_G6_28_v1", 3, ["1", "3", "5"])
        assert run_rules(planned(site, [apart])) == []
        beside = pool("cluster-a", "np", "NC_G6_28_v1", 3, ["1", "2", "5"])
        assert len(of("zones-pinned", run_rules(planned(site, [beside])))) == 1
        four = pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1", "3", "5", "7"])
        assert len(of("zones-pinned", run_rules(planned(site, [four])))) == 1
        one_rack = pool("cluster-a", "np", "NC_G6_28_v1", 2, ["1"])
        assert len(of("zones-pinned", run_rules(planned(site, [one_rack])))) == 1

    def test_the_argument_is_the_subject(self) -> None:
        argument = Span("main.nf.hcl", Position(9, 5, 99), Position(9, 20, 114))
        pinned = replace(pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1"]), zones_span=argument)
        (finding,) = of("zones-pinned", run_rules(literal(machines(2, 4), [pinned])))
        assert finding.subject == argument

    def test_naming_every_zone(self) -> None:
        pinned = pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1", "2"])
        (finding,) = of("zones-pinned", run_rules(literal(machines(2, 4), [pinned])))
        assert "all racks of the site" in finding.detail

    def test_without_any_known_rack(self) -> None:
        pinned = pool("cluster-a", "np", "NC_G6_28_v1", 9, ["x", "y"])
        (finding,) = run_rules(LintInput((pinned,)))
        assert "pinned to the zones x and y" in finding.detail


class TestZonesTooSmall:
    def test_fewer_machines_than_vms(self) -> None:
        tight = pool("cluster-a", "np", "NC_G6_28_v1", 5, ["1"])
        (finding,) = of("zones-too-small", run_rules(planned(machines(3, 4), [tight])))
        assert "The zones 1 have 4 machines that accept new VMs" in finding.detail
        assert 'availability_zones = ["1", "2"]' in finding.detail
        assert "none does" in finding.detail

    def test_quiet_where_there_is_a_machine_for_each(self) -> None:
        enough = pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1"])
        assert not of("zones-too-small", run_rules(planned(machines(3, 4), [enough])))

    def test_quiet_where_the_site_has_no_more(self) -> None:
        everywhere = pool("cluster-a", "np", "NC_G6_28_v1", 20, ["1", "2", "3"])
        assert not of("zones-too-small", run_rules(planned(machines(3, 4), [everywhere])))


class TestOrderInsideACluster:
    def test_a_smaller_pool_first(self) -> None:
        pools = [
            pool("cluster-a", "control-plane", "NC_G6_28_v1", 3),
            pool("cluster-a", "little", "NC_G6_28_v1", 2),
            pool("cluster-a", "large", "NC_P46_224_v1", 4),
        ]
        (finding,) = of("small-before-large", run_rules(planned(machines(2, 4), pools)))
        assert "In cluster-a, little (56 GiB in all) is placed before large (896 GiB)" in finding.detail

    def test_the_control_plane_always_comes_first(self) -> None:
        pools = [pool("cluster-a", "control-plane", "NC_G6_28_v1", 3), pool("cluster-a", "large", "NC_P46_224_v1", 4)]
        assert not of("small-before-large", run_rules(planned(machines(2, 4), pools)))

    def test_an_order_that_makes_all_fit(self) -> None:
        # Six small VMs, spread over the machines, break the cells that six whole ones need.
        site = machines(1, 4)
        pools = [pool("cluster-a", "np", "NC_G6_28_v1", 4), pool("cluster-b", "np", "NC_P46_224_v1", 7)]
        (finding,) = of("small-before-large", run_rules(planned(site, pools)))
        assert "In the order cluster-b, cluster-a, 3 more VMs fit" in finding.detail


class TestSkuMismatch:
    def test_made_for_other_hardware(self) -> None:
        (finding,) = run_rules(planned(machines(2, 4), [pool("cluster-a", "np", "NC_G14_56_v1", 4)]))
        assert finding.id == "sku-mismatch"
        assert "3 of them fit a NUMA cell of bom-1.7.3" in finding.detail
        assert "NC_G12_56_v1 is designed for this hardware: 4 fit" in finding.detail

    @pytest.mark.parametrize(
        ("sku", "hardware"),
        [
            ("NC_G14_56_v1", "bom-2.0"),
            ("NC_G12_56_v1", "bom-1.7.3"),
            ("NC_P46_224_v1", "bom-1.7.3"),
            ("NC_P54_224_v1", "bom-2.0"),
            ("NC_E94_448_v1", "bom-1.7.3"),
            ("NC_G36_168_v1", "bom-1.7.3"),
            ("NC_G42_168_v1", "bom-2.0"),
        ],
    )
    def test_made_for_this_hardware(self, sku: str, hardware: str) -> None:
        assert not of("sku-mismatch", run_rules(planned(machines(2, 4, hardware), [pool("cluster-a", "np", sku, 2)])))

    def test_validate_says_that_nothing_lists_it(self) -> None:
        (finding,) = run_rules(literal(machines(2, 4), [pool("cluster-a", "np", "NC_G56_224_v1", 2)]))
        assert "it needs bom-2.0; they are bom-1.7.3" in finding.detail
        # In a plan that is an error already.
        in_plan = run_rules(planned(machines(2, 4), [pool("cluster-a", "np", "NC_G56_224_v1", 2)]))
        assert not of("sku-mismatch", in_plan)

    def test_part_of_the_machines(self) -> None:
        mixed = (*machines(1, 2), *(replace(m, rack="rackx", name=f"x{m.name}") for m in machines(1, 2, "bom-2.0")))
        findings = of("sku-mismatch", run_rules(planned(mixed, [pool("cluster-a", "np", "NC_G56_224_v1", 2)])))
        assert "2 machines of 4" in findings[0].detail


class TestSharedMachine:
    def test_more_vms_than_machines(self) -> None:
        (finding,) = of(
            "shared-machine", run_rules(planned(machines(1, 2), [pool("cluster-a", "np", "NC_G6_28_v1", 3)]))
        )
        assert "1 machine runs two or more VMs of cluster-a" in finding.detail
        assert "2 machines that accept VMs, but cluster-a has 3 VMs" in finding.detail

    def test_silent_where_a_pin_is_the_reason(self) -> None:
        pinned = pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1"])
        findings = run_rules(planned(machines(2, 2), [pinned]))
        assert not of("shared-machine", findings)
        assert len(of("zones-pinned", findings)) == 1


def asked(name: str, max_surge: str, count: int) -> PoolDemand:
    """A pool as a configuration asks for it."""
    names = tuple(map(str, range(count)))
    return PoolDemand(name, tuple(range(count)), names, SKUS["NC_P46_224_v1"], max_surge=max_surge)


class TestSurge:
    @pytest.mark.parametrize(
        ("text", "count", "needed"),
        [("1", 5, 1), ("33%", 10, 4), ("100%", 3, 3), ("9", 3, 3), ("0", 5, 0), ("0%", 5, 0), ("odd", 5, 0)],
    )
    def test_how_many_come_first(self, text: str, count: int, needed: int) -> None:
        assert asked("np", text, count).surge_size == needed

    def test_the_control_plane_takes_one(self) -> None:
        assert asked("control-plane", "3", 5).surge_size == 1

    def test_a_full_site(self) -> None:
        full = pool("cluster-a", "np", "NC_P46_224_v1", 8)
        (finding,) = of("no-surge-capacity", run_rules(planned(machines(2, 2), [full])))
        assert 'max_surge = "0"' in finding.detail
        easy = replace(full, surge=0)
        assert not of("no-surge-capacity", run_rules(planned(machines(2, 2), [easy])))


class TestSilence:
    def test_everywhere_and_at_an_address(self) -> None:
        facts = planned(SITE, UP_TO["d"], stood=["cluster-a", "cluster-b", "cluster-c"])
        assert run_rules(facts, ["zones-pinned"]) == []
        assert run_rules(facts, (), {"nexus_kubernetes_cluster.d": ["zones-pinned"]}) == []
        assert len(run_rules(facts, (), {"nexus_kubernetes_cluster.c": ["zones-pinned"]})) == 1

    def test_validate_shows_the_first_four(self) -> None:
        assert [rule.id for rule in RULES if rule.literal] == list(RULE_IDS[:4])
        full = pool("cluster-a", "np", "NC_P46_224_v1", 8)
        facts = planned(machines(2, 2), [full])
        assert {d.id for d in run_rules(facts)} == {"shared-machine", "no-surge-capacity"}
        assert run_rules(facts, literal_only=True) == []

    def test_summaries_are_constant_per_rule(self) -> None:
        findings = run_rules(planned(SITE, DOCUMENT))
        by_rule = {(d.id, d.summary) for d in findings}
        assert len(by_rule) == len({d.id for d in findings})
        assert all(d.summary.startswith(f"{d.id}: ") for d in findings)
        assert all(d.subject is not None for d in findings)


class _AtMost(PlacementConstraints, frozen=True):
    """Terms with an argument that somebody adds: the most VMs of a pool that one rack may have."""

    most_on_rack: int = 0


def test_room_that_is_left_is_counted_with_what_all_pools_of_the_sku_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def opens(usage: Usage, demand: Demand) -> RejectionCheck | None:
        most = getattr(demand.constraints, "most_on_rack", 0)
        return (lambda rack: "full" if usage.pool.racks[rack] >= most else None) if most else None

    rule = CountFilter(
        name="at_most", item=RankedItem.RACK, build_check=opens, describe_shortage=lambda _: "full", is_monotonic=True
    )
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))
    limited = replace(pool("cluster-a", "pool1", "NC_P46_224_v1", 2), constraints=_AtMost(most_on_rack=3))
    outcome = build_placement_simulator(RackScheduler(machines(2, 4)))([limited])
    assert outcome.free_largest == 6
