"""Tests of the lines and questions of `sites apply`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.domains.sites.conftest import DEFINITION
from tests.terminals import CTRL_C, list_lines, run_at_terminal

GATED = DEFINITION.replace('wave "rest" {}', 'wave "rest" {\n    gate = "approve"\n  }').replace(
    'wave "canary" {}', 'wave "canary" {\n    soak = "1s"\n  }'
)
PROMPT = "Enter a value:"
QUESTION = [
    'Do you want to apply the wave "rest" (2 sites)?',
    "  Only 'yes' will be accepted to approve.",
]


def test_stdout_is_one_document_with_json(
    fleet: Callable[..., None], command: Callable[..., tuple[int, str, str]]
) -> None:
    fleet(definition=GATED)
    for flag in ("-report=json:-", "-json"):
        assert command("plan", "-out=f.nfsites")[0] == 0
        code, out, err = command("apply", "-wave=canary", flag, "f.nfsites")
        assert code == 0
        assert json.loads(out)["errored"] is False
        assert err.splitlines()[:3] == [
            'Wave "canary": 1 site.',
            "  lon1: applied",
            'Wave "canary" is done: 1 applied.',
        ]
        Path("sites.json").write_text(json.dumps({"par1": {}, "par2": {}}))
        Path("nexusform.sites.hcl").write_text(
            GATED.replace('name = "lon1" }', 'name = "lon1", workers = 1 }')
        )


def test_lines_and_question_of_each_wave(fleet: Callable[..., None], tmp_path: Path) -> None:
    fleet(definition=GATED)
    assert run_at_terminal(["sites", "plan", "-out=f.nfsites"], [], tmp_path)[0] == 0
    apply = ["sites", "apply", "-workers=1", "f.nfsites"]
    code, shown = run_at_terminal(apply, [(PROMPT, "no\n")], tmp_path)
    assert code == 1
    assert list_lines(shown)[:7] == [
        'Wave "canary": 1 site.',
        "  lon1: applied",
        'Wave "canary" is done: 1 applied.',
        'Waiting 1s before the wave "rest" (soak).',
        *QUESTION,
        f"  {PROMPT} no",
    ]
    assert list_lines(shown)[-4:] == [
        "│ Error: A wave waits for approval",
        "│",
        '│ The wave "rest" waits for approval. Approve it with -wave=rest.',
        "╵",
    ]
    resume = [*apply[:2], "-resume", *apply[2:]]
    code, shown = run_at_terminal(resume, [(PROMPT, CTRL_C)], tmp_path)
    assert code == 1
    assert list_lines(shown)[:4] == [*QUESTION, f"  {PROMPT} ^C", "Applied 1 of 3 sites"]
    code, shown = run_at_terminal(resume, [(PROMPT, "yes\n")], tmp_path)
    assert code == 0
    lines = list_lines(shown)
    assert lines[:4] == [*QUESTION, f"  {PROMPT} yes", 'Wave "rest": 2 sites.']
    assert sorted(lines[4:6]) == ["  par1: applied", "  par2: applied"]
    assert lines[6] == 'Wave "rest" is done: 2 applied.'
