from __future__ import annotations

from nexusform.rendering.pull_request.markdown_places import causes_of_moves
from nexusform.rendering.report.entries import plan_entries
from nexusform.rendering.report.machine_counts import changed_racks, sharing_as_before
from tests.rendering.real_plans import RealPlan


def test_racks_with_a_coming_or_leaving_vm_are_counted(examples: dict[str, RealPlan]) -> None:
    plan = examples["evacuated"].saved.plan
    (rack,) = changed_racks(plan)
    assert (rack.name, rack.leaving, len(rack.machines)) == ("rack3", 3, 16)
    assert sum(machine.before or 0 for machine in rack.machines) == sum(
        machine.after or 0 for machine in rack.machines
    )
    assert [(m.before, m.after) for m in rack.machines if m.closed] == [(1, 0), (2, 0)]


def test_what_shared_a_machine_before_is_not_caused_by_the_plan(examples: dict[str, RealPlan]) -> None:
    plan = examples["evacuated"].saved.plan
    assert "nexus_kubernetes_cluster.d[0]" in sharing_as_before(plan)
    assert {entry.id for entry in plan_entries(plan).standing} == {"no-surge-room", "shared-machine"}
    assert "nexus_kubernetes_cluster.d[0]" not in sharing_as_before(examples["nexus-document"].saved.plan)


def test_moves_are_caused_by_the_rack_that_changes(examples: dict[str, RealPlan]) -> None:
    causes = causes_of_moves(examples["evacuated"].saved.plan)
    assert [str(change.address) for change in causes] == ['nexus_rack.rack["3"]']
