"""Outputs of two versions: plans, comments and JSON of all examples and of random sites.

Run: python -m tests.nightly.version_comparison CHECKOUT [SITES] [SEED]

Each site is planned, applied, edited and planned again by this version and by another checkout, as
a change of speed or structure must not change any output. A difference is printed with the names of
its case and file; the result is 1 with a difference.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nexusform.planning.planner import make_plan
from tests.planning.harness import build_request
from tests.planning.hypothesis.edit_kinds import EDIT_KINDS, draw_site

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted({path.parent for path in ROOT.glob("examples/*/*.nf.hcl")})
CONFIGURATION = "main.nf.hcl"
# The configuration after the apply, if the case has another one.
EDITED = "edited.txt"
REPORTS = tuple(f"-report={name}:{{}}.{name}" for name in ("markdown", "json", "html"))
STEPS = (
    ("init", "-input=false"),
    ("plan", "-input=false", "-out=p1", *(report.format("p1") for report in REPORTS)),
    ("show", "-json", "p1"),
    ("apply", "-input=false", "-parallelism=1", "p1"),
    ("show", "-json"),
    ("plan", "-input=false", "-out=p2", *(report.format("p2") for report in REPORTS)),
    ("show", "-json", "p2"),
)
# Runs in each version, with the directories of its cases as arguments.
PROGRAM = f"""
import contextlib, io, os, sys, uuid
from datetime import UTC, datetime
from nexusform.workflow.opening.system_io import SystemClock
SystemClock.read_time = lambda self: datetime(2026, 1, 1, tzinfo=UTC)
uuid.uuid4 = lambda: uuid.UUID(int=1)
from nexusform.cli.main import run_command_line
for directory in sys.argv[1:]:
    os.chdir(directory)
    for number, words in enumerate({STEPS!r}):
        with open(f"step{{number}}.txt", "w") as file:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                print("exit code:", run_command_line(list(words)))
        if words[0] == "apply" and os.path.exists({EDITED!r}):
            os.replace({EDITED!r}, {CONFIGURATION!r})
"""


def write_random_site(directory: Path, seed: int) -> bool:
    """Write a random site and an edited one; return whether they have a plan."""
    draw = random.Random(seed)
    site = draw_site(draw)
    created = make_plan(build_request(site.render()))
    if created.plan.errored:
        return False
    kinds = [kind for kind in EDIT_KINDS.values() if not kind.is_new]
    edited = draw.choice(kinds).draw(draw, site, created).written
    directory.mkdir()
    (directory / CONFIGURATION).write_text(site.render())
    (directory / EDITED).write_text(edited.render())
    return True


def write_cases(directory: Path, sites: int, seed: int) -> list[str]:
    """Write the examples, and random sites that have a plan; return the names of the cases."""
    for example in EXAMPLES:
        shutil.copytree(example, directory / example.name)
    names = [example.name for example in EXAMPLES]
    while len(names) < len(EXAMPLES) + sites:
        if write_random_site(directory / f"site-{seed}", seed):
            names.append(f"site-{seed}")
        seed += 1
    return names


def run_cases(checkout: Path, directory: Path, names: list[str]) -> None:
    """Run all steps of the cases in another version."""
    subprocess.run(
        [sys.executable, "-c", PROGRAM, *(str(directory / name) for name in names)],
        # Python imports from its directory first.
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "SOURCE_DATE_EPOCH": "0"},
        check=True,
    )


def find_differences(ours: Path, theirs: Path) -> Iterator[str]:
    """Yield the names of files that differ, or that one of the directories lacks."""
    names = {
        path.relative_to(folder)
        for folder in (ours, theirs)
        for path in folder.rglob("*")
        if path.is_file()
    }
    for name in sorted(names):
        pair = (ours / name, theirs / name)
        if not all(path.is_file() for path in pair) or not filecmp.cmp(*pair, shallow=False):
            yield str(name)


def count_exit_codes(directory: Path) -> dict[str, int]:
    """Return the numbers of commands by exit code."""
    codes = [path.read_text().split()[-1] for path in directory.rglob("step*.txt")]
    return dict(sorted(Counter(codes).items()))


def main() -> int:
    """Compare the outputs of the versions; return 1 with a difference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("sites", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    options = parser.parse_args()
    if not (options.checkout / "nexusform/__init__.py").is_file():
        # Otherwise Python would import this version, and compare it with itself.
        parser.error(f"{options.checkout} is no checkout of nexusform")
    with tempfile.TemporaryDirectory() as scratch:
        cases, work = Path(scratch, "cases"), Path(scratch, "work")
        cases.mkdir()
        names = write_cases(cases, options.sites, options.seed)
        results = []
        for checkout in (ROOT, options.checkout.resolve()):
            # In one directory, because messages contain it.
            shutil.copytree(cases, work)
            run_cases(checkout, work, names)
            results.append(work.rename(Path(scratch, f"result{len(results)}")))
        differences = list(find_differences(*results))
        codes = count_exit_codes(results[0])
    print(
        json.dumps({"cases": len(names), "exit codes": codes, "differences": differences}, indent=2)
    )
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
