"""Tests of saved plans and their inputs.

Configuration, commit, state, inventories and other states.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.resources.address import parse_address
from nexusform.state.journal import ApplyStart, InstanceOutcome, encode_journal_record
from nexusform.workflow.opening.git_work_tree import find_commit
from tests.git_repositories import run_git

Shell = Callable[..., tuple[int, str]]
EXAMPLE = Path(__file__).parents[3] / "examples" / "inventory"
SITE = """
variable "workers" {
  type    = number
  default = 2
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "rack1" {
  site_id       = nexus_site.lab.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "a" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.rack1]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = var.workers
    vm_sku_name = "NC_P10_56_v1"
  }
}
output "made" {
  value = plantimestamp()
}
output "text" {
  value = file("text")
}
"""


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    Path("main.nf.hcl").write_text(SITE)
    Path("text").write_text("one")

    def run_command(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command_line(list(words))
        both = capsys.readouterr()
        return code, " ".join((both.out + both.err).replace("│", " ").split())

    return run_command


def test_replanning_accepts_an_unchanged_plan(nf: Shell) -> None:
    assert nf("plan", "-out=p")[0] == 0
    code, told = nf("apply", "-verify=replan", "p")
    assert code == 0, told
    assert "Apply complete!" in told
    # Replanning uses the time of the plan, so plantimestamp() does not differ.
    assert nf("plan", "-destroy", "-target=nexus_kubernetes_cluster.a", "-out=p")[0] == 0
    code, told = nf("apply", "-verify=replan", "p")
    assert code == 0, told


def test_replanning_names_the_differences(nf: Shell) -> None:
    Path("main.nf.hcl").write_text(SITE.replace('output "text"', 'output "other"'))
    assert nf("plan", "-out=p")[0] == 0
    Path("text").write_text("two")
    code, told = nf("apply", "-verify=replan", "p")
    assert code == 1
    assert "Saved plan outdated" in told
    assert "differs: output.other." in told
    assert not Path("state/nexusform.nfstate").exists()
    code, told = nf("apply", "p")
    assert code == 1
    assert "text changed since the plan." in told
    assert "Saved plan not reproducible" in told
    assert not Path("state/nexusform.nfstate").exists()


def test_changed_configuration_is_reported_with_its_commit(nf: Shell) -> None:
    run_git(".", "init", "-q")
    run_git(".", "add", "main.nf.hcl")
    run_git(".", "commit", "-q", "-m", "one")
    first = find_commit(".", {})
    assert nf("plan", "-out=p")[0] == 0
    run_git(".", "commit", "-q", "--allow-empty", "-m", "two")
    run_git(".", "pack-refs", "--all")
    second = find_commit(".", {})
    shown = run_git(".", "rev-parse", "HEAD")
    assert (len(first), second) == (40, shown.strip())
    Path("main.nf.hcl").write_text(SITE.replace("default = 2", "default = 3"))
    code, told = nf("apply", "p")
    assert code == 0
    assert "Configuration changed since plan" in told
    assert f"main.nf.hcl changed since the plan. The plan is for commit {first[:12]}, " in told
    assert f"and the current commit is {second[:12]}." in told
    assert "Configuration changed" not in nf("plan", "-out=p")[1]
    assert "Configuration changed" not in nf("apply", "p")[1]


def test_commit_is_found_for_detached_head_worktree_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_commit(".", {}) == ""
    assert find_commit(".", {"CI_COMMIT_SHA": "a" * 40}) == "a" * 40
    assert find_commit(".", {"GITHUB_SHA": "$(reboot)"}) == ""
    run_git(".", "init", "-q")
    assert find_commit(".", {}) == ""
    run_git(".", "commit", "-q", "--allow-empty", "-m", "one")
    head = run_git(".", "rev-parse", "HEAD").strip()
    run_git(".", "worktree", "add", "-q", "-b", "more", "beside")
    assert find_commit("beside", {}) == head
    run_git(".", "checkout", "-q", "--detach")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    assert find_commit("deep/er", {}) == head
    # A pull request has a temporary merge commit.
    assert find_commit(".", {"GITHUB_SHA": "a" * 40}) == head
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert find_commit(".", {}) == ""


def test_state_edited_under_the_same_serial_is_detected(nf: Shell) -> None:
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("plan", "-var", "workers=3", "-out=p")[0] == 0
    state = Path("state/nexusform.nfstate")
    document = json.loads(state.read_text())
    (cluster,) = [
        each for each in document["resources"] if each["type"] == "nexus_kubernetes_cluster"
    ]
    cluster["instances"][0]["status"] = "tainted"
    state.write_text(json.dumps(document, indent=2))
    code, told = nf("apply", "p")
    assert code == 1
    assert "the state under serial 1 changed" in told
    assert "nexus_kubernetes_cluster.a" in told


def test_state_older_than_the_plan_is_an_error(nf: Shell) -> None:
    """A cache answered, or a backup was restored: it may lack objects that exist."""
    state = Path("state/nexusform.nfstate")
    assert nf("apply", "-auto-approve")[0] == 0
    old = state.read_bytes()
    Path("more.nf.hcl").write_text('output "more" {\n  value = 1\n}\n')
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("plan", "-var", "workers=3", "-out=p")[0] == 0
    state.write_bytes(old)
    code, told = nf("apply", "p")
    assert code == 1
    assert "The state has serial 1, older than serial 2 on which the plan was made" in told
    assert state.read_bytes() == old


@pytest.mark.of_domains("azure")
def test_changed_inventory_stops_a_plan_only_if_the_plan_differs(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1772287200")
    shutil.copytree(EXAMPLE, "inventory")
    os.chdir("inventory")
    machines = Path("export/bare_metal_machines.json")
    assert nf("plan", "-out=p")[0] == 0
    text = machines.read_text()
    machines.write_text(text + "\n")
    code, told = nf("apply", "-lock=false", "p")
    assert code == 0, told
    assert "Plan inputs changed" in told
    assert "the same changes" in told
    shutil.rmtree("state")
    machines.write_text(text.replace('"Uncordoned"', '"Cordoned"'))
    code, told = nf("apply", "p")
    assert code == 1
    assert '"export/bare_metal_machines.json" changed, and a new plan differs: it fails (' in told
    shutil.rmtree("export")
    code, told = nf("apply", "p")
    assert code == 1
    assert "Saved plan not reproducible" in told
    assert 'Inputs of the plan cannot be read here: "export/' in told


@pytest.mark.of_domains("azure")
def test_added_or_removed_inventory_file_is_no_modified_plan(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1772287200")
    shutil.copytree(EXAMPLE, "inventory")
    os.chdir("inventory")
    assert nf("plan", "-out=p")[0] == 0
    pools = Path("export/agent_pools.core-amf.json")
    other_pools = Path("export/agent_pools.other.json")
    machines = Path("export/virtual_machines.json").rename("kept.json")
    code, told = nf("apply", "p")
    assert code == 1
    assert "Saved plan outdated" in told
    assert '"export/virtual_machines.json" was removed, and a new plan differs: ' in told
    machines.rename("export/virtual_machines.json")
    shutil.copyfile(pools, other_pools)
    code, told = nf("apply", "-lock=false", "p")
    assert code == 0, told
    assert f'"{other_pools}" was added since the plan. A new plan has the same changes' in told


def test_file_that_appears_or_disappears_is_no_modified_plan(nf: Shell) -> None:
    optional = Path("opt.txt")
    Path("files.nf.hcl").write_text(
        'output "tried" {\n  value = try(file("${path.module}/opt.txt"), "none")\n}\n'
    )
    assert nf("plan", "-out=p")[0] == 0
    optional.write_text("new")
    code, told = nf("apply", "p")
    assert code == 1
    assert 'Since the plan, "opt.txt" was added, and a new plan differs: output.tried.' in told
    assert nf("plan", "-out=p")[0] == 0
    optional.unlink()
    code, told = nf("apply", "p")
    assert code == 1
    assert 'Since the plan, "opt.txt" was removed, and a new plan differs: output.tried.' in told
    for call in ('fileset("./", "*.txt")', 'fileexists("./opt.txt")'):
        optional.unlink(missing_ok=True)
        Path("files.nf.hcl").write_text(f'output "found" {{\n  value = {call}\n}}\n')
        assert nf("plan", "-out=p")[0] == 0
        optional.write_text("new")
        code, told = nf("apply", "p")
        assert code == 1
        assert f"Since the plan, the result of {call} changed, and a new plan differs" in told


def test_changed_remote_state_is_detected(nf: Shell) -> None:
    assert nf("apply", "-auto-approve")[0] == 0
    # One work tree contains both.
    Path(".git").mkdir()
    Path("reader").mkdir()
    os.chdir("reader")
    Path("main.nf.hcl").write_text("""
data "nexusform_remote_state" "lab" {
  backend = "local"
  config  = { path = "../state/nexusform.nfstate" }
}
output "count" {
  value = data.nexusform_remote_state.lab.resources["nexus_kubernetes_cluster.a"].node_count
}
""")
    assert nf("plan", "-out=p")[0] == 0
    os.chdir("..")
    assert nf("apply", "-auto-approve", "-var", "workers=3")[0] == 0
    os.chdir("reader")
    code, told = nf("apply", "p")
    assert code == 1
    assert "the state that data.nexusform_remote_state.lab reads changed" in told
    assert "differs: output.count." in told


def test_continued_apply_of_another_state_is_detected(nf: Shell) -> None:
    assert nf("apply", "-auto-approve")[0] == 0
    path = Path("state/nexusform.nfstate").resolve()
    document = json.loads(path.read_text())
    Path(".git").mkdir()
    Path("reader").mkdir()
    os.chdir("reader")
    reader = """
data "nexusform_remote_state" "lab" {
  backend = "local"
  config  = { path = "../state/nexusform.nfstate" }
}
output "VALUE" {
  value = VALUE
}
"""
    backend = LocalBackend(str(path))
    start = ApplyStart(document["lineage"], document["serial"] + 1)
    deletion = InstanceOutcome(parse_address("nexus_site.lab"), 99, None)
    for value, code, words in (
        ("data.nexusform_remote_state.lab.id", 0, "A new plan has the same changes"),
        ("keys(data.nexusform_remote_state.lab.resources)", 1, "differs: output.used."),
    ):
        Path("main.nf.hcl").write_text(reader.replace("VALUE", "used", 1).replace("VALUE", value))
        backend.append(encode_journal_record(start))
        assert nf("plan", "-out=p")[0] == 0
        backend.append(encode_journal_record(deletion))
        result, told = nf("apply", "p")
        assert (result, words in told, "modified" in told) == (code, True, False), told
        assert "the state that data.nexusform_remote_state.lab reads changed" in told
        backend.write_merged_state(path.read_bytes())


def test_completed_apply_of_another_state_is_detected(nf: Shell) -> None:
    assert nf("apply", "-auto-approve")[0] == 0
    path = Path("state/nexusform.nfstate").resolve()
    document = json.loads(path.read_text())
    Path(".git").mkdir()
    Path("reader").mkdir()
    os.chdir("reader")
    Path("main.nf.hcl").write_text("""
data "nexusform_remote_state" "lab" {
  backend = "local"
  config  = { path = "../state/nexusform.nfstate" }
}
""")
    document["serial"] += 1
    backend = LocalBackend(str(path))
    start = ApplyStart(document["lineage"], document["serial"])
    backend.append(encode_journal_record(start))
    assert nf("plan", "-out=p")[0] == 0
    backend.write_merged_state(json.dumps(document, indent=2).encode())
    code, told = nf("apply", "p")
    assert code == 0, told
    assert "A new plan has the same changes" in told
    assert "was interrupted" not in told


@pytest.mark.parametrize(
    "words", [["-verify=replan"], ["-verify=replan", "-resume"], ["-verify=plan", "p"]]
)
def test_incompatible_options_of_verify_are_rejected(nf: Shell, words: list[str]) -> None:
    code, told = nf("apply", *words)
    assert code == 1
    assert "-verify" in told


FLEET = """
resource "fleet_member_cluster" "m" {
  count = 6
  name  = "member-${count.index}"
}
resource "fleet_cluster_resource_placement" "p" {
  count = 40
  name  = "placement-${count.index}"
  resource_selector {
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "ns-${count.index}"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 3
  }
}
"""


@pytest.mark.of_domains("fleet")
def test_unchanged_values_are_saved_once_in_state_and_changes(nf: Shell) -> None:
    Path("main.nf.hcl").write_text(FLEET)
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("plan", "-out=p")[0] == 0
    with zipfile.ZipFile("p") as archive:
        parts = [archive.read(name) for name in archive.namelist() if name != "configuration.json"]
    assert sum(part.count(b'"ns-7"') for part in parts) == 1
    code, told = nf("show", "-json", "p")
    assert code == 0
    shown = json.loads(told)
    stays = {change["address"]: change["change"] for change in shown["resource_changes"]}
    assert all(each["before"] == each["after"] for each in stays.values())
    assert len(stays) == 46


def test_failed_plan_with_syntax_error_is_shown_after_correction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {\n', encoding="utf-8")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 1
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {}\n', encoding="utf-8")
    capsys.readouterr()
    run_command_line(["show", "p.nfplan"])
    assert "main.nf.hcl" in capsys.readouterr().out


def test_another_value_of_the_environment_is_a_warning(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_VAR_workers", "3")
    assert nf("plan", "-out=p")[0] == 0
    monkeypatch.setenv("NF_VAR_workers", "1")
    code, told = nf("apply", "p")
    assert code == 0, told
    assert "Other values than in the plan: environment variable NF_VAR_workers." in told
    assert nf("state", "show", "nexus_kubernetes_cluster.a")[1].count("a-workers-2")
    # The same value, and no value.
    assert nf("plan", "-var=workers=1", "-out=p")[0] == 0
    assert "NF_VAR_workers" not in nf("apply", "p")[1]
    assert nf("plan", "-var=workers=2", "-out=p")[0] == 0
    monkeypatch.delenv("NF_VAR_workers")
    assert "NF_VAR_workers" not in nf("apply", "p")[1]


def test_plan_of_an_earlier_backend_is_rejected_without_its_path(nf: Shell) -> None:
    block = 'nexusform {\n  backend "local" {\n    path = "NAME.nfstate"\n  }\n}\n'
    Path("backend.nf.hcl").write_text(block.replace("NAME", "first"))
    assert nf("apply", "-auto-approve")[0] == 0
    assert nf("plan", "-var=workers=1", "-out=p")[0] == 0
    Path("backend.nf.hcl").write_text(block.replace("NAME", "second"))
    assert nf("init", "-migrate-state")[0] == 0
    code, told = nf("apply", "p")
    assert code == 1
    assert "Saved plan place mismatch The plan is for another backend than this directory" in told
    assert "init -reconfigure" not in told
