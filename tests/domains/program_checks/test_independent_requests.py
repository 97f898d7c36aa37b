"""Tests of the requests behind `plan -check-with=nova`: Heat and Nova's API read them on their own.

The reader of nexusform is broken in each test, and the check must notice it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.openstack.scheduling import nova_profile
from nexusform.domains.program_checks.workflow import nova_check
from nexusform.domains.program_checks.workflow.stack_requests import run_driver
from nexusform.domains.vnf.importers import hot_devices
from nexusform.domains.vnf.types import vnf_documents
from tests.domains.openstack.test_arrival_orders import (
    BIG,
    SMALL,
    build_flavor,
    build_group,
    build_inventory,
    work_directory,  # noqa: F401 - a fixture
    write_template,
)
from tests.domains.openstack.test_nova_decisions import MISSING, NOVA
from tests.domains.vnf.test_heat_defaults import HEAT, MISSING_HEAT

pytestmark = [
    pytest.mark.of_domains("program_checks", "openstack", "vnf"),
    pytest.mark.skipif(
        NOVA is None or HEAT is None, reason=MISSING if NOVA is None else MISSING_HEAT
    ),
]
CHECK = (f"-check-with=nova={NOVA}", f"-check-with=heat={HEAT}")
HINTS = {"scheduler_hints": {"group": {"get_resource": "g"}}}
VNF = """
resource "tacker_vnf" "NAME" {
  site_id    = openstack_site.SITE.id
  base_hot   = file("NAME.yaml")
  depends_on = [AFTER]
}
"""
SITE = """
resource "openstack_site" "NAME" {
  inventory = jsondecode(file("NAME.json"))
}
"""


class Project:
    """Sites with VNFs, planned and checked at once: a check starts two programs."""

    def __init__(self) -> None:
        """Start without sites."""
        self.text = ""

    def add_site(self, name: str, inventory: Mapping[str, Any]) -> None:
        """Add a site."""
        Path(f"{name}.json").write_text(json.dumps(inventory))
        self.text += SITE.replace("NAME", name)

    def add_vnf(self, name: str, site: str, servers: Mapping[str, Any], after: str = "") -> None:
        """Add a VNF of servers, placed after another one."""
        write_template(name, **servers)
        awaited = f"tacker_vnf.{after}" if after else ""
        block = VNF.replace("NAME", name).replace("SITE", site).replace("AFTER", awaited)
        self.text += block

    def plan(self, expected: int = 0) -> Any:
        """Plan with the check, and return the JSON report."""
        Path("main.nf.hcl").write_text(self.text)
        vnf_documents._read_cached.cache_clear()
        words = ["plan", *CHECK, "-samples=2", "-report=json:p.json"]
        assert run_command_line(words) == expected
        return json.loads(Path("p.json").read_text())


def build_server_group(policy: str = "anti-affinity") -> dict[str, Any]:
    return {"type": "OS::Nova::ServerGroup", "properties": {"name": "g", "policies": [policy]}}


def write_stories() -> Project:
    """Write sites with groups, volumes, local disks, zones and an order."""
    project = Project()
    # Two VNFs whose templates name their group g: two groups.
    project.add_site("groups", build_inventory({"c1": 64, "c2": 60}))
    for number, after in (("1", ""), ("2", "v1")):
        servers = {"g": build_server_group(), "a": {**BIG, **HINTS}}
        servers["b"] = {**SMALL, **HINTS, "depends_on": "a"}
        project.add_vnf(f"v{number}", "groups", servers, after)
    # Three members on two hosts.
    project.add_site("soft", build_inventory({"c1": 64, "c2": 60}))
    servers = {"g": build_server_group("soft-anti-affinity")}
    for number, size in enumerate((BIG, SMALL, SMALL)):
        order = {"depends_on": f"m{number - 1}"} if number else {}
        servers[f"m{number}"] = {**size, **HINTS, **order}
    project.add_vnf("soft", "soft", servers)
    # A boot volume leaves the disk of the flavor free, and swap is no disk that Nova weighs.
    inventory = build_inventory({"c1": 64, "c2": 60})
    flavor = inventory["flavors"]["big"]
    flavor |= {"disk_gib": 26, "ephemeral_gib": 5, "swap_mib": 512}
    project.add_site("disks", inventory)
    volume = {"type": "OS::Cinder::Volume", "properties": {"size": 20, "image": "plain"}}
    devices = [{"volume_id": {"get_resource": "volume"}}, {"ephemeral_size": 5}]
    servers = {
        "volume": volume,
        "a": {**BIG, "image": None, "block_device_mapping_v2": devices},
        "b": {**BIG, "depends_on": "a", "block_device_mapping_v2": [{"swap_size": 512}]},
        "c": {**SMALL, "depends_on": "b", "availability_zone": "nova:c2"},
    }
    project.add_vnf("disks", "disks", servers)
    return project


def test_requests_of_heat_have_the_planned_hosts() -> None:
    check = write_stories().plan()["checks_by"][0]
    assert check["differences"] == []
    assert (check["checked"], check["total"]) == (10, 10)


def test_each_other_host_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision with another host in it differs from Nova's, each on its own."""
    documents: list[Any] = []
    build = nova_check._NovaSiteReplay.build_document

    def keep_document(replay: Any) -> Any:
        documents.append(build(replay))
        return documents[-1]

    monkeypatch.setattr(nova_check._NovaSiteReplay, "build_document", keep_document)
    write_stories().plan()
    changed = []
    numbers = []
    for document in documents:
        for number, request in enumerate(document["requests"]):
            other = next(host for host in document["hosts"] if host != request["host"])
            copy = deepcopy(document)
            copy["requests"] = copy["requests"][: number + 1]
            copy["requests"][number]["host"] = other
            changed.append(copy)
            numbers.append(number)
    _, answers, _ = run_driver("nova", str(NOVA), changed, 300)
    assert len(changed) == 10
    for document, number in zip(changed, numbers, strict=True):
        request = document["requests"][number]
        *_, answer = answers[: number + 1]
        del answers[: number + 1]
        assert request["host"] not in answer["hosts"], (request, answer)
        assert answer["case"]["request"]["flavor"]["vcpus"] in (1, 8)


def test_requests_that_nova_refuses_do_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nova's own functions find what a reader without their limits plans."""
    monkeypatch.setattr(hot_devices, "find_refusal", lambda *_arguments, **_options: "")
    monkeypatch.setattr(nova_profile._NovaRules, "find_refusal", lambda *_arguments: "")
    project = Project()
    inventory = build_inventory()
    inventory["flavors"]["big"] |= {"disk_gib": 26, "ephemeral_gib": 5, "swap_mib": 512}
    limits = {
        "disk": {"min_disk_gib": 21},
        "memory": {"min_ram_mib": 20000},
        "gone": {"status": "deactivated"},
        "large": {"size": 21 << 30},
    }
    inventory["images"] |= {name: {} for name in limits}
    inventory["image_limits"] = limits
    project.add_site("o", inventory)
    servers: dict[str, Any] = {name: {**BIG, "image": name} for name in limits}
    for name, device in (
        ("ephemeral", {"ephemeral_size": 6}),
        ("swap", {"swap_size": 513}),
        ("order", {"image": "plain", "volume_size": 10, "boot_index": 2}),
        ("size", {"image": "plain", "boot_index": 1}),
    ):
        servers[name] = {**BIG, "block_device_mapping_v2": [device]}
    project.add_vnf("v", "o", servers)
    check = project.plan(1)["checks_by"][0]
    reasons = {row["object"]: row["refusal"] for row in check["differences"]}
    starts = {
        "disk": "Flavor's disk is smaller than the minimum size specified in image metadata",
        "memory": "Flavor's memory is too small for requested image",
        "gone": "Image gone is not active",
        "large": "Flavor's disk is too small for requested image",
        "ephemeral": "Ephemeral disks requested are larger than the instance type allows",
        "swap": "Swap drive requested is larger than instance type allows",
        "order": "Block Device Mapping is Invalid: Boot sequence for the instance",
        "size": "Images with destination_type 'volume' need to have a non-zero size",
    }
    assert {name.split("-")[1] for name in reasons} == starts.keys()
    for name, start in starts.items():
        assert reasons[f"v-{name}-0"].startswith(start)
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).replace("│", " ").split())
    assert "tacker_vnf.v: v-gone-0 does not run: Image gone is not active (nova 34.0.0)" in text


def test_stack_that_heat_refuses_does_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_devices, "find_refusal", lambda *_arguments, **_options: "")
    project = Project()
    project.add_site("o", build_inventory())
    project.add_vnf("v", "o", {"a": {**BIG, "block_device_mapping_v2": [{"image": "plain"}]}})
    project.plan(1)
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).replace("│", " ").split())
    assert "tacker_vnf.v: the stack does not run: heat 27.0.1: " in text
    assert "Multiple bootable sources for instance a" in text


def test_swap_is_no_disk_that_nova_weighs() -> None:
    """Placement allocates it, and the free disk of a host does not count it."""
    project = Project()
    inventory = build_inventory({"c1": 64, "c2": 64})
    swapping = {**build_flavor(1, 1024, 12), "root_disk_gib": 10, "swap_mib": 2048}
    inventory["flavors"] |= {"swapping": swapping, "plain": build_flavor(1, 1024, 11)}
    project.add_site("o", inventory)
    settings = "weight_multipliers = { cpu = 0, ram = 0, io_ops = 0 }"
    project.text = project.text.replace("inventory =", f"{settings}\n  inventory =")
    servers = {
        "a": {"flavor": "swapping", "availability_zone": "nova:c1"},
        "b": {"flavor": "plain", "availability_zone": "nova:c2", "depends_on": "a"},
        "c": {**SMALL, "depends_on": "b"},
    }
    project.add_vnf("v", "o", servers)
    plan = project.plan()
    assert plan["checks_by"][0]["differences"] == []
    assert [row["to"]["machine"] for row in plan["placement_changes"]] == ["c1", "c2", "c1"]


def test_another_reading_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that ignores boot volumes plans other requests than Heat sends."""
    monkeypatch.setattr(hot_devices, "get_boot_index", lambda _device: -1)
    monkeypatch.setattr(hot_devices, "find_refusal", lambda *_arguments, **_options: "")
    check = write_stories().plan(1)["checks_by"][0]
    (difference,) = check["differences"]
    assert difference["object"] == "servers"
    assert "from volume" in difference["actual"]
    # The VMs of the other VNFs are decided.
    assert check["checked"] == 7


@pytest.mark.parametrize("seed", range(2))
def test_random_stacks(seed: int) -> None:
    """Servers with every kind of root disk, group and order have the planned hosts."""
    draw = Random(seed)
    project = Project()
    for number in range(6):
        hosts = {f"c{host}": draw.randrange(40, 90) for host in range(4)}
        inventory = build_inventory(hosts)
        inventory["flavors"]["big"] |= {"disk_gib": 26, "ephemeral_gib": 5, "swap_mib": 1024}
        inventory["flavors"]["big"]["root_disk_gib"] = 20
        project.add_site(f"s{number}", inventory)
        for vnf in ("a", "b"):
            servers = draw_servers(draw)
            project.add_vnf(f"s{number}{vnf}", f"s{number}", servers)
    check = project.plan()["checks_by"][0]
    assert check["differences"] == []
    assert check["checked"] == check["total"] > 0


def draw_servers(draw: Random) -> dict[str, Any]:
    """Draw the resources of a template."""
    policies = ("anti-affinity", "soft-anti-affinity", "soft-affinity", "affinity")
    volume = {"type": "OS::Cinder::Volume", "properties": {"size": 20, "image": "plain"}}
    flavor = {
        "type": "OS::Nova::Flavor",
        "properties": {"vcpus": 3, "ram": 4096, "disk": 7, "ephemeral": 2},
    }
    servers: dict[str, Any] = {"g": build_server_group(draw.choice(policies)), "f": flavor}
    for number in range(draw.randrange(1, 4)):
        name = f"m{number}"
        server = dict(draw.choice((BIG, SMALL, {"flavor": {"get_resource": "f"}})))
        if draw.random() < 0.5:
            server |= HINTS
        if number and draw.random() < 0.7:
            server["depends_on"] = f"m{number - 1}"
        if draw.random() < 0.3:
            servers[f"volume{number}"] = volume
            devices = [{"volume_id": {"get_resource": f"volume{number}"}}]
            server |= {"image": None, "block_device_mapping_v2": devices}
        elif draw.random() < 0.3:
            devices = [{"image": "plain", "volume_size": 30}]
            server |= {"image": None, "block_device_mapping_v2": devices}
        if draw.random() < 0.2:
            servers[name] = build_group("OS::Heat::ResourceGroup", draw.randrange(1, 3))
        else:
            servers[name] = server
    return servers
