"""Fakes of code hosts: the part of GitLab's API used by the recipe, and a `gh`.

The fake of GitLab also has its state store.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.contracts import http_state_server
from tests.contracts.http_state_server import Handler, ServerContent
from tests.crowded_server import read_body

PROJECT = "/api/v4/projects/1"


@dataclass
class FakeGitLab:
    """Content of the host.

    It has comments by id, merge requests of a commit, pipelines, jobs and artifacts.
    """

    notes: dict[int, str] = field(default_factory=dict)
    merge_requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[int, bytes] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, body: bytes) -> bytes | None:
        """Return the answer to a request; None for an unknown path."""
        bare = path.partition("?")[0].removeprefix(PROJECT)
        if method in ("POST", "PUT") and "/notes" in bare:
            number = int(bare.rpartition("/")[2]) if method == "PUT" else len(self.notes) + 1
            self.notes[number] = json.loads(body)["body"]
            return b"{}"
        if bare.endswith("/notes"):
            return json.dumps(
                [{"id": number, "body": text} for number, text in self.notes.items()]
            ).encode()
        if match := re.fullmatch(r"/repository/commits/(\w+)/merge_requests", bare):
            return json.dumps(self.merge_requests.get(match[1], [])).encode()
        if re.fullmatch(r"/merge_requests/\d+/pipelines", bare):
            return json.dumps(self.pipelines).encode()
        if match := re.fullmatch(r"/pipelines/(\d+)/jobs", bare):
            jobs = self.jobs.get(int(match[1]))
            return None if jobs is None else json.dumps(jobs).encode()
        if match := re.fullmatch(r"/jobs/(\d+)/artifacts", bare):
            return self.artifacts.get(int(match[1]))
        return None


@contextmanager
def run_gitlab() -> Iterator[tuple[str, FakeGitLab, ServerContent]]:
    """Run a GitLab with one project; yield its address, its content and its state store."""
    host = FakeGitLab()
    handle_state = Handler.handle_any

    def handle_request(self: Handler) -> None:
        if "/terraform/state/" in self.path:
            handle_state(self)
            return
        host.tokens.add(self.headers.get("PRIVATE-TOKEN", ""))
        body = read_body(self)
        content = host.answer(self.command, self.path, body)
        self.answer(404 if content is None else 200, content or b"")

    methods = dict.fromkeys(
        ("do_GET", "do_POST", "do_PUT", "do_DELETE", "do_LOCK", "do_UNLOCK"), handle_request
    )
    with http_state_server.run_state_server(type("GitLabHandler", (Handler,), methods)) as (
        address,
        store,
    ):
        yield f"{address}/api/v4", host, store


GH = f"""#!{sys.executable} -I
import json, os, pathlib, shutil, sys
host = pathlib.Path(os.environ["GH_HOST_DIRECTORY"])
words = sys.argv[1:]
if words[:1] == ["api"]:
    pulls = json.loads((host / "pulls.json").read_text())
    sha = os.environ["GITHUB_SHA"]
    assert "merge_commit_sha == env.GITHUB_SHA" in words[words.index("--jq") + 1]
    merged = [one for one in pulls if one["merged_at"] and one["merge_commit_sha"] == sha]
    print(merged[0]["head"]["sha"] if merged else "")
elif words[:2] == ["run", "list"]:
    commit = words[words.index("--commit") + 1]
    assert words[words.index("--status") + 1] == "success"
    workflow = words[words.index("--workflow") + 1]
    for run in json.loads((host / "runs.json").read_text()):
        if (run["sha"], run["workflow"], run["conclusion"]) == (commit, workflow, "success"):
            print(run["id"])
elif words[:2] == ["run", "download"]:
    source = host / "artifacts" / words[2] / words[words.index("--name") + 1]
    if not source.is_dir():
        sys.exit(1)
    shutil.copytree(source, words[words.index("--dir") + 1], dirs_exist_ok=True)
"""
