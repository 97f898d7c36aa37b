"""Tests that no value of a wrong kind in a VNFD or a HOT file is taken for an absent one."""

from __future__ import annotations

from typing import Any

import yaml

from nexusform.domains.vnf.importers.vnf_reading import ParsedVnf, read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments

HOT = """
heat_template_version: 2018-08-31
parameters:
  zone: { type: string, default: a }
resources:
  group:
    type: OS::Nova::ServerGroup
    properties: { name: g, policies: [anti-affinity] }
  a:
    type: OS::Nova::Server
    properties:
      name: a
      flavor: { get_resource: f }
      image: i
      availability_zone: { get_param: zone }
      scheduler_hints: { group: { get_resource: group } }
      networks: [{ network: n }]
  f:
    type: OS::Nova::Flavor
    properties: { ram: 2048, vcpus: 2, disk: 10, name: big }
  g:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def:
        type: OS::Nova::Server
        properties: { flavor: big, image: i }
"""


def read(source: str, document: Any) -> ParsedVnf:
    text = yaml.safe_dump(document, sort_keys=False)
    return read_vnf(VnfSourceDocuments(**{source: text}))


def test_wrong_value_is_an_unread_fact_with_its_line() -> None:
    document = yaml.safe_load(HOT)
    document["resources"]["g"]["properties"]["resource_def"]["properties"]["flavor"] = [7]
    vnf = read("base_hot", document)
    (fact,) = (fact for fact in vnf.unread if not fact.reading_platform)
    lines = yaml.safe_dump(document, sort_keys=False).splitlines()
    assert "flavor:" in lines[fact.line - 1]
    assert "- 7" in lines[fact.line]
    assert "nexusform did not read flavor of the document (it is a list, not a text)" in fact.cause
