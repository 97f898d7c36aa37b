"""Tests that an approval is a set of consequences: between plan and write, the site changes.

What decides the effect of a step may change although no value of its request does. Then nothing is
sent, and the sentence names the object.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import (
    NEXUS,
    ArmServer,
    Faults,
    Site,
    build_machine_id,
)
from tests.domains.azure.providers.azure_sites import CLUSTER_ID, PROVIDER_BLOCK, CommandRunner
from tests.domains.azure.providers.site_effects import (
    POOL_ID,
    add_pool,
    create_again,
    empty_machine,
    get_properties,
    move_node,
    set_members,
    start_cluster,
    start_vm,
)

ACTION = """resource "nexus_bare_metal_machine_action" "x" {
  provider        = azure
  machine_id      = "lab/r2/m6"
  action          = "ACTION"
  run_id          = "1"
  allow_workloads = ALLOW
}
"""


def write_action(action: str, *, allow: bool = False) -> None:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    text = ACTION.replace("ACTION", action).replace("ALLOW", str(allow).lower())
    Path("action.nf.hcl").write_text(text)


def write_cluster(version: str = "v1.29", pool: str = "") -> None:
    Path("change_override.nf.hcl").write_text(
        f"""resource "nexus_kubernetes_cluster" "c" {{
  kubernetes_version = "{version}"
  agent_pool "np1" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }}
  agent_pool "web" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    {pool}
  }}
}}
"""
    )


def set_upgrade(name: str, value: Any) -> Callable[[Site], None]:
    def change(site: Site) -> None:
        get_properties(site, POOL_ID)["upgradeSettings"] = {name: value}

    return change


grow_pool = set_members(POOL_ID, count=5)


def check_nothing_is_sent(run: CommandRunner, site: Site, sentence: str) -> None:
    site.taken.clear()
    assert run("apply", "p") == 1, run.said
    assert not site.taken, (site.taken, run.said)
    assert sentence in run.said, run.said


ARRIVALS = [
    (start_vm, "vm-7"),
    (start_cluster, "x-0a1b2c3d-control-plane-"),
    (move_node, "of c, which the plan did not show."),
]


@pytest.mark.parametrize(("change", "name"), ARRIVALS, ids=["vm", "cluster", "own-node"])
@pytest.mark.parametrize("action", ["PowerOff", "Restart", "Reimage", "Replace"])
@pytest.mark.parametrize("allow", [False, True])
def test_action_stops_no_vm_that_arrived_after_the_plan(
    action: str,
    allow: bool,
    change: Callable[[Site], None],
    name: str,
    nexusform: CommandRunner,
    server: ArmServer,
) -> None:
    empty_machine(server.site)
    write_action(action, allow=allow)
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    change(server.site)
    check_nothing_is_sent(nexusform, server.site, f"{action} of m6 would stop ")
    assert name in nexusform.said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            set_upgrade("maxUnavailable", "100%"),
            "The upgrade of c/web would run with max_unavailable 100%, not 0",
        ),
        (set_upgrade("maxSurge", "2"), "max_surge 2, not 1"),
        (set_upgrade("drainTimeout", 60), "The upgrade of c/web would run with drain_timeout 60"),
        (grow_pool, "would remove or re-create c-web-2, c-web-3, c-web-4 of c"),
        (add_pool, "extra"),
    ],
)
def test_upgrade_keeps_the_pace_of_the_plan(
    change: Callable[[Site], None], sentence: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    write_cluster("v1.30")
    code = nexusform("plan", "-fail-on=temporary_risk:0", "-out=p")
    assert code == 0, nexusform.said
    change(server.site)
    check_nothing_is_sent(nexusform, server.site, sentence)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (set_upgrade("maxUnavailable", "100%"), "c/web has max_unavailable 100% in Azure"),
        (grow_pool, "c/web has 5 nodes in Azure; the plan started from 2."),
        (add_pool, "c/extra has 2 nodes in Azure; the plan started from none."),
        (create_again(POOL_ID), "c/web was created again in Azure at 2026-11-30"),
    ],
)
def test_upgrade_starts_from_the_pools_of_the_plan(
    change: Callable[[Site], None], sentence: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    """The pools change after the replay, and before the request of the cluster."""
    write_cluster("v1.30")
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    changed: list[str] = []

    def change_once(path: str) -> None:
        if path.lower() == CLUSTER_ID.lower() and not changed:
            changed.append(path)
            change(server.site)
            server.site.etags += 1
            server.site.resources[CLUSTER_ID.lower()]["etag"] = f"e{server.site.etags}"

    server.site.before_change = change_once
    check_nothing_is_sent(nexusform, server.site, sentence)
    assert changed


def scale_pool_out() -> None:
    write_cluster()
    text = Path("change_override.nf.hcl").read_text()
    head, _, tail = text.rpartition("count       = 2")
    Path("change_override.nf.hcl").write_text(f"{head}count       = 4{tail}")


def scale_pool_in() -> None:
    scale_pool_out()
    path = Path("change_override.nf.hcl")
    path.write_text(path.read_text().replace("count       = 4", "count       = 1"))


PLANS: dict[str, Callable[[], None]] = {
    "scale-out": scale_pool_out,
    "scale-in": scale_pool_in,
    "labels": lambda: write_cluster(
        pool='labels = { tier = "web" }\n upgrade_settings {\n max_unavailable = "100%"\n }'
    ),
    "settings": lambda: write_cluster(pool='upgrade_settings {\n max_surge = "2"\n }'),
    "upgrade": lambda: write_cluster("v1.30"),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("gap", ["before-apply", "before-write"])
def test_object_that_was_created_again_is_not_changed(
    gap: str, plan: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    arm_id = CLUSTER_ID if plan == "upgrade" else POOL_ID
    PLANS[plan]()
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    again: list[str] = []

    def change_once(path: str) -> None:
        if path.lower() == arm_id.lower() and not again:
            again.append(path)
            create_again(arm_id)(server.site)

    if gap == "before-apply":
        change_once(arm_id)
    else:
        server.site.before_change = change_once
    check_nothing_is_sent(nexusform, server.site, "was created again in Azure at 2026-11-30")
    assert again


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("serialNumber", "S2", "m6 has serial number S2 in Azure; the plan started from S1."),
        ("machineRoles", ["platform.afo-nc.microsoft.com/control-plane=true"], "roles"),
    ],
)
def test_machine_of_another_identity_is_left_alone(
    name: str, value: Any, sentence: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    empty_machine(server.site)
    machine = get_properties(server.site, build_machine_id("m6"))
    machine["serialNumber"] = "S1"
    write_action("Restart")
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    machine[name] = value
    check_nothing_is_sent(nexusform, server.site, sentence)


def test_runtime_upgrade_that_began_is_named_before_the_first_write(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_cluster(pool="upgrade_settings {\n max_surge = 2\n }")
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    assert "a runtime upgrade is in progress" not in nexusform.said
    get_properties(server.site, NEXUS)["detailedStatus"] = "Updating"
    nexusform("apply", "p")
    said = nexusform.said
    assert "Since the plan, the site changed: lab: " in said, said
    assert said.index("runtime upgrade is in progress") < said.index("Modifying..."), said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (grow_pool, "c is deleted with 8 VMs; the plan showed: c is deleted with 5 VMs"),
        (add_pool, "c is deleted with 7 VMs; the plan showed: c is deleted with 5 VMs"),
    ],
)
def test_destroy_ends_no_more_than_the_plan_showed(
    change: Callable[[Site], None], sentence: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    options = ("-destroy", "-target=nexus_kubernetes_cluster.c")
    assert nexusform("plan", *options, "-out=p") == 0, nexusform.said
    change(server.site)
    check_nothing_is_sent(nexusform, server.site, sentence)


def test_resumed_action_stops_no_vm_that_arrived_meanwhile(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    """The first apply fails before its request; a VM arrives; the second one sends nothing."""
    empty_machine(server.site)
    write_action("PowerOff")
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1, nexusform.said
    server.site.faults = Faults()
    get_properties(server.site, build_machine_id("m6"))["powerState"] = "On"
    start_vm(server.site)
    server.site.taken.clear()
    assert nexusform("apply", "-resume") == 1, nexusform.said
    assert "PowerOff of m6 would stop vm-7, which the plan did not show." in nexusform.said
    assert not server.site.taken


def test_arrival_during_the_question_stops_the_apply(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_machine(server.site)
    write_action("Restart")

    class SlowUser(io.StringIO):
        """User who answers after another team started a VM."""

        def readline(self, *_arguments: Any) -> str:
            start_vm(server.site)
            return "yes\n"

    monkeypatch.setenv("NF_INPUT", "1")
    monkeypatch.setattr("sys.stdin", SlowUser())
    assert nexusform("apply") == 1, nexusform.said
    assert "Restart of m6 would stop vm-7, which the plan did not show." in nexusform.said
    assert not server.site.taken


def list_reads(site: Site) -> list[tuple[str, str]]:
    """Return method and path of the requests since the last call, sorted."""
    reads = sorted((method, path) for method, path, _ in site.asked)
    site.asked.clear()
    return reads


@pytest.mark.parametrize("action", ["PowerOff", ""])
def test_replay_reads_no_more_than_the_plan(
    action: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    """An apply that the replay stops has read what the plan read, once."""
    empty_machine(server.site)
    if action:
        write_action(action)
    else:
        write_cluster("v1.30")
    server.site.asked.clear()
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    planned = list_reads(server.site)
    (start_vm if action else add_pool)(server.site)
    check_nothing_is_sent(nexusform, server.site, "Consequence not approved")
    assert planned
    assert list_reads(server.site) == planned
