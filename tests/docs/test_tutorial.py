"""The tutorial is run as it stands: its files, its edits, its commands and their output."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
FIRST_HOUR = TUTORIAL.with_name("first-hour.md")
BROWNFIELD = Path(__file__).parents[2] / "examples" / "brownfield"
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    main = tmp_path / "main.nf.hcl"
    ran = 0
    for language, title, body in FENCE.findall(TUTORIAL.read_text()):
        if language == "hcl" and title.strip() == "edit":
            before, after = body.split("---\n")
            assert before in main.read_text()
            main.write_text(main.read_text().replace(before, after, 1) if before != after else body)
        elif language == "hcl":
            (tmp_path / title.strip()).write_text(body)
        elif language == "console":
            _run(body, tmp_path)
            ran += 1
    assert ran >= 7


def test_the_first_hour_does_what_it_says(tmp_path: Path) -> None:
    shutil.copytree(BROWNFIELD / "export", tmp_path / "export")
    site = tmp_path / "site.nf.hcl"
    for language, _, body in FENCE.findall(FIRST_HOUR.read_text()):
        if language == "hcl":
            before, after = body.split("---\n")
            assert before in site.read_text()
            site.write_text(site.read_text().replace(before, after, 1))
        else:
            for command in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
                if command:
                    _run(command, tmp_path)


def _run(body: str, directory: Path) -> None:
    first, *expected = body.splitlines()
    command, _, note = first.removeprefix("$ nexusform ").partition(" # exit code ")
    done = subprocess.run(
        [sys.executable, "-m", "nexusform", *command.split()],
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
            assert line.removesuffix("...").rstrip() in output, f"{command}: {line!r} is not in\n{output}"
