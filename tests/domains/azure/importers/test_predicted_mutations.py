"""Tests of plans of other tools with one part replaced.

They are read or rejected, without an exception.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.azure.importers.arm_what_if import read_arm_what_if
from nexusform.domains.azure.importers.az_inventory import read_changed_sites
from nexusform.domains.azure.importers.terraform_plan import read_terraform_plan
from nexusform.domains.azure.providers.azure_export import read_files
from nexusform.files.regular_files import UNCONFINED

EXAMPLES = Path(__file__).parents[4] / "examples"
CASES = Path(__file__).parent / "cases" / "predicted"
PUT: tuple[Any, ...] = (None, True, 5.5, "x", [], {}, [[]])
SAMPLE = 200


def list_paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, part in parts:
        yield from list_paths(part, (*at, step))


def replace_part(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replace_part(value[path[0]], path[1:], new)
    return copy


def list_errors(document: Any) -> list[str]:
    """Return the errors of a document applied to a site as in `predict`."""
    changes, problems = read_terraform_plan("terraform_plan.json", json.dumps(document).encode())
    if not any(problem.severity is Severity.ERROR for problem in problems):
        site = read_files(str(EXAMPLES / "inventory" / "export"), UNCONFINED).documents
        problems = [*problems, *read_changed_sites(site, changes, {})[2]]
    return [str(problem) for problem in problems if problem.severity is Severity.ERROR]


def test_no_part_of_a_document_crashes_its_reader() -> None:
    document = json.loads((CASES / "terraform_plan.json").read_text())
    assert list_errors(document) == []
    mutations = [(path, new) for path in list_paths(document) for new in PUT]
    for path, new in random.Random(16).sample(mutations, SAMPLE):
        list_errors(replace_part(document, path, new))


CHANGE = ("resource_changes", 2, "change")
POOL = "azapi_resource.agentpool1: "


@pytest.mark.parametrize(
    ("path", "new", "words"),
    [
        ((*CHANGE, "actions"), [[]], f'{POOL}its "change.actions" must be the actions'),
        ((*CHANGE, "actions"), None, "and is missing"),
        ((*CHANGE, "actions"), "x", 'and is the text "x"'),
        ((*CHANGE, "actions"), [], "and is a list"),
        ((*CHANGE, "actions"), 5.5, "and is the number 5.5"),
        ((*CHANGE, "actions"), ["make"], 'and is ["make"]'),
        (CHANGE, "x", f'{POOL}its "change" must be an object and is the text "x"'),
        ((*CHANGE, "after"), "x", f'{POOL}its "change.after" must be an object'),
        ((*CHANGE, "after"), None, f'{POOL}its "change.after" must be an object and is missing'),
        ((*CHANGE, "after", "type"), 5.5, f'{POOL}its "change.after.type" must be'),
        (
            (*CHANGE, "after", "body", "properties"),
            True,
            f"{POOL[:-2]}.properties: expected an object",
        ),
        ((*CHANGE, "before", "id"), "x", f'{POOL}its id "x" is not that of an agent pool'),
        (("resource_changes", 2, "address"), True, 'resource_changes[2]: its "address" must be'),
        (
            ("resource_changes", 2, "type"),
            {},
            f'{POOL}its "type" must be a string and is an object',
        ),
        (("resource_changes", 2), [], "resource_changes[2]: expected an object, not a list"),
        (("resource_changes",), True, 'its "resource_changes" must be a list, not true'),
        (("configuration",), [], 'its "configuration" must be an object, not a list'),
        (
            ("configuration", "root_module", "resources"),
            True,
            "configuration.root_module.resources: expected a list, not true",
        ),
        (
            ("configuration", "root_module", "module_calls", "cluster", "depends_on"),
            ["azapi_resource.v"],
            "configuration: its resources refer to each other in a cycle",
        ),
    ],
)
def test_malformed_resource_of_a_plan_is_rejected(
    path: tuple[Any, ...], new: Any, words: str
) -> None:
    document = json.loads((CASES / "terraform_plan.json").read_text())
    told = list_errors(replace_part(document, path, new))
    assert any(words in one for one in told), told


@pytest.mark.parametrize(
    ("path", "new", "line"),
    [
        ((*CHANGE, "after"), "x", '"address": "azapi_resource.agentpool1"'),
        (("resource_changes", 2), [], "[]"),
        (("configuration", "root_module", "resources", 0, "address"), 5.5, '"address": 5.5'),
        (("configuration", "root_module", "resources", 0, "expressions"), 7.5, "7.5"),
    ],
)
def test_finding_about_a_plan_has_its_line(path: tuple[Any, ...], new: Any, line: str) -> None:
    document = json.loads((CASES / "terraform_plan.json").read_text())
    text = json.dumps(replace_part(document, path, new), indent=1)
    _, problems = read_terraform_plan("terraform_plan.json", text.encode())
    (problem, *_) = problems
    lines = text.splitlines()
    assert problem.line
    # A resource change is at the line of its bracket.
    assert line in "".join(lines[problem.line - 1 : problem.line + 1])


def test_finding_about_a_what_if_has_its_line() -> None:
    changes = [{"resourceId": 5, "changeType": "Create"}]
    text = json.dumps({"properties": {"status": "Succeeded", "changes": changes}}, indent=1)
    _, problems = read_arm_what_if("w.json", text.encode())
    (problem, *_) = problems
    assert '"resourceId": 5' in "".join(text.splitlines()[problem.line - 1 : problem.line + 1])


def test_resource_forgotten_by_terraform_is_kept() -> None:
    document = json.loads((CASES / "terraform_plan.json").read_text())
    forgotten = {**document["resource_changes"][2]["change"], "actions": ["forget"], "after": None}
    assert list_errors(replace_part(document, CHANGE, forgotten)) == []
