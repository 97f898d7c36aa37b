"""Tests of the example every-type, run as in its README.

The example has one file per type, which its reference page shows.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES
from tests.docs.reference_pages import read_example
from tests.rendering.real_plans import EXAMPLES, change_directory

EXAMPLE = EXAMPLES / "every-type"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
# It requires an existing binding.
EVICTION = "-exclude=fleet_placement_eviction.shop_leaves_paris"
FIRST = (EVICTION,) if "fleet_placement_eviction" in RESOURCE_TYPES else ()


def copy_every_type(where: Path) -> Path:
    """Copy the example, without types of removed domains.

    It reads no files outside its directory.
    """
    nothing_made = shutil.ignore_patterns("state", ".nexusform")
    directory = Path(shutil.copytree(EXAMPLE, where / "every-type", ignore=nothing_made))
    for file in directory.glob("*.nf.hcl"):
        if file.name.removesuffix(".nf.hcl").replace("-", "_") not in {
            *RESOURCE_TYPES,
            *DATA_SOURCES,
        }:
            file.unlink()
    return directory


@pytest.fixture(scope="module")
def example_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_every_type(tmp_path_factory.mktemp("alone"))


def run_and_read_output(
    example_directory: Path, capfd: pytest.CaptureFixture[str], *words: str
) -> str:
    with change_directory(example_directory):
        code = run_command_line([*words, "-no-color"])
    said = capfd.readouterr()
    assert code == 0, said.out + said.err
    assert not said.err
    return said.out


@pytest.mark.parametrize("name", [*RESOURCE_TYPES, *DATA_SOURCES])
def test_every_type_has_a_file_named_after_it(name: str) -> None:
    keyword = "data" if name in DATA_SOURCES else "resource"
    assert re.search(rf'^{keyword} "{name}" ', read_example(name), re.MULTILINE)


def test_example_is_formatted(example_directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with change_directory(example_directory):
        assert run_command_line(["fmt", "-check"]) == 0
    assert (
        run_and_read_output(example_directory, capfd, "validate")
        == "Success! The configuration is valid.\n"
    )


def test_example_plans_without_other_warnings(
    example_directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = run_and_read_output(example_directory, capfd, "plan", *FIRST)
    # The short kubectl command lists few kinds, and the nodes of the example have no kubelet.
    warnings = {"kinds-not-read", "unknown-node-state"}
    assert set(re.findall(r"^! (\S+)", plan, re.MULTILINE)) == warnings
    assert re.search(r"^Plan: \d+ to add, 0 to change, 0 to destroy\.$", plan, re.MULTILINE)


@pytest.mark.of_domains("fleet")
def test_eviction_follows_existing_binding(
    example_directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_and_read_output(example_directory, capfd, "apply", "-auto-approve", *FIRST)
    (quoted,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert quoted in run_and_read_output(example_directory, capfd, "plan")
    assert EVICTION in README
