"""Advice on the inputs of a VNF on OpenStack: each edit that a finding names is made, and helps.

One word of a right project is misspelled. The plan names an edit, and the plan with the edit has
the finding no longer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import yaml

from nexusform.cli.main import run_command_line
from nexusform.domains.vnf.types import vnf_documents
from tests.domains.openstack.test_arrival_orders import (
    build_flavor,
    build_inventory,
    work_directory,  # noqa: F401 - a fixture
)
from tests.domains.vnf.tacker.packages import PackageSpec, VduSpec, build_vnfd

pytestmark = pytest.mark.of_domains("openstack", "vnf")

MAIN = """
resource "openstack_site" "o" {
  inventory             = jsondecode(file("site.json"))
  enabled_filters       = ["ComputeFilter", "ServerGroupAntiAffinityFilter", "PciPassthroughFilter"]
  weight_multipliers    = { ram = 2, io_ops = 1 }
  pci_aliases           = { nic = { vendor_id = "8086", numa_policy = "preferred" } }
  default_schedule_zone = "nova"
}
resource "tacker_vnf" "hot" {
  site_id    = openstack_site.o.id
  base_hot   = file("hot.yaml")
  parameters = { size = "worker.large" }
  vdu "sized" {
    vm_sku_name = "worker.large"
    image       = "plain"
    role        = "ControlPlane"
  }
}
resource "tacker_vnf" "vnfd" {
  site_id             = "o"
  vnfd                = file("vnfd.yaml")
  flavour_id          = "simple"
  instantiation_level = "first"
  scale_levels        = { worker_scale = 1 }
  label_source        = "specification"
  taints              = [{ key = "a", effect = "NoSchedule" }]
  vdu "worker" {
    vm_sku_name = "small"
    image       = "plain"
  }
}
"""
# Words to misspell, by file.
WORDS: Mapping[str, tuple[str, ...]] = {
    "main.nf.hcl": (
        "openstack_site",
        "inventory",
        "enabled_filters",
        "ComputeFilter",
        "ServerGroupAntiAffinityFilter",
        "weight_multipliers",
        "io_ops",
        "pci_aliases",
        "vendor_id",
        "numa_policy",
        "preferred",
        "default_schedule_zone",
        "tacker_vnf",
        "site_id",
        '"o"',
        "base_hot",
        "parameters",
        '"sized"',
        "vm_sku_name",
        "worker.large",
        "plain",
        "role",
        "ControlPlane",
        "flavour_id",
        "simple",
        "instantiation_level",
        "first",
        "scale_levels",
        "worker_scale",
        "label_source",
        "specification",
        "NoSchedule",
        "hot.yaml",
        "vnfd.yaml",
        "jsondecode",
    ),
    "hot.yaml": (
        "OS::Nova::Server",
        "OS::Nova::ServerGroup",
        "anti-affinity",
        "get_resource: group",
        "get_param: size",
        "small",
        "flavor: worker.large",
        "properties",
        "resources",
        "scheduler_hints",
        "availability_zone",
        "depends_on: sized",
        "heat_template_version",
    ),
    "vnfd.yaml": (
        "tosca.nodes.nfv.Vdu.Compute",
        "tosca.policies.nfv.InstantiationLevels",
        "tosca.policies.nfv.VduInitialDelta",
        "tosca_simple_yaml_1_2",
        "num_virtual_cpu",
        "virtual_mem_size",
        "topology_template",
        "node_templates",
        "worker_scale",
        "delta_1",
        "aspect: worker_scale",
        "default_level: first",
        "scope: nfvi_node",
        "number_of_instances",
        "tosca.policies.nfv.AntiAffinityRule",
    ),
}
HOT = {
    "heat_template_version": "2018-08-31",
    "parameters": {"size": {"type": "string"}},
    "resources": {
        "group": {"type": "OS::Nova::ServerGroup", "properties": {"policies": ["anti-affinity"]}},
        "sized": {
            "type": "OS::Nova::Server",
            "properties": {"flavor": {"get_param": "size"}, "image": "plain"},
        },
        "plain": {
            "type": "OS::Nova::Server",
            "depends_on": "sized",
            "properties": {
                "flavor": "worker.large",
                "image": "plain",
                "availability_zone": "nova",
                "scheduler_hints": {"group": {"get_resource": "group"}},
            },
        },
        "small": {
            "type": "OS::Nova::Server",
            "properties": {
                "flavor": "small",
                "image": "plain",
                "scheduler_hints": {"group": {"get_resource": "group"}},
            },
        },
    },
}
DID_YOU_MEAN = re.compile(r'Did you mean "([^"]+)"\?')


class Finding(NamedTuple):
    """Finding of a plan: its summary, and its text."""

    summary: str
    text: str

    @property
    def is_suggestion(self) -> bool:
        return DID_YOU_MEAN.search(self.text) is not None


def write_project() -> dict[str, str]:
    """Write a right project, and return its documents by name."""
    inventory = build_inventory()
    inventory["flavors"] = {
        "worker.large": {**build_flavor(4, 8192), "properties": {"hw:cpu_policy": "shared"}},
        "worker.largest": build_flavor(8, 16384),
        "small": build_flavor(1, 2048),
        "tiny": {**build_flavor(1, 1024), "properties": {"hw:numa_nodes": "1"}},
    }
    # An image with requests of its own makes a SKU of each flavor.
    inventory["images"] = {"plain": {}, "numa": {"hw_numa_nodes": "1"}}
    for host in inventory["hosts"].values():
        host |= {"has_details": True, "device_pools": [], "numa_cells": []}
    spec = PackageSpec(
        "p",
        {"worker": VduSpec(1, step=1, levels=2)},
        rules=(("AntiAffinityRule", "nfvi_node", ("worker",)),),
    )
    texts = {
        "site.json": json.dumps(inventory),
        "main.nf.hcl": MAIN,
        "hot.yaml": yaml.safe_dump(HOT, sort_keys=False),
        "vnfd.yaml": yaml.safe_dump(build_vnfd(spec), sort_keys=False),
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    return texts


def list_findings(capsys: pytest.CaptureFixture[str]) -> list[Finding]:
    """Return the findings of a plan."""
    vnf_documents._read_cached.cache_clear()
    capsys.readouterr()
    assert run_command_line(["plan", "-json", "-samples=0"]) in (0, 1)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    documents = [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")]
    items = [item["diagnostic"] for item in documents if "diagnostic" in item]
    return [Finding(item["summary"], f"{item['summary']} {item['detail']}") for item in items]


def misspell(word: str, draw: Random) -> str:
    """Return a word with one mistake in its letters."""
    places = [place for place, letter in enumerate(word) if letter.isalpha()]
    place = draw.choice(places[1:] or places)
    kind = draw.randrange(4)
    if kind == 0:
        return word[:place] + word[place + 1 :]
    if kind == 1:
        return word[:place] + word[place] + word[place:]
    if kind == 2:
        return word[:place] + word[place].swapcase() + word[place + 1 :]
    return word[:place] + draw.choice("xqz") + word[place + 1 :]


def draw_inputs(texts: Mapping[str, str], draw: Random) -> Iterator[tuple[str, str, str]]:
    """Yield each file with a misspelled word: its name, the word, and the text."""
    for file, words in WORDS.items():
        for word in words:
            *start, name = word.rpartition(": ")
            wrong = misspell(name, draw)
            assert word in texts[file], word
            places = [match.start() for match in re.finditer(re.escape(word), texts[file])]
            place = draw.choice(places)
            text = texts[file]
            changed = text[:place] + "".join(start) + wrong + text[place + len(word) :]
            if changed != text:
                yield file, wrong, changed


@pytest.mark.parametrize("seed", range(3))
def test_suggested_names_help(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    texts = write_project()
    assert [item for item in list_findings(capsys) if item.is_suggestion] == []
    count = 0
    for file, wrong, text in draw_inputs(texts, Random(seed)):
        Path(file).write_text(text)
        suggestions = [item for item in list_findings(capsys) if item.is_suggestion]
        for finding in suggestions:
            (name,) = DID_YOU_MEAN.findall(finding.text)[:1]
            Path(file).write_text(replace_word(text, find_subject(finding, name), name))
            left = list_findings(capsys)
            assert finding not in left, (file, wrong, finding)
            assert not [item for item in left if item.is_suggestion], (file, wrong, left)
            count += 1
        print(file, wrong, "-", [finding.text for finding in suggestions])
        Path(file).write_text(texts[file])
    assert count > 30


def find_subject(finding: Finding, name: str) -> str:
    """Return the word of a finding that a suggested name replaces: the one most like it."""
    before = finding.text.partition("Did you mean")[0]
    words = re.findall(r'"([^"]+)"', before) or re.findall(r"[\w.:-]+", before)
    words = [word for word in words if word != name]

    def compare(word: str) -> float:
        return SequenceMatcher(a=word.lower(), b=name.lower()).ratio()

    return str(max(words, key=compare))


def replace_word(text: str, wrong: str, name: str) -> str:
    """Return a text with a suggested name in place of a wrong one."""
    # The name may be a part of the word.
    whole = re.compile(rf"(?<![\w.-]){re.escape(wrong)}(?![\w.-])")
    return whole.sub(name, text)


SIZED = """
resource "openstack_site" "o" {
  inventory             = jsondecode(file("site.json"))
  default_schedule_zone = "nova"
}
resource "tacker_vnf" "hot" {
  site_id  = openstack_site.o.id
  base_hot = file("hot.yaml")
  vdu "sized" {
    FIGURES
  }
}
"""
FLAVOR_ADVICE = re.compile(r'set (vm_sku_name = "[^"]+") in vdu "sized"( instead of [^)]+)?')


@pytest.mark.parametrize(
    "figures", ["vcpus = 4\n    memory_gib = 8", "vcpus = 4\n memory_gib = 4\n disk_gib = 9"]
)
def test_named_flavor_makes_hosts_certain(figures: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The edit of the advice leaves no conflict with the figures that it replaces."""
    write_project()
    server = {
        "type": "OS::Nova::Server",
        "properties": {"flavor": "worker.large", "image": "plain"},
    }
    hot = {"heat_template_version": "2018-08-31", "resources": {"sized": server}}
    Path("hot.yaml").write_text(yaml.safe_dump(hot))
    Path("main.nf.hcl").write_text(SIZED.replace("FIGURES", figures))
    texts = [finding.text for finding in list_findings(capsys)]
    (match,) = filter(None, map(FLAVOR_ADVICE.search, texts))
    left = [line for line in figures.splitlines() if line.split()[0] not in (match[2] or "")]
    Path("main.nf.hcl").write_text(SIZED.replace("FIGURES", "\n".join([*left, match[1]])))
    assert list_findings(capsys) == []


def test_reference_in_place_of_a_name_makes_hosts_certain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = write_project()
    wrong = texts["hot.yaml"].replace("group:\n          get_resource: group", "group: group")
    assert wrong != texts["hot.yaml"]
    Path("hot.yaml").write_text(wrong)
    (finding,) = [item for item in list_findings(capsys) if "get_resource" in item.text]
    (edit,) = set(re.findall(r"write (\{ get_resource: [^}]+ \})", finding.text))
    Path("hot.yaml").write_text(wrong.replace("group: group", f"group: {edit}"))
    assert not [item for item in list_findings(capsys) if "get_resource" in item.text]
