"""Tests of exports without one kind of object.

An uncaptured object counts as existing, and readers are warned.
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
CLUSTERS = Path("export/kubernetes_clusters.json")
POOLS = Path("export/agent_pools.ssh-test-3d38.json")
VMS = Path("export/virtual_machines.json")
SITE = "dev08-0a105e4eb74b"
LATER_POOL = "ssh-test-3d38-pool1"


@pytest.fixture(autouse=True)
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return a real site with a list of labelled agent pools and one plain VM."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASE, "export")
    (cluster,) = read_clusters()
    properties = cluster["properties"]
    node = next(node for node in properties["nodes"] if node["name"].startswith(f"{LATER_POOL}-"))
    later_pool = {"name": LATER_POOL, "mode": "User", "count": 3, "vmSkuName": node["vmSkuName"]}
    pools = [
        {
            "id": f"{cluster['id']}/agentPools/{pool['name']}",
            "name": pool["name"],
            "properties": pool,
        }
        for pool in (*properties["initialAgentPoolConfigurations"], later_pool)
    ]
    for pool in pools:
        pool["properties"]["labels"] = [{"key": "tier", "value": "gold"}]
    POOLS.write_text(json.dumps(pools))
    machine = json.loads(Path("export/bare_metal_machines.json").read_text())["value"][0]
    vm = {
        "cpuCores": 2,
        "provisioningState": "Succeeded",
        "detailedStatus": "Running",
        "powerState": "On",
        "memorySizeGB": 8,
        "storageProfile": {"osDisk": {"diskSizeGB": 50}},
        "bareMetalMachineId": machine["id"],
    }
    where = {name: machine[name] for name in ("extendedLocation",) if name in machine}
    VMS.write_text(json.dumps([{"id": "/x/virtualMachines/jump", "name": "jump", **where, **vm}]))


def read_clusters() -> list[dict[str, Any]]:
    return json.loads(CLUSTERS.read_text())["value"]


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and all output on one line."""
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def import_site(capsys: pytest.CaptureFixture[str], to: str = "site.nf.hcl") -> str:
    code, out = run_command(capsys, "import", "-from=export", f"-generate-config-out={to}")
    assert code == 0, out
    return out


def plan_site(capsys: pytest.CaptureFixture[str]) -> str:
    code, out = run_command(capsys, "plan", "-details", "-samples=0")
    assert code == 0, out
    return out


@pytest.mark.parametrize(
    ("path", "said", "command"),
    [
        (
            CLUSTERS,
            "The export has no list of Kubernetes clusters",
            "kubernetescluster list --output json >",
        ),
        (VMS, "The export has no list of virtual machines", "virtualmachine list --output json >"),
        (
            POOLS,
            "agent pools of 1 cluster were not captured",
            "agentpool list --kubernetes-cluster-name ssh-",
        ),
    ],
)
def test_missing_list_is_reported_by_each_reader(
    path: Path, said: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.unlink()
    for text in (import_site(capsys), run_command(capsys, "inventory", "check", "export")[1]):
        assert said in text
        assert command in text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            CLUSTERS,
            (
                f"1 Kubernetes cluster of {SITE} was not captured and is planned as recorded "
                "in the state"
            ),
        ),
        (
            VMS,
            (
                f"1 virtual machine of {SITE} was not captured and is planned as recorded in the "
                "state (jump)"
            ),
        ),
        (
            POOLS,
            (
                f"The agent pools of 1 cluster of {SITE} were not captured (ssh-test-3d38): count, "
                "mode"
            ),
        ),
    ],
)
def test_uncaptured_objects_are_not_deleted(
    path: Path, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import_site(capsys)
    before = plan_site(capsys)
    assert "7 kept" in before
    assert said not in before
    path.unlink()
    out = plan_site(capsys)
    assert "No changes." in out
    assert "7 kept" in out
    assert said in out


def test_empty_list_means_deletion(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    VMS.write_text('{"value": []}')
    out = plan_site(capsys)
    assert "nexus_virtual_machine.jump has been deleted" in out
    assert "Plan: 1 to add" in out


def test_single_cluster_output_implies_nothing_about_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (cluster,) = read_clusters()
    CLUSTERS.write_text(
        json.dumps([cluster, {**cluster, "id": f"{cluster['id']}2", "name": "other"}])
    )
    import_site(capsys)
    CLUSTERS.write_text(json.dumps(cluster))
    out = plan_site(capsys)
    assert "No changes." in out
    assert "1 Kubernetes cluster" in out
    assert "(other)" in out
    assert (
        "single Kubernetes clusters, but no list"
        in run_command(capsys, "inventory", "check", "export")[1]
    )


def test_truncated_list_implies_nothing_about_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    CLUSTERS.write_text('{"value": [], "nextLink": "https://x.test/2"}')
    assert "No changes." in plan_site(capsys)
    machines = Path("export/bare_metal_machines.json")
    document = json.loads(machines.read_text())
    machines.write_text(json.dumps({**document, "nextLink": "https://x.test/2"}))
    code, out = run_command(capsys, "plan")
    assert (code, "this is one page of several" in out) == (1, True)


def test_truncated_list_of_pools_deletes_no_pool(capsys: pytest.CaptureFixture[str]) -> None:
    pool, _ = json.loads(POOLS.read_text())
    other = json.loads(json.dumps(pool).replace("sys-pool1", "other"))
    other["properties"] |= {"count": 0, "mode": "User"}
    POOLS.write_text(json.dumps([pool, other]))
    import_site(capsys)
    POOLS.write_text(json.dumps({"value": [pool], "nextLink": "https://page2"}))
    code, out = run_command(capsys, "plan", "-detailed-exitcode", "-details")
    assert (code, "changed outside" in out) == (0, False), out
    assert f"The agent pools of 1 cluster of {SITE} were not captured" in out


def test_export_of_another_site_is_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    for path in (CLUSTERS, POOLS, VMS):
        path.unlink()
    for path in Path("export").iterdir():
        path.write_text(path.read_text().replace("b37dev08", "c48abc").replace(SITE, "elsewhere"))
    code, out = run_command(capsys, "plan", "-detailed-exitcode", "-out=p.nfplan")
    assert (code, "a hub or site was not read" in out) == (1, True), out
    assert f'does not contain the site "{SITE}", but only site. ' in out
    assert (
        "The state matches the configuration; a hub or site was not read. Changes made there are "
        "unknown"
    ) in out
    assert json.loads(run_command(capsys, "show", "-json", "p.nfplan")[1])["complete"] is False
    code, out = run_command(capsys, "state", "verify")
    assert (code, "does not contain the site" in out, "is consistent" in out) == (2, True, False), (
        out
    )
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert (code, "No VM was compared; " in out, "Every VM is" in out) == (2, True, False), out


def test_limits_are_unknown_without_the_site(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    for path in Path("export").iterdir():
        path.write_text(path.read_text().replace("b37dev08", "c48abc").replace(SITE, "elsewhere"))
    code, out = run_command(capsys, "plan", "-fail-on=moved:0,removed:0,empty:0")
    assert code == 1, out
    reason = "a hub or site was not read, so changes made there are unknown"
    assert f"unknown: moved:0, removed:0: {reason}" in out, out
    assert "passed empty:0" in out
    code, out = run_command(capsys, "destroy", "-auto-approve")
    assert (code, "is not removed yet" in out) == (1, False), out
    assert (
        f"removed is unknown: the export in export does not contain the site {SITE}. This provider"
        in out
    )


def test_deletion_waits_for_what_the_export_shows(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    _, out = run_command(capsys, "destroy", "-auto-approve")
    assert "ssh-test-3d38 is not removed yet: the export in export still contains it." in out
    VMS.unlink()
    _, out = run_command(capsys, "destroy", "-auto-approve")
    assert (
        "jump is removed is unknown: the export in export has no complete list of its kind." in out
    )


def add_node() -> None:
    text = Path("site.nf.hcl").read_text()
    changed = re.sub(r'("sys-pool1" \{\s+count += )2', r"\g<1>3", text)
    assert changed != text
    Path("site.nf.hcl").write_text(changed)


def test_no_host_is_exact_while_a_vm_is_on_no_machine(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    add_node()
    assert "rack counts exact for 1 of 1 VM" in run_command(capsys, "plan")[1]
    (vm,) = json.loads(VMS.read_text())
    VMS.write_text(json.dumps([{**vm, "bareMetalMachineId": None}]))
    _, out = run_command(capsys, "plan", "-out=plan.nfplan", "-report=json:plan.json")
    assert "Confidence: low; Azure picks rack and machine; data is missing" in out
    confidence = json.loads(Path("plan.json").read_text())["decision"]["confidence"]
    assert (confidence["exact_rack_counts"], confidence["exact_machines"]) == (0, 0)


def test_certainty_is_unknown_without_all_vms(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    VMS.unlink()
    add_node()
    code, out = run_command(capsys, "plan", "-fail-on=certainty:0,moved:0", "-samples=20")
    assert code == 1, out
    reason = f"a fact is not read: virtual machines of site {SITE}"
    assert f"unknown: certainty:0: certainty is unknown because {reason}" in out
    assert "passed moved:0" in out
    assert "Confidence: low; Azure picks rack and machine; data is missing" in out


@pytest.mark.parametrize("path", [VMS, CLUSTERS])
def test_unread_objects_are_no_proof_of_no_changes(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_site(capsys)
    arguments = ("plan", "-refresh-only", "-detailed-exitcode", "-samples=0")
    code, out = run_command(capsys, *arguments)
    assert (code, "The data read is incomplete" in out) == (0, False), out
    path.unlink()
    # The state records that the list is missing.
    assert run_command(capsys, *arguments)[0] == 2
    run_command(capsys, "apply", "-refresh-only", "-auto-approve")
    code, out = run_command(capsys, *arguments)
    assert (code, "The data read is incomplete" in out) == (1, True), out


def test_export_without_machines_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    everything = [*read_clusters(), *json.loads(Path("export/racks.json").read_text())["value"]]
    shutil.rmtree("export")
    Path("export").mkdir()
    Path("export/all.json").write_text(json.dumps(everything))
    code, out = run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")
    assert code == 1
    assert "No file of the export holds bare-metal machines" in out
    assert "baremetalmachine list" in out


def test_step_is_not_done_if_its_kind_was_not_captured(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    text = Path("site.nf.hcl").read_text()
    start = text.index('resource "nexus_virtual_machine"')
    Path("site.nf.hcl").write_text(text[:start] + text[text.index("\n}\n", start) + 3 :])
    VMS.unlink()
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert (code, "removed is unknown" in out) == (0, True)
    VMS.write_text("[]")
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, out


def test_uncaptured_pool_changes_are_verified_by_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    POOLS.unlink()
    text = Path("site.nf.hcl").read_text()
    grown = text.replace(
        '"ssh-test-3d38-pool1" {\n    count       = 3',
        '"ssh-test-3d38-pool1" {\n    count       = 4',
    )
    assert grown != text
    Path("site.nf.hcl").write_text(grown)
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert (code, "were not captured; only their nodes are known" in out) == (0, True), out
    (cluster,) = read_clusters()
    node = next(n for n in cluster["properties"]["nodes"] if "ssh-test-3d38-pool1" in n["name"])
    cluster["properties"]["nodes"].append({**node, "name": f"{node['name'][:-5]}zzzzz"})
    CLUSTERS.write_text(json.dumps({"value": [cluster]}))
    code, out = run_command(capsys, "apply", "-auto-approve")
    assert code == 2, out
    assert "Wrong certain predictions" in out, "the new node stands beside another one of its pool"
    assert "No changes." in plan_site(capsys)


def test_reconcile_skips_uncaptured_objects(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    CLUSTERS.unlink()
    code, out = run_command(capsys, "reconcile", "-from=export")
    assert code == 2, out
    assert "nowhere" not in out
    assert "1 object not checked" in out
    assert f"1 Kubernetes cluster of {SITE} was not captured" in out


def test_advice_names_a_site_that_the_export_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    other = Path(__file__).parents[4] / "examples" / "inventory" / "export"
    site = Path("site.nf.hcl")
    site.write_text(site.read_text().replace('"export"', f'"{other}"'))
    run_command(capsys, "plan", "-samples=0", "-out=p.nfplan")
    for options in ((), ("-plan=p.nfplan",)):
        code, out = run_command(capsys, "advise", *options)
        assert (code, "does not contain the site" in out) == (2, True), out


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (VMS, f"1 virtual machine of {SITE} was not captured"),
        (CLUSTERS, f"1 Kubernetes cluster of {SITE} was not captured"),
    ],
)
def test_advice_names_lists_that_the_export_lacks(
    path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import_site(capsys)
    path.unlink()
    run_command(capsys, "plan", "-samples=0", "-out=p.nfplan")
    for options in ((), ("-plan=p.nfplan",)):
        code, out = run_command(capsys, "advise", *options)
        assert (code, text in out) == (2, True), out


def test_answers_give_the_age_of_the_export(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("export/exported_at").write_text("2026-02-28T06:00:00Z")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1772500000")
    import_site(capsys)
    for command in (
        ("reconcile", "-from=export"),
        ("explain", "nexus_kubernetes_cluster.ssh-test-3d38"),
        ("explain", "nexus_kubernetes_cluster.ssh-test-3d38", "ssh-test-3d38-sys-pool1-0"),
        ("explain", "-format=markdown", "nexus_virtual_machine.jump"),
    ):
        assert "Inventory: 2 days old." in run_command(capsys, *command)[1], command


def test_imported_vm_leaves_an_evacuated_machine(capsys: pytest.CaptureFixture[str]) -> None:
    import_site(capsys)
    site = Path("site.nf.hcl")
    (line,) = [
        line for line in site.read_text().splitlines() if 'name        = "b37dev08a1co01"' in line
    ]
    site.write_text(site.read_text().replace(line, f"{line}\n  evacuate = true"))
    assert "jump r1 / b37dev08a1co01 -> r1 / b37dev08a1co03 (machine_evacuated)" in plan_site(
        capsys
    )


# --- unmanaged objects ----------------------------------------------------------------------------


@pytest.mark.of_domains("whatif")
def test_nodes_of_unimported_cluster_take_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    whole = {path: path.read_text() for path in (CLUSTERS, POOLS)}
    CLUSTERS.write_text('{"value": []}')
    POOLS.unlink()
    import_site(capsys)
    free = count_free_vms(capsys)
    for path, text in whole.items():
        path.write_text(text)
    out = plan_site(capsys)
    assert "No changes." in out
    assert (
        f"6 VMs on {SITE.partition('-')[0]}" in out or "6 VMs on site belong to no resource" in out
    )
    taken = count_free_vms(capsys)
    assert taken < free
    import_site(capsys, "more.nf.hcl")
    out = plan_site(capsys)
    assert "belong to no resource" not in out
    assert count_free_vms(capsys) == taken


def count_free_vms(capsys: pytest.CaptureFixture[str], *more: str) -> int:
    """Return the number of VMs of one SKU with capacity after the plan."""
    assert run_command_line(["plan", "-out=p.nfplan", "-samples=0", *more]) == 0
    capsys.readouterr()
    run_command_line(["simulate", "capacity", "-plan=p.nfplan", "-sku=NC_G6_28_v1", "-format=json"])
    document = json.loads(capsys.readouterr().out)
    return int(json.dumps(document).partition('"more": ')[2].partition(",")[0])


@pytest.mark.of_domains("whatif")
@pytest.mark.parametrize("way", ["-replace", "another name", "another address"])
def test_recreated_machine_keeps_unmanaged_vms(
    way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = CLUSTERS.read_text()
    CLUSTERS.write_text('{"value": []}')
    POOLS.unlink()
    VMS.write_text("[]")
    import_site(capsys)
    CLUSTERS.write_text(whole)
    assert run_command_line(["apply", "-auto-approve", "-samples=0"]) == 0
    capsys.readouterr()
    taken = count_free_vms(capsys)
    site = Path("site.nf.hcl")
    text = site.read_text()
    changed = {
        "another name": text.replace(
            'name        = "b37dev08a1co01"', 'name        = "b37dev08a1co99"'
        ),
        "another address": text.replace('machine" "b37dev08a1co01"', 'machine" "fresh"'),
    }
    site.write_text(changed.get(way, text))
    replaced = ["-replace=nexus_bare_metal_machine.b37dev08a1co01"] if way == "-replace" else []
    assert (site.read_text() != text) == (not replaced)
    assert count_free_vms(capsys, *replaced) == taken
