"""Tests of `import -from` on real sites, and of later plans."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import BackendProblem
from tests.domains.azure.captured_site import write_pool_lists

CASES = Path(__file__).parents[1] / "importers" / "cases" / "azure"
SETS = sorted(path.name for path in CASES.iterdir() if path.is_dir())


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return an empty working directory."""
    monkeypatch.chdir(tmp_path)


def copy_export(name: str) -> None:
    shutil.copytree(CASES / name, "export")


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command_line(arguments)
    captured_text = capsys.readouterr()
    return code, captured_text.out, captured_text.err


def import_site(capsys: pytest.CaptureFixture[str]) -> str:
    code, out, err = run_command(
        capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl"
    )
    assert (code, err) == (0, "")
    return out


def read_bodies(kind: str) -> list[dict[str, Any]]:
    path = Path("export") / f"{kind}.json"
    return (
        [body["properties"] for body in json.loads(path.read_text())["value"]]
        if path.exists()
        else []
    )


def plan_rows(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    code, _, err = run_command(capsys, "plan", "-out=p.nfplan", "-samples=0", *more)
    assert (code, err) == (0, "")
    code, out, _ = run_command(capsys, "show", "-json", "p.nfplan")
    assert code == 0
    return json.loads(out)["placement_changes"]


@pytest.mark.parametrize("name", SETS)
def test_real_sites_are_imported_without_changes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_export(name)
    out = import_site(capsys)
    nodes = [node for cluster in read_bodies("kubernetes_clusters") for node in cluster["nodes"]]
    vms = [*nodes, *read_bodies("virtual_machines")]
    housed = sum(bool(vm.get("bareMetalMachineId")) for vm in vms)
    counts = re.findall(
        r"(\d+) VMs? imported, (\d+) without a machine, (\d+) occupied", " ".join(out.split())
    )
    assert [sum(map(int, column)) for column in zip(*counts, strict=True)] == [
        housed,
        len(vms) - housed,
        0,
    ]
    assert sum(map(int, re.findall(r"(\d+) machines?,", out))) == len(
        read_bodies("bare_metal_machines")
    )
    code, out, _ = run_command(capsys, "plan", "-detailed-exitcode")
    assert code == 0
    assert "No changes." in out
    assert not re.search(r"[1-9]\d* to (place|move|remove)", out)


def test_next_vm_is_the_only_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    text = Path("site.nf.hcl").read_text()
    cordoned = re.sub(r'(name += "b37dev08a1co01"\n)', r"\1  cordoned = true\n", text, count=1)
    grown = re.sub(r'("ssh-test-3d38-pool1" \{\s+count += )3', r"\g<1>4", cordoned)
    assert len({text, cordoned, grown}) == 3
    Path("site.nf.hcl").write_text(grown)
    (new,) = [row for row in plan_rows(capsys) if row["action"] != "keep"]
    assert (new["action"], new["trigger"]) == ("place", "scale_out")
    assert new["object"] == "ssh-test-3d38-ssh-test-3d38-pool1-3"
    assert new["to"]["machine"] != "b37dev08a1co01"


def test_second_import_adds_only_new_objects(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    code, out, _ = run_command(capsys, "import", "-from=export", "-generate-config-out=more.nf.hcl")
    assert code == 0
    assert "Nothing to import" in out
    assert not Path("more.nf.hcl").exists()
    path = Path("export/bare_metal_machines.json")
    document = json.loads(path.read_text())
    machine = document["value"][0]
    added = {**machine, "id": machine["id"] + "x", "name": "added"}
    added["properties"] = {**machine["properties"], "rackSlot": 40}
    document["value"].append(added)
    path.write_text(json.dumps(document))
    code, out, err = run_command(
        capsys, "import", "-from=export", "-generate-config-out=more.nf.hcl"
    )
    assert (code, err) == (0, "")
    assert "1 object in the state" in out
    written = Path("more.nf.hcl").read_text()
    assert "provider " not in written.replace("provider    = azure_export", "")
    assert "nexus_rack.r1.id" in written
    assert "No changes." in run_command(capsys, "plan")[1]


def test_site_keeps_name_despite_another_name_in_first_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy_export("clusters-070")
    clusters = Path("export/kubernetes_clusters.json").rename("clusters.json")
    assert "site: 1 rack, 6 machines" in import_site(capsys)
    clusters.rename("export/kubernetes_clusters.json")
    code, out, _ = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "outside of nexusform" in out) == (0, True, False)
    code, out, _ = run_command(capsys, "import", "-from=export", "-generate-config-out=more.nf.hcl")
    assert (code, "site: 1 rack, 6 machines, 1 cluster; 6 VMs imported" in out) == (0, True)
    assert "3 objects in the state, nothing moved" in out
    written = Path("more.nf.hcl").read_text()
    assert re.findall(r'^resource "(\w+)"', written, re.MULTILINE) == [
        "nexus_vm_sku",
        "nexus_vm_sku",
        "nexus_kubernetes_cluster",
    ]
    assert "site_id            = nexus_site.site.id" in written
    code, out, _ = run_command(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out) == (0, True)
    assert not re.search(r"[1-9]\d* to (place|move|remove)", out)
    code, out, _ = run_command(capsys, "reconcile", "-from=export")
    assert "Every VM is where the state records it; the site was not read completely." in out
    assert code == 2


def test_site_keeps_name_without_its_last_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    assert "dev08-0a105e4eb74b: 1 rack" in import_site(capsys)
    Path("export/kubernetes_clusters.json").write_text("[]")
    _, out, _ = run_command(capsys, "plan")
    assert re.findall(r"- (\S+) +has been deleted", out) == [
        "nexus_kubernetes_cluster.ssh-test-3d38"
    ]
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in out
    _, out, _ = run_command(capsys, "import", "-from=export", "-generate-config-out=more.nf.hcl")
    assert "Nothing to import" in out


def test_machines_of_another_site_in_state_are_not_imported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy_export("clusters-070")
    shutil.copytree("export", "later")
    Path("export/kubernetes_clusters.json").unlink()
    import_site(capsys)
    shutil.copy("later/kubernetes_clusters.json", "export")
    # Two of six machines keep their names: too few to identify the site.
    for path in Path("export").glob("[bk]*.json"):
        path.write_text(re.sub(r"\bb37(dev08a1co0[1345])\b", r"c48\1", path.read_text()))
    code, _, err = run_command(capsys, "import", "-from=export", "-generate-config-out=more.nf.hcl")
    words = " ".join(err.replace("│", " ").split())
    assert code == 1
    assert '2 machines of the site "dev08-0a105e4eb74b" have the rack and name' in words
    assert 'remove those of "site" (nexusform state rm ADDRESS)' in words
    assert not Path("more.nf.hcl").exists()
    # Another directory may be of another site.
    code, out, err = run_command(
        capsys, "import", "-from=later", "-generate-config-out=more.nf.hcl"
    )
    assert (code, "Warning: Machines from another site" in out + err) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-from=export"], "-generate-config-out=F"),
        (["-from=export", "-generate-config-out=elsewhere/s.nf.hcl"], "root module's directory"),
        (["-from=nowhere", "-generate-config-out=s.nf.hcl"], '"nowhere" cannot be read'),
        (
            ["-from=broken", "-generate-config-out=s.nf.hcl"],
            "broken/bare_metal_machines.json, line 1",
        ),
    ],
)
def test_invalid_import_writes_nothing(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_export("clusters-007")
    shutil.copytree("export", "broken")
    Path("broken/bare_metal_machines.json").write_text('[{"id": ')
    before = sorted(Path().rglob("*"))
    code, _, err = run_command(capsys, "import", *arguments)
    assert code == 1
    assert words in " ".join(err.replace("│", " ").split())
    assert "Unknown machine" not in err
    assert sorted(Path().rglob("*")) == before


def move_node(position: int) -> str:
    """Move a node of the first cluster to another machine of the export; return its name."""
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    node = document["value"][0]["properties"]["nodes"][position]
    machines = json.loads(Path("export/bare_metal_machines.json").read_text())["value"]
    node["bareMetalMachineId"] = next(
        m["id"] for m in machines if m["id"] != node["bareMetalMachineId"]
    )
    path.write_text(json.dumps(document))
    return str(node["name"])


def test_plan_reports_vms_observed_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    name = move_node(3)
    (row,) = plan_rows(capsys)
    assert (row["action"], row["trigger"], row["platform_name"]) == (
        "keep",
        "observed_elsewhere",
        name,
    )
    assert row["from"]["machine"] != row["to"]["machine"]
    code, out, _ = run_command(capsys, "plan")
    assert code == 0
    assert "No changes." in out
    assert "0 to move" in out
    assert name in out
    assert run_command(capsys, "apply", "p.nfplan")[0] == 0
    assert plan_rows(capsys) == []


def test_platform_names_are_accepted_as_names(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    cluster = "nexus_kubernetes_cluster.ssh-test-3d38"
    name = "ssh-test-3d38-pool1-15c95f75-md-2jxj2"
    (row,) = plan_rows(capsys, f"-replace={cluster}:{name}")
    assert (row["action"], row["trigger"], row["platform_name"]) == ("move", "heal", name)
    code, out, _ = run_command(capsys, "explain", cluster, name)
    assert code == 0
    assert "ssh-test-3d38-ssh-test-3d38-pool1-0 runs on" in out
    code, _, err = run_command(capsys, "explain", cluster, name[:-1] + "9")
    assert code == 1
    assert f'Did you mean\n│ "{name}"' in err


def test_reconcile_counts_wrong_predictions_and_updates_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy_export("clusters-070")
    Path("export/virtual_machines.json").write_text("[]")
    clusters = json.loads(Path("export/kubernetes_clusters.json").read_text())["value"]
    write_pool_lists(Path("export"), clusters)
    import_site(capsys)
    code, out, _ = run_command(capsys, "reconcile", "-from=export", "-replay")
    assert code == 0
    assert "Every VM is where the state records it." in out
    assert "6 of 6 checked VMs (100.0 %)" in out
    name = move_node(3)
    code, out, _ = run_command(capsys, "reconcile", "-from=export", "-format=json")
    assert code == 2
    document = json.loads(out)
    (cluster,) = document["clusters"]
    assert (cluster["vms"], cluster["machine_hits"]) == (6, 5)
    assert name in cluster["wrong_predictions"][0]["vm"]
    assert plan_rows(capsys) == []
    assert run_command(capsys, "reconcile", "-from=export")[0] == 0


def test_reconcile_reports_broken_separation_rule(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    cluster = "nexus_kubernetes_cluster.ssh-test-3d38.id"
    Path("rules.nf.hcl").write_text(
        'resource "nexus_separation_rule" "apart" {\n  scope = "rack"\n  enforcement = "warn"\n'
        f'  group {{\n    pool_ids = ["${{{cluster}}}/sys-pool1"]\n  }}\n'
        f'  group {{\n    pool_ids = ["${{{cluster}}}/ssh-test-3d38-pool1"]\n  }}\n}}\n'
    )
    code, out, _ = run_command(capsys, "reconcile", "-from=export")
    assert code == 3
    assert "1 separation rule does not hold" in out


def test_change_missing_in_export_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    text = Path("site.nf.hcl").read_text()
    Path("site.nf.hcl").write_text(re.sub(r'("sys-pool1" \{\s+count += )2', r"\g<1>3", text))
    code, out, err = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, "it waits; nothing failed"
    assert "the export in export still has the old agent_pool" in " ".join(out.split())
    advice = " ".join((out + err).replace("│", " ").split())
    assert (
        "Warning: Waiting for 1 change on the site nexusform does not make this change. Make "
        "this change on the site"
    ) in advice
    assert "-resume" not in advice
    _, out, err = run_command(capsys, "plan")
    warning = " ".join((out + err).replace("│", " ").split())
    assert "Warning: Waiting for 1 change on the site 1 change waits for the site." in warning
    assert "did not finish" not in warning
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    properties = document["value"][0]["properties"]
    pool = next(p for p in properties["initialAgentPoolConfigurations"] if p["name"] == "sys-pool1")
    pool["count"] = 3
    node = next(n for n in properties["nodes"] if "agentpool1" in n["name"])
    properties["nodes"].append({**node, "name": node["name"][:-5] + "zzzzz"})
    path.write_text(json.dumps(document))
    code, out, _ = run_command(capsys, "apply", "-auto-approve")
    assert code == 0, "without the list of VMs, the plan was not sure where it stands"
    assert "1 prediction wrong:" in out
    assert "No changes." in run_command(capsys, "plan")[1]


def test_node_settings_of_pools_are_not_observed(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    text = Path("site.nf.hcl").read_text()
    more = r"\g<1>\n    sriov_vfs = 2\n    kubelet {\n      numa_nodes = 1\n    }"
    declared = re.sub(r'(agent_pool "ssh-test-3d38-pool1" \{)', more, text, count=1)
    assert declared != text
    Path("site.nf.hcl").write_text(declared)
    code, out, err = run_command(capsys, "apply", "-auto-approve")
    assert (code, err) == (0, ""), out
    code, out, _ = run_command(capsys, "plan")
    assert "No changes." in out


def test_hugepages_of_agent_options_are_node_resources(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-055")
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    pools = [
        pool
        for cluster in document["value"]
        for pool in cluster["properties"].get("initialAgentPoolConfigurations") or ()
    ]
    pools[0]["agentOptions"] = {"hugepagesCount": 4, "hugepagesSize": "1G"}
    pools[1]["agentOptions"] = {"hugepagesCount": 512}
    path.write_text(json.dumps(document))
    import_site(capsys)
    text = Path("site.nf.hcl").read_text()
    assert re.findall(r'"(hugepages-.*)" += "(.*)"', text) == [
        ("hugepages-1Gi", "4Gi"),
        ("hugepages-2Mi", "1024Mi"),
    ]
    assert "No changes." in run_command(capsys, "plan")[1]
    pools[0]["agentOptions"] = {"hugepagesCount": 4, "hugepagesSize": "1GB"}
    path.write_text(json.dumps(document))
    shutil.rmtree("state")
    Path("site.nf.hcl").unlink()
    _, out, err = run_command(capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl")
    assert '"1GB" is not a page size: use "2M" or "1G".' in " ".join(
        (out + err).replace("│", " ").split()
    )


def test_node_larger_than_its_sku_occupies_the_rest_on_its_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy_export("clusters-070")
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text().replace("NC_M8_v1", "NC_P4_28_v1"))
    nodes = [
        node
        for node in document["value"][0]["properties"]["nodes"]
        if node["vmSkuName"] == "NC_P4_28_v1"
    ]
    nodes[0]["bareMetalMachineId"] = None
    path.write_text(json.dumps(document))
    assert "1 without a machine" in " ".join(import_site(capsys).split())
    occupied = re.findall(
        r'occupied \{\n +name += "(.*)"\n +cpu_cores += 4\n', Path("site.nf.hcl").read_text()
    )
    assert sorted(occupied) == sorted(f"{node['name']} beyond NC_P4_28_v1" for node in nodes[1:])


def test_node_deleted_on_site_is_recreated(capsys: pytest.CaptureFixture[str]) -> None:
    copy_export("clusters-070")
    import_site(capsys)
    path = Path("export/kubernetes_clusters.json")
    document = json.loads(path.read_text())
    nodes = document["value"][0]["properties"]["nodes"]
    gone = nodes.pop(
        next(n for n, node in enumerate(nodes) if "ssh-test-3d38-pool1" in node["name"])
    )
    path.write_text(json.dumps(document))
    (coming,) = [row for row in plan_rows(capsys) if row["action"] != "keep"]
    assert (coming["action"], coming["trigger"]) == ("place", "node_deleted")
    code, out, err = run_command(capsys, "apply", "-auto-approve")
    assert (
        code,
        "nexusform does not make this change" in " ".join((out + err).replace("│", " ").split()),
    ) == (0, True)
    nodes.append({**gone, "name": f"{gone['name'][:-5]}zzzzz"})
    path.write_text(json.dumps(document))
    code, out, _ = run_command(capsys, "plan")
    assert (code, "No changes." in out, "6 kept" in out) == (0, True, True), out


def test_import_keeps_its_file_if_only_the_lock_is_not_released(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise BackendProblem("the disk is full")

    copy_export(SETS[0])
    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "unlock", fail)
        code, _, err = run_command(
            capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl"
        )
    assert (code, "the disk is full" in err) == (1, True)
    # The state has the objects.
    assert Path("site.nf.hcl").exists()
    code, out, _ = run_command(capsys, "plan", "-detailed-exitcode", "-lock=false")
    assert (code, "No changes." in out) == (0, True)


@pytest.mark.parametrize("is_written", [True, False])
def test_import_keeps_its_file_if_the_state_may_have_the_objects(
    is_written: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend fails with or without having written the state.

    The journal has the objects in both cases.
    """
    write = LocalBackend.write_merged_state

    def fail(backend: LocalBackend, document: bytes, preserved_lines: list[bytes]) -> None:
        if is_written:
            write(backend, document, preserved_lines)
        raise BackendProblem("the connection was closed")

    copy_export(SETS[0])
    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "write_merged_state", fail)
        code, _, err = run_command(
            capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl"
        )
    assert code == 1
    assert "the connection was closed" in err
    assert 'If it creates objects, delete "site.nf.hcl" and import again.' in " ".join(
        err.replace("│", "").split()
    )
    code, out, _ = run_command(capsys, "plan")
    assert (code, "No changes." in out) == (0, True)


@pytest.mark.parametrize("is_written", [True, False])
def test_import_keeps_its_file_after_a_failed_journal_write(
    is_written: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    append = LocalBackend.append_all
    failures = [1]

    def fail_once(backend: LocalBackend, lines: list[bytes]) -> None:
        if is_written or not failures:
            append(backend, lines)
        if failures:
            failures.pop()
            raise BackendProblem("the connection was closed")

    copy_export(SETS[0])
    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "append_all", fail_once)
        code, _, err = run_command(
            capsys, "import", "-from=export", "-generate-config-out=site.nf.hcl"
        )
    assert (code, "the connection was closed" in err, Path("site.nf.hcl").exists()) == (
        1,
        True,
        True,
    ), err
    code, out, err = run_command(capsys, "plan")
    assert (code, "No changes." in out) == (0, True), out + err
