"""Tests of exports with a part of the racks and machines.

Others are of another subscription or have a wrong time.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CASE = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "clusters-070"
MACHINES = Path("export/bare_metal_machines.json")
RACKS = Path("export/racks.json")
STATE = Path("state/nexusform.nfstate")


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and all output on one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def import_site(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    return run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")


def read_list(path: Path) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = json.loads(path.read_text())["value"]
    return bodies


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export a site with six machines in two racks, and a cluster with a node on each."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")
    machines, (rack,) = read_list(MACHINES), read_list(RACKS)
    for machine in machines[3:]:
        machine["properties"]["rackId"] = "/x/racks/r2"
    MACHINES.write_text(json.dumps({"value": machines}))
    RACKS.write_text(json.dumps({"value": [rack, {**rack, "id": "/x/racks/r2", "name": "r2"}]}))
    Path("export/virtual_machines.json").write_text("[]")


@pytest.mark.parametrize("lost", ["machines", "rack and machines"])
def test_machines_of_vms_are_not_taken_as_removed(
    lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_site(capsys)[0] == 0
    MACHINES.write_text(json.dumps(read_list(MACHINES)[:3]))
    if lost != "machines":
        RACKS.write_text(json.dumps(read_list(RACKS)[:1]))
    code, out = run_command(capsys, "plan", "-details", "-detailed-exitcode")
    assert (code, "No changes. What was read matches" in out, "6 kept" in out) == (0, True, True), (
        out
    )
    assert "3 machines of dev08-0a105e4eb74b were not captured and are planned as recorded" in out
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert "Every VM is where the state records it; the site was not read completely." in out, out
    assert code == 2


def test_empty_rack_and_its_definition_show_missing_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clusters = Path("export/kubernetes_clusters.json")
    clusters.write_text("[]")
    assert import_site(capsys)[0] == 0
    machines = read_list(MACHINES)
    MACHINES.write_text(json.dumps({"value": machines[:3]}))
    _, out = run_command(capsys, "plan")
    assert ("No changes." in out, "3 machines of site were not captured" in out) == (True, True), (
        out
    )
    # Both racks have a machine.
    MACHINES.write_text(json.dumps({"value": machines[:5]}))
    _, out = run_command(capsys, "plan")
    assert "1 machine is not on the site (b37dev08a1co07)" in out
    servers = [{"rackSlot": slot} for slot in range(6)]
    definitions = [{"networkRackId": "/x/r1", "bareMetalMachineConfigurationData": servers}]
    Path("export/clusters.json").write_text(
        json.dumps([{"name": "site", "computeRackDefinitions": definitions}])
    )
    _, out = run_command(capsys, "plan")
    assert ("No changes." in out, "1 machine of site was not captured" in out) == (True, True), out


def test_empty_rack_hides_only_its_own_machines(capsys: pytest.CaptureFixture[str]) -> None:
    Path("export/kubernetes_clusters.json").write_text("[]")
    racks = read_list(RACKS)
    RACKS.write_text(
        json.dumps([*racks, {**racks[0], "id": "/x/racks/r3", "name": "r3"}])
    )  # without machines
    assert import_site(capsys)[0] == 0
    MACHINES.write_text(json.dumps(read_list(MACHINES)[1:]))
    assert "1 machine is not on the site (b37dev08a1co01)" in run_command(capsys, "plan")[1]


def test_vms_on_unlisted_machines_are_not_imported(capsys: pytest.CaptureFixture[str]) -> None:
    MACHINES.write_text(json.dumps(read_list(MACHINES)[:3]))
    RACKS.write_text(json.dumps(read_list(RACKS)[:1]))
    code, out = import_site(capsys)
    assert (code, "lacks 3 machines with VMs (b37dev08a1co05" in out, STATE.exists()) == (
        1,
        True,
        False,
    ), out


@pytest.mark.parametrize(
    "page",
    [{"resultTruncated": "true"}, {"total_records": 6}, {"skip_token": "x"}, {"totalRecords": 6}],
)
def test_truncated_page_of_a_query_is_an_error(
    page: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_site(capsys)[0] == 0
    MACHINES.write_text(json.dumps({"data": read_list(MACHINES)[:3], "count": 3, **page}))
    code, out = run_command(capsys, "plan")
    assert (code, "this is one page of several" in out) == (1, True), out


def test_joined_pages_of_a_query_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_site(capsys)[0] == 0
    machines = read_list(MACHINES)
    first = {"data": machines[:3], "total_records": 6, "resultTruncated": "true", "skip_token": "x"}
    last = {
        "data": machines[3:],
        "total_records": 6,
        "resultTruncated": "false",
        "skip_token": None,
    }
    MACHINES.write_text(json.dumps([first, last]))
    code, out = run_command(capsys, "plan")
    assert (code, "No changes." in out) == (0, True), out


def test_machines_without_ids_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    machines = read_list(MACHINES)
    for machine in machines:
        del machine["id"]
    MACHINES.write_text(json.dumps(machines))
    code, out = import_site(capsys)
    assert (code, "none of 6 machines has id" in out) == (1, True), out


def test_export_of_another_subscription_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_site(capsys)[0] == 0
    before = STATE.read_bytes()
    for path in Path("export").iterdir():
        path.write_text(
            re.sub("/subscriptions/[0-9]*-", "/subscriptions/12345678-", path.read_text())
        )
    for command in (
        ["plan"],
        ["reconcile", "-from=export"],
        ["import", "-from=export", "-generate-config-out=2.nf.hcl"],
    ):
        code, out = run_command(capsys, *command)
        assert (code, "is of another subscription: the site" in out) == (1, True), out
    assert STATE.read_bytes() == before


def test_time_in_the_future_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_site(capsys)[0] == 0
    Path("export/exported_at").write_text("2199-01-01T00:00:00Z\n")
    code, out = run_command(capsys, "plan")
    assert (code, "2199-01-01T00:00:00Z, in the future" in out) == (0, True), out
