"""Tests of openstack_site: a VNF on compute hosts.

They go from files of the openstack command line to a saved plan.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.openstack.importers.openstack_files import parse_openstack_files
from nexusform.domains.openstack.scheduling.flavor_requests import parse_flavor
from nexusform.domains.openstack.scheduling.hardware_fit import (
    HostCell,
    HostRatios,
    NumaRequest,
    fit_numa_cells,
)
from nexusform.domains.openstack.scheduling.host_usage import UsageTable
from nexusform.domains.openstack.scheduling.nova_host_records import (
    Flavor,
    NovaHost,
    NovaServer,
    build_host,
    build_server,
)
from nexusform.domains.openstack.types.openstack_inventory import OPENSTACK_INVENTORY
from nexusform.schemas.value_types import MapType, ObjectType

pytestmark = pytest.mark.of_domains("vnf")

EXPORT = Path(__file__).parents[3] / "examples" / "every-type" / "documents" / "openstack"
CONFIGURATION = """
data "openstack_inventory" "o" { directory = "export" }
resource "openstack_site" "o" {
  inventory = data.openstack_inventory.o
  SETTINGS
}
resource "tacker_vnf" "v" {
  site_id  = openstack_site.o.id
  base_hot = file("base.yaml")
}
"""
HOT = """heat_template_version: 2018-08-31
resources:
  group:
    type: OS::Nova::ServerGroup
    properties: {name: g, policies: [anti-affinity]}
  worker:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def:
        type: OS::Nova::Server
        properties:
          flavor: worker.large
          image: plain
          scheduler_hints: {group: {get_resource: group}}
"""
HOST_1 = "00000000-0000-4000-8000-000000000001"
SERVER = "5b1c41a6-6b5c-4f7e-9d3e-1f0a3b0c9e01"
FIGURES = ("total", "reserved", "allocation_ratio", "min_unit", "max_unit")
COMPUTE_NODE = {"hypervisor_hostname": "compute01", "pci_stats": None, "supported_instances": "[]"}
NEGATIVE_CELL = {"id": 0, "cpuset": [0], "memory": -1, "host_node": 0, "vcpu_set": [0]}
PLAIN_IMAGE = {"id": "0", "name": "plain", "properties": {}}


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXPORT, "export")
    Path("export/image-0.json").write_text(json.dumps(PLAIN_IMAGE))
    (tmp_path / "base.yaml").write_text(HOT)
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", ""))
    return tmp_path


def write_settings(settings: str) -> None:
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", settings))


def change_row(name: str, row: int, **values: Any) -> None:
    path = Path("export") / f"{name}.json"
    rows = json.loads(path.read_text())
    rows[row] |= values
    path.write_text(json.dumps(rows))


def plan_hosts(capfd: pytest.CaptureFixture[str], *more: str) -> dict[str, str]:
    """Return the host of each VNFC in a saved plan."""
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=5", *more]) == 0
    capfd.readouterr()
    assert run_command_line(["show", "-json", "p.nfplan"]) == 0
    plan = json.loads(capfd.readouterr().out)
    return {row["object"]: row["to"]["machine"] for row in plan["placement_changes"]}


def test_servers_of_a_group_use_hosts_with_most_capacity(capfd: pytest.CaptureFixture[str]) -> None:
    # compute01 already runs a server, so the two empty hosts have the higher weights.
    assert set(plan_hosts(capfd).values()) == {"compute02", "compute03"}


def test_host_with_disabled_service_gets_no_server(capfd: pytest.CaptureFixture[str]) -> None:
    change_row("compute_services", 1, Status="disabled")
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}


def test_empty_list_of_filters_enables_none(capfd: pytest.CaptureFixture[str]) -> None:
    for row in (1, 2):
        change_row("compute_services", row, Status="disabled")
    path = Path("base.yaml")
    path.write_text(path.read_text().replace("count: 2", "count: 1"))
    write_settings("enabled_filters = []")
    # Without ComputeFilter, the empty hosts weigh most.
    assert set(plan_hosts(capfd).values()) < {"compute02", "compute03"}


def test_stacking_multipliers_select_the_fullest_host(capfd: pytest.CaptureFixture[str]) -> None:
    write_settings("weight_multipliers = { ram = -1, cpu = -1, disk = -1, io_ops = 0 }")
    assert "compute01" in plan_hosts(capfd).values()


def test_placements_are_predicted(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    assert run_command_line(["state", "show", "tacker_vnf.v"]) == 0
    text = capfd.readouterr().out
    assert '"predicted"' in text
    assert '"decided"' not in text
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('enabled_filters = ["ComputFilter"]', 'Did you mean "ComputeFilter"?'),
        ("weight_multipliers = { rams = 1 }", '"rams" is not predicted'),
        (
            "weight_multipliers = { soft_affinity = -1 }",
            "Nova accepts no soft_affinity multiplier below 0",
        ),
        ('pci_aliases = { n = { vendorid = "8086" } }', 'Did you mean "vendor_id"?'),
    ],
)
def test_settings_without_prediction_are_rejected(
    settings: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write_settings(settings)
    assert run_command_line(["plan"]) == 1
    assert problem in " ".join(capfd.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("servers", None, "Files are missing. servers.json: openstack server list"),
        ("servers", "{", "servers.json is not JSON"),
        ("servers", "[1]", "servers.json is not a list of objects"),
        ("flavors", '[{"Name": "f"}]', "flavors.json: [0] has no column vcpus"),
        (
            "compute_nodes",
            '[{"hypervisor_hostname": "compute01"}]',
            "compute_nodes.json, compute01: numa_topology: it has no 'numa_topology'",
        ),
        (
            "hypervisor-0",
            '{"hypervisor_version": "6.2"}',
            "hypervisor-0.json, compute01: invalid literal",
        ),
        (
            f"inventory-{HOST_1}",
            json.dumps([dict.fromkeys(FIGURES, 1) | {"resource_class": "VCPU", "step_size": 0}]),
            f"inventory-{HOST_1}.json, VCPU: step_size must be a whole number of at least 1",
        ),
        (
            f"inventory-{HOST_1}",
            json.dumps([dict.fromkeys(FIGURES, 1.5) | {"resource_class": "VCPU", "step_size": 1}]),
            f"inventory-{HOST_1}.json, VCPU: total must be a whole number, not a fraction",
        ),
        (
            "flavors",
            '[{"Name": "f", "VCPUs": -1, "RAM": 1, "Disk": 1}]',
            "flavors.json, f: vcpus must be a whole number of at least 0",
        ),
        (
            "flavors",
            '[{"Name": "f", "VCPUs": 1, "RAM": 1, "Disk": 9, "Ephemeral": -5}]',
            "flavors.json, f: ephemeral_gib must",
        ),
        (
            "compute_nodes",
            json.dumps([COMPUTE_NODE | {"numa_topology": json.dumps({"cells": [NEGATIVE_CELL]})}]),
            "compute01: numa_cells[0].memory_mib must be a whole number of at least 0",
        ),
        (
            f"topology-{SERVER}",
            json.dumps({"topology": {"nodes": [NEGATIVE_CELL | {"memory_mb": -1}]}}),
            "dns: numa_cells[0].memory_mib must be a whole number of at least 0",
        ),
        ("hypervisor-0", "[]", "hypervisor-0.json is not an object: it is a list. Capture"),
        (
            f"topology-{SERVER}",
            '{"topology": "[1]"}',
            f"unexpected value: topology-{SERVER}.json, dns: 'list' object has no attribute",
        ),
        ("servers", "{}", "servers.json is not a list of objects: it is a mapping"),
        ("servers", "null", "servers.json is not a list of objects: it is"),
        ("servers", "[{}]", "servers.json: [0] has no column id. Print it with -f json"),
        ("aggregates", "{}", "aggregates.json is not a list of objects: it is a mapping"),
        ("image-0", "{}", "image-0.json: [0] has no column id"),
        ("image-0", '{"id": "1"}', 'image-0.json is of another object, "1". Capture the files'),
        ("hypervisor-0", '{"id": "1"}', 'hypervisor-0.json is of another object, "1"'),
        (
            "hypervisor-0",
            '{"id": "0", "hypervisor_hostname": "b1", "hypervisor_version": 1}',
            'hypervisor-0.json, compute01: it is of the hypervisor "b1"',
        ),
        (f"topology-{SERVER}", '{"id": "1"}', f"topology-{SERVER}.json is of another object"),
        ("image-0", "[]", "image-0.json is not an object: it is a list"),
        ("server_groups", '[{"ID": "1"}]', "server_groups.json: [0] has no column name"),
        (f"inventory-{HOST_1}", "[{}]", f"inventory-{HOST_1}.json: [0] has no column resource_cl"),
        (
            "compute_nodes",
            '[{"hypervisor_hostname": "compute09", "stats": "{"}]',
            "compute_nodes.json, compute09: Expecting",
        ),
        (
            "compute_nodes",
            json.dumps([COMPUTE_NODE | {"numa_topology": None, "stats": "[1]"}]),
            "compute_nodes.json, compute01: stats is a list, not a mapping",
        ),
        (
            "compute_nodes",
            json.dumps([COMPUTE_NODE | {"numa_topology": None, "stats": {"failed_builds": "-1"}}]),
            "compute01: failed_builds must be a whole number of at least 0",
        ),
        ("hypervisors", "[]", "No compute host has a service and an inventory in Placement"),
    ],
)
def test_damaged_files_are_rejected(
    name: str, text: str | None, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path("export") / f"{name}.json"
    path.unlink() if text is None else path.write_text(text)
    assert run_command_line(["plan"]) == 1
    assert problem in " ".join(capfd.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(("properties", "is_named"), [({}, False), ({"hw:numa_nodes": "1"}, True)])
def test_cells_of_a_running_server_are_unknown_without_its_topology(
    properties: dict[str, str], capfd: pytest.CaptureFixture[str], *, is_named: bool
) -> None:
    change_row("flavors", 0, Properties=properties)
    run_command_line(["plan"])
    assert ("The NUMA cells of dns are unknown" in read_output(capfd)) is is_named


@pytest.mark.parametrize(
    "topology", ['{"topology": {"nodes": []}}', '{"error": "no access"}', "{}"]
)
def test_cells_of_a_server_are_unknown_if_its_topology_has_none(
    topology: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path(f"export/topology-{SERVER}.json").write_text(topology)
    change_row("flavors", 0, Properties={"hw:numa_nodes": "1"})
    run_command_line(["plan"])
    assert "The NUMA cells of dns are unknown" in read_output(capfd)


def test_cells_of_a_server_on_a_volume_are_unknown_without_its_topology(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The image of its volume may request them."""
    change_row("servers", 0, **{"Image ID": "", "Image Name": "N/A (booted from volume)"})
    describe_hosts()
    run_command_line(["plan"])
    assert "The NUMA cells of dns are unknown" in read_output(capfd)
    Path(f"export/topology-{SERVER}.json").write_text('{"topology": {"nodes": []}}')
    run_command_line(["plan"])
    assert "The NUMA cells of dns are unknown" not in read_output(capfd)


def test_allocations_without_a_listed_server_take_capacity(
    capfd: pytest.CaptureFixture[str],
) -> None:
    change_row("inventory-00000000-0000-4000-8000-000000000002", 0, used=128)
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}


def test_servers_of_other_projects_are_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    """A list without --all-projects looks complete. Placement counts the servers of all."""
    assert "Not read:" not in read_plan(capfd)
    Path("export/servers.json").write_text("[]")
    output = read_plan(capfd)
    assert "Not read: servers of host compute01 (servers.json); hosts of VMs are unc" in output
    assert "Placement counts more on these hosts than the servers in servers.json use: " in output
    assert "exact machines: 0 of 2" in output


BUILDS = "failed_builds of host compute02"
UNKNOWN_BUILDS = "Nova avoids hosts with failed builds, and their number is unknown: compute02. Set"
FAILED_BUILDS = "Nova avoids hosts with failed builds: compute02. Capture the files again after"


@pytest.mark.parametrize(
    ("stats", "fact", "warning"),
    [
        ({"failed_builds": "2", "io_workload": "0"}, BUILDS, FAILED_BUILDS),
        (
            '{"failed_builds": "0", "io_workload": "1"}',
            "stats.io_workload of hypervisor compute02",
            "Operations on servers of hosts were in progress",
        ),
        ('{"failed_builds": "0", "num_instances": "1"}', "", ""),
        ('{"num_instances": "1"}', "", ""),
        (None, "", ""),
        ("absent", BUILDS, UNKNOWN_BUILDS),
        ("no row", BUILDS, UNKNOWN_BUILDS),
    ],
)
def test_host_with_failed_builds_is_uncertain(
    stats: Any, fact: str, warning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nova prefers the other hosts, whatever their other weights are."""
    path = Path("export/compute_nodes.json")
    rows = json.loads(path.read_text())
    if stats == "no row":
        del rows[1]
    elif stats == "absent":
        del rows[1]["stats"]
    else:
        rows[1]["stats"] = stats
    path.write_text(json.dumps(rows))
    output = read_plan(capfd)
    assert ("Not read:" in output) is bool(fact)
    assert fact in output
    assert warning in output
    assert ("exact racks: 0 of 2" in output) is bool(fact)


@pytest.mark.parametrize(
    ("settings", "metadata", "is_unread"),
    [
        ("", {}, True),
        ("weight_multipliers = { ram = 2 }", {}, True),
        ("weight_multipliers = { build_failure = 0 }", {}, False),
        ("weight_multipliers = { build_failure = 0 }", {"build_failure": 5}, True),
        ("", {"build_failure": 0}, False),
    ],
)
def test_failed_builds_are_unread_only_if_nova_weighs_them(
    settings: str, metadata: dict[str, int], capfd: pytest.CaptureFixture[str], *, is_unread: bool
) -> None:
    Path("export/compute_nodes.json").unlink()
    write_settings(settings)
    aggregate = {
        "Name": "a",
        "Hosts": ["compute01", "compute02", "compute03"],
        "Properties": {f"{name}_weight_multiplier": value for name, value in metadata.items()},
    }
    Path("export/aggregates.json").write_text(json.dumps([aggregate]))
    output = read_plan(capfd)
    assert ("Not read: failed_builds of 3 hosts (openstack_site.o)" in output) is is_unread
    assert ("exact racks: 0 of 2" in output) is is_unread


def test_failed_builds_are_not_weighed_on_a_single_host(capfd: pytest.CaptureFixture[str]) -> None:
    path = Path("export/hypervisors.json")
    path.write_text(json.dumps(json.loads(path.read_text())[1:2]))
    for name in ("compute_services", "resource_providers"):
        rows = json.loads(Path(f"export/{name}.json").read_text())
        Path(f"export/{name}.json").write_text(json.dumps(rows[1:2]))
    Path("export/servers.json").write_text("[]")
    Path("export/compute_nodes.json").unlink()
    Path("base.yaml").write_text(HOT.replace("count: 2", "count: 1"))
    assert "Not read:" not in read_plan(capfd)


@pytest.mark.parametrize(("builds", "is_unread"), [("0", False), ("3", True), ("null", True)])
def test_literal_host_declares_its_failed_builds(
    builds: str, capfd: pytest.CaptureFixture[str], *, is_unread: bool
) -> None:
    hosts = (
        "merge(data.openstack_inventory.o, { hosts = { for name, host in "
        "data.openstack_inventory.o.hosts : name => merge(host, { failed_builds = "
        f"{builds} }}) }} }})\n"
    )
    text = CONFIGURATION.replace("data.openstack_inventory.o\n", hosts).replace("SETTINGS", "")
    Path("main.nf.hcl").write_text(text)
    assert ("Not read: failed_builds of 3 hosts" in read_plan(capfd)) is is_unread


def test_server_groups_of_one_name_are_kept() -> None:
    contents = {path.stem: path.read_bytes() for path in Path("export").glob("*.json")}
    groups = [
        {"ID": identifier, "Name": name, "Policy": "affinity", "Members": member}
        for identifier, name, member in (("1", "g", "a"), ("2", "g", "b"), ("3", "h", "c"))
    ]
    text = json.dumps([*groups, groups[2]]).encode()
    reading = parse_openstack_files({**contents, "server_groups": text})
    members = {name: group["members"] for name, group in reading.server_groups.items()}
    assert members == {"g (1)": ["a"], "g (2)": ["b"], "h": ["c"]}


def read_output(capfd: pytest.CaptureFixture[str]) -> str:
    captured = capfd.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"hw:locked_memory": "true"}, "hw:locked_memory needs hw:mem_page_size"),
        ({"hw:virtio_packed_ring": "yes"}, "trait COMPUTE_NET_VIRTIO_PACKED is required"),
        (
            {"hw:ephemeral_encryption": "1", "hw:ephemeral_encryption_format": "luks"},
            "trait COMPUTE_EPHEMERAL_ENCRYPTION is required",
        ),
        ({"resources:PCPU": "4"}, "resources:PCPU is not the number of its vCPUs"),
        (
            {"resources:VCPU": "8", "hw:cpu_policy": "shared"},
            "resources:VCPU is set beside hw:cpu_policy",
        ),
        (
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"},
            "resources:* leave no resource to request",
        ),
        (
            {"hw:cpu_policy": "mixed"},
            "hw:cpu_policy=mixed and hw:cpu_dedicated_mask need each other",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-7"},
            "hw:cpu_dedicated_mask is 0-7, and Nova rejects",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-99999999999"},
            "is 0-99999999999, and Nova rejects",
        ),
        (
            {"hw:emulator_threads_policy": "isolate"},
            "hw:emulator_threads_policy needs hw:cpu_policy=dedicated or mixed",
        ),
        (
            {"hw:numa_nodes": "3"},
            "hw:numa_nodes is 3, and the vCPUs or memory of the flavor cannot be divided by it",
        ),
        ({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-3"}, "are not set for each of 2 cells"),
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-8", "hw:numa_mem.0": "1"},
            "are not the vCPUs and memory",
        ),
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "3-0", "hw:numa_mem.0": "1"},
            "hw:numa_cpus is 3-0, and Nova rejects",
        ),
        (
            {"trait:HW_CPU_HYPERTHREADING": "required"},
            "hw:cpu_thread_policy needs hw:cpu_policy=dedicated or mixed",
        ),
    ],
)
def test_flavor_without_a_host_is_rejected(
    properties: dict[str, str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change_row("flavors", 0, Properties=properties)
    assert run_command_line(["plan"]) == 1
    text = read_output(capfd)
    assert problem in text
    assert 'on main.nf.hcl line 7, in resource "tacker_vnf" "v"' in text


@pytest.mark.parametrize(
    ("properties", "image", "problem"),
    [
        ({}, {"hw_sound_model": "virtio"}, "trait COMPUTE_SOUND_MODEL_VIRTIO is required"),
        (
            {"hw:cpu_policy": "shared"},
            {"hw_cpu_policy": "dedicated"},
            "hw:cpu_policy of the flavor conflicts with",
        ),
        (
            {"hw:numa_nodes": "2"},
            {"hw_numa_nodes": "2"},
            "conflicts with hw_numa_nodes of the image",
        ),
        ({}, {"hw_mem_page_size": "2048"}, "the flavor neither any nor large"),
        ({}, {"trait:CUSTOM_SSD": "required"}, "trait CUSTOM_SSD is required"),
        (
            {"hw:pci_numa_affinity_policy": "socket"},
            {},
            "trait COMPUTE_SOCKET_PCI_NUMA_AFFINITY is required",
        ),
    ],
)
def test_image_without_host_is_rejected(
    properties: dict[str, str],
    image: dict[str, str],
    problem: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    change_row("flavors", 0, Properties=properties)
    set_image(image)
    assert run_command_line(["plan"]) == 1
    assert problem in read_output(capfd)


@pytest.mark.parametrize(
    ("properties", "image", "field"),
    [
        ({"hw:tpm_model": "tpm-crb"}, {}, "hw:tpm_model of flavor worker.large"),
        ({"resources1:CUSTOM_A": "1"}, {}, "resources1:CUSTOM_A of flavor worker.large"),
        ({"trait_a:CUSTOM_A": "required"}, {}, "trait_a:CUSTOM_A of flavor worker.large"),
        ({"resources:PCPU": "0", "hw:cpu_policy": "dedicated"}, {}, "resources:PCPU of flavor"),
        ({}, {"hw_tpm_model": "tpm-crb"}, "hw_tpm_model of image edge"),
        ({}, {"block_device_mapping": "[{}]"}, "block_device_mapping of image edge"),
    ],
)
def test_property_without_a_predicted_effect_is_uncertain(
    properties: dict[str, str], image: dict[str, str], field: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change_row("flavors", 0, Properties=properties)
    set_image(image)
    assert run_command_line(["plan"]) == 0
    text = read_output(capfd)
    assert f"Not read: {field}" in text
    assert "Nova picks rack and machine" in text


def set_image(properties: dict[str, str]) -> None:
    Path("export/image-1.json").write_text(
        json.dumps({"id": "1", "name": "edge", "properties": properties})
    )
    Path("base.yaml").write_text(HOT.replace("image: plain", "image: edge"))


NUMA = (
    'enabled_filters = ["ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter", '
    '"ImagePropertiesFilter"]'
)
ALIAS = (
    'pci_aliases = { nic = { vendor_id = "8086", product_id = "154c", device_type = "type-VF" } }'
)


def wrap_nova_object(name: str, **values: Any) -> dict[str, Any]:
    """Return an object in the format stored by Nova."""
    return {"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.data": values}


def describe_hosts(**by_host: dict[str, Any]) -> None:
    """Write compute_nodes.json: two cells of 8 cores with 2 threads.

    `free` cores of them are free, except in `full_cells`.
    """
    rows = []
    for host in ("compute01", "compute02", "compute03"):
        values = {
            "free": 8,
            "devices": 0,
            "arch": "x86_64",
            "full_cells": [],
            **by_host.get(host, {}),
        }
        cells = []
        for number in (0, 1):
            cores = [[16 * number + core, 16 * number + core + 8] for core in range(8)]
            is_full = number in values["full_cells"]
            cells.append(
                wrap_nova_object(
                    "NUMACell",
                    id=number,
                    cpuset=list(range(100 * (number + 1), 100 * (number + 1) + 4)),
                    pcpuset=sorted(cpu for core in cores for cpu in core),
                    pinned_cpus=[
                        cpu for core in cores[0 if is_full else values["free"] :] for cpu in core
                    ],
                    siblings=cores,
                    memory=65536,
                    memory_usage=16384 if is_full else 0,
                    cpu_usage=0,
                    mempages=[
                        wrap_nova_object(
                            "NUMAPagesTopology",
                            size_kb=4,
                            total=16777216,
                            used=4194304 * is_full,
                            reserved=0,
                        )
                    ],
                    socket=number,
                )
            )
        pool = wrap_nova_object(
            "PciDevicePool",
            vendor_id="8086",
            product_id="154c",
            numa_node=1,
            count=values["devices"],
            tags={"dev_type": "type-VF", "address": "0000:81:00.0"},
        )
        rows.append(
            {
                "hypervisor_hostname": host.capitalize(),
                "numa_topology": json.dumps(wrap_nova_object("NUMATopology", cells=cells)),
                "pci_stats": json.dumps(
                    wrap_nova_object(
                        "PciDevicePoolList", objects=[pool] if values["devices"] else []
                    )
                ),
                "supported_instances": json.dumps([[values["arch"], "kvm", "hvm"]]),
                "stats": json.dumps({"failed_builds": "0", "io_workload": "0"}),
            }
        )
    hypervisors = json.loads(Path("export/hypervisors.json").read_text())
    for row, hypervisor in zip(rows, hypervisors, strict=True):
        row["hypervisor_hostname"] = hypervisor["Hypervisor Hostname"]
    Path("export/compute_nodes.json").write_text(json.dumps(rows))
    for number in (1, 2, 3):
        offer_resources(number, PCPU=32)


def test_dedicated_cpus_of_one_numa_cell_select_the_host(capfd: pytest.CaptureFixture[str]) -> None:
    write_settings(NUMA)
    change_row("flavors", 0, Properties={"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"})
    change_row("servers", 0, **{"Flavor Name": "other", "Flavor": "other"})
    describe_hosts(compute02={"free": 3})
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}
    describe_hosts(compute02={"free": 3}, compute01={"free": 3}, compute03={"free": 3})
    assert run_command_line(["plan"]) == 1
    assert 'No host has free NUMA cells for the flavor "worker.large"' in read_output(capfd)


@pytest.mark.parametrize(
    ("properties", "image", "free"),
    [
        # A cell with 9 CPUs.
        ({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}, {}, 4),
        (
            {"hw:cpu_policy": "dedicated"},
            {"hw_numa_nodes": "2", "hw_numa_cpus.0": "0-3", "hw_numa_cpus.1": "4-7"},
            1,
        ),
        (
            {},
            {"hw_cpu_policy": "dedicated", "hw_numa_nodes": "1", "hw_cpu_thread_policy": "require"},
            3,
        ),
        # 5 dedicated CPUs.
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-2"}, {}, 2),
    ],
)
def test_cells_of_flavor_and_image_select_the_host(
    properties: dict[str, str], image: dict[str, str], free: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """compute02 has too few free CPUs in each cell."""
    write_settings(NUMA)
    change_row("flavors", 0, Properties=properties)
    change_row("servers", 0, **{"Flavor Name": "other", "Flavor": "other"})
    memory = (
        {"hw_numa_mem.0": "2048", "hw_numa_mem.1": "14336"} if "hw_numa_cpus.0" in image else {}
    )
    set_image(image | memory)
    describe_hosts(compute02={"free": free})
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}
    describe_hosts(compute01={"free": free}, compute02={"free": free}, compute03={"free": free})
    assert run_command_line(["plan"]) == 1
    assert "No host has free NUMA cells for the flavor" in read_output(capfd)


def parse_numa_request(properties: dict[str, str], image: dict[str, str]) -> NumaRequest:
    request = parse_flavor(Flavor("f", 4, 4096, 0, properties), {}, image)
    assert request.numa.cells, request.problem
    return request.numa


def test_flavor_precedes_image() -> None:
    """The filter still rejects hosts without threads, like Nova's filter."""
    pinned = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}
    numa = parse_numa_request(pinned, {"hw_cpu_thread_policy": "require"})
    assert (numa.thread_policy, numa.needs_threads) == ("prefer", True)
    numa = parse_numa_request(
        {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"}, {"hw_cpu_policy": "shared"}
    )
    assert numa.cpu_policy == "dedicated"
    assert (
        parse_numa_request({"hw:mem_page_size": "any"}, {"hw_mem_page_size": "2MB"}).page_size
        == 2048
    )


@pytest.mark.parametrize(("attempts", "is_fit"), [(1, False), (2, True)])
def test_second_candidate_is_a_second_attempt(attempts: int, is_fit: bool) -> None:
    """Nova's cache of cell pairs keeps the ids of the first attempt.

    A cell of 7 CPUs then fits into 4.
    """
    numa = parse_flavor(
        Flavor("f", 8, 4096, 0, {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"} | CELLS), {}
    ).numa
    cells = [
        HostCell(number, cpus, cpus, tuple(frozenset({cpu}) for cpu in cpus), 8192, ())
        for number, cpus in enumerate((frozenset(range(4)), frozenset(range(4, 8))))
    ]
    assert (
        fit_numa_cells(cells, numa, HostRatios(1, 1), {}, attempts=attempts) is not None
    ) is is_fit


CELLS = {
    "hw:numa_cpus.0": "0",
    "hw:numa_cpus.1": "1-7",
    "hw:numa_mem.0": "1024",
    "hw:numa_mem.1": "3072",
}


def test_cell_without_vcpus_fits_nowhere() -> None:
    properties = {
        "hw:cpu_policy": "dedicated",
        "hw:numa_nodes": "2",
        "hw:numa_cpus.0": "0-3",
        "hw:numa_cpus.1": "",
    }
    numa = parse_numa_request(properties | {"hw:numa_mem.0": "4096", "hw:numa_mem.1": "0"}, {})
    cpus = frozenset(range(8))
    cells = [
        HostCell(number, cpus, cpus, tuple(frozenset({cpu}) for cpu in cpus), 8192, ())
        for number in (0, 1)
    ]
    assert fit_numa_cells(cells, numa, HostRatios(1, 1), {}) is None


def test_devices_without_prediction_are_named(
    capfd: pytest.CaptureFixture[str], work_directory: Path
) -> None:
    write_settings('pci_aliases = { gpu = { resource_class = "CUSTOM_GPU" } }')
    assert run_command_line(["plan"]) == 1
    assert "PCI devices in Placement (resource_class) are not predicted" in read_output(capfd)
    write_settings("")
    port = (
        '  port:\n    type: OS::Neutron::Port\n    properties: {network: n, "binding:vnic_type": '
        "direct}\n"
    )
    (work_directory / "base.yaml").write_text(HOT + port)
    assert run_command_line(["plan", "-details"]) == 0
    text = read_output(capfd)
    assert "base_hot:18" in text
    assert "did not read binding:vnic_type of port port (direct may need a PCI device" in text


def offer_resources(host: int, **amounts: int) -> None:
    """Set the amount of each resource class in the inventory of a host."""
    path = Path(f"export/inventory-00000000-0000-4000-8000-00000000000{host}.json")
    rows = {row["resource_class"]: row for row in json.loads(path.read_text())}
    for name, total in amounts.items():
        row = rows.get(name, rows["DISK_GB"] | {"used": 0, "resource_class": name})
        rows[name] = row | {"total": total, "max_unit": max(total, 1)}
    path.write_text(json.dumps(list(rows.values())))


@pytest.mark.parametrize("name", ["VCPU", "MEMORY_MB", "DISK_GB"])
def test_host_without_a_resource_of_every_hypervisor_is_uncertain(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would take no server, and the others would be certain."""
    path = Path("export/inventory-00000000-0000-4000-8000-000000000001.json")
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([row for row in rows if row["resource_class"] != name]))
    assert run_command_line(["plan", "-report=json:plan.json"]) == 0
    document = json.loads(Path("plan.json").read_text())
    assert [row["certainty"] for row in document["placement_changes"]] == [None, None]
    assert name in read_output(capfd)


def use_resources(host: int, **amounts: int) -> None:
    """Set the used amount of each resource class in the inventory of a host."""
    path = Path(f"export/inventory-00000000-0000-4000-8000-00000000000{host}.json")
    rows = json.loads(path.read_text())
    for row in rows:
        row["used"] = amounts.get(row["resource_class"], row["used"])
    path.write_text(json.dumps(rows))


def test_flavor_with_zero_dedicated_cpus_requests_no_vcpu(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Any amount of PCPU, even 0, replaces the VCPU in the request of Nova to Placement."""
    change_row("flavors", 0, Properties={"resources:PCPU": "0"})
    for number in (1, 2, 3):
        offer_resources(number, VCPU=1)
    assert len(plan_hosts(capfd)) == 2


@pytest.mark.parametrize(
    ("offered", "properties"),
    [
        ({"CUSTOM_CARD": 2}, {"resources:CUSTOM_CARD": "2"}),
        ({"VGPU": 4}, {"resources:VGPU": "4", "resources:custom_card": "7"}),
        ({"VCPU": 48}, {"resources:VCPU": "40"}),
    ],
)
def test_hosts_must_offer_the_amounts_of_a_flavor(
    offered: dict[str, int], properties: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    change_row("flavors", 0, Properties=properties)
    change_row("servers", 0, **{"Flavor Name": "other"})
    for host in (1, 3):
        offer_resources(host, **offered)
    offer_resources(2, **dict.fromkeys(offered, 1))
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}


@pytest.mark.parametrize(
    ("offered", "name"), [({"DISK_GB": 0}, "DISK_GB"), ({"MEMORY_MB": 2048}, "MEMORY_MB")]
)
def test_an_amount_of_0_replaces_that_of_the_size(
    offered: dict[str, int], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for host in (2, 3):
        offer_resources(host, **offered)
    assert run_command_line(["plan"]) == 1
    change_row("flavors", 0, Properties={f"resources:{name}": "0"})
    assert len(set(plan_hosts(capfd).values())) == 2


def test_allocations_of_a_custom_class_count(capfd: pytest.CaptureFixture[str]) -> None:
    """The server that is listed has one card, and a server that is not listed another."""
    change_row("flavors", 0, Properties={"resources:CUSTOM_CARD": "1"})
    for host in (1, 2, 3):
        offer_resources(host, CUSTOM_CARD=2)
    change_row("inventory-00000000-0000-4000-8000-000000000001", 3, used=1)
    change_row("inventory-00000000-0000-4000-8000-000000000002", 3, used=2)
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}
    change_row("inventory-00000000-0000-4000-8000-000000000001", 3, used=2)
    offer_resources(3, CUSTOM_CARD=0)
    assert run_command_line(["plan"]) == 1
    assert "No host has 8 VCPU, 1 CUSTOM_CARD" in read_output(capfd)


def add_resource_provider(name: str, resource_class: str) -> None:
    """Add a resource provider that is no host."""
    path = Path("export/resource_providers.json")
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([*rows, {**rows[0], "uuid": "9", "name": name}]))
    row = {"resource_class": resource_class, "total": 4, "used": 0, "reserved": 0}
    row |= {"allocation_ratio": 1.0, "min_unit": 1, "max_unit": 4, "step_size": 1}
    Path("export/inventory-9.json").write_text(json.dumps([row]))


@pytest.mark.parametrize(
    ("resource_class", "unread"),
    [
        ("CUSTOM_CARD", "resources:CUSTOM_CARD of flavor worker.large"),
        ("DISK_GB", "DISK_GB of resource provider storage (inventory-9.json)"),
        ("VGPU", ""),
    ],
)
def test_resources_of_a_provider_without_a_host_are_unread(
    resource_class: str, unread: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change_row("flavors", 0, Properties={"resources:CUSTOM_CARD": "1"})
    for host in (1, 2, 3):
        offer_resources(host, CUSTOM_CARD=2)
    # Of the running server, which has the flavor.
    change_row(f"inventory-{HOST_1}", 3, used=1)
    add_resource_provider("storage", resource_class)
    assert run_command_line(["plan", "-details"]) == 0
    output = read_output(capfd)
    assert unread in output
    assert ("Not read:" in output) is bool(unread)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        (f"traits-{HOST_1}", "traits of resource provider compute01"),
        (f"inventory-{HOST_1}", "inventory of resource provider compute01"),
        ("aggregates", "aggregates of the site"),
        ("server_groups", "server groups of the site"),
        ("hypervisor-0", "hypervisor_version of hypervisor compute01"),
    ],
)
def test_missing_file_is_unknown_and_an_empty_list_is_none(
    name: str, fact: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path(f"export/{name}.json")
    path.unlink()
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    assert f"{fact} ({name}.json)" in output
    assert "; hosts of VMs are uncertain" in output
    # Without its inventory, the host is left out, too.
    detail = f"Files are missing, and their content is unknown: {name}.json."
    assert detail in output or f"({name}.json): it is left out" in output
    assert "exact machines: 0 of 2" in output
    if name != "hypervisor-0":
        path.write_text("[]")
        output = read_plan(capfd)
        # A server runs on the host, although Placement has no resources of it.
        assert ("Not read: host of server dns" in output) is name.startswith("inventory")
        assert ("Not read:" in output) is name.startswith("inventory")


def test_inventory_keeps_each_field_of_servers_and_flavors() -> None:
    """A field without a type in the schema would be lost between the files and the site."""
    attributes = OPENSTACK_INVENTORY.schema.attributes
    for name, record in (("servers", NovaServer), ("hosts", NovaHost), ("flavors", Flavor)):
        map_type = attributes[name].type
        assert isinstance(map_type, MapType)
        assert isinstance(map_type.element, ObjectType)
        fields = {field.name for field in msgspec.structs.fields(record)}
        # The name of a host or flavor is its key.
        assert fields - {"name"} == dict(map_type.element.attributes).keys() - {"name"}


@pytest.mark.parametrize(
    ("part", "value", "unread"),
    [
        ((), "x", "numa_topology.cells.future of compute node compute01 (compute_nodes.json:1)"),
        (("mempages", 0), 1, "numa_topology.cells.mempages.future of compute node compute01"),
        ((), None, ""),
    ],
)
def test_new_field_of_a_numa_cell_is_unread(
    part: tuple[str | int, ...], value: Any, unread: str, capfd: pytest.CaptureFixture[str]
) -> None:
    describe_hosts()
    path = Path("export/compute_nodes.json")
    rows = json.loads(path.read_text())
    topology = json.loads(rows[0]["numa_topology"])
    target = topology["nova_object.data"]["cells"][0]["nova_object.data"]
    target["network_metadata"] = wrap_nova_object("N", physnets=[], tunneled=False)
    for step in part:
        target = target[step]
    target.get("nova_object.data", target)["future"] = value
    rows[0]["numa_topology"] = json.dumps(topology)
    path.write_text(json.dumps(rows))
    assert run_command_line(["plan", "-details"]) == 0
    output = read_output(capfd)
    assert unread in output
    assert ("Not read:" in output) is bool(unread)


def test_class_of_no_host_is_unread(capfd: pytest.CaptureFixture[str]) -> None:
    change_row("flavors", 0, Properties={"resources:CUSTOM_CARD": "1"})
    assert run_command_line(["plan", "-details"]) == 0
    output = read_output(capfd)
    assert "Not read: resources:CUSTOM_CARD of flavor worker.large" in output
    assert "the inventory of hosts does not decide on this class" in output


def test_pci_devices_by_count_select_the_host(capfd: pytest.CaptureFixture[str]) -> None:
    write_settings(f"{NUMA}\n{ALIAS}")
    change_row("flavors", 0, Properties={"pci_passthrough:alias": "nic:2"})
    describe_hosts(compute01={"devices": 3}, compute02={"devices": 1}, compute03={"devices": 2})
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}
    # Nova then takes the devices from Placement.
    add_resource_provider("compute01_0000:81:00.0", "CUSTOM_PCI_8086_154C")
    assert run_command_line(["plan"]) == 0
    assert "Not read: PCI devices in Placement of flavor worker.large" in read_output(capfd)


def test_image_selects_hosts_of_its_architecture(
    capfd: pytest.CaptureFixture[str], work_directory: Path
) -> None:
    write_settings(NUMA)
    describe_hosts(compute02={"arch": "aarch64"})
    image = {"id": "1", "name": "edge", "properties": {"hw_architecture": "x86_64"}}
    Path("export/image-1.json").write_text(json.dumps(image))
    (work_directory / "base.yaml").write_text(HOT.replace("image: plain", "image: edge"))
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}
    (work_directory / "base.yaml").write_text(HOT.replace("image: plain", "image: other"))
    assert run_command_line(["plan"]) == 0
    assert 'The inventory has no image "other"' in read_output(capfd)


def test_inventory_without_used_amounts_is_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    """Older clients do not print them. Placement also counts servers that the list lacks."""
    for path in Path("export").glob("inventory-*.json"):
        rows = json.loads(path.read_text())
        for row in rows:
            del row["used"]
        path.write_text(json.dumps(rows))
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    assert "Not read: used of 3 resource providers" in output
    assert "Upgrade osc-placement" in output
    assert "exact machines: 0 of 2" in output


def test_image_without_a_file_is_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    """It may require traits, although all hosts support the same images."""
    set_image({})
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    assert "Not read:" not in read_output(capfd)
    Path("export/image-1.json").unlink()
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    assert "Not read: properties of image edge" in output
    assert "exact machines: 0 of 2" in output


@pytest.mark.parametrize(("architecture", "is_unread"), [("aarch64", True), ("x86_64", False)])
def test_name_of_images_that_differ_is_unknown(
    architecture: str, capfd: pytest.CaptureFixture[str], *, is_unread: bool
) -> None:
    """Images of several projects may have one name. The id stays known."""
    write_settings(NUMA)
    describe_hosts()
    set_image({"hw_architecture": architecture, "os_hash_value": "1"})
    other = {"hw_architecture": "x86_64", "os_hash_value": "2"}
    Path("export/image-2.json").write_text(
        json.dumps({"id": "2", "name": "edge", "properties": other})
    )
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    assert ("Not read: properties of image edge" in output) is is_unread
    assert ("Of several, set the id of one." in output) is is_unread
    Path("base.yaml").write_text(HOT.replace("image: plain", 'image: "2"'))
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    assert "Not read: properties of image" not in read_output(capfd)


@pytest.mark.parametrize(
    ("settings", "properties", "is_described", "warning"),
    [
        ("", {"hw:cpu_policy": "dedicated"}, True, "enabled_filters do not have it"),
        (NUMA, {"hw:cpu_policy": "dedicated"}, False, "set NOVA_DATABASE for the script"),
        (NUMA, {"pci_passthrough:alias": "nic:1"}, True, "Set it in pci_aliases"),
    ],
)
def test_unknown_fact_makes_the_placement_uncertain(
    settings: str,
    properties: dict[str, str],
    warning: str,
    capfd: pytest.CaptureFixture[str],
    *,
    is_described: bool,
) -> None:
    write_settings(settings)
    change_row("flavors", 0, Properties=properties)
    if is_described:
        describe_hosts()
    else:
        Path("export/compute_nodes.json").unlink()
    assert run_command_line(["plan", "-samples=20", "-details"]) == 0
    output = read_output(capfd)
    assert warning in output
    assert "machines too" not in output


@pytest.mark.parametrize(("thread_policy", "pins"), [("", "0-1"), ("isolate", "0-1")])
def test_server_without_record_frees_its_cells(thread_policy: str, pins: str) -> None:
    """An exported server that is now managed counts only by its flavor."""
    cell = {
        "id": 0,
        "shared": "0-3" if thread_policy else "",
        "dedicated": "0-3",
        "pinned": "0-3" if thread_policy else pins,
    }
    cell |= {"siblings": ["0,2", "1,3"], "memory_mib": 1024, "used_memory_mib": 512}
    cell |= {"pages": [{"size_kib": 4, "total": 262144, "used": 131072}]}
    host = build_host("h", {"availability_zone": "a", "resources": {}, "numa_cells": [cell]})
    share = {"id": 0, "vcpus": 2, "memory_mib": 512, "page_size": None, "pins": pins}
    server = build_server({"host": "h", "dedicated_vcpus": 2, "flavor": "f", "numa_cells": [share]})
    properties = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": thread_policy}
    request = parse_flavor(
        Flavor("f", 2, 512, 0, {key: value for key, value in properties.items() if value}), {}
    )
    table = UsageTable({"h": host}, {"f": request}, {"s": server})
    assert table.build_record("s") == "server s"
    (occupied,) = table.get_usage(("h", "server s")).cells
    assert len(occupied.free_cpus) == (0 if thread_policy else 2)
    (free,) = table.get_usage(("h",)).cells
    assert (len(free.free_cpus), free.free_memory_mib, free.pages[0].used) == (4, 1024, 0)
    (again,) = table.get_usage(("h", "f")).cells
    assert (len(again.free_cpus), again.pages[0].used) == (0 if thread_policy else 2, 131072)


def test_script_prints_the_commands(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["inventory", "script", "-for=openstack"]) == 0
    script = capfd.readouterr().out
    assert "run servers server list --all-projects --long" in script
    assert "resource provider inventory list" in script


@pytest.mark.parametrize("is_available", [True, False])
def test_script_reads_the_table_of_hosts(
    capfd: pytest.CaptureFixture[str], work_directory: Path, *, is_available: bool
) -> None:
    assert run_command_line(["inventory", "script", "-for=openstack", "-directory=out"]) == 0
    (work_directory / "capture.sh").write_text(capfd.readouterr().out)
    programs = work_directory / "programs"
    programs.mkdir()
    row = (
        '{"hypervisor_hostname": "HOST", "numa_topology": null, "pci_stats": null, '
        '"supported_instances": "[]"}'
    )
    rows = "\n".join(row.replace("HOST", name) for name in ("compute01", "compute02"))
    contents = {
        "openstack": "echo '[]'",
        "mysql": f"cat >&2\nprintf '%s\n' '{rows}'" if is_available else "exit 1",
    }
    for name, text in contents.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.defpath}", "NOVA_DATABASE": "nova_cell1"}
    done = subprocess.run(
        ["sh", "capture.sh"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == (0 if is_available else 1)
    if is_available:
        assert "FROM compute_nodes WHERE deleted = 0" in done.stderr
        nodes = json.loads(Path("out/compute_nodes.json").read_text())
        assert [node["hypervisor_hostname"] for node in nodes] == ["compute01", "compute02"]
    else:
        assert "not listed: table compute_nodes of the database nova_cell1" in done.stderr
    assert (
        sorted(path.name for path in Path("out").glob("*nodes*"))
        == ["compute_nodes.json"] * is_available
    )


def test_script_reads_the_databases_of_several_cells(
    capfd: pytest.CaptureFixture[str], work_directory: Path
) -> None:
    """One that fails leaves the hosts of the others."""
    assert run_command_line(["inventory", "script", "-for=openstack", "-directory=out"]) == 0
    script = capfd.readouterr().out
    (work_directory / "openstack").write_text("#!/bin/sh\necho '[]'\n")
    (work_directory / "mysql").write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        'echo "{\\"hypervisor_hostname\\": \\"host of $last\\"}"\n[ "$last" != cell2 ]\n'
    )
    for name in ("openstack", "mysql"):
        (work_directory / name).chmod(0o755)
    environment = {"PATH": f"{work_directory}:{os.defpath}", "NOVA_DATABASE": "cell1 cell2 cell3"}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "not listed: table compute_nodes of the database cell2" in done.stderr
    rows = json.loads(Path("out/compute_nodes.json").read_text())
    assert [row["hypervisor_hostname"] for row in rows] == ["host of cell1", "host of cell3"]
    assert not list(Path("out").glob("*.part"))


@pytest.mark.parametrize("failure", ["", "resource provider list -f value", "aggregate list"])
def test_script_leaves_nothing_of_an_earlier_capture(
    failure: str, capfd: pytest.CaptureFixture[str], work_directory: Path
) -> None:
    """A file of an earlier capture would count as of the new time."""
    assert run_command_line(["inventory", "script", "-for=openstack"]) == 0
    script = capfd.readouterr().out
    program = work_directory / "openstack"
    program.write_text(
        "#!/bin/sh\n"
        + (f'case "$*" in "{failure}"*) exit 1 ;; esac\n' if failure else "")
        + 'case "$*" in *"-f value"*) echo new ;; *) echo "[]" ;; esac\n'
    )
    program.chmod(0o755)
    export = work_directory / "export"
    for name in ("compute_nodes.json", "image-1.json", "hypervisor-1.error", "notes.json"):
        (export / name).write_text("old")
    (export / "exported_at").write_text("2020-01-01T00:00:00Z")
    environment = {"PATH": f"{work_directory}:{os.defpath}"}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == (1 if failure else 0)
    assert (f"not listed: openstack {failure.partition(' -f')[0]}" in done.stderr) is bool(failure)
    files = {file.name: file.read_text() for file in export.iterdir()}
    assert files.pop("notes.json") == "old"
    assert files.pop("exported_at") > "2020-01-02"
    assert {text for name, text in files.items() if name.endswith(".json")} == {"[]\n"}
    # Later commands ran.
    assert "topology-new.json" in files
    assert ("traits-new.json" in files) is ("resource" not in failure)
    assert ("aggregates.json" in files) is ("aggregate" not in failure)


def test_confidence_names_nova(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-samples=10"]) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert "Nova picks" in text or "machines too" in text
    assert "Azure" not in text


@pytest.mark.parametrize(
    "host",
    ["1", "{ availability_zone = [] }", "{ numa_cells = [1] }", "{ resources = { VCPU = 1 } }"],
)
def test_inventory_of_another_shape_is_rejected(
    capfd: pytest.CaptureFixture[str], host: str
) -> None:
    text = CONFIGURATION.replace(
        "data.openstack_inventory.o\n", f"{{ hosts = {{ compute01 = {host} }} }}\n"
    )
    Path("main.nf.hcl").write_text(text.replace("SETTINGS", ""))
    assert run_command_line(["plan"]) == 1
    assert "The inventory is not one of data openstack_inventory" in read_output(capfd)


LITERAL = """{
    flavors = { "worker.large" = { vcpus = 8, memory_mib = 16384, disk_gib = 80, FLAVOR } }
    images  = { plain = {} }
    servers = { s = { host = "h1", vcpus = 1, memory_mib = 1, disk_gib = 1, SERVER } }
    hosts = {
      for name in ["h1", "h2"] : name => {
        availability_zone = "nova"
        resources = {
          for class in ["VCPU", "MEMORY_MB", "DISK_GB"] : class => {
            total = 100000, reserved = 0, allocation_ratio = 0.01, RESOURCE
          }
        }
        numa_cells = [{ id = 0, shared = "0-3", memory_mib = 1, pages = [{
          size_kib = 4, total = 1, PAGES
        }], CELL }]
      }
    }
  }
"""


@pytest.mark.parametrize(
    ("part", "values", "problem"),
    [
        ("RESOURCE", "step_size = 0", "[...].step_size must be a whole number of at least 1"),
        ("RESOURCE", "step_size = -1", "must be a whole number of at least 1"),
        ("RESOURCE", "max_unit = -1", "must be a whole number of at least 0"),
        ("RESOURCE", "min_unit = -1", "must be a whole number of at least 0"),
        ("RESOURCE", "total = -5", "must be a whole number of at least 0"),
        ("RESOURCE", "total = 2.5", "must be a whole number, not a fraction"),
        ("RESOURCE", "total = null", "must be a whole number, not null"),
        ("RESOURCE", "total = 1e30", "must be a whole number"),
        ("RESOURCE", "reserved = -5", "must be a whole number of at least 0"),
        ("RESOURCE", "allocation_ratio = -1", "must be a number of at least 0.0"),
        ("RESOURCE", 'allocation_ratio = "nan"', "must be a number of at least 0.0"),
        ("RESOURCE", 'allocation_ratio = "inf"', "must be a number of at most 3.40282e+38"),
        (
            "CELL",
            "memory_mib = -1",
            'hosts["h1"]: numa_cells[0].memory_mib must be a whole number of at least 0',
        ),
        ("CELL", "used_vcpus = -1", "must be a whole number of at least 0"),
        ("CELL", 'dedicated = "3-0"', 'hosts["h1"]: 3-0 are not CPUs'),
        ("CELL", 'dedicated = "0-99999999999"', "0-99999999999 are not CPUs"),
        ("PAGES", "size_kib = 0", "must be a whole number of at least 1"),
        (
            "FLAVOR",
            "vcpus = -8",
            'flavors["worker.large"]: vcpus must be a whole number of at least 0',
        ),
        ("FLAVOR", "root_disk_gib = 81", "root_disk_gib 81 exceeds 80"),
        ("SERVER", "vcpus = -8", 'servers["s"]: vcpus must be a whole number of at least 0'),
    ],
)
def test_invalid_number_of_a_literal_inventory_is_named(
    part: str, values: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    literal = LITERAL.replace(part, values)
    for name in ("RESOURCE", "CELL", "PAGES", "FLAVOR", "SERVER"):
        literal = literal.replace(name, "")
    text = CONFIGURATION.replace("data.openstack_inventory.o\n", literal).replace("SETTINGS", "")
    Path("main.nf.hcl").write_text(text)
    assert run_command_line(["plan"]) == 1
    assert problem in read_output(capfd)


def test_flavor_that_the_inventory_lacks_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """Its size may be that of a nexus_vm_sku; what else it requires is then unknown."""
    Path("base.yaml").write_text(HOT.replace("worker.large", "worker.larg"))
    assert run_command_line(["plan"]) == 1
    output = read_output(capfd)
    assert 'The VDU "worker" (base_hot:12) has the flavor "worker.larg", and neither' in output
    assert 'Did you mean "worker.large"?' in output
    with Path("main.nf.hcl").open("a") as file:
        file.write(
            'resource "nexus_vm_sku" "s" {\n  name       = "worker.larg"\n  vcpus      = 8\n'
            "  memory_gib = 16\n}\n"
        )
    output = read_plan(capfd)
    assert "Not read: properties of flavor worker.larg" in output
    assert "exact machines: 0 of 2" in output


@pytest.mark.parametrize(
    ("zone", "machines"),
    [("", {"compute02", "compute03"}), ("b", {"compute03"}), ("c", set()), (None, None)],
)
def test_default_zone_of_nova_selects_hosts(
    zone: str | None, machines: set[str] | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Hosts in several zones are uncertain if it is not known."""
    Path("base.yaml").write_text(HOT.replace("count: 2", "count: 1"))
    change_row("compute_services", 2, Zone="b")
    write_settings("" if zone is None else f'default_schedule_zone = "{zone}"')
    if machines is None:
        output = read_plan(capfd)
        assert "Not read: value of setting default_schedule_zone" in output
        assert "exact machines: 0 of 1" in output
        Path("base.yaml").write_text(
            HOT.replace("flavor:", "availability_zone: nova\n          flavor:")
        )
        assert "Not read:" not in read_plan(capfd)
    elif machines:
        assert set(plan_hosts(capfd).values()) <= machines
    else:
        assert run_command_line(["plan"]) == 1
        assert "zone c is default_schedule_zone" in read_output(capfd)


@pytest.mark.parametrize("value", ["nan", " -Inf", "+infinity"])
def test_multiplier_that_is_not_finite_is_an_error(
    value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nova accepts it, and its order of hosts is then undefined."""
    properties = {"ram_weight_multiplier": value}
    aggregate = {"Name": "a", "Hosts": ["compute02"], "Properties": properties}
    Path("export/aggregates.json").write_text(json.dumps([aggregate]))
    assert run_command_line(["plan"]) == 1
    assert 'hosts["compute02"]: ram_weight_multiplier of aggregate a is' in read_output(capfd)


@pytest.mark.parametrize(
    ("value", "hosts"), [("-1", {"compute01"}), ("x", {"compute02", "compute03"})]
)
def test_multipliers_of_aggregates_count_only_if_all_are_numbers(
    value: str, hosts: set[str], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("base.yaml").write_text(HOT.replace("count: 2", "count: 1"))
    names = [f"compute0{number}" for number in (1, 2, 3)]
    aggregates = [
        {
            "Name": name,
            "Hosts": names,
            "Properties": {f"{key}_weight_multiplier": text for key in ("ram", "cpu", "disk")},
        }
        for name, text in (("a", value), ("b", "-2"))
    ]
    Path("export/aggregates.json").write_text(json.dumps(aggregates))
    assert set(plan_hosts(capfd).values()) <= hosts


NEXUS_BLOCKS = {
    "nexus_rack": "machine_count = 1",
    "nexus_virtual_machine": "cpu_cores = 2\nmemory_gib = 4\ndisk_gib = 10",
    "nexus_kubernetes_cluster": """control_plane {
      count       = 1
      vm_sku_name = "NC_G12_56_v1"
    }
    agent_pool "p" {
      count       = 1
      vm_sku_name = "NC_P46_224_v1"
    }""",
}
SITE_IDS = {
    "reference": "openstack_site.o.id",
    "local": "local.site",
    "variable": "var.site",
    "text": '"o"',
}


@pytest.mark.parametrize("kind", NEXUS_BLOCKS)
@pytest.mark.parametrize("source", SITE_IDS)
def test_nexus_objects_are_on_no_openstack_site(
    capfd: pytest.CaptureFixture[str], kind: str, source: str
) -> None:
    block = f"""
resource "{kind}" "k" {{
  site_id = {SITE_IDS[source]}
  name    = "k"
  {NEXUS_BLOCKS[kind]}
}}
locals {{
  site = openstack_site.o.id
}}
variable "site" {{
  default = "o"
}}
"""
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", "") + block)
    is_reference = source in ("reference", "local")
    assert run_command_line(["validate"]) == (1 if is_reference else 0)
    validation = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert run_command_line(["plan"]) == 1
    plan = " ".join(capfd.readouterr().err.replace("│", " ").split())
    expected = '"site_id" takes an id of type nexus_site, not openstack_site.'
    assert (expected in validation) is is_reference
    assert expected in plan


@pytest.mark.parametrize(
    ("hostname", "shown_host", "service", "other_service", "host"),
    [
        ("compute02.lan", "", "compute02", "compute03", "compute02"),
        ("compute02", "", "compute02.lan", "compute03", "compute02.lan"),
        # Another host of the same first label.
        ("compute02.lan", "", "compute02.wan", "compute03", ""),
        ("compute02.lan", "", "compute02.wan", "compute02", ""),
        ("compute02.lan", "compute02.wan", "compute02.wan", "compute02", "compute02.wan"),
        ("compute02", "other", "compute02", "compute03", ""),
    ],
)
def test_service_of_a_hypervisor_is_not_guessed(
    hostname: str,
    shown_host: str,
    service: str,
    other_service: str,
    host: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The command `hypervisor show` names it."""
    Path("base.yaml").write_text(HOT.replace("count: 2", "count: 1"))
    change_row("hypervisors", 1, **{"Hypervisor Hostname": hostname})
    change_row("resource_providers", 1, Name=hostname)
    change_row("compute_nodes", 1, hypervisor_hostname=hostname)
    change_row("compute_services", 1, Host=service)
    change_row("compute_services", 2, Host=other_service)
    path = Path("export/hypervisor-1.json")
    details = json.loads(path.read_text()) | {"hypervisor_hostname": hostname}
    path.write_text(json.dumps(details | ({"service_host": shown_host} if shown_host else {})))
    output = read_plan(capfd)
    warning = f'The hypervisor "{hostname}" has no nova-compute service: its host is left out.'
    assert (warning in output) is (not host)
    assert not host or f"{host} = {{ + aggregates" in output.replace('"', "")


def append_row(name: str, **values: Any) -> None:
    """Append a copy of the first row of a file, with other values."""
    path = Path("export") / f"{name}.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([*rows, rows[0] | values]))


@pytest.mark.parametrize(
    ("name", "values", "key"),
    [
        ("servers", {"Host": "compute02"}, 'id "5b1c41a6-6b5c-4f7e-9d3e-1f0a3b0c9e01"'),
        ("compute_services", {"Status": "disabled"}, 'host "compute01"'),
        ("flavors", {"RAM": 1}, 'name "worker.large"'),
        ("hypervisors", {"ID": "9"}, 'hypervisor_hostname "compute01"'),
        ("resource_providers", {"uuid": "9"}, 'name "compute01"'),
        (f"inventory-{HOST_1}", {"total": 1}, 'resource_class "VCPU"'),
    ],
)
def test_rows_of_one_object_that_differ_are_rejected(
    name: str, values: dict[str, Any], key: str, capfd: pytest.CaptureFixture[str]
) -> None:
    append_row(name, **values)
    assert run_command_line(["plan"]) == 1
    assert f"{name}.json has two rows of {key} that differ. Capture the" in read_output(capfd)


def test_equal_rows_and_other_services_of_a_host_are_accepted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    append_row("servers")
    append_row("compute_services", Binary="nova-conductor", Status="disabled")
    assert set(plan_hosts(capfd).values()) == {"compute02", "compute03"}


@pytest.mark.parametrize(
    ("name", "values", "fact", "warning"),
    [
        (
            "servers",
            {"ID": "2", "Host": "compute09"},
            "host of server dns (openstack_site.o)",
            "Servers are on hosts that the inventory lacks: dns (compute09).",
        ),
        (
            "compute_services",
            {"Host": "compute09"},
            "hypervisor of host compute09 (compute_services.json)",
            "Hosts are not in hypervisors.json, and their capacity is left out: compute09.",
        ),
    ],
)
def test_host_without_a_hypervisor_is_unknown(
    name: str, values: dict[str, str], fact: str, warning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nova may choose it, and the use of its servers is not counted."""
    append_row(name, **values)
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    assert warning in output
    assert f"Not read: {fact}" in output
    assert "exact machines: 0 of 2" in output


@pytest.mark.parametrize("count", [999, 1000])
def test_list_that_may_end_at_a_page_is_unknown(
    count: int, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path("export/servers.json")
    row = json.loads(path.read_text())[0] | {"Host": None, "Status": "SHELVED_OFFLOADED"}
    path.write_text(json.dumps([row | {"ID": f"{number}"} for number in range(count)]))
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    is_cut = count == 1000
    assert ("Not read: next page of list servers (servers.json)" in output) is is_cut
    assert ("Lists have exactly 1,000 rows" in output) is is_cut
    # Without servers, all hosts tie.
    assert "exact machines: 0 of 2" in output or not is_cut


def test_image_of_a_boot_volume_is_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    """Its properties may request dedicated CPUs: Placement then counts no VCPU of its server."""
    change_row("servers", 0, **{"Image ID": "", "Image Name": "N/A (booted from volume)"})
    change_row(f"inventory-{HOST_1}", 2, used=0)
    # The cells of the server would be unknown, too.
    change_row("compute_nodes", 0, numa_topology=None)
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    assert "Not read:" not in read_output(capfd)
    offer_resources(1, PCPU=8)
    path = Path(f"export/inventory-{HOST_1}.json")
    used = {"VCPU": 0, "PCPU": 8}
    rows = [
        row | {"used": used.get(row["resource_class"], row["used"])}
        for row in json.loads(path.read_text())
    ]
    path.write_text(json.dumps(rows))
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    output = read_output(capfd)
    assert f"Not read: used of resource provider compute01 (inventory-{HOST_1}.json)" in output
    assert "Servers on these hosts use less in Placement than" in output
    assert "exact machines: 0 of 2" in output


def read_plan(capfd: pytest.CaptureFixture[str]) -> str:
    assert run_command_line(["plan", "-samples=5", "-details"]) == 0
    return read_output(capfd)


def test_server_without_an_image_is_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    """The image of its grant or boot volume may require traits, NUMA cells or pages."""
    Path("base.yaml").write_text(HOT.replace("          image: plain\n", ""))
    output = read_plan(capfd)
    assert "Not read: properties of the image" in output
    assert "The image of these VMs is unknown. Set image in the block vdu" in output


@pytest.mark.parametrize(
    ("name", "missing"),
    [("compute_services", "nova-compute service"), ("resource_providers", "resource provider")],
)
def test_hypervisor_without_service_or_provider_is_unknown(
    name: str, missing: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path(f"export/{name}.json")
    path.write_text(json.dumps(json.loads(path.read_text())[:2]))
    output = read_plan(capfd)
    assert f'The hypervisor "compute03" has no {missing}: its host is left out.' in output
    assert "Not read: host of hypervisor compute03 (hypervisors.json)" in output


def test_hypervisor_of_bare_metal_takes_no_server(capfd: pytest.CaptureFixture[str]) -> None:
    """Its host is the one of the service of Ironic, and its provider has no VCPU."""
    node = {"ID": "9", "Hypervisor Hostname": "node-9", "Hypervisor Type": "ironic"}
    append_row("hypervisors", **node)
    add_resource_provider("node-9", "CUSTOM_BAREMETAL")
    output = read_plan(capfd)
    assert 'Placement has no VCPU inventory of the hypervisor "node-9"' in output
    assert "Not read:" not in output


@pytest.mark.parametrize("settings", ["", 'enabled_filters = ["ServerGroupAntiAffinityFilter"]'])
def test_host_that_placement_forbids_gets_no_server(
    settings: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nova forbids the trait in each request, whatever the service and the filters are."""
    write_settings(settings)
    traits = [{"name": "COMPUTE_STATUS_DISABLED"}]
    Path("export/traits-00000000-0000-4000-8000-000000000002.json").write_text(json.dumps(traits))
    assert set(plan_hosts(capfd).values()) == {"compute01", "compute03"}


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ({"Status": "MIGRATING"}, "task_state of list servers"),
        ({"Status": "BUILD"}, "task_state of list servers"),
        ({"Status": "FUTURE"}, "task_state of list servers"),
        ({"Status": "UNKNOWN"}, "task_state of list servers"),
        ({"Status": "SHELVED"}, ""),
        ({"Task State": "image_snapshot"}, "task_state of list servers"),
        ({"Task State": "rebooting"}, ""),
        ({"Task State": None}, ""),
        ({"Status": "VERIFY_RESIZE"}, ""),
        ({"Status": "SOFT_DELETED"}, ""),
        ({"Status": "ACTIVE", "Host": None}, "host of list servers"),
        ({"Status": "UNKNOWN", "Host": ""}, "task_state of list servers"),
        # Placement still counts it on its former host.
        ({"Status": "ERROR", "Host": None}, "servers of host compute01"),
    ],
)
def test_state_of_a_server_decides_what_is_known(
    values: dict[str, Any], fact: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change_row("servers", 0, **values)
    output = read_plan(capfd)
    assert (f"Not read: {fact} (servers.json)" in output) is bool(fact)
    assert ("Not read:" in output) is bool(fact)


def test_soft_deleted_server_takes_capacity_until_nova_reclaims_it() -> None:
    contents = {path.stem: path.read_bytes() for path in Path("export").glob("*.json")}
    servers = json.loads(contents["servers"])
    servers[0]["Status"] = "SOFT_DELETED"
    reading = parse_openstack_files({**contents, "servers": json.dumps(servers).encode()})
    assert [server["name"] for server in reading.servers.values()] == ["dns"]


@pytest.mark.parametrize(
    ("key", "is_unread"), [("trait:CUSTOM_FAST", True), ("filter_tenant_id2", True), ("ssd", False)]
)
def test_metadata_that_may_reserve_hosts_is_unread(
    key: str, capfd: pytest.CaptureFixture[str], *, is_unread: bool
) -> None:
    """Settings of nova.conf decide whether Nova reads it."""
    aggregate = {"Name": "a", "Hosts": ["compute02"], "Properties": {key: "required"}}
    Path("export/aggregates.json").write_text(json.dumps([aggregate]))
    output = read_plan(capfd)
    assert (f"Not read: {key} of aggregate a (aggregates.json)" in output) is is_unread


def test_hosts_beyond_the_limit_of_placement_results_are_uncertain() -> None:
    contents = {path.stem: path.read_bytes() for path in EXPORT.glob("*.json")}
    rows = json.loads(contents["hypervisors"])
    rows += [rows[0] | {"ID": str(n), "Hypervisor Hostname": f"h{n}"} for n in range(3, 1001)]
    reading = parse_openstack_files({**contents, "hypervisors": json.dumps(rows).encode()})
    assert "allocation candidates" in {fact.field for fact in reading.unread}
    rows.pop()
    reading = parse_openstack_files({**contents, "hypervisors": json.dumps(rows).encode()})
    assert "allocation candidates" not in {fact.field for fact in reading.unread}


@pytest.mark.parametrize(("column", "value"), [("Status", "UNKNOWN"), ("State", "")])
def test_compute_service_without_a_known_state_is_unknown(
    column: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nova reports it so if its cell is down."""
    change_row("compute_services", 1, **{column: value})
    output = read_plan(capfd)
    assert f"Not read: {column.lower()} of compute service compute02" in output


@pytest.mark.parametrize(
    ("name", "row", "column"),
    [
        ("flavors", {}, "Properties"),
        ("flavors", {}, "Swap"),
        ("aggregates", {"Name": "a", "Hosts": [], "Properties": {}}, "Properties"),
        ("server_groups", {"Name": "g", "Members": [], "Policy": "affinity"}, "Members"),
        ("image-0", {}, "properties"),
        ("servers", {}, "Status"),
        ("compute_services", {}, "Zone"),
        ("hypervisors", {}, "Hypervisor Type"),
        ("hypervisor-0", {}, "hypervisor_version"),
    ],
)
def test_column_that_a_client_does_not_print_is_unknown(
    name: str, row: dict[str, Any], column: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """For example without --long."""
    path = Path(f"export/{name}.json")
    document = [row] if row else json.loads(path.read_text())
    path.write_text(json.dumps(document))
    assert "Not read:" not in read_plan(capfd)
    del (document[0] if isinstance(document, list) else document)[column]
    path.write_text(json.dumps(document))
    output = read_plan(capfd)
    field = column.lower().replace(" ", "_")
    assert f"Not read: {field} of" in output
    assert f"Columns are missing, and their values are unknown: {field} ({name}.json)" in output


def test_questions_about_the_state_know_what_its_export_lacked(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The files and filters of the last apply decide, until a better export is applied."""
    aggregates = Path("export/aggregates.json")
    text = aggregates.read_text()
    aggregates.unlink()
    write_settings('enabled_filters = ["ComputeFilter", "NumInstancesFilter"]')
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    question = ["simulate", "capacity", "-sku=worker.large"]
    for more in ([], ["-plan=p.nfplan"]):
        assert run_command_line(["plan", "-out=p.nfplan"]) == 0
        capfd.readouterr()
        assert run_command_line([*question, *more]) == 0
        output = read_output(capfd)
        assert "Not read: aggregates of the site (aggregates.json); " in output
        assert "Not read on o: effect of filter NumInstancesFilter" in output
    # Nothing else changes.
    aggregates.write_text(text)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    assert run_command_line(question) == 0
    output = read_output(capfd)
    assert "aggregates" not in output
    assert "Not read on o: effect of filter NumInstancesFilter" in output


@pytest.mark.parametrize(
    ("disk", "ephemeral", "swap", "total"),
    [(80, 0, 0, 80), (80, 20, 0, 100), (80, 20, 1, 101), (80, 0, 1024, 81), (0, 5, 1025, 7)],
)
def test_disk_of_a_flavor_is_that_of_placement(
    disk: int, ephemeral: int, swap: int, total: int
) -> None:
    """Nova requests GiB: swap is MiB, and a volume replaces the root disk only."""
    change_row("flavors", 0, Disk=disk, Ephemeral=ephemeral, Swap=swap)
    contents = {path.stem: path.read_bytes() for path in Path("export").glob("*.json")}
    values = parse_openstack_files(contents).flavors["worker.large"]
    flavor = Flavor(name="worker.large", **values)
    assert flavor.disk_gib == total
    assert flavor.volume_form.disk_gib == total - disk


@pytest.mark.parametrize(
    ("name", "column", "other"),
    [("flavors", "Properties", "extra_specs"), ("aggregates", "Properties", "metadata")],
)
def test_properties_of_both_names_are_read(name: str, column: str, other: str) -> None:
    rows = [{"Name": "a", "Hosts": ["compute01"], "Properties": {}}]
    if name == "flavors":
        rows = json.loads(Path("export/flavors.json").read_text())
    del rows[0][column]
    rows[0][other] = {"key": "value"}
    contents = {path.stem: path.read_bytes() for path in Path("export").glob("*.json")}
    reading = parse_openstack_files({**contents, name: json.dumps(rows).encode()})
    properties = (
        reading.flavors["worker.large"]["properties"]
        if name == "flavors"
        else reading.hosts["compute01"]["aggregates"]["a"]
    )
    assert properties == {"key": "value"}


TWO_REGIONS = """
data "openstack_inventory" "o" {
  for_each  = toset(["a", "b"])
  directory = each.key
}
resource "openstack_site" "o" {
  for_each  = data.openstack_inventory.o
  name      = each.key
  inventory = each.value
}
resource "tacker_vnf" "v" {
  for_each = openstack_site.o
  name     = each.key
  site_id  = each.value.id
  base_hot = file("base.yaml")
}
"""


def write_two_regions(region: str, **flavor: Any) -> None:
    """Write two equal regions but for the flavor of one."""
    change_row("servers", 0, **{"Flavor Name": "other"})
    for name in ("a", "b"):
        shutil.copytree("export", name)
    path = Path(region) / "flavors.json"
    path.write_text(json.dumps([json.loads(path.read_text())[0] | flavor]))
    Path("main.nf.hcl").write_text(TWO_REGIONS)


@pytest.mark.parametrize("region", ["a", "b"])
@pytest.mark.parametrize("flavor", [{"VCPUs": 200}, {"Name": "worker.small"}])
def test_each_region_has_its_own_flavors(
    region: str, flavor: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """Only in one region the flavor is too large, or does not exist."""
    write_two_regions(region, **flavor)
    assert run_command_line(["plan"]) == 1
    output = read_output(capfd)
    named = [name for name in ("a", "b") if f'tacker_vnf.v["{name}"]' in output]
    assert named == [region]


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_existing_server_on_a_volume_takes_no_root_disk(
    command: str, capfd: pytest.CaptureFixture[str], work_directory: Path
) -> None:
    """Its SKU is the form of its flavor for volumes, with the requests of its image."""
    change_row("servers", 0, **{"Flavor Name": "other"})
    volume = "block_device_mapping_v2: [{boot_index: 0, image: plain, volume_size: 80}]"
    (work_directory / "base.yaml").write_text(HOT.replace("image: plain", volume))
    for host in (1, 2, 3):
        offer_resources(host, DISK_GB=80)
        use_resources(host, DISK_GB=0)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    if command == "simulate":
        assert run_command_line(["simulate", "capacity", "-sku=worker.large", "-format=json"]) == 0
        assert '"more": 3' in capfd.readouterr().out
        return
    (work_directory / "local.yaml").write_text(HOT.replace("count: 2", "count: 3"))
    with (work_directory / "main.nf.hcl").open("a") as file:
        file.write(
            'resource "tacker_vnf" "w" {\n  name = "w"\n  site_id = openstack_site.o.id\n'
            '  base_hot = file("local.yaml")\n}\n'
        )
    assert run_command_line(["plan"]) == 0


def test_server_of_a_managed_vm_is_known_by_its_id(capfd: pytest.CaptureFixture[str]) -> None:
    """Heat names the server otherwise; an export after the apply would count it twice."""
    change_row("servers", 0, **{"Flavor Name": "other"})
    for host in (1, 2, 3):
        offer_resources(host, DISK_GB=160)
        use_resources(host, VCPU=0, MEMORY_MB=0, DISK_GB=0)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    # As Tacker reports its VNFCs.
    assert run_command_line(["state", "pull"]) == 0
    state = json.loads(capfd.readouterr().out)
    (attributes,) = (
        instance["attributes"]
        for resource in state["resources"]
        if resource["type"] == "tacker_vnf"
        for instance in resource["instances"]
    )
    hosts = {name: vnfc["machine"] for name, vnfc in attributes["vnfcs"].items()}
    attributes["vnfc_ids"] = {name: f"worker-id-{host}" for name, host in hosts.items()}
    state["serial"] += 1
    Path("s.json").write_text(json.dumps(state))
    assert run_command_line(["state", "push", "s.json"]) == 0
    for host in hosts.values():
        append_row("servers", **{"ID": f"id-{host}", "Host": host, "Flavor Name": "worker.large"})
        use_resources(int(host[-1]), VCPU=8, MEMORY_MB=16384, DISK_GB=80)
    text = Path("main.nf.hcl").read_text()
    other_vnf = text[text.index('resource "tacker') :].replace('"v"', '"w"')
    Path("main.nf.hcl").write_text(text + other_vnf)
    capfd.readouterr()
    assert run_command_line(["plan"]) == 0


@pytest.mark.parametrize(("disk", "code"), [(239, 1), (240, 0)])
def test_servers_of_one_name_count_each(disk: int, code: int) -> None:
    """Nova allows equal names, as those of several projects."""
    append_row("servers", ID="2")
    for host in (2, 3):
        offer_resources(host, DISK_GB=0)
    offer_resources(1, DISK_GB=disk)
    use_resources(1, VCPU=16, MEMORY_MB=32768, DISK_GB=160)
    Path("base.yaml").write_text(HOT.replace("count: 2", "count: 1"))
    assert run_command_line(["plan"]) == code


def test_filter_without_prediction_makes_hosts_uncertain(capfd: pytest.CaptureFixture[str]) -> None:
    """Removing it from the configuration does not remove it from Nova."""
    write_settings('enabled_filters = ["ComputeFilter", "AggregateMultiTenancyIsolation"]')
    output = read_plan(capfd)
    assert "Not read: effect of filter AggregateMultiTenancyIsolation" in output
    assert "hosts of VMs are uncertain and the capacity is uncertain" in output
    assert "AggregateMultiTenancyIsolation is not predicted: it may reject any host." in output
