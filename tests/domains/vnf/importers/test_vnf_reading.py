"""Tests of VNFD and HOT parsing.

Each case is a directory with its documents and the expected result.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexusform.documents.yaml_documents import DocumentFindings
from nexusform.domains.vnf.importers.hot_values import (
    Template,
    UnresolvedValue,
    resolve_condition,
    resolve_intrinsic_functions,
)
from nexusform.domains.vnf.importers.vnf_reading import ParsedVnf, read_vnf
from nexusform.domains.vnf.importers.vnf_records import (
    PlacementRule,
    Vdu,
    Vnf,
    VnfSourceDocuments,
    compute_maximum_counts,
    compute_vdu_counts,
)
from nexusform.domains.vnf.importers.vnf_text import parse_documents

CASES = Path(__file__).parent / "cases"


def read_sources(case: Path) -> VnfSourceDocuments:
    def read_case_file(name: str) -> str | None:
        file = case / name
        return file.read_text() if file.exists() else None

    return VnfSourceDocuments(
        read_case_file("vnfd.yaml"),
        read_case_file("base_hot.yaml"),
        {
            file.name.removeprefix("nested."): file.read_text()
            for file in sorted(case.glob("nested.*"))
        },
        json.loads(read_case_file("parameters.json") or "{}"),
        (read_case_file("flavour_id") or "").strip(),
    )


def render_parsed_vnf(read: ParsedVnf) -> str:
    """Return the result in a form suitable for review."""
    return (
        "\n".join(
            [*_render_vnf(read.vnf), "", *(f"{f.severity.value}: {f}" for f in read.findings)]
        )
        + "\n"
    )


def _render_vnf(vnf: Vnf) -> Iterator[str]:
    now = compute_vdu_counts(vnf)
    most = compute_maximum_counts(vnf)
    for vdu in vnf.vdus:
        yield _render_vdu(vdu, now.numbers[vdu.name], most.numbers[vdu.name])
    for rule in vnf.rules:
        yield _render_rule(rule)
    for aspect in vnf.aspects:
        steps = ", ".join(f"{s.vdu} {'+'.join(map(str, s.increments))}" for s in aspect.steps)
        yield (
            f"aspect {aspect.name} ({aspect.origin}): levels 0..{aspect.max_level}, "
            f"{steps or 'nothing'}"
        )
    for level in vnf.levels:
        default = ", the default" if level.name == vnf.default_level else ""
        numbers = dict(compute_vdu_counts(vnf, level.name).numbers)
        yield f"level {level.name}{default}: {dict(level.scale_levels)}, {numbers}"


def _render_vdu(vdu: Vdu, now: int, most: int) -> str:
    size = f"{vdu.size.vcpus} vCPU, {vdu.size.memory_gib} GiB, disk {vdu.size.disk_gib} GiB"
    bounds = f"{vdu.minimum}..{'' if vdu.maximum is None else vdu.maximum}"
    return f"vdu {vdu.name} ({vdu.origin}): {size}; {now} now, {most} at most, bounds {bounds}"


def _render_rule(rule: PlacementRule) -> str:
    kind = (
        f"{'hard' if rule.is_hard else 'soft'} "
        f"{'affinity' if rule.is_affinity else 'anti-affinity'}"
    )
    most = f", {rule.max_per_location} on each" if rule.max_per_location > 1 else ""
    return f"rule {rule.name} ({rule.origin}): {kind} by {rule.scope}{most}: {', '.join(rule.vdus)}"


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir() if path.is_dir()))
def test_reading(case: str) -> None:
    given = read_sources(CASES / case)
    if given == VnfSourceDocuments():
        pytest.skip("a case of another importer")
    text = render_parsed_vnf(read_vnf(given))
    file = CASES / case / "expected.txt"
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), f"differs from {file}"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "vnfd",
            "heat_template_version: 2018-08-31\nresources: {}\n",
            "this is a HOT template: set it as base_hot.",
        ),
        ("vnfd", "vnfd:vnfd-catalog: {vnfd: [{id: x}]}\n", "an OSM descriptor"),
        ("vnfd", "etsi-nfv-vnfd:vnfd: {id: x}\n", "a VNFD of ETSI SOL006 (YANG), which Tacker"),
        ("vnfd", "etsi-nfv-descriptors:nsd: []\n", "network service descriptor (NSD)"),
        ("vnfd", "tosca_definitions_version: cloudify_dsl_1_3\nnode_templates: {}\n", "Cloudify"),
        (
            "vnfd",
            "topology_template: {node_templates: {s: {type: tosca.nodes.nfv.NS}}}\n",
            "network service in TOSCA",
        ),
        (
            "vnfd",
            "topology_template: {node_templates: {s: {type: org.openecomp.resource.vf.X}}}\n",
            "ONAP's SDC",
        ),
        ("vnfd", "AWSTemplateFormatVersion: '2010-09-09'\n", "CloudFormation"),
        (
            "vnfd",
            '{"$schema": "s", "contentVersion": "1.0.0.0", "resources": []}',
            "Azure Resource Manager",
        ),
        ("vnfd", "apiVersion: apps/v1\nkind: Deployment\n", "Kubernetes manifest"),
        ("vnfd", "apiVersion: v2\nname: upf\nversion: 0.1.0\n", "Helm chart"),
        (
            "base_hot",
            "tosca_definitions_version: tosca_simple_yaml_1_2\n",
            "this is a VNFD: set it as vnfd.",
        ),
        (
            "base_hot",
            "vnfd: {id: x, df: [], vdu: []}\n",
            "a VNFD of ETSI SOL006 (YANG), which Tacker",
        ),
        ("base_hot", "apiVersion: v1\nkind: Pod\n", "Kubernetes manifest"),
    ],
)
def test_documents_of_other_kinds_are_named(name: str, text: str, words: str) -> None:
    given = VnfSourceDocuments(text, None) if name == "vnfd" else VnfSourceDocuments(None, text)
    (told,) = [each for each in read_vnf(given).findings if each.severity == "error"]
    assert words in str(told)
    assert str(told).startswith(f"{name}, line 1")


def test_image_of_a_vdu_is_the_one_of_its_software_image_data() -> None:
    vnfd = """
tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  inputs:
    image: { type: string, default: upf-1.4 }
  node_templates:
    written:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: { sw_image_data: { name: ubuntu-24.04 } }
    from_input:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: { sw_image_data: { name: { get_input: image } } }
    without:
      type: tosca.nodes.nfv.Vdu.Compute
"""
    vdus = read_vnf(VnfSourceDocuments(vnfd, None)).vnf.vdus
    assert {vdu.name: vdu.image for vdu in vdus} == {
        "written": "ubuntu-24.04",
        "from_input": "upf-1.4",
        "without": "",
    }


@pytest.mark.parametrize(
    ("section", "kind"),
    [("parameters", "type: comma_delimited_list"), ("Parameters", "Type: CommaDelimitedList")],
)
def test_list_given_as_text_is_split_in_both_template_formats(section: str, kind: str) -> None:
    notes = DocumentFindings("base_hot")
    root = parse_documents(f"{section}:\n  zones:\n    {kind}\n", notes)[0]
    assert Template(notes, root, {"zones": "a, b"}).resolve_parameter("zones") == ["a", "b"]


def test_joined_text_needs_a_value_for_every_part() -> None:
    notes = DocumentFindings("base_hot")
    root = parse_documents("parameters:\n  site: {}\n  zone: {default: [a, 1]}\n", notes)[0]
    template = Template(notes, root, {})

    def join(*lists: object) -> object:
        return resolve_intrinsic_functions({"list_join": ["-", *lists]}, template)

    assert join({"get_param": "zone"}, ["b"]) == "a-1-b"
    assert (
        join({"get_param": "site"}, ["b"]) == join([{}]) == join() == UnresolvedValue("list_join")
    )


SERVER = "{type: OS::Nova::Server, properties: {flavor: m1}}"


def read_findings(base_hot: str, **nested: str) -> str:
    sources = VnfSourceDocuments(
        None, f"heat_template_version: 2018-08-31\nresources:\n{base_hot}", nested
    )
    return "\n".join(str(each) for each in read_vnf(sources).findings)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("desired_capacity: 4, max_size: 3", "requests 4 members, more than its max_size of 3"),
        (
            "desired_capacity: 1, min_size: 2, max_size: 3",
            "requests 1 members, less than its min_size of 2",
        ),
        ("min_size: 2, max_size: 1", "has a max_size of 1, below its min_size of 2"),
    ],
)
def test_contradictory_sizes_of_a_group_are_errors(sizes: str, words: str) -> None:
    group = f"{{type: OS::Heat::AutoScalingGroup, properties: {{{sizes}, resource: {SERVER}}}}}"
    assert words in read_findings(f"  g: {group}\n")


def test_empty_nested_template_and_too_deep_groups_are_reported() -> None:
    assert "the template has no resources" in read_findings(
        "  a: {type: empty.yaml}\n", **{"empty.yaml": ""}
    )
    assert "the template has no resources" not in read_findings(
        "  a: {type: bad.yaml}\n", **{"bad.yaml": "a: ["}
    )
    group = SERVER
    for _ in range(12):
        group = (
            f"{{type: OS::Heat::ResourceGroup, properties: {{count: 1, resource_def: {group}}}}}"
        )
    assert 'repeats "OS::Heat::ResourceGroup", which is in too many groups' in read_findings(
        f"  g: {group}\n"
    )


@pytest.mark.parametrize("name", ["members", "targets", "description"])
def test_vdu_may_be_named_like_a_field(name: str) -> None:
    vdus = "".join(f"    {vdu}: {{type: tosca.nodes.nfv.Vdu.Compute}}\n" for vdu in (name, "web"))
    vnfd = (
        "tosca_definitions_version: tosca_simple_yaml_1_2\ntopology_template:\n  "
        f"node_templates:\n{vdus}"
    )
    parsed = read_vnf(VnfSourceDocuments(vnfd))
    assert sorted(vdu.name for vdu in parsed.vnf.vdus) == sorted([name, "web"])


@pytest.mark.parametrize(
    ("bodies", "names", "warnings"),
    [
        ("    b:\n", ["a"], ['the node template "b" has no body; it is passed over.']),
        ("    b: 3\n", ["a"], ['the node template "b" has no body; it is passed over.']),
        # Of an excerpt.
        ("    b: ...\n", ["a"], []),
        (
            "    b:\n    type: tosca.nodes.nfv.Vdu.Compute\n",
            ["a", "b"],
            [
                (
                    'the body of the node template "b" is not indented under its name (line 6); '
                    "it is read as its body."
                )
            ],
        ),
    ],
)
def test_node_template_without_a_body_is_reported(
    bodies: str, names: list[str], warnings: list[str]
) -> None:
    vnfd = (
        "tosca_definitions_version: tosca_simple_yaml_1_2\ntopology_template:\n  node_templates:\n"
    )
    parsed = read_vnf(
        VnfSourceDocuments(f"{vnfd}    a: {{type: tosca.nodes.nfv.Vdu.Compute}}\n{bodies}")
    )
    texts = [str(finding) for finding in parsed.findings if "node template" in str(finding)]
    assert [vdu.name for vdu in parsed.vnf.vdus] == names
    assert texts == [f"vnfd, line 5, column 5: {warning}" for warning in warnings]


def test_negative_sizes_are_ignored_with_a_warning() -> None:
    vnfd = """
tosca_definitions_version: tosca_simple_profile_for_nfv_1_0_0
topology_template:
  node_templates:
    old:
      type: tosca.nodes.nfv.VDU.Tacker
      capabilities: { nfv_compute: { properties: { num_cpus: -4, mem_size: 0 MB } } }
"""
    hot = """
heat_template_version: wallaby
resources:
  small:
    type: OS::Nova::Flavor
    properties: { ram: -2048, vcpus: -2, disk: -5 }
  old:
    type: OS::Nova::Server
    properties: { flavor: { get_resource: small } }
"""
    for sources, count in ((VnfSourceDocuments(vnfd, None), 1), (VnfSourceDocuments(None, hot), 3)):
        parsed = read_vnf(sources)
        (vdu,) = parsed.vnf.vdus
        assert (vdu.size.vcpus, vdu.size.memory_gib, vdu.size.disk_gib) == (None, None, None)
        warnings = [
            str(finding) for finding in parsed.findings if "must be a whole number" in str(finding)
        ]
        assert len(warnings) == count


def build_template(text: str) -> Template:
    notes = DocumentFindings("base_hot")
    return Template(notes, parse_documents(text, notes)[0], {})


@pytest.mark.parametrize(
    ("resources", "description"),
    [
        ("a: {condition: {equals: [{get_resource: a}, 1]}}", "the resource a"),
        ("a: {condition: {not: {equals: [[{get_resource: a}], [1]]}}}", "the resource a"),
        (
            (
                "a: {condition: {if: [{equals: [{get_resource: b}, 1]}, true, true]}}\n"
                "  b: {condition: {equals: [{get_resource: a}, {get_resource: a}]}}"
            ),
            "the resource b",
        ),
    ],
)
def test_condition_on_its_own_resource_is_unresolved(resources: str, description: str) -> None:
    template = build_template(f"resources:\n  {resources}\n")
    advice = "Heat accepts no resource in a condition"
    assert resolve_condition("a", template) == UnresolvedValue(description, advice)


def test_conditions_are_evaluated_down_to_the_maximum_depth() -> None:
    def nest(depth: int) -> str:
        return f"{'{not: ' * depth}true{'}' * depth}"

    template = build_template(
        f"resources:\n  a: {{condition: {nest(40)}}}\n  b: {{condition: {nest(41)}}}\n"
    )
    assert resolve_condition("a", template) is True
    too_deep = UnresolvedValue("conditions that are nested too deeply")
    assert resolve_condition("b", template) == too_deep


def test_conditions_that_share_conditions_are_evaluated_once() -> None:
    shared = [f"  c{n}: {{and: [c{n + 1}, c{n + 1}, c{n + 1}]}}\n" for n in range(15)]
    shared += [f"  d{n}: {{not: {{or: [d{n + 1}, d{n + 1}]}}}}\n" for n in range(60)]
    text = f"conditions:\n{''.join(shared)}  c15: true\n  d60: false\n"
    resources = "resources:\n  a: {condition: c0}\n  b: {condition: d0}\n  c: {condition: d48}\n"
    template = build_template(text + resources)
    start = time.monotonic()
    assert resolve_condition("a", template) is True
    too_deep = UnresolvedValue("conditions that are nested too deeply")
    assert resolve_condition("b", template) == too_deep
    # It is too deep below d0, but not on its own.
    assert resolve_condition("c", template) is False
    assert time.monotonic() - start < 2


def test_resources_in_conditions_of_each_other_are_evaluated_once() -> None:
    resources = ""
    for number in range(20):
        references = ", ".join([f"{{get_resource: r{number + 1}}}"] * 9)
        resources += f"  r{number}: {{condition: {{list_join: ['-', [{references}]]}}}}\n"
    template = build_template(f"resources:\n{resources}")
    start = time.monotonic()
    assert isinstance(resolve_condition("r0", template), UnresolvedValue)
    assert time.monotonic() - start < 2


def test_deciding_condition_ends_the_evaluation() -> None:
    template = build_template(
        "conditions:\n  site: {get_param: site}\n"
        "  none: {and: [site, false, c]}\n  some: {or: [site, true, c]}\n  c: true\n"
        "  unknown: {and: [true, site]}\n"
        "resources:\n  a: {condition: none}\n  b: {condition: some}\n  c: {condition: unknown}\n"
    )
    assert resolve_condition("a", template) is False
    assert resolve_condition("b", template) is True
    assert resolve_condition("c", template) == UnresolvedValue("the parameter site")
    assert ("conditions", "c") not in template.conditions


def test_comparison_with_an_unknown_part_of_a_list_is_unresolved() -> None:
    template = build_template(
        "parameters: {site: {}}\n"
        "resources:\n  a: {condition: {equals: [[{get_param: site}], [a]]}}\n"
    )
    assert resolve_condition("a", template) == UnresolvedValue("the parameter site")


def test_resource_passed_as_a_parameter_differs_from_an_empty_text() -> None:
    text = (
        "heat_template_version: 2018-08-31\n"
        "resources:\n  group: {type: OS::Nova::ServerGroup}\n"
        "  vm: {type: vm.yaml, properties: {group: {get_resource: group}}}\n"
    )
    nested = (
        "heat_template_version: 2018-08-31\nparameters: {group: {type: string}}\n"
        "conditions: {is_alone: {equals: [{get_param: group}, '']}}\n"
        f"resources:\n  alone: {SERVER[:-1]}, condition: is_alone}}\n  other: {SERVER}\n"
    )
    parsed = read_vnf(VnfSourceDocuments(None, text, {"vm.yaml": nested}))
    assert [vdu.name for vdu in parsed.vnf.vdus] == ["other"]
    assert parsed.unread == ()


@pytest.mark.parametrize("first", ["a", "b"])
def test_conditions_in_a_cycle_are_unread(first: str) -> None:
    text = (
        "heat_template_version: 2018-08-31\n"
        "conditions:\n  a: {not: b}\n  b: {and: [a, true]}\n"
        f"resources:\n  vm: {{condition: {first}, type: OS::Nova::Server, "
        "properties: {flavor: m1}}\n"
    )
    (fact,) = read_vnf(VnfSourceDocuments(None, text, {})).unread
    assert fact.describe() == (
        "nexusform did not read condition of resource vm (it needs a value for the condition "
        f"{first}, which depends on itself; remove the cycle): the number of VMs is uncertain."
    )


PACKAGE_VNFD = """
tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    worker:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: { sw_image_data: { name: plain } }
      capabilities:
        virtual_compute:
          properties:
            requested_additional_capabilities:
              properties: { requested_additional_capability_name: m1.large }
            virtual_memory: { virtual_mem_size: 2 GiB }
            virtual_cpu: { num_virtual_cpu: 1 }
"""
PACKAGE_HOT = """
heat_template_version: 2018-08-31
parameters: { nfv: { type: json } }
resources:
  worker:
    type: OS::Nova::Server
    properties:
      flavor: { get_param: [nfv, VDU, worker, computeFlavourId] }
      image: { get_param: [nfv, VDU, worker, vcImageId] }
      availability_zone: edge:c2
      block_device_mapping_v2: [{ ephemeral_size: 4 }]
"""


def test_vdu_of_a_package_has_the_requests_of_its_hot_file() -> None:
    """Tacker's user data sets flavor and image, as the VNFD names them."""
    reading = read_vnf(VnfSourceDocuments(PACKAGE_VNFD, PACKAGE_HOT))
    (vdu,) = reading.vnf.vdus
    assert (vdu.flavor, vdu.image, vdu.availability_zone, vdu.host) == (
        "m1.large",
        "plain",
        "edge",
        "c2",
    )
    assert {fact.reading_platform for fact in reading.unread} == {"Nova"}
    volume = PACKAGE_HOT.replace("      image:", "      metadata:").replace(
        "{ ephemeral_size: 4 }", "{ image: disk, volume_size: 10 }"
    )
    (vdu,) = read_vnf(VnfSourceDocuments(PACKAGE_VNFD, volume)).vnf.vdus
    assert (vdu.boots_from_volume, vdu.image) == (True, "disk")


def test_parameters_of_a_request_replace_those_of_user_data() -> None:
    parameters = {"nfv": {"VDU": {"worker": {"computeFlavourId": "m1.small"}}}}
    reading = read_vnf(VnfSourceDocuments(PACKAGE_VNFD, PACKAGE_HOT, parameters=parameters))
    (vdu,) = reading.vnf.vdus
    assert (vdu.flavor, vdu.image) == ("m1.small", "plain")
    # Its capability is another flavor.
    assert "requested_additional_capabilities" in [
        fact.field for fact in reading.unread if not fact.reading_platform
    ]
