"""Values that Heat, Neutron and Nova fill in, and requests that they refuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.importers.hot_defaults import SCHEMA_DEFAULTS
from nexusform.domains.vnf.importers.hot_devices import find_refusal, get_boot_index, get_source
from nexusform.domains.vnf.importers.hot_fields import read_heat_schema
from nexusform.domains.vnf.importers.hot_values import is_intrinsic_function
from tests.domains.openstack.test_arrival_orders import (
    build_inventory,
    plan_hosts,
    read_plan,
    work_directory,  # noqa: F401 - a fixture
    write_site,
    write_template,
)

pytestmark = pytest.mark.of_domains("openstack", "vnf")

HEAT = shutil.which(os.environ.get("NEXUSFORM_HEAT", ""))
MISSING_HEAT = (
    "Heat is not installed (pip install openstack-heat==27.0.1 into an environment of its own, "
    "NEXUSFORM_HEAT=its python)"
)
needs_heat = pytest.mark.skipif(HEAT is None, reason=MISSING_HEAT)
PACKAGING = Path(__file__).parents[3] / "packaging"
DEVICES: list[dict[str, Any]] = [
    {"volume_id": "v"},
    {"snapshot_id": "s"},
    {"image": "i", "volume_size": 10},
    {"volume_id": "v", "boot_index": 1},
    {"volume_id": "v", "boot_index": -1},
    {"volume_id": "v", "boot_index": 0},
    {"swap_size": 512},
    {"ephemeral_size": 5},
    {"ephemeral_format": "ext4"},
]
BUILD_DEVICES = """
import json, sys
from heat.engine.resources.openstack.nova.server import Server
devices = json.load(sys.stdin)
answers = [Server._build_block_device_mapping_v2([device])[0] for device in devices]
json.dump([answer["boot_index"] for answer in answers], sys.stdout)
"""


def run_heat(*words: str, text: str = "") -> Any:
    assert HEAT is not None
    program = [HEAT, "-W", "ignore", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        program, input=text, capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(result.stdout)


def test_each_default_of_heat_is_sorted() -> None:
    """A default that is new in Heat is read, or has a reason why it is not."""
    defaults = read_heat_schema()["defaults"]
    assert {name: set(paths) for name, paths in defaults.items()} == {
        name: set(paths) for name, paths in SCHEMA_DEFAULTS.items()
    }


@needs_heat
def test_asset_is_that_of_heat() -> None:
    assert run_heat(str(PACKAGING / "heat_fields.py")) == read_heat_schema()


@needs_heat
def test_boot_indexes_are_those_of_heat() -> None:
    answers = run_heat("-c", BUILD_DEVICES, text=json.dumps(DEVICES))
    assert [get_boot_index(device) for device in DEVICES] == answers


def test_sources_follow_the_order_of_heat() -> None:
    assert get_source({"image": "i", "volume_id": "v"}) == "volume_id"
    assert get_source({"boot_index": 0}) == ""


@pytest.mark.parametrize(
    ("devices", "has_image", "reason"),
    [
        ([{"volume_id": "v"}], False, ""),
        ([{"volume_id": "v", "boot_index": -1}], True, ""),
        ([{"volume_id": "v"}, {"volume_id": "w", "boot_index": 1}], False, ""),
        ([{"volume_id": "v"}, {"snapshot_id": "w"}], False, "Multiple bootable"),
        ([{"volume_id": "v"}], True, "Multiple bootable"),
        ([{"volume_id": "v", "boot_index": 1}], False, "Neither image nor bootable"),
        ([{"swap_size": 1}], False, "Neither image nor bootable"),
        ([{"volume_id": "v", "boot_index": 2}], True, "Boot sequence"),
        ([{"image": "i"}], False, "non-zero size"),
        ([{"volume_id": "v", "swap_size": 0}], True, "at the same time"),
        ([{"device_name": "vda"}], True, "at the same time"),
        ([{"swap_size": 1}, {"swap_size": 2}], True, "More than one swap"),
    ],
)
def test_refused_devices(devices: list[Mapping[str, Any]], has_image: bool, reason: str) -> None:
    refusal = find_refusal(devices, has_image=has_image)
    assert (reason in refusal) if reason else refusal == ""


@pytest.mark.parametrize(
    "source", [{"volume_id": "v"}, {"snapshot_id": "s"}, {"image": "plain", "volume_size": 40}]
)
def test_volume_without_an_index_is_the_root_disk(source: Mapping[str, Any]) -> None:
    """Without the root disk on its host, the server fits on the host with little disk."""
    inventory = build_inventory({"c1": 64, "c2": 60})
    inventory["hosts"]["c1"]["resources"]["DISK_GB"]["total"] = 10
    inventory["hosts"]["c1"]["resources"]["DISK_GB"]["max_unit"] = 10
    inventory["hosts"]["c2"]["resources"]["DISK_GB"]["total"] = 11
    inventory["hosts"]["c2"]["resources"]["DISK_GB"]["max_unit"] = 11
    write_site(inventory=inventory)
    write_template(a={"flavor": "big", "image": None, "block_device_mapping_v2": [source]})
    Path("main.nf.hcl").write_text(
        Path("main.nf.hcl")
        .read_text()
        .replace("base_hot", 'vdu "a" { image = "plain" }\n  base_hot')
    )
    assert {host for host, _ in plan_hosts().values()} <= {"c1", "c2"}


def add_vdu(arguments: str) -> None:
    """Add a block for the VDU "a"."""
    path = Path("main.nf.hcl")
    block = f'vdu "a" {{\n {arguments}\n }}'
    path.write_text(path.read_text().replace("base_hot", f"{block}\n  base_hot"))


def plan_error(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run_command_line(["plan"]) == 1
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).replace("│", " ").split())


def test_null_image_is_a_second_boot_device(capsys: pytest.CaptureFixture[str]) -> None:
    write_site()
    write_template(
        a={"flavor": "big", "image": "none", "block_device_mapping_v2": [{"image": "i"}]}
    )
    path = Path("v.yaml")
    path.write_text(path.read_text().replace('"none"', "null"))
    assert "Multiple bootable sources" in plan_error(capsys)


def test_two_bootable_sources_do_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    write_site()
    write_template(a={"flavor": "big", "block_device_mapping_v2": [{"volume_id": "v"}]})
    text = plan_error(capsys)
    assert 'the server "a" does not run: Heat answers "Multiple bootable sources' in text


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"min_disk_gib": 21}, "needs 21 GiB of disk (min_disk)"),
        ({"min_ram_mib": 20000}, "needs 20,000 MiB of memory (min_ram)"),
        ({"status": "deactivated"}, 'the image "plain" is deactivated, not active'),
        ({"size": 21 << 30}, "is larger than the root disk"),
        ({"min_disk_gib": 20, "min_ram_mib": 16384, "size": 20 << 30}, ""),
    ],
)
def test_flavor_too_small_for_an_image_does_not_run(
    capsys: pytest.CaptureFixture[str], limits: Mapping[str, Any], reason: str
) -> None:
    inventory = build_inventory() | {"image_limits": {"plain": limits}}
    write_site(inventory=inventory)
    write_template(a={"flavor": "big"})
    if reason:
        text = plan_error(capsys)
        assert "The VM does not run: Nova refuses it because" in text
        assert reason in text
    else:
        assert plan_hosts() == {"v-a-0": ("c1", "")}


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ({"ephemeral_size": 6}, "ephemeral disks of 6 GiB exceed"),
        ({"swap_size": 513}, "swap of 513 MiB exceeds"),
        ({"ephemeral_size": 5}, ""),
        ({"swap_size": 512}, ""),
    ],
)
def test_local_disks_above_the_flavor_do_not_run(
    capsys: pytest.CaptureFixture[str], device: Mapping[str, Any], reason: str
) -> None:
    inventory = build_inventory()
    inventory["flavors"]["big"] |= {"ephemeral_gib": 5, "swap_mib": 512}
    write_site(inventory=inventory)
    write_template(a={"flavor": "big", "block_device_mapping_v2": [device]})
    if reason:
        assert reason in plan_error(capsys)
    else:
        assert plan_hosts() == {"v-a-0": ("c1", "")}


def list_unread(plan: Any) -> list[str]:
    return [fact["field"] for fact in plan["unread"]]


def test_policy_of_a_network_makes_hosts_uncertain() -> None:
    write_site()
    net = {"type": "OS::Neutron::Net", "properties": {"qos_policy": "gold"}}
    port = {"type": "OS::Neutron::Port", "properties": {"network": {"get_resource": "net"}}}
    server = {"flavor": "big", "networks": [{"port": {"get_resource": "port"}}]}
    write_template(net=net, port=port, a=server)
    plan = read_plan()
    assert plan["placement_changes"][0].get("certainty") is None
    assert "qos_policy" in list_unread(plan)
    write_template(net={**net, "properties": {}}, port=port, a=server)
    assert plan_hosts() == {"v-a-0": ("c1", "")}


def test_swap_of_a_flavor_in_the_stack_is_unread() -> None:
    """Placement allocates it, and Nova's weighers do not count it."""
    write_site()
    properties = {"vcpus": 2, "ram": 4096, "disk": 7, "swap": 2048}
    flavor = {"type": "OS::Nova::Flavor", "properties": properties}
    write_template(f=flavor, a={"flavor": {"get_resource": "f"}})
    plan = read_plan()
    assert plan["placement_changes"][0].get("certainty") is None
    assert list_unread(plan) == ["swap"]
    properties["swap"] = 0
    write_template(f=flavor, a={"flavor": {"get_resource": "f"}})
    assert plan_hosts() == {"v-a-0": ("c1", "")}


def test_zone_of_an_aggregate_in_the_stack_is_unread() -> None:
    write_site()
    aggregate = {
        "type": "OS::Nova::HostAggregate",
        "properties": {"name": "gold", "availability_zone": "gold"},
    }
    write_template(aggregate=aggregate, a={"flavor": "big", "availability_zone": "gold"})
    plan = read_plan()
    assert plan["placement_changes"][0].get("certainty") is None
    assert "availability_zone" in list_unread(plan)


def test_server_group_without_a_policy_is_one_of_anti_affinity() -> None:
    write_site(hosts={"c1": 64, "c2": 20})
    group = {"type": "OS::Nova::ServerGroup", "properties": {"name": "g"}}
    hints = {"scheduler_hints": {"group": {"get_resource": "group"}}}
    write_template(group=group, a={"flavor": "small", **hints}, b={"flavor": "small", **hints})
    assert {host for host, _ in plan_hosts().values()} == {"c1", "c2"}


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"hw:cpu_realtime": "yes"}, "hw:cpu_realtime"),
        ({"hw:mem_encryption": "true"}, "hw:mem_encryption"),
        ({"os:secure_boot": "required"}, "os:secure_boot=required"),
        ({"capabilities:cpu_info": "x"}, "capabilities:cpu_info"),
        ({"vcpus_total": ">= 8"}, "vcpus_total"),
    ],
)
def test_property_without_a_predicted_effect_is_uncertain(
    properties: Mapping[str, str], field: str
) -> None:
    inventory = build_inventory()
    inventory["flavors"]["big"]["properties"] = dict(properties)
    write_site(inventory=inventory)
    write_template(a={"flavor": "big"})
    plan = read_plan()
    (row,) = plan["placement_changes"]
    assert row.get("certainty") is None
    assert list_unread(plan) == [field]


def test_advice_about_an_unknown_flavor_does_not_name_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_site()
    write_template(a={"flavor": "huge"})
    add_vdu("vcpus = 4\n memory_gib = 8\n disk_gib = 10")
    assert run_command_line(["plan", "-details"]) in (0, 1)
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).split())
    assert 'set vm_sku_name = "huge"' not in text


LIST_FUNCTIONS = """
import json, sys
from heat.engine.cfn import template as cfn
from heat.engine.hot import template as hot
classes = [item for module in (hot, cfn) for item in vars(module).values()]
tables = [item.functions for item in classes if hasattr(item, "functions")]
tables += [item.condition_functions for item in classes if hasattr(item, "condition_functions")]
names = {name for table in tables for name, kind in table.items() if kind.__name__ != "Removed"}
json.dump(sorted(names), sys.stdout)
"""


@needs_heat
def test_each_function_of_heat_is_no_plain_value() -> None:
    names = run_heat("-c", LIST_FUNCTIONS)
    assert len(names) > 30
    assert [name for name in names if not is_intrinsic_function(name)] == []


def test_old_device_called_vda_is_the_root_disk(capsys: pytest.CaptureFixture[str]) -> None:
    """Nova boots from it even beside an image, and refuses a server without any root disk."""
    inventory = build_inventory({"c1": 64, "c2": 60})
    # Only a server without a disk of its own fits on the first host.
    inventory["hosts"]["c1"]["resources"]["DISK_GB"] |= {"total": 10, "max_unit": 10}
    write_site(inventory=inventory, settings="weight_multipliers = { disk = 0 }")
    add_vdu('image = "plain"')
    for name, host in (("/dev/vda", "c1"), ("vdb", "c2")):
        device = {"device_name": name, "volume_id": "v"}
        write_template(a={"flavor": "big", "block_device_mapping": [device]})
        assert {row["to"]["machine"] for row in read_plan()["placement_changes"]} == {host}
    write_template(a={"flavor": "big", "image": None, "block_device_mapping": [device]})
    assert "does not run: Nova answers 400" in plan_error(capsys)
