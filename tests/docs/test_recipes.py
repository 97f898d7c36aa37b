"""End-to-end tests of the recipes' scripts.

Jobs on fresh clones, fakes of GitLab and `gh`, and hostile merge requests.
"""

import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import commands
from tests.certificates import create_signing_key
from tests.contracts.http_state_server import ServerContent
from tests.docs.code_hosts import GH, FakeGitLab, run_gitlab
from tests.docs.code_hosts import TOKEN as GH_TOKEN
from tests.docs.github_jobs import PullRequest
from tests.docs.recipe_python import write_python
from tests.kill_points import select_cases
from tests.trust.test_comments import COMMAND

pytestmark = pytest.mark.of_domains("remote_state")
CI = Path(__file__).parents[2] / "docs" / "ci"
GITLAB = list(yaml.safe_load_all((CI / "gitlab.yml").read_text(encoding="utf-8")))[1]
ACTION = yaml.safe_load((CI / "github" / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
TOKEN = "glpat-canary-7c1d"
TEXT = """nexusform {{
  backend "http" {{}}
}}
resource "nexus_site" "lab" {{
  name = "lab"
}}
resource "nexus_rack" "r" {{
  count         = {racks}
  site_id       = nexus_site.lab.id
  name          = "r${{count.index}}"
  machine_count = 1
}}
{more}
"""


class GitLabJobs:
    """Project at a code host: commits and jobs.

    A job runs a recipe's script on a fresh clone of a commit.
    """

    def __init__(self, place: Path, address: str, host: FakeGitLab) -> None:
        self.place = place
        self.address = address
        self.host = host
        self.clones = 0
        self.pipelines = 100
        self.install_fails = False
        write_python(place / "bin")
        self.program("nexusform", commands.build_shell_line())

    def program(self, name: str, command: str) -> None:
        file = self.place / "bin" / name
        file.write_text(f"#!/bin/sh\n{command}\n")
        file.chmod(0o755)

    def tree(self, racks: int, more: str = "") -> Path:
        """Write a commit as a directory to clone."""
        self.clones += 1
        tree = self.place / f"tree{self.clones}"
        (tree / "lab").mkdir(parents=True)
        (tree / ".git").mkdir()
        (tree / "lab" / "main.nf.hcl").write_text(TEXT.format(racks=racks, more=more))
        return tree

    def run(self, name: str, tree: Path, **variables: str) -> tuple[int, str, Path]:
        """Run one job of GitLab; return exit code, log, and the clone after it."""
        self.clones += 1
        clone = self.place / f"clone{self.clones}"
        shutil.copytree(tree, clone, symlinks=True)
        job = GITLAB[name]
        own = {**GITLAB[".nexusform"]["variables"], **job.get("variables", {})}
        environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("NF_", "CI_"))
            },
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "CI_PROJECT_DIR": str(clone),
            "CI_API_V4_URL": self.address,
            "CI_PROJECT_ID": "1",
            "CI_COMMIT_BRANCH": "main",
            "CI_JOB_TOKEN": "job-token",
            "NEXUSFORM_GITLAB_TOKEN": TOKEN,
            "DIRECTORY": "lab",
            "ARGUMENTS": "",
            "STATE": "lab",
            "CI_JOB_URL": "https://gitlab.example/lab/-/jobs/7",
            **variables,
        }
        inputs = ("DIRECTORY", "ARGUMENTS", "STATE")
        for key, value in own.items():
            if key not in inputs:
                environment[key] = str(value).replace("$CI_PROJECT_DIR", str(clone))
        before = job.get("before_script", GITLAB[".nexusform"]["before_script"])
        install = "exit 1" if self.install_fails else ":"
        script = [*(install if "pip install" in line else line for line in before), *job["script"]]

        def run_script(lines: list[str], status: str) -> tuple[int, str]:
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
                cwd=clone, env=environment | {"CI_JOB_STATUS": status},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            return done.returncode, done.stdout + done.stderr

        code, log = run_script(script, "running")
        # As in a runner: in a separate shell, whatever the result of the script, and without an
        # effect on the exit code.
        _, afterwards = run_script(job.get("after_script", []), "failed" if code else "success")
        return code, log + afterwards, clone

    def plan(
        self, tree: Path, sha: str, *, iid: int = 5, target: str = "main", **pipeline: Any
    ) -> tuple[int, str]:
        """Run the pipeline of a merge request for a commit, and keep its artifact at the host."""
        code, log, clone = self.run(
            "nexusform-plan",
            tree,
            CI_MERGE_REQUEST_IID=str(iid),
            CI_MERGE_REQUEST_TARGET_BRANCH_NAME=target,
            CI_COMMIT_SHA=sha,
        )
        self.pipelines += 1
        number = self.pipelines
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as files:
            for file in sorted((clone / ".nexusform-plan").glob("*")):
                files.write(file, f".nexusform-plan/{file.name}")
        status = "failed" if code else "success"
        self.host.pipelines.insert(
            0, {"id": number, "sha": sha, "project_id": 1, "status": status} | pipeline
        )
        self.host.jobs[number] = [{"id": number * 10, "name": "nexusform-plan", "status": status}]
        self.host.artifacts[number * 10] = archive.getvalue()
        return code, log

    def merge(self, head: str, commit: str) -> None:
        merged = {"iid": 5, "state": "merged", "sha": head, "merge_commit_sha": commit}
        merged["target_branch"] = "main"
        self.host.merge_requests[commit] = [merged]

    def apply(self, tree: Path, commit: str) -> tuple[int, str]:
        code, log, _ = self.run("nexusform-apply", tree, CI_COMMIT_SHA=commit)
        return code, log


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[GitLabJobs, FakeGitLab, ServerContent]]:
    with run_gitlab() as (address, host, store):
        yield GitLabJobs(tmp_path, address, host), host, store


def read_latest_plan(host: FakeGitLab) -> bytes:
    """Return the plan in the artifact of the newest pipeline."""
    archive = host.artifacts[host.pipelines[0]["id"] * 10]
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        return files.read(".nexusform-plan/reviewed.plan")


def count_objects(store: ServerContent) -> int:
    (place,) = (place for path, place in store.places.items() if path.endswith("/state/lab"))
    resources = json.loads(place.document or b'{"resources": []}')["resources"]
    return sum(len(each["instances"]) for each in resources)


def test_two_merge_requests_are_planned_commented_and_applied(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, host, store = project
    for racks, head in ((1, "aaa1"), (3, "bbb1")):
        tree = jobs.tree(racks)
        code, log = jobs.plan(tree, head)
        assert code == 0, log
        jobs.merge(head, f"{head}merged")
        code, log = jobs.apply(tree, f"{head}merged")
        assert code == 0, log
        assert count_objects(store) == racks + 1
    assert len(host.notes) == 1
    assert host.tokens == {TOKEN}
    assert "2 to add" in host.notes[1]


def test_only_plan_of_head_commit_is_applied(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    """The last push has a failed plan or none: then an older plan is not the reviewed one."""
    jobs, host, store = project
    assert jobs.plan(jobs.tree(1), "old1")[0] == 0
    newest = jobs.tree(9, HOSTILE["a command in an error"])
    assert jobs.plan(newest, "head1")[0] == 1
    jobs.merge("head1", "merged1")
    code, log = jobs.apply(newest, "merged1")
    assert code == 1
    assert "no pipeline on head1" in log
    host.pipelines[0]["status"] = "skipped"
    host.jobs[host.pipelines[0]["id"]] = []
    assert jobs.apply(newest, "merged1")[0] == 1
    assert not any(place.document for place in store.places.values())


def create_keys(place: Path) -> dict[str, str]:
    key = place / "plan.key"
    public = place / "plan.pub"
    create_signing_key(key, public)
    return {"NEXUSFORM_PLAN_KEY": str(key), "NEXUSFORM_PLAN_PUB": str(public)}


def merge_plan_with_keys(jobs: GitLabJobs) -> tuple[Path, dict[str, str], dict[str, str]]:
    """Plan and merge; return the merged tree, the variables of signing, and those of applying."""
    variables = create_keys(jobs.place)
    public = {"NEXUSFORM_PLAN_PUB": variables["NEXUSFORM_PLAN_PUB"]}
    tree = jobs.tree(1)
    assert jobs.plan(tree, "head1")[0] == 0
    jobs.merge("head1", "merged1")
    return shutil.copytree(tree, jobs.place / "merged"), variables, public


def test_with_keys_only_signed_plans_are_applied(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, _, store = project
    merged, variables, public = merge_plan_with_keys(jobs)
    # The merged branch has a link in place of the folder of signed plans.
    outside = jobs.place / "outside"
    outside.mkdir()
    (merged / ".nexusform-signed").symlink_to(outside)
    code, log, signing = jobs.run("nexusform-sign", merged, CI_COMMIT_SHA="merged1", **variables)
    assert code == 0, log
    assert not list(outside.iterdir())
    signed = (signing / ".nexusform-signed" / "reviewed.plan").read_bytes()
    code, log, _ = jobs.run("nexusform-sign", merged, CI_COMMIT_SHA="merged1", **public)
    assert (code, "no NEXUSFORM_PLAN_KEY" in log) == (1, True)
    (merged / ".nexusform-signed").unlink()
    (merged / ".nexusform-signed").mkdir()
    for plan, expected in ((read_latest_plan(jobs.host), 1), (signed, 0)):
        (merged / ".nexusform-signed" / "reviewed.plan").write_bytes(plan)
        code, log, _ = jobs.run("nexusform-apply", merged, CI_COMMIT_SHA="merged1", **public)
        assert code == expected, log
    assert count_objects(store) == 2


def test_withdrawn_plan_is_not_applied(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, _, store = project
    merged, variables, public = merge_plan_with_keys(jobs)
    code, log, signing = jobs.run("nexusform-sign", merged, CI_COMMIT_SHA="merged1", **variables)
    assert code == 0, log
    plan = signing / ".nexusform-signed" / "reviewed.plan"
    shutil.copytree(plan.parent, merged / ".nexusform-signed")
    withdrawn = jobs.place / "withdrawn.json"
    words = ["-withdraw", f"-key={variables['NEXUSFORM_PLAN_KEY']}", f"-revocations={withdrawn}"]
    subprocess.run([jobs.place / "bin" / "nexusform", "sign", *words, plan], check=True)
    rejecting = {**public, "NEXUSFORM_WITHDRAWN": str(withdrawn)}
    code, log, _ = jobs.run("nexusform-apply", merged, CI_COMMIT_SHA="merged1", **rejecting)
    assert (code, "withdrawn" in log) == (1, True), log
    assert not any(place.document for place in store.places.values())


def test_comment_compares_with_plan_of_last_push(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, host, _ = project
    assert jobs.plan(jobs.tree(racks=2), "a" * 40)[0] == 0
    assert "Since" not in list(host.notes.values())[-1]
    jobs.plan(jobs.tree(racks=2), "c" * 40, project_id=2)
    code, log = jobs.plan(jobs.tree(racks=3), "b" * 40)
    assert code == 0, log
    (note,) = host.notes.values()
    assert "Since" in note
    host.artifacts.clear()
    code, log = jobs.plan(jobs.tree(racks=3), "d" * 40)
    assert (code, "the plan of the last push could not be read" in log) == (0, True)
    assert "Since" not in list(host.notes.values())[-1]


def test_commit_without_merge_request_applies_nothing(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, host, _ = project
    tree = jobs.tree(1)
    assert jobs.plan(tree, "head1")[0] == 0
    host.merge_requests["pushed1"] = [
        {"iid": 5, "state": "opened", "sha": "head1", "merge_commit_sha": None}
    ]
    code, log = jobs.apply(tree, "pushed1")
    assert code == 1
    assert "belongs to no merge request" in log


def test_pipeline_of_a_fork_is_ignored(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, _, _ = project
    tree = jobs.tree(1)
    assert jobs.plan(tree, "head1", project_id=2)[0] == 0
    jobs.merge("head1", "merged1")
    code, log = jobs.apply(tree, "merged1")
    assert code == 1
    assert "no pipeline on head1" in log


def test_note_of_a_stranger_is_left_alone_and_reported(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, host, _ = project
    for number in range(1, 41):
        host.notes[number] = "<!-- nexusform lab -->\n2 to add: Allowed"
        host.strangers[number] = 100 + number
    foreign = dict(host.notes)
    _, log = jobs.plan(jobs.tree(1), "aaa1")
    assert log.count("of another user has its mark and is left alone") == 40
    jobs.plan(jobs.tree(3), "bbb1")
    assert {number: host.notes[number] for number in foreign} == foreign
    (own,) = [text for number, text in host.notes.items() if number not in foreign]
    assert "4 to add" in own


def test_two_merge_requests_of_one_commit_have_their_own_plans(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    """Both have the head aaa1, and the host lists the pipelines of the commit for both."""
    jobs, host, store = project
    assert jobs.plan(jobs.tree(1), "aaa1")[0] == 0
    assert jobs.plan(jobs.tree(3), "aaa1", iid=6, target="release")[0] == 0
    jobs.merge("aaa1", "merged1")
    host.merge_requests["merged1"].insert(
        0, host.merge_requests["merged1"][0] | {"iid": 6, "target_branch": "release"}
    )
    code, log = jobs.apply(jobs.tree(1), "merged1")
    assert code == 0, log
    assert count_objects(store) == 2
    # A target that changed after the plan.
    host.merge_requests["merged2"] = [
        {"iid": 6, "state": "merged", "sha": "aaa1", "merge_commit_sha": "merged2"}
        | {"target_branch": "main"}
    ]
    code, log = jobs.apply(jobs.tree(3), "merged2")
    assert code != 0
    assert "has a successful plan" in log


def test_killed_run_fails_the_check(project: tuple[GitLabJobs, FakeGitLab, ServerContent]) -> None:
    jobs, _, _ = project
    tree = jobs.tree(1)
    jobs.program(
        "nexusform", f'case "$*" in *" plan "*) kill -9 $$;; esac\n{commands.build_shell_line()}'
    )
    code, log = jobs.plan(tree, "head1")
    assert code == 1
    assert "there is no plan (exit code 137)" in log


@pytest.mark.parametrize("laid", ["", "### nexusform: no changes\n"])
def test_failed_installation_replaces_the_comment(
    laid: str, project: tuple[GitLabJobs, FakeGitLab, ServerContent]
) -> None:
    jobs, host, _ = project
    assert jobs.plan(jobs.tree(1), "head1")[0] == 0
    assert "2 to add" in host.notes[1]
    tree = jobs.tree(2)
    if laid:
        (tree / ".nexusform-plan").mkdir()
        (tree / ".nexusform-plan" / "plan.md").write_text(laid)
    jobs.install_fails = True
    assert jobs.plan(tree, "head2")[0] == 1
    (note,) = host.notes.values()
    assert "### nexusform: no plan for head2\n" in note
    assert "see [its log](https://gitlab.example/lab/-/jobs/7)" in note
    assert "no changes" not in note


def test_comment_of_failed_plan_has_the_error(
    project: tuple[GitLabJobs, FakeGitLab, ServerContent],
) -> None:
    jobs, host, _ = project
    assert jobs.plan(jobs.tree(9, HOSTILE["a command in an error"]), "head1")[0] == 1
    assert "planning failed" in host.notes[1] or "Error" in host.notes[1]
    assert "no plan for" not in host.notes[1]


@pytest.mark.parametrize("link", [".nexusform-plan", ".nexusform-plan/reviewed.plan"])
def test_writes_do_not_follow_a_merged_link(
    link: str, project: tuple[GitLabJobs, FakeGitLab, ServerContent]
) -> None:
    jobs, _, store = project
    outside = jobs.place / "outside"
    outside.mkdir()
    (outside / "reviewed.plan").write_text("mine")
    tree = jobs.tree(1)
    (tree / link).parent.mkdir(exist_ok=True)
    (tree / link).symlink_to(outside if link == ".nexusform-plan" else outside / "reviewed.plan")
    code, log = jobs.plan(tree, "head1")
    assert code == 0, log
    jobs.merge("head1", "merged1")
    code, log = jobs.apply(tree, "merged1")
    assert code == 0, log
    assert count_objects(store) == 2
    assert [file.name for file in outside.iterdir()] == ["reviewed.plan"]
    assert (outside / "reviewed.plan").read_text() == "mine"


HOSTILE = {
    "a token in an output": 'output "x" {\n  value = try(file("/proc/self/environ"), "nothing")\n}',
    "a command in an error": """resource "nexus_site" "x" {
  name = "x"
  lifecycle {
    precondition {
      condition     = length(nexus_site.lab.name) == 0
      error_message = "no\\n/approve\\n/merge\\n@all\\nbors r+"
    }
  }
}""",
    "a command in a mistake": "/approve\n/merge\n",
    (
        "a command in no configuration"
    ): 'resource "x" "/approve" {\n  a = <<E\n/merge\n```\n/approve\nE\n',
    "an address": """data "nexusform_remote_state" "x" {
  backend = "http"
  config  = { address = "http://127.0.0.1:9/" }
}""",
    "a command in a name": 'resource "nexus_site" "x" {\n  name = "\\n/merge\\n@all\\nbors r+"\n}',
    "a command in a key": """resource "nexus_site" "x" {
  for_each = toset(["\\n/merge", "@all"])
  name     = each.key
}""",
    "a command in a value": 'output "x" {\n  value = "\\n/merge\\n/approve\\n```\\n@all"\n}',
    "a command in a check": """check "x" {
  assert {
    condition     = false
    error_message = "no\\n\\n/merge\\n@all\\nGH-1 !1 #1"
  }
}""",
    "a command in a variable": """variable "x" {
  default = "y"
  validation {
    condition     = var.x == "z"
    error_message = "No:\\r/merge\\u2028/approve"
  }
}""",
    "junk": "\0" * 100_000,
    "devices": 'output "x" {\n  value = [for n in range(9) : try(filesha512("/dev/zero"), "")]\n}',
    "a long time": """output "x" {
  value = [for n in range(900) : length(setproduct(range(300), range(300)))]
}""",
    (
        "a plan file of its own"
    ): 'output "x" {\n  value = fileexists("../.nexusform-plan/reviewed.plan")\n}',
}


@pytest.mark.parametrize("name", select_cases(list(HOSTILE)))
def test_hostile_merge_request_gets_no_secrets_or_commands(
    name: str, project: tuple[GitLabJobs, FakeGitLab, ServerContent]
) -> None:
    jobs, host, store = project
    jobs.program("nexusform", f"NF_LIMIT_SECONDS=3 {commands.build_shell_line()}")
    _, log = jobs.plan(jobs.tree(1, HOSTILE[name]), "head1")
    assert TOKEN not in log
    (note,) = host.notes.values()
    assert TOKEN not in note
    assert "job-token" not in note
    assert COMMAND.search(note) is None, note
    # The comment has the error of init, not the missing backend settings after it.
    assert "Missing backend setting" not in note
    assert not any(place.document for place in store.places.values())


# --- GitHub ------------------------------------------------------------------------------------


def find_step_script(text: str) -> str:
    (script,) = [step["run"] for step in ACTION if text in step.get("run", "")]
    return str(script)


@pytest.fixture
def code_host(tmp_path: Path) -> Path:
    """Return a code host made of files, with a fake `gh`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "artifacts").mkdir()
    return tmp_path


def fetch_reviewed_plan(
    code_host: Path, pulls: list[dict[str, Any]], runs: list[dict[str, Any]]
) -> tuple[int, str]:
    """Fetch the reviewed plan of commit `merged1`.

    Return the exit code and the fetched plan, or the error output.
    """
    (code_host / "pulls.json").write_text(json.dumps(pulls))
    (code_host / "runs.json").write_text(json.dumps(runs))
    for run in runs:
        number = run.get("number", 5)
        folder = code_host / "artifacts" / str(run["id"]) / f"nexusform-lab-pr{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reviewed.plan").write_text(str(run["id"]))
        (folder / "request").write_text(f"{number} {run.get('base', 'main')}\n")
    environment = {
        "PATH": f"{code_host / 'bin'}:{os.environ['PATH']}",
        "GH_HOST_DIRECTORY": str(code_host),
        "GITHUB_SHA": "merged1",
        "GITHUB_REPOSITORY": "o/r",
        "GH_TOKEN": GH_TOKEN,
        "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/nexusform.yml@refs/heads/main",
        "GITHUB_REF_NAME": "main",
        "FOLDER": str(code_host / "folder"),
        "SLUG": "-lab",
    }
    words = ["bash", "-e", "-o", "pipefail", "-c", find_step_script("belongs to no pull request")]
    done = subprocess.run(
        words, cwd=code_host, env=environment, capture_output=True, text=True, check=False
    )
    plan = code_host / "folder" / "reviewed.plan"
    return done.returncode, plan.read_text() if plan.exists() else done.stderr


def build_run(identifier: int, sha: str = "head1", **more: Any) -> dict[str, Any]:
    return {
        "id": identifier,
        "sha": sha,
        "event": "pull_request",
        "workflow": "nexusform.yml",
        "conclusion": "success",
        "head_branch": "change",
        "head_repository": {"full_name": "o/r"},
    } | more


MERGED = PullRequest().build_answer("head1", "merged1")


def test_action_uses_plan_of_merged_head(code_host: Path) -> None:
    other = PullRequest(number=6).build_answer("head9", "other")
    assert fetch_reviewed_plan(
        code_host, [other, MERGED], [build_run(1, "old1"), build_run(2, "head9"), build_run(3)]
    ) == (0, "3")


@pytest.mark.parametrize(
    ("pulls", "runs"),
    [
        ([MERGED], [build_run(1, "old1")]),
        ([MERGED], [build_run(1, workflow="of-a-request.yml")]),
        # A fork with a workflow file of the same path, for a pull request with the same head.
        ([MERGED], [build_run(1, head_repository={"full_name": "fork/r"})]),
        ([MERGED], [build_run(1, head_repository=None)]),
        ([MERGED], [build_run(1, head_branch="another")]),
        # Another pull request with the same head.
        ([MERGED], [build_run(1, number=6)]),
        ([MERGED], [build_run(1, base="release")]),
        ([MERGED | {"base": {"ref": "release"}}], [build_run(1, base="release")]),
        ([MERGED], [build_run(1, conclusion="failure")]),
        ([MERGED | {"merged_at": None}], [build_run(1)]),
        ([MERGED | {"merge_commit_sha": "other"}], [build_run(1)]),
        ([], [build_run(1)]),
    ],
)
def test_action_rejects_other_plans(code_host: Path, pulls: list[Any], runs: list[Any]) -> None:
    code, said = fetch_reviewed_plan(code_host, pulls, runs)
    assert code == 1
    assert said.startswith("nexusform: ")


def test_action_fails_without_a_plan() -> None:
    conditions = {step.get("run", step.get("uses")): step.get("if", "") for step in ACTION}
    (failing,) = [text for script, text in conditions.items() if "there is no plan" in str(script)]
    assert re.findall(r"exitcode != '(\d)'", failing) == ["0", "2"]
    steps = [step for step in ACTION if "upload-artifact" in step.get("uses", "")]
    (keeping,) = [step["if"] for step in steps if "plan" in step["if"]]
    assert re.findall(r"exitcode == '(\d)'", keeping) == ["0", "2"]


@pytest.mark.parametrize("mistake", ["/approve\n/merge\n", 'resource "x" "/merge" {\n```\n@all\n'])
def test_configuration_error_contains_no_commands(mistake: str, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "main.nf.hcl").write_text(mistake)
    write_python(tmp_path / "bin")
    program = tmp_path / "bin" / "nexusform"
    program.write_text(f"#!/bin/sh\n{commands.build_shell_line()}\n")
    program.chmod(0o755)
    (tmp_path / "out").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "DIRECTORY": "lab",
        "ARGUMENTS": "",
        "FOLDER": str(tmp_path / "out"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "NF_IN_AUTOMATION": "true",
    }
    (script,) = [step["run"] for step in ACTION if step.get("id") == "plan"]
    words = ["bash", "-e", "-o", "pipefail", "-c", script]
    subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=True)
    comment = (tmp_path / "out" / "plan.md").read_text()
    assert comment.startswith("### nexusform: planning failed")
    assert COMMAND.search(comment) is None, comment
    assert len(re.findall(r"^`{3,}", comment, re.MULTILINE)) == 2
