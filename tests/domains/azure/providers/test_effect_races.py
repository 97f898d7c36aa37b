"""Races of effects: each step of a plan, each actor, each moment and each way to apply.

Whatever others do, the requests of an apply have no effect that the plan did not show. What the
plan showed are the effects of the same plan on a site that nobody else changes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.domains.azure.providers.arm_changes import ArmTarget
from nexusform.domains.azure.providers.azure_changes import PATCH_PROPERTIES
from nexusform.domains.azure.providers.azure_requests import ArmClient
from nexusform.domains.azure.providers.azure_site import _HARDWARE_TYPES, _KINDS
from nexusform.domains.azure.providers.start_values import IDENTIFYING_PROPERTIES, LISTED_FACTS
from nexusform.resource_types.machine_facts import EXPORTED_FACTS
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE
from tests.domains.azure.providers.arm_server import ArmServer, Faults
from tests.domains.azure.providers.azure_sites import NEW, PROVIDER_BLOCK, CommandRunner
from tests.domains.azure.providers.site_effects import (
    ACTORS,
    MACHINE_ID,
    Effects,
    empty_machine,
    find_larger_effects,
    get_properties,
    record_effects,
)
from tests.kill_points import select_cases

ACTION = """resource "nexus_bare_metal_machine_action" "x" {
  provider        = azure
  machine_id      = "lab/r2/m6"
  action          = "ACTION"
  allow_workloads = true
}
"""


def format_cluster(arguments: str = "", web: str = "", pools: str = "") -> str:
    count = "" if "count" in web else "count = 2"
    return f"""resource "nexus_kubernetes_cluster" "c" {{
  {arguments}
  agent_pool "np1" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }}
  agent_pool "web" {{
    vm_sku_name = "NC_P22_112_v1"
    {count}
    {web}
  }}
  {pools}
}}
"""


@dataclass(frozen=True)
class PlannedSteps:
    """Configuration, or options of a plan, and the type that it changes."""

    type: str
    configuration: str = ""
    options: tuple[str, ...] = ()
    is_override: bool = True


CLUSTER = "nexus_kubernetes_cluster"
NODES = 'upgrade_settings {\n max_unavailable = "100%"\n }'
NEW_POOL = 'agent_pool "zz" {\n count = 1\n vm_sku_name = "NC_P22_112_v1"\n }'
PLANE = 'control_plane {\n count = 3\n vm_sku_name = "NC_P10_56_v1"\n}'
PLANS: dict[str, PlannedSteps] = {
    "scale-out": PlannedSteps(CLUSTER, format_cluster(web="count = 3")),
    "scale-in": PlannedSteps(CLUSTER, format_cluster(web="count = 1")),
    "labels": PlannedSteps(CLUSTER, format_cluster(web=f'labels = {{ a = "b" }}\n{NODES}')),
    "settings": PlannedSteps(
        CLUSTER, format_cluster(web='upgrade_settings {\n max_surge = "3"\n }')
    ),
    "upgrade": PlannedSteps(CLUSTER, format_cluster('kubernetes_version = "v1.30"')),
    "control-plane": PlannedSteps(CLUSTER, format_cluster(PLANE)),
    "new-pool": PlannedSteps(CLUSTER, format_cluster(pools=NEW_POOL)),
    "remove-pool": PlannedSteps(
        CLUSTER, format_cluster().partition('  agent_pool "web"')[0] + "}\n"
    ),
    "destroy": PlannedSteps(CLUSTER, options=("-destroy", f"-target={CLUSTER}.c")),
    "cordon": PlannedSteps(
        "nexus_bare_metal_machine",
        'resource "nexus_bare_metal_machine" "m6" {\n  cordoned = true\n}\n',
    ),
    "new-cluster": PlannedSteps("nexus_agent_pool", NEW, is_override=False),
    "new-vm": PlannedSteps(
        "nexus_virtual_machine",
        NEW[NEW.index('resource "nexus_virtual_machine"') :],
        is_override=False,
    ),
    **{
        action: PlannedSteps(
            "nexus_bare_metal_machine_action", ACTION.replace("ACTION", action), is_override=False
        )
        for action in ("Cordon", "PowerOff", "Restart", "Reimage", "Replace")
    },
}
# Members that no effect of a request depends on: keys of administrators, passwords, sizes of a VM
# (a VM of another size is another VM).
UNREAD_BY_EFFECTS = {
    "administratorConfiguration",
    "vmImageRepositoryCredentials",
    "cpuCores",
    "memorySizeGB",
}
# When the actor acts: between a saved plan and its apply, during the question, after a first
# request that failed, and after the replay, before a step reads what it changes. Between this read
# and the request, Azure rejects another version; an action has no version, so nothing notices it.
MOMENTS = ("file", "prompt", "resume", "target", "before-step")


def list_races() -> list[tuple[str, str, str]]:
    """Return each plan with each actor, in one of the ways to apply and before the first step."""
    races = []
    for row, plan in enumerate(PLANS):
        for column, actor in enumerate(ACTORS):
            moment = MOMENTS[(row + column) % (len(MOMENTS) - 1)]
            races += [(plan, actor, moment), (plan, actor, MOMENTS[-1])]
    return races


def test_every_changed_type_has_a_race() -> None:
    """A cordon of a generated machine is a change of its rack, with the request of a machine."""
    assert {steps.type for steps in PLANS.values()} == {
        *_KINDS,
        *_HARDWARE_TYPES,
        MACHINE_ACTION_TYPE,
    } - {"nexus_rack"}


def test_every_observed_member_has_an_actor() -> None:
    """What the plan reads of a resource in Azure is changed by an actor."""
    read = {fact.export_field for fact in EXPORTED_FACTS} | IDENTIFYING_PROPERTIES
    read |= {path[-1] for path in LISTED_FACTS}.union(*PATCH_PROPERTIES.values())
    changed = {member for actor in ACTORS.values() for member in actor.members}
    assert read - changed == UNREAD_BY_EFFECTS


class SlowUser(io.StringIO):
    """User who answers after others acted."""

    act: Callable[[], None]

    def readline(self, *_arguments: Any) -> Any:
        self.act()
        return "yes\n"


def write_plan(steps: PlannedSteps, server: ArmServer) -> None:
    """Write the configuration of a plan. Machine m6 runs nothing, and has a serial number."""
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    if steps.configuration:
        name = "race_override.nf.hcl" if steps.is_override else "race.nf.hcl"
        Path(name).write_text(steps.configuration)
    empty_machine(server.site)
    get_properties(server.site, MACHINE_ID)["serialNumber"] = "S1"


_APPROVED: dict[str, Effects] = {}


def find_approved_effects(plan: str, run: CommandRunner) -> Effects:
    """Return the effects of a plan that nobody disturbs; site and files stay as they are."""
    if plan not in _APPROVED:
        key = ("effects of", plan)
        server = run.server
        files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        snapshot = server.take_snapshot()
        effects = record_effects(server.site)
        code = run("apply", "-auto-approve", *PLANS[plan].options)
        assert code == 0, (key, run.said)
        assert effects, key
        _APPROVED[plan] = effects
        for path in set(Path().rglob("*")) - files.keys():
            if path.is_file():
                path.unlink()
        for path, content in files.items():
            path.write_bytes(content)
        server.restore(snapshot)
    return _APPROVED[plan]


def apply_with_actor(
    plan: str, actor: str, moment: str, run: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Effects]:
    """Apply a plan while others act; return the exit code and the effects of its requests."""
    server = run.server
    options = PLANS[plan].options
    acted: list[str] = []

    def act(_path: str = "") -> None:
        if not acted:
            acted.append(actor)
            ACTORS[actor].change(server.site)

    effects = record_effects(server.site)
    if moment == "prompt":
        monkeypatch.setenv("NF_INPUT", "1")
        user = SlowUser()
        user.act = act
        monkeypatch.setattr("sys.stdin", user)
        code = run("apply", *options)
    elif moment == "resume":
        # Azure accepts the first request, and its operation fails; effects count from the second.
        server.site.faults = Faults(refusals=1)
        assert run("apply", "-auto-approve", *options) == 1, run.said
        server.site.faults = Faults()
        act()
        code = run("apply", "-resume")
    else:
        if moment == "target":
            resource = f"-target={PLANS[plan].type}"
            options = (*options, *(() if options else (find_target(plan, resource),)))
        assert run("plan", "-out=p", *options) == 0, run.said
        if moment == "before-step":
            act_before_step(act, monkeypatch)
        else:
            act()
        code = run("apply", "p")
    assert acted
    return code, effects


def act_before_step(act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let others act just before the first step reads the resource that it changes."""
    read = ArmClient.get_body

    def act_and_read(client: ArmClient, target: ArmTarget) -> dict[str, Any] | None:
        act()
        return read(client, target)

    monkeypatch.setattr(ArmClient, "get_body", act_and_read)


def find_target(plan: str, prefix: str) -> str:
    """Return the flag for the object of a plan."""
    names = {CLUSTER: "c", "nexus_bare_metal_machine": "m6", "nexus_virtual_machine": "v"}
    names |= {"nexus_agent_pool": "more", "nexus_bare_metal_machine_action": "x"}
    return f"{prefix}.{names[PLANS[plan].type]}"


def find_report(said: str) -> str:
    """Return what the apply says of changes by others: a warning, or the errors."""
    for start in ("Since the plan, the site changed: ", "Error: "):
        if start in said:
            return said.partition(start)[2].partition(" The plan is ")[0]
    return ""


def is_unnamed(plan: str, actor: str) -> bool:
    """Return whether an apply does not name this change by others yet; it has no larger effect.

    The facts of a site have no nodes, and a destroy does not compare the upgrade of its site.
    """
    return actor == "node-is-replaced" or (plan, actor) == ("destroy", "runtime-upgrade-begins")


@pytest.mark.parametrize(("plan", "actor", "moment"), select_cases(list_races()))
def test_no_effect_without_approval(
    plan: str,
    actor: str,
    moment: str,
    nexusform: CommandRunner,
    server: ArmServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_plan(PLANS[plan], server)
    approved = find_approved_effects(plan, nexusform)
    code, effects = apply_with_actor(plan, actor, moment, nexusform, monkeypatch)
    assert not find_larger_effects(effects, approved), nexusform.said
    assert "Traceback" not in nexusform.text
    if moment not in ("resume", MOMENTS[-1]) and not is_unnamed(plan, actor):
        # Stopped or not, the apply says what others changed.
        report = find_report(nexusform.said)
        assert any(name in report for name in ACTORS[actor].names), report or nexusform.said[-800:]
    if code:
        assert "lan again" in nexusform.said or effects, nexusform.said
