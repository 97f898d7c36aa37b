"""Tests of the tutorial and the guides: their files, edits, commands and output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import commands
from tests.docs.documented_domains import of_documented_domains

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
IMPORT_PAGE = TUTORIAL.with_name("import-a-site.md")
NAMED_GUIDES = (
    "feasibility",
    "fleet-manifests",
    "limits",
    "openstack-and-tacker",
    "secrets",
    "security",
    "tacker",
    "undo-a-change",
    "why-is-my-vm-there",
)
GUIDES = sorted(
    [TUTORIAL.with_name(f"{name}.md") for name in NAMED_GUIDES]
    + [*TUTORIAL.parent.glob("how-to/*.md")]
)
BROWNFIELD = Path(__file__).parents[2] / "examples" / "brownfield"
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@of_documented_domains
def test_tutorial_works_as_documented(tmp_path: Path) -> None:
    assert _follow_page(TUTORIAL, tmp_path) >= 7


@of_documented_domains
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guide_works_as_documented(page: Path, tmp_path: Path) -> None:
    assert _follow_page(page, tmp_path) >= 1


@of_documented_domains
def test_page_of_provider_fleet_works_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.domains.hub.hub_controller import Controller, build_member
    from tests.domains.hub.hub_server import HubServer

    server = HubServer()
    try:
        for name in ("ams1", "fra1", "lon1", "par1"):
            server.put(build_member(name, env="prod"), "join")
        server.controller = Controller()
        monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(server.kubeconfig(tmp_path)))
        assert _follow_page(TUTORIAL.with_name("provider-fleet.md"), tmp_path) == 1
    finally:
        server.close()


def _follow_page(page: Path, directory: Path) -> int:
    """Follow the steps of a page; return the number of its command blocks.

    A fence with a title is a file, `cd examples/NAME` a copy of that example.
    """
    main = directory / "main.nf.hcl"
    ran = 0
    for language, title, body in FENCE.findall(page.read_text()):
        if language == "hcl" and title.strip() == "edit":
            before, after = body.split("---\n")
            before, after = (
                (before, after) if before in main.read_text() else (before.strip(), after.strip())
            )
            assert before in main.read_text()
            main.write_text(main.read_text().replace(before, after, 1))
        elif language == "console":
            for command in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
                if command.startswith("$ cd "):
                    directory = _copy_example(command.removeprefix("$ cd ").strip(), directory)
                elif command:
                    _run_command(command, directory)
            ran += 1
        elif title.strip():
            (directory / title.strip()).write_text(body)
    return ran


def _copy_example(path: str, directory: Path) -> Path:
    """Copy an example of the checkout without its state; return the copy."""
    copy = directory / path
    shutil.copytree(
        TUTORIAL.parents[1] / path,
        copy,
        ignore=shutil.ignore_patterns("state", ".nexusform"),
        dirs_exist_ok=True,
    )
    return copy


@of_documented_domains
def test_script_for_cron_prints_only_an_alert(tmp_path: Path) -> None:
    page = TUTORIAL.with_name("how-to") / "capacity-alert.md"
    _follow_page(page, tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nexusform"
    program.write_text(f"#!/bin/sh\n{commands.build_shell_line()}\n")
    program.chmod(0o755)
    script = tmp_path / "capacity.sh"

    def run_script() -> tuple[int, str]:
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", str(script)], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert run_script() == (0, "")
    script.write_text(script.read_text().replace("capacity:5", "capacity:10"))
    code, mail = run_script()
    assert code == 1
    assert "lab has capacity for 9 more NC_P46_224_v1" in mail


@of_documented_domains
def test_import_page_works_as_documented(tmp_path: Path) -> None:
    shutil.copytree(BROWNFIELD / "export", tmp_path / "export")
    site = tmp_path / "site.nf.hcl"
    for language, _, body in FENCE.findall(IMPORT_PAGE.read_text()):
        if language == "hcl":
            before, after = body.split("---\n")
            assert before in site.read_text()
            site.write_text(site.read_text().replace(before, after, 1))
        elif language == "console":
            for command in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
                if command:
                    _run_command(command, tmp_path)


def _run_command(body: str, directory: Path) -> None:
    first, *expected = body.splitlines()
    command, _, note = first.removeprefix("$ nexusform ").partition(" # exit code ")
    done = subprocess.run(
        [*commands.nexusform(), *shlex.split(command)],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == int(note or 0), output
    for line in expected:
        if line != "...":
            assert line.removesuffix("...").rstrip() in output, (
                f"{command}: {line!r} is not in\n{output}"
            )
