from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nexusform.doubts.doubt import CONSEQUENCES
from nexusform.plans.plan import Plan
from nexusform.plans.site_capacity.occupancy import (
    add_unread_facts,
    list_changed_racks,
    select_without_new_sharing,
)
from nexusform.rendering.report.finding_entries import build_finding_entries
from nexusform.scheduling.site_inventory import PlanInventory
from tests.rendering.real_plans import plan_evacuation


@pytest.fixture(scope="module")
def evacuation_plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return a plan for an evacuated rack of the Nexus document."""
    directory: Path = tmp_path_factory.mktemp("evacuated")
    return plan_evacuation(directory).saved.plan


def test_racks_with_added_or_removed_vms_are_counted(evacuation_plan: Plan) -> None:
    (rack,) = list_changed_racks(evacuation_plan.site_records.sites)
    assert (rack.name, rack.removed_count, len(rack.machines)) == ("rack3", 3, 16)
    assert sum(machine.before or 0 for machine in rack.machines) == sum(
        machine.after or 0 for machine in rack.machines
    )
    assert [(m.before, m.after) for m in rack.machines if m.is_closed] == [(1, 0), (2, 0)]


def test_pre_existing_shared_machine_is_not_caused_by_the_plan(evacuation_plan: Plan) -> None:
    assert "nexus_kubernetes_cluster.d[0]" in select_without_new_sharing(
        evacuation_plan.site_records.sites
    )
    assert {entry.id for entry in build_finding_entries(evacuation_plan).existing} == {
        "no-surge-capacity",
        "shared-machine",
    }


def test_new_shared_machine_is_caused_by_the_plan(evacuation_plan: Plan) -> None:
    (site,) = evacuation_plan.site_records.sites
    pools = [
        msgspec.structs.replace(pool, unchanged=(), added=(*pool.unchanged, *pool.added))
        for pool in site.pools
    ]
    anew = msgspec.structs.replace(site, pools=tuple(pools))
    assert "nexus_kubernetes_cluster.d[0]" not in select_without_new_sharing([anew])


def test_unread_fact_with_an_unknown_influence_may_have_any() -> None:
    # Of a later version, or edited.
    inventory = PlanInventory()
    note = {"unread": [["server", "a", "f", "file", 3.0, "later", ""]]}
    add_unread_facts(inventory, {"id": "lab"}, note)
    facts = inventory.unread["lab"]
    assert [fact.may_change for fact in facts] == list(CONSEQUENCES)
    assert {(fact.subject, fact.line) for fact in facts} == {("server a", 3)}
