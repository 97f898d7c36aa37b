"""Tests of `plan -check-with=heat`: Heat's own code reads the HOT files of a plan again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.program_checks.workflow.stack_requests import parse_requests
from nexusform.domains.vnf.importers import hot_defaults, hot_devices, hot_order, hot_template
from nexusform.domains.vnf.types import vnf_documents
from tests.domains.openstack.test_arrival_orders import (
    BIG,
    SMALL,
    build_group,
    work_directory,  # noqa: F401 - a fixture
    write_site,
    write_template,
)
from tests.domains.vnf.test_heat_defaults import HEAT, needs_heat

pytestmark = pytest.mark.of_domains("program_checks", "openstack", "vnf")

GROUP = {"type": "OS::Nova::ServerGroup", "properties": {"name": "g"}}
HINTS = {"scheduler_hints": {"group": {"get_resource": "group"}}}
NESTED = {
    "heat_template_version": "2018-08-31",
    "parameters": {"flavor": {"type": "string"}},
    "resources": {
        "vm": {
            "type": "OS::Nova::Server",
            "properties": {"flavor": {"get_param": "flavor"}, "image": "plain"},
        }
    },
}


def write_stack() -> None:
    """Write a template with groups, a nested one, a boot volume, local disks and an order."""
    write_site({"v": 'nested = { "inner.yaml" = file("inner.yaml") }'})
    Path("inner.yaml").write_text(json.dumps(NESTED))
    write_template(
        group=GROUP,
        a={**BIG, **HINTS, "availability_zone": "nova:c2"},
        b={**SMALL, **HINTS, "depends_on": "a"},
        volume={
            "flavor": "small",
            "image": None,
            "block_device_mapping_v2": [
                {"image": "plain", "volume_size": 10},
                {"ephemeral_format": "ext4"},
            ],
        },
        worker=build_group("OS::Heat::ResourceGroup", 2),
        inner={"type": "inner.yaml", "depends_on": ["b"], "properties": {"flavor": "small"}},
    )


def check(capsys: pytest.CaptureFixture[str], expected: int) -> tuple[Any, str]:
    capsys.readouterr()
    words = ["plan", f"-check-with=heat={HEAT}", "-samples=2", "-report=json:p.json"]
    assert run_command_line(words) == expected
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).replace("│", " ").split())
    return json.loads(Path("p.json").read_text())["checks_by"][0], text


@needs_heat
def test_requests_are_those_of_heat(capsys: pytest.CaptureFixture[str]) -> None:
    write_stack()
    result, text = check(capsys, 0)
    assert (result["version"], result["checked"], result["total"]) == ("27.0.1", 6, 6)
    assert result["differences"] == []
    assert "Checked by: heat 27.0.1: 6 of 6 VMs" in text


def ignore_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hot_devices, "get_boot_index", lambda device: device.get("boot_index", -1))
    patch.setattr(hot_devices, "find_refusal", lambda *_arguments, **_options: "")


def ignore_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hot_template, "list_dependencies", lambda _template: {})


def ignore_metadata_of_group(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(
        hot_defaults.read_heat_schema()["defaults"]["OS::Nova::ServerGroup"],
        "policies",
        ["affinity"],
    )


@needs_heat
@pytest.mark.parametrize(
    ("mutate", "text"),
    [
        (ignore_index, "read servers differently: 1 x small"),
        (ignore_order, "read the order of creation differently: none"),
        (ignore_metadata_of_group, "affinity of group; heat:"),
    ],
)
def test_another_reading_is_an_error(
    mutate: Callable[[pytest.MonkeyPatch], None],
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check does not share the reader: a wrong one is noticed."""
    write_stack()
    mutate(monkeypatch)
    vnf_documents._read_cached.cache_clear()
    result, output = check(capsys, 1)
    vnf_documents._read_cached.cache_clear()
    assert len(result["differences"]) == 1
    assert text in output


@needs_heat
def test_other_documents_are_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers of a VNFD, and unread facts, make requests that Heat alone does not know."""
    write_site()
    write_template(a={**BIG, "availability_zone": {"get_param": "zone"}})
    result, _ = check(capsys, 0)
    assert (result["checked"], result["total"]) == (0, 1)


def test_requests_of_equal_servers_are_counted() -> None:
    server: Mapping[str, Any] = {
        "path": ["a"],
        "needs": [],
        "body": {"server": {"flavorRef": "f", "imageRef": "i"}},
        "group": None,
    }
    second = {**server, "path": ["b"], "needs": [["a"]]}
    requests = parse_requests({"servers": [server, second]})
    ((request, count),) = requests.servers.items()
    assert count == 2
    assert requests.order == {(request, request)}
    assert request.describe() == "f, i"


def test_reader_lists_the_order_of_creation() -> None:
    assert hot_order.find_awaited_vdus(
        {"a": (("", "a"),), "b": (("", "b"),)}, {("", "b"): (("", "x"),), ("", "x"): (("", "a"),)}
    ) == {"a": (), "b": ("a",)}
