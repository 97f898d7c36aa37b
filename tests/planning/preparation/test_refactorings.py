"""Tests of refactorings of modules: none of them destroys VMs in silence.

A refactoring moves by itself, or has a warning with the `moved` block that keeps all objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Action
from nexusform.resources.address import render_moved_block
from tests.planning.harness import (
    RACKS,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    pool,
)

LAB = RACKS + cluster("a", pools=pool("p", 2))
NONE = 'module "m" {\n  source = "SOURCE"\n}\n'
COUNT = 'module "m" {\n  source = "SOURCE"\n  count  = 1\n}\n'
ENABLED = 'module "m" {\n  source = "SOURCE"\n  lifecycle {\n    enabled = true\n  }\n}\n'
FOR_EACH = 'module "m" {\n  source   = "SOURCE"\n  for_each = toset(["x"])\n}\n'
# Text before and after, and the addresses that the advice moves from and to, () if the module moves
# by itself.
REFACTORINGS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "no key to count": (NONE, COUNT, ()),
    "count to no key": (COUNT, NONE, ()),
    "no key to enabled": (NONE, ENABLED, ()),
    "enabled to no key": (ENABLED, NONE, ()),
    "count to enabled": (COUNT, ENABLED, ()),
    "enabled to count": (ENABLED, COUNT, ()),
    "no key to for_each": (NONE, FOR_EACH, ("module.m", 'module.m["x"]')),
    "for_each to no key": (FOR_EACH, NONE, ('module.m["x"]', "module.m")),
    "count to for_each": (COUNT, FOR_EACH, ("module.m[0]", 'module.m["x"]')),
    "for_each to count": (FOR_EACH, COUNT, ('module.m["x"]', "module.m[0]")),
    "another key": (FOR_EACH, FOR_EACH.replace('"x"', '"y"'), ('module.m["x"]', 'module.m["y"]')),
    "another name": (NONE, NONE.replace('"m"', '"n"'), ("module.m", "module.n")),
    "another name and count": (NONE, COUNT.replace('"m"', '"n"'), ("module.m", "module.n[0]")),
    "into another module": (
        NONE,
        'module "w" {\n  source = "WRAPPER"\n}\n',
        ("module.m", "module.w.module.m"),
    ),
}


def build_files(text: str, *, is_nested: bool) -> dict[str, str]:
    """Build a configuration whose root module, or a module in it, has the text."""
    top = "../" if is_nested else "./"
    text = text.replace("SOURCE", f"{top}lab").replace("WRAPPER", f"{top}wrapper")
    files = {
        "lab/main.nf.hcl": LAB,
        "wrapper/main.nf.hcl": NONE.replace("SOURCE", "../lab"),
        "main.nf.hcl": text,
    }
    if is_nested:
        files["outer/main.nf.hcl"] = text
        files["main.nf.hcl"] = 'module "outer" {\n  source = "./outer"\n}\n'
    return files


def list_advised_moves(result: PlanResult) -> list[tuple[str, str]]:
    """List the moves that warnings advise."""
    return [
        (problem.extra["moved"]["from"], problem.extra["moved"]["to"])
        for problem in list_warnings(result)
        if "moved" in problem.extra
    ]


@pytest.mark.parametrize("is_nested", [False, True], ids=["one level", "nested"])
@pytest.mark.parametrize("name", REFACTORINGS)
def test_refactoring_destroys_nothing_in_silence(name: str, *, is_nested: bool) -> None:
    before, after, moved = REFACTORINGS[name]
    state = build_state(build_files(before, is_nested=is_nested))
    files = build_files(after, is_nested=is_nested)
    result = plan(files, state)
    assert list_errors(result) == []
    if moved:
        assert any(change.action is Action.DELETE for change in result.plan.changes)
        prefix = "module.outer." if is_nested else ""
        (move,) = list_advised_moves(result)
        assert move == (f"{prefix}{moved[0]}", f"{prefix}{moved[1]}")
        files["main.nf.hcl"] += f"\n{render_moved_block(*move)}\n"
        result = plan(files, state)
        assert list_errors(result) == []
    assert {change.action for change in result.plan.changes} == {Action.NO_OP}
    assert list_advised_moves(result) == []
    # The new addresses are recorded.
    assert is_empty(plan(files, build_state_after(result, state)))


def test_modules_of_two_levels_move_together() -> None:
    """A count on both levels, with a count of a resource in the inner module."""
    zone = 'resource "nexus_site" "s" {\n  name = "s"\n}\n'
    texts = (NONE, zone), (COUNT, zone.replace('name = "s"', 'name = "s"\n  count = 1'))
    files = [
        {
            "main.nf.hcl": call.replace("SOURCE", "./region"),
            "region/main.nf.hcl": call.replace("SOURCE", "../zone"),
            "zone/main.nf.hcl": resource,
        }
        for call, resource in texts
    ]
    for before, after in (files, files[::-1]):
        result = plan(after, build_state(before))
        assert list_errors(result) == []
        (change,) = result.plan.changes
        assert change.action is Action.NO_OP
        assert change.previous_address is not None


@pytest.mark.parametrize("index", [0, 1])
def test_explicit_move_of_a_module_has_priority(index: int) -> None:
    call = 'module "m" {\n  source = "./zone"\n  ARGUMENTS\n}\n'
    zone = 'variable "i" {}\nresource "nexus_site" "s" {\n  name = "s${var.i}"\n}\n'
    before, after = (
        {"main.nf.hcl": call.replace("ARGUMENTS", arguments), "zone/main.nf.hcl": zone}
        for arguments in ("count = 2\n  i = count.index", f"i = {index}")
    )
    if index:
        after["main.nf.hcl"] += render_moved_block(f"module.m[{index}]", "module.m")
    changes = plan(after, build_state(before)).plan.changes
    kept = [change for change in changes if change.action is Action.NO_OP]
    assert [str(change.previous_address) for change in kept] == [f"module.m[{index}].nexus_site.s"]
    assert len(changes) == 2


@pytest.mark.parametrize("name", REFACTORINGS)
def test_saved_plan_of_a_refactoring(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)

    def run(*arguments: str) -> str:
        code = run_command_line([*arguments, "-no-color"])
        captured = capsys.readouterr()
        assert code == 0, captured.out + captured.err
        return captured.out + captured.err

    monkeypatch.chdir(tmp_path)
    before, after, moved = REFACTORINGS[name]
    write(build_files(before, is_nested=False))
    run("apply", "-auto-approve")
    write(build_files(after, is_nested=False))
    text = run("plan", "-out=p")
    if moved:
        assert f"from = {moved[0]}" in text
        assert f"from = {moved[0]}" in run("show", "p")
        main = Path("main.nf.hcl")
        main.write_text(main.read_text() + render_moved_block(*moved) + "\n")
        run("plan", "-out=p")
    assert "0 destroyed" in run("apply", "p")
    assert "No changes." in run("plan")
