from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.planning.modules.root_outputs import build_inventory_read
from nexusform.plans.plan import InventoryRead, Plan
from nexusform.plans.saved import plan_file
from tests.rendering.real_plans import RealPlan, copy_example, plan_directory


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.chdir(tmp_path)

    def run_command(*words: str) -> tuple[int, str]:
        code = run_command_line([*words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run_command


@pytest.fixture(scope="module")
def inventory_plan(tmp_path_factory: pytest.TempPathFactory) -> RealPlan:
    directory = copy_example("inventory", tmp_path_factory.mktemp("inventory"))
    module = directory / "site"
    module.mkdir()
    (module / "main.nf.hcl").write_text(
        'variable "from" {\n  type = string\n}\n\ndata "nexus_inventory" "all" {\n  directory = '
        "var.from\n}\n"
    )
    (directory / "more.nf.hcl").write_text(
        'module "other" {\n  for_each = toset(["b", "a"])\n  source = "./site"\n  from = '
        '"./export"\n}\n'
    )
    (directory / "zz.nf.hcl").write_text(
        'data "nexus_inventory" "first" {\n  directory = "./export"\n}\n'
    )
    return plan_directory(directory, "-samples=0")


@pytest.mark.of_domains("azure")
def test_plan_records_every_inventory_with_its_date(inventory_plan: RealPlan) -> None:
    taken = "2026-02-28T06:00:00Z"
    assert inventory_plan.saved.plan.observed.inventories == (
        InventoryRead("data.nexus_inventory.first", taken),
        InventoryRead("data.nexus_inventory.lon1", taken),
        InventoryRead('module.other["a"].data.nexus_inventory.all', taken),
        InventoryRead('module.other["b"].data.nexus_inventory.all', taken),
    )


@pytest.mark.parametrize(
    ("taken_at", "max_age", "is_old"),
    [
        ("2026-03-01T06:00:00Z", None, False),
        ("2026-02-28T06:00:00Z", None, True),
        ("2026-02-28T06:00:00Z", "7d", False),
        ("2026-03-01T06:00:00Z", "2h", True),
        ("2026-02-20T06:00:00Z", "no time", True),
        ("", "7d", True),
    ],
)
def test_inventory_is_stale_after_max_age_or_one_day(
    taken_at: str, max_age: str | None, is_old: bool
) -> None:
    assert build_inventory_read("a", taken_at, "2026-03-01T12:00:00Z", max_age).is_stale is is_old


def test_plan_without_inventories_lists_none() -> None:
    saved, problems = plan_file.read_plan_file(plan_file.write_plan_file(Plan(), {}))
    assert not problems
    assert saved is not None
    assert saved.plan.observed.inventories == ()


def test_output_is_converted_to_declared_type(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    output = (
        'output "o" {{\n  value = ["1"]\n  type  = {kind}\n}}\noutput "p" {{\n  value = '
        'convert("2", number)\n}}\n'
    )
    (tmp_path / "main.nf.hcl").write_text(output.format(kind="set(number)"))
    assert run("apply", "-auto-approve")[0] == 0
    written = json.loads(run("output", "-json")[1])
    assert written["o"] == {"sensitive": False, "type": ["set", "number"], "value": [1]}
    assert written["p"]["value"] == 2
    (tmp_path / "main.nf.hcl").write_text(output.format(kind="bool"))
    code, said = run("plan")
    assert (code, "Invalid output value" in said, "bool required" in said) == (1, True, True), said
