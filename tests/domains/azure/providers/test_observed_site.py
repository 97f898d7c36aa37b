"""Providers that show a site: what it shows as a part of other objects, or under other names."""

from __future__ import annotations

import json
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
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A real site that was taken over as it is."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    capsys.readouterr()


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and all text, in one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def set_apart() -> None:
    """The cluster's last pool becomes a resource of its own."""
    text = Path("site.nf.hcl").read_text()
    block = text.index(f'  agent_pool "{POOL}"')
    assert text[block:].count("agent_pool") == 1
    Path("site.nf.hcl").write_text(f"{text[:block].rstrip()}\n}}\n{APART}")


def test_a_pool_that_stands_is_not_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    set_apart()
    code, out = told(capsys, "plan")
    assert code == 1
    assert f"{POOL_ID} already exists on the site" in out
    assert f'to = nexus_agent_pool.p, id = "{POOL_ID}"' in out


def test_a_pool_is_taken_over_out_of_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    set_apart()
    Path("taken.nf.hcl").write_text(TAKEN_OVER)
    code, out = told(capsys, "apply", "-auto-approve")
    assert code == 0, out
    assert "1 imported, 0 added" in out
    assert "Placements: 0 to place, 0 to move, 0 to remove, 6 kept." in out
    Path("taken.nf.hcl").unlink()
    code, out = told(capsys, "plan")
    assert "No changes." in out
    assert "6 kept" in out
    code, out = told(capsys, "reconcile", "-from=export")
    assert (code, "Every VM is where the state records it." in out) == (0, True), out


def test_what_becomes_of_a_pool_of_its_own_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    set_apart()
    Path("taken.nf.hcl").write_text(TAKEN_OVER)
    assert told(capsys, "apply", "-auto-approve")[0] == 0
    text = Path("site.nf.hcl").read_text()
    Path("site.nf.hcl").write_text(text.replace("node_count            = 3", "node_count            = 4"))
    code, out = told(capsys, "apply", "-auto-approve")
    assert (code, "is not changed yet" in out) == (0, True), out
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    properties = document["value"][0]["properties"]
    node = next(n for n in properties["nodes"] if POOL in n["name"])
    properties["nodes"].append({**node, "name": f"{node['name'][:-5]}zzzzz"})
    path.write_text(json.dumps(document))
    code, out = told(capsys, "apply", "-auto-approve")
    assert code == 2, out
    assert "Wrong certain predictions" in out, "the new node stands beside another one of its pool"
    assert "No changes." in told(capsys, "plan")[1]


def test_machines_that_a_rack_would_make_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("site.nf.hcl").read_text()
    Path("site.nf.hcl").write_text(text.replace("machine_count     = 0", "machine_count     = 2"))
    code, out = told(capsys, "apply", "-auto-approve")
    assert (code, "set machine_count = 0" in out) == (0, True), out
    Path("site.nf.hcl").write_text(text)
    code, out = told(capsys, "apply", "-auto-approve")
    assert code == 0, out
    assert "No changes." in told(capsys, "plan")[1]


def test_objects_that_are_imported_one_by_one_have_creation_numbers_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = json.loads(told(capsys, "state", "pull")[1])
    machines = [each for each in state["resources"] if each["type"] == "nexus_bare_metal_machine"][:2]
    addresses = [f"nexus_bare_metal_machine.{each['name']}" for each in machines]
    ids = [each["instances"][0]["attributes"]["id"] for each in machines]
    for address in addresses:
        assert told(capsys, "state", "rm", address)[0] == 0
    assert told(capsys, "import", addresses[0], ids[0])[0] == 0
    with Path("site.nf.hcl").open("a") as file:
        file.write(f'import {{\n  to = {addresses[1]}\n  id = "{ids[1]}"\n}}\n')
    code, out = told(capsys, "apply", "-auto-approve")
    assert (code, "1 imported, 0 added" in out) == (0, True), out
    state = json.loads(told(capsys, "state", "pull")[1])
    numbers = [each["creation"] for one in state["resources"] for each in one["instances"]]
    assert 0 not in numbers
    assert len(set(numbers)) == len(numbers)
