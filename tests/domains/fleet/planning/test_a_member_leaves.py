"""A member leaves a running hub, recorded with its bindings: every recorded state foretells the last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.fleet.planning.hub_dumps import configuration, key_of, write_dump
from tests.domains.fleet.planning.test_hub_stories import Dump, foretold, held
from tests.planning.harness import errors, plan

# PickAll of three; PickN of two of three; PickN of six with three members; PickFixed of three: 25 % may be
# missed, of lv-n6 two. z3 leaves; each state is one dump, the last one when nothing happened any more.
STATES: list[list[dict[str, Any]]] = json.loads(Path(__file__).with_name("a_member_leaves.json").read_text())


@pytest.mark.parametrize("number", range(len(STATES)))
def test_every_state_predicts_remaining_bindings(number: int) -> None:
    last = held({key_of(each): each for each in STATES[-1]})
    result = plan(configuration(), files_there=Dump(STATES[number]))
    assert not errors(result)
    assert foretold(result) == last
    assert {name: each.get("z3") for name, each in last.items()} == {
        "lv-all": None,
        "lv-n2": None,
        "lv-n6": ("Unscheduled", 0),
        "lv-fix": ("Unscheduled", 0),
    }


def test_pending_eviction_is_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    eviction = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": "e"},
        "spec": {"placementName": "lv-n2", "clusterName": "z1"},
    }
    write_dump([*STATES[-1], eviction], tmp_path)
    for _ in range(2):
        assert run_command_line(("plan", "-details")) == 0
        captured = capsys.readouterr()
        assert "(evicted)" in captured.out + captured.err
        assert run_command_line(("apply", "-auto-approve")) == 0
        capsys.readouterr()
