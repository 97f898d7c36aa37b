"""With act_on_machines an evacuation is carried out whole: cordoned first, uncordoned when it is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import HOSTED, ArmServer, Faults
from tests.domains.azure.providers.azure_sites import PROVIDER_BLOCK, Told

MACHINE = 'resource "nexus_bare_metal_machine" "m1" {\n  STATES\n}\n'
CORDON = [("POST", "m1/cordon")]


@pytest.fixture
def acting(nexusform: Told) -> Told:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    return nexusform


def states(text: str) -> None:
    Path("machines_override.nf.hcl").write_text(MACHINE.replace("STATES", text))


def cordon_status(server: ArmServer, machine: str = "m1") -> str:
    return str(server.site.properties(f"{HOSTED}/bareMetalMachines/{machine}")["cordonStatus"])


def on_machine(told: Told, machine: str = "m1") -> list[str]:
    return [node["name"] for node in told.nodes() if node["bareMetalMachineId"].endswith(f"/{machine}")]


def test_a_machine_is_cordoned_and_uncordoned_by_its_block(acting: Told, server: ArmServer) -> None:
    states("cordoned = true")
    assert acting("plan") == 0
    assert "apply cordons these machines: m1." in acting.said, acting.said
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == CORDON
    assert server.site.bodies == [{"evacuate": "False"}]  # nothing on it is stopped
    assert acting("plan", "-detailed-exitcode") == 0, acting.said
    states("cordoned = false")
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [*CORDON, ("POST", "m1/uncordon")]
    assert acting("plan", "-detailed-exitcode") == 0, acting.said


def test_an_evacuation_is_carried_out_whole(acting: Told, server: ArmServer) -> None:
    going = on_machine(acting)
    assert going
    server.site.place = lambda _pool, _number: "m6"
    states("evacuate = true")
    assert acting("apply", "-auto-approve") == 1, acting.said
    assert acting.changes() == CORDON
    assert cordon_status(server) == "Cordoned"
    for _ in list(going):  # a person does what was printed, pool by pool
        (name,) = [each for each in going if f" delete node {each}" in acting.said]
        going.remove(name)
        server.site.delete_node(name)
        assert acting("apply", "-resume") == int(bool(going)), acting.said
    assert acting.changes() == CORDON, "the cordon stays, and is not sent again"
    assert on_machine(acting) == []
    assert acting("plan", "-detailed-exitcode") == 0, acting.said  # cordoned for its evacuation is no drift
    assert cordon_status(server) == "Cordoned"
    states("evacuate = false")
    assert acting("plan") == 0
    assert "apply uncordons these machines: m1." in acting.said
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [*CORDON, ("POST", "m1/uncordon")]
    assert cordon_status(server) == "Uncordoned"
    assert acting("plan", "-detailed-exitcode") == 0, acting.said


def test_nodes_leave_only_once_their_machine_is_cordoned(acting: Told, server: ArmServer) -> None:
    server.site.faults = Faults(fails=1)
    states("evacuate = true")
    assert acting("apply", "-auto-approve") == 1
    assert "Azure could not cordon m1 (Failed): InsufficientResources: no machine has room." in acting.said
    assert "kubectl" not in acting.said.partition("Plan:")[2].partition("Error")[2], acting.said
    assert cordon_status(server) == "Uncordoned"
    assert acting("plan", "-detailed-exitcode") == 2, "it is still due"
    assert "apply cordons these machines before their VMs move" in acting.said


def test_a_cordon_that_was_begun_is_followed_after_a_cut(acting: Told, server: ArmServer) -> None:
    states("cordoned = true")
    server.site.faults = Faults(resets=1, polls=2, conflicts=1)
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == CORDON


def test_what_somebody_else_cordoned_is_left_alone(acting: Told, server: ArmServer) -> None:
    server.site.resources[f"{HOSTED}/bareMetalMachines/m2".lower()]["properties"]["cordonStatus"] = "Cordoned"
    states("cordoned = true")
    assert acting("apply", "-auto-approve", "-target=nexus_bare_metal_machine.m1") == 0, acting.said
    assert acting.changes() == CORDON
    assert cordon_status(server, "m2") == "Cordoned"


def test_a_machine_that_azure_does_not_show_is_told_by_the_plan(acting: Told) -> None:
    text = Path("site.nf.hcl").read_text()
    Path("more.nf.hcl").write_text(
        'resource "nexus_bare_metal_machine" "new" {\n'
        '  provider      = azure\n  rack_id       = nexus_rack.r1.id\n  name          = "nowhere"\n'
        '  slot          = 40\n  machine_sku   = "bom-1.7.3"\n  cordoned = true\n}\n'
    )
    assert 'resource "nexus_rack" "r1"' in text
    assert acting("plan") == 1, acting.said
    assert "Azure shows no machine nowhere in rack r1" in acting.said
    assert "more.nf.hcl" in acting.said


def test_without_the_setting_nothing_is_sent_to_machines(nexusform: Told, server: ArmServer) -> None:
    states("evacuate = true")
    assert nexusform("apply", "-auto-approve") == 1
    assert server.site.taken == []
    assert json.dumps(server.site.bodies) == "[]"
