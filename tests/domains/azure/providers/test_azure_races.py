"""Tests of changes that another client makes during a plan and its apply.

Each member that a request can carry is changed in each gap: before the plan's read, between plan
and apply, between the read and the write of a step, and after the write. Nothing is sent that the
plan did not show. The members come from the models of the SDK, so a new one needs a case here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.domains.azure.providers.arm_changes import ArmChange, ArmOperation, ArmTarget
from nexusform.domains.azure.providers.azure_site import AzureSiteProvider
from nexusform.domains.azure.providers.start_values import (
    build_machine_record,
    build_machine_start,
    find_result_difference,
)
from nexusform.interfaces.plugins import ProviderProblem
from tests.domains.azure.providers.arm_server import (
    GROUP,
    LOCATION,
    NEXUS,
    PROVIDER,
    ArmServer,
    Body,
    Faults,
    Site,
    build_machine_id,
)
from tests.domains.azure.providers.azure_sites import CLUSTER_ID, PROVIDER_BLOCK, CommandRunner
from tests.domains.azure.providers.sdk_models import REQUESTS, WITHOUT_BODY, list_member_paths
from tests.kill_points import tries_all
from tests.prepared_situations import prepare_situation

POOL_ID = f"{CLUSTER_ID}/agentPools/web"
VM_ID = f"{GROUP}/{PROVIDER}/virtualMachines/v"
MACHINE_ID = build_machine_id("m6")
ALICE = {"lastModifiedBy": "alice@contoso.com", "lastModifiedAt": "2026-05-01T08:00:00Z"}
KEYS = [[{"keyData": f"ssh-ed25519 {name}"}] for name in ("one", "two", "three")]


@dataclass(frozen=True)
class Member:
    """One member of a request: its values at the start, as planned, and of another client.

    `configuration` formats the arguments of a value. `sentence` is the message after a change of
    the member between plan and apply, without "Plan again.". `argument` is the argument in a plan.
    """

    arm_id: str
    path: tuple[str, ...]
    values: tuple[Any, Any, Any]
    configuration: Callable[[Any], str]
    sentence: str
    argument: str = ""


def format_block(path: tuple[str, ...], value: Any) -> str:
    """Return an azure block with one member."""
    body = value
    for name in reversed(path):
        body = {name: body}
    return f"azure {{\n body = jsondecode({json.dumps(json.dumps(body))})\n}}\n"


def format_cluster(arguments: str = "", pool: str = "count = 2") -> str:
    return f"""resource "nexus_kubernetes_cluster" "c" {{
  {arguments}
  agent_pool "np1" {{
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }}
  agent_pool "web" {{
    vm_sku_name = "NC_P22_112_v1"
    {pool}
  }}
}}
"""


def format_vm(block: str) -> str:
    return f"""resource "nexus_virtual_machine" "v" {{
  provider   = azure
  site_id    = nexus_site.lab.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 8
  disk_gib   = 64
  {block}
}}
import {{
  to = nexus_virtual_machine.v
  id = "lab/v"
}}
"""


def build_block_member(
    arm_id: str, path: tuple[str, ...], values: tuple[Any, Any, Any], sentence: str
) -> Member:
    """Build a member of an azure block of the resource."""

    def configure(value: Any) -> str:
        block = format_block(path, value)
        if arm_id == VM_ID:
            return format_vm(block)
        if arm_id == POOL_ID:
            return format_cluster(pool=f"count = 2\n{block}")
        return format_cluster(block)

    return Member(arm_id, path, values, configure, sentence)


def build_upgrade_member(name: str, argument: str, values: tuple[Any, Any, Any]) -> Member:
    def configure(value: Any) -> str:
        settings = f"upgrade_settings {{\n {argument} = {json.dumps(value)}\n}}"
        return format_cluster(pool=f"count = 2\n{settings}")

    start, _, other = values
    sentence = f"c/web has {argument} {other} in Azure; the plan started from {start}."
    return Member(
        POOL_ID, ("properties", "upgradeSettings", name), values, configure, sentence, argument
    )


def build_plane(value: Any) -> str:
    plane = f'control_plane {{\n count = {value}\n vm_sku_name = "NC_P10_56_v1"\n}}'
    return format_cluster(plane)


TAG = ("a", "b", "x")
ADMIN = "administratorConfiguration"
PLANE = "controlPlaneNodeConfiguration"
CREDENTIALS = "vmImageRepositoryCredentials"


def build_admin_member(arm_id: str, title: str) -> Member:
    """Build the keys of an administrator configuration."""
    path = (ADMIN, "sshPublicKeys")
    sentence = f"{title} has another {'.'.join(path)} in Azure than the plan started from."
    return build_block_member(arm_id, ("properties", *path), (KEYS[0], KEYS[1], KEYS[2]), sentence)


def build_tag_member(arm_id: str, title: str) -> Member:
    sentence = f'{title} has tag owner "x" in Azure; the plan started from "a".'
    return build_block_member(arm_id, ("tags", "owner"), TAG, sentence)


MEMBERS = (
    build_tag_member(CLUSTER_ID, "c"),
    Member(
        CLUSTER_ID,
        ("properties", "kubernetesVersion"),
        ("v1.29", "v1.30", "v1.31"),
        lambda value: format_cluster(f'kubernetes_version = "{value}"'),
        "c has Kubernetes version v1.31 in Azure; the plan started from v1.29.",
        "kubernetes_version",
    ),
    Member(
        CLUSTER_ID,
        ("properties", PLANE, "count"),
        (1, 3, 5),
        build_plane,
        "c has 5 control plane nodes in Azure; the plan started from 1.",
        "count",
    ),
    build_admin_member(CLUSTER_ID, "c"),
    build_tag_member(POOL_ID, "c/web"),
    Member(
        POOL_ID,
        ("properties", "count"),
        (2, 3, 5),
        lambda value: format_cluster(pool=f"count = {value}"),
        "c/web has 5 nodes in Azure; the plan started from 2.",
        "count",
    ),
    build_upgrade_member("maxSurge", "max_surge", ("2", "3", "4")),
    build_upgrade_member("maxUnavailable", "max_unavailable", ("2", "3", "4")),
    build_upgrade_member("drainTimeout", "drain_timeout", (1200, 900, 600)),
    build_admin_member(POOL_ID, "c/web"),
    build_tag_member(VM_ID, "v"),
    *(
        build_block_member(
            VM_ID,
            ("properties", CREDENTIALS, name),
            ("one", "two", "three"),
            f"v has another {CREDENTIALS}.{name} in Azure than the plan started from.",
        )
        for name in ("password", "registryUrl", "username")
    ),
)
_KINDS = {CLUSTER_ID: "kubernetesclusters", POOL_ID: "agentpools", VM_ID: "virtualmachines"}


# A plan with one of these in an azure block is an error.
REJECTED = {
    ("kubernetesclusters", ("properties", PLANE, ADMIN, "sshPublicKeys")),
    ("virtualmachines", ("identity", "type")),
    ("virtualmachines", ("identity", "userAssignedIdentities")),
}


def get_member_id(member: Member) -> str:
    return "-".join((_KINDS[member.arm_id], *member.path))


def test_every_member_of_an_update_has_a_case() -> None:
    """Tags are free names, so one of them stands for all."""
    sendable = {
        (kind, path)
        for (method, kind), model in REQUESTS.items()
        if method == "PATCH"
        for path in list_member_paths(model)
    }
    tested = {
        (_KINDS[member.arm_id], ("tags",) if member.path[0] == "tags" else member.path)
        for member in MEMBERS
    }
    assert tested == sendable - REJECTED


class Race:
    """One member of a site, with the commands of a user and another client."""

    def __init__(self, member: Member, site: Site, run: CommandRunner) -> None:
        self.member = member
        self.site = site
        self.run = run
        self.start, self.target, self.other = member.values

    def change_by_other_client(self) -> None:
        self.set_value(self.other)

    def set_value(self, value: Any) -> None:
        """Set the member in Azure, as another client does."""
        body = self.site.resources[self.member.arm_id.lower()]
        *parents, name = self.member.path
        part = body
        for parent in parents:
            part = part.setdefault(parent, {})
        part[name] = copy.deepcopy(value)
        if "kubernetesClusters" in self.member.arm_id:
            self.site.adjust_nodes(CLUSTER_ID)
        touch(self.site, self.member.arm_id)

    @property
    def value(self) -> Any:
        value: Any = self.site.resources[self.member.arm_id.lower()]
        for name in self.member.path:
            value = value.get(name, {})
        return value

    def configure(self, value: Any) -> None:
        configuration = self.member.configuration(value)
        name = "race.nf.hcl" if self.member.arm_id == VM_ID else "race_override.nf.hcl"
        Path(name).write_text(configuration)

    def converge(self) -> None:
        """Plan again and apply: Azure has the planned value, and nothing is left to change.

        A Kubernetes version that another client upgraded further is kept.
        """
        if self.member.argument == "kubernetes_version":
            assert self.run("plan") == 1
            assert f"Keep {self.other}" in self.run.said
            self.target = self.other
            self.configure(self.target)
        assert self.run("apply", "-auto-approve") == 0, self.run.said
        assert self.value == self.target
        assert self.run("plan", "-detailed-exitcode") == 0, self.run.said


def touch(site: Site, arm_id: str) -> None:
    """Record another version of a resource, by another client."""
    site.etags += 1
    body = site.resources[arm_id.lower()]
    body["etag"] = f"e{site.etags}"
    body["systemData"] = {**body["systemData"], **ALICE}


@pytest.fixture
def race(nexusform: CommandRunner, server: ArmServer, request: pytest.FixtureRequest) -> Race:
    """Apply the start value of a member, and plan its target."""
    member = request.param
    key = get_member_id(member)
    prepare_situation(key, server, partial(apply_start_value, member, nexusform))
    race = Race(member, server.site, nexusform)
    server.site.taken.clear()
    race.configure(race.target)
    return race


def apply_start_value(member: Member, run: CommandRunner) -> None:
    vm = {
        "clusterId": NEXUS,
        "provisioningState": "Succeeded",
        "cpuCores": 4,
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 8,
        "storageProfile": {"osDisk": {"diskSizeGB": 64}},
        "bareMetalMachineId": build_machine_id("m5"),
    }
    if member.arm_id == VM_ID:
        body = {"extendedLocation": LOCATION, "location": "eastus", "properties": vm}
        run.server.site.put(VM_ID, body)
    race = Race(member, run.server.site, run)
    race.set_value(race.start)
    race.configure(race.start)
    assert run("apply", "-auto-approve") == 0, run.said
    assert run("plan", "-detailed-exitcode") == 0, run.said


GAPS = ("before-plan", "before-apply", "before-write", "after-write")


def select_races(gap: str) -> list[Any]:
    """Return each member in one of the gaps; with all cases tried, in each gap."""
    number = GAPS.index(gap)
    return [
        pytest.param(member, id=get_member_id(member))
        for row, member in enumerate(MEMBERS)
        if tries_all() or row % len(GAPS) == number
    ]


@pytest.mark.parametrize("race", select_races("before-plan"), indirect=True)
def test_value_before_the_plan_is_shown_and_replaced(race: Race) -> None:
    race.change_by_other_client()
    if race.member.argument == "kubernetes_version":
        race.converge()
        return
    assert race.run("plan", "-out=p") == 0, race.run.said
    is_shown = not isinstance(race.other, list) and CREDENTIALS not in race.member.path
    assert (str(race.other) in race.run.said) is is_shown, race.run.said
    assert race.run("apply", "p") == 0, race.run.said
    assert race.value == race.target
    assert race.run("plan", "-detailed-exitcode") == 0, race.run.said


@pytest.mark.parametrize("race", select_races("before-apply"), indirect=True)
def test_value_changed_after_the_plan_is_kept(race: Race) -> None:
    assert race.run("plan", "-out=p") == 0, race.run.said
    race.change_by_other_client()
    assert race.run("apply", "p") == 1, race.run.said
    assert race.site.taken == []
    # Before the first write, the steps are replayed on the site: the effect is another one.
    if "Consequence not approved" not in race.run.said:
        assert f"{race.member.sentence} Plan again." in race.run.said, race.run.said
        assert "alice@contoso.com at 2026-05-01T08:00:00Z" in race.run.said
    assert race.value == race.other
    race.converge()


@pytest.mark.parametrize("race", select_races("before-write"), indirect=True)
def test_value_changed_before_the_write_is_kept(race: Race) -> None:
    """Azure answers 412. The changed value is compared, and the request is not sent again."""
    written: list[str] = []

    def change_once(path: str) -> None:
        if path.lower() == race.member.arm_id.lower() and not written:
            written.append(path)
            race.change_by_other_client()

    race.site.before_change = change_once
    assert race.run("plan", "-out=p") == 0, race.run.said
    assert race.run("apply", "p") == 1, race.run.said
    assert written
    assert race.site.taken == []
    assert f"{race.member.sentence} Plan again." in race.run.said, race.run.said
    assert race.value == race.other
    race.converge()


@pytest.mark.parametrize("race", select_races("before-write"), indirect=True)
def test_unchanged_value_of_another_version_is_replaced(race: Race) -> None:
    """Azure answers 412 for a new etag. With the start value the request is sent again."""
    written: list[str] = []

    def change_once(path: str) -> None:
        if not written:
            written.append(path)
            touch(race.site, race.member.arm_id)

    race.site.before_change = change_once
    assert race.run("apply", "-auto-approve") == 0, race.run.said
    assert written
    assert race.value == race.target


@pytest.mark.parametrize("race", select_races("after-write"), indirect=True)
def test_value_changed_after_the_write_is_reported(race: Race) -> None:
    changed: list[str] = []

    def change_once(path: str) -> None:
        if path.lower() == race.member.arm_id.lower() and not changed:
            changed.append(path)
            race.change_by_other_client()

    race.site.after_change = change_once
    assert race.run("plan", "-out=p") == 0, race.run.said
    assert race.run("apply", "p") == 1, race.run.said
    assert changed
    assert len(race.site.taken) == 1
    is_shown = not isinstance(race.other, list) and CREDENTIALS not in race.member.path
    assert (str(race.other) in race.run.said) is is_shown, race.run.said
    assert race.member.argument or "this apply requested" in race.run.said or not is_shown
    if race.member.argument in ("count", "max_surge", "max_unavailable", "drain_timeout"):
        assert "now: changed by others." in race.run.said, race.run.said
    assert race.value == race.other
    race.converge()


# --- several requests of one step ----------------------------------------------------------------

LATER_POOL_ID = f"{CLUSTER_ID}/agentPools/zz"
LATER_POOL = """  agent_pool "zz" {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
# A step of a VM has one request.
CLUSTER_MEMBERS = [member for member in MEMBERS if member.arm_id != VM_ID]
# Before the second request of a step, and during its operation.
REQUEST_GAPS = ("before", "during")


def list_request_gaps() -> list[Any]:
    """Return each member in each gap between two requests; else each member in one of them."""
    return [
        pytest.param(member, gap, id=f"{get_member_id(member)}-{gap}")
        for row, member in enumerate(CLUSTER_MEMBERS)
        for column, gap in enumerate(REQUEST_GAPS)
        if tries_all() or row % len(REQUEST_GAPS) == column
    ]


@pytest.mark.parametrize(("race", "gap"), list_request_gaps(), indirect=["race"])
def test_value_changed_between_two_requests_stops_the_step(
    race: Race, server: ArmServer, gap: str
) -> None:
    """The step changes a member, then creates a pool."""
    path = Path("race_override.nf.hcl")
    path.write_text(path.read_text().rstrip().removesuffix("}") + LATER_POOL)
    changed: list[str] = []

    def change_before(_number: int, after: bool) -> None:
        """Change the member once the later pool is read, before it is created."""
        is_read = bool(race.site.asked) and race.site.asked[-1][1].lower() == LATER_POOL_ID.lower()
        if race.value == race.target and is_read and not after and not changed:
            changed.append(gap)
            race.change_by_other_client()

    def change_during(written: str) -> None:
        if written.lower() == LATER_POOL_ID.lower() and not changed:
            changed.append(gap)
            race.change_by_other_client()

    if gap == "before":
        server.at_request = change_before
    else:
        race.site.before_change = change_during
    assert race.run("plan", "-out=p") == 0, race.run.said
    assert race.run("apply", "-parallelism=1", "p") == 1, race.run.said
    assert changed
    assert (LATER_POOL_ID.lower() in race.site.resources) == (gap == "during")
    title = race.member.sentence.partition(" has ")[0]
    assert f"{title} has " in race.run.said, race.run.said
    assert "Plan again." in race.run.said, race.run.said
    is_shown = not isinstance(race.other, list)
    assert (f"{race.other}" in race.run.said) or not is_shown
    assert race.value == race.other
    race.site.before_change = lambda _path: None
    server.at_request = lambda _number, _after: None
    if race.member.argument == "kubernetes_version":
        return
    race.converge()


def test_deleted_pool_created_again_stops_the_step(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    """The step deletes a pool, then creates another one. Others make the deleted one again."""
    site = server.site
    Path("race_override.nf.hcl").write_text(WITHOUT_POOL.rstrip().removesuffix("}") + LATER_POOL)
    body = copy.deepcopy(site.resources[POOL_ID.lower()])

    def create_again(_number: int, after: bool) -> None:
        is_read = bool(site.asked) and site.asked[-1][1].lower() == LATER_POOL_ID.lower()
        if ("DELETE", POOL_ID) in site.taken and is_read and not after:
            site.resources.setdefault(POOL_ID.lower(), body)

    server.at_request = create_again
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    assert nexusform("apply", "-parallelism=1", "p") == 1, nexusform.said
    assert site.taken == [("DELETE", POOL_ID)]
    sentence = "c/web was created again in Azure after this apply deleted it. Plan again."
    assert sentence in nexusform.said, nexusform.said
    server.at_request = lambda _number, _after: None
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert POOL_ID.lower() not in site.resources
    assert LATER_POOL_ID.lower() in site.resources


# --- deletions -----------------------------------------------------------------------------------


def scale_pool(site: Site) -> None:
    site.resources[POOL_ID.lower()]["properties"]["count"] = 5
    site.adjust_nodes(CLUSTER_ID)
    touch(site, POOL_ID)


def add_pool(site: Site) -> None:
    """Add a pool; it changes the version of its cluster."""
    pool = {"count": 3, "vmSkuName": "NC_P22_112_v1", "mode": "User"}
    site.put(f"{CLUSTER_ID}/agentPools/new", {"location": "eastus", "properties": pool})
    site.adjust_nodes(CLUSTER_ID)
    touch(site, CLUSTER_ID)


def scale_control_plane(site: Site) -> None:
    site.resources[CLUSTER_ID.lower()]["properties"]["controlPlaneNodeConfiguration"]["count"] = 3
    site.adjust_nodes(CLUSTER_ID)
    touch(site, CLUSTER_ID)


def build_recreation(arm_id: str) -> Callable[[Site], None]:
    """Return a change: the resource was deleted, and another one has its name."""

    def recreate(site: Site) -> None:
        body = site.resources[arm_id.lower()]
        body["systemData"] = {**body["systemData"], "createdAt": "2026-05-01T08:00:00Z"}
        touch(site, arm_id)

    return recreate


WITHOUT_POOL = format_cluster().partition('  agent_pool "web"')[0] + "}\n"
RECREATED_POOL = format_cluster(
    pool="""count = 2
    labels = { tier = "web" }
    upgrade_settings {
      max_unavailable = "100%"
    }"""
)
CREATED_AGAIN = "was created again in Azure at 2026-05-01T08:00:00Z; the plan started from the one"
SCALED_POOL = "c/web has 5 nodes in Azure; the plan started from 2."
DELETIONS = {
    "pool-scaled": (WITHOUT_POOL, POOL_ID, scale_pool, SCALED_POOL),
    "pool-created-again": (
        WITHOUT_POOL,
        POOL_ID,
        build_recreation(POOL_ID),
        f"c/web {CREATED_AGAIN}",
    ),
    "re-created-pool-scaled": (RECREATED_POOL, POOL_ID, scale_pool, SCALED_POOL),
    "re-created-pool-created-again": (
        RECREATED_POOL,
        POOL_ID,
        build_recreation(POOL_ID),
        f"c/web {CREATED_AGAIN}",
    ),
    "cluster-pool-scaled": ("", CLUSTER_ID, scale_pool, SCALED_POOL),
    "cluster-pool-added": (
        "",
        CLUSTER_ID,
        add_pool,
        "c/new has 3 nodes in Azure; the plan started from none.",
    ),
    "cluster-scaled": (
        "",
        CLUSTER_ID,
        scale_control_plane,
        "c has 3 control plane nodes in Azure; the plan started from 1.",
    ),
    "cluster-created-again": ("", CLUSTER_ID, build_recreation(CLUSTER_ID), f"c {CREATED_AGAIN}"),
}


@pytest.mark.parametrize("name", DELETIONS)
@pytest.mark.parametrize("gap", ["before-apply", "before-write"])
def test_changed_object_is_not_deleted(
    name: str, gap: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    """A deletion removes only what the plan shows; the new plan shows the rest."""
    configuration, arm_id, change, sentence = DELETIONS[name]
    # A pool has its own version: only its cluster's version protects a cluster.
    if gap == "before-write" and name == "cluster-pool-scaled":
        touched = change

        def change(site: Site) -> None:
            touched(site)
            touch(site, CLUSTER_ID)

    options: tuple[str, ...] = ()
    if configuration:
        Path("race_override.nf.hcl").write_text(configuration)
    else:
        options = ("-destroy", "-target=nexus_kubernetes_cluster.c")
    site = server.site
    changed: list[str] = []

    def change_once(path: str) -> None:
        if path.lower() == arm_id.lower() and not changed:
            changed.append(path)
            change(site)

    assert nexusform("plan", "-out=p", *options) == 0, nexusform.said
    if gap == "before-apply":
        change_once(arm_id)
    else:
        site.before_change = change_once
    assert nexusform("apply", "p") == 1, nexusform.said
    assert changed
    assert site.taken == []
    is_other_effect = gap == "before-apply" and "Consequence not approved" in nexusform.said
    assert sentence in nexusform.said or is_other_effect, nexusform.said
    assert "Plan again." in nexusform.said
    assert nexusform("apply", "-auto-approve", *options) == 0, nexusform.said
    assert site.taken[0] == ("DELETE", arm_id)


def test_vm_created_again_is_not_deleted(nexusform: CommandRunner, server: ArmServer) -> None:
    vm = {
        "clusterId": NEXUS,
        "provisioningState": "Succeeded",
        "cpuCores": 4,
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 8,
        "storageProfile": {"osDisk": {"diskSizeGB": 64}},
        "bareMetalMachineId": build_machine_id("m5"),
    }
    site = server.site
    site.put(VM_ID, {"extendedLocation": LOCATION, "location": "eastus", "properties": vm})
    Path("vm.nf.hcl").write_text(format_vm(""))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    Path("vm.nf.hcl").unlink()
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    build_recreation(VM_ID)(site)
    assert nexusform("apply", "p") == 1, nexusform.said
    assert site.taken == []
    assert f"v {CREATED_AGAIN}" in nexusform.said, nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert site.taken == [("DELETE", VM_ID)]


# --- actions on machines -------------------------------------------------------------------------


def set_machine(name: str, value: str) -> Callable[[Site], None]:
    def change(site: Site) -> None:
        site.resources[MACHINE_ID.lower()]["properties"][name] = value

    return change


def run_action(site: Site) -> None:
    """Show a run of an action of another client, which has ended."""
    run = {
        "actionType": "Microsoft.NetworkCloud/bareMetalMachines/reimage/action",
        "startTime": "2026-05-01T08:00:00Z",
        "status": "Completed",
    }
    properties = site.resources[MACHINE_ID.lower()]["properties"]
    properties["actionStates"] = [*(properties.get("actionStates") or ()), run]


ACTIONS = {
    "cordon": 'resource "nexus_bare_metal_machine" "m6" {\n  cordoned = true\n}\n',
    **{
        action: f"""resource "nexus_bare_metal_machine_action" "x" {{
  provider   = azure
  machine_id = "lab/r2/m6"
  action     = "{action}"
}}
"""
        for action in ("Cordon", "PowerOff", "Restart", "Reimage", "Replace")
    },
}
MACHINE_CHANGES = {
    "cordonStatus": (
        set_machine("cordonStatus", "Cordoned"),
        "m6 has cordon status Cordoned in Azure; the plan started from Uncordoned.",
    ),
    "powerState": (
        set_machine("powerState", "Off"),
        "m6 has power state Off in Azure; the plan started from On.",
    ),
    "action": (run_action, "m6 has newest action reimage at 2026-05-01T08:00:00Z in Azure"),
}


def test_every_action_has_a_case() -> None:
    sendable = {kind for method, kind in (*REQUESTS, *WITHOUT_BODY) if method == "POST"}
    # Uncordon has a test of its own; nexusform never starts a machine.
    assert {action.lower() for action in ACTIONS} == sendable - {"uncordon", "start"}


@pytest.mark.parametrize("member", MACHINE_CHANGES)
@pytest.mark.parametrize("action", ACTIONS)
def test_action_is_not_sent_to_a_changed_machine(
    action: str, member: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    """An action that Azure shows as done already is not sent, and is no error."""
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    name = "race_override.nf.hcl" if action == "cordon" else "race.nf.hcl"
    Path(name).write_text(ACTIONS[action])
    change, sentence = MACHINE_CHANGES[member]
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    change(server.site)
    is_done = (action.lower(), member) in {("cordon", "cordonStatus"), ("poweroff", "powerState")}
    assert nexusform("apply", "p") == int(not is_done), nexusform.said
    assert server.site.taken == []
    assert is_done or sentence in nexusform.said, nexusform.said
    assert is_done or "Plan again." in nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert is_done or len(server.site.taken) == 1
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_own_action_of_the_same_kind_is_no_action_of_others() -> None:
    record = build_machine_record({"properties": {"cordonStatus": "Uncordoned"}}, ["cordon"] * 2)
    effects = {"cordon": {"cordonStatus": "Cordoned"}}
    start = build_machine_start(record, "cordon", effects)
    assert start.own_actions == {"cordon"}
    assert start.accepted["properties", "cordonStatus"] == ("Uncordoned", "Cordoned")
    assert not build_machine_start({**record, "own_actions": ["cordon"]}, "cordon", {}).own_actions


@pytest.mark.parametrize("action", ACTIONS)
def test_machine_action_without_refresh_is_rejected_by_the_plan(
    nexusform: CommandRunner, server: ArmServer, action: str
) -> None:
    """Not in the middle of an apply: earlier steps, such as a cordon, would be made already."""
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    name = "race_override.nf.hcl" if action == "cordon" else "race.nf.hcl"
    Path(name).write_text(ACTIONS[action])
    assert nexusform("plan", "-refresh=false", "-out=p") == 1, nexusform.said
    assert "-refresh=false cannot be used with machine actions" in nexusform.said, nexusform.said
    assert nexusform("apply", "-auto-approve", "-refresh=false") == 1, nexusform.said
    assert server.site.taken == []


def test_uncordon_without_refresh_is_rejected_by_the_plan(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    Path("race_override.nf.hcl").write_text(ACTIONS["cordon"])
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    Path("race_override.nf.hcl").write_text(ACTIONS["cordon"].replace("true", "false"))
    assert nexusform("plan", "-refresh=false") == 1, nexusform.said
    assert "uncordon lab/r2/m6: an action depends on" in nexusform.said, nexusform.said
    assert nexusform("plan") == 0, nexusform.said
    assert len(server.site.taken) == 1


def test_uncordon_is_not_sent_after_an_action_of_another_client(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n"))
    Path("race_override.nf.hcl").write_text(ACTIONS["cordon"])
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    server.site.taken.clear()
    Path("race_override.nf.hcl").write_text(ACTIONS["cordon"].replace("true", "false"))
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    run_action(server.site)
    assert nexusform("apply", "p") == 1, nexusform.said
    assert server.site.taken == []
    assert "m6 has newest action reimage at 2026-05-01T08:00:00Z" in nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert [path for _, path in server.site.taken] == [f"{MACHINE_ID}/uncordon"]


# --- other starts --------------------------------------------------------------------------------


def write_tags(**tags: str) -> None:
    block = f"azure {{\n    body = {{ tags = {json.dumps(tags)} }}\n  }}"
    Path("race_override.nf.hcl").write_text(format_cluster(block))


def set_tags(site: Site, **tags: str) -> None:
    site.resources[CLUSTER_ID.lower()]["tags"] = tags
    touch(site, CLUSTER_ID)


def get_tags(site: Site) -> Body:
    return dict(site.resources[CLUSTER_ID.lower()]["tags"])


def test_unchanged_tag_keeps_the_value_of_another_client(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_tags(owner="a", tier="gold")
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    write_tags(owner="b", tier="gold")
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    set_tags(server.site, owner="a", tier="lead", cost="7")
    assert nexusform("apply", "p") == 0, nexusform.said
    assert get_tags(server.site) == {"owner": "b", "tier": "lead", "cost": "7"}


def test_names_of_tags_have_no_case(nexusform: CommandRunner, server: ArmServer) -> None:
    write_tags(owner="a", tier="gold")
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    server.site.taken.clear()
    # The same tags in another case are no change.
    write_tags(Owner="a", tier="gold")
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.site.taken == []
    write_tags(Owner="a")
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    set_tags(server.site, owner="a", TIER="lead")
    assert nexusform("apply", "p") == 1, nexusform.said
    sentence = 'c has tag tier "lead" in Azure; the plan started from "gold". Plan again.'
    assert sentence in nexusform.said, nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert get_tags(server.site) == {"owner": "a"}
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_value_that_no_state_records_is_shown_by_the_plan(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    """After an import the state has no tags. The plan reads them, and shows what apply replaces."""
    set_tags(server.site, owner="x", tier="gold")
    write_tags(owner="b", tier="gold")
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    assert 'tag owner "x" of c (apply sets "b")' in nexusform.said, nexusform.said
    assert "tier" not in nexusform.said.partition("Azure has other values")[2]
    set_tags(server.site, owner="y", tier="gold")
    assert nexusform("apply", "p") == 1, nexusform.said
    sentence = 'c has tag owner "y" in Azure; the plan started from "x". Plan again.'
    assert sentence in nexusform.said, nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert get_tags(server.site) == {"owner": "b", "tier": "gold"}


@pytest.mark.usefixtures("server")
def test_unreadable_start_values_do_not_end_the_validation(
    nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tags(owner="b")
    collect = AzureSiteProvider.collect_start_values
    requests_by_call: list[int] = []

    def fail_first(provider: AzureSiteProvider, requests: Any) -> Any:
        requests_by_call.append(len(requests))
        if len(requests_by_call) == 1:
            raise ProviderProblem("Azure does not answer.")
        return collect(provider, requests)

    monkeypatch.setattr(AzureSiteProvider, "collect_start_values", fail_first)
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    # Once for the validation, once for the plan.
    assert len(requests_by_call) == 2


def test_tag_that_is_set_again_names_azure_policy() -> None:
    target = ArmTarget("kubernetes_clusters", "tenants", ("c",))
    change = ArmChange(ArmOperation.UPDATE, target, body={"tags": {"owner": "b"}})
    difference = find_result_difference(change, {"tags": {"owner": "policy"}})
    assert 'c has tag owner "policy" in Azure; this apply requested "b". Plan again.' in difference
    assert difference.endswith("Then configure the value of the policy.")


@pytest.mark.parametrize("tag", ["x", ""])
def test_unknown_start_value_is_not_replaced(
    tag: str, nexusform: CommandRunner, server: ArmServer
) -> None:
    """With -refresh=false the plan reads nothing; without a record no tag is replaced."""
    set_tags(server.site, **({"owner": tag} if tag else {}))
    write_tags(owner="b")
    assert nexusform("apply", "-auto-approve", "-refresh=false") == 1, nexusform.said
    assert server.site.taken == []
    fact = 'tag owner "x"' if tag else "no tag owner"
    assert f"c has {fact} in Azure; the plan did not read it. Plan again." in nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert get_tags(server.site) == {"owner": "b"}


def test_plan_without_refresh_starts_from_the_state(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    scale_pool(server.site)
    Path("race_override.nf.hcl").write_text(format_cluster(pool="count = 3"))
    assert nexusform("apply", "-auto-approve", "-refresh=false") == 1, nexusform.said
    assert server.site.taken == []
    assert f"{SCALED_POOL} Plan again." in nexusform.said, nexusform.said


def test_value_of_a_failed_change_is_compared_before_its_repetition(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("race_override.nf.hcl").write_text(format_cluster(pool="count = 3"))
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1, nexusform.said
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    server.site.taken.clear()
    scale_pool(server.site)
    assert nexusform("apply", "p") == 1, nexusform.said
    assert server.site.taken == []
    assert "c/web has 5 nodes in Azure; the plan started from 3. Plan again." in nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.site.properties(POOL_ID)["count"] == 3


@pytest.mark.parametrize("is_accepted", [True, False], ids=["accepted", "lost"])
def test_resumed_step_compares_with_its_intent(
    is_accepted: bool, nexusform: CommandRunner, server: ArmServer
) -> None:
    """The journal has the start values, so a resumed step sends nothing over another value."""
    site = server.site
    Path("race_override.nf.hcl").write_text(format_cluster(pool="count = 3"))

    def break_connection(_path: str) -> None:
        # The running request has these faults already.
        site.faults.leaves = is_accepted
        site.faults.lost = int(not is_accepted)
        site.faults.gone = not is_accepted

    site.before_change = break_connection
    assert nexusform("apply", "-auto-approve") == 1, nexusform.said
    assert len(site.taken) == int(is_accepted)
    site.before_change = lambda _path: None
    site.faults = Faults()
    for operation in site.operations.values():
        if not operation.over:
            site.end(operation)
    scale_pool(site)
    assert nexusform("apply", "-resume") == 1, nexusform.said
    assert len(site.taken) == int(is_accepted)
    assert "5" in nexusform.said
    assert "Plan again." in nexusform.said or "was planned as 3" in nexusform.said, nexusform.said
    assert site.properties(POOL_ID)["count"] == 5
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert site.properties(POOL_ID)["count"] == 3


def test_operation_of_another_client_is_awaited_and_compared(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    """Azure answers 409 while another client scales the pool."""
    site = server.site
    Path("race_override.nf.hcl").write_text(format_cluster(pool="count = 3"))
    started: list[str] = []

    def start_operation(path: str) -> None:
        if not started:
            started.append(path)
            site.change("PATCH", POOL_ID, {"properties": {"count": 5}})

    site.before_change = start_operation
    site.faults = Faults(polls=2)
    assert nexusform("apply", "-auto-approve") == 1, nexusform.said
    assert len(site.taken) == 1, "only that of the other client"
    assert f"{SCALED_POOL} Plan again." in nexusform.said, nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert site.properties(POOL_ID)["count"] == 3


def test_value_that_is_reached_already_is_not_sent(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    Path("race_override.nf.hcl").write_text(format_cluster(pool="count = 5"))
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    scale_pool(server.site)
    assert nexusform("apply", "p") == 0, nexusform.said
    assert server.site.taken == []
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_difference_of_a_sensitive_object_has_no_values(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_tags(owner="a")
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    server.site.taken.clear()
    Path("key.nf.hcl").write_text(
        'variable "owner" {\n  sensitive = true\n  default   = "s3cr3t"\n}\n'
    )
    block = "azure {\n    body = { tags = { owner = var.owner } }\n  }"
    Path("race_override.nf.hcl").write_text(format_cluster(block))
    assert nexusform("plan", "-out=p") == 0, nexusform.said
    set_tags(server.site, owner="hidden")
    assert nexusform("apply", "p") == 1, nexusform.said
    assert server.site.taken == []
    sentence = "c has another tag owner in Azure than the plan started from. Plan again."
    assert sentence in nexusform.said, nexusform.said
    assert "hidden" not in nexusform.said.replace("is hidden", "")
