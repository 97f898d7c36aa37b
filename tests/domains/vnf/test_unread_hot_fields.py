"""Tests of unread facts of HOT files: what was not read is never certain."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.importers import hot_fields
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments
from nexusform.planning.verdicts import numa_samples
from nexusform.scheduling.racks.vms import NO_CONSTRAINTS

EXPORT = Path(__file__).parents[3] / "examples" / "every-type" / "documents" / "openstack"
OPENSTACK = """
data "openstack_inventory" "o" { directory = "export" }
resource "openstack_site" "o" { inventory = data.openstack_inventory.o }
resource "tacker_vnf" "v" {
  site_id  = openstack_site.o.id
  base_hot = file("base.yaml")
}
"""
NEXUS = """
resource "nexus_site" "o" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.o.id
  name          = "rack1"
  machine_count = 4
}
resource "tacker_vnf" "v" {
  site_id  = nexus_site.o.id
  base_hot = file("base.yaml")
  vdu "a" {
    vcpus      = 2
    memory_gib = 4
  }
}
"""
HOT = """heat_template_version: 2018-08-31
RESOURCES
  a:
    type: OS::Nova::Server
    properties:
      flavor: worker.large
      PROPERTY
"""


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXPORT, "export")
    image = {"id": "0", "name": "plain", "properties": {}}
    Path("export/image-0.json").write_text(json.dumps(image))
    (tmp_path / "main.nf.hcl").write_text(OPENSTACK)
    return tmp_path


def write_hot(prop: str = "name: a", resources: str = "resources:") -> None:
    text = HOT.replace("PROPERTY", prop).replace("RESOURCES", resources)
    if not prop.startswith("image") and "boot_index: 0" not in prop:
        # Of the export.
        text += "      image: plain\n"
    Path("base.yaml").write_text(text)


def plan(capfd: pytest.CaptureFixture[str], *options: str) -> tuple[dict[str, Any], str]:
    """Return the plan as JSON and as text."""
    assert run_command_line(["plan", "-out=p.nfplan", *options]) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert run_command_line(["show", "-json", "p.nfplan"]) == 0
    return json.loads(capfd.readouterr().out), text


def test_server_with_read_fields_only_is_certain(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot()
    document, text = plan(capfd)
    assert "unread" not in document
    assert "Not read" not in text
    assert document["placement_changes"][0]["certainty"] is not None


def test_new_field_of_a_server_is_unread_with_its_position(
    capfd: pytest.CaptureFixture[str],
) -> None:
    write_hot("host_of_the_future: c1")
    document, text = plan(capfd)
    assert document["unread"] == [
        {
            "subject": "server a",
            "field": "host_of_the_future",
            "file": "base_hot",
            "line": 7,
            "may_change": ["placement"],
            "address": "tacker_vnf.v",
        }
    ]
    assert "Not read: host_of_the_future of server a (base_hot:7); its host is uncertain" in text
    assert "machines too" not in text
    assert document["placement_changes"][0]["certainty"] is None
    assert document["decision"]["confidence"]["exact_rack_counts"] == 0


@pytest.mark.parametrize(
    ("resource", "field", "influence"),
    [
        ("{type: OS::Senlin::Cluster}", "type", "existence"),
        ("{type: OS::Nova::HostAggregate}", "type", "placement"),
        ("{type: OS::Future::Thing}", "type", "existence"),
        (
            (
                "{type: OS::Heat::ResourceGroup, properties: {count: {get_param: n}, resource_def: "
                "{type: OS::Nova::Server, properties: {flavor: worker.large, image: plain}}}}"
            ),
            "count",
            "existence",
        ),
        (
            (
                "{type: OS::Heat::AutoScalingGroup, properties: {min_size: {get_param: n}, "
                "max_size: 4, resource: "
                "{type: OS::Nova::Server, properties: {flavor: worker.large, image: plain}}}}"
            ),
            "count",
            "existence",
        ),
        ("{type: OS::Neutron::Port, properties: {qos_policy: q}}", "qos_policy", "placement"),
    ],
)
def test_unread_resources(
    resource: str, field: str, influence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write_hot(resources=f"resources:\n  other: {resource}")
    document, _ = plan(capfd)
    assert [(fact["field"], fact["may_change"]) for fact in document["unread"]] == [
        (field, [influence])
    ]
    assert all(row["certainty"] is None for row in document["placement_changes"])


def test_unknown_template_version_is_unread(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot()
    path = Path("base.yaml")
    path.write_text(path.read_text().replace("2018-08-31", "2031-01-01"))
    document, _ = plan(capfd)
    assert document["unread"][0]["field"] == "heat_template_version"
    assert document["unread"][0]["line"] == 1


@pytest.mark.parametrize("configuration", [OPENSTACK, NEXUS])
def test_guard_rails_count_unread_facts(
    configuration: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text(configuration)
    write_hot()
    assert run_command_line(["plan", "-fail-on=certainty:0.1", "-samples=20"]) == 0
    capfd.readouterr()
    write_hot("availability_zone_hint: z")
    assert run_command_line(["plan", "-fail-on=certainty:0.1", "-samples=20"]) == 1
    text = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert "not read: availability_zone_hint of server a (base_hot:7)" in text


@pytest.mark.parametrize("limit", ["risk", "temporary_risk"])
def test_risks_are_unknown_if_a_host_is(limit: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Which VMs share a rack or a machine decides about risks."""
    Path("main.nf.hcl").write_text(NEXUS)
    write_hot()
    assert run_command_line(["plan", f"-fail-on={limit}:9", "-samples=20"]) == 0
    capfd.readouterr()
    write_hot("availability_zone_hint: z")
    assert run_command_line(["plan", f"-fail-on={limit}:9", "-samples=20"]) == 1
    text = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert "Risks are unknown because a fact is not read" in text
    assert run_command_line(["plan", f"-warn-on={limit}:9", "-samples=20"]) == 0
    assert f"REVIEW needed by {limit}:9: risks are unknown" in capfd.readouterr().out


def test_guard_rail_of_capacity_needs_the_number_of_vms(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot(resources="resources:\n  other: {type: OS::Senlin::Cluster}")
    assert run_command_line(["plan", "-fail-on=capacity:0"]) == 1
    text = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert "a fact is not read: type of resource other (base_hot:3)" in text


def test_no_changes_is_said_of_what_was_read_only(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot(resources="resources:\n  other: {type: OS::Senlin::Cluster}")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()
    _, text = plan(capfd)
    assert "Your infrastructure matches the configuration" not in text
    assert "nexusform did not read type of resource other" in text


def test_false_condition_creates_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    resources = """parameters:
  ha: { type: boolean, default: false }
conditions:
  is_ha: { equals: [ { get_param: ha }, true ] }
  is_single: { not: is_ha }
resources:
  group:
    type: OS::Nova::ServerGroup
    condition: is_ha
    properties: { policies: [ anti-affinity ] }
  b:
    type: OS::Nova::Server
    condition: { and: [ is_ha, true ] }
    properties: { flavor: worker.large, image: plain }
  c:
    type: OS::Heat::ResourceGroup
    properties:
      count: { if: [ is_single, 1, 3 ] }
      resource_def:
        type: OS::Nova::Server
        properties: { flavor: worker.large, image: plain }"""
    write_hot("scheduler_hints: { group: { get_resource: group } }", resources)
    document, _ = plan(capfd)
    assert {row["object"] for row in document["placement_changes"]} == {"v-a-0", "v-c-0"}
    assert "unread" not in document


def test_unknown_condition_is_unread(capfd: pytest.CaptureFixture[str]) -> None:
    resources = """parameters:
  ha: { type: boolean }
conditions:
  is_ha: { get_param: ha }
resources:
  b:
    type: OS::Nova::Server
    condition: is_ha
    properties: { flavor: worker.large, image: plain }"""
    write_hot(resources=resources)
    document, _ = plan(capfd)
    assert [(fact["field"], fact["may_change"]) for fact in document["unread"]] == [
        ("condition", ["existence"])
    ]


def test_existing_server_is_not_created(capfd: pytest.CaptureFixture[str]) -> None:
    resources = """resources:
  b:
    type: OS::Nova::Server
    external_id: da5b940a-14ff-4884-8e95-5cf6a3a1028f"""
    write_hot(resources=resources)
    document, _ = plan(capfd)
    assert [row["object"] for row in document["placement_changes"]] == ["v-a-0"]


def test_existing_server_group_is_unread(capfd: pytest.CaptureFixture[str]) -> None:
    resources = """resources:
  group:
    type: OS::Nova::ServerGroup
    external_id: 0b7b1a2e-4c5d-4a4e-9a5f-6ac5bbd2bd1f"""
    write_hot("scheduler_hints: { group: { get_resource: group } }", resources)
    document, text = plan(capfd)
    assert [(fact["field"], fact["may_change"]) for fact in document["unread"]] == [
        ("external_id", ["placement"])
    ]
    assert "is not a server group" not in text
    assert document["placement_changes"][0]["certainty"] is None


@pytest.mark.parametrize("count", ["two", "-1", "[]", "1.5"])
def test_count_that_is_no_number_is_unread(count: str, capfd: pytest.CaptureFixture[str]) -> None:
    write_hot()
    text = Path("base.yaml").read_text()
    start = text.index("    type: OS::Nova")
    server = text[start:].replace("\n", "\n    ")
    group = f"    type: OS::Heat::ResourceGroup\n    properties:\n      count: {count}\n"
    group += f"      resource_def:\n        {server.strip()}\n"
    Path("base.yaml").write_text(text[:start] + group)
    document, text = plan(capfd)
    assert "count" in {fact["field"] for fact in document["unread"]}
    assert "Not read: count of server a (base_hot:" in text


@pytest.mark.parametrize(
    ("port", "is_unread"),
    [
        ("{ get_param: existing }", True),
        ("5b1c41a6-6b5c-4f7e-9d3e-1f0a3b0c9e01", True),
        ("{ get_resource: p }", False),
        ("{ get_attr: [t, port_id] }", False),
    ],
)
def test_port_that_no_template_creates_is_unread(
    port: str, capfd: pytest.CaptureFixture[str], *, is_unread: bool
) -> None:
    """It may need a PCI device or a bandwidth of its host."""
    resources = """resources:
  p: { type: OS::Neutron::Port, properties: { network: n } }
  t: { type: OS::Neutron::Trunk, properties: { port: { get_resource: p } } }"""
    write_hot(f"networks: [{{ port: {port} }}]", resources)
    _, text = plan(capfd)
    assert ("Not read: port of server a (base_hot:" in text) is is_unread


def test_every_field_of_heat_is_in_a_list_or_unread() -> None:
    """A property that is new in Heat is unread, because no list has it."""
    schema = hot_fields.read_heat_schema()
    for kind, fields in hot_fields.PROPERTIES.items():
        known = set(schema["properties"][kind])
        own_words = {"size", "resource", "resource_def", "scheduler_hints", "policy"}
        own_words |= {"flavor", "image"}
        # A name in a list is one of Heat, or a misplaced one that is read as intended.
        assert {*fields.read, *fields.without_influence} - known <= own_words, kind
    types = set(schema["types"])
    assert hot_fields.TYPES_WITHOUT_INFLUENCE.keys() <= types
    assert hot_fields.TYPE_INFLUENCES.keys() <= types


def test_dropped_entry_of_a_list_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name that the lists know stands for a fact: without it, the fact is unread."""
    fields = hot_fields.PROPERTIES["OS::Nova::Server"]
    for name in fields.read | fields.without_influence.keys():
        hot = HOT.replace("RESOURCES", "resources:").replace("      flavor: worker.large\n", "")
        value = "[]" if name.startswith(("block", "networks")) else "x"
        value = "{}" if name == "scheduler_hints" else value
        sources = VnfSourceDocuments(base_hot=hot.replace("PROPERTY", f"{name}: {value}"))
        # Nova's own requests are read on its sites.
        unread = {fact.field for fact in read_vnf(sources).unread if not fact.reading_platform}
        assert name not in unread
        harmless = {k: v for k, v in fields.without_influence.items() if k != name}
        shorter = replace(fields, read=fields.read - {name}, without_influence=harmless)
        with monkeypatch.context() as patch:
            patch.setattr(
                "nexusform.domains.vnf.importers.hot_servers.PROPERTIES",
                {"OS::Nova::Server": shorter},
            )
            assert name in {fact.field for fact in read_vnf(sources).unread}


def change_rows(name: str, **values: Any) -> None:
    """Change the first row of a file of the export."""
    path = Path("export") / f"{name}.json"
    rows = json.loads(path.read_text())
    rows[0] |= values
    path.write_text(json.dumps(rows))


@pytest.mark.parametrize(
    "value", ['"az2"', '"az2:compute01"', '"az2:compute01:node1"', "{ get_param: zone }"]
)
def test_nova_zone_and_host_are_read(value: str, capfd: pytest.CaptureFixture[str]) -> None:
    # The other hosts have more free capacity.
    change_rows("compute_services", Zone="az2")
    parameters = "parameters:\n  zone: { type: string, default: az2 }\nresources:"
    write_hot(f"availability_zone: {value}", parameters)
    document, _ = plan(capfd)
    [row] = document["placement_changes"]
    assert row["to"]["machine"] == "compute01"
    assert row["certainty"]["machine"] == 1
    assert "unread" not in document


def test_host_of_nova_wins_over_weights(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot()
    document, _ = plan(capfd)
    zone = document["placement_changes"][0]["to"]["availability_zone"]
    for host in ("compute01", "compute02", "compute03"):
        write_hot(f"availability_zone: {zone}:{host}")
        document, _ = plan(capfd)
        assert document["placement_changes"][0]["to"]["machine"] == host


def test_zone_parameter_without_value_is_unread(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot("availability_zone: { get_param: zone }")
    document, _ = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == ["availability_zone"]
    assert "the parameter zone" in document["unread"][0]["reason"]


@pytest.mark.parametrize(
    ("prop", "field"),
    [
        ("availability_zone: az2", "availability_zone"),
        ("scheduler_hints: { different_host: x }", "scheduler_hints.different_host"),
        ("scheduler_hints: { build_near_host_ip: 10.0.0.1 }", "scheduler_hints.build_near_host_ip"),
    ],
)
def test_requests_of_nova_are_unread_on_nexus(
    prop: str, field: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text(NEXUS)
    write_hot(prop)
    document, text = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == [field]
    assert f"Not read: {field} of server a (base_hot:7)" in text
    assert "exact; nexusform decides" not in text


def test_hint_of_a_disabled_filter_does_not_change_nova(capfd: pytest.CaptureFixture[str]) -> None:
    write_hot("scheduler_hints: { different_host: x }")
    document, _ = plan(capfd)
    assert "unread" not in document
    write_hot("scheduler_hints: { hint_of_the_future: x }")
    document, _ = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == ["scheduler_hints.hint_of_the_future"]


def write_flavors(**values: Any) -> None:
    path = Path("export") / "flavors.json"
    rows = [row | values for row in json.loads(path.read_text())]
    path.write_text(json.dumps(rows))


def test_server_on_a_volume_needs_no_root_disk(capfd: pytest.CaptureFixture[str]) -> None:
    write_flavors(Ephemeral=0, Swap=0, Disk=40)
    for path in Path("export").glob("inventory-*.json"):
        rows = json.loads(path.read_text())
        for row in rows:
            if row["resource_class"] == "DISK_GB":
                row |= {"min_unit": 0, "max_unit": 1}
        path.write_text(json.dumps(rows))
    write_hot()
    assert run_command_line(["plan"]) == 1
    capfd.readouterr()
    volume = "block_device_mapping_v2: [{ boot_index: 0, image: i, volume_size: 40 }]"
    write_hot(volume)
    document, _ = plan(capfd)
    assert len(document["placement_changes"]) == 1
    # Another disk leaves the root disk on the host.
    write_hot(volume.replace("boot_index: 0", "boot_index: 1"))
    assert run_command_line(["plan"]) == 1
    # Swap stays on the host, too.
    write_hot(volume)
    write_flavors(Swap=4096)
    assert run_command_line(["plan"]) == 1


def test_flavor_of_unknown_parameters_is_read_at_once() -> None:
    """Comparing None with a range walked a billion numbers: over a minute per command."""
    hot = """heat_template_version: 2013-05-23
parameters: { nfv: { type: json } }
resources:
  a:
    type: OS::Nova::Server
    properties: { flavor: { get_resource: f } }
  f:
    type: OS::Nova::Flavor
    properties: { ram: { get_param: [ nfv, ram ] }, vcpus: { get_param: [ nfv, vcpus ] } }
"""
    start = time.process_time()
    read_vnf(VnfSourceDocuments(base_hot=hot))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("request_of_nova", ["availability_zone: az1:c1", "image: ubuntu"])
def test_requests_that_only_nova_reads_distinguish_no_vms_of_nexus(
    request_of_nova: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """VMs with equal demands have a certain fit on machines with unknown NUMA cells."""
    occupied = """
resource "nexus_bare_metal_machine" "m" {
  rack_id     = nexus_rack.r.id
  slot        = 5
  machine_sku = "bom-1.7.3"
  occupied {
    name       = "x"
    cpu_cores  = 12
    memory_gib = 56
  }
}
"""
    Path("main.nf.hcl").write_text(NEXUS + occupied)
    write_hot(request_of_nova)
    constraints: set[Any] = set()
    check = numa_samples.check_uncertain_fit

    def record_constraints(sites: Any, objects: Any, sampling: Any) -> Any:
        vm_objects = list(objects)
        constraints.update(
            pool.constraints for item in vm_objects for pool in item.request.demand.pools
        )
        return check(sites, vm_objects, sampling)

    monkeypatch.setattr(numa_samples, "check_uncertain_fit", record_constraints)
    plan(capfd, "-samples=5")
    assert constraints == {NO_CONSTRAINTS}


@pytest.mark.parametrize(
    ("prop", "field"),
    [
        ("image: { get_param: x }", "image"),
        ("image: { get_resource: x }", "image"),
        ("block_device_mapping_v2: [{ boot_index: 0, volume_id: v }]", "block_device_mapping_v2"),
        (
            "block_device_mapping_v2: [{ boot_index: { get_param: x }, volume_id: v }]",
            "block_device_mapping_v2",
        ),
        ("flavor: { get_param: x }", "flavor"),
    ],
)
def test_flavor_or_image_without_a_known_name_is_unknown(
    prop: str, field: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its requirements may exclude any host of Nova; on Nexus it has no influence."""
    write_hot(prop, "resources:\n  x: { type: OS::Glance::WebImage }")
    if field == "flavor":
        path = Path("base.yaml")
        path.write_text(path.read_text().replace("      flavor: worker.large\n", ""))
        size = 'vdu "a" {\n  vcpus = 8\n  memory_gib = 16\n }\n}'
        Path("main.nf.hcl").write_text(OPENSTACK.rstrip().removesuffix("}") + size)
    document, text = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == [field]
    assert f"Not read: {field} of server a (base_hot:" in text
    assert document["placement_changes"][0]["certainty"] is None
    if "boot_index: {" not in prop:
        Path("main.nf.hcl").write_text(NEXUS)
        document, _ = plan(capfd)
        assert "unread" not in document


@pytest.mark.parametrize("source", ["block", "VNFD", "volume", "volume beside a VNFD"])
def test_image_of_another_source_is_known(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The image of a VDU in the VNFD is not the one of its boot volume."""
    image = {"id": "1", "name": "edge", "properties": {}}
    Path("export/image-1.json").write_text(json.dumps(image))
    write_hot("image: { get_param: x }")
    if source == "block":
        block = 'vdu "a" { image = "edge" }\n}'
        Path("main.nf.hcl").write_text(OPENSTACK.rstrip().removesuffix("}") + block)
    elif source != "volume":
        vnfd = """tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    a:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: { sw_image_data: { name: edge } }
"""
        Path("vnfd.yaml").write_text(vnfd)
        configuration = OPENSTACK.replace("base_hot", 'vnfd = file("vnfd.yaml")\n  base_hot')
        Path("main.nf.hcl").write_text(configuration)
        if source != "VNFD":
            write_hot("block_device_mapping_v2: [{ boot_index: 0, volume_id: v }]")
    else:
        volume = "resources:\n  v: { type: OS::Cinder::Volume, properties: { image: edge } }"
        device = "{ boot_index: 0, volume_id: { get_resource: v } }"
        write_hot(f"block_device_mapping_v2: [{device}]", volume)
    document, _ = plan(capfd)
    assert ("unread" in document) is (source == "volume beside a VNFD")


def test_disk_of_a_flavor_without_a_known_value_is_unknown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    flavor = "{ vcpus: 8, ram: 16384, disk: { get_param: d }, ephemeral: 1 }"
    write_hot("", f"resources:\n  f: {{ type: OS::Nova::Flavor, properties: {flavor} }}")
    path = Path("base.yaml")
    path.write_text(path.read_text().replace("worker.large", "{ get_resource: f }"))
    document, text = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == ["disk"]
    assert "Not read: disk of flavor f (base_hot:" in text
    assert document["placement_changes"][0]["certainty"] is None


def test_requests_of_a_flavor_are_unread_if_the_size_is_set_elsewhere(
    capfd: pytest.CaptureFixture[str],
) -> None:
    write_hot()
    size = 'vdu "a" {\n  vcpus = 8\n  memory_gib = 16\n }\n}'
    Path("main.nf.hcl").write_text(OPENSTACK.rstrip().removesuffix("}") + size)
    document, text = plan(capfd)
    assert [fact["field"] for fact in document["unread"]] == ["flavor"]
    assert 'set vm_sku_name = "worker.large" in vdu ' in text


@pytest.mark.parametrize(
    "prop",
    [
        "metadata: { n: { get_attr: [peeer, name] } }",
        "user_data: { get_resource: peeer }",
        "name: { if: [{ equals: [a, a] }, { get_resource: peeer }, x] }",
    ],
)
def test_reference_to_a_missing_resource_is_named(
    prop: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write_hot(prop, "resources:\n  peer: { type: OS::Heat::Value, properties: { value: 1 } }")
    document, _ = plan(capfd)
    (fact,) = [item for item in document["unread"] if item["field"] == "reference"]
    assert 'Did you mean "peer"?' in fact["reason"]
    assert document["placement_changes"][0]["certainty"] is None
    # In the other branch it is never read.
    write_hot(
        "name: { if: [{ equals: [a, b] }, { get_resource: peeer }, x] }",
        "resources:\n  peer: { type: OS::Heat::Value, properties: { value: 1 } }",
    )
    document, _ = plan(capfd)
    assert not [item for item in document.get("unread", []) if item["field"] == "reference"]
