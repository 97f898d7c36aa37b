"""Tests that VMs with an unread fact are never called certain by rails, rules and reconcile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.azure.workflow.test_listed_sites import (
    GROUP,
    Bodies,
    build_bodies,
    build_body,
    build_node,
    find_machine,
    run,
    write_bodies,
    write_two_sites,
)

TIME = "2026-01-01T00:00:00Z"
RULE = """
resource "nexus_separation_rule" "apart" {
  scope       = "rack"
  enforcement = "deny"
  group { pool_ids = ["lon1/c/np1"] }
  group { pool_ids = ["lon1/c/control-plane"] }
}
"""


def build_dated_bodies() -> Bodies:
    bodies = build_bodies()
    for body in bodies["kubernetes_clusters"]:
        body["systemData"] = {"createdAt": TIME}
    return bodies


def turn_node_off(bodies: Bodies) -> None:
    bodies["kubernetes_clusters"][0]["properties"]["nodes"][0]["powerState"] = "Off"


def add_field_of_machine(bodies: Bodies) -> None:
    find_machine(bodies, "r1m2")["properties"]["takesNewVms"] = "later"


def add_field_of_copies(bodies: Bodies) -> None:
    bodies["kubernetes_clusters"][0]["copy"] = {"count": 2}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_bodies(build_dated_bodies())
        command = ["import", "-from=export", "-generate-config-out=site.nf.hcl"]
        assert run_command_line(command) == 0
        Path("rule.nf.hcl").write_text(RULE)
        assert run_command_line(["apply", "-auto-approve"]) == 0
    return folder


@pytest.fixture(autouse=True)
def project(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795766400")


def change(edit: Callable[[Bodies], Any]) -> None:
    bodies = build_dated_bodies()
    edit(bodies)
    write_bodies(bodies)


@pytest.mark.parametrize(
    ("edit", "limit", "code"),
    [
        (turn_node_off, "moved:0", 1),
        (turn_node_off, "removed:0", 0),
        (add_field_of_copies, "moved:0", 1),
        (add_field_of_copies, "removed:0", 1),
        (lambda _: None, "moved:0", 0),
        (lambda _: None, "removed:0", 0),
    ],
)
def test_guard_rail_is_unknown_if_an_unread_fact_may_change_its_objects(
    edit: Callable[[Bodies], Any], limit: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    change(edit)
    result, out = run(capsys, "plan", f"-fail-on={limit}")
    assert (result, "are unknown because a fact is not read" in out) == (code, bool(code)), out


def test_rule_of_an_uncertain_vm_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    for edit, is_known in ((turn_node_off, False), (lambda _: None, True)):
        change(edit)
        out = run(capsys, "plan", "-details")[1]
        reason = "nexusform did not read nodes.powerState of cluster c"
        assert ("It is unknown whether nexus_separation_rule.apart holds" in out) != is_known, out
        assert (reason in out) != is_known, out
        assert ("so the machines of 4 members are uncertain" in out) != is_known, out
        out = run(capsys, "reconcile", "-from=export")[1]
        verdict = "holds" if is_known else "unknown"
        assert f"nexus_separation_rule.apart rack {verdict}" in out, out


def test_reconcile_confirms_no_machine_of_an_uncertain_vm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(turn_node_off)
    code, out = run(capsys, "reconcile", "-from=export")
    assert code == 2
    assert "the machines of 1 object are uncertain" in out, out
    assert "lon1/c 4 at most 4 at most 4 0" in out, out
    change(lambda _: None)
    out = run(capsys, "reconcile", "-from=export")[1]
    assert "uncertain" not in out
    assert "lon1/c 4 4 4 0" in out, out


@pytest.mark.parametrize("edit", [turn_node_off, add_field_of_machine])
def test_replay_checks_no_uncertain_vm(
    edit: Callable[[Bodies], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    change(lambda _: None)
    out = run(capsys, "reconcile", "-from=export", "-replay")[1]
    assert "of 4 checked VMs" in out, out
    change(edit)
    code, out = run(capsys, "reconcile", "-from=export", "-replay")
    assert code == 2
    assert "nothing could be checked (4 VMs not checked)" in out, out
    assert "did not read" in out.partition("Replay of lon1")[2], out


OTHER_SITE = """
resource "nexus_site" "other" {
  name = "other"
}
resource "nexus_rack" "other" {
  site_id           = nexus_site.other.id
  name              = "other1"
  availability_zone = "1"
  machine_count     = 1
  machine_sku       = "bom-1.7.3"
}
resource "nexus_virtual_machine" "there" {
  site_id    = nexus_site.other.id
  name       = "there"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 50
  depends_on = [nexus_rack.other]
}
resource "nexus_virtual_machine" "here" {
  provider   = azure_export
  site_id    = nexus_site.lon1.id
  name       = "here"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 50
}
"""

HERE = 'resource "nexus_virtual_machine" "here"'


@pytest.mark.parametrize(
    "remove",
    [
        lambda: Path("export/virtual_machines.json").unlink(),
        lambda: change(lambda bodies: bodies["kubernetes_clusters"][0]["properties"].pop("nodes")),
    ],
)
def test_missing_vms_of_a_site_leave_other_sites_certain(
    remove: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.nf.hcl").write_text(OTHER_SITE)
    remove()
    out = run(capsys, "plan", "-details", "-out=p.plan")[1]
    there = "nexus_virtual_machine.there vm 4 vCPU / 16 GiB 1 other1 1 exact racks: {} of 1"
    here = "nexus_virtual_machine.here vm 4 vCPU / 16 GiB 1 rack4 1 exact racks: 0 of 1"
    assert there.format(1) in out, out
    assert here in out, out
    assert "rack counts exact for 1 of 2" in run(capsys, "show", "p.plan")[1]


def drop_status(bodies: Bodies) -> None:
    del bodies["clusters"][0]["properties"]["detailedStatus"]


def add_cluster(**properties: Any) -> Callable[[Bodies], None]:
    site = {"clusterId": f"{GROUP}/clusters/lon1"}
    body = build_body("kubernetesClusters", "d", {**site, **properties})
    return lambda bodies: bodies["kubernetes_clusters"].append(body)


def add_vm_without_machine(bodies: Bodies) -> None:
    vm = {
        "cpuCores": 4,
        "provisioningState": "Succeeded",
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 16,
        "clusterId": f"{GROUP}/clusters/lon1",
        "storageProfile": {"osDisk": {"diskSizeGB": 50}},
    }
    bodies["virtual_machines"].append(build_body("virtualMachines", "v", vm))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (drop_status, "Not read: detailedStatus of Nexus cluster lon1"),
        (add_cluster(), "The nodes of 1 cluster were not captured (d)"),
        (
            add_cluster(
                controlPlaneNodeConfiguration={"count": 1},
                nodes=[build_node("d-cp", "r1m3") | {"vmSkuName": None}],
            ),
            "Not read: vmSkuName of node d-cp",
        ),
        (add_vm_without_machine, "1 VM on lon1 belongs to no resource and has no machine (v)"),
        (lambda _: None, ""),
    ],
)
def test_missing_fields_are_missing_data(
    edit: Callable[[Bodies], Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(edit)
    out = run(capsys, "plan", "-details")[1]
    assert message in out, out
    assert ("Not read: " in out or "The data read is incomplete" in out) == bool(message), out


def test_vm_without_the_size_of_its_disk_makes_capacity_uncertain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    properties = {
        "cpuCores": 4,
        "provisioningState": "Succeeded",
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 16,
        "bareMetalMachineId": f"{GROUP}/bareMetalMachines/r1m2",
        "clusterId": f"{GROUP}/clusters/lon1",
    }
    change(
        lambda bodies: bodies["virtual_machines"].append(
            build_body("virtualMachines", "v", properties)
        )
    )
    Path("here.nf.hcl").write_text(OTHER_SITE[OTHER_SITE.index(HERE) :])
    out = run(capsys, "plan")[1]
    assert "Capacity: lon1 at most" in out, out
    assert "Not read: diskSizeGB of OS disk of the VM v (export/virtual_machines.json:" in out, out


@pytest.mark.parametrize(
    "edit",
    [
        lambda bodies: bodies["kubernetes_clusters"][0]["properties"].pop("nodes"),
        lambda bodies: bodies["racks"][0]["properties"].update(takesNewVms="later"),
    ],
)
def test_missing_data_of_a_site_leaves_the_figures_of_other_sites(
    edit: Callable[[Bodies], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Spare capacity, surge verdicts and guard rails of the other site keep their figures."""
    other_cluster = """
resource "nexus_kubernetes_cluster" "k" {
  site_id = nexus_site.other.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  depends_on = [nexus_rack.other]
}
"""
    Path("other.nf.hcl").write_text(OTHER_SITE[: OTHER_SITE.index(HERE)] + other_cluster)
    change(edit)
    code, out = run(capsys, "plan", "-fail-on=capacity:1,certainty:1", "-report=json:p.json")
    decision = json.loads(Path("p.json").read_text())["decision"]
    after = {row["site"]: row["after"] for row in decision["capacity"]}
    assert (after["lon1"], after["other"] is not None) == (None, True), after
    results = {(row["site"], row["result"]) for row in decision["upgrades"]}
    assert results == {("lon1", "unknown"), ("other", "sufficient")}
    rails = {rail["name"]: rail["result"] for rail in decision["guard_rails"]}
    assert (code, rails) == (1, {"capacity": "unknown", "certainty": "passed"}), out
    assert "surge capacity unknown for lon1/c (data is missing); sufficient for the other" in out


def remove_nodes(bodies: Bodies) -> None:
    bodies["kubernetes_clusters"][0]["properties"].pop("nodes")


@pytest.mark.parametrize(
    ("edit", "edit_other", "is_certain"),
    [
        (lambda _: None, lambda _: None, True),
        (lambda _: None, remove_nodes, True),
        (lambda _: None, add_vm_without_machine, True),
        (remove_nodes, lambda _: None, False),
        (add_vm_without_machine, lambda _: None, False),
    ],
)
def test_predict_counts_missing_vms_for_their_site(
    edit: Callable[[Bodies], None],
    edit_other: Callable[[Bodies], None],
    *,
    is_certain: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_two_sites(edit, edit_other)
    body = {
        "clusterId": f"{GROUP}/clusters/lon1",
        "cpuCores": 4,
        "provisioningState": "Succeeded",
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 16,
        "storageProfile": {"osDisk": {"diskSizeGB": 50}},
    }
    arm_id = f"{GROUP}/virtualMachines/new"
    changes = [{"resourceId": arm_id, "changeType": "Create"}]
    document: dict[str, Any] = {"status": "Succeeded", "changes": changes}
    document["changes"][0]["after"] = {"id": arm_id, "name": "new", "properties": body}
    Path("what-if.json").write_text(json.dumps(document))
    code, out = run(
        capsys,
        "predict",
        "-arm-what-if=what-if.json",
        "-inventory=export",
        "-report=json:p.json",
        "-fail-on=certainty:0",
    )
    assert (code == 0) == is_certain, out
    decision = json.loads(Path("p.json").read_text())["decision"]
    after = {row["site"]: row["after"] is not None for row in decision["capacity"]}
    assert after["lon1"] == is_certain, out


@pytest.mark.parametrize("question", [["capacity"], ["failure", "-rack=rack1"]])
def test_simulation_claims_only_what_was_read(
    question: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def read_verdict() -> str:
        assert run_command_line(["simulate", *question, "-format=json"]) in {0, 2}
        return str(json.loads(capsys.readouterr().out)["verdict"])

    verdict = read_verdict()
    assert not verdict.startswith("As far as"), verdict
    change(lambda bodies: bodies["racks"][0]["properties"].update(takesNewVms="later"))
    run(capsys, "apply", "-refresh-only", "-auto-approve")
    assert read_verdict() == f"As far as it was read: {verdict}"


def list_node_twice(bodies: Bodies) -> None:
    nodes = bodies["kubernetes_clusters"][0]["properties"]["nodes"]
    nodes.append({**nodes[0], "bareMetalMachineId": nodes[1]["bareMetalMachineId"]})


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (list_node_twice, 'a node "c-np1-0" of c is listed twice'),
        (
            lambda bodies: bodies["racks"][0]["properties"].update(rackLocation=5),
            "rackLocation: expected a string, not the number 5",
        ),
        (
            lambda bodies: find_machine(bodies, "r1m2")["properties"].pop("powerState"),
            'the machine "r1m2" has no powerState',
        ),
    ],
)
def test_warnings_of_reading_a_site_are_shown(
    edit: Callable[[Bodies], Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text not in run(capsys, "plan", "-details")[1]
    change(edit)
    assert text in run(capsys, "plan", "-details")[1]
    out = run(capsys, "reconcile", "-from=export")[1]
    assert text in out, out


def test_node_on_two_machines_is_uncertain(capsys: pytest.CaptureFixture[str]) -> None:
    change(list_node_twice)
    cause = "nodes.bareMetalMachineId of cluster c"
    assert cause in run(capsys, "plan")[1]
    assert run(capsys, "plan", "-fail-on=moved:0")[0] == 1
    out = run(capsys, "reconcile", "-from=export")[1]
    assert "the machines of 1 object are uncertain" in out, out
    assert cause in out, out


def test_warnings_about_sites_without_objects_are_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_two_sites(lambda _: None, list_node_twice)
    assert "is listed twice" not in run(capsys, "plan", "-details")[1]
    write_two_sites(list_node_twice, lambda _: None)
    assert run(capsys, "plan", "-details")[1].count("is listed twice") == 1


def add_node_of_unlisted_pool(bodies: Bodies) -> None:
    nodes = bodies["kubernetes_clusters"][0]["properties"]["nodes"]
    nodes.append(build_node("c-np2-0", "r4m3", "np2"))


@pytest.mark.parametrize("has_list", [True, False])
def test_pool_that_only_nodes_show_is_not_removed(
    capsys: pytest.CaptureFixture[str], *, has_list: bool
) -> None:
    """Its arguments are unknown, so no plan may decide about it. Its nodes take capacity."""

    def edit(bodies: Bodies) -> None:
        add_node_of_unlisted_pool(bodies)
        if not has_list:
            del bodies["agent_pools.c"]
            Path("export/agent_pools.c.json").unlink()

    change(edit)
    code, out = run(capsys, "plan", "-details", "-fail-on=removed:0")
    assert "0 to place, 0 to move, 0 to remove, 4 kept" in out
    assert (code, "Not read: count of agent pool c/np2" in out) == (int(has_list), has_list), out
    run(capsys, "apply", "-refresh-only", "-auto-approve")
    assert "c-np2-0" in Path("state/nexusform.nfstate").read_text()


@pytest.mark.parametrize(
    ("name", "hides_capacity"),
    [("l3_networks", False), ("volumes", False), ("virtual_machines", True), ("others", True)],
)
def test_truncated_list_hides_capacity_only_if_it_may_have_vms(
    name: str, capsys: pytest.CaptureFixture[str], *, hides_capacity: bool
) -> None:
    change(lambda _: None)
    Path(f"export/{name}.json").write_text('{"value": [], "nextLink": "https://x.test/2"}')
    Path("rule.nf.hcl").unlink()
    text = Path("site.nf.hcl").read_text()
    Path("site.nf.hcl").write_text(text.replace("count       = 3", "count       = 4"))
    out = run(capsys, "plan", "-details")[1]
    assert "this is one page of several" in out, out
    assert ("at most" in out.partition("Capacity:")[2]) is hides_capacity, out
