"""openstack_site: a VNF on compute hosts, from files of the openstack command line to a saved plan."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

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
        properties: {flavor: worker.large, scheduler_hints: {group: {get_resource: group}}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXPORT, "export")
    (tmp_path / "base.yaml").write_text(HOT)
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", ""))
    return tmp_path


def configure(settings: str) -> None:
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", settings))


def change(name: str, row: int, **values: Any) -> None:
    path = Path("export") / f"{name}.json"
    rows = json.loads(path.read_text())
    rows[row] |= values
    path.write_text(json.dumps(rows))


def hosts(capfd: pytest.CaptureFixture[str], *more: str) -> dict[str, str]:
    """The host of each VNFC in a saved plan, read again."""
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=5", *more]) == 0
    capfd.readouterr()
    assert run_command_line(["show", "-json", "p.nfplan"]) == 0
    plan = json.loads(capfd.readouterr().out)
    return {row["object"]: row["to"]["machine"] for row in plan["placement_changes"]}


def test_servers_of_a_group_go_to_the_freest_hosts(capfd: pytest.CaptureFixture[str]) -> None:
    # compute01 runs a server already, so the two empty hosts have the higher weights.
    assert set(hosts(capfd).values()) == {"compute02", "compute03"}


def test_a_host_with_a_disabled_service_takes_none(capfd: pytest.CaptureFixture[str]) -> None:
    change("compute_services", 1, Status="disabled")
    assert set(hosts(capfd).values()) == {"compute01", "compute03"}


def test_stacking_multipliers_choose_the_fullest_host(capfd: pytest.CaptureFixture[str]) -> None:
    configure("weight_multipliers = { ram = -1, cpu = -1, disk = -1, io_ops = 0 }")
    assert "compute01" in hosts(capfd).values()


def test_the_placements_are_predictions(capfd: pytest.CaptureFixture[str]) -> None:
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
        ("weight_multipliers = { soft_affinity = -1 }", "Nova accepts no soft_affinity multiplier below 0"),
    ],
)
def test_settings_unknown_to_the_prediction(settings: str, problem: str, capfd: pytest.CaptureFixture[str]) -> None:
    configure(settings)
    assert run_command_line(["plan"]) == 1
    assert problem in " ".join(capfd.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("servers", None, "Files are missing. servers.json: openstack server list"),
        ("servers", "{", "servers.json is not JSON"),
        ("servers", "[1]", "servers.json is not a list of objects"),
        ("flavors", '[{"Name": "f"}]', "A column is missing or has an unexpected value"),
        ("hypervisors", "[]", "No compute host has a service and an inventory in Placement"),
    ],
)
def test_damaged_files(name: str, text: str | None, problem: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path("export") / f"{name}.json"
    path.unlink() if text is None else path.write_text(text)
    assert run_command_line(["plan"]) == 1
    assert problem in " ".join(capfd.readouterr().err.replace("│", " ").split())


def test_allocations_without_a_listed_server_take_capacity(capfd: pytest.CaptureFixture[str]) -> None:
    change("inventory-00000000-0000-4000-8000-000000000002", 0, used=128)
    assert set(hosts(capfd).values()) == {"compute01", "compute03"}


def test_a_flavor_with_pinned_cpus_is_not_predicted(capfd: pytest.CaptureFixture[str]) -> None:
    change("flavors", 0, Properties={"hw:cpu_policy": "dedicated"})
    assert run_command_line(["plan"]) == 1
    assert "the flavor has hw:cpu_policy, and its effect is not predicted" in " ".join(
        capfd.readouterr().err.replace("│", " ").split()
    )


def test_the_script_prints_the_commands(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["inventory", "script", "-for=openstack"]) == 0
    script = capfd.readouterr().out
    assert "run servers server list --all-projects --long" in script
    assert "resource provider inventory list" in script


def test_the_confidence_names_nova(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-samples=5"]) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert "Nova picks" in text or "machines too" in text
    assert "Azure" not in text
