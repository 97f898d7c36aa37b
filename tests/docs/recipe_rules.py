"""Supply-chain rules of recipes that users copy, and of the workflows of this repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

_USES = re.compile(r"(?m)^\s*(?:-\s+)?(?:if: .*\n\s*)?uses:\s*(.*)$")
_LOCAL = re.compile(r"\./\S+")
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
_DEFAULT_BRANCH = "${{ github.event.repository.default_branch }}"
# Events that run with the text of a request; all others run text of the default branch.
_REQUEST = "github.event_name == 'pull_request'"


def find_violations(text: str) -> list[str]:
    """Return what a recipe, workflow or action does against the rules."""
    documents = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    return [
        *_find_unpinned_actions(text),
        *_find_installs_outside(text),
        *(finding for document in documents for finding in _find_workflow_violations(document)),
    ]


def _find_unpinned_actions(text: str) -> Iterator[str]:
    for used in _USES.findall(text):
        if not (_LOCAL.fullmatch(used.strip()) or _PINNED.fullmatch(used.strip())):
            yield f"not pinned by commit with its tag: {used}"


def _find_installs_outside(text: str) -> Iterator[str]:
    """Yield each pip that is not of a virtual environment below the runner's own directory."""
    for line in text.splitlines():
        command = line.strip().removeprefix("- ")
        if command.startswith("#") or not re.search(r"\bpip3? (?:install|download)\b", command):
            continue
        if not command.startswith('"$venv/bin/python" -I -m pip '):
            yield f"installs outside of a virtual environment: {command}"
    for place in re.findall(r'(?m)^\s*venv="?([^"\n]*)', text):
        if not place.startswith(("$RUNNER_TEMP/", "$CI_PROJECT_DIR.tmp/")):
            yield f"virtual environment in {place}"


def _find_workflow_violations(document: dict[Any, Any]) -> Iterator[str]:
    # YAML 1.1 reads the key `on` as true.
    events = document.get("on", document.get(True)) or ()
    names = [events] if isinstance(events, str) else list(events)
    if "pull_request_target" in names:
        yield "runs with the secrets of the repository on the text of a request"
    for name, job in (document.get("jobs") or {}).items():
        steps = job.get("steps", [])
        checkouts = [
            step.get("with", {})
            for step in steps
            if step.get("uses", "").startswith("actions/checkout@")
        ]
        if any(settings.get("persist-credentials") is not False for settings in checkouts):
            yield f"job {name} leaves its token in the work tree"
        permissions = job.get("permissions", document.get("permissions"))
        if _runs_on_requests(names, job) and _has_identity(permissions, job):
            yield from _find_actions_of_the_request(name, steps)


def _runs_on_requests(events: list[str], job: dict[str, Any]) -> bool:
    condition = str(job.get("if", _REQUEST))
    return "pull_request" in events and (
        _REQUEST in condition or "github.event_name" not in condition
    )


def _has_identity(permissions: object, job: dict[str, Any]) -> bool:
    """Return whether a job can sign in elsewhere, or write to the repository."""
    if isinstance(permissions, dict):
        writes = "write" in permissions.values()
    else:
        writes = permissions not in ({}, "read-all")
    return writes or "secrets." in str(job)


def _find_actions_of_the_request(name: str, steps: list[dict[str, Any]]) -> Iterator[str]:
    """Yield each local action that is not of the default branch.

    A request can add a link or a directory at the path of the checkout, so it is deleted first.
    """
    deleted: set[str] = set()
    trusted: set[str] = set()
    for step in steps:
        used = step.get("uses", "")
        if used.startswith("actions/checkout@"):
            settings = step.get("with", {})
            path = settings.get("path", ".")
            if path == ".":
                trusted.clear()
            elif settings.get("ref") == _DEFAULT_BRANCH and path in deleted:
                trusted.add(path)
            else:
                trusted.discard(path)
        elif used.startswith("./") and used.removeprefix("./").partition("/")[0] not in trusted:
            yield f"job {name} takes {used} from the request"
        deleted |= set(re.findall(r"(?m)^rm -rf ([\w.-]+)$", step.get("run", "")))
