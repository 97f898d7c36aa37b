"""Tests of sites observed through a provider.

Objects are nested in others or listed under other names.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

CASE = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "clusters-070"
SITE = "dev08-0a105e4eb74b"
POOL = "ssh-test-3d38-pool1"
POOL_ID = f"{SITE}/ssh-test-3d38/{POOL}"
APART = f"""
resource "nexus_agent_pool" "p" {{
  provider              = azure_export
  kubernetes_cluster_id = nexus_kubernetes_cluster.ssh-test-3d38.id
  name                  = "{POOL}"
  node_count            = 3
  vm_sku_name           = nexus_vm_sku.NC_M8_v1.name
}}
"""
TAKEN_OVER = f'import {{\n  to = nexus_agent_pool.p\n  id = "{POOL_ID}"\n}}\n'


@pytest.fixture(autouse=True)
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Return an imported real site."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    capsys.readouterr()


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and all output on one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def move_pool_to_own_resource() -> None:
    """Move the last pool of the cluster to a resource of its own."""
    text = Path("site.nf.hcl").read_text()
    block = text.index(f'  agent_pool "{POOL}"')
    assert text[block:].count("agent_pool") == 1
    Path("site.nf.hcl").write_text(f"{text[:block].rstrip()}\n}}\n{APART}")


def test_existing_pool_is_not_recreated(capsys: pytest.CaptureFixture[str]) -> None:
    move_pool_to_own_resource()
    code, out = run_command(capsys, "plan")
    assert code == 1
    assert f"{POOL_ID} already exists on the site" in out
    assert f'to = nexus_agent_pool.p, id = "{POOL_ID}"' in out


def test_pool_is_imported_from_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    move_pool_to_own_resource()
    Path("taken.nf.hcl").write_text(TAKEN_OVER)
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, out
    assert "1 imported, 0 added" in out
    assert "Placements: 0 to place, 0 to move, 0 to remove, 6 kept." in out
    Path("taken.nf.hcl").unlink()
    code, out = run_command(capsys, "plan")
    assert "No changes." in out
    assert "6 kept" in out
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert "Every VM is where the state records it; the site was not read completely." in out, out
    assert code == 2


def test_changes_of_separate_pool_are_observed(capsys: pytest.CaptureFixture[str]) -> None:
    move_pool_to_own_resource()
    Path("taken.nf.hcl").write_text(TAKEN_OVER)
    assert run_command(capsys, "apply", "-auto-approve")[0] == 0
    text = Path("site.nf.hcl").read_text()
    Path("site.nf.hcl").write_text(
        text.replace("node_count            = 3", "node_count            = 4")
    )
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert (code, "is not changed yet" in out) == (0, True), out
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    properties = document["value"][0]["properties"]
    node = next(n for n in properties["nodes"] if POOL in n["name"])
    properties["nodes"].append({**node, "name": f"{node['name'][:-5]}zzzzz"})
    path.write_text(json.dumps(document))
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, out
    assert "1 prediction wrong:" in out, "the new node stands beside another one of its pool"
    assert "Wrong certain predictions" not in out, "the export has no list of VMs"
    assert "No changes." in run_command(capsys, "plan")[1]


def test_machine_count_of_rack_adds_no_machines(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("site.nf.hcl").read_text()
    Path("site.nf.hcl").write_text(text.replace("machine_count     = 0", "machine_count     = 2"))
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert (code, "set machine_count = 0" in out) == (0, True), out
    Path("site.nf.hcl").write_text(text)
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, out
    assert "No changes." in run_command(capsys, "plan")[1]


def test_objects_imported_one_by_one_have_own_creation_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = json.loads(run_command(capsys, "state", "pull")[1])
    machines = [each for each in state["resources"] if each["type"] == "nexus_bare_metal_machine"][
        :2
    ]
    addresses = [f"nexus_bare_metal_machine.{each['name']}" for each in machines]
    ids = [each["instances"][0]["attributes"]["id"] for each in machines]
    for address in addresses:
        assert run_command(capsys, "state", "rm", address)[0] == 0
    assert run_command(capsys, "import", addresses[0], ids[0])[0] == 0
    with Path("site.nf.hcl").open("a") as file:
        file.write(f'import {{\n  to = {addresses[1]}\n  id = "{ids[1]}"\n}}\n')
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert (code, "1 imported, 0 added" in out) == (0, True), out
    state = json.loads(run_command(capsys, "state", "pull")[1])
    numbers = [each["creation"] for one in state["resources"] for each in one["instances"]]
    assert 0 not in numbers
    assert len(set(numbers)) == len(numbers)


def test_generated_block_of_an_imported_machine_has_no_observed_facts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    resources = json.loads(run_command(capsys, "state", "pull")[1])["resources"]
    machine = next(each for each in resources if each["type"] == "nexus_bare_metal_machine")
    attributes = machine["instances"][0]["attributes"]
    for path in Path("export").iterdir():
        path.write_text(path.read_text().replace('"powerState": "On"', '"powerState": "Off"'))
    assert run_command(capsys, "state", "rm", f"nexus_bare_metal_machine.{machine['name']}")[0] == 0
    block = re.compile(
        rf'resource "nexus_bare_metal_machine" "{machine["name"]}" {{.*?^}}$',
        re.DOTALL | re.MULTILINE,
    )
    text, count = block.subn("", Path("site.nf.hcl").read_text())
    assert count == 1
    target = (
        "import {\n  provider = azure_export\n  to = nexus_bare_metal_machine.m\n  id = "
        f'"{attributes["id"]}"\n}}\n'
    )
    Path("site.nf.hcl").write_text(text + target)
    code, out = run_command(capsys, "plan", "-generate-config-out=machine.nf.hcl")
    assert code == 0, out
    generated = Path("machine.nf.hcl").read_text()
    assert 'resource "nexus_bare_metal_machine" "m"' in generated
    assert "power_state" not in generated


def test_lost_state_is_named_by_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree("state")
    code, out = run_command(capsys, "plan", "-details")
    assert code == 0
    assert (
        "1 object to create already exists on the site, but not in the state: "
        "nexus_kubernetes_cluster."
    ) in out
    # 2: predicted elsewhere.
    assert run_command(capsys, "apply", "-auto-approve")[0] in (0, 2)
    assert "already exist" not in run_command(capsys, "plan", "-details")[1]


def test_plan_without_refresh_names_what_it_did_not_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unread = (
        "nexusform has not read the infrastructure (-refresh=false): changes made outside of "
        "nexusform are unknown."
    )
    code, out = run_command(capsys, "plan", "-refresh=false")
    assert code == 0
    assert "No changes. The state matches the configuration." in out
    assert unread in out
    assert "has compared your infrastructure" not in out
    assert unread not in run_command(capsys, "plan")[1]
    Path("site.nf.hcl").unlink()
    shutil.rmtree("state")
    code, out = run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")
    # It has just read the export.
    assert (code, "-refresh=false" in out) == (0, False)


@pytest.mark.parametrize("is_evacuated", [False, True])
def test_node_to_recreate_waits_for_its_deletion(
    *, is_evacuated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is sent: apply prints the commands and waits.

    Meanwhile its prediction is no wrong one.
    """
    address = "nexus_kubernetes_cluster.ssh-test-3d38"
    _, text = run_command(capsys, "show", "-json", "-no-color")
    resources = json.loads(text)["values"]["root_module"]["resources"]
    (cluster,) = (item["values"] for item in resources if item["address"] == address)
    name, node = next(
        (name, node) for name, node in cluster["nodes"].items() if node["pool"] == POOL
    )
    flags = [f"-replace={address}:{name}"]
    if is_evacuated:
        block = f'resource "nexus_bare_metal_machine" "{node["machine"]}" {{'
        text = Path("site.nf.hcl").read_text()
        assert text.count(block) == 1
        Path("site.nf.hcl").write_text(text.replace(block, f"{block}\n  evacuate = true"))
        flags = []
    # Twice: the second plan starts again, and finds the same.
    for _ in range(2):
        code, out = run_command(capsys, "apply", "-auto-approve", *flags)
        assert code == 0, out
        assert f"kubectl --context=ssh-test-3d38 delete node {node['platform_name']}" in out
        assert "This provider sends no changes" in out
        assert re.search("Waiting for [0-9]+ changes? on the site", out)
        assert "does not match the plan" not in out
        assert "predicted on" not in out
        assert "Unfinished apply" not in out
    # An operator deletes the nodes of the machine, and Azure creates new ones elsewhere.
    export = Path("export/kubernetes_clusters.json")
    documents = export.read_text().replace(node["platform_name"], f"{node['platform_name']}-new")
    if is_evacuated:
        others = {machine["machine"] for machine in cluster["nodes"].values()} - {node["machine"]}
        documents = documents.replace(f'/{node["machine"]}"', f'/{min(others)}"')
    export.write_text(documents)
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, out
    code, out = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True), out


def test_plain_vm_to_move_waits_until_it_runs_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "with-a-plain-vm"
    place.mkdir()
    monkeypatch.chdir(place)
    shutil.copytree(Path(__file__).parents[4] / "examples" / "inventory" / "export", "export")
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    text = Path("site.nf.hcl").read_text()
    machine = '"nexus_bare_metal_machine" "x01lon1c2co04" {\n'
    Path("site.nf.hcl").write_text(text.replace(machine, f"{machine}  evacuate = true\n"))
    code, out = run_command(capsys, "apply", "-auto-approve", "-input=false")
    assert code == 0, out
    assert (
        "lon1/probe01 is not re-created yet: the export in export still has the old machine"
    ) in out
    assert "prediction" not in out.split("Releasing", 1)[1]
    exported = Path("export/virtual_machines.json")
    exported.write_text(exported.read_text().replace("x01lon1c2co04", "x01lon1c3co03"))
    code, out = run_command(capsys, "apply", "-auto-approve", "-input=false")
    assert code == 0, out
    assert "No changes." in run_command(capsys, "plan")[1]
