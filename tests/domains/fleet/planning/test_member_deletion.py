"""Recorded states of a running hub while a member leaves, with its bindings.

Every state predicts the last one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.fleet.planning.hub_dumps import build_configuration, get_object_key, write_dump
from tests.domains.fleet.planning.test_hub_stories import (
    Dump,
    list_bindings,
    list_predicted_bindings,
)
from tests.planning.harness import list_errors, plan

# PickAll of three; PickN of two of three; PickN of six with three members; PickFixed of
# three: 25 % may be unavailable, of lv-n6 two. z3 leaves; each state is one dump, the last
# one after all events.
STATES: list[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("a_member_leaves.json").read_text()
)


@pytest.mark.parametrize("number", range(len(STATES)))
def test_every_state_predicts_remaining_bindings(number: int) -> None:
    last = list_bindings({get_object_key(each): each for each in STATES[-1]})
    result = plan(build_configuration(), files_there=Dump(STATES[number]))
    assert not list_errors(result)
    assert list_predicted_bindings(result) == last
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
