"""Machine actions of a plan: their VMs, their order, and plans without a safe order."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

SITE = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  for_each          = toset(["r1", "r2", "r3"])
  site_id           = nexus_site.lab.id
  name              = each.key
  machine_count     = 2
  availability_zone = trimprefix(each.key, "r")
}
resource "nexus_kubernetes_cluster" "c" {
  site_id            = nexus_site.lab.id
  kubernetes_version = "1.30.3"
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "p" {
    count       = 3
    vm_sku_name = "NC_P46_224_v1"
    mode        = "System"
  }
}
"""
EVACUATED = """
  dynamic "machine_override" {
    for_each = each.key == "r1" ? [MACHINES] : []
    labels   = [machine_override.value]
    content {
      evacuate = true
    }
  }
  site_id           = nexus_site.lab.id
  name              = each.key
"""
SERVER = """
resource "nexus_bare_metal_machine" "NAME" {
  rack_id       = nexus_rack.r["RACK"].id
  name          = "NAME"
  slot          = SLOT
  machine_sku   = "bom-1.7.3"
  roles         = ["ROLE"]
  power_state   = "POWER"
}
"""


class Project:
    """A site with an applied cluster."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.text = ""

    def run(self, *words: str) -> int:
        code = run_command_line([*words, "-no-color"])
        captured = self.capsys.readouterr()
        self.text = " ".join((captured.out + captured.err).replace("│", " ").split())
        return code

    def find_machines(self, pool: str) -> list[str]:
        """Return the ids of the machines of a pool."""
        state = json.loads(Path("state/nexusform.nfstate").read_text())
        cluster = next(
            one for one in state["resources"] if one["type"] == "nexus_kubernetes_cluster"
        )
        nodes = cluster["instances"][0]["attributes"]["nodes"].values()
        return sorted(
            f"lab/{node['rack']}/{node['machine']}" for node in nodes if node["pool"] == pool
        )

    def plan(self) -> list[dict[str, Any]]:
        """Plan, and return the machine actions of the plan file."""
        assert self.run("plan", "-out=p.plan") == 0, self.text
        run_command_line(["show", "-json", "p.plan"])
        return list(json.loads(self.capsys.readouterr().out).get("machine_actions", []))


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Project:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE)
    project = Project(capsys)
    assert project.run("apply", "-auto-approve") == 0, project.text
    return project


def write_actions(*actions: tuple[str, str], allow: bool = True, more: str = "") -> None:
    blocks = [
        f'resource "nexus_bare_metal_machine_action" "a{number}" {{\n  machine_id = "{machine}"\n'
        f'  action = "{action}"\n  allow_workloads = {str(allow).lower()}\n}}\n'
        for number, (action, machine) in enumerate(actions)
    ]
    Path("actions.nf.hcl").write_text("".join(blocks) + more)


def test_machine_with_vms_needs_permission(project: Project) -> None:
    machine = project.find_machines("p")[0]
    write_actions(("Reimage", machine), allow=False)
    assert project.run("plan") == 1
    assert "Reimage of" in project.text
    assert "set evacuate = true for machine_override" in project.text
    assert "set allow_workloads = true here" in project.text
    predicted = re.search(r"([\w-]+) moves to ([\w-]+)", project.text)
    assert predicted is not None, project.text
    _, rack, name = machine.split("/")
    text = SITE.replace(
        "  site_id           = nexus_site.lab.id\n  name              = each.key\n", EVACUATED
    )
    Path("main.nf.hcl").write_text(text.replace('"r1" ? [MACHINES]', f'"{rack}" ? ["{name}"]'))
    (action,) = project.plan()
    assert action["evacuated_vms"] == [{"name": predicted[1], "to": predicted[2]}]


def test_argument_that_switches_a_machine_off_stops_its_vms(project: Project) -> None:
    _, rack, name = project.find_machines("p")[0].split("/")
    slot = name[-1]
    off = (
        SERVER.replace("NAME", name)
        .replace("RACK", rack)
        .replace("SLOT", slot)
        .replace("ROLE", "compute-plane")
    )
    Path("machine.nf.hcl").write_text(off.replace("POWER", "On"))
    assert project.plan() == []
    assert project.run("apply", "-auto-approve") == 0, project.text
    Path("machine.nf.hcl").write_text(off.replace("POWER", "Off"))
    assert project.run("plan", "-fail-on=moved:0") == 1
    assert "Impact: 1 VM to stop for machine actions, at most 1 at a time" in project.text
    assert "1 VM stops; -fail-on=moved:0 allows at most 0" in project.text
    (action,) = project.plan()
    assert (action["action"], action["machine"], len(action["stopped_vms"])) == (
        "PowerOff",
        name,
        1,
    )
    assert project.run("apply", "-auto-approve") == 0, project.text
    assert project.plan() == []


def test_vm_without_a_resource_is_named(project: Project) -> None:
    occupied = (
        '  occupied {\n    name       = "legacy"\n    cpu_cores  = 8\n    memory_gib = 16\n  }\n}\n'
    )
    server = (
        SERVER.replace('  power_state   = "POWER"\n}\n', occupied)
        .replace("NAME", "old1")
        .replace("RACK", "r1")
    )
    more = server.replace("SLOT", "9").replace("ROLE", "compute-plane")
    write_actions(("Reimage", "lab/r1/old1"), allow=False, more=more)
    assert project.run("plan") == 1
    assert "legacy: no resource manages it, so nexusform cannot move it" in project.text


def test_vm_without_another_fitting_machine_is_named(project: Project) -> None:
    pool = 'count       = 3\n    vm_sku_name = "NC_P46_224_v1"'
    Path("main.nf.hcl").write_text(SITE.replace(pool, pool.replace("3", "9", 1)))
    assert project.run("apply", "-auto-approve") == 0, project.text
    write_actions(("Reimage", project.find_machines("p")[0]), allow=False)
    assert project.run("plan") == 1
    assert "fits on no other machine" in project.text


def test_evacuated_vms_are_listed_with_their_targets(project: Project) -> None:
    Path("main.nf.hcl").write_text(
        SITE.replace(
            "  site_id           = nexus_site.lab.id\n  name              = each.key\n",
            EVACUATED.replace("MACHINES", '"r1-bm01", "r1-bm02"'),
        )
    )
    write_actions(("Reimage", "lab/r1/r1-bm01"), ("Replace", "lab/r1/r1-bm02"), allow=False)
    actions = project.plan()
    assert [action["window"] for action in actions] == [1, 2]
    leaving = [vm for action in actions for vm in action["evacuated_vms"]]
    assert leaving
    assert not [vm for vm in leaving if vm["to"].startswith("r1")]
    assert "Machine actions on lab: 2, one after another, up to 7 h." in project.text
    assert "Moved VMs do not return by themselves." in project.text
    assert project.run("apply", "p.plan") == 0, project.text
    assert project.run("plan", "-detailed-exitcode") == 0, project.text


def test_stopped_vms_are_an_impact(project: Project) -> None:
    write_actions(("Restart", project.find_machines("p")[0]))
    (action,) = project.plan()
    assert action["stopped_vms"]
    assert "to stop for machine actions" in project.text
    assert "no running workload affected" not in project.text


def test_stopped_vms_count_toward_move_limit(project: Project) -> None:
    machine = project.find_machines("p")[0]
    write_actions(("Restart", machine))
    assert project.run("plan", "-fail-on=moved:0") == 1
    assert "-fail-on=moved:0 allows at most 0" in project.text
    assert project.run("plan", "-fail-on=moved:9") == 0, project.text
    assert project.run("plan", "-out=p.plan") == 0
    assert project.run("show", "-report=markdown:-", "p.plan") == 0
    assert "nothing moves" not in project.text
    assert re.search(r"\d VMs? stops?", project.text), project.text


def test_removing_an_action_block_destroys_nothing(project: Project) -> None:
    write_actions(("Cordon", project.find_machines("p")[0]))
    assert project.run("apply", "-auto-approve") == 0, project.text
    Path("actions.nf.hcl").unlink()
    assert project.run("plan") == 0
    assert "0 to destroy, 1 to forget." in project.text
    assert "removed from state, nothing is sent" in project.text
    assert "keep running" not in project.text
    assert project.run("apply", "-auto-approve") == 0, project.text
    assert project.run("plan", "-detailed-exitcode") == 0, project.text


def test_cordons_are_first_and_power_offs_last(project: Project) -> None:
    first, second, third = project.find_machines("p")
    write_actions(("PowerOff", first), ("Restart", second), ("Cordon", third))
    assert [action["action"] for action in project.plan()] == ["Cordon", "Restart", "PowerOff"]


def test_quorum_is_kept(project: Project) -> None:
    machines = project.find_machines("control-plane")
    write_actions(*(("Restart", machine) for machine in machines))
    assert len(project.plan()) == 3
    write_actions(*(("PowerOff", machine) for machine in machines))
    assert project.run("plan") == 1
    assert "No order of the machine actions on lab is safe." in project.text
    assert "The control plane of c would have 1 of 3 nodes, and its quorum is 2." in project.text


def test_new_members_keep_no_quorum_before_they_exist(project: Project) -> None:
    machines = project.find_machines("control-plane")[:2]
    Path("main.nf.hcl").write_text(SITE.replace("count       = 3", "count       = 5", 1))
    write_actions(*(("PowerOff", machine) for machine in machines))
    assert project.run("plan") == 1
    assert "The control plane of c would have 1 of 3 nodes, and its quorum is 2." in project.text
    # The scale-out is complete before the actions.
    text = Path("actions.nf.hcl").read_text()
    after_cluster = "  depends_on = [nexus_kubernetes_cluster.c]\n  allow_workloads"
    Path("actions.nf.hcl").write_text(text.replace("  allow_workloads", after_cluster))
    assert len(project.plan()) == 2


def write_machines(machines: list[str], power: str) -> None:
    blocks = []
    for machine in machines:
        _, rack, name = machine.split("/")
        values = {"NAME": name, "RACK": rack, "SLOT": name[-1], "ROLE": "compute-plane"}
        block = SERVER.replace("POWER", power)
        for word, value in values.items():
            block = block.replace(word, value)
        blocks.append(block)
    Path("machines.nf.hcl").write_text("".join(blocks))


def test_machines_switched_off_by_argument_are_a_risk(project: Project) -> None:
    machines = project.find_machines("control-plane")[:2]
    write_machines(machines, "On")
    assert project.run("apply", "-auto-approve") == 0, project.text
    write_machines(machines[:1], "Off")
    assert project.run("plan", "-fail-on=risk:0") == 0, project.text
    write_machines(machines, "Off")
    assert project.run("plan", "-fail-on=risk:0") == 1
    text = "c loses etcd quorum until its machines start: 2 of 3 control-plane VMs down at once"
    assert text in project.text
    # One machine is off since an earlier apply.
    write_machines(machines[:1], "Off")
    assert project.run("apply", "-auto-approve") == 0, project.text
    write_machines(machines, "Off")
    assert project.run("plan", "-fail-on=risk:0") == 1
    assert text in project.text


def test_member_that_is_off_counts_when_another_one_leaves_its_machine(project: Project) -> None:
    machines = project.find_machines("control-plane")
    name = f'"{machines[0].rpartition("/")[2]}"'
    old = "  site_id           = nexus_site.lab.id\n  name              = each.key\n"
    evacuated = SITE.replace(old, EVACUATED.replace("MACHINES", name))
    assert evacuated != SITE
    Path("main.nf.hcl").write_text(evacuated)
    assert project.run("plan", "-fail-on=risk:0") == 0, project.text
    Path("main.nf.hcl").write_text(SITE)
    write_machines(machines[1:2], "Off")
    assert project.run("apply", "-auto-approve") == 0, project.text
    Path("main.nf.hcl").write_text(evacuated)
    assert project.run("plan", "-fail-on=risk:0") == 1
    text = (
        "c loses etcd quorum: 2 of 3 control-plane VMs down at once "
        "(1 on a machine that is off or not ready)"
    )
    assert text in project.text


def test_member_that_is_off_counts_in_a_scale_in(project: Project) -> None:
    machines = project.find_machines("control-plane")
    texts = []
    for machine in machines:
        Path("main.nf.hcl").write_text(SITE)
        write_machines([machine], "Off")
        assert project.run("apply", "-auto-approve") == 0, project.text
        Path("main.nf.hcl").write_text(SITE.replace("count       = 3", "count       = 2", 1))
        assert project.run("plan", "-fail-on=risk:0") == 1
        texts.append(project.text)
    # The machine of the member that leaves makes no difference.
    losses = [
        "c loses etcd quorum: 1 of 2 control-plane VMs down at once" in text for text in texts
    ]
    assert sorted(losses) == [False, True, True]


def test_pool_on_stopped_machines_is_a_risk(project: Project) -> None:
    text = SITE.replace('"p" {\n    count       = 3', '"p" {\n    count       = 1')
    Path("main.nf.hcl").write_text(text)
    assert project.run("apply", "-auto-approve") == 0, project.text
    machines = project.find_machines("p")
    write_actions(*(("PowerOff", machine) for machine in machines))
    assert project.run("plan", "-fail-on=risk:0") == 1
    assert "c/p has no node until its machines start: its only node is down" in project.text
    write_actions(*(("Restart", machine) for machine in machines))
    assert project.run("plan", "-fail-on=risk:0") == 0, project.text
    assert project.run("plan", "-fail-on=temporary_risk:0") == 1
    assert "c/p has no node for some time: its only node is down" in project.text


def write_servers(*servers: tuple[str, str, str, str]) -> str:
    return "".join(
        SERVER.replace("NAME", name)
        .replace("RACK", rack)
        .replace("ROLE", role)
        .replace("POWER", power)
        .replace("SLOT", str(10 + number))
        for number, (name, rack, role, power) in enumerate(servers)
    )


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        (
            [("k1", "r1", "control-plane", "On"), ("k2", "r2", "control-plane", "Off")],
            "All other control plane machines must be healthy; k2 is not.",
        ),
        (
            [("k1", "r1", "management-plane", "On"), ("k2", "r1", "management-plane", "Off")],
            "More than 50 % of the other management servers of r1 must be healthy; k2 is not.",
        ),
        (
            [("k1", "r1", "management-plane", "On"), ("k2", "r2", "management-plane", "Off")],
            "At least 75 % of the other management servers must be healthy; k2 is not.",
        ),
    ],
)
def test_preconditions_of_microsoft_are_checked(
    servers: list[tuple[str, str, str, str]], reason: str, project: Project
) -> None:
    write_actions(("Reimage", "lab/r1/k1"), more=write_servers(*servers))
    assert project.run("plan") == 1
    assert reason in project.text, project.text
    # A repair of the broken server makes the other action possible.
    rack = servers[1][1]
    write_actions(
        ("Reimage", "lab/r1/k1"), ("Replace", f"lab/{rack}/k2"), more=write_servers(*servers)
    )
    assert [action["machine"] for action in project.plan()] == ["k2", "k1"]


def test_errors_are_reported_together(project: Project) -> None:
    write_actions(("Restart", "lab/r1/nothing"), ("Reimage", "lab/r9/r1-bm01"))
    assert project.run("plan") == 1
    assert 'There is no machine "lab/r1/nothing".' in project.text
    assert 'There is no machine "lab/r9/r1-bm01".' in project.text


def test_machine_with_failed_action_gets_no_vms(project: Project) -> None:
    free = sorted(
        {f"lab/{r}/{r}-bm0{n}" for r in ("r1", "r2", "r3") for n in (1, 2)}
        - {*project.find_machines("p")}
    )
    fault = (
        'provider "simulated" {\n  fault {\n    address = "nexus_bare_metal_machine_action.a0"\n'
        '    operation = "create"\n    error = "timeout"\n    times = 0\n  }\n}\n'
    )
    write_actions(("Restart", free[0]), more=fault)
    assert project.run("apply", "-auto-approve") == 1
    pool = 'count       = 3\n    vm_sku_name = "NC_P46_224_v1"'
    Path("main.nf.hcl").write_text(SITE.replace(pool, pool.replace("3", "9", 1)))
    assert project.run("plan") == 1
    assert "9 x NC_P46_224_v1 do not fit" in project.text, project.text
    Path("actions.nf.hcl").unlink()
    assert project.run("plan") == 0, project.text
