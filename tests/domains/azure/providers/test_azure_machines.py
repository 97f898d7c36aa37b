"""Tests of act_on_machines: an evacuation cordons a machine first, and uncordons it at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import HOSTED, ArmServer, Faults
from tests.domains.azure.providers.azure_sites import PROVIDER_BLOCK, CommandRunner

MACHINE = 'resource "nexus_bare_metal_machine" "m1" {\n  STATES\n}\n'
CORDON = [("POST", "m1/cordon")]


@pytest.fixture
def acting(nexusform: CommandRunner) -> CommandRunner:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    return nexusform


def write_machine_states(text: str) -> None:
    Path("machines_override.nf.hcl").write_text(MACHINE.replace("STATES", text))


def read_cordon_status(server: ArmServer, machine: str = "m1") -> str:
    return str(server.site.properties(f"{HOSTED}/bareMetalMachines/{machine}")["cordonStatus"])


def list_nodes_on_machine(told: CommandRunner, machine: str = "m1") -> list[str]:
    return [
        node["name"] for node in told.nodes() if node["bareMetalMachineId"].endswith(f"/{machine}")
    ]


def test_machine_block_cordons_and_uncordons_machine(
    acting: CommandRunner, server: ArmServer
) -> None:
    write_machine_states("cordoned = true")
    assert acting("plan") == 0
    assert "apply cordons these machines: m1." in acting.said, acting.said
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == CORDON
    # No VM on it is stopped.
    assert server.site.bodies == [{"evacuate": "False"}]
    assert acting("plan", "-detailed-exitcode") == 0, acting.said
    write_machine_states("cordoned = false")
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [*CORDON, ("POST", "m1/uncordon")]
    assert '"Cordoned"' not in Path("state/nexusform.nfstate").read_text()
    assert acting("plan", "-detailed-exitcode") == 0, acting.said


def test_evacuation_is_applied_completely(acting: CommandRunner, server: ArmServer) -> None:
    going = list_nodes_on_machine(acting)
    assert going
    server.site.place = lambda _pool, _number: "m6"
    write_machine_states("evacuate = true")
    assert acting("apply", "-auto-approve") == 1, acting.said
    assert acting.changes() == CORDON
    assert read_cordon_status(server) == "Cordoned"
    # An operator runs the printed commands, pool by pool.
    for _ in list(going):
        (name,) = [each for each in going if f" delete node {each}" in acting.said]
        going.remove(name)
        server.site.delete_node(name)
        assert acting("apply", "-resume") == int(bool(going)), acting.said
    assert acting.changes() == CORDON, "the cordon stays, and is not sent again"
    assert list_nodes_on_machine(acting) == []
    # A cordon set by an evacuation is no drift.
    assert acting("plan", "-detailed-exitcode") == 0, acting.said
    assert read_cordon_status(server) == "Cordoned"
    write_machine_states("evacuate = false")
    assert acting("plan") == 0
    assert "apply uncordons these machines: m1." in acting.said
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [*CORDON, ("POST", "m1/uncordon")]
    assert read_cordon_status(server) == "Uncordoned"
    assert acting("plan", "-detailed-exitcode") == 0, acting.said


def test_nodes_are_deleted_only_after_cordon(acting: CommandRunner, server: ArmServer) -> None:
    server.site.faults = Faults(fails=1)
    write_machine_states("evacuate = true")
    assert acting("apply", "-auto-approve") == 1
    assert (
        "Azure could not cordon m1 (Failed): InsufficientResources: no machine has room."
        in acting.said
    )
    assert "kubectl" not in acting.said.partition("Plan:")[2].partition("Error")[2], acting.said
    assert read_cordon_status(server) == "Uncordoned"
    assert acting("plan", "-detailed-exitcode") == 2, "it is still due"
    assert "apply cordons these machines before their VMs move" in acting.said


def test_interrupted_cordon_is_polled_to_its_end(acting: CommandRunner, server: ArmServer) -> None:
    write_machine_states("cordoned = true")
    server.site.faults = Faults(resets=1, polls=2, conflicts=1)
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == CORDON


def test_cordon_by_another_user_is_kept(acting: CommandRunner, server: ArmServer) -> None:
    server.site.resources[f"{HOSTED}/bareMetalMachines/m2".lower()]["properties"][
        "cordonStatus"
    ] = "Cordoned"
    write_machine_states("cordoned = true")
    assert acting("apply", "-auto-approve", "-target=nexus_bare_metal_machine.m1") == 0, acting.said
    assert acting.changes() == CORDON
    assert read_cordon_status(server, "m2") == "Cordoned"


def test_plan_reports_machine_missing_in_azure(acting: CommandRunner) -> None:
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


def test_no_machine_requests_without_act_on_machines(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_machine_states("evacuate = true")
    assert nexusform("apply", "-auto-approve") == 1
    assert server.site.taken == []
    assert json.dumps(server.site.bodies) == "[]"
