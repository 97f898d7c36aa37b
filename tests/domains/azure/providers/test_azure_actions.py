"""Tests of lifecycle actions of machines with provider azure.

Each is executed once, and its result is recorded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.domains.azure.providers.arm_changes import ArmOperation
from nexusform.domains.azure.providers.azure_actions import find_action_run
from nexusform.scheduling.machine_actions import ACTION_KINDS, MachineActionKind
from tests.domains.azure.providers.arm_server import HOSTED, ArmServer, Faults
from tests.domains.azure.providers.azure_sites import PROVIDER_BLOCK, CommandRunner

ACTION = """resource "nexus_bare_metal_machine_action" "x" {
  provider        = azure
  machine_id      = "lab/r2/m6"
  action          = "ACTION"
  run_id          = "RUN"
  allow_workloads = ALLOW
}
"""
ADDRESS = "nexus_bare_metal_machine_action.x"


@pytest.fixture
def acting(nexusform: CommandRunner) -> CommandRunner:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    return nexusform


def write_action(
    action: str = "Restart", run: str = "1", allow: str = "true", extra: str = ""
) -> None:
    text = ACTION.replace("ACTION", action).replace("RUN", run).replace("ALLOW", allow)
    Path("action.nf.hcl").write_text(text.replace("}\n", f"{extra}}}\n"))


def read_action() -> dict[str, Any]:
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    found = [one for one in state["resources"] if one["type"] == "nexus_bare_metal_machine_action"]
    return dict(found[0]["instances"][0]["attributes"]) if found else {}


BODIES = {
    "Cordon": ("cordon", {"evacuate": "False"}),
    "PowerOff": ("powerOff", {"skipShutdown": "False"}),
    "Restart": ("restart", {}),
    "Reimage": ("reimage", {"safeguardMode": "All"}),
    "Replace": ("replace", {"safeguardMode": "All"}),
}


@pytest.mark.parametrize(
    "faults", [Faults(), Faults(polls=3, conflicts=1, throttles=1), Faults(forgets=True)]
)
@pytest.mark.parametrize("action", BODIES)
def test_action_is_sent_once_and_recorded(
    action: str, faults: Faults, acting: CommandRunner, server: ArmServer
) -> None:
    write_action(action)
    server.site.faults = faults
    assert acting("apply", "-auto-approve") == 0, acting.said
    name, body = BODIES[action]
    assert acting.changes() == [("POST", f"m6/{name}")]
    assert server.site.bodies == [body]
    recorded = read_action()
    assert recorded["result"] == "Succeeded"
    assert recorded["started"] <= recorded["finished"]
    assert acting("plan", "-detailed-exitcode") == 0, acting.said


def test_new_run_id_repeats_the_action(acting: CommandRunner) -> None:
    write_action()
    assert acting("apply", "-auto-approve") == 0, acting.said
    write_action(run="2")
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [("POST", "m6/restart")] * 2


def test_removal_of_block_sends_nothing(acting: CommandRunner) -> None:
    write_action()
    assert acting("apply", "-auto-approve") == 0, acting.said
    Path("action.nf.hcl").unlink()
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [("POST", "m6/restart")]
    assert acting("plan", "-detailed-exitcode") == 0, acting.said


@pytest.mark.parametrize("faults", [Faults(resets=1), Faults(halves=1), Faults(resets=1, polls=4)])
def test_broken_connection_does_not_repeat_the_action(
    faults: Faults, acting: CommandRunner, server: ArmServer
) -> None:
    write_action()
    server.site.faults = faults
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert acting.changes() == [("POST", "m6/restart")]


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "unanswered"])
def test_resumed_apply_awaits_started_action(
    is_answered: bool, acting: CommandRunner, server: ArmServer
) -> None:
    write_action("Reimage")
    server.site.faults = Faults(leaves=True, polls=3, resets=int(not is_answered))
    assert acting("apply", "-auto-approve") == 1, acting.said
    server.site.faults = Faults()
    assert acting("apply", "-resume") == 0, acting.said
    assert acting.changes() == [("POST", "m6/reimage")]
    assert read_action()["result"] == "Succeeded"


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "unanswered"])
def test_action_beyond_its_time_limit_is_resumed(
    is_answered: bool, acting: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure's limit ends the wait, not the action.

    Its machine gets no VM until a resumed apply has read the end.
    """
    limit = {"Restart": MachineActionKind("Restart", 0)}
    monkeypatch.setattr("nexusform.domains.azure.providers.azure_actions.ACTION_KINDS", limit)
    write_action()
    server.site.faults = Faults(polls=9, resets=int(not is_answered))
    assert acting("apply", "-auto-approve") == 1, acting.said
    assert "in progress" in acting.said
    assert "run `nexusform apply -resume`" in acting.said
    assert read_action().get("result") != "Succeeded"
    assert acting("apply", "-resume") == 1, acting.said
    monkeypatch.setattr(
        "nexusform.domains.azure.providers.azure_actions.ACTION_KINDS", ACTION_KINDS
    )
    for operation in server.site.operations.values():
        if not operation.over:
            server.site.end(operation)
    assert acting("apply", "-resume") == 0, acting.said
    assert acting.changes() == [("POST", "m6/restart")]
    assert read_action()["result"] == "Succeeded"


def test_unanswered_action_is_not_repeated_without_action_states(
    acting: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.domains.azure.providers.azure_actions.VISIBILITY_TIMEOUT", 0.0)
    write_action()
    server.site.shows_runs = False
    server.site.faults = Faults(resets=1)
    assert acting("apply", "-auto-approve") == 1
    assert "was possibly sent, and Azure does not show its runs" in acting.said
    assert "write another run_id" in acting.said
    assert acting.changes() == [("POST", "m6/restart")]


def test_failed_action_is_recorded_and_its_machine_gets_no_vm(
    acting: CommandRunner, server: ArmServer
) -> None:
    write_action()
    server.site.faults = Faults(fails=1)
    assert acting("apply", "-auto-approve") == 1
    assert (
        "Azure could not restart m6 (Failed): InsufficientResources: no machine has room."
        in acting.said
    )
    assert read_action()["result"] == "Failed"
    assert acting("plan") == 0, acting.said
    assert f"-/+ {ADDRESS}" in acting.said, acting.said
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert read_action()["result"] == "Succeeded"


def test_rejected_action_is_not_recorded(acting: CommandRunner, server: ArmServer) -> None:
    write_action()
    server.site.faults = Faults(refusals=1)
    assert acting("apply", "-auto-approve") == 1
    assert "Azure rejects m6: InsufficientResources: no machine has room" in acting.said
    assert read_action() == {}


def test_action_without_permission_is_a_plan_error(nexusform: CommandRunner) -> None:
    write_action()
    assert nexusform("plan") == 1
    assert "Set act_on_machines = true" in nexusform.said
    assert "az networkcloud baremetalmachine restart --name m6" in nexusform.said


def test_vms_on_the_machine_are_named(acting: CommandRunner, server: ArmServer) -> None:
    write_action(allow="false")
    text = Path("action.nf.hcl").read_text()
    Path("action.nf.hcl").write_text(text.replace("lab/r2/m6", "lab/r1/m1"))
    assert acting("plan") == 1
    assert "Restart of m1 would stop" in acting.said, acting.said
    assert "set evacuate = true for this machine" in acting.said
    assert server.site.taken == []


def test_power_off_is_no_change_in_next_plan(acting: CommandRunner, server: ArmServer) -> None:
    write_action("PowerOff")
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert server.site.properties(f"{HOSTED}/bareMetalMachines/m6")["powerState"] == "Off"
    assert acting("plan", "-detailed-exitcode") == 0, acting.said
    assert "Out of service: 1 of 6 machines (1 Off)" in acting.said


def test_replace_sends_body_of_its_azure_block(acting: CommandRunner, server: ArmServer) -> None:
    write_action(
        "Replace",
        extra='  azure {\n    body = { serialNumber = "S1", storagePolicy = "Preserve" }\n  }\n',
    )
    assert acting("plan") == 0, acting.said
    assert "Azure keeps the data on its disks (storagePolicy Preserve)." in acting.said
    assert acting("apply", "-auto-approve") == 0, acting.said
    assert server.site.bodies == [
        {"safeguardMode": "All", "serialNumber": "S1", "storagePolicy": "Preserve"}
    ]


def test_cordon_of_action_is_ours_until_azure_shows_none(
    acting: CommandRunner, server: ArmServer
) -> None:
    write_action("Cordon")
    assert acting("apply", "-auto-approve") == 0, acting.said
    for _ in range(2):
        assert acting("plan", "-detailed-exitcode") == 0, acting.said
        assert "Out of service: 1 of 6 machines (1 cordoned by nexusform)" in acting.said
        assert acting("apply", "-auto-approve", "-refresh-only") == 0, acting.said
    server.site.resources[f"{HOSTED}/bareMetalMachines/m6".lower()]["properties"][
        "cordonStatus"
    ] = "Uncordoned"
    assert acting("plan", "-detailed-exitcode") == 0, acting.said
    assert "Out of service" not in acting.said


def test_newest_run_of_an_action_must_differ_from_its_marker() -> None:
    names = ("restart", "powerOff", "restart")
    runs = [
        {
            "actionType": f"Microsoft.NetworkCloud/bareMetalMachines/{name}/action",
            "startTime": f"2026-11-0{day}T00:00:00Z",
        }
        for day, name in enumerate(names, 1)
    ]
    body = {"properties": {"actionStates": [*runs, "unreadable"]}}
    assert find_action_run(body, ArmOperation.RESTART, "") == runs[2]
    assert find_action_run(body, ArmOperation.RESTART, "2026-11-02T00:00:00Z") == runs[2]
    assert find_action_run(body, ArmOperation.RESTART, "2026-11-03T00:00:00Z") == {}
    assert find_action_run(body, ArmOperation.REPLACE, "") == {}
    assert find_action_run(None, ArmOperation.RESTART, "") == {}
