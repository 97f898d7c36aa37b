"""Tests of unread facts of TOSCA files."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.importers.tosca_fields import FIELDS, TYPES_WITHOUT_INFLUENCE
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments

VNFD = """tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    VNF:
      type: company.provider.VNF
      properties:
        flavour_description: simple
    VDU1:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: a
        vdu_profile: { min_number_of_instances: 1, max_number_of_instances: 2 }
        # PROPERTY
      capabilities:
        virtual_compute:
          properties:
            virtual_cpu: { num_virtual_cpu: 2, cpu_architecture: x86_64 }
            virtual_memory: { virtual_mem_size: 4 GiB, numa_enabled: false }
            # COMPUTE
    CP1:
      type: tosca.nodes.nfv.VduCp
      properties: { order: 0, vnic_type: normal }
    # NODE
  policies:
    - delta:
        type: tosca.policies.nfv.VduInitialDelta
        targets: [ VDU1 ]
        properties: { initial_delta: { number_of_instances: 1 } }
    # POLICY
"""
NEXUS = """
resource "nexus_site" "o" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.o.id
  name          = "rack1"
  machine_count = 4
}
resource "tacker_vnf" "v" {
  site_id = nexus_site.o.id
  vnfd    = file("vnfd.yaml")
}
"""
# Properties of SOL001 that nexusform does not read, and that may change the host of a VM.
UNREAD = {
    "nodes.nfv.vdu.compute.nfvi_constraints",
    "nodes.nfv.vducp.bitrate_requirement",
    "nodes.nfv.vducp.virtual_network_interface_requirements",
    "nodes.nfv.vducp.vnic_type",
    "capabilities.nfv.virtualcompute.logical_node",
    "capabilities.nfv.virtualcompute.requested_additional_capabilities",
    "capabilities.nfv.virtualcompute.compute_requirements",
    "datatypes.nfv.virtualmemory.virtual_mem_oversubscription_policy",
    "datatypes.nfv.virtualmemory.vdu_mem_requirements",
    "datatypes.nfv.virtualmemory.numa_enabled",
    "datatypes.nfv.virtualcpu.cpu_architecture",
    "datatypes.nfv.virtualcpu.virtual_cpu_clock",
    "datatypes.nfv.virtualcpu.virtual_cpu_oversubscription_policy",
    "datatypes.nfv.virtualcpu.vdu_cpu_requirements",
    "datatypes.nfv.virtualcpu.virtual_cpu_pinning",
    "datatypes.nfv.swimagedata.supported_virtualisation_environments",
}


def read_facts(place: str = "", text: str = "") -> list[tuple[str, str, int, str]]:
    """Return subject, field, line and consequence of the facts of a changed VNFD."""
    document = VNFD.replace(f"# {place}", text) if place else VNFD
    vnf = read_vnf(VnfSourceDocuments(vnfd=document))
    return [(fact.subject, fact.field, fact.line, fact.consequence) for fact in vnf.unread]


def test_read_fields_only_have_no_unread_fact() -> None:
    assert read_facts() == []


@pytest.mark.parametrize(
    ("place", "text", "subject", "field", "consequence"),
    [
        ("PROPERTY", "nfvi_constraints: [zone-a]", "VDU VDU1", "nfvi_constraints", "hosts"),
        ("PROPERTY", "host_of_the_future: h", "VDU VDU1", "host_of_the_future", "hosts"),
        ("PROPERTY", "shares_host: false", "VDU VDU1", "shares_host", "hosts"),
        ("PROPERTY", "spare_hosts: 0", "VDU VDU1", "spare_hosts", "hosts"),
        ("COMPUTE", "logical_node: { a: { b: c } }", "VDU VDU1", "logical_node", "hosts"),
        ("NODE", "X: { type: tosca.nodes.Compute }", "node X", "type", "the number of VMs"),
        (
            "NODE",
            "C2: { type: tosca.nodes.nfv.VduCp, properties: { vnic_type: direct } }",
            "node C2",
            "vnic_type",
            "hosts",
        ),
        ("POLICY", "- p: { type: tosca.policies.Placement }", "policy p", "type", "hosts"),
        (
            "POLICY",
            "- p: { type: tosca.policies.nfv.ScalingAspects, properties: { ramp: 1 } }",
            "policy p",
            "ramp",
            "the number of VMs",
        ),
    ],
)
def test_unread_fact_of_a_vnfd(
    place: str, text: str, subject: str, field: str, consequence: str
) -> None:
    line = VNFD.splitlines().index(next(row for row in VNFD.splitlines() if f"# {place}" in row))
    verb = "are" if consequence == "hosts" else "is"
    assert read_facts(place, text) == [
        (subject, field, line + 1, f"{consequence} {verb} uncertain")
    ]


def test_properties_of_sol001_are_classified() -> None:
    file = resources.files("nexusform.domains.vnf.importers").joinpath(
        "assets", "tosca_fields.json"
    )
    types = json.loads(file.read_text())["types"]
    unread = set()
    for name, properties in types.items():
        kind = name.removeprefix("tosca.").lower()
        if kind.partition(".")[0] in ("nodes", "groups", "policies"):
            assert kind in FIELDS or kind in TYPES_WITHOUT_INFLUENCE, kind
        if kind in FIELDS:
            unread |= {f"{kind}.{field}" for field, _ in FIELDS[kind].list_unread(properties)}
    assert unread == UNREAD


def test_unread_field_of_a_vdu_makes_its_hosts_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(NEXUS)
    for text, is_certain in (("", True), ("nfvi_constraints: [zone-a]", False)):
        Path("vnfd.yaml").write_text(VNFD.replace("# PROPERTY", text))
        assert run_command_line(["plan", "-out=p.nfplan"]) == 0
        assert run_command_line(["show", "-json", "p.nfplan"]) == 0
        document = json.loads(capfd.readouterr().out.splitlines()[-1])
        assert document["decision"]["confidence"]["exact_rack_counts"] == is_certain
        assert ("unread" not in document) is is_certain
