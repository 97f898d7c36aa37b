"""A plan that was changed after it was saved, its digests with it, is refused before anything is done."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

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


def forge(path: Path, member: str, change: Callable[[Any], None]) -> None:
    """Change one part of a plan file, and the digest that the file has of it."""
    members = plan_file.unpack_archive(path.read_bytes())
    assert members is not None
    manifest = json.loads(members["nexusform.json"])
    sharing = DocumentExpander(manifest["mark"], json.loads(members["values.json"]))
    content = sharing.expand(json.loads(members[member]))
    change(content)
    members[member] = json.dumps(content, default=lambda _unknown: f"{manifest['mark']}?").encode()
    manifest["members"][member] = compute_digest(members[member])
    path.write_bytes(plan_file.pack_archive({**members, "nexusform.json": json.dumps(manifest).encode()}))


def more_machines(steps: Any) -> None:
    rack = next(step for step in steps if (step.get("planned") or {}).get("name") == "r1")
    rack["planned"]["machine_count"] = 200


def a_change_that_is_not_there(steps: Any) -> None:
    steps[1]["change"] = 77


def no_change(steps: Any) -> None:
    steps[1]["change"] = -1


def a_circle(steps: Any) -> None:
    steps[0]["waits_for"] = [steps[-1]["id"]]
    steps[-1]["waits_for"] = [steps[0]["id"]]


def a_step_less(steps: Any) -> None:
    del steps[-1]


@pytest.mark.parametrize("change", [more_machines, a_change_that_is_not_there, no_change, a_circle, a_step_less])
def test_a_forged_plan_is_refused_and_nothing_is_written(
    change: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge(Path("p.nfplan"), "steps.json", change)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    told = capsys.readouterr().err
    assert told.count("Error:") == 1
    assert "Saved plan contents mismatch" in told
    assert not Path("state/nexusform.nfstate").exists()


EXAMPLE = Path(__file__).parents[2] / "examples" / "end-to-end"


def rows(kind: str, change: Callable[[list[Any], list[int]], None]) -> Callable[[Any], None]:
    """A change of all placement rows that is told where the rows of a kind stand."""

    def of_kind(placements: Any) -> None:
        change(placements, [at for at, row in enumerate(placements) if row["kind"] == kind])

    return of_kind


def drop(placements: list[Any], at: list[int]) -> None:
    del placements[at[0]]


def swap(placements: list[Any], at: list[int]) -> None:
    first, last = at[0], at[-1]
    names = placements[first]["object"], placements[last]["object"]
    placements[last]["object"], placements[first]["object"] = names


def told_as_sure(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["certainty"] = None


def told_otherwise(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["reason"] = "because"


def moved_elsewhere(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["target"]["PodLocation"]["machine"] = "rack9-bm01"


def moved_elsewhere_vm(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["target"] = placements[at[-1]]["target"]


def placed_otherwise(plan: Any) -> None:
    plan["placement_tables"][0]["placed"] += 1


def counted_as_certain(plan: Any) -> None:
    table = plan["placement_tables"][0]
    table["racks_certain"] = table["machines_certain"] = table["placed"]


def no_samples(plan: Any) -> None:
    plan["samples"] = 0


def no_rules(plan: Any) -> None:
    plan["separation_verdicts"] = []


def fewer_samples_of_a_rule(plan: Any) -> None:
    plan["separation_verdicts"][0]["sample_count"] -= 1


def a_rule(plan: Any) -> None:
    rule = {"address": "nexus_separation_rule.a", "scope": "rack", "enforcement": "deny", "satisfied": "always"}
    plan["separation_verdicts"] = [rule]


def of_another_snapshot(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["target"]["Binding"]["policy_snapshot"] = 7


def stood_before(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["source"] = placements[at[0]]["target"]


def named_otherwise(placements: list[Any], at: list[int]) -> None:
    placements[at[0]]["object"] = "mars"


def dropped(name: str) -> Callable[[Any], None]:
    """A change that drops the first of a list of the plan, such as a notice or a site's room."""
    return lambda plan: plan[name].pop(0)


def counted_otherwise(plan: Any) -> None:
    plan["placement_tables"][0]["actual_racks"] += 1


def a_move(plan: Any) -> None:
    plan["address_moves"] = [["fleet_member_cluster.a", "fleet_member_cluster.b"]]


FORGERIES: dict[str, tuple[str, Callable[[Any], None]]] = {
    **{f"{kind} dropped": ("placements.json", rows(kind, drop)) for kind in ("vm", "binding", "pod")},
    **{f"{kind} swapped": ("placements.json", rows(kind, swap)) for kind in ("vm", "binding", "pod")},
    "binding of another snapshot": ("placements.json", rows("binding", of_another_snapshot)),
    "binding that stood": ("placements.json", rows("binding", stood_before)),
    "binding of another cluster": ("placements.json", rows("binding", named_otherwise)),
    "pod of another name": ("placements.json", rows("pod", named_otherwise)),
    "pod elsewhere": ("placements.json", rows("pod", moved_elsewhere)),
    "vm elsewhere": ("placements.json", rows("vm", moved_elsewhere_vm)),
    "rule invented": ("plan.json", a_rule),
    "vm count without a decision": ("plan.json", placed_otherwise),
    "room dropped": ("plan.json", dropped("capacity")),
    "notice dropped": ("plan.json", dropped("diagnostics")),
    "output dropped": ("plan.json", dropped("outputs")),
    "table counted otherwise": ("plan.json", counted_otherwise),
    "move invented": ("plan.json", a_move),
    "site dropped": ("sites.json", lambda sites: sites.pop(0)),
}


def test_rows_that_do_not_follow_from_the_plan_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    plan = Path("p.nfplan").read_bytes()
    for name, (member, change) in FORGERIES.items():
        Path("p.nfplan").write_bytes(plan)
        forge(Path("p.nfplan"), member, change)
        assert Path("p.nfplan").read_bytes() != plan
        capsys.readouterr()
        assert run_command_line(["apply", "p.nfplan"]) == 1, name
        assert "Saved plan contents mismatch" in capsys.readouterr().err, name
        assert not Path("state/nexusform.nfstate").exists()
    Path("p.nfplan").write_bytes(plan)
    assert run_command_line(["apply", "p.nfplan"]) == 0


CONFIDENCE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "vm told as sure": ("placements.json", rows("vm", told_as_sure)),
    "all counted as certain": ("plan.json", counted_as_certain),
}
RULE_FORGERIES = {"no samples": no_samples, "no rules": no_rules, "fewer samples of a rule": fewer_samples_of_a_rule}
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


def test_figures_of_confidence_are_checked_if_a_guard_rail_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    assert run_command_line(["plan", "-out=p.nfplan", "-fail-on=certainty:0"]) == 0
    forge(Path("p.nfplan"), *CONFIDENCE["all counted as certain"])
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan contents mismatch" in capsys.readouterr().err


def test_figures_of_confidence_decide_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resources: list[Any] = []
    for number, forgery in enumerate((None, *CONFIDENCE.values())):
        shutil.copytree(EXAMPLE, tmp_path / str(number))
        monkeypatch.chdir(tmp_path / str(number))
        assert run_command_line(["plan", "-out=p.nfplan"]) == 0
        if forgery is not None:
            forge(Path("p.nfplan"), *forgery)
        assert run_command_line(["apply", "p.nfplan"]) == 0
        state = json.loads(Path("state/nexusform.nfstate").read_text())
        resources.append(
            [{**row, "instances": [one["attributes"] for one in row["instances"]]} for row in state["resources"]]
        )
    assert all(row == resources[0] for row in resources)


def test_samples_that_decide_a_separation_rule_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    Path("rule.nf.hcl").write_text(RULE)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    plan = Path("p.nfplan").read_bytes()
    by_rule = {name: ("plan.json", change) for name, change in RULE_FORGERIES.items()}
    for name, (member, change) in {**CONFIDENCE, **by_rule}.items():
        Path("p.nfplan").write_bytes(plan)
        forge(Path("p.nfplan"), member, change)
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


def upgraded_otherwise(plan: Any) -> None:
    plan["upgrades"][0]["pools"][0]["batches"] = 1
    plan["upgrades"][0]["after"] = "1.29.1"


@pytest.mark.parametrize("change", [upgraded_otherwise, dropped("upgrades"), dropped("placement_totals")])
def test_what_is_told_of_an_upgrade_must_follow_from_the_plan(
    change: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION + CLUSTER)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    Path("main.nf.hcl").write_text(CONFIGURATION + CLUSTER.replace("1.30.1", "1.31.1"))
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge(Path("p.nfplan"), "plan.json", change)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan contents mismatch" in capsys.readouterr().err


def asked_otherwise(name: str) -> Callable[[Any], None]:
    """Words that no plan can be made of again."""
    return lambda plan: plan.update({name: ["nexus_rack.nowhere["]})


def another_file(plan: Any) -> None:
    (file,) = [name for name in plan["basis"]["files"] if name.endswith("batch.yaml")]
    plan["basis"]["files"][file] = "0" * 64


@pytest.mark.parametrize("name", ["targets", "excludes", "replaces"])
def test_words_that_keep_a_plan_from_being_compared_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.chdir(tmp_path / "example")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge(Path("p.nfplan"), "plan.json", asked_otherwise(name))
    forge(Path("p.nfplan"), "placements.json", rows("pod", drop))
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "Saved plan contents mismatch" in capsys.readouterr().err
    assert not Path("state/nexusform.nfstate").exists()


def signed_by_key(directory: Path) -> None:
    """A plan that the key of a job signed, and the key to verify it with."""
    key = Ed25519PrivateKey.generate()
    (directory / "private.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (directory / "public.pem").write_bytes(public)
    assert run_command_line(["plan", "-out=p.nfplan", f"-sign={directory}/private.pem", "-confine=false"]) == 0


READING = (
    CONFIGURATION
    + """
output "note" {
  value = file("${path.module}/note.txt")
}
"""
)


@pytest.mark.parametrize("then", ["another", None])
def test_a_plan_of_a_file_that_is_another_or_gone_is_applied_only_where_it_was_signed(
    then: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(READING)
    Path("note.txt").write_text("as it was")
    signed_by_key(tmp_path)
    if then is None:
        Path("note.txt").unlink()
    else:
        Path("note.txt").write_text(then)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    told = capsys.readouterr()
    assert "Saved plan not reproducible" in told.err
    assert "-verify=key:FILE" in told.err
    assert not Path("state/nexusform.nfstate").exists()
    assert run_command_line(["apply", f"-verify=key:{tmp_path}/public.pem", "p.nfplan"]) == 0
    assert "Unverified saved plan" in capsys.readouterr().out
    assert "as it was" in Path("state/nexusform.nfstate").read_text()


def test_a_plan_of_another_version_is_applied_only_where_it_was_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    with monkeypatch.context() as earlier:
        earlier.setattr("nexusform.planning.conclusion.plan_assembly.__version__", "0.0.1")
        signed_by_key(tmp_path)
    capsys.readouterr()
    assert run_command_line(["apply", "p.nfplan"]) == 1
    assert "nexusform 0.0.1 created it." in capsys.readouterr().err
    assert not Path("state/nexusform.nfstate").exists()
    assert run_command_line(["apply", f"-verify=key:{tmp_path}/public.pem", "p.nfplan"]) == 0
    assert "nexusform 0.0.1 created it." in capsys.readouterr().out


def test_a_plan_as_it_was_saved_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    forge(Path("p.nfplan"), "steps.json", lambda _steps: None)
    assert run_command_line(["apply", "p.nfplan"]) == 0


def test_instance_keys_that_are_new_when_planning_again_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = 'for_each = toset([file("note.txt"), "known"])'
    Path("main.nf.hcl").write_text(f'resource "nexus_site" "s" {{\n  {keys}\n  name = "s-${{each.key}}"\n}}\n')
    Path("note.txt").write_text("as-it-was")
    assert run_command_line(["plan", "-out=p.nfplan"]) == 0
    Path("note.txt").write_text("canary-token")
    capsys.readouterr()
    assert run_command_line(["apply", "-verify=replan", "p.nfplan"]) == 1
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert 'nexus_site.s["as-it-was"], 1 object with new instance keys' in told
    assert "canary" not in told
