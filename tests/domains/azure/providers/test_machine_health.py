"""Tests of machines that fail without a change: they are observed facts, not changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import HOSTED, ArmServer
from tests.domains.azure.providers.azure_sites import (
    PROVIDER_BLOCK,
    SCALED,
    CommandRunner,
    write_configuration,
)

OFF = {"powerState": "Off", "readyState": "False", "detailedStatusMessage": "BMC unreachable"}
NOT_READY = {"readyState": "False"}
DEGRADED = {"cordonStatus": "Cordoned", "detailedStatusMessage": "Degraded: port down"}
CORDONED = {"cordonStatus": "Cordoned"}
HEALTHY = {
    "powerState": "On",
    "readyState": "True",
    "cordonStatus": "Uncordoned",
    "detailedStatusMessage": "The OS is provisioned to the machine",
}
BLOCK = 'resource "nexus_bare_metal_machine" "m3" {\n  ARGUMENTS\n}\n'


def set_machine_properties(server: ArmServer, machine: str, properties: dict[str, str]) -> None:
    server.site.resources[f"{HOSTED}/bareMetalMachines/{machine}".lower()]["properties"].update(
        properties
    )


def read_plan_document(nexusform: CommandRunner) -> dict[str, Any]:
    assert nexusform("plan", "-out=p.nfplan") == 0, nexusform.said
    assert nexusform("show", "-json", "p.nfplan") == 0
    plan: dict[str, Any] = json.loads(nexusform.text)
    return plan


@pytest.mark.parametrize(
    ("facts", "cordoned_by"),
    [(OFF, None), (NOT_READY, None), (DEGRADED, "azure"), (CORDONED, "other")],
    ids=["off", "not-ready", "degraded", "cordoned"],
)
def test_broken_machine_is_reported_without_changes(
    facts: dict[str, str],
    cordoned_by: str | None,
    nexusform: CommandRunner,
    server: ArmServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_machine_properties(server, "m3", facts)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert "No changes." in nexusform.said
    assert "Out of service: 1 of 6 machines (" in nexusform.said
    (row,) = read_plan_document(nexusform)["out_of_service"]
    assert (row["site"], row["machine"], row["cordoned_by"]) == ("lab", "m3", cordoned_by)
    assert row["power_state"] == facts.get("powerState", "On")
    assert row["message"] == facts.get("detailedStatusMessage")
    assert row["since"]

    server.site.place = lambda _pool, number: f"m{[1, 2, 4, 5, 6][number % 5]}"
    write_configuration(SCALED)
    changes = [
        row
        for row in read_plan_document(nexusform)["placement_changes"]
        if row["action"] == "place"
    ]
    assert len(changes) == 2
    assert not [row for row in changes if row["to"]["machine"] == "m3"]
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert "No changes." in nexusform.said
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2000000000")
    assert read_plan_document(nexusform)["out_of_service"][0]["since"] < "2030", (
        "the apply recorded it"
    )

    set_machine_properties(server, "m3", HEALTHY)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert "Out of service" not in nexusform.said
    assert read_plan_document(nexusform)["out_of_service"] == []


def test_machine_that_failed_since_the_plan_is_named_before_the_first_write(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    set_machine_properties(server, "m5", OFF)
    write_configuration(SCALED)
    assert nexusform("plan", "-out=p.nfplan") == 0, nexusform.said
    set_machine_properties(server, "m6", OFF)
    nexusform("apply", "p.nfplan")
    said = " ".join(nexusform.said.replace("│", " ").split())
    change = "machine m6 is powered off, not ready (in service in the plan)"
    assert f"Since the plan, the site changed: {change}" in said, said
    assert said.index("machine m6") < said.index("Modifying...")


@pytest.mark.parametrize("field", ["powerState", "readyState", "cordonStatus", "detailedStatus"])
def test_absent_state_of_machine_is_unknown_not_down(
    field: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    del server.site.resources[f"{HOSTED}/bareMetalMachines/m1".lower()]["properties"][field]
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert "Out of service: 1 of 6 machines (1 in an unknown state)." in nexusform.said
    (row,) = read_plan_document(nexusform)["out_of_service"]
    states = [
        row[name] for name in ("power_state", "ready_state", "cordon_status", "detailed_status")
    ]
    assert sorted(states) == sorted(
        {"On", "True", "Uncordoned", "Provisioned", "Unknown"} - {HEALTHY.get(field, "Provisioned")}
    )
    assert nexusform("apply", "-refresh-only", "-auto-approve") == 0, nexusform.said
    assert nexusform("simulate", "failure", "-observed") == 1, nexusform.said
    assert "No machine is observed off or not ready. In an unknown state: m1." in nexusform.said


def test_own_cordon_stays_own_while_its_status_is_unknown(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    override = Path("machines_override.nf.hcl")
    override.write_text(BLOCK.replace("ARGUMENTS", "cordoned = true"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    del server.site.resources[f"{HOSTED}/bareMetalMachines/m3".lower()]["properties"][
        "cordonStatus"
    ]
    # Not cordoned again.
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
    assert nexusform("apply", "-refresh-only", "-auto-approve") == 0, nexusform.said
    set_machine_properties(server, "m3", CORDONED)
    assert nexusform("apply", "-refresh-only", "-auto-approve") == 0, nexusform.said
    override.unlink()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == [("POST", "m3/cordon"), ("POST", "m3/uncordon")]


def test_capacity_excludes_broken_machines(nexusform: CommandRunner, server: ArmServer) -> None:
    for machine in ("m1", "m2", "m3"):
        set_machine_properties(server, machine, OFF)
    set_machine_properties(server, "m4", DEGRADED)
    assert nexusform("plan") == 0
    assert (
        "Out of service: 4 of 6 machines (3 Off: BMC unreachable; 1 cordoned by Azure: "
        "Degraded: port down)."
    ) in nexusform.said, nexusform.said
    assert "Capacity without them: " in nexusform.said
    assert "Azure uncordons a recovered machine after 2 hours." in nexusform.said


def test_observed_facts_are_not_arguments(nexusform: CommandRunner) -> None:
    Path("machines_override.nf.hcl").write_text(
        BLOCK.replace(
            "ARGUMENTS", 'power_state = "Off"\n  ready_state = "True"\n  cordon_status = "Cordoned"'
        )
    )
    assert nexusform("plan") == 1
    assert (
        'Can\'t configure a value for "power_state" under provider azure: it is observed.'
        in nexusform.said
    )
    assert 'Can\'t configure a value for "ready_state" under provider azure' in nexusform.said
    assert "write: cordoned = true" in nexusform.said
    for line in (2, 3, 4):
        assert f"machines_override.nf.hcl line {line}" in nexusform.said


@pytest.mark.parametrize("facts", [DEGRADED, CORDONED], ids=["azure", "colleague"])
def test_cordon_by_others_is_not_removed(
    facts: dict[str, str], nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    set_machine_properties(server, "m3", facts)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == []
    override = Path("machines_override.nf.hcl")
    override.write_text(BLOCK.replace("ARGUMENTS", "cordoned = true"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    override.unlink()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert (
        "leaves these machines cordoned, because nexusform did not cordon them: m3"
        in nexusform.said
    )
    assert ("POST", "m3/uncordon") not in nexusform.changes()
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_own_cordon_is_restored_and_recorded(nexusform: CommandRunner, server: ArmServer) -> None:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    override = Path("machines_override.nf.hcl")
    override.write_text(BLOCK.replace("ARGUMENTS", "cordoned = true"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    (row,) = read_plan_document(nexusform)["out_of_service"]
    assert row["cordoned_by"] == "nexusform"
    # Another operator uncordoned it.
    set_machine_properties(server, "m3", HEALTHY)
    assert nexusform("plan", "-detailed-exitcode") == 2, nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    override.unlink()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == [
        ("POST", "m3/cordon"),
        ("POST", "m3/cordon"),
        ("POST", "m3/uncordon"),
    ]
    # In state, and in Azure.
    assert '"Cordoned"' not in Path("state/nexusform.nfstate").read_text()
    assert read_plan_document(nexusform)["out_of_service"] == []


def test_failure_simulation_starts_from_observed_failures(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    assert nexusform("simulate", "failure", "-observed") == 1
    assert "No machine is observed off or not ready." in nexusform.said
    set_machine_properties(server, "m1", OFF)
    # It is cordoned; its VMs run.
    set_machine_properties(server, "m4", DEGRADED)
    assert nexusform("apply", "-refresh-only", "-auto-approve") == 0, nexusform.said
    nexusform("simulate", "failure", "-observed", "-report=json:-")
    [losses, *_] = json.loads(nexusform.text)["sections"]
    assert losses["title"] == "Loss of 1 machine on lab (m1)"
    nexusform("simulate", "failure", "-observed", "-rack=lab/r2", "-report=json:-")
    [losses, *_] = json.loads(nexusform.text)["sections"]
    assert losses["title"] == "Loss of 4 machines on lab (m1, m4, m5 and m6)"


def test_scale_out_does_not_wait_for_machine_in_repair(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("machines_override.nf.hcl").write_text(BLOCK.replace("ARGUMENTS", "cordoned = true"))
    server.site.place = lambda _pool, number: f"m{[1, 2, 4, 5, 6][number % 5]}"
    write_configuration(SCALED)
    # It is not cordoned yet.
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert "cordon of m3" in nexusform.said
    assert len(nexusform.nodes()) == 7, nexusform.said
