"""Tests of forged plans: a plan changed after saving is rejected before any change.

Its digests are changed too.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from nexusform.cli.main import run_command_line
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_file import compute_digest
from nexusform.plans.saved.shared_values import DocumentExpander

CONFIGURATION = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 2
}
"""


def forge_plan(path: Path, member: str, change: Callable[[Any], None]) -> None:
    """Change one part of a plan file and its recorded digest."""
    members = plan_file.unpack_archive(path.read_bytes())
    assert members is not None
    manifest = json.loads(members["nexusform.json"])
    sharing = DocumentExpander(manifest["mark"], json.loads(members["values.json"]))
    content = sharing.expand(json.loads(members[member]))
    change(content)
    members[member] = json.dumps(content, default=lambda _unknown: f"{manifest['mark']}?").encode()
    manifest["members"][member] = compute_digest(members[member])
    path.write_bytes(
        plan_file.pack_archive({**members, "nexusform.json": json.dumps(manifest).encode()})
    )


def add_machines(steps: Any) -> None:
    rack = next(step for step in steps if (step.get("planned") or {}).get("name") == "r1")
    rack["planned"]["machine_count"] = 200


def refer_to_missing_change(steps: Any) -> None:
    steps[1]["change"] = 77


def remove_change(steps: Any) -> None:
    steps[1]["change"] = -1


def create_cycle(steps: Any) -> None:
    steps[0]["waits_for"] = [steps[-1]["id"]]
    steps[-1]["waits_for"] = [steps[0]["id"]]


def remove_step(steps: Any) -> None:
    del steps[-1]


@pytest.mark.parametrize(
    "change", [add_machines, refer_to_missing_change, remove_change, create_cycle, remove_step]
)
def test_forged_plan_is_rejected_and_nothing_is_written(
    change: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge_plan(Path("p.nfplan"), "steps.json", change)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    told = capsys.readouterr().err
    assert told.count("Error:") == 1
    assert "Saved plan contents mismatch" in told
    assert not Path("state/nexusform.nfstate").exists()


EXAMPLE = Path(__file__).parents[2] / "examples" / "end-to-end"


def change_rows(kind: str, change: Callable[[list[Any], list[int]], None]) -> Callable[[Any], None]:
    """Return a change of all placement rows, called with the positions of the rows of a kind."""

    def change_rows_of_kind(placements: Any) -> None:
        change(placements, [at for at, row in enumerate(placements) if row["kind"] == kind])

    return change_rows_of_kind


def drop_row(placements: list[Any], at: list[int]) -> None:
    del placements[at[0]]


def swap_names(placements: list[Any], at: list[int]) -> None:
    first = at[0]
    last = at[-1]
    names = placements[first]["object"], placements[last]["object"]
    placements[last]["object"], placements[first]["object"] = names


def remove_certainty(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["certainty"] = None


def change_reason(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["reason"] = "because"


def change_pod_machine(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["target"]["PodLocation"]["machine"] = "rack9-bm01"


def change_vm_target(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["target"] = placements[at[-1]]["target"]


def change_placed_count(plan: Any) -> None:
    plan["placement_tables"][0]["placed"] += 1


def count_as_certain(plan: Any) -> None:
    table = plan["placement_tables"][0]
    table["racks_certain"] = table["machines_certain"] = table["placed"]


def remove_samples(plan: Any) -> None:
    plan["samples"] = 0


def remove_rules(plan: Any) -> None:
    plan["separation_verdicts"] = []


def reduce_samples_of_rule(plan: Any) -> None:
    plan["separation_verdicts"][0]["sample_count"] -= 1


def add_rule(plan: Any) -> None:
    rule = {
        "address": "nexus_separation_rule.a",
        "scope": "rack",
        "enforcement": "deny",
        "satisfied": "always",
    }
    plan["separation_verdicts"] = [rule]


def change_policy_snapshot(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["target"]["Binding"]["policy_snapshot"] = 7


def set_source_to_target(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["source"] = placements[at[0]]["target"]


def change_name(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["object"] = "mars"


def drop_first(name: str) -> Callable[[Any], None]:
    """Return a change that removes the first item of a list in the plan.

    A list has, for example, diagnostics or a site's capacities.
    """
    return lambda plan: plan[name].pop(0)


def change_rack_count(plan: Any) -> None:
    plan["placement_tables"][0]["actual_racks"] += 1


def add_move(plan: Any) -> None:
    plan["address_moves"] = [["fleet_member_cluster.a", "fleet_member_cluster.b"]]


FORGERIES: dict[str, tuple[str, Callable[[Any], None]]] = {
    **{
        f"{kind} dropped": ("placements.json", change_rows(kind, drop_row))
        for kind in ("vm", "binding", "pod")
    },
    **{
        f"{kind} swapped": ("placements.json", change_rows(kind, swap_names))
        for kind in ("vm", "binding", "pod")
    },
    "binding of another snapshot": (
        "placements.json",
        change_rows("binding", change_policy_snapshot),
    ),
    "binding that stood": ("placements.json", change_rows("binding", set_source_to_target)),
    "binding of another cluster": ("placements.json", change_rows("binding", change_name)),
    "pod of another name": ("placements.json", change_rows("pod", change_name)),
    "pod elsewhere": ("placements.json", change_rows("pod", change_pod_machine)),
    "vm elsewhere": ("placements.json", change_rows("vm", change_vm_target)),
    "rule invented": ("plan.json", add_rule),
    "vm count without a decision": ("plan.json", change_placed_count),
    "room dropped": ("plan.json", drop_first("capacity")),
    "notice dropped": ("plan.json", drop_first("diagnostics")),
    "output dropped": ("plan.json", drop_first("outputs")),
    "table counted otherwise": ("plan.json", change_rack_count),
    "move invented": ("plan.json", add_move),
    "site dropped": ("sites.json", lambda sites: sites.pop(0)),
}


def test_rows_contradicting_the_plan_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    plan = Path("p.nfplan").read_bytes()
    for name, (member, change) in FORGERIES.items():
        Path("p.nfplan").write_bytes(plan)
        forge_plan(Path("p.nfplan"), member, change)
        assert Path("p.nfplan").read_bytes() != plan
        capsys.readouterr()
        assert run_command_line(["apply", "p.nfplan"]) == 1, name
        assert "Saved plan contents mismatch" in capsys.readouterr().err, name
        assert not Path("state/nexusform.nfstate").exists()
    Path("p.nfplan").write_bytes(plan)
    assert run_command_line(["apply", "p.nfplan"]) == 0


def tie_every_machine(plan: Any) -> None:
    """Let the VMs of a pool be expected on any machine of the site."""
    [ties] = plan["site_ties"]
    ties["machines"] = [f"rack{rack}-bm{number:02d}" for rack in (1, 2) for number in range(1, 9)]
    ties["classes"] = [0] * len(ties["machines"])


def drop_ties(plan: Any) -> None:
    plan["site_ties"] = []
    for table in plan["placement_tables"]:
        table["tied_set"] = -1


CONFIDENCE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "all machines tied": ("plan.json", tie_every_machine),
    "no ties": ("plan.json", drop_ties),
    "vm told as sure": ("placements.json", change_rows("vm", remove_certainty)),
    "all counted as certain": ("plan.json", count_as_certain),
}
RULE_FORGERIES = {
    "no samples": remove_samples,
    "no rules": remove_rules,
    "fewer samples of a rule": reduce_samples_of_rule,
}
RULE = """
resource "nexus_separation_rule" "apart" {
  scope       = "machine"
  enforcement = "warn"
  group {
    cluster_ids = [nexus_kubernetes_cluster.edge["east"].id]
  }
  group {
    cluster_ids = [nexus_kubernetes_cluster.edge["west"].id]
  }
}
"""


@pytest.mark.parametrize("rule", ["", RULE])
def test_certainty_is_compared(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Predictions are verified with it after the apply, also with the machines of ties."""
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    Path("rule.nf.hcl").write_text(rule)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    plan = Path("p.nfplan").read_bytes()
    changes = RULE_FORGERIES if rule else {}
    forgeries = {**CONFIDENCE, **{name: ("plan.json", changes[name]) for name in changes}}
    for name, (member, change) in forgeries.items():
        Path("p.nfplan").write_bytes(plan)
        forge_plan(Path("p.nfplan"), member, change)
        capsys.readouterr()
        assert run_command_line(["apply", "p.nfplan"]) == 1, name
        assert "Saved plan contents mismatch" in capsys.readouterr().err, name
    Path("p.nfplan").write_bytes(plan)
    assert run_command_line(["apply", "p.nfplan"]) == 0


CLUSTER = """
resource "nexus_kubernetes_cluster" "a" {
  site_id            = nexus_site.lab.id
  name               = "a"
  kubernetes_version = "1.30.1"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "p" {
    count       = 2
    vm_sku_name = "NC_G6_28_v1"
  }
  depends_on = [nexus_rack.r]
}
"""


def change_upgrade(plan: Any) -> None:
    plan["upgrades"][0]["pools"][0]["batches"] = 1
    plan["upgrades"][0]["after"] = "1.29.1"


@pytest.mark.parametrize(
    "change", [change_upgrade, drop_first("upgrades"), drop_first("placement_totals")]
)
def test_upgrades_contradicting_the_plan_are_rejected(
    change: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION + CLUSTER)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    Path("main.nf.hcl").write_text(CONFIGURATION + CLUSTER.replace("1.30.1", "1.31.1"))
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge_plan(Path("p.nfplan"), "plan.json", change)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan contents mismatch" in capsys.readouterr().err


def set_invalid_address(name: str) -> Callable[[Any], None]:
    """Return a change of an option to an invalid address, to prevent planning again."""
    return lambda plan: plan.update({name: ["nexus_rack.nowhere["]})


def change_file_digest(plan: Any) -> None:
    (file,) = [name for name in plan["basis"]["files"] if name.endswith("batch.yaml")]
    plan["basis"]["files"][file] = "0" * 64


@pytest.mark.parametrize("name", ["targets", "excludes", "replaces"])
def test_options_preventing_the_comparison_are_rejected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge_plan(Path("p.nfplan"), "plan.json", set_invalid_address(name))
    forge_plan(Path("p.nfplan"), "placements.json", change_rows("pod", drop_row))
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan contents mismatch" in capsys.readouterr().err
    assert not Path("state/nexusform.nfstate").exists()


def build_signed_plan(directory: Path) -> None:
    """Return a plan signed with the key of a job, and the key to verify it."""
    key = Ed25519PrivateKey.generate()
    (directory / "private.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (directory / "public.pem").write_bytes(public)
    assert (
        run_command_line(
            ["plan", "-out=p.nfplan", f"-sign={directory}/private.pem", "-confine=false"]
        )
        == 0
    )


READING = (
    CONFIGURATION
    + """
output "note" {
  value = file("${path.module}/note.txt")
}
"""
)


def test_plan_with_missing_file_needs_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(READING)
    Path("note.txt").write_text("as it was")
    build_signed_plan(tmp_path)
    Path("note.txt").unlink()
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    told = capsys.readouterr()
    assert "Saved plan not reproducible" in told.err
    assert "-verify=key:FILE" in told.err
    assert not Path("state/nexusform.nfstate").exists()
    assert run_command_line(["apply", f"-verify=key:{tmp_path}/public.pem", "p.nfplan"]) == 0
    assert "Unverified saved plan" in capsys.readouterr().out
    assert "as it was" in Path("state/nexusform.nfstate").read_text()


def test_plan_with_changed_file_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(READING)
    Path("note.txt").write_text("as it was")
    build_signed_plan(tmp_path)
    Path("note.txt").write_text("another")
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan not reproducible" in capsys.readouterr().err
    # Else a withdrawn plan that differs in this file only could be applied in place of another one.
    assert run_command_line(["apply", f"-verify=key:{tmp_path}/public.pem", "p.nfplan"]) == 1
    assert "Saved plan configuration mismatch" in capsys.readouterr().err
    assert not Path("state/nexusform.nfstate").exists()


def test_plan_of_another_version_needs_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    with monkeypatch.context() as earlier:
        earlier.setattr("nexusform.planning.conclusion.plan_assembly.__version__", "0.0.1")
        build_signed_plan(tmp_path)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "nexusform 0.0.1 created it." in capsys.readouterr().err
    assert not Path("state/nexusform.nfstate").exists()
    assert run_command_line(["apply", f"-verify=key:{tmp_path}/public.pem", "p.nfplan"]) == 0
    assert "nexusform 0.0.1 created it." in capsys.readouterr().out


def test_unchanged_plan_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge_plan(Path("p.nfplan"), "steps.json", lambda _steps: None)
    assert run_command_line(["apply", "p.nfplan"]) == 0


def test_new_instance_keys_when_planning_again_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = 'for_each = toset([file("note.txt"), "known"])'
    Path("main.nf.hcl").write_text(
        f'resource "nexus_site" "s" {{\n  {keys}\n  name = "s-${{each.key}}"\n}}\n'
    )
    Path("note.txt").write_text("as-it-was")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    Path("note.txt").write_text("canary-token")
    capsys.readouterr()
    assert run_command_line(["apply", "-verify=replan", "p.nfplan"]) == 1
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert 'nexus_site.s["as-it-was"], 1 object with new instance keys' in told
    assert "canary" not in told
