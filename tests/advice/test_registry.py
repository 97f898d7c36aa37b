"""Tests of lint rules on small sites and on the site of the placement document."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from nexusform.advice import registry
from nexusform.advice.lint_input import (
    LintInput,
    LintPool,
    LintSite,
    build_finding,
    build_fit_counter,
    measure_usage,
)
from nexusform.advice.registry import RULE_IDS, RULES, LintRule, run_rules
from nexusform.diagnostics.diagnostic import Diagnostic, Position, Severity, Span
from nexusform.placements.vm_demands import PlacedVm, PoolDemand
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.layout import Usage
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.rule import CountFilter, RankedItemKind, RejectionCheck
from nexusform.scheduling.racks.vms import (
    CONTROL_PLANE,
    Demand,
    Machine,
    PlacementConstraints,
    VmName,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from tests.advice.trial_twin import build_trial
from tests.scheduling.racks.samples import change_profile

SKUS = CATALOGUES[NEWEST].vm_skus
HARDWARE = CATALOGUES[NEWEST].machine_skus


def build_machines(racks: int, each: int, sku: str = "bom-1.7.3") -> tuple[Machine, ...]:
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


def build_pool(
    cluster: str, name: str, sku: str, count: int, zones: Sequence[str] = (), **more: str
) -> LintPool:
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
        path=("control_plane",) if name == CONTROL_PLANE else ("agent_pool", name),
        **more,  # type: ignore[arg-type]
    )


SPAN = Span("main.nf.hcl", Position(1, 1, 0), Position(1, 5, 4))


def build_plan_facts(
    site: tuple[Machine, ...],
    pools: Sequence[LintPool],
    stood: Sequence[str] = (),
    *,
    costless: bool = True,
) -> LintInput:
    """Return the facts of a plan for `advise`.

    It places all pools except those of pre-existing clusters.
    """
    scheduler = RackScheduler(site)
    before = RackScheduler(site)
    placed = []
    for one in pools:
        vms = {}
        for number in one.numbers:
            vm = VmName(one.owner, one.cluster, one.pool, number)
            answer = scheduler.place(one.build_demand(number))
            if isinstance(answer, tuple):
                vms[number] = PlacedVm(
                    one.pool, number, f"{one.pool}-{number}", one.sku.name, answer[1]
                )
                if one.cluster in stood:
                    before.add_existing(vm, one.sku, answer[1])
        new = () if one.cluster in stood else one.numbers
        placed.append(replace(one, vms=vms, new_numbers=new))
    lab = LintSite(
        "lab",
        site,
        measure_usage(scheduler, placed),
        scheduler.count_free_slots,
        build_fit_counter(scheduler),
    )
    return LintInput(
        tuple(placed),
        {"lab": lab},
        tuple(SKUS.values()),
        includes_costless=costless,
        plan_trial=build_trial("lab", before, placed),
    )


def build_literal_facts(site: tuple[Machine, ...], pools: Sequence[LintPool]) -> LintInput:
    """Return the facts known to `validate`: no placements, so no measurements."""
    return LintInput(tuple(pools), {"lab": LintSite("lab", site)}, tuple(SKUS.values()))


def select_by_rule(rule: str, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.id == rule]


DOCUMENT = [
    build_pool("cluster-a", "control-plane", "NC_G12_56_v1", 3),
    build_pool("cluster-a", "pool1", "NC_P46_224_v1", 24),
    build_pool("cluster-a", "pool2", "NC_G6_28_v1", 6),
    build_pool("cluster-b", "control-plane", "NC_G24_112_v1", 5),
    build_pool("cluster-b", "pool1", "NC_P46_224_v1", 48),
    build_pool("cluster-b", "pool2", "NC_P22_112_v1", 24),
    build_pool("cluster-c", "control-plane", "NC_G12_56_v1", 3),
    build_pool("cluster-c", "pool1", "NC_P46_224_v1", 12, ["1", "4"]),
    build_pool("cluster-d", "control-plane", "NC_G24_112_v1", 5),
    build_pool("cluster-d", "pool1", "NC_P46_224_v1", 24, ["7", "8"]),
    build_pool("cluster-d", "pool2", "NC_P22_112_v1", 24),
    build_pool("cluster-e", "control-plane", "NC_G24_112_v1", 5),
    build_pool("cluster-e", "pool1", "NC_P46_224_v1", 32),
]
SITE = build_machines(8, 16)
UP_TO = {letter: [p for p in DOCUMENT if p.cluster[-1] <= letter] for letter in "abcde"}


class TestPlacementDocument:
    def test_cluster_a_before_b_is_small_before_large(self) -> None:
        findings = select_by_rule(
            "small-before-large", run_rules(build_plan_facts(SITE, UP_TO["c"]))
        )
        assert [d.address for d in findings] == ["nexus_kubernetes_cluster.a"]
        assert (
            "cluster-a (5,712 GiB in all) is created before cluster-b (14,000 GiB)"
            in findings[0].detail
        )

    def test_gain_of_better_order_is_measured(self) -> None:
        findings = select_by_rule("small-before-large", run_rules(build_plan_facts(SITE, DOCUMENT)))
        assert [d.address[-1] for d in findings] == ["a", "c"]
        gain = re.search(
            r"capacity for (\d+) more NC_P46_224_v1 stays free \((\d+) instead of (\d+)\)",
            findings[0].detail,
        )
        assert gain is not None
        more, then, now = map(int, gain.groups())
        assert then - now == more > 0

    def test_cost_of_zone_pin_of_cluster_d_is_measured(self) -> None:
        findings = run_rules(
            build_plan_facts(SITE, UP_TO["d"], stood=["cluster-a", "cluster-b", "cluster-c"])
        )
        assert [(d.id, d.address) for d in findings] == [
            ("zones-pinned", "nexus_kubernetes_cluster.d")
        ]
        assert findings[0].severity is Severity.WARNING
        assert "So 6 machines will run two VMs of cluster-d." in findings[0].detail
        assert "Without the pin all 53 VMs fit on 53 machines." in findings[0].detail

    def test_zone_pin_without_cost_is_reported_as_free(self) -> None:
        (finding,) = select_by_rule("zones-pinned", run_rules(build_plan_facts(SITE, UP_TO["c"])))
        assert "costs nothing in this plan" in finding.detail
        assert finding.brief == "cluster-c/pool1: limited to 2 zones, at no cost now"

    def test_costless_findings_are_omitted_from_plan(self) -> None:
        assert {d.id for d in run_rules(build_plan_facts(SITE, UP_TO["c"]))} == {
            "zones-pinned",
            "small-before-large",
        }
        assert run_rules(build_plan_facts(SITE, UP_TO["c"], costless=False)) == []
        told = run_rules(build_plan_facts(SITE, DOCUMENT, costless=False))
        assert [(d.id, d.address[-1]) for d in told] == [
            ("zones-pinned", "d"),
            ("small-before-large", "a"),
            ("small-before-large", "c"),
            ("no-surge-capacity", "d"),
        ]
        gain = (
            "large pools first would share 6 fewer machines and leave 54 NC_P46_224_v1 free "
            "instead of 46"
        )
        assert [d.brief for d in told] == [
            "cluster-d/pool1: limited to 2 zones, so 6 machines run two VMs of cluster-d",
            f"cluster-a: {gain}",
            f"cluster-c: {gain}",
            "cluster-d/pool1: an upgrade would fail, no NC_P46_224_v1 fits in the zones 7 and 8",
        ]

    def test_existing_clusters_get_no_order_or_pin_findings(self) -> None:
        stood = ["cluster-a", "cluster-b", "cluster-c", "cluster-d"]
        assert {d.id for d in run_rules(build_plan_facts(SITE, DOCUMENT, stood))} <= {
            "no-surge-capacity",
            "shared-machine",
        }
        assert run_rules(build_plan_facts(SITE, DOCUMENT, [*stood, "cluster-e"])) == []

    def test_cluster_e_leaves_no_surge_capacity_for_cluster_d(self) -> None:
        findings = select_by_rule("no-surge-capacity", run_rules(build_plan_facts(SITE, DOCUMENT)))
        assert [d.address[-1] for d in findings] == ["d"]
        assert "no more fits in the zones 7 and 8" in findings[0].detail


class TestZonesPinned:
    def test_two_or_three_vms_on_nonadjacent_racks_are_accepted(self) -> None:
        site = build_machines(8, 2)
        apart = build_pool("cluster-a", "np", "NC_G6_28_v1", 3, ["1", "3", "5"])
        assert run_rules(build_plan_facts(site, [apart])) == []
        beside = build_pool("cluster-a", "np", "NC_G6_28_v1", 3, ["1", "2", "5"])
        assert len(select_by_rule("zones-pinned", run_rules(build_plan_facts(site, [beside])))) == 1
        four = build_pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1", "3", "5", "7"])
        assert len(select_by_rule("zones-pinned", run_rules(build_plan_facts(site, [four])))) == 1
        one_rack = build_pool("cluster-a", "np", "NC_G6_28_v1", 2, ["1"])
        assert (
            len(select_by_rule("zones-pinned", run_rules(build_plan_facts(site, [one_rack])))) == 1
        )

    def test_subject_is_the_zones_argument(self) -> None:
        argument = Span("main.nf.hcl", Position(9, 5, 99), Position(9, 20, 114))
        pinned = replace(
            build_pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1"]), zones_span=argument
        )
        (finding,) = select_by_rule(
            "zones-pinned", run_rules(build_literal_facts(build_machines(2, 4), [pinned]))
        )
        assert finding.subject == argument

    @pytest.mark.parametrize(("zones", "count"), [(["1", "2"], 0), (["1"], 1)])
    def test_zones_of_all_racks_are_no_pin(self, zones: list[str], count: int) -> None:
        pinned = build_pool("cluster-a", "np", "NC_G6_28_v1", 4, zones)
        for facts in (
            build_literal_facts(build_machines(2, 4), [pinned]),
            build_plan_facts(build_machines(2, 4), [pinned]),
        ):
            assert len(select_by_rule("zones-pinned", run_rules(facts))) == count

    def test_zones_without_known_racks(self) -> None:
        pinned = build_pool("cluster-a", "np", "NC_G6_28_v1", 9, ["x", "y"])
        (finding,) = run_rules(LintInput((pinned,)))
        assert "pinned to the zones x and y" in finding.detail


class TestZonesTooSmall:
    def test_fewer_machines_than_vms(self) -> None:
        tight = build_pool("cluster-a", "np", "NC_G6_28_v1", 5, ["1"])
        (finding,) = select_by_rule(
            "zones-too-small", run_rules(build_plan_facts(build_machines(3, 4), [tight]))
        )
        assert "The zones 1 have 4 machines that accept new VMs" in finding.detail
        assert 'availability_zones = ["1", "2"]' in finding.detail
        assert "none does" in finding.detail

    def test_no_finding_if_each_vm_has_a_machine(self) -> None:
        enough = build_pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1"])
        assert not select_by_rule(
            "zones-too-small", run_rules(build_plan_facts(build_machines(3, 4), [enough]))
        )

    def test_no_finding_if_pool_uses_all_zones(self) -> None:
        everywhere = build_pool("cluster-a", "np", "NC_G6_28_v1", 20, ["1", "2", "3"])
        assert not select_by_rule(
            "zones-too-small", run_rules(build_plan_facts(build_machines(3, 4), [everywhere]))
        )


class TestOrderWithinCluster:
    def test_smaller_pool_first(self) -> None:
        pools = [
            build_pool("cluster-a", "control-plane", "NC_G6_28_v1", 3),
            build_pool("cluster-a", "little", "NC_G6_28_v1", 2),
            build_pool("cluster-a", "large", "NC_P46_224_v1", 4),
        ]
        (finding,) = select_by_rule(
            "small-before-large", run_rules(build_plan_facts(build_machines(2, 4), pools))
        )
        assert (
            "In cluster-a, little (56 GiB in all) is placed before large (896 GiB)"
            in finding.detail
        )

    def test_control_plane_first_is_accepted(self) -> None:
        pools = [
            build_pool("cluster-a", "control-plane", "NC_G6_28_v1", 3),
            build_pool("cluster-a", "large", "NC_P46_224_v1", 4),
        ]
        assert not select_by_rule(
            "small-before-large", run_rules(build_plan_facts(build_machines(2, 4), pools))
        )


class TestSkuMismatch:
    def test_sku_for_other_hardware(self) -> None:
        (finding,) = run_rules(
            build_plan_facts(
                build_machines(2, 4), [build_pool("cluster-a", "np", "NC_G14_56_v1", 4)]
            )
        )
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
    def test_sku_for_site_hardware(self, sku: str, hardware: str) -> None:
        assert not select_by_rule(
            "sku-mismatch",
            run_rules(
                build_plan_facts(
                    build_machines(2, 4, hardware), [build_pool("cluster-a", "np", sku, 2)]
                )
            ),
        )

    def test_validate_reports_sku_without_suitable_machine(self) -> None:
        (finding,) = run_rules(
            build_literal_facts(
                build_machines(2, 4), [build_pool("cluster-a", "np", "NC_G56_224_v1", 2)]
            )
        )
        assert "it needs bom-2.0; they are bom-1.7.3" in finding.detail
        # In a plan this is an error already.
        in_plan = run_rules(
            build_plan_facts(
                build_machines(2, 4), [build_pool("cluster-a", "np", "NC_G56_224_v1", 2)]
            )
        )
        assert not select_by_rule("sku-mismatch", in_plan)

    def test_sku_for_some_of_the_machines(self) -> None:
        mixed = (
            *build_machines(1, 2),
            *(replace(m, rack="rackx", name=f"x{m.name}") for m in build_machines(1, 2, "bom-2.0")),
        )
        findings = select_by_rule(
            "sku-mismatch",
            run_rules(build_plan_facts(mixed, [build_pool("cluster-a", "np", "NC_G56_224_v1", 2)])),
        )
        assert "2 machines of 4" in findings[0].detail


class TestSharedMachine:
    def test_more_vms_than_machines(self) -> None:
        (finding,) = select_by_rule(
            "shared-machine",
            run_rules(
                build_plan_facts(
                    build_machines(1, 2), [build_pool("cluster-a", "np", "NC_G6_28_v1", 3)]
                )
            ),
        )
        assert "1 machine runs two or more VMs of cluster-a" in finding.detail
        assert "2 machines that accept VMs, but cluster-a has 3 VMs" in finding.detail

    def test_no_finding_if_a_zone_pin_is_the_reason(self) -> None:
        pinned = build_pool("cluster-a", "np", "NC_G6_28_v1", 4, ["1"])
        findings = run_rules(build_plan_facts(build_machines(2, 2), [pinned]))
        assert not select_by_rule("shared-machine", findings)
        assert len(select_by_rule("zones-pinned", findings)) == 1


def build_pool_demand(name: str, max_surge: str, count: int) -> PoolDemand:
    """Return the demand of a pool as configured."""
    names = tuple(map(str, range(count)))
    return PoolDemand(name, tuple(range(count)), names, SKUS["NC_P46_224_v1"], max_surge=max_surge)


class TestSurge:
    @pytest.mark.parametrize(
        ("text", "count", "needed"),
        [
            ("1", 5, 1),
            ("33%", 10, 4),
            ("100%", 3, 3),
            ("9", 3, 3),
            ("0", 5, 0),
            ("0%", 5, 0),
            ("odd", 5, 0),
        ],
    )
    def test_surge_size_follows_max_surge(self, text: str, count: int, needed: int) -> None:
        assert build_pool_demand("np", text, count).surge_size == needed

    # Two machines have four cells.
    @pytest.mark.parametrize(("more", "count"), [(0, 0), (1, 1), (2, 0)])
    def test_surge_is_checked_over_all_pools_of_an_upgrade(self, more: int, count: int) -> None:
        pools = [
            build_pool("cluster-a", "p", "NC_P46_224_v1", 1),
            build_pool("cluster-a", "q", "NC_P46_224_v1", 1 + more),
            # Another cluster has an upgrade of its own.
            build_pool("cluster-b", "r", "NC_G2_8_v1", 1),
        ]
        findings = run_rules(build_plan_facts(build_machines(1, 2), pools[: 2 if more < 2 else 3]))
        joint = select_by_rule("no-joint-surge-capacity", findings)
        assert len(joint) == count
        if joint:
            assert joint[0].brief == (
                "cluster-a: an upgrade of p and q fits one after another; together 2 needed, 1 free"
            )
        # Without capacity for one pool alone, there is a finding of that pool.
        alone = select_by_rule("no-surge-capacity", findings)
        assert bool(alone) is (more == 2)

    def test_control_plane_surge_size_is_one(self) -> None:
        assert build_pool_demand("control-plane", "3", 5).surge_size == 1

    def test_full_site_has_no_surge_capacity(self) -> None:
        full = build_pool("cluster-a", "np", "NC_P46_224_v1", 8)
        (finding,) = select_by_rule(
            "no-surge-capacity", run_rules(build_plan_facts(build_machines(2, 2), [full]))
        )
        assert 'max_surge = "0"' in finding.detail
        easy = replace(full, surge=0)
        assert not select_by_rule(
            "no-surge-capacity", run_rules(build_plan_facts(build_machines(2, 2), [easy]))
        )


def check_smaller_counts(facts: LintInput) -> list[Diagnostic]:
    """Rule with a trial about counts: each pool without its last VM."""
    edits = [
        ArgumentAdjustment(parse_address(pool.address), (*pool.path, "count"), pool.count - 1)
        for pool in facts.pools
    ]
    usage = facts.plan_trial(edits) if facts.plan_trial is not None else None
    detail = "does not fit" if usage is None else str(sum(usage["lab"].vms.values()))
    return [build_finding("smaller-counts", detail, facts.pools[0], summary="a: b")]


class TestTrialsAboutCounts:
    @pytest.fixture(autouse=True)
    def add_rule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Add a rule with such a trial to those of the product."""
        rule = LintRule("smaller-counts", check_smaller_counts, literal=False, help="")
        monkeypatch.setattr(registry, "RULES", (*RULES, rule))

    @pytest.mark.parametrize("stood", [(), ("cluster-a",)])
    def test_trial_has_fewer_vms(self, stood: Sequence[str]) -> None:
        pools = [
            build_pool("cluster-a", "p", "NC_P46_224_v1", 3),
            build_pool("cluster-a", "q", "NC_P46_224_v1", 2),
        ]
        findings = run_rules(build_plan_facts(build_machines(1, 3), pools, stood))
        assert [d.detail for d in select_by_rule("smaller-counts", findings)] == ["3"]

    def test_higher_count_adds_new_vms(self) -> None:
        machines = build_machines(1, 2)
        for count, fits in ((4, True), (5, False)):
            pool = build_pool("cluster-a", "p", "NC_P46_224_v1", 3)
            facts = build_plan_facts(machines, [pool], ["cluster-a"])
            assert facts.plan_trial is not None
            address = parse_address(pool.address)
            edit = ArgumentAdjustment(address, ("agent_pool", "p", "count"), count)
            usage = facts.plan_trial([edit])
            assert (usage is not None) is fits
            assert usage is None or usage["lab"].vms == {"lab/cluster-a": 4}

    def test_such_a_rule_changes_no_other_findings(self) -> None:
        TestSurge().test_full_site_has_no_surge_capacity()


class TestSilencedRules:
    def test_rule_is_silenced_globally_and_per_pool(self) -> None:
        facts = build_plan_facts(SITE, UP_TO["d"], stood=["cluster-a", "cluster-b", "cluster-c"])
        assert run_rules(facts, ["zones-pinned"]) == []
        for cluster, count in (("d", 0), ("c", 1)):
            address = f"nexus_kubernetes_cluster.{cluster}"
            silenced = [
                replace(
                    p, ignored_rules=frozenset({"zones-pinned"} if p.address == address else ())
                )
                for p in facts.pools
            ]
            assert len(run_rules(replace(facts, pools=tuple(silenced)))) == count

    def test_validate_reports_the_rules_about_literals_only(self) -> None:
        literal_rules = [rule.id for rule in RULES if rule.literal]
        assert literal_rules == list(RULE_IDS[: len(literal_rules)])
        full = build_pool("cluster-a", "np", "NC_P46_224_v1", 8)
        facts = build_plan_facts(build_machines(2, 2), [full])
        assert {d.id for d in run_rules(facts)} == {"shared-machine", "no-surge-capacity"}
        assert run_rules(facts, literal_only=True) == []

    def test_summaries_are_constant_per_rule(self) -> None:
        findings = run_rules(build_plan_facts(SITE, DOCUMENT))
        by_rule = {(d.id, d.summary) for d in findings}
        assert len(by_rule) == len({d.id for d in findings})
        assert all(d.summary.startswith(f"{d.id}: ") for d in findings)
        assert all(d.subject is not None for d in findings)


class _MaximumPerRack(PlacementConstraints, frozen=True):
    """Constraints with a custom argument: the maximum number of VMs of a pool per rack."""

    most_on_rack: int = 0


def test_free_slots_respect_constraints_of_all_pools_of_the_sku(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def limit_vms_per_rack(usage: Usage, demand: Demand) -> RejectionCheck | None:
        most = getattr(demand.constraints, "most_on_rack", 0)
        return (lambda rack: "full" if usage.pool.racks[rack] >= most else None) if most else None

    rule = CountFilter(
        name="at_most",
        item=RankedItemKind.RACK,
        build_check=limit_vms_per_rack,
        describe_shortage=lambda _: "full",
        is_monotonic=True,
    )
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))
    limited = replace(
        build_pool("cluster-a", "pool1", "NC_P46_224_v1", 2),
        constraints=_MaximumPerRack(most_on_rack=3),
    )
    usage = measure_usage(RackScheduler(build_machines(2, 4)), [limited])
    assert usage is not None
    assert usage.free_largest == 6
