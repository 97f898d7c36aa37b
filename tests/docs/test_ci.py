"""Tests of docs/ci: its scripts run, its policies decide as documented, its links work."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.cli.arguments import Flag
from nexusform.cli.commands import Command
from nexusform.cli.main import ROOT
from nexusform.cli.report_flag import FORMATS
from tests import commands
from tests.certificates import create_signing_key
from tests.docs.documented_domains import of_documented_domains
from tests.docs.recipe_python import write_python
from tests.rendering.real_plans import (
    EXAMPLES,
    NOW,
    SMALL,
    change_directory,
    nexusform,
    plan_directory,
    plan_repair,
)

CI = Path(__file__).parents[2] / "docs" / "ci"
ACTION = yaml.safe_load((CI / "github" / "action.yml").read_text(encoding="utf-8"))
GITLAB = list(yaml.safe_load_all((CI / "gitlab.yml").read_text(encoding="utf-8")))[1]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Create a repository with a root module in lab/, and nexusform in the PATH."""
    write_python(tmp_path / "bin")
    program = tmp_path / "bin" / "nexusform"
    program.write_text(f"#!/bin/sh\n{commands.build_shell_line()}\n")
    program.chmod(0o755)
    shutil.copytree(
        EXAMPLES / "nexus-document", tmp_path / "lab", ignore=shutil.ignore_patterns("state")
    )
    (tmp_path / "out").mkdir()
    return tmp_path


def run_bash(workspace: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{workspace / 'bin'}:{os.environ['PATH']}",
        "SOURCE_DATE_EPOCH": NOW,
        "DIRECTORY": "lab",
        "ARGUMENTS": "-var step=half-full",
        "FOLDER": str(workspace / "out"),
        "GITHUB_OUTPUT": str(workspace / "outputs"),
        "GITHUB_STEP_SUMMARY": str(workspace / "summary"),
        "RUNNER_TEMP": str(workspace / "temp"),
        "NF_CONFINE": str(workspace),
        **variables,
    }
    words = ["bash", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(
        words, cwd=workspace, env=environment, capture_output=True, text=True, check=False
    )


def find_step_script(name: str) -> str:
    (found,) = [s["run"] for s in ACTION["runs"]["steps"] if s.get("id") == name]
    return str(found)


def read_outputs(workspace: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (workspace / "outputs").read_text().split())


# --- GitHub ------------------------------------------------------------------------------------


def test_action_plans(workspace: Path) -> None:
    done = run_bash(workspace, find_step_script("plan"))
    assert done.returncode == 0, done.stderr
    assert read_outputs(workspace) == {"exitcode": "2", "moved": "0", "sarif": "true"}
    names = {file.name for file in (workspace / "out").iterdir()}
    assert names >= {
        "reviewed.plan",
        "plan.md",
        "plan.html",
        "racks.svg",
        "plan.json",
        "plan.sarif",
        "plan.xml",
    }
    assert (
        (workspace / "summary")
        .read_text()
        .startswith("### nexusform: 13 to add, 178 VMs to place, nothing moves")
    )
    document = json.loads((workspace / "out" / "plan.sarif").read_text())
    uris = re.findall(r'"uri": "([^"]*)"', json.dumps(document["runs"][0]["results"]))
    assert uris
    assert all((workspace / uri).is_file() for uri in uris)


def test_action_applies_the_saved_plan(workspace: Path) -> None:
    assert run_bash(workspace, find_step_script("plan")).returncode == 0
    apply = find_step_script("apply")
    done = run_bash(workspace, apply)
    assert done.returncode == 0, done.stderr
    assert "Apply complete! Resources: 13 added, 0 changed, 0 destroyed." in done.stdout
    again = run_bash(workspace, apply)
    assert again.returncode == 1
    assert "Saved plan already applied" in again.stdout


SLOW_RACKS = """
provider "simulated" {
  fault {
    address   = "nexus_rack.rack[*]"
    operation = "create"
    delay     = "2s"
  }
}
"""


def test_action_resumes_a_killed_apply(workspace: Path) -> None:
    (workspace / "lab" / "provider.nf.hcl").write_text(SLOW_RACKS)
    assert run_bash(workspace, find_step_script("plan")).returncode == 0
    apply = find_step_script("apply")
    resume = find_step_script("resume")
    variables = {"DIRECTORY": "lab", "FOLDER": str(workspace / "out"), "NF_CONFINE": str(workspace)}
    environment = {**os.environ, "PATH": f"{workspace / 'bin'}:{os.environ['PATH']}", **variables}
    with subprocess.Popen(
        ["bash", "-c", apply],
        cwd=workspace,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as job:
        assert job.stdout is not None
        assert any(line.startswith("nexus_rack.rack[") for line in job.stdout)
        os.killpg(job.pid, signal.SIGKILL)
    repeated = run_bash(workspace, apply)
    assert (repeated.returncode, "nexusform apply -resume" in repeated.stdout) == (1, True)
    resumed = run_bash(workspace, resume)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "Apply complete!" in resumed.stdout
    again = run_bash(workspace, resume)
    assert (again.returncode, "Nothing to resume" in again.stderr) == (1, True)


def test_action_applies_only_the_signed_plan(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = workspace / "plan.key"
    public = workspace / "plan.pub"
    create_signing_key(key, public)
    # As with RUNNER_TEMP, outside of the work tree.
    outside = {"FOLDER": str(tmp_path_factory.mktemp("runner"))}
    sign = find_step_script("sign")
    apply = find_step_script("apply")
    assert run_bash(workspace, find_step_script("plan"), **outside).returncode == 0
    verify = {**outside, "VERIFY_KEY": public.read_text()}
    refused = run_bash(workspace, apply, **verify)
    assert (refused.returncode, "It is not signed" in refused.stdout) == (1, True)
    assert run_bash(workspace, sign, SIGN_KEY="", **outside).returncode == 1
    done = run_bash(workspace, sign, SIGN_KEY=key.read_text(), **outside)
    assert done.returncode == 0, done.stderr
    done = run_bash(workspace, apply, **verify)
    assert done.returncode == 0, done.stdout


def test_action_comments_on_errors(workspace: Path) -> None:
    (workspace / "lab" / "broken.nf.hcl").write_text("resource {\n")
    assert run_bash(workspace, find_step_script("plan")).returncode == 0
    assert read_outputs(workspace)["exitcode"] == "1"
    comment = (workspace / "out" / "plan.md").read_text()
    assert comment.startswith("### nexusform: planning failed")
    assert "broken.nf.hcl" in comment


def test_comment_is_answered_from_the_reviewed_plan(workspace: Path) -> None:
    bot = yaml.safe_load((CI / "github" / "explain.yml").read_text(encoding="utf-8"))
    (script,) = [s["run"] for s in bot["jobs"]["explain"]["steps"] if s.get("id") == "answer"]
    assert "${{" not in script
    (workspace / "plan").mkdir()
    assert (
        run_bash(workspace, find_step_script("plan"), FOLDER=str(workspace / "plan")).returncode
        == 0
    )

    def answer_comment(comment: str) -> str:
        done = run_bash(workspace, script, COMMENT=comment)
        assert done.returncode == 0, done.stderr
        return (workspace / "answer.md").read_text()

    said = answer_comment("nexusform explain nexus_kubernetes_cluster.a cluster-a-pool1-5\nthanks")
    assert "cluster-a-pool1-5" in said
    assert "rack" in said
    assert "has no object" in answer_comment(
        "nexusform explain nexus_kubernetes_cluster.a x;touch${IFS}owned"
    )
    assert 'at nexus_rack.rack["a 1"].' in answer_comment(
        'nexusform explain nexus_rack.rack["a 1"]'
    )
    assert 'at nexus_rack.rack["1"].' in answer_comment('nexusform explain `nexus_rack.rack["1"]`')
    assert "Write `nexusform explain" in answer_comment(
        "nexusform explain -report=html:owned nexus_site.lab"
    )
    assert "Write `nexusform explain" in answer_comment("nexusform explain 'x' '-state=owned'")
    assert "is not an address" in answer_comment("nexusform explain $(touch\towned)")
    assert not list(workspace.rglob("owned"))


def test_review_is_created_for_a_diff(workspace: Path) -> None:
    (workspace / "out" / "pull-request.diff").write_text(
        "--- a/lab/clusters.nf.hcl\n+++ b/lab/clusters.nf.hcl\n@@ -1,500 +1,500 @@\n" + " x\n" * 500
    )
    assert run_bash(workspace, find_step_script("plan")).returncode == 0
    review = json.loads((workspace / "out" / "review.json").read_text())
    assert review["event"] == "COMMENT"
    assert {comment["path"] for comment in review["comments"]} <= {"lab/clusters.nf.hcl"}


def test_action_distinguishes_root_modules(workspace: Path) -> None:
    assert (
        run_bash(workspace, find_step_script("names"), DIRECTORY="sites/lon 1; rm -rf").returncode
        == 0
    )
    assert read_outputs(workspace)["slug"] == "sites-lon-1--rm--rf"


def test_scripts_contain_no_expressions() -> None:
    for one in ACTION["runs"]["steps"]:
        assert "${{" not in one.get("run", "")
        assert "${{" not in one.get("with", {}).get("script", "")


def test_recipes_are_confined_and_write_no_data_to_work_tree() -> None:
    steps = [s for s in ACTION["runs"]["steps"] if re.search(r"nexusform -chdir", s.get("run", ""))]
    assert len(steps) == 4
    for one in steps:
        assert one["env"]["NF_CONFINE"] == "${{ github.workspace }}"
        assert one["env"]["NF_DATA_DIR"] == "${{ steps.names.outputs.data }}"
    assert 'data="${RUNNER_TEMP' in find_step_script("names")
    variables = GITLAB[".nexusform"]["variables"]
    assert variables["NF_CONFINE"] == "$CI_PROJECT_DIR"
    assert variables["NF_DATA_DIR"].startswith("$CI_PROJECT_DIR.tmp/")
    assert "NF_CONFINE" in (CI / "README.md").read_text(encoding="utf-8")


# Modules imported or run by the recipes' scripts.
SHADOWS = (
    "secrets",
    "json",
    "posixpath",
    "os",
    "urllib",
    "pip",
    "shlex",
    "subprocess",
    "io",
    "zipfile",
)


def test_recipes_run_no_code_of_the_work_tree(workspace: Path) -> None:
    """Python imports modules from the current directory in three cases.

    They are a script on standard input, after -c and after -m.
    """
    for name in SHADOWS:
        (workspace / name).mkdir()
        for file in ("__init__.py", "__main__.py"):
            (workspace / name / file).write_text(
                f"open({str(workspace / 'owned')!r}, 'a').write({name!r})\n"
            )
    program = workspace / "bin" / "nexusform"
    program.write_text(program.read_text().replace(" -m", " -P -m"))
    (workspace / "out" / "reviewed.plan").write_text("")
    scripts = {
        one["run"]: one.get("working-directory") for one in ACTION["runs"]["steps"] if "run" in one
    }
    bot = yaml.safe_load((CI / "github" / "explain.yml").read_text(encoding="utf-8"))
    answering = [one for one in bot["jobs"]["explain"]["steps"] if "run" in one]
    scripts |= {one["run"]: one.get("working-directory") for one in answering}
    gitlab = [GITLAB[".nexusform"]["before_script"]]
    gitlab += [GITLAB[job]["script"] for job in ("nexusform-plan", "nexusform-apply")]
    scripts |= dict.fromkeys("\n".join(script) for script in gitlab)
    with_python = {script: place for script, place in scripts.items() if "python3" in script}
    assert len(with_python) == 8
    offline = {
        "PIP_INDEX_URL": "http://127.0.0.1:9",
        "PIP_RETRIES": "0",
        "COMMENT": "nexusform explain x",
    }
    offline |= {"NEXUSFORM_WHEEL": "a.whl", "NEXUSFORM_SHA256": "0", "WORKTREE": str(workspace)}
    for script, place in with_python.items():
        assert place in (None, "${{ runner.temp }}", "${{ runner.temp }}/nexusform-explain")
        there = f"cd {workspace / 'out'}\n" if place else ""
        run_bash(workspace, there + script, **offline)
        assert not (workspace / "owned").exists(), script


def test_gitlab_job_removes_planted_files_from_its_folder(workspace: Path) -> None:
    elsewhere = workspace / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "plan.md").write_text("### nexusform: no changes\n")
    (workspace / ".nexusform-plan").symlink_to(elsewhere)
    (workspace / "lab" / "broken.nf.hcl").write_text("resource {\n")
    clear = GITLAB[".nexusform"]["before_script"][0]
    script = "\n".join([clear, *GITLAB["nexusform-plan"]["script"]])
    assert run_bash(workspace, script, FOLDER=str(workspace / ".nexusform-plan")).returncode == 1
    assert {file.name for file in elsewhere.iterdir()} == {"plan.md"}
    assert "planning failed" in (workspace / ".nexusform-plan" / "plan.md").read_text()


@pytest.mark.parametrize("workflow", ["workflow.yml", "sites.yml", "capacity.yml"])
def test_workflow_uses_inputs_of_the_action(workflow: str) -> None:
    text = (CI / "github" / workflow).read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    for job in jobs.values():
        used = [s for s in job["steps"] if s.get("uses", "").startswith("./")]
        assert used
        assert all(set(s["with"]) <= set(ACTION["inputs"]) for s in used)


def run_prediction(workspace: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the check of a Terraform repository on the plan of the example."""
    workflow = yaml.safe_load((CI / "github" / "terraform.yml").read_text(encoding="utf-8"))
    (script,) = [s["run"] for s in workflow["jobs"]["predict"]["steps"] if s.get("id") == "predict"]
    assert "${{" not in script
    temp = workspace / "temp"
    temp.mkdir(exist_ok=True)
    if not (temp / "tfplan.json").exists():
        shutil.copy(EXAMPLES / "terraform-plan" / "plan.json", temp / "tfplan.json")
    export = str(EXAMPLES / "terraform-plan" / "export")
    terms = {"EXPORT": export, "FAIL_ON": "capacity:1", "NF_IN_AUTOMATION": "true", **variables}
    return run_bash(workspace, script, NF_CONFINE=str(EXAMPLES), **terms)


@of_documented_domains
def test_comment_predicts_placements_of_terraform_plan(workspace: Path) -> None:
    done = run_prediction(workspace)
    assert (done.returncode, read_outputs(workspace)) == (0, {"exitcode": "0"}), done.stdout
    comment = (workspace / "temp" / "placements.md").read_text()
    assert comment.startswith("### nexusform: 2 to add, 17 VMs to place, nothing moves")
    assert "NC\\_P46\\_224\\_v1" in comment


@of_documented_domains
@pytest.mark.parametrize(
    ("terms", "told"),
    [({"FAIL_ON": "capacity:99"}, "capacity"), ({"EXPORT": "nowhere"}, "nowhere")],
)
def test_failed_prediction_fails_the_check_with_a_reason(
    terms: dict[str, str], told: str, workspace: Path
) -> None:
    done = run_prediction(workspace, **terms)
    assert (done.returncode, read_outputs(workspace)) == (0, {"exitcode": "1"}), done.stdout
    assert told in (workspace / "temp" / "placements.md").read_text()


def test_invalid_terraform_plan_is_reported(workspace: Path) -> None:
    (workspace / "temp").mkdir()
    (workspace / "temp" / "tfplan.json").write_text("Error: no plan\n/approve\n")
    assert run_prediction(workspace).returncode == 0
    comment = (workspace / "temp" / "placements.md").read_text()
    assert comment.startswith("### nexusform: planning failed: not a Terraform plan")
    assert not re.search(r"^\s*/", comment, re.MULTILINE)


# --- GitLab ------------------------------------------------------------------------------------


def test_gitlab_job_plans(workspace: Path) -> None:
    script = "\n".join(GITLAB["nexusform-plan"]["script"])
    done = run_bash(workspace, script)
    assert done.returncode == 0, done.stderr
    assert (workspace / "out" / "reviewed.plan").is_file()
    assert (workspace / "out" / "plan.xml").read_text().startswith("<?xml")
    assert "Plan: 13 to add" in done.stdout
    (workspace / "lab" / "broken.nf.hcl").write_text("resource {\n")
    (workspace / "out" / "plan.md").unlink()
    assert run_bash(workspace, script).returncode == 1
    assert "planning failed" in (workspace / "out" / "plan.md").read_text()


def test_python_in_gitlab_template_compiles() -> None:
    scripts = [s for job in ("nexusform-plan", "nexusform-apply") for s in GITLAB[job]["script"]]
    found = [
        re.search(r"<<'PYTHON'[^\n]*\n(.*?)PYTHON\n", s, re.DOTALL)
        for s in scripts
        if "PYTHON" in s
    ]
    assert len(found) == 3
    for match in found:
        assert match is not None
        compile(match.group(1), "script", "exec")


# --- all recipes and pages -----------------------------------------------------------------------


@of_documented_domains
def test_every_command_and_flag_exists() -> None:
    import click

    context = click.Context(ROOT)
    checked = 0
    for file in CI.rglob("*"):
        if not file.is_file() or file.suffix == ".pyc":
            continue
        text = file.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(
            r"\bnexusform (?:-chdir=\S+ )?((?:plan|apply|show|predict|completion)\b[^\n`|)]*)", text
        ):
            words = line.split()
            command = ROOT.get_command(context, words[0].rstrip(".,:"))
            assert isinstance(command, Command)
            known = {o.lstrip("-") for p in command.params if isinstance(p, Flag) for o in p.opts}
            used = {w.lstrip("-").partition("=")[0] for w in words if re.match(r"-[a-z]", w)}
            assert used <= known, (file, line)
            checked += len(used)
    assert checked > 20


@pytest.mark.parametrize("page", sorted(p.name for p in CI.glob("*.md")))
def test_link_targets_exist(page: str) -> None:
    text = (CI / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (CI / target).exists(), target


def test_yaml_in_pages_is_valid() -> None:
    for page in CI.glob("*.md"):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            assert yaml.safe_load(block)


def test_page_lists_every_report_format() -> None:
    section = (
        (CI / "README.md")
        .read_text(encoding="utf-8")
        .partition("## Reports")[2]
        .partition("\n## ")[0]
    )
    assert re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE) == list(FORMATS)


# --- policies ----------------------------------------------------------------------------------


# In a separate process: regopy includes an RE2 that conflicts with the one of google-re2.
_JUDGING = """
import json, sys, regopy
policy, plan = json.load(sys.stdin)
interpreter = regopy.Interpreter()
interpreter.add_module("placements", policy)
interpreter.set_input(plan)
answers = {rule: json.loads(str(interpreter.query(f"data.main.{rule}"))) for rule in ("deny", "warn")}
json.dump({rule: answer["expressions"][0] for rule, answer in answers.items()}, sys.stdout)
"""  # noqa: E501


def evaluate_policy(plan: dict[str, Any]) -> dict[str, list[str]]:
    if find_spec("regopy") is None:
        pytest.skip("regopy is not installed")
    policy = (CI / "policy" / "placements.rego").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _JUDGING],
        input=json.dumps([policy, plan]),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    verdicts: dict[str, list[str]] = json.loads(done.stdout)
    return verdicts


def show_plan(directory: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    nexusform(directory, "show", "-json", str(file))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_policies_accept_repairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = plan_repair(tmp_path)
    plan = show_plan(tmp_path, real.file, capsys)
    assert [row["action"] for row in plan["placement_changes"]].count("move") == 1
    assert evaluate_policy(plan)["deny"] == []


def test_policies_deny_other_moves_single_racks_and_destruction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "site"
    directory.mkdir()
    main = directory / "main.nf.hcl"
    text = SMALL.replace("MORE", "").replace("WORKERS", "4")
    main.write_text(text)
    nexusform(directory, "apply", "-auto-approve", "-samples=0")
    main.write_text(text.replace("count       = 4", 'availability_zones = ["r1"]\n    count = 4'))
    pinned = evaluate_policy(show_plan(directory, plan_directory(directory).file, capsys))
    assert "all VMs of web/workers are on one rack" in pinned["deny"]
    moves = [message for message in pinned["deny"] if message.startswith("web-workers-")]
    assert len(moves) == 4
    assert all("(zones_changed)" in message for message in moves)
    # Advice and pre-existing findings remain in the reports.
    assert not any(message.startswith("zones-pinned") for message in pinned["warn"])
    finding = {"level": "warning", "summary": "an upgrade would fail", "severity": "warning"}
    assert evaluate_policy(
        {"diagnostics": [finding, finding | {"summary": "old", "preexisting": True}]}
    )["warn"] == ["an upgrade would fail"]
    refused = evaluate_policy(
        {"errored": True, "diagnostics": [{"level": "error", "summary": "x"}]}
    )
    assert refused["deny"] == ["plan failed: x", "the plan is in error"]
    # In a rejected plan, unplaced VMs have no location.
    table = {"cluster": "web", "pool": "workers", "total_count": 4, "actual_vms_per_rack": {}}
    assert evaluate_policy({"placement_tables": [table]})["deny"] == []
    with change_directory(directory):
        gone = evaluate_policy(
            show_plan(directory, plan_directory(directory, "-destroy").file, capsys)
        )
    assert gone["deny"] == ["nexus_kubernetes_cluster.web is destroyed"]
