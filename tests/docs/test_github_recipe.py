"""End-to-end tests of GitHub's recipe.

The action's own steps on fresh clones, two pull requests, kills, links, and hostile pull requests.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.certificates import create_signing_key
from tests.contracts.bad_answers import build_raw_answer, run_bad_server
from tests.contracts.http_state_server import ServerContent, StoredState, run_state_server
from tests.docs.github_jobs import CAPACITY, TOKEN, FakeGitHub, JobResult, PullRequest
from tests.docs.hostile_requests import REQUESTS, Files
from tests.kill_points import select_cases
from tests.trust.test_comments import COMMAND, REFERENCE, extract_text

pytestmark = pytest.mark.of_domains("remote_state")
EXAMPLE = Path(__file__).parents[2] / "examples" / "terraform-plan"
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
"""
# Output with an effect on a runner, at the beginning of a line or, in the older form, anywhere.
NAMES = (
    "set-env|set-output|save-state|add-path|add-mask|add-matcher|remove-matcher|warning|error|notice|debug|group|"
    "endgroup|echo|stop-commands"
)
RUNNER = re.compile(rf"^\s*::(?:{NAMES})\b.*::|##\[(?:{NAMES})\b.*\]", re.IGNORECASE)
STOP = re.compile(r"\s*::stop-commands::(.+)")


def find_runner_commands(log: str) -> list[str]:
    """Return the lines of a log interpreted as commands by a runner."""
    found: list[str] = []
    until = ""
    for line in log.splitlines():
        stop = STOP.match(line)
        if until:
            until = "" if line.strip() == f"::{until}::" else until
        elif stop is not None:
            until = stop[1]
        elif RUNNER.search(line):
            found.append(line)
    return found


class GitHubRepository:
    """Commits of one project, and a hub with jobs that keep the state at a server."""

    def __init__(self, place: Path, state: str, store: ServerContent) -> None:
        self.place = place
        self.store = store
        (place / "hub").mkdir()
        self.hub = FakeGitHub(place / "hub", f"NF_LIMIT_SECONDS=3 {commands.build_shell_line()}")
        self.settings = f"address={state}/lab\nlock_address={state}/lab/lock\n"
        self.trees = 0

    def tree(self, racks: int) -> Path:
        self.trees += 1
        tree = self.place / f"tree{self.trees}"
        (tree / "lab").mkdir(parents=True)
        (tree / ".git").mkdir()
        (tree / ".git" / "config").write_text(f"extraheader = {TOKEN}")
        (tree / "lab" / "main.nf.hcl").write_text(TEXT.format(racks=racks))
        return tree

    def plan(self, tree: Path, sha: str) -> JobResult:
        variables = {"ARM_ACCESS_KEY": TOKEN, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": TOKEN}
        return self.hub.plan(tree, sha, variables, **{"backend-config": self.settings})

    def after_merge(
        self, tree: Path, commit: str, keys: dict[str, str], **inputs: str
    ) -> list[JobResult]:
        settings = {"backend-config": self.settings}
        return self.hub.after_merge(tree, commit, {}, keys, **settings, **inputs)

    def add(self, tree: Path, files: Files, url: str) -> None:
        """Write the files of a request to a tree."""
        for name, content in files.items():
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            if not isinstance(content, str):
                file.write_bytes(content if isinstance(content, bytes) else content())
                continue
            meant = content.replace("OUTSIDE", str(self.outside)).replace("URL", url)
            if meant.startswith("->"):
                file.symlink_to(meant[2:])
            else:
                file.write_text(meant)

    @property
    def outside(self) -> Path:
        return self.place / "outside"

    @property
    def racks(self) -> int:
        (document,) = [place.document for place in self.store.places.values() if place.document]
        resources = json.loads(document)["resources"]
        return sum(len(each["instances"]) for each in resources if each["type"] == "nexus_rack")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[GitHubRepository]:
    with run_state_server() as (address, store):
        yield GitHubRepository(tmp_path, address, store)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("keys")
    key = place / "plan.key"
    public = place / "plan.pub"
    create_signing_key(key, public)
    return {"private": key.read_text(), "public": public.read_text()}


@pytest.mark.parametrize("signed", [True, False])
def test_two_pull_requests_are_planned_commented_and_applied(
    signed: bool, repository: GitHubRepository, keys: dict[str, str]
) -> None:
    for racks, head in ((1, "aaa1"), (3, "bbb1")):
        tree = repository.tree(racks)
        job = repository.plan(tree, head)
        assert job.success, job.log
        assert job.outputs["plan"]["exitcode"] == "2"
        (comment,) = repository.hub.comments
        assert "2 to add" in comment
        repository.hub.merge(head, f"{head}merged")
        jobs = repository.after_merge(tree, f"{head}merged", keys if signed else {})
        assert all(job.success for job in jobs), jobs[-1].log
        assert len(jobs) == 1 + signed
        assert repository.racks == racks


SITES = """defaults {
  source = "./site"

  backend "http" {
    address        = "ADDRESS/${site.name}"
    lock_address   = "ADDRESS/${site.name}/lock"
    unlock_address = "ADDRESS/${site.name}/lock"
  }
}

site "lon1" {
  inputs = { name = "lon1" }
  wave   = "canary"
}

sites {
  for_each = toset(["par1", "dub1"])
  name     = each.key
  inputs   = { name = each.key }
}

strategy {
  wave "canary" {}

  wave "rest" {
    gate = "approve"
  }
}
"""
MODULE = """variable "name" {
  type = string
}

resource "nexus_site" "lab" {
  name = var.name
}
"""


@pytest.mark.of_domains("remote_state", "sites")
@pytest.mark.parametrize("signed", [True, False])
def test_sites_are_planned_and_each_job_applies_a_wave(
    signed: bool, repository: GitHubRepository, keys: dict[str, str]
) -> None:
    hub = repository.hub
    address = repository.settings.partition("=")[2].partition("/lab\n")[0]
    tree = repository.place / "sites"
    (tree / "sites" / "site").mkdir(parents=True)
    (tree / ".git").mkdir()
    (tree / "sites" / "nexusform.sites.hcl").write_text(SITES.replace("ADDRESS", address))
    (tree / "sites" / "site" / "main.nf.hcl").write_text(MODULE)
    inputs = {"sites": "true", "directory": "sites", "allow-remote": address}
    planned = hub.plan(tree, "head1", {}, **inputs)
    assert planned.success, planned.log
    assert "3 sites" in hub.comments[0]
    hub.merge("head1", "merged1")
    if signed:
        signing = {"sign-key": keys["private"], "sites": "true", "directory": "sites"}
        assert hub.job("sign", None, 1001, "merged1", "push", {}, signing).success
        inputs["verify-key"] = keys["public"]

    def apply(wave: str) -> JobResult:
        return hub.job("apply", tree, 1001, "merged1", "push", {}, {**inputs, "wave": wave})

    early = apply("rest")
    assert not early.success
    assert "was not applied yet" in early.log
    assert apply("canary").success
    locked = repository.store.places.setdefault("/par1", StoredState())
    locked.lock = (
        b'{"ID": "1", "Operation": "apply", "Who": "a@b", "Created": "2026-11-21T00:00:00Z"}'
    )
    failed = apply("rest")
    assert not failed.success
    assert "par1" in failed.log
    assert [path for path, place in repository.store.places.items() if place.document] == ["/lon1"]
    locked.lock = None
    # "Re-run failed jobs".
    repeated = apply("rest")
    assert repeated.success, repeated.log
    assert all(place.document for place in repository.store.places.values())


def test_second_push_is_compared_with_the_first(repository: GitHubRepository) -> None:
    assert repository.plan(repository.tree(1), "aaa1").success
    assert "> - **Since " not in repository.hub.comments[0]
    assert repository.plan(repository.tree(3), "bbb1").success
    assert "> - **Since " in repository.hub.comments[0]


STRANGERS = 40
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")


def write_foreign_comments(hub: FakeGitHub, mark: str) -> list[Any]:
    """Let strangers comment with the mark of a recipe on pull request 5; return the comments."""
    texts = ("", "\n2 to add: Allowed", " trailing", "\n\n### nexusform: no changes")
    rows = [
        {"id": number, "issue": 5, "body": f"{mark}{texts[number % len(texts)]}"}
        for number in range(1, STRANGERS + 1)
    ]
    hub.write("comments", rows)
    return rows


@needs_node
def test_comment_of_a_stranger_is_left_alone_and_reported(repository: GitHubRepository) -> None:
    foreign = write_foreign_comments(repository.hub, "<!-- nexusform lab -->")
    first = repository.plan(repository.tree(1), "aaa1")
    assert first.success, first.log
    assert first.log.count("of another user has its mark and is left alone") == STRANGERS
    assert repository.plan(repository.tree(3), "bbb1").success
    rows = repository.hub.read("comments")
    assert rows[:STRANGERS] == foreign
    (own,) = rows[STRANGERS:]
    assert own["isOwn"]
    assert "4 to add" in own["body"]


@needs_node
def test_prediction_leaves_comments_of_strangers_alone(repository: GitHubRepository) -> None:
    hub = repository.hub
    hub.program("terraform", FAILING_TERRAFORM.replace("PLAN", str(EXAMPLE / "plan.json")))
    tree = repository.place / "terraform"
    (tree / "live" / "lab").mkdir(parents=True)
    (tree / "live" / "lab" / "main.tf").write_text("# all is well\n")
    shutil.copytree(EXAMPLE / "export", tree / "export")
    foreign = write_foreign_comments(hub, "<!-- nexusform placements live/lab -->")
    for head in ("head1", "head2"):
        job = hub.foretell(tree, head)
        assert job.success, job.log
    rows = hub.read("comments")
    assert rows[:STRANGERS] == foreign
    assert [row["isOwn"] for row in rows[STRANGERS:]] == [True]
    assert job.log.count("is left alone") == STRANGERS


TO_RELEASE = PullRequest(number=6, base="release")
OF_FORK = PullRequest(number=7, repository="fork/r")


@needs_node
@pytest.mark.parametrize("other", [TO_RELEASE, OF_FORK], ids=["release", "fork"])
@pytest.mark.parametrize("is_planned_last", [True, False])
def test_two_pull_requests_of_one_commit_have_their_own_plans(
    repository: GitHubRepository, other: PullRequest, is_planned_last: bool
) -> None:
    """Both have the head aaa1, but the merges with their bases differ."""
    hub = repository.hub
    requests = [(PullRequest(), 1), (other, 3)]
    for request, racks in requests if is_planned_last else requests[::-1]:
        settings = {"backend-config": repository.settings}
        job = hub.plan(repository.tree(racks), "aaa1", {}, request, **settings)
        assert job.success, job.log
        assert "**Since" not in hub.comments[-1]
    texts = {row["issue"]: row["body"] for row in hub.read("comments")}
    assert "2 to add" in texts[5]
    assert "4 to add" in texts[other.number]
    for request in (PullRequest(), other):
        job = hub.explain("nexusform explain nexus_rack.r", "aaa1", request)
        assert job.success, job.log
        used = job.temporary / "nexusform-explain" / "plan" / "request"
        assert used.read_text() == f"{request.number} {request.base}\n"
    # A merge of both lists both.
    hub.write("pulls", [])
    hub.merge("aaa1", "merged1", other)
    if other.base != "main":
        hub.merge("aaa1", "merged1")
        (applied,) = repository.after_merge(repository.tree(1), "merged1", {})
        assert applied.success, applied.log
        assert repository.racks == 1
    else:
        (applied,) = repository.after_merge(repository.tree(3), "merged1", {})
        assert applied.success, applied.log
        assert repository.racks == 3


@needs_node
def test_plan_of_a_forked_workflow_is_not_applied(repository: GitHubRepository) -> None:
    """A fork runs a workflow file of the same path on the head of the merged pull request."""
    hub = repository.hub
    forged = PullRequest(repository="fork/r")
    settings = {"backend-config": repository.settings}
    assert hub.plan(repository.tree(3), "aaa1", {}, forged, **settings).success
    hub.merge("aaa1", "merged1")
    (applied,) = repository.after_merge(repository.tree(3), "merged1", {})
    assert not applied.success
    assert "no run for a pull request of merged1 has a plan for main" in applied.log
    assert not any(place.document for place in repository.store.places.values())
    explained = hub.explain("nexusform explain nexus_rack.r[0]", "aaa1")
    assert explained.success
    assert "reviewed.plan" in hub.read("answers")[-1]
    # The comparison with the last push uses no plan of the fork, either.
    assert hub.plan(repository.tree(1), "bbb1", {}, **settings).success
    assert "**Since" not in hub.comments[-1]


CLUSTER = """
resource "nexus_kubernetes_cluster" "core" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""


def test_nightly_job_fails_if_spare_capacity_is_too_small(repository: GitHubRepository) -> None:
    (described,) = CAPACITY["jobs"].values()
    (used,) = [step["with"] for step in described["steps"] if step["uses"].startswith("./")]
    inputs = {**used, "backend-config": repository.settings}
    tree = repository.tree(1)
    main = tree / "lab" / "main.nf.hcl"
    main.write_text(main.read_text() + CLUSTER)
    night = repository.hub.job("plan", tree, 1, "main1", "schedule", {}, inputs)
    assert night.success, night.log
    assert "passed capacity:5" in night.log
    inputs["arguments"] = inputs["arguments"].replace(":5", ":500")
    night = repository.hub.job("plan", tree, 2, "main1", "schedule", {}, inputs)
    assert not night.success
    assert "BLOCKED by capacity:500" in night.log
    # It comments on no pull request.
    assert repository.hub.comments == []


def test_withdrawn_plan_is_not_applied(
    repository: GitHubRepository, keys: dict[str, str], tmp_path: Path
) -> None:
    tree = repository.tree(1)
    planned = repository.plan(tree, "aaa1")
    assert planned.success
    (plan,) = planned.temporary.rglob("reviewed.plan")
    (tmp_path / "plan.key").write_text(keys["private"])
    words = ["sign", "-withdraw", "-key=plan.key", "-revocations=withdrawn.json", str(plan)]
    subprocess.run([*commands.nexusform(), *words], cwd=tmp_path, check=True)
    repository.hub.merge("aaa1", "merged1")
    signing, applying = repository.after_merge(
        tree, "merged1", keys, revocations=(tmp_path / "withdrawn.json").read_text()
    )
    assert signing.success
    assert not applying.success
    assert "withdrawn" in applying.log
    assert not any(place.document for place in repository.store.places.values())


def test_plan_signed_with_another_key_is_not_applied(
    repository: GitHubRepository, keys: dict[str, str], tmp_path: Path
) -> None:
    tree = repository.tree(1)
    assert repository.plan(tree, "aaa1").success
    repository.hub.merge("aaa1", "merged1")
    create_signing_key(tmp_path / "other.key", tmp_path / "other.pub")
    other = {**keys, "public": (tmp_path / "other.pub").read_text()}
    signing, applying = repository.after_merge(tree, "merged1", other)
    assert signing.success
    assert not applying.success
    assert not any(place.document for place in repository.store.places.values())


def test_failed_or_killed_plan_is_neither_kept_nor_applied(repository: GitHubRepository) -> None:
    tree = repository.tree(1)
    assert repository.plan(tree, "old1").success
    dies = 'case "$*" in *" plan "*) kill -9 $$;; esac'
    repository.hub.program("nexusform", f"#!/bin/sh\n{dies}\n{commands.build_shell_line()}\n")
    job = repository.plan(tree, "head1")
    assert not job.success
    assert "there is no plan (exit code 137)" in job.log
    assert "planning failed" in repository.hub.comments[0]
    repository.hub.merge("head1", "merged1")
    (applying,) = repository.after_merge(tree, "merged1", {})
    assert not applying.success
    assert "no run for a pull request of merged1 has a plan for main" in applying.log
    assert not any(place.document for place in repository.store.places.values())


def test_run_ended_before_planning_replaces_the_comment(repository: GitHubRepository) -> None:
    tree = repository.tree(1)
    repository.hub.write(
        "comments",
        [{"id": 1, "issue": 5, "isOwn": True, "body": "<!-- nexusform lab -->\n2 to add: Allowed"}],
    )
    # Without the text of the pull request there is nothing to review, so the job ends there.
    job = repository.hub.plan(
        tree, "head2", {}, **{"backend-config": repository.settings, "review": "true"}
    )
    assert not job.success
    (comment,) = repository.hub.comments
    assert "### nexusform: no plan for head2" in comment
    assert "2 to add" not in comment
    assert "before planning" in (job.temporary / "summary.md").read_text()


# A `terraform` with the plan of the example, or none for a configuration with a mistake.
FAILING_TERRAFORM = """#!/bin/sh
case "$*" in
  *" plan "*)
    if grep -q mistake "${1#-chdir=}/main.tf"; then echo 'Error: Unsupported argument' >&2; exit 1; fi ;;
  *" show "*) cat PLAN ;;
esac
"""  # noqa: E501


def test_failed_terraform_plan_replaces_the_comment(repository: GitHubRepository) -> None:
    hub = repository.hub
    hub.program("terraform", FAILING_TERRAFORM.replace("PLAN", str(EXAMPLE / "plan.json")))
    tree = repository.place / "terraform"
    (tree / "live" / "lab").mkdir(parents=True)
    (tree / "live" / "lab" / "main.tf").write_text("# all is well\n")
    shutil.copytree(EXAMPLE / "export", tree / "export")
    good = hub.foretell(tree, "head1")
    assert good.success, good.log
    assert "### nexusform: 2 to add, 17 VMs to place, nothing moves" in hub.comments[0]
    (tree / "live" / "lab" / "main.tf").write_text("# a mistake\n")
    bad = hub.foretell(tree, "head2")
    # The check has failed.
    assert not bad.success
    assert "Unsupported argument" in bad.log
    (comment,) = hub.comments
    assert "### nexusform: no prediction for head2" in comment
    assert "Terraform has no plan" in comment
    assert "https://github.example/o/r/actions/runs/" in comment
    assert "Allowed" not in comment
    assert "to add" not in comment


@pytest.mark.parametrize("name", select_cases(list(REQUESTS)))
def test_hostile_pull_request_gets_no_secrets_or_commands(
    name: str, repository: GitHubRepository
) -> None:
    repository.outside.mkdir()
    (repository.outside / "secret").write_text(TOKEN)
    (repository.outside / "secret.json").write_text(json.dumps({"locals": {"a": TOKEN}}))
    (repository.outside / "main.nf.hcl").write_text(f'output "o" {{\n  value = "{TOKEN}"\n}}\n')
    with run_bad_server(build_raw_answer(b"")) as visited:
        tree = repository.tree(1)
        repository.add(tree, REQUESTS[name], visited.address)
        job = repository.plan(tree, "head1")
        log = job.log
        if job.success:
            log += repository.hub.explain(
                "nexusform explain nexus_kubernetes_cluster.a", "head1"
            ).log
        assert not visited.heads
    assert not find_runner_commands(log), find_runner_commands(log)
    assert not any(place.document for place in repository.store.places.values())
    assert sorted(file.name for file in repository.outside.iterdir()) == [
        "main.nf.hcl",
        "secret",
        "secret.json",
    ]
    assert sorted(file.name for file in repository.place.iterdir()) == ["hub", "outside", "tree1"]
    assert "Traceback" not in log
    said = [*repository.hub.comments, *repository.hub.read("answers")]
    assert len(said) == 1 + job.success
    # The comment has the error of init, not the missing backend settings after it.
    assert "Missing backend setting" not in repository.hub.comments[0]
    for comment in said:
        assert COMMAND.search(comment) is None, COMMAND.search(comment)
        assert REFERENCE.search(extract_text(comment)) is None, REFERENCE.search(
            extract_text(comment)
        )
        assert not re.search(
            r"<(?:img|script|a)\b|(?<!\\)\]\((?:javascript|data):", extract_text(comment)
        )
    kept = [file for file in job.temporary.rglob("*") if file.is_file()]
    assert not [file for file in kept if TOKEN.encode() in file.read_bytes()]
    assert TOKEN not in "".join((*said, log))
