"""The example every-type, run as its README says: it has a file per type, and the reference page shows them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES
from tests.rendering.real_plans import EXAMPLES, change_directory

EXAMPLE = EXAMPLES / "every-type"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
# What needs more than files stands in an example of its own.
ELSEWHERE = {"fleet_hub": EXAMPLES / "fleet-hub"}
# It asks for a binding that stands.
EVICTION = "-exclude=fleet_placement_eviction.shop_leaves_paris"
FIRST = (EVICTION,) if "fleet_placement_eviction" in RESOURCE_TYPES else ()


def copied_every_type(where: Path) -> Path:
    """The example alone: it reads nothing outside its directory. Without what is of domains that are gone."""
    nothing_made = shutil.ignore_patterns("state", ".nexusform")
    directory = Path(shutil.copytree(EXAMPLE, where / "every-type", ignore=nothing_made))
    for file in directory.glob("*.nf.hcl"):
        if file.name.removesuffix(".nf.hcl").replace("-", "_") not in {*RESOURCE_TYPES, *DATA_SOURCES}:
            file.unlink()
    return directory


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_every_type(tmp_path_factory.mktemp("alone"))


def told(here: Path, capfd: pytest.CaptureFixture[str], *words: str) -> str:
    with change_directory(here):
        code = run_command_line([*words, "-no-color"])
    said = capfd.readouterr()
    assert code == 0, said.out + said.err
    assert not said.err
    return said.out


@pytest.mark.parametrize("name", [*RESOURCE_TYPES, *DATA_SOURCES])
def test_every_type_has_a_file_named_after_it(name: str) -> None:
    keyword = "data" if name in DATA_SOURCES else "resource"
    directory = ELSEWHERE.get(name, EXAMPLE)
    text = (directory / f"{name.replace('_', '-')}.nf.hcl").read_text(encoding="utf-8")
    assert re.search(rf'^{keyword} "{name}" ', text, re.MULTILINE)


def test_the_example_is_written_as_it_should_be(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with change_directory(here):
        assert run_command_line(["fmt", "-check"]) == 0
    assert told(here, capfd, "validate") == "Success! The configuration is valid.\n"


def test_the_example_plans_without_a_warning(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = told(here, capfd, "plan", *FIRST)
    assert "\n! " not in plan
    assert re.search(r"^Plan: \d+ to add, 0 to change, 0 to destroy\.$", plan, re.MULTILINE)


@pytest.mark.of_domains("fleet")
def test_an_eviction_follows_what_stands(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told(here, capfd, "apply", "-auto-approve", *FIRST)
    (quoted,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert quoted in told(here, capfd, "plan")
    assert EVICTION in README
