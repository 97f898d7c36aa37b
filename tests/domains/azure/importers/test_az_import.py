"""Tests of imported objects: owners of cordons, slots of machines, and placement hints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.domains.azure.importers.az_import import (
    build_imported_sites,
    build_machine_observation,
)
from nexusform.domains.azure.importers.az_records import (
    AzCluster,
    AzHint,
    AzInventory,
    AzMachine,
    AzNode,
    AzRack,
    AzSite,
    AzVirtualMachine,
    AzVmLocation,
    AzVmSize,
)

pytestmark = pytest.mark.of_domains("azure")
FACTS = {
    "power_state": "On",
    "ready_state": "True",
    "detailed_status": "Provisioned",
    "cordon_status": "Cordoned",
}
OURS = {"cordon_status": "Cordoned", "cordoned_by": "nexusform"}


@pytest.mark.parametrize(
    ("before", "is_requested", "message", "owner"),
    [
        pytest.param({}, True, "", "nexusform", id="requested, and not recorded yet"),
        pytest.param(
            {}, True, "degraded", "nexusform", id="requested before Azure degrades the machine"
        ),
        pytest.param({}, False, "Machine is Degraded", "azure", id="degraded"),
        pytest.param({}, False, None, "other", id="unknown"),
        pytest.param(OURS, False, "degraded", "nexusform", id="recorded"),
        pytest.param(
            {**OURS, "cordon_status": "Unknown"}, False, None, "nexusform", id="unknown in between"
        ),
        pytest.param(
            {**OURS, "cordon_status": "Uncordoned"},
            False,
            None,
            "other",
            id="cordoned again by others",
        ),
    ],
)
def test_cordon_has_an_owner(
    before: Mapping[str, Any], is_requested: bool, message: str | None, owner: str
) -> None:
    machine = AzMachine("m1", "/m1", "r1", 1, None, None, None, FACTS, status_message=message)
    observation = build_machine_observation(
        machine, before, "2026-11-23T00:00:00Z", is_requested=is_requested
    )
    assert observation["cordoned_by"] == owner


def test_uncordoned_machine_has_no_owner() -> None:
    facts = {**FACTS, "cordon_status": "Uncordoned"}
    machine = AzMachine("m1", "/m1", "r1", 1, None, None, None, facts)
    assert build_machine_observation(machine, OURS, None, is_requested=True)["cordoned_by"] is None


RACK = AzRack("r1", "/r1", "1", None, None)


def test_machine_without_a_slot_takes_no_slot_of_another() -> None:
    facts = {**FACTS, "roles": ["compute-plane"]}
    machines = tuple(
        AzMachine(name, f"/{name}", "r1", slot, None, None, None, facts)
        for name, slot in (("free", 0), ("first", 1), ("same", 1), ("third", 3))
    )
    [site] = build_imported_sites([AzSite("lab", AzInventory(racks=(RACK,), machines=machines))])
    slots = {
        item.attributes["name"]: item.attributes["slot"]
        for item in site.objects
        if "slot" in item.attributes
    }
    assert slots == {"first": 1, "same": 2, "third": 3, "free": 4}


def test_hint_refers_to_its_target_on_the_site() -> None:
    hints = tuple(AzHint("Affinity", f"/x/racks/{rack}", "Hard", "Rack") for rack in ("r9", "r1"))
    vm = AzVirtualMachine("v1", "/v1", AzVmSize(2, 4, 10, 1), None, hints)
    [site] = build_imported_sites(
        [AzSite("lab", AzInventory(racks=(RACK,), virtual_machines=(vm,)))]
    )
    imported = site.objects[-1]
    assert [hint["resource_id"] for hint in imported.attributes["placement_hint"]] == ["lab/r1"]
    assert imported.references["placement_hint", 0, "resource_id"] == ("nexus_rack", "lab/r1")
    (finding,) = site.findings
    assert finding.id == "hint-not-imported"
    assert 'the VM "v1" has a placement hint on "r9", not on this site' in finding.detail


def test_nodes_of_a_cluster_that_is_not_imported_are_counted() -> None:
    size = AzVmSize(2, 4, 10, 1)
    location = AzVmLocation("m1", "r1", "1")
    nodes = tuple(
        AzNode(name, "k", "p", "Worker", "", size, where)
        for name, where in (("n1", location), ("n2", None), ("n3", None))
    )
    duplicates = (
        AzNode(
            "n1", "k", "p", "Worker", "", size, AzVmLocation("m2", "r1", "1"), is_duplicate=True
        ),
    )
    cluster = AzCluster("k", "/k", None, 1, None, (), (), nodes, duplicate_nodes=duplicates)
    [site] = build_imported_sites([AzSite("lab", AzInventory(racks=(RACK,), clusters=(cluster,)))])
    assert [finding.id for finding in site.findings] == ["not-imported"]
    assert (site.imported, site.unplaced, site.occupied) == (0, 2, 2)
