"""A whole dump of a running hub on which nothing is to be done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run
from tests.domains.fleet.planning.hub_dumps import needs_recordings, recorded, write_dump

pytestmark = needs_recordings


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dump(recorded("dump")["items"], tmp_path)


def test_nothing_is_to_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = told(capsys, "plan", "-out", "saved.nfplan")
    assert code == 0, out
    assert "0 to place, 0 to move, 0 to remove, 11 kept" in out
    assert "! " not in out
    assert "How it rolls out" not in out
    for never in ("Event", "kube-", "fleet-member-", "fleet-system", "Namespace default", "Work "):
        assert never not in out, never
    code, out = told(capsys, "apply", "saved.nfplan")
    assert (code, "Apply complete!" in out) == (0, True), out
    code, out = told(capsys, "plan", "-detailed-exitcode")
    assert (code, "No changes." in out, "11 kept" in out) == (0, True, True), out


def test_snapshots_keep_their_numbers_and_contents(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "apply", "-auto-approve")
    code, out = told(capsys, "state", "pull")
    assert code == 0
    state = json.loads(out)
    placement = _instance(state, "core")
    snapshots = {one["index"]: one for one in placement["private"]["snapshots"]}
    assert sorted(snapshots) == [0, 1]
    bodies = placement["private"]["bodies"]
    data = {i: [bodies[h].get("data") for h in one["objects"]] for i, one in snapshots.items()}
    assert data == {0: [None, {"a": "v0"}], 1: [None, {"a": "v1"}]}


def _instance(state: Any, key: str) -> dict[str, Any]:
    """The placement of this name, wherever the state keeps it."""
    found: list[dict[str, Any]] = []

    def look(part: Any) -> None:
        if isinstance(part, dict):
            private, attributes = part.get("private"), part.get("attributes")
            noted = isinstance(private, dict) and "snapshots" in private
            if noted and isinstance(attributes, dict) and attributes.get("id") == key:
                found.append(part)
            for inner in part.values():
                look(inner)
        elif isinstance(part, list):
            for inner in part:
                look(inner)

    look(state)
    return found[0]
