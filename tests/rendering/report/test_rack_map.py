from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from nexusform.rendering.report.rack_map import (
    OUTSIDE,
    ChangeMark,
    build_rack_maps,
    build_short_names,
)
from tests.rendering.real_plans import RealPlan


def test_rack_map_of_the_document_site(examples: Mapping[str, RealPlan]) -> None:
    (site,) = build_rack_maps(examples["nexus-document"].saved.plan)
    assert [rack.name for rack in site.racks] == [f"rack{n}" for n in range(1, 9)]
    assert site.machine_count == 128
    assert site.clusters == ("cluster-a", "cluster-b", "cluster-c", "cluster-d")
    assert Counter(vm.mark for vm in site.vms) == {ChangeMark.KEPT: 125, ChangeMark.PLACED: 53}
    assert {vm.cluster for vm in site.vms if vm.mark is ChangeMark.PLACED} == {"cluster-d"}
    assert sum(len(m.before) for rack in site.racks for m in rack.machines) == 125
    assert sum(len(m.after) for rack in site.racks for m in rack.machines) == 178


def test_machines_list_their_vms(examples: Mapping[str, RealPlan]) -> None:
    for real in examples.values():
        for site in build_rack_maps(real.saved.plan):
            for machine in (m for rack in site.racks for m in rack.machines):
                for number in machine.after:
                    place = site.vms[number].after
                    assert place is not None
                    assert place.machine == machine.facts.name


def test_moves_and_removals_are_shown_at_their_machines(examples: Mapping[str, RealPlan]) -> None:
    (site,) = build_rack_maps(examples["repaired"].saved.plan)
    by_mark = {vm.mark: vm for vm in site.vms}
    moved = by_mark[ChangeMark.MOVED]
    choice = [vm for vm in site.vms if vm.mark is ChangeMark.CHOICE]
    assert moved.before is not None
    assert moved.after is not None
    assert (moved.before.machine, moved.trigger) == ("r1-bm01", "machine_evacuated")
    assert moved.after.machine != "r1-bm01"
    # Azure picks the VM to remove, so no VM is missing after the plan.
    assert len(choice) == 8
    assert all(vm.after == vm.before for vm in choice)
    assert ChangeMark.REMOVED not in by_mark
    evacuated = next(m for rack in site.racks for m in rack.machines if m.facts.name == "r1-bm01")
    assert evacuated.facts.unschedulable_reason
    assert len(evacuated.before) == 1
    assert not evacuated.after


@pytest.mark.of_domains("azure")
def test_unmanaged_vms_are_shown(examples: Mapping[str, RealPlan]) -> None:
    (site,) = build_rack_maps(examples["inventory"].saved.plan)
    outside = [vm for vm in site.vms if vm.cluster == OUTSIDE]
    assert len(outside) == 9
    assert site.clusters[-1] == OUTSIDE
    assert all(vm.mark is ChangeMark.KEPT and vm.sku.memory_gib for vm in outside)


def test_short_names_of_clusters_are_distinct() -> None:
    assert build_short_names(["cluster-a", "cluster-b"]) == {"cluster-a": "a", "cluster-b": "b"}
    assert build_short_names(["ran-10", "ran-11"]) == {"ran-10": "10", "ran-11": "11"}
    assert build_short_names(["core"]) == {"core": "core"}
    assert build_short_names(["frankfurt", "amsterdam"]) == {"frankfurt": "1", "amsterdam": "2"}
    assert build_short_names(["edge", "edge-2", OUTSIDE])[OUTSIDE] == "\N{MIDDLE DOT}"
    assert build_short_names([]) == {}
    many = build_short_names([f"a-{n}" for n in range(50)] + ["a-"])
    assert len(set(many.values())) == 51
