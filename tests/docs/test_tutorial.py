"""The tutorial is run as it stands: its files, its edits, its commands and their output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
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
