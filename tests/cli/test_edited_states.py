"""A state edited by hand or by another program: a diagnostic or a plan, never an internal error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.json_data.plain_data import Path as JsonPath
from nexusform.state.state_codec import decode_state
from nexusform.workflow.opening.stored_state import load_schemas
from tests.kill_points import select_cases

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAN = ["plan", "-no-color", "-samples=0"]
# Of the paths whose changes the reader accepts, one in so many is planned: each plan takes 50 ms.
STRIDE = 40


def delete(holder: Any, step: Any) -> None:
    del holder[step]


def set_null(holder: Any, step: Any) -> None:
    holder[step] = None


def set_text(holder: Any, step: Any) -> None:
    holder[step] = "zzz"


def set_list(holder: Any, step: Any) -> None:
    holder[step] = []


EDITS: tuple[Callable[[Any, Any], None], ...] = (delete, set_null, set_text, set_list)


def edit(text: str, path: JsonPath, change: Callable[[Any, Any], None]) -> bytes:
    document = json.loads(text)
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    change(holder, path[-1])
    return json.dumps(document).encode()


def list_paths(value: Any, path: JsonPath, shapes: set[JsonPath]) -> Iterator[JsonPath]:
    """Yield the paths of all parts; of the items of a list, only those of a new shape."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for step, part in parts:
        part_path = (*path, step)
        shape = tuple("#" if isinstance(item, int) else item for item in part_path)
        if shape not in shapes:
            shapes.add(shape)
            yield part_path
        if isinstance(part, dict | list):
            yield from list_paths(part, part_path, shapes)


def list_first_objects(text: str) -> list[JsonPath]:
    """Return the paths in the first resource of each type, and in the rest of the document."""
    document = json.loads(text)
    types: set[str] = set()
    paths = list(list_paths({**document, "resources": []}, (), set()))
    for index, resource in enumerate(document["resources"]):
        if resource["type"] not in types:
            types.add(resource["type"])
            paths += list_paths(resource, ("resources", index), set())
    return paths


@pytest.fixture
def apply_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Path]:
    def apply(example: str) -> Path:
        directory = tmp_path / example
        shutil.copytree(EXAMPLES / example, directory)
        monkeypatch.chdir(directory)
        assert run_command_line(["apply", "-auto-approve"]) == 0
        capsys.readouterr()
        (path,) = directory.glob("state/*.nfstate")
        return path

    return apply


@pytest.mark.parametrize("example", ["end-to-end", "fleet"])
def test_no_edit_of_a_state_is_an_internal_error(
    example: str, apply_example: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = apply_example(example)
    text = path.read_text()
    accepted = []
    parts = select_cases(list_first_objects(text))
    for change in EDITS:
        for part in parts:
            document = edit(text, part, change)
            state, problems = decode_state(document, "s", load_schemas())
            assert (state is None) == bool(problems), (change.__name__, part)
            if state is not None:
                accepted.append((change.__name__, part, document))
    failures = []
    for name, part, document in accepted[::STRIDE]:
        path.write_bytes(document)
        run_command_line(PLAN)
        output = capsys.readouterr()
        if "Internal error" in output.out + output.err:
            failures.append((name, part))
    assert failures == []


PLACEMENT = ("attributes", "policy_snapshot")
STATUS = ("attributes", "placement_statuses", 0)
WRONG_PARTS: tuple[tuple[str, JsonPath, Callable[[Any, Any], None], str], ...] = (
    ("placement", (*PLACEMENT, "index"), delete, '"index" is missing.'),
    ("placement", (*PLACEMENT, "hash"), set_null, '"hash" is missing.'),
    ("placement", (*STATUS, "conditions", 0, "type"), delete, '"type" is missing.'),
    ("placement", ("private", "snapshots", 0), set_null, '"snapshots" must be an object, not null'),
    ("placement", ("private", "snapshots", 0, "index"), set_text, '"index" must be a number.'),
    ("placement", ("private", "snapshots", 0, "objects"), delete, '"objects" is missing.'),
    ("placement", ("private", "bodies", "*"), set_text, "must be an object"),
    ("member", ("private", "health"), set_text, '"health" must be one of "Healthy"'),
    ("member", ("private", "properties", "*"), set_list, "must be a string, not a list."),
)


def test_each_wrong_part_has_a_diagnostic(
    apply_example: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = apply_example("end-to-end")
    text = path.read_text()
    resources = json.loads(text)["resources"]
    for kind, part, change, message in WRONG_PARTS:
        index = next(i for i, item in enumerate(resources) if kind in item["type"])
        whole_part: JsonPath = ("resources", index, "instances", 0, *part)
        if part[-1] == "*":
            holder = resources[index]["instances"][0]
            for step in part[:-1]:
                holder = holder[step]
            whole_part = (*whole_part[:-1], next(iter(holder)))
        path.write_bytes(edit(text, whole_part, change))
        assert run_command_line(PLAN) == 1
        error = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert message in error, (part, error)
        assert "Fix the document, or replace it with a backup" in error


def test_remedy_of_a_damaged_pushed_file_names_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for document in ("{", '{"format": "nexusform", "kind": "state", "version": 1, "serial": "x"}'):
        (tmp_path / "pushed.json").write_text(document)
        assert run_command_line(["state", "push", "pushed.json"]) == 1
        error = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert "Fix the document." in error
        assert "backup" not in error
