"""Tests of sites planned in one summary, approved under one digest, and applied in waves."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from nexusform.cli.main import run_command_line
from nexusform.plans.saved.plan_file import MULTI_SITE_PLAN, pack_archive
from tests.certificates import create_signing_key
from tests.git_repositories import run_git

Command = Callable[..., tuple[int, str, str]]
Fleet = Callable[..., None]


def join_lines(text: str) -> str:
    """Return the words of a text, without box characters."""
    return " ".join(text.replace("│", " ").split())


Golden = Callable[[str, str], None]


def test_sites_with_equal_changes_share_a_row(
    fleet: Fleet, command: Command, golden: Golden
) -> None:
    fleet(
        {
            "par1": {},
            "par2": {},
            "par3": {"workers": 3},
            "par4": {"wokers": 3},
            "par5": {"workers": 900},
        }
    )
    code, out, _ = command("plan")
    assert code == 1
    golden("plan.txt", out)


NEXT_STEPS = {
    "apply": "a merge applies this plan; it expires 2026-01-01 12:00 UTC",
    "wave:canary": "a merge applies wave canary of this plan; it expires 2026-01-01 12:00 UTC",
    "none": "a merge applies nothing",
}


@pytest.mark.parametrize("step", NEXT_STEPS)
def test_every_report_says_what_a_merge_does(fleet: Fleet, command: Command, step: str) -> None:
    fleet({})
    names = ("markdown:p.md", "html:p.html", "json:p.json")
    reports = [f"-report={name}" for name in names]
    code, out, err = command("plan", f"-next={step}", "-max-age=12h", "-site=lon1", *reports)
    assert code == 0, err
    page = re.sub("<[^>]*>", "", Path("p.html").read_text("utf-8"))
    for text in (out, Path("p.md").read_text("utf-8"), page):
        assert NEXT_STEPS[step] in " ".join(text.split())
    assert json.loads(Path("p.json").read_text("utf-8"))["after_merge"] == step


def test_merge_does_not_apply_a_blocked_or_unknown_wave(fleet: Fleet, command: Command) -> None:
    fleet({"par1": {"workers": 99}})
    _, out, _ = command("plan", "-next=apply")
    assert "a merge applies wave canary of this plan; it does not expire" in " ".join(out.split())
    _, out, _ = command("plan", "-next=wave:rest")
    assert "a merge applies nothing: wave rest cannot start" in " ".join(out.split())
    code, _, err = command("plan", "-next=wave:north")
    assert code != 0
    assert 'there is no wave "north". The waves are canary' in " ".join(err.split())


def test_reports_have_same_content(fleet: Fleet, command: Command, golden: Golden) -> None:
    fleet({"par1": {}, "par2": {"workers": 900}})
    command(
        "plan",
        "-report=markdown:p.md",
        "-report=sarif:p.sarif",
        "-report=json:p.json",
        "-report=html:p.html",
    )
    golden("plan.md", Path("p.md").read_text())
    golden("plan.json", json.dumps(json.loads(Path("p.json").read_text()), indent=1) + "\n")
    page = Path("p.html").read_text()
    assert page.count("<title>par2: rejected.") == 1
    assert "<title>lon1: planned. region uk</title>" in page
    results = json.loads(Path("p.sarif").read_text())["runs"][0]["results"]
    (result,) = [each for each in results if each["level"] == "error"]
    assert result["message"]["text"].startswith("par2: ")
    assert (
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "site/main.nf.hcl"
    )


FORMATS = ("text", "markdown", "json", "html", "sarif")


def break_definition() -> list[str]:
    Path("nexusform.sites.hcl").write_text("x =")
    return []


@pytest.mark.parametrize(
    ("stage", "title"),
    [
        (break_definition, "Missing expression"),
        (lambda: ["-site=nowhere"], "Unknown site"),
        (lambda: ["-sign=missing.key", "-confine=false"], "Plan signing failed"),
    ],
)
def test_failed_plan_keeps_older_files(
    fleet: Fleet, command: Command, stage: Callable[[], list[str]], title: str
) -> None:
    fleet()
    reports = [f"-report={name}:p.{name}" for name in FORMATS]
    assert command("plan", "-out=f.nfsites", *reports)[0] == 0
    older = {path.name: path.read_bytes() for path in [Path("f.nfsites"), *Path().glob("p.*")]}
    code, _, err = command("plan", "-out=f.nfsites", *reports, *stage())
    assert code == 1
    assert title in join_lines(err)
    for name, content in older.items():
        written = Path(name).read_bytes()
        assert written != content, name
        assert name == "f.nfsites" or title.encode() in written, name
    code, _, err = command("apply", "f.nfsites")
    assert code == 1
    assert "Planning failed" in join_lines(err)
    assert "Fix the errors and run `nexusform sites plan -out=f.nfsites` again." in join_lines(err)
    assert title in join_lines(err)


def test_file_of_another_kind_is_not_overwritten(fleet: Fleet, command: Command) -> None:
    fleet()
    Path("notes").write_text("hello")
    code, _, err = command("plan", "-out=notes")
    assert (code, Path("notes").read_text()) == (1, "hello")
    assert "is not a plan file" in join_lines(err)


def test_plan_is_applied_once_wave_by_wave(fleet: Fleet, command: Command, golden: Golden) -> None:
    fleet()
    code, _, _ = command("plan", "-out=f.nfsites", "-detailed-exitcode")
    assert code == 2
    code, out, _ = command("apply", "f.nfsites")
    assert code == 0
    golden("apply.txt", out)
    assert sorted(each.name for each in Path("states").iterdir()) == [
        "lon1.nfstate", "par1.nfstate", "par2.nfstate",
    ]  # fmt: skip
    code, _, err = command("apply", "f.nfsites")
    assert code == 1
    assert "applied already" in join_lines(err)
    code, out, _ = command("plan", "-detailed-exitcode")
    assert (code, out.splitlines()[1]) == (0, "3 unchanged.")
    assert command("status")[0] == 0


def test_plan_of_one_site_can_be_shown(
    fleet: Fleet, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    import gzip
    import zipfile

    fleet()
    command("plan", "-out=f.nfsites")
    with zipfile.ZipFile("f.nfsites") as archive:
        Path("par1.nfplan").write_bytes(gzip.decompress(archive.read("plans/par1.nfplan.gz")))
        assert (
            sum(part.file_size for part in archive.infolist() if part.filename != "sites.json")
            < 4_500 * 3
        )
    assert run_command_line(["show", "par1.nfplan"]) == 0
    assert "nexus_kubernetes_cluster.edge" in capsys.readouterr().out


def test_plan_of_development_version_is_rejected(command: Command, tmp_path: Path) -> None:
    first = b'{"format": "nexusform-sites-plan", "version": 1}'
    path = tmp_path / "f.nfsites"
    path.write_bytes(pack_archive({MULTI_SITE_PLAN: first}))
    code, _, err = command("apply", str(path))
    assert code == 1
    assert "was written by a development version of nexusform; run plan again." in join_lines(err)


def test_wrong_command_for_fleet_plan_names_sites_command(
    fleet: Fleet, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet()
    assert command("plan", "-out=f.nfsites")[0] == 0
    create_signing_key("team.key")
    asked = (
        ["sign", "-key=team.key", "f.nfsites", "-confine=false"],
        ["show", "f.nfsites"],
        ["show", "-json", "f.nfsites"],
        ["apply", "f.nfsites"],
        ["explain", "-plan=f.nfsites", "nexus_site.this"],
        ["simulate", "capacity", "-plan=f.nfsites"],
        ["advise", "-plan=f.nfsites"],
        ["graph", "-plan=f.nfsites"],
    )
    for words in asked:
        capsys.readouterr()
        assert run_command_line(words) == 1, words
        captured = capsys.readouterr()
        said = join_lines(captured.err + captured.out)
        assert "is a plan of many sites" in said, (words, said)
        assert "nexusform sites sign" in said, (words, said)
    # The printed command extracts a plan that other commands read.
    printed = re.search("unzip -p F.nfsites ([^ ]*) . gunzip > SITE.nfplan", said)
    assert printed is not None, said
    with ZipFile("f.nfsites") as archive:
        Path("one.nfplan").write_bytes(
            gzip.decompress(archive.read(printed[1].replace("SITE", "lon1")))
        )
    assert run_command_line(["show", "one.nfplan"]) == 0


def test_changed_site_plan_stops_wave_before_first_write(fleet: Fleet, command: Command) -> None:
    fleet()
    command("plan", "-out=f.nfsites")
    fleet({"par1": {}, "par2": {"workers": 1}})
    code, out, err = command("apply", "f.nfsites")
    assert code == 1
    assert "changed after the plan" in join_lines(out)
    assert "par2: The new plan differs from the approved one" in " ".join(
        err.replace("│", "").split()
    )
    assert not Path("states/par1.nfstate").exists()
    assert not Path("states/par1.nfstate.lock.info").exists()
    assert Path("states/lon1.nfstate").exists()


def test_lock_of_another_process_stops_wave_and_releases_other_locks(
    fleet: Fleet, command: Command
) -> None:
    fleet()
    command("plan", "-out=f.nfsites")
    Path("states").mkdir(exist_ok=True)
    lock = Path("states/par2.nfstate.lock.info")
    lock.write_text(
        json.dumps({"ID": "1", "Operation": "apply", "Who": "eve@elsewhere", "Info": ""})
    )
    code, _, err = command("apply", "f.nfsites")
    assert code == 1
    assert "eve@elsewhere holds it. No changes were made in this wave." in join_lines(err)
    assert not Path("states/par1.nfstate").exists()
    assert not Path("states/par1.nfstate.lock.info").exists()
    lock.unlink()
    code, _, err = command("apply", "f.nfsites")
    assert (code, "-resume" in err) == (1, True)
    assert command("apply", "f.nfsites", "-resume")[0] == 0
    assert command("status")[0] == 0


def test_wave_with_approval_waits_until_it_is_named(fleet: Fleet, command: Command) -> None:
    fleet()
    path = Path("nexusform.sites.hcl")
    path.write_text(
        path.read_text().replace('wave "rest" {}', 'wave "rest" {\n    gate = "approve"\n  }')
    )
    command("plan", "-out=f.nfsites")
    code, _, err = command("apply", "f.nfsites", "-input=false")
    assert (code, "waits for approval" in err) == (1, True)
    assert not Path("states/par1.nfstate").exists()
    assert command("apply", "f.nfsites", "-wave=rest")[0] == 0
    assert Path("states/par1.nfstate").exists()


def test_applied_wave_names_remaining_wave(fleet: Fleet, command: Command) -> None:
    fleet()
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites", "-wave=canary")[0] == 0
    code, _, err = command("apply", "f.nfsites", "-wave=canary")
    assert code == 1
    assert "Continue with `nexusform sites apply -wave=rest f.nfsites`" in join_lines(err)
    # The new plan has no changes for the canary, so the other wave may be named.
    command("plan", "-out=g.nfsites")
    assert command("apply", "g.nfsites", "-wave=rest")[0] == 0
    code, _, err = command("apply", "g.nfsites")
    assert (code, "applied already" in join_lines(err)) == (1, True)


def test_invalid_input_is_reported_with_its_row_and_variable(
    fleet: Fleet, command: Command
) -> None:
    fleet({"par1": {}, "par2": {"racks": "many"}})
    Path("sites.json").write_text('{\n  "par1": {},\n  "par2": {"racks": "many"}\n}\n')
    code, out, _ = command("plan", "-out=f.nfsites")
    assert code == 1
    assert "var.racks declared at site/main.nf.hcl:11,1-17" in join_lines(out)
    assert '"par2" is set in sites.json, line 3.' in join_lines(out)
    path = Path("nexusform.sites.hcl")
    path.write_text(path.read_text().replace('wave "rest" {}', 'wave "rest" { soak = 7 }'))
    code, _, err = command("apply", "f.nfsites")
    assert (code, "soak = 7" in err) == (1, True)


def test_fleet_plan_is_signed_after_approval(fleet: Fleet, command: Command) -> None:
    fleet()
    for name in ("team", "mallory"):
        create_signing_key(f"{name}.key", f"{name}.pub")
    assert command("plan", "-out=f.nfsites", "-sign=mallory.key", "-confine=false")[0] == 0
    plan = Path("f.nfsites").read_bytes()
    code, _, err = command("apply", "-verify=key:team.pub", "f.nfsites")
    assert (code, "It was signed with the key" in join_lines(err)) == (1, True)
    assert run_command_line(["sites", "sign", "-key=team.key", "f.nfsites", "-confine=false"]) == 0
    signed = Path("f.nfsites").read_bytes()
    Path("f.nfsites").write_bytes(plan.replace(b"par1", b"par9"))
    assert run_command_line(["sites", "sign", "-key=team.key", "f.nfsites", "-confine=false"]) == 1
    Path("f.nfsites").write_bytes(signed)
    assert command("apply", "-verify=key:team.pub", "f.nfsites")[0] == 0


def test_withdrawn_fleet_plan_is_rejected(fleet: Fleet, command: Command) -> None:
    fleet()
    create_signing_key("team.key", "team.pub")
    sign = ("-sign=team.key", "-confine=false")
    assert command("plan", "-out=f.nfsites", *sign)[0] == 0
    assert run_command_line(["sites", "sign", "-withdraw", "-key=team.key", "f.nfsites"]) == 0
    verify = "-verify=key:team.pub"
    revocations = "-revocations=f.nfsites.revocations.json"
    code, _, err = command("apply", verify, revocations, "f.nfsites")
    assert (code, "withdraws this plan." in join_lines(err)) == (1, True), err
    code, _, err = command("apply", revocations, "f.nfsites")
    assert (code, "-revocations needs -verify=key:FILE" in join_lines(err)) == (1, True)
    assert not Path("states").exists()


@pytest.mark.parametrize("flag", ["", "-max-age=1h"])
def test_old_fleet_plan_is_rejected(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """In automation, a plan is valid for a week. Apply can shorten that."""
    fleet()
    monkeypatch.setenv("NF_IN_AUTOMATION", "1")
    assert command("plan", "-out=f.nfsites")[0] == 0
    age = 2 * 3600 if flag else 8 * 24 * 3600
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + age))
    code, _, err = command("apply", *filter(None, [flag]), "f.nfsites")
    limit = "1h" if flag else "168h"
    assert (code, f"Its maximum age is {limit}." in join_lines(err)) == (1, True), err
    assert not Path("states").exists()


def test_fleet_plan_of_another_directory_is_rejected(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(".", "init", "-q")
    for name in ("lab", "prod"):
        Path(name).mkdir()
    monkeypatch.chdir("lab")
    fleet()
    assert command("plan", "-out=f.nfsites")[0] == 0
    shutil.copytree("site", "../prod/site")
    for name in ("sites.json", "nexusform.sites.hcl", "f.nfsites"):
        shutil.copy(name, "../prod")
    monkeypatch.chdir("../prod")
    code, _, err = command("apply", "f.nfsites")
    assert code == 1
    assert 'The plan is for the directory "lab" (here it is "prod").' in join_lines(err)
    assert not Path("states").exists()


@pytest.mark.parametrize("sign_while_planning", [True, False])
def test_signed_fleet_plan_has_a_statement(
    fleet: Fleet, command: Command, sign_while_planning: bool
) -> None:
    fleet()
    create_signing_key("t.key", "t.pub")
    words = ["-sign=t.key", "-confine=false"] if sign_while_planning else []
    assert command("plan", "-out=f.nfsites", *words)[0] == 0
    if not sign_while_planning:
        assert run_command_line(["sites", "sign", "-key=t.key", "f.nfsites", "-confine=false"]) == 0
    statement = Path("f.nfsites.intoto.jsonl")
    envelope = json.loads(statement.read_text())
    payload = json.loads(base64.b64decode(envelope["payload"]))
    assert (
        payload["subject"][0]["digest"]["sha256"]
        == hashlib.sha256(Path("f.nfsites").read_bytes()).hexdigest()
    )
    assert len(payload["subject"]) > 2
    assert payload["predicate"]["invocation"]["environment"]["confined"] is False
    assert any(part["uri"].startswith("file:") for part in payload["predicate"]["materials"])
    statement.write_text(json.dumps({**envelope, "signatures": []}))
    code, _, err = command("apply", "-verify=key:t.pub", "f.nfsites")
    assert (code, 'f.nfsites.intoto.jsonl" is rejected' in join_lines(err)) == (1, True)
    statement.write_text(json.dumps(envelope))
    assert command("apply", "-verify=key:t.pub", "f.nfsites")[0] == 0


PACKING = """
variable "name" {
  type = string
}

resource "nexus_site" "this" {
  name = var.name

  scheduler {
    tie_break_seed = 8
  }
}

resource "nexus_rack" "rack" {
  count         = 4
  name          = "r${count.index + 1}"
  site_id       = nexus_site.this.id
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "edge" {
  name    = "edge"
  site_id = nexus_site.this.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "np" {
    count       = 4
    vm_sku_name = "NC_P4_28_v1"
    mode        = "System"
  }

  depends_on = [nexus_rack.rack]
}

provider "simulated" {
  fault {
    address   = "*.edge"
    operation = "create"
    answer = {
      "nodes[\\"edge-control-plane-0\\"].machine" = "r1-bm01"
      "nodes[\\"edge-np-0\\"].machine"            = "r1-bm01"
      "nodes[\\"edge-np-1\\"].machine"            = "r1-bm01"
      "nodes[\\"edge-np-2\\"].machine"            = "r1-bm01"
      "nodes[\\"edge-np-3\\"].machine"            = "r2-bm01"
    }
  }
}
"""


def test_wrong_certain_prediction_stops_later_waves(fleet: Fleet, command: Command) -> None:
    fleet(site=PACKING)
    assert command("plan", "-out=f.nfsites")[0] == 0
    code, _, err = command("apply", "f.nfsites")
    assert code == 1
    assert "certain predictions were wrong. lon1: " in join_lines(err)
    assert "predicted with certainty on rack r4" in join_lines(err)
    assert Path("states/lon1.nfstate").exists()
    assert not Path("states/par1.nfstate").exists()
