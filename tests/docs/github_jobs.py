"""Emulation of a runner for GitHub's composite action, step by step.

It emulates conditions, expressions, outputs, artifacts, a `gh`, and the recipe's JavaScript with
a fake API.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from tests.docs.code_hosts import GH, TOKEN
from tests.docs.recipe_python import write_python

CI = Path(__file__).parents[2] / "docs" / "ci"
ACTION: dict[str, Any] = yaml.safe_load((CI / "github" / "action.yml").read_text(encoding="utf-8"))
EXPLAIN: dict[str, Any] = yaml.safe_load(
    (CI / "github" / "explain.yml").read_text(encoding="utf-8")
)
TERRAFORM: dict[str, Any] = yaml.safe_load(
    (CI / "github" / "terraform.yml").read_text(encoding="utf-8")
)
CAPACITY: dict[str, Any] = yaml.safe_load(
    (CI / "github" / "capacity.yml").read_text(encoding="utf-8")
)
NAME = re.compile(r"\b(?:inputs|steps|github|runner|env)(?:\.[\w-]+)+")

# The part of actions/github-script used by the recipe.
SCRIPT = """
const fs = require('fs');
const file = process.env.COMMENTS;
const comments = JSON.parse(fs.readFileSync(file, 'utf8'));
const save = () => fs.writeFileSync(file, JSON.stringify(comments));
const context = { repo: { owner: 'o', repo: 'r' }, issue: { number: Number(process.env.ISSUE) } };
const core = { warning: (text) => console.log(`::warning::${text}`) };
const issues = {
  listComments: ({ issue_number }) => comments.filter((one) => one.issue === issue_number)
    .map((one) => ({ ...one, node_id: `node${one.id}`, html_url: `https://host/#${one.id}` })),
  createComment: ({ issue_number, body }) => {
    comments.push({ id: comments.length + 1, issue: issue_number, isOwn: true, body });
    save();
  },
  updateComment: ({ comment_id, body }) => {
    comments.find((one) => one.id === comment_id).body = body;
    save();
  },
};
const graphql = async (query, { ids }) => {
  if (!query.includes('viewerDidAuthor') || ids.length > 100) throw new Error('unexpected query');
  const find = (id) => comments.find((one) => `node${one.id}` === id);
  return { nodes: ids.map((id) => ({ viewerDidAuthor: find(id).isOwn === true })) };
};
const github = { paginate: async (list, place) => list(place), rest: { issues }, graphql };
(async () => { SCRIPT })();
"""


class JobResult(Struct):
    """Result of one job: success, log, and directories."""

    clone: Path
    temporary: Path
    success: bool = True
    log: str = ""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


class PullRequest(Struct, frozen=True):
    """Pull request: its number, its base, and the branch and repository of its head."""

    number: int = 5
    base: str = "main"
    branch: str = "change"
    repository: str = "o/r"

    def build_answer(self, head: str, merge_commit: str | None) -> dict[str, Any]:
        """Return the answer of the host, merged if it has a commit."""
        return {
            "number": self.number,
            "merged_at": "2026-11-21" if merge_commit else None,
            "merge_commit_sha": merge_commit,
            "base": {"ref": self.base},
            "head": {"sha": head, "ref": self.branch, "repo": {"full_name": self.repository}},
        }


class FakeGitHub:
    """Repository at GitHub.

    It has commits to clone, runs with artifacts, comments, and jobs of the recipes.
    """

    def __init__(self, place: Path, nexusform: str) -> None:
        self.place = place
        self.jobs = 0
        write_python(place / "bin")
        (place / "artifacts").mkdir()
        for name in ("pulls", "runs", "comments", "answers"):
            self.write(name, [])
        self.program("gh", GH)
        self.program("nexusform", f"#!/bin/sh\n{nexusform}\n")

    def program(self, name: str, text: str) -> None:
        file = self.place / "bin" / name
        file.write_text(text)
        file.chmod(0o755)

    def read(self, name: str) -> list[Any]:
        found: list[Any] = json.loads((self.place / f"{name}.json").read_text())
        return found

    def write(self, name: str, rows: Sequence[Any]) -> None:
        (self.place / f"{name}.json").write_text(json.dumps(rows))

    @property
    def comments(self) -> list[str]:
        return [comment["body"] for comment in self.read("comments")]

    def plan(
        self,
        tree: Path,
        sha: str,
        variables: Mapping[str, str],
        request: PullRequest | None = None,
        **inputs: str,
    ) -> JobResult:
        """Run the check of a pull request on its head, and keep its artifact at the host."""
        request = request or PullRequest()
        number = len(self.read("runs")) + 1
        job = self.job("plan", tree, number, sha, "pull_request", variables, inputs, request)
        run = {
            "id": number,
            "sha": sha,
            "event": "pull_request",
            "workflow": "nexusform.yml",
            "head_branch": request.branch,
            "head_repository": {"full_name": request.repository},
        }
        self.write(
            "runs",
            [run | {"conclusion": "success" if job.success else "failure"}, *self.read("runs")],
        )
        return job

    def merge(self, head: str, commit: str, request: PullRequest | None = None) -> None:
        pull = (request or PullRequest()).build_answer(head, commit)
        self.write("pulls", [pull, *self.read("pulls")])

    def after_merge(
        self,
        tree: Path,
        commit: str,
        variables: Mapping[str, str],
        keys: Mapping[str, str],
        **inputs: str,
    ) -> list[JobResult]:
        """Run the jobs of the push: sign if there are keys, and then apply unless this failed."""
        run = 1000 + len(self.read("pulls"))
        jobs: list[JobResult] = []
        if keys:
            signing = {"sign-key": keys["private"]}
            jobs.append(self.job("sign", None, run, commit, "push", variables, signing))
            if not jobs[0].success:
                return jobs
        verifying = {"verify-key": keys["public"]} if keys else {}
        jobs.append(self.job("apply", tree, run, commit, "push", variables, verifying | inputs))
        return jobs

    def job(
        self,
        command: str,
        tree: Path | None,
        run: int,
        sha: str,
        event: str,
        variables: Mapping[str, str],
        inputs: Mapping[str, str],
        request: PullRequest | None = None,
    ) -> JobResult:
        job = self.fresh(tree)
        given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        given |= {
            "token": TOKEN,
            "directory": "lab",
            "command": command,
            "install": "false",
            **inputs,
        }
        known: dict[str, str] = {f"inputs.{name}": value for name, value in given.items()}
        known |= self.build_context(job, run, sha, event, request)
        for step in ACTION["runs"]["steps"]:
            self.step(step, job, known, variables)
        return job

    def explain(self, comment: str, sha: str, request: PullRequest | None = None) -> JobResult:
        """Answer a comment on the pull request from the plan of its head."""
        request = request or PullRequest()
        self.write("pulls", [request.build_answer(sha, None)])
        job = self.fresh(None)
        known = self.build_context(job, 2000, sha, "issue_comment")
        known |= {
            "github.event.issue.number": str(request.number),
            "github.event.comment.body": comment,
        }
        (described,) = EXPLAIN["jobs"].values()
        assert self.holds(
            described["if"].partition("&&")[0], {**known, "github.event.issue.pull_request": "x"}
        )
        variables = {key: self.filled(text, known) for key, text in described["env"].items()}
        for step in described["steps"]:
            self.step(step, job, known, {**variables, "ARTIFACT": "nexusformlab"})
        return job

    def foretell(self, tree: Path, sha: str) -> JobResult:
        """Run the check of a Terraform repository, with the `terraform` among the programs."""
        job = self.fresh(tree)
        known = self.build_context(job, 3000 + self.jobs, sha, "pull_request")
        variables = {key: self.filled(text, known) for key, text in TERRAFORM["env"].items()}
        for step in TERRAFORM["jobs"]["predict"]["steps"]:
            self.step(step, job, known, variables)
        return job

    def fresh(self, tree: Path | None) -> JobResult:
        self.jobs += 1
        clone = self.place / f"job{self.jobs}" / "work"
        clone.parent.mkdir()
        if tree is None:
            clone.mkdir()
        else:
            shutil.copytree(tree, clone, symlinks=True)
        temporary = clone.parent / "temp"
        temporary.mkdir()
        return JobResult(clone, temporary)

    def build_context(
        self, job: JobResult, run: int, sha: str, event: str, request: PullRequest | None = None
    ) -> dict[str, str]:
        request = request or PullRequest()
        of_request = {
            "github.event.pull_request.number": str(request.number),
            "github.event.pull_request.head.sha": sha,
            "github.event.pull_request.head.ref": request.branch,
            "github.event.pull_request.head.repo.full_name": request.repository,
            "github.event.pull_request.base.ref": request.base,
        }
        return {
            **(of_request if event == "pull_request" else {}),
            "github.workspace": str(job.clone),
            "github.token": TOKEN,
            "github.event_name": event,
            "github.server_url": "https://github.example",
            "github.repository": "o/r",
            "github.run_id": str(run),
            "github.sha": sha,
            "runner.temp": str(job.temporary),
        }

    def filled(self, text: object, known: Mapping[str, str]) -> str:
        """Return a text of the recipe with its expressions replaced."""
        return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: known.get(found[1], ""), str(text))

    def holds(self, condition: str, known: Mapping[str, str]) -> bool:
        """Evaluate an `if` with the operators of the recipe; unknown names are empty."""
        python = NAME.sub(lambda found: repr(known.get(found[0], "")), condition)
        for theirs, ours in (("&&", " and "), ("||", " or ")):
            python = python.replace(theirs, ours)
        return bool(eval(" ".join(python.split()), {"__builtins__": {}, "always": lambda: True}))

    def step(
        self,
        step: dict[str, Any],
        job: JobResult,
        known: dict[str, str],
        variables: Mapping[str, str],
    ) -> None:
        said = str(step.get("run", step.get("uses")))
        # Other tests install the packages.
        installs = "pip install" in said
        condition = str(step.get("if", "True"))
        reached = job.success or "always()" in condition
        if installs or not reached or not self.holds(condition, known):
            job.skipped.append(said)
            return
        own = {name: self.filled(text, known) for name, text in step.get("env", {}).items()}
        environment = {**self.environment(job, known), **variables, **own}
        place = self.filled(step.get("working-directory", job.clone), known)
        if "run" in step:
            words = [
                "bash",
                "--noprofile",
                "--norc",
                "-e",
                "-o",
                "pipefail",
                "-c",
                self.filled(said, known),
            ]
            self.execute(words, place, environment, job)
        else:
            given = {name: self.filled(text, known) for name, text in step.get("with", {}).items()}
            self.used(said.partition("@")[0], given, environment, job, known)
        self.collect(step, job, known)
        known[f"steps.{step.get('id', '')}.outcome"] = "success" if job.success else "failure"

    def environment(self, job: JobResult, known: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("NF_", "GITHUB_"))
        }
        return {
            **kept,
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "GH_HOST_DIRECTORY": str(self.place),
            "COMMENTS": str(self.place / "comments.json"),
            "RUNNER_TEMP": str(job.temporary),
            "GITHUB_OUTPUT": str(job.temporary / "outputs"),
            "GITHUB_STEP_SUMMARY": str(job.temporary / "summary.md"),
            "GITHUB_WORKSPACE": str(job.clone),
            "GITHUB_REPOSITORY": known["github.repository"],
            "GITHUB_SERVER_URL": known["github.server_url"],
            "GITHUB_SHA": known["github.sha"],
            "GITHUB_WORKFLOW": "nexusform",
            "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/nexusform.yml@refs/heads/main",
            "GITHUB_REF_NAME": "main",
            "ISSUE": known.get("github.event.pull_request.number", "5"),
        }

    def execute(
        self, words: list[str], place: str, environment: dict[str, str], job: JobResult
    ) -> None:
        done = subprocess.run(
            words,
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        job.success = job.success and done.returncode == 0
        job.log += done.stdout.decode(errors="replace")

    def collect(self, step: Mapping[str, Any], job: JobResult, known: dict[str, str]) -> None:
        """Read the file of outputs after a step."""
        file = job.temporary / "outputs"
        lines = file.read_text().splitlines() if file.exists() else []
        for name, _, value in (line.partition("=") for line in lines):
            known[f"steps.{step.get('id', '')}.outputs.{name}"] = value
            job.outputs.setdefault(step.get("id", ""), {})[name] = value
        file.unlink(missing_ok=True)

    def used(
        self,
        name: str,
        given: Mapping[str, str],
        environment: dict[str, str],
        job: JobResult,
        known: Mapping[str, str],
    ) -> None:
        """Emulate an external action as used by the recipe."""
        artifacts = self.place / "artifacts" / known["github.run_id"]
        uses: dict[str, Callable[[], object]] = {
            "actions/github-script": lambda: self.script(given["script"], environment, job),
            "actions/upload-artifact": lambda: self.upload(given, artifacts),
            "actions/download-artifact": lambda: shutil.copytree(
                artifacts / given["name"], given["path"], dirs_exist_ok=True
            ),
            # The tree is there already.
            "actions/checkout": lambda: None,
            # Other tests cover its installation.
            "./.github/actions/nexusform": lambda: None,
            "./.nexusform-action/.github/actions/nexusform": lambda: None,
            # It is a program of this host.
            "hashicorp/setup-terraform": lambda: None,
        }
        uses[name]()

    def script(self, text: str, environment: dict[str, str], job: JobResult) -> None:
        """Run the recipe's JavaScript; without node, take the comment from its file."""
        if shutil.which("node"):
            self.execute(
                ["node", "-e", SCRIPT.replace("SCRIPT", text)], str(job.clone), environment, job
            )
            return
        (name,) = re.findall(r"/([\w-]+\.md)`", text)
        folder = environment.get("FOLDER", environment["RUNNER_TEMP"])
        written = Path(folder, name).read_text(encoding="utf-8")
        self.write(
            "comments", [{"id": 1, "issue": 5, "body": f"<!-- nexusform -lab -->\n{written}"}]
        )

    def upload(self, given: Mapping[str, str], artifacts: Path) -> None:
        source = Path(given["path"])
        target = artifacts / given["name"]
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            # Otherwise GitHub only warns.
            target.mkdir(parents=True, exist_ok=given.get("overwrite", "").lower() == "true")
            shutil.copy(source, target)
