"""Tests of sites that Azure lists with one difference to the configuration."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nexusform.cli.main import run_command_line

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.NetworkCloud"
COMPUTE = "platform.afo-nc.microsoft.com/compute-plane=true"
CONTROL = "platform.afo-nc.microsoft.com/control-plane=true"
SKU = "NC_P22_112_v1"
Bodies: TypeAlias = dict[str, list[dict[str, Any]]]
EXPORT = Path("export")


def build_bodies() -> Bodies:
    """Build a site of four racks with three machines each, and a cluster of four VMs."""
    bodies: Bodies = {"racks": [], "bare_metal_machines": [], "virtual_machines": []}
    for rack in range(1, 5):
        properties: dict[str, Any] = {
            "availabilityZone": str(rack),
            "rackSkuId": "VNearEdge1_Compute_DellR750_8C2M",
            "detailedStatus": "Available",
        }
        bodies["racks"].append(build_body("racks", f"rack{rack}", properties))
        for slot in range(1, 4):
            properties = {
                "rackId": f"{GROUP}/racks/rack{rack}",
                "rackSlot": slot,
                "machineRoles": [CONTROL if slot == 1 else COMPUTE],
                "machineSkuId": "Compute_DellR750_56C_512GB_4d6n",
                "cordonStatus": "Uncordoned",
                "powerState": "On",
                "readyState": "True",
                "detailedStatus": "Provisioned",
                "clusterId": f"{GROUP}/clusters/lon1",
                "machineClusterVersion": "4.1.0",
            }
            body = build_body("bareMetalMachines", f"r{rack}m{slot}", properties)
            bodies["bare_metal_machines"].append(body)
    pool = {"name": "np1", "mode": "System", "count": 3, "vmSkuName": SKU}
    nodes = [build_node(f"c-np1-{number}", f"r{number + 1}m2", "np1") for number in range(3)]
    nodes.append(build_node("c-cp-0", "r4m2"))
    cluster = {
        "clusterId": f"{GROUP}/clusters/lon1",
        "kubernetesVersion": "v1.29.1",
        "controlPlaneNodeConfiguration": {"count": 1, "vmSkuName": "NC_P10_56_v1"},
        "initialAgentPoolConfigurations": [pool],
        "nodes": nodes,
    }
    bodies["kubernetes_clusters"] = [build_body("kubernetesClusters", "c", cluster)]
    bodies["agent_pools.c"] = [build_body("kubernetesClusters/c/agentPools", "np1", pool)]
    bodies["clusters"] = [build_body("clusters", "lon1", {"detailedStatus": "Running"})]
    return bodies


def build_body(kind: str, name: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"{GROUP}/{kind}/{name}", "name": name, "properties": properties}


def build_node(name: str, machine: str, pool: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "role": "Worker" if pool else "ControlPlane",
        "agentPoolId": f"{GROUP}/kubernetesClusters/c/agentPools/{pool}" if pool else None,
        "vmSkuName": SKU if pool else "NC_P10_56_v1",
        "bareMetalMachineId": f"{GROUP}/bareMetalMachines/{machine}",
    }


def write_bodies(bodies: Bodies) -> None:
    EXPORT.mkdir(exist_ok=True)
    for kind, items in bodies.items():
        (EXPORT / f"{kind}.json").write_text(json.dumps(items))
    (EXPORT / "exported_at").write_text("2026-11-27T06:00:00Z")


def find_machine(bodies: Bodies, name: str) -> dict[str, Any]:
    return next(body for body in bodies["bare_metal_machines"] if body["name"] == name)


def set_machine(name: str, **properties: Any) -> Callable[[Bodies], None]:
    return lambda bodies: find_machine(bodies, name)["properties"].update(properties)


def set_every_machine(**properties: Any) -> Callable[[Bodies], None]:
    def change(bodies: Bodies) -> None:
        for body in bodies["bare_metal_machines"]:
            body["properties"].update(properties)

    return change


def set_status(status: str, **racks: str) -> Callable[[Bodies], None]:
    def change(bodies: Bodies) -> None:
        bodies["clusters"][0]["properties"]["detailedStatus"] = status
        for rack in bodies["racks"]:
            rack["properties"]["detailedStatus"] = racks.get(rack["name"], "Available")

    return change


def add_machine(bodies: Bodies, name: str = "r4m9", rack: str = "rack4", slot: int = 9) -> None:
    body = copy.deepcopy(find_machine(bodies, "r4m3"))
    body |= {"name": name, "id": f"{GROUP}/bareMetalMachines/{name}"}
    body["properties"] |= {"rackId": f"{GROUP}/racks/{rack}", "rackSlot": slot}
    bodies["bare_metal_machines"].append(body)


def add_rack(bodies: Bodies) -> None:
    rack = copy.deepcopy(bodies["racks"][-1])
    rack |= {"name": "rack9", "id": f"{GROUP}/racks/rack9"}
    rack["properties"]["availabilityZone"] = "9"
    bodies["racks"].append(rack)
    for slot in (1, 2):
        add_machine(bodies, f"r9m{slot}", "rack9", slot)


def add_rack_with_node(bodies: Bodies) -> None:
    add_rack(bodies)
    bodies["kubernetes_clusters"][0]["properties"]["nodes"][0] = build_node(
        "c-np1-0", "r9m1", "np1"
    )


def add_machine_with_vm(bodies: Bodies) -> None:
    add_machine(bodies)
    vm = {
        "clusterId": f"{GROUP}/clusters/lon1",
        "cpuCores": 4,
        "provisioningState": "Succeeded",
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 8,
        "storageProfile": {"osDisk": {"diskSizeGB": 50}},
        "bareMetalMachineId": f"{GROUP}/bareMetalMachines/r4m9",
    }
    bodies["virtual_machines"].append(build_body("virtualMachines", "v", vm))


def add_controller(bodies: Bodies) -> None:
    add_machine(bodies)
    find_machine(bodies, "r4m9")["properties"]["machineRoles"] = [CONTROL]


def remove_machine(bodies: Bodies) -> None:
    bodies["bare_metal_machines"].remove(find_machine(bodies, "r3m3"))


def remove_rack(bodies: Bodies) -> None:
    """Remove a rack whose machines run no VM."""
    bodies["kubernetes_clusters"][0]["properties"]["nodes"][2] = build_node(
        "c-np1-2", "r4m3", "np1"
    )
    del bodies["racks"][2]
    bodies["bare_metal_machines"] = [
        body for body in bodies["bare_metal_machines"] if not body["name"].startswith("r3")
    ]


def rename_machine(name: str) -> Callable[[Bodies], None]:
    def change(bodies: Bodies) -> None:
        body = find_machine(bodies, name)
        body |= {"name": f"{name}b", "id": f"{body['id']}b"}
        for node in bodies["kubernetes_clusters"][0]["properties"]["nodes"]:
            if node["bareMetalMachineId"].endswith(f"/{name}"):
                node["bareMetalMachineId"] += "b"

    return change


def swap_roles(bodies: Bodies) -> None:
    set_machine("r1m1", machineRoles=[COMPUTE])(bodies)
    set_machine("r1m3", machineRoles=[CONTROL])(bodies)


def upgrade_first_racks(bodies: Bodies) -> None:
    set_status("Updating", rack2="Provisioning")(bodies)
    for name in ("r1m1", "r1m2", "r1m3"):
        set_machine(name, machineClusterVersion="4.10.0")(bodies)


R760 = "Compute_DellR760_64C_512GB_4d6n"
R770 = "Compute_DellR770_64C_512GB_4d6n"
IS_ADDED = "lon1 2 machines (rack9) are not in the configuration; Azure will use them; blocks to add: nexus_rack rack9; nexus_bare_metal_machine r9m1, r9m2"  # noqa: E501
DIFFERENCES: dict[str, tuple[Callable[[Bodies], None], str]] = {
    "rack added": (add_rack, IS_ADDED),
    "rack added, with a node": (add_rack_with_node, IS_ADDED),
    "machine added": (add_machine, "lon1 1 machine (rack4) is not in the configuration"),
    "machine added, with a VM": (add_machine_with_vm, "running there: 1 unmanaged VM"),
    "controller added": (add_controller, "not in the configuration; blocks to add"),
    "machine gone": (remove_machine, "lon1 1 machine is not on the site (r3m3)"),
    "rack gone": (remove_rack, "lon1 3 machines are not on the site (rack3: r3m1, r3m2, r3m3)"),
    "machine renamed": (rename_machine("r3m3"), "r3m3 (rack3, slot 3) was replaced by r3m3b"),
    "host renamed": (rename_machine("r3m2"), "r3m2 (rack3, slot 2) was replaced by r3m2b"),
    "other SKU": (
        set_machine("r1m2", machineSkuId=R760),
        "1 machine (r1m2) has other hardware than configured: bom-1.7.3 -> bom-2.0",
    ),
    "other SKU everywhere": (
        set_every_machine(machineSkuId=R760),
        "8 machines (r1m2, r1m3, r2m2, r2m3 and 4 more) have other hardware",
    ),
    "unknown SKU": (
        set_machine("r1m2", machineSkuId=R770),
        f"1 machine (r1m2) has unknown hardware ({R770}), so the capacity is unknown",
    ),
    "unknown SKU everywhere": (
        set_every_machine(machineSkuId="Compute_DellR770"),
        "8 machines (r1m2, r1m3, r2m2, r2m3 and 4 more) have unknown hardware (Compute_DellR770)",
    ),
    "roles": (
        swap_roles,
        "the roles of 2 machines changed: r1m1 control-plane -> compute-plane; r1m3 compute-plane",
    ),
    "no role": (
        set_machine("r1m3", machineRoles=[]),
        "the roles of 1 machine changed: r1m3 compute-plane -> none",
    ),
    "upgrade": (
        set_status("Updating", rack2="Provisioning"),
        "a runtime upgrade is in progress (status Updating); now rack2; next rack3, rack4",
    ),
    "upgrade in another case": (
        set_status("updating", rack2="provisioning"),
        "a runtime upgrade is in progress (status Updating); now rack2; next rack3, rack4",
    ),
    "upgrade with versions": (upgrade_first_racks, "now rack2; next rack3, rack4"),
    "upgrade paused": (
        set_status("UpdatePaused"),
        "a runtime upgrade is paused (status UpdatePaused); next rack1, rack2, rack3, rack4",
    ),
    "disconnected": (set_status("Disconnected"), "the site is disconnected from Azure"),
    "provisioning": (
        set_status("Running", rack3="Provisioning"),
        "machines are being provisioned (status Provisioning); now rack3",
    ),
    "degraded": (set_status("Degraded"), "the site is not in service (status Degraded)"),
}


def reverse_lists(bodies: Bodies) -> None:
    for items in bodies.values():
        items.reverse()


def add_aggregator_rack(bodies: Bodies) -> None:
    properties = {"availabilityZone": "1", "rackSkuId": "VNearEdge1_Aggregator_x70r3_9"}
    bodies["racks"].append(build_body("racks", "aggregator", properties))


TWINS: dict[str, Callable[[Bodies], None]] = {
    "equal": lambda _: None,
    "other order": reverse_lists,
    "cordoned": set_machine("r1m2", cordonStatus="Cordoned"),
    "without machineSkuId": set_machine("r1m2", machineSkuId=None),
    "other size of the same model": set_machine("r1m2", machineSkuId="compute_dellr750_48c"),
    "unknown SKU of a controller": set_machine("r1m1", machineSkuId="Controller_DellR770"),
    "aggregator rack": add_aggregator_rack,
    "Nexus cluster not captured": lambda bodies: bodies["clusters"].clear(),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_bodies(build_bodies())
        command = ["import", "-from=export", "-generate-config-out=site.nf.hcl"]
        assert run_command_line(command) == 0
    return folder


@pytest.fixture(autouse=True)
def project(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795766400")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and all output on one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def read_plan(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run(capsys, "plan", "-out=p", *options)[0] == 0
    assert run_command_line(["show", "-json", "p"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def change_export(change: Callable[[Bodies], None]) -> None:
    bodies = build_bodies()
    change(bodies)
    write_bodies(bodies)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference_of_a_listed_site_is_named_and_plans_nothing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, sentence = DIFFERENCES[name]
    change_export(change)
    code, out = run(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes. Azure lists differences" in out) == (0, True), out
    assert sentence in out.replace(" ! ", " "), out
    assert ", 4 kept." in out
    # Each other report has the same sentence.
    text = sentence.removeprefix("lon1 ")
    (listed,) = read_plan(capsys)["listed"]
    assert any(text in row["text"] for row in listed["differences"])
    assert run(capsys, "show", "-report=markdown:p.md", "-report=html:p.html", "p")[0] == 0
    assert "The site as Azure lists it" in Path("p.md").read_text()
    assert "The site as Azure lists it" in Path("p.html").read_text()
    code, out = run(capsys, "advise")
    assert (code, text in out) == (2, True), out
    code, out = run(capsys, "reconcile", "-from=export")
    assert (code, text in out) == (2, True), out


@pytest.mark.parametrize("name", TWINS)
def test_equal_site_is_silent(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    change_export(TWINS[name])
    code, out = run(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "as Azure lists it" in out) == (0, True, False), out
    assert "listed" not in read_plan(capsys)
    code, out = run(capsys, "advise")
    assert (code, out) == (0, "Advice (state serial 1) No findings.")
    code, out = run(capsys, "reconcile", "-from=export")
    assert (code, "as Azure lists it" in out) == (0, False), out


def scale_pool() -> None:
    site = Path("site.nf.hcl")
    text = site.read_text()
    assert "count       = 3" in text
    site.write_text(text.replace("count       = 3", "count       = 5"))


def test_nothing_is_exact_until_the_blocks_are_added(capsys: pytest.CaptureFixture[str]) -> None:
    scale_pool()
    before = read_plan(capsys)
    exact = before["decision"]["confidence"]["exact_rack_counts"]
    assert exact
    change_export(add_rack)
    plan = read_plan(capsys)
    assert plan["decision"]["confidence"]["exact_rack_counts"] == 0
    free = before["capacity"][0]["after"]["free"]
    after = plan["capacity"][0]["after"]
    assert (after["min"], after["max"]) == (free, free + 8)
    assert plan["listed"][0]["capacity"] == [
        f"capacity as listed: {free + 8} x {SKU} ({free} as configured)"
    ]
    # The blocks that the import writes make it exact again.
    assert run(capsys, "import", "-from=export", "-generate-config-out=more.nf.hcl")[0] == 0
    plan = read_plan(capsys)
    assert "listed" not in plan
    assert plan["decision"]["confidence"]["exact_rack_counts"] >= exact
    assert plan["capacity"][0]["after"]["free"] == free + 8


def test_node_on_an_unconfigured_machine_stays(capsys: pytest.CaptureFixture[str]) -> None:
    change_export(add_rack_with_node)
    scale_pool()
    rows = read_plan(capsys)["placement_changes"]
    assert sorted(row["action"] for row in rows if row["action"] != "keep") == ["place", "place"]
    assert not [row for row in rows if row["action"] == "place" and row["to"]["rack"] == "rack9"]


def test_no_vm_is_placed_on_a_machine_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    change_export(remove_machine)
    scale_pool()
    rows = read_plan(capsys)["placement_changes"]
    assert not [row for row in rows if row["to"] and row["to"]["machine"] == "r3m3"]


def test_unknown_hardware_makes_the_capacity_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    change_export(set_machine("r1m2", machineSkuId=R770))
    assert read_plan(capsys)["decision"]["capacity"][0]["after"] is None


def test_change_during_an_upgrade_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    scale_pool()
    assert "site-in-maintenance" not in run(capsys, "plan")[1]
    change_export(upgrade_first_racks)
    code, out = run(capsys, "plan", "-details")
    assert code == 0
    assert "next rack3, rack4. This plan changes 1 object of this site meanwhile." in out


def test_roles_of_the_site_count_and_old_lines_have_no_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = Path("site.nf.hcl")
    text = site.read_text()
    assert "roles" not in text
    head = 'resource "nexus_bare_metal_machine" "r1m1" {\n'
    site.write_text(text.replace(head, f'{head}  roles = ["control-plane"]\n'))
    change_export(swap_roles)
    assert run(capsys, "apply", "-auto-approve")[0] == 0
    code, out = run(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes. Your infrastructure matches" in out) == (0, True), out
    assert run(capsys, "state", "show", "nexus_bare_metal_machine.r1m1")[1].count("compute") == 1


def test_undecided_rack_sku_is_unknown_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    def change(bodies: Bodies) -> None:
        bodies["racks"][0]["properties"]["rackSkuId"] = "VNearEdge4_Compute_DellR760_7C3M"
        set_machine("r1m2", machineSkuId=R760)(bodies)

    change_export(change)
    assert f"(r1m2) has unknown hardware ({R760})" in run(capsys, "plan")[1]
    assert "the hardware of the machine" in run(capsys, "inventory", "check", "export")[1]


def test_removed_block_of_a_listed_machine_moves_its_vms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = Path("site.nf.hcl")
    blocks = site.read_text().split("\nresource ")
    kept = [block for block in blocks if not block.startswith('"nexus_bare_metal_machine" "r2m2"')]
    assert len(kept) == len(blocks) - 1
    site.write_text("\nresource ".join(kept))
    rows = read_plan(capsys)["placement_changes"]
    assert [row["action"] for row in rows if row["action"] != "keep"] == ["move"]


def copy_site(bodies: Bodies) -> Bodies:
    """Return a second site with the same names of racks, machines and clusters."""
    text = json.dumps(bodies).replace("resourceGroups/g/", "resourceGroups/h/")
    copied: Bodies = json.loads(text.replace("lon1", "ber1"))
    return copied


def write_two_sites(
    change: Callable[[Bodies], None], change_copy: Callable[[Bodies], None]
) -> None:
    bodies = build_bodies()
    copied = build_bodies()
    change(bodies)
    change_copy(copied)
    copied = copy_site(copied)
    write_bodies({kind: [*items, *copied[kind]] for kind, items in bodies.items()})


def test_unconfigured_machine_has_the_name_of_one_of_another_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_two_sites(add_rack, lambda _: None)
    assert run(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    write_two_sites(add_rack, add_rack_with_node)
    code, out = run(capsys, "plan", "-detailed-exitcode")
    assert (code, "2 machines (rack9) are not in the configuration" in out) == (0, True), out
    assert ", 8 kept." in out


def test_refresh_only_keeps_a_node_on_an_unconfigured_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change_export(add_rack_with_node)
    code, out = run(capsys, "plan", "-refresh-only")
    assert (code, ", 4 kept." in out, "machine_forgotten" in out) == (0, True, False), out
    assert "rack1 / r1m2 -> rack9 / r9m1 (observed_elsewhere)" in out


def test_two_new_machines_share_the_place_of_a_machine_that_is_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def change(bodies: Bodies) -> None:
        remove_machine(bodies)
        add_machine(bodies, "r3x1", "rack3", 3)
        add_machine(bodies, "r3x2", "rack3", 3)

    change_export(change)
    code, out = run(capsys, "plan")
    assert (code, "r3m3 (rack3, slot 3) was replaced by r3x1" in out) == (0, True), out
    assert "1 machine (rack3) is not in the configuration" in out
    assert "nexus_bare_metal_machine r3x2" in out


def test_renamed_machines_share_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def change(bodies: Bodies) -> None:
        for body in list(bodies["bare_metal_machines"]):
            rename_machine(body["name"])(bodies)

    change_export(change)
    (listed,) = read_plan(capsys)["listed"]
    (row,) = [row for row in listed["differences"] if row["kind"] == "renamed"]
    assert row["text"] == (
        "12 machines were replaced by others: r1m1 (rack1, slot 1) by r1m1b; r1m2 (rack1, slot 2) "
        "by r1m2b; r1m3 (rack1, slot 3) by r1m3b; r2m1 (rack2, slot 1) by r2m1b and 8 more; write "
        "those names in their blocks"
    )
    assert len(row["machines"]) == 24


def test_line_of_a_difference_ends_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    def change(bodies: Bodies) -> None:
        for slot in range(10, 20):
            add_machine(bodies, f"machine-with-a-very-long-name-{slot}", "rack4", slot)

    change_export(change)
    assert "(`nexusform import` writes them)." in run(capsys, "plan")[1]


def test_lost_rack_without_a_block_has_no_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    change_export(add_rack)
    out = run(capsys, "plan", "-assume=lost:rack/lon1/rack9")[1]
    assert f"capacity as listed: 28 x {SKU} (28 as configured)" in out, out


def rename_every_machine(bodies: Bodies) -> None:
    for body in list(bodies["bare_metal_machines"]):
        rename_machine(body["name"])(bodies)


def test_renamed_machines_keep_their_vms_and_take_new_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    free = read_plan(capsys)["capacity"][0]["after"]["free"]
    change_export(rename_every_machine)
    plan = read_plan(capsys)
    # The machines are the same under other names, so the capacity is, too.
    assert plan["listed"][0]["capacity"] == [
        f"capacity as listed: {free} x {SKU} ({free} as configured)"
    ]
    out = run(capsys, "advise")[1]
    assert "The upgrade would fail" not in out
    assert "1 finding: site-differs (1)." in out
    scale_pool()
    rows = read_plan(capsys)["placement_changes"]
    placed = [row["to"]["machine"] for row in rows if row["action"] == "place"]
    assert len(placed) == 2
    assert all(name.endswith("b") for name in placed), placed


def test_capacity_of_a_listed_site_is_in_the_block_of_every_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change_export(add_rack)
    line = f"capacity as listed: 36 x {SKU} (28 as configured); nothing on this site is exact until"
    for command in (("plan",), ("advise",), ("reconcile", "-from=export")):
        assert line in run(capsys, *command)[1], command
    code, out = run(capsys, "advise")
    assert (code, "1 finding: site-differs (1)." in out) == (2, True), out


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (set_machine("r1m2", machineSkuId=R770), "until the hardware is known."),
        (
            lambda bodies: (set_machine("r1m2", machineSkuId=R770)(bodies), add_rack(bodies)),
            "until the hardware is known and the blocks match.",
        ),
    ],
)
def test_unknown_hardware_is_exact_when_it_is_known(
    change: Callable[[Bodies], None], condition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change_export(change)
    assert condition in run(capsys, "plan")[1]


def test_unread_field_of_machines_of_one_name_counts_each_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    monkeypatch.chdir(folder)
    change = set_machine("r1m2", takesNewVms=False)
    write_two_sites(change, change)
    code, out = run(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")
    assert (code, "Also in 1 other resource." in out) == (0, True), out
    assert "takesNewVms of 2 machines" in run(capsys, "plan")[1]


def test_unread_field_is_forgotten_when_the_export_lacks_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change_export(set_machine("r1m2", takesNewVms="later"))
    assert run(capsys, "apply", "-auto-approve", "-refresh-only")[0] == 0
    assert len(read_plan(capsys, "-refresh=false")["unread"]) == 1
    change_export(lambda _: None)
    assert run(capsys, "apply", "-auto-approve", "-refresh-only")[0] == 0
    assert "unread" not in read_plan(capsys, "-refresh=false")


def test_unread_fields_of_many_sites_take_one_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    from nexusform.domains.azure.importers import az_documents
    from nexusform.domains.azure.importers.az_inventory import read_sites

    scanned: list[str] = []
    find_lines = az_documents.find_json_lines

    def scan(text: str, paths: Any) -> Any:
        scanned.append(text)
        return find_lines(text, paths)

    monkeypatch.setattr(az_documents, "find_json_lines", scan)
    change = set_machine("r1m2", takesNewVms="later")
    write_two_sites(change, change)
    documents = {
        path.stem.partition(".")[0]: [(str(path), path.read_bytes())]
        for path in EXPORT.glob("*.json")
    }
    sites, _ = read_sites(documents)
    assert len(sites) == 2
    assert all(site.inventory.unread[0].line for site in sites)
    assert len(scanned) == len(set(scanned))


NEW_RACK = """
resource "nexus_rack" "new" {{
  site_id       = nexus_site.lon1.id
  name          = "rack5"
  machine_count = 3
  status        = "{}"
}}
"""


def test_new_rack_of_a_saved_plan_takes_the_nodes_of_a_lost_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("new.nf.hcl").write_text(NEW_RACK.format("active"))
    assert run(capsys, "plan", "-out=p")[0] == 0
    words = ["simulate", "failure", "-plan=p", "-rack=lon1/rack1", "-format=json"]
    assert run_command_line(words) == 0
    [losses, *_] = json.loads(capsys.readouterr().out)["sections"]
    vms = losses["tables"][-1]["rows"]
    assert vms
    assert {vm["re_created_on"].partition("-")[0] for vm in vms} == {"rack5"}


@pytest.mark.parametrize("status", ["active", "planned"])
def test_planned_rack_of_a_listed_site_counts(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("new.nf.hcl").write_text(NEW_RACK.format("planned"))
    assert run(capsys, "apply", "-auto-approve")[0] == 0
    if status == "planned":
        assert run_command_line(["simulate", "capacity", f"-sku={SKU}", "-format=json"]) == 0
        sections = json.loads(capsys.readouterr().out)["sections"]
        [skus] = [section for section in sections if section["name"] == "skus"]
        [sku] = skus["tables"][0]["rows"]
        assert sku["with_planned_racks"] > sku["more"]
        return
    # An activated rack takes VMs, though Azure does not list its machines yet.
    Path("new.nf.hcl").write_text(NEW_RACK.format("active"))
    scale_pool()
    rows = read_plan(capsys)["placement_changes"]
    assert {row["to"]["rack"] for row in rows if row["action"] == "place"} >= {"rack5"}


@pytest.mark.parametrize(
    "name", ["rack added", "host renamed", "other SKU", "unknown SKU", "roles", "upgrade"]
)
def test_difference_is_named_by_a_refresh_and_before_the_first_record(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, sentence = DIFFERENCES[name]
    change_export(change)
    code, out = run(capsys, "plan", "-refresh-only")
    assert (code, sentence in out.replace(" ! ", " ")) == (0, True), out
    shutil.rmtree("state")
    code, out = run(capsys, "plan")
    assert code == 0
    # Nothing is known of the roles before, and no VM is managed.
    clause = sentence.partition("; blocks")[0]
    assert name == "roles" or clause in out.replace(" ! ", " "), out


def test_first_plan_places_no_vm_on_a_machine_with_other_roles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.rmtree("state")
    document = read_plan(capsys)
    rows = document["placement_changes"]
    machines = {row["to"]["machine"] for row in rows}
    assert len(machines) == 4
    assert not any(machine.endswith("m1") for machine in machines)


def test_refresh_records_the_time_of_its_export(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"newer": "2026-11-27T07:00:00Z", "older": "2026-11-27T05:00:00Z"}
    exported_at = EXPORT / "exported_at"
    exported_at.write_text(times["newer"])
    assert run(capsys, "apply", "-refresh-only", "-auto-approve")[0] == 0
    exported_at.write_text(times["older"])
    for options in ((), ("-refresh-only",)):
        code, out = run(capsys, "plan", *options)
        assert (code, "the export is from 2026-11-27T05:00:00Z, older" in out) == (1, True), out
        assert run(capsys, "plan", "-allow-older-export", *options)[0] == 0


@pytest.mark.parametrize("machines", [("r1m2",), ("r1m2", "r2m1", "r3m3")])
def test_capacity_without_broken_machines_is_that_of_both_sites(
    machines: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of the listed site and the line of its broken machines have the same figures."""

    def change(bodies: Bodies) -> None:
        add_rack(bodies)
        for name in machines:
            set_machine(name, powerState="Off", readyState="False")(bodies)

    change_export(change)
    text = " ".join(run(capsys, "plan", "-details")[1].replace("│", " ").split())
    listed = re.search(r"capacity as listed: (\S+) x \S+ \((\S+) as configured\)", text)
    without = re.search(r"Capacity without them: (\S+)( to (\S+))? \(", text)
    assert listed is not None, text
    assert without is not None, text
    assert {without[1], without[3] or without[1]} == {listed[1], listed[2]}, text
