"""Tests of `plan -check-with=nova`.

Heat builds the requests, and Nova's API, filters, weighers and Placement decide the hosts of VMs
again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.openstack.scheduling import nova_profile
from nexusform.workflow import program_checks
from tests.conformance import record_nova
from tests.conformance.score import read_cases, score_cases
from tests.domains.openstack.test_nova_decisions import MISSING, NOVA
from tests.domains.openstack.test_openstack_site import (
    CONFIGURATION,
    EXPORT,
    HOT,
    NUMA,
    PLAIN_IMAGE,
    change_row,
    describe_hosts,
    offer_resources,
    use_resources,
)
from tests.domains.vnf.test_heat_defaults import HEAT, MISSING_HEAT
from tests.kill_points import long_case

pytestmark = pytest.mark.of_domains("program_checks", "openstack", "vnf")
needs_nova = pytest.mark.skipif(
    NOVA is None or HEAT is None, reason=MISSING if NOVA is None else MISSING_HEAT
)
CHECK = (f"-check-with=nova={NOVA}", f"-check-with=heat={HEAT}")


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXPORT, "export")
    Path("export/image-0.json").write_text(json.dumps(PLAIN_IMAGE))
    Path("base.yaml").write_text(HOT)
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", ""))


def read_check(path: str) -> Any:
    return json.loads(Path(path).read_text())["checks_by"][0]


def read_text(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).replace("│", " ").split())


def list_running_programs() -> str:
    words = ["pgrep", "-P", str(os.getpid()), "-f", "nexusform-check-"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@needs_nova
@pytest.mark.slow
@long_case
def test_plan_is_checked_by_nova(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["plan", *CHECK, "-samples=2", "-report=json:p.json"]
    assert run_command_line(words) == 0
    assert read_check("p.json") == {
        "program": "nova",
        "version": "34.0.0",
        "checked": 2,
        "total": 2,
        "noun": "VM",
        "differences": [],
        "readers": ["heat 27.0.1"],
        "not_checked": ["the site and its servers", "quotas", "networks"],
    }
    text = (
        "Checked by: nova 34.0.0 (requests built by heat 27.0.1): 2 of 2 VMs; not checked: the "
        "site and its servers, quotas and networks"
    )
    assert text in read_text(capsys)
    with monkeypatch.context() as patch:
        multipliers = dict(nova_profile.DEFAULT_MULTIPLIERS) | {"cpu": -5.0, "ram": -5.0}
        # A rule is broken.
        patch.setattr(nova_profile, "DEFAULT_MULTIPLIERS", multipliers)
        assert run_command_line(words) == 1
    (difference, *_) = read_check("p.json")["differences"]
    assert difference["predicted"] == "compute01"
    assert difference["actual"] != "compute01"
    assert f"is predicted on compute01; nova 34.0.0 decides on {difference['actual']}" in read_text(
        capsys
    )
    # The rule is restored.
    assert score_cases(read_cases(Path(".nexusform/checks"))).wrong == []
    assert list_running_programs() == ""


@needs_nova
@pytest.mark.slow
@long_case
def test_running_servers_count() -> None:
    words = [*CHECK, "-samples=2", "-report=json:p.json"]
    assert run_command_line(["apply", "-auto-approve", "-samples=2"]) == 0
    Path("base.yaml").write_text(HOT.replace("count: 2", "count: 3"))
    assert run_command_line(["plan", *words]) == 0
    assert (read_check("p.json")["checked"], read_check("p.json")["differences"]) == (1, [])


@needs_nova
@pytest.mark.slow
@long_case
def test_managed_server_in_export_counts_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Its NUMA cells are in the table of hosts, and its flavor takes them again in the check."""
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("SETTINGS", NUMA))
    properties = {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"}
    change_row("flavors", 0, Properties=properties)
    # No server exists before.
    path = Path("export/servers.json")
    template = json.loads(path.read_text())[0]
    path.write_text("[]")
    use_resources(1, VCPU=0, MEMORY_MB=0, DISK_GB=0)
    # Two servers fit on a host.
    room = {"free": 4}
    describe_hosts(compute01=room, compute02=room, compute03=room)
    assert run_command_line(["apply", "-auto-approve", "-samples=2"]) == 0
    capfd.readouterr()
    assert run_command_line(["show", "-json"]) == 0
    vms = read_vms(json.loads(capfd.readouterr().out))
    assert len(vms) == 2
    full = {host: [0] for host in vms.values()}
    describe_hosts(
        **{
            host: {**room, "full_cells": full.get(host, [])}
            for host in ("compute01", "compute02", "compute03")
        }
    )
    servers = []
    for name, host in vms.items():
        use_resources(int(host[-1]), PCPU=8, MEMORY_MB=16384, DISK_GB=80)
        servers.append(
            {**template, "ID": name, "Name": name, "Host": host, "Flavor Name": "worker.large"}
        )
        node = {"host_node": 0, "vcpu_set": list(range(8)), "memory_mb": 16384}
        node["cpu_pinning"] = {
            str(number): cpu for number, cpu in enumerate([0, 1, 2, 3, 8, 9, 10, 11])
        }
        Path(f"export/topology-{name}.json").write_text(
            json.dumps({"topology": {"pagesize_kb": None, "nodes": [node]}})
        )
    path.write_text(json.dumps(servers))
    Path("base.yaml").write_text(
        HOT.replace("count: 2", "count: 6").replace(
            "          scheduler_hints: {group: {get_resource: group}}\n", ""
        )
    )
    assert run_command_line(["plan", *CHECK, "-samples=2", "-report=json:p.json"]) == 0, read_text(
        capfd
    )
    assert (read_check("p.json")["checked"], read_check("p.json")["differences"]) == (4, [])


@needs_nova
@pytest.mark.slow
@long_case
def test_amounts_of_a_flavor_are_checked() -> None:
    """Weighers count the size of servers, listed and planned; Placement counts their amounts."""
    properties = {"resources:VCPU": "1", "resources:DISK_GB": "0", "resources:CUSTOM_CARD": "1"}
    change_row("flavors", 0, Properties=properties)
    for host in (1, 2, 3):
        offer_resources(host, CUSTOM_CARD=4, VCPU=4)
    use_resources(1, CUSTOM_CARD=1, VCPU=1, DISK_GB=0)
    Path("base.yaml").write_text(
        HOT.replace("count: 2", "count: 11").replace(
            "          scheduler_hints: {group: {get_resource: group}}\n", ""
        )
    )
    words = ["plan", *CHECK, "-samples=2", "-report=json:p.json"]
    assert run_command_line(words) == 0
    assert (read_check("p.json")["checked"], read_check("p.json")["differences"]) == (11, [])


def read_vms(state: Any) -> dict[str, str]:
    """Return the host of each VM in the state."""
    (vnf,) = [
        row for row in state["values"]["root_module"]["resources"] if row["type"] == "tacker_vnf"
    ]
    return {name: vnfc["machine"] for name, vnfc in vnf["values"]["vnfcs"].items()}


PROGRAM = """#!/bin/sh
for last in "$@"; do :; done
case "$4" in
    *heat_driver.py)
        echo '{"heat": "27.0.1"}' > "$last"
        echo 'STACK' >> "$last";;
    *)
        echo '{"nova": "34.0.0"}' > "$last"
        echo '{"hosts": ["compute02", "compute03"]}' >> "$last"
        sleep 60;;
esac
"""


def test_check_time_is_limited(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = {"name": "group", "policy": "anti-affinity", "max": 1}
    body = {"server": {"flavorRef": "worker.large", "imageRef": "plain"}}
    servers = [
        {"path": ["worker", number], "needs": [["group"]], "body": body, "group": group}
        for number in ("0", "1")
    ]
    stack = json.dumps({"servers": servers, "flavors": {}, "volumes": {}})
    Path("python").write_text(PROGRAM.replace("STACK", stack))
    Path("python").chmod(0o700)
    monkeypatch.setattr(program_checks, "_SECONDS", 1.0)
    begun = time.monotonic()
    programs = ["-check-with=nova=./python", "-check-with=heat=./python"]
    assert run_command_line(["plan", *programs, "-samples=2", "-details"]) == 0
    assert time.monotonic() - begun < 30
    assert (
        "nova 34.0.0 has checked 1 of 2 VMs; 1 was not checked: the check ended early"
        in read_text(capsys)
    )
    assert list_running_programs() == ""


def test_check_needs_a_reader(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-check-with=nova=./python", "-samples=2"]) == 1
    text = read_text(capsys)
    assert "Heat builds the requests of the servers. Add -check-with=heat=PYTHON" in text
    assert run_command_line(["plan", "-check-with=tacker=./python", "-samples=2"]) == 1
    assert "Tacker makes stacks that Heat reads. Add -check-with=heat=PYTHON." in read_text(capsys)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "./python is not a program."),
        (
            "echo \"ModuleNotFoundError: No module named 'nova'\" >&2; exit 1",
            "No module named 'nova'",
        ),
    ],
)
def test_interpreter_without_nova_is_an_error(
    script: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if script is not None:
        Path("python").write_text(f"#!/bin/sh\n{script}\n")
        Path("python").chmod(0o700)
    programs = ["-check-with=nova=./python", "-check-with=heat=./python"]
    assert run_command_line(["plan", *programs, "-samples=2"]) == 1
    text = read_text(capsys)
    assert "The plan was not checked by nova." in text
    assert message in text


def test_sandboxed_run_starts_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-check-with=nova=./python", "-confine"]) == 1
    assert "not allowed in a sandboxed run" in read_text(capsys)


@needs_nova
@long_case
def test_cases_list_servers_in_creation_order() -> None:
    site = record_nova.build_document(13)
    process = record_nova.NovaProcess()
    cases = list(record_nova.build_cases(site, process.decide(site), process.version))
    process.close()
    # Keys in files are sorted by name. CPUs are pinned in the order of creation.
    created = [
        [name for name in case["snapshot"]["servers"] if name not in site["servers"]]
        for case in cases
    ]
    assert max(map(len, created)) > 2
    assert all(names == sorted(names) for names in created)
