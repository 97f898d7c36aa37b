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
TOKEN = "ghs_canary_4be1"


@dataclass
class FakeGitLab:
    """Content of the host.

    It has comments by id, merge requests of a commit, pipelines, jobs and artifacts.
    """

    notes: dict[int, str] = field(default_factory=dict)
    # Users of notes by strangers; the others are of the user of the token.
    strangers: dict[int, int] = field(default_factory=dict)
    merge_requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[int, bytes] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, body: bytes) -> bytes | None:
        """Return the answer to a request; None for an unknown path."""
        bare = path.partition("?")[0].removeprefix(PROJECT)
        if bare == "/api/v4/user":
            return b'{"id": 7}'
        if method in ("POST", "PUT") and "/notes" in bare:
            number = int(bare.rpartition("/")[2]) if method == "PUT" else len(self.notes) + 1
            self.notes[number] = json.loads(body)["body"]
            return b"{}"
        if bare.endswith("/notes"):
            return json.dumps(
                [
                    {"id": number, "body": text, "author": {"id": self.strangers.get(number, 7)}}
                    for number, text in self.notes.items()
                ]
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


# `gh api` filters the answers by jq, which finds variables of the environment.
GH = f"""#!{sys.executable} -I
import json, os, pathlib, shutil, subprocess, sys
host = pathlib.Path(os.environ["GH_HOST_DIRECTORY"])
words = sys.argv[1:]
def kept(name):
    return json.loads((host / name).read_text())
def after(flag):
    return words[words.index(flag) + 1] if flag in words else ""
def answer(document):
    command = ["jq", "-r", after("--jq")]
    subprocess.run(command, input=json.dumps(document), text=True, check=True)
assert os.environ["GH_TOKEN"] == {TOKEN!r}
path = next((word for word in words[1:] if word.startswith("repos/")), "").partition("?")[0]
if words[0] == "api" and path.endswith("/comments"):
    text = pathlib.Path(after("-F").removeprefix("body=@")).read_text()
    (host / "answers.json").write_text(json.dumps([*kept("answers.json"), text]))
elif words[0] == "api" and path.endswith("/runs"):
    fields = dict(word.split("=", 1) for word in words if "=" in word and "==" not in word)
    names = {{"head_sha": "sha", "event": "event", "status": "conclusion", "branch": "head_branch"}}
    workflow = path.split("/")[-2]
    found = [
        run
        for run in kept("runs.json")
        if run["workflow"] == workflow
        and all(run[name] == fields[given] for given, name in names.items() if given in fields)
    ]
    answer({{"workflow_runs": found}})
elif words[0] == "api" and "/commits/" in path:
    answer(kept("pulls.json"))
elif words[0] == "api":
    number = int(path.rpartition("/")[2])
    answer(next(one for one in kept("pulls.json") if one["number"] == number))
elif words[:2] == ["run", "download"]:
    source = host / "artifacts" / words[2] / after("--name")
    if not source.is_dir():
        sys.exit(1)
    shutil.copytree(source, after("--dir"), dirs_exist_ok=True)
else:
    sys.exit(f"gh: unknown: {{words}}")
"""
